//! How long an authority asks to be left alone: in a header, or in what it says. Pure, but for the time handed in.

use std::time::{Duration, UNIX_EPOCH};
use time::{PrimitiveDateTime, macros::format_description};

/// What `Retry-After` says (RFC 9110 §10.2.3): seconds, or a moment in one of the three forms of a date.
pub(super) fn said(text: &str, now: Duration) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(at.saturating_sub(now))
}

/// What the text of a refusal says, as Let's Encrypt writes it: `retry after 2026-11-23 07:10:00 UTC`; none where that is over.
pub(super) fn told(text: &str, now: Duration) -> Option<Duration> {
    let (_, rest) = text.split_once("retry after ")?;
    let moment = rest.split_once(" UTC")?.0;
    let form = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    let at = PrimitiveDateTime::parse(moment, form).ok()?.assume_utc().unix_timestamp();
    let wait = Duration::from_secs(u64::try_from(at).ok()?).saturating_sub(now);
    (!wait.is_zero()).then_some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1994-11-06 08:49:37, the example of the RFC.
    const THEN: Duration = Duration::from_secs(784_111_777);

    #[test]
    fn a_header_has_seconds_or_a_date_in_any_form() {
        let check = |text: &str, expect: Option<u64>| {
            let now = THEN - Duration::from_secs(100);
            assert_eq!(said(text, now), expect.map(Duration::from_secs), "{text}");
        };
        check("3600", Some(3_600));
        check(" 17 ", Some(17));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(100));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(100));
        check("Sun Nov  6 08:49:37 1994", Some(100));
        check("Sun, 06 Nov 1994 08:40:00 GMT", Some(0));
        check("soon", None);
        check("-1", None);
        check("", None);
    }

    #[test]
    fn a_text_may_say_when() {
        let check = |text: &str, expect: Option<u64>| {
            let now = THEN - Duration::from_secs(100);
            assert_eq!(told(text, now), expect.map(Duration::from_secs), "{text}");
        };
        let limit = "too many new orders (300) from this account in the last 3h0m0s, retry after";
        check(
            &format!("{limit} 1994-11-06 08:49:37 UTC: see https://letsencrypt.org/docs/rate-limits"),
            Some(100),
        );
        check(&format!("{limit} 1970-01-01 00:18:15 UTC"), None);
        check(&format!("{limit} tomorrow UTC"), None);
        check("retry after 1994-11-06 08:49:37", None);
        check("too many", None);
    }
}
