//! A schedule as cron writes it, in the words of `systemd.time(7)`. Pure.

/// The times of `OnCalendar=` that are those of a schedule, without a time zone.
///
/// Each field is written out, so that nothing depends on how the two languages count steps. Two times come of a schedule
/// that restricts both the day of the month and the day of the week: for cron either will do, for systemd both must be.
/// Where one of the two begins with `*`, also as `*/2`, both must be for cron as well: crontab(5).
pub(super) fn calendar(schedule: &str) -> Result<Vec<String>, String> {
    let schedule = match schedule.trim() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        "@reboot" => return Err("`@reboot` is no time: a unit that is enabled runs at boot".into()),
        other => other,
    };
    let fields: Vec<&str> = schedule.split_ascii_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return Err(format!("it has {} fields, and cron has five", fields.len()));
    };
    let minutes = Field::parse(minute, "minute", 0, 59, &[])?.numbers(2);
    let hours = Field::parse(hour, "hour", 0, 23, &[])?.numbers(2);
    let days = Field::parse(day, "day of the month", 1, 31, &[])?;
    let months = Field::parse(month, "month", 1, 12, MONTHS)?;
    let weekdays = Field::parse(weekday, "day of the week", 0, 7, WEEKDAYS)?;
    let names = if weekdays.is_all_by_star() { String::new() } else { weekdays.weekdays() };
    let comes = |month: &u32| days.allowed.first().is_some_and(|day| *day <= LONGEST[*month as usize - 1]);
    let is_either = !days.begins_with_star && !weekdays.begins_with_star;
    if !is_either && !months.allowed.iter().any(comes) {
        return Err("none of its months has such a day, so it would never run".into());
    }
    let months = months.numbers(2);
    let at = |names: &str, days: &str| {
        let space = if names.is_empty() { "" } else { " " };
        format!("{names}{space}*-{months}-{days} {hours}:{minutes}:00")
    };
    Ok(match is_either {
        true => vec![at("", &days.numbers(2)), at(&names, "*")],
        false => vec![at(&names, &days.numbers(2))],
    })
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Days of each month, where it has most of them.
const LONGEST: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// What one field allows.
struct Field {
    /// For cron, it restricts nothing, whatever follows.
    begins_with_star: bool,
    allowed: Vec<u32>,
    all: usize,
}

impl Field {
    fn parse(text: &str, what: &str, low: u32, high: u32, names: &[&str]) -> Result<Field, String> {
        let wrong = |part: &str| format!("`{}` is no {what}", part.escape_debug());
        let number = |word: &str| {
            let named = names.iter().position(|name| word.eq_ignore_ascii_case(name));
            let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + low);
            let plain = word.chars().all(|c| c.is_ascii_digit()).then(|| word.parse().ok()).flatten();
            named.or(plain).filter(|number| (low..=high).contains(number))
        };
        let mut allowed = Vec::new();
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, Some(step.parse().map_err(|_| wrong(part))?)),
                None => (part, None),
            };
            let (from, to) = match (range, range.split_once('-')) {
                ("*", _) => (Some(low), Some(high)),
                (_, Some((from, to))) => (number(from), number(to)),
                // `5/15` goes on to the end.
                (one, None) => (number(one), if step.is_some() { Some(high) } else { number(one) }),
            };
            let (Some(from), Some(to)) = (from, to) else { return Err(wrong(part)) };
            let step: usize = step.unwrap_or(1);
            if from > to || step == 0 {
                return Err(wrong(part));
            }
            allowed.extend((from..=to).step_by(step));
        }
        if high == 7 {
            // Both are Sunday.
            allowed.iter_mut().filter(|day| **day == 7).for_each(|day| *day = 0);
        }
        allowed.sort_unstable();
        allowed.dedup();
        let all = if high == 7 { 7 } else { (high - low + 1) as usize };
        Ok(Field { begins_with_star: text.starts_with('*'), allowed, all })
    }

    fn numbers(&self, width: usize) -> String {
        if self.allowed.len() == self.all {
            return "*".into();
        }
        let numbers: Vec<String> = self.allowed.iter().map(|number| format!("{number:0width$}")).collect();
        numbers.join(",")
    }

    fn is_all_by_star(&self) -> bool {
        self.begins_with_star && self.allowed.len() == self.all
    }

    /// In the order of systemd's week.
    fn weekdays(&self) -> String {
        const NAMES: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
        let week = [1, 2, 3, 4, 5, 6, 0];
        let days: Vec<&str> = week
            .into_iter()
            .filter(|day| self.allowed.contains(&u32::try_from(*day).unwrap_or_default()))
            .map(|day| NAMES[day])
            .collect();
        days.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schedule: &str, expect: &[&str]) {
        assert_eq!(calendar(schedule).unwrap(), expect, "{schedule}");
    }

    #[test]
    fn schedules_of_cron_are_times_of_systemd() {
        check("30 2 * * *", &["*-*-* 02:30:00"]);
        check("*/15 * * * *", &["*-*-* *:00,15,30,45:00"]);
        check("0 9-17/4 * * mon-fri", &["Mon,Tue,Wed,Thu,Fri *-*-* 09,13,17:00:00"]);
        check("5 4 1,15 * *", &["*-*-01,15 04:05:00"]);
        check("0 0 * JAN,jul 7", &["Sun *-01,07-* 00:00:00"]);
        check("0 0 * * 5-7", &["Fri,Sat,Sun *-*-* 00:00:00"]);
        check("50/5 1 * * *", &["*-*-* 01:50,55:00"]);
        check("@weekly", &["Sun *-*-* 00:00:00"]);
        check("* * * * *", &["*-*-* *:*:00"]);
        check("0 0 29 2 *", &["*-02-29 00:00:00"]);
        check("0 0 31 2,3 *", &["*-02,03-31 00:00:00"]);
    }

    #[test]
    fn either_day_will_do_where_both_are_restricted() {
        check("0 3 13 * fri", &["*-*-13 03:00:00", "Fri *-*-* 03:00:00"]);
        check("0 3 1-31 * fri", &["*-*-* 03:00:00", "Fri *-*-* 03:00:00"]);
    }

    #[test]
    fn both_days_must_be_where_one_field_begins_with_a_star() {
        let odd = "01,03,05,07,09,11,13,15,17,19,21,23,25,27,29,31";
        check("0 3 */2 * fri", &[&format!("Fri *-*-{odd} 03:00:00")]);
        check("0 3 13 * */5", &["Fri,Sun *-*-13 03:00:00"]);
        check("0 3 */2 * *", &[&format!("*-*-{odd} 03:00:00")]);
    }

    #[test]
    fn what_is_no_schedule_says_which_part_is_not() {
        let refuse = |schedule: &str, part: &str| {
            let why = calendar(schedule).unwrap_err();
            assert!(why.contains(part), "{schedule}: {why}");
        };
        refuse("* * * *", "4 fields");
        refuse("60 * * * *", "`60` is no minute");
        refuse("* * 0 * *", "`0` is no day of the month");
        refuse("* * * 13 *", "`13` is no month");
        refuse("* * * * 8", "`8` is no day of the week");
        refuse("5-1 * * * *", "`5-1` is no minute");
        refuse("*/0 * * * *", "`*/0` is no minute");
        refuse("+5 * * * *", "`+5` is no minute");
        refuse("@reboot", "enabled");
        refuse("0 0 30 2 *", "never run");
        refuse("0 0 31 4,6,9,11 *", "never run");
        refuse("0 0 30 2 */2", "never run");
    }
}
