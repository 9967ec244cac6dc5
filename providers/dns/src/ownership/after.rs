//! Marks where a backend has a place for them on an RRset itself: what becomes of one when the set is written.

use super::beside::{is_beside, takes_over};
use crate::{batch, merge};
use reconciled_provider::{Action, Owner};

/// What becomes of the mark on an RRset, where a backend has a place for it there, when an action writes the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkAfter {
    /// Ours stands there.
    Ours,
    /// What was seen stands there still, and nothing more: what is shared with another owner stays under the other's mark. With
    /// ours beside it, each of the two would keep the other from writing.
    AsSeen,
    /// Ours goes, those of others stay.
    NotOurs,
}

impl MarkAfter {
    /// What `action` makes of it.
    pub(crate) fn of(action: &Action) -> MarkAfter {
        if action.op.desired().is_some_and(is_beside) {
            return MarkAfter::AsSeen;
        }
        if merge::is_left(action) {
            return MarkAfter::NotOurs;
        }
        let is_others = batch::observed(action).is_some_and(|seen| matches!(seen.owner, Owner::Other(_)));
        if is_others && !takes_over(&action.op) { MarkAfter::AsSeen } else { MarkAfter::Ours }
    }
}
