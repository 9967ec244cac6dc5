//! RRsets and zones as resources: ids, and canonical bytes.
//!
//! The id of an RRset is `NAME/TYPE` (`www.example.com./A`), that of a zone its absolute name. The bytes of an
//! RRset are its TTL and its values, sorted and once each, one a line; those of a zone say only that it is
//! there. Values never hold a line break: character strings escape it. What a backend knows of an RRset besides
//! (`cloudflare: {proxied: true}`) stands behind the TTL, as a JSON object.

use crate::name::{Name, relative};
use reconciled_provider::{Delta, FieldChange, PENDING_FIELD, ResourceId, Scope, Slot};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Canonical bytes of a zone that exists.
pub const ZONE: &[u8] = b"zone";

/// Seconds a record lives in caches when nobody says how long.
pub const DEFAULT_TTL: u32 = 300;

/// Largest TTL (RFC 2181 §8).
pub(crate) const MAX_TTL: u32 = i32::MAX as u32;

/// Put before a value that the server keeps but does not serve, so that it differs from a desired one.
pub const DISABLED: &str = "(disabled) ";

/// Put before a value whose TTL is not that of its RRset, so that the set differs from any desired one.
const OTHER_TTL: &str = "(ttl ";

/// A value whose TTL is not that of its RRset (RFC 2181 §5.2 wants one).
pub(crate) fn with_ttl(ttl: u32, value: &str) -> String {
    format!("{OTHER_TTL}{ttl}) {value}")
}

/// The value without a TTL of its own.
pub(crate) fn without_ttl(value: &str) -> &str {
    let rest = value.strip_prefix(OTHER_TTL).and_then(|rest| rest.split_once(") "));
    rest.map_or(value, |(_, value)| value)
}

/// The value without what other fields say of the one record that differs from its set: its TTL, whether it is proxied, its
/// comment and tags. Whether and when it is answered stays.
pub(crate) fn without_fields(mut value: &str) -> &str {
    while let Some((word, rest)) = value.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
        let is_field = word.starts_with("ttl ") || matches!(word, "proxied" | "other comment" | "other tags");
        if !is_field {
            break;
        }
        value = rest;
    }
    value
}

/// The value without what says how it stands at the remote: `(disabled) `, `(ttl 60) `, `(proxied) `.
pub(crate) fn bare(value: &str) -> &str {
    let rest = value.strip_prefix('(').and_then(|rest| rest.split_once(") "));
    rest.map_or(value, |(_, value)| value)
}

/// An RRset decoded from canonical bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RrSet<'a> {
    /// Seconds.
    pub ttl: u32,
    /// What only some backends know, as a JSON object with the backend's word as its key; empty for nothing.
    pub extra: &'a str,
    /// Canonical values, sorted, each once.
    pub values: Vec<&'a str>,
}

