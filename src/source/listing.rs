//! What remotes advertised last, for those who ask the same remote as the same user: a poll beside another does not ask again.
//!
//! # Guarantees
//! - A listing counts for polls that were wished for before it began, and for no other.
//! - Two polls do not ask at once; where the first gets no answer, the others ask for themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::reference::Advertised;

/// The listings of some remotes, by url.
#[derive(Clone, Default)]
pub struct Listings(Arc<Mutex<BTreeMap<String, Arc<Slot>>>>);

/// Urls have passwords.
impl fmt::Debug for Listings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listings")
    }
}

impl Listings {
    pub(super) fn of(&self, url: &str) -> Arc<Slot> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(url.to_owned()).or_default().clone()
    }
}

/// The last listing of one url. Locked while its remote is asked.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Listing>>);

struct Listing {
    began: Instant,
    /// None where there was no answer.
    refs: Option<Arc<[Advertised]>>,
}

/// What there is for a poll.
pub(super) enum Known<'a> {
    Refs(Arc<[Advertised]>),
    /// Others wait for what this one is told.
    Turn(Turn<'a>),
    /// Whoever had the turn got no answer.
    Nothing,
}

impl Slot {
    /// What was advertised since a poll was `wished` for. Waits for who asks now.
    pub(super) fn since(&self, wished: Instant) -> Known<'_> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.as_ref().filter(|listing| listing.began >= wished) {
            Some(Listing { refs: Some(refs), .. }) => Known::Refs(refs.clone()),
            Some(Listing { refs: None, .. }) => Known::Nothing,
            None => Known::Turn(Turn { slot, began: Instant::now(), refs: None }),
        }
    }
}

/// The turn to ask; over when it is dropped.
pub(super) struct Turn<'a> {
    slot: MutexGuard<'a, Option<Listing>>,
    began: Instant,
    refs: Option<Arc<[Advertised]>>,
}

impl Turn<'_> {
    pub(super) fn end(mut self, refs: &[Advertised]) {
        self.refs = Some(refs.into());
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.slot = Some(Listing { began: self.began, refs: self.refs.take() });
    }
}
