//! What is written to the inventory: rows put, settled and removed, and what is remembered of their scopes.
//!
//! Rows that differ in little are one statement that is given once what they have in common. A scope of which all rows are
//! settled at once is marked, and its rows stay as they are: `inventory_now` says what a row is by its mark, and whoever
//! changes a row of which only the mark says that it is settled puts that down in it first. What a row looks like in its
//! columns is in [`super::rows`].

use super::{
    error::{Result, StoreError},
    kept::Kept,
    rows::{addresses, deletion_word, edges, json, ms, parse_json, state_columns},
    seal::{Part, Seal},
};
use futures_util::future::join;
use reconciled_engine::{Row, RowState, store::Known};
use reconciled_provider::{Hash, ManifestKey, ResourceId, Scope, Tracked};
use sqlx::{AssertSqlSafe, SqliteConnection};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    sync::LazyLock,
    time::Duration,
};

/// Rows per statement: one text each, so that each is prepared once and then reused.
const SIZES: [usize; 3] = [128, 8, 1];

/// Statements for rows that have nothing in common, by their number.
static UPSERTS: LazyLock<[String; SIZES.len()]> =
    LazyLock::new(|| SIZES.map(|rows| upsert(rows, Bound::EachRow)));
/// The statement for [`SIZES`]`[0]` rows that differ in [`OWN`] alone, as those that one batch wrote do.
static ALIKE: LazyLock<String> = LazyLock::new(|| upsert(SIZES[0], Bound::Once));

/// Columns in which rows of one batch are alike.
const COMMON: [&str; 16] = [
    "scope",
    "manifest",
    "file",
    "normalizer",
    "deletion",
    "writes",
    "drift",
    "merged",
    "state",
    "recheck_at",
    "written_at",
    "revision",
    "depends_on",
    "formerly",
    "synced_at",
    "stamp",
];
/// The others.
const OWN: [&str; 7] = ["id", "address", "template", "applied", "remote", "private", "outputs"];

/// How often a statement is given the values of [`COMMON`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Once,
    EachRow,
}

fn upsert(rows: usize, common: Bound) -> String {
    let columns = [&COMMON[..], &OWN[..]].concat();
    // Without numbers: to find one that has a number takes the longer the more there are.
    let marks = |count: usize| format!("({})", vec!["?"; count].join(","));
    let lines = |count: usize| vec![marks(count); rows].join(",");
    let (all, own) = (columns.join(","), OWN.join(","));
    let values = match common {
        Bound::EachRow => format!("VALUES {}", lines(columns.len())),
        Bound::Once => format!("SELECT {all} FROM common CROSS JOIN own WHERE true"),
    };
    let with = match common {
        Bound::EachRow => String::new(),
        Bound::Once => format!(
            "WITH common({}) AS (VALUES {}), own({own}) AS (VALUES {}) ",
            COMMON.join(","),
            marks(COMMON.len()),
            lines(OWN.len())
        ),
    };
    let is_set = |name: &&&str| !matches!(**name, "scope" | "id" | "synced_at");
    let mut sets: Vec<String> =
        columns.iter().filter(is_set).map(|name| format!("{name}=excluded.{name}")).collect();
    // Who stays settled stays so since then.
    sets.push("synced_at=iif(inventory.state='settled' AND excluded.state='settled',inventory.synced_at,excluded.synced_at)".into());
    sets.push(
        "healthy_at=iif(inventory.state='settled' AND excluded.state='settled',inventory.healthy_at,NULL)"
            .into(),
    );
    let sets = sets.join(",");
    format!("{with}INSERT INTO inventory ({all}) {values} ON CONFLICT (scope, id) DO UPDATE SET {sets}")
}

/// What all that is read of the rows of a scope stands by.
pub(super) async fn stamp(conn: &mut SqliteConnection, scope: &str) -> Result<i64> {
    let found = sqlx::query_scalar("SELECT stamp FROM inventory_stamp WHERE scope = ?1").bind(scope);
    Ok(found.fetch_optional(conn).await?.unwrap_or(0))
}

/// As [`stamp`], of every scope that may have rows, in order.
pub(super) async fn stamps(conn: &mut SqliteConnection) -> Result<Vec<(String, i64)>> {
    let found = sqlx::query_as("SELECT scope, stamp FROM inventory_stamp ORDER BY scope");
    Ok(found.fetch_all(conn).await?)
}

