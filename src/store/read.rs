//! The questions of the command line: status, what is tracked, events, approvals. Plain data; rendering is elsewhere, and what
//! happened is in [`super::history`].

use super::{
    approval::{self, APPROVAL_LIFE},
    drift,
    entry::{
        ApprovalEntry, Approvals, ConditionEntry, DegradedEntry, EventEntry, EventFilter, HoldEntry,
        PinEntry, SHARES, ScopeStatus, SourceStatus, Stamp, Status, SuspensionEntry, TrackedEntry,
        TrackedHere, UNANSWERED,
    },
    error::Result,
    events::{self, Verification},
    journal, memory, notification, pin,
    reader::Reader,
    rows::{self, at, hash, is_meant, ms, parse_json},
    suspension,
};
use data_encoding::HEXLOWER;
use futures_util::TryStreamExt as _;
use reconciled_engine::{HealthState, store::Approval};
use reconciled_provider::{ActionId, ManifestKey, Pattern, ResourceId, Scope, Version};
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection, sqlite::SqliteRow};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Whether what is in a scope for a source is looked after.
pub(super) type LookedAfter<'a> = &'a (dyn Fn(&str, &str) -> bool + Sync);

impl Reader {
    /// What is known as a whole, in one consistent snapshot.
    pub async fn status(&self) -> Result<Status> {
        self.status_of(&|_, _| true).await
    }
    /// As [`Reader::status`]; only what a source has in a scope that is looked after counts as well.
    pub async fn status_of(&self, is_looked_after: LookedAfter<'_>) -> Result<Status> {
        let mut tx = self.snapshot().await?;
        status(&mut tx, is_looked_after, self.clock.now()).await.map_err(|error| error.of(&self.file))
    }
    /// How much is tracked, in one consistent snapshot: of the entries that are `here` as one number, of others by scope. And what is
    /// for elsewhere.
    pub async fn tracked_here(&self, is_here: &(dyn Fn(&str) -> bool + Sync)) -> Result<TrackedHere> {
        let mut tx = self.snapshot().await?;
        tracked_here(&mut tx, is_here).await.map_err(|error| error.of(&self.file))
    }
    /// What is not well: conditions, holds and suspensions, in one consistent snapshot.
    pub async fn not_well(&self) -> Result<Status> {
        let mut tx = self.snapshot().await?;
        not_well(&mut tx, self.clock.now()).await.map_err(|error| error.of(&self.file))
    }
    /// What does not do its work by the word of its remote, the longest first.
    pub async fn degraded(&self) -> Result<Vec<DegradedEntry>> {
        let mut conn = self.conn().await?;
        faring(&mut conn, HealthState::Degraded).await.map_err(|error| error.of(&self.file))
    }
    /// What does not do its work yet by the word of its remote, the longest first.
    pub async fn progressing(&self) -> Result<Vec<DegradedEntry>> {
        let mut conn = self.conn().await?;
        faring(&mut conn, HealthState::Progressing).await.map_err(|error| error.of(&self.file))
    }
    /// The scopes in which something is tracked that no manifest in force declares any more, and of which no pass has
    /// said why it stays.
    pub async fn undeclared(&self) -> Result<BTreeSet<Scope>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_scalar(
            "SELECT DISTINCT scope FROM inventory
             WHERE manifest NOT LIKE '$%' AND manifest NOT IN (SELECT key FROM manifest)
                 AND substr(manifest, 1, instr(manifest, '/') - 1) IN (SELECT source FROM revision)
                 AND (scope, id) NOT IN (SELECT scope, id FROM condition WHERE id IS NOT NULL)
                 AND manifest NOT IN (SELECT id FROM condition WHERE scope LIKE '$sources/%' AND id IS NOT NULL)",
        );
        let found: Vec<String> = found.fetch_all(&mut *conn).await.map_err(|error| self.error(error))?;
        found.iter().map(|scope| rows::scope(scope)).collect()
    }
    /// What is tracked, by scope and id; with a pattern only what it means.
    pub async fn rows(&self, pattern: Option<&Pattern>) -> Result<Vec<TrackedEntry>> {
        let mut conn = self.conn().await?;
        tracked(&mut conn, pattern).await.map_err(|error| error.of(&self.file))
    }
    /// Creations that got no answer, with their names in the journal: nothing of them is tracked, and whether they took
    /// effect is not known.
    pub async fn unanswered(&self, pattern: Option<&Pattern>) -> Result<Vec<(ActionId, TrackedEntry)>> {
        let mut conn = self.conn().await?;
        let all = journal::unanswered(&mut conn).await.map_err(|error| error.of(&self.file))?;
        let is_meant = |one: &journal::Unanswered| {
            is_meant(pattern, Some(&one.address), Some(ManifestKey(one.manifest.as_str().into()).group()))
        };
        let entry = |one: journal::Unanswered| {
            let entry = TrackedEntry {
                address: one.address,
                remote: None,
                written_at: Some(Stamp(one.started_at)),
                revision: one.revision,
                ..untracked(UNANSWERED, one.scope, one.id, one.manifest)
            };
            (one.action, entry)
        };
        Ok(all.into_iter().filter(is_meant).map(entry).collect())
    }
    /// Manifests of a source that may have values in what is shared, by scope.
    pub async fn sharing(&self, source: &str) -> Result<Vec<TrackedEntry>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_as(
            "SELECT scope, manifest FROM document WHERE manifest >= ?1 || '/' AND manifest < ?1 || '0'
             AND EXISTS (SELECT 1 FROM inventory WHERE inventory.scope = document.scope AND merged = 1)",
        );
        let found = found.bind(source).fetch_all(&mut *conn).await.map_err(|error| self.error(error))?;
        let entry = |(scope, manifest): (String, String)| {
            let key = ManifestKey(manifest.as_str().into());
            TrackedEntry {
                address: format!("{}/{}", key.kind(), key.name()),
                ..untracked(SHARES, scope, String::new(), manifest)
            }
        };
        Ok(found.into_iter().map(entry).collect())
    }
    /// The sources for which something is tracked, by scope.
    pub async fn tracking(&self) -> Result<BTreeMap<Scope, BTreeSet<Arc<str>>>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_as(
            "SELECT DISTINCT scope, substr(manifest, 1, instr(manifest, '/') - 1) FROM inventory",
        );
        let found: Vec<(String, String)> =
            found.fetch_all(&mut *conn).await.map_err(|error| self.error(error))?;
        let mut tracking: BTreeMap<Scope, BTreeSet<Arc<str>>> = BTreeMap::new();
        for (scope, source) in found {
            tracking.entry(rows::scope(&scope)?).or_default().insert(source.into());
        }
        Ok(tracking)
    }
    /// At most `limit` events after the one with number `after`, the oldest first.
    pub async fn events(&self, filter: &EventFilter, after: i64, limit: usize) -> Result<Vec<EventEntry>> {
        let mut conn = self.conn().await?;
        listed_events(&mut conn, filter, after, limit).await.map_err(|error| error.of(&self.file))
    }
    /// Number of the last event, 0 when there is none: where `events -w` begins.
    pub async fn last_event(&self) -> Result<i64> {
        let mut conn = self.conn().await?;
        let last = sqlx::query_scalar("SELECT coalesce(max(number), 0) FROM event");
        last.fetch_one(&mut *conn).await.map_err(|error| self.error(error))
    }
    /// Checks the chain of the audit trail.
    pub async fn verify_events(&self) -> Result<Verification> {
        let mut tx = self.snapshot().await?;
        events::verify(&mut tx).await.map_err(|error| error.of(&self.file))
    }
    /// Identities that were forgotten and must not be adopted, by scope and id.
    pub async fn bars(&self) -> Result<Vec<(Scope, ResourceId)>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_as("SELECT scope, id FROM consent WHERE word = 'barred' ORDER BY scope, id");
        let found: Vec<(String, String)> =
            found.fetch_all(&mut *conn).await.map_err(|error| self.error(error))?;
        found.iter().map(|(scope, id)| Ok((rows::scope(scope)?, ResourceId::from(id.as_str())))).collect()
    }
    /// The scopes in which resources claim something, by the scope and id of each.
    pub async fn claimed(&self) -> Result<BTreeMap<(String, String), BTreeSet<Scope>>> {
        let mut conn = self.conn().await?;
        let found = sqlx::query_as("SELECT owner_scope, owner, scope FROM claim");
        let found: Vec<(String, String, String)> =
            found.fetch_all(&mut *conn).await.map_err(|error| self.error(error))?;
        let mut claimed: BTreeMap<_, BTreeSet<Scope>> = BTreeMap::new();
        for (owner_scope, owner, scope) in found {
            claimed.entry((owner_scope, owner)).or_default().insert(rows::scope(&scope)?);
        }
        Ok(claimed)
    }
    /// Holds and consents.
    pub async fn approvals(&self) -> Result<Approvals> {
        let mut tx = self.snapshot().await?;
        approvals(&mut tx, self.clock.now()).await.map_err(|error| error.of(&self.file))
    }
}

