//! What persons keep at an earlier revision: its rows, written and read.
//!
//! Guarantees: as every [`Write`](reconciled_engine::Write); a plan that was made before a pin came or went writes
//! nothing to the manifest it concerns.

use super::{
    error::{Result, StoreError},
    rows::{self, at, hash, ms},
};
use reconciled_engine::Pin;
use reconciled_provider::{ManifestKey, ResourceId, Scope};
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};
use std::sync::Arc;

/// Puts a pin in place of one of the same resource.
pub(super) async fn put(conn: &mut SqliteConnection, pin: &Pin) -> Result<()> {
    sqlx::query(
        "INSERT OR REPLACE INTO pin
             (scope, id, address, manifest, commit_id, label, template, reason, actor, since, until, content,
              declared)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )
    .bind(pin.scope.to_string())
    .bind(pin.id.0.clone())
    .bind(pin.address.to_string())
    .bind(pin.manifest.0.clone())
    .bind(pin.commit.clone())
    .bind(pin.label.clone())
    .bind(pin.template.as_ref().map(|hash| &hash.0[..]))
    .bind(pin.reason.clone())
    .bind(pin.actor.clone())
    .bind(ms(pin.since))
    .bind(pin.until.map(ms))
    .bind(pin.content.as_ref().map(|hash| &hash.0[..]))
    .bind(pin.declared)
    .execute(&mut *conn)
    .await?;
    raise(conn, &pin.manifest, &pin.scope, &pin.id).await
}

/// Ends a pin.
pub(super) async fn end(conn: &mut SqliteConnection, scope: &Scope, id: &ResourceId) -> Result<()> {
    let gone = sqlx::query("DELETE FROM pin WHERE scope = ?1 AND id = ?2 RETURNING manifest")
        .bind(scope.to_string())
        .bind(id.0.clone())
        .fetch_optional(&mut *conn)
        .await?;
    match gone {
        Some(row) => raise(conn, &ManifestKey(row.try_get::<&str, _>(0)?.into()), scope, id).await,
        None => Ok(()),
    }
}

/// Raises the generation of the manifests that may write the resource: the one of the pin and the one it is tracked for.
async fn raise(
    conn: &mut SqliteConnection,
    manifest: &ManifestKey,
    scope: &Scope,
    id: &ResourceId,
) -> Result<()> {
    let sql = "UPDATE manifest SET pins = pins + 1
               WHERE key = ?1 OR key = (SELECT manifest FROM inventory WHERE scope = ?2 AND id = ?3)";
    sqlx::query(sql)
        .bind(manifest.0.clone())
        .bind(scope.to_string())
        .bind(id.0.clone())
        .execute(conn)
        .await?;
    Ok(())
}

/// All pins, by scope and id.
pub(super) async fn all(conn: &mut SqliteConnection) -> Result<Vec<Pin>> {
    let found = sqlx::query(
        "SELECT scope, id, address, manifest, commit_id, label, template, reason, actor, since, until,
                content, declared
         FROM pin ORDER BY scope, id",
    )
    .fetch_all(conn)
    .await?;
    found.iter().map(read).collect()
}

fn read(row: &SqliteRow) -> Result<Pin> {
    let text = |index: usize| Ok::<Arc<str>, StoreError>(row.try_get::<&str, _>(index)?.into());
    let address = text(2)?;
    Ok(Pin {
        scope: rows::scope(&text(0)?)?,
        id: ResourceId(text(1)?),
        address: address.parse().map_err(|_| StoreError::Unreadable(format!("address `{address}`")))?,
        manifest: ManifestKey(text(3)?),
        commit: text(4)?,
        label: text(5)?,
        template: row.try_get::<Option<&[u8]>, _>(6)?.map(hash).transpose()?,
        reason: text(7)?,
        actor: text(8)?,
        since: at(row.try_get(9)?),
        until: row.try_get::<Option<i64>, _>(10)?.map(at),
        content: row.try_get::<Option<&[u8]>, _>(11)?.map(hash).transpose()?,
        declared: row.try_get(12)?,
    })
}