/// Gives a stamp to each scope that has rows and none, of before there were any: from here on [`stamps`] leaves out no row.
///
/// Goes from scope to scope, not from row to row.
pub(super) async fn stamp_all(conn: &mut SqliteConnection) -> Result<()> {
    let done = sqlx::query(
        "WITH RECURSIVE has(scope) AS (
             SELECT min(scope) FROM inventory
             UNION ALL SELECT (SELECT min(scope) FROM inventory WHERE scope > has.scope) FROM has WHERE scope IS NOT NULL)
         INSERT OR IGNORE INTO inventory_stamp (scope, stamp) SELECT scope, 0 FROM has WHERE scope IS NOT NULL",
    );
    done.execute(conn).await?;
    Ok(())
}

/// What the rows of a scope are given when they change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) number: i64,
    /// A mark may say of rows of the scope that they are settled.
    is_marked: bool,
}

/// Gives the rows of these scopes a new stamp, and returns those in the same order. None is named twice.
///
/// Comes before rows are put: they bear it, so that no mark that is there is about them.
pub(super) async fn touch(conn: &mut SqliteConnection, scopes: &[&Scope]) -> Result<Vec<Stamp>> {
    let names: Vec<String> = scopes.iter().map(ToString::to_string).collect();
    let raised = sqlx::query_as(
        "INSERT INTO inventory_stamp (scope, stamp) SELECT value, 1 FROM json_each(?1) WHERE true
         ON CONFLICT (scope) DO UPDATE SET stamp = stamp + 1 RETURNING scope, stamp, settled IS NOT NULL",
    );
    let raised: Vec<(String, i64, bool)> = raised.bind(json(&names)).fetch_all(conn).await?;
    let raised: HashMap<&str, Stamp> = raised
        .iter()
        .map(|(scope, number, is_marked)| (&**scope, Stamp { number: *number, is_marked: *is_marked }))
        .collect();
    let stamp = |name: &String| {
        raised.get(&**name).copied().ok_or_else(|| StoreError::Unreadable(format!("stamp of `{name}`")))
    };
    names.iter().map(stamp).collect()
}

