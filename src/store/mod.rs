//! The state of an instance in one SQLite file: the only module that names a table.
//!
//! [`Db`] is the writer: one per state directory, fenced by a lock and an epoch. [`Reader`] only reads, beside
//! a running writer too, and never creates or migrates anything. Both are the engine's [`Store`]; `Reader`
//! also answers the questions of the command line.
//!
//! Files in the state directory: `state.db` (and SQLite's `-wal`, `-shm`), `lock`, `seal.key`. Times are kept
//! to the millisecond. Secrets never reach the database in clear: specs hold marks, and what providers keep
//! is sealed with a key that lies outside ([`Seal`]).

mod ahead;
mod backup;
mod begun;
mod blame;
mod claim;
mod counts;
mod drift;
mod entry;
mod error;
mod events;
pub mod export;
mod health;
mod history;
mod inventory;
mod journal;
mod kept;
mod memory;
mod migrations;
mod notification;
mod open;
mod pin;
mod place;
mod read;
mod rename;
mod rows;
mod seal;
mod suspension;
mod together;
mod write;
mod writer;

#[cfg(test)]
mod tests;

pub use backup::{Restored, restore};
pub use claim::with_claim;
pub use drift::FieldEntry;
pub use entry::{
    ApprovalEntry, Approvals, ConditionEntry, DegradedEntry, DriftEntry, EventEntry, EventFilter,
    HistoryEntry, HistoryFilter, HoldEntry, PinEntry, SHARES, ScopeStatus, SourceStatus, Stamp, Status,
    SuspensionEntry, TrackedEntry, UNANSWERED, UnassignedEntry, UnassignedManifest,
};
pub use error::{StoreError, Trouble};
pub use events::{Broken, Verification};
pub use export::Exported;
pub use health::{Part, Parts, PartsByName};
pub use notification::{Notice, Posted, StatusRow, TroubleKey, TroubleRow};
pub use open::{DATABASE, Holder, holder};
pub use rename::{Named, Rename};
pub use seal::{KEY_FILE, Seal};
pub use write::APPROVAL_LIFE;

use async_trait::async_trait;
use error::Result;
use open::{Lock, Schema};
use reconciled_engine::{
    Pin, Row, Store, Suspension, Write,
    store::{Approval, Begun, Converged, Hold, KnownVersion, Revision, ScopeMemory},
};
use reconciled_provider::{Clock, Error, Hash, ManifestKey, Scope};
use sqlx::{Connection as _, Sqlite, SqliteConnection, SqlitePool, pool::PoolConnection};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};
use tokio_util::task::TaskTracker;

/// How to open the state for writing.
#[derive(Clone)]
pub struct OpenOptions {
    /// Make directory, database and key where they are missing.
    pub create: bool,
    /// The clock, for the life of approvals.
    pub clock: Arc<dyn Clock>,
}

/// What [`init`] does where there is a state already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Init {
    /// It is an error.
    New,
    /// The old database is put aside, and the new one remembers that it is a recovery.
    Recover,
}

/// Makes a new state. With [`Init::Recover`] an old database moves to `state.db.lost-TIME`; returns where it went.
pub async fn init(dir: &Path, how: Init, clock: Arc<dyn Clock>) -> Result<Option<PathBuf>> {
    let (db, aside) = make(dir, how, clock).await?;
    db.close().await;
    Ok(aside)
}

/// As [`init`], and stays its writer.
pub async fn make(dir: &Path, how: Init, clock: Arc<dyn Clock>) -> Result<(Db, Option<PathBuf>)> {
    open::make_dir(dir)?;
    let lock = Lock::take(dir)?;
    let file = dir.join(DATABASE);
    let is_there = open::is_there(&file)?;
    let aside = match how {
        Init::New if is_there => return Err(StoreError::AlreadyThere(dir.to_path_buf())),
        // A recovery that was killed may have left a WAL alone.
        Init::Recover if is_there || !open::is_new(&file) => backup::put_aside(dir, clock.now())?,
        _ => None,
    };
    let db = Db::open_locked(dir, &OpenOptions { create: true, clock }, Some(lock), how).await?;
    Ok((db, aside))
}

/// The state, opened for writing.
pub struct Db {
    queue: mpsc::Sender<writer::Message>,
    tasks: TaskTracker,
    reader: Reader,
    seal: Arc<Seal>,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({}, epoch {})", self.reader.file.display(), self.reader.epoch)
    }
}

