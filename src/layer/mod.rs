//! Layers around any provider: what is not the remote's business.
//!
//! Each layer is a provider that forwards to another one; [`forward_observer`] writes the forwarding, also of methods that
//! have a default. Applied from the inside out: failpoints (debug builds), rate, trace.

use crate::{config::Rate, telemetry::Metrics};
use reconciled_provider::{Clock, Provider};
use std::sync::Arc;

/// Writes the whole `Observer` of a layer: what is pure is forwarded, and each call that reaches the remote is
/// wrapped by the layer's own `around(name, scope, call)`, and has the context that its `within(context)` makes.
macro_rules! forward_observer {
    ($layer:ty) => {
        #[async_trait::async_trait]
        impl reconciled_provider::Observer for $layer {
            fn info(&self) -> &reconciled_provider::ProviderInfo {
                self.inner.info()
            }
            fn normalize(
                &self,
                kinds: &reconciled_provider::Kinds,
                manifest: &reconciled_provider::Manifest,
                inputs: &dyn reconciled_provider::Inputs,
            ) -> reconciled_provider::Normalized {
                self.inner.normalize(kinds, manifest, inputs)
            }
            fn compare(
                &self,
                desired: &reconciled_provider::Resource,
                observed: &reconciled_provider::Observed,
            ) -> Option<reconciled_provider::Delta> {
                self.inner.compare(desired, observed)
            }
            fn export(
                &self,
                found: &reconciled_provider::Found,
            ) -> Result<Vec<bytes::Bytes>, reconciled_provider::Error> {
                self.inner.export(found)
            }
            fn undeclarable(&self, found: &reconciled_provider::Found) -> Vec<String> {
                self.inner.undeclarable(found)
            }
            fn part(
                &self,
                scope: &reconciled_provider::Scope,
                id: &reconciled_provider::ResourceId,
            ) -> Option<std::sync::Arc<str>> {
                self.inner.part(scope, id)
            }
            fn is_part(
                &self,
                scope: &reconciled_provider::Scope,
                id: &reconciled_provider::ResourceId,
                part: Option<&str>,
            ) -> bool {
                self.inner.is_part(scope, id, part)
            }
            fn slot(&self, id: &reconciled_provider::ResourceId) -> Option<reconciled_provider::Slot> {
                self.inner.slot(id)
            }
            fn guard_word(
                &self,
                scope: &reconciled_provider::Scope,
                id: &reconciled_provider::ResourceId,
            ) -> Option<&'static str> {
                self.inner.guard_word(scope, id)
            }
            fn show(
                &self,
                id: &reconciled_provider::ResourceId,
                bytes: &[u8],
            ) -> Vec<(std::sync::Arc<str>, String)> {
                self.inner.show(id, bytes)
            }
            fn keep(
                &self,
                desired: &reconciled_provider::Resource,
                observed: &reconciled_provider::Observed,
                ignored: &[std::sync::Arc<str>],
            ) -> Result<Vec<u8>, reconciled_provider::Error> {
                self.inner.keep(desired, observed, ignored)
            }
            fn place(
                &self,
                claim: &reconciled_provider::Claim,
                scopes: &std::collections::BTreeSet<reconciled_provider::Scope>,
            ) -> Result<
                (reconciled_provider::Scope, reconciled_provider::ResourceId),
                reconciled_provider::Error,
            > {
                self.inner.place(claim, scopes)
            }
            fn would_carry(
                &self,
                claim: &reconciled_provider::Claim,
                scope: Option<&reconciled_provider::Scope>,
            ) -> Vec<(&'static str, String)> {
                self.inner.would_carry(claim, scope)
            }
            fn merge(
                &self,
                declared: &[&reconciled_provider::Resource],
                seen: Option<&reconciled_provider::Observed>,
                tracked: Option<&reconciled_provider::Tracked>,
                claims: &[reconciled_provider::Claim],
            ) -> Result<Option<reconciled_provider::Merged>, reconciled_provider::Error> {
                self.inner.merge(declared, seen, tracked, claims)
            }
            fn woken(&self) -> std::collections::BTreeSet<reconciled_provider::Scope> {
                self.inner.woken()
            }
            fn hints(&self) -> futures_core::stream::BoxStream<'static, reconciled_provider::Hint> {
                self.inner.hints()
            }
            async fn kinds(
                &self,
                cx: &reconciled_provider::Cx,
            ) -> Result<std::sync::Arc<reconciled_provider::Kinds>, reconciled_provider::Error> {
                let cx = &*self.within(cx);
                self.around("kinds", None, self.inner.kinds(cx)).await
            }
            async fn versions(
                &self,
                cx: &reconciled_provider::Cx,
                scopes: &[reconciled_provider::Scope],
            ) -> Result<
                std::collections::BTreeMap<reconciled_provider::Scope, reconciled_provider::Version>,
                reconciled_provider::Error,
            > {
                let cx = &*self.within(cx);
                self.around("versions", None, self.inner.versions(cx, scopes)).await
            }
            fn sweep(
                &self,
                cx: &reconciled_provider::Cx,
                scopes: &[reconciled_provider::Scope],
            ) -> Option<Box<dyn std::any::Any + Send>> {
                self.inner.sweep(cx, scopes)
            }
            async fn observe(
                &self,
                cx: &reconciled_provider::Cx,
                want: &reconciled_provider::Want<'_>,
            ) -> Result<reconciled_provider::Observation, reconciled_provider::Error> {
                let cx = &*self.within(cx);
                self.around("observe", Some(want.scope), self.inner.observe(cx, want)).await
            }
            async fn diff(
                &self,
                cx: &reconciled_provider::Cx,
                want: &reconciled_provider::Want<'_>,
                seen: &reconciled_provider::Observation,
            ) -> Result<reconciled_provider::Deltas, reconciled_provider::Error> {
                let cx = &*self.within(cx);
                self.inner.diff(cx, want, seen).await
            }
            fn lint(
                &self,
                scope: &reconciled_provider::Scope,
                declared: &[reconciled_provider::Linted<'_>],
                around: reconciled_provider::Around<'_>,
            ) -> Vec<reconciled_provider::Finding> {
                self.inner.lint(scope, declared, around)
            }
            fn left_alone(
                &self,
                scope: &reconciled_provider::Scope,
                rules: &[std::sync::Arc<str>],
                observed: &reconciled_provider::Observed,
                seen: &reconciled_provider::Observation,
            ) -> Option<reconciled_provider::LeftAlone> {
                self.inner.left_alone(scope, rules, observed, seen)
            }
            fn holder(&self, scope: &reconciled_provider::Scope) -> Option<reconciled_provider::ResourceId> {
                self.inner.holder(scope)
            }
            fn shared_names(&self) -> Option<&'static str> {
                self.inner.shared_names()
            }
            fn hides(
                &self,
                scope: &reconciled_provider::Scope,
                other: &reconciled_provider::Scope,
                id: &reconciled_provider::ResourceId,
            ) -> bool {
                self.inner.hides(scope, other, id)
            }
            fn sends(
                &self,
                scope: &reconciled_provider::Scope,
                other: &reconciled_provider::Scope,
                id: &reconciled_provider::ResourceId,
            ) -> bool {
                self.inner.sends(scope, other, id)
            }
            fn points_at(&self, scope: &reconciled_provider::Scope) -> Option<String> {
                self.inner.points_at(scope)
            }
            fn heeds_interval(&self) -> bool {
                self.inner.heeds_interval()
            }
            fn only_reads(&self, id: &reconciled_provider::ResourceId) -> bool {
                self.inner.only_reads(id)
            }
            fn takes_marks_away(&self, id: &reconciled_provider::ResourceId) -> bool {
                self.inner.takes_marks_away(id)
            }
            fn remains<'s>(
                &self,
                scope: &reconciled_provider::Scope,
                id: &reconciled_provider::ResourceId,
                seen: &'s reconciled_provider::Observation,
            ) -> Option<&'s reconciled_provider::Observed> {
                self.inner.remains(scope, id, seen)
            }
            fn leaves_mark(
                &self,
                scope: &reconciled_provider::Scope,
                id: &reconciled_provider::ResourceId,
                seen: &reconciled_provider::Observation,
            ) -> bool {
                self.inner.leaves_mark(scope, id, seen)
            }
            fn is_owned_whole(&self, observed: &reconciled_provider::Observed) -> bool {
                self.inner.is_owned_whole(observed)
            }
            fn identity(&self, tracked: &reconciled_provider::Tracked) -> Option<std::sync::Arc<str>> {
                self.inner.identity(tracked)
            }
            fn remote_names(
                &self,
                id: &reconciled_provider::ResourceId,
                private: &reconciled_provider::Sealed,
            ) -> reconciled_provider::RemoteNames {
                self.inner.remote_names(id, private)
            }
            fn former_names(
                &self,
                id: &reconciled_provider::ResourceId,
                private: &reconciled_provider::Sealed,
            ) -> Vec<reconciled_provider::RemoteNames> {
                self.inner.former_names(id, private)
            }
            fn tells_health(&self) -> bool {
                self.inner.tells_health()
            }
            fn was_unwell(&self, scope: &reconciled_provider::Scope, unwell: &[reconciled_provider::Unwell]) {
                self.inner.was_unwell(scope, unwell)
            }
            async fn health(
                &self,
                cx: &reconciled_provider::Cx,
                want: &reconciled_provider::Want<'_>,
            ) -> Result<
                Vec<(reconciled_provider::ResourceId, reconciled_provider::Health)>,
                reconciled_provider::Error,
            > {
                let cx = &*self.within(cx);
                self.around("health", Some(want.scope), self.inner.health(cx, want)).await
            }
            async fn facts(
                &self,
                cx: &reconciled_provider::Cx,
                scope: &reconciled_provider::Scope,
            ) -> Result<Vec<reconciled_provider::Fact>, reconciled_provider::Error> {
                let cx = &*self.within(cx);
                self.around("facts", Some(scope), self.inner.facts(cx, scope)).await
            }
            async fn endings(
                &self,
                cx: &reconciled_provider::Cx,
                scope: &reconciled_provider::Scope,
            ) -> Result<Vec<reconciled_provider::Ending>, reconciled_provider::Error> {
                self.inner.endings(cx, scope).await
            }
            async fn discover(
                &self,
                cx: &reconciled_provider::Cx,
                query: &str,
            ) -> Result<Vec<reconciled_provider::Found>, reconciled_provider::Error> {
                let cx = &*self.within(cx);
                self.around("discover", None, self.inner.discover(cx, query)).await
            }
        }
    };
}

#[cfg(test)]
pub(crate) use forward_observer;

mod failpoint;
mod rate;
mod tally;
mod trace;

pub use failpoint::Failpoints;
pub use rate::{Bucket, RateLimit};
pub use tally::Tally;
pub use trace::Trace;

/// Wraps the provider of the entry `name` as every entry is wrapped. Returns also the bucket of its rate limit.
pub fn wrap(
    provider: Arc<dyn Provider>,
    name: &Arc<str>,
    rate: Option<Rate>,
    clock: Arc<dyn Clock>,
    tally: Arc<Tally>,
    metrics: Arc<Metrics>,
) -> (Arc<dyn Provider>, Option<Arc<Bucket>>) {
    let provider: Arc<dyn Provider> =
        if crate::failpoint::armed().is_some() { Arc::new(Failpoints::new(provider)) } else { provider };
    let bucket = rate.map(|rate| Arc::new(Bucket::new(rate, clock)));
    let provider: Arc<dyn Provider> = match &bucket {
        Some(bucket) => Arc::new(RateLimit::new(provider, bucket.clone())),
        None => provider,
    };
    (Arc::new(Trace::new(provider, name.clone(), tally, metrics)), bucket)
}
