//! An entry of the drift ledger, as it is put down and told.
//!
//! Guarantees: values are cut, since a ledger is no copy of files, and none is a secret. It deliberately finds nothing out: that is
//! [`crate::drift`].

use reconciled_provider::{ActionId, Address, Drift, FieldChange, ManifestKey, ResourceId, Scope, Shown};
use std::{sync::Arc, time::Duration};

/// An open entry of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Drifted {
    /// Where.
    pub scope: Scope,
    /// What.
    pub id: ResourceId,
    /// Address for people.
    pub address: Address,
    /// The manifest that declares it.
    pub manifest: ManifestKey,
    /// What shall happen: it is healed, or only reported.
    pub mode: Drift,
    /// When it was first seen, since the epoch.
    pub first_seen: Duration,
    /// It is gone from the remote.
    pub missing: bool,
    /// The fields that differ, as last seen.
    pub fields: Vec<DriftField>,
    /// The last write that may have healed it.
    pub action: Option<ActionId>,
}

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftField {
    /// Its path.
    pub path: Arc<str>,
    /// What the remote has; none when it is not there.
    pub remote: Option<Arc<str>>,
    /// What is declared; none when it shall not be there.
    pub declared: Option<Arc<str>>,
}

impl From<&FieldChange> for DriftField {
    fn from(field: &FieldChange) -> DriftField {
        let side = |shown: &Shown| match shown {
            Shown::Text(text) => Some(cut(text)),
            Shown::Sensitive => Some("(sensitive)".into()),
            Shown::Unknown => Some("(known after apply)".into()),
            Shown::Absent => None,
        };
        DriftField { path: field.path.clone(), remote: side(&field.before), declared: side(&field.after) }
    }
}

/// Characters of a value that are kept: a ledger is no copy of files.
const LONGEST: usize = 200;

fn cut(text: &str) -> Arc<str> {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// What became of a drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriftEnd {
    /// This instance wrote it as declared, and saw it so.
    Healed,
    /// Somebody else put it back, or what is declared is something else now.
    Gone,
    /// The manifest or source says `drift: ignore` now, or to ignore what differs.
    Ignored,
}

impl DriftEnd {
    /// The word for tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            DriftEnd::Healed => "healed",
            DriftEnd::Gone => "gone",
            DriftEnd::Ignored => "ignored",
        }
    }
}
