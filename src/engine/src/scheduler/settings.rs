//! How the loop runs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How the loop runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Passes at once, resyncs not counted; at most half of them are retries.
    pub workers: usize,
    /// Resyncs at once.
    pub resync_workers: usize,
    /// How often each entry is asked what moved, ±20 %; [`RESYNC`] where an entry has none.
    pub resync: BTreeMap<Arc<str>, Duration>,
    /// How long a pass may write before it is asked to stop, and how long its survey may be without an answer: a survey in
    /// which scope after scope is answered goes on.
    pub pass_limit: Duration,
    /// Seed of everything that is spread by chance.
    pub seed: u64,
    /// Looks and records, never writes.
    pub observe: bool,
}

/// How often an entry is asked what moved when nobody said otherwise.
pub const RESYNC: Duration = Duration::from_secs(600);

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            workers: 8,
            resync_workers: 2,
            resync: BTreeMap::new(),
            pass_limit: Duration::from_secs(600),
            seed: 0,
            observe: false,
        }
    }
}

/// How long the loop sleeps at most. So a clock that jumped is noticed, and a watchdog is fed.
pub const BEAT: Duration = Duration::from_secs(10);
