//! Serials that are counted by days, in the custom of RFC 1912 §2.2: `YYYYMMDDnn`.

use std::time::Duration;

/// The serial before the first one of a day (in UTC). None where no such number has room, from the year 4295 on.
pub(crate) fn of_day(now: Duration) -> Option<u32> {
    let seconds = i64::try_from(now.as_secs()).ok()?;
    let date = time::OffsetDateTime::from_unix_timestamp(seconds).ok()?.date();
    let year = u32::try_from(date.year()).ok()?.checked_mul(1_000_000)?;
    Some(year + u32::from(u8::from(date.month())) * 10_000 + u32::from(date.day()) * 100)
}
