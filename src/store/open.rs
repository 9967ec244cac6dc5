//! Opening the state: the directory, the lock, the checks, the migrations, the epoch.
//!
//! Guarantees: one writer per state directory (`flock`); nothing is created or migrated for a reader; a
//! database of a newer program or another program is left untouched; a damaged one is not written to. That an
//! older one is copied before it is migrated is what [`super::backup`] does.

use super::{
    error::{Result, StoreError, Trouble},
    migrations::{MIGRATIONS, NEWEST},
    rows::ms,
    seal::{KEY_FILE, Seal},
};
use reconciled_provider::Clock;
use sqlx::{
    ConnectOptions as _, Connection as _, Sqlite, SqliteConnection, SqlitePool,
    migrate::MigrateError,
    pool::PoolConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io::{self, ErrorKind, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// What the migrations make of an empty database, as one: to go through all of them takes as long as to read 10,000 records.
const SCHEMA: &str = include_str!("../../migrations/schema.sql");

/// Name of the database in the state directory.
pub const DATABASE: &str = "state.db";

/// Name of the file whose lock the writer has.
const LOCK: &str = "lock";

/// How long a lock is waited for whose holder died.
const ORPHANED: Duration = Duration::from_secs(5);

/// "rcnd", in the header of the file: how a restore and `file` tell it from other databases.
const APPLICATION: i64 = 0x7263_6e64;

/// A file that is locked until this is dropped. To close it would not do: a child that another thread forked meanwhile has it
/// open as well, until it becomes its own program.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(error = %error, "could not give back the lock on the state");
        }
    }
}

/// The lock on a state directory, held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: Locked,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub(super) fn take(dir: &Path) -> Result<Lock> {
        let path = dir.join(LOCK);
        let fail = || StoreError::file("open the lock", &path);
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(fail())?;
        let begin = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(fail()(error)),
            }
            let pid = noted(&mut file);
            // Of one that died, a child may have it that is not yet its own program.
            if !pid.is_some_and(has_ended) || begin.elapsed() > ORPHANED {
                return Err(StoreError::Locked { dir: dir.to_path_buf(), pid });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // The number only serves the message to a second instance, so a full disk must not keep us from locking.
        let note = |file: &mut File| -> io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        if let Err(error) = note(&mut file) {
            tracing::warn!(error = %error, "could not leave the process number in the lock file");
        }
        Ok(Lock { _file: Locked(file) })
    }
}

/// The number of the process that took a lock, where it left one.
fn noted(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.rewind().and_then(|()| lock.read_to_string(&mut text)).ok()?;
    text.trim().parse().ok()
}

/// True when there is no such process, as far as can be seen from here.
fn has_ended(pid: u32) -> bool {
    !Path::new("/proc").join(pid.to_string()).exists()
}

/// Who has a state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody.
    Nobody,
    /// A process; its number where it left one.
    Process(Option<u32>),
}

/// Says who has the state in `dir`. Takes nothing and makes nothing.
pub fn holder(dir: &Path) -> Result<Holder> {
    let path = dir.join(LOCK);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Holder::Nobody),
        Err(error) => return Err(StoreError::file("open the lock", &path)(error)),
    };
    match file.try_lock_shared() {
        Ok(()) => {
            drop(Locked(file));
            Ok(Holder::Nobody)
        }
        Err(TryLockError::WouldBlock) => Ok(Holder::Process(noted(&mut file))),
        Err(TryLockError::Error(error)) => Err(StoreError::file("look at the lock", &path)(error)),
    }
}

/// Makes the state directory, for its owner only; one that is there keeps its mode.
pub(super) fn make_dir(dir: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(StoreError::file("create", dir))
}

/// True where no database is yet, nor what one left.
pub(super) fn is_new(file: &Path) -> bool {
    let is_empty = |file: &Path| fs::metadata(file).map_or(true, |data| data.len() == 0);
    is_empty(file) && is_empty(&file.with_extension("db-wal"))
}

