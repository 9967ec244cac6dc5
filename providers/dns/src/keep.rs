//! What is written of a record of which something is ignored: that stays as it was seen.
//!
//! Guarantees: pure; what nobody ignores is as declared. It deliberately leaves zones alone: nothing of one could be ignored.

use crate::record::{self, RrSet};
use reconciled_provider::is_ignored;
use serde_json::{Map, Value};
use std::{collections::BTreeSet, sync::Arc};

/// The RRset `desired` with what is at `ignored` paths as it is in `observed`.
///
/// All values of a set have one TTL, comment and so on: one that is kept and had others gets those of the set, and a comparison
/// tells so.
pub(crate) fn keep(desired: &[u8], observed: &[u8], ignored: &[Arc<str>]) -> Vec<u8> {
    let (Some(declared), Some(seen)) = (RrSet::decode(desired), RrSet::decode(observed)) else {
        return desired.to_vec();
    };
    let ttl = if is_ignored(ignored, "ttl") { seen.ttl } else { declared.ttl };
    let mut values = match is_ignored(ignored, "values") {
        true => seen.values.into_iter().map(record::without_fields).collect(),
        false => declared.values,
    };
    record::encode_with(ttl, &extra(declared.extra, seen.extra, ignored), &mut values)
}

/// What only some backends know, in the very text of the side that it is equal to: another text would be another content.
fn extra(declared: &str, seen: &str, ignored: &[Arc<str>]) -> String {
    let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
    let (wanted, there) = (read(declared), read(seen));
    let kept = merged(wanted.clone(), &there, "", ignored);
    match kept {
        kept if kept == wanted => declared.to_owned(),
        kept if kept == there => seen.to_owned(),
        kept if kept.is_empty() => String::new(),
        kept => Value::Object(kept).to_string(),
    }
}

fn merged(
    mut wanted: Map<String, Value>,
    seen: &Map<String, Value>,
    at: &str,
    ignored: &[Arc<str>],
) -> Map<String, Value> {
    let object = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
    let keys: BTreeSet<String> = wanted.keys().chain(seen.keys()).cloned().collect();
    for key in keys {
        let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        let (ours, theirs) = (wanted.get(&key), seen.get(&key));
        let kept = match (object(ours), object(theirs)) {
            _ if is_ignored(ignored, &path) => theirs.cloned(),
            (None, None) => ours.cloned(),
            // Something below it may be ignored, where it is an object on either side.
            (mine, _) if ours.is_none() || mine.is_some() => {
                let below =
                    merged(mine.unwrap_or_default(), &object(theirs).unwrap_or_default(), &path, ignored);
                (!below.is_empty() || ours.is_some()).then_some(Value::Object(below))
            }
            _ => ours.cloned(),
        };
        match kept {
            Some(kept) => wanted.insert(key, kept),
            None => wanted.remove(&key),
        };
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(declared: &str, seen: &str, ignored: &[&str], kept: &str) {
        let ignored: Vec<Arc<str>> = ignored.iter().map(|path| (*path).into()).collect();
        let found = keep(declared.as_bytes(), seen.as_bytes(), &ignored);
        assert_eq!(String::from_utf8(found).unwrap(), kept);
    }

    #[test]
    fn what_is_ignored_is_as_seen_and_the_rest_as_declared() {
        check("200\nx", "100\nby-hand", &["values"], "200\nby-hand");
        check("200\nx", "100\nby-hand", &["ttl"], "100\nx");
        check("200\nx", "100\nby-hand", &["ttl", "values"], "100\nby-hand");
        check("200\nx", "100\nby-hand", &["*"], "100\nby-hand");
        check("200\nx", "100\nby-hand", &["val"], "200\nx");
    }

    #[test]
    fn a_value_that_is_kept_has_the_ttl_of_its_set_and_stays_switched_off() {
        check("200\nx", "100\n(disabled) a\n(ttl 60) b", &["values"], "200\n(disabled) a\nb");
        check("300\na", "1\n(proxied) b\n(ttl 300) (other comment) a", &["values"], "300\na\nb");
    }

    #[test]
    fn a_field_that_one_backend_knows_is_kept_by_its_path() {
        let (declared, seen) = (
            r#"300 {"cloudflare":{"comment":"a","proxied":false}}"#,
            r#"1 {"cloudflare":{"comment":"b","proxied":true}}"#,
        );
        let kept = r#"300 {"cloudflare":{"comment":"a","proxied":true}}"#;
        let of = |head: &str| format!("{head}\nx");
        check(&of(declared), &of(seen), &["cloudflare.proxied"], &of(kept));
        check(
            &of(declared),
            &of("300"),
            &["cloudflare.proxied"],
            &of(r#"300 {"cloudflare":{"comment":"a"}}"#),
        );
        check(&of("300"), &of(seen), &["cloudflare.proxied"], &of(r#"300 {"cloudflare":{"proxied":true}}"#));
        check(&of(declared), &of("300"), &["cloudflare"], &of("300"));
        check(&of(declared), &of(seen), &["values"], &of(declared));
        let other_order = r#"1 {"cloudflare":{"proxied":true,"comment":"b"}}"#;
        check(&of(declared), &of(other_order), &["*"], &of(other_order));
    }

    #[test]
    fn of_a_zone_nothing_is_kept() {
        check("zone", "zone\npending", &["*"], "zone");
    }
}
