//! How a pass ended: outcomes, conditions, and when the scope is due again.
//!
//! Guarantees: one scope's failure decides only about that scope; conditions are written only when they
//! changed. It deliberately retries nothing itself: it says when.

use super::{Engine, ScopeReport, ScopeState, flapping};
use crate::{
    error_policy::{self, CAP, Next},
    health,
    journal::{BatchJournal, Ended},
    plan::{Change, Reason, Step},
    store::{Condition, ConditionKind, Write},
    survey::{Reread, Seen, View},
};
use reconciled_provider::{ActionId, Error, ErrorKind, ResourceId, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::PoisonError,
    time::Duration,
};

/// What a pass found out and noted down before anything was sent.
pub(super) struct Noted {
    /// Resources adopted.
    pub(super) adopted: usize,
    /// Resources seen to be as written, or whose bookkeeping moved.
    pub(super) settled: usize,
    /// Earlier calls of which it became known what came of them, as in [`ScopeReport::outcomes`].
    pub(super) outcomes: BTreeMap<(&'static str, &'static str), usize>,
    /// Scopes to look at again because of that.
    pub(super) wakes: BTreeSet<Scope>,
}

/// What was sent, and what came of it.
pub(super) struct Carried<'a> {
    pub(super) steps: BTreeMap<ActionId, &'a Step>,
    pub(super) ended: Vec<(ActionId, Ended)>,
    /// How the call as a whole ended.
    result: Result<(), Error>,
    /// A claim found no place.
    lacks_place: bool,
    /// Why something could not be written down.
    unwritten: Option<Error>,
    /// The scope as it was read once everything was written.
    seen: Option<Seen>,
}

impl<'a> Carried<'a> {
    /// What the journal has of a batch, whose call ended with `result`.
    pub(super) fn of(journal: BatchJournal<'a>, result: Result<(), Error>) -> Carried<'a> {
        Carried {
            steps: journal.steps.into_iter().map(|(id, (step, _))| (id, step)).collect(),
            ended: journal.ended.into_inner().unwrap_or_else(PoisonError::into_inner),
            result,
            lacks_place: journal.lacks_place.into_inner(),
            unwritten: journal.unwritten.into_inner().unwrap_or_else(PoisonError::into_inner),
            seen: journal.reread.and_then(Reread::into_seen),
        }
    }
}

impl Engine {
    /// How a pass ended that had nothing to send. `writes` are what it has to write down besides.
    pub(super) async fn report_unsent(
        &self,
        scope: &Scope,
        view: &View,
        held: bool,
        conditions: Vec<Condition>,
        noted: Noted,
        mut writes: Vec<Write>,
    ) -> Result<ScopeReport, Error> {
        let version = view.plan.known_version(&view.seen).filter(|_| !held);
        if version != view.memory.version && !view.skipped {
            writes.push(Write::Version(scope.clone(), version));
        }
        conditions_write(scope, &view.memory.conditions, &recorded(view, &conditions), &mut writes);
        if !writes.is_empty() {
            self.store.commit(writes).await?;
        }
        self.succeeded(scope);
        let state = state_without_actions(view, held, &conditions, noted.adopted > 0);
        Ok(ScopeReport {
            outcomes: noted.outcomes,
            adopted: noted.adopted,
            settled: noted.settled,
            wakes: noted.wakes,
            recheck: recheck(view),
            awaited: view.health.awaited,
            ..ScopeReport::quiet(state, conditions)
        })
    }

