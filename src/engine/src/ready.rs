//! Which manifests are ready, and which are still needed: what edges between manifests wait for.

mod applied;
mod former;

use crate::{
    desired::{Desired, ManifestMeta, following},
    health,
    store::{Row, RowState, ScopeMemory},
};
use reconciled_provider::{ManifestKey, Resource, Scope};
use std::collections::{BTreeMap, BTreeSet};

use applied::is_as_declared;
pub(crate) use applied::is_of_declaration;
pub use former::{hash_of_outputs, outputs_of};

/// What is known of edges before any scope is looked at.
#[derive(Debug, Default)]
pub struct Facts {
    /// Manifests whose every resource is settled as declared and healthy enough to be built on, with outputs that the desired state
    /// was read with.
    pub ready: BTreeSet<ManifestKey>,
    /// The same of what was last applied, whatever is declared by now: a commit that is held, or fails, is no reason to leave
    /// broken what was built on the one before.
    pub there: BTreeSet<ManifestKey>,
    /// What something stands on as it was before, each with one that does: it was not written since, or is declared no more
    /// and still there.
    pub stood_on: BTreeMap<ManifestKey, ManifestKey>,
    /// Who depends on a manifest, by the scope of the dependant: one of each.
    needed: BTreeMap<ManifestKey, BTreeMap<Scope, ManifestKey>>,
}

impl Facts {
    /// Remembers that what `row` tracks depends on `manifest`.
    pub(crate) fn need(&mut self, manifest: ManifestKey, row: &Row) {
        let scopes = self.needed.entry(manifest).or_default();
        scopes.entry(Scope::clone(&row.scope)).or_insert_with(|| row.manifest.clone());
    }
    /// Takes those out that are only read and to be read later: what they tell by then is what others wait for.
    pub(crate) fn put_off(&mut self, desired: &Desired, only_reads: impl Fn(&Resource) -> bool) {
        let of_manifest = |resource: &Resource| desired.manifests.get(resource.origin.manifest as usize);
        let all = desired.scopes.values().flat_map(|resources| resources.iter());
        let mut reads: Vec<&ManifestMeta> = all
            .filter(|one| of_manifest(one).is_some_and(|m| !m.after.is_empty()) && only_reads(one))
            .filter_map(of_manifest)
            .collect();
        // One of them may wait for another.
        loop {
            let (late, others): (Vec<_>, Vec<_>) =
                reads.into_iter().partition(|m| !m.after.iter().all(|key| self.ready.contains(key)));
            // All of them, and not just up to the first that was.
            if late.iter().filter(|m| self.ready.remove(&m.key)).count() == 0 {
                return;
            }
            reads = others;
        }
    }
    /// Takes those out that put out something else by now than the desired state was read with, and what comes after them:
    /// neither they nor who refers to them are written with what is no more.
    ///
    /// The race: one run of passes replaces what others refer to, and the desired state is read again only after it.
    fn unsettle(&mut self, desired: &Desired, moved: &BTreeSet<&ManifestKey>) {
        if moved.is_empty() {
            return;
        }
        let following = following(desired, moved.iter().copied());
        self.ready.retain(|key| !moved.contains(key) && !following.contains_key(key));
        self.there.retain(|key| !moved.contains(key));
    }
    /// Those of the manifests of `rows`, which are of `scope`, that resources of other scopes still depend on, each with one that
    /// does. Within one scope the plan says so, which knows what of it stays.
    pub fn needed_outside(&self, scope: &Scope, rows: &[Row]) -> BTreeMap<ManifestKey, ManifestKey> {
        let mut found = BTreeMap::new();
        if self.needed.is_empty() {
            return found;
        }
        // Of a manifest with many resources the rows often follow each other.
        for run in rows.chunk_by(|a, b| a.manifest == b.manifest) {
            let key = &run[0].manifest;
            let by = self.needed.get(key).and_then(|by| by.iter().find(|(other, _)| *other != scope));
            if let Some((_, by)) = by {
                found.insert(key.clone(), by.clone());
            }
        }
        found
    }
}

