//! Files of other programs → what a remote that holds the same would be seen to have.
//!
//! From there [`mod@crate::export`] writes manifests, as for a remote. What cannot be taken over is told with its place,
//! never passed over in silence; nothing is guessed. Marks of who owns a record, which are in what such a program wrote out of a
//! zone, are no records: they say whose those are.

mod master;
mod octodns;

pub use master::master;
pub use octodns::octodns;

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
struct Collector {
    scope: Scope,
    sets: BTreeMap<ResourceId, Vec<u8>>,
    left_out: Vec<Problem>,
    has_outside: bool,
}

impl Collector {
    fn new(zone: &Name) -> Collector {
        let scope = record::scope("", zone);
        let sets = BTreeMap::from([(record::zone_id(&scope), record::ZONE.to_vec())]);
        Collector { scope, sets, left_out: Vec::new(), has_outside: false }
    }
    fn finish(self) -> Taken {
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
