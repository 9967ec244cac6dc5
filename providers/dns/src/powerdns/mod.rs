//! PowerDNS Authoritative Server, 4.7 and newer, through its HTTP API.
//!
//! Guarantees: nothing is written against a zone that moved since it was planned, up to one call in flight
//! ([`Fencing::Probe`]); one request is one transaction of the server; an RRset that stays as it is is never
//! sent; comments of other people are kept.
//! Deliberately not done: signing, notifying, metadata. They are the server's.
//!
//! API: <https://doc.powerdns.com/authoritative/http-api/>

mod apply;
mod body;
mod client;
mod config;
mod culprit;
mod observe;
mod zone;

pub use config::Config;

use crate::{export, kind, merge, normalize, ownership, record};
use async_trait::async_trait;
use bytes::Bytes;
use client::Client;
use futures_core::stream::BoxStream;
use reconciled_provider::{
    Batch, Claim, Cx, Delta, Deltas, Error, Fencing, Found, GuardDomain, Health, Hint, Identity, Inputs,
    Journal, Kinds, Manifest, Marking, Merged, Normalized, Observation, Observed, Observer, Provider,
    ProviderInfo, Resource, ResourceId, Scope, SecretRef, Slot, Tracked, Version, Want, diff_by_compare,
    no_hints,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: "powerdns",
    static_kinds: &[kind::ZONE, kind::RECORD_SET],
    guard: GuardDomain::Scope,
    fencing: Fencing::Probe,
    identity: Identity::Deterministic,
    marking: Marking::Native,
    lists: true,
    // Each request is one transaction; a batch above the server's 2 MB needs several.
    atomic_batch: true,
    concurrency: 4,
    consistency_window: Duration::ZERO,
    apply_limit: Duration::from_secs(120),
    normalizer: 1,
};

/// One server.
#[derive(Debug)]
pub(crate) struct Backend {
    entry: Arc<str>,
    instance: Arc<str>,
    config: Config,
    client: Client,
    kinds: Arc<Kinds>,
    /// Largest body that is sent; shrinks when the server finds one too large.
    limit: AtomicUsize,
}

impl Backend {
    /// Largest body to send.
    fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }
    /// Remembers that a body of `size` was too large, or may have been.
    fn learn_limit(&self, size: usize) {
        self.limit.fetch_min(size / 2, Ordering::Relaxed);
    }
}

/// Prepares an entry called `entry` that marks what it writes with `instance`. Sends nothing.
///
/// The key behind `api_key` is looked up at each call, so that a rotated key works at once.
/// Errors: `Invalid` when the configuration cannot work.
pub fn connect(
    entry: &str,
    instance: &str,
    config: Config,
    api_key: SecretRef,
) -> Result<Arc<dyn Provider>, Error> {
    let client = Client::new(&config, api_key)?;
    let kinds = Arc::new(kind::kinds());
    let limit = AtomicUsize::new(config.max_body);
    let ownership = config.ownership.of(instance);
    let (entry, instance) = (entry.into(), instance.into());
    ownership::around(Arc::new(Backend { entry, instance, config, client, kinds, limit }), ownership)
}

/// Installs the TLS implementation of the process, if nobody did. Called by [`connect`].
pub fn install_crypto() {
    // An error says that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
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
        normalize::normalize(manifest, inputs)
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