/// What is no row of the inventory, and is shown among them.
fn untracked(state: &str, scope: String, id: String, manifest: String) -> TrackedEntry {
    TrackedEntry {
        address: String::new(),
        scope,
        id,
        remote: None,
        manifest,
        file: String::new(),
        state: state.into(),
        recheck_at: None,
        rests_until: None,
        written_at: None,
        revision: String::new(),
        deletion: "abandon".into(),
        drift: "heal".into(),
        merge: false,
        applied: String::new(),
        depends_on: Vec::new(),
    }
}

async fn not_well(conn: &mut SqliteConnection, now: Duration) -> Result<Status> {
    Ok(Status {
        conditions: conditions(conn).await?,
        holds: holds(conn, now).await?,
        suspensions: suspension::all(conn).await?.iter().map(SuspensionEntry::from).collect(),
        pins: pin::all(conn).await?.iter().map(PinEntry::from).collect(),
        elsewhere: notification::elsewhere(conn).await?,
        ..Status::default()
    })
}

async fn status(
    conn: &mut SqliteConnection,
    is_looked_after: LookedAfter<'_>,
    now: Duration,
) -> Result<Status> {
    let whole = not_well(conn, now).await?;
    let (scopes, held) = scopes(conn, is_looked_after).await?;
    Ok(Status {
        drifts: drift::entries(conn, None, true).await?,
        degraded: faring(conn, HealthState::Degraded).await?,
        progressing: faring(conn, HealthState::Progressing).await?,
        sources: sources(conn).await?,
        well: scopes.iter().map(|scope| scope.well).sum::<u64>() - held,
        scopes,
        open: sqlx::query_scalar::<_, i64>(
            "SELECT coalesce(sum(total - ended), 0) FROM journal WHERE ended < total",
        )
        .fetch_one(conn)
        .await? as u64,
        ..whole
    })
}

