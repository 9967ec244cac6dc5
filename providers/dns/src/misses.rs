//! Look-ups of zones that were not seen yet: a few by name, then all at once.
//!
//! Guarantees: whoever asks for many zones, one after the other or beside each other, costs a list and not a request for each;
//! whoever asks for a few in an account of thousands does not pay for the list.

use tokio::sync::{Mutex, MutexGuard};

/// Up to so many zones are looked up by name, where the list may be long.
pub(crate) const BY_NAME: usize = 3;

/// How many were looked up by name since all were listed.
#[derive(Debug, Default)]
pub(crate) struct Misses(Mutex<usize>);

impl Misses {
    /// Waits for who looks something up now: it may find what is asked for.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        Turn(self.0.lock().await)
    }
}

/// The turn to look something up.
pub(crate) struct Turn<'a>(MutexGuard<'a, usize>);

impl Turn<'_> {
    /// True where all should be listed for this one.
    pub(crate) fn is_for_all(&mut self) -> bool {
        *self.0 = if *self.0 < BY_NAME { *self.0 + 1 } else { 0 };
        *self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_fourth_in_a_row_is_for_all() {
        let misses = Misses::default();
        let mut told = Vec::new();
        for _ in 0..8 {
            told.push(misses.turn().await.is_for_all());
        }
        assert_eq!(told, [false, false, false, true, false, false, false, true]);
    }
}
