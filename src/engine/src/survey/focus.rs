//! How much of a scope must be read, and what stands in for the rest.
//!
//! Guarantees: anything but "the version stands and only these ids are asked for differently" reads all of it.
//! It deliberately trusts a version only where the scope was seen whole and in sync at it.

use crate::{
    desired::Desired,
    store::{Consent, Row, RowState, ScopeMemory},
};
use reconciled_provider::{Focus, Observation, Observed, Observer, Resource, ResourceId, Scope, Version};
use std::collections::BTreeSet;

/// How much of a scope must be read.
///
/// While the remembered version stands, the scope is as it was when it was last seen whole and in sync; only
/// what the desired state asks for differently needs to be looked at. That also holds for deletions, since
/// the observation remembered by the inventory was complete.
pub(super) fn focus(
    desired: &Desired,
    scope: &Scope,
    effective: &[Resource],
    memory: &ScopeMemory,
    version: Option<&Version>,
) -> Focus {
    let stands = match (&memory.version, version) {
        (Some(known), Some(now)) => known.version == *now && matches!(now, Version::At(_)),
        _ => false,
    };
    let is_declared = |id: &ResourceId| effective.binary_search_by(|resource| resource.id.cmp(id)).is_ok();
    let mut words = memory.consents.iter();
    let is_said = words.any(|(id, word)| *word != Consent::LetGo || is_declared(id));
    let plain = memory.open.is_empty() && !is_said && !desired.exclusive.contains_key(scope);
    // Where everything is to be listed, no version stands but those that do so by themselves.
    if !stands || !plain {
        return Focus::All;
    }
    let mut ids: Vec<ResourceId> = Vec::new();
    let (mut rows, mut wanted) = (memory.rows.iter().peekable(), effective.iter().peekable());
    loop {
        match (rows.peek(), wanted.peek()) {
            (None, None) => break,
            (Some(row), Some(want)) if row.tracked.id == want.id => {
                let same = want.spec.hash() == Some(row.tracked.applied) && row.state == RowState::Settled;
                if !same {
                    ids.push(want.id.clone());
                }
                rows.next();
                wanted.next();
            }
            (Some(row), Some(want)) if row.tracked.id < want.id => {
                ids.push(row.tracked.id.clone());
                rows.next();
            }
            (Some(row), None) => {
                ids.push(row.tracked.id.clone());
                rows.next();
            }
            (_, Some(want)) => {
                ids.push(want.id.clone());
                wanted.next();
            }
        }
    }
    Focus::Only(ids.into())
}

/// Completes a focused observation with what the inventory knows to stand unchanged.
pub(super) fn stand_in(
    seen: &mut Observation,
    asked: &[ResourceId],
    rows: &[Row],
    version: Version,
    observer: &dyn Observer,
) {
    let asked: BTreeSet<&ResourceId> = asked.iter().collect();
    // Made once: there are as many of them as there are rows.
    let nothing = Observed::new(ResourceId::from(""), "");
    let known = rows.iter().filter(|row| !asked.contains(&row.tracked.id)).map(|row| Observed {
        id: row.tracked.id.clone(),
        hash: row.tracked.applied,
        remote: row.tracked.remote.clone(),
        identity: observer.identity(&row.tracked),
        ..nothing.clone()
    });
    seen.resources.reserve(rows.len());
    seen.resources.extend(known);
    seen.resources.sort_by(|a, b| a.id.cmp(&b.id));
    // The focused read came after the version was asked for: if it moved in between, the write is fenced by
    // the older version and refused.
    seen.version = version;
    seen.covered = Focus::All;
}
