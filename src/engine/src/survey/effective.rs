//! What is desired of a scope once declarations, claims and the values of others are united.
//!
//! Guarantees: one resource for each id, sorted. It deliberately leaves everything that is neither shared nor
//! claimed exactly as declared.

use crate::{
    desired::Desired,
    plan::unanswered::{self, Written},
    store::{ClaimRow, OpenIntent, Row},
};
use reconciled_provider::{
    Claim, Error, Merged, Observation, Observer, Origin, PolicyId, Resource, ResourceId, Scope, Sealed, Spec,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Unites declarations with `merge: true`, claims, and what others put there.
pub(super) struct Merger<'a> {
    pub(super) observer: &'a dyn Observer,
    pub(super) desired: &'a Desired,
    pub(super) declared: &'a [Resource],
    pub(super) scope: &'a Arc<Scope>,
    pub(super) claims: &'a [ClaimRow],
    /// Intents without an outcome: what they may have written is ours.
    pub(super) open: &'a [OpenIntent],
}

impl Merger<'_> {
    pub(super) fn is_needed(&self) -> bool {
        !self.claims.is_empty() || self.declared.iter().any(|r| self.shares(r))
    }

    fn shares(&self, resource: &Resource) -> bool {
        self.desired.policies.get(resource.policy).merge
    }

    /// One resource for each id, sorted.
    pub(super) fn merge(&self, rows: &[Row], seen: Option<&Observation>) -> Result<Effective, Error> {
        let mut claims: BTreeMap<&ResourceId, Vec<Claim>> = BTreeMap::new();
        for row in self.claims {
            claims.entry(&row.id).or_default().push(row.claim.clone());
        }
        let written = unanswered::written(self.open);
        let mut out = Effective {
            resources: Vec::with_capacity(self.declared.len() + claims.len()),
            ..Effective::default()
        };
        for group in self.declared.chunk_by(|a, b| a.id == b.id) {
            let first = &group[0];
            let made = claims.remove(&first.id).unwrap_or_default();
            let shared = group.len() > 1 || !made.is_empty() || self.shares(first);
            let waiting = group.iter().any(|r| matches!(r.spec, Spec::Waiting { .. }));
            let merged = if shared && !waiting {
                self.unite(group, &first.id, rows, seen, &written, &made)?
            } else {
                None
            };
            out.add(merged, first);
        }
        for (id, made) in claims {
            let Some(merged) = self.unite(&[], id, rows, seen, &written, &made)? else { continue };
            let origin = Origin { manifest: u32::MAX, line: 0 };
            let place = Resource {
                id: id.clone(),
                scope: self.scope.clone(),
                spec: merged.resource.spec.clone(),
                origin,
                policy: PolicyId(0),
            };
            out.claimed.insert(id.clone());
            out.add(Some(merged), &place);
        }
        if !out.claimed.is_empty() {
            out.resources.sort_by(|a, b| a.id.cmp(&b.id));
        }
        Ok(out)
    }

    fn unite(
        &self,
        group: &[Resource],
        id: &ResourceId,
        rows: &[Row],
        seen: Option<&Observation>,
        written: &Written<'_>,
        claims: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        let declared: Vec<&Resource> = group.iter().collect();
        let tracked = rows.binary_search_by(|r| r.tracked.id.cmp(id)).ok().map(|i| &rows[i].tracked);
        let seen = match seen.and_then(|seen| seen.get(id)) {
            Some(seen) => unanswered::without(self.observer, written, seen)?,
            None => None,
        };
        self.observer.merge(&declared, seen.as_deref(), tracked, claims)
    }
}

/// What is desired of a scope once declarations, claims and the values of others are united.
#[derive(Default)]
pub(super) struct Effective {
    pub(super) resources: Vec<Resource>,
    /// Ids that exist only because of claims.
    pub(super) claimed: BTreeSet<ResourceId>,
    /// Which values of shared resources are ours.
    pub(super) ours: BTreeMap<ResourceId, Sealed>,
}

impl Effective {
    fn add(&mut self, merged: Option<Merged>, place: &Resource) {
        let Some(merged) = merged else {
            self.resources.push(place.clone());
            return;
        };
        self.ours.insert(place.id.clone(), merged.ours);
        self.resources.push(Resource { spec: merged.resource.spec, ..place.clone() });
    }
}