    /// How a pass ended that sent something.
    pub(super) async fn report(
        &self,
        scope: &Scope,
        view: &View,
        carried: Carried<'_>,
        mut conditions: Vec<Condition>,
        noted: Noted,
    ) -> Result<ScopeReport, Error> {
        let Carried { steps: by_id, ended, result, lacks_place, unwritten, seen } = carried;
        // What was tried again is refused anew, or no longer.
        let tried: BTreeSet<&ResourceId> =
            ended.iter().filter_map(|(id, _)| Some(&by_id.get(id)?.id)).collect();
        let is_answered = |id: &ResourceId| tried.contains(id);
        conditions.retain(|c| c.declared.is_none() || !c.id.as_ref().is_some_and(is_answered));
        let mut outcomes: BTreeMap<(&'static str, &'static str), usize> = BTreeMap::new();
        let mut claims = BTreeMap::new();
        let mut worst: Option<Error> = result.err();
        for (id, outcome) in &ended {
            let Some(step) = by_id.get(id) else { continue };
            let what = (step.change.word(), outcome.word());
            *outcomes.entry(what).or_default() += 1;
            if step.reason == Reason::Claim {
                *claims.entry(what).or_default() += 1;
            }
            self.ledger().ended(scope, step, outcome, self.surveyor.cx.clock.now());
            if let Some(error) = outcome.error() {
                conditions.push(failure(step, error));
                // A retryable error decides when to look again; one that stalls does not stop the others.
                if worst.as_ref().is_none_or(|w| w.kind.stalls()) {
                    worst = Some(error.clone());
                }
            }
        }
        // Claims came or went with these outcomes: whoever carries them must look.
        let mut wakes: BTreeSet<Scope> = view.memory.claims_made.iter().map(|c| c.scope.clone()).collect();
        wakes.extend(noted.wakes);
        let is_repair = !ended.is_empty()
            && ended.iter().all(|(id, outcome)| {
                outcome.error().is_none() && by_id.get(id).is_some_and(|step| flapping::is_repair(step))
            });
        let any_done = ended.iter().any(|(_, o)| o.error().is_none());
        let report = match worst {
            Some(error) => {
                let is_making = |(id, outcome): &(ActionId, Ended)| {
                    let change = by_id.get(id).map(|step| &step.change);
                    let makes = matches!(change, Some(Change::Create | Change::Replace | Change::Continue));
                    makes && outcome.error().is_some()
                };
                let cap = match ended.iter().any(is_making) {
                    true => self.surveyor.entries[&scope.provider].observer.info().create_backoff,
                    false => CAP,
                };
                let mut report = self.failed_within(scope, &error, conditions, cap);
                if report.state == ScopeState::Stalled && any_done {
                    report.state = ScopeState::DueNow;
                }
                report
            }
            None => {
                self.succeeded(scope);
                ScopeReport::quiet(ScopeState::DueNow, conditions)
            }
        };
        let mut writes = Vec::new();
        conditions_write(scope, &view.memory.conditions, &recorded(view, &report.conditions), &mut writes);
        if !writes.is_empty()
            && let Err(error) = self.store.commit(writes).await
        {
            // What was done and whom it wakes must not be lost with a report about it; the next pass, which
            // is due anyway, writes the conditions again.
            tracing::warn!(scope = %scope, error = %error.chain(), "conditions not recorded");
        }
        outcomes.extend(noted.outcomes);
        Ok(ScopeReport {
            outcomes,
            claims,
            adopted: noted.adopted,
            // Also where all that was tried failed: who waits until something is healthy does not wait for that.
            settled: noted.settled,
            wakes,
            recheck: recheck(view),
            awaited: view.health.awaited,
            is_repair,
            lacks_place,
            unwritten,
            seen: seen.filter(|_| report.state == ScopeState::DueNow),
            ..report
        })
    }

    /// A scope that could not be looked at: nothing is concluded, it is tried again.
    pub(crate) async fn unseen(&self, scope: &Scope, error: &Error) -> Result<ScopeReport, Error> {
        let known = self.store.scope(scope).await?;
        // What was refused is so still: a remote that is away takes nothing back.
        let refused = known.conditions.iter().filter(|condition| condition.declared.is_some());
        let report = self.failed(scope, error, refused.cloned().collect());
        let mut writes = Vec::new();
        conditions_write(scope, &known.conditions, &report.conditions, &mut writes);
        let ailments = health::unseen(&known.ailments, error, self.surveyor.cx.clock.now());
        health::write(scope, &known.ailments, &ailments, &mut writes);
        if !writes.is_empty() {
            self.store.commit(writes).await?;
        }
        Ok(report)
    }