/// True where something is at `path`.
///
/// Errors: that cannot be told, as below a directory that this user may not enter: nobody takes that for nothing.
pub(super) fn is_there(path: &Path) -> Result<bool> {
    let Err(error) = fs::metadata(path) else { return Ok(true) };
    match error.kind() {
        ErrorKind::NotFound => Ok(false),
        ErrorKind::PermissionDenied => Err(StoreError::barred(path, error)),
        _ => Err(StoreError::file("look at", path)(error)),
    }
}

/// Makes an empty file for its owner only, where nothing is, and no link; SQLite gives the files beside it the same mode.
pub(super) fn make_file(path: &Path) -> Result<()> {
    new_file(path).map(drop).map_err(StoreError::file("create", path))
}

/// The same, and opens it.
pub(super) fn new_file(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// How long a connection waits for another one that writes.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Each connection keeps as many KiB of pages.
fn options(file: &Path, cache_kib: u32) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .pragma("trusted_schema", "OFF")
        .pragma("cell_size_check", "ON")
        .pragma("cache_size", format!("-{cache_kib}"))
        .statement_cache_capacity(200)
        .row_buffer_size(2048)
        .disable_statement_logging()
}

/// The connection that writes. FULL, not NORMAL: an intent must survive a power cut once it was reported durable.
pub(super) async fn connect(file: &Path) -> Result<SqliteConnection> {
    let options = options(file, WRITE_CACHE_KIB)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("journal_size_limit", (16 << 20).to_string())
        // What undoes a statement is written anew for each one, and is of no use to anybody after it.
        .pragma("temp_store", "MEMORY");
    options.connect().await.map_err(|error| StoreError::from(error).of(file))
}

/// Leaves the CHECK constraints of the schema to the types that say the same: they are a third of the time that a row takes.
///
/// For a connection on which the file was checked: what it is told then no check of it sees.
pub(super) async fn trust_types(conn: &mut SqliteConnection) -> Result<()> {
    sqlx::query("PRAGMA ignore_check_constraints = ON").execute(conn).await?;
    Ok(())
}

/// Of connections that read: what is not here the kernel has, and who goes through a table once fills whatever there is.
const READ_CACHE_KIB: u32 = 256;

/// Of the one that writes, half of what SQLite has by itself.
const WRITE_CACHE_KIB: u32 = 1024;

/// Connections that read, the one that did so, and what keeps the database as it is meanwhile where they need that.
pub(super) async fn read_pool(file: &Path) -> Result<(SqlitePool, PoolConnection<Sqlite>, Option<Still>)> {
    let pool = |options| {
        SqlitePoolOptions::new()
            .max_connections(2)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_with(options)
    };
    let named = |error: sqlx::Error| StoreError::from(error).of(file);
    // A connection says only with its first query that it cannot read.
    let read = async |options| -> Result<_> {
        let pool = pool(options).await.map_err(named)?;
        let mut conn = pool.acquire().await.map_err(named)?;
        let first = sqlx::query("PRAGMA user_version").execute(&mut *conn).await;
        first.map_err(named)?;
        Ok((pool, conn))
    };
    let failed = match read(options(file, READ_CACHE_KIB).read_only(true)).await {
        Ok((pool, conn)) => return Ok((pool, conn, None)),
        Err(error) => error,
    };
    let StoreError::Database { trouble: Trouble::CannotOpen | Trouble::ReadOnly | Trouble::Full, .. } =
        failed
    else {
        return Err(failed);
    };
    // Reading WAL needs a shared-memory file beside the database, which cannot be made on a file system that is full or
    // for reading only. A file that nobody changes can be read without.
    let Some(still) = Still::keep(file) else { return Err(failed) };
    let (pool, conn) = read(options(file, READ_CACHE_KIB).read_only(true).immutable(true)).await?;
    Ok((pool, conn, Some(still)))
}

/// Keeps whoever would write to a database from it, until dropped.
#[derive(Debug)]
pub(super) struct Still {
    _lock: Option<Locked>,
}

