//! Copies of the database: for backups, before a migration, and back again.
//!
//! Guarantees: a backup file is complete or not there; a restore leaves the old database or the new one, never
//! a mixture; and after it no process that knew the old database can write. The sealing key is deliberately
//! not in a backup: keep `seal.key` apart, or whoever finds the backup reads what is sealed.

use super::{
    DATABASE, Init, Reader,
    error::{Result, StoreError},
    events,
    open::{self, Lock, Schema},
    rows::ms,
};
use reconciled_engine::store::Event;
use reconciled_provider::Clock;
use serde::Serialize;
use sqlx::{
    ConnectOptions as _, Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Tracked resources in it.
    pub tracked: u64,
    /// Epoch it has now.
    pub epoch: u64,
    /// Where the database it replaced was put, if there was one.
    pub replaced: Option<PathBuf>,
}

impl Reader {
    /// Writes a compact copy of the database to `file`, readable by its owner only. A file of that name is
    /// replaced once the copy is complete.
    pub async fn backup(&self, file: &Path) -> Result<()> {
        // A copy to a disk that hangs must not keep a connection from others, nor the state from being closed.
        let mut conn = self.conn().await?.detach();
        let temporary = beside(file, ".part")?;
        let copied = copy(&mut conn, &temporary).await.map_err(|error| error.of(&self.file));
        let kept = match copied {
            Ok(()) => fs::rename(&temporary, file).map_err(StoreError::file("write", file)),
            Err(error) => Err(error),
        };
        if kept.is_err() {
            // The copy is of no use to anybody; that it cannot be removed would only hide the first error.
            let _ = fs::remove_file(&temporary);
        }
        kept?;
        sync_dir(file)
    }
}

