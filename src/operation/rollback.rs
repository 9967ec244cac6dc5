//! Keeping resources as an earlier revision declares them. How they go on is in [`super::pinned`].
//!
//! A rollback is a word of the host, not of Git: it is bound to the resources that differ now, each until a commit
//! changes it, until somebody resumes it, or until a time.

use super::{
    pattern,
    pinned::event,
    suspend::{reasoned, until},
};
use crate::{
    failure::Failure,
    session::{Session, Snapshot},
    store::{Db, PinEntry, Stamp},
};
use reconciled_engine::{Desired, Pin, Store, Write, pin};
use reconciled_provider::{Address, Hash, ManifestKey, Policy, Resource, ResourceId, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Keep it as it was then.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RollbackAsk {
    /// The revision: a commit of a source, or what names one.
    pub rev: String,
    /// Of this source; needed where several have such a revision.
    pub source: Option<String>,
    /// Only what these addresses mean; all that differs without.
    #[serde(default)]
    pub target: Vec<String>,
    /// Why; kept in the audit trail.
    pub reason: String,
    /// For how many milliseconds; until a commit changes it, or it is resumed, without.
    pub period: Option<u64>,
}

/// What is kept.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolledBack {
    /// The source.
    pub source: String,
    /// The revision, as people call it.
    pub label: String,
    /// What is kept at it.
    pub pins: Vec<PinEntry>,
    /// What was kept at another revision and goes on, since it is the same in this one and in the newest.
    pub released: Vec<PinEntry>,
    /// What this source declared then and another one has now, which is not touched, as `ADDRESS of source NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handed_over: Vec<String>,
    /// Fields that stay as the remote has them, since what was declared then or is now leaves them to it, as `ADDRESS: FIELD, FIELD`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_alone: Vec<String>,
}

/// Pins what `ask` means. Writes nothing to a remote: the next pass does.
///
/// Errors: no such revision, one that has errors now, or nothing of what is meant differs in it.
pub async fn rollback(
    session: &Session,
    db: &Db,
    ask: &RollbackAsk,
    actor: &str,
    now: Duration,
) -> Result<RolledBack, Failure> {
    reasoned(&ask.reason)?;
    let until = until(ask.period, now)?;
    let targets = ask.target.iter().map(|text| pattern(text)).collect::<Result<Vec<_>, _>>()?;
    let (source, then) = revision(session, db, ask).await?;
    let (commit, label) = (then.revision.clone(), then.label.clone());
    let newest = session.load_newest(session.in_force(db).await?, db).await?;
    if newest.broken.contains(&source) {
        return Err(Failure::hinted(
            format!("source {source} has errors at the revision in force, so it cannot be compared"),
            "reconciled status shows them",
        ));
    }
    let then = session.desired_at(&source, &commit, &newest.outputs, db).await?.desired;
    // What is meant for another host, or for a provider of another name, is not gone in that revision.
    let is_elsewhere = |manifest: &ManifestKey, (scope, id): &Place<'_>| {
        then.sources.get(&source).is_some_and(|state| {
            state.is_elsewhere(manifest, scope) || state.is_unselected(manifest, scope, id)
        })
    };
    let (was, is) = (declared(&then, &source), declared(&newest.desired, &source));
    let is_meant = |place: &Place<'_>, found: &Found<'_>| {
        let observer = session.observer(&place.0.provider);
        let part = observer.and_then(|observer| observer.part(place.0, place.1));
        let address = Address { part, ..found.address.clone() };
        let meant = targets.is_empty() || targets.iter().any(|t| t.matches(&address, found.manifest.group()));
        meant.then_some(address)
    };
    let known: BTreeMap<(Scope, ResourceId), Pin> =
        db.pins().await?.into_iter().map(|pin| ((pin.scope.clone(), pin.id.clone()), pin)).collect();
    // What one source has alone is nobody else's to keep.
    let owner = |(scope, id): &Place<'_>| {
        let of_others = newest.desired.declaring(scope, id).first()?;
        let is_shared = newest.desired.policies.get(of_others.policy).merge;
        (!is_shared).then(|| newest.desired.manifest(of_others.origin).key.source())
    };
    let (mut pins, mut released, mut handed_over) = (Vec::new(), Vec::new(), Vec::new());
    let mut left_alone = Vec::new();
    for place in was.keys().chain(is.keys()).copied().collect::<BTreeSet<_>>() {
        let (old, new) = (was.get(&place), is.get(&place));
        let Some(found) = new.or(old) else { continue };
        let Some(address) = is_meant(&place, found) else { continue };
        if old.is_none() && is_elsewhere(found.manifest, &place) {
            return Err(Failure::hinted(
                format!("{address} was not meant for this host, or for a provider it has, at {label}"),
                "choose a later revision, or leave it out with --target",
            ));
        }
        let is_same = match (old, new) {
            (Some(old), Some(new)) => old.is_as(new),
            (old, new) => old.is_none() && new.is_none(),
        };
        if let (None, Some(other)) = (new, owner(&place)) {
            handed_over.push(format!("{address} of source {other}"));
            continue;
        }
        if is_same {
            let pin = known.get(&(place.0.clone(), place.1.clone()));
            released.extend(pin.filter(|pin| pin.manifest.source() == &*source));
            continue;
        }
        if let (Some(then), Some(now)) = (old.and_then(|old| old.policy), new.and_then(|new| new.policy)) {
            let fields = pin::policy(then, now).ignore;
            left_alone.extend((!fields.is_empty()).then(|| format!("{address}: {}", fields.join(", "))));
        }
        pins.push(Pin {
            scope: place.0.clone(),
            id: place.1.clone(),
            address,
            manifest: found.manifest.clone(),
            commit: commit.clone(),
            label: label.clone(),
            template: new.map(|new| new.template),
            content: new.map(|new| new.content),
            declared: old.is_some(),
            reason: ask.reason.as_str().into(),
            actor: actor.into(),
            since: now,
            until,
        });
    }
    if pins.is_empty() && released.is_empty() {
        return Err(nothing(&source, &label, &handed_over));
    }
    let mut writes = writes(&pins, &released, &label, &ask.reason, actor, now);
    writes.push(Write::Converged(Err(source.clone())));
    let answer = RolledBack {
        source: source.to_string(),
        label: label.to_string(),
        pins: pins.iter().map(PinEntry::from).collect(),
        released: released.into_iter().map(PinEntry::from).collect(),
        handed_over,
        left_alone,
    };
    db.commit(writes).await?;
    Ok(answer)
}

