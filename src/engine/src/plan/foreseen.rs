//! What the guard will be asked about once what stops a change is over: a closed window, or a person's suspension.
//!
//! Guarantees: pure; whatever else keeps a step (its manifest, a policy, what it waits for) keeps it here as well, so that the
//! digest is the one that the plan has by then, if nothing of it moves. It deliberately lets nothing be written: a consent to this
//! is a consent to a plan that is not there yet.

use super::{Blocked, Change, ScopePlan, Step, digest};
use crate::suspension::{OR_ASKED_FOR, StoppedBy, Suspension};
use reconciled_provider::Hash;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// What is left of a suspension once it is over: of one that has its time, the doubt about what was changed by hand. Who ends one
/// by a word consents to that, and nobody works by hand because a window is closed.
pub(super) fn over(suspension: &Arc<Suspension>, now: Duration) -> Option<Arc<Suspension>> {
    let until = suspension.until.filter(|_| suspension.stopped_by == StoppedBy::Person)?;
    Some(match suspension.is_over(now) {
        true => suspension.clone(),
        false => Arc::new(Suspension { until: Some(until.min(now)), ..(**suspension).clone() }),
    })
}

/// The plans of one guard domain as they are once nothing of them is stopped; none where nothing is. What goes on meanwhile is
/// done by then, and counts with what was there: also what is held, since no consent to that is consent to the rest.
pub fn plans(plans: &[&ScopePlan]) -> Option<Vec<ScopePlan>> {
    let is_stopped = plans.iter().any(|plan| !plan.resumed.is_empty());
    is_stopped.then(|| plans.iter().map(|plan| later(plan)).collect())
}

fn later(plan: &ScopePlan) -> ScopePlan {
    let hash = |step: &Step| digest::of_step(&plan.scope, step);
    let goes_on = plan.steps.iter().filter(|step| step.blocked.is_none());
    let done: BTreeSet<Hash> = goes_on.clone().filter(|step| step.is_guarded()).map(hash).collect();
    let mut tracked = plan.tracked;
    for step in goes_on {
        match step.change {
            Change::Create | Change::Adopt if step.work.was.is_none() => tracked += 1,
            Change::Delete | Change::Forget | Change::Abandon => tracked = tracked.saturating_sub(1),
            _ => {}
        }
    }
    let steps = if plan.resumed.is_empty() { &plan.steps } else { &plan.resumed };
    let steps = steps.iter().filter(|step| !done.contains(&hash(step))).cloned().collect();
    let (unselected, put_off, exclusive) = (plan.unselected.clone(), plan.put_off, plan.exclusive);
    // Of a large domain most is not stopped: what the guard does not ask about is not copied.
    let nothing = ScopePlan::nothing(plan.scope.clone(), plan.base.clone());
    ScopePlan { steps, unselected, put_off, exclusive, tracked, ..nothing }
}

/// When that will be, in words that follow "held".
pub fn once(plans: &[&ScopePlan]) -> &'static str {
    let by = plans.iter().flat_map(|plan| stops(plan));
    let (windows, persons): (Vec<_>, Vec<_>) = by.partition(|by| by.stopped_by != StoppedBy::Person);
    match (windows.is_empty(), persons.is_empty()) {
        (false, true) if windows.iter().all(|by| by.lets_person()) => OR_ASKED_FOR,
        (false, true) => "once the window opens",
        (true, _) => "once it is resumed",
        (false, false) => "once the window opens and the rest is resumed",
    }
}

/// What stops the steps of a plan that are put off. What waits for the one that all are in is stopped with that, which the guard
/// need not count: it may be restored.
fn stops(plan: &ScopePlan) -> impl Iterator<Item = &Arc<Suspension>> {
    let holder = plan.steps.iter().filter(|step| step.is_put_off()).find_map(|step| match &step.blocked {
        Some(Blocked::NoHolder { holder, .. }) => Some(&**holder),
        _ => None,
    });
    let is_meant =
        move |step: &&Step| step.is_put_off() || holder.is_some_and(|holder| step.address == *holder);
    plan.steps.iter().filter(is_meant).filter_map(|step| match &step.blocked {
        Some(Blocked::Suspended(suspension)) => suspension.as_ref(),
        _ => None,
    })
}
