//! Writing zone files: a batch is one new file, which takes the place of the old one or does not.
//!
//! Guarantees:
//! - the file is compared with `base` under a lock on the directory, and once more right before it is
//!   replaced, so that an edit made while `check` ran is not lost;
//! - the new file is on disk, and accepted by `check`, before it gets its name; readers see the old text or the
//!   new one, never half of one;
//! - a name never gets a CNAME beside other data: servers refuse a whole zone for that;
//! - what has its name and may not outlast a crash, since the directory could not be stored, is no failure without effect: the
//!   outcome is unknown, and the next look decides.
//!
//! A file that was replaced but not loaded by the server has a mark beside it (`FILE.reload`), written before
//! the replacement and removed when `reload` succeeded. While it stands, the zone is observed as `reload
//! pending`, which differs from what is desired: the next pass runs `reload` again, also after a crash, and whatever is
//! said of drift. Each time that it fails, the batch does, so that it is said and tried ever less often.
//! Deleting a zone deletes its file; taking it out of the server's configuration is not done here.
//!
//! A file keeps its owner, group and mode, or is not written where that would keep somebody from reading it. A link is
//! followed within the directory and stays; what others put where a new file is to be made is never written through.

use super::{
    backend::Backend,
    command, culprit,
    draft::{Draft, FOR_ALL, draft_path, fresh, is_creation, is_zone, serial_of, store},
    observe::{self, File, failed},
    write,
};
use crate::{
    family::bare::NEEDS_SERVERS,
    master::{Entry, MARK},
    merge,
};
use reconciled_provider::{Action, ActionId, Batch, Cx, Error, ErrorKind, Journal, Op, Outcome, Version};
use std::{
    fs::{self, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Carries out a batch.
pub(crate) async fn apply(
    backend: &Arc<Backend>,
    cx: &Cx,
    batch: &Batch,
    journal: &dyn Journal,
) -> Result<(), Error> {
    // Others of this process take their turn; the lock is for other programs.
    let mut serials = backend.writing.lock().await;
    let _lock = lock(backend, cx).await?;
    let zone = &*batch.scope.name;
    let path = observe::path(backend, zone);
    let old = observe::read(backend, zone)?;
    if version(old.as_ref()) != batch.base {
        return Err(moved(&path));
    }
    let ids: Vec<ActionId> = batch.actions.iter().map(|action| action.id).collect();
    if batch.actions.iter().any(|a| is_zone(a) && matches!(a.op, Op::Delete { .. })) {
        let entries = old.as_ref().and_then(|old| observe::entries(backend, zone, old).ok());
        serials.extend(entries.and_then(|entries| serial_of(&entries)).map(|serial| (zone.into(), serial)));
        return delete_zone(journal, &ids, &path).await;
    }
    let file =
        ZoneFile { backend, zone, path: &path, place: observe::place_of(backend, &path)?, old: old.as_ref() };
    let creates = batch.actions.iter().any(is_creation);
    let entries = match &old {
        Some(old) => observe::entries(backend, zone, old)?,
        None if creates => {
            let of_day = write::serial_before(cx.clock.now());
            new_zone(backend, zone, serials.get(zone).map_or(of_day, |last| write::later(of_day, *last)))
        }
        None => return Err(Error::conflict(format!("{} does not exist", path.display()))),
    };
    let all: Vec<&Action> = batch.actions.iter().collect();
    let mut draft = Draft::new(backend, zone, entries.clone(), &all);
    if let Some(error) = file.without_servers(&draft).await? {
        // What is meant to be in a zone that cannot be made was not even begun: there is one thing to mend.
        let ids: Vec<ActionId> = batch.actions.iter().filter(|a| is_creation(a)).map(|a| a.id).collect();
        journal.started(&ids).await?;
        return refused(journal, &ids, error).await;
    }
    journal.started(&ids).await?;
    let mut written = file.write(&draft).await;
    if let Err(error) = &written
        && error.kind == ErrorKind::Invalid
        && ids.len() > 1
    {
        let accepted = culprit::accepted(backend, zone, &file.place, &entries, &batch.actions, error.clone());
        written = match accepted.await {
            Ok(accepted) => {
                draft = accepted;
                file.write(&draft).await
            }
            Err(error) => Err(error),
        };
    }
    let mut is_pending = old.as_ref().is_some_and(|old| old.is_reload_pending);
    let mut stored = Ok(());
    match written {
        Ok(true) => {
            is_pending = !backend.config.reload.is_empty();
            serials.insert(zone.into(), draft.serial);
            stored = sync_directory(&file.place);
        }
        Ok(false) => {}
        Err(error) => return refused(journal, &ids, error).await,
    }
    let loaded = if is_pending && stored.is_ok() { reload(backend, zone, &path).await } else { Ok(()) };
    let outcome =
        |action: &Action| (action.id, ended(action, draft.refused.get(&action.id), &stored, &loaded));
    journal.finished(batch.actions.iter().map(outcome).collect()).await?;
    stored.and(loaded)
}

/// How an action ended, unless the file was not replaced: what of it was `refused`, and whether the new file is `stored` and `loaded`.
fn ended(
    action: &Action,
    refused: Option<&Error>,
    stored: &Result<(), Error>,
    loaded: &Result<(), Error>,
) -> Outcome {
    match (refused, stored, loaded) {
        (Some(error), ..) => Outcome::Failed(error.clone()),
        // The file has its new content, and a crash may bring the old one back: who looks next sees which one is there.
        (None, Err(error), _) => Outcome::Unknown(error.clone()),
        // The record is in the file, which is all that a record is here; the zone is what is not loaded. One that was
        // made is there, and tracked, so that the next look finds it unfinished and not somebody else's.
        (None, Ok(()), Err(error)) if is_zone(action) && !is_creation(action) => {
            Outcome::Failed(error.clone())
        }
        (None, Ok(()), _) => merge::done(action),
    }
}

/// The file was not replaced: nothing had an effect.
async fn refused(journal: &dyn Journal, ids: &[ActionId], error: Error) -> Result<(), Error> {
    let failed = ids.iter().map(|id| (*id, Outcome::Failed(error.clone())));
    journal.finished(failed.collect()).await?;
    // What `check` refuses is the content of these actions; anything else concerns the next batch as well.
    if error.kind == ErrorKind::Invalid { Ok(()) } else { Err(error) }
}

/// The file of a zone.
struct ZoneFile<'a> {
    backend: &'a Backend,
    zone: &'a str,
    path: &'a Path,
    /// Where it lies, if `path` is a link.
    place: PathBuf,
    /// What it was before the batch.
    old: Option<&'a File>,
}

impl ZoneFile<'_> {
    /// Puts the text of a draft in place of the file; false where it is the text that is there.
    async fn write(&self, draft: &Draft) -> Result<bool, Error> {
        let is_new = |text: &&str| self.old.is_none_or(|old| old.text != **text);
        let Some(text) = draft.text.as_deref().filter(is_new) else { return Ok(false) };
        let draft = draft_path(&self.place);
        let result = self.replace(&draft, text).await;
        if result.is_err() {
            let _ = fs::remove_file(&draft);
        }
        result.map(|()| true)
    }

    /// Why `check` refuses a new zone that no name server is named for; none where it has some, or is accepted without.
    async fn without_servers(&self, draft: &Draft) -> Result<Option<Error>, Error> {
        let Some(text) = draft.text.as_deref().filter(|_| self.old.is_none() && !draft.has_servers) else {
            return Ok(None);
        };
        let place = draft_path(&self.place);
        store(&place, &self.place, text)?;
        let ZoneFile { backend, zone, .. } = self;
        let said = command::run(&backend.config.check, zone, &place, backend.config.options.timeout).await;
        let _ = fs::remove_file(&place);
        let error = said.err().filter(|error| error.kind == ErrorKind::Invalid);
        let text = format!("zone {zone} has no name server, and was not made");
        Ok(error.map(|error| Error::invalid(text).hint(NEEDS_SERVERS).caused_by(error)))
    }

    /// Writes `text` into `draft`, beside the file, has it checked, and puts it in its place. Errors: it is not there.
    async fn replace(&self, draft: &Path, text: &str) -> Result<(), Error> {
        let ZoneFile { backend, zone, path, place, old } = self;
        store(draft, place, text)?;
        let said = command::run(&backend.config.check, zone, draft, backend.config.options.timeout).await;
        said.map_err(|error| {
            error.hint(if old.is_some() { "the old file is untouched" } else { "no file was made" })
        })?;
        // The race that is left is between this read and the rename below.
        if version(observe::read(backend, zone)?.as_ref()) != version(*old) {
            return Err(moved(path));
        }
        if !backend.config.reload.is_empty() {
            fresh(&observe::reload_marker(path), FOR_ALL)?;
        }
        fs::rename(draft, place).map_err(|error| failed("replace", place, error))
    }
}

