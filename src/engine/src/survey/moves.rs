//! `moved-from`: rows get the identity their manifest has now.
//!
//! Guarantees: a row is moved only within its entry, only when nothing desires its old identity and nothing is
//! tracked or being created under the new one. Only where the remote assigns identity: where the key says it all,
//! what has another key is another resource, and the old one has to go. It deliberately writes nothing: the move
//! is a step of the plan.

use crate::{desired::Desired, store::ScopeMemory};
use reconciled_provider::{Address, ResourceId, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Rows that a manifest says it was moved from get its identity, so that a rename is no delete and create.
///
/// `assigns` says of an entry whether its remote assigns identity.
pub(super) fn moves(
    desired: &Desired,
    memories: &mut BTreeMap<Scope, ScopeMemory>,
    assigns: impl Fn(&str) -> bool,
) -> BTreeMap<(Scope, ResourceId), Address> {
    let mut moved = BTreeMap::new();
    if desired.manifests.iter().all(|m| m.moved_from.is_none()) {
        return moved;
    }
    let wanted: BTreeSet<(Scope, ResourceId)> = desired
        .scopes
        .iter()
        .flat_map(|(s, list)| list.iter().map(move |r| (s.clone(), r.id.clone())))
        .collect();
    for (scope, resources) in desired.scopes.iter().filter(|(scope, _)| assigns(&scope.provider)) {
        for resource in resources {
            let Some(manifest) = desired.manifests.get(resource.origin.manifest as usize) else { continue };
            let Some(from) = &manifest.moved_from else { continue };
            // A create without an answer may have made it: then it is not the old one under a new name.
            let known = |m: &ScopeMemory| {
                m.rows.iter().any(|row| row.tracked.id == resource.id)
                    || m.open.iter().any(|open| open.intent.row.tracked.id == resource.id)
            };
            if memories.get(scope).is_some_and(known) {
                continue;
            }
            let old =
                memories.iter().filter(|(s, _)| s.provider == scope.provider).find_map(|(s, memory)| {
                    let index = memory.rows.iter().position(|row| {
                        row.address == *from && !wanted.contains(&(s.clone(), row.tracked.id.clone()))
                    })?;
                    Some((s.clone(), index))
                });
            let Some((old_scope, index)) = old else { continue };
            let Some(memory) = memories.get_mut(&old_scope) else { continue };
            let mut row = Arc::make_mut(&mut memory.rows).remove(index);
            let old_id = std::mem::replace(&mut row.tracked.id, resource.id.clone());
            row.scope = scope.clone();
            moved.insert((scope.clone(), resource.id.clone()), row.address.clone());
            let target = memories.entry(scope.clone()).or_default();
            let rows = Arc::make_mut(&mut target.rows);
            rows.push(row);
            rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
            target.moved_away.push((old_scope, old_id));
        }
    }
    moved
}
