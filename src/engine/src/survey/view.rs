//! What a survey found: a view of each scope, and the guard's word on each domain.

use super::Domain;
use crate::{health::Assessment, plan::ScopePlan, store::ScopeMemory};
use reconciled_provider::{Deltas, Error, Hash, ManifestKey, Observation, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What was found in one scope, and the plan for it.
#[derive(Clone, Debug)]
pub struct View {
    /// What is remembered, with recovered rows.
    pub memory: ScopeMemory,
    /// What was seen.
    pub seen: Arc<Observation>,
    /// The plan.
    pub plan: ScopePlan,
    /// How what a person may take over would be changed by that, or why it cannot be.
    pub offered: Deltas,
    /// The version stood and nothing was asked of the scope itself.
    pub skipped: bool,
    /// How its resources fare.
    pub health: Assessment,
    /// The manifests that declare something here, if all of it was looked at and not all was as remembered.
    pub looked_at: BTreeSet<ManifestKey>,
}

/// What a survey found.
#[derive(Debug, Default)]
pub struct Survey {
    /// Each scope's view, or why there is none.
    pub scopes: BTreeMap<Scope, Result<View, Error>>,
    /// Each guard domain.
    pub domains: BTreeMap<Arc<str>, Domain>,
    /// Remembered scopes whose entry is not configured here: left alone.
    pub unassigned: Vec<(Scope, usize)>,
    /// Guard domains of which not all could be read, or is frozen: what one is held for may be there.
    pub unread: BTreeSet<Arc<str>>,
    /// Guard domains of which not all that the guard counts was asked for: the same.
    pub in_part: BTreeSet<Arc<str>>,
    /// Scopes that nobody declares anything in any more and in which nothing is tracked: what kept something from being done
    /// there is over, and nobody need look.
    pub over: Vec<Scope>,
    /// Entries whose scopes are run apart and were judged together here, and the desired state that this was about.
    pub judged: BTreeMap<Arc<str>, Hash>,
}

impl Survey {
    /// True where all of a guard domain was looked at: what is not held by its word is held no more.
    pub(crate) fn is_whole(&self, domain: &str) -> bool {
        !self.unread.contains(domain) && !self.in_part.contains(domain)
    }
    /// The domain a scope belongs to.
    pub fn domain_of(&self, scope: &Scope) -> Option<&Domain> {
        self.domains.get(&*scope.to_string()).or_else(|| self.domains.get(&scope.provider))
    }
}
