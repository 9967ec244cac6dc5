//! Amazon Route 53, through its API of 2013-04-01.
//!
//! Guarantees: a set is changed by deleting exactly what was read and creating the new one, in one transaction, so
//! that nobody's change in between is lost; aliases and sets with a routing policy are seen and kept.
//! Deliberately not done: writing those; zones of a VPC are read and written, not created; waiting until a
//! change has reached every name server (`INSYNC`).
//!
//! API: <https://docs.aws.amazon.com/Route53/latest/APIReference/>.

mod apply;
mod client;
mod config;
mod observe;
mod sign;
mod xml;

pub use config::{Config, Credentials};

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
    ProviderInfo, Resource, ResourceId, Scope, Slot, Tracked, Version, Want, diff_by_compare, no_hints,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: "route53",
    static_kinds: &[kind::ZONE, kind::RECORD_SET],
    guard: GuardDomain::Scope,
    // Each set fences itself; there is no token of a zone.
    fencing: Fencing::None,
    identity: Identity::Deterministic,
    marking: Marking::InventoryOnly,
    lists: true,
    // Each request is one transaction; a batch above the limits needs several.
    atomic_batch: true,
    // Five calls a second are for all zones of an account.
    concurrency: 2,
    consistency_window: Duration::ZERO,
    apply_limit: Duration::from_secs(600),
    normalizer: 1,
};

/// What it does not know.
const UNKNOWN: &str = "Route 53 does not know the type";

/// What it serves.
const SERVED: Served = Served {
    by: "route53",
    refused: &[
        (Type::Alias, "aliases of Route 53 point at resources of AWS: they are kept, and written elsewhere"),
        (Type::Dname, UNKNOWN),
        (Type::Loc, UNKNOWN),
        (Type::Openpgpkey, UNKNOWN),
        (Type::Smimea, UNKNOWN),
        (Type::Uri, UNKNOWN),
    ],
    dialect: normalize::plain,
};

/// One account, as far as its key reaches.
#[derive(Debug)]
pub(crate) struct Backend {
    entry: Arc<str>,
    config: Config,
    api: Api,
    kinds: Arc<Kinds>,
    /// Ids of zones that were seen.
    zones: Mutex<HashMap<String, String>>,
}

/// Prepares an entry called `entry`. Sends nothing.
///
/// The credentials are looked up at each call, so that rotated ones work at once.
/// Errors: `Invalid` when the configuration cannot work.
pub fn connect(entry: &str, config: Config, credentials: Credentials) -> Result<Arc<dyn Provider>, Error> {
    let api = Api::new(&config, credentials)?;
    let (entry, kinds) = (entry.into(), Arc::new(kind::kinds()));
    let ownership = config.ownership.clone();
    ownership::around(Arc::new(Backend { entry, config, api, kinds, zones: Mutex::default() }), ownership)
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
