//! Which writes to what is shared stay open, though what they wrote was seen.
//!
//! Guarantees: an intent that names a value of ours stays open until the inventory names it, or it is gone.

use super::{Change, ScopePlan, difference::Difference, planner::Planner, unanswered::is_shared_write};
use crate::store::OpenIntent;
use reconciled_provider::{ResourceId, Tracked};
use std::collections::BTreeSet;

/// Has intents stay open whose values the inventory does not have yet.
pub(super) fn stay_open(planner: &Planner<'_>, out: &mut ScopePlan) {
    let input = planner.input;
    let mut shared = input.memory.open.iter().filter(|open| is_shared_write(open)).peekable();
    if shared.peek().is_none() {
        return;
    }
    let adopted = out.steps.iter().filter(|step| step.change == Change::Adopt).map(|step| &step.id);
    let rows = out.refreshed.iter().chain(&out.lapsed).map(|row| &row.tracked.id);
    let noted: BTreeSet<&ResourceId> = adopted.chain(rows).collect();
    let is_kept = |open: &OpenIntent| {
        let Tracked { id, private, .. } = &open.intent.row.tracked;
        let Some(seen) = planner.seen.get(id) else { return true };
        let (desired, row) = (planner.effective.get(id), planner.row(id));
        let is_in_row = match (desired, row) {
            (Some(desired), row) => {
                let is_same = desired.spec.hash() == Some(seen.hash)
                    || matches!(planner.difference(desired, seen), Difference::Ignored);
                let ours = input.shared.ours.get(id);
                is_same && ours.is_none_or(|ours| row.is_some_and(|row| row.tracked.private == *ours))
            }
            (None, Some(row)) => row.tracked.private == *private,
            // A person let go of it.
            (None, None) => true,
        };
        is_in_row || noted.contains(id)
    };
    let open = shared.filter(|open| !is_kept(open)).map(|open| open.intent.action);
    out.unanswered.extend(open.collect::<Vec<_>>());
}
