//! Reads and writes the marks in TXT records of an entry's zones, around every backend.
//!
//! What was read of a zone is remembered with its version, because an action on a mark needs what the mark was; where
//! the two do not fit, the zone is read again.

use super::{
    beside::{self, Writer, beside, takes_over},
    journal::Joined,
    label,
    marks::{Marks, OCTODNS, Reader, has_marks, octodns_place},
    naming::Naming,
    options::Ownership,
    seal::SealKey,
};
use crate::{family::backend::Backend, record};
use reconciled_provider::{
    Batch, Cx, Deltas, Error, Focus, Journal, Observation, Observed, Outcome, Owner, ResourceId, Scope,
    Version, Want,
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

/// What an entry knows of the marks in its zones.
#[derive(Debug)]
pub(crate) struct Marker {
    ownership: Ownership,
    read: Mutex<HashMap<Scope, (Version, Arc<Marks>)>>,
}

impl Marker {
    /// Errors: `Invalid` when the instance has no form in a mark.
    pub(crate) fn new(ownership: Ownership) -> Result<Marker, Error> {
        if ownership.marks.is_some() {
            label::validate_instance(&ownership.instance)?;
        }
        Ok(Marker { ownership, read: Mutex::default() })
    }

    /// Says of all that was read of a zone whose it is, and remembers the marks.
    pub(crate) fn read(&self, cx: &Cx, scope: &Scope, seen: &mut Observation) -> Result<(), Error> {
        if seen.covered == Focus::All {
            let marks = Arc::new(self.marks(cx, &seen.resources)?);
            marks.assign(&mut seen.resources);
            self.remember(scope, seen.version.clone(), marks);
        } else if let Some((version, marks)) = self.remembered(scope)
            && matches!(version, Version::At(_))
            && version == seen.version
        {
            // A part of a zone is read only of what is tracked, and tells nothing of marks; those of this version do.
            marks.assign(&mut seen.resources);
        }
        Ok(())
    }

    /// Says of each of `resources`, which are all of a zone, whose it is, and leaves out what is nothing but marks: a manifest
    /// that declared them would keep what a takeover removes.
    pub(crate) fn without_marks(&self, cx: &Cx, resources: &mut Vec<Observed>) -> Result<(), Error> {
        let marks = self.marks(cx, resources)?;
        marks.assign(resources);
        resources.retain(|observed| !marks.are_all_of(&observed.id));
        Ok(())
    }

    /// True for what another program has, which sees to all values of a set. Marks that only stand in a set are of other
    /// records.
    pub(crate) fn is_owned_whole(&self, observed: &Observed) -> bool {
        let Owner::Other(other) = &observed.owner else { return false };
        let is_program = &**other == OCTODNS || other.starts_with(label::EXTERNAL_DNS);
        is_program && !has_marks(observed, &self.ownership.instance)
    }

    /// Our mark in `seen` of a record that is not there any more, where nothing else stands in its RRset.
    pub(crate) fn remains<'s>(
        &self,
        scope: &Scope,
        id: &ResourceId,
        seen: &'s Observation,
    ) -> Option<&'s Observed> {
        let writer = Writer { naming: self.naming()?, instance: &self.ownership.instance, key: None };
        let place = writer.place(id, &record::zone_name(scope))?;
        let (version, marks) = self.remembered(scope)?;
        let left = marks.left_at(&place).filter(|_| version == seen.version)?;
        seen.get(&place).filter(|observed| observed.hash == left.hash)
    }

    /// True where one of ours that is of nothing may be that of `id`, by whatever name. Where the zone was read in between at another
    /// version, it is not known whether there is one.
    pub(crate) fn leaves_mark(&self, scope: &Scope, id: &ResourceId, seen: &Observation) -> bool {
        let may_have_mark = record::parts(id).is_some_and(|(_, kind)| kind != "SOA");
        may_have_mark
            && match self.remembered(scope) {
                Some((version, marks)) if version == seen.version => marks.has_left(),
                _ => self.naming().is_some(),
            }
    }

    /// Adds errors for what must not be written because of marks.
    pub(crate) fn refuse(&self, want: &Want<'_>, seen: &Observation, deltas: &mut Deltas) {
        self.clashes(want, deltas);
        if seen.covered == Focus::All {
            self.born_marked(want, seen, deltas);
        }
    }

    /// Carries out a batch, and what happens to marks with it.
    pub(crate) async fn apply(
        &self,
        backend: &dyn Backend,
        cx: &Cx,
        batch: &Batch,
        journal: &dyn Journal,
    ) -> Result<(), Error> {
        let has_marks = self.remembered(&batch.scope).is_some_and(|(_, marks)| !marks.is_empty());
        let writes = self.naming().is_some() || has_marks;
        if !writes && !batch.actions.iter().any(|action| takes_over(&action.op)) {
            return backend.apply(cx, batch, journal).await;
        }
        let marks = self.planned_with(backend, cx, &batch.scope, &batch.base).await?;
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
        if actions.is_empty() {
            return Ok(());
        }
        let batch = Batch { actions, ..batch.clone() };
        let joined = Joined::new(journal, &belongs);
        let result = backend.apply(cx, &batch, &joined).await;
        joined.end().await.and(result)
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
    async fn planned_with(
        &self,
        backend: &dyn Backend,
        cx: &Cx,
        scope: &Scope,
        base: &Version,
    ) -> Result<Arc<Marks>, Error> {
        if let Some((version, marks)) = self.remembered(scope)
            && version == *base
        {
            return Ok(marks);
        }
        let want = Want { scope, focus: &Focus::All, desired: &[], tracked: &[], claims: &[] };
        let seen = backend.observe(cx, &want).await?;
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
            // Ours would stand there beside it, and each of the two would keep the other from the record.
            let own = self.naming().map(|own| own.typed(name, kind));
            for place in [naming.typed(name, kind), octodns_place(name, kind)].into_iter().chain(own) {
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
