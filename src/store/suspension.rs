//! What persons stopped: its rows, written and read.
//!
//! Guarantees: as every [`Write`](reconciled_engine::Write); a suspension and its scopes come and go together.
//! It deliberately does not know what time it is: whether one is over is the engine's word.

use super::{
    error::{Result, StoreError},
    rows::{self, at, json, ms, parse_json},
};
use reconciled_engine::{Extent, StoppedBy, Suspension};
use reconciled_provider::{Pattern, Scope};
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Puts a suspension in place of one of the same id. What is over and left nothing in doubt goes.
pub(super) async fn put(conn: &mut SqliteConnection, suspension: &Suspension) -> Result<()> {
    sqlx::query(
        "DELETE FROM suspension WHERE until <= ?1 AND id NOT IN (SELECT suspension FROM suspension_scope)",
    )
    .bind(ms(suspension.since))
    .execute(&mut *conn)
    .await?;
    end(conn, &suspension.id).await?;
    let (extent, name) = words(&suspension.extent);
    let except: Vec<String> = suspension.except.iter().map(|pattern| pattern.0.to_string()).collect();
    sqlx::query(
        "INSERT INTO suspension (id, extent, name, except_for, reason, actor, since, until)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )
    .bind(suspension.id.clone())
    .bind(extent)
    .bind(name)
    .bind(json(&except))
    .bind(suspension.reason.clone())
    .bind(suspension.actor.clone())
    .bind(ms(suspension.since))
    .bind(suspension.until.map(ms))
    .execute(&mut *conn)
    .await?;
    for scope in &suspension.scopes {
        sqlx::query("INSERT INTO suspension_scope (suspension, scope) VALUES (?1, ?2)")
            .bind(suspension.id.clone())
            .bind(scope.to_string())
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}

/// Ends a suspension.
pub(super) async fn end(conn: &mut SqliteConnection, id: &Arc<str>) -> Result<()> {
    for sql in ["DELETE FROM suspension_scope WHERE suspension = ?1", "DELETE FROM suspension WHERE id = ?1"]
    {
        sqlx::query(sql).bind(id.clone()).execute(&mut *conn).await?;
    }
    Ok(())
}

/// A scope was looked at since the suspension was over that began `since`; with its last scope the suspension goes. What is said
/// again has the same id: the race is between that and a pass that saw the one before.
pub(super) async fn looked(
    conn: &mut SqliteConnection,
    id: &Arc<str>,
    since: Duration,
    scope: &Scope,
) -> Result<()> {
    let gone = sqlx::query(
        "DELETE FROM suspension_scope WHERE suspension = ?1 AND scope = ?2
         AND suspension IN (SELECT id FROM suspension WHERE since = ?3)",
    )
    .bind(id.clone())
    .bind(scope.to_string())
    .bind(ms(since))
    .execute(&mut *conn)
    .await?;
    if gone.rows_affected() > 0 {
        sqlx::query(
            "DELETE FROM suspension WHERE id = ?1 AND id NOT IN (SELECT suspension FROM suspension_scope)",
        )
        .bind(id.clone())
        .execute(conn)
        .await?;
    }
    Ok(())
}

/// Rows went from one scope to another: what is in doubt there is so here, and no longer there once nothing is tracked there.
pub(super) async fn moved(conn: &mut SqliteConnection, from: &Scope, to: &Scope) -> Result<()> {
    for sql in [
        "INSERT OR IGNORE INTO suspension_scope (suspension, scope)
         SELECT suspension, ?2 FROM suspension_scope WHERE scope = ?1 AND ?1 <> ?2",
        "DELETE FROM suspension_scope WHERE scope = ?1 AND ?1 <> ?2
         AND NOT EXISTS (SELECT 1 FROM inventory WHERE scope = ?1)",
    ] {
        sqlx::query(sql).bind(from.to_string()).bind(to.to_string()).execute(&mut *conn).await?;
    }
    Ok(())
}

/// All suspensions, by id.
pub(super) async fn all(conn: &mut SqliteConnection) -> Result<Vec<Suspension>> {
    let found = sqlx::query(
        "SELECT id, extent, name, except_for, reason, actor, since, until FROM suspension ORDER BY id",
    )
    .fetch_all(&mut *conn)
    .await?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let pairs: Vec<(String, String)> =
        sqlx::query_as("SELECT suspension, scope FROM suspension_scope").fetch_all(conn).await?;
    let mut scopes: BTreeMap<String, BTreeSet<Scope>> = BTreeMap::new();
    for (id, scope) in pairs {
        scopes.entry(id).or_default().insert(rows::scope(&scope)?);
    }
    found.iter().map(|row| read(row, &mut scopes)).collect()
}

fn read(row: &SqliteRow, scopes: &mut BTreeMap<String, BTreeSet<Scope>>) -> Result<Suspension> {
    let text = |index: usize| Ok::<Arc<str>, StoreError>(row.try_get::<&str, _>(index)?.into());
    let except: Vec<String> = parse_json(row.try_get(3)?)?;
    Ok(Suspension {
        id: text(0)?,
        extent: extent(row.try_get(1)?, row.try_get(2)?)?,
        except: except.iter().map(|text| pattern(text)).collect::<Result<_>>()?,
        reason: text(4)?,
        actor: text(5)?,
        since: at(row.try_get(6)?),
        until: row.try_get::<Option<i64>, _>(7)?.map(at),
        stopped_by: StoppedBy::Person,
        scopes: scopes.remove(row.try_get::<&str, _>(0)?).unwrap_or_default(),
    })
}

fn words(extent: &Extent) -> (&'static str, String) {
    match extent {
        Extent::All => ("all", String::new()),
        Extent::Source(name) => ("source", name.to_string()),
        Extent::Provider(name) => ("provider", name.to_string()),
        Extent::Address(pattern) => ("address", pattern.0.to_string()),
        Extent::Labels(selector) => ("labels", selector.to_string()),
    }
}

fn extent(word: &str, name: &str) -> Result<Extent> {
    Ok(match word {
        "all" => Extent::All,
        "source" => Extent::Source(name.into()),
        "provider" => Extent::Provider(name.into()),
        "address" => Extent::Address(pattern(name)?),
        // What cannot be understood suspends everything, until its id is resumed.
        _ => name.parse().map_or(Extent::All, Extent::Labels),
    })
}

fn pattern(text: &str) -> Result<Pattern> {
    text.parse().map_err(|_| StoreError::Unreadable(format!("address `{text}`")))
}
