//! What several declare together, and what holds values of others beside ours.
//!
//! Guarantees: a value of ours goes only when it is known of every manifest that may have declared it that it no longer does,
//! and that nobody suspended it. Which manifests may have is remembered by scope, not by value: one that cannot be read keeps all
//! that was ours in what is shared there. So does, where it is shared, one that a revision has which is not in force.

use super::{ScopePlan, Shared, exclusive, planner::Planner};
use crate::{
    desired::{Desired, ManifestMeta},
    store::ScopeMemory,
    suspension::{Extent, Suspension},
};
use reconciled_provider::{Address, ManifestKey, Resource, ResourceId, Scope};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Finds the manifests that may have declared values in `scope` and of which it is not known that they no longer do, or whose
/// changes a person stopped.
pub(crate) fn of_scope(
    desired: &Desired,
    scope: &Scope,
    memory: &ScopeMemory,
    suspensions: &[Arc<Suspension>],
    now: Duration,
) -> Shared {
    let documents = memory.documents.keys().filter(|key| !exclusive::is_mark(key));
    let (known, unknown): (Vec<_>, Vec<_>) = documents.partition(|key| desired.knows(key, scope));
    let mut silent: BTreeSet<ManifestKey> = unknown.into_iter().cloned().collect();
    let declaring: BTreeSet<u32> = desired.in_scope(scope).iter().map(|r| r.origin.manifest).collect();
    let declaring: BTreeSet<&ManifestKey> =
        declaring.into_iter().map(|index| &desired.manifests[index as usize].key).collect();
    let left: Vec<&ManifestKey> = known.into_iter().filter(|key| !declaring.contains(key)).collect();
    // What is stopped as a whole is stopped by its own address.
    let stops = |suspension: &&Arc<Suspension>| {
        !suspension.is_over(now) && !matches!(suspension.extent, Extent::All | Extent::Provider(_))
    };
    let stopping: Vec<&Arc<Suspension>> = suspensions.iter().filter(stops).collect();
    let is_stopped = |key: &ManifestKey| {
        stopping.iter().any(|s| s.means(scope, &Address::of(key, None), Some(key), || None))
    };
    silent.extend(left.iter().filter(|key| is_stopped(key)).map(|key| (*key).clone()));
    let has_left = left.iter().any(|key| !silent.contains(*key));
    Shared { silent, has_left, ..Shared::default() }
}

/// Says what keeps values in what is shared.
pub(super) fn tell_what_is_kept(planner: &Planner<'_>, out: &mut ScopePlan) {
    let shared = planner.input.shared;
    for key in shared.silent.iter().filter(|_| !shared.kept.is_empty()) {
        *out.frozen.entry(key.clone()).or_default() += shared.kept.len();
    }
    for id in &shared.kept {
        let newest = planner.input.desired.sharing_by_newest(planner.input.scope, id);
        for key in newest.filter(|key| !shared.silent.contains(*key)) {
            *out.frozen.entry(key.clone()).or_default() += 1;
        }
    }
    // Looked at again as soon as the word is there.
    out.unlike += shared.kept.len();
}

impl<'a> Planner<'a> {
    /// Everyone who declares it, by the address it has for them: several where they share it.
    pub(super) fn declarers(&self, desired: &Resource) -> Vec<(Address, &'a ManifestMeta)> {
        let input = self.input;
        if input.shared.claimed.contains(&desired.id) {
            return Vec::new();
        }
        let part = input.provider.part(input.scope, &desired.id);
        let manifest = |resource: &Resource| input.desired.manifests.get(resource.origin.manifest as usize);
        let all = input.desired.declaring(input.scope, &desired.id).iter().filter_map(manifest);
        all.map(|manifest| (Address { part: part.clone(), ..manifest.address.clone() }, manifest)).collect()
    }

    /// The manifests that declare what claims it.
    pub(super) fn claimants(&self, id: &ResourceId) -> impl Iterator<Item = &'a ManifestMeta> {
        let input = self.input;
        let claims = input.memory.claims_here.iter().filter(move |claim| claim.id == *id);
        let owners = claims.flat_map(move |claim| input.desired.declaring(&claim.owner_scope, &claim.owner));
        owners.filter_map(move |owner| input.desired.manifests.get(owner.origin.manifest as usize))
    }
}
