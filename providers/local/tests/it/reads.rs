//! Services and the files that they read: who is told of a change, and who is restarted.

use crate::{
    desk::Desk,
    units::{Machine, unit},
};
use futures_util::StreamExt;
use reconciled_provider::Focus;
use reconciled_testkit::PATIENCE;
use std::{fs, time::Duration};

#[tokio::test]
async fn a_service_reads_a_file_again_that_changed_and_is_restarted_where_that_is_asked_for() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let write = |path: &str, text: &str| fs::write(machine.desk_path(path), text).unwrap();
    let reloads = || fs::read_to_string(machine.desk_path("/run/reloads")).unwrap_or_default().len();
    write("/etc/app.conf", "1");
    write("/etc/app.key", "1");
    let spec = "Unit a.service {state: running, reloadOn: [/etc/app.conf, /etc/absent], restartOn: [/etc/app.key], \
        content: \"[Service]\\nExecStart=/bin/sleep 1d\\nExecReload=/bin/sh -c 'echo -n x >>/run/reloads'\\n\"}";
    assert_eq!(desk.pass(&[spec]).await.done, ["create a.service: done"]);
    let unchanged = async |when: &str| assert_eq!(desk.pass(&[spec]).await.done, [""; 0], "{when}");
    unchanged("it was started with them").await;
    let pid = machine.pid("a.service");

    write("/etc/app.conf", "2");
    let pass = desk.pass(&[spec]).await;
    assert_eq!(pass.done, ["update a.service: done"]);
    assert_eq!(
        pass.fields,
        ["reloadOn /etc/app.conf Text(\"read before it changed\") Text(\"read as it is\")"]
    );
    assert_eq!((reloads(), machine.pid("a.service")), (1, pid.clone()));
    unchanged("it has read it").await;
    write("/etc/app.conf", "2");
    unchanged("another file, with the same in it").await;
    write("/etc/absent", "1");
    assert_eq!(desk.pass(&[spec]).await.done, ["update a.service: done"], "it came to be");
    assert_eq!(reloads(), 2);

    write("/etc/app.conf", "3");
    write("/etc/app.key", "2");
    assert_eq!(desk.pass(&[spec]).await.done, ["update a.service: done"]);
    assert_eq!(reloads(), 2, "a restart is enough");
    assert_ne!(machine.pid("a.service"), pid);
    unchanged("restarted").await;

    // A run that somebody else began: it has read what is older, and nothing that is younger.
    write("/etc/app.conf", "4");
    machine.run(&["systemctl", "restart", "a.service"]);
    unchanged("restarted by hand").await;
    write("/etc/app.conf", "5");
    assert_eq!(desk.pass(&[spec]).await.done, ["update a.service: done"]);
    assert_eq!(reloads(), 3);
    unchanged("told after a restart by hand").await;
    // One that stands still reads it when it is started.
    machine.run(&["systemctl", "stop", "a.service"]);
    write("/etc/app.conf", "6");
    assert_eq!(desk.pass(&[spec]).await.done, ["update a.service: done"]);
    assert_eq!(reloads(), 3);
    unchanged("started").await;

    // A link counts by where it leads, and a directory is no file.
    std::os::unix::fs::symlink("one", machine.desk_path("/etc/link")).unwrap();
    let linked = spec.replace("/etc/absent", "/etc/link");
    desk.pass(&[&linked]).await;
    fs::remove_file(machine.desk_path("/etc/link")).unwrap();
    std::os::unix::fs::symlink("two", machine.desk_path("/etc/link")).unwrap();
    assert_eq!(desk.pass(&[&linked]).await.done, ["update a.service: done"]);
    let directory = spec.replace("/etc/absent", "/etc/systemd");
    assert_eq!(desk.pass(&[&directory]).await.done, ["invalid: /etc/systemd is no file"]);

    // A reload that fails is repeated.
    let failing = spec.replace("echo -n x >>/run/reloads", "test -e /run/well");
    desk.pass(&[&failing]).await;
    write("/etc/app.conf", "7");
    for _ in 0..2 {
        let done = desk.pass(&[&failing]).await.done;
        assert!(done.len() == 1 && done[0].starts_with("update a.service: unknown: unavailable"), "{done:?}");
    }
    machine.run(&["touch", "/run/well"]);
    assert_eq!(desk.pass(&[&failing]).await.done, ["update a.service: done"]);
    assert_eq!(desk.pass(&[&failing]).await.done, [""; 0]);
}

#[tokio::test]
async fn what_is_declared_now_says_what_a_change_of_a_file_means() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let write = |text: &str| fs::write(machine.desk_path("/etc/app.conf"), text).unwrap();
    let declared = |on: &str, reload: &str| {
        format!(
            "Unit a.service {{state: running, {on}: [/etc/app.conf], \
             content: \"[Service]\\nExecStart=/bin/sleep 1d\\n{reload}\"}}"
        )
    };
    write("1");
    let restarted = declared("restartOn", "");
    assert_eq!(desk.pass(&[&restarted]).await.done, ["create a.service: done"]);
    let pid = machine.pid("a.service");
    // It is told by a command that it was not started with.
    write("2");
    let told = declared("reloadOn", "ExecReload=/bin/sh -c 'echo -n x >>/run/reloads'\\n");
    assert_eq!(desk.pass(&[&told]).await.done, ["update a.service: done"]);
    let reloads = fs::read_to_string(machine.desk_path("/run/reloads")).unwrap();
    assert_eq!((&*reloads, machine.pid("a.service")), ("x", pid.clone()));
    assert_eq!(desk.pass(&[&told]).await.done, [""; 0]);
    // The other way round.
    write("3");
    let restarted = told.replace("reloadOn", "restartOn");
    assert_eq!(desk.pass(&[&restarted]).await.done, ["update a.service: done"]);
    assert_ne!(machine.pid("a.service"), pid);
    assert_eq!(desk.pass(&[&restarted]).await.done, [""; 0]);
}

#[tokio::test]
async fn a_file_that_a_service_reads_tells_of_the_service() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    fs::write(machine.desk_path("/etc/app.conf"), "1").unwrap();
    let spec = unit("a.service", "/bin/sleep 1d", ", state: running, reloadOn: [/etc/app.conf]");
    let mut hints = desk.provider.hints();
    desk.pass(&[&spec]).await;
    // What is told of the unit itself comes first.
    let quiet = Duration::from_secs(1);
    while tokio::time::timeout(quiet, hints.next()).await.is_ok() {}
    fs::write(machine.desk_path("/etc/app.conf"), "2").unwrap();
    let told = async {
        loop {
            let hint = hints.next().await.unwrap();
            let is_it = matches!(&hint.focus, Focus::Only(ids) if ids.contains(&"a.service".into()));
            if is_it && &*hint.scope.name == "systemd" {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
}

#[test]
fn what_is_declared_of_a_file_is_part_of_the_service_that_reads_it() {
    let desk = Desk::with(|config| config.bus = Some("system".into()));
    let service = "Unit a.service {state: running, reloadOn: [/etc/app.conf]}";
    let hash = |file: &str| {
        let resources = desk.desired(&[service, file]);
        resources.iter().find(|one| &*one.id.0 == "a.service").unwrap().spec.hash()
    };
    let one = hash("{path: /etc/app.conf, content: one}");
    assert_eq!(one, hash("{path: /etc/app.conf, content: one}"));
    assert_ne!(one, hash("{path: /etc/app.conf, content: two}"));
    assert_ne!(one, hash("{path: /etc/app.conf, content: {secret: key}}"));
    assert_ne!(one, hash("{path: /etc/other.conf, content: one}"));
}
