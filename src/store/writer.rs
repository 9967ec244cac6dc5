//! The one task that writes. It owns the write connection and the lock on the state directory.
//!
//! Guarantees: commits that arrive while a transaction runs share the next one (one fsync for all of them);
//! each is atomic on its own and fails on its own; the answer comes after `COMMIT`. A lone caller never waits
//! for company. Every transaction checks that this process is still the writer: a process that was frozen
//! while another took over wakes up to `Conflict`, whatever the lock file says.

use super::{
    ahead::{self, Ahead},
    error::{Result, StoreError},
    export,
    kept::{Kept, Touched},
    message::{Commit, Message},
    named::Rename,
    notice::Notice,
    notification,
    open::Lock,
    rename,
    seal::Seal,
    together::{self, Together},
    transaction::{self, Tx},
    write,
};
use crate::failpoint;
use reconciled_engine::{Row, Write};
use reconciled_provider::Clock;
use sqlx::{Connection as _, SqliteConnection};
use std::{mem, path::PathBuf, slice, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout_at};

/// Commits per transaction at most.
const GROUP: usize = 256;

/// A transaction that touches more rows is answered before SQLite folds it into the database, which takes as long again.
pub(super) const LARGE: usize = 500;

/// Rows that commits which share their statements touch at most: all of them are in memory twice then.
const TOGETHER: usize = 5_000;

pub(super) struct Writer {
    pub(super) conn: SqliteConnection,
    pub(super) seal: Arc<Seal>,
    pub(super) epoch: u64,
    pub(super) file: PathBuf,
    pub(super) queue: mpsc::Receiver<Message>,
    /// Held exactly as long as the connection.
    pub(super) lock: Option<Lock>,
    pub(super) kept: Arc<Kept>,
    /// What the transaction under way has touched.
    pub(super) touched: Vec<Touched>,
    /// How many rows marks have spared it.
    pub(super) spared: usize,
    /// Rows that are in a transaction already, of a commit that may come.
    pub(super) ahead: Option<Ahead>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Writer {
    /// Serves the queue until it is told to close or nobody can ask any more.
    pub(super) async fn run(mut self) {
        let mut is_open = true;
        while is_open && let Some(message) = self.next().await {
            let mut group = Vec::new();
            let mut next = Some(message);
            while let Some(message) = next {
                if !matches!(message, Message::Commit(_) | Message::Foresee(_)) {
                    self.abandon().await;
                }
                match message {
                    Message::Commit(commit) => group.push(commit),
                    // Whoever waits for an answer comes first.
                    Message::Foresee(rows) if group.is_empty() && self.queue.is_empty() => {
                        self.foresee(rows).await;
                    }
                    Message::Foresee(_) => {}
                    Message::Recovered(reply) => {
                        let answer = self.recovered().await.map_err(|error| error.of(&self.file).into());
                        // The asker may have gone; that changes nothing.
                        let _ = reply.send(answer);
                    }
                    Message::Exported(until, reply) => {
                        let answer = self.exported(&until).await.map_err(|error| error.of(&self.file).into());
                        let _ = reply.send(answer);
                    }
                    Message::Trim(cutoff, reply) => {
                        let answer = self.trim(cutoff).await.map_err(|error| error.of(&self.file).into());
                        let _ = reply.send(answer);
                    }
                    Message::Note(notices, reply) => {
                        let answer = self.note(&notices).await.map_err(|error| error.of(&self.file).into());
                        let _ = reply.send(answer);
                    }
                    Message::Rename(list, reply) => {
                        let answer = self.rename(&list).await.map_err(|error| error.of(&self.file).into());
                        let _ = reply.send(answer);
                    }
                    Message::Close => is_open = false,
                }
                next = if is_open && group.len() < GROUP { self.queue.try_recv().ok() } else { None };
            }
            self.serve(group).await;
        }
        self.abandon().await;
        if let Err(error) = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut self.conn).await {
            tracing::warn!(error = %error, "checkpoint at close failed");
        }
        if let Err(error) = self.conn.close().await {
            tracing::warn!(error = %error, "closing the database failed");
        }
        drop(self.lock);
    }

