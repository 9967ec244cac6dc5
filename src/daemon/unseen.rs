//! What came into force and was not looked at yet, as `status` shows it: until then whatever was found in sync was found
//! so for an older revision.
//!
//! Guarantees: pure but for the state it reads, and that only for scopes that no pass of this process has ended for. What
//! happened before it began is told by generations.

use super::{follower::Following, instance::Instance};
use crate::{
    failure::Failure,
    operation::{StatusAnswer, UNSEEN},
    store::{ConditionEntry, Stamp},
};
use reconciled_engine::{Desired, scheduler::Standing, store::ConditionKind};
use reconciled_provider::{ManifestKey, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The low half of a generation is that of the manifest, the high half counts pins.
const OF_MANIFEST: u64 = u32::MAX as u64;

/// What the state knows of scopes that no pass of this process has ended for.
#[derive(Default)]
struct Earlier {
    looked_at: BTreeMap<String, u64>,
    undeclared: BTreeSet<Scope>,
}

/// Adds the scopes of which something came into force that no pass has looked at: `all`, or those of the resources that
/// were asked for. What is in them counts as well no longer.
pub(crate) async fn add_unseen(
    instance: &Instance,
    answer: &mut StatusAnswer,
    all: bool,
) -> Result<(), Failure> {
    // In this order: what stands must not be older than what is desired.
    let (sources, desired) = (instance.follower.sources(), instance.follower.desired());
    let standing = instance.scheduler.standing();
    let mut scopes: BTreeSet<&Scope> = desired.scopes.keys().chain(standing.keys()).collect();
    let mut earlier = Earlier::default();
    if scopes.is_empty() || scopes.iter().any(|scope| !was_seen(standing.get(scope))) {
        let reader = instance.writing.db.reader();
        (earlier.looked_at, earlier.undeclared) = (reader.looked_at().await?, reader.undeclared().await?);
    }
    scopes.extend(&earlier.undeclared);
    scopes.retain(|scope| instance.session.observer(&scope.provider).is_some());
    let asked: BTreeSet<&str> = answer.resources.iter().map(|one| &*one.tracked.scope).collect();
    let status = &mut answer.status;
    let mut found = Vec::new();
    for scope in scopes {
        let name = scope.to_string();
        let is_meant = all || asked.contains(&*name);
        if !is_meant || !is_unseen(scope, standing.get(scope), &desired, &earlier) {
            continue;
        }
        // What keeps a scope from being looked at says so.
        let says_why = |c: &ConditionEntry| {
            c.scope == name && c.id.is_none() && matches!(&*c.kind, "waiting" | "stalled")
        };
        if !status.conditions.iter().any(says_why) {
            found.push(condition(scope, &desired, &sources, instance.session.clock.now()));
        }
        for mine in status.scopes.iter_mut().filter(|mine| mine.scope == name) {
            // What is held may be among these: it counts no second time.
            status.well = status.well.saturating_sub(std::mem::take(&mut mine.well));
        }
    }
    status.conditions.append(&mut found);
    Ok(())
}

fn was_seen(standing: Option<&Standing>) -> bool {
    standing.is_some_and(|standing| standing.ended_at.is_some())
}

fn is_unseen(scope: &Scope, standing: Option<&Standing>, desired: &Desired, earlier: &Earlier) -> bool {
    if let Some(standing) = standing.filter(|standing| standing.ended_at.is_some()) {
        return standing.is_unseen;
    }
    let none = BTreeMap::new();
    let generations: &BTreeMap<ManifestKey, u64> = desired.generations.as_deref().unwrap_or(&none);
    let looked_at = earlier.looked_at.get(&scope.to_string()).copied().unwrap_or(0);
    // Most of what stands side by side is of one manifest.
    let manifests: BTreeSet<u32> = desired.in_scope(scope).iter().map(|r| r.origin.manifest).collect();
    let keys = manifests.into_iter().filter_map(|index| Some(&desired.manifests.get(index as usize)?.key));
    let newest = keys.filter_map(|key| generations.get(key)).map(|number| number & OF_MANIFEST).max();
    newest.is_some_and(|newest| newest > looked_at) || earlier.undeclared.contains(scope)
}

fn condition(
    scope: &Scope,
    desired: &Desired,
    sources: &BTreeMap<Arc<str>, Following>,
    now: Duration,
) -> ConditionEntry {
    let declaring = desired.in_scope(scope).first().map(|r| desired.manifest(r.origin).key.source());
    // What nobody declares any more is of the only source, or of one that is not known here.
    let source = declaring.map(Arc::from).or(match sources.len() {
        1 => sources.keys().next().cloned(),
        _ => None,
    });
    let following = source.as_ref().and_then(|name| Some((name, sources.get(name)?)));
    let (message, since) = match following {
        Some((name, following)) => (
            format!("not looked at since {} of source {name} came into force", following.label),
            following.told.as_ref().map(|told| told.at),
        ),
        None => ("not looked at since what is in force came into force".to_owned(), None),
    };
    let since = Stamp(since.unwrap_or(now));
    ConditionEntry::of(scope.to_string(), ConditionKind::Waiting, UNSEEN, message, since)
}
