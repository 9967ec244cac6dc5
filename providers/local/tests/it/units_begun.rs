//! Changes of units that were begun and did not come to their end: the process died, a write failed, a service does not start.

use crate::units::{Machine, RUNNING, install, unit};
use std::fs;

#[tokio::test]
async fn a_death_between_the_files_and_the_restart_is_found_by_the_next_look() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    desk.pass(&[&unit("a.service", "/bin/sleep 1d", RUNNING)]).await;
    let pid = machine.pid("a.service");
    // As the process that died left it: written, read by systemd, not restarted, nothing remembered.
    let changed = unit("a.service", "/bin/sleep 2d", RUNNING);
    let text = fs::read_to_string(machine.file("a.service")).unwrap();
    fs::write(machine.file("a.service"), text.replace("1d", "2d")).unwrap();
    machine.run(&["systemctl", "daemon-reload"]);
    let pass = desk.pass(&[&changed]).await;
    assert_eq!(pass.done, ["update a.service: done"]);
    assert!(pass.fields[0].starts_with("definition "), "{pass:?}");
    assert_ne!(machine.pid("a.service"), pid);
    assert_eq!(desk.pass(&[&changed]).await.done, [""; 0]);
}

#[tokio::test]
async fn a_death_before_the_restarts_is_gone_on_with_whoever_started_what_runs() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let specs = |days: u32| {
        let socket = format!(
            "Unit s.socket {{state: running, content: \"[Socket]\\nListenStream=/run/s{days}\\nService=b.service\\n\"}}"
        );
        let service = |name: &str| unit(name, &format!("/bin/sleep {days}d"), RUNNING);
        [service("b.service"), service("c.service"), socket]
    };
    let (old, new) = (specs(1), specs(2));
    let (old, new) = (old.each_ref().map(|spec| &**spec), new.each_ref().map(|spec| &**spec));
    // The service that a socket starts is up before it would be refused.
    desk.pass(&old[2..]).await;
    desk.pass(&old).await;
    assert_eq!(desk.pass(&old).await.done, [""; 0]);
    // As a package or an administrator does it: what is remembered is of another run now.
    machine.run(&["systemctl", "restart", "c.service"]);
    assert_eq!(desk.pass(&old).await.done, [""; 0]);
    let pids = || ["b.service", "c.service"].map(|name| machine.pid(name));
    let before = pids();
    // Each is put down; the process dies with the socket, before anything else is restarted.
    assert!(!desk.pass_dying(&new, 3).await);
    assert!(fs::read_to_string(machine.file("c.service")).unwrap().contains("2d"));
    assert_eq!(machine.pid("c.service"), before[1]);
    let done = desk.pass(&new).await.done;
    assert_eq!(done, ["continue b.service: done", "continue c.service: done", "continue s.socket: done"]);
    for pid in pids() {
        assert!(machine.run(&["ps", "-o", "args=", "-p", &pid]).contains("sleep 2d"));
    }
    assert_eq!(desk.pass(&new).await.done, [""; 0]);
}

#[tokio::test]
async fn what_an_update_wrote_that_failed_or_died_goes_with_its_declaration() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    install(&machine, "v.service");
    let spec = "Unit v.service {state: running, dropIns: {a: \"[Service]\\nEnvironment=A=1\\n\"}}";
    assert_eq!(desk.pass(&[spec]).await.done, ["update v.service: done"]);
    let drop_ins = || {
        let Ok(entries) = fs::read_dir(machine.file("v.service.d")) else { return Vec::new() };
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    // One that it cannot start with; after that, as it was.
    let bad = spec.replace("dropIns: {", "dropIns: {bad: \"[Service]\\nExecStartPre=/bin/false\\n\", ");
    let done = desk.pass(&[&bad]).await.done;
    assert!(done.len() == 1 && done[0].starts_with("update v.service: partial: unavailable: "), "{done:?}");
    assert_eq!(drop_ins(), ["a.conf", "bad.conf"]);
    assert_eq!(desk.pass(&[spec]).await.done, ["update v.service: done"]);
    assert_eq!(
        (drop_ins(), machine.property("v.service", "ActiveState")),
        (vec!["a.conf".into()], "active".into())
    );
    assert_eq!(desk.pass(&[spec]).await.done, [""; 0]);

    // Dead at the end of one that adds a drop-in and the file itself; after that, as it was.
    let more = spec.replace(
        "dropIns: {",
        "content: \"[Service]\\nExecStart=/bin/sleep 2d\\n\", dropIns: {b: \"[Service]\\nEnvironment=B=1\\n\", ",
    );
    assert!(!desk.pass_dying(&[&more], 1).await);
    assert!(machine.file("v.service").exists() && drop_ins() == ["a.conf", "b.conf"]);
    assert_eq!(desk.pass(&[spec]).await.done, ["continue v.service: done"]);
    assert!(!machine.file("v.service").exists() && drop_ins() == ["a.conf"]);
    let command = machine.run(&["ps", "-o", "args=", "-p", &machine.pid("v.service")]);
    assert!(command.contains("sleep 1d"), "{command}");
    assert_eq!(desk.pass(&[spec]).await.done, [""; 0]);

    // The same, and nothing is declared any longer.
    assert!(!desk.pass_dying(&[&more], 1).await);
    assert_eq!(desk.pass(&[]).await.done, ["delete v.service: gone"]);
    assert!(!machine.file("v.service").exists() && drop_ins().is_empty(), "{:?}", drop_ins());
}

