//! Letting go of what is tracked, which stays as it is. Needs the state alone, no source and no remote.
//!
//! A forgotten identity is barred: while a manifest still declares it, it is not adopted again by itself. Not so one whose making got
//! no answer and that is not there, by the word of whoever forgets it.

use super::pattern;
use crate::{
    failure::Failure,
    store::{ConditionEntry, Db, Reader, SHARES, TrackedEntry, UNANSWERED},
};
use reconciled_engine::{
    DriftEnd, Store, Write,
    plan::{CREATE_UNKNOWN, STILL_THERE},
    store::{Consent, Ending, Event},
};
use reconciled_provider::{ActionId, ManifestKey, ResourceId, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What may be let go of?
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ForgetAsk {
    /// What is tracked at this address.
    pub address: Option<String>,
    /// Everything this source declared.
    pub source: Option<String>,
}

/// What was let go of.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Forgotten {
    /// How many.
    pub count: usize,
}

/// What `ask` means, for a person to look at.
///
/// Errors: nothing is tracked there.
pub async fn forgettable(reader: &Reader, ask: &ForgetAsk) -> Result<Vec<TrackedEntry>, Failure> {
    let address = ask.address.as_deref().map(pattern).transpose()?;
    let mut rows = reader.rows(address.as_ref()).await?;
    if let Some(source) = &ask.source {
        // Nobody remembers which values of what is shared are whose: all of it is left as it is.
        let sharing = reader.sharing(source).await?;
        let shared: BTreeSet<&str> = sharing.iter().map(|entry| &*entry.scope).collect();
        let is_shared = |row: &TrackedEntry| row.merge && shared.contains(&*row.scope);
        rows.retain(|row| source_of(row) == *source || is_shared(row));
        rows.extend(sharing);
    }
    if let Some(address) = &address {
        rows.extend(reader.unanswered(Some(address)).await?.into_iter().map(|(_, entry)| entry));
    }
    if rows.is_empty() {
        let what = ask.address.clone().or_else(|| ask.source.as_ref().map(|s| format!("source {s}")));
        return Err(Failure::hinted(
            format!("nothing is tracked at {}", what.unwrap_or_default()),
            "to see what is tracked: reconciled status '*/*'",
        ));
    }
    Ok(rows)
}

/// The scopes in which what was shown claims something: nobody needs that any more once it is let go of.
pub async fn claimed(reader: &Reader, shown: &[TrackedEntry]) -> Result<BTreeSet<Scope>, Failure> {
    let mut claimed = reader.claimed().await?;
    let theirs = shown.iter().filter_map(|row| claimed.remove(&(row.scope.clone(), row.id.clone())));
    Ok(theirs.flatten().collect())
}

/// Lets go of what was shown, as far as it is still there.
pub async fn forget(
    db: &Db,
    shown: Vec<TrackedEntry>,
    actor: &str,
    at: Duration,
) -> Result<Forgotten, Failure> {
    let now: BTreeSet<(String, String)> =
        db.reader().rows(None).await?.into_iter().map(|row| (row.scope, row.id)).collect();
    let (questions, shown): (Vec<_>, Vec<_>) = shown.into_iter().partition(|row| row.state == UNANSWERED);
    let (sharing, shown): (Vec<_>, Vec<_>) = shown.into_iter().partition(|row| row.state == SHARES);
    let rows: Vec<TrackedEntry> =
        shown.into_iter().filter(|row| now.contains(&(row.scope.clone(), row.id.clone()))).collect();
    // What may have been made and was looked for in vain: the question is over, and the next pass makes it.
    let open = db.reader().unanswered(None).await?;
    let is_meant =
        |entry: &TrackedEntry| questions.iter().any(|q| (&q.scope, &q.id) == (&entry.scope, &entry.id));
    let open: Vec<_> = open.into_iter().filter(|(_, entry)| is_meant(entry)).collect();
    // What it was to replace was looked for as well, by a pass that told so. Otherwise that is still there.
    let conditions = db.reader().not_well().await?.conditions;
    let is_gone = |scope: &str, id: &str| {
        let told = |one: &&ConditionEntry| (&*one.scope, one.id.as_deref()) == (scope, Some(id));
        conditions.iter().filter(told).any(|one| one.reason == CREATE_UNKNOWN)
    };
    let gone = open.iter().filter(|(_, entry)| is_gone(&entry.scope, &entry.id));
    let gone: BTreeSet<(&str, &str)> = gone.map(|(_, entry)| (&*entry.scope, &*entry.id)).collect();
    let mut writes = writes(&rows, &sharing, &gone, actor, at)?;
    writes.extend(without_former(db, &rows, &conditions).await?);
    for (_, entry) in &open {
        writes.push(Write::Event(event(entry, "what may have been made of it is not there", actor, at)?));
    }
    let ending = |(action, _): &(ActionId, TrackedEntry)| Ending {
        action: *action,
        outcome: "forgotten".into(),
        error: None,
    };
    let endings: Vec<Ending> = open.iter().map(ending).collect();
    let count = rows.len() + sharing.len() + endings.len();
    if !endings.is_empty() {
        writes.push(Write::End(endings));
    }
    db.commit(writes).await?;
    Ok(Forgotten { count })
}

