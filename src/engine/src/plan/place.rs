//! Where a scope is, as its entry says: what is remembered of it was made there.
//!
//! Guarantees: once the entry points to another place, nothing there is changed or deleted unasked on the word of the inventory
//! alone: what is not as it was left, and bears no mark of ours, may be somebody else's. What is as it was left is ours, as what is
//! equal is where nothing is tracked, and what is missing is made. The new place is remembered once a look found nothing in doubt.
//! It deliberately does not find out whether it is the same server under another address: what is in it says that.

use super::{
    Change, Reason, ScopePlan, Step, difference::Difference, guard_words::ANOTHER_PLACE, planner::Planner,
};
use crate::store::{Row, ScopeMemory};
use reconciled_provider::{Focus, Hash, Observer, Owner, Scope};

/// The place that the entry of a scope points to, where its provider says.
fn place_of(provider: &dyn Observer, scope: &Scope) -> Option<Hash> {
    provider.points_at(scope).map(|place| Hash::of(place.as_bytes()))
}

/// True where what is remembered of a scope was made in another place than its entry points to: no version of there counts here.
pub(crate) fn is_another(provider: &dyn Observer, scope: &Scope, memory: &ScopeMemory) -> bool {
    memory.place.is_some_and(|was| place_of(provider, scope).is_some_and(|now| now != was))
}

/// Marks what needs consent, since it may be somebody else's, and says whether the place is to be remembered.
pub(super) fn doubt(planner: &Planner<'_>, out: &mut ScopePlan) {
    let input = planner.input;
    let Some(now) = place_of(input.provider, input.scope) else { return };
    if input.memory.place == Some(now) || out.tracked == 0 && out.steps.is_empty() {
        return;
    }
    let mut is_settled = input.memory.place.is_none() || is_judged(planner);
    if input.memory.place.is_some() {
        for step in out.steps.iter_mut().filter(|step| may_be_anothers(step)) {
            step.guard_words.push(ANOTHER_PLACE);
            is_settled = false;
        }
    }
    out.place = is_settled.then_some(now);
}

/// True where all was seen, and of nothing that is tracked it is in doubt whose it is. Whatever keeps it from being written, such as a
/// suspension or a file with errors, says nothing of that.
fn is_judged(planner: &Planner<'_>) -> bool {
    let seen = &planner.input.seen;
    seen.complete
        && seen.covered == Focus::All
        && planner.input.selection.is_all()
        && planner.input.memory.rows.iter().all(|row| is_known(planner, row))
}

/// True for what is not there, is as it was left or as it is declared, or bears our mark.
fn is_known(planner: &Planner<'_>, row: &Row) -> bool {
    let Some(observed) = planner.seen.get(&row.tracked.id) else {
        // It may be there and not show yet.
        return planner.unseen_until(row).is_none();
    };
    let is_as_declared = || {
        let declared = planner.effective.get(&row.tracked.id);
        declared.is_some_and(|declared| {
            matches!(planner.difference(declared, observed), Difference::Same | Difference::Ignored)
        })
    };
    observed.owner == Owner::Ours || observed.hash == row.tracked.applied || is_as_declared()
}

/// True for what would be overwritten or deleted, is not as it was left, and is marked by nobody as ours. Who was asked whether it
/// is to be taken over knows what it is.
fn may_be_anothers(step: &Step) -> bool {
    let takes = matches!(step.change, Change::Update | Change::Replace | Change::Delete | Change::Continue);
    let (Some(was), Some(observed)) = (&step.work.was, &step.work.observed) else { return false };
    takes
        && step.reason != Reason::Adopt
        && observed.owner != Owner::Ours
        && observed.hash != was.tracked.applied
}
