//! What comes after what, as it is declared: edges between manifests, followed to their ends.
//!
//! Guarantees: each manifest is found once, and none by way of itself. It deliberately asks nobody whether anything is there.

use super::Desired;
use reconciled_provider::{ManifestKey, Spec};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    iter::successors,
    ptr, slice,
};

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

/// Manifests that wait for each other by what they came after at the revisions that something of them is kept at: each waits for
/// the next one, and the last for the first. Circles of what one revision declares were told when that was loaded.
pub fn circles(desired: &Desired) -> Vec<Vec<&ManifestKey>> {
    let mut found: Vec<Vec<&ManifestKey>> = Vec::new();
    let kept = desired.pinned.values().flat_map(|pinned| pinned.after.keys());
    let kept = kept.filter_map(|index| desired.manifests.get(*index as usize));
    let kept: BTreeSet<&ManifestKey> = kept.map(|manifest| &manifest.key).collect();
    if kept.is_empty() {
        return found;
    }
    let next = waits(desired);
    for first in kept {
        if !found.iter().flatten().any(|known| *known == first) {
            found.extend(way_back(&next, first));
        }
    }
    found
}

/// What something of a manifest waits for.
type Waits<'d> = BTreeMap<&'d ManifestKey, Vec<&'d [ManifestKey]>>;

/// What manifests wait for, each with all that is declared by it.
fn waits(desired: &Desired) -> Waits<'_> {
    let mut all = Waits::new();
    for resource in desired.scopes.values().flat_map(|list| list.iter()) {
        let (Some(manifest), Some(after)) =
            (desired.manifests.get(resource.origin.manifest as usize), desired.after(resource))
        else {
            continue;
        };
        let lists = all.entry(&manifest.key).or_default();
        // Of a manifest with many resources nearly all share one list.
        if !after.is_empty() && !lists.iter().any(|list| ptr::eq(*list, &**after)) {
            lists.push(after);
        }
    }
    // What nobody has put out yet is waited for whatever comes after what by now.
    for (scope, id) in desired.pinned.keys() {
        for resource in desired.declaring(scope, id) {
            if let Spec::Waiting { on, .. } = &resource.spec {
                let targets = on.iter().map(|reference| slice::from_ref(&reference.target));
                all.entry(&desired.manifest(resource.origin).key).or_default().extend(targets);
            }
        }
    }
    all
}

/// A shortest way from `first` to itself.
fn way_back<'d>(next: &Waits<'d>, first: &'d ManifestKey) -> Option<Vec<&'d ManifestKey>> {
    let mut before: BTreeMap<&ManifestKey, &'d ManifestKey> = BTreeMap::new();
    let mut open = vec![first];
    while !open.is_empty() {
        let mut further = Vec::new();
        for key in open {
            for on in next.get(key).into_iter().flatten().copied().flatten() {
                if on == first {
                    let mut way: Vec<_> = successors(Some(key), |key| before.get(*key).copied()).collect();
                    way.reverse();
                    return Some(way);
                }
                if let Entry::Vacant(entry) = before.entry(on) {
                    entry.insert(key);
                    further.push(on);
                }
            }
        }
        open = further;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::{ManifestMeta, Pinned};
    use reconciled_provider::{Origin, PolicyId, Reference, Resource, ResourceId, Scope};
    use std::sync::Arc;

    fn key(name: &str) -> ManifestKey {
        ManifestKey::new("s", "test", "Thing", "", name)
    }

    fn manifest(name: &str, after: &[ManifestKey]) -> ManifestMeta {
        ManifestMeta::of_test(key(name), after.into())
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

    /// The circles where `a`, `b` and `c` come after what `newest` says, and what of `then` each comes after where it is kept as it
    /// was; a capital letter is one whose output is waited for.
    fn check_circles(newest: [&str; 3], then: [Option<&str>; 3], expect: &[&str]) {
        let keys = |letters: &str| -> Vec<ManifestKey> {
            letters.chars().map(|letter| key(&letter.to_lowercase().to_string())).collect()
        };
        let mut desired = Desired::default();
        for (index, (name, after)) in ["a", "b", "c"].into_iter().zip(newest).enumerate() {
            let (scope, id) = (Scope::new("ref", name), ResourceId::from(name));
            let mut spec = Spec::known(b"x".to_vec());
            if let Some(then) = then[index] {
                let (lacking, after): (Vec<char>, Vec<char>) = then.chars().partition(|c| c.is_uppercase());
                let [lacking, after] = [lacking, after].map(|all| keys(&all.iter().collect::<String>()));
                let on = lacking.into_iter().map(|target| Reference { target, path: "status.id".into() });
                let on: Vec<Reference> = on.collect();
                if !on.is_empty() {
                    spec = Spec::waiting(spec.template(), on);
                }
                let after = BTreeMap::from([(index as u32, Arc::from(after))]);
                let pinned = Pinned { label: "then".into(), newest: Some(index as u32), after };
                desired.pinned.insert((scope.clone(), id.clone()), pinned);
            }
            let resource = Resource::new(
                id,
                Arc::new(scope.clone()),
                spec,
                Origin { manifest: index as u32, line: 1 },
                PolicyId::default(),
            );
            desired.manifests.push(manifest(name, &keys(after)));
            desired.scopes.insert(scope, Arc::new(vec![resource]));
        }
        let found = circles(&desired);
        let found: Vec<String> =
            found.iter().map(|circle| circle.iter().map(|key| key.name()).collect()).collect();
        assert_eq!(found, expect, "{newest:?} {then:?}");
    }

    #[test]
    fn what_is_kept_at_several_revisions_may_wait_for_itself() {
        // Two revisions, each of which was well.
        check_circles(["", "", ""], [Some("b"), Some("a"), None], &["ab"]);
        check_circles(["", "", ""], [Some("b"), Some(""), Some("b")], &[]);
        // By way of what the newest one declares.
        check_circles(["", "c", ""], [Some("b"), None, Some("a")], &["abc"]);
        // What is kept otherwise waits no more for what the newest one says.
        check_circles(["", "c", ""], [Some("b"), Some(""), Some("a")], &[]);
        check_circles(["", "", ""], [Some("B"), Some("A"), None], &["ab"]);
        check_circles(["b", "", ""], [None, Some(""), None], &[]);
    }
}
