//! The instance that is at work at a moment, for all that outlives one.

use super::{follower::stopping, instance::Instance};
use crate::failure::Failure;
use reconciled_provider::Stop;
use std::sync::Arc;
use tokio::sync::watch;

/// The instance that is at work. A reload puts another in its place.
pub struct Daemon {
    current: watch::Sender<Arc<Instance>>,
    /// Says that the process shall stop, for those who stream.
    pub stop: Stop,
}

impl Daemon {
    pub(crate) fn new(first: Arc<Instance>) -> Daemon {
        Daemon { current: watch::Sender::new(first), stop: Stop::default() }
    }

    /// The instance at this moment.
    pub fn instance(&self) -> Arc<Instance> {
        self.current.borrow().clone()
    }

    pub(crate) fn replace(&self, next: Arc<Instance>) {
        self.current.send_replace(next);
    }

    /// The instance that takes the place of one that ends; none once the process stops.
    pub(super) async fn after(&self, ending: &Arc<Instance>) -> Option<Arc<Instance>> {
        let mut current = self.current.subscribe();
        tokio::select! {
            biased;
            () = self.stop.wished() => None,
            next = current.wait_for(|current| !Arc::ptr_eq(current, ending)) => next.ok().map(|next| next.clone()),
        }
    }

    /// What `ask` comes to, asked again of the next instance where a reload ended the one that was asked: nobody is told of
    /// a failure that is only that.
    pub(crate) async fn asked<T, W>(&self, ask: impl Fn(Arc<Instance>) -> W) -> Result<T, Failure>
    where
        W: Future<Output = Result<T, Failure>>,
    {
        let mut instance = self.instance();
        loop {
            match ask(instance.clone()).await {
                Err(_) if instance.is_ending() => {
                    instance = self.after(&instance).await.ok_or_else(stopping)?;
                }
                answer => return answer,
            }
        }
    }
}
