//! What happens, told to whoever wants to know: a push that waits for its outcome, metrics.
//!
//! Guarantees: the scheduler never waits for a reader; a reader that is too slow is told how much it missed.
//! It deliberately tells nothing that is not also in the store or in [`super::Scheduler::standing`]: who missed
//! something looks there.

use super::{Priority, Stance, shared::Shared};
use crate::pass::{ScopeReport, ScopeState};
use futures_util::Stream;
use reconciled_provider::Scope;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

/// How many messages a reader may be behind.
const BEHIND: usize = 1_024;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// A pass over these scopes began.
    PassStarted {
        /// The scopes.
        scopes: BTreeSet<Scope>,
        /// How urgent it was.
        priority: Priority,
    },
    /// The pass over one scope ended.
    PassEnded {
        /// The scope.
        scope: Scope,
        /// How it stands.
        state: ScopeState,
        /// The same in the words of `status`.
        stance: Stance,
        /// What ended, by change and outcome: (`create`, `done`) → 3.
        outcomes: BTreeMap<(&'static str, &'static str), usize>,
        /// Resources adopted.
        adopted: usize,
        /// Resources seen to be as written.
        settled: usize,
        /// How long the pass took, with the scopes it ran together with.
        took: Duration,
        /// The error chain, if something went wrong.
        error: Option<Arc<str>>,
    },
    /// Nothing runs and nothing is due.
    Idle,
    /// This many messages were lost, because nobody read them in time.
    Missed(u64),
}

impl Progress {
    pub(super) fn ended(scope: &Scope, report: &ScopeReport, took: Duration) -> Progress {
        Progress::PassEnded {
            scope: scope.clone(),
            state: report.state.clone(),
            stance: Stance::of(report),
            outcomes: report.outcomes.clone(),
            adopted: report.adopted,
            settled: report.settled,
            took,
            error: report.error.as_ref().map(|error| error.chain().into()),
        }
    }
}

#[derive(Debug, Default)]
struct Inbox {
    messages: VecDeque<Progress>,
    missed: u64,
    closed: bool,
}

/// A reader: a stream that ends with the scheduler.
#[derive(Debug)]
pub struct Watch(Arc<Shared<Inbox>>);

impl Watch {
    /// The next thing that happens; none once the scheduler has ended.
    pub async fn next(&mut self) -> Option<Progress> {
        self.0.until(Inbox::next).await
    }
}

impl Stream for Watch {
    type Item = Progress;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Progress>> {
        self.0.poll(cx, Inbox::next)
    }
}

impl Inbox {
    fn next(&mut self) -> Option<Option<Progress>> {
        if self.missed > 0 {
            return Some(Some(Progress::Missed(std::mem::take(&mut self.missed))));
        }
        match self.messages.pop_front() {
            None if self.closed => Some(None),
            None => None,
            message => Some(message),
        }
    }
    fn put(&mut self, message: Progress) {
        if self.messages.len() == BEHIND {
            self.messages.pop_front();
            self.missed += 1;
        }
        self.messages.push_back(message);
    }
}

/// All readers.
#[derive(Debug, Default)]
pub(super) struct Readers {
    inboxes: Vec<Weak<Shared<Inbox>>>,
    closed: bool,
}

impl Readers {
    pub(super) fn watch(&mut self) -> Watch {
        let inbox = Arc::new(Shared::new(Inbox { closed: self.closed, ..Inbox::default() }));
        self.inboxes.push(Arc::downgrade(&inbox));
        Watch(inbox)
    }
    /// Tells every reader that is still there.
    pub(super) fn tell(&mut self, message: &Progress) {
        self.each(|inbox| inbox.put(message.clone()));
    }
    /// Ends every stream.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.each(|inbox| inbox.closed = true);
    }
    fn each(&mut self, mut change: impl FnMut(&mut Inbox)) {
        self.inboxes.retain(|inbox| inbox.upgrade().map(|inbox| inbox.change(&mut change)).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_is_told_how_much_it_missed_and_goes_on_with_what_is_newest() {
        let mut inbox = Inbox::default();
        (0..BEHIND + 6).for_each(|_| inbox.put(Progress::Idle));
        inbox.closed = true;
        assert_eq!(inbox.next(), Some(Some(Progress::Missed(6))));
        assert!((0..BEHIND).all(|_| inbox.next() == Some(Some(Progress::Idle))));
        assert_eq!(inbox.next(), Some(None));
    }
}
