//! Units while they come up: slow ones, ones that end before, many at once, and ones that wait for each other.

use crate::units::{Machine, unit, wait_for};
use reconciled_provider::Health;
use reconciled_testkit::PATIENCE;

#[tokio::test]
async fn one_that_is_slow_to_come_up_keeps_no_other_from_being_healed() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let slow = "Unit slow.service {content: \"[Service]\\nType=notify\\nTimeoutStartSec=600\\nExecStart=/bin/sleep 1d\\n\", state: running}";
    let both = [slow, &unit("b.service", "/bin/sleep 1d", ", state: running")];
    let done = desk.pass(&both).await.done;
    assert!(done.contains(&"create slow.service: pending".to_owned()), "{done:?}");
    let before = machine.pid("b.service");
    machine.run(&["systemctl", "kill", "--signal=KILL", "b.service"]);
    wait_for("it ended", || machine.property("b.service", "ActiveState") == "failed");
    let done = desk.pass(&both).await.done;
    assert!(done.contains(&"update b.service: done".to_owned()), "{done:?}");
    assert_ne!(machine.pid("b.service"), before);
    assert_eq!(machine.property("slow.service", "ActiveState"), "activating");
    let health = desk.health(&desk.desired(&both)).await;
    assert!(matches!(&health[1], Health::Progressing { .. }), "{health:?}");
    // Nobody starts it a second time.
    let run = machine.property("slow.service", "InvocationID");
    machine.run(&[
        "sh",
        "-c",
        "systemd-notify --pid=$(systemctl show -P MainPID slow.service) --ready || true",
    ]);
    assert_eq!(desk.pass(&both).await.done, ["continue slow.service: pending"]);
    assert_eq!(machine.property("slow.service", "InvocationID"), run);
}

#[tokio::test]
async fn one_that_ends_before_it_is_up_is_a_failure_and_not_started_over_and_over() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let slow = "Unit slow.service {content: \"[Service]\\nType=notify\\nExecStart=/bin/sh -c 'sleep 2; exit 3'\\n\", state: running}";
    assert_eq!(desk.pass(&[slow]).await.done, ["create slow.service: pending"]);
    wait_for("it failed", || machine.property("slow.service", "ActiveState") == "failed");
    let run = machine.property("slow.service", "InvocationID");
    let done = desk.pass(&[slow]).await.done;
    assert!(
        done[0].starts_with("continue slow.service: partial: ") && done[0].contains("before it was up"),
        "{done:?}"
    );
    assert_eq!(machine.property("slow.service", "InvocationID"), run);
    assert_eq!(desk.pass(&[slow]).await.done, ["update slow.service: pending"]);
}

#[tokio::test]
async fn what_changes_while_systemd_starts_a_service_anew_is_not_taken_for_read() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let write = |text: &str| std::fs::write(machine.desk_path("/etc/app.conf"), text).unwrap();
    let wait_until = |state: &str| wait_for(state, || machine.property("a.service", "SubState") == state);
    write("1");
    machine.run(&["touch", "/run/go"]);
    let before = "ExecStartPre=/bin/sh -c 'until test -e /run/go; do sleep 0.05; done'";
    let spec = format!(
        "Unit a.service {{state: running, restartOn: [/etc/app.conf], \
         content: \"[Service]\\nRestart=always\\n{before}\\nExecStart=/bin/sleep 1d\\n\"}}"
    );
    assert_eq!(desk.pass(&[&spec]).await.done, ["create a.service: done"]);
    assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
    machine.run(&["rm", "/run/go"]);
    machine.run(&["systemctl", "kill", "--signal=KILL", "a.service"]);
    wait_until("start-pre");
    // What comes before its main process may have read the old one.
    write("2");
    machine.run(&["touch", "/run/go"]);
    wait_until("running");
    assert_eq!(desk.pass(&[&spec]).await.done, ["update a.service: done"]);
    assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
}

