//! What is not healthy and up to which generation scopes were looked at: rows written and read, and what is known of
//! each tracked resource besides its row.

use super::{
    entry::Stamp,
    error::{Result, StoreError},
    inventory,
    reader::Reader,
    rows::{at, json, ms, scope},
};
use futures_util::TryStreamExt as _;
use reconciled_engine::{
    HealthState,
    store::{Ailment, ScopeMemory},
};
use reconciled_provider::Scope;
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection, sqlite::SqliteRow};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Replaces all that is not healthy in a scope; who is so no longer is healthy since `now`.
pub(super) async fn put(
    conn: &mut SqliteConnection,
    scope: &Scope,
    list: &[Ailment],
    now: Duration,
) -> Result<()> {
    let name = scope.to_string();
    let key = |ailment: &Ailment| ailment.id.as_ref().map_or_else(String::new, |id| id.0.to_string());
    let keys: Vec<String> = list.iter().map(key).collect();
    let well: Vec<String> = sqlx::query_scalar(
        "DELETE FROM health WHERE scope = ?1 AND id NOT IN (SELECT value FROM json_each(?2)) RETURNING id",
    )
    .bind(&name)
    .bind(json(&keys))
    .fetch_all(&mut *conn)
    .await?;
    inventory::unmark(conn, &name, &well.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    sqlx::query(
        "UPDATE inventory SET healthy_at = ?3 WHERE scope = ?1 AND id IN (SELECT value FROM json_each(?2))",
    )
    .bind(&name)
    .bind(json(&well))
    .bind(ms(now))
    .execute(&mut *conn)
    .await?;
    for (ailment, id) in list.iter().zip(keys) {
        sqlx::query(
            "INSERT INTO health (scope, id, state, message, since) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (scope, id) DO UPDATE SET state = ?3, message = ?4, since = ?5
             WHERE (state, message, since) <> (?3, ?4, ?5)",
        )
        .bind(&name)
        .bind(id)
        .bind(ailment.state.word())
        .bind(ailment.message.clone())
        .bind(ms(ailment.since))
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// Remembers up to which generation a scope was looked at.
pub(super) async fn looked_at(conn: &mut SqliteConnection, scope: &Scope, generation: u64) -> Result<()> {
    sqlx::query(
        "INSERT INTO looked_at (scope, generation) VALUES (?1, ?2)
         ON CONFLICT (scope) DO UPDATE SET generation = ?2 WHERE generation <> ?2",
    )
    .bind(scope.to_string())
    .bind(generation as i64)
    .execute(conn)
    .await?;
    Ok(())
}

/// As [`looked_at`], of many scopes.
pub(super) async fn looked_at_all(
    conn: &mut SqliteConnection,
    looks: impl Iterator<Item = (&Scope, u64)>,
) -> Result<()> {
    let looks: Vec<(String, u64)> =
        looks.map(|(scope, generation)| (scope.to_string(), generation)).collect();
    sqlx::query(
        "INSERT INTO looked_at (scope, generation)
         SELECT value ->> 0, value ->> 1 FROM json_each(?1) WHERE true
         ON CONFLICT (scope) DO UPDATE SET generation = excluded.generation
         WHERE generation <> excluded.generation",
    )
    .bind(json(&looks))
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds what the engine remembers of health to the memory of the scopes from `first` to `last`.
pub(super) async fn recall(
    conn: &mut SqliteConnection,
    (first, last): (&str, &str),
    many: &mut BTreeMap<Scope, ScopeMemory>,
) -> Result<()> {
    let found = sqlx::query(
        "SELECT scope, id, state, message, since FROM health WHERE scope BETWEEN ?1 AND ?2 ORDER BY scope, id",
    )
    .bind(first)
    .bind(last)
    .fetch_all(&mut *conn)
    .await?;
    for row in &found {
        many.entry(scope(row.try_get(0)?)?).or_default().ailments.push(ailment(row)?);
    }
    let found: Vec<(String, i64)> =
        sqlx::query_as("SELECT scope, generation FROM looked_at WHERE scope BETWEEN ?1 AND ?2")
            .bind(first)
            .bind(last)
            .fetch_all(conn)
            .await?;
    for (name, generation) in &found {
        many.entry(scope(name)?).or_default().looked_at = *generation as u64;
    }
    Ok(())
}

fn ailment(row: &SqliteRow) -> Result<Ailment> {
    let (id, word): (&str, &str) = (row.try_get(1)?, row.try_get(2)?);
    Ok(Ailment {
        id: (!id.is_empty()).then(|| id.into()),
        state: HealthState::of_word(word)
            .ok_or_else(|| StoreError::Unreadable(format!("health `{word}`")))?,
        message: row.try_get::<&str, _>(3)?.into(),
        since: at(row.try_get(4)?),
    })
}

/// What is known of a tracked resource besides its row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// The manifest that declared it last, `SOURCE/GROUP/KIND/NAMESPACE/NAME`.
    pub manifest: String,
    /// `settled`, `applied` or `pending`.
    pub state: String,
    /// When this instance last wrote it; none if never.
    pub written_at: Option<Stamp>,
    /// Since when it is as declared, where that is known.
    pub synced_at: Option<Stamp>,
    /// Since when it is healthy, where that is known.
    pub healthy_at: Option<Stamp>,
    /// The generation of its manifest in force; none when nothing in force declares it.
    pub generation: Option<u64>,
    /// The generation before that.
    pub previous: Option<u64>,
    /// When the manifest in force came to be.
    pub changed_at: Option<Stamp>,
    /// Its scope was planned from the manifest in force.
    pub is_current: bool,
    /// The newest generation that a complete pass over its scope looked at.
    pub looked_at: Option<u64>,
    /// A revision of its source is in force.
    pub has_source: bool,
}

/// Of which resources the parts are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// All.
    All,
    /// Those that may not be healthy.
    Ailing,
    /// The same, and those of manifests that are not in force.
    AilingOrUndeclared,
}

/// Parts by scope and id.
pub type PartsByName = BTreeMap<(String, String), Part>;

const PARTS: &str = "SELECT i.scope, i.id, i.manifest, i.state, nullif(i.written_at, 0), i.synced_at, i.healthy_at,
        m.generation, m.previous, r.at, coalesce(m.content = d.content, 0), l.generation,
        EXISTS (SELECT 1 FROM revision WHERE source = substr(i.manifest, 1, instr(i.manifest, '/') - 1))
     FROM inventory_now i LEFT JOIN manifest m ON m.key = i.manifest LEFT JOIN revision r ON r.number = m.generation
     LEFT JOIN looked_at l ON l.scope = i.scope
     LEFT JOIN document d ON d.scope = i.scope AND d.manifest = i.manifest";

const AILING: &str = " WHERE i.state <> 'settled' OR i.scope IN (SELECT scope FROM health WHERE id = '')
     OR (i.scope, i.id) IN (SELECT scope, id FROM condition WHERE id IS NOT NULL
         UNION ALL SELECT scope, id FROM health UNION ALL SELECT scope, id FROM drift WHERE ended_at IS NULL)
     OR i.manifest IN (SELECT id FROM condition WHERE scope LIKE '$sources/%' AND id IS NOT NULL)";

/// What follows [`AILING`] for what no manifest in force declares.
const UNDECLARED: &str = " OR i.manifest NOT LIKE '$%' AND i.manifest NOT IN (SELECT key FROM manifest)";

impl Reader {
    /// What is known of tracked resources besides their rows.
    pub async fn parts(&self, which: Parts) -> Result<PartsByName> {
        let mut conn = self.conn().await?;
        parts(&mut conn, which).await.map_err(|error| error.of(&self.file))
    }

    /// What is not healthy, by scope; a scope as a whole comes first.
    pub async fn ailments(&self) -> Result<BTreeMap<String, Vec<Ailment>>> {
        let mut conn = self.conn().await?;
        ailments(&mut conn).await.map_err(|error| error.of(&self.file))
    }

    /// Scopes of which something tracked came to be declared otherwise since they were looked at. What is frozen is told as that.
    pub async fn behind(&self) -> Result<BTreeSet<String>> {
        let mut conn = self.conn().await?;
        let found: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT i.scope FROM inventory i JOIN manifest m ON m.key = i.manifest
             LEFT JOIN looked_at l ON l.scope = i.scope
             LEFT JOIN document d ON d.scope = i.scope AND d.manifest = i.manifest
             WHERE m.content IS NOT d.content AND m.generation > coalesce(l.generation, 0)
                 AND i.manifest NOT IN (SELECT id FROM condition WHERE scope LIKE '$sources/%' AND id IS NOT NULL)",
        )
        .fetch_all(&mut *conn)
        .await
        .map_err(|error| self.error(error))?;
        Ok(found.into_iter().collect())
    }

    /// What is tracked, by scope and manifest, that no manifest in force declares any more, where nothing is known that keeps it: no
    /// pass has said why it stays, no hold is about its guard domain, nobody keeps it at an earlier revision, and it is not on its way.
    pub async fn left_over(&self) -> Result<Vec<(String, String)>> {
        let mut conn = self.conn().await?;
        sqlx::query_as(
            "SELECT DISTINCT i.scope, i.manifest FROM inventory i
             WHERE i.manifest NOT LIKE '$%' AND i.manifest NOT IN (SELECT key FROM manifest)
                 AND substr(i.manifest, 1, instr(i.manifest, '/') - 1) IN (SELECT source FROM revision)
                 AND i.state <> 'pending'
                 AND (i.scope, i.id) NOT IN
                     (SELECT scope, id FROM condition WHERE id IS NOT NULL UNION ALL SELECT scope, id FROM pin)
                 AND i.manifest NOT IN (SELECT id FROM condition WHERE scope LIKE '$sources/%' AND id IS NOT NULL)
                 AND NOT EXISTS (SELECT 1 FROM hold h WHERE h.once IS NULL
                     AND h.domain IN (i.scope, substr(i.scope, 1, instr(i.scope, '/') - 1)))
             ORDER BY 1, 2",
        )
        .fetch_all(&mut *conn)
        .await
        .map_err(|error| self.error(error))
    }

    /// How many resources are tracked for each source in each scope.
    pub async fn tracked_by_source(&self) -> Result<BTreeMap<(String, String), u64>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_as(
            "SELECT substr(manifest, 1, instr(manifest, '/') - 1), scope, count(*) FROM inventory GROUP BY 1, 2",
        );
        let found: Vec<(String, String, i64)> =
            found.fetch_all(&mut *conn).await.map_err(|error| self.error(error))?;
        Ok(found.into_iter().map(|(source, scope, count)| ((source, scope), count as u64)).collect())
    }

    /// Identity and generations of every manifest in force: this one, and the one before.
    pub async fn manifests(&self) -> Result<Vec<(String, u64, Option<u64>)>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_as("SELECT key, generation, previous FROM manifest ORDER BY key");
        let found: Vec<(String, i64, Option<i64>)> =
            found.fetch_all(&mut *conn).await.map_err(|error| self.error(error))?;
        let entry = |(key, generation, previous): (String, i64, Option<i64>)| {
            (key, generation as u64, previous.map(|previous| previous as u64))
        };
        Ok(found.into_iter().map(entry).collect())
    }

    /// The newest generation of a manifest that a complete pass looked at, by scope.
    pub async fn looked_at(&self) -> Result<BTreeMap<String, u64>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_as("SELECT scope, generation FROM looked_at");
        let found: Vec<(String, i64)> =
            found.fetch_all(&mut *conn).await.map_err(|error| self.error(error))?;
        Ok(found.into_iter().map(|(scope, generation)| (scope, generation as u64)).collect())
    }
}

