//! What receivers of notifications and forges are told: its rows, written and read.
//!
//! Guarantees: what was decided together is durable together, so a message is in the outbox exactly when the
//! ledger says that its receiver was told. It deliberately knows no receiver: who is told of what is decided elsewhere.

use super::{
    db::Db,
    entry::UnassignedManifest,
    error::{Result, StoreError},
    message::Message,
    notice::{Notice, Posted, StatusRow, TroubleKey, TroubleRow},
    reader::Reader,
    rows::{self, at, ms, parse_json},
};
use reconciled_provider::Error;
use sqlx::{Row as _, SqliteConnection};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Messages that may wait for one receiver; more drop the oldest.
const WAITING: i64 = 500;
/// Commits of a source whose status is remembered.
const COMMITS: i64 = 20;

/// Where what manifests are for elsewhere is kept, as one list.
const ELSEWHERE: &str = "elsewhere";

impl Db {
    /// Makes all of `notices` durable, or none.
    pub async fn note(&self, notices: Vec<Notice>) -> std::result::Result<(), Error> {
        if notices.is_empty() {
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        let message = Message::Note(notices, reply);
        self.queue.send(message).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

/// Carries out one notice.
pub(super) async fn apply(conn: &mut SqliteConnection, notice: &Notice) -> Result<()> {
    match notice {
        Notice::Trouble(row) => {
            sqlx::query(
                "INSERT INTO trouble (subject, topic, reason, body, seen_at, gone_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (subject, topic, reason) DO UPDATE SET body = ?4, seen_at = ?5, gone_at = ?6",
            )
            .bind(row.key.subject.clone())
            .bind(row.key.topic.clone())
            .bind(row.key.reason.clone())
            .bind(&row.body)
            .bind(ms(row.seen_at))
            .bind(row.gone_at.map(ms))
            .execute(conn)
            .await?;
        }
        Notice::Over(key) => {
            for sql in [
                "DELETE FROM announcement WHERE subject = ?1 AND topic = ?2 AND reason = ?3",
                "DELETE FROM trouble WHERE subject = ?1 AND topic = ?2 AND reason = ?3",
            ] {
                let query = sqlx::query(sql).bind(key.subject.clone()).bind(key.topic.clone());
                query.bind(key.reason.clone()).execute(&mut *conn).await?;
            }
        }
        Notice::Told(receiver, key, when) => {
            sqlx::query("INSERT OR REPLACE INTO announcement VALUES (?1, ?2, ?3, ?4, ?5)")
                .bind(receiver.clone())
                .bind(key.subject.clone())
                .bind(key.topic.clone())
                .bind(key.reason.clone())
                .bind(ms(*when))
                .execute(conn)
                .await?;
        }
        Notice::Untold(receiver, key) => {
            sqlx::query(
                "DELETE FROM announcement WHERE receiver = ?1 AND subject = ?2 AND topic = ?3 AND reason = ?4",
            )
            .bind(receiver.clone())
            .bind(key.subject.clone())
            .bind(key.topic.clone())
            .bind(key.reason.clone())
            .execute(conn)
            .await?;
        }
        Notice::Post(receiver, message, when) => {
            sqlx::query(
                "INSERT INTO outbox (receiver, message, created_at, next_try) VALUES (?1, ?2, ?3, ?3)",
            )
            .bind(receiver.clone())
            .bind(message)
            .bind(ms(*when))
            .execute(&mut *conn)
            .await?;
            sqlx::query(
                "DELETE FROM outbox WHERE number IN
                     (SELECT number FROM outbox WHERE receiver = ?1 ORDER BY number DESC LIMIT -1 OFFSET ?2)",
            )
            .bind(receiver.clone())
            .bind(WAITING)
            .execute(conn)
            .await?;
        }
        Notice::Delivered(number) => {
            sqlx::query("DELETE FROM outbox WHERE number = ?1").bind(number).execute(conn).await?;
        }
        Notice::Again(number, next) => {
            sqlx::query("UPDATE outbox SET attempts = attempts + 1, next_try = ?2 WHERE number = ?1")
                .bind(number)
                .bind(ms(*next))
                .execute(conn)
                .await?;
        }
        Notice::Receivers(names) => {
            let names = rows::json(&names.iter().map(|name| &**name).collect::<Vec<&str>>());
            for sql in [
                "DELETE FROM announcement WHERE receiver NOT IN (SELECT value FROM json_each(?1))",
                "DELETE FROM outbox WHERE receiver NOT IN (SELECT value FROM json_each(?1))",
            ] {
                sqlx::query(sql).bind(&names).execute(&mut *conn).await?;
            }
        }
        Notice::Status(row) => status(conn, row).await?,
        Notice::UnassignedManifests(list) => {
            sqlx::query("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")
                .bind(ELSEWHERE)
                .bind(rows::json(list))
                .execute(conn)
                .await?;
        }
    }
    Ok(())
}

/// What manifests are for that is not configured here.
pub(super) async fn elsewhere(conn: &mut SqliteConnection) -> Result<Vec<UnassignedManifest>> {
    let list: Option<String> = sqlx::query_scalar("SELECT value FROM meta WHERE key = ?1")
        .bind(ELSEWHERE)
        .fetch_optional(conn)
        .await?;
    list.map_or_else(|| Ok(Vec::new()), |list| parse_json(&list))
}

async fn status(conn: &mut SqliteConnection, row: &StatusRow) -> Result<()> {
    sqlx::query(
        "INSERT INTO commit_status (source, commit_id, state, description, decided_at, delivered)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (source, commit_id) DO UPDATE
         SET state = ?3, description = ?4, decided_at = ?5, delivered = ?6",
    )
    .bind(row.source.clone())
    .bind(row.commit.clone())
    .bind(row.state.clone())
    .bind(row.description.clone())
    .bind(ms(row.decided_at))
    .bind(row.is_delivered)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "DELETE FROM commit_status WHERE source = ?1 AND commit_id IN
             (SELECT commit_id FROM commit_status WHERE source = ?1 ORDER BY decided_at DESC LIMIT -1 OFFSET ?2)",
    )
    .bind(row.source.clone())
    .bind(COMMITS)
    .execute(conn)
    .await?;
    Ok(())
}

impl Reader {
    /// Every trouble that is remembered.
    pub async fn troubles(&self) -> Result<Vec<TroubleRow>> {
        let mut tx = self.snapshot().await?;
        troubles(&mut tx).await.map_err(|error| error.of(&self.file))
    }

    /// The message that a receiver is told next, if any waits.
    pub async fn next_message(&self, receiver: &str) -> Result<Option<Posted>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query(
            "SELECT number, message, created_at, attempts, next_try FROM outbox
             WHERE receiver = ?1 ORDER BY number LIMIT 1",
        )
        .bind(receiver)
        .fetch_optional(&mut *conn)
        .await
        .map_err(|error| self.error(error))?;
        let posted = |row: sqlx::sqlite::SqliteRow| -> Result<Posted> {
            Ok(Posted {
                number: row.try_get(0)?,
                message: row.try_get(1)?,
                created_at: at(row.try_get(2)?),
                attempts: row.try_get::<i64, _>(3)? as u32,
                next_try: at(row.try_get(4)?),
            })
        };
        found.map(posted).transpose()
    }

    /// What forges were told or are to be told of the commits of a source, the newest first.
    pub async fn statuses(&self, source: &str) -> Result<Vec<StatusRow>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query(
            "SELECT commit_id, state, description, decided_at, delivered FROM commit_status
             WHERE source = ?1 ORDER BY decided_at DESC, commit_id",
        )
        .bind(source)
        .fetch_all(&mut *conn)
        .await
        .map_err(|error| self.error(error))?;
        let row = |row: &sqlx::sqlite::SqliteRow| -> Result<StatusRow> {
            Ok(StatusRow {
                source: source.into(),
                commit: row.try_get::<String, _>(0)?.into(),
                state: row.try_get::<String, _>(1)?.into(),
                description: row.try_get::<String, _>(2)?.into(),
                decided_at: at(row.try_get(3)?),
                is_delivered: row.try_get(4)?,
            })
        };
        found.iter().map(row).collect()
    }
}

