//! What was found of certificates that are as declared, kept as long as nothing changed that it was read from.
//!
//! To read and compare the files of a thousand certificates takes long; to look when they were changed takes next to nothing.
//! So what was found is remembered with the stamps of its files, as git's index does it: whoever writes to a file, replaces or
//! removes it, or gives it to somebody else, changes its stamp. That stays the same only where a file is changed twice within
//! one tick of the clock of its disk; so what was read counts where all stamps had been the same for a while before it was read.
//!
//! Guarantees: nothing is remembered but what is well and as declared, and when what is in the place of a certificate ends; few
//! answers for each certificate, and no secret; whatever is remembered is read again within an hour, since who writes through a mapping, or to the disk itself, leaves no stamp. It
//! deliberately is memory alone: a process that begins reads everything.

use crate::{
    place::{Files, Stamps},
    sweep::Sweeps,
};
use reconciled_provider::{Ending, Hash, Observed, Sealed, Secret, SecretMark};
use ring::rand::{SecureRandom, SystemRandom};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long stamps have to be the same: longer than the tick of any disk's clock, which is two seconds on FAT.
const STEADY: Duration = Duration::from_secs(3);
/// When it is read again whatever its stamps are.
const ANEW: Duration = Duration::from_secs(3_600);

/// What is remembered of all certificates of an entry.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Those that are as declared.
    pub(crate) seen: Calm<Seen>,
    /// Those that are well.
    pub(crate) well: Calm<()>,
    /// When each ends.
    pub(crate) endings: Calm<Ending>,
    /// What is believed for as long as many are looked at.
    pub(crate) sweeps: Arc<Sweeps>,
    /// Those in whose place another one is.
    others: Mutex<BTreeMap<String, InPlace>>,
    /// What tells outputs apart, in which there is a key.
    key: Option<Secret>,
}

/// A certificate that is as declared.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// What is told of it, without its outputs.
    pub(crate) observed: Observed,
    /// The directory it is put into.
    pub(crate) directory: Arc<str>,
    /// What its outputs are known by.
    pub(crate) outputs: SecretMark,
    /// How the files were that are kept of it.
    pub(crate) kept: Option<Stamps>,
}

/// A certificate that is in the place of another one: it is what is in use.
#[derive(Clone, Debug)]
pub(crate) struct InPlace {
    /// When it should be renewed, in seconds since 1970.
    pub(crate) due: u64,
    /// When it ends.
    pub(crate) end: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        let mut key = vec![0u8; 32];
        let key = SystemRandom::new().fill(&mut key).ok().map(|()| Secret::new(key));
        Memory {
            seen: Calm::default(),
            well: Calm::default(),
            endings: Calm::default(),
            sweeps: Arc::default(),
            others: Mutex::default(),
            key,
        }
    }
}

impl Memory {
    /// What outputs are known by in this process, and nowhere else.
    pub(crate) fn tag(&self, outputs: &Sealed) -> Option<SecretMark> {
        let key: &[u8; 32] = self.key.as_ref()?.reveal().try_into().ok()?;
        Some(SecretMark::keyed(key, &outputs.0))
    }

    fn others(&self) -> MutexGuard<'_, BTreeMap<String, InPlace>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is in place of the certificate `name`, as it was looked at last, where that is another one.
    pub(crate) fn in_place(&self, name: &str) -> Option<InPlace> {
        self.others().get(name).cloned()
    }

    /// Remembers what is in place of the certificate `name`.
    pub(crate) fn note(&self, name: &str, in_place: Option<InPlace>) {
        match in_place {
            Some(other) => drop(self.others().insert(name.to_owned(), other)),
            None => drop(self.others().remove(name)),
        }
    }

    /// Forgets all that is remembered of the certificate `name`.
    pub(crate) fn forget(&self, name: &str) {
        self.seen.forget(name);
        self.well.forget(name);
        self.endings.forget(name);
        self.note(name, None);
    }
}

