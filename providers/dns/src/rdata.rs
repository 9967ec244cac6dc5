//! Record data: one canonical text per value, from both sides.
//!
//! What a person writes ([`written`]) and what a server reports ([`observed`]) parse into the same form, so
//! equal data are equal bytes. [`wire`] is the way back. Types this module does not know are carried as they
//! are: they are seen, counted and preserved, never interpreted.

use crate::{
    name::{Name, NameError, observed as observed_name},
    text,
};
use reconciled_provider::problem::did_you_mean;
use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A record type that manifests may declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the record types")]
pub enum Type {
    A,
    Aaaa,
    Caa,
    Cname,
    Mx,
    Ns,
    Ptr,
    Soa,
    Srv,
    Txt,
}

/// Every declarable type with its word.
const TYPES: [(&str, Type); 10] = [
    ("A", Type::A),
    ("AAAA", Type::Aaaa),
    ("CAA", Type::Caa),
    ("CNAME", Type::Cname),
    ("MX", Type::Mx),
    ("NS", Type::Ns),
    ("PTR", Type::Ptr),
    ("SOA", Type::Soa),
    ("SRV", Type::Srv),
    ("TXT", Type::Txt),
];

/// Types that signing software writes; a person never declares them.
const SIGNER_TYPES: [&str; 8] =
    ["RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY", "CDS", "CDNSKEY", "ZONEMD"];

impl Type {
    /// The type called `word`, in any case.
    pub fn of(word: &str) -> Option<Type> {
        TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, kind)| *kind)
    }
    /// The type as zone files write it.
    pub fn word(self) -> &'static str {
        TYPES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
    /// Why `word` is no type, and what to write.
    pub fn refuse(word: &str) -> Refusal {
        let names = || TYPES.iter().map(|(name, _)| *name);
        let hint = match did_you_mean(word, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known types: {}", names().collect::<Vec<_>>().join(", ")),
        };
        Refusal::new(format!("unknown record type `{word}`"), hint)
    }
    /// Index of the field that is a host, of the types that point at one.
    pub(crate) fn host_field(self) -> Option<usize> {
        match self {
            Type::Cname | Type::Ns | Type::Ptr => Some(0),
            Type::Mx => Some(1),
            Type::Srv => Some(3),
            _ => None,
        }
    }
}

/// True for types that DNSSEC signing maintains.
pub fn is_signer_type(word: &str) -> bool {
    SIGNER_TYPES.contains(&word)
}

/// Why a value is refused, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub message: String,
    /// What to write.
    pub hint: Option<String>,
}

impl Refusal {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), hint: Some(hint.into()) }
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Refusal {
        Refusal { message: error.to_string(), hint: error.hint() }
    }
}

/// Canonical text of a value a person wrote in `zone`.
pub fn written(kind: Type, value: &str, zone: &Name) -> Result<String, Refusal> {
    if kind == Type::Txt {
        let mut out = String::with_capacity(value.len() + 2);
        if value.len() > 65_000 {
            return Err(Refusal::new(
                format!("the text has {} bytes, more than a record can hold", value.len()),
                "split it into several records",
            ));
        }
        text::quote(value.as_bytes(), &mut out);
        return Ok(out);
    }
    let value = value.trim();
    let fields: Vec<&str> = value.split_ascii_whitespace().collect();
    match kind {
        Type::A => match value.parse::<Ipv4Addr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) if value.parse::<Ipv6Addr>().is_ok() => {
                Err(Refusal::new(format!("`{value}` is an IPv6 address"), "did you mean type `AAAA`?"))
            }
            Err(_) => Err(Refusal::new(
                format!("`{value}` is not an IPv4 address"),
                "an A record wants four numbers, such as 192.0.2.1",
            )),
        },
        Type::Aaaa => match value.parse::<Ipv6Addr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) if value.parse::<Ipv4Addr>().is_ok() => {
                Err(Refusal::new(format!("`{value}` is an IPv4 address"), "did you mean type `A`?"))
            }
            Err(_) => Err(Refusal::new(
                format!("`{value}` is not an IPv6 address"),
                "an AAAA record wants an address such as 2001:db8::1",
            )),
        },
        Type::Cname | Type::Ns | Type::Ptr => {
            let [host] = fields[..] else { return Err(form(kind, value, "www.example.com.")) };
            target(kind, host, zone)
        }
        Type::Mx => {
            let [preference, host] = fields[..] else {
                return Err(form(kind, value, "10 mail.example.com."));
            };
            let preference: u16 =
                preference.parse().map_err(|_| form(kind, value, "10 mail.example.com."))?;
            Ok(format!("{preference} {}", target(kind, host, zone)?))
        }
        Type::Srv => {
            let bad = || form(kind, value, "10 60 5060 sip.example.com.");
            let [priority, weight, port, host] = fields[..] else { return Err(bad()) };
            let number = |text: &str| text.parse::<u16>().map_err(|_| bad());
            let host = target(kind, host, zone)?;
            Ok(format!("{} {} {} {host}", number(priority)?, number(weight)?, number(port)?))
        }
        Type::Caa => caa(value).ok_or_else(|| form(kind, value, "0 issue \"letsencrypt.org\"")),
        Type::Soa => {
            let example = "ns1.example.com. hostmaster.example.com. 10800 3600 604800 3600";
            let bad = || form(kind, value, example);
            let [mname, rname, rest @ ..] = &fields[..] else { return Err(bad()) };
            let numbers: Vec<u32> = rest.iter().map_while(|text| text.parse().ok()).collect();
            if numbers.len() == 5 && rest.len() == 5 {
                return Err(Refusal::new(
                    "a SOA is declared without its serial",
                    format!("the serial is kept by the server: leave it out, as in `{example}`"),
                ));
            }
            let ([refresh, retry, expire, minimum], 4) = (&numbers[..], rest.len()) else {
                return Err(bad());
            };
            let (mname, rname) = (target(kind, mname, zone)?, target(kind, rname, zone)?);
            Ok(format!("{mname} {rname} {refresh} {retry} {expire} {minimum}"))
        }
        Type::Txt => Err(form(kind, value, "any text")),
    }
}