impl Db {
    /// Opens the state in `dir` as its only writer.
    ///
    /// Errors: `Locked` when another process has it, `NotThere` without `create`, and what [`StoreError`] tells
    /// of damage, foreign or newer files, and missing rights or space.
    pub async fn open_writer(dir: &Path, options: OpenOptions) -> Result<Db> {
        if options.create {
            open::make_dir(dir)?;
        } else if !open::is_there(&dir.join(DATABASE))? {
            return Err(StoreError::NotThere(dir.to_path_buf()));
        }
        let lock = Lock::take(dir)?;
        Db::open_locked(dir, &options, Some(lock), Init::New).await
    }

    async fn open_locked(dir: &Path, options: &OpenOptions, lock: Option<Lock>, how: Init) -> Result<Db> {
        let file = dir.join(DATABASE);
        if options.create && open::is_new(&file) {
            backup::make(&file, how).await?;
        }
        let named = |error: StoreError| error.of(&file);
        let mut conn = open::connect(&file).await?;
        open::check(&mut conn, &file, "PRAGMA quick_check(1)").await?;
        let schema = open::identify(&mut conn, &file).await?;
        if schema == Schema::Empty && !options.create {
            return Err(StoreError::NotThere(dir.to_path_buf()));
        }
        open::migrate(&mut conn, &file, schema).await?;
        // Tests have them checked.
        if !cfg!(debug_assertions) {
            open::trust_types(&mut conn).await.map_err(named)?;
        }
        let begin = conn.begin_with("BEGIN IMMEDIATE").await;
        let mut tx = begin.map_err(|error| named(error.into()))?;
        let seal = Arc::new(open::seal_of(&mut tx, dir).await.map_err(named)?);
        write::sweep_claims(&mut tx).await.map_err(named)?;
        let epoch = open::raise_epoch(&mut tx, &*options.clock).await.map_err(named)?;
        tx.commit().await.map_err(|error| named(error.into()))?;
        Db::begin(conn, seal, epoch, &file, options, lock).await
    }

    /// Starts the writer on a connection that is ready.
    async fn begin(
        conn: SqliteConnection,
        seal: Arc<Seal>,
        epoch: u64,
        file: &Path,
        options: &OpenOptions,
        lock: Option<Lock>,
    ) -> Result<Db> {
        let (pool, _) = open::read_pool(file).await?;
        let (sender, queue) = mpsc::channel(writer::QUEUE);
        let tasks = TaskTracker::new();
        let kept = Arc::<kept::Kept>::default();
        let writer = writer::Writer {
            conn,
            seal: seal.clone(),
            epoch,
            file: file.to_path_buf(),
            queue,
            lock,
            kept: kept.clone(),
            touched: Vec::new(),
            spared: 0,
            ahead: None,
            clock: options.clock.clone(),
        };
        tasks.spawn(writer.run());
        tasks.close();
        let clock = options.clock.clone();
        let file = file.to_path_buf();
        let reader = Reader { pool, seal: Some(seal.clone()), clock, epoch, file, kept, _still: None };
        Ok(Db { queue: sender, tasks, reader, seal })
    }

    /// The reading side.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Keeps rows of the scopes that were read last in memory, at most so many.
    pub fn keep_rows(&self, most: usize) {
        self.reader.kept.keep(most);
    }

    /// The keys of this installation.
    pub fn seal(&self) -> &Arc<Seal> {
        &self.seal
    }

    /// Ends the recovery that `state init --recover` began.
    pub async fn recovered(&self) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(writer::Message::Recovered(reply)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Writes what is queued, folds the WAL into the database and lets go of the lock. Later commits fail.
    pub async fn close(&self) {
        self.reader.pool.close().await;
        // An error means that the writer has ended already.
        let _ = self.queue.send(writer::Message::Close).await;
        self.tasks.wait().await;
    }
}

/// The state, opened for reading.
#[derive(Clone)]
pub struct Reader {
    pool: SqlitePool,
    seal: Option<Arc<Seal>>,
    clock: Arc<dyn Clock>,
    epoch: u64,
    file: PathBuf,
    kept: Arc<kept::Kept>,
    _still: Option<Arc<open::Still>>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({})", self.file.display())
    }
}

