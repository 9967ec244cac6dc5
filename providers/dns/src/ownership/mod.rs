//! Who owns a record, where TXT records say it: marks of ExternalDNS, of octoDNS, and ours where a backend has no
//! better place.
//!
//! Guarantees: a record with somebody else's mark is reported as theirs by every backend; a takeover removes their
//! mark together with the change that makes the record ours, so that whoever still runs lets go of it; our marks
//! come, stay and go with their records, and are never anybody's content; one whose record somebody else removed goes when the
//! planner deletes what remains of that.
//! Deliberately not done: marks on records that are adopted as they are, which a later change marks; repair of a mark
//! that somebody removed. The inventory says what is ours, and marks are for others and for the day it is lost.

mod after;
mod beside;
mod guess;
mod journal;
mod label;
mod marker;
mod marks;
mod naming;
mod options;
mod seal;

pub(crate) use after::MarkAfter;
pub(crate) use marker::Marker;
pub(crate) use marks::without_marks;
pub use naming::Naming;
pub use options::{Ownership, TxtMarks};
