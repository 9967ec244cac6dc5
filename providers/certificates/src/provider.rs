//! The provider: `type: certificates`.

use crate::{
    Config,
    acme::Acme,
    apply::{self, Desk},
    compare, health,
    kept::Keep,
    kind, normalize, observe,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use reconciled_provider::{
    Batch, Claim, Cx, Delta, Deltas, Error, Fact, Fencing, Found, GuardDomain, Health, Hint, Identity,
    Inputs, Journal, Kinds, Manifest, Marking, Merged, Normalized, Observation, Observed, Observer, Provider,
    ProviderInfo, Resource, ResourceId, Scope, Slot, Tracked, Version, Want, diff_by_compare, no_hints,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: "certificates",
    static_kinds: &[kind::ISSUER, kind::CLUSTER_ISSUER, kind::CERTIFICATE],
    guard: GuardDomain::Provider,
    fencing: Fencing::None,
    identity: Identity::Deterministic,
    marking: Marking::Companion,
    lists: false,
    atomic_batch: false,
    concurrency: 20,
    consistency_window: Duration::ZERO,
    apply_limit: Duration::from_secs(300),
    normalizer: 1,
};

/// Prepares an entry called `entry`. Touches nothing.
///
/// Errors: `Invalid` when the configuration cannot work.
pub fn open(entry: &str, config: Config) -> Result<Arc<dyn Provider>, Error> {
    config.validate()?;
    Ok(Arc::new(Certificates::new(entry, config)))
}

/// An entry that normalizes whatever could be right on some host, for checking manifests where nothing is configured.
pub fn sample(entry: &str) -> Arc<dyn Observer> {
    Arc::new(Certificates::new(entry, Config::anywhere()))
}

#[derive(Debug)]
struct Certificates {
    entry: Arc<str>,
    keep: Keep,
    acme: Acme,
    config: Config,
    kinds: Arc<Kinds>,
}

impl Certificates {
    fn new(entry: &str, config: Config) -> Certificates {
        Certificates {
            entry: entry.into(),
            keep: Keep::new(entry, &config.state),
            acme: Acme::default(),
            config,
            kinds: Arc::new(kind::kinds()),
        }
    }
}

#[async_trait]
impl Observer for Certificates {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn kinds(&self, _: &Cx) -> Result<Arc<Kinds>, Error> {
        Ok(self.kinds.clone())
    }

    fn normalize(&self, _: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        normalize::normalize(&self.config, manifest, inputs)
    }

    async fn versions(&self, _: &Cx, _: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        Ok(BTreeMap::new())
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        observe::observe(cx, &self.keep, want)
    }

    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        compare::compare(desired, observed)
    }

    async fn diff(&self, _: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        Ok(diff_by_compare(compare::compare, want, seen))
    }

    fn tells_health(&self) -> bool {
        true
    }

    async fn health(&self, cx: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        health::health(&self.acme, cx, &self.config, &self.keep, want).await
    }

    async fn facts(&self, _: &Cx, scope: &Scope) -> Result<Vec<Fact>, Error> {
        health::facts(&self.keep, &scope.name)
    }

    async fn discover(&self, _: &Cx, _: &str) -> Result<Vec<Found>, Error> {
        Err(Error::unsupported(format!("provider `{}` finds no certificates by itself", self.entry)).hint(
            "declare one with the directory its files are in: if they are as declared, they are adopted",
        ))
    }

    fn export(&self, _: &Found) -> Result<Vec<Bytes>, Error> {
        Ok(Vec::new())
    }

    fn part(&self, _: &Scope, _: &ResourceId) -> Option<Arc<str>> {
        None
    }

    fn slot(&self, _: &ResourceId) -> Option<Slot> {
        None
    }

    fn guard_word(&self, _: &Scope, _: &ResourceId) -> Option<&'static str> {
        None
    }

    fn show(&self, _: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        compare::show(bytes)
    }

    fn place(&self, claim: &Claim, _: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        Err(Error::unsupported(format!("certificates carry no claim of kind `{}`", claim.kind)))
    }

    fn merge(
        &self,
        _: &[&Resource],
        _: Option<&Observed>,
        _: Option<&Tracked>,
        _: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        Err(Error::unsupported("a certificate has one author").hint("leave `reconciled/merge` out"))
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        no_hints()
    }
}

#[async_trait]
impl Provider for Certificates {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        let desk = Desk { cx, config: &self.config, keep: &self.keep, acme: &self.acme };
        apply::apply(&desk, batch, journal).await
    }

    async fn can_renew(&self, _: &Cx, scope: &Scope, id: &ResourceId) -> Result<(), Error> {
        let name = &scope.name;
        if self.keep.issued(name)?.is_some() || self.keep.attempt(name)?.is_some() {
            return Ok(());
        }
        Err(Error::unsupported(format!("{id} was not issued here, so it cannot be renewed"))
            .hint("what was adopted is taken over by the next apply, and can be renewed then"))
    }

    async fn renew(&self, cx: &Cx, scope: &Scope, id: &ResourceId) -> Result<(), Error> {
        self.can_renew(cx, scope, id).await?;
        // Whoever asks has mended what an authority refused.
        self.keep.end_refusals(&scope.name)?;
        self.keep.end_busy(&scope.name)?;
        match self.keep.issued(&scope.name)? {
            Some(issued) => self.keep.put_renewal(&scope.name, &issued.facts()?.fingerprint),
            None => Ok(()),
        }
    }
}
