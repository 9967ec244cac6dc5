//! What a person stopped is planned and not done; what was changed by hand meanwhile is not healed afterwards
//! without a person's word.
//!
//! Invariant: every step that writes, takes over or lets go passes here, whatever made it, so that no kind of change can be forgotten.

use super::{
    Blocked, CLAIMS, Change, Reason, ScopePlan, Step, guard_words::BY_HAND, planner::Planner, reason,
};
use crate::{
    store::{ClaimRow, Row},
    suspension::{Extent, Heals, StoppedBy, Suspension},
};
use reconciled_provider::{Address, Deletion, Focus, Resource, ResourceId};
use std::{collections::BTreeSet, iter, mem, sync::Arc};

/// Blocks what is suspended, marks what needs consent since a suspension is over, and notes the suspensions that
/// this scope needs no more.
pub(super) fn suspend(planner: &Planner<'_>, out: &mut ScopePlan) {
    let input = planner.input;
    for step in out.steps.iter_mut().filter(|step| step.change.writes() && step.blocked.is_none()) {
        if writes_suspended(planner, step) {
            let blocked = Blocked::Suspended(None);
            out.conditions.push(blocked.condition(step));
            step.blocked = Some(blocked);
        }
    }
    if input.suspensions.is_empty() {
        return;
    }
    let mut in_doubt: BTreeSet<&str> = BTreeSet::new();
    // Letting go and taking over is what a commit asks for, too: done meanwhile, taking the commit back would make a second one,
    // or delete what was never ours.
    let is_stopped =
        |step: &&mut Step| step.change.writes() || matches!(step.change, Change::Forget | Change::Adopt);
    for step in out.steps.iter_mut().filter(is_stopped).filter(|step| step.can_happen()) {
        let mine: Vec<&Arc<Suspension>> =
            input.suspensions.iter().filter(|suspension| is_meant(planner, suspension, step)).collect();
        let stops = |suspension: &&&Arc<Suspension>| {
            !suspension.is_over(input.now) && !lets(planner, suspension, step)
        };
        // That a person's word passes it is told only where it passes all that stops the step.
        if let Some(suspension) = mine.iter().filter(stops).min_by_key(|one| one.lets_person()) {
            // Whatever else it waits for says so already.
            if step.blocked.is_none() {
                let blocked = Blocked::Suspended(Some((*suspension).clone()));
                out.conditions.push(blocked.condition(step));
                step.blocked = Some(blocked);
            }
            continue;
        }
        let over = mine.iter().filter(|suspension| was_within(planner, suspension, &step.id));
        let over: Vec<&str> = over.map(|suspension| &*suspension.id).collect();
        if !over.is_empty() && step.change.writes() && is_by_hand(step) {
            step.guard_words.push(BY_HAND);
            in_doubt.extend(over);
        }
    }
    let seen = input.seen.complete && input.seen.covered == Focus::All && input.selection.is_all();
    let is_clear = |suspension: &Suspension| seen && !in_doubt.contains(&*suspension.id);
    // What was moved here takes the doubt along, and is looked at with the rest.
    let origins = || input.memory.moved_away.iter().map(|away| &away.scope);
    let is_of = |suspension: &Suspension| {
        iter::once(input.scope).chain(origins()).any(|scope| suspension.scopes.contains(scope))
    };
    let looked = input
        .suspensions
        .iter()
        .filter(|suspension| suspension.is_over(input.now) && is_of(suspension) && is_clear(suspension));
    out.looked = looked.map(|suspension| (suspension.id.clone(), suspension.since)).collect();
    keep_names(planner, out, |suspension, id| {
        !suspension.is_over(input.now) || was_within(planner, suspension, id) && !is_clear(suspension)
    });
}

/// True where something was tracked when the suspension began, and that was not looked at since it was over: here, or where this was
/// moved from. Another name makes it no other thing.
fn was_within(planner: &Planner<'_>, suspension: &Suspension, id: &ResourceId) -> bool {
    let mut moved = planner.input.memory.moved_away.iter().filter(|away| away.id == *id);
    suspension.scopes.contains(planner.input.scope)
        || moved.any(|away| suspension.scopes.contains(&away.scope))
}

/// True where the manifest of what is written on the way says `suspend`.
fn writes_suspended(planner: &Planner<'_>, step: &Step) -> bool {
    let effective = planner.input.effective;
    let declared = |id| Some(&effective[effective.binary_search_by(|other| other.id.cmp(id)).ok()?]);
    let mut also = step.work.delta.also.iter().filter_map(declared);
    also.any(|other| planner.input.desired.policies.get(other.policy).suspend)
}

fn is_meant(planner: &Planner<'_>, suspension: &Suspension, step: &Step) -> bool {
    let row = step.work.row.as_ref().or(step.work.was.as_ref());
    let manifest = row.map(|row| &row.manifest).filter(|key| key.source() != CLAIMS);
    let labels = || manifest.and_then(|key| planner.declared(key)).map(|manifest| &manifest.labels);
    let scope = planner.input.scope;
    // What several declare together is written for none of them while one of them is stopped.
    let declarers = step.work.desired.as_ref().map(|desired| planner.declarers(desired)).unwrap_or_default();
    // Who writes another resource on the way waits for that one, too.
    let mut also = step.work.delta.also.iter().filter_map(|id| planner.row(id));
    let was = step.work.was.as_ref();
    suspension.means(scope, &step.address, manifest, labels)
        || was.is_some_and(|was| meant(suspension, was, &step.address))
        || also.any(|row| {
            let labels = || planner.declared(&row.manifest).map(|manifest| &manifest.labels);
            suspension.means(scope, &row.address, Some(&row.manifest), labels)
        })
        || declarers.iter().any(|(address, manifest)| {
            suspension.means(scope, address, Some(&manifest.key), || Some(&manifest.labels))
        })
}

