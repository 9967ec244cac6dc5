//! How fast an account is asked: as fast as it likes, until it says that this is too fast.
//!
//! *Guarantees*: what says so halves the rate of all of its class that begins, and what goes well in that class brings it back
//! step by step: clouds limit reads and writes apart, and a pass reads far more than it writes. Nothing is kept from beginning for
//! longer than its place in the row takes. What is under way is not touched, so that a cluster that takes an hour keeps nobody from
//! being read. *Deliberately not done*: nothing is tried again here. Who was refused is told to come back, later each time until
//! nobody was refused for a while: how much went well in between says nothing, since a burst begins well.

use reconciled_provider::{Error, ErrorKind};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Between two calls, once the account complained for the first time.
const FIRST: Duration = Duration::from_millis(100);
/// And at most: a look has a limit, and up to sixteen wait in the row.
const SLOWEST: Duration = Duration::from_secs(2);
/// Less than this is no wait.
const NONE: Duration = Duration::from_millis(5);
/// What is said within this time of the last complaint is the same complaint.
const SAME: Duration = Duration::from_secs(1);
/// How soon who was refused may come back, at first and at most.
const BACK: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// Complaints are forgotten after this time without one. It is twice the longest wait: who was told to wait has tried again by then.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// What an account limits by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// What changes nothing. Plans too: some providers ask the cloud while they plan.
    Reads,
    /// What changes something.
    Writes,
}

/// The pace of one account.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    reads: Mutex<State>,
    writes: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Between the beginnings of two calls.
    interval: Duration,
    /// When the next one may begin.
    next: Option<Instant>,
    complained: Option<Instant>,
    /// Complaints, each less than [`FORGOTTEN`] after the one before it.
    complaints: u32,
}

impl Pace {
    fn state(&self, class: Class) -> MutexGuard<'_, State> {
        let state = match class {
            Class::Reads => &self.reads,
            Class::Writes => &self.writes,
        };
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its turn.
    pub(crate) async fn turn(&self, class: Class) {
        let wait = self.state(class).take(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// An error that says it was too much slows down what follows, and says when to come back.
    pub(crate) fn told(&self, class: Class, error: Error) -> Error {
        match error.kind {
            ErrorKind::RateLimited => {
                let wait = self.state(class).slow(Instant::now());
                error.retry_after(wait)
            }
            _ => error,
        }
    }

    /// The account did what it was asked for.
    pub(crate) fn well(&self, class: Class) {
        self.state(class).well();
    }
}

impl State {
    fn take(&mut self, now: Instant) -> Duration {
        if self.interval.is_zero() {
            return Duration::ZERO;
        }
        let at = self.next.map_or(now, |next| next.max(now));
        self.next = Some(at + self.interval);
        at - now
    }

    fn slow(&mut self, now: Instant) -> Duration {
        let since = self.complained.map(|at| now.saturating_duration_since(at));
        if since.is_none_or(|since| since >= SAME) {
            let before = if since.is_some_and(|since| since < FORGOTTEN) { self.complaints } else { 0 };
            self.complained = Some(now);
            self.complaints = before.saturating_add(1);
            self.interval = (self.interval * 2).clamp(FIRST, SLOWEST);
        }
        let (first, most) = BACK;
        first.saturating_mul(1 << self.complaints.saturating_sub(1).min(8)).min(most)
    }

    fn well(&mut self) {
        self.interval = self.interval * 15 / 16;
        if self.interval < NONE {
            (self.interval, self.next) = (Duration::ZERO, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    #[test]
    fn nobody_waits_where_nobody_complained() {
        let mut state = State::default();
        for _ in 0..1_000 {
            assert_eq!(state.take(at(0)), Duration::ZERO);
            state.well();
        }
    }

    #[test]
    fn a_complaint_slows_down_what_follows_and_the_next_one_more() {
        let mut state = State::default();
        assert_eq!(state.slow(at(0)), Duration::from_secs(10));
        let waits: Vec<u128> = (0..3).map(|_| state.take(at(0)).as_millis()).collect();
        assert_eq!(waits, [0, 100, 200]);
        // Ten that were under way at one time complain once.
        for _ in 0..10 {
            assert_eq!(state.slow(at(0)), Duration::from_secs(10));
        }
        assert_eq!(state.interval, FIRST);
        let back: Vec<u64> = (1..8).map(|minute| state.slow(at(minute * 60)).as_secs()).collect();
        assert_eq!(back, [20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(state.interval, SLOWEST);
    }

    #[test]
    fn what_goes_well_brings_the_pace_back_and_time_alone_forgets_complaints() {
        let mut state = State::default();
        state.slow(at(0));
        state.slow(at(60));
        let calls = (1..).find(|_| {
            state.well();
            state.interval.is_zero()
        });
        assert_eq!((calls, state.take(at(60))), (Some(58), Duration::ZERO));
        assert_eq!(state.slow(at(120)), Duration::from_secs(40));
        // Who comes back as late as can be and is refused again was not left in peace meanwhile.
        for (now, wait) in
            [(180, 80), (300, 160), (500, 300), (801, 300), (1_400, 300), (2_000, 10), (2_060, 20)]
        {
            (0..100).for_each(|_| state.well());
            assert_eq!(state.slow(at(now)), Duration::from_secs(wait), "{now}");
        }
    }

    #[test]
    fn what_goes_well_in_one_class_gives_the_other_nothing_back() {
        for (refused, served) in [(Class::Writes, Class::Reads), (Class::Reads, Class::Writes)] {
            let pace = Pace::default();
            let waits = (1..=7).map(|pass| {
                // A pass looks at everything before it writes anything.
                (0..1_000).for_each(|_| pace.well(served));
                let wait = pace.state(refused).slow(at(pass * 60));
                (wait.as_secs(), pace.state(refused).interval.as_millis())
            });
            let expect =
                [(10, 100), (20, 200), (40, 400), (80, 800), (160, 1_600), (300, 2_000), (300, 2_000)];
            assert_eq!(waits.collect::<Vec<_>>(), expect, "{refused:?}");
            (0..1_000).for_each(|_| assert_eq!(pace.state(served).take(at(480)), Duration::ZERO));
        }
    }
}
