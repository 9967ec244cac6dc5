//! What follows from how a pass ended: who is due now, who later, who not at all.
//!
//! Guarantees: every key of the pass is freed; whoever waited for what moved is looked at again; how long a
//! failure waits is [`crate::error_policy`]'s word, which comes in the report.

use super::{
    Priority, Progress, Scheduler, Standing,
    pass::Passed,
    queue::{Cause, Wish},
    state::{Key, Run, State},
};
use crate::{
    error_policy::{self, CAP, Next},
    pass::{ScopeReport, ScopeState},
};
use reconciled_provider::{Error, ErrorKind, Focus, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Passes in a row over one scope that each ask for another at once, before they must wait in between: whoever
/// writes against us could keep us busy for ever.
const RESTLESS: u32 = 8;

impl Scheduler {
    /// The pass `number` ended.
    pub(super) fn ended(&self, number: u64, passed: Passed) {
        let now = self.now();
        self.change(|state| {
            let Some(run) = state.runs.remove(&number) else { return };
            let was_stopped = run.stop.is_set() || matches!(passed, Passed::Stopped);
            run.keys.iter().for_each(|(key, _)| state.queue.finish(key));
            if was_stopped {
                state.asked.extend(run.asked.iter().cloned());
                state.by_person.extend(run.by_person.iter().cloned());
                state.insisted.extend(run.insisted.iter().cloned());
            }
            match passed {
                Passed::Stopped => {}
                Passed::Round(report) => self.round_ended(state, &run, report.scopes, now),
                Passed::Failed(error) => {
                    let scopes = run.scopes(state).into_iter();
                    let failed = |scope| {
                        let mut report = self.engine.failed(&scope, &error, Vec::new());
                        report.unwritten = Some(error.clone());
                        (scope, report)
                    };
                    self.round_ended(state, &run, scopes.map(failed).collect(), now);
                }
                Passed::Probed(result) => state.probed(&run, result, now),
                Passed::Recalled(result) => state.recalled(result, now),
            }
            for (key, wish) in run.keys {
                if was_stopped {
                    // Whatever it came to, it was not what was asked for.
                    state.queue.add(key, wish);
                } else {
                    state.ended.insert(key, run.serial);
                }
            }
        });
    }

    fn round_ended(
        &self,
        state: &mut State,
        run: &Run,
        reports: BTreeMap<Scope, ScopeReport>,
        now: Duration,
    ) {
        let took = now.saturating_sub(run.began);
        // Who waits for this pass is urgent as it was, but no operator asked for them, nor did the clock.
        let priority = run.priority.clamp(Priority::Revision, Priority::Hint);
        let mut wakes = BTreeSet::new();
        for (scope, report) in &reports {
            // What could not be read was not looked at.
            if report.error.is_some() && run.asked.contains(scope) {
                state.asked.insert(scope.clone());
            }
            // What a person asked for goes on until it comes to rest, or fails: then it takes another word.
            let goes_on =
                matches!(report.state, ScopeState::DueNow | ScopeState::DueAt(_)) || report.goes_on();
            let failed = report.error.as_ref().is_some_and(|error| !is_usual(error.kind));
            if goes_on && !failed && run.by_person.contains(scope) {
                state.by_person.insert(scope.clone());
            }
            // Also over a hold: without it the step would be gone, and the consent for a plan that is no more.
            if (goes_on || report.state == ScopeState::Held) && !failed && run.insisted.contains(scope) {
                state.insisted.insert(scope.clone());
            }
            state.readers.tell(&Progress::ended(scope, report, took));
            let failures = self.engine.failures_of(scope);
            let standing = state.standing.entry(scope.clone()).or_default();
            let before = standing.failed;
            standing.update(report, run.serial, failures, (now, took));
            tell(scope, before, report.error.as_ref());
            let restless = standing.restless;
            wakes.extend(report.wakes.iter().cloned());
            state.again(scope, report, run.priority, restless, now);
        }
        // A scope of the run that is in no report is gone: neither desired nor remembered.
        let is_gone =
            |scope: &Scope| !reports.contains_key(scope) && run.keys.iter().any(|(k, _)| k.is_of(scope));
        if !run.stop.is_set() {
            state.standing.retain(|scope, _| !is_gone(scope));
        }
        if reports.values().any(ScopeReport::moved) {
            state.serial += 1;
            state.moved = state.serial;
            wakes.extend(state.waiting());
        } else if run.serial < state.moved {
            // The race: it looked before something moved, and ended after those were woken that were known to wait.
            let waiting = reports.iter().filter(|(_, report)| report.waits());
            wakes.extend(waiting.map(|(scope, _)| scope.clone()));
        }
        if run.serial < state.desired_at {
            // The same race: what is desired by now may have the place that they did not find. Nothing else gives them one, and what
            // moved in others of them would keep them all busy.
            let without = reports.iter().filter(|(_, report)| report.lacks_place);
            wakes.extend(without.map(|(scope, _)| scope.clone()));
        }
        for scope in wakes {
            state.add(&scope, priority, Focus::All, false);
        }
        for (scope, report) in &reports {
            if let Some(back) = state.heard_of(scope, report, now) {
                self.engine.forgive(&back);
                for scope in back {
                    state.standing.entry(scope.clone()).or_default().is_suspect = false;
                    state.override_waits(&scope);
                    state.add(&scope, Priority::Retry, Focus::All, false);
                }
            }
        }
    }
}

/// Says so where a scope begins to fail, or fails otherwise than before, and where that is over; each try would be too often.
fn tell(scope: &Scope, before: Option<ErrorKind>, error: Option<&Error>) {
    match (before.filter(|kind| !is_usual(*kind)), error) {
        (before, Some(error)) if before != Some(error.kind) && !is_usual(error.kind) => {
            let hint = error.hint.as_deref();
            tracing::warn!(scope = %scope, error = %error.chain(), hint, "pass failed");
        }
        (Some(_), None) => tracing::info!(scope = %scope, "pass succeeded again"),
        _ => {}
    }
}

/// What is over by itself, and no failure.
fn is_usual(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::RateLimited)
}

