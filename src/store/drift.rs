//! The drift ledger: its rows, written and read.
//!
//! Guarantees: as every [`Write`](reconciled_engine::Write), what changes nothing touches no page. Entries that are over
//! go with the events of their time; open ones stay.

use super::{
    entry::{DriftEntry, FieldEntry, Stamp},
    error::{Result, StoreError},
    inventory,
    reader::Reader,
    rows::{address, at, is_meant, json, ms, parse_json, scope},
};
use futures_util::TryStreamExt as _;
use reconciled_engine::{DriftEnd, DriftField, Drifted};
use reconciled_provider::{ActionId, Drift, ManifestKey, Pattern, ResourceId, Scope};
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};
use std::{collections::BTreeMap, time::Duration};

/// Begins or changes entries. An open one keeps when it was first seen.
pub(super) async fn put(conn: &mut SqliteConnection, list: &[Drifted]) -> Result<()> {
    for drift in list {
        let fields: Vec<FieldEntry> = drift.fields.iter().map(FieldEntry::from).collect();
        sqlx::query(
            "INSERT INTO drift (scope, id, address, manifest, mode, missing, fields, first_seen, action)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (scope, id) WHERE ended_at IS NULL DO UPDATE SET address = ?3, manifest = ?4, mode = ?5,
                 missing = ?6, fields = ?7, action = coalesce(?9, action)
             WHERE (address, manifest, mode, missing, fields) <> (?3, ?4, ?5, ?6, ?7)
                 OR action IS NOT coalesce(?9, action)",
        )
        .bind(drift.scope.to_string())
        .bind(drift.id.0.clone())
        .bind(drift.address.to_string())
        .bind(drift.manifest.0.clone())
        .bind(drift.mode.word())
        .bind(drift.missing)
        .bind(json(&fields))
        .bind(ms(drift.first_seen))
        .bind(drift.action.map(|action| action.0 as i64))
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// Forgets the writes that may have healed these: they failed.
pub(super) async fn not_healed(conn: &mut SqliteConnection, scope: &Scope, ids: &[ResourceId]) -> Result<()> {
    let ids: Vec<&str> = ids.iter().map(|id| &*id.0).collect();
    sqlx::query(
        "UPDATE drift SET action = NULL WHERE scope = ?1 AND ended_at IS NULL AND action IS NOT NULL
             AND id IN (SELECT value FROM json_each(?2))",
    )
    .bind(scope.to_string())
    .bind(json(&ids))
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends entries: what they are about is as declared since then.
pub(super) async fn over(
    conn: &mut SqliteConnection,
    scope: &Scope,
    ends: &[(ResourceId, DriftEnd)],
    when: Duration,
) -> Result<()> {
    for (id, end) in ends {
        let was_missing: Option<bool> = sqlx::query_scalar(
            "UPDATE drift SET ended_at = ?3, outcome = ?4 WHERE scope = ?1 AND id = ?2 AND ended_at IS NULL
             RETURNING missing",
        )
        .bind(scope.to_string())
        .bind(id.0.clone())
        .bind(ms(when))
        .bind(end.word())
        .fetch_optional(&mut *conn)
        .await?;
        let Some(was_missing) = was_missing else { continue };
        inventory::unmark(conn, &scope.to_string(), &[&*id.0]).await?;
        sqlx::query(
            "UPDATE inventory SET synced_at = ?3, healthy_at = iif(?4, ?3, healthy_at) WHERE scope = ?1 AND id = ?2",
        )
        .bind(scope.to_string())
        .bind(id.0.clone())
        .bind(ms(when))
        .bind(was_missing)
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// Removes entries that were over before `cutoff`.
pub(super) async fn trim(conn: &mut SqliteConnection, cutoff: Duration) -> Result<()> {
    sqlx::query("DELETE FROM drift WHERE ended_at < ?1").bind(ms(cutoff)).execute(conn).await?;
    Ok(())
}

/// The open entries of the scopes from `first` to `last`, by scope and id.
pub(super) async fn open(
    conn: &mut SqliteConnection,
    (first, last): (&str, &str),
) -> Result<BTreeMap<Scope, Vec<Drifted>>> {
    let found = sqlx::query(
        "SELECT scope, id, address, manifest, mode, missing, fields, first_seen, action FROM drift
         WHERE ended_at IS NULL AND scope BETWEEN ?1 AND ?2 ORDER BY scope, id",
    )
    .bind(first)
    .bind(last)
    .fetch_all(conn)
    .await?;
    let mut all: BTreeMap<Scope, Vec<Drifted>> = BTreeMap::new();
    for row in &found {
        let drift = drifted(row)?;
        all.entry(drift.scope.clone()).or_default().push(drift);
    }
    Ok(all)
}

fn drifted(row: &SqliteRow) -> Result<Drifted> {
    let fields: Vec<FieldEntry> = parse_json(row.try_get(6)?)?;
    let field = |field: FieldEntry| DriftField {
        path: field.path.into(),
        remote: field.remote.map(Into::into),
        declared: field.declared.map(Into::into),
    };
    Ok(Drifted {
        scope: scope(row.try_get(0)?)?,
        id: row.try_get::<&str, _>(1)?.into(),
        address: address(row.try_get(2)?),
        manifest: ManifestKey(row.try_get::<&str, _>(3)?.into()),
        mode: mode(row.try_get(4)?)?,
        missing: row.try_get(5)?,
        fields: fields.into_iter().map(field).collect(),
        first_seen: at(row.try_get(7)?),
        action: row.try_get::<Option<i64>, _>(8)?.map(|action| ActionId(action as u64)),
    })
}

fn mode(word: &str) -> Result<Drift> {
    [Drift::Heal, Drift::Warn, Drift::Ignore]
        .into_iter()
        .find(|mode| mode.word() == word)
        .ok_or_else(|| StoreError::Unreadable(format!("drift mode `{word}`")))
}

impl Reader {
    /// The drift ledger, the newest first; with a pattern only what it means, at will only what is not over.
    pub async fn drifts(&self, pattern: Option<&Pattern>, is_open: bool) -> Result<Vec<DriftEntry>> {
        let mut conn = self.conn().await?;
        entries(&mut conn, pattern, is_open).await.map_err(|error| error.of(&self.file))
    }
}

pub(super) async fn entries(
    conn: &mut SqliteConnection,
    pattern: Option<&Pattern>,
    is_open: bool,
) -> Result<Vec<DriftEntry>> {
    let mut found = sqlx::query(
        "SELECT address, manifest, scope, id, mode, missing, fields, first_seen, action, ended_at, outcome FROM drift
         WHERE ended_at IS NULL OR NOT ?1 ORDER BY number DESC",
    )
    .bind(is_open)
    .fetch(conn);
    let mut list = Vec::new();
    while let Some(row) = found.try_next().await? {
        let (address, manifest): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        if !is_meant(pattern, Some(&address), Some(ManifestKey(manifest.as_str().into()).group())) {
            continue;
        }
        let mode: String = row.try_get(4)?;
        let open = if mode == Drift::Heal.word() { "open" } else { "reported" };
        list.push(DriftEntry {
            address,
            scope: row.try_get(2)?,
            id: row.try_get(3)?,
            missing: row.try_get(5)?,
            fields: parse_json(row.try_get(6)?)?,
            first_seen: Stamp(at(row.try_get(7)?)),
            action: row.try_get::<Option<i64>, _>(8)?.map(|action| action as u64),
            ended_at: row.try_get::<Option<i64>, _>(9)?.map(|ms| Stamp(at(ms))),
            outcome: row.try_get::<Option<String>, _>(10)?.unwrap_or_else(|| open.into()),
            mode,
        });
    }
    Ok(list)
}