/// How many rows a scope has.
pub(super) async fn count(conn: &mut SqliteConnection, scope: &str) -> Result<usize> {
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM inventory WHERE scope = ?1")
        .bind(scope)
        .fetch_one(conn)
        .await?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// How many rows each of these scopes has that has any.
pub(super) async fn counts(conn: &mut SqliteConnection, scopes: &[Scope]) -> Result<HashMap<String, usize>> {
    let names: Vec<String> = scopes.iter().map(ToString::to_string).collect();
    let counts: Vec<(String, i64)> = sqlx::query_as(
        "SELECT scope, count(*) FROM inventory WHERE scope IN (SELECT value FROM json_each(?1)) GROUP BY scope",
    )
    .bind(json(&names))
    .fetch_all(conn)
    .await?;
    Ok(counts.into_iter().map(|(scope, count)| (scope, count as usize)).collect())
}

/// Puts or replaces rows by scope and id; `stamps` has the new one of each scope. False where they were no longer wanted.
pub(super) async fn put(
    conn: &mut SqliteConnection,
    seal: &Seal,
    rows: &[&Row],
    stamps: &BTreeMap<&Scope, Stamp>,
    now: Duration,
    are_wanted: Wanted<'_>,
) -> Result<bool> {
    // In the order of the table, so that each page is filled once and not written again and again.
    let mut rows = rows.to_vec();
    rows.sort_unstable_by_key(|row| (&row.scope, &row.tracked.id));
    for rows in rows.chunk_by(|one, other| one.scope == other.scope) {
        let scope = &*rows[0].scope;
        if stamps[scope].is_marked {
            // Of the others it is no matter what they were.
            let settled = rows.iter().filter(|row| row.state == RowState::Settled);
            unmark(conn, &scope.to_string(), &settled.map(|row| &*row.tracked.id.0).collect::<Vec<_>>())
                .await?;
        }
    }
    let mut rest = &rows[..];
    let mut next = || {
        let (first, most) = (rest.first()?, SIZES[0]);
        let are_alike = rest.len() >= most && rest[1..most].iter().all(|row| is_alike(first, row));
        let (size, sql, common) = match are_alike {
            true => (most, &*ALIKE, Bound::Once),
            false => {
                let (size, sql) = SIZES.iter().zip(UPSERTS.iter()).find(|(size, _)| rest.len() >= **size)?;
                (*size, sql, Bound::EachRow)
            }
        };
        let (chunk, after) = rest.split_at(size);
        rest = after;
        let query = sqlx::query(AssertSqlSafe(sql.as_str()));
        Some(chunk.iter().enumerate().try_fold(query, |query, (number, row)| {
            let query = match common == Bound::EachRow || number == 0 {
                true => bind_common(query, row, stamps[&*row.scope], now),
                false => query,
            };
            bind_own(query, row, seal)
        }))
    };
    let mut ready = next().transpose()?;
    while let Some(query) = ready {
        if !are_wanted() {
            return Ok(false);
        }
        // SQLite works in a thread of its own: the next statement is put together meanwhile.
        let (done, following) = join(query.execute(&mut *conn), async { next().transpose() }).await;
        done?;
        ready = following?;
    }
    Ok(true)
}

/// Says whether what takes long is to be gone on with.
pub(super) type Wanted<'a> = &'a (dyn Fn() -> bool + Sync);

type Query<'q> = sqlx::query::Query<'q, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

/// True where two rows differ in [`OWN`] at most. Every field that may differ is named, so that none is forgotten: the journal
/// leaves out of each what all of a group have in common.
pub(super) fn is_alike(one: &Row, other: &Row) -> bool {
    let Row { known, state, written_at } = one;
    let Known { terms, tracked, address: _, template: _ } = &**known;
    let Tracked { id: _, remote: _, private: _, applied: _, after, outputs: _ } = tracked;
    *terms == other.terms
        && *after == other.tracked.after
        && *state == other.state
        && ms(*written_at) == ms(other.written_at)
}

/// Binds [`COMMON`].
fn bind_common<'q>(query: Query<'q>, row: &Row, stamp: Stamp, now: Duration) -> Query<'q> {
    let (state, recheck_at) = state_columns(&row.state);
    query
        .bind(row.scope.to_string())
        .bind(row.manifest.0.clone())
        .bind(row.file.clone())
        .bind(row.normalizer)
        .bind(deletion_word(row.deletion))
        .bind(row.writes.word())
        .bind(row.drift.word())
        .bind(row.merge)
        .bind(state)
        .bind(recheck_at)
        .bind(ms(row.written_at))
        .bind(row.revision.clone())
        .bind(edges(&row.tracked.after))
        .bind(addresses(&row.formerly))
        .bind((row.state == RowState::Settled).then(|| ms(now)))
        .bind(stamp.number)
}

/// Binds [`OWN`].
fn bind_own<'q>(query: Query<'q>, row: &Row, seal: &Seal) -> Result<Query<'q>> {
    let Tracked { id, remote, private, applied, outputs, after: _ } = &row.tracked;
    Ok(query
        .bind(id.0.clone())
        .bind(row.address.to_string())
        .bind(&row.template.0[..])
        .bind(&applied.0[..])
        .bind(remote.clone())
        .bind(seal.seal(&row.scope, id, Part::Private, private)?)
        .bind(seal.seal(&row.scope, id, Part::Outputs, outputs)?))
}

/// Rows that one statement settles: what it would undo should it fail stays in memory, where more goes to a file.
const SETTLED: usize = 128;

/// From how many rows on a scope of which all are settled at once is marked: of fewer each is changed.
pub(super) const MARKED: usize = SETTLED + 1;

/// A row that neither says that it is settled nor is marked so.
const UNSETTLED: &str = "inventory.state <> 'settled' AND (inventory.state <> 'applied' OR inventory.stamp
     > coalesce((SELECT mark.settled FROM inventory_stamp AS mark WHERE mark.scope = inventory.scope), -1))";

/// How rows were settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// All of them were.
    Before,
    /// Each was changed.
    Each,
    /// By a mark: none was changed.
    Marked,
}

