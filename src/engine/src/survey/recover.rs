//! Rows for what an unanswered intent did.
//!
//! Guarantees: only what was found as intended, or carries our mark, becomes ours; of what is shared and not wanted any more,
//! only the values that the intent names, whatever stands beside them. What was changed or deleted as intended is no drift: the
//! row says so before anything is compared with it. It deliberately repeats no intent: the journal is evidence, never a work
//! list.

use crate::store::{Consent, OpenIntent, Row, RowState, ScopeMemory};
use reconciled_provider::{Hash, Observation, Owner, ResourceId, Tracked};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Has the rows say what unanswered intents did: what they made and is found as intended is ours, unless a person said
/// `forget` since; what they changed is as they left it; what they deleted is gone. What is shared and not wanted any more, as
/// `is_wanted` says, is compared by its values instead.
pub(super) fn recover(
    memory: &mut ScopeMemory,
    seen: &Observation,
    is_wanted: impl Fn(&ResourceId) -> bool,
    now: Duration,
) -> bool {
    let mut found = Vec::new();
    let mut gone = BTreeSet::new();
    let left = memory.consents.iter().filter(|(_, word)| matches!(word, Consent::Barred | Consent::LetGo));
    let left: BTreeSet<&ResourceId> = left.map(|(id, _)| id).collect();
    // The latest of several is what was meant last.
    for open in memory.open.iter().rev() {
        let row = &open.intent.row;
        let id = &row.tracked.id;
        let known = memory.rows.binary_search_by(|r| r.tracked.id.cmp(id)).ok().map(|at| &memory.rows[at]);
        let Some(observed) = seen.get(id) else {
            // What is wanted no more goes in the ordinary way.
            let is_deleted = is_wanted(id) && known.is_some_and(|known| is_deleted(open, known));
            if is_deleted && seen.complete && seen.covered.covers(id) {
                gone.insert(id.clone());
            }
            continue;
        };
        let is_as_intended = open.intent.after == Some(observed.hash);
        let ours = match known {
            Some(known) => is_as_intended && is_changed(open, known),
            None => {
                let is_left = row.merge && !is_wanted(id);
                is_as_intended || observed.owner == Owner::Ours || is_left
            }
        };
        let stays = &*open.intent.op != "delete" && !open.intent.leaves();
        if ours && !left.contains(id) && stays {
            // What still bears a mark of somebody else was not taken over as a whole.
            let is_half = known.is_none() && matches!(observed.owner, Owner::Other(_));
            let applied = if is_half { Hash::default() } else { observed.hash };
            let private = if row.merge { row.tracked.private.clone() } else { observed.private.clone() };
            let tracked =
                Tracked { applied, private, remote: observed.remote.clone(), ..row.tracked.clone() };
            let mut row = Row { state: RowState::Applied, written_at: now, ..Row::clone(row) };
            row.track(tracked);
            found.push(row);
        }
    }
    if found.is_empty() && gone.is_empty() {
        return false;
    }
    let rows = Arc::make_mut(&mut memory.rows);
    let replaced: BTreeSet<&ResourceId> = found.iter().map(|row| &row.tracked.id).collect();
    rows.retain(|row| !replaced.contains(&row.tracked.id) && !gone.contains(&row.tracked.id));
    rows.extend(found);
    rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
    rows.dedup_by(|a, b| a.tracked.id == b.tracked.id);
    true
}

/// True where an intent would change what this row says was applied. What is shared says by its values what of it is ours,
/// what replaces another has two things under one key, and what is on its way is gone on with.
fn is_changed(open: &OpenIntent, known: &Row) -> bool {
    matches!(&*open.intent.op, "create" | "update")
        && matches!(known.state, RowState::Settled | RowState::Applied)
        && !known.merge
        && !open.intent.row.merge
        && known.tracked.applied != open.intent.row.tracked.applied
}

/// True where an intent would delete what this row is of, whole: of a replacement the row is the successor's.
fn is_deleted(open: &OpenIntent, known: &Row) -> bool {
    &*open.intent.op == "delete"
        && open.intent.after.is_none()
        && !known.merge
        && known.tracked.applied == open.intent.row.tracked.applied
        && known.tracked.remote == open.intent.row.tracked.remote
}