async fn sources(conn: &mut SqliteConnection) -> Result<Vec<SourceStatus>> {
    let found = sqlx::query(
        "SELECT r.source, r.commit_id, label, author, subject,
                (SELECT min(at) FROM revision since WHERE since.source = r.source AND since.number > coalesce(
                     (SELECT max(number) FROM revision other
                      WHERE other.source = r.source AND other.commit_id <> r.commit_id), 0)), manifests, c.commit_id IS r.commit_id,
                CAST(meta.value AS INTEGER)
         FROM revision r LEFT JOIN converged c ON c.source = r.source
         LEFT JOIN meta ON meta.key = 'restored/' || r.source
         WHERE number IN (SELECT max(number) FROM revision GROUP BY source) ORDER BY r.source",
    )
    .fetch_all(conn)
    .await?;
    let source = |row: &SqliteRow| {
        Ok(SourceStatus {
            source: row.try_get(0)?,
            commit: row.try_get(1)?,
            label: row.try_get(2)?,
            author: row.try_get(3)?,
            subject: row.try_get(4)?,
            since: Stamp(at(row.try_get(5)?)),
            manifests: row.try_get::<i64, _>(6)? as u64,
            converged: row.try_get(7)?,
            restored: stamp(row, 8)?,
        })
    };
    found.iter().map(source).collect()
}

