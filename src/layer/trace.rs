//! Spans, one line and a count for each call that reaches a remote.

use super::tally::{Counting, Tally};
use crate::telemetry::{Metrics, names};
use async_trait::async_trait;
use reconciled_provider::{
    Answers, Batch, Cx, Error, Journal, Listener, Provider, Renewal, ResourceId, Scope,
};
use std::{borrow::Cow, sync::Arc};
use tracing::Instrument;

/// Traces an inner provider.
#[derive(Debug)]
pub struct Trace {
    inner: Arc<dyn Provider>,
    /// Name of the entry.
    entry: Arc<str>,
    tally: Arc<Tally>,
    metrics: Arc<Metrics>,
}

impl Trace {
    /// Traces `inner`, the provider of `entry`.
    pub fn new(inner: Arc<dyn Provider>, entry: Arc<str>, tally: Arc<Tally>, metrics: Arc<Metrics>) -> Trace {
        Trace { inner, entry, tally, metrics }
    }

    fn within<'a>(&self, cx: &'a Cx) -> Cow<'a, Cx> {
        let counted = Counted { entry: self.entry.clone(), metrics: self.metrics.clone() };
        Cow::Owned(Cx { answers: Answers::of(counted), ..cx.clone() })
    }

    async fn around<T>(
        &self,
        call: &'static str,
        scope: Option<&Scope>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let name = scope.map_or_else(|| self.inner.info().type_name.to_string(), ToString::to_string);
        let error = tracing::field::Empty;
        let span = tracing::debug_span!(names::CALL, call, scope = %name, error);
        let reading = (call == "observe").then(|| self.tally.reading());
        let result = work.instrument(span.clone()).await;
        drop(reading);
        let failed = result.as_ref().err().map(|error| error.kind.word());
        if let Some(word) = failed {
            span.record(names::ERROR, word);
        }
        drop(span);
        self.metrics.called(&self.entry, call, failed.unwrap_or("ok"));
        match &result {
            Ok(_) => tracing::debug!(call, scope = %name, "call answered"),
            Err(error) => {
                tracing::debug!(call, scope = %name, kind = error.kind.word(), error = %error.chain(), "call failed")
            }
        }
        result
    }
}

/// Counts the requests of one entry.
struct Counted {
    entry: Arc<str>,
    metrics: Arc<Metrics>,
}

impl Listener for Counted {
    fn answered(&self, status: Option<u16>) {
        self.metrics.answered(&self.entry, status);
    }
}

forward_observer!(Trace);

#[async_trait]
impl Provider for Trace {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        tracing::info!(scope = %batch.scope, actions = batch.actions.len(), "apply");
        self.tally.begun(batch.actions.len());
        let counting = Counting { journal, tally: &self.tally };
        let cx = &*self.within(cx);
        self.around("apply", Some(&batch.scope), self.inner.apply(cx, batch, &counting)).await
    }
    async fn can_renew(&self, cx: &Cx, scope: &Scope, id: &ResourceId, way: &Renewal) -> Result<(), Error> {
        self.inner.can_renew(cx, scope, id, way).await
    }
    async fn renew(&self, cx: &Cx, scope: &Scope, id: &ResourceId, way: &Renewal) -> Result<(), Error> {
        let cx = &*self.within(cx);
        self.around("renew", Some(scope), self.inner.renew(cx, scope, id, way)).await
    }
}
