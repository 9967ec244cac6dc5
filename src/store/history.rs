//! What happened, from three places: revisions, the journal, and events that neither of them tells.

use super::{
    blame::Blame,
    entry::{EventEntry, EventFilter, HistoryEntry, HistoryFilter, Stamp},
    error::Result,
    intent::{self, StoredOutcome},
    read::listed_events,
    reader::Reader,
    rows::{at, is_meant, ms, parse_json},
};
use futures_util::TryStreamExt as _;
use reconciled_provider::{ManifestKey, Pattern};
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};
use std::collections::BTreeSet;

/// Events that say what the journal and the revisions say better.
const TOLD_ELSEWHERE: [&str; 7] =
    ["revision", "create", "update", "replace", "delete", "abandon", "continue"];

/// Who acts where nobody is named.
const ENGINE: &str = "engine";

/// An action that looks after what was begun, and that it is not done yet.
const CONTINUE: &str = "continue";
const PENDING: &str = "pending";

impl Reader {
    /// What happened, the newest first.
    pub async fn history(&self, filter: &HistoryFilter) -> Result<Vec<HistoryEntry>> {
        let mut tx = self.snapshot().await?;
        history(&mut tx, filter).await.map_err(|error| error.of(&self.file))
    }
}

/// What `filter` means, the newest first.
async fn history(conn: &mut SqliteConnection, filter: &HistoryFilter) -> Result<Vec<HistoryEntry>> {
    let since = filter.since.map_or(0, ms);
    let mut list = Vec::new();
    // A revision concerns no single address.
    if filter.address.is_none() {
        list.extend(revisions(conn, since).await?);
    }
    list.extend(actions(conn, since, filter.address.as_ref()).await?);
    list.extend(other_events(conn, filter).await?);
    list.retain(|entry| filter.actor.as_ref().is_none_or(|actor| entry.is_by(actor)));
    list.sort_by_key(|entry| std::cmp::Reverse(entry.at));
    one_of_each_wait(&mut list);
    Ok(list)
}

/// Leaves of a resource that was looked after again and again, such as a rollout that takes its time, the last time alone.
fn one_of_each_wait(newest_first: &mut Vec<HistoryEntry>) {
    let mut goes_on = BTreeSet::new();
    newest_first.retain(|entry| {
        let place = (entry.scope.clone(), entry.address.clone());
        if entry.kind != CONTINUE {
            goes_on.remove(&place);
            return true;
        }
        goes_on.insert(place) || entry.outcome.as_deref() != Some(PENDING)
    });
}

async fn revisions(conn: &mut SqliteConnection, since: i64) -> Result<Vec<HistoryEntry>> {
    // A commit that comes into force anew, as where the configuration of the host makes more of it, is the same one.
    let found = sqlx::query(
        "SELECT at, source, label, author, subject FROM (
             SELECT *, author <> '' AND lag(commit_id) OVER before IS commit_id AND lag(path) OVER before IS path AS again
             FROM revision WINDOW before AS (PARTITION BY source ORDER BY number))
         WHERE at >= ?1 AND NOT again ORDER BY number DESC",
    )
    .bind(since)
    .fetch_all(conn)
    .await?;
    let entry = |row: &SqliteRow| {
        Ok(HistoryEntry {
            at: Stamp(at(row.try_get(0)?)),
            kind: "revision".into(),
            scope: None,
            address: None,
            reason: format!("source {}", row.try_get::<&str, _>(1)?),
            revision: row.try_get(2)?,
            actor: row.try_get(3)?,
            message: row.try_get(4)?,
            ..HistoryEntry::default()
        })
    };
    found.iter().map(entry).collect()
}

async fn actions(
    conn: &mut SqliteConnection,
    since: i64,
    pattern: Option<&Pattern>,
) -> Result<Vec<HistoryEntry>> {
    let blame = Blame::read(conn).await?;
    let mut found = sqlx::query(
        "SELECT started_at, scope, actions, outcomes, common FROM journal JOIN intent USING (number)
         WHERE started_at >= ?1 ORDER BY number DESC",
    )
    .bind(since)
    .fetch(conn);
    let mut list = Vec::new();
    while let Some(group) = found.try_next().await? {
        let when = Stamp(at(group.try_get(0)?));
        let (actions, _) = intent::actions(group.try_get(2)?, group.try_get(4)?)?;
        let outcomes: Vec<Option<StoredOutcome>> = parse_json(group.try_get(3)?)?;
        for (index, action) in actions.iter().enumerate() {
            let key = ManifestKey((&*action.manifest).into());
            if !is_meant(pattern, Some(&action.address), Some(key.group())) {
                continue;
            }
            let outcome = outcomes.get(index).and_then(Option::as_ref);
            let mut entry = HistoryEntry {
                at: when,
                kind: action.op.to_string(),
                scope: Some(group.try_get(1)?),
                address: Some(action.address.to_string()),
                revision: action.revision.to_string(),
                actor: ENGINE.into(),
                reason: action.reason.to_string(),
                message: outcome.and_then(|outcome| outcome.error.clone()).unwrap_or_default(),
                outcome: Some(outcome.map_or_else(|| "open".into(), |outcome| outcome.outcome.clone())),
                ..HistoryEntry::default()
            };
            blame.put(&mut entry, key.source(), action.consented);
            list.push(entry);
        }
    }
    Ok(list)
}

async fn other_events(conn: &mut SqliteConnection, filter: &HistoryFilter) -> Result<Vec<HistoryEntry>> {
    let wanted = EventFilter { address: filter.address.clone(), since: filter.since, kinds: Vec::new() };
    let mut events = listed_events(conn, &wanted, 0, usize::MAX).await?;
    events.retain(|event| !TOLD_ELSEWHERE.contains(&event.kind.as_str()));
    let entry = |event: EventEntry| HistoryEntry {
        at: event.at,
        kind: event.kind,
        scope: event.scope,
        address: event.address,
        revision: event.revision,
        actor: event.actor,
        reason: event.reason,
        message: event.message,
        ..HistoryEntry::default()
    };
    Ok(events.into_iter().rev().map(entry).collect())
}
