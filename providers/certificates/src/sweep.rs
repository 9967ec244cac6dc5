//! What is believed of the disk for as long as many certificates are looked at, one after the other.
//!
//! A thousand certificates have five or six directories above theirs in common, and what is kept of one is asked about twice in a
//! pass: when it is looked at, and a moment later for its health. Each question to the kernel takes as long as all the rest that
//! is done for one that is as declared. So where many are looked at, a thread asks them beside the pass, from the last
//! certificate on, until it meets the pass, which begins with the first one.
//!
//! Guarantees: nothing is believed that was seen before the sweep began, nor for longer than [`FRESH`] (twice that where it is the
//! way of what the thread looked at), nor while none is under way. It deliberately serves one question alone, whether what is
//! remembered still holds: who reads a certificate or writes one looks at its way and its files anew.

use crate::place::{self, Files, Place, Stamps};
use reconciled_provider::Clock;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

/// How long what was seen is believed: a sweep may have to wait for services and authorities.
const FRESH: Duration = Duration::from_secs(1);

/// How many certificates that are remembered make a thread worth its start.
pub(crate) const MANY: usize = 32;

/// What was seen, and when.
type Seen = (Option<Stamps>, Duration);

#[derive(Debug, Default)]
struct State {
    /// How many are under way.
    sweeps: usize,
    /// How often all that was seen was forgotten.
    times: u64,
    /// What is to be looked at ahead of the pass.
    left: BTreeMap<String, Arc<Files>>,
    /// What was.
    ahead: BTreeMap<String, (Arc<Files>, Seen)>,
    ways: BTreeMap<PathBuf, Seen>,
    /// How the files were that are kept, by the name of a certificate.
    kept: BTreeMap<String, Seen>,
}

impl State {
    fn forget(&mut self) {
        let (sweeps, times) = (self.sweeps, self.times + 1);
        *self = State { sweeps, times, ..State::default() };
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

    /// Looks at these files of certificates, from the last one on, beside whoever looks at the certificates.
    pub(crate) fn look_ahead(
        self: &Arc<Sweeps>,
        left: BTreeMap<String, Arc<Files>>,
        place: Arc<dyn Place>,
        clock: Arc<dyn Clock>,
    ) -> io::Result<JoinHandle<()>> {
        let mut state = self.state();
        state.left = left;
        let times = state.times;
        drop(state);
        let sweeps = self.clone();
        let thread = thread::Builder::new().name("sweep".into()).stack_size(128 << 10);
        thread.spawn(move || {
            let next = || Some(sweeps.state()).filter(|state| state.times == times)?.left.pop_last();
            while let Some((name, files)) = next() {
                let now = clock.now();
                let stamps = place.stamps(&files, &|directory| sweeps.way(directory, now));
                let mut state = sweeps.state();
                // Or it would be told in a sweep that began afterwards.
                if state.times == times {
                    state.ahead.insert(name, (files, (stamps, now)));
                }
            }
        })
    }

    /// How these files of the certificate `name` are, where they were looked at ahead, and when that was. Told once, and else not
    /// looked at any more.
    pub(crate) fn ahead(&self, name: &str, files: &Arc<Files>, now: Duration) -> Option<(Stamps, Duration)> {
        let mut state = self.state();
        state.left.remove(name);
        let (known, seen) = state.ahead.remove(name)?;
        let stamps = seen.0.filter(|_| Arc::ptr_eq(&known, files) && is_fresh(&seen, now))?;
        Some((stamps, seen.1))
    }

    /// The files that are kept of the certificate `name` were like this when they were looked at.
    pub(crate) fn note_kept(&self, name: &str, stamps: Option<Stamps>, at: Duration) {
        let mut state = self.state();
        if state.sweeps > 0 {
            state.kept.insert(name.to_owned(), (stamps, at));
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

    struct At(Duration);

    #[async_trait::async_trait]
    impl Clock for At {
        fn now(&self) -> Duration {
            self.0
        }
        async fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn what_is_looked_at_ahead_is_told_once_of_the_same_files_and_in_the_same_sweep() {
        let dir = tempfile::tempdir().unwrap();
        let files_of = |name: &str| {
            let file = dir.path().join(name);
            fs::write(&file, name).unwrap();
            Arc::new(Files { exact: vec![file], way: Some(dir.path().to_owned()) })
        };
        let all: BTreeMap<String, _> =
            ["a", "b", "c", "d", "e"].map(|name| (name.to_owned(), files_of(name))).into();
        let sweeps = Arc::new(Sweeps::default());
        let look = || {
            let place: Arc<dyn Place> = Arc::new(place::Here);
            sweeps.look_ahead(all.clone(), place, Arc::new(At(NOW))).unwrap().join().unwrap();
        };
        let sweep = sweeps.begin();
        look();
        let before = place::stamps(&all["a"]).map(|stamps| (stamps, NOW));
        for name in all.keys() {
            fs::remove_file(dir.path().join(name)).unwrap();
        }
        let later = NOW + FRESH / 2;
        assert_eq!(sweeps.ahead("a", &all["a"], later), before, "and when that was");
        assert_eq!(sweeps.ahead("a", &all["a"], NOW), None, "told");
        assert_eq!(sweeps.ahead("b", &files_of("b"), NOW), None, "other files");
        assert_eq!(sweeps.ahead("c", &all["c"], NOW + FRESH), None, "long ago");
        let second = sweeps.begin();
        assert_eq!(sweeps.ahead("d", &all["d"], NOW), None, "before that one began");
        look();
        drop((sweep, second));
        assert_eq!(sweeps.ahead("e", &all["e"], NOW), None, "none is under way");
    }

    #[test]
    fn what_the_pass_looks_at_itself_is_left_out_and_so_is_what_is_left_when_it_ends() {
        let sweeps = Arc::new(Sweeps::default());
        let files: Arc<Files> = Arc::default();
        let all: BTreeMap<String, _> = ["a", "b"].map(|name| (name.to_owned(), files.clone())).into();
        let sweep = sweeps.begin();
        sweeps.state().left = all.clone();
        assert_eq!(sweeps.ahead("b", &files, NOW), None);
        assert_eq!(sweeps.state().left.keys().collect::<Vec<_>>(), ["a"]);
        drop(sweep);
        assert!(sweeps.state().left.is_empty());
    }

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
