//! What the suite's engine remembers, and the journal that writes it down and checks the journal's rules.
//!
//! The memory outlives the process: a death at a journal call leaves in it what a database would have.

use async_trait::async_trait;
use reconciled_provider::{
    Action, ActionId, Batch, Claim, ClaimState, Error, Hash, Journal, Op, Outcome, ResourceId, Stop, Tracked,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

/// Where a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// At the n-th journal call, before it is durable.
    BeforeCall(usize),
    /// At the n-th journal call, after it is durable, before the provider hears of it.
    AfterCall(usize),
    /// The n-th time that `apply` waits for anything.
    AtAwait(usize),
}

/// A remembered resource.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) tracked: Tracked,
    /// It is on its way, with these claims.
    pub(super) pending: Option<Vec<Claim>>,
}

/// An intent without an outcome.
#[derive(Clone, Debug)]
struct Intent {
    id: ResourceId,
    op: &'static str,
    after: Option<Hash>,
    token: Arc<str>,
    /// What `progress` said last.
    tracked: Option<Tracked>,
}

#[derive(Default)]
struct State {
    rows: BTreeMap<ResourceId, Row>,
    open: BTreeMap<ActionId, Intent>,
    next: u64,
    calls: usize,
    awaits: usize,
    death: Option<Death>,
    is_dead: bool,
    waker: Option<Waker>,
}

/// The inventory and the open intents.
#[derive(Default)]
pub(super) struct Memory(Mutex<State>);

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything remembered, with creates that may have happened.
    pub(super) fn rows(&self) -> BTreeMap<ResourceId, Row> {
        let state = self.state();
        let mut rows = state.rows.clone();
        for intent in state.open.values().filter(|intent| intent.op != "delete") {
            let tracked = || Tracked::new(intent.id.clone(), intent.after.unwrap_or_default());
            let tracked = intent.tracked.clone().unwrap_or_else(tracked);
            rows.entry(intent.id.clone()).or_insert(Row { tracked, pending: None });
        }
        rows
    }

    /// The claims of what is pending, all synced.
    pub(super) fn claims(&self) -> Vec<ClaimState> {
        let state = self.state();
        let pending = state.rows.iter().filter_map(|(id, row)| Some((id, row.pending.as_ref()?)));
        pending.flat_map(|(id, claims)| claims.iter().map(|claim| synced(id, claim))).collect()
    }

    /// A new action; a create tried again after a crash keeps its token.
    pub(super) fn action(&self, op: Op) -> Action {
        let mut state = self.state();
        state.next += 1;
        let id = ActionId(state.next);
        let after = op.desired().and_then(|d| d.spec.hash());
        let makes_anew = |word: &str| matches!(word, "create" | "replace");
        let is_same = |i: &&Intent| {
            let is_op = i.op == op.word() || makes_anew(i.op) && makes_anew(op.word());
            i.id == *op.id() && is_op && i.after == after
        };
        let token = state.open.values().rev().find(is_same).map(|intent| intent.token.clone());
        Action { id, token: token.unwrap_or_else(|| format!("conformance-{}", id.0).into()), op }
    }

    /// The remote shows `id` as desired: it is ours and no question is open about it.
    pub(super) fn settle(&self, id: &ResourceId, hash: Hash) {
        let mut state = self.state();
        let intended = state.open.values().rev().find(|intent| intent.id == *id);
        let tracked = intended.and_then(|intent| intent.tracked.clone());
        state.open.retain(|_, intent| intent.id != *id);
        let fresh =
            || Row { tracked: tracked.unwrap_or_else(|| Tracked::new(id.clone(), hash)), pending: None };
        state.rows.entry(id.clone()).or_insert_with(fresh).tracked.applied = hash;
    }

    /// The remote does not have `id`, and nobody wants it.
    pub(super) fn forget(&self, id: &ResourceId) {
        let mut state = self.state();
        state.open.retain(|_, intent| intent.id != *id);
        state.rows.remove(id);
    }

    /// Lets the process die. Calls and awaits are counted from here.
    pub(super) fn kill(&self, death: Death) {
        let mut state = self.state();
        (state.calls, state.awaits, state.death) = (0, 0, Some(death));
    }

    /// True once the process died.
    pub(super) fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    /// `apply` waits for something. True when the process is, or now becomes, dead.
    pub(super) fn awaits(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        state.waker = Some(waker.clone());
        if state.death == Some(Death::AtAwait(state.awaits)) {
            state.is_dead = true;
        }
        state.awaits += 1;
        state.is_dead
    }

    /// What a new process finds: the same memory, alive.
    pub(super) fn reborn(self) -> Memory {
        let mut state = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.death, state.is_dead, state.waker) = (None, false, None);
        Memory(Mutex::new(state))
    }

    /// One journal call, at which the process may die.
    async fn call(&self, record: impl FnOnce(&mut State)) {
        let is_dead = {
            let mut state = self.state();
            let call = state.calls;
            state.calls += 1;
            if state.death == Some(Death::BeforeCall(call)) {
                state.is_dead = true;
            } else if !state.is_dead {
                record(&mut state);
                state.is_dead = state.death == Some(Death::AfterCall(call));
            }
            if state.is_dead
                && let Some(waker) = state.waker.take()
            {
                waker.wake();
            }
            state.is_dead
        };
        if is_dead {
            std::future::pending::<()>().await;
        }
    }
}

