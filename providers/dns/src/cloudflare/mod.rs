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
    export, kind, merge,
    normalize::{self, Served},
    ownership,
    rdata::Type,
    record,
};
use async_trait::async_trait;
use bytes::Bytes;
use client::Api;
use futures_core::stream::BoxStream;
use reconciled_provider::{
    Batch, Claim, Cx, Delta, Deltas, Error, Fencing, Found, GuardDomain, Health, Hint, Identity, Inputs,
    Journal, Kinds, Manifest, Marking, Merged, Normalized, Observation, Observed, Observer, Provider,
    ProviderInfo, Resource, ResourceId, Scope, SecretRef, Slot, Tracked, Version, Want, diff_by_compare,
    no_hints,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use zones::Zones;

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: "cloudflare",
    static_kinds: &[kind::ZONE, kind::RECORD_SET],
    guard: GuardDomain::Scope,
    // There is no change token; `apply` compares what it touches itself.
    fencing: Fencing::None,
    identity: Identity::Deterministic,
    marking: Marking::Native,
    lists: true,
    // Each request is one transaction; a batch above the limit of the plan needs several.
    atomic_batch: true,
    concurrency: 4,
    consistency_window: Duration::ZERO,
    apply_limit: Duration::from_secs(300),
    normalizer: 1,
};

/// Cloudflare has the type; how it reports one is not known well enough to compare.
const UNTRIED: &str = "records of this type cannot be written at Cloudflare yet";

/// What it serves.
const SERVED: Served = Served {
    by: "cloudflare",
    refused: &[
        (Type::Alias, "Cloudflare has no ALIAS: write A and AAAA"),
        (Type::Dname, "Cloudflare has no DNAME: declare the names one by one"),
        (Type::Loc, UNTRIED),
        (Type::Openpgpkey, UNTRIED),
        (Type::Uri, UNTRIED),
    ],
    dialect: dialect::settle,
};

/// One account, as far as its token reaches.
#[derive(Debug)]
pub(crate) struct Backend {
    entry: Arc<str>,
    instance: Arc<str>,
    config: Config,
    api: Api,
    zones: Zones,
    kinds: Arc<Kinds>,
}

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
    let kinds = Arc::new(kind::kinds());
    let ownership = config.ownership.of(instance);
    let (entry, instance) = (entry.into(), instance.into());
    let backend = Backend { entry, instance, config, api, zones: Zones::default(), kinds };
    ownership::around(Arc::new(backend), ownership)
}

#[async_trait]
impl Observer for Backend {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn kinds(&self, _: &Cx) -> Result<Arc<Kinds>, Error> {
        Ok(self.kinds.clone())
    }

    fn normalize(&self, _: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        normalize::normalize_for(manifest, inputs, &SERVED)
    }

    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        observe::versions(self, cx, scopes).await
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        observe::observe(self, cx, want).await
    }

    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        record::compare(desired.spec.bytes()?, &observed.bytes)
    }

    async fn diff(&self, _: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        Ok(diff_by_compare(|desired, observed| self.compare(desired, observed), want, seen))
    }

    async fn health(&self, _: &Cx, _: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        Ok(Vec::new())
    }

    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        observe::discover(self, cx, query).await
    }

    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        Ok(export::export(&self.entry, found))
    }

    fn part(&self, scope: &Scope, id: &ResourceId) -> Option<Arc<str>> {
        record::part(scope, id)
    }

    fn slot(&self, id: &ResourceId) -> Option<Slot> {
        record::slot(id)
    }

    fn guard_word(&self, scope: &Scope, id: &ResourceId) -> Option<&'static str> {
        record::guard_word(scope, id)
    }

    fn show(&self, _: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        record::show(bytes)
    }

    fn place(&self, claim: &Claim, scopes: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        merge::place(&self.entry, claim, scopes)
    }

    fn merge(
        &self,
        declared: &[&Resource],
        seen: Option<&Observed>,
        tracked: Option<&Tracked>,
        claims: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        merge::merge(declared, seen, tracked, claims)
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        no_hints()
    }
}

#[async_trait]
impl Provider for Backend {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        apply::apply(self, cx, batch, journal).await
    }
}
