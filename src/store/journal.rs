//! The journal: one row per group of actions that are sent together, several for a large group.
//!
//! Guarantees: intents are there before the call and stay open until an outcome other than `unknown` is
//! written. What the rows of the inventory shall become is kept only as long as one action of the group is
//! open; what was done, to what and why stays for the history, in a table of its own that no answer writes again.

use super::{
    error::{Result, StoreError},
    intent::{AlikeRow, Common, PART, StoredOutcome, StoredRow, actions},
    rows::{self, at, json, json_list, ms, parse_json},
    seal::Seal,
    transaction::Tx,
};
use futures_util::{TryStreamExt as _, future::join};
use reconciled_engine::store::{Ending, Intent, OpenIntent, source_of_newest};
use reconciled_provider::{ActionId, ManifestKey, Scope};
use sqlx::{Row as _, SqliteConnection};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

/// Makes intents durable, if every manifest they were planned from is still what it was.
pub(super) async fn start(
    tx: &mut Tx<'_>,
    scope: &Scope,
    intents: &[Intent],
    fence: &[(ManifestKey, u64)],
    when: Duration,
) -> Result<()> {
    check_fence(tx.conn, fence).await?;
    let scope = scope.to_string();
    let mut parts = intents.chunks(PART).map(|part| Part::of(part, tx.seal));
    let mut ready = parts.next().transpose()?;
    while let Some(part) = ready {
        // SQLite works in a thread of its own: the next part is put together meanwhile.
        let put = part.put(tx.conn, &scope, tx.epoch, when);
        let (done, next) = join(put, async { parts.next().transpose() }).await;
        done?;
        ready = next?;
    }
    Ok(())
}

/// Intents of one scope, as [`Write::Start`](reconciled_engine::Write::Start) has them.
pub(super) struct Started<'w> {
    pub(super) scope: &'w Scope,
    pub(super) intents: &'w [Intent],
    pub(super) fence: &'w [(ManifestKey, u64)],
    pub(super) at: Duration,
}

/// As [`start`], of many scopes.
pub(super) async fn start_all(tx: &mut Tx<'_>, all: &[Started<'_>]) -> Result<()> {
    let fence: Vec<(ManifestKey, u64)> = all.iter().flat_map(|one| one.fence.iter().cloned()).collect();
    check_fence(tx.conn, &fence).await?;
    // As the table would number them: a number is never used again.
    let last: Option<i64> = sqlx::query_scalar("SELECT seq FROM sqlite_sequence WHERE name = 'journal'")
        .fetch_optional(&mut *tx.conn)
        .await?;
    let parts = all.iter().flat_map(|one| one.intents.chunks(PART).map(move |part| (one, part)));
    let (mut groups, mut intents) = (Vec::new(), Vec::new());
    for (number, (one, part)) in (last.unwrap_or(0) + 1..).zip(parts) {
        let Part { total, numbers, rows, actions, common } = Part::of(part, tx.seal)?;
        groups.push((number, one.scope.to_string(), ms(one.at), total, numbers, rows));
        intents.push((number, actions, common));
    }
    sqlx::query(
        "INSERT INTO journal (number, scope, epoch, started_at, total, numbers, rows)
         SELECT value ->> 0, value ->> 1, ?2, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(?1)",
    )
    .bind(json(&groups))
    .bind(tx.epoch as i64)
    .execute(&mut *tx.conn)
    .await?;
    sqlx::query(
        "INSERT INTO intent (number, actions, common)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)",
    )
    .bind(json(&intents))
    .execute(&mut *tx.conn)
    .await?;
    Ok(())
}

/// Intents as they are stored.
struct Part {
    total: usize,
    numbers: String,
    rows: String,
    actions: String,
    common: String,
}

impl Part {
    fn of(intents: &[Intent], seal: &Seal) -> Result<Part> {
        let common = Common::of(intents);
        let actions = json_list(intents.iter().map(|intent| Ok(common.rest_of(intent))))?;
        let rows = json_list(intents.iter().map(|intent| {
            let alike = common.row.is_none().then(|| AlikeRow::of(&intent.row));
            StoredRow::of(&intent.row, alike, seal)
        }))?;
        let (total, numbers) = (intents.len(), json(&runs(intents)));
        Ok(Part { total, numbers, rows, actions, common: json(&common) })
    }