fn form(kind: Type, value: &str, example: &str) -> Refusal {
    let kind = kind.word();
    Refusal::new(
        format!("`{value}` is not the form of {kind} data"),
        format!("{kind} is written like `{example}`"),
    )
}

/// The host a record points at: `@`, or absolute with its dot.
fn target(kind: Type, host: &str, zone: &Name) -> Result<String, Refusal> {
    if host == "@" {
        return Ok(zone.as_str().into());
    }
    let bare = host.strip_suffix('.').unwrap_or(host);
    if bare.parse::<IpAddr>().is_ok() {
        return Err(Refusal::new(
            format!("{} points at a host name, `{host}` is an address", kind.word()),
            "give the host an A or AAAA record and write its name here",
        ));
    }
    match Name::absolute(host) {
        Ok(name) => Ok(name.as_str().into()),
        Err(NameError::Relative(_)) => Err(Refusal::new(
            format!("`{host}` has no dot at the end, so it could mean two names"),
            format!("write `{host}.`, or `{host}.{zone}` for the name in this zone"),
        )),
        Err(error) => Err(error.into()),
    }
}

/// `flags tag "value"`, tag in lower case.
fn caa(value: &str) -> Option<String> {
    let (flags, rest) = value.split_once(|c: char| c.is_ascii_whitespace())?;
    let (tag, rest) = rest.trim_start().split_once(|c: char| c.is_ascii_whitespace())?;
    let flags: u8 = flags.parse().ok()?;
    let is_tag = !tag.is_empty() && tag.bytes().all(|b| b.is_ascii_alphanumeric());
    let rest = rest.trim();
    // One character string, quoted or a single bare word.
    if !is_tag || (!rest.starts_with('"') && rest.contains(|c: char| c.is_ascii_whitespace())) {
        return None;
    }
    let octets = text::unquote(rest)?;
    let mut out = format!("{flags} {} ", tag.to_ascii_lowercase());
    text::quote(&octets, &mut out);
    Some(out)
}

/// Canonical text of a value a server reports in presentation form; data nobody can parse stay as they are.
///
/// Idempotent: the canonical text of a canonical text is itself.
pub fn observed<'a>(kind: &str, content: &'a str) -> Cow<'a, str> {
    let parsed = Type::of(kind).and_then(|kind| observed_known(kind, content));
    parsed.unwrap_or(Cow::Borrowed(content))
}

