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
mod approval;
mod backup;
mod begun;
mod blame;
mod claim;
mod counts;
mod db;
mod drift;
mod entry;
mod error;
mod events;
pub mod export;
mod health;
mod history;
mod intent;
mod inventory;
mod journal;
mod kept;
mod memory;
mod message;
mod migrations;
mod named;
mod notice;
mod notification;
mod open;
mod pin;
mod place;
mod read;
mod reader;
mod rename;
mod rows;
mod seal;
mod suspension;
mod together;
mod transaction;
mod write;
mod writer;

#[cfg(test)]
mod tests;

pub use backup::{Init, Restored, restore};
pub use claim::with_claim;
pub use db::Db;
pub use entry::{
    ApprovalEntry, Approvals, ConditionEntry, DegradedEntry, DriftEntry, EventEntry, EventFilter, FieldEntry,
    HistoryEntry, HistoryFilter, HoldEntry, PinEntry, SHARES, ScopeStatus, SourceStatus, Stamp, Status,
    SuspensionEntry, TrackedEntry, TrackedHere, UNANSWERED, UnassignedEntry, UnassignedManifest,
};
pub use error::{StoreError, Trouble};
pub use events::{Broken, Verification};
pub use export::Exported;
pub use health::{Part, Parts, PartsByName};
pub use named::{Named, Rename};
pub use notice::{Notice, Posted, StatusRow, TroubleKey, TroubleRow};
pub use open::{DATABASE, Holder, holder};
pub use reader::Reader;
pub use seal::{KEY_FILE, Seal};

use async_trait::async_trait;
use error::Result;
use kept::Kept;
use message::{Commit, Message, QUEUE};
use open::{Lock, Schema};
use reconciled_engine::{
    Pin, Row, Store, Suspension, Write,
    store::{Approval, Begun, Converged, Hold, KnownVersion, Revision, ScopeMemory},
};
use reconciled_provider::{Clock, Error, Hash, ManifestKey, Scope};
use sqlx::{Connection as _, SqliteConnection};
use std::{
    collections::BTreeMap,
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
        backup::migrate(&mut conn, &file, schema).await?;
        // Tests have them checked.
        if !cfg!(debug_assertions) {
            open::trust_types(&mut conn).await.map_err(named)?;
        }
        let begin = conn.begin_with("BEGIN IMMEDIATE").await;
        let mut tx = begin.map_err(|error| named(error.into()))?;
        let seal = Arc::new(open::seal_of(&mut tx, dir).await.map_err(named)?);
        write::sweep_claims(&mut tx).await.map_err(named)?;
        inventory::stamp_all(&mut tx).await.map_err(named)?;
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
        let (pool, ..) = open::read_pool(file).await?;
        let (sender, queue) = mpsc::channel(QUEUE);
        let tasks = TaskTracker::new();
        let kept = Arc::<Kept>::default();
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
}

/// Runs a read and names the database in its error.
macro_rules! read {
    ($reader:expr, conn, $conn:ident => $read:expr) => {{
        let mut $conn = $reader.conn().await?;
        let read = $read.await;
        reader::give_back($conn).await;
        read.map_err(|error| error.of(&$reader.file).into())
    }};
    ($reader:expr, snapshot, $tx:ident => $read:expr) => {{
        let mut $tx = $reader.snapshot().await?;
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
        task.spawn(async move {
            read!(reader, snapshot, tx => memory::all(&mut tx, reader.seal.as_deref(), &reader.kept))
        });
        match task.join_next().await {
            Some(Ok(memories)) => memories,
            Some(Err(stopped)) if stopped.is_panic() => std::panic::resume_unwind(stopped.into_panic()),
            _ => Err(StoreError::Closed.into()),
        }
    }
    async fn versions(&self) -> Result<BTreeMap<Scope, KnownVersion>, Error> {
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
        read!(self, conn, conn => approval::valid(&mut conn, digest, self.clock.now()))
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
        let commit = Message::Commit(Commit { writes, reply });
        self.queue.send(commit).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
    fn foresee(&self, rows: Arc<Vec<Row>>) {
        if rows.len() > writer::LARGE {
            // Where many wait for the writer it has no time for that.
            let _ = self.queue.try_send(Message::Foresee(rows));
        }
    }
    async fn scope(&self, scope: &Scope) -> Result<ScopeMemory, Error> {
        self.reader.scope(scope).await
    }
    async fn all(&self) -> Result<BTreeMap<Scope, ScopeMemory>, Error> {
        self.reader.all().await
    }
    async fn versions(&self) -> Result<BTreeMap<Scope, KnownVersion>, Error> {
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
