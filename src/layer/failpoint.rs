//! Failpoints around the calls that write: where the crash test kills the process.

use crate::failpoint::hit;
use async_trait::async_trait;
use reconciled_provider::{
    ActionId, Batch, Claim, Cx, Error, Journal, Outcome, Provider, Renewal, ResourceId, Scope, Tracked,
};
use std::{borrow::Cow, sync::Arc};

/// Passes through failpoints around an inner provider's `apply` and its journal.
#[derive(Debug)]
pub struct Failpoints {
    inner: Arc<dyn Provider>,
}

impl Failpoints {
    /// Failpoints around `inner`.
    pub fn new(inner: Arc<dyn Provider>) -> Failpoints {
        Failpoints { inner }
    }

    fn within<'a>(&self, cx: &'a Cx) -> Cow<'a, Cx> {
        Cow::Borrowed(cx)
    }

    async fn around<T>(
        &self,
        _: &'static str,
        _: Option<&Scope>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        hit("observe.before");
        let result = work.await;
        hit("observe.after");
        result
    }
}

forward_observer!(Failpoints);

#[async_trait]
impl Provider for Failpoints {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        hit("apply.before");
        let result = self.inner.apply(cx, batch, &Between(journal)).await;
        hit("apply.after");
        result
    }
    async fn can_renew(&self, cx: &Cx, scope: &Scope, id: &ResourceId, way: &Renewal) -> Result<(), Error> {
        self.inner.can_renew(cx, scope, id, way).await
    }
    async fn renew(&self, cx: &Cx, scope: &Scope, id: &ResourceId, way: &Renewal) -> Result<(), Error> {
        self.inner.renew(cx, scope, id, way).await
    }
}

/// A journal with a failpoint on each side of the remote's call.
struct Between<'a>(&'a dyn Journal);

#[async_trait]
impl Journal for Between<'_> {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        self.0.started(actions).await?;
        hit("call.before");
        Ok(())
    }
    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error> {
        hit("progress.before");
        self.0.progress(action, tracked).await?;
        hit("progress.after");
        Ok(())
    }
    async fn foreseen(&self, outcomes: &[(ActionId, Outcome)]) {
        self.0.foreseen(outcomes).await;
    }
    fn has_place(&self, action: ActionId, claims: &[Claim]) -> Result<(), Error> {
        self.0.has_place(action, claims)
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        hit("call.after");
        self.0.finished(outcomes).await
    }
}
