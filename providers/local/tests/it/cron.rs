//! Cron jobs at a real systemd.

use crate::{desk::Desk, units::Machine};
use reconciled_provider::Health;

#[tokio::test]
async fn a_job_runs_what_is_declared_at_the_times_that_are_declared() {
    let Some(machine) = Machine::of("cron", |_| {}) else { return };
    let desk = &machine.desk;
    let spec = |rest: &str| {
        format!(
            "CronJob tidy {{schedule: '*/20 3 1,15 * fri', timeZone: UTC, environment: {{A: 'b $c'}}, \
             command: [/bin/sh, -c, 'echo \"$A 100%\" \"$0\" > /run/tidy', 'two words']{rest}}}"
        )
    };
    let plain = spec("");
    assert_eq!(desk.pass(&[&plain]).await.done, ["create tidy.service: done", "create tidy.timer: done"]);
    assert_eq!(desk.pass(&[&plain]).await.done, [""; 0]);
    assert_eq!(machine.property("tidy.timer", "ActiveState"), "active");
    assert_eq!(machine.property("tidy.timer", "UnitFileState"), "enabled");
    let times = machine.property("tidy.timer", "TimersCalendar");
    for time in ["*-*-01,15 03:00,20,40:00 UTC", "Fri *-*-* 03:00,20,40:00 UTC"] {
        assert!(times.contains(time), "{times}");
    }
    machine.run(&["systemctl", "start", "tidy.service"]);
    assert_eq!(machine.run(&["cat", "/run/tidy"]), "b $c 100% two words\n");

    // It runs on as it is; a replaced one has a unit more, which ends the run before.
    let replace = spec(", concurrencyPolicy: Replace, missedRuns: Run, activeDeadlineSeconds: 60")
        .replace("echo", "sleep 1d; echo");
    let done = desk.pass(&[&replace]).await.done;
    let expect = ["create tidy-start.service: done", "update tidy.service: done", "update tidy.timer: done"];
    assert!(done.len() == 3 && expect.iter().all(|line| done.iter().any(|is| is == line)), "{done:?}");
    assert_eq!(desk.pass(&[&replace]).await.done, [""; 0]);
    assert_eq!(machine.property("tidy.timer", "Persistent"), "yes");
    assert_eq!(machine.property("tidy.service", "TimeoutStartUSec"), "1min");
    machine.run(&["systemctl", "start", "tidy-start.service"]);
    crate::units::wait_for("it runs", || machine.pid("tidy.service") != "0");
    let first = machine.pid("tidy.service");
    assert_eq!(desk.pass(&[&replace]).await.done, [""; 0], "a run is no drift");
    machine.run(&["systemctl", "start", "tidy-start.service"]);
    crate::units::wait_for("another one runs", || {
        !["0".into(), first.clone()].contains(&machine.pid("tidy.service"))
    });

    // Each run is another unit, and gone when it is over.
    let beside = spec(", concurrencyPolicy: Allow").replace("echo", "test -e /run/end || sleep 1d; echo");
    desk.pass(&[&beside]).await;
    assert_eq!(desk.pass(&[&beside]).await.done, [""; 0]);
    let runs =
        || machine.run(&["systemctl", "list-units", "tidy@*", "--no-legend", "--plain"]).lines().count();
    for count in [1, 2] {
        machine.run(&["systemctl", "start", "tidy-start.service"]);
        crate::units::wait_for("one more runs", || runs() == count);
    }
    machine.run(&["systemctl", "kill", "tidy@*"]);
    crate::units::wait_for("they are gone, although they failed", || runs() == 0);

    let suspended = spec(", suspend: true");
    desk.pass(&[&suspended]).await;
    assert_eq!(machine.property("tidy.timer", "ActiveState"), "inactive");
    assert_eq!(machine.property("tidy.timer", "UnitFileState"), "disabled");
    assert_eq!(machine.property("tidy-start.service", "LoadState"), "not-found");

    let failing = "CronJob tidy {schedule: '@daily', command: [/bin/false]}";
    desk.pass(&[failing]).await;
    machine.run(&["systemctl", "kill", "-s", "KILL", "tidy.service"]);
    crate::units::wait_for("it ended", || machine.pid("tidy.service") == "0");
    machine.run(&["sh", "-c", "systemctl start tidy.service || true"]);
    let health = desk.health(&desk.desired(&[failing])).await;
    assert_eq!(health[0], Health::Degraded { why: "it failed: exit-code, exit status 1".into() });

    desk.pass(&[]).await;
    assert_eq!(machine.property("tidy.timer", "LoadState"), "not-found");
    assert_eq!(desk.pass(&[]).await.done, [""; 0]);
}

