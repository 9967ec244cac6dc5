//! Copies of the database: for backups, before a migration, and back again.
//!
//! Guarantees: a backup file is complete or not there, and no other file is touched for it; an older database is copied
//! before it is migrated; a restore leaves the old database or the new one, never a mixture; and after it no process that
//! knew the old database can write. Caveats: one that is killed while somebody reads the old database may leave none in
//! place, and is done once more; the old one is beside it. The sealing key is deliberately not in a backup: keep `seal.key`
//! apart, or whoever finds the backup reads what is sealed.

use super::{
    drift,
    error::{Result, StoreError},
    events, inventory,
    migrations::NEWEST,
    open::{self, DATABASE, Lock, Schema},
    pin,
    reader::Reader,
    rows::{self, ms},
    suspension, write,
};
use crate::failpoint;
use reconciled_engine::{
    DriftEnd, Pin, Suspension,
    store::{Consent, Event},
};
use reconciled_provider::{Clock, ResourceId, Scope};
use serde::Serialize;
use sqlx::{
    ConnectOptions as _, Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::{NamedTempFile, TempPath};

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Tracked resources in it.
    pub tracked: u64,
    /// Epoch it has now.
    pub epoch: u64,
    /// Where the database it replaced was put, if there was one; or its WAL, where only that was still there.
    pub replaced: Option<PathBuf>,
    /// What was suspended, resumed, rolled back and forgotten since the backup is known, and counts.
    pub knows_words: bool,
}

/// The last event of a trail: its number and its hash.
type Last = (i64, Vec<u8>);

/// What the database that is replaced knows.
#[derive(Default)]
struct Before {
    /// Its epoch; none when there is none or it is damaged.
    epoch: Option<u64>,
    /// What persons said to it; none where that cannot be read.
    words: Option<Words>,
}

/// What persons stopped, what they keep at an earlier revision, and what they let go of.
struct Words {
    suspensions: Vec<Suspension>,
    pins: Vec<Pin>,
    /// None of it is tracked.
    let_go: Vec<(Scope, ResourceId, Consent)>,
    /// It goes on from where the backup was made: what it knows no more was taken back.
    goes_on: bool,
}

impl Reader {
    /// Writes a compact copy of the database to `file`, readable by its owner only. A file of that name is
    /// replaced once the copy is complete.
    pub async fn backup(&self, file: &Path) -> Result<()> {
        // A copy to a disk that hangs must not keep a connection from others, nor the state from being closed.
        let mut conn = self.conn().await?.detach();
        // Where it is not finished it goes, and so does what SQLite has beside it meanwhile.
        let part = part(file)?;
        let journal = beside(part.path(), "-journal")?;
        let _journal = TempPath::try_from_path(journal).map_err(StoreError::file("create", file))?;
        // Of both it goes first: SQLite may be at work still, and makes no journal of what is not there.
        let part = part;
        copy(&mut conn, part.path(), file).await?;
        part.persist(file).map_err(|failed| StoreError::file("write", file)(failed.error))?;
        sync_dir(file)
    }
}

/// An empty file to write `file` in, whose name nobody foresees: others may write to its folder as well.
fn part(file: &Path) -> Result<NamedTempFile> {
    let begin = beside(file, ".")?;
    tempfile::Builder::new()
        .prefix(begin.file_name().unwrap_or_default())
        .suffix(".part")
        .make_in(folder(file), open::new_file)
        .map_err(StoreError::file("create", file))
}

/// Brings a database to the newest schema, after a copy when there is something in it.
pub(super) async fn migrate(conn: &mut SqliteConnection, file: &Path, found: Schema) -> Result<()> {
    if let Schema::Ours(version) = found
        && version != NEWEST
    {
        before_migration(conn, file, version).await?;
        failpoint::hit("store.migrate.after-backup");
    }
    open::migrate(conn, file, found).await
}

