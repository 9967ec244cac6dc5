//! Look-ups of zones that were not seen yet: a few by name, then all at once.
//!
//! Guarantees: whoever asks for many zones, one after the other or beside each other, costs a list and not a request for each;
//! whoever asks for a few in an account of thousands does not pay for the list. A list that was made while somebody waited for
//! it answers that one as well.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Mutex, MutexGuard};

/// Up to so many zones are looked up by name, where the list may be long.
pub(crate) const BY_NAME: usize = 3;

/// How many were looked up by name since all were listed, and how often that was.
#[derive(Debug, Default)]
pub(crate) struct Misses {
    by_name: Mutex<usize>,
    lists: AtomicU64,
}

impl Misses {
    /// Waits for who looks something up now: it may find what is asked for.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        let before = self.lists.load(Ordering::Relaxed);
        let by_name = self.by_name.lock().await;
        Turn { is_listed: self.lists.load(Ordering::Relaxed) > before, by_name, lists: &self.lists }
    }
}

/// The turn to look something up.
pub(crate) struct Turn<'a> {
    /// All were listed since this was asked for: what is not known is not there.
    pub(crate) is_listed: bool,
    by_name: MutexGuard<'a, usize>,
    lists: &'a AtomicU64,
}

impl Turn<'_> {
    /// True where all should be listed for this one.
    pub(crate) fn is_for_all(&mut self) -> bool {
        *self.by_name = if *self.by_name < BY_NAME { *self.by_name + 1 } else { 0 };
        *self.by_name == 0
    }
    /// All were listed.
    pub(crate) fn listed(&self) {
        self.lists.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;

    #[tokio::test]
    async fn every_fourth_in_a_row_is_for_all() {
        let misses = Misses::default();
        let mut told = Vec::new();
        for _ in 0..8 {
            told.push(misses.turn().await.is_for_all());
        }
        assert_eq!(told, [false, false, false, true, false, false, false, true]);
    }

    #[tokio::test]
    async fn who_waited_for_a_list_has_it() {
        let misses = Misses::default();
        let first = misses.turn().await;
        let mut waiting = pin!(misses.turn());
        assert!(waiting.as_mut().now_or_never().is_none());
        first.listed();
        drop(first);
        assert!(waiting.await.is_listed);
        assert!(!misses.turn().await.is_listed);
    }
}