    pub(crate) fn failed(&self, scope: &Scope, error: &Error, conditions: Vec<Condition>) -> ScopeReport {
        self.failed_within(scope, error, conditions, CAP)
    }

    /// As [`Engine::failed`], tried again after `cap` at the latest.
    fn failed_within(
        &self,
        scope: &Scope,
        error: &Error,
        mut conditions: Vec<Condition>,
        cap: Duration,
    ) -> ScopeReport {
        let now = self.surveyor.cx.clock.now();
        let mut failures = self.failures();
        let entry = failures.entry(scope.clone()).or_default();
        let jitter = self.jitter(scope, entry.count);
        let state = match error_policy::next(error, entry, jitter, cap) {
            Next::Stalled => ScopeState::Stalled,
            Next::Now => ScopeState::DueNow,
            Next::Backoff(wait) | Next::AsTold(wait) => ScopeState::DueAt(now + wait),
        };
        if conditions.iter().all(|c| c.id.is_some()) {
            conditions.extend(trouble(error, &state));
        }
        ScopeReport {
            error: Some(error.clone()),
            unreachable: error.kind == ErrorKind::Unavailable,
            ..ScopeReport::quiet(state, conditions)
        }
    }

    /// Spreads retries of different scopes and instances; the same on every run of a simulation.
    fn jitter(&self, scope: &Scope, count: u32) -> u8 {
        reconciled_provider::Hash::of(format!("{}{scope}{count}", self.instance).as_bytes()).0[0]
    }

