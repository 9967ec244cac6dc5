//! A backend as a provider of the contract.

use super::{backend::Backend, bare, cut, gap, inner};
use crate::{
    dialect::Served, export, ignore, merge, name::in_ascii, normalize::normalize_for, ownership::Marker,
    record, served::Watch, strings,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use reconciled_provider::{
    Around, Batch, Claim, Cx, Delta, Deltas, Error, Fact, Finding, Focus, Found, Health, Hint, Inputs,
    Journal, Kinds, LeftAlone, Linted, Manifest, Merged, Normalized, Observation, Observed, Observer, Op,
    Owner, Provider, ProviderInfo, Resource, ResourceId, Scope, Slot, Tracked, Unwell, Version, Want,
    no_hints,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A backend with all that backends have in common.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) entry: Arc<str>,
    pub(super) info: ProviderInfo,
    pub(super) served: &'static Served,
    pub(super) backend: Box<dyn Backend>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) marker: Marker,
    /// Asks name servers.
    pub(super) watch: Watch,
    /// What they serve counts; else they are only asked for facts.
    pub(super) verifies: bool,
}

#[async_trait]
impl Observer for Family {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn kinds(&self, _: &Cx) -> Result<Arc<Kinds>, Error> {
        Ok(self.kinds.clone())
    }

    fn normalize(&self, _: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        let mut normalized = normalize_for(manifest, inputs, self.served);
        self.backend.refine(&mut normalized);
        normalized
    }

    fn lint(&self, scope: &Scope, declared: &[Linted<'_>], around: Around<'_>) -> Vec<Finding> {
        crate::lint::lint(scope, declared, around)
    }

    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        self.backend.versions(cx, scopes).await
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        let mut seen = self.backend.observe(cx, want).await?;
        self.marker.read(cx, want.scope, &mut seen)?;
        Ok(seen)
    }

    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        self.backend.compare(desired, observed)
    }

    async fn diff(&self, cx: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        let mut deltas = self.backend.diff(cx, want, seen).await?;
        if !self.info.atomic_batch {
            gap::tell(want, seen, &mut deltas);
        }
        if self.backend.makes_bare_zones() {
            bare::tell(want, seen, &mut deltas);
        }
        cut::tell(want, seen, &mut deltas);
        self.marker.refuse(want, seen, &mut deltas);
        if self.verifies {
            self.watch.differs(want.scope, &deltas);
        }
        Ok(deltas)
    }

    fn left_alone(
        &self,
        scope: &Scope,
        rules: &[Arc<str>],
        observed: &Observed,
        seen: &Observation,
    ) -> Option<LeftAlone> {
        let is_kept =
            || ignore::is_name_server(scope, &observed.id, seen) || self.backend.is_out_of_reach(observed);
        ignore::left_alone(scope, rules, &observed.id, &observed.bytes)
            .or_else(|| is_kept().then_some(LeftAlone::Custom))
    }

    fn holder(&self, scope: &Scope) -> Option<ResourceId> {
        Some(record::zone_id(scope))
    }

    fn shared_names(&self) -> Option<&'static str> {
        Some("dns")
    }

    fn hides(&self, scope: &Scope, other: &Scope, id: &ResourceId) -> bool {
        inner::hides(scope, other, id)
    }

    fn sends(&self, scope: &Scope, other: &Scope, id: &ResourceId) -> bool {
        inner::sends(scope, other, id)
    }

    fn points_at(&self, scope: &Scope) -> Option<String> {
        self.backend.points_at(scope)
    }

    fn remains<'s>(&self, scope: &Scope, id: &ResourceId, seen: &'s Observation) -> Option<&'s Observed> {
        self.marker.remains(scope, id, seen)
    }

    fn leaves_mark(&self, scope: &Scope, id: &ResourceId, seen: &Observation) -> bool {
        self.marker.leaves_mark(scope, id, seen)
    }

    fn is_owned_whole(&self, observed: &Observed) -> bool {
        self.marker.is_owned_whole(observed)
    }

    fn tells_health(&self) -> bool {
        self.verifies
    }

    fn was_unwell(&self, scope: &Scope, unwell: &[Unwell]) {
        if self.verifies {
            self.watch.was_unwell(scope, unwell);
        }
    }

    async fn health(&self, cx: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        match self.verifies {
            true => self.watch.health(cx, want).await,
            false => Ok(Vec::new()),
        }
    }

    async fn facts(&self, cx: &Cx, scope: &Scope) -> Result<Vec<Fact>, Error> {
        self.watch.facts(cx, scope).await
    }

    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        // Scopes are called as DNS holds them, whatever the manifest is called.
        let mut found = self.backend.discover(cx, &in_ascii(query)).await?;
        for found in &mut found {
            self.marker.without_marks(cx, &mut found.resources)?;
        }
        Ok(found)
    }

    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        Ok(export::export(&self.entry, found))
    }

    fn undeclarable(&self, found: &Found) -> Vec<String> {
        export::undeclarable(found)
    }

    fn part(&self, scope: &Scope, id: &ResourceId) -> Option<Arc<str>> {
        record::part(scope, id)
    }

    fn is_part(&self, scope: &Scope, id: &ResourceId, part: Option<&str>) -> bool {
        record::is_part(scope, id, part)
    }

    fn slot(&self, id: &ResourceId) -> Option<Slot> {
        record::slot(id)
    }

    fn guard_word(&self, scope: &Scope, id: &ResourceId) -> Option<&'static str> {
        record::guard_word(scope, id)
    }

    fn show(&self, _: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        self.backend.show(bytes)
    }

    fn keep(&self, desired: &Resource, observed: &Observed, ignored: &[Arc<str>]) -> Result<Vec<u8>, Error> {
        Ok(self.backend.keep(desired, observed, ignored))
    }

    fn place(&self, claim: &Claim, scopes: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        merge::place(&self.entry, claim, scopes)
    }

    fn would_carry(&self, claim: &Claim, scope: Option<&Scope>) -> Vec<(&'static str, String)> {
        merge::would_carry(claim, scope)
    }

    fn merge(
        &self,
        declared: &[&Resource],
        seen: Option<&Observed>,
        tracked: Option<&Tracked>,
        claims: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        merge::merge(declared, seen, tracked, claims)
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        no_hints()
    }
}

