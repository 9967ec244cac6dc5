//! Times for people and machines. All are durations since the Unix epoch, in UTC; none is read from a clock.

use ::time::{OffsetDateTime, format_description::well_known::Rfc3339};
use std::time::Duration;

/// RFC 3339 with whole seconds: `2026-11-21T05:42:10Z`.
///
/// A time after the year 9999, which RFC 3339 cannot write, becomes the last second of it.
pub fn rfc3339(since_epoch: Duration) -> String {
    let last = ::time::macros::datetime!(9999-12-31 23:59:59 UTC);
    let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds).map_or(last, |t| t.min(last));
    time.format(&Rfc3339).expect("the year has four digits")
}

/// How long ago `then` was at `now`, in one unit: `now`, `42s`, `3m`, `2h`, `5d`. Later times: `in 3m`.
pub fn age(now: Duration, then: Duration) -> String {
    match now.checked_sub(then) {
        Some(ago) if ago.as_secs() == 0 => "now".to_string(),
        Some(ago) => span(ago),
        None => format!("in {}", span(then - now)),
    }
}

/// A duration in the largest unit of which there are at least two: `90s`, `3m`, `36h`, `5d`.
pub fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_in_utc() {
        assert_eq!(rfc3339(Duration::ZERO), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(Duration::from_millis(1_795_239_730_999)), "2026-11-21T05:42:10Z");
        assert_eq!(rfc3339(Duration::MAX), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn an_age_has_one_unit_and_no_less_than_two_of_it() {
        let now = Duration::from_secs(10_000_000);
        let ages = [0, 42, 119, 120, 3 * 60 + 59, 7_199, 7_200, 172_799, 172_800, 5 * 86_400]
            .map(|s| age(now, now - Duration::from_secs(s)));
        assert_eq!(ages, ["now", "42s", "119s", "2m", "3m", "119m", "2h", "47h", "2d", "5d"]);
        assert_eq!(age(now, now + Duration::from_secs(180)), "in 3m");
    }
}