fn version(file: Option<&File>) -> Version {
    file.map_or(Version::Absent, File::version)
}

fn moved(path: &Path) -> Error {
    Error::conflict(format!("{} changed since it was observed", path.display()))
}

/// How often the lock is asked for, and how long until the next time: half a minute in all.
const LOCK: (u32, Duration) = (300, Duration::from_millis(100));

/// A directory that other writers keep away from until this is dropped.
struct Locked(fs::File);

impl Drop for Locked {
    fn drop(&mut self) {
        // Closed only, it would stay locked by a child of this process that is about to start a program. It is closed all the same.
        let _ = self.0.unlock();
    }
}

/// Keeps other writers that ask for it away from the directory.
///
/// Errors: `Unavailable` where another program keeps it. It is asked for again and again, since a thread that waits for it
/// could not be called back.
async fn lock(backend: &Arc<Backend>, cx: &Cx) -> Result<Locked, Error> {
    let (tries, pause) = LOCK;
    for number in 0..tries {
        let directory = backend.config.directory.clone();
        let locked = tokio::task::spawn_blocking(move || {
            let file = fs::File::open(&directory).map_err(|error| failed("open", &directory, error))?;
            match file.try_lock() {
                Ok(()) => Ok(Some(Locked(file))),
                Err(TryLockError::WouldBlock) => Ok(None),
                Err(TryLockError::Error(error)) => Err(failed("lock", &directory, error)),
            }
        });
        let locked = locked
            .await
            .map_err(|error| Error::unexpected("lock the directory of the zone files").caused_by(error))??;
        if let Some(locked) = locked {
            return Ok(locked);
        }
        if cx.stop.is_set() || number + 1 == tries {
            break;
        }
        cx.clock.sleep(pause).await;
    }
    let directory = backend.config.directory.display();
    Err(Error::unavailable(format!("lock {directory}: another program has it locked, and keeps it"))
        .hint(format!("find out which, and end it if it hangs: fuser -v {directory}")))
}

