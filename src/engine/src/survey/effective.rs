//! What is desired of a scope once declarations, claims and the values of others are united.
//!
//! Guarantees: one resource for each id, sorted. It deliberately leaves everything that is neither shared nor
//! claimed exactly as declared.

use crate::{
    desired::{Desired, shared_template},
    plan::{
        Shared,
        unanswered::{self, Written},
    },
    store::{ClaimRow, OpenIntent, Row},
};
use reconciled_provider::{
    Claim, Error, Hash, Merged, Observation, Observer, Origin, PolicyId, Resource, ResourceId, Scope, Sealed,
    Spec,
};
use std::{collections::BTreeMap, sync::Arc};

/// Unites declarations with `merge: true`, claims, and what others put there.
pub(super) struct Merger<'a> {
    pub(super) observer: &'a dyn Observer,
    pub(super) desired: &'a Desired,
    pub(super) declared: &'a [Resource],
    pub(super) scope: &'a Arc<Scope>,
    pub(super) claims: &'a [ClaimRow],
    /// Intents without an outcome: what they may have written is ours.
    pub(super) open: &'a [OpenIntent],
    /// What is known of the scope before anything is united.
    pub(super) shared: &'a Shared,
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
            shared: self.shared.clone(),
        };
        for group in self.declared.chunk_by(|a, b| a.id == b.id) {
            let first = &group[0];
            let made = claims.remove(&first.id).unwrap_or_default();
            let shared = group.len() > 1 || !made.is_empty() || self.shares(first);
            let waiting = group.iter().any(|r| matches!(r.spec, Spec::Waiting { .. }));
            if !shared || waiting {
                out.resources.push(first.clone());
                continue;
            }
            match self.unite(group, &first.id, rows, seen, &written, &made, &mut out.shared)? {
                Some(Merged { resource, ours }) => {
                    let spec = declared_as(resource.spec.clone(), shared_template(group));
                    let (id, scope) = (first.id.clone(), first.scope.clone());
                    out.add(Resource::new(id, scope, spec, first.origin, first.policy), ours);
                }
                None => out.resources.push(first.clone()),
            }
        }
        for (id, made) in claims {
            let united = self.unite(&[], id, rows, seen, &written, &made, &mut out.shared)?;
            let Some(Merged { resource, ours }) = united else { continue };
            let origin = Origin { manifest: u32::MAX, line: 0 };
            let spec = resource.spec.clone();
            out.shared.claimed.insert(id.clone());
            out.add(Resource::new(id.clone(), self.scope.clone(), spec, origin, PolicyId(0)), ours);
        }
        if !out.shared.claimed.is_empty() {
            out.resources.sort_by(|a, b| a.id.cmp(&b.id));
        }
        Ok(out)
    }

    #[expect(clippy::too_many_arguments, reason = "one private call that threads the parts of a resource")]
    fn unite(
        &self,
        group: &[Resource],
        id: &ResourceId,
        rows: &[Row],
        seen: Option<&Observation>,
        written: &Written<'_>,
        claims: &[Claim],
        shared: &mut Shared,
    ) -> Result<Option<Merged>, Error> {
        let declared: Vec<&Resource> = group.iter().collect();
        let tracked = rows.binary_search_by(|r| r.tracked.id.cmp(id)).ok().map(|i| &rows[i].tracked);
        let Some(seen) = seen.and_then(|seen| seen.get(id)) else {
            return self.observer.merge(&declared, None, tracked, claims);
        };
        let before = unanswered::without(self.observer, written, seen)?;
        let united = self.observer.merge(&declared, before.as_deref(), tracked, claims)?;
        if declared.is_empty() {
            return Ok(united);
        }
        // With everything that is there: nothing of ours has gone.
        let Some(all) = self.observer.merge(&declared, Some(seen), None, claims)? else { return Ok(united) };
        let hash = |merged: &Merged| merged.resource.spec.hash();
        if united.as_ref().is_some_and(|united| hash(united) == hash(&all)) {
            return Ok(united);
        }
        let is_in_newest = self.desired.sharing_by_newest(self.scope, id).next().is_some();
        if self.shared.silent.is_empty() && !is_in_newest {
            // Whose a value was is not known: it may as well be the old one of who declares another by now, which is a change.
            shared.goes.insert(id.clone());
            if hash(&all) == Some(seen.hash) {
                shared.only_goes.insert(id.clone());
            }
            return Ok(united);
        }
        shared.kept.insert(id.clone());
        // As if all of it were declared: what was ours stays ours, and what was not does not become so.
        let ours = self.observer.merge(&[&all.resource], before.as_deref(), tracked, &[])?;
        Ok(ours.map(|ours| Merged { resource: all.resource, ours: ours.ours }))
    }
}

/// What is desired of a scope once declarations, claims and the values of others are united.
#[derive(Default)]
pub(super) struct Effective {
    pub(super) resources: Vec<Resource>,
    pub(super) shared: Shared,
}

impl Effective {
    pub(super) fn wants(&self, id: &ResourceId) -> bool {
        self.resources.binary_search_by(|wanted| wanted.id.cmp(id)).is_ok()
    }

    fn add(&mut self, resource: Resource, ours: Sealed) {
        self.shared.ours.insert(resource.id.clone(), ours);
        self.resources.push(resource);
    }
}

/// What was united, with the hash of what was declared of it for its template: what others put there says nothing of who
/// declares it.
fn declared_as(spec: Spec, template: Hash) -> Spec {
    match spec {
        Spec::Known { bytes, hash, .. } => Spec::Known { bytes, hash, template },
        Spec::Waiting { on, so_far, .. } => Spec::Waiting { template, on, so_far },
    }
}
