//! Who waits for an answer goes before who does not: a resync lets pushes and people through.
//!
//! Guarantees: what makes way is late by [`LONGEST`] at most before each scope's memory is read, and before it is looked at, so
//! that it ends, however busy the daemon is. It deliberately stops nothing that has begun.

use reconciled_provider::Clock;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long one step of one scope waits for others at most.
const LONGEST: Duration = Duration::from_secs(1);
/// How long nobody must have been in a hurry: what was planned is about to be carried out.
const QUIET: Duration = Duration::from_millis(200);
/// How often it is looked for that.
const PAUSE: Duration = Duration::from_millis(20);

/// Says who is in a hurry; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Hurry(Arc<Mutex<Hurried>>);

#[derive(Debug, Default)]
struct Hurried {
    now: usize,
    last: Option<Duration>,
}

/// Somebody is in a hurry for as long as this lives.
pub struct Rush {
    hurry: Hurry,
    clock: Arc<dyn Clock>,
}

impl Hurry {
    /// Lets others wait from here on.
    pub fn rush(&self, clock: &Arc<dyn Clock>) -> Rush {
        self.lock().now += 1;
        Rush { hurry: self.clone(), clock: clock.clone() }
    }

    /// Waits while anybody is in a hurry.
    pub(super) async fn make_way(&self, clock: &dyn Clock) {
        // Counted, as a clock may be set back.
        for _ in 0..LONGEST.as_millis() / PAUSE.as_millis() {
            if !self.is_on(clock.now()) {
                break;
            }
            clock.sleep(PAUSE).await;
        }
    }

    fn is_on(&self, now: Duration) -> bool {
        let hurried = self.lock();
        let is_recent = |last| now.checked_sub(last).is_some_and(|since| since < QUIET);
        hurried.now > 0 || hurried.last.is_some_and(is_recent)
    }

    fn lock(&self) -> MutexGuard<'_, Hurried> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Rush {
    fn drop(&mut self) {
        let mut hurried = self.hurry.lock();
        hurried.now -= 1;
        hurried.last = Some(self.clock.now());
    }
}

impl fmt::Debug for Rush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rush").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use futures_executor::block_on;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Time passes while somebody sleeps.
    struct Dream(AtomicU64);

    #[async_trait]
    impl Clock for Dream {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }
        async fn sleep(&self, wait: Duration) {
            self.0.fetch_add(wait.as_millis() as u64, Ordering::Relaxed);
        }
    }

    #[test]
    fn others_are_let_through_and_nobody_waits_for_ever() {
        let dream = Arc::new(Dream(AtomicU64::new(10_000)));
        let (hurry, clock) = (Hurry::default(), dream.clone() as Arc<dyn Clock>);
        let wait = || {
            let from = clock.now();
            block_on(hurry.make_way(&*clock));
            clock.now().checked_sub(from).unwrap()
        };
        assert_eq!(wait(), Duration::ZERO);
        let rush = hurry.rush(&clock);
        assert_eq!(wait(), LONGEST);
        drop(rush);
        assert_eq!(wait(), QUIET);
        assert_eq!(wait(), Duration::ZERO);

        drop(hurry.rush(&clock));
        dream.0.store(0, Ordering::Relaxed);
        assert_eq!(wait(), Duration::ZERO, "the clock was set back");
    }
}
