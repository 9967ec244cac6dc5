//! What is not well now, from the state and the sources.

use super::message::Body;
use crate::{
    config::Topic,
    daemon::Following,
    store::{ConditionEntry, HoldEntry, Stamp, Status, SuspensionEntry, TroubleKey},
};
use reconciled_provider::{Ending, Scope};
use std::{collections::BTreeMap, sync::Arc};

/// What is not well, by what names it.
pub(super) type Found = BTreeMap<TroubleKey, Body>;

/// Reasons of conditions that wait, which say that something failed; others wait for time or for each other.
const FAILING: [&str; 4] = ["conflict", "rate-limited", "unavailable", "unexpected"];
/// The reason of what announces an end.
const EXPIRING: &str = "Expiring";

pub(super) fn gather(
    status: &Status,
    sources: &BTreeMap<Arc<str>, Following>,
    endings: &[(Scope, Ending)],
    now: Stamp,
) -> Found {
    let mut found = Found::new();
    for (scope, ending) in endings.iter().filter(|(_, ending)| ending.late_at() <= now.0) {
        put(&mut found, &scope.to_string(), Topic::Expiring, EXPIRING, of_ending(scope, ending, now));
    }
    for condition in &status.conditions {
        if let Some(topic) = topic(condition) {
            put(&mut found, &condition.scope, topic, &condition.reason, of_condition(condition));
        }
    }
    for hold in &status.holds {
        put(&mut found, &hold.domain, Topic::Held, "Held", of_hold(hold));
    }
    for suspension in &status.suspensions {
        let subject = format!("suspension {}", suspension.what);
        put(&mut found, &subject, Topic::Suspended, "Suspended", of_suspension(suspension));
    }
    for (name, following) in sources {
        let subject = format!("source {name}");
        let body = |cause: &str, hint: &str| Body {
            source: Some(name.to_string()),
            since: now,
            cause: cause.to_owned(),
            hint: Some(hint.to_owned()).filter(|hint| !hint.is_empty()),
            count: 1,
            ..Body::new(now)
        };
        if let Some((error, hint)) = &following.behind {
            put(&mut found, &subject, Topic::Degraded, "SourceBehind", body(error, hint));
        }
        if following.broken {
            let cause = "its manifests have errors";
            put(&mut found, &subject, Topic::Degraded, "InvalidManifests", body(cause, "reconciled status"));
        }
    }
    found
}

/// True while nothing is known of a trouble that was told of before the daemon began.
pub(super) fn is_unknown(key: &TroubleKey, sources: &BTreeMap<Arc<str>, Following>) -> bool {
    let Some(name) = key.subject.strip_prefix("source ") else { return false };
    sources.get(name).is_some_and(|following| match &*key.reason {
        "SourceBehind" => following.polled_at.is_none() && following.behind.is_none(),
        _ => following.told.is_none(),
    })
}

fn topic(condition: &ConditionEntry) -> Option<Topic> {
    match condition.kind.as_str() {
        _ if condition.reason == EXPIRING => Some(Topic::Expiring),
        "stalled" => Some(Topic::Degraded),
        "waiting" if FAILING.contains(&condition.reason.as_str()) => Some(Topic::Degraded),
        _ => None,
    }
}

/// Several of one key are one trouble: the first speaks, all count.
fn put(found: &mut Found, subject: &str, topic: Topic, reason: &str, body: Body) {
    let key = TroubleKey { subject: subject.into(), topic: topic.word().into(), reason: reason.into() };
    match found.get_mut(&key) {
        Some(first) => {
            first.count += 1;
            first.since = first.since.min(body.since);
        }
        None => drop(found.insert(key, body)),
    }
}

fn of_condition(condition: &ConditionEntry) -> Body {
    let named = condition.address.as_ref().map(|address| format!("{address}: ")).unwrap_or_default();
    Body {
        provider: Some(entry(&condition.scope)),
        cause: format!("{named}{}", condition.message),
        hint: condition.hint.clone(),
        ..Body::new(condition.since)
    }
}

fn of_ending(scope: &Scope, ending: &Ending, now: Stamp) -> Body {
    let (id, at, renewed_at) = (&ending.id, Stamp(ending.at), Stamp(ending.renewed_at));
    let cause = match ending.at <= now.0 {
        true => format!("{id} is over since {at}"),
        false => format!("{id} is over at {at}, and should have been renewed at {renewed_at}"),
    };
    Body {
        provider: Some(scope.provider.to_string()),
        cause,
        hint: Some(format!("why not: reconciled status '*/{id}' -o wide")),
        ..Body::new(Stamp(ending.late_at()))
    }
}

fn of_hold(hold: &HoldEntry) -> Body {
    let counts = format!(
        "{} to create, {} to update, {} to replace, {} to delete at {}",
        hold.creates, hold.updates, hold.replaces, hold.deletes, hold.revision
    );
    let short = hold.digest.get(..12).unwrap_or(&hold.digest);
    Body {
        provider: Some(entry(&hold.domain)),
        cause: format!("{}: {counts}", hold.reasons.join("; ")),
        hint: Some(format!("look: reconciled plan; consent: reconciled approve {short} --reason TEXT")),
        ..Body::new(hold.since)
    }
}

fn of_suspension(suspension: &SuspensionEntry) -> Body {
    let until = suspension.until.map(|until| format!(" until {until}")).unwrap_or_default();
    Body {
        cause: format!("by {}{until}: {}", suspension.actor, suspension.reason),
        hint: Some(suspension.hint.clone()),
        ..Body::new(suspension.since)
    }
}

/// The entry of a scope or of a guard domain.
fn entry(scope: &str) -> String {
    scope.split('/').next().unwrap_or(scope).to_owned()
}