impl<'a> RrSet<'a> {
    /// Reads canonical bytes; none for those of a zone.
    pub fn decode(bytes: &'a [u8]) -> Option<RrSet<'a>> {
        let mut lines = std::str::from_utf8(bytes).ok()?.split('\n');
        let head = lines.next()?;
        let (ttl, extra) = head.split_once(' ').unwrap_or((head, ""));
        Some(RrSet { ttl: ttl.parse().ok()?, extra, values: lines.collect() })
    }
}

/// Canonical bytes of an RRset.
pub fn encode<V: AsRef<str> + Ord>(ttl: u32, values: &mut Vec<V>) -> Vec<u8> {
    encode_with(ttl, "", values)
}

/// Canonical bytes of an RRset of which a backend knows more; `extra` is a JSON object in one line, or empty.
pub fn encode_with<V: AsRef<str> + Ord>(ttl: u32, extra: &str, values: &mut Vec<V>) -> Vec<u8> {
    values.sort_unstable();
    values.dedup();
    let length = values.iter().map(|value| value.as_ref().len() + 1).sum::<usize>();
    let mut out = Vec::with_capacity(11 + extra.len() + length);
    out.extend_from_slice(ttl.to_string().as_bytes());
    if !extra.is_empty() {
        out.push(b' ');
        out.extend_from_slice(extra.as_bytes());
    }
    for value in values {
        out.push(b'\n');
        out.extend_from_slice(value.as_ref().as_bytes());
    }
    out
}

/// Id of the RRset `name`/`kind`.
pub fn id(name: &str, kind: &str) -> ResourceId {
    let mut text = String::with_capacity(name.len() + 1 + kind.len());
    text.push_str(name);
    text.push('/');
    text.push_str(kind);
    ResourceId(text.into())
}

/// Name and type of an RRset's id; none for that of a zone.
///
/// Names may hold slashes (RFC 2317), types never do, and only a zone's id ends in a dot.
pub fn parts(id: &ResourceId) -> Option<(&str, &str)> {
    if id.0.ends_with('.') { None } else { id.0.rsplit_once('/') }
}

/// Absolute canonical name of the zone behind `scope`.
pub fn zone_name(scope: &Scope) -> String {
    format!("{}.", scope.name)
}

/// Id of the zone behind `scope`.
pub fn zone_id(scope: &Scope) -> ResourceId {
    ResourceId(zone_name(scope).into())
}

/// The scope of `zone` at `entry`.
pub fn scope(entry: &str, zone: &Name) -> Scope {
    Scope::new(entry, zone.without_dot())
}

/// The part of an address: `www/A`, `@/A`; none for the zone.
pub fn part(scope: &Scope, id: &ResourceId) -> Option<Arc<str>> {
    let (name, kind) = parts(id)?;
    Some(format!("{}/{kind}", relative(name, &zone_name(scope))).into())
}

/// True when that is `part`.
pub fn is_part(scope: &Scope, id: &ResourceId, part: Option<&str>) -> bool {
    let Some((name, kind)) = parts(id) else { return part.is_none() };
    let Some((label, of_kind)) = part.and_then(|part| part.rsplit_once('/')) else { return false };
    kind == of_kind && label == relative(name, &zone_name(scope))
}

/// The DNS name, which a CNAME takes for itself (RFC 1034 §3.6.2).
pub fn slot(id: &ResourceId) -> Option<Slot> {
    parts(id).map(|(name, kind)| Slot { name: name.into(), alone: kind == "CNAME" })
}

/// The guard word of a resource: deleting a zone and touching its delegation need consent.
pub fn guard_word(scope: &Scope, id: &ResourceId) -> Option<&'static str> {
    match parts(id) {
        None => Some("zone-delete"),
        Some(_) if is_apex(scope, id) => Some("apex-ns"),
        Some(_) => None,
    }
}

/// True for the SOA and the NS of the zone itself.
pub fn is_apex(scope: &Scope, id: &ResourceId) -> bool {
    let at = parts(id).filter(|(_, kind)| matches!(*kind, "NS" | "SOA"));
    at.is_some_and(|(name, _)| name.strip_suffix('.') == Some(&*scope.name))
}

/// Fields of canonical bytes for plans.
pub fn show(bytes: &[u8]) -> Vec<(Arc<str>, String)> {
    let Some(set) = RrSet::decode(bytes) else { return Vec::new() };
    let mut fields = vec![("ttl".into(), set.ttl.to_string())];
    fields.extend(extra_fields(set.extra).into_iter().map(|(path, value)| (path.into(), value)));
    fields.push(("values".into(), set.values.join(", ")));
    fields
}

/// What only some backends know, as paths (`cloudflare.proxied`, `route53.sets.blue.weight`) with their values.
fn extra_fields(extra: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    if let Ok(object) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(extra) {
        object.into_iter().for_each(|(key, value)| flatten(key, value, &mut fields));
    }
    fields
}

