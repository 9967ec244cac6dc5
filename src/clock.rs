//! The real clock: the one place that asks the operating system for the time.

use async_trait::async_trait;
use reconciled_provider::Clock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall-clock time, and tokio's timer.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everything else is given")]
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
    async fn sleep(&self, wait: Duration) {
        tokio::time::sleep(wait).await;
    }
}
