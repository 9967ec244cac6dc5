//! From a decision to a step: its reason, what keeps it from being taken, and the row it leaves behind.
//!
//! Guarantees: a step that may not be taken now is in the plan all the same, and says why.
//! It deliberately does not choose the change: that is the table in [`super::resource`].

use super::{
    Blocked, CLAIMS, Change, MADE_IN_PART, NOT_AS_PLANNED, Reason, ScopePlan, Step, Work, claimed,
    condition::failed_to_plan, guard_words::PROTECTED, planner::Planner, reason, step::unplanned,
};
use crate::store::{Condition, Known, Row, RowState, Terms};
use reconciled_provider::{
    Address, Deletion, Drift, EntryPolicy, Error, Hash, ManifestKey, Observed, Reference, Resource,
    ResourceId, Spec, Tracked,
};
use std::{sync::Arc, time::Duration};

impl Planner<'_> {
    /// Adds `step`, or says what keeps it from being taken.
    pub(super) fn push(&self, mut step: Step, desired: &Resource, out: &mut ScopePlan) {
        match self.kept(desired) {
            Ok(Some(kept)) if step.change.writes() => {
                step.work.desired = Some(kept.clone());
                step.after = Some(self.after_leaving(desired));
            }
            Err(error) if step.change.writes() => {
                return out.conditions.push(failed_to_plan(desired, step.address, error));
            }
            _ => {}
        }
        let policy = self.input.desired.policies.get(desired.policy);
        let refused = self.refusal(&step.id, step.declared());
        let futile = refused.filter(|told| [MADE_IN_PART, NOT_AS_PLANNED].contains(&&*told.reason));
        step.blocked = self.blocked(&step, desired, policy.suspend);
        if let Some(told) = futile {
            match step.blocked.is_some() {
                // It is so still, whatever else keeps it.
                true => out.still_refused.push(told.clone()),
                false if self.input.tries_again => {}
                false => step.blocked = Some(Blocked::Futile(Box::new(told.clone()))),
            }
        }
        match &step.blocked {
            Some(Blocked::Drift(Drift::Ignore)) => {
                out.in_sync += 1;
                if step.work.observed.is_none() {
                    out.gone.push(desired.id.clone());
                }
                return self.ignore(&desired.id, out);
            }
            Some(blocked) => out.conditions.push(blocked.condition(&step)),
            None => out.conditions.extend(refused.filter(|_| futile.is_none()).cloned()),
        }
        out.steps.push(step);
    }

    /// What `step` waits for, where that is another manifest and nothing else.
    pub(super) fn is_after(&self, step: &Step, desired: &Resource) -> Option<Blocked> {
        let policy = self.input.desired.policies.get(desired.policy);
        let blocked = self.blocked(step, desired, policy.suspend);
        blocked.filter(|blocked| matches!(blocked, Blocked::Dependency(_)))
    }

    /// Adds a step that could not be planned so far: what it waits for may be what is missing for it.
    pub(super) fn not_yet(&self, mut step: Step, blocked: Blocked, error: &Error, out: &mut ScopePlan) {
        let waits = blocked.condition(&step);
        let message = format!("{}; so far: {}", waits.message, error.chain());
        out.conditions.push(Condition { message: message.into(), ..waits });
        step.blocked = Some(blocked);
        out.steps.push(step);
    }

    fn blocked(&self, step: &Step, desired: &Resource, suspended: bool) -> Option<Blocked> {
        if matches!(step.change, Change::Adopt) {
            return None;
        }
        if suspended {
            return Some(Blocked::Suspended(None));
        }
        // What is due was changed by nobody: what is said of drift is not said of it.
        if matches!(step.reason, Reason::Drift | Reason::Restore) {
            match self.drift_mode(desired) {
                Drift::Heal => {}
                mode => return Some(Blocked::Drift(mode)),
            }
        }
        // What was begun may be finished.
        let is_begun =
            step.reason == Reason::Continue && matches!(step.change, Change::Continue | Change::Update);
        let needed = match step.change {
            Change::Create => EntryPolicy::CreateOnly,
            _ if is_begun => EntryPolicy::CreateOnly,
            Change::Update | Change::Continue => EntryPolicy::UpsertOnly,
            _ => EntryPolicy::Sync,
        };
        if self.input.policy < needed {
            return Some(Blocked::EntryPolicy(self.input.policy));
        }
        // A manifest can only say less than the entry.
        let own = self.input.desired.policies.get(desired.policy).writes;
        if own < needed {
            return Some(Blocked::OwnPolicy(own));
        }
        if self.input.provider.only_reads(&desired.id) {
            return self.waits_for(desired);
        }
        if let Spec::Waiting { on, .. } = &desired.spec {
            return Some(self.lacks(on));
        }
        // What is only made again as it was needs no more than it had then.
        let was_built_on = |key: &ManifestKey| {
            step.reason.is_heal() && was_after(step).contains(key) && self.input.there.contains(key)
        };
        let unready = |key: &&ManifestKey| !self.input.ready.contains(*key) && !was_built_on(key);
        let manifest = self.manifest(desired);
        if step.change == Change::EndFormer
            && let Some(by) = manifest.and_then(|manifest| self.input.stood_on.get(&manifest.key))
        {
            return Some(Blocked::StandsOnFormer(by.clone()));
        }
        // What it depends on may itself wait for this to be done, as two deployments behind one balancer do for each other.
        let after = manifest.filter(|_| !is_begun).map_or(&[][..], |_| self.after(desired));
        after.iter().find(unready).map(|key| Blocked::Dependency(key.clone()))
    }

    /// What is wrong where outputs are not known.
    pub(super) fn lacks(&self, on: &[Reference]) -> Blocked {
        let vain = |reference: &Reference| {
            let hint = self.input.desired.vain.get(reference)?;
            // What is written meanwhile may put out more.
            let is_ready = self.input.ready.contains(&reference.target);
            is_ready.then(|| Blocked::NoOutput { reference: reference.clone().into(), hint: hint.clone() })
        };
        let waits = || Blocked::Reference(on.iter().map(|r| r.target.clone()).collect());
        on.iter().find_map(vain).unwrap_or_else(waits)
    }

    /// What has to be there first, whatever was there before.
    pub(super) fn waits_for(&self, desired: &Resource) -> Option<Blocked> {
        if let Spec::Waiting { on, .. } = &desired.spec
            && !on.is_empty()
        {
            return Some(self.lacks(on));
        }
        let after = self.manifest(desired).map_or(&[][..], |_| self.after(desired));
        after.iter().find(|key| !self.input.ready.contains(*key)).map(|key| Blocked::Dependency(key.clone()))
    }

    fn after(&self, desired: &Resource) -> &[ManifestKey] {
        self.input.desired.after(desired).map_or(&[], |after| after)
    }

    pub(super) fn step(
        &self,
        change: Change,
        desired: &Resource,
        row: Option<&Row>,
        observed: Option<&Observed>,
        address: Address,
    ) -> Step {
        let manifest = self.manifest(desired);
        let mut guard_words = Vec::new();
        if matches!(change, Change::Update | Change::Replace | Change::Continue) {
            guard_words.extend(self.input.provider.guard_word(self.input.scope, &desired.id));
        }
        if change == Change::Replace && self.is_to_stay(desired, row) {
            guard_words.push(PROTECTED);
        }
        let reason = match &change {
            // A declaration that overtakes a pending one is a change like any other.
            Change::Continue if row.is_none_or(|r| r.template == desired.spec.template()) => Reason::Continue,
            // Only a manifest says where it was moved from, and only a person has it go back.
            Change::Move { .. } => reason::rollback(self.input, &desired.id)
                .unwrap_or_else(|| reason::commit(self.input, manifest)),
            _ => reason::of(self.input, manifest, desired, row, observed),
        };
        Step {
            id: desired.id.clone(),
            place: manifest.map(|_| self.input.desired.place(desired)).map(|place| (place.file, place.line)),
            reason,
            fields: Vec::new(),
            before: observed.map(|o| o.hash),
            after: Some(desired.spec.template()),
            blocked: None,
            guard_words,
            is_remade: change == Change::Replace && !self.input.provider.info().atomic_batch,
            goes_on: false,
            work: Work {
                desired: Some(desired.clone()),
                observed: observed.cloned().map(Arc::new),
                row: Some(self.row_for(desired, row, address.clone(), None).into()),
                was: row.cloned().map(Arc::new),
                delta: unplanned(),
            },
            address,
            change,
        }
    }

    /// What is protected, or is to be abandoned and not deleted, is not deleted to be made anew either. It counts as
    /// last applied; for what was never applied, as declared.
    fn is_to_stay(&self, desired: &Resource, row: Option<&Row>) -> bool {
        let declared = self.input.desired.policies.get(desired.policy).deletion;
        matches!(row.map(|row| row.deletion).or(declared), Some(Deletion::Protect | Deletion::Abandon))
    }

    /// What is done about drift: what its manifest says, or else its source.
    pub(super) fn drift_mode(&self, desired: &Resource) -> Drift {
        let own = self.input.desired.policies.get(desired.policy).drift;
        let source = || self.input.desired.sources.get(self.manifest(desired)?.key.source());
        own.or_else(|| source()?.drift).unwrap_or(Drift::Heal)
    }

    /// The row as it shall be once `desired` is applied. Where nothing is written it keeps its `revision`.
    pub(super) fn row_for(
        &self,
        desired: &Resource,
        row: Option<&Row>,
        address: Address,
        revision: Option<&Arc<str>>,
    ) -> Row {
        let input = self.input;
        let policy = input.desired.policies.get(desired.policy);
        let manifest = self.manifest(desired);
        let key = manifest.map_or_else(|| claimed::key(input.scope, &desired.id), |m| m.key.clone());
        let source = input.desired.sources.get(key.source());
        // A folder without a name only tries out what a source declares: the row stays that source's.
        let is_nameless = source.is_some_and(|s| !s.prunes && s.revision.is_empty());
        let key = row.filter(|_| is_nameless).map_or(key, |row| row.manifest.clone());
        let mut tracked = match row {
            Some(row) => row.tracked.clone(),
            None => Tracked::new(desired.id.clone(), Hash::default()),
        };
        let ours = input.shared.ours.get(&desired.id);
        if let Some(ours) = ours {
            tracked.private = ours.clone();
        }
        tracked.applied = desired.spec.hash().unwrap_or(tracked.applied);
        let after = manifest.and_then(|_| input.desired.after(desired));
        tracked.after = after.cloned().unwrap_or_default();
        let terms = Terms {
            scope: desired.scope.clone(),
            file: manifest.map_or_else(|| Arc::from(""), |m| m.file.clone()),
            normalizer: input.provider.info().normalizer,
            deletion: policy.deletion.unwrap_or(Deletion::Delete),
            writes: policy.writes,
            drift: self.drift_mode(desired),
            merge: policy.merge || ours.is_some(),
            revision: revision.cloned().unwrap_or_else(|| match reason::rollback(input, &desired.id) {
                Some(Reason::Rollback(label)) => label,
                _ => source.map_or_else(|| Arc::from(""), |s| s.label.clone()),
            }),
            formerly: row.map(|row| other_names(row, &address)).unwrap_or_default(),
            manifest: key,
        };
        let mut last = self.terms.take();
        let terms = terms.shared(&mut last);
        self.terms.set(last);
        let known = Known { terms, tracked, template: desired.spec.template(), address };
        let (state, written_at) =
            row.map_or((RowState::Settled, Duration::ZERO), |row| (row.state.clone(), row.written_at));
        Row::new(known, state, written_at)
    }
}

