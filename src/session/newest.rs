//! Revisions that are known and not in force, beside the ones that are looked at in their place.
//!
//! Guarantees: what the newest known revision of a source declares is not deleted, nor are its values in what is shared, whichever
//! way it came about that it is not looked at: it is refused for its errors, the remote does not answer, or a daemon begins. So
//! `plan`, `apply` and the daemon say and do the same. A revision that nobody has to believe, as one without a signature or of a
//! rewound branch, counts for nothing. It deliberately brings nothing into force: the remote may have taken back what it offered.

use super::{ailing::Entries, open::Session, outlook::Outlook, sources::Snapshot};
use crate::{failure::Failure, manifest::Loaded};
use reconciled_engine::{Desired, SourceState, Store};
use reconciled_provider::{ManifestKey, Resource, ResourceId, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Session {
    /// Keeps in `outlook` what the newest revisions declare that are not looked at. Of the `refused` it is known already: they are
    /// what was read first.
    pub(super) async fn keep_what_is_newer(
        &self,
        outlook: &mut Outlook,
        refused: &BTreeSet<Arc<str>>,
        entries: &Entries,
        store: &dyn Store,
    ) -> Result<(), Failure> {
        let is_unread = |one: &Snapshot| one.newest.is_some() && !refused.contains(&one.name);
        if outlook.snapshots.iter().any(is_unread) {
            let (mut looked_at, mut newest) = (BTreeMap::new(), Vec::new());
            for mut snapshot in std::mem::take(&mut outlook.snapshots) {
                match snapshot.newest.take() {
                    Some(offered) => {
                        newest.push(*offered);
                        looked_at.insert(snapshot.name.clone(), snapshot);
                    }
                    None => newest.push(snapshot),
                }
            }
            let (newest, loaded, _) = self.read(newest, entries, store).await?;
            let meant: BTreeSet<Arc<str>> = looked_at.keys().cloned().collect();
            set_aside(&mut outlook.desired, &loaded, &meant);
            for offered in newest {
                outlook.snapshots.push(match looked_at.remove(&offered.name) {
                    Some(snapshot) => Snapshot { newest: Some(Box::new(offered)), ..snapshot },
                    None => offered,
                });
            }
        }
        for snapshot in &outlook.snapshots {
            if let (Some(newest), Some(state)) =
                (&snapshot.newest, outlook.desired.sources.get_mut(&snapshot.name))
            {
                state.newest = Some(newest.label.clone());
            }
        }
        Ok(())
    }
}

/// Sets aside in `desired`, which was read from other revisions of `sources`, what they declare in `newest`.
pub(super) fn set_aside(desired: &mut Desired, newest: &Loaded, sources: &BTreeSet<Arc<str>>) {
    let Loaded { desired: then, withheld, .. } = newest;
    let in_error = then.set_aside.iter().flat_map(move |(place, by)| {
        let by = by.iter().filter_map(move |source| sources.get(source));
        by.map(move |source| (place.clone(), source))
    });
    let declared = then.scopes.values().flat_map(|list| list.iter()).filter_map(|resource| {
        let source = sources.get(then.manifest(resource.origin).key.source())?;
        Some((((*resource.scope).clone(), resource.id.clone()), source))
    });
    for (place, source) in in_error.chain(declared) {
        // What is refused says nothing about what is in force: what that declares, a rollback may take away.
        if !withheld.contains(source) || !declares(desired, source, &place) {
            desired.set_aside.entry(place).or_default().insert(source.clone());
        }
    }
    for ((scope, id), key) in shared(newest, sources) {
        let declaring = desired.declaring(&scope, &id);
        if !declaring.iter().any(|one| desired.manifest(one.origin).key == key) {
            desired.shared_by_newest.entry((scope, id)).or_default().insert(key);
        }
    }
    let Desired { manifests, sources: states, .. } = desired;
    let declared = manifests.iter().filter(|_| !withheld.is_empty());
    let declared: BTreeSet<&ManifestKey> = declared.map(|manifest| &manifest.key).collect();
    for source in sources {
        let (Some(state), offered) = (states.get_mut(source), then.sources.get(source)) else { continue };
        let is_refused = withheld.contains(source);
        let counts = |key: &ManifestKey| !is_refused || !declared.contains(key);
        if let Some(offered) = offered {
            // What it has for other hosts has no resources here, and is declared all the same.
            state.unassigned.extend(offered.unassigned.iter().filter(|key| counts(key)).cloned());
            let inside = offered.unassigned_in.iter().filter(|(key, _)| counts(key));
            state.unassigned_in.extend(inside.cloned());
        }
        // What comes into force in part deletes nothing; what is refused leaves that to what is in force.
        if !is_refused && !offered.is_some_and(SourceState::is_whole) {
            state.prunes = false;
        }
    }
}

/// What manifests of `sources` share in a revision that was read, also those of them that do not count.
fn shared(newest: &Loaded, sources: &BTreeSet<Arc<str>>) -> Vec<((Scope, ResourceId), ManifestKey)> {
    let then = &newest.desired;
    let shares = |one: &&Resource| then.policies.get(one.policy).merge;
    let counts = then.scopes.values().flat_map(|list| list.iter()).filter(shares).map(|one| {
        let place = ((*one.scope).clone(), one.id.clone());
        (place, then.manifest(one.origin).key.clone())
    });
    let aside = newest.shared_aside.iter();
    let aside = aside.flat_map(|(place, keys)| keys.iter().map(move |key| (place.clone(), key.clone())));
    counts.chain(aside).filter(|(_, key)| sources.contains(key.source())).collect()
}

fn declares(desired: &Desired, source: &str, (scope, id): &(Scope, ResourceId)) -> bool {
    desired.declaring(scope, id).iter().any(|one| desired.manifest(one.origin).key.source() == source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_engine::ManifestMeta;
    use reconciled_provider::{Address, Hash, Origin, Policies, Policy, Spec};

    fn key(name: &str) -> ManifestKey {
        ManifestKey::new("infra", "dns", "Zone", "", name)
    }

    fn manifest(name: &str) -> ManifestMeta {
        ManifestMeta {
            key: key(name),
            address: Address::of(&key(name), None),
            file: format!("{name}.yaml").into(),
            line: 1,
            content: Hash::default(),
            labels: BTreeMap::new(),
            after: [].into(),
            moved_from: None,
        }
    }

    #[test]
    fn who_shares_something_by_a_newer_revision_alone_keeps_what_is_theirs_of_it() {
        let (scope, id) = (Scope::new("pdns", "a"), ResourceId::from("www/A"));
        // One record that each of these manifests has values of.
        let sharing = |names: &[&str]| {
            let mut policies = Policies::default();
            let policy = policies.intern(Policy { merge: true, ..Policy::default() });
            let resource = |manifest: usize| {
                Resource::new(
                    id.clone(),
                    Arc::new(scope.clone()),
                    Spec::known(Vec::new()),
                    Origin { manifest: manifest as u32, line: 1 },
                    policy,
                )
            };
            let resources: Vec<Resource> = (0..names.len()).map(resource).collect();
            Desired {
                manifests: names.iter().map(|name| manifest(name)).collect(),
                policies,
                scopes: [(scope.clone(), Arc::new(resources))].into(),
                ..Desired::default()
            }
        };
        let place = (scope.clone(), id.clone());
        let foreign = ManifestKey::new("other", "dns", "Zone", "", "c");
        let counts = Loaded { desired: sharing(&["a", "b"]), ..Loaded::default() };
        let refused = Loaded {
            shared_aside: [(place.clone(), [key("a"), key("b"), foreign].into())].into(),
            withheld: ["infra".into()].into(),
            ..Loaded::default()
        };
        let by_it: BTreeMap<_, BTreeSet<_>> = [(place, [key("b")].into())].into();
        for newest in [counts, refused] {
            let mut desired = sharing(&["a"]);
            set_aside(&mut desired, &newest, &["infra".into()].into());
            assert_eq!(desired.shared_by_newest, by_it);
            assert!(desired.sharing_by_newest(&scope, &"mail/A".into()).next().is_none());
        }
        let mut alone = Desired::default();
        let unshared = Desired { policies: Policies::default(), ..sharing(&["a"]) };
        let unshared = Loaded { desired: unshared, ..Loaded::default() };
        set_aside(&mut alone, &unshared, &["infra".into()].into());
        assert!(alone.shared_by_newest.is_empty(), "its policy is the default one");
    }

    #[test]
    fn what_a_newer_revision_has_for_other_hosts_is_kept() {
        let source: Arc<str> = "infra".into();
        let place = |name: &str| (key(name), Scope::new("pdns", "a"));
        let offered = SourceState {
            prunes: true,
            unassigned: [key("a"), key("b")].into(),
            unassigned_in: [place("a"), place("b")].into(),
            ..SourceState::default()
        };
        // A rollback may take away what is in force, whatever is refused: so that is left to what is in force.
        for (withheld, kept) in [(false, &["a", "b"][..]), (true, &["b"][..])] {
            let in_force = SourceState { prunes: true, ..SourceState::default() };
            let mut desired = Desired {
                manifests: vec![manifest("a")],
                sources: [(source.clone(), in_force)].into(),
                ..Desired::default()
            };
            let then = Desired { sources: [(source.clone(), offered.clone())].into(), ..Desired::default() };
            let withheld = withheld.then(|| source.clone()).into_iter().collect();
            let newest = Loaded { desired: then, withheld, ..Loaded::default() };
            set_aside(&mut desired, &newest, &[source.clone()].into());
            let state = &desired.sources[&source];
            let (keys, places): (BTreeSet<_>, BTreeSet<_>) =
                kept.iter().map(|name| (key(name), place(name))).unzip();
            assert_eq!((&state.unassigned, &state.unassigned_in, state.prunes), (&keys, &places, true));
        }
    }
}