fn observed_known(kind: Type, content: &str) -> Option<Cow<'_, str>> {
    let fields = || content.split_ascii_whitespace();
    let number = |text: &str| text.parse::<u32>().ok();
    match kind {
        Type::A => content.parse::<Ipv4Addr>().ok().map(|address| keep(content, address.to_string())),
        Type::Aaaa => content.parse::<Ipv6Addr>().ok().map(|address| keep(content, address.to_string())),
        Type::Cname | Type::Ns | Type::Ptr => Some(observed_name(content.trim())),
        Type::Txt => {
            let octets = text::unquote(content)?;
            let mut out = String::with_capacity(content.len());
            text::quote(&octets, &mut out);
            Some(out.into())
        }
        Type::Caa => caa(content).map(Cow::Owned),
        Type::Mx => {
            let (preference, host) = content.trim().split_once(' ')?;
            Some(format!("{} {}", number(preference)?, observed_name(host.trim())).into())
        }
        Type::Srv => {
            let fields: Vec<&str> = fields().collect();
            let [priority, weight, port, host] = fields[..] else { return None };
            let (priority, weight, port) = (number(priority)?, number(weight)?, number(port)?);
            Some(format!("{priority} {weight} {port} {}", observed_name(host)).into())
        }
        Type::Soa => {
            let fields: Vec<&str> = fields().collect();
            let (hosts, numbers) = fields.split_at_checked(2)?;
            // With its serial as servers report it, or canonical without.
            let numbers = match numbers.len() {
                5 => &numbers[1..],
                4 => numbers,
                _ => return None,
            };
            let mut out = format!("{} {}", observed_name(hosts[0]), observed_name(hosts[1]));
            for text in numbers {
                out += &format!(" {}", number(text)?);
            }
            Some(out.into())
        }
    }
}

fn keep(content: &str, canonical: String) -> Cow<'_, str> {
    if content == canonical { Cow::Borrowed(content) } else { Cow::Owned(canonical) }
}

/// The presentation form that servers and zone files accept for a canonical value.
///
/// `serial` completes a SOA. Character strings become ASCII of at most 255 octets each; an IPv4-mapped
/// address is written in hexadecimal, since PowerDNS refuses the dotted form that it prints itself.
pub fn wire<'a>(kind: &str, value: &'a str, serial: u32) -> Cow<'a, str> {
    match Type::of(kind) {
        Some(Type::Txt) => match text::unquote(value) {
            Some(octets) => {
                let mut out = String::with_capacity(value.len() + 8);
                text::quote_for_wire(&octets, &mut out);
                out.into()
            }
            None => value.into(),
        },
        Some(Type::Caa) => {
            let Some((head, octets)) =
                value.find('"').and_then(|at| Some((&value[..at], text::unquote(&value[at..])?)))
            else {
                return value.into();
            };
            // A CAA value is one string of any length (RFC 8659 §4.1.1), never several.
            let mut out = String::from(head);
            let start = out.len();
            text::quote_for_wire(&octets, &mut out);
            if octets.len() > 255 {
                out.replace_range(start.., &out[start..].replace("\" \"", ""));
            }
            out.into()
        }
        Some(Type::Aaaa) if value.contains('.') => match value.parse::<Ipv6Addr>() {
            Ok(address) => address.segments().map(|s| format!("{s:x}")).join(":").into(),
            Err(_) => value.into(),
        },
        Some(Type::Soa) => {
            let fields: Vec<&str> = value.split(' ').collect();
            match fields[..] {
                [mname, rname, refresh, retry, expire, minimum] => {
                    format!("{mname} {rname} {serial} {refresh} {retry} {expire} {minimum}").into()
                }
                _ => value.into(),
            }
        }
        _ => value.into(),
    }
}

