//! Zones that are declared, and of which nothing is made here: they are for other hosts, for entries that are not configured
//! here, or in error. What goes into them goes with them.

use super::inherited::declared;
use crate::{kind::ZONE, name::Name, record};
use reconciled_provider::{Inputs, Manifest, ManifestKey, Scope};

/// Who declares `zone` where nothing is made of it, with the scope that it would be here.
pub(super) fn of_zone(
    manifest: &Manifest,
    inputs: &dyn Inputs,
    scope: &Scope,
    zone: &Name,
) -> Vec<(Scope, ManifestKey)> {
    // Who names this entry means the zone as it is there.
    let is_meant = |other: &Manifest| match manifest.providers {
        Some(_) => other.providers.is_none() || other.is_for(inputs.entry(), false),
        None => true,
    };
    let of_zone = |other: &&Manifest| is_meant(other) && declared(other).is_some_and(|name| name == *zone);
    let declaring = inputs.absent(ZONE).into_iter().filter(of_zone);
    declaring.map(|other| (scope.clone(), other.key.clone())).collect()
}

/// All of them that `manifest` may mean.
pub(super) struct AbsentZones(Vec<Absent>);

struct Absent {
    zone: Name,
    key: ManifestKey,
    /// Its source is that of the manifest.
    is_own: bool,
}

impl Absent {
    fn length(&self) -> usize {
        self.zone.without_dot().len()
    }
}

impl AbsentZones {
    pub(super) fn of(manifest: &Manifest, inputs: &dyn Inputs) -> AbsentZones {
        let is_meant = |other: &&Manifest| match (&manifest.providers, &other.providers) {
            (Some(meant), Some(names)) => names.iter().any(|name| meant.contains(name)),
            _ => true,
        };
        let absent = |other: &Manifest| {
            let is_own = other.key.source() == manifest.key.source();
            Some(Absent { zone: declared(other)?, key: other.key.clone(), is_own })
        };
        AbsentZones(inputs.absent(ZONE).into_iter().filter(is_meant).filter_map(absent).collect())
    }

    /// The longest that hold `name`, if they are longer than the one of this host, with the scope that each would be at `entry`. Another
    /// source takes nothing out of a zone of this host by one that it only says to have elsewhere.
    pub(super) fn holding(&self, name: &Name, here: Option<usize>, entry: &str) -> Vec<(Scope, ManifestKey)> {
        let holds = |absent: &&Absent| {
            Some(absent.length()) > here && (absent.is_own || here.is_none()) && name.is_within(&absent.zone)
        };
        let longest = self.0.iter().filter(holds).map(Absent::length).max();
        let of_longest = self.0.iter().filter(holds).filter(|absent| Some(absent.length()) == longest);
        of_longest.map(|absent| (record::scope(entry, &absent.zone), absent.key.clone())).collect()
    }
}
