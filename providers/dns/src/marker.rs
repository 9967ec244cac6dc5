//! Marks of other tools: TXT records beside the records they own.
//!
//! ExternalDNS writes `heritage=external-dns,external-dns/owner=ID` at `TYPE-NAME` (with an optional prefix
//! before or after the type), octoDNS writes `*octodns*` at `_owner.TYPE.NAME`. Records so marked belong to
//! `externaldns/ID` or `octodns`; the marks themselves do too. A suffix (`--txt-suffix`) is not recognised:
//! nothing in the record tells where the name ends.

use crate::{
    name::{labels, parent},
    record,
    text::unquote,
};
use reconciled_provider::{Observed, Owner, ResourceId};
use std::sync::Arc;

/// A mark found in a TXT record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Canonical name of the TXT record.
    pub name: Box<str>,
    /// `externaldns/ID` or `octodns`.
    pub owner: Arc<str>,
}

/// The mark in one canonical TXT value, if it is one.
pub fn read(name: &str, value: &str) -> Option<Marker> {
    if value == "\"*octodns*\"" && name.starts_with("_owner.") {
        return Some(Marker { name: name.into(), owner: "octodns".into() });
    }
    if !value.contains("heritage=external-dns") {
        return None;
    }
    // ExternalDNS writes quotes of its own around the text; some servers keep them as part of it.
    let text = String::from_utf8(unquote(value)?).ok()?;
    let mut words = text.trim_matches('"').split(',');
    if words.next() != Some("heritage=external-dns") {
        return None;
    }
    let owner = words.find_map(|word| word.strip_prefix("external-dns/owner=")).unwrap_or("");
    Some(Marker { name: name.into(), owner: format!("externaldns/{owner}").into() })
}

/// Gives marked resources their owner; ours stay ours. `resources` are sorted by id.
pub fn apply(markers: &[Marker], resources: &mut [Observed]) {
    for marker in markers {
        let mut ids = vec![record::id(&marker.name, "TXT")];
        if &*marker.owner == "octodns" {
            ids.extend(octodns_target(&marker.name));
        } else {
            ids.extend(externaldns_targets(&marker.name));
        }
        for id in ids {
            let Ok(index) = resources.binary_search_by(|o| o.id.cmp(&id)) else { continue };
            if resources[index].owner == Owner::Unmarked {
                resources[index].owner = Owner::Other(marker.owner.clone());
            }
        }
    }
}

fn octodns_target(marker: &str) -> Option<ResourceId> {
    let rest = marker.strip_prefix("_owner.")?;
    let (kind, name) = rest.split_once('.')?;
    let name = match name.strip_prefix("_wildcard.") {
        Some(rest) => format!("*.{rest}"),
        None => name.into(),
    };
    Some(record::id(&name, &kind.to_ascii_uppercase()))
}

/// Types that ExternalDNS manages, as it writes them.
const EXTERNALDNS_TYPES: [&str; 8] = ["a", "aaaa", "cname", "mx", "naptr", "ns", "srv", "txt"];

/// Ids the marker may stand for. Those that do not exist mark nothing.
fn externaldns_targets(marker: &str) -> Vec<ResourceId> {
    let mut ids = Vec::new();
    let mut name = marker;
    // `a-www.zone`, and behind a prefix with dots `prefix.a-www.zone`.
    for label in labels(marker).take(3) {
        for kind in EXTERNALDNS_TYPES {
            let Some(rest) = label.strip_prefix(kind).and_then(|rest| rest.strip_prefix('-')) else {
                continue;
            };
            let word = kind.to_ascii_uppercase();
            ids.push(record::id(&format!("{rest}{}", &name[label.len()..]), &word));
            // `a-prefix-.www.zone`: the type is part of the prefix.
            ids.push(record::id(parent(name), &word));
        }
        name = parent(name);
    }
    // Up to v0.11 the mark stood at the name itself, whatever the type, but never for AAAA.
    ids.extend(["A", "CNAME"].map(|kind| record::id(marker, kind)));
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(sets: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
        let mut markers = Vec::new();
        let mut resources: Vec<Observed> = Vec::new();
        for (id, value) in sets {
            let id = ResourceId::from(*id);
            if let Some((name, "TXT")) = record::parts(&id) {
                markers.extend(read(name, value));
            }
            resources.push(Observed::new(id, format!("300\n{value}").into_bytes()));
        }
        resources.sort_by(|a, b| a.id.cmp(&b.id));
        apply(&markers, &mut resources);
        let owner = |o: &Observed| match &o.owner {
            Owner::Other(owner) => Some(owner.to_string()),
            _ => None,
        };
        resources.iter().map(|o| (o.id.to_string(), owner(o))).collect()
    }

    fn check(marker: &str, target: &str, expected: Option<&str>) {
        let text = "\"heritage=external-dns,external-dns/owner=k8s,external-dns/resource=ingress/a/b\"";
        let found = owners(&[(marker, text), (target, "x"), ("other.example.com./A", "y")]);
        let of = |id: &str| found.iter().find(|(i, _)| i == id).unwrap().1.as_deref();
        assert_eq!(of(target), expected, "{marker}");
        assert_eq!(of(marker), Some("externaldns/k8s"));
        assert_eq!(of("other.example.com./A"), None);
    }

    #[test]
    fn every_name_format_of_externaldns_is_understood() {
        let owner = Some("externaldns/k8s");
        check("a-www.example.com./TXT", "www.example.com./A", owner);
        check("aaaa-www.example.com./TXT", "www.example.com./AAAA", owner);
        check("foo.cname-www.example.com./TXT", "www.example.com./CNAME", owner);
        check("cname-abc-.www.example.com./TXT", "www.example.com./CNAME", owner);
        check("a-abc-.example.com./TXT", "example.com./A", owner);
        check("www.example.com./TXT", "www.example.com./A", owner);
        check("a-www.example.com./TXT", "www.example.com./AAAA", None);
    }

    #[test]
    fn octodns_marks_name_and_type() {
        let found = owners(&[
            ("_owner.a.www.example.com./TXT", "\"*octodns*\""),
            ("_owner.mx.example.com./TXT", "\"*octodns*\""),
            ("_owner.a._wildcard.example.com./TXT", "\"*octodns*\""),
            ("www.example.com./A", "x"),
            ("*.example.com./A", "x"),
            ("example.com./MX", "x"),
            ("www.example.com./AAAA", "x"),
        ]);
        let marked = found.iter().filter(|(_, owner)| owner.as_deref() == Some("octodns")).count();
        assert_eq!(marked, 6, "{found:?}");
        assert!(found.contains(&("www.example.com./AAAA".into(), None)));
    }

    #[test]
    fn other_texts_mark_nothing() {
        assert_eq!(read("a.example.com.", "\"v=spf1 -all\""), None);
        assert_eq!(read("a.example.com.", "\"*octodns*\""), None);
        assert_eq!(read("a.example.com.", "\"heritage=external-dns-of-mine\""), None);
    }
}
