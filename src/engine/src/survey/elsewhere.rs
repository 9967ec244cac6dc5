//! What is tracked in one scope and declared in another by now, where it is not settled yet, or not seen.
//!
//! Guarantees: only where ids are names in one world ([`Observer::shared_names`](reconciled_provider::Observer::shared_names)); what
//! both scopes have had before, as in a split horizon, is none of it where both are seen. What a file declares that cannot be parsed is not known. It deliberately decides nothing: that such a thing stays
//! for now is the planner's word.

use super::Surveyor;
use crate::{
    desired::Desired,
    plan::{CLAIMS, Elsewhere},
    store::{Row, RowState, ScopeMemory, Store},
};
use reconciled_provider::{Address, Error, Resource, ResourceId, Scope};
use std::collections::{BTreeMap, BTreeSet};

/// How many times as many must be declared as are looked for, for each of these to be looked up by itself.
const FEW: usize = 8;

impl Surveyor {
    /// Of each of `scopes` what is declared elsewhere by now. Where `memories` lack a scope, the store is asked.
    pub(super) async fn elsewhere(
        &self,
        store: &dyn Store,
        desired: &Desired,
        memories: &BTreeMap<Scope, ScopeMemory>,
        scopes: &BTreeSet<Scope>,
    ) -> Result<BTreeMap<Scope, BTreeMap<ResourceId, Elsewhere>>, Error> {
        let mut left: BTreeMap<&str, BTreeMap<&ResourceId, Vec<&Scope>>> = BTreeMap::new();
        for scope in scopes {
            let (Some(names), Some(memory)) = (self.shared_names(scope), memories.get(scope)) else {
                continue;
            };
            for id in undeclared(desired.in_scope(scope), &memory.rows) {
                left.entry(names).or_default().entry(id).or_default().push(scope);
            }
        }
        let rows_of = async |scope: &Scope| match memories.get(scope) {
            Some(memory) => Ok::<_, Error>(memory.rows.clone()),
            None => Ok(store.scope(scope).await?.rows),
        };
        let mut found: BTreeMap<Scope, BTreeMap<ResourceId, Elsewhere>> = BTreeMap::new();
        for (names, ids) in left {
            // Somebody declares it there, and is in error for something else.
            for (other, id) in desired.set_aside.keys() {
                let Some((id, scopes)) = ids.get_key_value(id) else { continue };
                if self.shared_names(other) != Some(names) {
                    continue;
                }
                let rows = rows_of(other).await?;
                let is_settled = is_settled(&rows, id);
                let mut outer = Outer::new(self, other, &rows, desired.in_scope(other));
                for scope in scopes.iter().copied().filter(|scope| *scope != other) {
                    let is_hidden = outer.is_hidden_by(scope, id);
                    let elsewhere = Elsewhere { scope: other.clone(), address: None, is_settled, is_hidden };
                    note(&mut found, scope, id, elsewhere);
                }
            }
            let others = desired.scopes.iter().filter(|(scope, _)| self.shared_names(scope) == Some(names));
            let others: Vec<_> = others.collect();
            for (other, resources) in others {
                let declared = declared(resources, &ids);
                if declared.is_empty() {
                    continue;
                }
                let rows = rows_of(other).await?;
                let mut outer = Outer::new(self, other, &rows, resources);
                for resource in declared {
                    let id = &resource.id;
                    let is_settled = is_settled(&rows, id);
                    let part = self.entries[&other.provider].observer.part(other, id);
                    let address = Address { part, ..desired.manifest(resource.origin).address.clone() };
                    for scope in ids[id].iter().copied() {
                        let (address, is_hidden) = (Some(address.clone()), outer.is_hidden_by(scope, id));
                        let elsewhere = Elsewhere { scope: other.clone(), address, is_settled, is_hidden };
                        note(&mut found, scope, id, elsewhere);
                    }
                }
            }
        }
        Ok(found)
    }