/// A claim that has come true.
pub(super) fn synced(owner: &ResourceId, claim: &Claim) -> ClaimState {
    ClaimState { owner: owner.clone(), key: claim.key.clone(), synced: true, health: None }
}

/// The journal of one batch.
pub(super) struct Notes<'a> {
    memory: &'a Memory,
    actions: BTreeMap<ActionId, Intent>,
    /// From this `started` on, counted from 0, the plan is no longer in force.
    refuse_from: Option<usize>,
    /// Set when the first outcome comes in.
    stop: Option<Stop>,
    seen: Mutex<Seen>,
}

/// What a journal was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Each `started` that was not refused.
    pub(super) started: Vec<Vec<ActionId>>,
    /// How actions ended.
    pub(super) outcomes: BTreeMap<ActionId, Outcome>,
    /// A `started` was refused.
    pub(super) was_refused: bool,
    /// `started` calls after the wish to stop.
    pub(super) late: usize,
    /// Rules that were broken.
    pub(super) wrong: Vec<String>,
}

impl<'a> Notes<'a> {
    pub(super) fn new(memory: &'a Memory, batch: &Batch) -> Notes<'a> {
        let intent = |action: &Action| Intent {
            id: action.op.id().clone(),
            op: action.op.word(),
            after: action.op.desired().and_then(|d| d.spec.hash()),
            token: action.token.clone(),
            tracked: None,
        };
        Notes {
            memory,
            actions: batch.actions.iter().map(|action| (action.id, intent(action))).collect(),
            refuse_from: None,
            stop: None,
            seen: Mutex::default(),
        }
    }

    /// The plan goes out of force at the `nth` time that something is to be started.
    pub(super) fn refuse_from(mut self, nth: usize) -> Self {
        self.refuse_from = Some(nth);
        self
    }

    /// Wishes to stop when the first outcome comes in.
    pub(super) fn stop_at_first_outcome(mut self, stop: Stop) -> Self {
        self.stop = Some(stop);
        self
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it was told.
    pub(super) fn into_seen(self) -> Seen {
        self.seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, action: ActionId, doing: &str) {
        let mut seen = self.seen();
        if !self.actions.contains_key(&action) {
            seen.wrong.push(format!("{doing} an action that is not in the batch"));
        }
        let is_started = seen.started.iter().flatten().any(|started| *started == action);
        let id = self.actions.get(&action).map_or("?", |intent| &*intent.id.0);
        if !is_started && doing != "started" {
            seen.wrong.push(format!("{doing} {id} before it was started"));
        }
        if seen.outcomes.contains_key(&action) {
            seen.wrong.push(format!("{doing} {id} after it was finished"));
        }
        if seen.was_refused {
            seen.wrong.push(format!("{doing} {id} after the journal refused to go on"));
        }
    }

    fn check_outcome(&self, action: ActionId, outcome: &Outcome) {
        let Some(intent) = self.actions.get(&action) else { return };
        let tracked = match outcome {
            Outcome::Done(tracked)
            | Outcome::Partial(tracked, _)
            | Outcome::Back(tracked, _)
            | Outcome::Pending { tracked, .. } => tracked,
            _ => return,
        };
        if tracked.id != intent.id {
            self.seen().wrong.push(format!("the outcome of {} tracks {}", intent.id, tracked.id));
        }
    }
}

#[async_trait]
impl Journal for Notes<'_> {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        actions.iter().for_each(|action| self.check(*action, "started"));
        {
            let mut seen = self.seen();
            if self.stop.as_ref().is_some_and(Stop::is_set) {
                seen.late += 1;
            }
            let again: BTreeSet<ActionId> =
                seen.started.iter().flatten().filter(|id| actions.contains(id)).copied().collect();
            if !again.is_empty() {
                seen.wrong.push(format!("{again:?} started twice"));
            }
            if self.refuse_from.is_some_and(|nth| seen.started.len() >= nth) {
                seen.was_refused = true;
                return Err(Error::conflict("the plan is no longer in force"));
            }
            seen.started.push(actions.to_vec());
        }
        let intents: Vec<_> =
            actions.iter().filter_map(|id| Some((*id, self.actions.get(id)?.clone()))).collect();
        self.memory.call(|state| state.open.extend(intents)).await;
        Ok(())
    }

    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error> {
        self.check(action, "progress of");
        let record = |state: &mut State| {
            if let Some(intent) = state.open.get_mut(&action) {
                intent.tracked = Some(tracked);
            }
        };
        self.memory.call(record).await;
        Ok(())
    }

    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        for (action, outcome) in &outcomes {
            self.check(*action, "finished");
            self.check_outcome(*action, outcome);
            self.seen().outcomes.insert(*action, outcome.clone());
        }
        let record = |state: &mut State| {
            for (action, outcome) in outcomes {
                state.finish(action, outcome);
            }
        };
        self.memory.call(record).await;
        if let Some(stop) = &self.stop {
            stop.set();
        }
        Ok(())
    }
}

