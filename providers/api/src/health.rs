//! How resources fare, apart from whether they are as declared.

use crate::name::ResourceId;
use std::{sync::Arc, time::Duration};

/// How a resource fares, apart from whether it is in sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Does its work.
    Healthy,
    /// On its way.
    Progressing {
        /// What is being waited for.
        why: String,
        /// When to look again.
        recheck: Duration,
    },
    /// Does not do its work. It is looked at again by itself, ever more seldom.
    Degraded {
        /// What is wrong.
        why: String,
    },
    /// Switched off on purpose.
    Suspended,
    /// Not there.
    Missing,
    /// The remote cannot tell.
    Unknown,
}

impl Health {
    /// True when dependants may go on: neither on its way nor broken.
    pub fn is_ready(&self) -> bool {
        !matches!(self, Health::Progressing { .. } | Health::Degraded { .. } | Health::Missing)
    }
}

/// A resource that did not do its work when it was last looked at, by this process or one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwell {
    /// Remote key.
    pub id: ResourceId,
    /// `Degraded`; else it was on its way, or was written and not looked at since.
    pub is_degraded: bool,
    /// What [`Health`] said; empty where nothing was said yet.
    pub why: Arc<str>,
    /// Since when, since the epoch.
    pub since: Duration,
}