/// Gathers the facts; costs nothing where no manifest depends on another.
pub fn facts(desired: &Desired, memories: &BTreeMap<Scope, ScopeMemory>) -> Facts {
    let mut facts = Facts::default();
    for memory in memories.values() {
        for row in memory.rows.iter() {
            for key in row.tracked.after.iter() {
                facts.need(key.clone(), row);
            }
        }
    }
    let moved = former::moved(desired, memories);
    facts.stood_on = former::stood_on(desired, memories, &moved);
    // What is kept at an earlier revision may come after what nothing comes after by now.
    let pinned = desired.pinned.values().flat_map(|pinned| pinned.after.values());
    let after = desired.manifests.iter().map(|manifest| &manifest.after).chain(pinned);
    let asked: BTreeSet<&ManifestKey> = after.flat_map(|after| after.iter()).collect();
    if asked.is_empty() {
        return facts;
    }
    let mut missing: BTreeMap<u32, [usize; 2]> = BTreeMap::new();
    for (scope, resources) in &desired.scopes {
        let rows = memories.get(scope).map_or(&[][..], |m| &m.rows);
        let unready = memories.get(scope).map(health::unready).unwrap_or_default();
        for resource in &**resources {
            let row = rows.binary_search_by(|r| r.tracked.id.cmp(&resource.id)).ok().map(|i| &rows[i]);
            let settled = row.filter(|row| row.state == RowState::Settled && !unready.contains(&resource.id));
            let [declared, there] = missing.entry(resource.origin.manifest).or_default();
            *declared += usize::from(!settled.is_some_and(|row| is_as_declared(desired, resource, row)));
            *there += usize::from(settled.is_none());
        }
    }
    for (index, manifest) in desired.manifests.iter().enumerate() {
        if !asked.contains(&manifest.key) {
            continue;
        }
        let [declared, there] = missing.get(&(index as u32)).copied().unwrap_or_default();
        if declared == 0 {
            facts.ready.insert(manifest.key.clone());
        }
        if there == 0 {
            facts.there.insert(manifest.key.clone());
        }
    }
    facts.unsettle(desired, &moved);
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        desired::{ManifestMeta, Pinned, PutOut},
        health::HealthState,
        store::Ailment,
    };
    use reconciled_provider::{Origin, PolicyId, Resource, ResourceId, Sealed, Spec};
    use serde_json::{Map, Value as Json};
    use std::{sync::Arc, time::Duration};

    fn key(name: &str) -> ManifestKey {
        ManifestKey::new("s", "test", "Thing", "", name)
    }

    fn manifest(name: &str, after: &[ManifestKey]) -> ManifestMeta {
        ManifestMeta::of_test(key(name), after.into())
    }

    /// Whether the manifest `a`, as declared and with this health, is ready.
    fn check(health: Option<HealthState>) -> bool {
        let scope = Scope::new("ref", "one");
        let spec = Spec::known(b"x".to_vec());
        let row = Row::settled(scope.clone(), "a", key("a")).with(|row| {
            row.tracked.applied = spec.hash().unwrap();
            row.template = spec.template();
        });
        let resource = Resource::new(
            "a".into(),
            Arc::new(scope.clone()),
            spec,
            Origin { manifest: 0, line: 1 },
            PolicyId::default(),
        );
        let ailment = |state| Ailment {
            id: Some(ResourceId::from("a")),
            state,
            message: "".into(),
            since: Duration::ZERO,
        };
        let desired = Desired {
            manifests: vec![manifest("a", &[]), manifest("b", &[key("a")])],
            scopes: [(scope.clone(), Arc::new(vec![resource]))].into(),
            ..Desired::default()
        };
        let memory = ScopeMemory {
            rows: vec![row].into(),
            ailments: health.map(ailment).into_iter().collect(),
            ..ScopeMemory::default()
        };
        facts(&desired, &[(scope, memory)].into()).ready.contains(&key("a"))
    }

    #[test]
    fn what_only_something_that_is_rolled_back_comes_after_is_asked_for() {
        let after = |keys: &[ManifestKey]| {
            let after = BTreeMap::from([(1, Arc::from(keys))]);
            let pinned = Pinned { label: "then".into(), newest: Some(1), after };
            let place = (Scope::new("ref", "one"), ResourceId::from("b"));
            let desired = Desired {
                manifests: vec![manifest("a", &[]), manifest("b", &[])],
                pinned: BTreeMap::from([(place, pinned)]),
                ..Desired::default()
            };
            facts(&desired, &BTreeMap::new()).ready
        };
        assert_eq!(after(&[key("a")]), BTreeSet::from([key("a")]));
        assert_eq!(after(&[]), BTreeSet::new());
    }

    #[test]
    fn what_is_declared_and_does_not_do_its_work_is_waited_for() {
        assert!(check(None));
        for (state, is_ready) in [
            (HealthState::Progressing, false),
            (HealthState::Missing, false),
            (HealthState::Degraded, false),
            (HealthState::Suspended, true),
            (HealthState::Unknown, true),
        ] {
            assert_eq!(check(Some(state)), is_ready, "{state:?}");
        }
    }

    #[test]
    fn what_puts_out_something_else_than_was_read_is_waited_for_and_so_is_what_comes_after_it() {
        // `c` after `b`, `b` after `a`, each as it is declared.
        let names = ["a", "b", "c"];
        let scope = |name: &str| Scope::new("cloud", name);
        let after = |index: usize| index.checked_sub(1).map(|before| key(names[before]));
        let resource = |index: usize| {
            Resource::new(
                names[index].into(),
                Arc::new(scope(names[index])),
                Spec::known(b"x".to_vec()),
                Origin { manifest: index as u32, line: 1 },
                PolicyId::default(),
            )
        };
        let memory = |name: &str| {
            let spec = Spec::known(b"x".to_vec());
            let row = Row::settled(scope(name), name, key(name)).with(|row| {
                row.tracked.applied = spec.hash().unwrap();
                row.tracked.outputs = Sealed::new(format!(r#"{{"id": "the {name} of now"}}"#));
                row.template = spec.template();
            });
            (scope(name), ScopeMemory { rows: vec![row].into(), ..ScopeMemory::default() })
        };
        let check = |read: &str, ready: &[&str], there: &[&str]| {
            let read = Map::from_iter([("id".to_string(), Json::from(read))]);
            let read = PutOut { hash: hash_of_outputs(&read), declared_in: [scope("a")].into() };
            let manifests = names.iter().enumerate();
            let desired = Desired {
                manifests: manifests.map(|(index, name)| manifest(name, after(index).as_slice())).collect(),
                scopes: (0..3).map(|index| (scope(names[index]), Arc::new(vec![resource(index)]))).collect(),
                outputs: [(key("a"), read)].into(),
                ..Desired::default()
            };
            let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect::<BTreeSet<_>>();
            let facts = facts(&desired, &names.iter().map(|name| memory(name)).collect());
            assert_eq!((facts.ready, facts.there), (keys(ready), keys(there)));
        };
        check("the a of now", &["a", "b"], &["a", "b"]);
        // What was built on `b` may be mended: that is as it was.
        check("the one before", &[], &["b"]);
    }

    #[test]
    fn what_is_only_read_waits_for_what_is_read_before_it() {
        // `c` is read after `b`, which is read after `a`; `d` is made after `c`.
        let names = ["a", "b", "c", "d"];
        let after = |index: usize| index.checked_sub(1).map(|before| key(names[before]));
        let resource = |index: usize| {
            Resource::new(
                names[index].into(),
                Arc::new(Scope::new("ref", names[index])),
                Spec::known(b"x".to_vec()),
                Origin { manifest: index as u32, line: 1 },
                PolicyId::default(),
            )
        };
        let manifests = names.iter().enumerate();
        let desired = Desired {
            manifests: manifests.map(|(index, name)| manifest(name, after(index).as_slice())).collect(),
            scopes: (0..4).map(|i| (Scope::new("ref", names[i]), Arc::new(vec![resource(i)]))).collect(),
            ..Desired::default()
        };
        let check = |ready: &[&str], expect: &[&str]| {
            let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect::<BTreeSet<_>>();
            let mut facts = Facts { ready: keys(ready), ..Facts::default() };
            facts.put_off(&desired, |resource| ["b", "c"].contains(&&*resource.id.0));
            assert_eq!(facts.ready, keys(expect), "{ready:?}");
        };
        check(&["a", "b", "c", "d"], &["a", "b", "c", "d"]);
        check(&["b", "c", "d"], &["d"]);
        check(&["a", "c"], &["a"]);
    }
}