async fn troubles(conn: &mut SqliteConnection) -> Result<Vec<TroubleRow>> {
    let found = sqlx::query(
        "SELECT subject, topic, reason, body, seen_at, gone_at FROM trouble ORDER BY subject, topic, reason",
    )
    .fetch_all(&mut *conn)
    .await?;
    let text = |row: &sqlx::sqlite::SqliteRow, index: usize| -> Result<Arc<str>> {
        Ok(row.try_get::<String, _>(index)?.into())
    };
    let mut all = Vec::with_capacity(found.len());
    for row in &found {
        all.push(TroubleRow {
            key: TroubleKey { subject: text(row, 0)?, topic: text(row, 1)?, reason: text(row, 2)? },
            body: row.try_get(3)?,
            seen_at: at(row.try_get(4)?),
            gone_at: row.try_get::<Option<i64>, _>(5)?.map(at),
            told: Vec::new(),
        });
    }
    let told =
        sqlx::query("SELECT subject, topic, reason, receiver, at FROM announcement").fetch_all(conn).await?;
    for row in &told {
        let key = TroubleKey { subject: text(row, 0)?, topic: text(row, 1)?, reason: text(row, 2)? };
        if let Ok(index) = all.binary_search_by(|trouble| trouble.key.cmp(&key)) {
            all[index].told.push((text(row, 3)?, at(row.try_get(4)?)));
        }
    }
    Ok(all)
}
