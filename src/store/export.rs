//! The audit trail outside of the state: lines that hold together without it, and a shorter trail inside.
//!
//! Each line has all that its hash is made of, so files can be checked by themselves; where they begin after the first
//! event, their first line is taken as given, and whether more followed they cannot show.

use super::{
    db::Db,
    drift,
    error::{Result, StoreError},
    events::{self, Broken, Verification, from_hex},
    message::Message,
    reader::Reader,
    rows::{at, ms},
};
use data_encoding::HEXLOWER;
use reconciled_provider::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection, sqlite::SqliteRow};
use std::{io::BufRead, path::Path, time::Duration};
use tokio::sync::oneshot;

/// Up to which event the trail was exported, and into which file.
pub(super) const UNTIL: &str = "exported_until";

/// One event as a line of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exported {
    /// Its number.
    pub number: i64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// `revision`, `create`, `hold`, …
    pub kind: String,
    /// `PROVIDER/NAME`, if a scope is concerned.
    pub scope: Option<String>,
    /// The address, if one is concerned.
    pub address: Option<String>,
    /// Revision label.
    pub revision: String,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// One line for people.
    pub message: String,
    /// Hash over the hash of the line before and this one.
    pub hash: String,
}

impl Exported {
    fn of(row: &SqliteRow) -> Result<Exported> {
        Ok(Exported {
            number: row.try_get(0)?,
            at: row.try_get(1)?,
            kind: row.try_get(2)?,
            scope: row.try_get(3)?,
            address: row.try_get(4)?,
            revision: row.try_get(5)?,
            actor: row.try_get(6)?,
            reason: row.try_get(7)?,
            message: row.try_get(8)?,
            hash: HEXLOWER.encode(&row.try_get::<Vec<u8>, _>(9)?),
        })
    }

    fn link(&self, before: &[u8]) -> String {
        let (scope, address) = (self.scope.as_deref(), self.address.as_deref());
        let row = (
            self.number,
            self.at,
            self.kind.as_str(),
            scope,
            address,
            self.revision.as_str(),
            self.actor.as_str(),
            self.reason.as_str(),
            self.message.as_str(),
        );
        HEXLOWER.encode(&events::link(before, &row))
    }
}

impl Reader {
    /// At most `limit` events after the one with number `after`, the oldest first.
    pub async fn exported(&self, after: i64, limit: i64) -> Result<Vec<Exported>> {
        let mut conn = self.conn().await?;
        let sql = format!("{} WHERE number > ?1 ORDER BY number LIMIT ?2", events::SELECT);
        let found = sqlx::query(AssertSqlSafe(sql)).bind(after).bind(limit).fetch_all(&mut *conn).await;
        let found = found.map_err(|error| self.error(error))?;
        found.iter().map(Exported::of).collect()
    }

    /// When the last event was, since the epoch.
    pub async fn newest_event(&self) -> Result<Option<Duration>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_scalar("SELECT at FROM event ORDER BY number DESC LIMIT 1");
        let found: Option<i64> = found.fetch_optional(&mut *conn).await.map_err(|error| self.error(error))?;
        Ok(found.map(at))
    }

    /// The last event that `file` was given; none where another file was, or none was ever.
    pub async fn exported_until(&self, file: &Path) -> Result<Option<i64>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_scalar("SELECT value FROM meta WHERE key = ?1").bind(UNTIL);
        let found: Option<String> =
            found.fetch_optional(&mut *conn).await.map_err(|error| self.error(error))?;
        let noted = found.as_deref().and_then(|value| value.split_once(' '));
        Ok(noted.filter(|(_, of)| *of == file.display().to_string()).and_then(|(last, _)| last.parse().ok()))
    }

    /// True when the event is in the trail as it was exported, or the trail begins after it.
    pub async fn continues(&self, last: &Exported) -> Result<bool> {
        let found = self.exported(last.number - 1, 1).await?;
        Ok(found.first().is_some_and(|now| now == last || now.number > last.number))
    }
}

