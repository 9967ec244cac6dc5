//! What is believed of the disk for as long as many certificates are looked at, one after the other.
//!
//! A thousand certificates have five or six directories above theirs in common, and what is kept of one is asked about twice in a
//! pass: when it is looked at, and a moment later for its health. Each question to the kernel takes as long as all the rest that
//! is done for one that is as declared.
//!
//! Guarantees: nothing is believed that was seen before the sweep began, nor for longer than [`FRESH`], nor while none is under
//! way. It deliberately serves one question alone, whether what is remembered still holds: who reads a certificate or writes one
//! looks at its way and its files anew.

use crate::place::{self, Stamps};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long what was seen is believed: a sweep may have to wait for services and authorities.
const FRESH: Duration = Duration::from_secs(1);

/// What was seen, and when.
type Seen = (Option<Stamps>, Duration);

#[derive(Debug, Default)]
struct State {
    /// How many are under way.
    sweeps: usize,
    ways: BTreeMap<PathBuf, Seen>,
    /// How the files were that are kept, by the name of a certificate.
    kept: BTreeMap<String, Seen>,
}

impl State {
    fn forget(&mut self) {
        self.ways.clear();
        self.kept.clear();
    }
}

/// What the sweeps of an entry that are under way have seen.
#[derive(Debug, Default)]
pub(crate) struct Sweeps(Mutex<State>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Sweep(Arc<Sweeps>);

impl Drop for Sweep {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.sweeps -= 1;
        if state.sweeps == 0 {
            state.forget();
        }
    }
}

impl Sweeps {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one.
    pub(crate) fn begin(self: &Arc<Sweeps>) -> Sweep {
        let mut state = self.state();
        state.sweeps += 1;
        // What another one that is under way has seen may have changed before this one began.
        state.forget();
        drop(state);
        Sweep(self.clone())
    }

    /// How a directory and all above it are, as [`place::way`] says.
    pub(crate) fn way(&self, directory: &Path, now: Duration) -> Option<Stamps> {
        let mut state = self.state();
        if state.sweeps == 0 {
            drop(state);
            return place::way(directory);
        }
        if let Some((stamps, _)) = state.ways.get(directory).filter(|seen| is_fresh(seen, now)) {
            return *stamps;
        }
        // Under the lock, or a sweep that begins meanwhile would be told what was seen before it.
        let stamps = place::way(directory);
        state.ways.insert(directory.to_owned(), (stamps, now));
        stamps
    }

    /// The files that are kept of the certificate `name` are like this.
    pub(crate) fn note_kept(&self, name: &str, stamps: Option<Stamps>, now: Duration) {
        let mut state = self.state();
        if state.sweeps > 0 {
            state.kept.insert(name.to_owned(), (stamps, now));
        }
    }

    /// How the files are that are kept of the certificate `name`, where it was looked at a moment ago. Told once.
    pub(crate) fn kept(&self, name: &str, now: Duration) -> Option<Stamps> {
        let seen = self.state().kept.remove(name)?;
        seen.0.filter(|_| is_fresh(&seen, now))
    }
}

/// A clock that went back is no reason to believe it for longer.
fn is_fresh((_, at): &Seen, now: Duration) -> bool {
    (*at..*at + FRESH).contains(&now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    const NOW: Duration = Duration::from_secs(100);

    /// A directory on the way to `below`, which changes each time that is asked for.
    struct Changing {
        dir: tempfile::TempDir,
        below: PathBuf,
        mode: u32,
    }

    impl Changing {
        fn new() -> Changing {
            let dir = tempfile::tempdir().unwrap();
            let below = dir.path().join("above/below");
            fs::create_dir_all(&below).unwrap();
            Changing { dir, below, mode: 0o700 }
        }

        fn change(&mut self) {
            self.mode += 1;
            let above = self.dir.path().join("above");
            fs::set_permissions(above, fs::Permissions::from_mode(self.mode)).unwrap();
        }
    }

    #[test]
    fn a_way_is_looked_at_once_in_a_sweep_and_anew_in_the_next_one() {
        let (sweeps, mut at) = (Arc::new(Sweeps::default()), Changing::new());
        let way = |at: &Changing, now| sweeps.way(&at.below, now).unwrap();
        let alone = way(&at, NOW);
        at.change();
        assert_ne!(way(&at, NOW), alone, "none is under way");
        let sweep = sweeps.begin();
        let seen = way(&at, NOW);
        at.change();
        assert_eq!(way(&at, NOW), seen);
        drop(sweep);
        let sweep = sweeps.begin();
        let anew = way(&at, NOW);
        assert_ne!(anew, seen);
        // One that begins while another one is under way believes nothing that was seen before it.
        at.change();
        let second = sweeps.begin();
        let both = way(&at, NOW);
        assert_ne!(both, anew);
        drop(second);
        at.change();
        assert_eq!(way(&at, NOW), both, "the first is under way");
        drop(sweep);
        assert_ne!(way(&at, NOW), both);
    }

    #[test]
    fn nothing_is_believed_for_long_whichever_way_the_clock_goes() {
        let (sweeps, mut at) = (Arc::new(Sweeps::default()), Changing::new());
        let _sweep = sweeps.begin();
        let mut last = sweeps.way(&at.below, NOW);
        for now in [NOW + FRESH, NOW - Duration::from_secs(1), NOW + FRESH * 2] {
            at.change();
            let seen = sweeps.way(&at.below, now);
            assert_ne!(seen, last, "{now:?}");
            last = seen;
        }
        sweeps.note_kept("web", last, NOW);
        assert_eq!(sweeps.kept("web", NOW + FRESH), None);
    }

    #[test]
    fn what_is_kept_is_told_once_and_in_the_sweep_that_saw_it() {
        let sweeps = Arc::new(Sweeps::default());
        let stamps = place::way(Path::new("/"));
        assert!(stamps.is_some());
        sweeps.note_kept("web", stamps, NOW);
        let sweep = sweeps.begin();
        assert_eq!(sweeps.kept("web", NOW), None, "none was under way");
        sweeps.note_kept("web", stamps, NOW);
        assert_eq!((sweeps.kept("db", NOW), sweeps.kept("web", NOW)), (None, stamps));
        assert_eq!(sweeps.kept("web", NOW), None, "told");
        sweeps.note_kept("web", stamps, NOW);
        drop(sweep);
        let _next = sweeps.begin();
        assert_eq!(sweeps.kept("web", NOW), None);
    }
}
