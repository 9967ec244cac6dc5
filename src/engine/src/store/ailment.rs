//! What is not healthy, as it is put down and told, in the words and the order of Argo CD.
//!
//! It deliberately finds nothing out: that is [`crate::health`].

use reconciled_provider::{Health, ResourceId};
use std::{sync::Arc, time::Duration};

/// A word for health, from best to worst: of many, the worst counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthState {
    /// Does its work, as far as is known.
    #[default]
    Healthy,
    /// Switched off on purpose.
    Suspended,
    /// On its way.
    Progressing,
    /// Declared and not there.
    Missing,
    /// Does not do its work, or cannot be brought about.
    Degraded,
    /// Cannot be told.
    Unknown,
}

impl HealthState {
    /// All of them, from best to worst.
    pub const ALL: [HealthState; 6] = [
        HealthState::Healthy,
        HealthState::Suspended,
        HealthState::Progressing,
        HealthState::Missing,
        HealthState::Degraded,
        HealthState::Unknown,
    ];

    /// The word, as Argo CD writes it.
    pub fn word(self) -> &'static str {
        match self {
            HealthState::Healthy => "Healthy",
            HealthState::Suspended => "Suspended",
            HealthState::Progressing => "Progressing",
            HealthState::Missing => "Missing",
            HealthState::Degraded => "Degraded",
            HealthState::Unknown => "Unknown",
        }
    }

    /// The state of a word.
    pub fn of_word(word: &str) -> Option<HealthState> {
        HealthState::ALL.into_iter().find(|state| state.word() == word)
    }

    /// True when dependants may go on; see [`Health::is_ready`].
    pub fn is_ready(self) -> bool {
        !matches!(self, HealthState::Progressing | HealthState::Degraded | HealthState::Missing)
    }
}

impl From<&Health> for HealthState {
    fn from(health: &Health) -> HealthState {
        match health {
            Health::Healthy => HealthState::Healthy,
            Health::Suspended => HealthState::Suspended,
            Health::Progressing { .. } => HealthState::Progressing,
            Health::Missing => HealthState::Missing,
            Health::Degraded { .. } => HealthState::Degraded,
            Health::Unknown => HealthState::Unknown,
        }
    }
}

/// What is not healthy: a resource, or a scope as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Ailment {
    /// The resource, or none for the scope as a whole.
    pub id: Option<ResourceId>,
    /// How it fares; never healthy.
    pub state: HealthState,
    /// Why.
    pub message: Arc<str>,
    /// Since when, since the epoch; kept while the state stays the same.
    pub since: Duration,
}

/// Said of what is gone from the remote, where a manifest or source says to ignore that.
pub(crate) const LEFT_OUT: &str = "it is gone from the remote, and that is ignored";

impl Ailment {
    /// It is gone, and that is ignored: nothing waits for it.
    pub fn is_left_out(&self) -> bool {
        self.state == HealthState::Missing && &*self.message == LEFT_OUT
    }
}