/// What it was called besides `address`.
fn other_names(row: &Row, address: &Address) -> Vec<Address> {
    row.formerly.iter().filter(|name| *name != address).cloned().collect()
}

/// What it depended on when it was last applied.
fn was_after(step: &Step) -> &[ManifestKey] {
    step.work.was.as_ref().map_or(&[], |row| &row.tracked.after)
}

/// The step that does something about what `row` tracks and nothing declares.
pub(super) fn row(planner: &Planner<'_>, change: Change, row: &Row, observed: Option<&Observed>) -> Step {
    let version = planner.input.provider.info().normalizer;
    // The same document no longer yields it: the normalizer moved, not the manifest.
    let upgraded = row.normalizer != version
        && planner.declared(&row.manifest).is_some_and(|m| planner.is_same_document(&row.manifest, m));
    let reason = match row.manifest.source() == CLAIMS {
        true => Reason::Claim,
        false if upgraded => Reason::Upgrade,
        false => reason::rollback(planner.input, &row.tracked.id)
            .unwrap_or_else(|| Reason::Commit(label(planner, Some(row)))),
    };
    let whole = Arc::new(row.clone());
    Step {
        change,
        id: ResourceId(row.tracked.id.0.clone()),
        address: row.address.clone(),
        reason,
        place: None,
        fields: Vec::new(),
        before: observed.map(|o| o.hash),
        after: None,
        blocked: None,
        guard_words: Vec::new(),
        is_remade: false,
        goes_on: false,
        work: Work {
            desired: None,
            observed: observed.cloned().map(Arc::new),
            row: Some(whole.clone()),
            was: Some(whole),
            delta: unplanned(),
        },
    }
}

/// What people call the revision by which it goes: of the source of `row`, or else of the scope.
pub(super) fn label(planner: &Planner<'_>, row: Option<&Row>) -> Arc<str> {
    let desired = planner.input.desired;
    let source = match row {
        Some(row) => desired.sources.get(row.manifest.source()),
        None => desired.source_of(planner.input.scope).map(|(_, source)| source),
    };
    source.map(|s| s.label.clone()).unwrap_or_default()
}
