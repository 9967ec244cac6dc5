//! Cloudflare DNS, through the API v4.
//!
//! A record of the API is one value; here it is grouped to RRsets. Guarantees: nothing is written over what
//! somebody changed since it was planned, up to one call in flight; one request is one transaction of Cloudflare's database; a value that stays keeps its record, and notes and tags that nobody
//! declares are kept; what the plan of a zone does not allow is refused by name before anything is sent.
//! Deliberately not done: settings of a zone, the NS of its apex, redirects and rules.
//!
//! API: <https://developers.cloudflare.com/api/resources/dns/>; what of it was never seen to work against the
//! service itself is listed in `docs/dns-cloudflare.md`.

mod apply;
mod backend;
mod client;
mod config;
mod data;
mod dialect;
mod mark;
mod observe;
mod set;
mod zones;

pub use config::Config;

use crate::{
    dialect::{CLOUDFLARE, Served},
    family,
    rdata::Type,
};
use async_trait::async_trait;
use backend::Backend;
use client::Api;
use reconciled_provider::{
    Batch, Cx, Error, Fencing, Found, Journal, Marking, Observation, Provider, ProviderInfo, Scope,
    SecretRef, Version, Want,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use zones::Zones;

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: CLOUDFLARE,
    // There is no change token; `apply` compares what it touches itself.
    fencing: Fencing::None,
    // Comments and tags are shown where they are declared.
    reads_ahead: false,
    marking: Marking::Native,
    apply_limit: Duration::from_secs(300),
    ..family::INFO
};

/// What it serves.
pub(crate) const SERVED: Served = Served {
    by: CLOUDFLARE,
    refused: &[(Type::Dname, "Cloudflare has no DNAME: declare the names one by one")],
    dialect: dialect::settle,
};

/// Prepares an entry called `entry` that marks what it writes with `instance`. Sends nothing.
///
/// The token behind `token` is looked up at each call, so that a rotated one works at once.
/// Errors: `Invalid` when the configuration cannot work.
pub fn connect(
    entry: &str,
    instance: &str,
    config: Config,
    token: SecretRef,
) -> Result<Arc<dyn Provider>, Error> {
    if config.marks {
        mark::validate_instance(instance)?;
    }
    let api = Api::new(&config, token)?;
    let options = config.options.of(instance);
    let (name, instance) = (entry.into(), instance.into());
    let backend = Backend { entry: name, instance, config, api, zones: Zones::default() };
    family::serve(entry, &INFO, &SERVED, backend, options)
}

#[async_trait]
impl family::Backend for Backend {
    fn points_at(&self, _: &Scope) -> Option<String> {
        let account = self.config.account.as_deref().unwrap_or_default();
        Some(format!("{} {account}", self.config.api().ok()?))
    }

    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        observe::versions(self, cx, scopes).await
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        observe::observe(self, cx, want).await
    }

    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        observe::discover(self, cx, query).await
    }

    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        apply::apply(self, cx, batch, journal).await
    }
}
