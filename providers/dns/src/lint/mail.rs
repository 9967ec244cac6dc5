//! Rules about what receivers of mail read: MX, SPF, DKIM and DMARC.

use super::{
    found::Found,
    names::host,
    zone::{Set, Zone},
};
use crate::{name::labels, text::unquote};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::collections::HashMap;

/// Mechanisms and modifiers that cost the receiver a query (RFC 7208 §4.6.4).
const ASKING: [&str; 5] = ["include", "a", "mx", "ptr", "exists"];
const MOST_LOOKUPS: usize = 10;
/// Where counting ends: it is too many, however many more there are.
const ENOUGH: usize = 100;

/// Octets of a public RSA key of 1,024 bits: modulus, exponent, and what ASN.1 has around them at least.
const RSA_1024: usize = 128 + 3 + 9;

/// SPF policies by name, each once.
type Senders<'a> = HashMap<&'a str, Vec<String>>;

/// A policy, and the set that it stands in.
type Held<'z> = (&'z Set<'z>, String);

pub(super) fn look(zone: &Zone<'_>, found: &mut Found) {
    let (mut of_senders, mut of_receivers): (Vec<Held<'_>>, Vec<Held<'_>>) = Default::default();
    for set in zone.sets.iter().filter(|set| set.kind == "TXT") {
        let texts = set.values.iter().filter_map(|value| {
            // Most texts are neither, and are not worth decoding.
            let is_policy = value.len() > 3 && value[1..].to_ascii_lowercase().starts_with("v=");
            let octets = if is_policy { unquote(value) } else { None };
            Some(String::from_utf8_lossy(&octets?).into_owned())
        });
        let texts: Vec<String> = texts.collect();
        if set.name.starts_with("_dmarc.") {
            let is_dmarc = |text: &&String| text.to_ascii_uppercase().starts_with("V=DMARC");
            of_receivers.extend(texts.iter().filter(is_dmarc).map(|text| (set, text.clone())));
        }
        if labels(set.name).nth(1) == Some("_domainkey") {
            texts.iter().for_each(|text| dkim(zone, set, text, found));
        }
        of_senders.extend(texts.into_iter().filter(|text| is_spf(text)).map(|text| (set, text)));
    }
    several("dmarc-several", "policies", zone, &of_receivers, found);
    of_receivers.iter().for_each(|(set, text)| dmarc(zone, set, text, found));
    several("spf-several", "SPF policies", zone, &of_senders, found);
    let mut senders = Senders::new();
    for (set, text) in &of_senders {
        let at_name = senders.entry(set.name).or_default();
        if !at_name.contains(text) {
            at_name.push(text.clone());
        }
    }
    of_senders.iter().for_each(|(set, text)| spf(zone, set, text, &senders, found));
    for set in zone.sets.iter().filter(|set| set.kind == "MX" && !set.values.is_empty()) {
        if let Some(whole) = zone.whole(set) {
            receiver(zone, set, &whole, senders.get(set.name), found);
        }
    }
}