/// One row for each entry and not for each scope: of these there may be thousands.
async fn tracked_here(
    conn: &mut SqliteConnection,
    is_here: &(dyn Fn(&str) -> bool + Sync),
) -> Result<TrackedHere> {
    // By scope first, as rows lie: by entry at once would take all of them apart and sort them.
    let entries: Vec<(String, i64)> = sqlx::query_as(
        "SELECT substr(scope, 1, instr(scope, '/') - 1), sum(tracked)
         FROM (SELECT scope, count(*) AS tracked FROM inventory GROUP BY scope) GROUP BY 1",
    )
    .fetch_all(&mut *conn)
    .await?;
    let (here, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(entry, _)| is_here(entry));
    let mut tracked = TrackedHere {
        here: here.iter().map(|(_, count)| *count as u64).sum(),
        elsewhere: Vec::new(),
        manifests: notification::elsewhere(&mut *conn).await?,
    };
    for (entry, _) in others {
        let found: Vec<(String, i64)> = sqlx::query_as(
            "SELECT scope, count(*) FROM inventory WHERE substr(scope, 1, instr(scope, '/') - 1) = ?1
             GROUP BY scope ORDER BY scope",
        )
        .bind(entry)
        .fetch_all(&mut *conn)
        .await?;
        tracked.elsewhere.extend(found.into_iter().map(|(scope, count)| (scope, count as u64)));
    }
    Ok(tracked)
}

/// What is tracked of each, and how many of all that is well in them is held.
async fn scopes(
    conn: &mut SqliteConnection,
    is_looked_after: LookedAfter<'_>,
) -> Result<(Vec<ScopeStatus>, u64)> {
    let (mut well, held) = well(conn, is_looked_after).await?;
    let found = sqlx::query(
        "SELECT scope, sum(tracked), sum(applied), sum(pending), max(foreigners) FROM (
             SELECT scope, count(*) AS tracked, sum(state = 'applied') AS applied,
                    sum(state = 'pending') AS pending, NULL AS foreigners FROM inventory_now GROUP BY scope
             UNION ALL SELECT scope, 0, 0, 0, foreigners FROM scope_version)
         GROUP BY scope ORDER BY scope",
    )
    .fetch_all(conn)
    .await?;
    let scope = |row: &SqliteRow| {
        let scope: String = row.try_get(0)?;
        Ok(ScopeStatus {
            well: well.remove(&scope).unwrap_or_default(),
            scope,
            tracked: row.try_get::<i64, _>(1)? as u64,
            applied: row.try_get::<i64, _>(2)? as u64,
            pending: row.try_get::<i64, _>(3)? as u64,
            foreign: row.try_get::<Option<i64>, _>(4)?.map(|count| count as u64),
        })
    };
    Ok((found.iter().map(scope).collect::<Result<_>>()?, held))
}

/// How many resources are as declared and well as far as anybody knows, by scope, and how many of all these are held at most. Which ones
/// a hold is about is not remembered, but how many: so many less count in its guard domain, whatever scope they are in, and more of them
/// may be well where it is about what nobody tracks.
async fn well(
    conn: &mut SqliteConnection,
    is_looked_after: LookedAfter<'_>,
) -> Result<(BTreeMap<String, u64>, u64)> {
    // What is not held yet waits, and each that waits says so itself.
    let mut held: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    for hold in memory::holds(conn).await?.into_iter().filter(|hold| hold.once.is_none()) {
        let [_, updates, replaces, deletes] = hold.counts.map(u64::from);
        held.insert(hold.domain, updates + replaces + deletes);
    }
    let found: Vec<(String, String, Option<String>, i64)> = sqlx::query_as(
        "SELECT scope, substr(manifest, 1, instr(manifest, '/') - 1),
                CASE WHEN manifest LIKE '$%' OR (scope, id) IN (SELECT scope, id FROM pin) THEN NULL
                     WHEN scope IN (SELECT domain FROM hold) THEN scope
                     ELSE substr(scope, 1, instr(scope, '/') - 1) END,
                count(*) FROM inventory_now
         WHERE state = 'settled'
             AND scope NOT IN (SELECT scope FROM health WHERE id = ''
              UNION ALL SELECT scope FROM condition WHERE id IS NULL AND reason = 'OutOfDate')
             AND (scope, id) NOT IN
             (SELECT scope, id FROM condition WHERE id IS NOT NULL
              UNION ALL SELECT scope, id FROM drift WHERE ended_at IS NULL
              UNION ALL SELECT scope, id FROM health WHERE state IN ('Degraded', 'Progressing', 'Missing'))
             AND manifest NOT IN (SELECT id FROM condition WHERE scope LIKE '$sources/%' AND id IS NOT NULL)
             AND 'restored/' || substr(manifest, 1, instr(manifest, '/') - 1) NOT IN (SELECT key FROM meta)
         GROUP BY 1, 2, 3",
    )
    .fetch_all(conn)
    .await?;
    let (mut all, mut meant) = (BTreeMap::<String, u64>::new(), 0);
    for (scope, source, domain, count) in found {
        if !is_looked_after(&scope, &source) {
            continue;
        }
        let count = count as u64;
        if let Some(domain) = domain
            && let Some(left) = held.get_mut(domain.as_str())
        {
            let of_these = count.min(*left);
            *left -= of_these;
            meant += of_these;
        }
        *all.entry(scope).or_default() += count;
    }
    Ok((all, meant))
}