impl State {
    /// When `scope` is looked at again.
    fn again(
        &mut self,
        scope: &Scope,
        report: &ScopeReport,
        priority: Priority,
        restless: u32,
        now: Duration,
    ) {
        let Some(key) = self.key(scope) else { return };
        let lane = self.lane(scope);
        match report.state {
            ScopeState::DueNow if restless < RESTLESS => {
                self.queue.add(key, Wish { priority, focus: Focus::All, full: false, lane: lane.clone() });
            }
            ScopeState::DueNow => {
                let wait = error_policy::backoff(restless - RESTLESS + 1, self.chance.byte(), CAP);
                self.queue.add_at(key, Cause::Backoff, now + wait, &lane);
            }
            ScopeState::DueAt(at) => {
                // A scope that fails does not hold back the others that are run with it.
                let alone = matches!(key, Key::Scope(_));
                let cause = if report.error.is_some() && alone { Cause::Backoff } else { Cause::Recheck };
                self.queue.add_at(key, cause, at, &lane);
            }
            ScopeState::Suspended(Some(at)) => self.queue.add_at(key, Cause::Recheck, at, &lane),
            ScopeState::Suspended(None)
            | ScopeState::InSync
            | ScopeState::Held
            | ScopeState::Stalled
            | ScopeState::Idle => {}
        }
        if let (Some(at), Some(key)) = (report.recheck, self.key(scope)) {
            self.queue.add_at(key, Cause::Recheck, at, &lane);
        }
    }

    /// Tells the breaker. Returns the scopes that only failed because their entry was away, once it is back.
    fn heard_of(&mut self, scope: &Scope, report: &ScopeReport, now: Duration) -> Option<Vec<Scope>> {
        let jitter = self.chance.byte();
        let entry = self.entries.get_mut(&scope.provider)?;
        let is_apart = entry.is_apart;
        let breaker = &mut entry.breaker;
        let answered = report.error.as_ref().is_none_or(|error| error.kind == ErrorKind::RateLimited);
        if report.unreachable && !is_apart {
            breaker.silent(Some(scope), now, jitter);
        }
        if !(answered && breaker.answered()) {
            return None;
        }
        let away = |(other, standing): &(&Scope, &Standing)| {
            standing.unreachable && other.provider == scope.provider
        };
        Some(self.standing.iter().filter(away).map(|(scope, _)| scope.clone()).collect())
    }

    fn probed(&mut self, run: &Run, result: Result<Vec<(Scope, bool)>, Error>, now: Duration) {
        let Some((Key::Probe(name), _)) = run.keys.first() else { return };
        let jitter = self.chance.byte();
        let Some(entry) = self.entries.get_mut(name) else { return };
        match result {
            Ok(scopes) => {
                entry.ticks += 1;
                entry.probe_failures = Default::default();
                self.next_probe(name, now);
                for (scope, full) in scopes {
                    self.asked.insert(scope.clone());
                    self.add(&scope, Priority::Resync, Focus::All, full);
                }
            }
            Err(error) => {
                if error.kind == ErrorKind::Unavailable {
                    entry.breaker.silent(None, now, jitter);
                }
                tracing::debug!(entry = %name, error = %error.chain(), "probe failed");
                match error_policy::next(&error, &mut entry.probe_failures, jitter, CAP) {
                    Next::Backoff(wait) | Next::AsTold(wait) => {
                        self.queue.add_at(Key::Probe(name.clone()), Cause::Backoff, now + wait, name)
                    }
                    Next::Now | Next::Stalled => self.next_probe(name, now),
                }
            }
        }
    }

    fn recalled(&mut self, result: Result<BTreeSet<Scope>, Error>, now: Duration) {
        match result {
            Ok(scopes) => {
                let desired = self.desired.clone().unwrap_or_default();
                for scope in scopes.iter().filter(|scope| !desired.scopes.contains_key(*scope)) {
                    self.add(scope, Priority::Revision, Focus::All, false);
                }
            }
            Err(error) => {
                tracing::debug!(error = %error.chain(), "the store did not answer");
                let lane: Arc<str> = "".into();
                self.queue.add_at(Key::Recall, Cause::Backoff, now + Duration::from_secs(1), &lane);
            }
        }
    }
}
