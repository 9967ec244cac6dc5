//! When: the continuous loop that decides which scopes are looked at next, and never what is done to them.
//!
//! ```text
//! commits, operators, hints ─► wake ─┐
//! clocks: probe, full read ──────────┼─► queue ─► dispatch ─► pass (survey, carry out) ─► ending ─┐
//! retries, rechecks, dependants ─────┘     ▲                                                      │
//!                                          └──────────────────────────────────────────────────────┘
//! ```
//!
//! Guarantees:
//! - a scope never has two passes at once, no event is lost, and many events make at most two passes;
//! - a new revision and an operator go before everything else, past backoff and breaker, and end what only
//!   reads for the same scope; resyncs have workers of their own, and so stand in their way for a read of the same
//!   entry at most, where that takes no more at once (`survey::Rooms`);
//! - scopes that failed are tried alone, so that they delay no other, after `rand(0.5..1) × min(5 min, 1 s × 2ⁿ)`;
//! - every pass has an end: it is asked to stop first, and given up only after the engine's own limits;
//! - a panic fails the pass it happens in, and no other;
//! - nothing runs before something is desired.
//!
//! Assumptions: the revision is in force in the store before [`Scheduler::desire`] is told; the spawner runs what
//! it is given; the clock may jump in both directions.
//!
//! It deliberately has no runtime and no timer but [`Cx`](reconciled_provider::Cx)'s clock, and remembers nothing
//! over a restart: the first pass after it looks at everything.

mod breaker;
mod clocks;
mod dispatch;
mod ending;
mod pass;
mod queue;
mod settings;
mod shared;
mod standing;
mod state;
#[cfg(test)]
mod tests;
mod watch;

pub use breaker::BreakerState;
pub use queue::Priority;
pub use settings::{BEAT, RESYNC, Settings};
pub use standing::{Stance, Standing};
pub use watch::{Progress, Watch};

use crate::{desired::Desired, pass::Engine};
use reconciled_provider::{Focus, Scope};
use shared::Shared;
use state::{Key, State};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

/// Runs futures beside each other: a runtime, or a simulation.
pub trait Spawner: Send + Sync {
    /// Runs `future` to its end. What is dropped before counts as a pass that was stopped.
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>);
}

/// What [`Scheduler::sync`] was asked for, to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    keys: BTreeSet<Key>,
    serial: u64,
}

/// The loop.
pub struct Scheduler {
    engine: Arc<Engine>,
    spawner: Arc<dyn Spawner>,
    settings: Settings,
    state: Shared<State>,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Ends a pause of entries, also of whoever gave up waiting for it.
struct Pause<'a>(&'a Scheduler, &'a BTreeSet<Arc<str>>);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.go_on(self.1));
    }
}

impl Scheduler {
    /// A loop over `engine`. Nothing happens until [`Scheduler::run`], and then until [`Scheduler::desire`].
    pub fn new(engine: Arc<Engine>, spawner: Arc<dyn Spawner>, settings: Settings) -> Arc<Scheduler> {
        let engine = if settings.observe { Arc::new(engine.observing()) } else { engine };
        let state = State::new(&engine, &settings);
        Arc::new(Scheduler { engine, spawner, settings, state: Shared::new(state) })
    }

    /// Says what is desired from now on. The `changed` scopes are due at once: their backoff is over, and passes
    /// over them that run from an older state are asked to stop.
    ///
    /// `changed` names every scope in which anything changed, also those that are no longer desired. The first
    /// time, scopes that are only remembered are found by themselves. Scopes that wait for others are looked at too, and those that lack a
    /// place for what they claim.
    pub fn desire(&self, desired: Arc<Desired>, changed: BTreeSet<Scope>) {
        let now = self.now();
        self.engine.forgive(&changed);
        self.change(|state| {
            state.desire(desired, now);
            state.serial += 1;
            // What they wait for may be declared no more: then nothing moves that would wake them.
            (state.moved, state.desired_at) = (state.serial, state.serial);
            for scope in state.waiting().into_iter().chain(state.without_place()) {
                state.add(&scope, Priority::Revision, Focus::All, false);
            }
            for scope in changed {
                // Nobody has asked for what came into force only now.
                state.by_person.remove(&scope);
                state.insisted.remove(&scope);
                for run in state.runs.values_mut() {
                    run.by_person.remove(&scope);
                    run.insisted.remove(&scope);
                }
                state.override_waits(&scope);
                let serial = state.serial;
                if let Some(key) = state.add(&scope, Priority::Revision, Focus::All, false) {
                    state.stop_runs(&key, |_| true);
                    let standing = state.standing.entry(scope).or_default();
                    (standing.is_unseen, standing.revised) = (true, serial);
                }
            }
        });
    }

    /// Asks for a look at `scopes`, a person's wish past backoff and breaker. Scopes whose entry is not configured are ignored.
    ///
    /// The focus says where something changed. A pass reads at least that; today it always reads as much as the
    /// version of the scope asks for.
    pub fn wake(&self, scopes: impl IntoIterator<Item = Scope>, priority: Priority, focus: Focus) {
        self.change(|state| {
            for scope in scopes {
                if priority == Priority::Operator {
                    state.override_waits(&scope);
                }
                if priority <= Priority::Hint {
                    state.asked.insert(scope.clone());
                }
                state.add(&scope, priority, focus.clone(), false);
            }
        });
    }