/// Copies an older database before it is migrated, to `state.db.schema-N` beside it.
pub(super) async fn before_migration(conn: &mut SqliteConnection, file: &Path, schema: i64) -> Result<()> {
    let kept = beside(file, &format!(".schema-{schema}"))?;
    let temporary = beside(file, ".part")?;
    copy(conn, &temporary).await.map_err(|error| error.of(file))?;
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

/// Copies the database that `conn` has open to a new file and makes it durable.
async fn copy(conn: &mut SqliteConnection, to: &Path) -> Result<()> {
    remove(to)?;
    open::make_file(to)?;
    let text = to.to_str().ok_or_else(|| StoreError::File {
        doing: "copy the database to",
        path: to.to_path_buf(),
        source: ErrorKind::InvalidFilename.into(),
    })?;
    sqlx::query("VACUUM INTO ?1").bind(text).execute(conn).await.map_err(|e| StoreError::from(e).of(to))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(StoreError::file("write", to))
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
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(StoreError::file("write", dir))
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

/// Moves the database and its WAL out of the way, without looking into them. The caller holds the lock.
pub(super) fn put_aside(dir: &Path, now: Duration) -> Result<PathBuf> {
    let file = dir.join(DATABASE);
    let aside = beside(&file, &format!(".lost-{}", now.as_secs()))?;
    // The WAL goes first: a database without its WAL is an older state, a WAL without its database nothing.
    for suffix in ["-wal", "-shm", ""] {
        rename(&beside(&file, suffix)?, &beside(&aside, suffix)?)?;
    }
    sync_dir(&file)?;
    Ok(aside)
}

/// Replaces the database in `dir` by a backup.
///
/// The backup is checked, migrated and given an epoch beyond both before anything is replaced; the database it
/// replaces stays as `state.db.replaced`.
pub async fn restore(dir: &Path, backup: &Path, clock: &dyn Clock) -> Result<Restored> {
    if !backup.exists() {
        return Err(StoreError::file("read", backup)(ErrorKind::NotFound.into()));
    }
    open::make_dir(dir)?;
    let _lock = Lock::take(dir)?;
    let file = dir.join(DATABASE);
    let new = dir.join("state.db.restoring");
    let old_epoch = fold(&file).await;
    let (tracked, epoch) = prepare(dir, backup, &new, old_epoch, clock).await?;
    let replaced = exchange(&file, &new)?;
    Ok(Restored { tracked, epoch, replaced })
}

/// Folds the WAL of the old database into it and reads its epoch; none when there is none or it is damaged.
async fn fold(file: &Path) -> Option<u64> {
    if !file.exists() {
        return None;
    }
    let mut conn = open::connect(file).await.ok()?;
    let epoch = open::epoch(&mut conn).await.ok();
    // What cannot be folded is put aside with the database.
    let _ = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut conn).await;
    let _ = conn.close().await;
    epoch
}

/// Makes the database that is to be put in place.
async fn prepare(
    dir: &Path,
    backup: &Path,
    new: &Path,
    old_epoch: Option<u64>,
    clock: &dyn Clock,
) -> Result<(u64, u64)> {
    for suffix in ["-wal", "-shm"] {
        remove(&beside(new, suffix)?)?;
    }
    let schema = take(backup, new).await.map_err(|error| error.of_backup(backup))?;
    let mut conn = open::connect(new).await?;
    let named = |error: StoreError| error.of(new);
    open::migrate(&mut conn, new, schema).await?;
    check_key(&mut conn, dir).await.map_err(named)?;
    let restored_epoch = open::epoch(&mut conn).await.map_err(named)?;
    // Where the old epoch cannot be read it is at most so far ahead.
    let beyond = old_epoch.unwrap_or(restored_epoch + 1000).max(restored_epoch);
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
    let finish = async |conn: &mut SqliteConnection| -> Result<(u64, u64)> {
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
        sqlx::query("UPDATE epoch SET epoch = ?1").bind(beyond as i64).execute(&mut *conn).await?;
        let epoch = open::raise_epoch(conn, clock).await?;
        events::append(conn, &event).await?;
        let tracked: i64 = sqlx::query_scalar("SELECT count(*) FROM inventory").fetch_one(&mut *conn).await?;
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(conn).await?;
        Ok((tracked as u64, epoch))
    };
    let result = finish(&mut conn).await.map_err(named)?;
    conn.close().await.map_err(|error| named(error.into()))?;
    Ok(result)
}

/// Copies what is in `backup`, once it was checked, to `new`.
async fn take(backup: &Path, new: &Path) -> Result<Schema> {
    let (pool, _still) = open::read_pool(backup).await?;
    let mut source = pool.acquire().await.map_err(|error| StoreError::from(error).of(backup))?;
    let schema = open::identify(&mut source, backup).await?;
    if schema == Schema::Empty {
        return Err(StoreError::Foreign(backup.to_path_buf()));
    }
    open::check(&mut source, backup, "PRAGMA integrity_check(1)").await?;
    copy(&mut source, new).await.map_err(|error| error.of(backup))?;
    drop(source);
    pool.close().await;
    Ok(schema)
}

/// A backup that needs a key is refused before anything is replaced, not after.
async fn check_key(conn: &mut SqliteConnection, dir: &Path) -> Result<()> {
    open::seal_of(conn, dir).await.map(drop)
}

/// Puts `new` in the place of `file`; whoever looks sees the one or the other.
fn exchange(file: &Path, new: &Path) -> Result<Option<PathBuf>> {
    let replaced = beside(file, ".replaced")?;
    let is_there = file.exists();
    if is_there {
        remove(&replaced)?;
        fs::hard_link(file, &replaced).map_err(StoreError::file("keep", file))?;
    }
    // SQLite would read a WAL that stayed behind as part of the new database.
    for suffix in ["-wal", "-shm"] {
        rename(&beside(file, suffix)?, &beside(&replaced, suffix)?)?;
    }
    fs::rename(new, file).map_err(StoreError::file("write", file))?;
    sync_dir(file)?;
    Ok(is_there.then_some(replaced))
}
