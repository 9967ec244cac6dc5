//! What persons consented to, by the digest of a plan: rows written and read.
//!
//! Guarantees: a consent counts for [`APPROVAL_LIFE`] at most, and once. It deliberately knows no plan: whether one is what was
//! consented to is the engine's word.

use super::{
    error::{Result, StoreError},
    rows::{at, hash, ms},
};
use reconciled_engine::store::Approval;
use reconciled_provider::Hash;
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection, sqlite::SqliteRow};
use std::time::Duration;

/// How long a consent may wait to be used.
pub(super) const APPROVAL_LIFE: Duration = Duration::from_hours(24);

/// Consents given at this time or before have expired; may be negative on a clock near the epoch.
pub(super) fn oldest_valid(now: Duration) -> i64 {
    ms(now) - ms(APPROVAL_LIFE)
}

/// Each consent stands beside those before it, so that the first one counts as long as it lasts, and the next one after that.
/// One that is no later than one that was used says nothing new.
pub(super) async fn put(conn: &mut SqliteConnection, approval: &Approval) -> Result<()> {
    sqlx::query(
        "INSERT INTO approval (digest, reason, actor, at, used_at) SELECT ?1, ?2, ?3, ?4, ?5
         WHERE NOT EXISTS (SELECT 1 FROM approval WHERE digest = ?1 AND used_at IS NOT NULL AND at >= ?4)
         ON CONFLICT (digest, at) DO NOTHING",
    )
    .bind(&approval.digest.0[..])
    .bind(approval.reason.clone())
    .bind(approval.actor.clone())
    .bind(ms(approval.at))
    .bind(approval.used_at.map(ms))
    .execute(conn)
    .await?;
    Ok(())
}

/// Uses the first consent that counts. With it go the others: a plan that comes again after this takes a new word.
pub(super) async fn spend(conn: &mut SqliteConnection, digest: Hash, now: Duration) -> Result<()> {
    let used = sqlx::query(
        "UPDATE approval SET used_at = ?2 WHERE digest = ?1 AND at =
             (SELECT min(at) FROM approval WHERE digest = ?1 AND used_at IS NULL AND at > ?3)",
    )
    .bind(&digest.0[..])
    .bind(ms(now))
    .bind(oldest_valid(now))
    .execute(&mut *conn)
    .await?
    .rows_affected();
    if used != 1 {
        return Err(StoreError::NotApproved(digest));
    }
    sqlx::query("DELETE FROM approval WHERE digest = ?1 AND used_at IS NULL")
        .bind(&digest.0[..])
        .execute(conn)
        .await?;
    Ok(())
}

/// Approvals, each as [`get`] reads it.
pub(super) const SELECT: &str = "SELECT digest, reason, actor, at, used_at FROM approval";

/// Reads one row of [`SELECT`], or of what begins with the same columns.
pub(super) fn get(row: &SqliteRow) -> Result<Approval> {
    Ok(Approval {
        digest: hash(row.try_get(0)?)?,
        reason: row.try_get::<&str, _>(1)?.into(),
        actor: row.try_get::<&str, _>(2)?.into(),
        at: at(row.try_get(3)?),
        used_at: row.try_get::<Option<i64>, _>(4)?.map(at),
    })
}

/// The first approval of `digest` that can still be used.
pub(super) async fn valid(
    conn: &mut SqliteConnection,
    digest: Hash,
    now: Duration,
) -> Result<Option<Approval>> {
    let sql = format!("{SELECT} WHERE digest = ?1 AND used_at IS NULL AND at > ?2 ORDER BY at LIMIT 1");
    let found = sqlx::query(AssertSqlSafe(sql))
        .bind(&digest.0[..])
        .bind(oldest_valid(now))
        .fetch_optional(conn)
        .await?;
    found.as_ref().map(get).transpose()
}
