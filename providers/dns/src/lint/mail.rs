//! Rules about texts that receivers of mail read: SPF and DMARC.

use super::{Found, Set, Zone, names::host};
use crate::text::unquote;

/// Mechanisms and modifiers that cost the receiver a query (RFC 7208 §4.6.4).
const ASKING: [&str; 5] = ["include", "a", "mx", "ptr", "exists"];
const MOST_LOOKUPS: usize = 10;

pub(super) fn look(zone: &Zone<'_>, found: &mut Found) {
    for set in zone.sets.iter().filter(|set| set.kind == "TXT") {
        let texts = set.values.iter().filter_map(|value| {
            // Most texts are neither, and are not worth decoding.
            let is_policy = value.len() > 3 && value[1..].to_ascii_lowercase().starts_with("v=");
            let octets = if is_policy { unquote(value) } else { None };
            Some(String::from_utf8_lossy(&octets?).into_owned())
        });
        let texts: Vec<String> = texts.collect();
        let is_spf = |text: &&String| {
            let lower = text.to_ascii_lowercase();
            lower == "v=spf1" || lower.starts_with("v=spf1 ")
        };
        let policies: Vec<&String> = texts.iter().filter(is_spf).collect();
        if policies.len() > 1 {
            let message = format!("{} has {} SPF policies", host(zone, set.name), policies.len());
            found.tell("spf-several", set, message);
        }
        policies.iter().for_each(|text| spf(zone, set, text, found));
        if set.name.starts_with("_dmarc.") {
            dmarc(zone, set, &texts, found);
        }
    }
}

fn spf(zone: &Zone<'_>, set: &Set<'_>, text: &str, found: &mut Found) {
    let name = || host(zone, set.name);
    let mut lookups = 0;
    for term in text.split_ascii_whitespace().skip(1) {
        let term = term.to_ascii_lowercase();
        let bare = term.trim_start_matches(['+', '-', '~', '?']);
        let mechanism = bare.split([':', '/', '=']).next().unwrap_or_default();
        let is_asking = ASKING.contains(&mechanism) && !bare.contains('=');
        lookups += usize::from(is_asking || bare.starts_with("redirect="));
        if mechanism == "ptr" {
            found.tell("spf-ptr", set, format!("the SPF policy of {} uses ptr", name()));
        }
        if matches!(&*term, "all" | "+all") {
            found.tell("spf-all", set, format!("the SPF policy of {} ends in +all", name()));
        }
    }
    if lookups > MOST_LOOKUPS {
        let message = format!("the SPF policy of {} has {lookups} mechanisms that ask", name());
        found.tell("spf-lookups", set, message);
    }
}

fn dmarc(zone: &Zone<'_>, set: &Set<'_>, texts: &[String], found: &mut Found) {
    let policies: Vec<&String> =
        texts.iter().filter(|text| text.to_ascii_uppercase().starts_with("V=DMARC")).collect();
    let name = || host(zone, set.name);
    if policies.len() > 1 {
        found.tell("dmarc-several", set, format!("{} has {} policies", name(), policies.len()));
    }
    for text in policies {
        let mut tags = text.split(';').map(str::trim);
        let is_first = tags.next().is_some_and(|tag| tag.replace(' ', "") == "v=DMARC1");
        let policy = tags.find_map(|tag| {
            let (name, value) = tag.split_once('=')?;
            (name.trim() == "p").then(|| value.trim().to_ascii_lowercase())
        });
        let is_known =
            policy.is_some_and(|policy| ["none", "quarantine", "reject"].contains(&policy.as_str()));
        if !is_first || !is_known {
            found.tell("dmarc-form", set, format!("the policy of {} is not understood", name()));
        }
    }
}
