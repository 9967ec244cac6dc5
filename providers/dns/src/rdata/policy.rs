//! Policies of mail as mappings: `{spf: …}`, `{dmarc: …}` and `{dkim: …}` of a TXT record, rendered to their text.
//!
//! Fields are called as their standards call them (RFC 7208, RFC 7489, RFC 6376). What is rendered is a text as any other:
//! comparison, export and lint know nothing of how it was written. Nothing is looked up, so SPF is not flattened.

use super::refusal::Refusal;
use crate::kind::Words;
use base64::{Engine, engine::general_purpose::STANDARD};
use reconciled_provider::problem::did_you_mean;
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr},
};

type Fields = BTreeMap<String, Words>;

/// The fields of TXT data that are policies.
pub(super) const POLICIES: [&str; 3] = ["spf", "dmarc", "dkim"];

/// What a tag may hold.
#[derive(Clone, Copy, Debug)]
enum Tag {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Some of these words, with colons.
    SomeOf(&'static [&'static str]),
    /// A number up to this one.
    UpTo(u32),
    /// Addresses to report to.
    Reports,
    /// A public key.
    Key,
    /// Any text without a semicolon.
    Note,
}

/// Tags of DMARC in the order they are written (RFC 7489 §6.3).
const DMARC: [(&str, Tag); 11] = [
    ("p", Tag::OneOf(&["none", "quarantine", "reject"])),
    ("sp", Tag::OneOf(&["none", "quarantine", "reject"])),
    ("np", Tag::OneOf(&["none", "quarantine", "reject"])),
    ("adkim", Tag::OneOf(&["r", "s"])),
    ("aspf", Tag::OneOf(&["r", "s"])),
    ("pct", Tag::UpTo(100)),
    ("rua", Tag::Reports),
    ("ruf", Tag::Reports),
    ("fo", Tag::SomeOf(&["0", "1", "d", "s"])),
    ("rf", Tag::OneOf(&["afrf"])),
    ("ri", Tag::UpTo(u32::MAX)),
];

/// Tags of DKIM in the order they are written (RFC 6376 §3.6.1).
const DKIM: [(&str, Tag); 6] = [
    ("h", Tag::SomeOf(&["sha1", "sha256"])),
    ("k", Tag::OneOf(&["rsa", "ed25519"])),
    ("n", Tag::Note),
    ("s", Tag::SomeOf(&["*", "email"])),
    ("t", Tag::SomeOf(&["y", "s"])),
    ("p", Tag::Key),
];

/// Mechanisms of SPF in the order they are written: those that cost no query first.
const SPF: [&str; 8] = ["ip4", "ip6", "a", "mx", "include", "exists", "redirect", "all"];

/// The text of the policy that `word` names.
pub(super) fn text(word: &str, fields: &Fields) -> Result<String, Refusal> {
    match word {
        "spf" => spf(fields),
        "dmarc" => tags("dmarc", "v=DMARC1", &DMARC, fields),
        _ => tags("dkim", "v=DKIM1", &DKIM, fields),
    }
}

fn known(policy: &str, names: &[&str], fields: &Fields) -> Result<(), Refusal> {
    let Some(stranger) = fields.keys().find(|field| !names.contains(&field.as_str())) else { return Ok(()) };
    let hint = match did_you_mean(stranger, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{policy} has the fields {}", names.join(", ")),
    };
    Err(Refusal::new(format!("unknown field `{stranger}` of {policy}"), hint))
}

fn tags(policy: &str, version: &str, all: &[(&str, Tag)], fields: &Fields) -> Result<String, Refusal> {
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    known(policy, &names, fields)?;
    if !fields.contains_key("p") {
        let means = if policy == "dkim" { "the public key" } else { "none, quarantine or reject" };
        return Err(Refusal::new(format!("{policy} lacks the field `p`"), format!("write p: and {means}")));
    }
    let mut out = version.to_owned();
    for (name, tag) in all {
        let Some(words) = fields.get(*name) else { continue };
        let value = value(policy, name, *tag, words, fields)?;
        out += &format!("; {name}={value}");
    }
    Ok(out)
}

