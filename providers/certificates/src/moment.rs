//! Moments in seconds since 1970: the one it is, and others as people read them.

use reconciled_provider::Cx;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// The one it is now.
pub(crate) fn now(cx: &Cx) -> u64 {
    cx.clock.now().as_secs()
}

/// A moment, for people.
pub(crate) fn moment(seconds: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp(seconds as i64).ok();
    moment.and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_else(|| seconds.to_string())
}
