//! Which manifests are ready, and which are still needed: what edges between manifests wait for.

use crate::{
    desired::Desired,
    store::{RowState, ScopeMemory},
};
use reconciled_provider::{ManifestKey, Scope};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of edges before any scope is looked at.
#[derive(Debug, Default)]
pub struct Facts {
    /// Manifests whose every resource is settled as declared.
    pub ready: BTreeSet<ManifestKey>,
    /// Who depends on a manifest, by the scope of the dependant.
    needed: BTreeMap<ManifestKey, BTreeSet<Scope>>,
}

impl Facts {
    /// Remembers that a resource in `scope` depends on `manifest`.
    pub(crate) fn need(&mut self, manifest: ManifestKey, scope: Scope) {
        self.needed.entry(manifest).or_default().insert(scope);
    }
    /// Manifests that resources of other scopes still depend on. Within one scope the order of steps suffices.
    pub fn needed_outside(&self, scope: &Scope) -> BTreeSet<ManifestKey> {
        self.needed
            .iter()
            .filter(|(_, scopes)| scopes.iter().any(|s| s != scope))
            .map(|(key, _)| key.clone())
            .collect()
    }
}

/// Gathers the facts; costs nothing where no manifest depends on another.
pub fn facts(desired: &Desired, memories: &BTreeMap<Scope, ScopeMemory>) -> Facts {
    let mut facts = Facts::default();
    for memory in memories.values() {
        for row in &memory.rows {
            for key in row.tracked.after.iter() {
                facts.need(key.clone(), row.scope.clone());
            }
        }
    }
    let asked: BTreeSet<&ManifestKey> = desired.manifests.iter().flat_map(|m| m.after.iter()).collect();
    if asked.is_empty() {
        return facts;
    }
    let mut missing: BTreeMap<u32, usize> = BTreeMap::new();
    for (scope, resources) in &desired.scopes {
        let rows = memories.get(scope).map_or(&[][..], |m| &m.rows);
        for resource in resources {
            let row = rows.binary_search_by(|r| r.tracked.id.cmp(&resource.id)).ok().map(|i| &rows[i]);
            let settled = row.is_some_and(|row| {
                row.state == RowState::Settled
                    && row.template == resource.spec.template()
                    && resource.spec.hash() == Some(row.tracked.applied)
            });
            *missing.entry(resource.origin.manifest).or_default() += usize::from(!settled);
        }
    }
    for (index, manifest) in desired.manifests.iter().enumerate() {
        let settled = missing.get(&(index as u32)).is_none_or(|count| *count == 0);
        if settled && asked.contains(&manifest.key) {
            facts.ready.insert(manifest.key.clone());
        }
    }
    facts
}
