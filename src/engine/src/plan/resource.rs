//! One desired resource against what was seen and what is tracked: the table of INTERFACE §3.
//!
//! Guarantees: only what is tracked, or taken over by consent or equality, is changed; a mark of another owner
//! is respected everywhere. It deliberately deletes nothing: that is [`super::prune`].

use super::{
    CLAIMS, Change, Reason, ScopePlan, Step,
    condition::{
        differences, failed_to_plan, forgotten, management_conflict, not_ours, not_yet_visible,
        owned_elsewhere, still_there,
    },
    difference::Difference,
    guard_words::{FOREIGN_DELETE, PROTECTED},
    planner::Planner,
    prune,
};
use crate::{
    desired::ManifestMeta,
    store::{Condition, Consent, Row, RowState},
};
use reconciled_provider::{
    Address, Adopt, Deletion, Delta, FieldChange, Hash, ManifestKey, OWNER_FIELD, Observed, Owner, Resource,
    ResourceId, Spec,
};
use std::{sync::Arc, time::Duration};

impl Planner<'_> {
    /// Plans one desired resource: the table of INTERFACE §3.
    pub(super) fn desired(&self, desired: &Resource, out: &mut ScopePlan) {
        let row = self.row(&desired.id);
        // Where the inventory stands in for what was seen, both ids are one text, and nothing is compared.
        let observed = self.seen.get(row.map_or(&desired.id, |row| &row.tracked.id));
        self.declared_rows.update(|count| count + usize::from(row.is_some()));
        match self.stands(desired, row, observed) {
            Some(row) => self.count(desired, row, observed, out),
            None => self.by_the_table(desired, row, observed, out),
        }
    }

    /// The same by the table, whatever it comes to.
    pub(super) fn by_the_table(
        &self,
        desired: &Resource,
        row: Option<&Row>,
        observed: Option<&Observed>,
        out: &mut ScopePlan,
    ) {
        let address = self.address(desired);
        if !self.covers(&desired.id) || !self.is_selected(desired, &address) {
            // Nobody compared it: the scope is not known to be in sync.
            out.unlike += 1;
            out.still_refused.extend(self.refusal(&desired.id, desired.spec.hash()).cloned());
            return;
        }
        if let Some(other) = observed.and_then(|o| self.kept_by(desired, row, o)) {
            out.conditions.push(management_conflict(desired, address, other));
            return;
        }
        if let Some(owner) = row.and_then(|row| self.held_by_source(desired, row)) {
            out.conditions.push(owned_elsewhere(desired, address, owner));
            return;
        }
        if let Some(manifest) = self.frozen_by(desired, row) {
            // What of it is kept since a word is missing is counted with all that is.
            if !self.input.shared.kept.contains(&desired.id) {
                *out.frozen.entry(manifest.clone()).or_default() += 1;
                out.unlike += 1;
            }
            return;
        }
        match (row, observed) {
            (Some(row), _) if matches!(row.state, RowState::Pending { .. }) => {
                self.go_on(desired, row, observed, address, out)
            }
            (Some(row), Some(observed)) => self.tracked_and_seen(desired, row, observed, address, out),
            (None, Some(observed)) => self.untracked_but_seen(desired, observed, address, out),
            // What was not seen may still be there.
            (_, None) if !self.input.seen.complete => {}
            (Some(row), None) => self.tracked_but_missing(desired, row, address, out),
            (None, None) if self.is_lost(&desired.id) => out.conditions.push(forgotten(desired, address)),
            (None, None) => self.create(desired, None, address, out),
        }
    }

    /// Its manifest, where a file that cannot be read declared it or may do so: what another one says of it now may be just what
    /// that one overrides.
    fn frozen_by<'r>(&'r self, desired: &Resource, row: Option<&'r Row>) -> Option<&'r ManifestKey> {
        match row {
            Some(row) if !row.merge && !self.is_shared(desired) => {
                self.is_frozen(desired, row).then_some(&row.manifest)
            }
            // Of what is shared the rows have one of the files, and what nobody tracks has none: each is judged by who declares it.
            _ if self.input.desired.sources.values().all(|source| source.overlaid.is_empty()) => None,
            _ => {
                let mut declaring = self.declarers(desired).into_iter().map(|(_, manifest)| manifest);
                declaring.find(|manifest| self.may_be_overridden(manifest)).map(|manifest| &manifest.key)
            }
        }
    }

    /// True where something that cannot be read may lie over the manifest, and it is not known that nothing did: all that is
    /// tracked of it here is from its own file.
    fn may_be_overridden(&self, manifest: &ManifestMeta) -> bool {
        let source = self.input.desired.sources.get(manifest.key.source());
        source.is_some_and(|source| source.overlaid.contains(&manifest.file))
            && self.only_file(&manifest.key) != Some(&manifest.file)
    }

    /// True where the file that declared it cannot be read.
    fn is_frozen(&self, desired: &Resource, row: &Row) -> bool {
        let moved_file = self.manifest(desired).is_some_and(|manifest| manifest.file != row.file);
        let source = || self.input.desired.sources.get(row.manifest.source());
        // What is on its way is followed all the same, as far as nothing else is declared.
        let goes_on =
            matches!(row.state, RowState::Pending { .. }) && row.template == desired.spec.template();
        moved_file && !goes_on && source().is_some_and(|source| source.is_frozen(&row.file))
    }

    /// What several declare is chosen by each of them, and what is claimed by whoever claims it.
    fn is_selected(&self, desired: &Resource, address: &Address) -> bool {
        self.selects(address, self.manifest(desired))
            || self.declarers(desired).iter().any(|(address, manifest)| self.selects(address, Some(manifest)))
            || self
                .claimants(&desired.id)
                .any(|m| self.input.selection.may_select(&m.key, &m.address, Some(&m.labels)))
    }

    /// True for what was let go of and nothing can find again: it may well be there, and making it would make two.
    fn is_lost(&self, id: &ResourceId) -> bool {
        matches!(self.consent(id), Some(Consent::Barred)) && !self.input.provider.info().finds_untracked()
    }

    /// The other source that this is tracked for and that has not let go of it: it was not read whole, so it may
    /// still declare it. Once it is whole and silent, the declaration of another source is a hand-over.
    fn held_by_source<'r>(&self, desired: &Resource, row: &'r Row) -> Option<&'r str> {
        let declaring = self.manifest(desired)?.key.source().to_string();
        let owner = row.manifest.source();
        let state = self.input.desired.sources.get(owner)?;
        (owner != declaring && owner != CLAIMS && !state.is_whole()).then_some(owner)
    }

    fn tracked_and_seen(
        &self,
        desired: &Resource,
        row: &Row,
        observed: &Observed,
        address: Address,
        out: &mut ScopePlan,
    ) {
        // Whoever keeps us from changing it was asked before.
        let taken = matches!(observed.owner, Owner::Other(_))
            && (self.is_agreed(desired, observed) || !self.is_beside(desired, observed));
        if matches!(self.consent(&desired.id), Some(Consent::Adopt { .. })) && !taken {
            // Spent once it is tracked, not before: until then the write it allows may be held or fail.
            out.spent.push(desired.id.clone());
        }
        self.moved(desired, row, Some(observed), &address, out);
        if let Some((delta, until)) = self.still_there(desired) {
            out.to_come.push(still_there(address.clone(), &delta.former, until));
        }
        let difference = self.difference(desired, observed);
        let former = match &difference {
            Difference::Fields(delta) if !delta.former.is_empty() => Some(delta),
            _ => None,
        };
        if let Some(delta) = former {
            self.end_former(desired, row, observed, delta, address.clone(), out);
        }
        if former.is_some() || matches!(difference, Difference::Same | Difference::Ignored) {
            if matches!(difference, Difference::Ignored) {
                self.ignore(&desired.id, out);
            } else if self.has_drifted(&desired.id) {
                out.as_declared.push(desired.id.clone());
            }
            match taken {
                true => self.write_mark(desired, Some(row), observed, address, out),
                false => self.in_sync(desired, row, observed, address, out),
            }
            return;
        }
        let unseen = self.unseen_until(row).filter(|_| row.template == desired.spec.template());
        if let Some(at) = unseen.max(self.unanswered_until(&desired.id, Some(observed))) {
            out.conditions.push(not_yet_visible(desired, address, at));
            return;
        }
        match difference {
            Difference::Failed(error) => out.conditions.push(failed_to_plan(desired, address, error)),
            Difference::Fields(delta) => {
                let mut step = self.change(desired, Some(row), observed, delta, address);
                if row.merge && !self.is_shared(desired) && prune::holds_others(self, row, observed) {
                    // It was shared, and what others put there goes.
                    step.guard_words.push(FOREIGN_DELETE);
                }
                let shared = self.input.shared;
                if row.deletion == Deletion::Protect && shared.has_left && shared.goes.contains(&desired.id) {
                    step.guard_words.push(PROTECTED);
                }
                if taken {
                    step.reason = Reason::Adopt;
                    self.change_owner(&mut step, observed);
                }
                self.push(step, desired, out);
            }
            _ => {
                // A provider may plan with what is not known yet: it says whether the worst is a replacement.
                let step = match self.input.deltas.get(&desired.id) {
                    Some(Err(error)) => return out.conditions.push(failed_to_plan(desired, address, error)),
                    Some(Ok(delta)) => self.change(desired, Some(row), observed, delta.clone(), address),
                    _ => self.step(Change::Update, desired, Some(row), Some(observed), address),
                };
                match (&desired.spec, row.template == desired.spec.template()) {
                    // What was declared is there; whether it still is as resolved cannot be told now.
                    (Spec::Waiting { on, .. }, true) => {
                        out.conditions.push(self.lacks(on).condition(&step));
                    }
                    _ => self.push(step, desired, out),
                }
            }
        }
    }

    /// The row gets the name it has now, if it was moved.
    fn moved(
        &self,
        desired: &Resource,
        row: &Row,
        observed: Option<&Observed>,
        address: &Address,
        out: &mut ScopePlan,
    ) {
        if let Some(from) = self.input.moved.get(&desired.id) {
            let change = Change::Move { from: from.clone().into() };
            out.steps.push(self.step(change, desired, Some(row), observed, address.clone()));
        }
    }

    /// What it took the place of goes, once nothing stands on it any more. What is declared is there: whoever refers to it
    /// may move on, and neither is it drift nor a change that a person could not have seen when the replacement was planned.
    fn end_former(
        &self,
        desired: &Resource,
        row: &Row,
        observed: &Observed,
        delta: &Delta,
        address: Address,
        out: &mut ScopePlan,
    ) {
        let mut step = self.step(Change::EndFormer, desired, Some(row), Some(observed), address);
        step.reason = Reason::Continue;
        step.fields = delta.fields.clone();
        step.work.delta = delta.clone().into();
        self.push(step, desired, out);
    }

    /// The step that makes what was seen as declared.
    fn change(
        &self,
        desired: &Resource,
        row: Option<&Row>,
        observed: &Observed,
        delta: Delta,
        address: Address,
    ) -> Step {
        let change = if delta.replace { Change::Replace } else { Change::Update };
        let mut step = self.step(change, desired, row, Some(observed), address);
        // Nobody else changed anything: a write of ours is to be finished, whatever is said of drift.
        if step.reason == Reason::Drift && delta.is_unfinished() {
            step.reason = Reason::Continue;
        }
        if step.reason == Reason::Drift && delta.is_due {
            step.reason = Reason::Due;
        }
        step.fields = delta.fields.clone();
        step.work.delta = delta.into();
        step
    }

    /// A pending resource takes its next step when its time has come; until then it waits.
    fn go_on(
        &self,
        desired: &Resource,
        row: &Row,
        observed: Option<&Observed>,
        address: Address,
        out: &mut ScopePlan,
    ) {
        let RowState::Pending { recheck_at } = row.state else { return };
        let mine = || self.input.memory.claims_made.iter().filter(|c| c.owner == desired.id);
        let claims_came_true = mine().next().is_some() && mine().all(|c| c.synced);
        let due = self.input.now >= recheck_at || claims_came_true;
        // A new declaration overtakes a pending one; the provider gets both and decides how.
        if !due && row.template == desired.spec.template() {
            let claimed: Vec<_> = mine().filter(|c| !c.synced).collect();
            let message = match claimed.first() {
                None => "the remote is on its way".to_owned(),
                Some(first) => {
                    let more = match claimed.len() {
                        1 => String::new(),
                        all => format!(", and {} more", all - 1),
                    };
                    format!("waits for what it claims: {} in {}{more}", first.id, first.scope)
                }
            };
            let hint = "to see what keeps that: reconciled status 'Claim/*'";
            let wait = Condition::waiting("Progressing", message).about(desired.id.clone(), address);
            out.conditions.push(Condition {
                hint: (!claimed.is_empty()).then(|| hint.into()),
                next_try: Some(recheck_at),
                ..wait
            });
            return;
        }
        // Its outcome is written under the new name: the old row must not stay beside that.
        self.moved(desired, row, observed, &address, out);
        let mut step = self.step(Change::Continue, desired, Some(row), observed, address);
        if let Some(Difference::Fields(delta)) = observed.map(|o| self.difference(desired, o)) {
            step.fields = delta.fields.clone();
            step.work.delta = delta.into();
        }
        self.push(step, desired, out);
    }

    fn in_sync(
        &self,
        desired: &Resource,
        row: &Row,
        observed: &Observed,
        address: Address,
        out: &mut ScopePlan,
    ) {
        out.in_sync += 1;
        let mut now = self.row_for(desired, Some(row), address, Some(&row.revision));
        if !observed.outputs.is_empty() {
            // An output may change although nothing else does (an address that is leased): others refer to it.
            now.tracked.outputs = observed.outputs.clone();
        }
        // What an unanswered replacement made is another one than the row knows.
        let is_open = self.unanswered(&desired.id).is_some_and(|open| open.intent.makes_anew());
        if (is_open || observed.has_news) && !row.merge && !observed.private.is_empty() {
            now.tracked.private = observed.private.clone();
            now.tracked.remote = observed.remote.clone();
        }
        let settled = Row { state: RowState::Settled, ..now };
        if settled == *row {
            return;
        }
        let only_state = Row { state: row.state.clone(), ..settled.clone() } == *row;
        if only_state {
            out.settled.push(desired.id.clone());
        } else {
            out.refreshed.push(settled);
        }
    }

    fn untracked_but_seen(
        &self,
        desired: &Resource,
        observed: &Observed,
        address: Address,
        out: &mut ScopePlan,
    ) {
        let policy = self.input.desired.policies.get(desired.policy);
        let consent = self.consent(&desired.id);
        let difference = self.difference(desired, observed);
        let agreed = self.is_agreed(desired, observed);
        let barred = matches!(consent, Some(Consent::Barred)) || policy.adopt == Adopt::Never;
        // Shared values leave those of others alone. A mark of this instance is its own earlier word, unless a later one took it
        // back, or a person was asked: they said yes to what they were shown.
        let is_own_word = observed.owner == Owner::Ours && consent.is_none();
        let is_beside = self.is_beside(desired, observed);
        let needs_consent = !(is_beside || observed.owner == Owner::System || is_own_word);
        // Nothing is to be had by consent to what cannot be made as declared.
        if let Difference::Failed(error) = difference {
            out.conditions.push(failed_to_plan(desired, address, error));
            return;
        }
        if barred && !agreed {
            let why = match consent {
                Some(Consent::Barred) => "it was forgotten",
                _ => "its manifest says `adopt: never`",
            };
            out.conditions.push(not_ours(desired, address, why));
            return;
        }
        // The word is to whoever's mark it names: what bears none may be anybody's.
        let always = match (&policy.adopt, &observed.owner) {
            (Adopt::Always, _) => true,
            (Adopt::From(from), Owner::Other(other)) => from == other,
            _ => false,
        };
        // Where everything is ignored, nothing says that it is the one that is meant; and it would go with its manifest.
        let is_blind =
            matches!(difference, Difference::Ignored) && policy.ignore.iter().any(|path| &**path == "*");
        let is_meant = !is_blind || !needs_consent || agreed || always;
        if matches!(difference, Difference::Same | Difference::Ignored) && is_meant {
            if matches!(observed.owner, Owner::Other(_)) && !is_beside {
                return self.write_mark(desired, None, observed, address, out);
            }
            let mut step = self.step(Change::Adopt, desired, None, Some(observed), address);
            step.reason = Reason::Adopt;
            self.push(step, desired, out);
            return;
        }
        if needs_consent && !agreed && !always {
            let why = match consent {
                Some(Consent::Adopt { .. }) => "it changed after `adopt` was said",
                Some(Consent::LetGo) => "it was left to others, and differs from the manifest",
                _ => "it exists, differs from the manifest, and is not tracked",
            };
            let why = match &policy.adopt {
                Adopt::From(from) => format!("{why}; it bears no mark of `{from}`"),
                _ => why.to_string(),
            };
            let mut found = not_ours(desired, address, &why);
            found.message =
                format!("{}{}", found.message, differences(self.input.deltas, &desired.id)).into();
            out.conditions.push(found);
            return;
        }
        let mut step = match difference {
            Difference::Fields(delta) => self.change(desired, None, observed, delta, address),
            _ => self.step(Change::Update, desired, None, Some(observed), address),
        };
        if agreed || always {
            step.reason = Reason::Adopt;
            if !is_beside {
                self.change_owner(&mut step, observed);
            }
        }
        self.push(step, desired, out);
    }

    /// Takes over what another owner marked and what is otherwise as desired: only the mark is written.
    fn write_mark(
        &self,
        desired: &Resource,
        row: Option<&Row>,
        observed: &Observed,
        address: Address,
        out: &mut ScopePlan,
    ) {
        let mut step = self.step(Change::Update, desired, row, Some(observed), address);
        step.reason = Reason::Adopt;
        self.change_owner(&mut step, observed);
        self.push(step, desired, out);
    }

    /// Says in the step that another owner's mark goes: to the person who reads the plan, and to the provider.
    fn change_owner(&self, step: &mut Step, observed: &Observed) {
        let Owner::Other(other) = &observed.owner else { return };
        let field = FieldChange::text(OWNER_FIELD, Some(other.to_string()), Some("this instance".into()));
        step.fields.push(field.clone());
        Arc::make_mut(&mut step.work.delta).fields.push(field);
    }

    fn tracked_but_missing(&self, desired: &Resource, row: &Row, address: Address, out: &mut ScopePlan) {
        if self.is_ignored(desired) {
            out.gone.push(desired.id.clone());
            return self.ignore(&desired.id, out);
        }
        if matches!(desired.spec, Spec::Waiting { .. }) && self.input.provider.only_reads(&desired.id) {
            // It was not looked for: what it told stands until it is read again.
            let step = self.step(Change::Adopt, desired, Some(row), None, address);
            out.conditions.extend(self.waits_for(desired).map(|blocked| blocked.condition(&step)));
            return;
        }
        if let Some(at) = self.unseen_until(row).max(self.unanswered_until(&desired.id, None)) {
            // A write may stay unseen that long; creating again would make two.
            out.conditions.push(not_yet_visible(desired, address, at));
            return;
        }
        self.create(desired, Some(row), address, out);
    }

    /// Counts what differs and is left so.
    pub(super) fn ignore(&self, id: &ResourceId, out: &mut ScopePlan) {
        out.unlike += 1;
        out.left.push(id.clone());
        if self.has_drifted(id) {
            out.ignored.push(id.clone());
        }
    }

    /// Until when our last write may be missing from what reads show.
    pub(super) fn unseen_until(&self, row: &Row) -> Option<Duration> {
        let until = row.written_at + self.input.provider.info().consistency_window;
        (self.input.now < until).then_some(until)
    }

    /// Until when a write that got no answer may be missing from what reads show.
    fn unanswered_until(&self, id: &ResourceId, observed: Option<&Observed>) -> Option<Duration> {
        let window = self.input.provider.info().consistency_window;
        let latest = self.unanswered(id)?;
        let shown = observed.is_some_and(|o| latest.intent.after == Some(o.hash));
        let until = latest.started_at + window;
        (!shown && self.input.now < until).then_some(until)
    }

    /// Creates what is not there, as the provider planned it where it plans creates.
    fn create(&self, desired: &Resource, row: Option<&Row>, address: Address, out: &mut ScopePlan) {
        let mut step = self.step(Change::Create, desired, row, None, address.clone());
        let delta = match self.input.deltas.get(&desired.id) {
            Some(Err(error)) => match self.is_after(&step, desired) {
                Some(blocked) => return self.not_yet(step, blocked, error, out),
                None => return out.conditions.push(failed_to_plan(desired, address, error)),
            },
            Some(Ok(delta)) => Some(delta),
            None => None,
        };
        if let Some(delta) = delta {
            step.fields = delta.fields.clone();
            step.work.delta = delta.clone().into();
        }
        self.push(step, desired, out);
    }

    fn is_ignored(&self, desired: &Resource) -> bool {
        let policy = self.input.desired.policies.get(desired.policy);
        policy.ignore.iter().any(|path| &**path == "*")
    }

    /// True when values of others stay beside ours: nobody's mark says whose the whole is.
    fn is_shared(&self, desired: &Resource) -> bool {
        let input = self.input;
        input.desired.policies.get(desired.policy).merge
            || input.shared.ours.contains_key(&desired.id)
            || input.shared.claimed.contains(&desired.id)
    }

    /// True when our values may stand beside those of others without their word. Who writes all of it would take ours out.
    fn is_beside(&self, desired: &Resource, observed: &Observed) -> bool {
        let is_merged = self.input.desired.policies.get(desired.policy).merge;
        self.is_shared(desired) && !(is_merged && self.is_owned_whole(observed))
    }

    /// True when it bears the mark of another owner who writes all of it.
    pub(super) fn is_owned_whole(&self, observed: &Observed) -> bool {
        matches!(observed.owner, Owner::Other(_)) && self.input.provider.is_owned_whole(observed)
    }

    /// Whose mark keeps us from changing what was seen, if any does.
    ///
    /// What a manifest says counts once: what was ours and got somebody else's mark since needs a new consent. What a write that
    /// broke off has of it was never applied as a whole, and may have kept the mark.
    fn kept_by<'o>(
        &self,
        desired: &Resource,
        row: Option<&Row>,
        observed: &'o Observed,
    ) -> Option<&'o Arc<str>> {
        let Owner::Other(other) = &observed.owner else { return None };
        let policy = self.input.desired.policies.get(desired.policy);
        let is_half = |row: &Row| row.state == RowState::Applied && row.tracked.applied == Hash::default();
        let is_new = row.is_none_or(is_half);
        let declared = is_new && matches!(&policy.adopt, Adopt::From(from) if from == other);
        let named = matches!(self.consent(&desired.id), Some(Consent::Adopt { from: Some(from), .. }) if from == other);
        let agreed = named && self.is_agreed(desired, observed);
        (!declared && !agreed && !self.is_beside(desired, observed)).then_some(other)
    }
}
