//! Transactions of the connection that writes: how they begin and end, and what a write may touch in one.
//!
//! Guarantee: each begins with a look whether this process is still the writer.

use super::{
    error::{Result, StoreError},
    inventory::{self, Settled, Stamp},
    kept::{Kept, Touched},
    seal::Seal,
};
use reconciled_provider::{ResourceId, Scope};
use sqlx::SqliteConnection;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

/// Begins a transaction, as that of the writer with the epoch `mine`. What a large one leaves in the WAL stays there until
/// [`checkpoint`].
pub(super) async fn begin(conn: &mut SqliteConnection, mine: u64, is_large: bool) -> Result<()> {
    if is_large {
        sqlx::query("PRAGMA wal_autocheckpoint = 0").execute(&mut *conn).await?;
    }
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *conn).await?;
    check_epoch(conn, mine).await
}

/// Errors: another process became the writer.
pub(super) async fn check_epoch(conn: &mut SqliteConnection, mine: u64) -> Result<()> {
    let now: i64 = sqlx::query_scalar("SELECT epoch FROM epoch").fetch_one(conn).await?;
    let now = now as u64;
    if mine == now { Ok(()) } else { Err(StoreError::Superseded { mine, now }) }
}

/// Moves what is in the WAL into the database: nobody waits for it but the next commit. Where there is little it is
/// left for later.
pub(super) async fn checkpoint(conn: &mut SqliteConnection, is_due: bool) {
    let due = is_due.then_some("PRAGMA wal_checkpoint(PASSIVE)");
    for sql in due.into_iter().chain(["PRAGMA wal_autocheckpoint = 1000"]) {
        if let Err(error) = sqlx::query(sql).execute(&mut *conn).await {
            tracing::warn!(error = %error, "a checkpoint failed, and is tried again with a later commit");
        }
    }
}

/// Gives up the transaction that is open.
pub(super) async fn roll_back(conn: &mut SqliteConnection) {
    // Fails when SQLite has rolled back already, which is as good.
    let _ = sqlx::query("ROLLBACK").execute(&mut *conn).await;
    checkpoint(conn, false).await;
}

/// What a write may touch.
pub(super) struct Tx<'a> {
    pub(super) conn: &'a mut SqliteConnection,
    pub(super) seal: &'a Seal,
    pub(super) epoch: u64,
    pub(super) now: Duration,
    /// Scopes whose rows were changed, with their new stamps.
    pub(super) touched: Vec<(Scope, i64)>,
    /// Of those, the ones that had no rows before this and have these alone now.
    pub(super) begun: BTreeSet<Scope>,
    /// As [`inventory::MARKED`], which tests vary.
    pub(super) marked: usize,
    /// How many rows a mark spared.
    pub(super) spared: usize,
    /// What is kept of rows, for who would read many.
    pub(super) kept: Option<&'a Kept>,
}

impl<'a> Tx<'a> {
    /// Nothing is written yet.
    pub(super) fn new(conn: &'a mut SqliteConnection, seal: &'a Seal, epoch: u64, now: Duration) -> Tx<'a> {
        let (touched, begun) = (Vec::new(), BTreeSet::new());
        Tx { conn, seal, epoch, now, touched, begun, marked: inventory::MARKED, spared: 0, kept: None }
    }

    /// What `write` of `commit` touched, after which nothing is touched yet.
    pub(super) fn take_touched(&mut self, commit: usize, write: usize) -> Vec<Touched> {
        let begun = mem::take(&mut self.begun);
        let touched = mem::take(&mut self.touched).into_iter().map(|(scope, stamp)| {
            let is_begun = begun.contains(&scope);
            Touched { commit, write, scope, stamp, is_begun }
        });
        touched.collect()
    }

    /// Gives the rows of these scopes a new stamp.
    pub(super) async fn touch<'s>(&mut self, scopes: &[&'s Scope]) -> Result<BTreeMap<&'s Scope, Stamp>> {
        let stamps = inventory::touch(self.conn, scopes).await?;
        let stamps: BTreeMap<_, _> = scopes.iter().copied().zip(stamps).collect();
        self.touched.extend(stamps.iter().map(|(scope, stamp)| ((*scope).clone(), stamp.number)));
        Ok(stamps)
    }

    /// True when that changed what is known of any of these.
    pub(super) async fn settle(&mut self, scope: &Scope, ids: &[ResourceId]) -> Result<bool> {
        let settled = inventory::settle(self.conn, self.kept, (scope, ids), self.marked, self.now).await?;
        self.spared += if settled == Settled::Marked { ids.len() } else { 0 };
        Ok(settled != Settled::Before)
    }
}
