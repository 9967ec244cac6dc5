//! The order of steps within a scope: what makes room first, then dependencies before dependants, deletes
//! last and in reverse.

use super::{
    Blocked, Change, Reason, ScopeInput, ScopePlan, Step, blocked::FILES_IN_ERROR, planner::Planner, prune,
};
use crate::store::Condition;
use reconciled_provider::{Address, ManifestKey, Resource, ResourceId, Slot, Version};
use std::collections::{BTreeMap, BTreeSet};

/// Sorts `steps`.
///
/// A delete whose slot is taken by a create or update of the same plan comes first, so that one atomic batch
/// can do both (RFC 1034 §3.6.2: a CNAME excludes all other data at its name).
pub(super) fn sort(input: &ScopeInput<'_>, steps: &mut [Step]) {
    let slot = |step: &Step| input.provider.slot(&step.id);
    let deletes = steps.iter().any(|s| s.change == Change::Delete);
    let wanted: BTreeSet<Slot> = if deletes {
        steps
            .iter()
            .filter(|s| matches!(s.change, Change::Create | Change::Update))
            .filter_map(slot)
            .collect()
    } else {
        BTreeSet::new()
    };
    let edges = steps.iter().any(|s| !after(s).is_empty());
    let depth = if edges { depths(steps) } else { BTreeMap::new() };
    let rank = |step: &Step| {
        let makes_room = step.change == Change::Delete
            && slot(step).is_some_and(|s| s.clashing().any(|other| wanted.contains(&other)));
        let depth = step.work.row.as_ref().and_then(|r| depth.get(&r.manifest)).copied().unwrap_or(0);
        match step.change {
            Change::Move { .. } | Change::Adopt | Change::Forget => (0, 0),
            Change::Delete if makes_room => (1, 0),
            Change::Delete => (3, -depth),
            _ => (2, depth),
        }
    };
    steps.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.id.cmp(&b.id)));
}

/// Lets what is to be made wait for what all of the scope are in, such as a zone, where that is neither there nor made by this plan:
/// a remote has no place for it. Where only a manifest that does not count declares that, and it is not tracked here, nothing new is made
/// or taken over in it either, be it there or not: the scope may be what is wrong in that manifest. What was ours in it is restored.
pub(super) fn wait_for_holder(planner: &Planner<'_>, out: &mut ScopePlan) {
    let input = planner.input;
    let Some(id) = input.provider.holder(input.scope) else { return };
    let is_absent = input.seen.version == Version::Absent;
    let blocked = match (planner.effective.get(&id), planner.row(&id)) {
        (Some(holder), _) if is_absent => not_made(planner, holder, out),
        (None, Some(row)) if is_absent && prune::is_aside(planner, &id) => {
            let told = Condition::waiting("Frozen", "a file with errors declares it").hint(FILES_IN_ERROR);
            Some(Blocked::NoHolder { holder: row.address.clone().into(), told: told.into() })
        }
        (None, None) if prune::is_aside(planner, &id) => Some(Blocked::InError(input.scope.clone().into())),
        _ => None,
    };
    let Some(blocked) = blocked else { return };
    let is_taken_over = |step: &Step| step.work.was.is_none() && step.work.row.is_some();
    let is_made = |step: &Step| step.change == Change::Create && (is_absent || step.work.was.is_none());
    let waits = |step: &Step| is_made(step) || matches!(blocked, Blocked::InError(_)) && is_taken_over(step);
    for step in out.steps.iter_mut().filter(|step| step.blocked.is_none() && waits(step)) {
        out.conditions.push(blocked.condition(step));
        step.blocked = Some(blocked.clone());
    }
    // The scope may be there: what would make room for what waits now is no longer in its way.
    if matches!(blocked, Blocked::InError(_)) {
        wait_for_each_other(input, &mut out.steps, &mut out.conditions);
    }
}

/// What keeps `holder`, which is desired, from being made; none where this plan makes it.
fn not_made(planner: &Planner<'_>, holder: &Resource, out: &ScopePlan) -> Option<Blocked> {
    let address = planner.address(holder);
    let told = match out.steps.iter().find(|step| step.id == holder.id && step.change.writes()) {
        Some(step) => step.blocked.as_ref()?.condition(step),
        None => {
            let told = out.conditions.iter().find(|told| told.id.as_ref() == Some(&holder.id));
            told.cloned().unwrap_or_else(|| left_out(planner.input, &address))
        }
    };
    Some(Blocked::NoHolder { holder: address.into(), told: told.into() })
}

/// Why a plan that has nothing to say of a resource does not make it.
fn left_out(input: &ScopeInput<'_>, address: &Address) -> Condition {
    let (message, hint) = match input.selection.is_all() {
        true => ("it is left as it is", format!("to see how that stands: reconciled explain {address}")),
        false => ("it is not chosen", "choose it as well, or leave out the choice".into()),
    };
    Condition::stalled("LeftOut", message).hint(hint)
}

/// Lets what has no room wait for it, and what makes room for something that waits. Each of the two may be what the other goes
/// by: whoever stays for one that waits takes the room of its other successors, too.
pub(super) fn wait_for_each_other(
    input: &ScopeInput<'_>,
    steps: &mut [Step],
    conditions: &mut Vec<Condition>,
) {
    let waiting = |steps: &[Step]| steps.iter().filter(|step| step.blocked.is_some()).count();
    loop {
        let before = waiting(steps);
        wait_for_room(input, steps, conditions);
        wait_for_successors(input, steps, conditions);
        if waiting(steps) == before {
            return;
        }
    }
}