impl Reader {
    /// Opens the state in `dir` for reading, beside a running writer too. Changes nothing on disk but SQLite's
    /// shared-memory file. Where that cannot be made, the database is read as it is, and no writer begins meanwhile.
    ///
    /// Errors: `NotThere` without a database, `Barred` where this user may not look, `OlderSchema` and `NewerSchema` when it is not of this program.
    pub async fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<Reader> {
        let file = dir.join(DATABASE);
        if !open::is_there(&file)? {
            return Err(StoreError::NotThere(dir.to_path_buf()));
        }
        let (pool, still) = open::read_pool(&file).await?;
        let mut conn = pool.acquire().await.map_err(|error| StoreError::from(error).of(&file))?;
        match open::identify(&mut conn, &file).await? {
            Schema::Empty => return Err(StoreError::NotThere(dir.to_path_buf())),
            Schema::Ours(found) if found < open::newest_schema() => {
                return Err(StoreError::OlderSchema { file, found, known: open::newest_schema() });
            }
            Schema::Ours(_) => {}
        }
        let epoch = open::epoch(&mut conn).await.map_err(|error| error.of(&file))?;
        drop(conn);
        let seal = Seal::load(dir)?.map(Arc::new);
        let _still = still.map(Arc::new);
        Ok(Reader { pool, seal, clock, epoch, file, kept: Arc::default(), _still })
    }

    /// Reads the whole file and looks for damage.
    ///
    /// Errors: `Damaged`, and what SQLite cannot read.
    pub async fn quick_check(&self) -> Result<()> {
        let mut conn = self.conn().await?;
        open::check(&mut conn, &self.file, "PRAGMA quick_check(1)").await
    }

    /// A state in which nothing was ever written, for planning where there is none yet.
    pub async fn empty(clock: Arc<dyn Clock>) -> Result<Reader> {
        let pool = open::empty_pool().await?;
        let (file, kept) = (PathBuf::from(":memory:"), Arc::default());
        Ok(Reader { pool, seal: None, clock, epoch: 0, file, kept, _still: None })
    }

    /// The installation's key, where it could be read.
    pub fn seal(&self) -> Option<&Arc<Seal>> {
        self.seal.as_ref()
    }

    /// True after `state init --recover`, until [`Db::recovered`].
    pub async fn is_recovering(&self) -> Result<bool> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'recovering')");
        found.fetch_one(&mut *conn).await.map_err(|error| StoreError::from(error).of(&self.file))
    }

    async fn conn(&self) -> Result<PoolConnection<Sqlite>> {
        self.pool.acquire().await.map_err(|error| self.error(error))
    }

    /// One consistent snapshot for several reads.
    async fn snapshot(&self) -> Result<sqlx::Transaction<'static, Sqlite>> {
        self.pool.begin().await.map_err(|error| self.error(error))
    }

    fn error(&self, error: sqlx::Error) -> StoreError {
        match error {
            sqlx::Error::PoolClosed => StoreError::Closed,
            error => StoreError::from(error).of(&self.file),
        }
    }
}

/// Runs a read and names the database in its error.
macro_rules! read {
    ($reader:expr, $connection:ident, $conn:ident => $read:expr) => {{
        let mut $conn = $reader.$connection().await?;
        $read.await.map_err(|error| error.of(&$reader.file).into())
    }};
}