async fn conditions(conn: &mut SqliteConnection) -> Result<Vec<ConditionEntry>> {
    let found = sqlx::query(
        "SELECT scope, id, address, kind, reason, message, hint, since, next_try FROM condition
         ORDER BY scope, position",
    )
    .fetch_all(conn)
    .await?;
    let condition = |row: &SqliteRow| {
        Ok(ConditionEntry {
            scope: row.try_get(0)?,
            id: row.try_get(1)?,
            address: row.try_get(2)?,
            kind: row.try_get(3)?,
            reason: row.try_get(4)?,
            message: row.try_get(5)?,
            hint: row.try_get(6)?,
            since: Stamp(at(row.try_get(7)?)),
            next_try: stamp(row, 8)?,
        })
    };
    found.iter().map(condition).collect()
}

/// What its remote says fares so. What a person has to act on anyway is told by its condition, and what is on its way
/// or waits by that.
pub(super) async fn faring(conn: &mut SqliteConnection, state: HealthState) -> Result<Vec<DegradedEntry>> {
    let found = sqlx::query(
        "SELECT i.address, h.scope, h.id, h.message, h.since
         FROM health h JOIN inventory_now i ON i.scope = h.scope AND i.id = h.id
         WHERE h.state = ?1 AND (h.state = 'Degraded' OR i.state = 'settled') AND (h.scope, h.id) NOT IN
             (SELECT scope, id FROM condition WHERE id IS NOT NULL
              AND (kind IN ('stalled', 'held') OR (kind = 'waiting' AND ?1 <> 'Degraded')))
         ORDER BY h.since, h.scope, h.id",
    )
    .bind(state.word())
    .fetch_all(conn)
    .await?;
    let entry = |row: &SqliteRow| {
        Ok(DegradedEntry {
            address: row.try_get(0)?,
            scope: row.try_get(1)?,
            id: row.try_get(2)?,
            message: row.try_get(3)?,
            since: Stamp(at(row.try_get(4)?)),
            next_try: None,
        })
    };
    found.iter().map(entry).collect()
}

async fn holds(conn: &mut SqliteConnection, now: Duration) -> Result<Vec<HoldEntry>> {
    let mut entries = Vec::new();
    for hold in memory::holds(conn).await? {
        let [creates, updates, replaces, deletes] = hold.counts;
        let approval = approval::valid(conn, hold.digest, now).await?;
        entries.push(HoldEntry {
            domain: hold.domain.to_string(),
            digest: hold.digest.to_string(),
            reasons: hold.reasons.iter().map(ToString::to_string).collect(),
            creates,
            updates,
            replaces,
            deletes,
            revision: hold.revision.to_string(),
            since: Stamp(hold.since),
            once: hold.once.map(|once| once.to_string()),
            approval: approval.as_ref().map(approval_entry),
        });
    }
    Ok(entries)
}