    /// The next message. A transaction that waits for its commit does not do so for ever.
    pub(super) async fn next(&mut self) -> Option<Message> {
        if let Some(ahead) = &self.ahead {
            match timeout_at(ahead.until(), self.queue.recv()).await {
                Ok(message) => return message,
                Err(_) => self.abandon().await,
            }
        }
        self.queue.recv().await
    }

    /// Puts rows into a transaction that is not committed, unless somebody comes meanwhile.
    pub(super) async fn foresee(&mut self, rows: Arc<Vec<Row>>) {
        self.abandon().await;
        self.forget();
        let (queue, clock) = (&self.queue, &*self.clock);
        let is_alone = || queue.is_empty();
        self.ahead = ahead::foresee(&mut self.conn, &self.seal, self.epoch, clock, rows, &is_alone).await;
    }

    /// Has the transaction that waits go on as that of `group` where it is the commit that it waits for.
    async fn abandon_unless_of(&mut self, group: &[Commit]) {
        let is_of = |ahead: &mut Ahead| matches!(group, [commit] if ahead.is_of(&commit.writes));
        if !self.ahead.as_mut().is_some_and(is_of) {
            self.abandon().await;
        }
    }

    /// Gives the transaction up that waits for its commit.
    async fn abandon(&mut self) {
        if self.ahead.take().is_some() {
            transaction::roll_back(&mut self.conn).await;
        }
    }

    pub(super) async fn serve(&mut self, mut group: Vec<Commit>) {
        if group.is_empty() {
            return;
        }
        self.abandon_unless_of(&group).await;
        let rows = size(&group);
        let answers = match self.transact(&mut group).await {
            Ok(answers) => answers,
            Err(error) if group.len() == 1 => vec![Err(error)],
            // SQLite gave up the whole transaction (a full disk does that): whoever is at fault, the others
            // get a transaction of their own.
            Err(_) => {
                let mut answers = Vec::new();
                for commit in &mut group {
                    let one = self.transact(slice::from_mut(commit)).await;
                    answers.push(one.and_then(|mut one| one.remove(0)));
                }
                answers
            }
        };
        for (commit, answer) in group.into_iter().zip(answers) {
            // The asker may have gone; what is committed stays committed.
            let _ = commit.reply.send(answer.map_err(|error| error.of(&self.file).into()));
        }
        // Meanwhile the remote does its part.
        if rows > LARGE {
            transaction::checkpoint(&mut self.conn, rows.saturating_sub(self.spared) > LARGE).await;
        }
    }

    /// Runs one transaction. `Err`: nothing of it holds. Else rows that were written are kept, and gone from the group.
    async fn transact(&mut self, group: &mut [Commit]) -> Result<Vec<Result<()>>> {
        if group.len() > 1 {
            // As a rule all of them can be had, and need no way back for each.
            match self.try_transact(group, false).await {
                Ok(answers) => return Ok(answers),
                Err(error) => {
                    tracing::debug!(%error, commits = group.len(), "one of several commits failed; each goes by itself");
                    drop(sqlx::query("ROLLBACK").execute(&mut self.conn).await);
                }
            }
        }
        match self.try_transact(group, true).await {
            Ok(answers) => Ok(answers),
            Err(error) => {
                // Fails when SQLite has rolled back already, which is as good.
                let _ = sqlx::query("ROLLBACK").execute(&mut self.conn).await;
                Err(error)
            }
        }
    }