/// Copies an older database before it is migrated, to `state.db.schema-N-EPOCH` beside it. The epoch tells states of one schema apart,
/// as when an older program was put back for a while, and is the same where a migration is tried again.
async fn before_migration(conn: &mut SqliteConnection, file: &Path, schema: i64) -> Result<()> {
    let epoch = open::epoch(conn).await.map_err(|error| error.of(file))?;
    let kept = beside(file, &format!(".schema-{schema}-{epoch}"))?;
    let temporary = beside(file, ".part")?;
    copy_anew(conn, &temporary).await?;
    fs::rename(&temporary, &kept).map_err(StoreError::file("write", &kept))?;
    sync_dir(&kept)
}

/// `file` with something after its name.
fn beside(file: &Path, after: &str) -> Result<PathBuf> {
    let fail = || StoreError::File {
        doing: "make a file name from",
        path: file.to_path_buf(),
        source: ErrorKind::InvalidInput.into(),
    };
    let mut name = file.file_name().ok_or_else(fail)?.to_os_string();
    name.push(after);
    Ok(file.with_file_name(name))
}

/// Copies the database that `conn` has open to `to`, in place of what an earlier process left there.
async fn copy_anew(conn: &mut SqliteConnection, to: &Path) -> Result<()> {
    remove(to)?;
    open::make_file(to)?;
    copy(conn, to, to).await
}

/// Copies the database that `conn` has open to an empty file, which errors call `name`, and makes it durable.
async fn copy(conn: &mut SqliteConnection, to: &Path, name: &Path) -> Result<()> {
    let path = std::path::absolute(to).map_err(StoreError::file("write", name))?;
    let text = path.to_str().ok_or_else(|| StoreError::File {
        doing: "copy the database to",
        path: name.to_path_buf(),
        source: ErrorKind::InvalidFilename.into(),
    })?;
    // It is there, for this user alone: where it was removed meanwhile, nobody is to make it anew for all to read.
    let text = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let into = sqlx::query("VACUUM INTO ?1").bind(format!("file://{text}?mode=rw"));
    into.execute(conn).await.map_err(|e| StoreError::from(e).of(name))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(StoreError::file("write", name))
}

/// What [`init`](super::init) does where there is a state already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Init {
    /// It is an error.
    New,
    /// The old database is put aside, and the new one remembers that it is a recovery.
    Recover,
}

/// Makes an empty database where none is: whole and durable, or not at all; one that is a recovery says so from its first
/// moment. It waits for the disk once, as a whole: each migration by itself would several times, and so would the change to
/// a WAL.
pub(super) async fn make(file: &Path, how: Init) -> Result<()> {
    let fail = |error: sqlx::Error| StoreError::from(error).of(file);
    let new = file.with_extension("db.new");
    for suffix in ["-wal", "-shm", "-journal", ""] {
        remove(&beside(&new, suffix)?)?;
    }
    open::make_file(&new)?;
    // Whatever goes wrong, this file is thrown away.
    let options = SqliteConnectOptions::new()
        .filename(&new)
        .journal_mode(SqliteJournalMode::Memory)
        .synchronous(SqliteSynchronous::Off)
        .disable_statement_logging();
    let mut conn = options.connect().await.map_err(fail)?;
    open::migrate(&mut conn, file, Schema::Empty).await?;
    if how == Init::Recover {
        open::set_recovering(&mut conn).await.map_err(|error| error.of(file))?;
    }
    sqlx::query("PRAGMA journal_mode = WAL").execute(&mut conn).await.map_err(fail)?;
    conn.close().await.map_err(fail)?;
    File::open(&new).and_then(|file| file.sync_all()).map_err(StoreError::file("write", &new))?;
    fs::rename(&new, file).map_err(StoreError::file("create", file))?;
    sync_dir(file)
}

/// Makes a rename durable.
fn sync_dir(file: &Path) -> Result<()> {
    let dir = folder(file);
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(StoreError::file("write", dir))
}

fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::file("remove", file)(error)),
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::file("rename", from)(error)),
        _ => Ok(()),
    }
}