/// There is nothing to keep, though there may be where it was `handed_over` to.
fn nothing(source: &str, label: &str, handed_over: &[String]) -> Failure {
    match handed_over {
        [first, ..] => Failure::hinted(
            format!("{first} is not kept: {source} declared it at {label}, and has it no longer"),
            "to go back to what the other source declared: reconciled rollback REV --source NAME",
        ),
        [] => Failure::hinted(
            format!("nothing of what is meant is declared otherwise at {label}"),
            format!("to see what differs: reconciled plan --source {source} --rev {label}"),
        ),
    }
}

/// What is kept at `label` from now on, and what no longer is, with what the audit trail has of it.
fn writes(
    pins: &[Pin],
    released: &[&Pin],
    label: &str,
    reason: &str,
    actor: &str,
    now: Duration,
) -> Vec<Write> {
    let mut writes = Vec::new();
    for pin in pins {
        writes.push(Write::Pin(pin.clone()));
        let until = pin.until.map(|until| format!(" until {}", Stamp(until)));
        let message = format!("kept at {label}{}", until.unwrap_or_default());
        writes.push(event("rollback", pin, reason, message, actor, now));
    }
    for pin in released {
        writes.push(Write::Unpin(pin.scope.clone(), pin.id.clone()));
        let message = format!("no longer kept at {}: it is the same at {label}", pin.label);
        writes.push(event("resume", pin, reason, message, actor, now));
    }
    writes
}

/// The source that is meant, and the snapshot of the revision.
async fn revision(session: &Session, db: &Db, ask: &RollbackAsk) -> Result<(Arc<str>, Snapshot), Failure> {
    let sources = &session.config.sources;
    if let Some(name) = ask.source.as_deref().filter(|name| sources.iter().all(|s| *s.name != **name)) {
        let names: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
        let hint = format!("configured sources: {}", names.join(", "));
        return Err(Failure::hinted(format!("no source is called `{name}`"), hint));
    }
    let (mut found, mut missing) = (Vec::new(), None);
    for source in sources.iter().filter(|s| ask.source.as_deref().is_none_or(|name| *s.name == *name)) {
        let Some(commit) = commit_in_force(db, &source.name).await? else { continue };
        match session.snapshot_at(&source.name, &commit, Some(ask.rev.clone())).await {
            Ok(snapshot) => found.push((source.name.clone(), snapshot)),
            Err(failure) => missing = Some(failure),
        }
    }
    match (found.len(), missing) {
        (1, _) => Ok(found.remove(0)),
        (0, Some(failure)) => Err(failure),
        (0, None) => Err(nothing_in_force()),
        _ => {
            let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
            let text = format!("sources {} have a revision `{}`", names.join(" and "), ask.rev);
            Err(Failure::hinted(text, "say which: --source NAME"))
        }
    }
}

/// There is nothing to go back from.
pub(crate) fn nothing_in_force() -> Failure {
    Failure::hinted(
        "no revision is in force yet, so there is nothing to go back from",
        "to apply the newest one: reconciled apply",
    )
}

async fn commit_in_force(db: &Db, source: &str) -> Result<Option<Arc<str>>, Failure> {
    Ok(db.in_force(source).await?.map(|revision| revision.commit).filter(|commit| commit.len() == 40))
}

type Place<'a> = (&'a Scope, &'a ResourceId);

/// How a resource is declared.
struct Found<'a> {
    manifest: &'a ManifestKey,
    address: &'a Address,
    /// Of all that declare it: with `merge: true` these may be several.
    template: Hash,
    content: Hash,
    /// None where other sources have a say in it.
    policy: Option<&'a Policy>,
}

impl Found<'_> {
    /// True where this, put in place of the `newest`, would be what that is: of policies the more careful counts.
    fn is_as(&self, newest: &Found<'_>) -> bool {
        let is_as_careful = match (self.policy, newest.policy) {
            (Some(then), Some(now)) => then == now || pin::policy(then, now) == *now,
            _ => true,
        };
        self.template == newest.template && is_as_careful
    }
}

fn declared<'a>(desired: &'a Desired, source: &str) -> BTreeMap<Place<'a>, Found<'a>> {
    let mut all = BTreeMap::new();
    for (scope, resources) in &desired.scopes {
        for run in resources.chunk_by(|a, b| a.id == b.id) {
            let of_source = |r: &&Resource| desired.manifest(r.origin).key.source() == source;
            let Some(first) = run.iter().find(of_source) else { continue };
            let Some((template, content)) = pin::declared(desired, scope, &first.id, source) else {
                continue;
            };
            let meta = desired.manifest(first.origin);
            let is_alone = run.iter().all(|resource| of_source(&resource));
            let policy = is_alone.then(|| desired.policies.get(first.policy));
            let found = Found { manifest: &meta.key, address: &meta.address, template, content, policy };
            all.insert((scope, &first.id), found);
        }
    }
    all
}
