//! When a call that failed is made again.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(2);

/// The longest wait between two attempts.
pub(super) const LONGEST: Duration = Duration::from_secs(600);

/// How long to wait after an attempt that failed as `failures` before it did: twice as long each time.
pub(super) fn backoff(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.min(16)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_twice_the_one_before_and_none_is_longer_than_the_longest() {
        assert_eq!([0, 1, 8].map(backoff).map(|wait| wait.as_secs()), [2, 4, 512]);
        assert_eq!([9, 16, u32::MAX].map(backoff), [LONGEST; 3]);
    }
}
