//! Changes that the kernel tells of: inotify on the directories that watched paths stand in.
//!
//! On directories, never on files: what is saved atomically is another file afterwards, and a watch on the old one says
//! nothing any more. Where there is no way to a directory, the last one on the way is watched. An event says only where to
//! look; what is there is read again. Events that are lost (a full queue) are made up for by the next look at everything.
//!
//! Invariant: no lock is held while a directory is opened, since one of a network that is away never answers. One thread
//! sets watches, and who wants others meanwhile leaves the wish to it.

use super::{Change, Watched, beneath, replace::DRAFT};
use crate::{Config, path::FilePath};
use futures_core::stream::{BoxStream, Stream};
use rustix::{
    fd::{AsRawFd, OwnedFd},
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::net::unix::pipe::Receiver;
use tracing::warn;

/// What is told of a directory. A name that comes to be is also told of when it is a link, which nobody closes.
const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// How long is waited until watches are set.
const SOON: Duration = Duration::from_secs(5);

/// The watches of one process; nothing is watched before somebody listens.
#[derive(Debug, Default)]
pub(super) struct Watches {
    state: Mutex<State>,
    /// The number of the last wish that is fulfilled.
    done: tokio::sync::watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    queue: Option<Arc<OwnedFd>>,
    /// Directories by the number of their watch, as they were called when it was set.
    directories: BTreeMap<i32, String>,
    wanted: BTreeMap<&'static str, Watched>,
    /// Counts the wishes.
    asked: u64,
    /// A thread is at it.
    is_setting: bool,
    /// Where the way to what is wanted ends: a link, a file, or a name that nothing has.
    ends: BTreeSet<FilePath>,
    /// Directories that cannot be watched, and why; each was told once.
    unwatched: BTreeMap<String, Errno>,
}

impl Watches {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on these are watched for `scope`, and no others.
    pub(super) async fn set(self: &Arc<Watches>, config: &Arc<Config>, scope: &'static str, wanted: Watched) {
        self.state().wanted.insert(scope, wanted);
        let mine = self.renew(config);
        let mut done = self.done.subscribe();
        let is_done = done.wait_for(|done| *done >= mine);
        if tokio::time::timeout(SOON, is_done).await.is_err() {
            let seconds = SOON.as_secs();
            warn!(seconds, "a directory does not answer, and what is to be watched waits for it");
        }
    }

    /// Has the watches set that are wanted; the number of the wish.
    fn renew(self: &Arc<Watches>, config: &Arc<Config>) -> u64 {
        let mut state = self.state();
        state.asked += 1;
        if !std::mem::replace(&mut state.is_setting, true) {
            let (me, config) = (self.clone(), config.clone());
            tokio::task::spawn_blocking(move || me.work(&config));
        }
        state.asked
    }

    /// Fulfils wishes until there are none left.
    fn work(&self, config: &Config) {
        loop {
            let (number, queue, wanted) = {
                let state = self.state();
                let wanted: Vec<Watched> = state.wanted.values().cloned().collect();
                (state.asked, state.queue.clone(), wanted)
            };
            if let Some(queue) = queue {
                self.set_all(config, &queue, &wanted);
            }
            let mut state = self.state();
            state.is_setting = state.asked != number;
            self.done.send_replace(number);
            if !state.is_setting {
                return;
            }
        }
    }

    /// Sets watches on the directories of `wanted`, and takes away others.
    fn set_all(&self, config: &Config, queue: &Arc<OwnedFd>, wanted: &[Watched]) {
        let of_paths =
            wanted.iter().flat_map(|one| &one.paths).map(|path| (path.clone(), path.parent().to_owned()));
        // A directory is opened through a name in it.
        let inside = |directory: &FilePath| Some((directory.join("x")?, directory.as_str().to_owned()));
        let mut opened: BTreeMap<String, FilePath> = BTreeMap::new();
        let directories_of = wanted.iter().flat_map(|one| &one.directories);
        for (path, directory) in of_paths.chain(directories_of.filter_map(inside)) {
            opened.entry(directory).or_insert(path);
        }
        let (mut set, mut ends, mut unwatched) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        for (mut directory, path) in opened {
            let open = match beneath::parent(&config.root, &config.paths, &path) {
                Ok(Some(open)) => open,
                // What is in the way may go, and what is missing may come.
                Ok(None) | Err(_) => {
                    let way = config.allows(&path).then(|| beneath::way(&config.root, &path));
                    let Some(way) = way.flatten() else { continue };
                    directory = way.end.parent().to_owned();
                    ends.insert(way.end);
                    way.open
                }
            };
            // The very directory that was opened: by its name it could be another one by now.
            let name = format!("/proc/self/fd/{}", open.as_raw_fd());
            match inotify::add_watch(&**queue, name, EVENTS) {
                Ok(watch) => {
                    set.insert(watch);
                    self.state().directories.insert(watch, directory);
                }
                Err(errno) => drop(unwatched.insert(directory, errno)),
            }
        }
        let mut state = self.state();
        for gone in state.directories.keys().filter(|watch| !set.contains(watch)) {
            let _ = inotify::remove_watch(&**queue, *gone);
        }
        state.directories.retain(|watch, _| set.contains(watch));
        state.ends = ends;
        for (directory, errno) in
            unwatched.iter().filter(|(at, errno)| state.unwatched.get(*at) != Some(errno))
        {
            tell(directory, *errno);
        }
        state.unwatched = unwatched;
    }

    /// Directories that cannot be watched.
    pub(super) fn unwatched(&self) -> Vec<String> {
        self.state().unwatched.keys().cloned().collect()
    }

    /// What changes from now on; ended at once where the kernel gives no queue.
    pub(super) fn changes(self: &Arc<Watches>, config: &Arc<Config>) -> BoxStream<'static, Vec<Change>> {
        let opened = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let opened = opened.inspect_err(|errno| tell("everything", *errno)).ok();
        let own = opened.as_ref().and_then(|queue| queue.try_clone().ok()).map(Arc::new);
        // A reader of any descriptor that has readiness, in spite of its name.
        let reader = opened.and_then(|queue| Receiver::from_owned_fd_unchecked(queue).ok());
        {
            let mut state = self.state();
            state.queue = own.filter(|_| reader.is_some());
            state.directories.clear();
        }
        self.renew(config);
        Box::pin(Changes { reader, watches: self.clone() })
    }

    /// True while somebody listens, and the kernel tells what changes.
    pub(super) fn are_told(&self) -> bool {
        self.state().queue.is_some()
    }

    fn change(&self, event: &Event<'_>) -> Vec<Change> {
        if event.mask.contains(ReadFlags::QUEUE_OVERFLOW) {
            return vec![Change::Anywhere];
        }
        let state = self.state();
        let Some(directory) = state.directories.get(&event.watch) else { return Vec::new() };
        if event.name.is_empty() {
            // The directory itself went: so did all that was in it.
            let is_gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT;
            return event.mask.intersects(is_gone).then_some(Change::Anywhere).into_iter().collect();
        }
        let name = std::str::from_utf8(event.name).ok().filter(|name| !name.starts_with(DRAFT));
        let Some(path) = name.and_then(|name| FilePath::parse(&format!("{directory}/{name}")).ok()) else {
            return Vec::new();
        };
        let is_wanted = |one: &Watched| {
            one.paths.contains(&path) || one.directories.iter().any(|purged| purged.as_str() == directory)
        };
        // Whatever there is a way to from now on may be as far below it as it likes.
        let below = state.ends.contains(&path).then_some(Change::Anywhere);
        let itself = state.wanted.values().any(is_wanted).then_some(Change::At(path));
        itself.into_iter().chain(below).collect()
    }
}

