//! What is not well now, from the state and the sources.

use super::message::Body;
use crate::{
    config::Topic,
    daemon::{Following, NotInForce, UPKEEP},
    session::source_of,
    store::{ConditionEntry, DegradedEntry, HoldEntry, Stamp, Status, SuspensionEntry, TroubleKey},
    text::short_digest,
};
use reconciled_provider::{Ending, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What is not well, by what names it.
pub(super) type Found = BTreeMap<TroubleKey, Body>;

/// Reasons of conditions that wait, which say that something failed; others wait for time or for each other.
const FAILING: [&str; 4] = ["conflict", "rate-limited", "unavailable", "unexpected"];
/// The reason of what announces an end.
const EXPIRING: &str = "Expiring";
/// The reason of what is as declared and does not do.
const UNHEALTHY: &str = "Unhealthy";
/// The reason and the subject of what keeps every revision from coming into force.
const NOT_IN_FORCE: (&str, &str) = ("NotInForce", "sources");

/// What ends by itself, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Endings {
    pub(super) all: Vec<(Scope, Ending)>,
    /// The scopes that had been looked at when they were asked.
    pub(super) known: BTreeSet<Arc<str>>,
    /// Everything had been looked at: what is not among `known` is no more.
    pub(super) is_whole: bool,
}

/// What is known of sources.
pub(super) struct Sources {
    pub(super) following: BTreeMap<Arc<str>, Following>,
    /// Why no revision comes into force, of no source in particular.
    pub(super) failure: Option<NotInForce>,
    /// Reasons of troubles with backups and the trail whose end would be known.
    pub(super) tried: BTreeSet<&'static str>,
}