/// Settles rows that are seen to be as written. From `marked` rows on see [`MARKED`].
pub(super) async fn settle(
    conn: &mut SqliteConnection,
    kept: Option<&Kept>,
    (scope, ids): (&Scope, &[ResourceId]),
    marked: usize,
    now: Duration,
) -> Result<Settled> {
    let mut ids: Vec<&str> = ids.iter().map(|id| &*id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let can_be_marked = ids.len() >= marked && {
        let name = scope.to_string();
        let stamp = stamp(conn, &name).await?;
        match kept.and_then(|kept| kept.are_applied(scope, stamp, &ids)) {
            Some(can) => can,
            None => can_be_marked(conn, &name, &ids).await?,
        }
    };
    let (scope, mut settled) = (scope.to_string(), 0);
    if can_be_marked {
        let done =
            sqlx::query("UPDATE inventory_stamp SET settled = stamp, settled_at = ?2 WHERE scope = ?1");
        done.bind(&scope).bind(ms(now)).execute(&mut *conn).await?;
        return Ok(Settled::Marked);
    }
    static EACH: LazyLock<String> = LazyLock::new(|| {
        format!(
            "UPDATE inventory SET state = 'settled', recheck_at = NULL, synced_at = ?3, healthy_at = ?3
             WHERE scope = ?1 AND id IN (SELECT value FROM json_each(?2)) AND {UNSETTLED}"
        )
    });
    for ids in ids.chunks(SETTLED) {
        let done = sqlx::query(AssertSqlSafe(EACH.as_str()));
        let done = done.bind(&scope).bind(json(&ids)).bind(ms(now)).execute(&mut *conn).await?;
        settled += done.rows_affected();
    }
    Ok(if settled > 0 { Settled::Each } else { Settled::Before })
}

/// True where these are all rows of the scope, and each was written and not seen since: a mark is about all of them, and
/// has one time for all.
///
/// `ids` are sorted. Looks at no more rows than they are: it costs less than to change each.
async fn can_be_marked(conn: &mut SqliteConnection, scope: &str, ids: &[&str]) -> Result<bool> {
    let found: String = sqlx::query_scalar(
        "SELECT json_group_array(iif(can, id, NULL)) FROM (
             SELECT id, state = 'applied' AND inventory.stamp > coalesce(mark.settled, -1)
                 AND inventory.stamp <= mark.stamp AS can
             FROM inventory JOIN inventory_stamp AS mark USING (scope) WHERE scope = ?1 ORDER BY id LIMIT ?2)",
    )
    .bind(scope)
    .bind(ids.len() as i64 + 1)
    .fetch_one(conn)
    .await?;
    let found: Vec<Option<Cow<'_, str>>> = parse_json(&found)?;
    Ok(found.len() == ids.len() && found.iter().zip(ids).all(|(one, id)| one.as_deref() == Some(*id)))
}

/// Puts down in these rows what the mark of their scope says of them, for what then changes them one by one.
pub(super) async fn unmark(conn: &mut SqliteConnection, scope: &str, ids: &[&str]) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(
        "UPDATE inventory SET state = 'settled', synced_at = mark.settled_at, healthy_at = mark.settled_at
         FROM inventory_stamp AS mark
         WHERE mark.scope = ?1 AND inventory.scope = ?1 AND inventory.id IN (SELECT value FROM json_each(?2))
             AND inventory.state = 'applied' AND inventory.stamp <= mark.settled",
    );
    done.bind(scope).bind(json(&ids)).execute(conn).await?;
    Ok(())
}

/// As [`settle`], of many scopes and row by row; returns those that changed.
pub(super) async fn settle_all(
    conn: &mut SqliteConnection,
    rows: &[(&Scope, &ResourceId)],
    now: Duration,
) -> Result<HashSet<String>> {
    let mut rows: Vec<(String, &str)> = rows.iter().map(|(scope, id)| (scope.to_string(), &*id.0)).collect();
    rows.sort_unstable();
    static EACH: LazyLock<String> = LazyLock::new(|| {
        format!(
            "UPDATE inventory SET state = 'settled', recheck_at = NULL, synced_at = ?2, healthy_at = ?2
             FROM json_each(?1) AS seen
             WHERE inventory.scope = seen.value ->> 0 AND inventory.id = seen.value ->> 1 AND {UNSETTLED}
             RETURNING scope"
        )
    });
    let mut changed = HashSet::new();
    for rows in rows.chunks(SETTLED) {
        let done = sqlx::query_scalar(AssertSqlSafe(EACH.as_str()));
        let done: Vec<String> = done.bind(json(&rows)).bind(ms(now)).fetch_all(&mut *conn).await?;
        changed.extend(done);
    }
    Ok(changed)
}

