//! The memory of a few scopes, where nothing of any other is needed: one push must not cost a look at everything.
//!
//! Guarantees: the same survey as with everything in memory. It deliberately gives up where that would take
//! more questions than reading everything: many scopes, edges between manifests, moves, entries that are
//! judged whole.

use super::{SurveyOptions, Surveyor};
use crate::{
    desired::Desired,
    ready::Facts,
    store::{Row, ScopeMemory, Store},
};
use reconciled_provider::{Error, GuardDomain, Identity, ManifestKey, Scope, Sorted};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Questions to the store after which reading everything is cheaper.
const MANY: usize = 64;

impl Surveyor {
    /// The memories of the scopes that are asked for and what is known of edges, if that is all a survey needs.
    pub(super) async fn near(
        &self,
        store: &dyn Store,
        desired: &Desired,
        options: &SurveyOptions,
    ) -> Result<Option<(BTreeMap<Scope, ScopeMemory>, Facts)>, Error> {
        let Some(only) = options.only.as_ref().filter(|only| only.len() <= MANY) else { return Ok(None) };
        let is_whole = |scope: &Scope| {
            let info = self.entries.get(&scope.provider).map(|entry| entry.observer.info());
            // What is declared there may be tracked anywhere in the entry, under a name that it had.
            let is_assigned = |identity: &Identity| matches!(identity, Identity::Assigned { .. });
            info.is_none_or(|info| info.guard == GuardDomain::Provider || is_assigned(&info.identity))
        };
        let is_behind = |after: &Arc<[ManifestKey]>| !after.is_empty();
        let reaches = desired.manifests.iter().any(|m| is_behind(&m.after) || m.moved_from.is_some())
            || desired.pinned.values().any(|pinned| pinned.after.values().any(is_behind));
        if reaches || only.iter().any(is_whole) {
            return Ok(None);
        }
        let mut memories = BTreeMap::new();
        for scope in only {
            // Reading what is known of a scope takes as long as comparing it.
            if options.unhurried {
                self.hurry.make_way(&*self.cx.clock).await;
            }
            memories.insert(scope.clone(), store.scope(scope).await?);
        }
        // Nothing that is desired has edges; what shall be deleted may still be needed by what had them.
        let gone: BTreeSet<&ManifestKey> =
            memories.iter().flat_map(|(scope, memory)| undeclared(desired, scope, memory)).collect();
        if gone.len() > MANY {
            return Ok(None);
        }
        let mut facts = Facts::default();
        for manifest in gone {
            for row in store.dependants(manifest).await? {
                facts.need(manifest.clone(), &row);
            }
        }
        Ok(Some((memories, facts)))
    }
}

/// Manifests of what nothing declares any more: of rows, and of what an unanswered intent may have made.
fn undeclared<'m>(desired: &Desired, scope: &Scope, memory: &'m ScopeMemory) -> Vec<&'m ManifestKey> {
    let declared = Sorted::new(desired.in_scope(scope), |resource| &resource.id);
    let is_gone = |row: &&Row| declared.get(&row.tracked.id).is_none();
    let rows = memory.rows.iter().chain(memory.open.iter().map(|open| &*open.intent.row));
    rows.filter(is_gone).map(|row| &row.manifest).collect()
}
