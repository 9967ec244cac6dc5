//! Rows that a commit may bring soon are put into a transaction that waits for it, while the remote carries out what they are of.
//! Who gives that up is the writer.
//!
//! Guarantees: nobody sees anything of them before that commit, nor after another one; whoever comes with anything else finds
//! the writer as if they had never been; the transaction stays open for [`HELD`] at most, unless the process stands still. What
//! goes wrong here goes wrong again at the commit, which tells it. Of several large ones at once only one is ahead, and the work
//! for those that are given up is done twice.

use super::{
    error::Result,
    inventory::Wanted,
    kept::Touched,
    open::BUSY_TIMEOUT,
    seal::Seal,
    transaction::{self, Tx},
    write,
};
use crate::failpoint;
use reconciled_engine::{Row, Write};
use reconciled_provider::Clock;
use sqlx::{AssertSqlSafe, SqliteConnection};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::time::Instant;

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
    /// Until when they are waited for.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// True where they wait for the commit that has these writes; then they are the one of them that is found here.
    pub(super) fn is_of(&mut self, writes: &[Write]) -> bool {
        let found = self.find(writes);
        self.write = found.unwrap_or(self.write);
        found.is_some()
    }

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

/// Puts rows into a transaction that is not committed, unless somebody comes meanwhile: `is_alone` says whether nobody has.
pub(super) async fn foresee(
    conn: &mut SqliteConnection,
    seal: &Seal,
    epoch: u64,
    clock: &dyn Clock,
    rows: Arc<Vec<Row>>,
    is_alone: Wanted<'_>,
) -> Option<Ahead> {
    let until = Instant::now() + HELD;
    let are_wanted = || is_alone() && Instant::now() < until;
    match try_foresee(conn, seal, epoch, clock, &rows, &are_wanted).await {
        Ok(Some(touched)) => return Some(Ahead { rows, touched, write: 0, until }),
        Ok(None) => {}
        Err(error) => {
            tracing::debug!(%error, rows = rows.len(), "rows were not put ahead of their commit");
        }
    }
    transaction::roll_back(conn).await;
    None
}

async fn try_foresee(
    conn: &mut SqliteConnection,
    seal: &Seal,
    epoch: u64,
    clock: &dyn Clock,
    rows: &[Row],
    are_wanted: Wanted<'_>,
) -> Result<Option<Vec<Touched>>> {
    // Nothing is waited for that somebody else has.
    sqlx::query("PRAGMA busy_timeout = 0").execute(&mut *conn).await?;
    let begun = transaction::begin(conn, epoch, true).await;
    sqlx::query(AssertSqlSafe(BUSY.as_str())).execute(&mut *conn).await?;
    begun?;
    let mut tx = Tx::new(conn, seal, epoch, clock.now());
    if !write::rows(&mut tx, &rows.iter().collect::<Vec<_>>(), are_wanted).await? {
        return Ok(None);
    }
    failpoint::hit("store.foreseen");
    // Of which write is told once it comes.
    Ok(Some(tx.take_touched(0, 0)))
}