/// A name beside `file` for a database that leaves its place, with the second in it, and a number where something has that name: it may
/// be the only copy of a state.
fn unused(file: &Path, why: &str, now: Duration) -> Result<PathBuf> {
    let mut number = 1;
    loop {
        let again = if number == 1 { String::new() } else { format!("-{number}") };
        let name = beside(file, &format!(".{why}-{}{again}", now.as_secs()))?;
        let mut is_used = false;
        for suffix in ["", "-wal", "-shm"] {
            is_used |= fs::symlink_metadata(beside(&name, suffix)?).is_ok();
        }
        if !is_used {
            return Ok(name);
        }
        number += 1;
    }
}

/// Moves the database and its WAL out of the way, without looking into them, and says where. The caller holds the lock.
pub(super) fn put_aside(dir: &Path, now: Duration) -> Result<Option<PathBuf>> {
    let file = dir.join(DATABASE);
    let aside = unused(&file, "lost", now)?;
    leave(&file, &aside)?;
    sync_dir(&file)?;
    kept(aside)
}

/// Moves a database with its WAL. It goes first: without its WAL it would be an older state that passes for the newest, and a WAL alone
/// is no state.
pub(super) fn leave(file: &Path, aside: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        rename(&beside(file, suffix)?, &beside(aside, suffix)?)?;
    }
    Ok(())
}

/// Moves it back, its WAL first.
fn come_back(file: &Path, aside: &Path) -> Result<()> {
    for suffix in ["-shm", "-wal", ""] {
        rename(&beside(aside, suffix)?, &beside(file, suffix)?)?;
    }
    Ok(())
}

/// What of a database that left its place is at its new name: it, or a WAL whose database left before a process was killed.
fn kept(aside: PathBuf) -> Result<Option<PathBuf>> {
    let wal = beside(&aside, "-wal")?;
    Ok([aside, wal].into_iter().find(|file| file.exists()))
}

/// Replaces the database in `dir` by a backup.
///
/// The backup is checked, migrated and given an epoch beyond both before anything is replaced; the database it
/// replaces stays as `state.db.replaced-TIME`, and so does each that one before it replaced: which of them is the one to go back to only
/// a person knows. What persons suspended, resumed, rolled back and forgot since counts, where that one can be read.
pub async fn restore(dir: &Path, backup: &Path, clock: &dyn Clock) -> Result<Restored> {
    // SQLite says of a directory that the disk is broken.
    if !fs::metadata(backup).map_err(StoreError::file("read", backup))?.is_file() {
        return Err(StoreError::NoBackup { file: backup.to_path_buf(), what: "it is no file".into() });
    }
    open::make_dir(dir)?;
    let _lock = Lock::take(dir)?;
    let file = dir.join(DATABASE);
    let new = dir.join("state.db.restoring");
    let restored = async {
        let restored = prepare(dir, backup, &new, clock).await?;
        let replaced = exchange(&file, &new, clock.now())?;
        Ok(Restored { replaced, ..restored })
    };
    let restored = restored.await;
    if restored.is_err() {
        // It is of no use to anybody; that it cannot be removed would only hide the first error.
        for suffix in ["-wal", "-shm", ""] {
            let _ = remove(&beside(&new, suffix)?);
        }
    }
    restored
}

/// Folds the WAL of the old database into it, and reads what counts of it beside a backup whose trail ends with `last`.
async fn fold(file: &Path, last: &Last) -> Before {
    if !file.exists() {
        return Before::default();
    }
    let Ok(mut conn) = open::connect(file).await else { return Before::default() };
    let epoch = open::epoch(&mut conn).await.ok();
    let words = words(&mut conn, file, last).await.ok().flatten();
    // What cannot be folded is put aside with the database.
    let _ = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut conn).await;
    let _ = conn.close().await;
    Before { epoch, words }
}

