//! What a round did, scope by scope.
//!
//! Guarantees: a report says how each scope stands and when to look again; it never says what to write next.
//! It deliberately holds no plan: whoever goes on looks anew.

use crate::{
    plan::STILL_HIDES,
    store::{Condition, ConditionKind},
    survey::{Domain, Seen},
    suspension::BY_MANIFEST,
};
use reconciled_provider::{Error, ErrorKind, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How a scope stands after a round.
#[derive(Clone, Debug, PartialEq)]
pub enum ScopeState {
    /// Everything is as desired.
    InSync,
    /// Something was written or must be looked at again at once.
    DueNow,
    /// Nothing to do before this time.
    DueAt(Duration),
    /// A person must consent.
    Held,
    /// A person must act.
    Stalled,
    /// Somebody stopped all that is left to do, until this time or until it is resumed.
    Suspended(Option<Duration>),
    /// Nothing will happen until the desired state or the remote changes.
    Idle,
}

/// What a round did to one scope.
#[derive(Clone, Debug)]
pub struct ScopeReport {
    /// How it stands now.
    pub state: ScopeState,
    /// What ended, by change and outcome: (`create`, `done`) → 3. `observed`: an earlier call without an answer,
    /// also of an earlier process, turned out to have taken effect.
    pub outcomes: BTreeMap<(&'static str, &'static str), usize>,
    /// What of these others claimed.
    pub claims: BTreeMap<(&'static str, &'static str), usize>,
    /// Resources adopted.
    pub adopted: usize,
    /// Resources seen to be as written, or whose bookkeeping moved.
    pub settled: usize,
    /// What keeps it from being in sync.
    pub conditions: Vec<Condition>,
    /// Scopes to look at again because of what happened here: claims made, claims that came true.
    pub wakes: BTreeSet<Scope>,
    /// When to look again at what is on its way to be healthy, whatever the state says.
    pub recheck: Option<Duration>,
    /// The same of what somebody waits for ([`SurveyOptions::written_since`](crate::survey::SurveyOptions)).
    pub awaited: Option<Duration>,
    /// All that was written puts back what was there before, and all of it succeeded.
    pub is_repair: bool,
    /// What went wrong, if it decided when the scope is looked at again.
    pub error: Option<Error>,
    /// The remote gave no answer: a matter of its entry, not only of this scope.
    pub unreachable: bool,
    /// Something here could not be claimed anywhere: another desired state may have a place for it.
    pub(crate) lacks_place: bool,
    /// Why something of it could not be written down.
    pub(crate) unwritten: Option<Error>,
    /// The scope as it was read after everything was written, while that was noted down.
    pub(super) seen: Option<Seen>,
}

impl ScopeReport {
    /// A report of a pass in which nothing was written.
    pub(super) fn quiet(state: ScopeState, conditions: Vec<Condition>) -> ScopeReport {
        ScopeReport {
            state,
            outcomes: BTreeMap::new(),
            claims: BTreeMap::new(),
            adopted: 0,
            settled: 0,
            conditions,
            wakes: BTreeSet::new(),
            recheck: None,
            awaited: None,
            is_repair: false,
            error: None,
            unreachable: false,
            lacks_place: false,
            unwritten: None,
            seen: None,
        }
    }
    /// When it is to be looked at again, also for what somebody waits for; none where nothing is on its way.
    fn due_at(&self, now: Duration) -> Option<Duration> {
        let at = match self.state {
            ScopeState::DueNow => Some(now),
            ScopeState::DueAt(at) => Some(at),
            _ => None,
        };
        at.into_iter().chain(self.awaited).min()
    }
    /// True when anything moved that others may wait for. What failed had no effect.
    pub fn moved(&self) -> bool {
        self.outcomes.keys().any(|(_, outcome)| *outcome != "failed") || self.adopted + self.settled > 0
    }
    /// True when nothing is left to do but what manifests say `suspend` of.
    pub fn is_suspended_by_manifests(&self) -> bool {
        let is_so = |c: &Condition| c.kind == ConditionKind::Suspended && &*c.reason == BY_MANIFEST;
        matches!(self.state, ScopeState::Suspended(_)) && self.conditions.iter().all(is_so)
    }
    /// True when something here waits for another resource, whatever else here waits for a person; what another place hides may be
    /// hidden no more once something moved there. What was refused is not tried again because others move.
    pub fn waits(&self) -> bool {
        self.waits_for(|told| told.kind == ConditionKind::Waiting || *told.reason == *STILL_HIDES)
    }

    /// The same, but for what may have to wait for a person: it comes to rest by itself.
    pub fn goes_on(&self) -> bool {
        self.waits_for(|told| told.kind == ConditionKind::Waiting)
    }

    fn waits_for(&self, is_so: impl Fn(&Condition) -> bool) -> bool {
        self.error.is_none()
            && matches!(self.state, ScopeState::Idle | ScopeState::Suspended(_) | ScopeState::Stalled)
            && self.conditions.iter().any(is_so)
    }
}

/// What a round did.
#[derive(Debug, Default)]
pub struct RoundReport {
    /// Each scope.
    pub scopes: BTreeMap<Scope, ScopeReport>,
    /// Domains that wait for consent.
    pub held: Vec<Domain>,
}

impl RoundReport {
    /// True when nothing is left to do and nothing waits.
    pub fn is_in_sync(&self) -> bool {
        self.held.is_empty() && self.scopes.values().all(|s| s.state == ScopeState::InSync)
    }
    /// Scopes that are due at `now`.
    pub fn due(&self, now: Duration) -> BTreeSet<Scope> {
        let is_due = |report: &ScopeReport| report.due_at(now).is_some_and(|at| at <= now);
        self.scopes.iter().filter(|(_, r)| is_due(r)).map(|(scope, _)| scope.clone()).collect()
    }
    /// When the next scope is due but for those `given_up`, if any is.
    pub fn next_due(&self, now: Duration, given_up: &BTreeSet<Scope>) -> Option<Duration> {
        let awaited = self.scopes.iter().filter(|(scope, _)| !given_up.contains(*scope));
        awaited.filter_map(|(_, report)| report.due_at(now)).min()
    }
}

impl RoundReport {
    /// True when anything moved that others may wait for.
    pub(super) fn moved(&self) -> bool {
        self.scopes.values().any(ScopeReport::moved)
    }
    /// Scopes where something waits for another resource.
    pub(super) fn waiting(&self) -> BTreeSet<Scope> {
        self.scopes.iter().filter(|(_, r)| r.waits()).map(|(s, _)| s.clone()).collect()
    }
    /// Why the memory takes nothing, where it does not. That another process or a newer commit is in the way is no such reason.
    pub(super) fn unwritten(&self) -> Option<&Error> {
        let mut errors = self.scopes.values().filter_map(|report| report.unwritten.as_ref());
        errors.find(|error| matches!(error.kind, ErrorKind::Unavailable | ErrorKind::PermissionDenied))
    }
    /// Scopes with something that somebody waits for.
    pub(super) fn awaited(&self) -> BTreeSet<Scope> {
        self.scopes.iter().filter(|(_, r)| r.awaited.is_some()).map(|(s, _)| s.clone()).collect()
    }
    pub(super) fn take_wakes(&mut self) -> BTreeSet<Scope> {
        self.scopes.values_mut().flat_map(|r| std::mem::take(&mut r.wakes)).collect()
    }
    /// What was read after it was written.
    pub(super) fn take_seen(&mut self) -> BTreeMap<Scope, Seen> {
        self.scopes
            .iter_mut()
            .filter_map(|(scope, report)| Some((scope.clone(), report.seen.take()?)))
            .collect()
    }
    pub(super) fn replace(&mut self, next: RoundReport) {
        let looked: BTreeSet<&str> = next.held.iter().map(|d| &*d.name).collect();
        self.held
            .retain(|d| !looked.contains(&*d.name) && !d.scopes.iter().any(|s| next.scopes.contains_key(s)));
        self.held.extend(next.held);
        self.scopes.extend(next.scopes);
    }
}
