//! What is left of a resource that is gone itself: our mark, where that stands beside what it is of.
//!
//! Guarantees: it is deleted once, by a step like any other, so that policy, suspension, selection and guard are heeded; what
//! somebody declares there, or is tracked, is another thing. A mark that stays gives away nothing that somebody else puts there.

use super::{Change, ScopePlan, Step, exclusive, planner::Planner, step_for};
use crate::store::Row;
use reconciled_provider::{EntryPolicy, Observed};

/// Deletes what is left of `row`, which goes with that. False where nothing is left that may be deleted, or that is deleted
/// already: one mark may have been that of several.
pub(super) fn delete(planner: &Planner<'_>, row: &Row, out: &mut ScopePlan) -> bool {
    let Some(mark) = left_of(planner, row) else { return false };
    let deletes = |step: &Step| step.work.observed.as_ref().is_some_and(|observed| observed.id == mark.id);
    if out.steps.iter().any(deletes) {
        return false;
    }
    let found = step_for::row(planner, Change::Delete, row, Some(mark));
    out.conditions.extend(planner.refusal(&found.id, found.declared()).cloned());
    out.steps.push(found);
    true
}

/// Remembers that `row` was let go of, where our mark may stay: it is no word of ours from then on.
pub(super) fn let_go(planner: &Planner<'_>, row: &Row, out: &mut ScopePlan) {
    let input = planner.input;
    // What comes where all is deleted that nobody declares goes, whatever it bears.
    if !exclusive::takes_all(input) && input.provider.leaves_mark(input.scope, &row.tracked.id, input.seen) {
        out.let_go.push(row.tracked.id.clone());
    }
}

fn left_of<'p>(planner: &Planner<'p>, row: &Row) -> Option<&'p Observed> {
    let input = planner.input;
    let mark = input.provider.remains(input.scope, &row.tracked.id, input.seen)?;
    let is_free = !planner.is_desired(&mark.id) && planner.row(&mark.id).is_none();
    let may_go = input.policy >= EntryPolicy::Sync && row.writes >= EntryPolicy::UpsertOnly;
    (is_free && may_go).then_some(mark)
}
