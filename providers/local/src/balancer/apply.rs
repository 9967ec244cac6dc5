//! Writing the file of a balancer, and having it read.

use super::{
    kind::Balancer,
    normalize::{Front, path_of},
    observe::drained_in,
    render::{drained, with_drained},
};
use crate::{
    hands::{Fault, Hands, Job, Make, Manager, Put, Seen, What},
    state::Access,
    systemd::apply as units,
};
use reconciled_provider::{Action, Error, Op, Outcome, Secret, Tracked};
use std::{collections::BTreeSet, sync::Arc};

/// Carries out one action.
pub(crate) async fn apply(hands: &dyn Hands, manager: &dyn Manager, action: &Action) -> Outcome {
    act(hands, manager, action).await.unwrap_or_else(Outcome::from)
}

async fn act(hands: &dyn Hands, manager: &dyn Manager, action: &Action) -> Result<Outcome, Fault> {
    let seen = look(hands, &action.op.id().0).await?;
    let Some(desired) = action.op.desired() else {
        units::remove(hands, &seen).await?;
        return Ok(Outcome::Gone);
    };
    let declared = desired.spec.bytes().and_then(Balancer::decode);
    let declared = declared.ok_or_else(|| Error::unexpected(format!("{} is no balancer", desired.id)))?;
    // Whoever is being drained stays so; marks that nobody could account for are still in what was observed.
    let strays = match &action.op {
        Op::Update { observed, .. } => Balancer::decode(&observed.bytes).map(|seen| drained(&seen.balancer)),
        _ => None,
    };
    let strays = strays.unwrap_or_default();
    let drained: BTreeSet<String> =
        drained_in(&seen).into_iter().filter(|unit| !strays.contains(unit)).collect();
    let content = with_drained(&declared.balancer, |_| true, &drained);
    let is_foreign = !matches!(action.op, Op::Update { tracked: Some(_), .. });
    put(hands, &seen, &content, declared.validate.clone(), is_foreign).await?;
    reload(manager, &declared.reload).await?;
    Ok(Outcome::Done(Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default())))
}

async fn look(hands: &dyn Hands, id: &str) -> Result<Seen, Error> {
    let path = path_of(id).ok_or_else(|| Error::unexpected(format!("{id} is no path")))?;
    let seen = hands.look(std::slice::from_ref(&path)).await?.pop();
    seen.ok_or_else(|| Error::unexpected(format!("nothing was said of {path}")))
}

async fn put(
    hands: &dyn Hands,
    seen: &Seen,
    content: &str,
    validate: Option<Arc<str>>,
    keep: bool,
) -> Result<(), Fault> {
    let access = Access { owner: None, group: None, mode: 0o644 };
    let content = Secret::new(content.as_bytes().to_vec());
    let make = Make::File { access, content, validate, is_public: true };
    let keep = keep && !matches!(seen.what, What::Absent);
    hands.put(&Put { path: seen.path.clone(), expect: seen.stamp(), make, keep }).await
}

/// Has the unit read its configuration, if it runs: one that does not reads it when it starts.
async fn reload(manager: &dyn Manager, unit: &str) -> Result<(), Fault> {
    let state = manager.units(&[unit.to_owned()]).await?.pop().unwrap_or_default();
    if state.is_running() { manager.job(unit, Job::Reload).await } else { Ok(()) }
}

/// Has exactly `units` of a deployment drained at these balancers, each of which reads that before this returns. A balancer
/// that is not there yet needs no mark.
pub(crate) async fn mark(
    hands: &dyn Hands,
    manager: &dyn Manager,
    fronts: &[Front],
    of: impl Fn(&str) -> bool + Copy,
    units: &BTreeSet<String>,
) -> Result<(), Fault> {
    for front in fronts {
        let seen = look(hands, &front.path).await?;
        let Some(text) = crate::systemd::observe::text(&seen) else { continue };
        let content = with_drained(&text, of, units);
        if content != text {
            put(hands, &seen, &content, None, false).await?;
        }
        // Also where it was as wanted: a process may have died between the two.
        reload(manager, &front.reload).await?;
    }
    Ok(())
}
