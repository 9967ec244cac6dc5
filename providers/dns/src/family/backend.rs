//! What a backend is: the calls that differ from one to the other, with what most of them have in common.

use crate::{keep, kind, record, strings};
use async_trait::async_trait;
use reconciled_provider::{
    Batch, Cx, Delta, Deltas, Error, Fencing, Found, GuardDomain, Identity, Journal, Marking, Normalized,
    Observation, Observed, ProviderInfo, Resource, Scope, Version, Want, diff_by_compare,
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// Facts that most backends share; each says of itself what is otherwise.
pub(crate) const INFO: ProviderInfo = ProviderInfo {
    type_name: "",
    static_kinds: &[kind::ZONE, kind::RECORD_SET],
    guard: GuardDomain::Scope,
    fencing: Fencing::Probe,
    identity: Identity::Deterministic,
    marking: Marking::InventoryOnly,
    lists: true,
    reads_ahead: true,
    lists_scopes: true,
    // Each request is one step; a batch above the limit of a request needs several.
    atomic_batch: true,
    concurrency: 4,
    consistency_window: Duration::ZERO,
    apply_limit: Duration::from_secs(120),
    create_backoff: ProviderInfo::BACKOFF,
    normalizer: 2,
};

/// One entry with its server or service: what differs from one backend to the other, besides what is told to [`serve`](super::serve).
///
/// The laws are those of [`reconciled_provider::Observer`] and [`Provider`](reconciled_provider::Provider).
#[async_trait]
pub(crate) trait Backend: Send + Sync + fmt::Debug {
    /// See [`points_at`](reconciled_provider::Observer::points_at).
    fn points_at(&self, scope: &Scope) -> Option<String>;

    /// Fits what was normalized to what this backend can hold. The same in gives the same out.
    fn refine(&self, _: &mut Normalized) {}

    /// Change tokens of many zones in as few calls as possible.
    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error>;

    /// Reads a zone.
    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error>;

    /// How `observed` differs from `desired`. Pure.
    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        let desired = strings::as_seen(&desired.id, desired.spec.bytes()?, &observed.bytes);
        record::compare(&desired, &observed.bytes)
    }

    /// The content of `desired` with what is ignored as it was seen.
    fn keep(&self, desired: &Resource, observed: &Observed, ignored: &[Arc<str>]) -> Vec<u8> {
        keep::keep(desired.spec.bytes().unwrap_or_default(), &observed.bytes, ignored)
    }

    /// Differences of all desired resources that exist.
    async fn diff(&self, _: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        Ok(diff_by_compare(|desired, observed| self.compare(desired, observed), want, seen))
    }

    /// True where a zone that it makes has no name servers but those that are declared.
    fn makes_bare_zones(&self) -> bool {
        false
    }

    /// Zones that exist, for import.
    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error>;

    /// True for what is seen there and can never be written or deleted through this backend.
    fn is_out_of_reach(&self, _observed: &Observed) -> bool {
        false
    }

    /// Canonical bytes as a person reads them.
    fn show(&self, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        record::show(bytes)
    }

    /// Carries out a batch that is not empty, which nobody asked to stop yet.
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error>;
}
