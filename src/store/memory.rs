//! The reads of the engine: what is remembered of scopes, manifests, sources.
//!
//! Every function reads on the connection it is given; a consistent snapshot is the caller's transaction.

use super::{
    drift,
    error::{Result, StoreError},
    health, inventory, journal,
    kept::Kept,
    place,
    rows::{self, Line, Marks, Names, address, at, bytes, hash, parse_json, scope},
    seal::Seal,
};
use futures_util::TryStreamExt as _;
use reconciled_engine::{
    Row,
    store::{
        ClaimRow, Condition, ConditionKind, Consent, Converged, Hold, KnownVersion, Revision, ScopeMemory,
    },
};
use reconciled_provider::{Claim, Hash, Lives, ManifestKey, ResourceId, Scope, Version};
use serde::Deserialize;
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection, sqlite::SqliteRow};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// Memory of many scopes.
pub(super) type Many = BTreeMap<Scope, ScopeMemory>;

/// Sorts after every scope: names are UTF-8, in which this byte sequence is the last character.
const LAST: &str = "\u{10ffff}";

/// What is remembered of one scope.
pub(super) async fn one(
    conn: &mut SqliteConnection,
    seal: Option<&Seal>,
    kept: &Kept,
    scope: &Scope,
) -> Result<ScopeMemory> {
    let name = scope.to_string();
    let stamp = inventory::stamp(conn, &name).await?;
    let mut many = Many::new();
    match kept.use_at(scope, stamp) {
        Some(rows) => many.entry(scope.clone()).or_default().rows = rows,
        None => {
            inventory(conn, seal, (&name, &name), &mut many).await?;
            kept.put(scope, stamp, many.get(scope).map_or_else(Arc::default, |memory| memory.rows.clone()));
        }
    }
    besides(conn, seal, (&name, &name), &mut many).await?;
    Ok(many.remove(scope).unwrap_or_default())
}

/// What is remembered of every scope that has anything besides a version.
pub(super) async fn all(conn: &mut SqliteConnection, seal: Option<&Seal>, kept: &Kept) -> Result<Many> {
    let mut many = Many::new();
    all_rows(conn, seal, kept, &mut many).await?;
    besides(conn, seal, ("", LAST), &mut many).await?;
    many.retain(|_, memory| {
        let ScopeMemory {
            rows,
            documents: _,
            open,
            claims_here,
            claims_made,
            consents,
            conditions,
            drifts,
            ailments: _,
            looked_at: _,
            version: _,
            place: _,
            moved_away: _,
        } = memory;
        !rows.is_empty()
            || !open.is_empty()
            || !claims_here.is_empty()
            || !claims_made.is_empty()
            || !consents.is_empty()
            || !conditions.is_empty()
            || !drifts.is_empty()
    });
    Ok(many)
}

/// Rows of every scope: those that are kept, and of the others what the database has, by one question for each stretch of them.
async fn all_rows(
    conn: &mut SqliteConnection,
    seal: Option<&Seal>,
    kept: &Kept,
    many: &mut Many,
) -> Result<()> {
    if kept.keeps_nothing() {
        return inventory(conn, seal, ("", LAST), many).await;
    }
    let mut unknown = Vec::new();
    let mut stretch: Option<(String, String)> = None;
    for (name, stamp) in inventory::stamps(conn).await? {
        let scope = scope(&name)?;
        if let Some(rows) = kept.at(&scope, stamp) {
            many.entry(scope).or_default().rows = rows;
            if let Some((first, last)) = stretch.take() {
                inventory(conn, seal, (&first, &last), many).await?;
            }
        } else {
            unknown.push((scope, stamp));
            stretch = Some((stretch.map_or_else(|| name.clone(), |(first, _)| first), name));
        }
    }
    if let Some((first, last)) = stretch {
        inventory(conn, seal, (&first, &last), many).await?;
    }
    for (scope, stamp) in unknown {
        let rows = many.get(&scope).map_or_else(Arc::default, |memory| memory.rows.clone());
        kept.put_beside(&scope, stamp, rows);
    }
    Ok(())
}

/// What is remembered besides rows.
async fn besides(
    conn: &mut SqliteConnection,
    seal: Option<&Seal>,
    range: (&str, &str),
    many: &mut Many,
) -> Result<()> {
    documents(conn, range, many).await?;
    journal::open(conn, seal, range, |scope, open| many.entry(scope).or_default().open.push(open)).await?;
    claims(conn, range, many).await?;
    consents(conn, range, many).await?;
    conditions(conn, range, many).await?;
    for (scope, drifts) in drift::open(conn, range).await? {
        many.entry(scope).or_default().drifts = drifts;
    }
    health::recall(conn, range, many).await?;
    place::recall(conn, range, many).await?;
    for (scope, version) in versions(conn, range).await? {
        many.entry(scope).or_default().version = Some(version);
    }
    Ok(())
}