/// Tells of each name that has several policies, where the first of them is and the next one that differs, which another manifest
/// may share the record with.
fn several(rule: &'static str, word: &str, zone: &Zone<'_>, held: &[Held<'_>], found: &mut Found) {
    let mut by_name: HashMap<&str, Vec<&Held<'_>>> = HashMap::new();
    for one in held {
        let at_name = by_name.entry(one.0.name).or_default();
        if at_name.iter().all(|other| other.1 != one.1) {
            at_name.push(one);
        }
    }
    for one in held {
        let at_name = by_name.get(one.0.name).map_or(&[][..], Vec::as_slice);
        let [first, second, ..] = at_name else { continue };
        if !std::ptr::eq(*first, one) {
            continue;
        }
        let message = format!("{} has {} {word}", host(zone, one.0.name), at_name.len());
        match first.0.index == second.0.index {
            true => found.tell(rule, first.0, message),
            false => found.tell_with(rule, first.0, second.0, message),
        }
    }
}

fn is_spf(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower == "v=spf1" || lower.starts_with("v=spf1 ")
}

/// What a name with an MX should say of its senders.
fn receiver(
    zone: &Zone<'_>,
    set: &Set<'_>,
    whole: &[&str],
    senders: Option<&Vec<String>>,
    found: &mut Found,
) {
    let name = || host(zone, set.name);
    if whole.iter().all(|value| *value == "0 .") {
        let is_silent =
            |text: &String| text.to_ascii_lowercase().split_ascii_whitespace().eq(["v=spf1", "-all"]);
        if senders.is_some_and(|texts| !texts.iter().all(is_silent)) {
            let message = format!("{} takes no mail, and its SPF policy lets somebody send", name());
            found.tell("mx-null-sender", set, message);
        }
        return;
    }
    // A server may have what is not declared, and a wildcard may answer.
    let is_somewhere = |name: &str| zone.find(name, "CNAME").is_some() || zone.find(name, "NS").is_some();
    if !zone.is_exclusive || set.name.starts_with("*.") {
        return;
    }
    if senders.is_none() {
        found.tell("spf-missing", set, format!("{} has an MX and no SPF policy", name()));
    }
    // The policy of the zone itself is asked for where a name has none of its own.
    let places = [set.name, &zone.apex].map(|name| format!("_dmarc.{name}"));
    if !places.iter().any(|place| zone.find(place, "TXT").is_some() || is_somewhere(place)) {
        found.tell("dmarc-missing", set, format!("{} has an MX and no DMARC policy", name()));
    }
}

fn spf(zone: &Zone<'_>, set: &Set<'_>, text: &str, senders: &Senders<'_>, found: &mut Found) {
    let name = || host(zone, set.name);
    for term in terms(text) {
        if term.mechanism == "ptr" {
            found.tell("spf-ptr", set, format!("the SPF policy of {} uses ptr", name()));
        }
        if term.mechanism == "all" && term.is_pass {
            found.tell("spf-all", set, format!("the SPF policy of {} ends in +all", name()));
        }
    }
    let mut lookups = 0;
    count_lookups(text, senders, &mut vec![set.name.to_owned()], &mut lookups);
    if lookups > MOST_LOOKUPS {
        let message = format!("the SPF policy of {} has {lookups} mechanisms that ask", name());
        found.tell("spf-lookups", set, message);
    }
}

/// A mechanism or modifier of SPF, in lower case.
struct Term {
    mechanism: String,
    /// What follows the colon, or the equals sign of a modifier.
    target: String,
    is_modifier: bool,
    is_pass: bool,
}

fn terms(text: &str) -> impl Iterator<Item = Term> {
    text.split_ascii_whitespace().skip(1).map(|term| {
        let term = term.to_ascii_lowercase();
        let bare = term.trim_start_matches(['+', '-', '~', '?']);
        let end = bare.find([':', '/', '=']).unwrap_or(bare.len());
        Term {
            mechanism: bare[..end].to_owned(),
            target: bare[end..].trim_start_matches([':', '=']).to_owned(),
            is_modifier: bare[end..].starts_with('='),
            is_pass: !term.starts_with(['-', '~', '?']),
        }
    })
}

/// Adds how many queries a policy costs; what it includes counts where the same zone declares it.
fn count_lookups(text: &str, senders: &Senders<'_>, open: &mut Vec<String>, count: &mut usize) {
    for term in terms(text) {
        let is_redirect = term.is_modifier && term.mechanism == "redirect";
        if !is_redirect && (term.is_modifier || !ASKING.contains(&term.mechanism.as_str())) {
            continue;
        }
        *count += 1;
        // Policies that include each other crosswise have more ways through them than can be walked.
        if *count >= ENOUGH {
            return;
        }
        let target = format!("{}.", term.target.trim_end_matches('.'));
        // One that includes itself is an error of its own to receivers, and has no number.
        if (is_redirect || term.mechanism == "include") && !open.contains(&target) {
            open.push(target.clone());
            for inner in senders.get(target.as_str()).into_iter().flatten() {
                count_lookups(inner, senders, open, count);
            }
            open.pop();
        }
    }
}

fn dkim(zone: &Zone<'_>, set: &Set<'_>, text: &str, found: &mut Found) {
    let name = || host(zone, set.name);
    let tags: HashMap<&str, &str> = text
        .split(';')
        .filter_map(|tag| tag.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    if tags.get("v").is_none_or(|version| *version != "DKIM1") {
        return;
    }
    let key: Option<String> = tags.get("p").map(|key| key.split_ascii_whitespace().collect());
    let Some(octets) = key.and_then(|key| STANDARD.decode(key).ok()) else {
        found.tell("dkim-form", set, format!("the key of {} is not understood", name()));
        return;
    };
    let is_rsa = tags.get("k").is_none_or(|kind| *kind == "rsa");
    if is_rsa && !octets.is_empty() && octets.len() < RSA_1024 {
        found.tell("dkim-weak", set, format!("the key of {} has less than 1,024 bits", name()));
    }
}

fn dmarc(zone: &Zone<'_>, set: &Set<'_>, text: &str, found: &mut Found) {
    let mut tags = text.split(';').map(str::trim);
    let is_first = tags.next().is_some_and(|tag| tag.replace(' ', "") == "v=DMARC1");
    let policy = tags.find_map(|tag| {
        let (name, value) = tag.split_once('=')?;
        (name.trim() == "p").then(|| value.trim().to_ascii_lowercase())
    });
    let is_known = policy.is_some_and(|policy| ["none", "quarantine", "reject"].contains(&policy.as_str()));
    if !is_first || !is_known {
        found.tell("dmarc-form", set, format!("the policy of {} is not understood", host(zone, set.name)));
    }
}