#[derive(Debug)]
struct Entry<T> {
    question: Hash,
    files: Arc<Files>,
    stamps: Stamps,
    /// Since when the stamps are known to be these.
    since: Duration,
    answer: Option<Answer<T>>,
}

#[derive(Debug)]
struct Answer<T> {
    value: T,
    read_at: Duration,
    until: Duration,
}

/// Answers by the name of a certificate.
#[derive(Debug)]
pub(crate) struct Calm<T>(Mutex<BTreeMap<String, Entry<T>>>);

impl<T> Default for Calm<T> {
    fn default() -> Calm<T> {
        Calm(Mutex::default())
    }
}

/// A look that has begun.
pub(crate) struct Look {
    question: Hash,
    begun: Duration,
    /// What was the same before it, and since when.
    before: Option<(Arc<Files>, Stamps, Duration)>,
}

impl<T: Clone> Calm<T> {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Entry<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered of the certificate `name`, for the same question; else what it takes to remember what is found now.
    pub(crate) fn recall(
        &self,
        name: &str,
        question: Hash,
        now: Duration,
        stamps: impl FnOnce(&Arc<Files>) -> Option<Stamps>,
    ) -> Result<T, Look> {
        let known = {
            let all = self.all();
            let known = all.get(name).filter(|known| known.question == question);
            // A clock that went back is no reason to believe it for longer.
            let is_good = |answer: &&Answer<T>| (answer.read_at..answer.until).contains(&now);
            known.map(|known| {
                let answer = known.answer.as_ref().filter(is_good).map(|answer| answer.value.clone());
                (known.files.clone(), known.stamps, known.since, answer)
            })
        };
        let same = known.filter(|(files, before, ..)| stamps(files) == Some(*before));
        match same {
            Some((_, _, _, Some(answer))) => Ok(answer),
            Some((files, before, since, None)) => {
                Err(Look { question, begun: now, before: Some((files, before, since)) })
            }
            None => Err(Look { question, begun: now, before: None }),
        }
    }

    /// Remembers what was found by `look`, which was read from `files`, and ends by itself at `until`. `now` is when `stamps`
    /// were taken, after all was read.
    pub(crate) fn learn(
        &self,
        name: &str,
        look: Look,
        (files, stamps): (Files, Stamps),
        now: Duration,
        (value, until): (T, Duration),
    ) {
        let Look { question, begun, before } = look;
        let same = before.filter(|(known, before, _)| **known == files && *before == stamps);
        let is_steady = same.as_ref().is_some_and(|(_, _, since)| begun >= *since + STEADY);
        let since = same.map_or(now, |(_, _, since)| since.min(now));
        let answer = is_steady.then_some(Answer {
            value,
            read_at: begun,
            until: until.min(begun.saturating_add(ANEW)),
        });
        let files = Arc::new(files);
        self.all().insert(name.to_owned(), Entry { question, files, stamps, since, answer });
    }

