//! What the inventory remembers of a unit: which files are ours, and with which ones it runs.

use reconciled_provider::{Sealed, Tracked};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What the inventory remembers of a unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// The file of the unit is ours.
    pub(crate) fragment: bool,
    /// Names of the drop-ins that are ours.
    pub(crate) drop_ins: BTreeSet<String>,
    /// What the files mean that it was last started with.
    pub(crate) effective: String,
    /// The same without what is taken over while it runs; empty where it is not known.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(crate) fixed: String,
    /// The run that was started with them.
    pub(crate) invocation: String,
    /// Marks of the files that this run has read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(crate) read: BTreeMap<String, String>,
    /// It was started, and was still coming up.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) is_starting: bool,
    /// systemd passed it over when it was last to be started.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) is_passed: bool,
    /// It was stopped so that its files could change, and is to be started after that.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) is_stopped: bool,
    /// How often in a row it ended before it was up.
    #[serde(skip_serializing_if = "is_none", default)]
    pub(crate) early: u32,
}

fn is_none(times: &u32) -> bool {
    *times == 0
}

impl Memory {
    pub(crate) fn seal(&self) -> Sealed {
        Sealed::new(serde_json::to_vec(self).unwrap_or_default())
    }
    pub(crate) fn open(tracked: Option<&Tracked>) -> Option<Memory> {
        serde_json::from_slice(&tracked?.private.0).ok()
    }
    /// True where nothing would be left of it: only settings of somebody else's unit.
    pub(crate) fn has_files(&self) -> bool {
        self.fragment || !self.drop_ins.is_empty()
    }
}
