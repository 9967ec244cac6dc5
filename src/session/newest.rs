//! Revisions that are known and not in force, beside the ones that are looked at in their place.
//!
//! Guarantees: what the newest known revision of a source declares is not deleted, whichever way it came about that it is not
//! looked at: it is refused for its errors, the remote does not answer, or a daemon begins. So `plan`, `apply` and the
//! daemon say and do the same. A revision that nobody has to believe, as one without a signature or of a rewound branch, counts
//! for nothing. It deliberately brings nothing into force: the remote may have taken back what it offered.

use super::{Outlook, Session, Snapshot, ailing::Entries};
use crate::{failure::Failure, manifest::Loaded};
use reconciled_engine::{Desired, SourceState, Store};
use reconciled_provider::{ManifestKey, ResourceId, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Session {
    /// Keeps in `outlook` what the newest revisions declare that are not looked at. Of the `refused` it is known already.
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

fn declares(desired: &Desired, source: &str, (scope, id): &(Scope, ResourceId)) -> bool {
    desired.declaring(scope, id).iter().any(|one| desired.manifest(one.origin).key.source() == source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_engine::ManifestMeta;
    use reconciled_provider::{Address, Hash};

    fn key(name: &str) -> ManifestKey {
        ManifestKey::new("infra", "dns", "Zone", "", name)
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
        let manifest = ManifestMeta {
            key: key("a"),
            address: Address::of(&key("a"), None),
            file: "a.yaml".into(),
            line: 1,
            content: Hash::default(),
            labels: BTreeMap::new(),
            after: [].into(),
            moved_from: None,
        };
        // A rollback may take away what is in force, whatever is refused: so that is left to what is in force.
        for (withheld, kept) in [(false, &["a", "b"][..]), (true, &["b"][..])] {
            let in_force = SourceState { prunes: true, ..SourceState::default() };
            let mut desired = Desired {
                manifests: vec![manifest.clone()],
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
