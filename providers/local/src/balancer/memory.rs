//! What the inventory remembers of a balancer, and what a look hands to the change that follows it.

use super::render::with_marked;
use reconciled_provider::{Cx, Sealed, Tracked};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Marks are keyed: a file that not everyone may read is not given away by them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Memory {
    /// The mark of the file, with nobody marked in it, that the unit was last told to read. None: of none yet.
    pub(super) read: Option<String>,
    /// The mark of the file that was seen, with nobody marked in it.
    #[serde(default)]
    pub(super) seen: Option<String>,
    /// Units that it named before, and until when they get their answers out: milliseconds since the epoch. Written down before
    /// the file is.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(super) left: BTreeMap<String, u64>,
    /// Units that were seen marked and that no rolling update accounts for.
    #[serde(default)]
    pub(super) strays: BTreeSet<String>,
}

impl Memory {
    /// None where nothing is remembered, as of versions that knew of no reload that is still to come.
    pub(super) fn open(sealed: &Sealed) -> Option<Memory> {
        serde_json::from_slice(&sealed.0).ok()
    }
    pub(super) fn seal(&self) -> Sealed {
        Sealed::new(serde_json::to_vec(self).unwrap_or_default())
    }
}

/// Units that a balancer named before, and until when they get their answers out: milliseconds since the epoch.
pub(crate) fn left(tracked: &Tracked) -> BTreeMap<String, u64> {
    Memory::open(&tracked.private).map(|memory| memory.left).unwrap_or_default()
}

/// The mark of a configuration, whoever is marked in it.
pub(super) fn mark(cx: &Cx, text: &str) -> String {
    let plain = with_marked(text, |_| true, &BTreeSet::new());
    cx.secrets.mark(plain.as_bytes()).0.to_string()
}