impl Still {
    /// None where somebody has it for writing, or where what was written last stands in a WAL, which is no part of the file.
    fn keep(file: &Path) -> Option<Still> {
        let lock = match File::open(file.with_file_name(LOCK)) {
            Ok(lock) => lock.try_lock_shared().ok().map(|()| Some(Locked(lock)))?,
            // A copy, to which nobody writes.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(_) => return None,
        };
        let mut wal = file.as_os_str().to_owned();
        wal.push("-wal");
        let is_whole = match fs::metadata(wal) {
            Ok(wal) => wal.len() == 0,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        is_whole.then_some(Still { _lock: lock })
    }
}

/// An empty database in memory, for reading verbs where there is no state yet.
pub(super) async fn empty_pool() -> Result<SqlitePool> {
    let options = SqliteConnectOptions::new().in_memory(true).disable_statement_logging();
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(options)
        .await?;
    let mut conn = pool.acquire().await?;
    make_schema(&mut conn).await.map_err(|source| StoreError::Migrate { file: PathBuf::new(), source })?;
    drop(conn);
    Ok(pool)
}

/// What kind of file a database is, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schema {
    /// Nothing in it.
    Empty,
    /// Ours, of this schema.
    Ours(i64),
}

/// Tells what a database is; one of another or a newer program is an error.
pub(super) async fn identify(conn: &mut SqliteConnection, file: &Path) -> Result<Schema> {
    let identify = async || -> Result<(i64, i64, i64)> {
        let application = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut *conn).await?;
        let schema = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *conn).await?;
        // The migrator's own table is made before the first migration.
        let tables =
            sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE tbl_name <> '_sqlx_migrations'")
                .fetch_one(&mut *conn)
                .await?;
        Ok((application, schema, tables))
    };
    let mut identify = identify;
    let (application, schema, tables) = identify().await.map_err(|error| error.of(file))?;
    match (application, schema, tables) {
        (0, 0, 0) => Ok(Schema::Empty),
        (APPLICATION, found, _) if found <= NEWEST => Ok(Schema::Ours(found)),
        (APPLICATION, found, _) => {
            Err(StoreError::NewerSchema { file: file.to_path_buf(), found, known: NEWEST })
        }
        _ => Err(StoreError::Foreign(file.to_path_buf())),
    }
}

/// Checks the file for damage.
pub(super) async fn check(conn: &mut SqliteConnection, file: &Path, pragma: &'static str) -> Result<()> {
    let found: String =
        sqlx::query_scalar(pragma).fetch_one(conn).await.map_err(|error| StoreError::from(error).of(file))?;
    if found == "ok" { Ok(()) } else { Err(StoreError::Damaged { file: file.to_path_buf(), what: found }) }
}

/// Makes the newest schema in an empty database.
async fn make_schema(conn: &mut SqliteConnection) -> Result<(), MigrateError> {
    let mut tx = conn.begin().await?;
    sqlx::raw_sql(SCHEMA).execute(&mut *tx).await?;
    MIGRATIONS.skip(&mut *tx, None).await?;
    Ok(tx.commit().await?)
}

/// Brings a database to the newest schema.
pub(super) async fn migrate(conn: &mut SqliteConnection, file: &Path, found: Schema) -> Result<()> {
    let migrated = match found {
        Schema::Empty => make_schema(conn).await,
        Schema::Ours(version) if version == NEWEST => return Ok(()),
        Schema::Ours(_) => MIGRATIONS.run(&mut *conn).await,
    };
    migrated.map_err(|source| match source {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            StoreError::from(error).of(file)
        }
        source => StoreError::Migrate { file: file.to_path_buf(), source },
    })
}

