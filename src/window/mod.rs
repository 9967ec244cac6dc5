//! When a source may write: windows in time, each begun by a cron line and lasting for a while.
//!
//! # Guarantees
//! - Pure: the time is given. The same time gives the same answer, also across a change to or from summer time.
//! - A `deny` window that is open beats every `allow`; where there is an `allow`, outside of all of them is closed.
//! - A window lasts as long as it says in hours that pass, whatever clocks are set to meanwhile.
//!
//! # Not here
//! What a closed window stops: that is the planner's, which takes it as a suspension (`session::suspended`).

mod cron;

pub use cron::{Cron, CronError};

use jiff::{Timestamp, tz::TimeZone};
use reconciled_engine::Passes;
use std::{sync::Arc, time::Duration};

/// One window.
#[derive(Clone, Debug)]
pub struct Window {
    /// Nothing is written while it is open; else something is written only while it or another one is.
    pub denies: bool,
    /// When it opens.
    pub cron: Cron,
    /// For how long.
    pub duration: Duration,
    /// Where the times of `cron` are meant.
    pub zone: TimeZone,
    /// What is written all the same while the source is closed on its account.
    pub passes: Passes,
}

/// The windows of a source.
#[derive(Clone, Debug, Default)]
pub struct Windows(pub Arc<[Window]>);

/// Nothing is written now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Until when, since the epoch; none where no end is in sight.
    pub until: Option<Duration>,
    /// For people: why, and until when in the zone of the window.
    pub why: String,
    /// What is written all the same.
    pub passes: Passes,
}

/// How many ends and beginnings are looked through for one at which it opens.
const LOOKED_THROUGH: usize = 64;

impl Windows {
    /// What is closed at `now`, if anything is.
    pub fn closed(&self, now: Duration) -> Option<Closed> {
        let (passes, cause) = self.cause(now)?;
        let until = self.opens(now);
        let zone = cause.map_or(TimeZone::UTC, |window| window.zone.clone());
        let until_text = until.map_or_else(String::new, |until| format!(" until {}", shown(until, zone)));
        let why = match cause {
            Some(window) if window.denies => format!("deny {:?}", window.cron.text()),
            _ => "outside of what the windows allow".into(),
        };
        Some(Closed { until, why: format!("window closed{until_text} ({why})"), passes })
    }

    /// Why it is closed, and what passes all the same: where several windows say so, the strictest counts.
    fn cause(&self, now: Duration) -> Option<(Passes, Option<&Window>)> {
        let denying: Vec<&Window> = self.0.iter().filter(|w| w.denies && w.end(now).is_some()).collect();
        if let Some(passes) = strictest(&denying) {
            return Some((passes, denying.into_iter().max_by_key(|window| window.end(now))));
        }
        let allowing: Vec<&Window> = self.0.iter().filter(|window| !window.denies).collect();
        let passes = strictest(&allowing)?;
        let is_open = allowing.iter().any(|window| window.end(now).is_some());
        (!is_open).then(|| (passes, allowing.first().copied()))
    }

    /// When it opens again after `now`, at which it is closed.
    fn opens(&self, now: Duration) -> Option<Duration> {
        let mut at = now;
        for _ in 0..LOOKED_THROUGH {
            // All that deny have to end; where nothing denies, something has to allow.
            let denied =
                self.0.iter().filter(|window| window.denies).filter_map(|window| window.end(at)).max();
            let allowed =
                || self.0.iter().filter(|window| !window.denies).filter_map(|window| window.next(at)).min();
            at = denied.or_else(allowed)?;
            if self.cause(at).is_none() {
                return Some(at);
            }
        }
        None
    }
}

fn strictest(windows: &[&Window]) -> Option<Passes> {
    let heals = windows.iter().map(|window| window.passes.heals).min()?;
    let all = |lets: fn(&Passes) -> bool| windows.iter().all(|window| lets(&window.passes));
    Some(Passes { heals, rollback: all(|passes| passes.rollback), manual: all(|passes| passes.manual) })
}

impl Window {
    /// When it ends, if it is open at `now`.
    fn end(&self, now: Duration) -> Option<Duration> {
        let end = self.cron.last(now, &self.zone)? + self.duration;
        (end > now).then_some(end)
    }

    /// When it begins next.
    fn next(&self, now: Duration) -> Option<Duration> {
        self.cron.next(now, &self.zone)
    }
}

