//! Units that systemd starts and stops for other units alone, and those that are stopped before they change.

use crate::{
    desk::Desk,
    units::{Machine, wait_for},
};
use std::fs;

fn refusing(line: &str, days: u32, rest: &str) -> String {
    format!(
        "Unit a.service {{content: \"[Unit]\\n{line}\\n[Service]\\nExecStart=/bin/sleep {days}d\\n\"{rest}}}"
    )
}

#[test]
fn a_manifest_that_asks_for_what_its_unit_refuses_is_an_error() {
    let desk = Desk::with(|config| config.bus = Some("unix:path=/nonexistent".into()));
    let problems = |spec: &str| {
        let problems = desk.normalize(&[spec]).1;
        problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
    };
    for (line, rest, part) in [
        ("RefuseManualStart=yes", ", state: running", "RefuseManualStart=yes"),
        ("RefuseManualStop=yes", ", state: stopped", "RefuseManualStop=yes"),
        (
            "RefuseManualStart=no",
            ", dropIns: {x: \"[Unit]\\nRefuseManualStart=1\\n\"}, state: running",
            "RefuseManualStart=yes",
        ),
    ] {
        let told = problems(&refusing(line, 1, rest));
        assert!(told.contains("for other units alone") && told.contains(part), "{line}: {told}");
    }
    for (line, rest) in [
        ("RefuseManualStart=yes", ""),
        ("RefuseManualStart=yes", ", state: stopped"),
        ("RefuseManualStop=yes", ", state: running"),
    ] {
        assert_eq!(problems(&refusing(line, 1, rest)), "");
    }
    let told = problems(
        "Deployment web {content: \"[Unit]\\nRefuseManualStop=yes\\n[Service]\\nExecStart=/bin/a\\n\"}",
    );
    assert!(told.contains("for other units alone"), "{told}");
}

#[tokio::test]
async fn a_restart_that_systemd_would_refuse_is_told_before_anything_is_written() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let of = |days, rest| refusing("RefuseManualStop=yes", days, rest);
    assert_eq!(desk.pass(&[&of(1, ", state: running")]).await.done, ["create a.service: done"]);
    let before = (machine.pid("a.service"), fs::read_to_string(machine.file("a.service")).unwrap());
    let done = desk.pass(&[&of(2, ", state: running")]).await.done;
    assert!(
        done[0].starts_with("invalid: a.service would be restarted")
            && done[0].ends_with("RefuseManualStop=yes"),
        "{done:?}"
    );
    let after = (machine.pid("a.service"), fs::read_to_string(machine.file("a.service")).unwrap());
    assert_eq!(before, after);
    // Nor can it go, and it says so.
    let done = desk.pass(&[]).await.done;
    assert!(done[0].contains("failed") && done[0].contains("cannot be stopped"), "{done:?}");
    // It may wait for its next start; and what does not refuse it any longer is restarted.
    let later = of(2, ", state: running, onChange: none");
    assert_eq!(desk.pass(&[&later]).await.done, ["update a.service: done"]);
    assert_eq!(machine.pid("a.service"), before.0);
    let free = refusing("", 3, ", state: running");
    assert_eq!(desk.pass(&[&free]).await.done, ["update a.service: done"]);
    assert_ne!(machine.pid("a.service"), before.0);
    assert_eq!(desk.pass(&[]).await.done, ["delete a.service: gone"]);
}