/// Takes back that what `rows` took the place of will go: it stays as it is, and no look has to come first that would say so.
/// `told` is what is said of all scopes.
async fn without_former(
    db: &Db,
    rows: &[TrackedEntry],
    told: &[ConditionEntry],
) -> Result<Vec<Write>, Failure> {
    let let_go: BTreeSet<(&str, &str)> = rows.iter().map(|row| (&*row.scope, &*row.address)).collect();
    let is_theirs = |scope: &str, address: Option<&str>, reason: &str| {
        reason == STILL_THERE && address.is_some_and(|address| let_go.contains(&(scope, address)))
    };
    // No pass over them begins meanwhile, each scope is read by itself, and few of them have any.
    let theirs = told.iter().filter(|one| is_theirs(&one.scope, one.address.as_deref(), &one.reason));
    let scopes: BTreeSet<&str> = theirs.map(|one| &*one.scope).collect();
    let mut writes = Vec::new();
    for name in scopes {
        let scope = scope(name)?;
        let mut conditions = db.scope(&scope).await?.conditions;
        conditions.retain(|condition| {
            let address = condition.address.as_ref().map(ToString::to_string);
            !is_theirs(name, address.as_deref(), &condition.reason)
        });
        writes.push(Write::Conditions(scope, conditions));
    }
    Ok(writes)
}

fn source_of(row: &TrackedEntry) -> String {
    ManifestKey(row.manifest.as_str().into()).source().to_string()
}

fn event(row: &TrackedEntry, message: &str, actor: &str, at: Duration) -> Result<Event, Failure> {
    Ok(Event {
        at,
        kind: "forget".into(),
        scope: Some(scope_of(row)?),
        address: row.address.parse().ok(),
        revision: row.revision.as_str().into(),
        actor: actor.into(),
        reason: "forget".into(),
        message: message.into(),
    })
}

fn scope_of(row: &TrackedEntry) -> Result<Scope, Failure> {
    scope(&row.scope)
}

fn scope(text: &str) -> Result<Scope, Failure> {
    text.parse().map_err(|error: &str| Failure::plain(error.to_string()))
}

fn writes(
    rows: &[TrackedEntry],
    sharing: &[TrackedEntry],
    not_there: &BTreeSet<(&str, &str)>,
    actor: &str,
    at: Duration,
) -> Result<Vec<Write>, Failure> {
    let mut gone: BTreeMap<Scope, Vec<ResourceId>> = BTreeMap::new();
    let mut sources = BTreeSet::new();
    let mut writes = Vec::new();
    for share in sharing {
        let manifest = ManifestKey(share.manifest.as_str().into());
        writes.push(Write::Documents(scope_of(share)?, vec![(manifest, None)]));
    }
    let sharers: BTreeSet<String> = sharing.iter().map(source_of).collect();
    for row in rows {
        let scope = scope_of(row)?;
        let id = ResourceId::from(row.id.as_str());
        // What it claimed elsewhere goes with it.
        writes.push(Write::Claims(scope.clone(), id.clone(), Vec::new()));
        // What others shared with the source that is forgotten goes on being declared by them.
        let is_left = sharers.is_empty() || sharers.contains(&source_of(row));
        if is_left && !not_there.contains(&(&*row.scope, &*row.id)) {
            writes.push(Write::Consent(scope.clone(), id.clone(), Consent::Barred));
        }
        writes.push(Write::Event(event(row, "no longer tracked, left as it is", actor, at)?));
        gone.entry(scope).or_default().push(id);
        sources.insert(source_of(row));
    }
    for (scope, ids) in gone {
        // What was found in sync was found so with these rows.
        writes.push(Write::Version(scope.clone(), None));
        let ends = ids.iter().map(|id| (id.clone(), DriftEnd::Gone)).collect();
        writes.push(Write::DriftOver(scope.clone(), ends, at));
        writes.push(Write::Gone(scope, ids));
    }
    writes.extend(sources.into_iter().map(|source| Write::Converged(Err(source.into()))));
    Ok(writes)
}