fn flatten(path: String, value: serde_json::Value, fields: &mut BTreeMap<String, String>) {
    match value {
        serde_json::Value::Object(object) => {
            object.into_iter().for_each(|(key, value)| flatten(format!("{path}.{key}"), value, fields));
        }
        serde_json::Value::String(text) => drop(fields.insert(path, text)),
        other => drop(fields.insert(path, other.to_string())),
    }
}

/// What is not finished of a zone that was written.
fn pending(zone: &[u8]) -> Option<String> {
    let rest = zone.strip_prefix(ZONE)?.strip_prefix(b"\n")?;
    Some(String::from_utf8_lossy(rest).into_owned())
}

/// How the RRset (or zone) `observed` differs from `desired`; none when it does not.
pub fn compare(desired: &[u8], observed: &[u8]) -> Option<Delta> {
    if desired == observed {
        return None;
    }
    let mut fields = Vec::new();
    match (RrSet::decode(desired), RrSet::decode(observed)) {
        (Some(desired), Some(observed)) => {
            let (before, after) = (extra_fields(observed.extra), extra_fields(desired.extra));
            let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            let mut sides = vec![("ttl", Some(observed.ttl.to_string()), Some(desired.ttl.to_string()))];
            sides.extend(
                paths
                    .into_iter()
                    .map(|path| (path.as_str(), before.get(path).cloned(), after.get(path).cloned())),
            );
            sides.push(("values", Some(observed.values.join(", ")), Some(desired.values.join(", "))));
            let changed = sides.into_iter().filter(|(_, before, after)| before != after);
            fields.extend(changed.map(|(path, before, after)| FieldChange::text(path, before, after)));
        }
        _ if desired == ZONE && pending(observed).is_some() => {
            fields.push(FieldChange::text(PENDING_FIELD, pending(observed), None));
        }
        _ => {
            let text = |bytes: &[u8]| Some(String::from_utf8_lossy(bytes).replace('\n', ": "));
            fields.push(FieldChange::text("state", text(observed), text(desired)));
        }
    }
    Some(Delta { fields, ..Delta::default() })
}

/// Collects what a server reports of one RRset and gives its canonical bytes.
#[derive(Debug, Default)]
pub struct Collector<'a> {
    values: Vec<Cow<'a, str>>,
}