/// How the remembered runs of `tidy` ended, the oldest first.
fn results(desk: &Desk) -> Vec<String> {
    let runs = desk.outputs("tidy.service")["runs"].as_array().cloned().unwrap_or_default();
    runs.iter().map(|run| run["result"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn so_many_runs_are_remembered_as_is_declared_and_a_change_of_the_job_keeps_them() {
    for policy in ["Forbid", "Replace"] {
        let Some(machine) = Machine::of("cron", |_| {}) else { return };
        let desk = &machine.desk;
        let spec = |rest: &str| {
            format!(
                "CronJob tidy {{schedule: '@yearly', command: [/bin/sh, -c, 'test -e /run/well'], concurrencyPolicy: {policy}{rest}}}"
            )
        };
        let few = spec(", successfulJobsHistoryLimit: 2");
        desk.pass(&[&few]).await;
        assert_eq!(desk.pass(&[&few]).await.done, [""; 0]);
        assert_eq!(results(desk), [""; 0], "it never ran");
        let run = async |specs: &[&str]| {
            machine.run(&["sh", "-c", "systemctl start tidy.service || true"]);
            assert_eq!(desk.pass(specs).await.done, [""; 0], "{policy}: a run is no drift");
        };
        run(&[&few]).await;
        assert_eq!(results(desk), ["exit-code"], "{policy}");
        machine.run(&["touch", "/run/well"]);
        for _ in 0..3 {
            run(&[&few]).await;
        }
        assert_eq!(results(desk), ["exit-code", "success", "success"], "{policy}");
        // It was looked at before: the same run is no second one.
        desk.pass(&[&few]).await;
        assert_eq!(results(desk).len(), 3);
        let facts = desk.facts().await;
        assert!(facts.len() == 3 && facts[0].starts_with("run of tidy: success, "), "{facts:?}");
        assert!(facts[2].starts_with("run of tidy: exit-code, exit status 1, "), "{facts:?}");
        let other =
            spec(", successfulJobsHistoryLimit: 1, failedJobsHistoryLimit: 0, activeDeadlineSeconds: 5");
        assert_eq!(desk.pass(&[&other]).await.done, ["update tidy.service: done"]);
        assert_eq!(results(desk), ["exit-code", "success", "success"], "{policy}: kept over a change");
        desk.pass(&[&other]).await;
        assert_eq!(results(desk), ["success"], "{policy}: fewer are to be kept");
    }
}

#[tokio::test]
async fn a_run_that_would_begin_too_late_is_left_out() {
    let Some(machine) = Machine::of("cron", |_| {}) else { return };
    let desk = &machine.desk;
    let spec = |schedule: &str, policy: &str| {
        format!(
            "CronJob tidy {{schedule: '{schedule}', timeZone: Europe/Berlin, command: [/bin/touch, /run/tidy], \
             missedRuns: Run, startingDeadlineSeconds: 120, concurrencyPolicy: {policy}}}"
        )
    };
    // What systemd does once it is time, and how that ends.
    let begin = || {
        machine.run(&["sh", "-c", "rm -f /run/tidy; systemctl start tidy-start.service || true"]);
        machine.property("tidy-start.service", "Result")
    };
    for policy in ["Forbid", "Replace", "Allow"] {
        desk.pass(&[&spec("* * * * *", policy)]).await;
        assert_eq!(desk.pass(&[&spec("* * * * *", policy)]).await.done, [""; 0]);
        assert_eq!(machine.property("tidy.timer", "Unit"), "tidy-start.service");
        assert_eq!(begin(), "success", "{policy}: a minute began within the last two");
        crate::units::wait_for("it ran", || machine.desk_path("/run/tidy").exists());
        // But for one day in four years.
        desk.pass(&[&spec("0 0 29 2 *", policy)]).await;
        assert_eq!(begin(), "exec-condition", "{policy}");
        assert_eq!(machine.property("tidy-start.service", "ActiveState"), "inactive", "{policy}: no failure");
        assert!(!machine.desk_path("/run/tidy").exists(), "{policy}");
    }
    // A person who starts the job itself is asked nothing.
    desk.pass(&[&spec("0 0 29 2 *", "Forbid")]).await;
    machine.run(&["systemctl", "start", "tidy.service"]);
    assert!(machine.desk_path("/run/tidy").exists());
    // What cannot be asked is a failure, and tells.
    machine.run(&["mount", "--bind", "/bin/false", "/usr/bin/systemd-analyze"]);
    assert_eq!(begin(), "exit-code");
}

#[tokio::test]
async fn no_unit_of_a_job_is_written_where_systemd_refuses_another_one_of_it() {
    let Some((machine, _helper)) = Machine::helped("cron", "units: ['tidy*', 'other*']\n") else { return };
    let desk = &machine.desk;
    let job =
        |name: &str, rest: &str| format!("CronJob {name} {{schedule: '@daily', command: [/bin/true]{rest}}}");
    let (wrong, other) = (job("tidy", ", workingDirectory: not-absolute"), job("other", ""));
    let pass = desk.pass(&[&wrong, &other]).await;
    let refused: Vec<&String> = pass.done.iter().filter(|line| line.starts_with("invalid: ")).collect();
    assert!(refused[0].contains("refuses tidy.service: "), "{pass:?}");
    assert_eq!(*refused[1], "invalid: tidy.timer is not written: tidy.service of the same job is refused");
    assert_eq!(refused.len(), 2, "{pass:?}");
    assert!(!machine.file("tidy.timer").exists() && machine.file("other.timer").exists(), "{pass:?}");
    assert!(!desk.is_tracked("tidy.timer"));
    // What is there stays together, too.
    desk.pass(&[&job("tidy", "")]).await;
    let changed = job("tidy", ", workingDirectory: not-absolute").replace("@daily", "@hourly");
    let pass = desk.pass(&[&changed]).await;
    assert!(pass.done.iter().all(|line| line.starts_with("invalid: ")) && pass.done.len() == 2, "{pass:?}");
}

#[test]
fn jobs_that_mean_nothing_are_refused_with_what_to_write() {
    let refuse = |spec: &str, part: &str| {
        let desk = Desk::with(|config| config.bus = Some("system".into()));
        let (_, problems) = desk.normalize(&[spec]);
        let shown: Vec<String> = problems.iter().map(|problem| problem.to_string()).collect();
        assert!(shown.iter().any(|text| text.contains(part)), "{spec}: {shown:#?}");
        assert!(problems.iter().all(|problem| problem.hint.is_some()), "{shown:#?}");
    };
    refuse("CronJob a {schedule: '61 * * * *', command: [a]}", "`61` is no minute");
    refuse("CronJob a {schedule: '@daily', command: []}", "the command is empty");
    refuse("CronJob a {schedule: '@daily', command: [\"a\\nUser=root\"]}", "has a line break");
    refuse("CronJob a {schedule: '@daily', command: [a], user: \"x\\nExecStart=y\"}", "has a line break");
    refuse("CronJob a {schedule: '@daily', command: [a], timeZone: \"UTC\\n[Service]\"}", "no time zone");
    refuse("CronJob a {schedule: '@daily', command: [a], timeZone: Europe/Nowhere}", "no time zone");
    refuse("CronJob a {schedule: '@daily', command: [a], timeZone: europe}", "no time zone");
    refuse("CronJob a {schedule: '@daily', command: [a], timeZone: europe/berlin}", "no time zone");
    refuse("CronJob a {schedule: '@daily', command: [a], timeZone: Etc/Unknown}", "no time zone");
    refuse("CronJob a {schedule: '0 0 30 2 *', command: [a]}", "it would never run");
    refuse("CronJob a {schedule: '@daily', command: [a], startingDeadlineSeconds: 5}", "some seconds late");
    refuse("CronJob a {schedule: '@daily', command: [a], failedJobsHistoryLimit: 101}", "not remembered");
    let beside = "CronJob a {schedule: '@daily', command: [a], concurrencyPolicy: Allow, successfulJobsHistoryLimit: 3}";
    refuse(beside, "each run is a unit that is gone when it ends");
    refuse("CronJob a/b {schedule: '@daily', command: [a]}", "no name of a job");
}
