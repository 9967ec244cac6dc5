//! What nobody looks after at the moment, and why: it is neither in sync nor healthy, whatever was known of it last.
//!
//! Guarantees: pure.

use crate::{
    config::Config,
    session::source_of,
    store::{ConditionEntry, Stamp, Status},
};
use reconciled_engine::plan::CLAIMS;
use std::collections::{BTreeMap, BTreeSet};

/// Reason of what is tracked for an entry or a source that is not configured.
pub const UNASSIGNED: &str = "Unassigned";
/// Reason of a source that was not had since the state was restored, and of what it declares.
pub const RESTORED: &str = "Restored";
/// Reason of what could not be looked at.
pub(super) const UNSEEN_SCOPE: &str = "Unseen";

/// Why one is not looked after.
pub(super) struct Why {
    /// One word for machines.
    pub(super) reason: &'static str,
    /// One line for people.
    pub(super) message: String,
    /// Since when, where that is known.
    pub(super) since: Option<Stamp>,
}

/// What is not looked after. Nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Aside {
    /// Names of configured entries and of sources, also those that they had before.
    configured: Option<[BTreeSet<String>; 2]>,
    restored: BTreeMap<String, Stamp>,
    unwritten: BTreeMap<String, (String, Stamp)>,
}

impl Aside {
    /// What `config` does not name, and scopes that `unwritten` is said of: what their last passes came to could not be
    /// written down.
    pub fn of(config: &Config, unwritten: &[ConditionEntry]) -> Aside {
        let entries = config.providers.iter().flat_map(|entry| [Some(&entry.name), entry.was.as_ref()]);
        let sources = config.sources.iter().flat_map(|source| [Some(&source.name), source.was.as_ref()]);
        let configured = [
            entries.flatten().map(|name| name.to_string()).collect(),
            sources.flatten().map(|name| name.to_string()).collect(),
        ];
        let unwritten = unwritten.iter().map(|c| (c.scope.clone(), (c.message.clone(), c.since)));
        Aside { configured: Some(configured), unwritten: unwritten.collect(), ..Aside::default() }
    }

    /// Also what is of sources that were not had since the state was restored.
    pub(super) fn with(self, status: &Status) -> Aside {
        let restored = status.sources.iter().filter_map(|s| Some((s.source.clone(), s.restored?)));
        Aside { restored: restored.collect(), ..self }
    }

    /// True for the name of a configured source, also the one that it had before.
    pub(super) fn is_source(&self, name: &str) -> bool {
        self.configured.as_ref().is_none_or(|[_, sources]| sources.contains(name))
    }

    /// The same of an entry.
    pub(super) fn is_entry(&self, name: &str) -> bool {
        self.configured.as_ref().is_none_or(|[entries, _]| entries.contains(name))
    }

    /// Why what a source has in a scope is not looked after.
    pub(super) fn why(&self, scope: &str, source: &str) -> Option<Why> {
        let entry = entry_of(scope);
        let unassigned = |what: &str, name: &str| {
            let message =
                format!("{what} {name} is not configured, and what is tracked for it is left alone");
            Some(Why { reason: UNASSIGNED, message, since: None })
        };
        if !self.is_entry(entry) {
            return unassigned("provider", entry);
        }
        if !self.is_source(source) && source != CLAIMS {
            return unassigned("source", source);
        }
        if let Some(since) = self.restored.get(source) {
            let message = "the state was restored and its source was not had since".into();
            return Some(Why { reason: RESTORED, message, since: Some(*since) });
        }
        let (message, since) = self.unwritten.get(scope)?;
        Some(Why { reason: UNSEEN_SCOPE, message: message.clone(), since: Some(*since) })
    }

    /// Leaves out of `status` what is said of scopes of entries that are not configured: nobody looks, tries again or waits
    /// for consent there.
    pub(super) fn leave_out(&self, status: &mut Status) {
        let is_here = |scope: &str| source_of(scope).is_some() || self.is_entry(entry_of(scope));
        status.conditions.retain(|one| is_here(&one.scope));
        status.holds.retain(|one| is_here(&one.domain));
        status.drifts.retain(|one| is_here(&one.scope));
        status.degraded.retain(|one| is_here(&one.scope));
        status.progressing.retain(|one| is_here(&one.scope));
    }
}

/// The entry of a scope, or of a guard domain.
pub(super) fn entry_of(scope: &str) -> &str {
    scope.split('/').next().unwrap_or_default()
}