/// The serial in the presentation form of a SOA.
pub fn soa_serial(content: &str) -> Option<u32> {
    content.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// A canonical value as a person would write it in a manifest; none when YAML cannot carry it.
pub fn for_manifest(kind: Type, value: &str) -> Option<String> {
    if kind == Type::Txt { String::from_utf8(text::unquote(value)?).ok() } else { Some(value.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zone() -> Name {
        Name::zone("example.com").unwrap()
    }

    fn check(kind: &str, value: &str, canonical: &str) {
        let kind_of = Type::of(kind).unwrap();
        let written = written(kind_of, value, &zone()).unwrap();
        assert_eq!(written, canonical, "{kind} {value}");
        assert_eq!(observed(kind, &written), canonical);
        assert_eq!(observed(kind, &wire(kind, &written, 7)), canonical, "wire of {kind} {value}");
    }

    fn refuse(kind: &str, value: &str, part: &str) {
        let refusal = written(Type::of(kind).unwrap(), value, &zone()).unwrap_err();
        let text = format!("{} / {}", refusal.message, refusal.hint.unwrap_or_default());
        assert!(text.contains(part), "{kind} {value}: {text}");
    }

    #[test]
    fn each_type_has_one_canonical_form() {
        check("A", "192.0.2.1", "192.0.2.1");
        check("AAAA", "2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1");
        check("AAAA", "::ffff:1.2.3.4", "::ffff:1.2.3.4");
        check("CNAME", "Example.COM.", "example.com.");
        check("CNAME", "@", "example.com.");
        check("MX", "010  Mail.Example.com.", "10 mail.example.com.");
        check("MX", "0 .", "0 .");
        check("SRV", "0 0 0 .", "0 0 0 .");
        check("SRV", "1 2 3 Sip.example.com.", "1 2 3 sip.example.com.");
        check("CAA", "0 Issue letsencrypt.org", "0 issue \"letsencrypt.org\"");
        check("CAA", "0 issue \"le.org; a=b\"", "0 issue \"le.org; a=b\"");
        check("CAA", "128 issuewild \"\"", "128 issuewild \"\"");
        check("PTR", r"a\046b.example.com.", r"a\.b.example.com.");
        check("TXT", "v=spf1 -all", "\"v=spf1 -all\"");
        check("TXT", "", "\"\"");
        check("TXT", " lead trail ", "\" lead trail \"");
        check("TXT", "back\\slash \"quote\" ä `;", "\"back\\\\slash \\\"quote\\\" ä `;\"");
        check("TXT", &"x".repeat(766), &format!("\"{}\"", "x".repeat(766)));
        check("SOA", "ns1.example.com. h.example.com. 1 2 3 4", "ns1.example.com. h.example.com. 1 2 3 4");
    }

    #[test]
    fn a_refusal_says_what_to_write() {
        refuse("A", "2001:db8::1", "did you mean type `AAAA`");
        refuse("A", "192.0.2.300", "192.0.2.1");
        refuse("AAAA", "192.0.2.1", "did you mean type `A`");
        refuse("CNAME", "www", "write `www.`, or `www.example.com.`");
        refuse("CNAME", "a b", "www.example.com.");
        refuse("MX", "mail.example.com.", "10 mail.example.com.");
        refuse("MX", "10 192.0.2.1", "is an address");
        refuse("NS", "192.0.2.1.", "is an address");
        refuse("SRV", "1 2 sip.example.com.", "10 60 5060");
        refuse("SRV", "1 2 70000 sip.example.com.", "10 60 5060");
        refuse("CAA", "issue letsencrypt.org", "0 issue");
        refuse("CAA", "256 issue \"a\"", "0 issue");
        refuse("SOA", "ns1.example.com. h.example.com. 2026 1 2 3 4", "leave it out");
        let unknown = Type::refuse("CNAM");
        assert_eq!(unknown.hint.unwrap(), "did you mean `CNAME`?");
    }

    #[test]
    fn reported_forms_of_the_same_data_are_equal() {
        assert_eq!(observed("TXT", r#""a\195\164b" "c""#), "\"aäbc\"");
        assert_eq!(observed("AAAA", "2001:db8:0::1"), "2001:db8::1");
        assert_eq!(observed("CNAME", "Foo.Example.com."), "foo.example.com.");
        assert_eq!(observed("SOA", "NS1.e. h.e. 2026 1 2 3 4"), "ns1.e. h.e. 1 2 3 4");
        assert_eq!(observed("LOC", "51 30 12.748 N"), "51 30 12.748 N");
        assert_eq!(observed("MX", "garbage"), "garbage");
        assert_eq!(observed("TXT", "\"open"), "\"open");
    }

    #[test]
    fn a_long_caa_value_stays_one_string() {
        let value = written(Type::Caa, &format!("0 issue \"{}\"", "x".repeat(300)), &zone()).unwrap();
        let wire = wire("CAA", &value, 0);
        assert_eq!(wire.matches('"').count(), 2);
        assert_eq!(observed("CAA", &wire), value);
    }

    proptest! {
        #[test]
        fn canonical_is_idempotent_for_any_report(
            kind in proptest::sample::select(vec!["A", "AAAA", "CAA", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT", "LOC"]),
            content in r#"[ -~]{0,60}"#,
        ) {
            let once = observed(kind, &content).into_owned();
            prop_assert_eq!(observed(kind, &once), once.as_str());
        }

        #[test]
        fn txt_of_any_octets_survives_the_wire(octets in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut canonical = String::new();
            text::quote(&octets, &mut canonical);
            let content = wire("TXT", &canonical, 0);
            prop_assert_eq!(observed("TXT", &content), canonical.as_str());
        }
    }
}
