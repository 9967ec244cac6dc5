//! What is taken over of a file, and what of it is not.

use crate::{name::Name, ownership, record};
use reconciled_provider::{Found, Observed, Problem, ResourceId, Scope};
use std::collections::BTreeMap;

/// What a file holds, and what of it is not taken over.
#[derive(Debug)]
pub struct Taken {
    /// The zone and its RRsets, in canonical form; the entry of the scope is empty.
    pub found: Found,
    /// What is left out, with the reason.
    pub left_out: Vec<Problem>,
    /// Names are left out that are none of the zone: the file may be of another.
    pub has_outside: bool,
}

/// Collects the RRsets of one zone.
pub(super) struct Collector {
    pub(super) scope: Scope,
    pub(super) sets: BTreeMap<ResourceId, Vec<u8>>,
    pub(super) left_out: Vec<Problem>,
    pub(super) has_outside: bool,
}

impl Collector {
    pub(super) fn new(zone: &Name) -> Collector {
        let scope = record::scope("", zone);
        let sets = BTreeMap::from([(record::zone_id(&scope), record::ZONE.to_vec())]);
        Collector { scope, sets, left_out: Vec::new(), has_outside: false }
    }
    pub(super) fn finish(self) -> Taken {
        let Collector { scope, sets, mut left_out, has_outside } = self;
        let sets = sets.into_iter();
        let mut resources: Vec<Observed> = sets.map(|(id, bytes)| Observed::new(id, bytes)).collect();
        let of_nothing = ownership::without_marks(&mut resources);
        if of_nothing > 0 {
            let message =
                format!("{of_nothing} ownership marks are left out: what they are of is not in the file");
            left_out.push(Problem::warning(message));
        }
        let found = Found::new(scope, resources);
        Taken { found, left_out, has_outside }
    }
}
