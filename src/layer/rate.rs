//! A token bucket for each entry: calls wait their turn instead of being refused by the remote.

use crate::config::Rate;
use async_trait::async_trait;
use reconciled_provider::{Batch, Clock, Cx, Error, Journal, Provider, Scope};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Limits the calls of an inner provider. A burst of one period's calls is let through at once.
pub struct RateLimit {
    inner: Arc<dyn Provider>,
    rate: Rate,
    clock: Arc<dyn Clock>,
    /// When the bucket would be full again if nobody called.
    full_at: Mutex<Duration>,
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .field("rate", &self.rate)
            .finish_non_exhaustive()
    }
}

impl RateLimit {
    /// Limits `inner` to `rate`.
    pub fn new(inner: Arc<dyn Provider>, rate: Rate, clock: Arc<dyn Clock>) -> RateLimit {
        RateLimit { inner, rate, clock, full_at: Mutex::new(Duration::ZERO) }
    }

    /// Takes one token and says how long to wait for it (generic cell rate algorithm).
    fn take(&self) -> Duration {
        let each = self.rate.per / self.rate.count.max(1);
        let now = self.clock.now();
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (*full_at).max(now);
        *full_at = start + each;
        (start + each).saturating_sub(now + self.rate.per)
    }

    async fn around<T>(
        &self,
        _: &'static str,
        _: Option<&Scope>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let wait = self.take();
        if !wait.is_zero() {
            self.clock.sleep(wait).await;
        }
        work.await
    }
}

forward_observer!(RateLimit);

#[async_trait]
impl Provider for RateLimit {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        self.around("apply", Some(&batch.scope), self.inner.apply(cx, batch, journal)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_testkit::{Calm, Reference, Role, World, context::HandClock};

    #[test]
    fn a_burst_goes_through_and_the_next_call_waits_its_turn() {
        let clock = Arc::new(HandClock::default());
        let inner =
            Arc::new(Reference::new(Role::Zone, "zone", "me", Arc::new(World::default()), Arc::new(Calm)));
        let limit = RateLimit::new(inner, Rate { count: 2, per: Duration::from_secs(1) }, clock.clone());
        assert_eq!((limit.take(), limit.take()), (Duration::ZERO, Duration::ZERO));
        assert_eq!(limit.take(), Duration::from_millis(500));
        clock.advance(Duration::from_secs(10));
        assert_eq!(limit.take(), Duration::ZERO);
    }
}
