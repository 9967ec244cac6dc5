//! Plans that a person consented to and that were begun, and what of them is left.

use super::{
    error::{Result, StoreError},
    memory::approval_of,
    rows::{self, json, ms, parse_json, to_hex},
    write::oldest_valid,
};
use reconciled_engine::store::Begun;
use reconciled_provider::{Hash, Scope};
use sqlx::{Row as _, SqliteConnection};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Hexadecimal digits of one hash.
const DIGITS: usize = 2 * size_of::<Hash>();

pub(super) async fn put(conn: &mut SqliteConnection, begun: &Begun) -> Result<()> {
    let text = |steps: &[Hash]| steps.iter().map(|step| to_hex(&step.0)).collect::<String>();
    let steps: BTreeMap<String, String> =
        begun.left.iter().map(|(scope, steps)| (scope.to_string(), text(steps))).collect();
    let approval = &begun.approval;
    sqlx::query(
        "INSERT INTO begun (domain, digest, reason, actor, at, used_at, steps) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (domain) DO UPDATE SET digest = excluded.digest, reason = excluded.reason,
             actor = excluded.actor, at = excluded.at, used_at = excluded.used_at, steps = excluded.steps",
    )
    .bind(begun.domain.clone())
    .bind(&approval.digest.0[..])
    .bind(approval.reason.clone())
    .bind(approval.actor.clone())
    .bind(ms(approval.at))
    .bind(ms(approval.used_at.unwrap_or(approval.at)))
    .bind(json(&steps))
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn end(conn: &mut SqliteConnection, domain: &Arc<str>) -> Result<()> {
    sqlx::query("DELETE FROM begun WHERE domain = ?1").bind(domain.clone()).execute(conn).await?;
    Ok(())
}

/// All of which something may still be done at `now`.
pub(super) async fn all(conn: &mut SqliteConnection, now: Duration) -> Result<Vec<Begun>> {
    let found = sqlx::query(
        "SELECT digest, reason, actor, at, used_at, domain, steps FROM begun WHERE used_at > ?1 ORDER BY domain",
    )
    .bind(oldest_valid(now))
    .fetch_all(conn)
    .await?;
    let begun = |row: &sqlx::sqlite::SqliteRow| {
        let steps: BTreeMap<&str, &str> = parse_json(row.try_get(6)?)?;
        let left = steps.into_iter().map(|(scope, steps)| Ok((rows::scope(scope)?, hashes(steps)?)));
        Ok(Begun {
            domain: row.try_get::<&str, _>(5)?.into(),
            approval: approval_of(row)?,
            left: left.collect::<Result<BTreeMap<Scope, Vec<Hash>>>>()?,
        })
    };
    found.iter().map(begun).collect()
}

fn hashes(text: &str) -> Result<Vec<Hash>> {
    let hash = |digits: &[u8]| std::str::from_utf8(digits).ok().and_then(Hash::from_hex);
    let hash = |digits: &[u8]| hash(digits).ok_or_else(|| StoreError::Unreadable("steps begun".into()));
    text.as_bytes().chunks(DIGITS).map(hash).collect()
}
