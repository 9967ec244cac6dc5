//! The keys `backup` and `audit`: what the daemon keeps, where, and for how long.

use super::values::Period;
use serde::Deserialize;
use std::{path::PathBuf, time::Duration};

/// Copies of the state, made by the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backups {
    /// Where they are.
    pub dir: PathBuf,
    /// How often one is made.
    pub every: Duration,
    /// How many are kept, the newest ones.
    pub keep: usize,
}

/// What becomes of the audit trail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// How long events stay in the state; for ever without.
    pub keep: Option<Duration>,
    /// A file that every event is appended to.
    pub export: Option<PathBuf>,
}

#[derive(Deserialize)]
pub(super) struct RawBackup {
    dir: String,
    every: Option<Period>,
    keep: Option<u32>,
}

#[derive(Deserialize)]
pub(super) struct RawAudit {
    keep: Option<Period>,
    export: Option<String>,
}

/// Shorter than this would be a load, not a precaution.
const SHORTEST: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

impl From<RawBackup> for Backups {
    fn from(raw: RawBackup) -> Backups {
        Backups {
            dir: raw.dir.into(),
            every: raw.every.map_or(DAY, |period| period.0.max(SHORTEST)),
            keep: raw.keep.map_or(7, |keep| keep.max(1) as usize),
        }
    }
}

impl From<RawAudit> for Audit {
    fn from(raw: RawAudit) -> Audit {
        Audit { keep: raw.keep.map(|period| period.0), export: raw.export.map(PathBuf::from) }
    }
}
