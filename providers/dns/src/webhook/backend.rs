//! One provider: what is known of it from one call to the next, such as the zones of its entry.

use super::{
    client::Remote,
    config::Config,
    declared::Declared,
    endpoint::{Key, Set},
};
use crate::name;
use reconciled_provider::{Resource, ResourceId};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// One provider.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(super) entry: Arc<str>,
    pub(super) config: Config,
    pub(super) remote: Remote,
    /// Zones of this entry, so that zones within zones can be told apart.
    pub(super) heard: Mutex<HashSet<String>>,
    pub(super) declared: Mutex<Declared>,
    pub(super) snapshot: Mutex<Snapshot>,
    /// Since when the provider has said that it has nothing at all.
    pub(super) empty_since: Mutex<Option<Duration>>,
}

/// What was read and not yet shared out.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(super) at: Duration,
    pub(super) zones: HashMap<String, BTreeMap<Key, Set>>,
    pub(super) nothing_for: Option<Duration>,
}

impl Backend {
    /// Remembers that a zone is one of this entry's.
    pub(crate) fn hear_of(&self, zone: &str) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if !heard.contains(zone) {
            heard.insert(zone.to_owned());
        }
    }
    /// Remembers whether the provider has anything, and says for how long it has had nothing.
    pub(super) fn nothing_for(&self, now: Duration, is_empty: bool) -> Option<Duration> {
        let mut since = self.empty_since.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back begins anew.
        *since = is_empty.then(|| since.filter(|since| *since <= now).unwrap_or(now));
        since.map(|since| now.saturating_sub(since))
    }
    pub(super) fn heard(&self) -> HashSet<String> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Remembers what a manifest declares, and the zones of that.
    pub(crate) fn hear(&self, resources: &[Resource]) {
        resources.iter().for_each(|resource| self.hear_of(&resource.scope.name));
        self.declared.lock().unwrap_or_else(PoisonError::into_inner).hear(resources);
    }
    /// True when a manifest declared the record `id`, of this name, in a zone within `zone`.
    pub(super) fn is_handed_down(&self, zone: &str, id: &ResourceId, name: &str) -> bool {
        let declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = name;
        loop {
            let inner = rest.strip_suffix('.').unwrap_or(rest);
            if inner == zone || rest == "." {
                return false;
            }
            if declared.has(inner, id) {
                return true;
            }
            rest = name::parent(rest);
        }
    }
}
