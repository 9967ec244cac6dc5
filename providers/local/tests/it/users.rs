//! Units of a user, at a real `systemd --user`.

use crate::{desk::Desk, units::Machine};
use reconciled_provider::Health;

/// A machine on which the manager of root as a user runs: it is one as any other.
fn boot(scope: &str) -> Option<Machine> {
    let machine = Machine::of(scope, |config| config.bus = Some("user".into()))?;
    machine.run(&["systemctl", "start", "user@0.service"]);
    let bus = machine.desk_path("/run/user/0/bus");
    crate::units::wait_for("the bus of the user", || std::os::unix::net::UnixStream::connect(&bus).is_ok());
    Some(machine)
}

fn of_user(machine: &Machine, words: &[&str]) -> String {
    machine.run(&[&["env", "XDG_RUNTIME_DIR=/run/user/0", "systemctl", "--user"], words].concat())
}

fn property(machine: &Machine, unit: &str, name: &str) -> String {
    of_user(machine, &["show", unit, "--value", "-p", name]).trim().to_owned()
}

const A: &str = "Unit a.service {enabled: true, state: running, dropIns: {x: \"[Service]\\nEnvironment=A=1\\n\"}, \
    content: \"[Service]\\nExecStart=/bin/sleep 1d\\n[Install]\\nWantedBy=default.target\\n\"}";

#[tokio::test]
async fn units_of_a_user_are_in_his_home_and_at_his_manager() {
    let Some(machine) = boot("systemd") else { return };
    let desk = &machine.desk;
    let home = machine.desk_path("/root/.config/systemd/user");
    machine.run(&["rm", "-rf", "/root/.config"]);
    assert_eq!(desk.pass(&[A]).await.done, ["create a.service: done"]);
    assert!(home.join("a.service").exists() && home.join("a.service.d/x.conf").exists());
    assert!(home.join("default.target.wants/a.service").is_symlink());
    assert_eq!(property(&machine, "a.service", "ActiveState"), "active");
    assert_eq!(property(&machine, "a.service", "Environment"), "A=1");
    assert_eq!(machine.property("a.service", "LoadState"), "not-found", "the machine knows nothing of it");
    assert_eq!(desk.pass(&[A]).await.done, [""; 0]);
    assert_eq!(desk.health(&desk.desired(&[A])).await, [Health::Healthy]);

    of_user(&machine, &["stop", "a.service"]);
    of_user(&machine, &["disable", "a.service"]);
    assert_eq!(desk.pass(&[A]).await.done, ["update a.service: done"]);
    assert_eq!(property(&machine, "a.service", "UnitFileState"), "enabled");
    // What is set by hand is drift here as well.
    let pid = property(&machine, "a.service", "MainPID");
    of_user(&machine, &["set-property", "a.service", "TasksMax=7"]);
    let pass = desk.pass(&[A]).await;
    assert_eq!(pass.done, ["update a.service: done"]);
    let path = "/root/.config/systemd/user.control/a.service.d/50-TasksMax.conf";
    assert!(pass.fields.iter().any(|field| field.starts_with(path)), "{pass:?}");
    assert!(!machine.desk_path(path).exists());
    assert_eq!(property(&machine, "a.service", "MainPID"), pid);
    assert_eq!(desk.pass(&[]).await.done, ["delete a.service: gone"]);
    assert_eq!(property(&machine, "a.service", "LoadState"), "not-found");
}

#[tokio::test]
async fn deployments_and_jobs_of_a_user_are_at_his_manager_too() {
    let Some(machine) = boot("deployments") else { return };
    let web = "Deployment web {replicas: 2, minReadySeconds: 0, content: \"[Service]\\nExecStart=/bin/sleep 1d\\n\"}";
    let desk = &machine.desk;
    while desk.is_pending() || !desk.pass(&[web]).await.done.is_empty() {
        desk.pass(&[web]).await;
    }
    for number in [1, 2] {
        assert_eq!(property(&machine, &format!("web@{number}.service"), "ActiveState"), "active");
    }
    drop(machine);

    let Some(machine) = boot("cron") else { return };
    let job = "CronJob tidy {schedule: '* * * * *', concurrencyPolicy: Replace, startingDeadlineSeconds: 120, command: [/bin/touch, /run/user/0/tidy]}";
    machine.desk.pass(&[job]).await;
    assert_eq!(machine.desk.pass(&[job]).await.done, [""; 0]);
    assert_eq!(property(&machine, "tidy.timer", "ActiveState"), "active");
    of_user(&machine, &["start", "tidy-start.service"]);
    crate::units::wait_for("it ran", || machine.desk_path("/run/user/0/tidy").exists());
}

#[test]
fn what_is_a_users_is_no_file_of_manifests() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("etc")).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    std::fs::write(dir.path().join("etc/passwd"), format!("me:x:{uid}:0::/home/me:\n")).unwrap();
    let desk = Desk::with(|config| {
        config.root = dir.path().into();
        config.paths = vec!["/home".into()];
        config.bus = Some("user".into());
    });
    let refused = |spec: &str, part: &str| {
        let shown: Vec<String> = desk.normalize(&[spec]).1.iter().map(ToString::to_string).collect();
        assert!(shown.iter().any(|text| text.contains(part)), "{spec}: {shown:#?}");
    };
    refused("{path: /home/me/.config/systemd/user/a.service, content: x}", "where systemd loads units from");
    refused("Directory {path: /home/me/.config, purge: true}", "cannot be purged");
    refused("CronJob a {schedule: '@daily', command: [a], user: root}", "runs everything as that user");
    assert!(desk.normalize(&["{path: /home/me/notes, content: x}"]).1.is_empty());
}
