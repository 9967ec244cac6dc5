//! What every call gets besides its arguments: time, secrets, a deadline, a wish to stop.

use crate::secret::Secrets;
use async_trait::async_trait;
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

/// The only source of time in the engine and in providers.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Time since the Unix epoch.
    fn now(&self) -> Duration;
    /// Returns after `wait` has passed on this clock.
    async fn sleep(&self, wait: Duration);
}

/// A wish to stop: set once, seen by everyone. In-flight calls finish, no new ones begin.
///
/// ```
/// use reconciled_provider::Stop;
/// let stop = Stop::default();
/// let seen = stop.clone();
/// stop.set();
/// assert!(seen.is_set());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    set: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Stop {
    /// Wishes to stop.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut *self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(Waker::wake);
    }
    /// True once someone wished to stop.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }
    /// Returns once someone wished to stop.
    pub fn wished(&self) -> impl Future<Output = ()> + Send + use<> {
        let stop = self.clone();
        std::future::poll_fn(move |cx| {
            let mut waiting = stop.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the lock: `set` takes it after the flag, so no wake is lost.
            if stop.is_set() {
                return Poll::Ready(());
            }
            if !waiting.iter().any(|w| w.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}

/// The context of a call.
#[derive(Clone)]
pub struct Cx {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The secrets.
    pub secrets: Arc<dyn Secrets>,
    /// How long the call may take in all.
    pub deadline: Duration,
    /// Set when the call should come to an end at the next action boundary.
    pub stop: Stop,
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("deadline", &self.deadline)
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}