impl<'a> Collector<'a> {
    /// Adds one record in presentation form.
    pub fn add(&mut self, kind: &str, content: Cow<'a, str>, is_disabled: bool) {
        let value = match content {
            Cow::Borrowed(content) => crate::rdata::observed(kind, content),
            Cow::Owned(content) => Cow::Owned(crate::rdata::observed(kind, &content).into_owned()),
        };
        // What cannot be parsed is carried as it is, but a line break would look like two values.
        let value = if value.contains('\n') { Cow::Owned(value.replace('\n', "\\010")) } else { value };
        self.values.push(if is_disabled { format!("{DISABLED}{value}").into() } else { value });
    }
    /// Adds one canonical value.
    pub(crate) fn add_canonical(&mut self, value: Cow<'a, str>) {
        self.values.push(value);
    }
    /// True when nothing was added.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
    /// The collected values, canonical.
    pub fn values(&self) -> &[Cow<'a, str>] {
        &self.values
    }
    /// Canonical bytes; the collector is empty afterwards.
    pub fn finish(&mut self, ttl: u32) -> Vec<u8> {
        let bytes = encode(ttl, &mut self.values);
        self.values.clear();
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_do_not_depend_on_order_and_repetition() {
        let a = encode(300, &mut vec!["b", "a", "b"]);
        assert_eq!(a, encode(300, &mut vec!["a", "b"]));
        assert_eq!(RrSet::decode(&a).unwrap(), RrSet { ttl: 300, extra: "", values: vec!["a", "b"] });
        assert_eq!(RrSet::decode(ZONE), None);
    }

    #[test]
    fn an_id_names_zone_or_set_even_with_slashes_in_the_name() {
        let scope = Scope::new("pdns", "0/25.2.0.192.in-addr.arpa");
        let set = id("1.0/25.2.0.192.in-addr.arpa.", "PTR");
        assert_eq!(parts(&set), Some(("1.0/25.2.0.192.in-addr.arpa.", "PTR")));
        assert_eq!(part(&scope, &set).as_deref(), Some("1/PTR"));
        assert_eq!(parts(&zone_id(&scope)), None);
        assert_eq!(part(&scope, &zone_id(&scope)), None);
        assert_eq!(part(&scope, &id("0/25.2.0.192.in-addr.arpa.", "NS")).as_deref(), Some("@/NS"));
    }

    #[test]
    fn a_part_is_known_without_being_made() {
        let scope = Scope::new("pdns", "example.com");
        // Names of RFC 2317 hold slashes; the last is of no zone of this name.
        let names = ["example.com.", "www.example.com.", "0/25.2.0.192.example.com.", "www.example.org."];
        let mut ids: Vec<ResourceId> =
            names.iter().flat_map(|name| [id(name, "A"), id(name, "AAAA")]).collect();
        ids.push(zone_id(&scope));
        for one in &ids {
            for other in &ids {
                let is_part = is_part(&scope, one, part(&scope, other).as_deref());
                assert_eq!(is_part, one == other, "{one:?} {other:?}");
            }
            assert!(!is_part(&scope, one, Some("www")), "{one:?}");
        }
    }

    #[test]
    fn the_guard_asks_for_zones_and_their_delegation() {
        let scope = Scope::new("pdns", "example.com");
        assert_eq!(guard_word(&scope, &zone_id(&scope)), Some("zone-delete"));
        assert_eq!(guard_word(&scope, &id("example.com.", "NS")), Some("apex-ns"));
        assert_eq!(guard_word(&scope, &id("sub.example.com.", "NS")), None);
        assert_eq!(guard_word(&scope, &id("example.com.", "A")), None);
    }

    #[test]
    fn a_comparison_names_only_the_fields_that_differ() {
        let delta = compare(b"300\n192.0.2.1", b"60\n192.0.2.1").unwrap();
        assert_eq!(delta.fields, [FieldChange::text("ttl", Some("60".into()), Some("300".into()))]);
        assert_eq!(compare(b"300\na", b"300\na"), None);
        let delta = compare(ZONE, b"zone\nreload").unwrap();
        assert_eq!(delta.fields, [FieldChange::text("pending", Some("reload".into()), None)]);
        assert!(delta.is_unfinished() && !compare(b"300\na", b"60\na").unwrap().is_unfinished());
    }

    #[test]
    fn what_a_backend_knows_besides_is_content_with_fields_of_its_own() {
        let extra = r#"{"cloudflare":{"proxied":true,"comment":"a b"}}"#;
        let bytes = encode_with(1, extra, &mut vec!["192.0.2.1"]);
        let set = RrSet::decode(&bytes).unwrap();
        assert_eq!((set.ttl, set.extra, &set.values[..]), (1, extra, &["192.0.2.1"][..]));
        let delta = compare(&bytes, b"300\n192.0.2.1").unwrap();
        let paths: Vec<&str> = delta.fields.iter().map(|field| &*field.path).collect();
        assert_eq!(paths, ["ttl", "cloudflare.comment", "cloudflare.proxied"]);
        assert_eq!(show(&bytes).len(), 4);
        assert_eq!(show(b"1 {bad\nx").len(), 2, "bytes that nobody wrote are no reason to fail");
    }

    #[test]
    fn a_disabled_record_differs_from_a_served_one() {
        let mut collector = Collector::default();
        collector.add("A", "192.0.2.1".into(), true);
        assert_eq!(collector.finish(60), b"60\n(disabled) 192.0.2.1");
        assert!(collector.is_empty());
    }
}
