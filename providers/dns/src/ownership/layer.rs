//! The layer around every DNS backend that reads and writes marks in TXT records.
//!
//! What was read of a zone is remembered with its version, because an action on a mark needs what the mark was; where
//! the two do not fit, the zone is read again.

use super::{
    Ownership,
    beside::{self, Writer, beside, takes_over},
    journal::Joined,
    label,
    marks::{Marks, Reader, octodns_place},
    naming::Naming,
    seal::SealKey,
};
use crate::record;
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use reconciled_provider::{
    Batch, Claim, Cx, Delta, Deltas, Error, Finding, Focus, Found, Health, Hint, Inputs, Journal, Kinds,
    LeftAlone, Linted, Manifest, Marking, Merged, Normalized, Observation, Observed, Observer, Outcome,
    Provider, ProviderInfo, Resource, ResourceId, Scope, Slot, Tracked, Version, Want,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

/// A backend and the marks in its zones.
#[derive(Debug)]
pub(crate) struct Layer {
    inner: Arc<dyn Provider>,
    info: ProviderInfo,
    ownership: Ownership,
    read: Mutex<HashMap<Scope, (Version, Arc<Marks>)>>,
}

impl Layer {
    pub(crate) fn new(inner: Arc<dyn Provider>, ownership: Ownership) -> Result<Layer, Error> {
        let mut info = inner.info().clone();
        if ownership.marks.is_some() {
            label::validate_instance(&ownership.instance)?;
            info.marking = Marking::Companion;
        }
        Ok(Layer { inner, info, ownership, read: Mutex::default() })
    }

    fn naming(&self) -> Option<&Naming> {
        self.ownership.marks.as_ref().map(|marks| &marks.naming)
    }

    fn marks(&self, cx: &Cx, resources: &[Observed]) -> Result<Marks, Error> {
        let foreign = self.ownership.external_dns.as_ref();
        let own = self.ownership.marks.as_ref();
        let places =
            own.and_then(|own| own.key.as_ref()).into_iter().chain(foreign.and_then(|f| f.key.as_ref()));
        let keys = places.map(|place| SealKey::reveal(cx, place)).collect::<Result<_, Error>>()?;
        let (own, foreign) = (self.naming(), foreign.map(|foreign| &foreign.naming));
        Ok(Reader { instance: &self.ownership.instance, own, foreign, keys }.read(resources))
    }

    fn remember(&self, scope: &Scope, version: Version, marks: Arc<Marks>) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.insert(scope.clone(), (version, marks));
    }

    fn remembered(&self, scope: &Scope) -> Option<(Version, Arc<Marks>)> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).get(scope).cloned()
    }

    /// The marks that a batch was planned with.
    async fn planned_with(&self, cx: &Cx, scope: &Scope, base: &Version) -> Result<Arc<Marks>, Error> {
        if let Some((version, marks)) = self.remembered(scope)
            && version == *base
        {
            return Ok(marks);
        }
        let want = Want { scope, focus: &Focus::All, desired: &[], tracked: &[], claims: &[] };
        let seen = self.inner.observe(cx, &want).await?;
        if seen.version != *base || !seen.complete {
            return Err(Error::conflict(format!("zone {} changed after it was planned", scope.name)));
        }
        let marks = Arc::new(self.marks(cx, &seen.resources)?);
        self.remember(scope, seen.version, marks.clone());
        Ok(marks)
    }

    /// Declared TXT records that stand where a mark of a declared record does.
    fn clashes(&self, want: &Want<'_>, deltas: &mut Deltas) {
        let Some(naming) = self.naming() else { return };
        let writer = Writer { naming, instance: &self.ownership.instance, key: None };
        let zone = record::zone_name(want.scope);
        let texts: BTreeSet<&ResourceId> =
            want.desired.iter().map(|r| &r.id).filter(|id| id.0.ends_with("/TXT")).collect();
        for desired in want.desired {
            let Some(place) = writer.place(&desired.id, &zone).filter(|place| texts.contains(place)) else {
                continue;
            };
            let text = format!("{place} is where the ownership mark of {} stands", desired.id);
            let error = Error::invalid(text).hint("name it otherwise, or give `marks` of the entry a prefix");
            deltas.insert(place, Err(error));
        }
    }

    /// Records that would be born with the mark of somebody else, who would then take them for theirs.
    fn born_marked(&self, want: &Want<'_>, seen: &Observation, deltas: &mut Deltas) {
        let Some((_, marks)) = self.remembered(want.scope).filter(|(_, marks)| !marks.is_empty()) else {
            return;
        };
        let plain = Naming::default();
        let naming = self.ownership.external_dns.as_ref().map_or(&plain, |foreign| &foreign.naming);
        for desired in want.desired {
            let Some((name, kind)) = record::parts(&desired.id) else { continue };
            if seen.get(&desired.id).is_some() {
                continue;
            }
            for place in [naming.typed(name, kind), octodns_place(name, kind)] {
                let txt = record::id(&place, "TXT");
                let Some(owner) = marks.within(&txt).find_map(|mark| mark.other().cloned()) else { continue };
                let text =
                    format!("the ownership mark of `{owner}` at {txt} would make {} theirs", desired.id);
                let hint =
                    format!("let `{owner}` remove its mark, or delete {txt} where nobody writes it any more");
                deltas.insert(desired.id.clone(), Err(Error::invalid(text).hint(hint)));
            }
        }
    }
}

