//! Files of other programs → what a remote that holds the same would be seen to have.
//!
//! From there [`mod@crate::export`] writes manifests, as for a remote. What cannot be taken over is told with its place,
//! never passed over in silence; nothing is guessed.

mod master;
mod octodns;

pub use master::master;
pub use octodns::octodns;

use crate::{name::Name, record};
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
        let resources = self.sets.into_iter().map(|(id, bytes)| Observed::new(id, bytes)).collect();
        let found = Found::new(self.scope, resources);
        Taken { found, left_out: self.left_out, has_outside: self.has_outside }
    }
}
