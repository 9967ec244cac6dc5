//! What was said of a source and has not been answered by it: consent to a rewind, and who pushed.
//!
//! Guarantees: it is here from before a loop over the sources is asked until that loop has done with it, and goes from an
//! instance to the one that takes its place: a reload loses no consent and no push. Not remembered over a restart.

use crate::{
    config::{Approver, SourceConfig},
    operation::Pushed,
};
use std::sync::{Arc, Mutex, PoisonError};

/// One thing that was said.
#[derive(Debug)]
pub(super) struct Wish {
    /// The source that is meant.
    pub(super) source: Arc<str>,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// The source may be rewound to this commit; for one poll.
    Rewind {
        commit: Arc<str>,
        /// Who consents.
        actor: Arc<str>,
        /// With a push, which not every source lets consent.
        is_push: bool,
    },
    /// A push that the audit trail shall know of.
    Push(Pushed),
}

impl Wish {
    /// Whether a source that is configured so listens to it.
    pub(super) fn counts_for(&self, source: &SourceConfig) -> bool {
        match &self.what {
            What::Rewind { is_push: true, .. } => source.approve.contains(&Approver::PushOption),
            What::Rewind { is_push: false, .. } | What::Push(_) => true,
        }
    }
}

/// All that is open, in the order it was said.
#[derive(Debug, Default)]
pub(crate) struct Wishes(Mutex<Vec<Arc<Wish>>>);

impl Wishes {
    /// Keeps it until [`Wishes::done`].
    pub(super) fn put(&self, source: &Arc<str>, what: What) -> Arc<Wish> {
        let wish = Arc::new(Wish { source: source.clone(), what });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(wish.clone());
        wish
    }
    /// Nothing more comes of it.
    pub(super) fn done(&self, wish: &Arc<Wish>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|open| !Arc::ptr_eq(open, wish));
    }
    /// What is open.
    pub(super) fn open(&self) -> Vec<Arc<Wish>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Whether it is.
    pub(super) fn is_open(&self, wish: &Arc<Wish>) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().any(|open| Arc::ptr_eq(open, wish))
    }
}
