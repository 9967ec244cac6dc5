//! Which scopes a new desired state touches.
//!
//! Guarantees: a scope that is left out plans the same as before, reasons and bookkeeping included, unless it waits for another
//! one: the scheduler wakes those whatever changed. Lines may have moved: they are shown, never compared.

use reconciled_engine::{Desired, ManifestMeta};
use reconciled_provider::{Resource, Scope};
use std::collections::BTreeSet;

/// The scopes in which `after` differs from `before`. None when a source changed what it may prune: then any may, also
/// one that only the inventory knows.
pub(crate) fn changed(before: &Desired, after: &Desired) -> Option<BTreeSet<Scope>> {
    let names = || before.scopes.keys().chain(after.scopes.keys()).cloned();
    if !same_sources(before, after) {
        return None;
    }
    let differs = |scope: &Scope| {
        let (old, new) = (before.in_scope(scope), after.in_scope(scope));
        // One and the same list: only the manifests of it can have changed.
        let is_one = std::ptr::eq(old, new);
        before.exclusive.contains_key(scope) != after.exclusive.contains_key(scope)
            || before.ignored.get(scope) != after.ignored.get(scope)
            || old.len() != new.len()
            || match is_one {
                true => !old
                    .chunk_by(|a, b| a.origin.manifest == b.origin.manifest)
                    .all(|run| same_manifest(before.manifest(run[0].origin), after.manifest(run[0].origin))),
                false => !old.iter().zip(new).all(|(old, new)| same(before, old, after, new)),
            }
    };
    Some(names().filter(differs).collect())
}

fn same_sources(before: &Desired, after: &Desired) -> bool {
    before.set_aside == after.set_aside
        && before.shared_by_newest == after.shared_by_newest
        && before.sources.len() == after.sources.len()
        && before.sources.iter().zip(&after.sources).all(|((a, old), (b, new))| {
            a == b
                && old.prunes == new.prunes
                && old.awaits.is_some() == new.awaits.is_some()
                && old.newest.is_some() == new.newest.is_some()
                && old.broken == new.broken
                && old.overlaid == new.overlaid
                && old.unassigned == new.unassigned
                && old.unassigned_in == new.unassigned_in
                && old.unselected == new.unselected
                && old.unselected_in == new.unselected_in
                && old.unselected_parts == new.unselected_parts
                && old.path_changed == new.path_changed
                && old.needs_consent == new.needs_consent
                && old.drift == new.drift
        })
}

fn same(before: &Desired, old: &Resource, after: &Desired, new: &Resource) -> bool {
    old.id == new.id
        && old.spec == new.spec
        && before.policies.get(old.policy) == after.policies.get(new.policy)
        && same_manifest(before.manifest(old.origin), after.manifest(new.origin))
        // Those of a manifest were compared.
        && (before.pinned.is_empty() && after.pinned.is_empty() || before.after(old) == after.after(new))
}

fn same_manifest(was: &ManifestMeta, is: &ManifestMeta) -> bool {
    was.key == is.key
        && was.file == is.file
        && was.content == is.content
        && was.after == is.after
        && was.moved_from == is.moved_from
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_engine::SourceState;
    use std::sync::Arc;

    fn of(sources: &[(&str, bool)]) -> Desired {
        let state = |prunes: &bool| SourceState { prunes: *prunes, ..SourceState::default() };
        let sources = sources.iter().map(|(name, prunes)| ((*name).into(), state(prunes)));
        let scopes = [(Scope::new("pdns", "a"), Arc::default())].into();
        Desired { sources: sources.collect(), scopes, ..Desired::default() }
    }

    #[test]
    fn a_source_that_may_prune_again_may_mean_any_scope() {
        let (frozen, whole) = (of(&[("infra", false)]), of(&[("infra", true)]));
        assert_eq!(changed(&frozen, &whole), None);
        assert_eq!(changed(&whole, &whole), Some(BTreeSet::new()));
        // What of a held change is frozen counts with it while a newer revision is not in force.
        let behind = |label: &str| {
            let mut behind = of(&[("infra", true)]);
            behind.sources.values_mut().for_each(|source| source.newest = Some(label.into()));
            behind
        };
        assert_eq!(changed(&behind("c0ffee1"), &whole), None);
        assert_eq!(changed(&behind("c0ffee1"), &behind("c0ffee2")), Some(BTreeSet::new()));
        let mut ahead = of(&[("infra", true)]);
        ahead.sources.values_mut().for_each(|source| source.awaits = Some("apps".into()));
        assert_eq!(changed(&ahead, &whole), None);
        let less = Desired { scopes: Default::default(), ..of(&[("infra", true)]) };
        assert_eq!(changed(&whole, &less), Some(BTreeSet::new()), "an empty scope is none");
        let exclusive =
            Desired { exclusive: [(Scope::new("pdns", "a"), vec![0])].into(), ..of(&[("infra", true)]) };
        assert_eq!(changed(&whole, &exclusive), Some([Scope::new("pdns", "a")].into()));
    }
}