#[async_trait]
impl Store for Reader {
    fn epoch(&self) -> u64 {
        self.epoch
    }
    async fn commit(&self, writes: Vec<Write>) -> Result<(), Error> {
        if writes.is_empty() { Ok(()) } else { Err(StoreError::ReadOnly.into()) }
    }
    async fn scope(&self, scope: &Scope) -> Result<ScopeMemory, Error> {
        read!(self, snapshot, tx => memory::one(&mut tx, self.seal.as_deref(), &self.kept, scope))
    }
    async fn all(&self) -> Result<BTreeMap<Scope, ScopeMemory>, Error> {
        // In a task of its own, which ends with this one: whoever asks remotes meanwhile must not wait for rows to be unpacked.
        let reader = self.clone();
        let mut task = JoinSet::new();
        task.spawn(
            async move { read!(reader, snapshot, tx => memory::all(&mut tx, reader.seal.as_deref())) },
        );
        match task.join_next().await {
            Some(Ok(memories)) => memories,
            Some(Err(stopped)) if stopped.is_panic() => std::panic::resume_unwind(stopped.into_panic()),
            _ => Err(StoreError::Closed.into()),
        }
    }
    async fn versions(&self) -> Result<Vec<(Scope, KnownVersion)>, Error> {
        read!(self, conn, conn => memory::all_versions(&mut conn))
    }
    async fn converged(&self, source: &str) -> Result<Option<Converged>, Error> {
        read!(self, conn, conn => memory::converged(&mut conn, source))
    }
    async fn rows_with_outputs(&self, manifest: &ManifestKey) -> Result<Vec<Row>, Error> {
        read!(self, conn, conn => memory::rows_with_outputs(&mut conn, self.seal.as_deref(), manifest))
    }
    async fn is_settled(&self, manifest: &ManifestKey) -> Result<bool, Error> {
        read!(self, conn, conn => memory::is_settled(&mut conn, manifest))
    }
    async fn dependants(&self, manifest: &ManifestKey) -> Result<Vec<Row>, Error> {
        read!(self, conn, conn => memory::dependants(&mut conn, self.seal.as_deref(), manifest))
    }
    async fn generations(&self, source: &str) -> Result<Vec<(ManifestKey, u64)>, Error> {
        read!(self, conn, conn => memory::generations(&mut conn, source))
    }
    async fn contents(&self, source: &str) -> Result<Vec<(ManifestKey, Hash)>, Error> {
        read!(self, conn, conn => memory::contents(&mut conn, source))
    }
    async fn in_force(&self, source: &str) -> Result<Option<Revision>, Error> {
        read!(self, conn, conn => memory::in_force(&mut conn, source))
    }
    async fn holds(&self) -> Result<Vec<Hold>, Error> {
        read!(self, conn, conn => memory::holds(&mut conn))
    }
    async fn suspensions(&self) -> Result<Vec<Suspension>, Error> {
        read!(self, conn, conn => suspension::all(&mut conn))
    }
    async fn pins(&self) -> Result<Vec<Pin>, Error> {
        read!(self, conn, conn => pin::all(&mut conn))
    }
    async fn approval(&self, digest: Hash) -> Result<Option<Approval>, Error> {
        read!(self, conn, conn => memory::approval(&mut conn, digest, self.clock.now()))
    }
    async fn begun(&self) -> Result<Vec<Begun>, Error> {
        read!(self, conn, conn => begun::all(&mut conn, self.clock.now()))
    }
    async fn is_recovering(&self) -> Result<bool, Error> {
        Ok(Reader::is_recovering(self).await?)
    }
}

#[async_trait]
impl Store for Db {
    fn epoch(&self) -> u64 {
        self.reader.epoch
    }
    async fn commit(&self, writes: Vec<Write>) -> Result<(), Error> {
        if writes.is_empty() {
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        let commit = writer::Message::Commit(writer::Commit { writes, reply });
        self.queue.send(commit).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
    fn foresee(&self, rows: Arc<Vec<Row>>) {
        if rows.len() > writer::LARGE {
            // Where many wait for the writer it has no time for that.
            let _ = self.queue.try_send(writer::Message::Foresee(rows));
        }
    }
    async fn scope(&self, scope: &Scope) -> Result<ScopeMemory, Error> {
        self.reader.scope(scope).await
    }
    async fn all(&self) -> Result<BTreeMap<Scope, ScopeMemory>, Error> {
        self.reader.all().await
    }
    async fn versions(&self) -> Result<Vec<(Scope, KnownVersion)>, Error> {
        self.reader.versions().await
    }
    async fn converged(&self, source: &str) -> Result<Option<Converged>, Error> {
        self.reader.converged(source).await
    }
    async fn rows_with_outputs(&self, manifest: &ManifestKey) -> Result<Vec<Row>, Error> {
        self.reader.rows_with_outputs(manifest).await
    }
    async fn is_settled(&self, manifest: &ManifestKey) -> Result<bool, Error> {
        self.reader.is_settled(manifest).await
    }
    async fn dependants(&self, manifest: &ManifestKey) -> Result<Vec<Row>, Error> {
        self.reader.dependants(manifest).await
    }
    async fn generations(&self, source: &str) -> Result<Vec<(ManifestKey, u64)>, Error> {
        self.reader.generations(source).await
    }
    async fn contents(&self, source: &str) -> Result<Vec<(ManifestKey, Hash)>, Error> {
        self.reader.contents(source).await
    }
    async fn in_force(&self, source: &str) -> Result<Option<Revision>, Error> {
        self.reader.in_force(source).await
    }
    async fn holds(&self) -> Result<Vec<Hold>, Error> {
        self.reader.holds().await
    }
    async fn suspensions(&self) -> Result<Vec<Suspension>, Error> {
        self.reader.suspensions().await
    }
    async fn pins(&self) -> Result<Vec<Pin>, Error> {
        self.reader.pins().await
    }
    async fn approval(&self, digest: Hash) -> Result<Option<Approval>, Error> {
        self.reader.approval(digest).await
    }
    async fn begun(&self) -> Result<Vec<Begun>, Error> {
        self.reader.begun().await
    }
    async fn is_recovering(&self) -> Result<bool, Error> {
        Store::is_recovering(&self.reader).await
    }
}
