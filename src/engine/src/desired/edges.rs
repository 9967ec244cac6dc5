//! What comes after what, as it is declared: edges between manifests, followed to their ends.
//!
//! Guarantees: each manifest is found once, and none by way of itself. It deliberately asks nobody whether anything is there.

use super::Desired;
use reconciled_provider::ManifestKey;
use std::collections::BTreeMap;

/// The manifests that are declared to come after one of `first`, also by way of others, each with that one.
pub(crate) fn following<'d>(
    desired: &'d Desired,
    first: impl IntoIterator<Item = &'d ManifestKey>,
) -> By<'d> {
    let mut next: BTreeMap<&ManifestKey, Vec<&ManifestKey>> = BTreeMap::new();
    for manifest in &desired.manifests {
        manifest.after.iter().for_each(|on| next.entry(on).or_default().push(&manifest.key));
    }
    reached(&next, first)
}

/// The manifests that one of `last` is declared to come after, also by way of others, each with that one.
pub(crate) fn preceding<'d>(desired: &'d Desired, last: impl IntoIterator<Item = &'d ManifestKey>) -> By<'d> {
    let mut next: BTreeMap<&ManifestKey, Vec<&ManifestKey>> = BTreeMap::new();
    for manifest in desired.manifests.iter().filter(|manifest| !manifest.after.is_empty()) {
        next.insert(&manifest.key, manifest.after.iter().collect());
    }
    reached(&next, last)
}

/// Manifests, each with the one because of which it is among them.
type By<'d> = BTreeMap<&'d ManifestKey, &'d ManifestKey>;

/// What edges lead to from `first`: each with the first of these that leads there.
fn reached<'d>(
    next: &BTreeMap<&'d ManifestKey, Vec<&'d ManifestKey>>,
    first: impl IntoIterator<Item = &'d ManifestKey>,
) -> By<'d> {
    let mut found = BTreeMap::new();
    for first in first {
        let mut open = vec![first];
        while let Some(on) = open.pop() {
            for key in next.get(on).into_iter().flatten().copied() {
                if !found.contains_key(key) {
                    found.insert(key, first);
                    open.push(key);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::ManifestMeta;
    use reconciled_provider::Hash;

    fn key(name: &str) -> ManifestKey {
        ManifestKey::new("s", "test", "Thing", "", name)
    }

    fn manifest(name: &str, after: &[ManifestKey]) -> ManifestMeta {
        ManifestMeta {
            key: key(name),
            address: format!("Thing/{name}").parse().unwrap(),
            file: "a.yaml".into(),
            line: 1,
            content: Hash::default(),
            labels: BTreeMap::new(),
            after: after.into(),
            moved_from: None,
        }
    }

    #[test]
    fn what_comes_before_and_after_is_found_by_way_of_others_and_nothing_by_way_of_itself() {
        // `c` after `b`, `b` after `a`; `d` after `a`.
        let manifests = [
            manifest("a", &[]),
            manifest("b", &[key("a")]),
            manifest("c", &[key("b")]),
            manifest("d", &[key("a")]),
        ];
        let desired = Desired { manifests: manifests.into(), ..Desired::default() };
        let check = |found: By<'_>, expect: &[(&str, &str)]| {
            let found: Vec<(&str, &str)> = found.iter().map(|(key, by)| (key.name(), by.name())).collect();
            assert_eq!(found, expect);
        };
        check(following(&desired, [&key("a")]), &[("b", "a"), ("c", "a"), ("d", "a")]);
        check(following(&desired, [&key("b"), &key("c")]), &[("c", "b")]);
        check(preceding(&desired, [&key("b"), &key("c")]), &[("a", "b"), ("b", "c")]);
        check(preceding(&desired, [&key("a")]), &[]);
    }
}