async fn inventory(
    conn: &mut SqliteConnection,
    seal: Option<&Seal>,
    (first, last): (&str, &str),
    many: &mut Many,
) -> Result<()> {
    let marks = Marks::between(conn, (first, last)).await?;
    let mut names = Names::default();
    let mut list: Vec<Row> = Vec::new();
    let (mut sql, mut begin, mut most) = (&rows::FROM, (first.to_owned(), String::new()), rows::FIRST_CHUNK);
    let mut is_counted = false;
    loop {
        let found = sqlx::query_scalar(AssertSqlSafe(sql.as_str())).bind(&begin.0).bind(&begin.1).bind(last);
        let text: String = found.bind(most as i64).fetch_one(&mut *conn).await?;
        let mut lines: Vec<Line<'_>> = parse_json(&text)?;
        // As they came, but nobody promises that.
        lines.sort_unstable_by(|a, b| (&a.scope, &a.id).cmp(&(&b.scope, &b.id)));
        for line in &lines {
            let row = rows::get(line, &mut names, &marks, seal)?;
            if list.first().is_some_and(|first| first.scope != row.scope) {
                keep(many, std::mem::take(&mut list));
                is_counted = false;
            }
            list.push(row);
        }
        let Some(end) = lines.last().filter(|_| lines.len() == most) else { break };
        if list.len() > rows::CHUNK / 2 && !is_counted {
            // To grow step by step would copy all of them several times.
            list.reserve_exact(inventory::count(conn, &end.scope).await?.saturating_sub(list.len()));
            is_counted = true;
        }
        most = rows::next_chunk(lines.len(), text.len());
        (sql, begin) = (&rows::AFTER, (end.scope.to_string(), end.id.to_string()));
    }
    keep(many, list);
    Ok(())
}

async fn documents(conn: &mut SqliteConnection, (first, last): (&str, &str), many: &mut Many) -> Result<()> {
    let found = sqlx::query("SELECT scope, manifest, content FROM document WHERE scope BETWEEN ?1 AND ?2")
        .bind(first)
        .bind(last)
        .fetch_all(conn)
        .await?;
    for row in &found {
        let manifest = ManifestKey(row.try_get::<&str, _>(1)?.into());
        many.entry(scope(row.try_get(0)?)?).or_default().documents.insert(manifest, hash(row.try_get(2)?)?);
    }
    Ok(())
}

/// Files rows of one scope.
fn keep(many: &mut Many, mut list: Vec<Row>) {
    // A pass has them until its end, and the room for twice as many.
    list.shrink_to_fit();
    if let Some(scope) = list.first().map(|row| Scope::clone(&row.scope)) {
        many.entry(scope).or_default().rows = list.into();
    }
}

async fn claims(conn: &mut SqliteConnection, (first, last): (&str, &str), many: &mut Many) -> Result<()> {
    let found = sqlx::query(
        "SELECT owner_scope, owner, key, provider, kind, spec, lives, scope, id, synced,
             scope BETWEEN ?1 AND ?2, owner_scope BETWEEN ?1 AND ?2
         FROM claim WHERE scope BETWEEN ?1 AND ?2 OR owner_scope BETWEEN ?1 AND ?2
         ORDER BY owner_scope, owner, key",
    )
    .bind(first)
    .bind(last)
    .fetch_all(conn)
    .await?;
    for row in &found {
        let claim = claim(row)?;
        if row.try_get(10)? {
            many.entry(claim.scope.clone()).or_default().claims_here.push(claim.clone());
        }
        if row.try_get(11)? {
            many.entry(claim.owner_scope.clone()).or_default().claims_made.push(claim);
        }
    }
    Ok(())
}

fn claim(row: &SqliteRow) -> Result<ClaimRow> {
    Ok(ClaimRow {
        owner_scope: scope(row.try_get(0)?)?,
        owner: row.try_get::<&str, _>(1)?.into(),
        claim: Claim {
            key: text(row, 2)?,
            provider: text(row, 3)?,
            kind: text(row, 4)?,
            spec: row.try_get::<Vec<u8>, _>(5)?.into(),
            lives: match row.try_get(6)? {
                "while-pending" => Lives::WhilePending,
                "while-tracked" => Lives::WhileTracked,
                other => return Err(StoreError::Unreadable(format!("life of a claim `{other}`"))),
            },
        },
        scope: scope(row.try_get(7)?)?,
        id: row.try_get::<&str, _>(8)?.into(),
        synced: row.try_get(9)?,
    })
}