impl Db {
    /// Remembers the last event that `file` was given.
    pub async fn note_exported(&self, file: &Path, last: i64) -> std::result::Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        let message = Message::Exported(format!("{last} {}", file.display()), reply);
        self.queue.send(message).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Takes events from before `cutoff` out of the trail, and what the journal and the drift ledger have of that time; what is left still
    /// holds together. Returns how many events went.
    pub async fn trim_events(&self, cutoff: Duration) -> std::result::Result<u64, Error> {
        let (reply, answer) = oneshot::channel();
        let message = Message::Trim(cutoff, reply);
        self.queue.send(message).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

/// Removes the oldest events up to `cutoff`, and remembers the hash that the rest begins from. The last event
/// stays: the next one is chained to it.
pub(super) async fn trim(conn: &mut SqliteConnection, cutoff: Duration) -> Result<u64> {
    let last: Option<(i64, Vec<u8>)> = sqlx::query_as(
        "SELECT number, hash FROM event WHERE number < (SELECT max(number) FROM event)
             AND number < coalesce((SELECT min(number) FROM event WHERE at >= ?1), 9223372036854775807)
         ORDER BY number DESC LIMIT 1",
    )
    .bind(ms(cutoff))
    .fetch_optional(&mut *conn)
    .await?;
    drift::trim(conn, cutoff).await?;
    // What was done, with its intents; what has no answer is a question still.
    sqlx::query("DELETE FROM journal WHERE ended = total AND started_at < ?1")
        .bind(ms(cutoff))
        .execute(&mut *conn)
        .await?;
    let Some((number, hash)) = last else { return Ok(0) };
    sqlx::query("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")
        .bind(events::BEGIN)
        .bind(format!("{number} {}", HEXLOWER.encode(&hash)))
        .execute(&mut *conn)
        .await?;
    let gone = sqlx::query("DELETE FROM event WHERE number <= ?1").bind(number).execute(&mut *conn).await?;
    Ok(gone.rows_affected())
}

/// A check of an export by itself, which may lie in several files, the oldest first.
#[derive(Default)]
pub struct Chain {
    found: Verification,
    before: Option<Exported>,
}

impl Chain {
    /// Checks what is in one file, behind what was in those before it.
    ///
    /// Errors: a line cannot be read or is no event.
    pub fn read(&mut self, lines: impl BufRead) -> std::result::Result<(), String> {
        for (index, line) in lines.lines().enumerate() {
            if self.found.broken.is_some() {
                break;
            }
            let line = line.map_err(|error| format!("line {}: {error}", index + 1))?;
            let event: Exported = serde_json::from_str(&line)
                .map_err(|error| format!("line {} is no event: {error}", index + 1))?;
            if let Some(why) = self.fault(&event, &line) {
                self.found.broken = Some(Broken { number: event.number, why: why.into() });
                break;
            }
            self.found.checked += 1;
            self.found.first = self.found.first.or(Some(event.number));
            self.before = Some(event);
        }
        Ok(())
    }

    /// What was found.
    pub fn found(self) -> Verification {
        self.found
    }

    /// What is wrong with the next event, which is all of its `line`.
    fn fault(&self, event: &Exported, line: &str) -> Option<&'static str> {
        let expected = match &self.before {
            Some(before) if before.number + 1 != event.number => return Some("events before it are missing"),
            Some(before) => Some(event.link(&from_hex(&before.hash))),
            None if event.number == 1 => Some(event.link(&events::GENESIS)),
            // What came before is not here.
            None => None,
        };
        if expected.is_some_and(|expected| expected != event.hash) {
            return Some("it was changed after it was written");
        }
        // The hash covers what an event says, and nothing that was written beside it.
        let is_all = serde_json::from_str::<Value>(line).ok() == serde_json::to_value(event).ok();
        (!is_all).then_some("its line says more than the event, or less")
    }
}