impl State {
    fn finish(&mut self, action: ActionId, outcome: Outcome) {
        let Some(intent) = self.open.get(&action).cloned() else { return };
        let (tracked, pending) = match outcome {
            Outcome::Done(tracked) if intent.op != "delete" => (tracked, None),
            Outcome::Pending { tracked, claims, .. } => (tracked, Some(claims)),
            Outcome::Partial(tracked, _) => {
                self.open.retain(|_, open| open.id != intent.id);
                let tracked = Tracked { applied: Hash::default(), ..tracked };
                self.rows.insert(intent.id, Row { tracked, pending: None });
                return;
            }
            Outcome::Done(_) | Outcome::Gone => {
                self.rows.remove(&intent.id);
                self.open.retain(|_, open| open.id != intent.id);
                return;
            }
            Outcome::Back(tracked, _) => {
                self.open.remove(&action);
                self.rows.insert(intent.id, Row { tracked, pending: None });
                return;
            }
            // Nothing happened: older questions about this resource stay open.
            Outcome::Failed(_) => {
                self.open.remove(&action);
                return;
            }
            Outcome::Unknown(_) => return,
        };
        self.open.retain(|_, open| open.id != intent.id);
        let tracked = Tracked { applied: intent.after.unwrap_or(tracked.applied), ..tracked };
        self.rows.insert(intent.id, Row { tracked, pending });
    }
}

/// How long until the last of the pending outcomes wants to be looked at again.
pub(super) fn recheck(seen: &Seen) -> Option<Duration> {
    let wait = |outcome: &Outcome| match outcome {
        Outcome::Pending { recheck_after, .. } => Some(*recheck_after),
        _ => None,
    };
    seen.outcomes.values().filter_map(wait).max()
}