/// What has no room waits for it: remotes refuse it beside what stays there, or say nothing and leave it out (RFC 2136
/// §3.4.2.2).
fn wait_for_room(input: &ScopeInput<'_>, steps: &mut [Step], conditions: &mut Vec<Condition>) {
    let wants_room = |step: &Step| step.change == Change::Create && step.blocked.is_none();
    if !steps.iter().any(wants_room) {
        return;
    }
    let goes = |step: &&Step| step.change == Change::Delete && step.blocked.is_none();
    let going: BTreeSet<&ResourceId> = steps.iter().filter(goes).map(|step| &step.id).collect();
    let stays = input.seen.resources.iter().filter(|seen| !going.contains(&seen.id));
    let taken: BTreeMap<Slot, ResourceId> =
        stays.filter_map(|seen| Some((input.provider.slot(&seen.id)?, seen.id.clone()))).collect();
    for step in steps.iter_mut().filter(|step| wants_room(step)) {
        let slot = input.provider.slot(&step.id);
        let Some(by) = slot.and_then(|slot| slot.clashing().find_map(|other| taken.get(&other))) else {
            continue;
        };
        let is_tracked = input.memory.rows.binary_search_by(|row| row.tracked.id.cmp(by)).is_ok();
        let is_declared = step.reason == Reason::Claim
            && input.effective.binary_search_by(|resource| resource.id.cmp(by)).is_ok();
        let blocked = Blocked::Occupied { by: by.clone(), is_tracked, is_declared };
        conditions.push(blocked.condition(step));
        step.blocked = Some(blocked);
    }
}

/// What makes room for something that waits stays until that can come: else the slot would be empty meanwhile.
fn wait_for_successors(input: &ScopeInput<'_>, steps: &mut [Step], conditions: &mut Vec<Condition>) {
    let waits = |step: &&Step| {
        let blocked = &step.blocked;
        matches!(
            blocked,
            Some(
                Blocked::Reference(_)
                    | Blocked::NoOutput { .. }
                    | Blocked::Dependency(_)
                    | Blocked::Suspended(_)
                    | Blocked::Ambiguous(_)
                    | Blocked::Occupied { .. }
                    | Blocked::InError(_)
            )
        )
    };
    if steps.iter().all(|s| s.change != Change::Delete) {
        return;
    }
    let mut waiting: BTreeMap<Slot, Blocked> = steps
        .iter()
        .filter(|s| s.change == Change::Create)
        .filter(waits)
        .filter_map(|s| {
            let blocked = match s.blocked.clone()? {
                Blocked::Occupied { .. } => Blocked::Successor(s.address.clone().into()),
                other => other,
            };
            Some((input.provider.slot(&s.id)?, blocked))
        })
        .collect();
    waiting.extend(unplanned(input, steps, conditions));
    if waiting.is_empty() {
        return;
    }
    for step in steps.iter_mut().filter(|s| s.change == Change::Delete && s.blocked.is_none()) {
        let Some(blocked) = input
            .provider
            .slot(&step.id)
            .and_then(|slot| slot.clashing().find_map(|other| waiting.get(&other)))
        else {
            continue;
        };
        step.blocked = Some(blocked.clone());
        conditions.push(blocked.condition(step));
    }
}

/// Slots of what is wanted and not there, and that a condition keeps from becoming a step at all.
fn unplanned(input: &ScopeInput<'_>, steps: &[Step], conditions: &[Condition]) -> Vec<(Slot, Blocked)> {
    let has_step: BTreeSet<&ResourceId> = steps.iter().map(|step| &step.id).collect();
    let is_stuck = |condition: &&Condition| {
        let id = condition.id.as_ref().filter(|id| !has_step.contains(*id));
        id.is_some_and(|id| {
            let wanted = input.effective.binary_search_by(|desired| desired.id.cmp(id)).is_ok();
            wanted && input.seen.get(id).is_none()
        })
    };
    let slot = |condition: &Condition| {
        let slot = input.provider.slot(condition.id.as_ref()?)?;
        Some((slot, Blocked::Successor(condition.address.clone()?.into())))
    };
    conditions.iter().filter(is_stuck).filter_map(slot).collect()
}

fn after(step: &Step) -> &[ManifestKey] {
    step.work.row.as_ref().map_or(&[], |row| &row.tracked.after)
}

/// Longest chain of dependencies behind each manifest of the plan. Cycles were refused when loading; one
/// that slips through ends at the number of manifests.
fn depths(steps: &[Step]) -> BTreeMap<ManifestKey, i32> {
    let edges: BTreeMap<&ManifestKey, &[ManifestKey]> = steps
        .iter()
        .filter_map(|s| s.work.row.as_ref())
        .map(|row| (&row.manifest, &*row.tracked.after))
        .collect();
    let mut depth: BTreeMap<ManifestKey, i32> = edges.keys().map(|key| ((*key).clone(), 0)).collect();
    for _ in 0..edges.len() {
        let mut moved = false;
        for (key, after) in &edges {
            let longest = after.iter().filter_map(|dep| depth.get(dep)).max().map_or(0, |d| d + 1);
            if depth.get(*key).is_some_and(|d| *d < longest) {
                depth.insert((*key).clone(), longest);
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    depth
}
