//! A time as the reading verbs tell it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, time::Duration};

/// The last second of the year 9999, after which RFC 3339 cannot write a time.
const LAST: i64 = 253_402_300_799;

/// A time since the epoch; RFC 3339 in UTC when serialised, one after the year 9999 as the last second of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub Duration);

impl Stamp {
    /// True for the last time there is, which stands for never.
    pub fn is_last(self) -> bool {
        self.0.as_secs() >= LAST as u64
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use time::{OffsetDateTime, format_description::well_known::Rfc3339};
        let seconds = i64::try_from(self.0.as_secs()).unwrap_or(LAST).min(LAST);
        let time = OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| fmt::Error)?;
        f.write_str(&time.format(&Rfc3339).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Stamp, D::Error> {
        use time::{OffsetDateTime, format_description::well_known::Rfc3339};
        let text = String::deserialize(deserializer)?;
        let time = OffsetDateTime::parse(&text, &Rfc3339)
            .map_err(|error| de::Error::custom(format_args!("`{text}` is no time of RFC 3339: {error}")))?;
        let seconds = u64::try_from(time.unix_timestamp()).map_err(de::Error::custom)?;
        Ok(Stamp(Duration::from_secs(seconds)))
    }
}

impl JsonSchema for Stamp {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Stamp".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_written_so_that_it_can_be_read() {
        let check = |seconds: u64, expect: &str| {
            let text = serde_json::to_string(&Stamp(Duration::from_secs(seconds))).unwrap();
            assert_eq!(text, format!("\"{expect}\""));
            assert!(serde_json::from_str::<Stamp>(&text).is_ok(), "{text}");
        };
        check(0, "1970-01-01T00:00:00Z");
        check(LAST as u64, "9999-12-31T23:59:59Z");
        check(LAST as u64 + 1, "9999-12-31T23:59:59Z");
        check(u64::MAX, "9999-12-31T23:59:59Z");
    }
}
