//! What the loop knows, and every change of it that needs no await.
//!
//! Invariant: a key is in a run exactly while the queue counts it as running.
//! It deliberately calls nothing outside but wakers, of stopped passes and of readers: it is changed under a lock,
//! and a waker schedules a task but does not run it.

use super::{
    BEAT, Priority, RESYNC, Settings, Standing,
    breaker::{Breaker, BreakerState},
    queue::{Cause, Queue, Wish},
    watch::Readers,
};
use crate::{Desired, error_policy::Failures, pass::Engine};
use reconciled_provider::{Focus, GuardDomain, Scope, Stop};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// What is run as one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// A scope.
    Scope(Scope),
    /// All scopes of an entry whose guard counts over all of them: the survey judges them whole anyway.
    Entry(Arc<str>),
    /// The question what moved in an entry.
    Probe(Arc<str>),
    /// Scopes that are remembered from an earlier life.
    Recall,
}

impl Key {
    pub(super) fn entry(&self) -> Option<&Arc<str>> {
        match self {
            Key::Scope(scope) => Some(&scope.provider),
            Key::Entry(entry) | Key::Probe(entry) => Some(entry),
            Key::Recall => None,
        }
    }
    pub(super) fn is_of(&self, scope: &Scope) -> bool {
        match self {
            Key::Scope(mine) => mine == scope,
            Key::Entry(entry) => *entry == scope.provider,
            Key::Probe(_) | Key::Recall => false,
        }
    }
}

/// One configured entry.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) is_whole: bool,
    /// Its scopes have nothing to do with each other but for the guard.
    pub(super) is_apart: bool,
    pub(super) resync: Duration,
    pub(super) breaker: Breaker,
    /// Probes so far.
    pub(super) ticks: u64,
    pub(super) probe_failures: Failures,
}

/// One pass that runs.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) keys: Vec<(Key, Wish)>,
    pub(super) priority: Priority,
    pub(super) stop: Stop,
    /// It has not begun to write, so it can be dropped where it is.
    pub(super) reads: bool,
    /// It is the one that a half-open breaker lets through.
    pub(super) is_trial: bool,
    pub(super) began: Duration,
    /// Scopes of it that somebody asks about.
    pub(super) asked: BTreeSet<Scope>,
    /// Scopes of it in which a person asks for something to be done.
    pub(super) by_person: BTreeSet<Scope>,
    /// Scopes of it in which a person wants what came to nothing to be tried once more.
    pub(super) insisted: BTreeSet<Scope>,
    /// Of requests before and after it.
    pub(super) serial: u64,
}

/// Everything the loop knows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) desired: Option<Arc<Desired>>,
    /// Entries of which somebody wants no pass to begin, and how many do.
    pub(super) paused: BTreeMap<Arc<str>, usize>,
    pub(super) queue: Queue<Key>,
    pub(super) runs: BTreeMap<u64, Run>,
    pub(super) entries: BTreeMap<Arc<str>, Entry>,
    pub(super) standing: BTreeMap<Scope, Standing>,
    /// Scopes that a person, the remote or the clock spoke of, and that no pass has looked at since.
    pub(super) asked: BTreeSet<Scope>,
    /// Scopes in which a person asked for something to be done that has not come to rest since.
    pub(super) by_person: BTreeSet<Scope>,
    /// Scopes in which a person wants what came to nothing to be tried once more, which has not come to rest since.
    pub(super) insisted: BTreeSet<Scope>,
    pub(super) readers: Readers,
    /// Numbers requests and runs in the order they came.
    pub(super) serial: u64,
    /// The same of the last time that anything moved which others may wait for.
    pub(super) moved: u64,
    /// The same of the last time that something else came to be desired.
    pub(super) desired_at: u64,
    /// Number of the last run of each key that came to its end.
    pub(super) ended: BTreeMap<Key, u64>,
    pub(super) last_turn: Duration,
    /// A pass ended since everybody was told that all is idle.
    pub(super) was_busy: bool,
    pub(super) chance: Chance,
    /// Something changed since the loop last went round.
    pub(super) has_news: bool,
}

