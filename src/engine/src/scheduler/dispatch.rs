//! The loop: take the time, start what may run, sleep until something changes.
//!
//! Guarantees: budgets hold; an entry whose breaker is open is left alone, one that is half open gets one pass;
//! the loop never awaits a pass. It deliberately does not know what a pass does.

use super::{
    BreakerState, Priority, Progress, Scheduler, Settings,
    queue::Wish,
    state::{Key, Run, State},
};
use futures_util::future::{Either, select};
use reconciled_provider::Scope;
use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

/// Scopes of one entry in one pass: together they ask once what moved.
const TOGETHER: usize = 1_024;
/// The same for a resync, which nobody waits for: what it holds in memory, and what makes way, stays small.
const TOGETHER_RESYNC: usize = 32;

impl Scheduler {
    /// Runs until the engine's `cx.stop` is set; returns once every pass that ran has ended.
    pub async fn run(self: &Arc<Self>) {
        let stop = &self.engine.surveyor.cx.stop;
        while !stop.is_set() {
            let rest = self.turn();
            let sleep = self.engine.surveyor.cx.clock.sleep(rest);
            let changed = pin!(self.state.until(State::take_news));
            match select(select(sleep, changed), pin!(stop.wished())).await {
                Either::Left(_) => {}
                Either::Right(_) => break,
            }
        }
        self.state.until(|state| state.runs.is_empty().then_some(())).await;
        self.state.change(|state| state.readers.close());
    }

    /// Once round: returns how long nothing can happen by itself.
    fn turn(self: &Arc<Self>) -> Duration {
        let now = self.now();
        let (started, rest) = self.state.change(|state| {
            state.advance(now);
            let mut started = Vec::new();
            // Without a desired state everything that is remembered would look undeclared.
            while state.desired.is_some()
                && let Some(number) = self.start(state, now)
            {
                started.push((number, state.runs[&number].stop.clone()));
            }
            state.tell_idle();
            state.has_news = false;
            (started, state.rest(now))
        });
        for (number, stop) in started {
            self.spawner.spawn(Box::pin(self.clone().pass(number, stop)));
        }
        rest
    }

    /// Takes what is most urgent and may run; what it can be run together with comes along.
    fn start(&self, state: &mut State, now: Duration) -> Option<u64> {
        let budget = Budget::left(state, &self.settings);
        let State { queue, entries, runs, standing, paused, .. } = &mut *state;
        let breaker = |key: &Key| {
            key.entry().and_then(|name| entries.get(name)).map_or(BreakerState::Closed, |e| e.breaker.state())
        };
        let is_tried =
            |key: &Key| runs.values().any(|run| run.is_trial && run.keys[0].0.entry() == key.entry());
        let is_paused = |key: &Key| key.entry().is_some_and(|name| paused.contains_key(name));
        let may = |key: &Key, wish: &Wish| {
            budget.allows(wish.priority)
                && !is_paused(key)
                && match breaker(key) {
                    BreakerState::Closed => true,
                    BreakerState::Open(_) => false,
                    BreakerState::HalfOpen => !is_tried(key),
                }
        };
        let (first, wish) = queue.take(may)?;
        let mut keys = vec![(first, wish)];
        // Also when a new revision ended its backoff: what failed last time may hang again. Any scope may whose entry runs them
        // apart; only what a person consented to is carried out together, as the consent is used up with it.
        let well = |key: &Key, wish: &Wish| match key {
            Key::Scope(scope) if entries.get(&scope.provider).is_some_and(|entry| entry.is_apart) => {
                wish.priority == Priority::Operator
            }
            Key::Scope(scope) => standing.get(scope).is_none_or(|s| !s.is_suspect),
            _ => false,
        };
        let (first, wish) = &keys[0];
        if well(first, wish) && breaker(first) == BreakerState::Closed {
            let most = if wish.priority == Priority::Resync { TOGETHER_RESYNC } else { TOGETHER };
            let (entry, priority, full) = (first.entry().cloned(), wish.priority, wish.full);
            let alike = |key: &Key, wish: &Wish| {
                key.entry() == entry.as_ref()
                    && (wish.priority, wish.full) == (priority, full)
                    && well(key, wish)
            };
            keys.extend(queue.take_some(most - 1, alike));
        }
        let is_trial = breaker(&keys[0].0) == BreakerState::HalfOpen;
        state.serial += 1;
        let priority = keys[0].1.priority;
        let stop = self.engine.surveyor.cx.stop.child();
        let serial = state.serial;
        let mut run = Run {
            keys,
            priority,
            stop,
            reads: true,
            is_trial,
            began: now,
            asked: BTreeSet::new(),
            by_person: BTreeSet::new(),
            insisted: BTreeSet::new(),
            serial,
        };
        let scopes = run.scopes(state);
        run.asked = state.asked.extract_if(.., |scope| scopes.contains(scope)).collect();
        run.by_person = state.by_person.extract_if(.., |scope| scopes.contains(scope)).collect();
        run.insisted = state.insisted.extract_if(.., |scope| scopes.contains(scope)).collect();
        if !scopes.is_empty() {
            state.was_busy = true;
            state.readers.tell(&Progress::PassStarted { scopes, priority });
        }
        state.runs.insert(state.serial, run);
        Some(state.serial)
    }
}

impl Run {
    /// The scopes it is about; none for a probe.
    pub(super) fn scopes(&self, state: &State) -> BTreeSet<Scope> {
        let scopes = self.keys.iter().flat_map(|(key, _)| match key {
            Key::Scope(scope) => BTreeSet::from([scope.clone()]),
            Key::Entry(entry) => state.scopes_of(entry),
            Key::Probe(_) | Key::Recall => BTreeSet::new(),
        });
        scopes.collect()
    }
}

impl State {
    fn take_news(&mut self) -> Option<()> {
        std::mem::take(&mut self.has_news).then_some(())
    }

    fn tell_idle(&mut self) {
        if self.was_busy && self.desired.is_some() && self.runs.is_empty() && self.queue.is_idle() {
            self.was_busy = false;
            self.readers.tell(&Progress::Idle);
        }
    }
}

/// Workers that are free.
struct Budget {
    resyncs: bool,
    retries: bool,
    others: bool,
}

impl Budget {
    fn left(state: &State, settings: &Settings) -> Budget {
        let count =
            |meant: fn(Priority) -> bool| state.runs.values().filter(|run| meant(run.priority)).count();
        let others = count(|priority| priority != Priority::Resync) < settings.workers.max(1);
        // Scopes that fail are often slow to fail: they must not take every worker.
        let retries = count(|priority| priority == Priority::Retry) < settings.workers.div_ceil(2).max(1);
        let resyncs = count(|priority| priority == Priority::Resync) < settings.resync_workers.max(1);
        Budget { resyncs, retries: retries && others, others }
    }
    fn allows(&self, priority: Priority) -> bool {
        match priority {
            Priority::Resync => self.resyncs,
            Priority::Retry => self.retries,
            _ => self.others,
        }
    }
}