async fn ailments(conn: &mut SqliteConnection) -> Result<BTreeMap<String, Vec<Ailment>>> {
    let found = sqlx::query("SELECT scope, id, state, message, since FROM health ORDER BY scope, id");
    let mut all: BTreeMap<String, Vec<Ailment>> = BTreeMap::new();
    for row in &found.fetch_all(conn).await? {
        all.entry(row.try_get(0)?).or_default().push(ailment(row)?);
    }
    Ok(all)
}

async fn parts(conn: &mut SqliteConnection, which: Parts) -> Result<PartsByName> {
    let sql = match which {
        Parts::All => PARTS.to_owned(),
        Parts::Ailing => format!("{PARTS}{AILING}"),
        Parts::AilingOrUndeclared => format!("{PARTS}{AILING}{UNDECLARED}"),
    };
    let mut found = sqlx::query(AssertSqlSafe(sql)).fetch(conn);
    let mut all = BTreeMap::new();
    while let Some(row) = found.try_next().await? {
        let stamp =
            |index| -> Result<_> { Ok(row.try_get::<Option<i64>, _>(index)?.map(|ms| Stamp(at(ms)))) };
        let number =
            |index| -> Result<_> { Ok(row.try_get::<Option<i64>, _>(index)?.map(|number| number as u64)) };
        let part = Part {
            manifest: row.try_get(2)?,
            state: row.try_get(3)?,
            written_at: stamp(4)?,
            synced_at: stamp(5)?,
            healthy_at: stamp(6)?,
            generation: number(7)?,
            previous: number(8)?,
            changed_at: stamp(9)?,
            is_current: row.try_get(10)?,
            looked_at: number(11)?,
            has_source: row.try_get(12)?,
        };
        all.insert((row.try_get(0)?, row.try_get(1)?), part);
    }
    Ok(all)
}
