//! Rows for what an unanswered intent made.
//!
//! Guarantees: only what was found as intended, or carries our mark, becomes ours; of what is shared and not wanted any more,
//! only the values that the intent names, whatever stands beside them. It deliberately repeats no intent: the journal is
//! evidence, never a work list.

use crate::store::{Consent, Row, RowState, ScopeMemory};
use reconciled_provider::{Observation, Owner, ResourceId};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Adds rows for resources that an unanswered intent made: found as intended, they are ours, unless a person
/// said `forget` since. What is shared and `is_wanted` is compared by its values instead.
pub(super) fn recover(
    memory: &mut ScopeMemory,
    seen: &Observation,
    is_wanted: impl Fn(&ResourceId) -> bool,
    now: Duration,
) -> bool {
    let mut found = Vec::new();
    let left = memory.consents.iter().filter(|(_, word)| matches!(word, Consent::Barred | Consent::LetGo));
    let left: BTreeSet<&ResourceId> = left.map(|(id, _)| id).collect();
    for open in &memory.open {
        let row = &open.intent.row;
        let known = memory.rows.binary_search_by(|r| r.tracked.id.cmp(&row.tracked.id)).is_ok();
        let Some(observed) = seen.get(&row.tracked.id) else { continue };
        let is_left = || row.merge && !is_wanted(&row.tracked.id);
        let ours = open.intent.after == Some(observed.hash) || observed.owner == Owner::Ours || is_left();
        let forgotten = left.contains(&row.tracked.id);
        let stays = &*open.intent.op != "delete" && !open.intent.leaves();
        if !known && ours && !forgotten && stays {
            let mut row = Row::clone(row);
            row.tracked.applied = observed.hash;
            row.tracked.remote = observed.remote.clone();
            if !row.merge {
                row.tracked.private = observed.private.clone();
            }
            row.state = RowState::Applied;
            row.written_at = now;
            found.push(row);
        }
    }
    if found.is_empty() {
        return false;
    }
    let rows = Arc::make_mut(&mut memory.rows);
    rows.extend(found);
    rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
    rows.dedup_by(|a, b| a.tracked.id == b.tracked.id);
    true
}
