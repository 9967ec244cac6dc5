//! One server: what is known of it from one call to the next, such as what it said that it wrote.

use super::{
    config::{Config, Keys},
    kept::Zones,
    soa::Soa,
};
use reconciled_provider::{Deltas, Error, Hash, Observation, ResourceId, Scope, Version, Want};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

/// One server.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(super) entry: Arc<str>,
    pub(super) config: Config,
    pub(super) keys: Keys,
    /// What the server said it wrote, last, by zone.
    pub(super) written: Mutex<HashMap<Scope, Written>>,
    /// Zones of which the SOA that is served is not the one that updates are compared with.
    pub(super) by_sets: Mutex<HashSet<Scope>>,
    /// Zones as they were read last.
    pub(super) zones: Zones,
}

/// What the server said it wrote, and the SOA after that.
#[derive(Debug)]
pub(crate) struct Written {
    /// Token of the zone after the last message.
    pub(crate) version: Version,
    /// The content of each RRset that was written, and that nobody else can have changed before `version`.
    pub(crate) sets: HashMap<ResourceId, Hash>,
}

impl Backend {
    /// The token of a zone whose SOA is `soa`.
    pub(super) fn version(&self, soa: &Soa) -> Version {
        soa.version(&self.config.options.ownership.instance)
    }

    pub(super) fn remember(&self, scope: &Scope, written: Written) {
        let mut all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(scope.clone(), written);
    }

    pub(super) fn is_by_sets(&self, scope: &Scope) -> bool {
        self.by_sets.lock().unwrap_or_else(PoisonError::into_inner).contains(scope)
    }

    pub(super) fn go_by_sets(&self, scope: &Scope) {
        self.by_sets.lock().unwrap_or_else(PoisonError::into_inner).insert(scope.clone());
    }

    /// Replaces the deltas of what the server said it wrote and did not.
    pub(super) fn accuse(&self, want: &Want<'_>, seen: &Observation, deltas: &mut Deltas) {
        let all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(written) = all.get(want.scope).filter(|written| written.version == seen.version) else {
            return;
        };
        for desired in want.desired {
            let wanted = desired.spec.hash();
            let is_written = wanted.is_some() && written.sets.get(&desired.id).copied() == wanted;
            let is_there = seen.get(&desired.id).is_some_and(|observed| Some(observed.hash) == wanted);
            if is_written && !is_there {
                deltas.insert(desired.id.clone(), Err(self.ignored(&desired.id)));
            }
        }
    }

    fn ignored(&self, id: &ResourceId) -> Error {
        let server = &self.config.server;
        Error::invalid(format!("{server} answered NOERROR to the change of {id} and did not carry it out")).hint(
            "servers do so where a CNAME and other data would share a name (RFC 2136 §3.4.2.2), and for what they \
             manage themselves; it is tried again when the zone changes",
        )
    }

    /// What was to come in the place of other data is not there right behind the message.
    pub(super) fn half(&self, doing: &str) -> Error {
        let server = &self.config.server;
        Error::conflict(format!(
            "{doing} at {server}: not every CNAME that comes in the place of other data is there, right behind the message that \
             brings it"
        ))
        .hint("nothing: the zone is read again at once, and what is missing is made; the server ignored it, or somebody deleted it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rfc2136::tsig::{Algorithm, FUDGE, Key};
    use reconciled_provider::{Focus, Observed, Origin, PolicyId, Resource, SecretRef, Spec};

    /// The error of a CNAME that the server said it wrote, where `seen` is at its name now.
    fn accused(seen: &str) -> Option<String> {
        let key = Key {
            name: "k.".into(),
            algorithm: Algorithm::HmacSha256,
            secret: SecretRef::Named("tsig".into()),
            fudge: FUDGE,
        };
        let keys = Keys { update: key.clone(), transfer: key };
        let (written, by_sets, zones) = Default::default();
        let config = Config::new("127.0.0.1:53");
        let backend = Backend { entry: "knot".into(), config, keys, written, by_sets, zones };
        let (scope, version) = (Scope::new("knot", "example.com"), Version::At("2".into()));
        let spec = Spec::known(b"300\na.example.net.".to_vec());
        let content = spec.hash()?;
        let desired = Resource::new(
            "x.example.com./CNAME".into(),
            Arc::new(scope.clone()),
            spec,
            Origin { manifest: 0, line: 1 },
            PolicyId::default(),
        );
        let sets = [(desired.id.clone(), content)].into();
        backend.remember(&scope, Written { version: version.clone(), sets });
        let resources = vec![Observed::new(seen.into(), b"300\n192.0.2.1")];
        let seen = Observation { covered: Focus::All, complete: true, version, resources };
        let desired = [desired];
        let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
        let mut deltas = Deltas::default();
        backend.accuse(&want, &seen, &mut deltas);
        deltas.remove(&desired[0].id).map(|delta| delta.unwrap_err().message.clone())
    }

    #[test]
    fn what_the_server_ignored_is_said_whatever_is_at_its_name() {
        let said =
            "127.0.0.1:53 answered NOERROR to the change of x.example.com./CNAME and did not carry it out";
        assert_eq!(accused("x.example.com./A").as_deref(), Some(said));
        assert_eq!(accused("other.example.com./A").as_deref(), Some(said));
    }
}