    async fn put(self, conn: &mut SqliteConnection, scope: &str, epoch: u64, when: Duration) -> Result<()> {
        let begun = sqlx::query(
            "INSERT INTO journal (scope, epoch, started_at, total, numbers, rows) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )
        .bind(scope)
        .bind(epoch as i64)
        .bind(ms(when))
        .bind(self.total as i64)
        .bind(self.numbers)
        .bind(self.rows)
        .execute(&mut *conn)
        .await?;
        sqlx::query("INSERT INTO intent (number, actions, common) VALUES (?1, ?2, ?3)")
            .bind(begun.last_insert_rowid())
            .bind(self.actions)
            .bind(self.common)
            .execute(conn)
            .await?;
        Ok(())
    }
}

/// The numbers of actions in their order: runs of the first and how many follow it.
fn runs(intents: &[Intent]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in intents.iter().map(|intent| intent.action.0) {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => runs.push((number, 1)),
        }
    }
    runs
}

/// A manifest that is not in force has generation 0.
async fn check_fence(conn: &mut SqliteConnection, fence: &[(ManifestKey, u64)]) -> Result<()> {
    if fence.is_empty() {
        return Ok(());
    }
    let keys: Vec<&str> = fence.iter().map(|(key, _)| &*key.0).collect();
    let mut found: Vec<(String, i64)> = sqlx::query_as(
        "SELECT key, generation + (pins << 32) FROM manifest WHERE key IN (SELECT value FROM json_each(?1))",
    )
    .bind(json(&keys))
    .fetch_all(&mut *conn)
    .await?;
    // Many scopes may be begun at once.
    let all: BTreeSet<&ManifestKey> = fence.iter().map(|(key, _)| key).collect();
    for key in all {
        let Some(source) = source_of_newest(key) else { continue };
        let newest =
            sqlx::query_scalar("SELECT max(generation) + (sum(pins) << 32) FROM manifest WHERE source = ?1");
        let newest: Option<i64> = newest.bind(source).fetch_one(&mut *conn).await?;
        found.push((key.to_string(), newest.unwrap_or(0)));
    }
    let found: HashMap<&str, u64> = found.iter().map(|(key, now)| (key.as_str(), *now as u64)).collect();
    for (manifest, planned) in fence {
        let now = found.get(&*manifest.0).copied().unwrap_or(0);
        if now != *planned {
            let what = match source_of_newest(manifest) {
                Some(source) => format!("what source {source} declares"),
                None => format!("manifest {manifest}"),
            };
            return Err(StoreError::Moved { what, planned: *planned, now });
        }
    }
    Ok(())
}

/// Groups that wait for an answer, by the index of those: rows are read ahead of whoever takes them, and beyond the last open
/// one comes every group that was ever ended.
pub(super) const OPEN: &str =
    "SELECT number, numbers, outcomes FROM journal INDEXED BY journal_open WHERE ended < total
     ORDER BY number DESC";

/// Writes answers into the groups that hold their actions. An action that is not open is left alone.
pub(super) async fn end(tx: &mut Tx<'_>, endings: impl Iterator<Item = &Ending>) -> Result<()> {
    let mut missing: HashMap<u64, &Ending> = endings.map(|e| (e.action.0, e)).collect();
    let mut meant = Vec::new();
    // One question for all of them: as many groups may be open as there are passes at once. The newest come first.
    let mut open = sqlx::query(OPEN).fetch(&mut *tx.conn);
    let mut left = missing.len();
    while left > 0
        && let Some(group) = open.try_next().await?
    {
        let runs: Vec<(u64, u64)> = parse_json(group.try_get(1)?)?;
        let actions = runs.iter().flat_map(|(first, count)| *first..first.saturating_add(*count));
        let found = actions.filter(|action| missing.contains_key(action)).count();
        if found > 0 {
            left = left.saturating_sub(found);
            let (number, outcomes): (i64, String) = (group.try_get(0)?, group.try_get(2)?);
            meant.push((number, runs, outcomes));
        }
    }
    drop(open);
    let mut answered = Vec::new();
    for (number, runs, outcomes) in meant {
        let actions = runs.iter().flat_map(|(first, count)| *first..first.saturating_add(*count));
        let mut outcomes: Vec<Option<StoredOutcome>> = parse_json(&outcomes)?;
        outcomes.resize(runs.iter().map(|(_, count)| *count as usize).sum(), None);
        let mut is_changed = false;
        for (action, outcome) in actions.zip(&mut outcomes) {
            let Some(ending) = missing.remove(&action) else { continue };
            if !outcome.as_ref().is_some_and(StoredOutcome::is_final) {
                let error = ending.error.as_deref().map(str::to_string);
                *outcome = Some(StoredOutcome { outcome: ending.outcome.to_string(), error });
                is_changed = true;
            }
        }
        if is_changed {
            let ended = outcomes.iter().flatten().filter(|outcome| outcome.is_final()).count();
            answered.push((number, ended, json(&outcomes)));
        }
    }
    if !answered.is_empty() {
        sqlx::query(
            "UPDATE journal SET ended = now.value ->> 1, outcomes = now.value ->> 2,
                 rows = iif(now.value ->> 1 = total, NULL, rows),
                 numbers = iif(now.value ->> 1 = total, '[]', numbers)
             FROM json_each(?1) AS now WHERE number = now.value ->> 0",
        )
        .bind(json(&answered))
        .execute(&mut *tx.conn)
        .await?;
    }
    Ok(())
}