    /// The files that it depends on whether what is remembered of these certificates holds.
    pub(crate) fn files<'n>(&self, names: impl Iterator<Item = &'n str>) -> BTreeMap<String, Arc<Files>> {
        let all = self.all();
        let known = names.filter_map(|name| Some((name, all.get(name)?)));
        let answered = known.filter(|(_, known)| known.answer.is_some());
        answered.map(|(name, known)| (name.to_owned(), known.files.clone())).collect()
    }

    /// Forgets what is remembered of the certificate `name`.
    pub(crate) fn forget(&self, name: &str) {
        self.all().remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place;
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
        path::Path,
    };

    const QUESTION: Hash = Hash([7; 16]);

    fn stamps(files: &Arc<Files>) -> Option<Stamps> {
        place::stamps(files)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Looks at `file` at this time; what is remembered, or nothing.
    fn look(calm: &Calm<u8>, file: &Path, at: u64) -> Option<u8> {
        let files = || Files { exact: vec![file.to_owned()], way: file.parent().map(Path::to_owned) };
        match calm.recall("web", QUESTION, seconds(at), stamps) {
            Ok(value) => Some(value),
            Err(look) => {
                let now = place::stamps(&files()).unwrap();
                calm.learn("web", look, (files(), now), seconds(at), (1, seconds(100_000)));
                None
            }
        }
    }

    /// Waits until the clock of the disk goes on: what is changed after that has another stamp.
    fn tick(file: &Path) {
        let changed = |path: &Path| fs::symlink_metadata(path).map(|meta| (meta.ctime(), meta.ctime_nsec()));
        let probe = file.with_extension("probe");
        while fs::write(&probe, "").is_err() || changed(&probe).unwrap() <= changed(file).unwrap() {}
        fs::remove_file(probe).unwrap();
    }

    #[test]
    fn what_was_the_same_for_a_while_before_it_was_read_is_remembered_for_an_hour() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tls.key");
        fs::write(&file, "a key").unwrap();
        let calm = Calm::default();
        let seen = [100, 101, 102, 103, 104, 3_700, 3_702, 3_703, 3_704].map(|at| look(&calm, &file, at));
        assert_eq!(seen, [None, None, None, None, Some(1), Some(1), Some(1), None, Some(1)]);
        assert_eq!(look(&calm, &file, 50), None, "a clock that went back");
        let other = |calm: &Calm<u8>| calm.recall("web", Hash([8; 16]), seconds(3_705), stamps).is_ok();
        assert!(!other(&calm), "another one is declared");
        calm.forget("web");
        assert_eq!(look(&calm, &file, 3_706), None);
    }

    #[test]
    fn it_is_remembered_no_longer_than_it_lasts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tls.key");
        let calm = Calm::default();
        for at in [100, 104] {
            let files = || Files { exact: vec![file.clone()], way: None };
            let Err(look) = calm.recall("web", QUESTION, seconds(at), stamps) else { panic!("{at}") };
            let now = place::stamps(&files()).unwrap();
            calm.learn("web", look, (files(), now), seconds(at), (1, seconds(110)));
        }
        let at = |at| calm.recall("web", QUESTION, seconds(at), stamps).is_ok();
        assert!(at(109) && !at(110));
    }

    #[test]
    fn any_change_of_a_file_is_seen_by_the_next_look() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tls.key");
        let put = |path: &Path| fs::write(path, "a key").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let set_back = |path: &Path| {
            let before = fs::metadata(path).unwrap().modified().unwrap();
            fs::write(path, "b key").unwrap();
            fs::File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
        };
        let changes: [(&str, &dyn Fn()); 8] = [
            ("removed", &|| fs::remove_file(&file).unwrap()),
            ("there again", &|| put(&file)),
            ("truncated", &|| fs::write(&file, "").unwrap()),
            ("written, as long as before", &|| put(&file)),
            ("the same once more", &|| put(&file)),
            ("written, and its time set back", &|| set_back(&file)),
            ("another file of the same name", &|| {
                put(&dir.path().join("draft"));
                fs::rename(dir.path().join("draft"), &file).unwrap();
            }),
            ("open to others", &|| mode(&file, 0o666)),
        ];
        let calm = Calm::default();
        put(&file);
        let mut at = 100;
        let mut now = || {
            at += 4;
            at
        };
        for (change, make) in changes {
            while look(&calm, &file, now()).is_none() {}
            if file.exists() {
                tick(&file);
            }
            make();
            assert_eq!(look(&calm, &file, now()), None, "{change}");
        }
        // Of a directory on the way only whose it is.
        while look(&calm, &file, now()).is_none() {}
        put(&dir.path().join("beside"));
        assert_eq!(look(&calm, &file, now()), Some(1));
        mode(dir.path(), 0o777);
        assert_eq!(look(&calm, &file, now()), None);
    }
}