/// Says what is not told at once from now on.
fn tell(directory: &str, errno: Errno) {
    let hint = match errno {
        Errno::NOSPC => "raise fs.inotify.max_user_watches",
        Errno::MFILE => "raise fs.inotify.max_user_instances",
        _ => "changes there are found by the look at the clock",
    };
    warn!(directory, error = %errno, hint, "changes cannot be watched");
}

/// One event, as `inotify(7)` has it: four numbers, and a name filled up with zeros.
struct Event<'a> {
    watch: i32,
    mask: ReadFlags,
    name: &'a [u8],
}

impl<'a> Event<'a> {
    /// The first event of `bytes` and what is behind it.
    fn first(bytes: &'a [u8]) -> Option<(Event<'a>, &'a [u8])> {
        let (head, rest) = bytes.split_at_checked(16)?;
        let number = |at: usize| Some(u32::from_ne_bytes(head.get(at..at + 4)?.try_into().ok()?));
        let (name, rest) = rest.split_at_checked(number(12)? as usize)?;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let mask = ReadFlags::from_bits_retain(number(4)?);
        Some((Event { watch: number(0)? as i32, mask, name: &name[..end] }, rest))
    }
}

struct Changes {
    reader: Option<Receiver>,
    watches: Arc<Watches>,
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.watches.state().queue = None;
    }
}

impl Stream for Changes {
    type Item = Vec<Change>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Vec<Change>>> {
        let Some(reader) = &self.reader else { return Poll::Ready(None) };
        loop {
            if ready!(reader.poll_read_ready(cx)).is_err() {
                return Poll::Ready(None);
            }
            let mut buffer = [0; 8 * 1024];
            let length = match reader.try_read(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(_) => return Poll::Ready(None),
            };
            let (mut found, mut rest) = (Vec::new(), &buffer[..length]);
            while let Some((event, behind)) = Event::first(rest) {
                found.extend(self.watches.change(&event));
                rest = behind;
            }
            if !found.is_empty() {
                return Poll::Ready(Some(found));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut rest = &bytes[..];
            while let Some((_, behind)) = Event::first(rest) {
                prop_assert!(behind.len() + 16 <= rest.len());
                rest = behind;
            }
        }
    }
}
