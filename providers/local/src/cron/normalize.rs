//! Manifests of cron jobs to units. Pure.

use super::{
    CRON,
    kind::{CRON_JOB, Concurrency, CronJobSpec, MissedRuns},
    schedule::calendar,
};
use crate::{
    Config,
    deployment::{self, DEPLOYMENT},
    normalize::{known_or_waiting, unknown},
    systemd::{self, HistoryLimits, OnChange, RunState, Unit},
};
use jiff::tz::{self, TimeZone};
use reconciled_provider::{
    At, Inputs, Manifest, Normalized, Problem, Resource, ResourceId, Scope, Span, problem::did_you_mean,
};
use std::sync::Arc;

/// Turns a manifest of a cron job into its units.
pub(crate) fn normalize(config: &Config, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
    let is_ours = &*manifest.api_version == crate::kind::API_VERSION && &*manifest.kind == CRON_JOB;
    if !is_ours || !manifest.is_for(inputs.entry(), inputs.is_sole()) {
        return Normalized::default();
    }
    let (spec, mut problems) = manifest.spec::<CronJobSpec>();
    let name = &*manifest.name;
    let mut refuse = |span: Span, message: String, hint: &str| {
        problems.push(manifest.error(span, message).hint(hint));
    };
    if config.has_no_units() {
        let message = format!("provider `{}` manages no units: it has no `bus`", inputs.entry());
        refuse(manifest.span, message, "in the host configuration, write bus: system for this entry");
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":-_.".contains(c);
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.chars().all(is_plain) {
        let message = format!("`{}` is no name of a job", name.escape_debug());
        refuse(manifest.span, message, "use letters, digits, `-`, `_` and `.`");
    }
    let units = spec.map(|spec| units(config, name, &spec, &mut refuse));
    let is_same = |other: &&Manifest| {
        let names = units.iter().flatten().any(|(unit, _)| **unit == *other.name);
        names && other.is_for(inputs.entry(), inputs.is_sole())
    };
    if let Some(other) = inputs.siblings(systemd::UNIT).into_iter().find(is_same) {
        let message = format!("{} is a unit of the job {name}, and declared by itself as well", other.name);
        problems.push(manifest.error(manifest.span, message).hint("declare it in one of the two places"));
    }
    let is_template = |other: &&Manifest| {
        let template = deployment::template(&other.name);
        let names = units.iter().flatten().any(|(unit, _)| *unit == template);
        names && other.is_for(inputs.entry(), inputs.is_sole())
    };
    if let Some(other) = inputs.siblings(DEPLOYMENT).into_iter().find(is_template) {
        let message = format!("the template of the job {name} is that of Deployment/{} as well", other.name);
        problems.push(manifest.error(manifest.span, message).hint("give one of the two another name"));
    }
    let mut out = Normalized { problems, ..Normalized::default() };
    let Some(units) = units.filter(|_| !out.problems.iter().any(Problem::is_error)) else { return out };
    // Both units are made from all of it, and neither is written before all of it is known.
    let waits_for = unknown(&manifest.spec);
    let scope = Arc::new(Scope::new(inputs.entry(), CRON));
    let policy = inputs.policy(manifest.policy.clone());
    let names = units.iter().map(|(unit, _)| (scope.clone(), unit.as_str().into(), systemd::remote(unit)));
    out.remotes.extend(names);
    out.resources.extend(units.into_iter().map(|(id, unit)| {
        Resource::new(
            ResourceId::from(id),
            scope.clone(),
            known_or_waiting(unit.encode(), &waits_for),
            manifest.origin(manifest.span),
            policy,
        )
    }));
    out
}

/// The units of a job, by name.
fn units(
    config: &Config,
    name: &str,
    spec: &CronJobSpec,
    refuse: &mut impl FnMut(Span, String, &str),
) -> Vec<(String, Unit)> {
    let is_of_user = config.places.is_user();
    let mut wrong = |span: Span, message: &str, hint: &str| refuse(span, message.to_owned(), hint);
    check(spec, is_of_user, &mut wrong);
    let times = calendar(&spec.schedule.value).unwrap_or_else(|why| {
        if !spec.schedule.unknown.is_empty() {
            return Vec::new();
        }
        let text = format!("`{}` is no schedule: {why}", spec.schedule.value.escape_debug());
        refuse(spec.schedule.span, text, "write five fields, such as \"30 2 * * *\", or @daily");
        Vec::new()
    });
    let zone = zone(spec, refuse);
    let mut service = service(name, spec, refuse);
    let is_beside = spec.concurrency_policy == Concurrency::Allow;
    let history = HistoryLimits {
        successful: number(&spec.successful_jobs_history_limit, HistoryLimits::default().successful),
        failed: number(&spec.failed_jobs_history_limit, HistoryLimits::default().failed),
    };
    if is_beside {
        // Each run is a unit of its own, which nobody would ever take away.
        service = service.replacen("[Service]\n", "CollectMode=inactive-or-failed\n[Service]\n", 1);
    }
    let job = |content: String| Unit {
        content: Some(content),
        // A run that is on its way goes on as it began.
        on_change: OnChange::None,
        ..Unit::default()
    };
    let work = if is_beside { format!("{name}@.service") } else { format!("{name}.service") };
    let mut units = vec![(work, Unit { history, ..job(service) })];
    let mut timer =
        format!("[Unit]\nDescription=Times of job {name}: {}\n[Timer]\n", spec.schedule.value.trim());
    timer.extend(times.iter().map(|time| format!("OnCalendar={time}{zone}\n")));
    timer += "AccuracySec=1s\n";
    if spec.missed_runs == MissedRuns::Run {
        timer += "Persistent=true\n";
    }
    let deadline = spec.starting_deadline_seconds.as_ref().map(|at| at.value);
    let start = match spec.concurrency_policy {
        Concurrency::Forbid => deadline.map(|_| format!("start --no-block {name}.service")),
        Concurrency::Replace => Some(format!("restart --no-block {name}.service")),
        // The run of the unit that starts it is its name.
        Concurrency::Allow => Some(format!("start --no-block {name}@${{INVOCATION_ID}}.service")),
    };
    if let Some(start) = start {
        timer += &format!("Unit={name}-start.service\n");
        if !is_beside {
            // systemd forgets how a unit fared that nothing refers to.
            timer = timer.replacen("[Timer]\n", &format!("Before={name}.service\n[Timer]\n"), 1);
        }
        let condition = deadline.map(|seconds| {
            let times: Vec<String> = times.iter().map(|time| format!("{time}{zone}")).collect();
            in_time(&times, seconds)
        });
        let condition = condition.unwrap_or_default();
        let whose = if is_of_user { "--user " } else { "" };
        let start = format!(
            "[Unit]\nDescription=Start of job {name}\n[Service]\nType=oneshot\n{condition}ExecStart=systemctl {whose}{start}\n"
        );
        units.push((format!("{name}-start.service"), job(start)));
    }
    timer += "[Install]\nWantedBy=timers.target\n";
    let state = if spec.suspend { RunState::Stopped } else { RunState::Running };
    units.push((
        format!("{name}.timer"),
        Unit { content: Some(timer), enabled: Some(!spec.suspend), state: Some(state), ..Unit::default() },
    ));
    units
}

/// The time zone as systemd has it behind a time, empty for that of the host.
fn zone(spec: &CronJobSpec, refuse: &mut impl FnMut(Span, String, &str)) -> String {
    let Some(at) = &spec.time_zone else { return String::new() };
    // systemd drops a time whose zone it does not know, and refuses a timer without times.
    // It asks for the very name, in these letters.
    let is_meant = |zone: TimeZone| !zone.is_unknown() && zone.iana_name() == Some(&*at.value);
    let is_known = || TimeZone::get(&at.value).is_ok_and(is_meant);
    if at.unknown.is_empty() && !is_known() {
        let text = format!("`{}` is no time zone", at.value.escape_debug());
        let known: Vec<_> = tz::db().available().collect();
        let near = did_you_mean(&at.value, known.iter().map(|zone| zone.as_str()));
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        let general = "write a name of the IANA database, such as Europe/Berlin, or UTC";
        refuse(at.span, text, hint.as_deref().unwrap_or(general));
    }
    format!(" {}", at.value)
}

/// The unit that does the work.
fn service(name: &str, spec: &CronJobSpec, refuse: &mut impl FnMut(Span, String, &str)) -> String {
    let command: Vec<String> = spec.command.value.iter().map(|word| quoted(word, true)).collect();
    let has_line = |text: &str| text.contains(['\n', '\r', '\0']);
    if command.is_empty() || spec.command.value.iter().any(|word| has_line(word)) {
        let text = "the command is empty, or a word of it has a line break".to_owned();
        refuse(
            spec.command.span,
            text,
            "write the program and its arguments: [/usr/bin/find, /tmp, -delete]",
        );
    }
    let mut service =
        format!("[Unit]\nDescription=Job {name}\n[Service]\nType=oneshot\nExecStart={}\n", command.join(" "));
    let mut setting = |key: &str, span: Span, value: String, text: &str| {
        if has_line(text) || text.is_empty() {
            refuse(
                span,
                format!("the value of `{key}` is empty or has a line break"),
                "write it in one line",
            );
        }
        service += &format!("{key}={value}\n");
    };
    if let Some(at) = &spec.user {
        setting("User", at.span, at.value.replace('%', "%%"), &at.value);
    }
    if let Some(at) = &spec.working_directory {
        setting("WorkingDirectory", at.span, at.value.replace('%', "%%"), &at.value);
    }
    for (key, at) in &spec.environment {
        let text = format!("{key}={}", at.value);
        setting("Environment", at.span, quoted(&text, false), &text);
    }
    if let Some(at) = &spec.active_deadline_seconds {
        setting("TimeoutStartSec", at.span, at.value.to_string(), "seconds");
    }
    service
}

/// What is said of fields that only count beside others.
fn check(spec: &CronJobSpec, is_of_user: bool, wrong: &mut impl FnMut(Span, &str, &str)) {
    if let Some(at) = spec.user.as_ref().filter(|_| is_of_user) {
        wrong(at.span, "a user's manager runs everything as that user", "leave `user` out");
    }
    if let Some(at) =
        spec.starting_deadline_seconds.as_ref().filter(|at| at.unknown.is_empty() && at.value < 10)
    {
        wrong(at.span, "on a busy host a run may begin some seconds late", "write at least 10");
    }
    let limits = [&spec.successful_jobs_history_limit, &spec.failed_jobs_history_limit];
    for at in limits.into_iter().flatten() {
        if spec.concurrency_policy == Concurrency::Allow {
            let text = "with `concurrencyPolicy: Allow` each run is a unit that is gone when it ends, and none is remembered";
            wrong(at.span, text, "leave it out: the journal has them, `journalctl -u 'NAME@*'`");
        } else if at.unknown.is_empty() && at.value > MOST_RUNS {
            wrong(at.span, "so many runs are not remembered", "write at most 100: the journal has them all");
        }
    }
}

/// Most runs of a kind that are remembered.
const MOST_RUNS: u32 = 100;

fn number(at: &Option<At<u32>>, default: u32) -> u32 {
    at.as_ref().map_or(default, |at| at.value)
}

/// The condition that one of `times` came within the last `seconds`: the first one after that moment is past, as
/// `systemd-analyze calendar` says in words.
fn in_time(times: &[String], seconds: u32) -> String {
    let times: Vec<String> = times.iter().map(|time| format!("'{time}'")).collect();
    let ask =
        format!("systemd-analyze calendar --base-time=@$(($(date +%s) - {seconds})) {}", times.join(" "));
    // What cannot be asked is a failure, and not a run that came too late.
    let script = format!("said=$({ask}) || exit 255; echo \"$said\" | grep -Eq 'From now: .*(ago|now)$'");
    format!("ExecCondition=/bin/sh -c {}\n", quoted(&script, true))
}

/// A word as `systemd.service(5)` reads it back: `%` and, in commands, `$` stand for themselves.
fn quoted(word: &str, is_command: bool) -> String {
    let mut out = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '%' => out.push_str("%%"),
            '$' if is_command => out.push_str("$$"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_themselves() {
        assert_eq!(quoted("a b", true), "\"a b\"");
        assert_eq!(quoted("100%$HOME\"\\", true), "\"100%%$$HOME\\\"\\\\\"");
        assert_eq!(quoted("A=$B", false), "\"A=$B\"");
    }

    #[test]
    fn times_are_words_of_the_shell() {
        let condition = in_time(&["Fri *-*-* 03:00:00 UTC".into()], 60);
        assert!(condition.contains("@$$(($$(date +%%s) - 60)) 'Fri *-*-* 03:00:00 UTC')"), "{condition}");
    }
}