/// The key of this database: made with it, demanded as long as something is sealed with it.
pub(super) async fn seal_of(conn: &mut SqliteConnection, dir: &Path) -> Result<Seal> {
    let known: Option<String> = sqlx::query_scalar("SELECT value FROM meta WHERE key = 'seal_key'")
        .fetch_optional(&mut *conn)
        .await?;
    let seal = match (Seal::load(dir)?, &known) {
        (Some(seal), Some(known)) if seal.fingerprint().to_string() == *known => return Ok(seal),
        (Some(seal), None) => seal,
        (Some(_), Some(_)) if holds_sealed(conn).await? => {
            return Err(StoreError::SealKeyWrong(dir.join(KEY_FILE)));
        }
        (None, Some(_)) if holds_sealed(conn).await? => {
            return Err(StoreError::SealKeyMissing(dir.join(KEY_FILE)));
        }
        (Some(seal), Some(_)) => {
            tracing::warn!("the sealing key changed; marks of secrets change with it");
            seal
        }
        (None, known) => {
            if known.is_some() {
                tracing::warn!(
                    "the sealing key was lost; a new one is made, marks of secrets change with it"
                );
            }
            Seal::create(dir)?
        }
    };
    sqlx::query("INSERT OR REPLACE INTO meta (key, value) VALUES ('seal_key', ?1)")
        .bind(seal.fingerprint().to_string())
        .execute(conn)
        .await?;
    Ok(seal)
}

/// True when something in the database needs the key.
async fn holds_sealed(conn: &mut SqliteConnection) -> Result<bool> {
    Ok(sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM inventory WHERE private IS NOT NULL OR outputs IS NOT NULL)
             OR EXISTS (SELECT 1 FROM journal j, json_each(j.rows) r
                        WHERE j.rows IS NOT NULL AND coalesce(r.value ->> 'private', r.value ->> 'outputs') IS NOT NULL)",
    )
    .fetch_one(conn)
    .await?)
}

/// Remembers that not all that was made is known: see [`reconciled_engine::plan::guard::recovering`].
pub(super) async fn set_recovering(conn: &mut SqliteConnection) -> Result<()> {
    sqlx::query("INSERT OR REPLACE INTO meta (key, value) VALUES ('recovering', 'yes')")
        .execute(conn)
        .await?;
    Ok(())
}

/// Makes this process the writer: every transaction of an earlier one fails from now on.
pub(super) async fn raise_epoch(conn: &mut SqliteConnection, clock: &dyn Clock) -> Result<u64> {
    let epoch: i64 = sqlx::query_scalar(
        "UPDATE epoch SET epoch = epoch + 1, opened_at = ?1, pid = ?2, program = ?3 RETURNING epoch",
    )
    .bind(ms(clock.now()))
    .bind(std::process::id())
    .bind(env!("CARGO_PKG_VERSION"))
    .fetch_one(conn)
    .await?;
    Ok(epoch as u64)
}

/// The epoch in the database.
pub(super) async fn epoch(conn: &mut SqliteConnection) -> Result<u64> {
    let epoch: i64 = sqlx::query_scalar("SELECT epoch FROM epoch").fetch_one(conn).await?;
    Ok(epoch as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_dropped_is_free_though_a_forked_child_has_the_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        let _in_child = lock._file.0.try_clone().unwrap();
        assert!(matches!(Lock::take(dir.path()), Err(StoreError::Locked { .. })));
        drop(lock);
        Lock::take(dir.path()).unwrap();
    }

    #[test]
    fn a_lock_of_one_that_died_is_waited_for_until_its_child_is_another_program() {
        let dir = tempfile::tempdir().unwrap();
        let mut died = std::process::Command::new("true").spawn().unwrap();
        died.wait().unwrap();
        let path = dir.path().join(LOCK);
        fs::write(&path, format!("{}\n", died.id())).unwrap();
        let in_child = File::open(&path).unwrap();
        in_child.lock().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(Lock::take(dir.path()).map(drop)).unwrap());
            assert!(receiver.recv_timeout(Duration::from_millis(100)).is_err(), "somebody has it still");
            drop(in_child);
            receiver.recv().unwrap().unwrap();
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
    }
}
