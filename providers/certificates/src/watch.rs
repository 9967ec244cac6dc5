//! When to look at a certificate again: something changed where it is put, or it is due.
//!
//! The directory is watched and the one its files are in, never the files: what is replaced is another file afterwards. An event
//! says only where to look. Events that are lost are made up for by the next look at everything. Nothing is watched before
//! somebody listens.

use futures_core::stream::BoxStream;
use futures_util::stream;
use rustix::{
    fd::OwnedFd,
    fs::inotify::{self, CreateFlags, WatchFlags},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{net::unix::pipe::Receiver, sync::Notify, time::Instant};

/// What is told of a directory.
const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// What is watched for a certificate.
#[derive(Debug)]
struct Watched {
    directory: String,
    /// When it is due; none once that was told.
    due: Option<Instant>,
    due_at: u64,
}

#[derive(Debug, Default)]
struct State {
    queue: Option<Arc<OwnedFd>>,
    /// Certificates by the number of a watch.
    names: BTreeMap<i32, BTreeSet<String>>,
    wanted: BTreeMap<String, Watched>,
    /// What has to be watched anew: another directory may have its name.
    stale: BTreeSet<String>,
    /// Certificates of ours that sign others, by the name of what they sign.
    signers: BTreeMap<String, BTreeSet<String>>,
    /// What is to be looked at now, watched or not.
    woken: BTreeSet<String>,
}

/// What is watched for all certificates of an entry.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    state: Mutex<State>,
    changed: Notify,
}

impl Watches {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on `name` is watched in `directory`, and is due in `left`, at `due_at` in seconds since 1970.
    pub(crate) fn set(&self, name: &str, directory: &str, due_at: u64, left: Duration) {
        let mut state = self.state();
        let is_told =
            state.wanted.get(name).is_some_and(|known| known.due_at == due_at && known.due.is_none());
        let due = Instant::now().checked_add(left).filter(|_| !is_told && !left.is_zero());
        state.wanted.insert(name.to_owned(), Watched { directory: directory.to_owned(), due, due_at });
        state.watch(name);
        drop(state);
        self.changed.notify_one();
    }

    /// What `name` is in was looked at, and may be another directory than before.
    pub(crate) fn looked_at(&self, name: &str) {
        let mut state = self.state();
        if state.wanted.contains_key(name) {
            state.stale.insert(name.to_owned());
        }
    }

    /// Watches `name` as before. False where it was not watched.
    pub(crate) fn again(&self, name: &str) -> bool {
        let mut state = self.state();
        if state.stale.remove(name) {
            state.watch(name);
        }
        state.wanted.contains_key(name)
    }

    /// From now on `name` is to be looked at again once one of these has another certificate.
    pub(crate) fn signed_by(&self, name: &str, signers: BTreeSet<String>) {
        match signers.is_empty() {
            true => drop(self.state().signers.remove(name)),
            false => drop(self.state().signers.insert(name.to_owned(), signers)),
        }
    }

    /// `signer` has another certificate: what it signs is to be looked at again now.
    pub(crate) fn wake_signed_by(&self, signer: &str) {
        let mut state = self.state();
        let State { signers, woken, .. } = &mut *state;
        let signed = signers.iter().filter(|(_, by)| by.contains(signer));
        woken.extend(signed.map(|(name, _)| name.clone()));
        drop(state);
        self.changed.notify_one();
    }

    /// `name` is to be looked at again now.
    pub(crate) fn wake(&self, name: &str) {
        self.state().woken.insert(name.to_owned());
        self.changed.notify_one();
    }