/// True where what is suspended is the address that this has in the inventory, or the source that it has there: another name, and
/// another manifest that declares it now, be it of another source, make it no other thing, and are no word that it may go on.
fn meant(suspension: &Suspension, row: &Row, now: &Address) -> bool {
    is_by_row(suspension) && !suspension.excepts(now, row.manifest.group()) && {
        suspension.means(&row.scope, &row.address, Some(&row.manifest), || None)
    }
}

/// True where what is in the inventory may be meant by what that says of it.
fn is_by_row(suspension: &Suspension) -> bool {
    matches!(suspension.extent, Extent::Address(_) | Extent::Source(_))
}

/// Has what is suspended by its address keep that in the inventory for as long as a suspension `counts`, whatever it is called by now:
/// the next commit must not be free to change it, nor the first look since it is over to heal it. It is known by its new name all the
/// same: the next one may move that.
///
/// A source keeps nothing so. What another one declares as it is goes to that one: by the source of its row are its outputs found, and
/// by that it stays while a file cannot be read.
fn keep_names(planner: &Planner<'_>, out: &mut ScopePlan, counts: impl Fn(&Suspension, &ResourceId) -> bool) {
    let is_by_name = |one: &&Arc<Suspension>| matches!(one.extent, Extent::Address(_));
    let by_name = planner.input.suspensions.iter().filter(is_by_name);
    let keep = |row: &mut Row| {
        let Some(was) = planner.row(&row.tracked.id) else { return };
        let mut by_name = by_name.clone();
        let is_kept = |suspension: &Arc<Suspension>| {
            meant(suspension, was, &row.address) && counts(suspension, &was.tracked.id)
        };
        if row.address != was.address && by_name.any(is_kept) {
            let now = mem::replace(&mut row.address, was.address.clone());
            if !was.formerly.is_empty() {
                row.know_as(&now);
            }
        }
    };
    out.refreshed.iter_mut().for_each(keep);
    out.refreshed.retain(|row| planner.row(&row.tracked.id) != Some(row));
    let moves = out.steps.iter_mut().filter(|step| matches!(step.change, Change::Move { .. }));
    moves.filter_map(|step| step.work.row.as_mut()).for_each(|row| keep(Arc::make_mut(row)));
}

/// True for what is made again as it was, and for what a person takes back, where a closed window lets that through: to its end, and
/// with what is claimed on the way, or it would be stopped half-way. Why something was begun nobody remembers, so what a commit
/// began before is finished with it; what that one replaced stays.
fn lets(planner: &Planner<'_>, suspension: &Suspension, step: &Step) -> bool {
    let StoppedBy::Window(passes) = suspension.stopped_by else { return false };
    let desired = planner.input.desired;
    let is_begun =
        step.reason == Reason::Continue && matches!(step.change, Change::Continue | Change::Update);
    let is_repair = step.reason.is_heal() || is_begun;
    let is_protected = || step.work.was.as_ref().is_some_and(|row| row.deletion == Deletion::Protect);
    let is_claim = step.reason == Reason::Claim;
    let of_protected = |claim: &ClaimRow| {
        let declared = desired.declaring(&claim.owner_scope, &claim.owner);
        let deletion = |resource: &Resource| desired.policies.get(resource.policy).deletion;
        !declared.is_empty() && declared.iter().all(|one| deletion(one) == Some(Deletion::Protect))
    };
    let heals = match passes.heals {
        Heals::Nothing => false,
        // What is given back is nobody's any more.
        Heals::Protected if is_claim => {
            step.change == Change::Delete || is_claimed_by_all(planner, step, of_protected)
        }
        Heals::Protected => is_repair && is_protected(),
        Heals::Everything => is_repair || is_claim,
    };
    let of_pinned =
        |claim: &ClaimRow| desired.pinned.contains_key(&(claim.owner_scope.clone(), claim.owner.clone()));
    let is_rollback = || match step.reason {
        Reason::Rollback(_) => true,
        Reason::Claim => is_claimed_by_all(planner, step, of_pinned),
        _ => is_begun && reason::rollback(planner.input, &step.id).is_some(),
    };
    heals || passes.rollback && is_rollback()
}

/// True where something claims what `step` writes, and all that does is so.
fn is_claimed_by_all(planner: &Planner<'_>, step: &Step, is_so: impl Fn(&ClaimRow) -> bool) -> bool {
    let claims = planner.input.memory.claims_here.iter();
    let mut claims = claims.filter(|claim| claim.id == step.id).peekable();
    claims.peek().is_some() && claims.all(is_so)
}

/// True when what is there is not what we left there.
fn is_by_hand(step: &Step) -> bool {
    let left = step.work.was.as_ref().map(|row| row.tracked.applied);
    match step.reason {
        Reason::Drift | Reason::Restore => true,
        Reason::Due => false,
        // Whatever was changed stays.
        _ if matches!(step.change, Change::EndFormer | Change::Abandon) => false,
        _ => left.is_some() && left != step.before,
    }
}