async fn consents(conn: &mut SqliteConnection, (first, last): (&str, &str), many: &mut Many) -> Result<()> {
    let found = sqlx::query(
        "SELECT scope, id, observed, instance, word FROM consent WHERE scope BETWEEN ?1 AND ?2 ORDER BY scope, id",
    )
    .bind(first)
    .bind(last)
    .fetch_all(conn)
    .await?;
    for row in &found {
        let consent = match row.try_get::<Option<&[u8]>, _>(2)? {
            Some(observed) => Consent::Adopt { observed: hash(observed)?, from: optional(row, 3)? },
            None if row.try_get::<&str, _>(4)? == "let-go" => Consent::LetGo,
            None => Consent::Barred,
        };
        let id = ResourceId::from(row.try_get::<&str, _>(1)?);
        many.entry(scope(row.try_get(0)?)?).or_default().consents.push((id, consent));
    }
    Ok(())
}

pub(super) async fn conditions(
    conn: &mut SqliteConnection,
    (first, last): (&str, &str),
    many: &mut Many,
) -> Result<()> {
    let found = sqlx::query(
        "SELECT scope, id, address, kind, reason, message, hint, since, next_try, declared FROM condition
         WHERE scope BETWEEN ?1 AND ?2 ORDER BY scope, position",
    )
    .bind(first)
    .bind(last)
    .fetch_all(conn)
    .await?;
    for row in &found {
        let condition = Condition {
            id: optional(row, 1)?.map(ResourceId),
            address: row.try_get::<Option<&str>, _>(2)?.map(address),
            kind: parse_condition(row.try_get(3)?)?,
            reason: text(row, 4)?,
            message: text(row, 5)?,
            hint: optional(row, 6)?,
            since: at(row.try_get(7)?),
            next_try: row.try_get::<Option<i64>, _>(8)?.map(at),
            declared: row.try_get::<Option<&[u8]>, _>(9)?.map(hash).transpose()?,
        };
        many.entry(scope(row.try_get(0)?)?).or_default().conditions.push(condition);
    }
    Ok(())
}

fn parse_condition(word: &str) -> Result<ConditionKind> {
    ConditionKind::of_word(word).ok_or_else(|| StoreError::Unreadable(format!("condition `{word}`")))
}

/// Versions of every scope.
pub(super) async fn all_versions(conn: &mut SqliteConnection) -> Result<BTreeMap<Scope, KnownVersion>> {
    versions(conn, ("", LAST)).await
}

/// As one text: row by row each is handed over from thread to thread, which takes longer than to read it.
async fn versions(
    conn: &mut SqliteConnection,
    (first, last): (&str, &str),
) -> Result<BTreeMap<Scope, KnownVersion>> {
    /// Scope, state, token in hexadecimal digits, foreigners.
    #[derive(Deserialize)]
    struct Known<'a>(#[serde(borrow)] Cow<'a, str>, &'a str, &'a str, u32);
    let text: String = sqlx::query_scalar(
        "SELECT json_group_array(json_array(scope, state, hex(token), foreigners)) FROM scope_version
         WHERE scope BETWEEN ?1 AND ?2",
    )
    .bind(first)
    .bind(last)
    .fetch_one(conn)
    .await?;
    let known: Vec<Known<'_>> = parse_json(&text)?;
    let read = |Known(name, state, digits, foreign): Known<'_>| {
        let version = match state {
            "at" if !digits.is_empty() => Version::At(bytes(digits, || format!("token of `{name}`"))?.into()),
            "absent" => Version::Absent,
            _ => Version::Unknown,
        };
        Ok((scope(&name)?, KnownVersion { version, foreign }))
    };
    known.into_iter().map(read).collect()
}

pub(super) async fn converged(conn: &mut SqliteConnection, source: &str) -> Result<Option<Converged>> {
    let found = sqlx::query("SELECT commit_id, inputs FROM converged WHERE source = ?1")
        .bind(source)
        .fetch_optional(conn)
        .await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some(Converged { source: source.into(), commit: text(&row, 0)?, inputs: hash(row.try_get(1)?)? }))
}

pub(super) async fn rows_with_outputs(
    conn: &mut SqliteConnection,
    seal: Option<&Seal>,
    manifest: &ManifestKey,
) -> Result<Vec<Row>> {
    let sql = format!("{} WHERE manifest = ?1 AND outputs IS NOT NULL ORDER BY scope, id", *rows::SELECT);
    rows_by(conn, seal, sql, manifest).await
}

