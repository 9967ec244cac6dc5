//! What an error means for the next try: the consequence is decided by its kind, nowhere else.

use reconciled_provider::{Error, ErrorKind, ProviderInfo};
use std::time::Duration;

/// What happens after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing until the revision, the credentials or a person changes something.
    Stalled,
    /// Observed again at once.
    Now,
    /// Tried again after this long; counted as a failure.
    Backoff(Duration),
    /// Tried again after this long; not counted.
    AsTold(Duration),
}

/// How failures of one scope spread out. Reset by success and by a new revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Failures in a row.
    pub count: u32,
    /// Conflicts in a row.
    pub conflicts: u32,
}

/// First wait after a failure.
const BASE: Duration = Duration::from_secs(1);
/// Longest wait after failures, unless a provider says otherwise of what it makes.
pub(crate) const CAP: Duration = ProviderInfo::BACKOFF;
/// Conflicts that are observed again at once before they count as failures.
const CONFLICTS: u32 = 3;
/// Longest wait a remote can ask for.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Decides what happens after `error`. `jitter` is a random number in 0..=255, `cap` the longest wait that doubles.
pub fn next(error: &Error, failures: &mut Failures, jitter: u8, cap: Duration) -> Next {
    match error.kind {
        ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::PermissionDenied => Next::Stalled,
        ErrorKind::Conflict if failures.conflicts < CONFLICTS => {
            failures.conflicts += 1;
            Next::Now
        }
        ErrorKind::RateLimited => Next::AsTold(error.retry_after.unwrap_or(BASE * 30).min(LONGEST)),
        ErrorKind::Conflict | ErrorKind::Unavailable | ErrorKind::Unexpected => {
            failures.count += 1;
            let told = error.retry_after.unwrap_or_default().min(LONGEST);
            Next::Backoff(backoff(failures.count, jitter, cap).max(told))
        }
    }
}

/// `rand(0.5..1) × min(cap, 1 s × 2ⁿ)`.
pub(crate) fn backoff(count: u32, jitter: u8, cap: Duration) -> Duration {
    let full = BASE.saturating_mul(1 << count.saturating_sub(1).min(16)).min(cap);
    full / 2 + full / 2 * u32::from(jitter) / 255
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_stay_within_their_half() {
        for (count, full) in [(1, 1), (2, 2), (5, 16), (9, 256), (10, 300), (60, 300)] {
            let full = Duration::from_secs(full);
            assert_eq!(backoff(count, 0, CAP), full / 2);
            assert_eq!(backoff(count, 255, CAP), full);
        }
        let longer = CAP * 6;
        for (count, full) in [(9, 256), (10, 512), (11, 1_024), (12, 1_800), (60, 1_800)] {
            assert_eq!(backoff(count, 255, longer), Duration::from_secs(full));
        }
    }

    #[test]
    fn a_fourth_conflict_backs_off() {
        let mut failures = Failures::default();
        let conflict = Error::conflict("moved");
        for _ in 0..3 {
            assert_eq!(next(&conflict, &mut failures, 0, CAP), Next::Now);
        }
        assert!(matches!(next(&conflict, &mut failures, 0, CAP), Next::Backoff(_)));
    }

    #[test]
    fn a_rate_limit_is_no_failure_and_waits_as_told() {
        let mut failures = Failures::default();
        let error = Error::rate_limited("slow down").retry_after(Duration::from_secs(7));
        assert_eq!(next(&error, &mut failures, 0, CAP), Next::AsTold(Duration::from_secs(7)));
        assert_eq!(failures, Failures::default());
    }
}