#[tokio::test]
async fn hundreds_of_services_that_were_stopped_are_started_in_one_pass() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let all: Vec<String> =
        (0..200).map(|n| unit(&format!("b{n}.service"), "/bin/sleep 1d", ", state: running")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert!(desk.pass(&all).await.done.iter().all(|line| line.ends_with(": done")));
    machine.run(&["systemctl", "stop", "b*.service"]);
    let done = desk.pass(&all).await.done;
    assert_eq!((done.len(), done.iter().all(|line| line.ends_with(": done"))), (200, true), "{done:?}");
    assert_eq!(desk.pass(&all).await.done, [""; 0]);
}

#[tokio::test]
async fn no_job_waits_for_one_that_comes_later() {
    let Some(machine) = Machine::boot() else { return };
    let oneshot = |name: &str, command: &str| {
        let content =
            format!("[Service]\\nType=oneshot\\nRemainAfterExit=yes\\nExecStart=/bin/sh -c '{command}'\\n");
        format!("Unit {name} {{content: \"{content}\", state: running}}")
    };
    let first = oneshot("a.service", "until test -e /run/b; do sleep 0.1; done");
    let second = oneshot("b.service", "touch /run/b");
    let specs = [&*first, &*second];
    let pass = machine.desk.pass(&specs);
    let pass = tokio::time::timeout(PATIENCE, pass).await.unwrap();
    assert_eq!(pass.done, ["create a.service: done", "create b.service: done"]);
}

#[tokio::test]
async fn however_many_units_change_in_a_pass_systemd_reads_its_files_once() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    // systemd runs it each time that it reads its files.
    let count = "mkdir -p /run/systemd/system-generators && cd /run/systemd/system-generators && \
                 printf '#!/bin/sh\\necho >> /run/reads\\n' > count && chmod 755 count";
    machine.run(&["sh", "-c", count]);
    let reads = || machine.run(&["sh", "-c", "cat /run/reads 2>/dev/null | wc -l"]).trim().to_owned();
    let all = |seconds: &str| -> Vec<String> {
        let command = format!("/bin/sleep {seconds}");
        (0..5).map(|n| unit(&format!("b{n}.service"), &command, ", state: running")).collect()
    };
    for (seconds, expect) in [("1d", "1"), ("2d", "2")] {
        let all = all(seconds);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let done = desk.pass(&all).await.done;
        assert_eq!((done.len(), done.iter().all(|line| line.ends_with(": done"))), (5, true), "{done:?}");
        assert_eq!(reads(), expect);
        assert_eq!(desk.pass(&all).await.done, [""; 0]);
        assert_eq!(reads(), expect);
    }
}

#[tokio::test]
async fn a_start_of_whose_end_no_signal_comes_is_seen_by_looking() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let policy =
        "<busconfig><policy context=\"mandatory\"><deny receive_member=\"JobRemoved\"/></policy></busconfig>";
    let directory = machine.desk_path("/etc/dbus-1/system.d");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("lost.conf"), policy).unwrap();
    let bus = "org.freedesktop.DBus";
    machine.run(&["busctl", "call", bus, "/org/freedesktop/DBus", bus, "ReloadConfig"]);
    let specs = [
        unit("a.service", "/bin/sleep 1d", ", state: running"),
        unit(
            "b.service",
            "/bin/false",
            ", state: running, dropIns: {a: \"[Service]\\nType=oneshot\\nRemainAfterExit=yes\\n\"}",
        ),
    ];
    let done = desk.pass(&[&specs[0], &specs[1]]).await.done;
    assert!(done.contains(&"create a.service: done".to_owned()), "{done:?}");
    let failed = "create b.service: partial: unavailable: start b.service: the job ended with `failed`: \
                  exit-code, exit status 1";
    assert!(done.contains(&failed.to_owned()), "{done:?}");
    assert_eq!(machine.property("a.service", "ActiveState"), "active");
}