/// The records of a zone that is new: a SOA, and the name servers the entry names.
fn new_zone(backend: &Backend, zone: &str, serial: u32) -> Vec<Entry> {
    let entry = |kind: &str, value: &str, ttl: u32| Entry {
        name: format!("{zone}.").into(),
        ttl,
        kind: kind.into(),
        content: write::content(kind, value, serial).into(),
        origin: None,
        mark: None,
    };
    let hosts: Vec<String> =
        backend.config.nameservers.iter().map(|name| format!("{}.", name.trim_end_matches('.'))).collect();
    let mname = hosts.first().cloned().unwrap_or_else(|| format!("ns1.{zone}."));
    let soa = format!("{mname} hostmaster.{zone}. 10800 3600 604800 3600");
    let mut entries = vec![entry("SOA", &soa, 3_600)];
    entries.extend(hosts.iter().map(|host| entry("NS", host, 3_600)));
    entries
}

/// Makes what happened beside `path` outlast a crash.
fn sync_directory(path: &Path) -> Result<(), Error> {
    let directory = path.parent().unwrap_or(path);
    let synced = fs::File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| failed("store", directory, error))
}

async fn reload(backend: &Backend, zone: &str, path: &Path) -> Result<(), Error> {
    command::run(&backend.config.reload, zone, path, backend.config.options.timeout).await.map_err(|error| {
        Error::unavailable(format!("{} is written, but not loaded by the server", path.display()))
            .hint("`reload` of the entry is tried again, ever less often; `reconciled sync`, or without a daemon `reconciled apply`, has it tried at once")
            .caused_by(error)
    })?;
    let marker = observe::reload_marker(path);
    match fs::remove_file(&marker) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", &marker, error)),
        _ => Ok(()),
    }
}

async fn delete_zone(journal: &dyn Journal, ids: &[ActionId], path: &Path) -> Result<(), Error> {
    journal.started(ids).await?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let error = failed("delete", path, error);
            return refused(journal, ids, error).await;
        }
        _ => {}
    }
    let _ = fs::remove_file(observe::reload_marker(path));
    let stored = sync_directory(path);
    // Whatever else the batch wanted in this zone went with its file.
    let outcome = match &stored {
        Ok(()) => Outcome::Gone,
        Err(error) => Outcome::Unknown(error.clone()),
    };
    journal.finished(ids.iter().map(|id| (*id, outcome.clone())).collect()).await?;
    stored
}

/// An instance whose name cannot stand in a comment would be read back as another one.
pub(crate) fn validate_instance(instance: &str) -> Result<(), Error> {
    if instance.is_empty() || instance.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Error::invalid(format!(
            "instance `{instance}` cannot stand in a mark (`{MARK}{instance}`)"
        ))
        .hint("write `instance` without spaces"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::Observed;

    fn deletion(id: &str) -> Action {
        let observed = Arc::new(Observed::new(id.into(), b"300\n192.0.2.1"));
        Action { id: ActionId(1), token: "t".into(), op: Op::Delete { observed, tracked: None } }
    }

    fn broken() -> Result<(), Error> {
        Err(Error::unavailable("store /zones"))
    }

    #[test]
    fn what_has_its_name_and_is_not_stored_is_unknown_and_not_without_effect() {
        let (record, zone) = (deletion("x.example.com./A"), deletion("example.com."));
        for action in [&record, &zone] {
            assert_eq!(ended(action, None, &Ok(()), &Ok(())).word(), "gone");
            assert_eq!(ended(action, None, &broken(), &Ok(())).word(), "unknown");
            // What is not in the file had no effect, whatever becomes of the file.
            let refused = Error::invalid("it is refused");
            assert_eq!(ended(action, Some(&refused), &broken(), &Ok(())).word(), "failed");
        }
        // What is not loaded is in the file all the same.
        assert_eq!(ended(&record, None, &Ok(()), &broken()).word(), "gone");
        assert_eq!(ended(&zone, None, &Ok(()), &broken()).word(), "failed");
    }
}
