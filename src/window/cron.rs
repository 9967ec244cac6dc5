//! Five fields of cron, as crontab(5) has them, in a time zone.
//!
//! The crate `cron` finds the days. It has a field for seconds, counts Sunday as 1 and joins day of month and day of
//! week with "and"; crontab counts Sunday as 0 or 7 and joins them with "or". Days are translated here, and a line
//! that restricts both is refused, because half its readers would take it for the other thing.
//!
//! The crate looks for times on a clock without summer time; which moment such a time is, is decided here: one in
//! the gap of spring is the end of the gap, one that comes twice in autumn is the first.

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use cron::Schedule;
use jiff::{
    Timestamp,
    tz::{AmbiguousOffset, Offset, TimeZone},
};
use std::{collections::BTreeSet, str::FromStr, time::Duration};

/// A line of five fields.
#[derive(Clone, Debug)]
pub struct Cron {
    text: String,
    schedule: Schedule,
}

/// Why a text is no such line; says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CronError(String);

/// Clocks are set forth or back by less.
const SHIFT: TimeDelta = TimeDelta::hours(3);

impl Cron {
    /// Reads `MINUTE HOUR DAY MONTH WEEKDAY`.
    ///
    /// # Errors
    /// Not five fields, a field that is none, or days that never come.
    pub fn parse(text: &str) -> Result<Cron, CronError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(CronError(format!(
                "`{text}` is not five fields: write minute hour day month weekday, as in \"0 18 * * FRI\""
            )));
        };
        let is_any = |field: &str| matches!(field, "*" | "?");
        if !is_any(day) && !is_any(weekday) {
            return Err(CronError(format!(
                "`{text}` restricts day and weekday, which cron joins with \"or\": write one window for each"
            )));
        }
        let weekday = match is_any(weekday) {
            true => "*".into(),
            false => weekdays(weekday).ok_or_else(|| {
                CronError(format!("`{weekday}` is no weekday: write 0-7 (0 and 7 are Sunday) or SUN-SAT"))
            })?,
        };
        let schedule = Schedule::from_str(&format!("0 {minute} {hour} {day} {month} {weekday}"));
        let schedule = schedule.map_err(|_| {
            CronError(format!(
                "`{text}` cannot be read: write minute hour day month weekday, as in \"0 18 * * FRI\""
            ))
        })?;
        if schedule.after(&DateTime::<Utc>::UNIX_EPOCH).next().is_none() {
            return Err(CronError(format!("`{text}` never comes")));
        }
        Ok(Cron { text: text.into(), schedule })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The last time at or before `now`, since the epoch.
    pub fn last(&self, now: Duration, zone: &TimeZone) -> Option<Duration> {
        let from = local(now, zone)? + SHIFT;
        let mut before = self.schedule.after(&from.and_utc()).rev();
        before.find_map(|at| moment(at.naive_utc(), zone).filter(|at| *at <= now))
    }

    /// The first time after `now`, since the epoch.
    pub fn next(&self, now: Duration, zone: &TimeZone) -> Option<Duration> {
        let from = local(now, zone)? - SHIFT;
        let mut after = self.schedule.after(&from.and_utc());
        after.find_map(|at| moment(at.naive_utc(), zone).filter(|at| *at > now))
    }
}

/// What a clock in `zone` shows.
fn local(at: Duration, zone: &TimeZone) -> Option<NaiveDateTime> {
    let at = i64::try_from(at.as_secs()).ok()?;
    let offset = zone.to_offset(Timestamp::from_second(at).ok()?);
    Some(DateTime::<Utc>::from_timestamp(at + i64::from(offset.seconds()), 0)?.naive_utc())
}