#[tokio::test]
async fn what_is_half_made_is_ours_and_gone_on_with() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", RUNNING);
    // The process dies once it has put down that it begins, with nothing written; and with the file written.
    assert!(!desk.pass_dying(&[&spec], 0).await && desk.is_tracked("a.service"));
    assert!(!machine.file("a.service").exists());
    fs::write(machine.file("a.service"), "[Service]\nExecStart=/bin/sleep 9d\n").unwrap();
    assert_eq!(desk.pass(&[&spec]).await.done, ["continue a.service: done"]);
    assert_eq!(machine.property("a.service", "ActiveState"), "active");
    assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);

    // A start that fails leaves a file that is ours, and is tried again.
    let failing = unit("b.service", "/bin/false", ", state: running")
        .replace("[Service]", "[Service]\\nType=oneshot\\nRemainAfterExit=yes");
    let made = desk.pass(&[&spec, &failing]).await.done;
    assert!(made.len() == 1 && made[0].starts_with("create b.service: partial: unavailable: "), "{made:?}");
    assert!(desk.is_tracked("b.service"));
    let mended = failing.replace("/bin/false", "/bin/true");
    assert_eq!(desk.pass(&[&spec, &mended]).await.done, ["update b.service: done"]);
    assert_eq!(desk.pass(&[]).await.done, ["delete a.service: gone", "delete b.service: gone"]);
}

#[tokio::test]
async fn a_repair_that_wrote_nothing_says_so_and_leaves_what_was_remembered() {
    let scratch = tempfile::tempdir().unwrap();
    let in_the_way = scratch.path().join("file");
    let originals = in_the_way.join("originals");
    let Some(machine) = Machine::of("systemd", |config| config.originals = Some(originals)) else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", RUNNING);
    desk.pass(&[&spec]).await;
    let row = desk.row("a.service");
    // Edited, and not read by systemd; no copy of it can be kept.
    fs::write(machine.file("a.service"), "[Service]\nExecStart=/bin/sleep 9d\n").unwrap();
    fs::write(&in_the_way, "").unwrap();
    for _ in 0..2 {
        let done = desk.pass(&[&spec]).await.done;
        let is_kept = "update a.service: failed: unavailable: keep a copy ";
        assert!(done.len() == 1 && done[0].starts_with(is_kept), "{done:?}");
        assert!(desk.row("a.service") == row && !desk.is_pending());
    }
    fs::remove_file(&in_the_way).unwrap();
    assert_eq!(desk.pass(&[&spec]).await.done, ["update a.service: done"]);
    assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
}

#[tokio::test]
async fn a_unit_without_files_of_its_own_is_ours_once_it_was_begun() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let vendor = |name: &str, command: &str| {
        let text = format!(
            "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart={command}\n[Install]\nWantedBy=basic.target\n"
        );
        fs::write(machine.desk_path(&format!("/usr/lib/systemd/system/{name}")), text).unwrap();
        machine.run(&["systemctl", "daemon-reload"]);
    };
    // The link is made, and the start fails.
    vendor("v.service", "/bin/false");
    let v = "Unit v.service {enabled: true, state: running}";
    let done = desk.pass(&[v]).await.done;
    assert!(done.len() == 1 && done[0].starts_with("update v.service: partial: unavailable: "), "{done:?}");
    assert_eq!(machine.property("v.service", "UnitFileState"), "enabled");
    assert!(desk.is_tracked("v.service"));
    vendor("v.service", "/bin/true");
    assert_eq!(desk.pass(&[v]).await.done, ["update v.service: done"]);
    assert_eq!(desk.pass(&[v]).await.done, [""; 0]);

    // The link is made, and the process dies.
    vendor("w.service", "/bin/true");
    let w = "Unit w.service {enabled: true, state: running}";
    assert!(!desk.pass_dying(&[v, w], 1).await);
    assert!(desk.is_tracked("w.service"));
    assert_eq!(desk.pass(&[v, w]).await.done, ["continue w.service: done"]);
    assert_eq!(desk.pass(&[v, w]).await.done, [""; 0]);
}

#[tokio::test]
async fn what_a_death_left_begun_stays_begun_when_it_fails_after_that() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    desk.pass(&[&unit("a.service", "/bin/sleep 1d", RUNNING)]).await;
    // It dies before the first file; what goes on with it writes the file, and cannot start the service.
    let new = unit("a.service", "/bin/sleep 2d\\nExecStartPre=/bin/test -e /run/well", RUNNING);
    assert!(!desk.pass_dying(&[&new], 0).await);
    assert!(!fs::read_to_string(machine.file("a.service")).unwrap().contains("2d"));
    for _ in 0..2 {
        let done = desk.pass(&[&new]).await.done;
        let is_open = "continue a.service: unknown: unavailable: ";
        assert!(done.len() == 1 && done[0].starts_with(is_open) && desk.is_pending(), "{done:?}");
    }
    assert!(fs::read_to_string(machine.file("a.service")).unwrap().contains("2d"));
    machine.run(&["touch", "/run/well"]);
    assert_eq!(desk.pass(&[&new]).await.done, ["continue a.service: done"]);
    assert!(!desk.is_pending());
    assert_eq!(desk.pass(&[&new]).await.done, [""; 0]);
}