    fn shared_names(&self, scope: &Scope) -> Option<&'static str> {
        self.entries.get(&scope.provider)?.observer.shared_names()
    }
}

/// A scope that others may hide.
struct Outer<'a> {
    surveyor: &'a Surveyor,
    scope: &'a Scope,
    rows: &'a [Row],
    declared: &'a [Resource],
    /// Those at other entries that it is known to send to, or not to.
    sends_to: BTreeMap<&'a Scope, bool>,
}

impl<'a> Outer<'a> {
    fn new(surveyor: &'a Surveyor, scope: &'a Scope, rows: &'a [Row], declared: &'a [Resource]) -> Outer<'a> {
        Outer { surveyor, scope, rows, declared, sends_to: BTreeMap::new() }
    }

    /// True where nobody sees what it has by this id, since `scope` is there. One at another entry, such as an internal zone, is
    /// asked for it only where this one sends there: what is tracked or declared here says so, what somebody else put here is not
    /// known.
    fn is_hidden_by(&mut self, scope: &'a Scope, id: &ResourceId) -> bool {
        let Some(entry) = self.surveyor.entries.get(&scope.provider) else { return false };
        let (observer, outer) = (&entry.observer, self.scope);
        let hides = observer.hides(scope, outer, id);
        if !hides || scope.provider == outer.provider {
            return hides;
        }
        let (tracked, declared) = (self.rows.iter().map(|row| &row.tracked.id), self.declared);
        let mut ids = tracked.chain(declared.iter().map(|resource| &resource.id));
        *self.sends_to.entry(scope).or_insert_with(|| ids.any(|one| observer.sends(scope, outer, one)))
    }
}

/// Notes where it is declared, unless it is as it shall be there. Of several places the first one counts that is waited for.
fn note(
    found: &mut BTreeMap<Scope, BTreeMap<ResourceId, Elsewhere>>,
    scope: &Scope,
    id: &ResourceId,
    elsewhere: Elsewhere,
) {
    if elsewhere.is_settled && !elsewhere.is_hidden {
        return;
    }
    let of_scope = found.entry(scope.clone()).or_default();
    let is_worse = |known: &Elsewhere| known.is_settled && !elsewhere.is_settled;
    if of_scope.get(id).is_none_or(is_worse) {
        of_scope.insert(id.clone(), elsewhere);
    }
}

/// What is tracked and declared no longer. Both are sorted by id.
fn undeclared<'r>(declared: &[Resource], rows: &'r [Row]) -> Vec<&'r ResourceId> {
    let mut declared = declared.iter().map(|resource| &resource.id).peekable();
    let mut is_declared = |id: &ResourceId| {
        while declared.next_if(|declared| *declared < id).is_some() {}
        declared.peek() == Some(&id)
    };
    let gone = rows.iter().filter(|row| !is_declared(&row.tracked.id));
    gone.filter(|row| row.manifest.source() != CLAIMS).map(|row| &row.tracked.id).collect()
}

/// Those of `resources`, which are sorted by id, that are among `ids`.
fn declared<'d>(resources: &'d [Resource], ids: &BTreeMap<&ResourceId, Vec<&Scope>>) -> Vec<&'d Resource> {
    if ids.len() * FEW > resources.len() {
        return resources.iter().filter(|resource| ids.contains_key(&resource.id)).collect();
    }
    let at = |id: &ResourceId| resources.binary_search_by(|resource| resource.id.cmp(id)).ok();
    ids.keys().filter_map(|id| Some(&resources[at(id)?])).collect()
}

/// True where it was seen there as it was written, or taken over.
fn is_settled(rows: &[Row], id: &ResourceId) -> bool {
    let row = rows.binary_search_by(|row| row.tracked.id.cmp(id)).ok().map(|index| &rows[index]);
    row.is_some_and(|row| row.state == RowState::Settled)
}
