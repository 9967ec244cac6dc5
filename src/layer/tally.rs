//! What is going on at the remotes, in numbers: for whoever shows progress.

use async_trait::async_trait;
use reconciled_provider::{ActionId, Claim, Error, Journal, Outcome, Tracked};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts over all entries since the invocation began. Numbers only: they order nothing and guard nothing.
#[derive(Debug, Default)]
pub struct Tally {
    reading: AtomicUsize,
    read: AtomicUsize,
    sent: AtomicUsize,
    answered: AtomicUsize,
}

impl Tally {
    /// Scopes that are being read, and that were read.
    pub fn scopes(&self) -> (usize, usize) {
        (self.reading.load(Ordering::Relaxed), self.read.load(Ordering::Relaxed))
    }
    /// Changes that have an outcome, of those that were begun.
    pub fn changes(&self) -> (usize, usize) {
        (self.answered.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed))
    }
    pub(super) fn reading(&self) -> Reading<'_> {
        self.reading.fetch_add(1, Ordering::Relaxed);
        Reading(self)
    }
    pub(super) fn begun(&self, changes: usize) {
        self.sent.fetch_add(changes, Ordering::Relaxed);
    }
}

/// One read, until it is dropped: also when it is given up.
pub(super) struct Reading<'a>(&'a Tally);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.reading.fetch_sub(1, Ordering::Relaxed);
        self.0.read.fetch_add(1, Ordering::Relaxed);
    }
}

/// A journal that counts what ended.
pub(super) struct Counting<'a> {
    pub(super) journal: &'a dyn Journal,
    pub(super) tally: &'a Tally,
}

#[async_trait]
impl Journal for Counting<'_> {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        self.journal.started(actions).await
    }
    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error> {
        self.journal.progress(action, tracked).await
    }
    async fn foreseen(&self, outcomes: &[(ActionId, Outcome)]) {
        self.journal.foreseen(outcomes).await;
    }
    fn has_place(&self, action: ActionId, claims: &[Claim]) -> Result<(), Error> {
        self.journal.has_place(action, claims)
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        self.tally.answered.fetch_add(outcomes.len(), Ordering::Relaxed);
        self.journal.finished(outcomes).await
    }
}
