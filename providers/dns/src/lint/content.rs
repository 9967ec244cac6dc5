//! Rules about one RRset by itself.

use super::{
    found::Found,
    names::host,
    zone::{Set, Zone},
};
use crate::name::labels;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Seconds of a week.
const WEEK: u32 = 604_800;

/// Octets of data that fit into an answer over UDP at most servers and resolvers.
const LARGE: usize = 4_096;

const CAA_TAGS: [&str; 7] =
    ["contactemail", "contactphone", "iodef", "issue", "issuemail", "issuevmc", "issuewild"];

pub(super) fn look(zone: &Zone<'_>, set: &Set<'_>, found: &mut Found) {
    let name = || host(zone, set.name);
    // An alias of Route 53 has neither values nor a TTL of its own.
    if set.ttl == 0 && !set.values.is_empty() {
        found.tell("ttl-zero", set, format!("{} {} has a ttl of 0", name(), set.kind));
    } else if set.ttl > WEEK {
        found.tell("ttl-long", set, format!("{} {} has a ttl of {} seconds", name(), set.kind, set.ttl));
    }
    if let Some(whole) = zone.whole(set) {
        all_of(zone, set, &whole, found);
    }
    if set.name.starts_with("*.") && matches!(set.kind, "NS" | "DNAME") {
        found.tell("wildcard-delegation", set, format!("{} {} is a wildcard", name(), set.kind));
    }
    match set.kind {
        "A" | "AAAA" => address(zone, set, found),
        "ALIAS" => {
            if let Some(other) = zone.sets_at(set.name).find(|other| matches!(other.kind, "A" | "AAAA")) {
                let message = format!("{} has an ALIAS and an {}", name(), other.kind);
                found.tell_with("alias-and-address", set, other, message);
            }
            if set.name != zone.apex && zone.sets_at(set.name).count() == 1 {
                found.tell("alias-root", set, format!("{} ALIAS stands alone below the zone", name()));
            }
        }
        "CAA" => caa(zone, set, found),
        // Below a label that begins with an underscore is a service, not a host (RFC 8552): `selector_1._domainkey`.
        "CNAME" if !labels(set.name).any(|label| label.starts_with('_')) => host_name(zone, set, found),
        "NAPTR" => {
            let is_both = |value: &&&str| !value.ends_with(" .") && !value.contains(" \"\" ");
            if set.values.iter().any(|value| is_both(&value)) {
                found.tell("naptr-both", set, format!("{} NAPTR has a regexp and a replacement", name()));
            }
        }
        "SRV" | "TLSA" | "SMIMEA" => service(zone, set, found),
        "SOA" => soa(set, found),
        "SSHFP" if set.words(1).any(|kind| kind == "1") || set.words(0).any(|algorithm| algorithm == "2") => {
            found.tell("sshfp-weak", set, format!("{} SSHFP has a weak fingerprint or key", name()));
        }
        "TXT" if set.values.iter().any(|value| value.ends_with(" \"")) => {
            found.tell("txt-blank", set, format!("{} TXT has a text that ends with a blank", name()));
        }
        _ => {}
    }
}

/// What is wrong with all that stands at a name and type. `set` is the first part of it, where several share it.
fn all_of(zone: &Zone<'_>, set: &Set<'_>, whole: &[&str], found: &mut Found) {
    let what = || format!("{} {}", host(zone, set.name), set.kind);
    if let Some(least) = zone.sharing(set).min_by_key(|part| part.ttl) {
        for part in zone.sharing(set).filter(|part| part.ttl != least.ttl) {
            let message = format!("{} has a ttl of {}, and elsewhere of {}", what(), part.ttl, least.ttl);
            found.tell_with("ttl-differs", part, least, message);
        }
    }
    let octets: usize = whole.iter().map(|value| value.len() + 12).sum();
    if octets > LARGE {
        found.tell_whole("answer-large", zone, set, format!("{} has about {octets} octets of data", what()));
    }
    match set.kind {
        "DS" => ds(zone, set, whole, found),
        "HTTPS" | "SVCB" => {
            let alias = whole.iter().find(|value| value.starts_with("0 "));
            if alias.is_some_and(|alias| whole.len() > 1 || alias.split(' ').count() > 2) {
                found.tell_whole("svcb-alias", zone, set, format!("{} mixes an alias with more", what()));
            }
        }
        "MX" => {
            let null = whole.iter().find(|value| value.ends_with(" ."));
            if null.is_some_and(|null| whole.len() > 1 || *null != "0 .") {
                let message = format!("{} has a null MX that is not `0 .` alone", what());
                found.tell_whole("mx-null", zone, set, message);
            }
        }
        _ => {}
    }
}

fn address(zone: &Zone<'_>, set: &Set<'_>, found: &mut Found) {
    for value in &set.values {
        let is_unusable = match (value.parse::<Ipv4Addr>(), value.parse::<Ipv6Addr>()) {
            (Ok(v4), _) => v4.is_unspecified() || v4.is_broadcast() || v4.is_multicast(),
            (_, Ok(v6)) => v6.is_unspecified() || v6.is_multicast() || v6.is_unicast_link_local(),
            _ => false,
        };
        if is_unusable {
            found.tell("address-unusable", set, format!("{} has the address {value}", host(zone, set.name)));
        }
    }
    host_name(zone, set, found);
}

