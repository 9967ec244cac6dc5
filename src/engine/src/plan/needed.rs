//! What is deleted in its turn, and stays while something of its scope that stands on it does.
//!
//! Guarantees: a deletion that nothing else keeps waits where what depends on it stays as it is: stopped, not chosen, in error, or waiting
//! itself, be it for what this very plan makes: that may fail, and whatever comes between both would leave it without either. It deliberately does not
//! look at what goes or moves on in the same plan: there the order of steps suffices. Nor at other scopes: what these still need is
//! known before ([`crate::ready::Facts`]).

use super::{Blocked, Change, Dependant, ScopePlan, Step, order, planner::Planner};
use crate::store::Row;
use reconciled_provider::{ManifestKey, Resource, ResourceId};
use std::collections::{BTreeMap, BTreeSet};

/// Keeps what is to go and is still stood on, what that stands on in its turn, and what would take the place of either.
pub(super) fn keep(planner: &Planner<'_>, out: &mut ScopePlan) {
    while keep_once(planner, out) {
        order::wait_for_each_other(planner.input, &mut out.steps, &mut out.conditions);
    }
}

/// True where there was something to be kept.
fn keep_once(planner: &Planner<'_>, out: &mut ScopePlan) -> bool {
    let goes = |step: &Step| step.change == Change::Delete && step.blocked.is_none();
    let has_edges = |row: &Row| !row.tracked.after.is_empty();
    if !planner.input.memory.rows.iter().any(has_edges) || !out.steps.iter().any(goes) {
        return false;
    }
    let needed = needed(planner, out);
    let mut is_kept = false;
    for step in out.steps.iter_mut().filter(|step| goes(step) && !is_replaced(planner, &step.id)) {
        let Some(on) = step.work.was.as_ref().map(|row| row.manifest.clone()) else { continue };
        let Some(by) = needed.get(&on) else { continue };
        let awaits = planner.awaited(by, &on);
        let dependant = Dependant { on, by: ManifestKey::clone(by), awaits, is_declared: false };
        let blocked = Blocked::Dependant(dependant.into());
        out.conditions.push(blocked.condition(step));
        step.blocked = Some(blocked);
        is_kept = true;
    }
    is_kept
}

/// True where something that is declared takes its place: that is what its name means from then on, and what stands on it may wait
/// for just that.
fn is_replaced(planner: &Planner<'_>, id: &ResourceId) -> bool {
    let input = planner.input;
    let of_declared = || input.effective.iter().filter_map(|one| input.provider.slot(&one.id)).collect();
    let slots = planner.slots.get_or_init(of_declared);
    input.provider.slot(id).is_some_and(|slot| slot.clashing().any(|other| slots.contains(&other)))
}

/// Manifests that nobody declares any more and that something here stands on which stays as it is, each with one that does.
fn needed<'a>(planner: &Planner<'a>, out: &ScopePlan) -> BTreeMap<&'a ManifestKey, &'a ManifestKey> {
    // What was changed by hand is declared as it was, and stands on what it is declared to.
    let is_stopped = |step: &&Step| step.change.writes() && step.blocked.is_some() && !step.reason.is_heal();
    let stopped: BTreeSet<&ResourceId> = out.steps.iter().filter(is_stopped).map(|step| &step.id).collect();
    let goes = out.steps.iter().filter(|step| step.blocked.is_none()).map(|step| &step.id);
    let gone: BTreeSet<&ResourceId> = goes.chain(out.lapsed.iter().map(|row| &row.tracked.id)).collect();
    // Be it that it is not chosen, cannot be planned, or is another owner's by now: what is declared otherwise, and neither written nor
    // found to be so, is as it was.
    let written = out.steps.iter().filter(|step| step.change.writes() && step.blocked.is_none());
    let refreshed = out.refreshed.iter().map(|row| &row.tracked.id);
    let moves_on: BTreeSet<&ResourceId> = written.map(|step| &step.id).chain(refreshed).collect();
    let is_as_it_was = |declared: &Resource, row: &Row| {
        declared.spec.template() != row.template && !moves_on.contains(&row.tracked.id)
    };
    let stays = |row: &&Row| match planner.effective.get(&row.tracked.id) {
        Some(declared) => stopped.contains(&row.tracked.id) || is_as_it_was(declared, row),
        None => !gone.contains(&row.tracked.id),
    };
    let rows: &'a [Row] = &planner.input.memory.rows;
    let edges =
        rows.iter().filter(stays).flat_map(|row| row.tracked.after.iter().map(move |on| (on, &row.manifest)));
    edges.filter(|(on, _)| planner.declared(on).is_none()).collect()
}
