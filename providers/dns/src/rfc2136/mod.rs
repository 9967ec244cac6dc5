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
mod backend;
mod client;
mod config;
mod exchange;
mod kept;
mod observe;
mod request;
pub(crate) mod response;
mod soa;
mod transfer;
mod tsig;

pub use config::{Config, Keys};
pub use tsig::{Algorithm, FUDGE, Key};

use crate::{
    dialect::{self, Served},
    family,
    rdata::Type,
};
use async_trait::async_trait;
use backend::Backend;
use reconciled_provider::{
    Batch, Cx, Deltas, Error, Fencing, Found, Journal, Observation, Provider, ProviderInfo, Scope, Version,
    Want, diff_by_compare,
};
use std::{collections::BTreeMap, sync::Arc};

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
    dialect: dialect::plain,
};

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