impl State {
    pub(super) fn new(engine: &Engine, settings: &Settings) -> State {
        let entries = engine.surveyor.entries.iter().map(|(name, entry)| {
            let entry = Entry {
                is_whole: entry.observer.info().guard == GuardDomain::Provider,
                is_apart: entry.observer.info().guard == GuardDomain::Apart,
                resync: settings.resync.get(name).copied().unwrap_or(RESYNC),
                breaker: Breaker::default(),
                ticks: 0,
                probe_failures: Failures::default(),
            };
            (name.clone(), entry)
        });
        State {
            desired: None,
            paused: BTreeMap::new(),
            queue: Queue::default(),
            runs: BTreeMap::new(),
            entries: entries.collect(),
            standing: BTreeMap::new(),
            asked: BTreeSet::new(),
            by_person: BTreeSet::new(),
            insisted: BTreeSet::new(),
            readers: Readers::default(),
            serial: 0,
            moved: 0,
            desired_at: 0,
            ended: BTreeMap::new(),
            last_turn: engine.surveyor.cx.clock.now(),
            was_busy: true,
            chance: Chance(settings.seed),
            has_news: false,
        }
    }

    /// Something else is desired. The first time, the clocks start, and what is remembered is looked up.
    pub(super) fn desire(&mut self, desired: Arc<Desired>, now: Duration) {
        if self.desired.replace(desired).is_some() {
            return;
        }
        let recall = Wish { priority: Priority::Revision, focus: Focus::All, full: false, lane: "".into() };
        self.queue.add(Key::Recall, recall);
        let names: Vec<Arc<str>> = self.entries.keys().cloned().collect();
        names.iter().for_each(|entry| self.next_probe(entry, now));
    }

    /// Sets the clock of an entry: `resync` ±20 %.
    pub(super) fn next_probe(&mut self, entry: &Arc<str>, now: Duration) {
        let wait = self.entries[entry].resync.mul_f64(0.8 + 0.4 * self.chance.fraction());
        self.queue.add_at(Key::Probe(entry.clone()), Cause::Recheck, now + wait, entry);
    }

    /// The key that `scope` is run as, unless its entry is not configured.
    pub(super) fn key(&self, scope: &Scope) -> Option<Key> {
        let entry = self.entries.get(&scope.provider)?;
        Some(if entry.is_whole { Key::Entry(scope.provider.clone()) } else { Key::Scope(scope.clone()) })
    }

    /// Whose turn it is when `scope` is run: the source that declares it.
    pub(super) fn lane(&self, scope: &Scope) -> Arc<str> {
        let desired = self.desired.as_ref();
        let found = desired.and_then(|desired| {
            let first = desired.in_scope(scope).first()?;
            Some(Arc::from(desired.manifests.get(first.origin.manifest as usize)?.key.source()))
        });
        found.unwrap_or_else(|| "".into())
    }

    pub(super) fn wish(
        &self,
        scope: &Scope,
        priority: Priority,
        focus: Focus,
        full: bool,
    ) -> Option<(Key, Wish)> {
        Some((self.key(scope)?, Wish { priority, focus, full, lane: self.lane(scope) }))
    }

    /// No pass over `entries` begins until [`State::go_on`] was said as often as this.
    pub(super) fn pause(&mut self, entries: &BTreeSet<Arc<str>>) {
        for entry in entries {
            *self.paused.entry(entry.clone()).or_default() += 1;
        }
    }

    pub(super) fn go_on(&mut self, entries: &BTreeSet<Arc<str>>) {
        for entry in entries {
            if let Some(pauses) = self.paused.get_mut(entry) {
                *pauses -= 1;
            }
        }
        self.paused.retain(|_, pauses| *pauses > 0);
    }

    /// Asks the runs over `entries` to stop, or all; returns which.
    pub(super) fn stop(&self, entries: Option<&BTreeSet<Arc<str>>>) -> BTreeSet<u64> {
        let is_over = |key: &Key| entries.is_none_or(|all| key.entry().is_some_and(|one| all.contains(one)));
        let meant = self.runs.iter().filter(|(_, run)| run.keys.iter().any(|(key, _)| is_over(key)));
        let meant = meant.inspect(|(_, run)| run.stop.set());
        meant.map(|(number, _)| *number).collect()
    }

    /// Asks for a run; what only reads for the same key, and is less urgent, makes way.
    pub(super) fn add(&mut self, scope: &Scope, priority: Priority, focus: Focus, full: bool) -> Option<Key> {
        let (key, wish) = self.wish(scope, priority, focus, full)?;
        if priority <= Priority::Revision {
            self.stop_runs(&key, |run| run.reads && run.priority > priority);
        }
        self.standing.entry(scope.clone()).or_default();
        self.queue.add(key.clone(), wish);
        Some(key)
    }