    /// `apart`: a commit that fails takes none of the others with it.
    async fn try_transact(&mut self, group: &mut [Commit], apart: bool) -> Result<Vec<Result<()>>> {
        let ahead = self.ahead.take();
        if ahead.is_none() {
            self.begin(size(group) > LARGE).await?;
        }
        let done = ahead.map(|ahead| ahead.into_done(&mut self.touched));
        let commits: Vec<&[Write]> = group.iter().map(|commit| &commit.writes[..]).collect();
        let is_small = size(group) <= TOGETHER;
        let together = if apart || !is_small { None } else { together::together(&commits) };
        let mut answers = Vec::with_capacity(group.len());
        if let Some(together) = &together {
            self.apply_together(together).await?;
            answers.extend(group.iter().map(|_| Ok(())));
        }
        for (number, Commit { writes, .. }) in group.iter().enumerate().filter(|_| together.is_none()) {
            if !apart || group.len() == 1 {
                self.apply(number, writes, done).await?;
                answers.push(Ok(()));
                continue;
            }
            sqlx::query("SAVEPOINT one").execute(&mut self.conn).await?;
            let answer = self.apply(number, writes, None).await;
            if let Err(error) = &answer {
                self.touched.retain(|touched| touched.commit != number);
                if sqlx::query("ROLLBACK TO one").execute(&mut self.conn).await.is_err() {
                    return Err(StoreError::Unreadable(error.to_string()));
                }
            }
            sqlx::query("RELEASE one").execute(&mut self.conn).await?;
            answers.push(answer);
        }
        hit(group, "before");
        sqlx::query("COMMIT").execute(&mut self.conn).await?;
        hit(group, "after");
        // Each write comes to its end at once; rows of one scope are written by one commit of those that are taken together.
        self.touched.sort_by_key(|touched| (touched.commit, touched.write));
        let mut touched = self.touched.drain(..).peekable();
        while let Some(one) = touched.next() {
            let write = &mut group[one.commit].writes[one.write];
            // Rows of several scopes may be one write.
            let is_last =
                touched.peek().is_none_or(|next| (next.commit, next.write) != (one.commit, one.write));
            let write =
                if is_last { mem::replace(write, Write::Rows(Arc::default())) } else { write.clone() };
            self.kept.follow(&one, write);
        }
        Ok(answers)
    }

    /// Begins a transaction.
    async fn begin(&mut self, is_large: bool) -> Result<()> {
        self.forget();
        transaction::begin(&mut self.conn, self.epoch, is_large).await
    }

    /// What comes next has touched nothing yet.
    fn forget(&mut self) {
        self.touched.clear();
        self.spared = 0;
    }

    async fn trim(&mut self, cutoff: Duration) -> Result<u64> {
        let trimmed = self.try_trim(cutoff).await;
        if trimmed.is_err() {
            let _ = sqlx::query("ROLLBACK").execute(&mut self.conn).await;
        }
        trimmed
    }

    async fn try_trim(&mut self, cutoff: Duration) -> Result<u64> {
        transaction::begin(&mut self.conn, self.epoch, false).await?;
        let gone = export::trim(&mut self.conn, cutoff).await?;
        sqlx::query("COMMIT").execute(&mut self.conn).await?;
        Ok(gone)
    }

    async fn note(&mut self, notices: &[Notice]) -> Result<()> {
        let noted = self.try_note(notices).await;
        if noted.is_err() {
            let _ = sqlx::query("ROLLBACK").execute(&mut self.conn).await;
        }
        noted
    }

    async fn try_note(&mut self, notices: &[Notice]) -> Result<()> {
        transaction::begin(&mut self.conn, self.epoch, false).await?;
        for notice in notices {
            notification::apply(&mut self.conn, notice).await?;
        }
        sqlx::query("COMMIT").execute(&mut self.conn).await?;
        Ok(())
    }

    async fn rename(&mut self, list: &[Rename]) -> Result<()> {
        let renamed = self.try_rename(list).await;
        if renamed.is_err() {
            let _ = sqlx::query("ROLLBACK").execute(&mut self.conn).await;
        }
        renamed
    }

    async fn try_rename(&mut self, list: &[Rename]) -> Result<()> {
        transaction::begin(&mut self.conn, self.epoch, false).await?;
        rename::apply(&mut self.conn, &self.seal, list, self.clock.now()).await?;
        failpoint::hit("store.rename.before");
        sqlx::query("COMMIT").execute(&mut self.conn).await?;
        failpoint::hit("store.rename.after");
        Ok(())
    }

