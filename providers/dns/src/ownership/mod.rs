//! Who owns a record, where TXT records say it: marks of ExternalDNS, of octoDNS, and ours where a backend has no
//! better place.
//!
//! Guarantees: a record with somebody else's mark is reported as theirs by every backend; a takeover removes their
//! mark together with the change that makes the record ours, so that whoever still runs lets go of it; our marks
//! come, stay and go with their records, and are never anybody's content; one whose record somebody else removed goes when the
//! planner deletes what remains of that.
//! Deliberately not done: marks on records that are adopted as they are, which a later change marks; repair of a mark
//! that somebody removed. The inventory says what is ours, and marks are for others and for the day it is lost.

mod beside;
mod guess;
mod journal;
mod label;
mod marker;
mod marks;
mod naming;
mod seal;

pub(crate) use marker::Marker;
pub use naming::Naming;

use crate::{batch, merge};
use reconciled_provider::{Action, Observed, Origin, Owner, Resource, SecretRef};
use std::sync::Arc;

/// Field of a delta by which the planner says that a record changes its owner.
pub(crate) use reconciled_provider::OWNER_FIELD as OWNER;

/// How marks are named and sealed.
#[derive(Clone, Debug)]
pub struct TxtMarks {
    /// How they are named.
    pub naming: Naming,
    /// Where the key is that seals them; none for marks in clear.
    pub key: Option<SecretRef>,
}

/// What an entry knows of marks in TXT records.
#[derive(Clone, Debug, Default)]
pub struct Ownership {
    /// The instance that ours name.
    pub instance: Arc<str>,
    /// How ours are written; none: no TXT records of ours.
    pub marks: Option<TxtMarks>,
    /// How those of an ExternalDNS in these zones are written; none: that is found out.
    pub external_dns: Option<TxtMarks>,
}

impl Ownership {
    /// The same for `instance`.
    pub(crate) fn of(&self, instance: &str) -> Ownership {
        Ownership { instance: instance.into(), ..self.clone() }
    }
}

/// Says of `resources`, which are a zone in a file and sorted by id, whose the marks among them say that they are, and leaves out what
/// is nothing but marks: a manifest that declared them would keep what a takeover removes. How they are named and sealed nobody said.
/// Returns how many it leaves out of which no record tells, since theirs is not there.
pub(crate) fn without_marks(resources: &mut Vec<Observed>) -> usize {
    // No instance is called so: none of them is ours.
    let reader = marks::Reader { instance: "\0", own: None, foreign: None, keys: Vec::new() };
    let marks = reader.read(resources);
    marks.assign(resources);
    resources.retain(|observed| !marks.are_all_of(&observed.id));
    marks.count_of_nothing()
}

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
        if is_others && !beside::takes_over(&action.op) { MarkAfter::AsSeen } else { MarkAfter::Ours }
    }
}

/// Where actions on TXT RRsets that hold marks say they come from.
const BESIDE: Origin = Origin { manifest: u32::MAX, line: u32::MAX };

/// True for a RRset that is written because a mark in it comes or goes: what else is in it stays whose it is.
fn is_beside(resource: &Resource) -> bool {
    resource.origin == BESIDE
}