/// Which moment a clock in `zone` shows as `at`.
fn moment(at: NaiveDateTime, zone: &TimeZone) -> Option<Duration> {
    let mut at = at;
    loop {
        let shown = Offset::UTC.to_datetime(Timestamp::from_second(at.and_utc().timestamp()).ok()?);
        match zone.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                let found = offset.to_timestamp(shown).ok()?;
                return u64::try_from(found.as_second()).ok().map(Duration::from_secs);
            }
            // Gaps begin and end at whole minutes.
            AmbiguousOffset::Gap { .. } => {
                at += TimeDelta::minutes(1) - TimeDelta::seconds(at.and_utc().timestamp() % 60);
            }
        }
    }
}

const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A field of weekdays in the numbers of the crate: 1 is Sunday.
fn weekdays(field: &str) -> Option<String> {
    let mut days = BTreeSet::new();
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<usize>().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (first, last) = match (range, range.split_once('-')) {
            ("*", _) => (0, 6),
            (_, Some((first, last))) => (weekday(first)?, weekday(last)?),
            // `5/2` is not in crontab(5).
            (_, None) if step > 1 => return None,
            (one, None) => (weekday(one)?, weekday(one)?),
        };
        // FRI-MON goes over the end of the week, and so does 5-0.
        let last = if last < first { last + 7 } else { last };
        days.extend((first..=last).step_by(step).map(|day| day % 7 + 1));
    }
    Some(days.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

/// 0 to 7, where 0 and 7 are Sunday.
fn weekday(text: &str) -> Option<usize> {
    let text = text.to_ascii_lowercase();
    match text.parse::<usize>() {
        Ok(number) => Some(number).filter(|number| *number <= 7),
        Err(_) => DAYS.iter().position(|day| *day == text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_week_are_those_of_crontab() {
        for (field, days) in [
            ("0", "1"),
            ("7", "1"),
            ("sun", "1"),
            ("FRI", "6"),
            ("1-5", "2,3,4,5,6"),
            ("5-7", "1,6,7"),
            ("FRI-MON", "1,2,6,7"),
            ("*/2", "1,3,5,7"),
            ("1-5/2", "2,4,6"),
            ("0,6", "1,7"),
        ] {
            assert_eq!(weekdays(field).as_deref(), Some(days), "{field}");
        }
        for wrong in ["8", "friday-", "x", "", "5/2", "1-5/0", "-1"] {
            assert_eq!(weekdays(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_line_says_what_to_write() {
        for (line, said) in [
            (
                "0 18 * *",
                "`0 18 * *` is not five fields: write minute hour day month weekday, as in \"0 18 * * FRI\"",
            ),
            (
                "0 0 18 * * FRI",
                "`0 0 18 * * FRI` is not five fields: write minute hour day month weekday, as in \"0 18 * * FRI\"",
            ),
            (
                "0 18 13 * FRI",
                "`0 18 13 * FRI` restricts day and weekday, which cron joins with \"or\": write one window for each",
            ),
            ("0 18 * * 8", "`8` is no weekday: write 0-7 (0 and 7 are Sunday) or SUN-SAT"),
            (
                "61 18 * * *",
                "`61 18 * * *` cannot be read: write minute hour day month weekday, as in \"0 18 * * FRI\"",
            ),
            ("0 0 30 2 *", "`0 0 30 2 *` never comes"),
        ] {
            assert_eq!(Cron::parse(line).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn times_before_and_after_are_found_in_the_zone() {
        let (cron, berlin) = (Cron::parse("0 18 * * 5").unwrap(), TimeZone::get("Europe/Berlin").unwrap());
        // Friday, 2026-11-20, 18:00 in Berlin.
        let friday = Duration::from_secs(1_795_194_000);
        let week = Duration::from_secs(7 * 86_400);
        let second = Duration::from_secs(1);
        assert_eq!(cron.last(friday, &berlin), Some(friday));
        assert_eq!(cron.next(friday, &berlin), Some(friday + week));
        assert_eq!(cron.last(friday - second, &berlin), Some(friday - week));
        assert_eq!(cron.next(friday - second, &berlin), Some(friday));
    }
}
