//! A token bucket for each entry: requests wait their turn instead of being refused by the remote.
//!
//! Each request of a call takes a token where the provider asks for its turn; a call of one that never asks takes one.

use crate::config::Rate;
use async_trait::async_trait;
use reconciled_provider::{
    Batch, Clock, Cx, Error, Journal, Pace, Provider, Renewal, ResourceId, Scope, Turns,
};
use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The tokens of one entry. A burst of one period's calls is let through at once.
pub struct Bucket {
    rate: Rate,
    clock: Arc<dyn Clock>,
    level: Mutex<Level>,
}

/// How full a bucket is.
#[derive(Default)]
struct Level {
    /// When it would be full again if nobody called.
    full_at: Duration,
    /// When it was last looked at.
    seen_at: Duration,
}

impl Level {
    /// Goes along with a clock that went back: what is missing does not take longer for that.
    fn look(&mut self, now: Duration) {
        self.full_at = self.full_at.saturating_sub(self.seen_at.saturating_sub(now));
        self.seen_at = now;
    }
}

impl Bucket {
    /// A full bucket.
    pub fn new(rate: Rate, clock: Arc<dyn Clock>) -> Bucket {
        Bucket { rate, clock, level: Mutex::default() }
    }

    /// How many calls would be let through at once now.
    pub fn left(&self) -> u32 {
        let each = self.each();
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        level.look(now);
        let missing = level.full_at.saturating_sub(now);
        let used = missing.as_nanos().div_ceil(each.as_nanos().max(1));
        self.rate.count.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    fn each(&self) -> Duration {
        self.rate.per / self.rate.count.max(1)
    }

    /// Takes one token and says how long to wait for it (generic cell rate algorithm).
    fn take(&self) -> Duration {
        let each = self.each();
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        level.look(now);
        let start = level.full_at.max(now);
        level.full_at = start + each;
        (start + each).saturating_sub(now + self.rate.per)
    }

    async fn turn(&self) {
        let wait = self.take();
        if !wait.is_zero() {
            self.clock.sleep(wait).await;
        }
    }
}

/// The requests of one call: the first has the token that the call took.
struct Requests {
    bucket: Arc<Bucket>,
    has_begun: AtomicBool,
}

#[async_trait]
impl Turns for Requests {
    async fn turn(&self) {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            self.bucket.turn().await;
        }
    }
}

/// Limits the calls of an inner provider.
pub struct RateLimit {
    inner: Arc<dyn Provider>,
    bucket: Arc<Bucket>,
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .field("rate", &self.bucket.rate)
            .finish_non_exhaustive()
    }
}

impl RateLimit {
    /// Limits `inner` to what `bucket` has.
    pub fn new(inner: Arc<dyn Provider>, bucket: Arc<Bucket>) -> RateLimit {
        RateLimit { inner, bucket }
    }

    async fn around<T>(
        &self,
        _: &'static str,
        _: Option<&Scope>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.bucket.turn().await;
        work.await
    }

    fn within<'a>(&self, cx: &'a Cx) -> Cow<'a, Cx> {
        let requests = Requests { bucket: self.bucket.clone(), has_begun: AtomicBool::new(false) };
        Cow::Owned(Cx { pace: Pace::of(requests), ..cx.clone() })
    }
}

forward_observer!(RateLimit);

#[async_trait]
impl Provider for RateLimit {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        let cx = &*self.within(cx);
        self.around("apply", Some(&batch.scope), self.inner.apply(cx, batch, journal)).await
    }
    async fn can_renew(&self, cx: &Cx, scope: &Scope, id: &ResourceId, way: &Renewal) -> Result<(), Error> {
        self.inner.can_renew(cx, scope, id, way).await
    }
    async fn renew(&self, cx: &Cx, scope: &Scope, id: &ResourceId, way: &Renewal) -> Result<(), Error> {
        let cx = &*self.within(cx);
        self.around("renew", Some(scope), self.inner.renew(cx, scope, id, way)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_testkit::context::HandClock;

    #[tokio::test]
    async fn each_request_of_a_call_takes_a_token_and_one_without_requests_takes_one() {
        let bucket = Arc::new(Bucket::new(
            Rate { count: 9, per: Duration::from_secs(1) },
            Arc::new(HandClock::default()),
        ));
        for (requests, left) in [(0, 8), (1, 7), (3, 4)] {
            bucket.turn().await;
            let pace = Pace::of(Requests { bucket: bucket.clone(), has_begun: AtomicBool::new(false) });
            for _ in 0..requests {
                pace.turn().await;
            }
            assert_eq!(bucket.left(), left, "{requests}");
        }
    }

    #[test]
    fn a_burst_goes_through_and_the_next_call_waits_its_turn() {
        let clock = Arc::new(HandClock::default());
        let bucket = Bucket::new(Rate { count: 2, per: Duration::from_secs(1) }, clock.clone());
        assert_eq!(bucket.left(), 2);
        assert_eq!((bucket.take(), bucket.take()), (Duration::ZERO, Duration::ZERO));
        assert_eq!(bucket.left(), 0);
        assert_eq!(bucket.take(), Duration::from_millis(500));
        clock.advance(Duration::from_secs(1));
        assert_eq!(bucket.left(), 1);
        clock.advance(Duration::from_secs(10));
        assert_eq!((bucket.left(), bucket.take()), (2, Duration::ZERO));
    }

    #[test]
    fn a_clock_that_goes_back_makes_nobody_wait_for_it() {
        let clock = Arc::new(HandClock::default());
        clock.advance(Duration::from_hours(48));
        let bucket = Bucket::new(Rate { count: 2, per: Duration::from_secs(1) }, clock.clone());
        for _ in 0..3 {
            bucket.take();
        }
        // The clock counts milliseconds in 64 bits, and goes on from the beginning after the last.
        clock.advance(Duration::from_millis(u64::MAX - 86_400_000 + 1));
        assert_eq!((bucket.left(), bucket.take()), (0, Duration::from_secs(1)));
        clock.advance(Duration::from_secs(2));
        assert_eq!(bucket.left(), 2);
    }
}