/// Remembers from which documents a scope was planned.
pub(super) async fn documents(
    conn: &mut SqliteConnection,
    scope: &Scope,
    list: &[(ManifestKey, Option<Hash>)],
) -> Result<()> {
    let scope = scope.to_string();
    for (manifest, content) in list {
        let query = match content {
            Some(content) => sqlx::query(
                "INSERT INTO document (scope, manifest, content) VALUES (?1, ?2, ?3)
                 ON CONFLICT (scope, manifest) DO UPDATE SET content = excluded.content",
            )
            .bind(&scope)
            .bind(manifest.0.clone())
            .bind(&content.0[..]),
            None => sqlx::query("DELETE FROM document WHERE scope = ?1 AND manifest = ?2")
                .bind(&scope)
                .bind(manifest.0.clone()),
        };
        query.execute(&mut *conn).await?;
    }
    Ok(())
}

/// As [`documents`], of many scopes.
pub(super) async fn documents_all(
    conn: &mut SqliteConnection,
    list: &[(&Scope, &ManifestKey, Option<Hash>)],
) -> Result<()> {
    let row = |(scope, manifest, content): &(&Scope, &ManifestKey, Option<Hash>)| {
        (scope.to_string(), manifest.to_string(), content.map(|content| content.to_string()))
    };
    let (known, gone): (Vec<_>, Vec<_>) = list.iter().map(row).partition(|(_, _, content)| content.is_some());
    let put = "INSERT INTO document (scope, manifest, content)
         SELECT value ->> 0, value ->> 1, unhex(value ->> 2) FROM json_each(?1) WHERE true
         ON CONFLICT (scope, manifest) DO UPDATE SET content = excluded.content";
    let remove = "DELETE FROM document WHERE (scope, manifest) IN
         (SELECT value ->> 0, value ->> 1 FROM json_each(?1))";
    for (rows, sql) in [(known, put), (gone, remove)] {
        if !rows.is_empty() {
            sqlx::query(sql).bind(json(&rows)).execute(&mut *conn).await?;
        }
    }
    Ok(())
}

/// Removes rows by id; true when there was one.
pub(super) async fn remove(conn: &mut SqliteConnection, scope: &Scope, ids: &[ResourceId]) -> Result<bool> {
    let ids: Vec<&str> = ids.iter().map(|id| &*id.0).collect();
    let done =
        sqlx::query("DELETE FROM inventory WHERE scope = ?1 AND id IN (SELECT value FROM json_each(?2))")
            .bind(scope.to_string())
            .bind(json(&ids))
            .execute(conn)
            .await?;
    Ok(done.rows_affected() > 0)
}

/// Forgets what is remembered of scopes in which nothing is tracked or declared any more. Stamps stay: they are never
/// used twice.
pub(super) async fn sweep(conn: &mut SqliteConnection) -> Result<()> {
    let sweeps = [
        "DELETE FROM document WHERE manifest NOT IN (SELECT key FROM manifest)
         AND NOT EXISTS (SELECT 1 FROM inventory WHERE inventory.scope = document.scope)",
        "DELETE FROM looked_at WHERE scope NOT IN (SELECT scope FROM document)
         AND NOT EXISTS (SELECT 1 FROM inventory WHERE inventory.scope = looked_at.scope)",
        "DELETE FROM scope_place WHERE scope NOT IN (SELECT scope FROM document)
         AND NOT EXISTS (SELECT 1 FROM inventory WHERE inventory.scope = scope_place.scope)",
        "DELETE FROM health WHERE scope NOT IN (SELECT scope FROM document)
         AND NOT EXISTS (SELECT 1 FROM inventory WHERE inventory.scope = health.scope)
         AND NOT EXISTS (SELECT 1 FROM condition WHERE condition.scope = health.scope)",
    ];
    for sweep in sweeps {
        sqlx::query(sweep).execute(&mut *conn).await?;
    }
    Ok(())
}
