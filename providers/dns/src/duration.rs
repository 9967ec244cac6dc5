//! Durations of configuration: `30s`, `500ms`, `1h30m`, or a number of seconds.

use serde::{Deserializer, de};
use std::{fmt, time::Duration};

/// Reads a duration from text, or from a number of seconds.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    struct Visitor;
    impl de::Visitor<'_> for Visitor {
        type Value = Duration;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration such as `30s`")
        }
        fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Duration, E> {
            positive(Duration::from_secs(seconds))
        }
        fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Duration, E> {
            self.visit_u64(u64::try_from(seconds).unwrap_or(0))
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
            let duration = parse(text).ok_or_else(|| {
                E::custom(format!("`{text}` is no duration: write it like `30s`, `500ms` or `1h30m`"))
            })?;
            positive(duration)
        }
    }
    deserializer.deserialize_any(Visitor)
}

fn positive<E: de::Error>(duration: Duration) -> Result<Duration, E> {
    if duration.is_zero() { Err(E::custom("a timeout of nothing leaves no time")) } else { Ok(duration) }
}

fn parse(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let factor = match &rest[..unit] {
            "ms" => Duration::from_millis(1),
            "s" | "" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3_600),
            _ => return None,
        };
        total = total.checked_add(factor.checked_mul(u32::try_from(number).ok()?)?)?;
        rest = &rest[unit..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_or_are_seconds() {
        let check = |text: &str, millis: Option<u64>| {
            assert_eq!(parse(text), millis.map(Duration::from_millis), "{text}");
        };
        check("30s", Some(30_000));
        check("500ms", Some(500));
        check("1h30m", Some(5_400_000));
        check("5", Some(5_000));
        for text in ["", "s", "3x", "-1s", "1.5s", "99999999999h"] {
            check(text, None);
        }
    }

    #[test]
    fn configuration_reads_text_and_numbers_and_refuses_no_time_at_all() {
        let read = |json: &str| {
            let config: Result<crate::powerdns::Config, _> =
                serde_json::from_str(&format!(r#"{{"url": "http://a.example", "timeout": {json}}}"#));
            config.map(|config| config.timeout).map_err(|error| error.to_string())
        };
        assert_eq!(read("\"2m\""), Ok(Duration::from_secs(120)));
        assert_eq!(read("7"), Ok(Duration::from_secs(7)));
        assert!(read("\"soon\"").unwrap_err().contains("`soon` is no duration"));
        assert!(read("0").unwrap_err().contains("no time"));
    }
}