pub(super) async fn is_settled(conn: &mut SqliteConnection, manifest: &ManifestKey) -> Result<bool> {
    let settled: Option<bool> =
        sqlx::query_scalar("SELECT min(state = 'settled') FROM inventory WHERE manifest = ?1")
            .bind(&*manifest.0)
            .fetch_one(conn)
            .await?;
    Ok(settled.unwrap_or(false))
}

pub(super) async fn dependants(
    conn: &mut SqliteConnection,
    seal: Option<&Seal>,
    manifest: &ManifestKey,
) -> Result<Vec<Row>> {
    let sql = format!(
        "{} WHERE (scope, id) IN (SELECT scope, id FROM edge WHERE manifest = ?1) ORDER BY scope, id",
        *rows::SELECT
    );
    rows_by(conn, seal, sql, manifest).await
}

async fn rows_by(
    conn: &mut SqliteConnection,
    seal: Option<&Seal>,
    sql: String,
    manifest: &ManifestKey,
) -> Result<Vec<Row>> {
    let mut names = Names::default();
    let mut list = Vec::new();
    let mut found = sqlx::query(AssertSqlSafe(sql)).bind(manifest.0.clone()).fetch(conn);
    while let Some(row) = found.try_next().await? {
        let line: Line<'_> = parse_json(row.try_get(0)?)?;
        list.push(rows::get(&line, &mut names, &Marks::default(), seal)?);
    }
    Ok(list)
}

pub(super) async fn generations(
    conn: &mut SqliteConnection,
    source: &str,
) -> Result<Vec<(ManifestKey, u64)>> {
    let found: Vec<(String, i64)> =
        sqlx::query_as("SELECT key, generation + (pins << 32) FROM manifest WHERE source = ?1 ORDER BY key")
            .bind(source)
            .fetch_all(conn)
            .await?;
    Ok(found.into_iter().map(|(key, generation)| (ManifestKey(key.into()), generation as u64)).collect())
}

pub(super) async fn contents(conn: &mut SqliteConnection, source: &str) -> Result<Vec<(ManifestKey, Hash)>> {
    let found: Vec<(String, Vec<u8>)> =
        sqlx::query_as("SELECT key, content FROM manifest WHERE source = ?1 ORDER BY key")
            .bind(source)
            .fetch_all(conn)
            .await?;
    found.into_iter().map(|(key, content)| Ok((ManifestKey(key.into()), hash(&content)?))).collect()
}

pub(super) async fn in_force(conn: &mut SqliteConnection, source: &str) -> Result<Option<Revision>> {
    let found = sqlx::query(
        "SELECT source, commit_id, label, author, subject, path,
                EXISTS (SELECT 1 FROM meta WHERE key = 'restored/' || source)
         FROM revision WHERE source = ?1 ORDER BY number DESC LIMIT 1",
    )
    .bind(source)
    .fetch_optional(conn)
    .await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some(Revision {
        source: text(&row, 0)?,
        commit: text(&row, 1)?,
        label: text(&row, 2)?,
        author: text(&row, 3)?,
        subject: text(&row, 4)?,
        path: text(&row, 5)?,
        is_restored: row.try_get(6)?,
    }))
}

pub(super) async fn holds(conn: &mut SqliteConnection) -> Result<Vec<Hold>> {
    let found = sqlx::query(
        "SELECT domain, digest, reasons, creates, updates, replaces, deletes, revision, since, once FROM hold
         ORDER BY domain",
    )
    .fetch_all(conn)
    .await?;
    found
        .iter()
        .map(|row| {
            let reasons: Vec<String> = parse_json(row.try_get(2)?)?;
            Ok(Hold {
                domain: text(row, 0)?,
                digest: hash(row.try_get(1)?)?,
                reasons: reasons.into_iter().map(Arc::from).collect(),
                counts: [row.try_get(3)?, row.try_get(4)?, row.try_get(5)?, row.try_get(6)?],
                revision: text(row, 7)?,
                since: at(row.try_get(8)?),
                once: optional(row, 9)?,
            })
        })
        .collect()
}

fn text(row: &SqliteRow, index: usize) -> Result<Arc<str>> {
    Ok(row.try_get::<&str, _>(index)?.into())
}

fn optional(row: &SqliteRow, index: usize) -> Result<Option<Arc<str>>> {
    Ok(row.try_get::<Option<&str>, _>(index)?.map(Arc::from))
}