/// What persons said to the state; none where another version of this program wrote it.
async fn words(conn: &mut SqliteConnection, file: &Path, last: &Last) -> Result<Option<Words>> {
    if open::identify(conn, file).await? != Schema::Ours(NEWEST) {
        return Ok(None);
    }
    let (suspensions, pins) = (suspension::all(conn).await?, pin::all(conn).await?);
    let let_go = let_go(conn).await?;
    Ok(Some(Words { suspensions, pins, let_go, goes_on: events::continues(conn, last).await? }))
}

/// What was let go of and is not tracked again. A word to adopt is not among it: it would be done once more.
async fn let_go(conn: &mut SqliteConnection) -> Result<Vec<(Scope, ResourceId, Consent)>> {
    let found: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT scope, id, word FROM consent WHERE word <> 'adopt' AND NOT EXISTS
             (SELECT 1 FROM inventory WHERE inventory.scope = consent.scope AND inventory.id = consent.id)
         ORDER BY scope, id",
    )
    .fetch_all(conn)
    .await?;
    found
        .iter()
        .map(|(scope, id, word)| {
            let consent = if word == "let-go" { Consent::LetGo } else { Consent::Barred };
            Ok((rows::scope(scope)?, ResourceId::from(id.as_str()), consent))
        })
        .collect()
}

/// Puts what persons said to the state before beside what the backup knows, or in its place where that one goes on from there.
async fn put_words(conn: &mut SqliteConnection, words: &Words, now: Duration) -> Result<()> {
    if words.goes_on {
        for sql in [
            "DELETE FROM suspension_scope",
            "DELETE FROM suspension",
            "DELETE FROM pin",
            "DELETE FROM consent WHERE word <> 'adopt'",
        ] {
            sqlx::query(sql).execute(&mut *conn).await?;
        }
    }
    for suspension in &words.suspensions {
        suspension::put(conn, suspension).await?;
    }
    for pin in &words.pins {
        pin::put(conn, pin).await?;
    }
    let mut let_go: BTreeMap<&Scope, Vec<ResourceId>> = BTreeMap::new();
    for (scope, id, consent) in &words.let_go {
        write::put_consent(conn, scope, id, consent).await?;
        let_go.entry(scope).or_default().push(id.clone());
    }
    // Whether a state that is another one means the same thing nobody knows: what the backup tracks stays tracked then.
    if words.goes_on {
        for (scope, ids) in &let_go {
            untrack(conn, scope, ids, now).await?;
        }
    }
    Ok(())
}

/// Lets go of what the backup still tracks of these.
async fn untrack(
    conn: &mut SqliteConnection,
    scope: &Scope,
    ids: &[ResourceId],
    now: Duration,
) -> Result<()> {
    let ends: Vec<(ResourceId, DriftEnd)> = ids.iter().map(|id| (id.clone(), DriftEnd::Gone)).collect();
    drift::over(conn, scope, &ends, now).await?;
    if inventory::remove(conn, scope, ids).await? {
        inventory::touch(conn, &[scope]).await?;
        // What was found in sync was found so with these rows.
        write::put_version(conn, scope, None).await?;
    }
    write::unclaim(conn, scope, ids).await
}