fn shown(at: Duration, zone: TimeZone) -> String {
    let at = Timestamp::from_second(i64::try_from(at.as_secs()).unwrap_or(i64::MAX));
    at.map_or_else(|_| String::new(), |at| at.to_zoned(zone).strftime("%Y-%m-%d %H:%M %Z").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    use reconciled_engine::Heals;

    fn at(text: &str) -> Duration {
        let at = text.parse::<Timestamp>().unwrap().as_second();
        Duration::from_secs(at.try_into().unwrap())
    }

    /// `deny CRON for HOURS`, in Berlin.
    fn windows(lines: &[&str]) -> Windows {
        let window = |line: &&str| {
            let (word, rest) = line.split_once(' ').unwrap();
            let (cron, hours) = rest.split_once(" for ").unwrap();
            Window {
                denies: word == "deny",
                cron: Cron::parse(cron).unwrap(),
                duration: Duration::from_secs(hours.parse::<u64>().unwrap() * 3600),
                zone: TimeZone::get("Europe/Berlin").unwrap(),
                passes: Passes::default(),
            }
        };
        Windows(lines.iter().map(window).collect())
    }

    #[track_caller]
    fn check(windows: &Windows, now: &str, said: Option<&str>) {
        assert_eq!(windows.closed(at(now)).map(|closed| closed.why).as_deref(), said, "{now}");
    }

    #[test]
    fn a_weekend_is_closed_from_friday_evening_to_monday_morning() {
        let weekend = windows(&["deny 0 18 * * FRI for 62"]);
        let said = Some("window closed until 2026-11-23 08:00 CET (deny \"0 18 * * FRI\")");
        check(&weekend, "2026-11-20T17:59:59+01:00", None);
        check(&weekend, "2026-11-20T18:00:00+01:00", said);
        check(&weekend, "2026-11-22T12:00:00+01:00", said);
        check(&weekend, "2026-11-23T07:59:59+01:00", said);
        check(&weekend, "2026-11-23T08:00:00+01:00", None);
    }

    #[test]
    fn where_something_is_allowed_the_rest_is_closed_and_deny_beats_it() {
        let nights = windows(&["allow 0 2 * * * for 3"]);
        check(&nights, "2026-11-20T03:00:00+01:00", None);
        let said = "window closed until 2026-11-21 02:00 CET (outside of what the windows allow)";
        check(&nights, "2026-11-20T05:00:00+01:00", Some(said));
        let both = windows(&["allow 0 2 * * * for 3", "deny 0 4 * * * for 4"]);
        check(&both, "2026-11-20T03:00:00+01:00", None);
        // The end of the denial is no opening: what is allowed is over by then.
        let said = "window closed until 2026-11-21 02:00 CET (deny \"0 4 * * *\")";
        check(&both, "2026-11-20T04:30:00+01:00", Some(said));
        check(&windows(&[]), "2026-11-20T04:30:00+01:00", None);
    }

    #[test]
    fn an_end_that_another_window_covers_is_no_end() {
        let two = windows(&["deny 0 1 * * * for 2", "deny 0 2 * * * for 4"]);
        let said = Some("window closed until 2026-11-20 06:00 CET (deny \"0 1 * * *\")");
        check(&two, "2026-11-20T01:30:00+01:00", said);
        // Closed for good: no end is in sight.
        let always = windows(&["deny 0 0 * * * for 48"]);
        check(&always, "2026-11-20T01:30:00+01:00", Some("window closed (deny \"0 0 * * *\")"));
        assert_eq!(always.closed(at("2026-11-20T01:30:00Z")).unwrap().until, None);
    }

    #[test]
    fn a_window_that_would_begin_in_the_gap_of_spring_begins_after_it() {
        let gap = windows(&["deny 30 2 * * SUN for 1"]);
        check(&gap, "2026-03-29T01:59:59+01:00", None);
        let said = Some("window closed until 2026-03-29 04:00 CEST (deny \"30 2 * * SUN\")");
        check(&gap, "2026-03-29T03:00:00+02:00", said);
        check(&gap, "2026-03-29T03:59:59+02:00", said);
        check(&gap, "2026-03-29T04:00:00+02:00", None);
        // Hours that pass: the weekend of spring ends an hour later by the clock.
        let weekend = windows(&["deny 0 18 * * FRI for 62"]);
        let said = Some("window closed until 2026-03-30 09:00 CEST (deny \"0 18 * * FRI\")");
        check(&weekend, "2026-03-28T12:00:00+01:00", said);
    }

    #[test]
    fn a_window_of_the_hour_that_comes_twice_in_autumn_begins_once() {
        let twice = windows(&["deny 30 2 * * SUN for 1"]);
        check(&twice, "2026-10-25T02:29:59+02:00", None);
        let said = Some("window closed until 2026-10-25 02:30 CET (deny \"30 2 * * SUN\")");
        check(&twice, "2026-10-25T02:30:00+02:00", said);
        // By the clock this is before half past two, and after it all the same.
        check(&twice, "2026-10-25T02:10:00+01:00", said);
        check(&twice, "2026-10-25T02:30:00+01:00", None);
        check(&twice, "2026-10-25T03:00:00+01:00", None);
    }

    #[test]
    fn the_strictest_of_several_windows_says_what_heals() {
        let mut all = windows(&["deny 0 1 * * * for 2", "deny 0 2 * * * for 4"]).0.to_vec();
        all[0].passes = Passes { heals: Heals::Everything, rollback: true, manual: true };
        all[1].passes = Passes { heals: Heals::Protected, rollback: false, manual: false };
        let all = Windows(all.into());
        assert_eq!(all.closed(at("2026-11-20T01:30:00+01:00")).unwrap().passes, all.0[0].passes);
        assert_eq!(all.closed(at("2026-11-20T02:30:00+01:00")).unwrap().passes, all.0[1].passes);
    }
}