#[async_trait]
impl Provider for Family {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        if batch.actions.is_empty() || cx.stop.is_set() {
            return Ok(());
        }
        if self.verifies {
            self.watch.writing(cx, &batch.scope, &batch.actions);
        }
        // A look at what is there, and the first write that it is for.
        let cx = &Cx { pace: cx.pace.ahead(2).await, ..cx.clone() };
        self.holds_nothing_else(cx, batch).await?;
        let as_seen = strings::written_as_seen(batch);
        let batch = as_seen.as_ref().unwrap_or(batch);
        self.marker.apply(&*self.backend, cx, batch, journal).await
    }
}

impl Family {
    /// Makes sure that nothing came into a zone since a plan to delete it was made. Where its version tells of changes,
    /// the backend asks for that.
    ///
    /// Errors: `Conflict` when something did.
    async fn holds_nothing_else(&self, cx: &Cx, batch: &Batch) -> Result<(), Error> {
        let scope = &batch.scope;
        let deleted = || batch.actions.iter().filter(|action| matches!(action.op, Op::Delete { .. }));
        let deleted: BTreeSet<&ResourceId> = deleted().map(|action| action.op.id()).collect();
        if batch.base != Version::Unknown || !deleted.contains(&record::zone_id(scope)) {
            return Ok(());
        }
        let want = Want { scope, focus: &Focus::All, desired: &[], tracked: &[], claims: &[] };
        let seen = self.observe(cx, &want).await?;
        let stays = |observed: &&Observed| {
            let id = &observed.id;
            observed.owner != Owner::System && !deleted.contains(id) && !record::is_apex(scope, id)
        };
        match seen.resources.iter().find(stays) {
            None => Ok(()),
            Some(found) => {
                let text = format!("zone {} is not deleted: {} is in it by now", scope.name, found.id);
                Err(Error::conflict(text))
            }
        }
    }
}