/// Makes the database that is to be put in place.
async fn prepare(dir: &Path, backup: &Path, new: &Path, clock: &dyn Clock) -> Result<Restored> {
    for suffix in ["-wal", "-shm"] {
        remove(&beside(new, suffix)?)?;
    }
    let (schema, last) = take(backup, new).await.map_err(|error| error.of_backup(backup))?;
    let before = fold(&dir.join(DATABASE), &last).await;
    let mut conn = open::connect(new).await?;
    let named = |error: StoreError| error.of(new);
    open::migrate(&mut conn, new, schema).await?;
    check_key(&mut conn, dir).await.map_err(named)?;
    let restored_epoch = open::epoch(&mut conn).await.map_err(named)?;
    // Where the old epoch cannot be read it is at most so far ahead.
    let beyond = before.epoch.unwrap_or(restored_epoch + 1000).max(restored_epoch);
    let event = Event {
        at: clock.now(),
        kind: "restored".into(),
        scope: None,
        address: None,
        revision: "".into(),
        actor: "operator".into(),
        reason: "restore".into(),
        message: format!("restored from {}", backup.display()).into(),
    };
    let finish = async |conn: &mut SqliteConnection| -> Result<Restored> {
        // What was made since the copy is not in it, and would be made again.
        open::set_recovering(conn).await?;
        // Nor what came into force since: what did so before must not be done again in its place.
        sqlx::query("INSERT OR REPLACE INTO meta (key, value) SELECT DISTINCT 'restored/' || source, ?1 FROM revision")
            .bind(ms(clock.now()).to_string())
            .execute(&mut *conn)
            .await?;
        sqlx::query("DELETE FROM converged").execute(&mut *conn).await?;
        // Nor is what was consented to and done since: it would be done again on the same word.
        sqlx::query("DELETE FROM begun").execute(&mut *conn).await?;
        sqlx::query("DELETE FROM approval WHERE used_at IS NULL").execute(&mut *conn).await?;
        if let Some(words) = &before.words {
            put_words(conn, words, clock.now()).await?;
        }
        sqlx::query("UPDATE epoch SET epoch = ?1").bind(beyond as i64).execute(&mut *conn).await?;
        let epoch = open::raise_epoch(conn, clock).await?;
        events::append(conn, &event).await?;
        let tracked: i64 = sqlx::query_scalar("SELECT count(*) FROM inventory").fetch_one(&mut *conn).await?;
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(conn).await?;
        let knows_words = before.words.as_ref().is_some_and(|words| words.goes_on);
        Ok(Restored { tracked: tracked as u64, epoch, replaced: None, knows_words })
    };
    let result = finish(&mut conn).await.map_err(named)?;
    conn.close().await.map_err(|error| named(error.into()))?;
    Ok(result)
}

/// Copies what is in `backup`, once it was checked, to `new`; what wrote it, and where its trail ends.
async fn take(backup: &Path, new: &Path) -> Result<(Schema, Last)> {
    let (pool, mut source, _still) = open::read_pool(backup).await?;
    let schema = open::identify(&mut source, backup).await?;
    if schema == Schema::Empty {
        return Err(StoreError::Foreign(backup.to_path_buf()));
    }
    open::check(&mut source, backup, "PRAGMA integrity_check(1)").await?;
    let last = events::last(&mut source).await.map_err(|error| error.of(backup))?;
    copy_anew(&mut source, new).await?;
    drop(source);
    pool.close().await;
    Ok((schema, last))
}

/// A backup that needs a key is refused before anything is replaced, not after.
async fn check_key(conn: &mut SqliteConnection, dir: &Path) -> Result<()> {
    open::seal_of(conn, dir).await.map(drop)
}

/// Puts `new` in the place of `file`; whoever looks sees the one or the other, or none where a WAL could not be folded into `file`.
pub(super) fn exchange(file: &Path, new: &Path, now: Duration) -> Result<Option<PathBuf>> {
    let replaced = unused(file, "replaced", now)?;
    // SQLite would read a WAL that stayed behind as part of the new database.
    let is_folded = fs::metadata(beside(file, "-wal")?).map_or(true, |wal| wal.len() == 0);
    let stays = file.exists() && is_folded;
    if stays {
        fs::hard_link(file, &replaced).map_err(StoreError::file("keep", file))?;
        for suffix in ["-wal", "-shm"] {
            rename(&beside(file, suffix)?, &beside(&replaced, suffix)?)?;
        }
    } else {
        leave(file, &replaced)?;
    }
    if let Err(error) = fs::rename(new, file) {
        if !stays {
            // Why it did not come to that is what counts; where this fails too the database is beside.
            let _ = come_back(file, &replaced);
        }
        return Err(StoreError::file("write", file)(error));
    }
    sync_dir(file)?;
    kept(replaced)
}
