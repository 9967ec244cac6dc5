//! How much one revision may change before a person is asked.

use super::values::Percent;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Something that is held no matter how little of it there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Always {
    /// Deleting what nobody declared.
    ForeignDelete,
    /// Deleting a whole zone.
    ZoneDelete,
    /// Changing the NS records of a zone's apex.
    ApexNs,
    /// Deleting what is protected.
    Protected,
    /// Deleting because a host selector stopped matching.
    HostUnselected,
}

impl Always {
    /// The word as it is written.
    pub fn word(self) -> &'static str {
        match self {
            Always::ForeignDelete => "foreign-delete",
            Always::ZoneDelete => "zone-delete",
            Always::ApexNs => "apex-ns",
            Always::Protected => "protected",
            Always::HostUnselected => "host-unselected",
        }
    }
}

/// The limits of one guard domain. Held when *either* limit of a pair is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardLimits {
    /// Most deletes.
    pub max_deletes: u32,
    /// Most deletes, as a share of what is tracked.
    pub max_delete_percent: u8,
    /// Most updates.
    pub max_updates: u32,
    /// Most updates, as a share of what is tracked.
    pub max_update_percent: u8,
    /// What is always held.
    pub always: BTreeSet<Always>,
}

impl Default for GuardLimits {
    fn default() -> GuardLimits {
        use Always::{ApexNs, ForeignDelete, HostUnselected, Protected, ZoneDelete};
        GuardLimits {
            max_deletes: 5,
            max_delete_percent: 20,
            max_updates: 20,
            max_update_percent: 30,
            always: [ForeignDelete, ZoneDelete, ApexNs, Protected, HostUnselected].into(),
        }
    }
}

/// `guard:` as written: what is left out comes from the level above.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawGuard {
    max_deletes: Option<u32>,
    max_delete_percent: Option<Percent>,
    max_updates: Option<u32>,
    max_update_percent: Option<Percent>,
    always: Option<Vec<Always>>,
}

impl RawGuard {
    pub(super) fn over(&self, base: &GuardLimits) -> GuardLimits {
        GuardLimits {
            max_deletes: self.max_deletes.unwrap_or(base.max_deletes),
            max_delete_percent: self.max_delete_percent.map_or(base.max_delete_percent, |p| p.0),
            max_updates: self.max_updates.unwrap_or(base.max_updates),
            max_update_percent: self.max_update_percent.map_or(base.max_update_percent, |p| p.0),
            always: self.always.as_ref().map_or_else(|| base.always.clone(), |a| a.iter().copied().collect()),
        }
    }
}
