//! One server: what is known of it from one call to the next, such as how much it takes at once.

use super::{client::Client, config::Config, made::Made};
use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Mutex;

/// One server.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(super) entry: Arc<str>,
    pub(super) instance: Arc<str>,
    pub(super) config: Config,
    pub(super) client: Client,
    /// Largest body that is sent: less where no answer came, until one is taken again.
    pub(super) limit: AtomicUsize,
    /// Largest body that the server is not known to refuse.
    pub(super) most: AtomicUsize,
    /// Smallest body that got no answer; 0 for none.
    pub(super) lost: AtomicUsize,
    /// Held by the batch that is being carried out. A server whose database takes one writer at a time, as SQLite does,
    /// answers 500 to the second of two.
    pub(super) turn: Mutex<()>,
    /// Zones that were made here and not read since, by name.
    pub(super) made: std::sync::Mutex<HashMap<Arc<str>, Made>>,
}

impl Backend {
    /// Takes what is known of a zone that was made here: each batch, each of our requests and each read of all of it puts an end to
    /// it.
    pub(super) fn take_made(&self, zone: &str) -> Option<Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).remove(zone)
    }
    /// Remembers of a zone that it was made here.
    pub(super) fn put_made(&self, zone: &Arc<str>, made: Made) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(zone.clone(), made);
    }
    /// Largest body to send.
    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }
    /// Remembers that a body of `size` was too large, or may have been.
    pub(super) fn learn_limit(&self, size: usize, is_certain: bool) {
        // A body as large as one that got no answer before gets none for its size.
        let before = self.lost.load(Ordering::Relaxed);
        if is_certain || size <= before.saturating_mul(2) {
            self.most.fetch_min(size / 2, Ordering::Relaxed);
        }
        self.lost.store(if before == 0 { size } else { before.min(size) }, Ordering::Relaxed);
        self.limit.fetch_min(size / 2, Ordering::Relaxed);
    }
    /// Remembers that a body of `size` was taken: where one that large got no answer, that had another reason.
    pub(super) fn took(&self, size: usize) {
        let (most, limit) = (self.most.load(Ordering::Relaxed), self.limit());
        if limit < most && size > limit / 2 {
            self.limit.store(most.min(limit * 2), Ordering::Relaxed);
        }
    }
}
