//! The state, opened for reading: connections and what they need. What is asked on them is in the files of the answers.
//!
//! Guarantees: nothing is created or migrated, and every error names the database.

use super::{
    error::{Result, StoreError},
    kept::Kept,
    migrations::NEWEST,
    open::{self, DATABASE, Schema, Still},
    seal::Seal,
};
use reconciled_provider::Clock;
use sqlx::{Sqlite, SqlitePool, Transaction, pool::PoolConnection};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The state, opened for reading.
#[derive(Clone)]
pub struct Reader {
    pub(super) pool: SqlitePool,
    pub(super) seal: Option<Arc<Seal>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) epoch: u64,
    pub(super) file: PathBuf,
    pub(super) kept: Arc<Kept>,
    pub(super) _still: Option<Arc<Still>>,
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
        let (pool, mut conn, still) = open::read_pool(&file).await?;
        match open::identify(&mut conn, &file).await? {
            Schema::Empty => return Err(StoreError::NotThere(dir.to_path_buf())),
            Schema::Ours(found) if found < NEWEST => {
                return Err(StoreError::OlderSchema { file, found, known: NEWEST });
            }
            Schema::Ours(_) => {}
        }
        let epoch = open::epoch(&mut conn).await.map_err(|error| error.of(&file))?;
        give_back(conn).await;
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

    /// True after `state init --recover`, until [`Db::recovered`](super::Db::recovered).
    pub async fn is_recovering(&self) -> Result<bool> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'recovering')");
        found.fetch_one(&mut *conn).await.map_err(|error| StoreError::from(error).of(&self.file))
    }

    pub(super) async fn conn(&self) -> Result<PoolConnection<Sqlite>> {
        self.pool.acquire().await.map_err(|error| self.error(error))
    }

    /// One consistent snapshot for several reads.
    pub(super) async fn snapshot(&self) -> Result<Transaction<'static, Sqlite>> {
        self.pool.begin().await.map_err(|error| self.error(error))
    }

    pub(super) fn error(&self, error: sqlx::Error) -> StoreError {
        match error {
            sqlx::Error::PoolClosed => StoreError::Closed,
            error => StoreError::from(error).of(&self.file),
        }
    }
}

/// Gives a connection back now. Of one that is dropped a task of sqlx does that a moment later, and whoever asks for one in
/// between has another one opened.
pub(super) async fn give_back(mut conn: PoolConnection<Sqlite>) {
    conn.return_to_pool().await;
}