    async fn recovered(&mut self) -> Result<()> {
        transaction::check_epoch(&mut self.conn, self.epoch).await?;
        sqlx::query("DELETE FROM meta WHERE key = 'recovering'").execute(&mut self.conn).await?;
        Ok(())
    }

    async fn exported(&mut self, until: &str) -> Result<()> {
        transaction::check_epoch(&mut self.conn, self.epoch).await?;
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
        sqlx::query(sql).bind(export::UNTIL).bind(until).execute(&mut self.conn).await?;
        Ok(())
    }

    /// `done`: the write that the transaction has already.
    async fn apply(&mut self, commit: usize, writes: &[Write], done: Option<usize>) -> Result<()> {
        let mut tx = Tx::new(&mut self.conn, &self.seal, self.epoch, self.clock.now());
        tx.kept = Some(&self.kept);
        for (index, write) in writes.iter().enumerate() {
            if index > 0 {
                failpoint::hit("store.group.middle");
            }
            if done == Some(index) {
                continue;
            }
            write::apply(&mut tx, write).await?;
            self.touched.extend(tx.take_touched(commit, index));
        }
        self.spared += tx.spared;
        Ok(())
    }
}

impl Writer {
    /// As [`Writer::apply`], of commits that are taken together.
    async fn apply_together(&mut self, all: &[Together<'_>]) -> Result<()> {
        for (index, writes) in all.iter().enumerate() {
            if index > 0 {
                failpoint::hit("store.group.middle");
            }
            let mut tx = Tx::new(&mut self.conn, &self.seal, self.epoch, self.clock.now());
            tx.kept = Some(&self.kept);
            together::apply(&mut tx, writes).await?;
            let Tx { touched, begun, spared, .. } = tx;
            self.spared += spared;
            if touched.is_empty() {
                continue;
            }
            let by_scope = together::by_scope(writes);
            self.touched.extend(touched.into_iter().filter_map(|(scope, stamp)| {
                let (commit, write) = *by_scope.get(&scope)?;
                let is_begun = begun.contains(&scope);
                Some(Touched { commit, write, scope, stamp, is_begun })
            }));
        }
        Ok(())
    }
}

/// About how many rows these commits touch.
fn size(group: &[Commit]) -> usize {
    let size = |write: &Write| match write {
        Write::Start { intents, .. } => intents.len(),
        Write::End(endings) => endings.len(),
        Write::Rows(rows) => rows.len(),
        Write::Gone(_, ids) | Write::Settled(_, ids) => ids.len(),
        _ => 1,
    };
    group.iter().flat_map(|commit| &commit.writes).map(size).sum()
}

/// The failpoints around `COMMIT`, by what is committed.
fn hit(group: &[Commit], moment: &'static str) {
    if failpoint::armed().is_none() {
        return;
    }
    for write in group.iter().flat_map(|commit| &commit.writes) {
        match (write, moment) {
            (Write::Start { .. }, "before") => failpoint::hit("store.start.before"),
            (Write::Start { .. }, _) => failpoint::hit("store.start.after"),
            (Write::End(_), "before") => failpoint::hit("store.end.before"),
            (Write::End(_), _) => failpoint::hit("store.end.after"),
            (Write::Rows(_), "before") => failpoint::hit("store.rows.before"),
            (Write::Rows(_), _) => failpoint::hit("store.rows.after"),
            (Write::InForce { .. }, "before") => failpoint::hit("store.force.before"),
            (Write::InForce { .. }, _) => failpoint::hit("store.force.after"),
            (Write::Approve(_), "before") => failpoint::hit("store.approve.before"),
            (Write::Approve(_), _) => failpoint::hit("store.approve.after"),
            (Write::Event(_), "before") => failpoint::hit("store.event.before"),
            (Write::Event(_), _) => failpoint::hit("store.event.after"),
            _ => {}
        }
    }
}
