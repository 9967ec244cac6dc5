//! Plans that a person consented to and that were begun, and what of them is left.

use super::{
    approval::{self, oldest_valid},
    error::{Result, StoreError},
    rows::{self, json, ms, parse_json},
};
use data_encoding::HEXLOWER;
use reconciled_engine::store::Begun;
use reconciled_provider::{Hash, ManifestKey, Scope};
use sqlx::{Row as _, SqliteConnection};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Hexadecimal digits of one hash.
const DIGITS: usize = 2 * size_of::<Hash>();

pub(super) async fn put(conn: &mut SqliteConnection, begun: &Begun) -> Result<()> {
    let approval = &begun.approval;
    let used_at = approval.used_at.unwrap_or(approval.at);
    // Whose time is over is of no use to anybody.
    sqlx::query("DELETE FROM begun WHERE used_at <= ?1")
        .bind(oldest_valid(used_at))
        .execute(&mut *conn)
        .await?;
    let steps: BTreeMap<String, String> =
        begun.left.iter().map(|(scope, steps)| (scope.to_string(), text(steps))).collect();
    let manifests: BTreeMap<&str, Option<Hash>> =
        begun.manifests.iter().map(|(key, content)| (&*key.0, *content)).collect();
    sqlx::query(
        "INSERT INTO begun (domain, digest, reason, actor, at, used_at, steps, manifests)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (domain) DO UPDATE SET digest = excluded.digest, reason = excluded.reason,
             actor = excluded.actor, at = excluded.at, used_at = excluded.used_at, steps = excluded.steps,
             manifests = excluded.manifests",
    )
    .bind(begun.domain.clone())
    .bind(&approval.digest.0[..])
    .bind(approval.reason.clone())
    .bind(approval.actor.clone())
    .bind(ms(approval.at))
    .bind(ms(used_at))
    .bind(json(&steps))
    .bind(json(&manifests))
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes steps away; the last one takes the plan with it. Passes over several scopes of a domain may do so at a time.
pub(super) async fn over(
    conn: &mut SqliteConnection,
    digest: Hash,
    scope: &Scope,
    over: &[Hash],
) -> Result<()> {
    let found: Option<(String, String)> = sqlx::query_as("SELECT domain, steps FROM begun WHERE digest = ?1")
        .bind(&digest.0[..])
        .fetch_optional(&mut *conn)
        .await?;
    let Some((domain, steps)) = found else { return Ok(()) };
    let mut left: BTreeMap<String, String> = parse_json(&steps)?;
    let name = scope.to_string();
    let Some(mine) = left.get_mut(&name) else { return Ok(()) };
    let over: BTreeSet<&Hash> = over.iter().collect();
    let mut mine_left = hashes(mine)?;
    mine_left.retain(|step| !over.contains(step));
    *mine = text(&mine_left);
    left.retain(|_, steps| !steps.is_empty());
    let change = match left.is_empty() {
        true => sqlx::query("DELETE FROM begun WHERE domain = ?1").bind(domain),
        false => sqlx::query("UPDATE begun SET steps = ?2 WHERE domain = ?1").bind(domain).bind(json(&left)),
    };
    change.execute(conn).await?;
    Ok(())
}

/// All of which something may still be done at `now`.
pub(super) async fn all(conn: &mut SqliteConnection, now: Duration) -> Result<Vec<Begun>> {
    let found = sqlx::query(
        "SELECT digest, reason, actor, at, used_at, domain, steps, manifests FROM begun WHERE used_at > ?1
         ORDER BY domain",
    )
    .bind(oldest_valid(now))
    .fetch_all(conn)
    .await?;
    let begun = |row: &sqlx::sqlite::SqliteRow| {
        let steps: BTreeMap<&str, &str> = parse_json(row.try_get(6)?)?;
        let left = steps.into_iter().map(|(scope, steps)| Ok((rows::scope(scope)?, hashes(steps)?)));
        let manifests: BTreeMap<String, Option<Hash>> = parse_json(row.try_get(7)?)?;
        Ok(Begun {
            domain: row.try_get::<&str, _>(5)?.into(),
            approval: approval::get(row)?,
            left: left.collect::<Result<BTreeMap<Scope, Vec<Hash>>>>()?,
            manifests: manifests.into_iter().map(|(key, was)| (ManifestKey(key.into()), was)).collect(),
        })
    };
    found.iter().map(begun).collect()
}

fn text(steps: &[Hash]) -> String {
    steps.iter().map(|step| HEXLOWER.encode(&step.0)).collect()
}

fn hashes(text: &str) -> Result<Vec<Hash>> {
    let hash = |digits: &[u8]| std::str::from_utf8(digits).ok().and_then(Hash::from_hex);
    let hash = |digits: &[u8]| hash(digits).ok_or_else(|| StoreError::Unreadable("steps begun".into()));
    text.as_bytes().chunks(DIGITS).map(hash).collect()
}
