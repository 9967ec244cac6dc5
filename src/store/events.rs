//! The audit trail: appended, never changed, each row chained to the one before by a hash.
//!
//! [`verify`] finds a row that was changed, removed or put in between. It cannot find that somebody replaced
//! the whole trail by a consistent one, or took its beginning away as `audit.keep` does: keep an export elsewhere
//! for that.

use super::{
    error::Result,
    rows::{json, ms},
};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use futures_util::TryStreamExt as _;
use reconciled_engine::store::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection, sqlite::SqliteRow};

/// The hash before the first row.
pub(super) const GENESIS: [u8; 32] = [0; 32];
/// Where the trail begins once old events were removed: number and hash of the last that is gone.
pub(super) const BEGIN: &str = "events_begin";

pub(super) const SELECT: &str =
    "SELECT number, at, kind, scope, address, revision, actor, reason, message, hash FROM event";

/// What is hashed of a row, in this order.
pub(super) type Canonical<'a> =
    (i64, i64, &'a str, Option<&'a str>, Option<&'a str>, &'a str, &'a str, &'a str, &'a str);

pub(super) fn link(before: &[u8], row: &Canonical<'_>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before).update(json(row).as_bytes());
    *hasher.finalize().as_bytes()
}

/// The number and the hash of the last event.
pub(super) async fn last(conn: &mut SqliteConnection) -> Result<(i64, Vec<u8>)> {
    let last: Option<(i64, Vec<u8>)> =
        sqlx::query_as("SELECT number, hash FROM event ORDER BY number DESC LIMIT 1")
            .fetch_optional(&mut *conn)
            .await?;
    Ok(last.unwrap_or_else(|| (0, GENESIS.to_vec())))
}

/// True where the trail goes on from the one that ended with this event.
pub(super) async fn continues(conn: &mut SqliteConnection, (number, hash): &(i64, Vec<u8>)) -> Result<bool> {
    let found = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM event WHERE number = ?1 AND hash = ?2)");
    let is_in_it: bool = found.bind(*number).bind(&hash[..]).fetch_one(conn).await?;
    Ok(is_in_it || *number == 0)
}

/// What a row has besides what its event says.
struct Line {
    number: i64,
    scope: Option<String>,
    address: Option<String>,
    hash: [u8; 32],
}

impl Line {
    fn after(last: i64, before: &[u8], event: &Event) -> Line {
        let number = last + 1;
        let scope = event.scope.as_ref().map(ToString::to_string);
        let address = event.address.as_ref().map(ToString::to_string);
        let canonical = (
            number,
            ms(event.at),
            &*event.kind,
            scope.as_deref(),
            address.as_deref(),
            &*event.revision,
            &*event.actor,
            &*event.reason,
            &*event.message,
        );
        let hash = link(before, &canonical);
        Line { number, scope, address, hash }
    }
}

/// Appends one event.
pub(super) async fn append(conn: &mut SqliteConnection, event: &Event) -> Result<()> {
    let (number, hash) = last(conn).await?;
    let line = Line::after(number, &hash, event);
    sqlx::query(
        "INSERT INTO event (number, at, kind, scope, address, revision, actor, reason, message, hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )
    .bind(line.number)
    .bind(ms(event.at))
    .bind(event.kind.clone())
    .bind(line.scope)
    .bind(line.address)
    .bind(event.revision.clone())
    .bind(event.actor.clone())
    .bind(event.reason.clone())
    .bind(event.message.clone())
    .bind(&line.hash[..])
    .execute(conn)
    .await?;
    Ok(())
}

/// Appends events in their order.
pub(super) async fn append_all(conn: &mut SqliteConnection, events: &[&Event]) -> Result<()> {
    // SQLite ends a text of JSON at this letter, and what is chained is all of it.
    if events.iter().any(|event| event.message.contains('\0') || event.reason.contains('\0')) {
        for event in events {
            append(conn, event).await?;
        }
        return Ok(());
    }
    let (mut number, mut hash) = last(conn).await?;
    let mut lines = Vec::with_capacity(events.len());
    for event in events {
        let line = Line::after(number, &hash, event);
        (number, hash) = (line.number, line.hash.to_vec());
        lines.push(line);
    }
    let rows = lines.iter().zip(events).map(|(line, event)| {
        let Event { at, kind, revision, actor, reason, message, .. } = event;
        let (scope, address, hash) = (&line.scope, &line.address, HEXLOWER.encode(&line.hash));
        (line.number, ms(*at), kind, scope, address, revision, actor, reason, message, hash)
    });
    sqlx::query(
        "INSERT INTO event (number, at, kind, scope, address, revision, actor, reason, message, hash)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
             value ->> 7, value ->> 8, unhex(value ->> 9) FROM json_each(?1)",
    )
    .bind(json(&rows.collect::<Vec<_>>()))
    .execute(conn)
    .await?;
    Ok(())
}

/// What a check of the audit trail found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Rows that were checked and are in order.
    pub checked: u64,
    /// Number of the first of them; they follow each other.
    pub first: Option<i64>,
    /// The first row that is not.
    pub broken: Option<Broken>,
}

/// The first row at which the audit trail does not hold together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Broken {
    /// Its number.
    pub number: i64,
    /// What is wrong with it.
    pub why: String,
}

/// Checks the whole chain.
pub(super) async fn verify(conn: &mut SqliteConnection) -> Result<Verification> {
    let written: Option<i64> = sqlx::query_scalar("SELECT seq FROM sqlite_sequence WHERE name = 'event'")
        .fetch_optional(&mut *conn)
        .await?;
    let begin: Option<String> = sqlx::query_scalar("SELECT value FROM meta WHERE key = ?1")
        .bind(BEGIN)
        .fetch_optional(&mut *conn)
        .await?;
    let begin = begin.as_deref().and_then(|text| text.split_once(' '));
    let begin = begin.and_then(|(number, hash)| Some((number.parse::<i64>().ok()?, from_hex(hash))));
    let (gone, mut before) = begin.unwrap_or_else(|| (0, GENESIS.to_vec()));
    let (mut checked, mut expected) = (0, gone + 1);
    let found =
        |checked: u64, broken| Verification { checked, first: (checked > 0).then_some(gone + 1), broken };
    let broken = |checked, number, why: &str| Ok(found(checked, Some(Broken { number, why: why.into() })));
    let mut rows = sqlx::query(AssertSqlSafe(format!("{SELECT} ORDER BY number"))).fetch(conn);
    while let Some(row) = rows.try_next().await? {
        let number: i64 = row.try_get(0)?;
        if number != expected {
            return broken(checked, expected, "the row is missing");
        }
        let hash: Vec<u8> = row.try_get(9)?;
        if hash != link(&before, &canonical(&row)?) {
            return broken(checked, number, "the row was changed after it was written");
        }
        before = hash;
        checked += 1;
        expected += 1;
    }
    if written.is_some_and(|written| written >= expected) {
        return broken(checked, expected, "the row is missing");
    }
    Ok(found(checked, None))
}

/// The bytes of a hash. What is none gives no bytes, which no event is linked to.
pub(super) fn from_hex(text: &str) -> Vec<u8> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).unwrap_or_default()
}

fn canonical(row: &SqliteRow) -> Result<Canonical<'_>> {
    Ok((
        row.try_get(0)?,
        row.try_get(1)?,
        row.try_get(2)?,
        row.try_get(3)?,
        row.try_get(4)?,
        row.try_get(5)?,
        row.try_get(6)?,
        row.try_get(7)?,
        row.try_get(8)?,
    ))
}