    /// What is to be looked at now because of what was written, each told once.
    pub(crate) fn take_woken(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.state().woken)
    }

    /// `name` is not watched any more.
    pub(crate) fn end(&self, name: &str) {
        let mut state = self.state();
        state.wanted.remove(name);
        state.stale.remove(name);
        state.signers.remove(name);
        let State { queue, names, .. } = &mut *state;
        names.retain(|watch, names| {
            let was_there = names.remove(name);
            if was_there && names.is_empty() {
                // One that is gone by itself is as good.
                let _ = queue.as_ref().map(|queue| inotify::remove_watch(&**queue, *watch));
            }
            !names.is_empty()
        });
    }

    /// Names of what is to be looked at again, from now on.
    pub(crate) fn changes(self: &Arc<Watches>) -> BoxStream<'static, BTreeSet<String>> {
        let opened = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        let own = opened.as_ref().and_then(|queue| queue.try_clone().ok()).map(Arc::new);
        // A reader of any descriptor that has readiness, in spite of its name.
        let reader = opened.and_then(|queue| Receiver::from_owned_fd_unchecked(queue).ok());
        let mut state = self.state();
        state.queue = own.filter(|_| reader.is_some());
        let names: Vec<String> = state.wanted.keys().cloned().collect();
        names.iter().for_each(|name| state.watch(name));
        drop(state);
        let listening = (self.clone(), reader);
        Box::pin(stream::unfold(listening, |(watches, reader)| async move {
            let names = watches.next(reader.as_ref()).await;
            Some((names, (watches, reader)))
        }))
    }

    async fn next(&self, reader: Option<&Receiver>) -> BTreeSet<String> {
        loop {
            let woken = self.take_woken();
            if !woken.is_empty() {
                return woken;
            }
            let due = self.state().wanted.values().filter_map(|watched| watched.due).min();
            let due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let readable = async {
                match reader {
                    Some(reader) => reader.readable().await,
                    None => std::future::pending().await,
                }
            };
            let names = tokio::select! {
                () = self.changed.notified() => continue,
                () = due => self.due(),
                _ = readable => self.read(reader),
            };
            if !names.is_empty() {
                return names;
            }
        }
    }

    /// What is due now, each told once.
    fn due(&self) -> BTreeSet<String> {
        let now = Instant::now();
        let mut state = self.state();
        let due = state.wanted.iter_mut().filter(|(_, watched)| watched.due.is_some_and(|due| due <= now));
        due.map(|(name, watched)| {
            watched.due = None;
            name.clone()
        })
        .collect()
    }

    fn read(&self, reader: Option<&Receiver>) -> BTreeSet<String> {
        let mut buffer = [0; 8 * 1024];
        let Some(Ok(length)) = reader.map(|reader| reader.try_read(&mut buffer)) else {
            return BTreeSet::new();
        };
        let state = self.state();
        match watches(&buffer[..length]) {
            // The queue was full: anything may have changed.
            seen if seen.contains(&-1) => state.wanted.keys().cloned().collect(),
            seen => seen.iter().filter_map(|watch| state.names.get(watch)).flatten().cloned().collect(),
        }
    }
}

impl State {
    fn watch(&mut self, name: &str) {
        let (Some(queue), Some(watched)) = (&self.queue, self.wanted.get(name)) else { return };
        let directory = Path::new(&watched.directory);
        for path in [directory.to_owned(), directory.join(crate::deliver::DATA)] {
            if let Ok(watch) = inotify::add_watch(&**queue, path, EVENTS) {
                self.names.entry(watch).or_default().insert(name.to_owned());
            }
        }
    }
}

/// The watches that events are of, as `inotify(7)` has them: four numbers, and a name filled up with zeros.
fn watches(mut events: &[u8]) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    while let Some((head, rest)) = events.split_at_checked(16) {
        let number = |at: usize| head[at..at + 4].try_into().map(i32::from_ne_bytes).unwrap_or_default();
        found.insert(number(0));
        events = rest.get(number(12).max(0) as usize..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;
    use proptest::prelude::*;
    use std::fs;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            watches(&bytes);
        }
    }

    #[tokio::test]
    async fn what_is_signed_is_told_of_when_who_signs_it_has_another_certificate() {
        let watches = Arc::new(Watches::default());
        for (name, signer) in [("a", "root"), ("b", "middle"), ("c", "root"), ("d", "root")] {
            watches.signed_by(name, [signer.to_owned()].into());
        }
        watches.end("c");
        watches.signed_by("d", BTreeSet::new());
        watches.wake_signed_by("root");
        assert_eq!(watches.changes().next().await, Some(["a".to_owned()].into()));
    }

    #[tokio::test]
    async fn a_change_and_a_moment_that_came_are_told_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        for name in ["a", "b"] {
            fs::create_dir(at(name)).unwrap();
        }
        let watches = Arc::new(Watches::default());
        let hour = Duration::from_secs(3_600);
        watches.set("a", &at("a"), 1, hour);
        let mut changes = watches.changes();
        watches.set("b", &at("b"), 2, hour);
        fs::write(dir.path().join("b/tls.key"), "x").unwrap();
        assert_eq!(changes.next().await, Some(["b".to_owned()].into()));
        watches.end("b");
        fs::write(dir.path().join("b/tls.key"), "y").unwrap();
        watches.set("a", &at("a"), 3, Duration::from_millis(1));
        let told = loop {
            // What was under way when the watch ended may still come.
            let told = changes.next().await.unwrap();
            if told.contains("a") {
                break told;
            }
        };
        assert_eq!(told, ["a".to_owned()].into());
        fs::remove_dir(dir.path().join("a")).unwrap();
        assert_eq!(changes.next().await, Some(["a".to_owned()].into()));
    }
}
