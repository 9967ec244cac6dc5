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
    refuse("CronJob a/b {schedule: '@daily', command: [a]}", "no name of a job");
}
