//! What every DNS entry may say, whatever its backend.

use crate::{ownership::Ownership, served::Verify};
use std::time::Duration;

/// What every DNS entry may say, besides what only its backend understands.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose records are, where TXT records say it.
    pub ownership: Ownership,
    /// Whether name servers are asked if they serve what was written.
    pub verify: Option<Verify>,
    /// How long one call, answer or command may take in all.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { ownership: Ownership::default(), verify: None, timeout: Duration::from_secs(30) }
    }
}

impl Options {
    /// The same for `instance`.
    pub(crate) fn of(&self, instance: &str) -> Options {
        Options { ownership: self.ownership.of(instance), ..self.clone() }
    }
}
