//! Suspending and resuming while passes run, and what follows from time, from windows and from the file that suspends.
//!
//! Guarantees: a suspension is durable before anything is asked to stop, so that whatever begins afterwards knows
//! of it; the answer says whether anything that began before still writes.

use super::instance::Instance;
use crate::{
    failure::Failure,
    session::{by_files, by_windows},
};
use reconciled_engine::{
    Store, Write,
    scheduler::{Priority, Stance},
    store::Event,
};
use reconciled_provider::{Focus, Scope};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How long `suspend` waits for what was sent to be answered.
const HALT: Duration = Duration::from_secs(10);
/// How often the file and the time are looked at, beyond each pass.
const LOOK: Duration = Duration::from_secs(2);

/// Has passes that run stop; true when one still writes after a while.
pub(crate) async fn halt(instance: &Instance) -> bool {
    tokio::select! {
        () = instance.scheduler.halt() => false,
        () = instance.session.clock.sleep(HALT) => true,
    }
}

/// Has what was suspended looked at.
pub(crate) fn resumed(instance: &Instance) {
    let standing = instance.scheduler.standing().into_iter();
    let scopes: Vec<Scope> =
        standing.filter(|(_, s)| s.stance != Stance::InSync).map(|(scope, _)| scope).collect();
    instance.scheduler.wake(scopes, Priority::Operator, Focus::All);
}

/// Watches, until the instance stops: who makes the file that suspends has passes that run stopped, who removes it
/// has everything looked at; and where the time of a suspension is over, its scopes are looked at once, so that
/// what is changed by hand from then on is drift like any other. A window that closes stops passes as a suspension
/// does; one that opens has looked at what waited for it.
pub(super) async fn watch(instance: Arc<Instance>) {
    let cx = &instance.session.surveyor.cx;
    let mut before = None;
    let mut is_first = true;
    let mut told = BTreeSet::new();
    let mut closed = BTreeSet::new();
    while !cx.stop.is_set() {
        let now = by_files(&instance.session.config);
        if now.is_some() != before.is_some() {
            let (kind, file) = match (&now, &before) {
                (Some(file), _) => ("suspend", file),
                (None, Some(file)) => ("resume", file),
                (None, None) => continue,
            };
            tracing::warn!(by = &*file.actor, reason = &*file.reason, "{kind}");
            record(&instance, kind, &file.actor, &file.reason).await;
            match now.is_some() {
                // Whatever runs at the start has asked for the file itself.
                true if is_first => {}
                true => drop(halt(&instance).await),
                false => resumed(&instance),
            }
        }
        closed = windows(&instance, closed, is_first).await;
        (before, is_first) = (now, false);
        wake_what_is_over(&instance, &mut told).await;
        tokio::select! {
            () = cx.stop.wished() => break,
            () = cx.clock.sleep(LOOK) => {}
        }
    }
}

/// Follows the windows from those that were `closed` before to those that are now.
async fn windows(instance: &Instance, before: BTreeSet<Arc<str>>, is_first: bool) -> BTreeSet<Arc<str>> {
    let found = by_windows(&instance.session.config, instance.session.clock.now());
    for one in found.iter().filter(|one| !before.contains(&one.id)) {
        tracing::info!(source = &*one.actor, why = &*one.reason, "window closes");
    }
    let now: BTreeSet<Arc<str>> = found.into_iter().map(|one| one.id).collect();
    // Whatever runs at the start has looked at the clock itself.
    if !is_first && now.difference(&before).next().is_some() {
        halt(instance).await;
    }
    if before.difference(&now).next().is_some() {
        tracing::info!("window opens");
        resumed(instance);
    }
    now
}

/// `told` has the suspensions whose scopes were woken, by id and beginning.
async fn wake_what_is_over(instance: &Instance, told: &mut BTreeSet<(Arc<str>, Duration)>) {
    let now = instance.session.clock.now();
    // A state that cannot be read now is read the next time.
    let known = instance.writing.db.suspensions().await.unwrap_or_default();
    for suspension in known.into_iter().filter(|suspension| suspension.is_over(now)) {
        if told.insert((suspension.id, suspension.since)) {
            instance.scheduler.wake(suspension.scopes, Priority::Hint, Focus::All);
        }
    }
}

async fn record(instance: &Instance, kind: &str, actor: &Arc<str>, reason: &Arc<str>) {
    let event = Event {
        at: instance.session.clock.now(),
        kind: kind.into(),
        scope: None,
        address: None,
        revision: "".into(),
        actor: actor.clone(),
        reason: reason.clone(),
        message: if kind == "suspend" { "--all suspended" } else { "--all goes on" }.into(),
    };
    if let Err(error) = instance.writing.db.commit(vec![Write::Event(event)]).await {
        tracing::warn!(error = %Failure::from(error), "a suspension by file cannot be recorded");
    }
}