pub(super) fn gather(status: &Status, sources: &Sources, endings: &Endings, now: Stamp) -> Found {
    let mut found = Found::new();
    for (scope, ending) in endings.all.iter().filter(|(_, ending)| ending.late_at() <= now.0) {
        put(&mut found, &scope.to_string(), Topic::Expiring, EXPIRING, of_ending(scope, ending, now));
    }
    // What is wrong with manifests is told of with the sources, which may be known not to be read yet.
    for condition in status.conditions.iter().filter(|condition| source_of(&condition.scope).is_none()) {
        if let Some(topic) = topic(condition) {
            put(&mut found, &condition.scope, topic, &condition.reason, of_condition(condition));
        }
    }
    for degraded in &status.degraded {
        put(&mut found, &degraded.scope, Topic::Degraded, UNHEALTHY, of_degraded(degraded));
    }
    // What was consented to ahead of its time is nobody's trouble.
    for hold in status.holds.iter().filter(|hold| hold.once.is_none() || hold.approval.is_none()) {
        put(&mut found, &hold.domain, Topic::Held, "Held", of_hold(hold));
    }
    for suspension in &status.suspensions {
        let subject = format!("suspension {}", suspension.what);
        put(&mut found, &subject, Topic::Suspended, "Suspended", of_suspension(suspension));
    }
    if let Some(NotInForce { error, hint, since }) = &sources.failure {
        let body = Body {
            cause: format!("no revision can come into force: {error}"),
            hint: hint.clone(),
            ..Body::new(Stamp(*since))
        };
        let (reason, subject) = NOT_IN_FORCE;
        put(&mut found, subject, Topic::Degraded, reason, body);
    }
    for (name, following) in &sources.following {
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

/// True while nothing is known of a trouble that was told of before the daemon began, or was reloaded.
pub(super) fn is_unknown(key: &TroubleKey, sources: &Sources, endings: &Endings) -> bool {
    let (reason, subject) = NOT_IN_FORCE;
    if &*key.reason == EXPIRING {
        return !endings.is_whole && !endings.known.contains(&key.subject);
    }
    if &*key.subject == UPKEEP {
        return !sources.tried.contains(&*key.reason);
    }
    let sources = &sources.following;
    if (&*key.reason, &*key.subject) == (reason, subject) {
        return sources.values().all(|following| following.told.is_none());
    }
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
        provider: Some(entry(&condition.scope)).filter(|_| condition.scope != UPKEEP),
        cause: format!("{named}{}", condition.message),
        hint: condition.hint.clone(),
        ..Body::new(condition.since)
    }
}

fn of_degraded(degraded: &DegradedEntry) -> Body {
    let DegradedEntry { address, scope, message, since, .. } = degraded;
    Body {
        provider: Some(entry(scope)),
        cause: format!("{address}: {message}"),
        hint: Some(format!("look: reconciled explain {address}")),
        ..Body::new(*since)
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
    let short = short_digest(&hold.digest);
    Body {
        provider: Some(entry(&hold.domain)),
        cause: match &hold.once {
            Some(once) => format!("{once}: {}: {counts}", hold.reasons.join("; ")),
            None => format!("{}: {counts}", hold.reasons.join("; ")),
        },
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sources(failure: Option<NotInForce>) -> Sources {
        let following = [("infra".into(), Following::default())].into();
        Sources { following, failure, tried: BTreeSet::new() }
    }

    #[test]
    fn what_keeps_every_revision_from_coming_into_force_is_told() {
        let since = Duration::from_secs(7);
        let failure = NotInForce { error: "disk full".into(), hint: Some("make room".into()), since };
        let status = Status::default();
        let found = gather(&status, &sources(Some(failure)), &Endings::default(), Stamp(since));
        let (key, body) = found.first_key_value().unwrap();
        assert_eq!((&*key.subject, &*key.topic, &*key.reason), ("sources", "degraded", "NotInForce"));
        assert_eq!(body.cause, "no revision can come into force: disk full");
        assert_eq!((body.hint.as_deref(), body.since), (Some("make room"), Stamp(since)));
        assert!(is_unknown(key, &sources(None), &Endings::default()), "nothing was loaded yet");
        let mut loaded = sources(None);
        loaded
            .following
            .insert("infra".into(), Following { told: Some(Default::default()), ..Following::default() });
        assert!(!is_unknown(key, &loaded, &Endings::default()));
    }

    #[test]
    fn what_is_suspended_and_what_is_wrong_with_a_source_is_told_until_it_is_over() {
        let at = Stamp(Duration::from_secs(7));
        let suspension = SuspensionEntry {
            id: "1".into(),
            what: "--all".into(),
            except: Vec::new(),
            reason: "a move".into(),
            actor: "ann".into(),
            since: at,
            until: None,
            hint: "to resume: reconciled resume --all".into(),
            is_window: false,
        };
        let status = Status { suspensions: vec![suspension], ..Status::default() };
        let behind = Some(("it is away".to_owned(), "look".to_owned()));
        let mut sources = sources(None);
        sources.following.insert("infra".into(), Following { behind, broken: true, ..Following::default() });
        let found = gather(&status, &sources, &Endings::default(), at);
        let keys: Vec<(&str, &str, &str)> =
            found.keys().map(|key| (&*key.subject, &*key.topic, &*key.reason)).collect();
        let expect = [
            ("source infra", "degraded", "InvalidManifests"),
            ("source infra", "degraded", "SourceBehind"),
            ("suspension --all", "suspended", "Suspended"),
        ];
        assert_eq!(keys, expect);
        let causes: Vec<&str> = found.values().map(|body| body.cause.as_str()).collect();
        assert_eq!(causes, ["its manifests have errors", "it is away", "by ann: a move"]);
        // Nothing is known of a source that was not asked since the start.
        let behind = found.keys().nth(1).unwrap();
        sources.following.insert("infra".into(), Following::default());
        assert!(is_unknown(behind, &sources, &Endings::default()));
        let polled = Following { polled_at: Some(7), ..Following::default() };
        sources.following.insert("infra".into(), polled);
        assert!(!is_unknown(behind, &sources, &Endings::default()));
    }

    #[test]
    fn the_end_of_a_trouble_with_backups_is_known_once_one_was_tried() {
        let key =
            TroubleKey { subject: UPKEEP.into(), topic: "degraded".into(), reason: "NotBackedUp".into() };
        let mut sources = sources(None);
        assert!(is_unknown(&key, &sources, &Endings::default()));
        sources.tried.insert("NotBackedUp");
        assert!(!is_unknown(&key, &sources, &Endings::default()));
    }

    #[test]
    fn what_expires_is_unknown_until_its_scope_was_looked_at_or_all_others_were() {
        let key = TroubleKey {
            subject: "cert/a".into(),
            topic: Topic::Expiring.word().into(),
            reason: EXPIRING.into(),
        };
        let check = |known: &[&str], is_whole: bool, expect: bool| {
            let known = known.iter().map(|scope| Arc::from(*scope)).collect();
            let endings = Endings { known, is_whole, ..Endings::default() };
            assert_eq!(is_unknown(&key, &sources(None), &endings), expect, "{endings:?}");
        };
        check(&[], false, true);
        check(&["cert/b"], false, true);
        check(&["cert/a"], false, false);
        check(&["cert/b"], true, false);
    }
}
