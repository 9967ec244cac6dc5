//! One server: what is known of it from one call to the next, such as how much it takes at once.

use super::{client::Client, config::Config};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
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
}

impl Backend {
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