#[async_trait]
impl Observer for Layer {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn kinds(&self, cx: &Cx) -> Result<Arc<Kinds>, Error> {
        self.inner.kinds(cx).await
    }

    fn normalize(&self, kinds: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        self.inner.normalize(kinds, manifest, inputs)
    }

    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        self.inner.versions(cx, scopes).await
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        let mut seen = self.inner.observe(cx, want).await?;
        // A part of a zone is read only of what is tracked, and tells nothing of marks.
        if seen.covered == Focus::All {
            let marks = Arc::new(self.marks(cx, &seen.resources)?);
            marks.assign(&mut seen.resources);
            self.remember(want.scope, seen.version.clone(), marks);
        }
        Ok(seen)
    }

    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        self.inner.compare(desired, observed)
    }

    async fn diff(&self, cx: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        let mut deltas = self.inner.diff(cx, want, seen).await?;
        self.clashes(want, &mut deltas);
        if seen.covered == Focus::All {
            self.born_marked(want, seen, &mut deltas);
        }
        Ok(deltas)
    }

    fn lint(&self, scope: &Scope, declared: &[Linted<'_>], exclusive: bool) -> Vec<Finding> {
        crate::lint::lint(scope, declared, exclusive)
    }

    fn left_alone(&self, rules: &[Arc<str>], observed: &Observed) -> Option<LeftAlone> {
        crate::ignore::left_alone(rules, &observed.id, &observed.bytes)
    }

    fn tells_health(&self) -> bool {
        self.inner.tells_health()
    }

    async fn health(&self, cx: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        self.inner.health(cx, want).await
    }

    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        let mut found = self.inner.discover(cx, query).await?;
        for found in &mut found {
            self.marks(cx, &found.resources)?.assign(&mut found.resources);
        }
        Ok(found)
    }

    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        self.inner.export(found)
    }

    fn part(&self, scope: &Scope, id: &ResourceId) -> Option<Arc<str>> {
        self.inner.part(scope, id)
    }

    fn slot(&self, id: &ResourceId) -> Option<Slot> {
        self.inner.slot(id)
    }

    fn guard_word(&self, scope: &Scope, id: &ResourceId) -> Option<&'static str> {
        self.inner.guard_word(scope, id)
    }

    fn show(&self, id: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        self.inner.show(id, bytes)
    }

    fn place(&self, claim: &Claim, scopes: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        self.inner.place(claim, scopes)
    }

    fn merge(
        &self,
        declared: &[&Resource],
        seen: Option<&Observed>,
        tracked: Option<&Tracked>,
        claims: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        self.inner.merge(declared, seen, tracked, claims)
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        self.inner.hints()
    }
}

#[async_trait]
impl Provider for Layer {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        let has_marks = self.remembered(&batch.scope).is_some_and(|(_, marks)| !marks.is_empty());
        let writes = self.naming().is_some() || has_marks;
        if batch.actions.is_empty() || !writes && !batch.actions.iter().any(|a| takes_over(&a.op)) {
            return self.inner.apply(cx, batch, journal).await;
        }
        let marks = self.planned_with(cx, &batch.scope, &batch.base).await?;
        let writer = match &self.ownership.marks {
            Some(own) => Some(Writer {
                naming: &own.naming,
                instance: &self.ownership.instance,
                key: own.key.as_ref().map(|place| SealKey::reveal(cx, place)).transpose()?,
            }),
            None => None,
        };
        let beside::Beside { actions, belongs, refused } = beside(batch, &marks, writer.as_ref())?;
        if !refused.is_empty() {
            journal.started(&refused.iter().map(|(id, _)| *id).collect::<Vec<_>>()).await?;
            let failed = refused.into_iter().map(|(id, error)| (id, Outcome::Failed(error)));
            journal.finished(failed.collect()).await?;
        }
        let batch = Batch { actions, ..batch.clone() };
        let joined = Joined::new(journal, &belongs);
        let result = self.inner.apply(cx, &batch, &joined).await;
        joined.end().await.and(result)
    }
}