    pub(super) fn succeeded(&self, scope: &Scope) {
        self.failures().remove(scope);
    }
}

/// Writes conditions only when they changed: a pass that finds nothing new writes nothing.
pub(super) fn conditions_write(
    scope: &Scope,
    before: &[Condition],
    now: &[Condition],
    writes: &mut Vec<Write>,
) {
    let says = |all: &[Condition]| -> BTreeSet<_> {
        all.iter().map(|c| (c.id.clone(), c.kind, c.reason.clone(), c.message.clone(), c.declared)).collect()
    };
    let unchanged = before.len() == now.len() && says(before) == says(now);
    if !unchanged {
        writes.push(Write::Conditions(scope.clone(), now.to_vec()));
    }
}

/// What is written down of a look that found `conditions`: besides these, what it left out.
pub(super) fn recorded(view: &View, conditions: &[Condition]) -> Vec<Condition> {
    let plan = &view.plan;
    // A move that waits is told of what was not asked for, too, once the plan is made: with each look there would be one more.
    let is_told = |id: &ResourceId| conditions.iter().any(|one| one.id.as_ref() == Some(id));
    let besides = plan.besides.iter().filter(|one| !one.id.as_ref().is_some_and(is_told));
    let left_out = plan.to_come.iter().chain(&plan.still_refused).chain(besides);
    conditions.iter().chain(left_out).cloned().collect()
}

/// When to look again at what is on its way, whatever the conditions say.
pub(super) fn recheck(view: &View) -> Option<Duration> {
    view.health.recheck.into_iter().chain(view.plan.next_to_come()).min()
}

pub(super) fn state_without_actions(
    view: &View,
    held: bool,
    conditions: &[Condition],
    adopted: bool,
) -> ScopeState {
    let stalled = conditions.iter().any(|c| c.kind == ConditionKind::Stalled);
    let suspended = || conditions.iter().filter(|c| c.kind == ConditionKind::Suspended);
    let others = conditions.iter().filter(|c| c.kind != ConditionKind::Suspended);
    let next = others.filter_map(|c| c.next_try).min();
    let guarded = held && view.plan.steps.iter().any(|s| s.change.writes() || s.waits_for_consent());
    match (next, guarded, stalled) {
        (Some(at), ..) => ScopeState::DueAt(at),
        (None, true, _) => ScopeState::Held,
        (None, false, true) => ScopeState::Stalled,
        (None, false, false) if adopted => ScopeState::DueNow,
        (None, false, false) if conditions.is_empty() => ScopeState::InSync,
        (None, false, false) if suspended().next().is_some() => {
            ScopeState::Suspended(suspended().filter_map(|c| c.next_try).min())
        }
        _ => ScopeState::Idle,
    }
}

/// What keeps a scope as a whole. That its plan was older than what is there is none, as long as the next look at once may have a
/// newer one; where it went on being so, it is.
fn trouble(error: &Error, state: &ScopeState) -> Option<Condition> {
    if error.kind == ErrorKind::Conflict && *state == ScopeState::DueNow {
        return None;
    }
    let told = Condition::failed(error);
    Some(match state {
        ScopeState::DueAt(at) => told.next_try(*at),
        _ => told,
    })
}

fn failure(step: &Step, error: &Error) -> Condition {
    let let_go = || (step.change == Change::Abandon).then(|| step.let_go_unwritten().into());
    let declared = step.declared().filter(|_| error.kind.stalls());
    // Credentials that lack a right say nothing of what is declared, and what goes is declared no more.
    let may_help =
        matches!(error.kind, ErrorKind::Invalid | ErrorKind::Unsupported) && step.change != Change::Delete;
    let otherwise = || declared.filter(|_| may_help).map(|_| declare_otherwise(step).into());
    let mut told = Condition::failed(error).about(step.id.clone(), step.address.clone());
    told.hint = told.hint.or_else(let_go).or_else(otherwise);
    Condition { declared, ..told }
}

/// What to do about a declaration that was refused.
fn declare_otherwise(step: &Step) -> String {
    let address = &step.address;
    format!(
        "change what is declared; where something else had to be mended: reconciled sync {address}; without a daemon: \
         reconciled apply --target {address}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{health::Assessment, plan::ScopePlan, store::ScopeMemory};
    use reconciled_provider::{Deltas, Focus, Observation, Version};
    use std::sync::Arc;

    #[test]
    fn what_keeps_what_was_not_asked_for_is_put_down_once_whoever_tells_of_it() {
        let told = |id: &str, reason: &str| {
            let address = format!("Thing/{id}").parse().unwrap();
            Condition::waiting(reason, "").about(id.into(), address)
        };
        let mut plan = ScopePlan::nothing(Scope::new("toy", "things"), Version::Unknown);
        plan.besides = vec![told("a", "MoveWaits"), told("b", "Conflict"), Condition::waiting("Whole", "")];
        let (covered, version, resources) = (Focus::All, Version::Unknown, Vec::new());
        let view = View {
            memory: ScopeMemory::default(),
            seen: Arc::new(Observation { covered, complete: true, version, resources }),
            plan,
            offered: Deltas::new(),
            skipped: false,
            health: Assessment::default(),
            looked_at: BTreeSet::new(),
        };
        let reasons = |found: &[Condition]| -> Vec<_> {
            recorded(&view, found).iter().map(|one| one.reason.to_string()).collect()
        };
        assert_eq!(reasons(&[]), ["MoveWaits", "Conflict", "Whole"]);
        assert_eq!(reasons(&[told("a", "MoveWaits")]), ["MoveWaits", "Conflict", "Whole"]);
    }

    #[test]
    fn a_conflict_that_goes_on_is_told_and_one_that_is_looked_into_at_once_is_not() {
        let conflict = Error::conflict("the zone is not there");
        assert_eq!(trouble(&conflict, &ScopeState::DueNow), None);
        let at = Duration::from_secs(7);
        let told = trouble(&conflict, &ScopeState::DueAt(at)).unwrap();
        assert_eq!((told.kind, &*told.message), (ConditionKind::Waiting, "the zone is not there"));
        assert_eq!(told.next_try, Some(at));
        assert!(trouble(&Error::invalid("no"), &ScopeState::Stalled).is_some());
    }
}