    /// Scopes in which something waits for another one, and nothing is due by itself.
    pub(super) fn waiting(&self) -> Vec<Scope> {
        self.standing.iter().filter(|(_, standing)| standing.waits).map(|(scope, _)| scope.clone()).collect()
    }

    /// Scopes that lack a place for what they claim: another desired state may have one.
    pub(super) fn without_place(&self) -> Vec<Scope> {
        let lacks = self.standing.iter().filter(|(_, standing)| standing.lacks_place);
        lacks.map(|(scope, _)| scope.clone()).collect()
    }

    /// Asks the runs of `key` to stop, as far as they are meant.
    pub(super) fn stop_runs(&self, key: &Key, meant: impl Fn(&Run) -> bool) {
        let has = |run: &&Run| meant(run) && run.keys.iter().any(|(mine, _)| mine == key);
        self.runs.values().filter(has).for_each(|run| run.stop.set());
    }

    /// Ends what `scope` waits for: backoff, and an open breaker.
    pub(super) fn override_waits(&mut self, scope: &Scope) {
        if let Some(key) = self.key(scope) {
            self.queue.reset(&key);
        }
        if let Some(entry) = self.entries.get_mut(&scope.provider) {
            entry.breaker.half_open();
        }
    }

    /// True when no key of a ticket has anything before it that came after the ticket.
    pub(super) fn is_handled(&self, keys: &BTreeSet<Key>, serial: u64) -> bool {
        let handled = |key: &Key| {
            self.ended.get(key).is_some_and(|ended| *ended > serial) || !self.queue.is_pending(key)
        };
        keys.iter().all(handled)
    }

    /// Scopes of `entry` that are desired or stand anywhere.
    pub(super) fn scopes_of(&self, entry: &str) -> BTreeSet<Scope> {
        let desired = self.desired.iter().flat_map(|desired| desired.scopes.keys());
        desired.chain(self.standing.keys()).filter(|scope| *scope.provider == *entry).cloned().collect()
    }

    /// Takes the time: delays that are over, breakers that may try, a clock that went back.
    pub(super) fn advance(&mut self, now: Duration) {
        if let Some(by) = self.last_turn.checked_sub(now).filter(|by| !by.is_zero()) {
            // Else what was due in a second would be due in a second and a day.
            self.queue.rewind(by);
            self.entries.values_mut().for_each(|entry| entry.breaker.rewind(by));
        }
        self.last_turn = now;
        self.queue.advance(now);
        self.entries.values_mut().for_each(|entry| entry.breaker.advance(now));
    }

    /// How long nothing can happen by itself.
    pub(super) fn rest(&self, now: Duration) -> Duration {
        let breakers = self.entries.values().filter_map(|entry| match entry.breaker.state() {
            BreakerState::Open(until) => Some(until),
            _ => None,
        });
        let next = breakers.chain(self.queue.next_alarm()).min();
        next.map_or(BEAT, |at| at.saturating_sub(now)).min(BEAT)
    }

    pub(super) fn standing(&self) -> BTreeMap<Scope, Standing> {
        let mut all = self.standing.clone();
        let ready: BTreeSet<&Key> = self.queue.ready().collect();
        for (scope, standing) in &mut all {
            let Some(key) = self.key(scope) else { continue };
            standing.is_queued = ready.contains(&key);
            standing.next_try = self.queue.delayed_until(&key);
            standing.breaker = self.entries[&scope.provider].breaker.state();
        }
        for run in self.runs.values() {
            for (key, _) in &run.keys {
                let since = |standing: &mut Standing| standing.running_since = Some(run.began);
                match key {
                    // There may be as many of them as scopes.
                    Key::Scope(scope) => drop(all.get_mut(scope).map(since)),
                    _ => {
                        all.iter_mut().filter(|(scope, _)| key.is_of(scope)).for_each(|(_, it)| since(it));
                    }
                }
            }
        }
        all
    }
}

/// Chance that a seed decides (SplitMix64, Steele et al. 2014).
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
    /// In 0..=255.
    pub(super) fn byte(&mut self) -> u8 {
        self.next() as u8
    }
    /// In 0..1.
    pub(super) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
