//! What a person stopped is planned and not done; what was changed by hand meanwhile is not healed afterwards
//! without a person's word.
//!
//! Invariant: every step that writes, takes over or lets go passes here, whatever made it, so that no kind of change can be forgotten.

use super::{Blocked, CLAIMS, Change, Planner, Reason, ScopePlan, Step};
use crate::{
    store::Row,
    suspension::{Extent, Heals, StoppedBy, Suspension},
};
use reconciled_provider::{Address, Deletion, Focus};
use std::{collections::BTreeSet, sync::Arc};

/// Guard word of what was changed by hand while it was suspended.
pub(super) const BY_HAND: &str = "changed-while-suspended";

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
    keep_names(planner, out);
    let mut in_doubt: BTreeSet<&str> = BTreeSet::new();
    // Letting go and taking over is what a commit asks for, too: done meanwhile, taking the commit back would make a second one,
    // or delete what was never ours.
    let is_stopped =
        |step: &&mut Step| step.change.writes() || matches!(step.change, Change::Forget | Change::Adopt);
    for step in out.steps.iter_mut().filter(is_stopped).filter(|step| step.can_happen()) {
        let mine: Vec<&Arc<Suspension>> =
            input.suspensions.iter().filter(|suspension| is_meant(planner, suspension, step)).collect();
        let stops =
            |suspension: &&&Arc<Suspension>| !suspension.is_over(input.now) && !lets(suspension, step);
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
        let over = mine.iter().filter(|suspension| suspension.scopes.contains(input.scope));
        let over: Vec<&str> = over.map(|suspension| &*suspension.id).collect();
        if !over.is_empty() && step.change.writes() && is_by_hand(step) {
            step.guard_words.push(BY_HAND);
            in_doubt.extend(over);
        }
    }
    let seen = input.seen.complete && input.seen.covered == Focus::All && input.selection.is_all();
    let looked = input.suspensions.iter().filter(|suspension| {
        seen && suspension.is_over(input.now)
            && suspension.scopes.contains(input.scope)
            && !in_doubt.contains(&*suspension.id)
    });
    out.looked = looked.map(|suspension| (suspension.id.clone(), suspension.since)).collect();
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
        || was.is_some_and(|was| means_by_name(suspension, was, &step.address))
        || also.any(|row| {
            let labels = || planner.declared(&row.manifest).map(|manifest| &manifest.labels);
            suspension.means(scope, &row.address, Some(&row.manifest), labels)
        })
        || declarers.iter().any(|(address, manifest)| {
            suspension.means(scope, address, Some(&manifest.key), || Some(&manifest.labels))
        })
}

/// True where the address that a person suspended is the one that this has in the inventory: another name, or another manifest that
/// declares it now, makes it no other thing, and is no word that it may go on.
fn means_by_name(suspension: &Suspension, row: &Row, now: &Address) -> bool {
    let is_by_name = matches!(suspension.extent, Extent::Address(_)) && row.address != *now;
    is_by_name && !suspension.excepts(now, row.manifest.group()) && {
        suspension.means(&row.scope, &row.address, Some(&row.manifest), || None)
    }
}

/// Has what is suspended by its address keep that in the inventory, whatever it is called by now: the next commit must not be
/// free to change it.
fn keep_names(planner: &Planner<'_>, out: &mut ScopePlan) {
    let input = planner.input;
    let by_name =
        input.suspensions.iter().filter(|s| matches!(s.extent, Extent::Address(_)) && !s.is_over(input.now));
    out.refreshed.retain_mut(|row| {
        let Some(was) = planner.row(&row.tracked.id) else { return true };
        let mut by_name = by_name.clone();
        if by_name.any(|suspension| means_by_name(suspension, was, &row.address)) {
            row.address = was.address.clone();
        }
        row != was
    });
}

/// True for what is made again as it was, and for what a person takes back, where a closed window lets that through.
fn lets(suspension: &Suspension, step: &Step) -> bool {
    let is_heal = step.reason.is_heal();
    let is_protected = || step.work.was.as_ref().is_some_and(|row| row.deletion == Deletion::Protect);
    let StoppedBy::Window(passes) = suspension.stopped_by else { return false };
    let heals = match passes.heals {
        Heals::Nothing => false,
        Heals::Protected => is_heal && is_protected(),
        Heals::Everything => is_heal,
    };
    heals || passes.rollback && matches!(step.reason, Reason::Rollback(_))
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
