//! Any primary server that takes dynamic updates (RFC 2136) and transfers (RFC 5936, RFC 1995), signed with TSIG (RFC 8945):
//! BIND, Knot, PowerDNS.
//!
//! Guarantees: a write takes effect only while the SOA of the zone is exactly the one that was planned from
//! ([`Fencing::Native`]); one message is all or nothing; a transfer that breaks is no zone; every request is
//! signed and every answer checked.
//! Deliberately not done: creating and deleting zones, marks of ownership.
//!
//! `hickory-proto` gives names, messages and signatures. Not `hickory-net`: its client runs in tasks of its own,
//! refuses transfers with unsigned messages in between, and does not tell what was sent from what was not.

mod apply;
mod client;
mod config;
mod exchange;
mod kept;
mod observe;
mod request;
pub(crate) mod response;
mod transfer;
mod tsig;

pub use config::{Config, Keys};
pub use tsig::{Algorithm, FUDGE, Key};

use crate::{
    family,
    normalize::{self, Served},
    rdata::Type,
};
use apply::Written;
use async_trait::async_trait;
use reconciled_provider::{
    Batch, Cx, Deltas, Error, Fencing, Found, Journal, Observation, Provider, ProviderInfo, ResourceId,
    Scope, Version, Want, diff_by_compare,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: "rfc2136",
    fencing: Fencing::Native,
    // A question for each zone, and none can be made.
    lists_scopes: false,
    ..family::INFO
};

/// What cannot be declared here.
const SERVED: Served = Served {
    by: "rfc2136",
    refused: &[(Type::Alias, "ALIAS has no form in the protocol: use A and AAAA, or the API of the server")],
    dialect: normalize::plain,
};

/// One server.
#[derive(Debug)]
pub(crate) struct Backend {
    entry: Arc<str>,
    config: Config,
    keys: Keys,
    /// What the server said it wrote, last, by zone.
    written: Mutex<HashMap<Scope, Written>>,
    /// Zones of which the SOA that is served is not the one that updates are compared with.
    by_sets: Mutex<HashSet<Scope>>,
    /// Zones as they were read last.
    zones: kept::Zones,
}

/// Prepares an entry called `entry`. Sends nothing.
///
/// The secrets behind `keys` are looked up at each call, so that a rotated key works at once.
/// Errors: `Invalid` when the configuration cannot work.
pub fn connect(entry: &str, config: Config, keys: Keys) -> Result<Arc<dyn Provider>, Error> {
    config.address()?;
    keys.update.validate()?;
    keys.transfer.validate()?;
    let options = config.options.clone();
    let (written, by_sets, zones) = Default::default();
    let backend = Backend { entry: entry.into(), config, keys, written, by_sets, zones };
    family::serve(entry, &INFO, &SERVED, backend, options)
}

impl Backend {
    fn remember(&self, scope: &Scope, written: Written) {
        let mut all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(scope.clone(), written);
    }

    fn is_by_sets(&self, scope: &Scope) -> bool {
        self.by_sets.lock().unwrap_or_else(PoisonError::into_inner).contains(scope)
    }

    fn go_by_sets(&self, scope: &Scope) {
        self.by_sets.lock().unwrap_or_else(PoisonError::into_inner).insert(scope.clone());
    }

    /// Replaces the deltas of what the server said it wrote and did not.
    fn accuse(&self, want: &Want<'_>, seen: &Observation, deltas: &mut Deltas) {
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
    fn half(&self, doing: &str) -> Error {
        let server = &self.config.server;
        Error::conflict(format!(
            "{doing} at {server}: not every CNAME that comes in the place of other data is there, right behind the message that \
             brings it"
        ))
        .hint("nothing: the zone is read again at once, and what is missing is made; the server ignored it, or somebody deleted it")
    }
}

#[async_trait]
impl family::Backend for Backend {
    fn points_at(&self, _: &Scope) -> Option<String> {
        let (host, port) = self.config.address().ok()?;
        // A server with views tells by the key which of them is meant.
        let [update, transfer] = [&self.keys.update, &self.keys.transfer]
            .map(|key| key.name.trim_end_matches('.').to_ascii_lowercase());
        Some(format!("{host} {port} {update} {transfer}"))
    }

    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        observe::versions(self, cx, scopes).await
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        observe::observe(self, cx, want.scope).await
    }

    async fn diff(&self, _: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        let mut deltas = diff_by_compare(|desired, observed| self.compare(desired, observed), want, seen);
        self.accuse(want, seen, &mut deltas);
        Ok(deltas)
    }

    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        observe::discover(self, cx, query).await
    }

    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        apply::apply(self, cx, batch, journal).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let desired = Resource {
            id: "x.example.com./CNAME".into(),
            scope: Arc::new(scope.clone()),
            spec,
            policy: PolicyId::default(),
            origin: Origin { manifest: 0, line: 1 },
        };
        let sets = [(desired.id.clone(), content)].into();
        backend.remember(&scope, Written { version: version.clone(), sets });
        let resources = vec![Observed::new(seen.into(), b"300\n192.0.2.1".to_vec())];
        let seen = Observation { covered: Focus::All, complete: true, version, resources };
        let desired = [desired];
        let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
        let mut deltas = Deltas::default();
        backend.accuse(&want, &seen, &mut deltas);
        deltas.remove(&desired[0].id).map(|delta| delta.unwrap_err().message)
    }

    #[test]
    fn what_the_server_ignored_is_said_whatever_is_at_its_name() {
        let said =
            "127.0.0.1:53 answered NOERROR to the change of x.example.com./CNAME and did not carry it out";
        assert_eq!(accused("x.example.com./A").as_deref(), Some(said));
        assert_eq!(accused("other.example.com./A").as_deref(), Some(said));
    }
}
