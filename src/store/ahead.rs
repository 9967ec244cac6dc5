//! Rows that a commit may bring soon are put into a transaction that waits for it, while the remote carries out what they are of.
//!
//! Guarantees: nobody sees anything of them before that commit, nor after another one; whoever comes with anything else finds
//! the writer as if they had never been; the transaction stays open for [`HELD`] at most, unless the process stands still. What
//! goes wrong here goes wrong again at the commit, which tells it. Of several large ones at once only one is ahead, and the work
//! for those that are given up is done twice.

use super::{
    error::Result,
    kept::Touched,
    open::BUSY_TIMEOUT,
    write::{self, Tx},
    writer::{Commit, Message, Writer},
};
use crate::failpoint;
use reconciled_engine::{Row, Write};
use sqlx::AssertSqlSafe;
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

/// How long a transaction stays open for a commit that does not come.
const HELD: Duration = Duration::from_secs(2);

/// Has the connection wait for others as it was opened to.
static BUSY: LazyLock<String> =
    LazyLock::new(|| format!("PRAGMA busy_timeout = {}", BUSY_TIMEOUT.as_millis()));

/// Rows that the transaction which is open has.
#[derive(Debug)]
pub(super) struct Ahead {
    rows: Arc<Vec<Row>>,
    touched: Vec<Touched>,
    /// The write that they are, of the only commit of its group.
    write: usize,
    /// They are waited for until then.
    until: Instant,
}

impl Ahead {
    /// Which of these writes they are; nothing before it is about rows.
    fn find(&self, writes: &[Write]) -> Option<usize> {
        let at = writes.iter().position(|write| !matches!(write, Write::End(_)))?;
        matches!(&writes[at], Write::Rows(rows) if Arc::ptr_eq(rows, &self.rows) || *rows == self.rows)
            .then_some(at)
    }

    /// What they touched, and the write that is done.
    pub(super) fn into_done(self, touched: &mut Vec<Touched>) -> usize {
        touched.extend(self.touched.into_iter().map(|one| Touched { write: self.write, ..one }));
        self.write
    }
}

impl Writer {
    /// The next message. A transaction that waits for its commit does not do so for ever.
    pub(super) async fn next(&mut self) -> Option<Message> {
        if let Some(ahead) = &self.ahead {
            match timeout_at(ahead.until, self.queue.recv()).await {
                Ok(message) => return message,
                Err(_) => self.abandon().await,
            }
        }
        self.queue.recv().await
    }

    /// Puts rows into a transaction that is not committed, unless they are few or somebody comes meanwhile.
    pub(super) async fn foresee(&mut self, rows: Arc<Vec<Row>>) {
        self.abandon().await;
        let until = Instant::now() + HELD;
        match self.try_foresee(&rows, until).await {
            Ok(Some(touched)) => self.ahead = Some(Ahead { rows, touched, write: 0, until }),
            Ok(None) => self.roll_back().await,
            Err(error) => {
                tracing::debug!(%error, rows = rows.len(), "rows were not put ahead of their commit");
                self.roll_back().await;
            }
        }
    }

    async fn try_foresee(&mut self, rows: &[Row], until: Instant) -> Result<Option<Vec<Touched>>> {
        // Nothing is waited for that somebody else has.
        sqlx::query("PRAGMA busy_timeout = 0").execute(&mut self.conn).await?;
        let begun = self.begin(true).await;
        sqlx::query(AssertSqlSafe(BUSY.as_str())).execute(&mut self.conn).await?;
        begun?;
        let queue = &self.queue;
        let are_wanted = || queue.is_empty() && Instant::now() < until;
        let mut tx = Tx::new(&mut self.conn, &self.seal, self.epoch, self.clock.now());
        if !write::rows(&mut tx, &rows.iter().collect::<Vec<_>>(), &are_wanted).await? {
            return Ok(None);
        }
        failpoint::hit("store.foreseen");
        // Of which write is told once it comes.
        Ok(Some(tx.take_touched(0, 0)))
    }

    /// Has the transaction that waits go on as that of `group` where it is the commit that it waits for.
    pub(super) async fn abandon_unless_of(&mut self, group: &[Commit]) {
        let Some(ahead) = &mut self.ahead else { return };
        let found = match group {
            [commit] => ahead.find(&commit.writes),
            _ => None,
        };
        match found {
            Some(write) => ahead.write = write,
            None => self.abandon().await,
        }
    }

    /// Gives the transaction up that waits for its commit.
    pub(super) async fn abandon(&mut self) {
        if self.ahead.take().is_some() {
            self.roll_back().await;
        }
    }

    async fn roll_back(&mut self) {
        // Fails when SQLite has rolled back already, which is as good.
        let _ = sqlx::query("ROLLBACK").execute(&mut self.conn).await;
        self.checkpoint(false).await;
    }
}