fn value(policy: &str, name: &str, tag: Tag, words: &Words, fields: &Fields) -> Result<String, Refusal> {
    let refuse = |value: &str, hint: String| {
        Err(Refusal::new(format!("`{value}` is no value of the field `{name}` of {policy}"), hint))
    };
    let whole = words.joined();
    match tag {
        Tag::OneOf(choices) if !choices.contains(&whole.as_str()) => {
            refuse(&whole, format!("write one of: {}", choices.join(", ")))
        }
        Tag::SomeOf(choices) => {
            let chosen: Vec<&str> = words.iter().flat_map(|word| word.split(':')).collect();
            match chosen.iter().find(|word| !choices.contains(word)) {
                Some(word) => refuse(word, format!("write some of: {}", choices.join(", "))),
                None => Ok(chosen.join(":")),
            }
        }
        Tag::UpTo(most) if whole.parse::<u32>().is_ok_and(|number| number <= most) => Ok(whole),
        Tag::UpTo(most) => refuse(&whole, format!("write a number up to {most}")),
        Tag::Reports => match words.iter().find(|uri| !is_address(uri)) {
            Some(uri) => refuse(uri, format!("write it like mailto:{}", uri.trim_start_matches("mailto:"))),
            None => Ok(words.iter().collect::<Vec<_>>().join(",")),
        },
        Tag::Key => key(&whole, fields.get("k").map(Words::joined).as_deref() == Some("ed25519")),
        Tag::Note if whole.contains(';') => refuse(&whole, "leave out the semicolon".into()),
        Tag::OneOf(_) | Tag::Note => Ok(whole),
    }
}

/// A URI of RFC 7489 §6.2: an exclamation mark and a comma in it would be read as its end.
fn is_address(uri: &str) -> bool {
    let is_plain = !uri.contains([',', ';', ' ']);
    is_plain
        && (uri.starts_with("https://") || uri.strip_prefix("mailto:").is_some_and(|to| to.contains('@')))
}

/// What PEM has in front of an ed25519 key (RFC 8410 §4): a record has the key alone.
const ED25519_INFO: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A public key as base64 in one piece; PEM loses its first and last line.
fn key(written: &str, is_ed25519: bool) -> Result<String, Refusal> {
    let lines = written.lines().filter(|line| !line.trim_start().starts_with("-----"));
    let key: String = lines.flat_map(|line| line.split_ascii_whitespace()).collect();
    // None at all says that the key is not to be believed any more (RFC 6376 §3.6.1).
    let hint = "write the base64 of the public key, or its PEM";
    let octets = STANDARD.decode(&key).map_err(|_| Refusal::new("the key of dkim is not base64", hint))?;
    if let Some(bare) = octets.strip_prefix(&ED25519_INFO).filter(|bare| is_ed25519 && bare.len() == 32) {
        return Ok(STANDARD.encode(bare));
    }
    if is_ed25519 && !octets.is_empty() && octets.len() != 32 {
        let message = format!("an ed25519 key has 32 octets, this one {}", octets.len());
        return Err(Refusal::new(
            message,
            "write the base64 of those 32 octets, or the PEM of the public key (RFC 8463 §4)",
        ));
    }
    Ok(key)
}

fn spf(fields: &Fields) -> Result<String, Refusal> {
    known("spf", &SPF, fields)?;
    let mut out = String::from("v=spf1");
    for name in SPF {
        let Some(words) = fields.get(name) else { continue };
        // `mx: true` is the mechanism alone.
        let is_bare = matches!(words, Words::Text(text) if matches!(text.as_str(), "" | "true"));
        match name {
            "a" | "mx" if is_bare => out += &format!(" {name}"),
            "all" => out += all(&words.joined())?,
            "redirect" => {
                let mut targets = words.iter();
                let (Some(target), None) = (targets.next(), targets.next()) else {
                    return Err(Refusal::new(
                        "`redirect` of spf names one domain",
                        "write the others as `include`",
                    ));
                };
                out += &format!(" redirect={}", domain(name, target)?);
            }
            name => {
                for word in words.iter() {
                    out += &format!(" {name}:{}", operand(name, word)?);
                }
            }
        }
    }
    match (fields.contains_key("all"), fields.contains_key("redirect")) {
        (true, true) => {
            Err(Refusal::new("`redirect` of spf means nothing beside `all`", "remove one of them"))
        }
        (false, false) => Err(Refusal::new(
            "spf does not say what holds for everybody else",
            "write all: fail, softfail or neutral",
        )),
        _ => Ok(out),
    }
}

fn all(word: &str) -> Result<&'static str, Refusal> {
    match word {
        "fail" | "-" | "-all" => Ok(" -all"),
        "softfail" | "~" | "~all" => Ok(" ~all"),
        "neutral" | "?" | "?all" => Ok(" ?all"),
        _ => Err(Refusal::new(
            format!("`{word}` is no value of the field `all` of spf"),
            "write one of: fail, softfail, neutral",
        )),
    }
}

fn operand<'w>(name: &str, word: &'w str) -> Result<&'w str, Refusal> {
    let (address, length) =
        word.split_once('/').map_or((word, None), |(address, length)| (address, Some(length)));
    let fits = |most: u8| length.is_none_or(|length| length.parse::<u8>().is_ok_and(|length| length <= most));
    match name {
        "ip4" if address.parse::<Ipv4Addr>().is_ok() && fits(32) => Ok(word),
        "ip6" if address.parse::<Ipv6Addr>().is_ok() && fits(128) => Ok(word),
        "ip4" | "ip6" => {
            let example = if name == "ip4" { "192.0.2.0/24" } else { "2001:db8::/32" };
            let message = format!("`{word}` is no value of the field `{name}` of spf");
            Err(Refusal::new(message, format!("write it like {example}")))
        }
        "a" | "mx" => domain(name, address).map(|_| word),
        _ => domain(name, word),
    }
}

