//! Carrying out a batch: templates, instances, balancers, and what goes.

use super::{
    instance::{self, is_about_one},
    look::{group, numbers},
    memory::Memory,
    parts,
    turn::{Turn, millis},
};
use crate::{
    apply::begin,
    balancer,
    hands::{Fault, Hands, Job, Manager},
    systemd::apply as units,
};
use futures_util::future::select;
use reconciled_provider::{Action, ActionId, Batch, Cx, Error, Journal, Op, Outcome};
use std::{collections::BTreeMap, pin::pin, time::Duration};

/// Carries out a batch: templates, then instances, then balancers, then what goes.
pub(crate) async fn apply(
    hands: &dyn Hands,
    manager: &dyn Manager,
    cx: &Cx,
    batch: &Batch,
    journal: &dyn Journal,
) -> Result<(), Error> {
    if !begin(cx, batch, journal).await? {
        return Ok(());
    }
    let (instances, templates): (Vec<&Action>, Vec<&Action>) =
        batch.actions.iter().partition(|action| is_about_one(&action.op));
    let is_gone = |action: &&Action| matches!(action.op, Op::Delete { .. });
    let (balancers, templates): (Vec<&Action>, Vec<&Action>) =
        templates.into_iter().partition(|action| balancer::is_balancer(&action.op.id().0));
    let (gone, kept): (Vec<&Action>, Vec<&Action>) = templates.into_iter().partition(is_gone);
    let (fewer, instances): (Vec<&Action>, Vec<&Action>) = instances.into_iter().partition(is_gone);
    let mut unwritten: BTreeMap<&str, Error> = BTreeMap::new();
    for action in kept {
        let outcome = match Turn::of(action) {
            Some(turn) => turn.take(hands, manager, cx, journal).await?,
            None => Outcome::Failed(Error::unexpected(format!("{} is no deployment", action.op.id()))),
        };
        if let (Outcome::Failed(error), Some((name, _))) = (&outcome, parts(&action.op.id().0)) {
            unwritten.insert(name, error.clone());
        }
        journal.finished(vec![(action.id, outcome)]).await?;
    }
    instance::apply(hands, manager, journal, &instances, &unwritten).await?;
    let mut left: BTreeMap<String, u64> = BTreeMap::new();
    let mut unread = None;
    for action in balancers {
        let outcome = balancer::apply(cx, hands, manager, action, journal).await?;
        match &outcome {
            Outcome::Done(tracked) => left.extend(balancer::left(tracked)),
            _ if outcome.error().is_some() => unread = Some(action.op.id().clone()),
            _ => {}
        }
        journal.finished(vec![(action.id, outcome)]).await?;
    }
    let last: Vec<&Action> = fewer.iter().chain(&gone).copied().collect();
    if last.is_empty() {
        return Ok(());
    }
    if let Some(balancer) = unread {
        // It may still send requests to those that would go.
        let why = format!("{balancer} may still name its instances");
        return journal.finished(kept_all(&last, &why, "it goes once that balancer is as declared")).await;
    }
    // Requests that are on their way to those that go now.
    let until = |action: &&Action| left.get(&*action.op.id().0).copied().max(instance::kept_until(action));
    if let Some(wait) = fewer.iter().filter_map(until).max().and_then(|until| until.checked_sub(millis(cx))) {
        let (sleep, wished) = (cx.clock.sleep(Duration::from_millis(wait)), cx.stop.wished());
        select(sleep, pin!(wished)).await;
    }
    if cx.stop.is_set() {
        return journal.finished(kept_all(&last, "this process ends", "the next one goes on")).await;
    }
    instance::apply(hands, manager, journal, &fewer, &unwritten).await?;
    for action in gone {
        let outcome = match take_away(hands, manager, action).await {
            Ok(()) => Outcome::Gone,
            Err(fault) => fault.into(),
        };
        journal.finished(vec![(action.id, outcome)]).await?;
    }
    Ok(())
}

/// Nothing was done to these, and why.
fn kept_all(actions: &[&Action], why: &str, hint: &str) -> Vec<(ActionId, Outcome)> {
    let kept = |action: &&Action| {
        let text = format!("{} is kept: {why}", action.op.id());
        (action.id, Outcome::Failed(Error::unavailable(text).hint(hint)))
    };
    actions.iter().map(kept).collect()
}

/// Takes away a template, and what a rolling update left.
async fn take_away(hands: &dyn Hands, manager: &dyn Manager, action: &Action) -> Result<(), Fault> {
    let Op::Delete { tracked, .. } = &action.op else { return Ok(()) };
    let Some((name, None)) = parts(&action.op.id().0) else { return Ok(()) };
    let memory = Memory::open(tracked.as_ref());
    let group = group(hands, manager, name, &numbers(None, &memory)).await?;
    if let Some(why) = group.any_closed() {
        return Err(Error::from(why).into());
    }
    let surge = memory.rollout.iter().flat_map(|rollout| rollout.surge.iter());
    for number in surge.filter(|number| group.is_running(**number)) {
        manager.job(&super::instance(name, *number), Job::Stop).await?;
    }
    let mut is_changed = false;
    for looked in group.members.values() {
        is_changed |= units::remove(hands, &looked.file).await?;
    }
    is_changed |= units::remove(hands, &group.template).await?;
    if is_changed { manager.reload().await } else { Ok(()) }
}
