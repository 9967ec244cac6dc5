//! RFC 1035 master files in a directory, for any server that loads them (BIND, NSD, Knot, CoreDNS).
//!
//! Guarantees: a file is replaced as a whole or not at all, after `check` accepted it; records nobody declared
//! are kept; a zone that cannot be read is an error with file and line.
//! Caveats: comments and the order of lines are not kept (the first lines of each file say so); a file that
//! another program rewrites at the same instant is protected by the lock only if that program takes it.

mod apply;
mod command;
mod config;
mod observe;
mod parse;
mod write;

pub use config::Config;
pub(crate) use parse::{Entry, included};

use crate::{export, kind, merge, normalize, ownership, record};
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use reconciled_provider::{
    Batch, Claim, Cx, Delta, Deltas, Error, Fencing, Found, GuardDomain, Health, Hint, Identity, Inputs,
    Journal, Kinds, Manifest, Marking, Merged, Normalized, Observation, Observed, Observer, Provider,
    ProviderInfo, Resource, ResourceId, Scope, Slot, Tracked, Version, Want, diff_by_compare, no_hints,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: "zonefile",
    static_kinds: &[kind::ZONE, kind::RECORD_SET],
    guard: GuardDomain::Scope,
    fencing: Fencing::Probe,
    identity: Identity::Deterministic,
    marking: Marking::Native,
    lists: true,
    atomic_batch: true,
    concurrency: 4,
    consistency_window: Duration::ZERO,
    apply_limit: Duration::from_secs(120),
    normalizer: 1,
};

/// One directory.
#[derive(Debug)]
pub(crate) struct Backend {
    entry: Arc<str>,
    instance: Arc<str>,
    config: Config,
    kinds: Arc<Kinds>,
}

/// Prepares an entry called `entry` that marks what it writes with `instance`. Touches no file.
///
/// Errors: `Invalid` when the configuration cannot work.
pub fn open(entry: &str, instance: &str, config: Config) -> Result<Arc<dyn Provider>, Error> {
    config.validate()?;
    apply::validate_instance(instance)?;
    let kinds = Arc::new(kind::kinds());
    let ownership = config.ownership.of(instance);
    let backend = Backend { entry: entry.into(), instance: instance.into(), config, kinds };
    ownership::around(Arc::new(Files(Arc::new(backend))), ownership)
}

/// The provider; what it holds is shared with the threads that read files.
#[derive(Debug)]
struct Files(Arc<Backend>);

impl Files {
    /// Runs `read`, which waits for the disk, where waiting hurts nobody.
    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Backend) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let backend = self.0.clone();
        let task = tokio::task::spawn_blocking(move || read(&backend));
        task.await.map_err(|error| Error::unexpected("read zone files").caused_by(error))?
    }
}

#[async_trait]
impl Observer for Files {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn kinds(&self, _: &Cx) -> Result<Arc<Kinds>, Error> {
        Ok(self.0.kinds.clone())
    }

    fn normalize(&self, _: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        normalize::normalize(manifest, inputs)
    }

    async fn versions(&self, _: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        let scopes = scopes.to_vec();
        self.blocking(move |backend| observe::versions(backend, &scopes)).await
    }

    async fn observe(&self, _: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        let scope = want.scope.clone();
        self.blocking(move |backend| observe::observe(backend, &scope)).await
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

    async fn discover(&self, _: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        let query = query.to_owned();
        self.blocking(move |backend| observe::discover(backend, &query)).await
    }

    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        Ok(export::export(&self.0.entry, found))
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
        merge::place(&self.0.entry, claim, scopes)
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
impl Provider for Files {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        apply::apply(&self.0, cx, batch, journal).await
    }
}
