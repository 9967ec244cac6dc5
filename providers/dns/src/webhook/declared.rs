//! What manifests declared, zone by zone: where zones lie within each other, that says whose a record is.
//!
//! Guarantees: what a zone declares is known as soon as a manifest that says so was read, whether or not that is in force, and
//! for as long as it is declared. What is declared no more is let go of [`KEPT`] later: what was read of a commit counts when
//! that comes into force, and it is not read again for that.

use reconciled_provider::{Resource, ResourceId};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// How long what a zone does not declare is kept: a commit may wait as long for a person.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);

/// By zone, each id with when its zone was last seen to declare it; none: not since a manifest said so.
#[derive(Debug, Default)]
pub(super) struct Declared(HashMap<Arc<str>, HashMap<ResourceId, Option<Duration>>>);

impl Declared {
    /// Remembers what manifests declare.
    pub(super) fn hear(&mut self, resources: &[Resource]) {
        for resource in resources {
            let zone = self.0.entry(resource.scope.name.clone()).or_default();
            zone.insert(resource.id.clone(), None);
        }
    }

    /// Remembers what a zone is to hold now, and lets go of what it is not to for long.
    pub(super) fn seen(&mut self, zone: &str, desired: &[Resource], now: Duration) {
        let Some(known) = self.0.get_mut(zone) else { return };
        let desired: HashSet<&ResourceId> = desired.iter().map(|resource| &resource.id).collect();
        known.retain(|id, at| {
            let since = match at {
                // A clock that was set back begins anew.
                Some(at) if !desired.contains(id) && *at <= now => *at,
                _ => now,
            };
            *at = Some(since);
            now - since <= KEPT
        });
        if known.is_empty() {
            self.0.remove(zone);
        }
    }

    /// True where a manifest declared the record in the zone.
    pub(super) fn has(&self, zone: &str, id: &ResourceId) -> bool {
        self.0.get(zone).is_some_and(|known| known.contains_key(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Origin, PolicyId, Scope, Spec};

    fn of(names: &[&str]) -> Vec<Resource> {
        let scope = Arc::new(Scope::new("w", "inner.test"));
        let one = |name: &&str| {
            Resource::new(
                (*name).into(),
                scope.clone(),
                Spec::known(b"x".to_vec()),
                Origin { manifest: 0, line: 1 },
                PolicyId::default(),
            )
        };
        names.iter().map(one).collect()
    }

    #[test]
    fn what_a_zone_declares_no_more_is_let_go_of_in_time_and_nothing_else() {
        let mut declared = Declared::default();
        let day = |number: u64| Duration::from_secs(number * 24 * 3_600);
        // A daemon whose records come and go, one each day.
        for now in 0..1_000 {
            let names = ["stays".to_string(), format!("of day {now}")];
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            declared.hear(&of(&names));
            declared.seen("inner.test", &of(&names), day(now));
            assert!(declared.has("inner.test", &"stays".into()));
            assert!(declared.0["inner.test"].len() <= 33);
        }
        // What is not in force yet is kept until it may be, counted from the first look after it was read.
        declared.hear(&of(&["later"]));
        declared.seen("inner.test", &of(&["stays"]), day(1_100));
        declared.seen("inner.test", &of(&["stays"]), day(1_130));
        assert!(declared.has("inner.test", &"later".into()) && !declared.has("other.test", &"later".into()));
        declared.seen("inner.test", &of(&["stays"]), day(1_131));
        assert!(!declared.has("inner.test", &"later".into()) && declared.has("inner.test", &"stays".into()));
        // A clock that was set back lets go of nothing; a zone that declares nothing leaves nothing.
        declared.seen("inner.test", &[], day(1));
        assert!(declared.has("inner.test", &"stays".into()));
        declared.seen("inner.test", &[], day(40));
        assert!(declared.0.is_empty());
    }
}