/// What cannot be the name of a host.
fn host_name(zone: &Zone<'_>, set: &Set<'_>, found: &mut Found) {
    // A label that begins with an underscore is a service, not a host (RFC 8552).
    if labels(set.name).any(|label| label.contains('_') && !label.starts_with('_')) {
        found.tell("hostname-underscore", set, format!("{} has an underscore", host(zone, set.name)));
    }
    if let Some(label) = labels(set.name).find(|label| label.starts_with('-') || label.ends_with('-')) {
        let message = format!("{} has the label `{label}`", host(zone, set.name));
        found.tell("hostname-hyphen", set, message);
    }
}

fn caa(zone: &Zone<'_>, set: &Set<'_>, found: &mut Found) {
    for value in &set.values {
        let mut words = value.splitn(3, ' ');
        let (Some(flags), Some(tag), Some(data)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let name = host(zone, set.name);
        if !matches!(flags, "0" | "128") {
            found.tell("caa-flags", set, format!("{name} CAA has flags {flags}"));
        }
        if !CAA_TAGS.contains(&tag.to_ascii_lowercase().as_str()) {
            found.tell("caa-tag", set, format!("{name} CAA has the property `{tag}`"));
        }
        let data = data.trim_matches('"');
        let is_url = ["mailto:", "http://", "https://"].iter().any(|scheme| data.starts_with(scheme));
        if tag.eq_ignore_ascii_case("iodef") && !is_url {
            found.tell("caa-iodef", set, format!("{name} CAA reports to `{data}`"));
        }
        let is_issuer = tag.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("issue"));
        // Parameters follow a semicolon; without a domain nobody may issue.
        let issuer = data.split(';').next().unwrap_or_default().trim();
        if is_issuer && !issuer.is_empty() && !issuer.split('.').all(is_host_label) {
            found.tell("caa-issuer", set, format!("{name} CAA lets `{issuer}` issue"));
        }
    }
}

/// True for letters, digits, and hyphens between them.
fn is_host_label(label: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_part)
}

fn ds(zone: &Zone<'_>, set: &Set<'_>, whole: &[&str], found: &mut Found) {
    let is_weak = |value: &&str| {
        let words: Vec<&str> = value.split(' ').collect();
        // RSA/MD5, DSA, RSA/SHA-1 and GOST; SHA-1 and GOST.
        matches!(words.get(1), Some(&("1" | "3" | "5" | "6" | "7" | "12")))
            || matches!(words.get(2), Some(&("1" | "3")))
    };
    if whole.iter().all(is_weak) {
        found.tell("ds-weak", set, format!("{} DS has a weak algorithm or digest", host(zone, set.name)));
    }
    if zone.is_exclusive && zone.find(set.name, "NS").is_none() {
        found.tell("ds-without-ns", set, format!("{} has a DS and no NS", host(zone, set.name)));
    }
}

fn service(zone: &Zone<'_>, set: &Set<'_>, found: &mut Found) {
    let mut front = labels(set.name);
    let (first, second) = (front.next().unwrap_or_default(), front.next().unwrap_or_default());
    let is_named = match set.kind {
        "SMIMEA" => second.starts_with('_'),
        // `*._tcp` is for every port.
        _ => (first.starts_with('_') || first == "*") && second.starts_with('_'),
    };
    let name = || host(zone, set.name);
    if !is_named {
        found.tell("service-name", set, format!("{} {} names no service", name(), set.kind));
    }
    let above = |index: usize, most: u8| {
        set.words(index).any(|word| word.parse::<u8>().is_ok_and(|number| number > most && number != 255))
    };
    if set.kind != "SRV" && (above(0, 3) || above(1, 1) || above(2, 2)) {
        found.tell("tlsa-fields", set, format!("{} {} has a field of unknown meaning", name(), set.kind));
    }
}

fn soa(set: &Set<'_>, found: &mut Found) {
    if let Some(mailbox) = set.words(1).find(|mailbox| mailbox.contains('@')) {
        found.tell("soa-mailbox", set, format!("the SOA has the mailbox {mailbox}"));
    }
    let numbers: Vec<u64> =
        (2..6).flat_map(|index| set.words(index).filter_map(|w| w.parse().ok())).collect();
    let [refresh, retry, expire, minimum] = numbers[..] else { return };
    if [refresh, retry, expire, minimum].contains(&0) {
        let timers = format!("refresh {refresh}, retry {retry}, expire {expire}, minimum {minimum}");
        found.tell("soa-zero", set, format!("the SOA has {timers}"));
    } else if retry >= refresh || expire <= refresh + retry {
        let message = format!("the SOA has refresh {refresh}, retry {retry}, expire {expire}");
        found.tell("soa-timers", set, message);
    }
}
