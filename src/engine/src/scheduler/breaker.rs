//! The circuit breaker of one entry: when a remote answers nobody, asking for everybody makes it worse.
//!
//! ```text
//!            5 scopes in a row without an answer            its wait is over
//!   Closed ─────────────────────────────────────► Open ───────────────────────► HalfOpen
//!     ▲                                             ▲                             │   │
//!     └──────────────── one scope answered ─────────┼─────────────────────────────┘   │
//!                                                   └────── no answer: longer wait ───┘
//! ```
//!
//! Guarantees: scopes that fail over and over are counted once, so that a few broken ones do not stop the
//! others of their entry. It deliberately judges no error: the caller says what was no answer.

use crate::error_policy::{CAP, backoff};
use reconciled_provider::Scope;
use std::{collections::BTreeSet, time::Duration};

/// Scopes in a row without an answer that open it.
const LIMIT: usize = 5;

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerState {
    /// All scopes are worked on.
    #[default]
    Closed,
    /// Nothing is asked of the remote before this time, since the epoch.
    Open(Duration),
    /// One scope is being tried.
    HalfOpen,
}

/// The breaker of one entry.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: BreakerState,
    silent: BTreeSet<Option<Scope>>,
    /// How often it opened in a row.
    trips: u32,
}

impl Breaker {
    /// Where it stands.
    pub(super) fn state(&self) -> BreakerState {
        self.state
    }

    /// An open breaker whose wait is over lets one scope try.
    pub(super) fn advance(&mut self, now: Duration) {
        if matches!(self.state, BreakerState::Open(until) if until <= now) {
            self.state = BreakerState::HalfOpen;
        }
    }

    /// A person or a new revision asks: one scope may try at once.
    pub(super) fn half_open(&mut self) {
        if matches!(self.state, BreakerState::Open(_)) {
            self.state = BreakerState::HalfOpen;
        }
    }

    /// The remote answered. True when that closed the breaker.
    pub(super) fn answered(&mut self) -> bool {
        let was = std::mem::take(self);
        was.state != BreakerState::Closed
    }

    /// No answer for a scope, or for the probe of the entry. `jitter` is a random number in 0..=255.
    pub(super) fn silent(&mut self, scope: Option<&Scope>, now: Duration, jitter: u8) {
        self.silent.insert(scope.cloned());
        let trips = match self.state {
            BreakerState::Closed => self.silent.len() >= LIMIT,
            BreakerState::HalfOpen => true,
            // Runs that began before it opened say nothing new.
            BreakerState::Open(_) => false,
        };
        if trips {
            self.trips += 1;
            // The first wait is as long as that of a scope that failed five times.
            self.state = BreakerState::Open(now + backoff(LIMIT as u32 + self.trips - 1, jitter, CAP));
        }
    }

    /// Moves the wait earlier: the clock went back by `by`.
    pub(super) fn rewind(&mut self, by: Duration) {
        if let BreakerState::Open(until) = &mut self.state {
            *until = until.saturating_sub(by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    fn scope(number: usize) -> Scope {
        Scope::new("dns", format!("zone-{number}"))
    }

    fn open() -> Breaker {
        let mut breaker = Breaker::default();
        (0..LIMIT).for_each(|number| breaker.silent(Some(&scope(number)), NOW, 255));
        breaker
    }

    #[test]
    fn one_scope_that_fails_for_ever_does_not_open_it() {
        let mut breaker = Breaker::default();
        (0..100).for_each(|_| breaker.silent(Some(&scope(0)), NOW, 0));
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn an_answer_starts_the_count_anew() {
        let mut breaker = Breaker::default();
        for number in 0..100 {
            if number % 4 == 0 {
                assert!(!breaker.answered(), "it was never open");
            }
            breaker.silent(Some(&scope(number)), NOW, 0);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn it_opens_tries_one_and_waits_twice_as_long_if_that_is_in_vain() {
        let mut breaker = open();
        let first = Duration::from_secs(16);
        assert_eq!(breaker.state(), BreakerState::Open(NOW + first));
        breaker.advance(NOW + first / 2);
        assert_eq!(breaker.state(), BreakerState::Open(NOW + first));
        breaker.advance(NOW + first);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        breaker.silent(Some(&scope(0)), NOW, 255);
        assert_eq!(breaker.state(), BreakerState::Open(NOW + first * 2));
    }

    #[test]
    fn a_clock_that_went_back_makes_no_wait_longer() {
        let mut breaker = open();
        let (day, first) = (Duration::from_secs(900), Duration::from_secs(16));
        breaker.rewind(day);
        assert_eq!(breaker.state(), BreakerState::Open(NOW - day + first));
        breaker.advance(NOW - day + first);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
    }

    #[test]
    fn a_person_need_not_wait_and_an_answer_closes_it() {
        let mut breaker = open();
        breaker.half_open();
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(breaker.answered());
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
}
