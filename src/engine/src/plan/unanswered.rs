//! Writes without an answer to what is shared: which of the values that are there they may have made ours.
//!
//! Guarantees: pure; a value of ours is not taken for one of others because somebody wrote beside it before the answer was
//! looked for; an intent that names one stays open until the inventory names it, or it is gone. It deliberately says nothing
//! of what has one author.

use super::{Change, Planner, ScopePlan, difference::Difference};
use crate::store::OpenIntent;
use reconciled_provider::{Error, Observed, Observer, ResourceId, Tracked};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// What intents without an outcome may have written of shared resources, by id.
pub(crate) type Written<'a> = BTreeMap<&'a ResourceId, Vec<&'a Tracked>>;

/// What `open` may have written of shared resources.
pub(crate) fn written(open: &[OpenIntent]) -> Written<'_> {
    let mut written: Written<'_> = BTreeMap::new();
    for open in open.iter().filter(|open| is_shared_write(open)) {
        let tracked = &open.intent.row.tracked;
        written.entry(&tracked.id).or_default().push(tracked);
    }
    written
}

fn is_shared_write(open: &OpenIntent) -> bool {
    open.intent.row.merge && &*open.intent.op != "delete"
}

/// What was seen without what of it `written` made ours; none when nothing else is there.
///
/// Errors: the provider's, where it cannot tell them apart.
pub(crate) fn without<'o>(
    provider: &dyn Observer,
    written: &Written<'_>,
    seen: &'o Observed,
) -> Result<Option<Cow<'o, Observed>>, Error> {
    let mut left = Cow::Borrowed(seen);
    for tracked in written.get(&seen.id).into_iter().flatten() {
        let Some(merged) = provider.merge(&[], Some(&left), Some(tracked), &[])? else { return Ok(None) };
        let Some(bytes) = merged.resource.spec.bytes() else { continue };
        let Observed { bytes, hash, .. } = Observed::new(seen.id.clone(), bytes.to_vec());
        left = Cow::Owned(Observed { bytes, hash, ..seen.clone() });
    }
    Ok(Some(left))
}

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
