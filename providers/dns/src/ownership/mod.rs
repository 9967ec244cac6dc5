//! Who owns a record, where TXT records say it: marks of ExternalDNS, of octoDNS, and ours where a backend has no
//! better place.
//!
//! Guarantees: a record with somebody else's mark is reported as theirs by every backend; a takeover removes their
//! mark together with the change that makes the record ours, so that whoever still runs lets go of it; our marks
//! come, stay and go with their records, and are never anybody's content.
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

use reconciled_provider::{Origin, Resource, SecretRef};
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

/// Where actions on TXT RRsets that hold marks say they come from.
const BESIDE: Origin = Origin { manifest: u32::MAX, line: u32::MAX };

/// True for a RRset that is written because a mark in it comes or goes: what else is in it stays whose it is.
pub(crate) fn is_beside(resource: &Resource) -> bool {
    resource.origin == BESIDE
}