/// A domain as SPF writes it: macros stand as they are, and there is no dot at the end.
fn domain<'w>(name: &str, word: &'w str) -> Result<&'w str, Refusal> {
    let bare = word.strip_suffix('.').unwrap_or(word);
    let is_domain = bare.contains('.') && bare.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    match is_domain {
        true => Ok(bare),
        false => Err(Refusal::new(
            format!("`{word}` is no value of the field `{name}` of spf"),
            "write a whole domain, such as _spf.example.com",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        let file = reconciled_provider::SourceFile::new("f.yaml", text);
        let node = reconciled_provider::yaml::parse(&file, Default::default()).unwrap().remove(0);
        let (fields, problems) = node.decode(&file);
        assert_eq!(problems, [], "{text}");
        fields.unwrap()
    }

    fn check(word: &str, written: &str, expect: &str) {
        assert_eq!(text(word, &fields(written)).unwrap(), expect, "{written}");
    }

    fn refuse(word: &str, written: &str, part: &str) {
        let refusal = text(word, &fields(written)).unwrap_err();
        assert!(format!("{refusal:?}").contains(part), "{written}: {refusal:?}");
    }

    #[test]
    fn a_policy_is_the_text_of_its_standard() {
        check("spf", "{all: fail}", "v=spf1 -all");
        check(
            "spf",
            "{mx: true, include: [_spf.example.net., b.example.org], ip4: 192.0.2.0/24, ip6: '2001:db8::1', a: mail.example.com/28, all: softfail}",
            "v=spf1 ip4:192.0.2.0/24 ip6:2001:db8::1 a:mail.example.com/28 mx include:_spf.example.net include:b.example.org ~all",
        );
        check("spf", "{redirect: _spf.example.com}", "v=spf1 redirect=_spf.example.com");
        check(
            "spf",
            "{exists: '%{i}._spf.example.com', all: neutral}",
            "v=spf1 exists:%{i}._spf.example.com ?all",
        );
        check("dmarc", "{p: reject}", "v=DMARC1; p=reject");
        check(
            "dmarc",
            "{rua: ['mailto:a@example.com', 'https://r.example.com/d'], pct: 50, p: none, fo: [1, d], aspf: s}",
            "v=DMARC1; p=none; aspf=s; pct=50; rua=mailto:a@example.com,https://r.example.com/d; fo=1:d",
        );
        check("dkim", "{p: ''}", "v=DKIM1; p=");
        check("dkim", "{k: rsa, t: [y, s], p: 'AQID BAUG'}", "v=DKIM1; k=rsa; t=y:s; p=AQIDBAUG");
        let pem = "{p: \"-----BEGIN PUBLIC KEY-----\\nAQID\\nBAUG\\n-----END PUBLIC KEY-----\\n\"}";
        check("dkim", pem, "v=DKIM1; p=AQIDBAUG");
        check(
            "dkim",
            "{k: ed25519, p: 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=}",
            "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        );
        let pem = "{k: ed25519, p: \"-----BEGIN PUBLIC KEY-----\\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\\n-----END PUBLIC KEY-----\\n\"}";
        check("dkim", pem, "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
    }

    #[test]
    fn a_refusal_says_what_to_write() {
        refuse("spf", "{mx: true}", "all: fail, softfail");
        refuse("spf", "{all: pass}", "one of: fail");
        refuse("spf", "{all: fail, redirect: a.example}", "remove one of them");
        refuse("spf", "{all: fail, ip4: 192.0.2.0/33}", "192.0.2.0/24");
        refuse("spf", "{all: fail, ip6: 192.0.2.1}", "2001:db8::/32");
        refuse("spf", "{all: fail, include: 'include:a.example'}", "a whole domain");
        refuse("spf", "{all: fail, includes: a.example}", "did you mean `include`");
        refuse("spf", "{redirect: [a.example, b.example]}", "one domain");
        refuse("dmarc", "{sp: none}", "quarantine or reject");
        refuse("dmarc", "{p: refuse}", "none, quarantine, reject");
        refuse("dmarc", "{p: none, rua: a@example.com}", "mailto:a@example.com");
        refuse("dmarc", "{p: none, pct: 101}", "up to 100");
        refuse("dmarc", "{p: none, fo: 2}", "0, 1, d, s");
        refuse("dkim", "{k: rsa}", "the public key");
        refuse("dkim", "{p: no!}", "its PEM");
        refuse("dkim", "{k: ed25519, p: AQID}", "this one 3");
        refuse("dkim", "{p: AQID, n: 'a;b'}", "semicolon");
    }
}
