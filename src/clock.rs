//! The real clock: the one place that asks the operating system for the time.

use async_trait::async_trait;
use reconciled_provider::Clock;
use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

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
    fn up(&self) -> Duration {
        up(&fs::read_to_string("/proc/uptime").unwrap_or_default())
    }
}

/// What the kernel says of how long it has run: seconds, and what is of no interest here.
fn up(said: &str) -> Duration {
    let seconds = said.split_whitespace().next().and_then(|seconds| seconds.parse().ok());
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_the_host_has_been_up_is_what_the_kernel_says() {
        assert_eq!(up("5025.75 9123.01\n"), Duration::from_millis(5_025_750));
        for nothing in ["", "soon", "-1.0 0.0", "inf 0.0"] {
            assert_eq!(up(nothing), Duration::ZERO, "{nothing:?}");
        }
        assert!(SystemClock.up() > Duration::ZERO);
    }
}