    /// A person asks for something to be done in `scopes`: now, where a closed window lets that through.
    pub fn bid(&self, scopes: BTreeSet<Scope>) {
        self.change(|state| state.by_person.extend(scopes.iter().cloned()));
        self.wake(scopes, Priority::Operator, Focus::All);
    }

    /// The scopes of which a person asked for something that has not come to rest: what a loop that takes the place of this
    /// one has to [bid](Scheduler::bid), unless something else is desired there.
    pub fn bids(&self) -> BTreeSet<Scope> {
        self.state.look(|state| {
            let running = state.runs.values().flat_map(|run| &run.by_person);
            state.by_person.iter().chain(running).cloned().collect()
        })
    }

    /// A person means just `scopes`: what came to nothing there is tried once more when they are looked at next, which this asks
    /// nobody to do.
    pub fn insist(&self, scopes: &BTreeSet<Scope>) {
        self.change(|state| state.insisted.extend(scopes.iter().cloned()));
    }

    /// The same as [`Scheduler::bids`] of what a loop that takes the place of this one has to [insist](Scheduler::insist) on.
    pub fn insisted(&self) -> BTreeSet<Scope> {
        self.state.look(|state| {
            let running = state.runs.values().flat_map(|run| &run.insisted);
            state.insisted.iter().chain(running).cloned().collect()
        })
    }

    /// A person asks for something to be done in `scopes` and has seen who keeps undoing it.
    pub fn acquit(&self, scopes: &BTreeSet<Scope>) {
        self.engine.acquit(scopes);
    }

    /// A person asks for `scopes` to be read in full now: past backoff, breaker and flapping, and past a closed window that lets
    /// a person through.
    pub fn sync(&self, scopes: &BTreeSet<Scope>) -> Ticket {
        self.change(|state| state.by_person.extend(scopes.iter().cloned()));
        self.reread(scopes)
    }

    /// As [`Scheduler::sync`], and past no closed window: whatever else waits for that goes on waiting.
    pub fn reread(&self, scopes: &BTreeSet<Scope>) -> Ticket {
        self.engine.forgive(scopes);
        self.engine.acquit(scopes);
        self.change(|state| {
            state.serial += 1;
            let mut keys = BTreeSet::new();
            for scope in scopes {
                state.override_waits(scope);
                state.asked.insert(scope.clone());
                keys.extend(state.add(scope, Priority::Operator, Focus::All, true));
            }
            Ticket { keys, serial: state.serial }
        })
    }

    /// Returns once every scope of `ticket` ended a pass that began after the request, or is gone. A pass that
    /// was stopped does not count; after [`Scheduler::run`] ended this need not return.
    pub async fn handled(&self, ticket: &Ticket) {
        self.state.until(|state| state.is_handled(&ticket.keys, ticket.serial).then_some(())).await;
    }

    /// Whether [`Scheduler::handled`] would return at once.
    pub fn is_handled(&self, ticket: &Ticket) -> bool {
        self.state.look(|state| state.is_handled(&ticket.keys, ticket.serial))
    }

    /// Asks every pass that runs to stop, and returns once they have. Each is made up for with a new look.
    ///
    /// Whoever makes durable what shall not be written before calling this knows afterwards that nothing of it is
    /// being written.
    pub async fn halt(&self) {
        self.ended_all(self.change(|state| state.stop(None))).await;
    }

    /// Does `work` while no pass over `entries` runs: those that run are asked to stop first, none begins before it is done. Passes over
    /// others go on, which write down nothing of what these have tracked: a call of another entry may last for hours.
    pub async fn alone<T>(&self, entries: &BTreeSet<Arc<str>>, work: impl Future<Output = T>) -> T {
        self.change(|state| state.pause(entries));
        let pause = Pause(self, entries);
        self.ended_all(self.change(|state| state.stop(Some(entries)))).await;
        let done = work.await;
        drop(pause);
        done
    }

    /// Returns once none of these `runs` goes on.
    async fn ended_all(&self, runs: BTreeSet<u64>) {
        self.state.until(|state| state.runs.keys().all(|run| !runs.contains(run)).then_some(())).await;
    }

    /// How every scope stands that was looked at or is asked for.
    pub fn standing(&self) -> BTreeMap<Scope, Standing> {
        self.state.look(State::standing)
    }

    /// Those of them of which no pass has ended since something of them came to be desired otherwise, or at all.
    pub fn unseen(&self) -> BTreeSet<Scope> {
        let is_unseen = |(_, standing): &(Scope, Standing)| standing.is_unseen || standing.ended_at.is_none();
        self.standing().into_iter().filter(is_unseen).map(|(scope, _)| scope).collect()
    }

    /// What happens from now on.
    pub fn watch(&self) -> Watch {
        self.state.change(|state| state.readers.watch())
    }

    /// When the loop last went round, since the epoch: at least every [`BEAT`] while it is well. For a watchdog.
    pub fn tick(&self) -> Duration {
        self.state.look(|state| state.last_turn)
    }

    /// Changes what the loop knows, and has it go round.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        self.state.change(|state| {
            state.has_news = true;
            change(state)
        })
    }

    fn now(&self) -> Duration {
        self.engine.surveyor.cx.clock.now()
    }
}