/// What was to be made and got no answer: who could tell is a person.
pub(super) struct Unanswered {
    pub(super) action: ActionId,
    pub(super) scope: String,
    pub(super) id: String,
    pub(super) address: String,
    pub(super) manifest: String,
    pub(super) revision: String,
    pub(super) started_at: Duration,
}

/// Every creation and replacement without an answer, in the order of scopes.
pub(super) async fn unanswered(conn: &mut SqliteConnection) -> Result<Vec<Unanswered>> {
    let mut found = sqlx::query(
        "SELECT scope, started_at, actions, outcomes, common FROM journal JOIN intent USING (number)
         WHERE ended < total ORDER BY scope, number",
    )
    .fetch(conn);
    let mut all = Vec::new();
    while let Some(group) = found.try_next().await? {
        let (actions, _) = actions(group.try_get(2)?, group.try_get(4)?)?;
        let outcomes: Vec<Option<StoredOutcome>> = parse_json(group.try_get(3)?)?;
        for (index, action) in actions.into_iter().enumerate() {
            let is_final = outcomes.get(index).and_then(Option::as_ref).is_some_and(StoredOutcome::is_final);
            if is_final || !matches!(&*action.op, "create" | "replace") {
                continue;
            }
            all.push(Unanswered {
                action: ActionId(action.action),
                scope: group.try_get(0)?,
                id: action.id.into(),
                address: action.address.into(),
                manifest: action.manifest.into(),
                revision: action.revision.into(),
                started_at: at(group.try_get(1)?),
            });
        }
    }
    Ok(all)
}

/// Calls `each` with every open intent of the scopes from `first` to `last`, in journal order within a scope.
pub(super) async fn open(
    conn: &mut SqliteConnection,
    seal: Option<&Seal>,
    (first, last): (&str, &str),
    mut each: impl FnMut(Scope, OpenIntent),
) -> Result<()> {
    let mut found = sqlx::query(
        "SELECT scope, started_at, actions, rows, outcomes, common FROM journal JOIN intent USING (number)
         WHERE ended < total AND scope BETWEEN ?1 AND ?2 ORDER BY scope, number",
    )
    .bind(first)
    .bind(last)
    .fetch(conn);
    while let Some(group) = found.try_next().await? {
        let scope = rows::scope(group.try_get(0)?)?;
        let started_at = at(group.try_get(1)?);
        let (actions, alike) = actions(group.try_get(2)?, group.try_get(5)?)?;
        let stored: Vec<StoredRow<'_>> = parse_json(group.try_get(3)?)?;
        let outcomes: Vec<Option<StoredOutcome>> = parse_json(group.try_get(4)?)?;
        let (shared, mut terms) = (Arc::new(scope.clone()), None);
        for (index, (action, row)) in actions.into_iter().zip(stored).enumerate() {
            if outcomes.get(index).and_then(Option::as_ref).is_some_and(StoredOutcome::is_final) {
                continue;
            }
            let intent = Intent {
                action: ActionId(action.action),
                row: row.row(&shared, &action, alike.as_ref(), &mut terms, seal)?.into(),
                op: action.op.into(),
                token: action.token.into(),
                before: action.before,
                after: action.after,
                reason: action.reason.into(),
                consented: action.consented,
            };
            each(scope.clone(), OpenIntent { intent, started_at });
        }
    }
    Ok(())
}
