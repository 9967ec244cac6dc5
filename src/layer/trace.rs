//! Spans and one line for each call that reaches a remote.

use async_trait::async_trait;
use reconciled_provider::{Batch, Cx, Error, Journal, Provider, Scope};
use std::sync::Arc;
use tracing::Instrument;

/// Traces an inner provider.
#[derive(Debug)]
pub struct Trace {
    inner: Arc<dyn Provider>,
}

impl Trace {
    /// Traces `inner`.
    pub fn new(inner: Arc<dyn Provider>) -> Trace {
        Trace { inner }
    }

    async fn around<T>(
        &self,
        call: &'static str,
        scope: Option<&Scope>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let name = scope.map_or_else(|| self.inner.info().type_name.to_string(), ToString::to_string);
        let span = tracing::debug_span!("call", call, scope = %name);
        let result = work.instrument(span).await;
        match &result {
            Ok(_) => tracing::debug!(call, scope = %name, "call answered"),
            Err(error) => {
                tracing::debug!(call, scope = %name, kind = error.kind.word(), error = %error.chain(), "call failed")
            }
        }
        result
    }
}

forward_observer!(Trace);

#[async_trait]
impl Provider for Trace {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        tracing::info!(scope = %batch.scope, actions = batch.actions.len(), "apply");
        self.around("apply", Some(&batch.scope), self.inner.apply(cx, batch, journal)).await
    }
}