#[tokio::test]
async fn what_a_package_refuses_is_known_from_what_systemd_has_loaded() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    for (name, line) in [("stop", "RefuseManualStop=yes"), ("start", "RefuseManualStart=yes")] {
        let text = format!("[Unit]\n{line}\n[Service]\nExecStart=/bin/sleep 1d\n");
        fs::write(machine.desk_path(&format!("/usr/lib/systemd/system/{name}.service")), text).unwrap();
    }
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "start", "stop.service"]);
    let pid = machine.pid("stop.service");
    for (spec, part) in [
        ("Unit stop.service {state: stopped}", "stop.service would be stopped"),
        ("Unit start.service {state: running}", "start.service would be started"),
        (
            "Unit stop.service {dropIns: {a: \"[Service]\\nEnvironment=A=1\\n\"}}",
            "stop.service would be restarted",
        ),
    ] {
        let done = desk.pass(&[spec]).await.done;
        assert!(done.len() == 1 && done[0].starts_with("invalid: ") && done[0].contains(part), "{done:?}");
    }
    assert!(!machine.file("stop.service.d").exists());
    // A limit needs no restart, and a drop-in may say that there may be one.
    let limit = "Unit stop.service {dropIns: {a: \"[Service]\\nTasksMax=9\\n\"}}";
    assert_eq!(desk.pass(&[limit]).await.done, ["update stop.service: done"]);
    assert_eq!(machine.pid("stop.service"), pid);
    let freed =
        "Unit stop.service {dropIns: {a: \"[Unit]\\nRefuseManualStop=no\\n[Service]\\nEnvironment=A=1\\n\"}}";
    assert_eq!(desk.pass(&[freed]).await.done, ["update stop.service: done"]);
    assert_ne!(machine.pid("stop.service"), pid);
}

#[tokio::test]
async fn instances_that_a_package_keeps_from_being_stopped_are_told_before_a_step() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let directory = machine.desk_path("/usr/lib/systemd/system/web@.service.d");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("refuse.conf"), "[Unit]\nRefuseManualStop=yes\n").unwrap();
    let web = |days: u32| {
        format!("Deployment web {{replicas: 2, content: \"[Service]\\nExecStart=/bin/sleep {days}d\\n\"}}")
    };
    while !desk.pass(&[&web(1)]).await.done.is_empty() {}
    let pid = machine.pid("web@1.service");
    let done = desk.pass(&[&web(2)]).await.done;
    assert!(done[0].starts_with("invalid: web@1.service would be started anew"), "{done:?}");
    assert_eq!(machine.pid("web@1.service"), pid);
}

/// A unit that writes down with which of its files it was stopped.
fn stopping(number: u32, rest: &str) -> String {
    let stop = format!("/bin/sh -c 'echo {number} >>/run/stops'");
    format!("Unit a.service {{content: \"[Service]\\nExecStart=/bin/sleep 1d\\nExecStop={stop}\\n\"{rest}}}")
}

#[tokio::test]
async fn a_unit_is_stopped_as_it_was_started_where_that_is_asked_for() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let stops = || fs::read_to_string(machine.desk_path("/run/stops")).unwrap_or_default();
    // Whether it runs may be nobody's business but its own.
    for (state, first) in [(", state: running", 1), ("", 4)] {
        let of = |number| stopping(number, &format!("{state}, onChange: stop-start"));
        desk.pass(&[&of(first)]).await;
        machine.run(&["systemctl", "start", "a.service"]);
        let pid = machine.pid("a.service");
        assert_eq!(desk.pass(&[&of(first + 1)]).await.done, ["update a.service: done"]);
        assert!(stops().ends_with(&format!("{first}\n")), "{}", stops());
        assert_eq!(machine.property("a.service", "ActiveState"), "active");
        assert_ne!(machine.pid("a.service"), pid);
        assert_eq!(desk.pass(&[&of(first + 1)]).await.done, [""; 0]);
        // A restart ends it as its new files say.
        let restarting = stopping(first + 2, state);
        assert_eq!(desk.pass(&[&restarting]).await.done, ["update a.service: done"]);
        assert!(stops().ends_with(&format!("{}\n", first + 2)), "{}", stops());
    }
}

#[tokio::test]
async fn one_that_was_stopped_for_its_change_is_started_whoever_dies_in_between() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let of = |number| stopping(number, ", onChange: stop-start");
    desk.pass(&[&of(0)]).await;
    machine.run(&["systemctl", "start", "a.service"]);
    for (nth, number) in (0..4).zip(1..) {
        desk.pass_dying(&[&of(number)], nth).await;
        while !desk.pass(&[&of(number)]).await.done.is_empty() {}
        wait_for("it runs", || machine.property("a.service", "ActiveState") == "active");
        assert!(machine.property("a.service", "ExecStop").contains(&format!("echo {number} ")), "{nth}");
    }
}