fn approval_entry(approval: &Approval) -> ApprovalEntry {
    ApprovalEntry {
        digest: approval.digest.to_string(),
        reason: approval.reason.to_string(),
        actor: approval.actor.to_string(),
        at: Stamp(approval.at),
        expires_at: Stamp(approval.at + APPROVAL_LIFE),
        used_at: approval.used_at.map(Stamp),
    }
}

async fn approvals(conn: &mut SqliteConnection, now: Duration) -> Result<Approvals> {
    let sql = format!("{} ORDER BY at DESC, digest", approval::SELECT);
    let found = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *conn).await?;
    let mut approvals = Vec::new();
    for row in &found {
        approvals.push(approval_entry(&approval::get(row)?));
    }
    Ok(Approvals { holds: holds(conn, now).await?, approvals })
}

async fn tracked(conn: &mut SqliteConnection, pattern: Option<&Pattern>) -> Result<Vec<TrackedEntry>> {
    let mut found = sqlx::query(
        "SELECT address, manifest, scope, id, remote, file, inventory_now.state, recheck_at, written_at, revision, deletion, drift, merged,
                applied, depends_on, scope_version.token
         FROM inventory_now LEFT JOIN scope_version USING (scope) ORDER BY scope, id",
    )
    .fetch(conn);
    let mut list = Vec::new();
    while let Some(row) = found.try_next().await? {
        let (address, manifest): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let key = ManifestKey(manifest.as_str().into());
        if !is_meant(pattern, Some(&address), Some(key.group())) {
            continue;
        }
        list.push(TrackedEntry {
            address,
            manifest,
            scope: row.try_get(2)?,
            id: row.try_get(3)?,
            remote: row.try_get(4)?,
            file: row.try_get(5)?,
            state: row.try_get(6)?,
            recheck_at: stamp(&row, 7)?,
            rests_until: row
                .try_get::<Option<Vec<u8>>, _>(15)?
                .and_then(|token| Version::At(token.into()).stands_until())
                .map(Stamp),
            written_at: stamp(&row, 8)?.filter(|at| !at.0.is_zero()),
            revision: row.try_get(9)?,
            deletion: row.try_get(10)?,
            drift: row.try_get(11)?,
            merge: row.try_get(12)?,
            applied: hash(row.try_get(13)?)?.to_string(),
            depends_on: row.try_get::<Option<&str>, _>(14)?.map(parse_json).transpose()?.unwrap_or_default(),
        });
    }
    Ok(list)
}

pub(super) async fn listed_events(
    conn: &mut SqliteConnection,
    filter: &EventFilter,
    after: i64,
    limit: usize,
) -> Result<Vec<EventEntry>> {
    let sql = format!(
        "{} WHERE number > ?1 AND at >= ?2 AND (?3 = '[]' OR kind IN (SELECT value FROM json_each(?3)))
         ORDER BY number",
        events::SELECT
    );
    let mut found = sqlx::query(AssertSqlSafe(sql))
        .bind(after)
        .bind(filter.since.map_or(0, ms))
        .bind(rows::json(&filter.kinds))
        .fetch(conn);
    let mut list = Vec::new();
    while list.len() < limit
        && let Some(row) = found.try_next().await?
    {
        let event = event(&row)?;
        if is_meant(filter.address.as_ref(), event.address.as_deref(), None) {
            list.push(event);
        }
    }
    Ok(list)
}

fn event(row: &SqliteRow) -> Result<EventEntry> {
    Ok(EventEntry {
        number: row.try_get(0)?,
        at: Stamp(at(row.try_get(1)?)),
        kind: row.try_get(2)?,
        scope: row.try_get(3)?,
        address: row.try_get(4)?,
        revision: row.try_get(5)?,
        actor: row.try_get(6)?,
        reason: row.try_get(7)?,
        message: row.try_get(8)?,
        hash: HEXLOWER.encode(row.try_get(9)?),
    })
}

fn stamp(row: &SqliteRow, index: usize) -> Result<Option<Stamp>> {
    Ok(row.try_get::<Option<i64>, _>(index)?.map(|time| Stamp(at(time))))
}
