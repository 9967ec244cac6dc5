//! Units of a real systemd, booted in namespaces of its own by `tests/rig/systemd`.
//!
//! That needs root; where it cannot be had, `RECONCILED_TEST_SYSTEMD=no` leaves these tests out.

use crate::{desk::Desk, helper::Helper};
use futures_util::StreamExt;
use reconciled_provider::{ErrorKind, Focus, Health};
use reconciled_testkit::PATIENCE;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// A machine with a systemd, and a desk that manages its units.
pub(crate) struct Machine {
    pub(crate) dir: PathBuf,
    pub(crate) desk: Desk,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = rig("down", &self.dir).status();
    }
}

fn rig(verb: &str, dir: &Path) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("tests/rig/systemd"));
    command.arg(verb).arg(dir);
    command
}

impl Machine {
    pub(crate) fn boot() -> Option<Machine> {
        Machine::of("systemd", |_| {})
    }
    /// A machine whose desk is for `scope`.
    pub(crate) fn of(scope: &str, change: impl FnOnce(&mut reconciled_local::Config)) -> Option<Machine> {
        #[expect(clippy::disallowed_methods, reason = "a person says so to the tests")]
        let says_no = std::env::var("RECONCILED_TEST_SYSTEMD").is_ok_and(|value| value == "no");
        if says_no {
            return None;
        }
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().with_extension("machine");
        let output = rig("up", &dir).output().unwrap();
        let hint = "hint: run the tests as root, or leave these out: RECONCILED_TEST_SYSTEMD=no tests/run";
        assert!(output.status.success(), "{}{hint}", String::from_utf8_lossy(&output.stderr));
        let pid = fs::read_to_string(dir.join("pid")).unwrap();
        let desk = Desk::with(|config| {
            config.root = format!("/proc/{}/root", pid.trim()).into();
            config.bus = Some(format!("unix:path={}", dir.join("bus/system_bus_socket").display()));
            change(config);
        });
        Some(Machine { dir, desk: desk.of(scope) })
    }
    /// A machine whose desk is for `scope` and asks a helper with these further `keys`.
    pub(crate) fn helped(scope: &str, keys: &str) -> Option<(Machine, Helper)> {
        let mut helper = None;
        let machine = Machine::of(scope, |config| {
            let dir = config.originals.as_ref().unwrap().parent().unwrap().to_owned();
            let keys = format!("{keys}bus: '{}'\n", config.bus.take().unwrap());
            let started = Helper::start(&dir, &config.root, &keys);
            (config.root, config.originals) = ("/".into(), None);
            config.helper = Some(started.socket.clone());
            helper = Some(started);
        })?;
        Some((machine, helper?))
    }
    #[track_caller]
    pub(crate) fn run(&self, command: &[&str]) -> String {
        let output = rig("run", &self.dir).args(command).output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }
    pub(crate) fn property(&self, unit: &str, name: &str) -> String {
        self.run(&["systemctl", "show", unit, "--value", "-p", name]).trim().to_owned()
    }
    pub(crate) fn pid(&self, unit: &str) -> String {
        self.property(unit, "MainPID")
    }
    /// How often systemd has read its unit files.
    pub(crate) fn reloads(&self) -> usize {
        self.run(&["journalctl", "-o", "cat", "_PID=1"]).lines().filter(|line| *line == "Reloading.").count()
    }
    /// Where a path of the machine is, seen from here.
    pub(crate) fn desk_path(&self, path: &str) -> PathBuf {
        let pid = fs::read_to_string(self.dir.join("pid")).unwrap();
        format!("/proc/{}/root{path}", pid.trim()).into()
    }
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join("etc").join(name)
    }
}

pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it never came about: {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

pub(crate) fn unit(name: &str, command: &str, rest: &str) -> String {
    let content = format!(
        "[Unit]\\nDescription=d\\n[Service]\\nExecStart={command}\\n[Install]\\nWantedBy=basic.target\\n"
    );
    format!("Unit {name} {{content: \"{content}\"{rest}}}")
}

pub(crate) const RUNNING: &str = ", enabled: true, state: running";

#[tokio::test]
async fn a_unit_is_written_enabled_and_started_and_taken_away_again() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let (a, b) = (unit("a.service", "/bin/sleep 1d", RUNNING), unit("b.service", "/bin/sleep 2d", RUNNING));
    let before = machine.reloads();
    assert_eq!(desk.pass(&[&a, &b]).await.done, ["create a.service: done", "create b.service: done"]);
    assert_eq!(machine.reloads(), before + 1, "once for all of a batch");
    for name in ["a.service", "b.service"] {
        assert_eq!(machine.property(name, "ActiveState"), "active");
        assert_eq!(machine.property(name, "UnitFileState"), "enabled");
    }
    assert_eq!(desk.pass(&[&a, &b]).await.done, [""; 0]);
    assert_eq!(desk.health(&desk.desired(&[&a])).await, [Health::Healthy]);

    // What is only for people is read, and changes nothing that runs.
    let pid = machine.pid("a.service");
    let described = a.replace("Description=d", "Description=other");
    assert_eq!(desk.pass(&[&described, &b]).await.done, ["update a.service: done"]);
    assert_eq!(
        (machine.pid("a.service"), machine.property("a.service", "Description")),
        (pid.clone(), "other".into())
    );
    // So do limits, which take effect at once.
    let limited = described.replace("[Install]", "MemoryMax=64M\\nTasksMax=7\\n[Install]");
    assert_eq!(desk.pass(&[&limited, &b]).await.done, ["update a.service: done"]);
    assert_eq!(machine.pid("a.service"), pid);
    let cgroup = machine.property("a.service", "ControlGroup");
    let limits = ["memory.limit_in_bytes", "memory.max", "pids.max"].map(|file| {
        let find =
            format!("cat /sys/fs/cgroup{{,/memory,/pids,/unified}}{cgroup}/{file} 2>/dev/null || true");
        machine.run(&["bash", "-c", &find]).trim().to_owned()
    });
    assert!(limits.contains(&"67108864".into()) && limits.contains(&"7".into()), "{limits:?}");
    assert_eq!(desk.pass(&[&limited, &b]).await.done, [""; 0]);
    // What it would notice restarts it, and nothing else.
    let other = machine.pid("b.service");
    let changed = a.replace("sleep 1d", "sleep 3d");
    assert_eq!(desk.pass(&[&changed, &b]).await.done, ["update a.service: done"]);
    assert_ne!(machine.pid("a.service"), pid);
    assert_eq!(machine.pid("b.service"), other);
    assert!(machine.run(&["ps", "-o", "args=", "-p", &machine.pid("a.service")]).contains("sleep 3d"));
    assert_eq!(desk.pass(&[&changed, &b]).await.done, [""; 0]);

    assert_eq!(desk.pass(&[&changed]).await.done, ["delete b.service: gone"]);
    assert_eq!(machine.property("b.service", "LoadState"), "not-found");
    assert!(!machine.file("b.service").exists() && !machine.file("basic.target.wants/b.service").exists());
    assert_eq!(desk.pass(&[&changed]).await.done, [""; 0]);
}

#[tokio::test]
async fn what_is_done_to_a_unit_by_hand_is_undone() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", RUNNING);
    desk.pass(&[&spec]).await;
    for command in
        [&["stop", "a.service"][..], &["disable", "a.service"], &["kill", "-s", "KILL", "a.service"]]
    {
        machine.run(&[&["systemctl"], command].concat());
        wait_for("it is seen", || {
            machine.property("a.service", "ActiveState") != "active" || command[0] == "disable"
        });
        assert_eq!(desk.pass(&[&spec]).await.done, ["update a.service: done"], "{command:?}");
        assert_eq!(machine.property("a.service", "ActiveState"), "active");
        assert_eq!(desk.pass(&[&spec]).await.done, [""; 0], "{command:?}");
    }
    // An edited file, which systemd has not read yet.
    let text = fs::read_to_string(machine.file("a.service")).unwrap();
    fs::write(machine.file("a.service"), text.replace("1d", "9d")).unwrap();
    assert_eq!(desk.pass(&[&spec]).await.done, ["update a.service: done"]);
    assert_eq!(fs::read_to_string(machine.file("a.service")).unwrap(), text);
    assert_eq!(desk.originals().len(), 1, "what somebody wrote is kept");
    assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
}

/// A unit that a package brought.
pub(crate) fn install(machine: &Machine, name: &str) {
    let vendor = "[Service]\nExecStart=/bin/sleep 1d\n[Install]\nWantedBy=basic.target\n";
    fs::write(machine.desk_path(&format!("/usr/lib/systemd/system/{name}")), vendor).unwrap();
    machine.run(&["systemctl", "daemon-reload"]);
}

#[tokio::test]
async fn drop_ins_masks_and_units_of_packages_are_managed_without_their_files() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    install(&machine, "v.service");
    let spec = "Unit v.service {state: running, dropIns: {limits: \"[Service]\\nEnvironment=A=1\\n\"}}";
    assert_eq!(desk.pass(&[spec]).await.done, ["update v.service: done"]);
    assert_eq!(machine.property("v.service", "Environment"), "A=1");
    assert_eq!(desk.pass(&[spec]).await.done, [""; 0]);
    let pid = machine.pid("v.service");
    assert_eq!(desk.pass(&[&spec.replace("A=1", "A=2")]).await.done, ["update v.service: done"]);
    assert_eq!(machine.property("v.service", "Environment"), "A=2");
    assert_ne!(machine.pid("v.service"), pid);

    let masked = "Unit v.service {masked: true, state: stopped}";
    assert_eq!(desk.pass(&[masked]).await.done, ["update v.service: done"]);
    assert_eq!(machine.property("v.service", "LoadState"), "masked");
    assert_eq!(machine.property("v.service", "ActiveState"), "inactive");
    assert!(!machine.file("v.service.d").exists(), "no longer declared");
    assert_eq!(desk.pass(&[masked]).await.done, [""; 0]);
    assert_eq!(desk.pass(&["Unit v.service {masked: false}"]).await.done, ["update v.service: done"]);
    assert_eq!(machine.property("v.service", "LoadState"), "loaded");
    // A package's unit that is no longer declared is left as it is.
    assert_eq!(desk.pass(&[]).await.done, [""; 0]);

    let pass = desk.pass(&["Unit nosuch.service {state: running}"]).await;
    assert_eq!(pass.done, ["unavailable: this host has no unit nosuch.service"]);
}

#[tokio::test]
async fn a_unit_whose_program_is_missing_says_so_in_its_health() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/no/such/program", ", state: running");
    desk.pass(&[&spec]).await;
    wait_for("it failed", || machine.property("a.service", "ActiveState") == "failed");
    let health = desk.health(&desk.desired(&[&spec])).await;
    let why = "it failed: exit-code, exit status 203/EXEC (what its ExecStart= names cannot be run: does the file exist, \
               and may it be executed?)";
    assert_eq!(health, [Health::Degraded { why: why.into() }]);
    // The error of a start that is waited for says the same, and so does health while it is to be started again.
    let exec = spec.replace("[Service]", "[Service]\\nType=exec");
    let done = desk.pass(&[&exec]).await.done;
    let told = "unavailable: start a.service: the job ended with `failed`: exit-code, exit status 203/EXEC (what its";
    assert!(done.len() == 1 && done[0].contains(told), "{done:?}");
    let again = spec.replace("[Service]", "[Service]\\nRestart=always\\nRestartSec=1h");
    desk.pass(&[&again]).await;
    wait_for("it ended", || machine.property("a.service", "SubState") == "auto-restart");
    let health = desk.health(&desk.desired(&[&again])).await;
    let [Health::Progressing { why, .. }] = &health[..] else { panic!("{health:?}") };
    assert!(why.starts_with("it is activating: exit-code, exit status 203/EXEC (what its"), "{why}");
}

#[tokio::test]
async fn the_directory_of_drop_ins_goes_with_the_last_of_them_unless_somebody_else_has_one_there() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = |name: &str| unit(name, "/bin/sleep 1d", ", dropIns: {a: \"[Service]\\nNice=1\\n\"}");
    let (a, b) = (spec("a.service"), spec("b.service"));
    desk.pass(&[&a, &b]).await;
    assert!(machine.file("a.service.d/a.conf").exists() && machine.file("b.service.d/a.conf").exists());
    fs::write(machine.file("b.service.d/note"), "x").unwrap();
    assert_eq!(desk.pass(&[]).await.done, ["delete a.service: gone", "delete b.service: gone"]);
    assert!(!machine.file("a.service.d").exists());
    assert!(machine.file("b.service.d/note").exists() && !machine.file("b.service.d/a.conf").exists());

    // It may have gone by itself.
    desk.pass(&[&a]).await;
    fs::remove_dir_all(machine.file("a.service.d")).unwrap();
    assert_eq!(desk.pass(&[]).await.done, ["delete a.service: gone"]);
}

#[tokio::test]
async fn a_file_that_is_no_longer_declared_goes_before_a_mask_comes() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    desk.pass(&[&unit("a.service", "/bin/sleep 1d", RUNNING)]).await;
    let masked = "Unit a.service {masked: true, state: stopped}";
    assert_eq!(desk.pass(&[masked]).await.done, ["update a.service: done"]);
    assert_eq!(machine.property("a.service", "LoadState"), "masked");
    assert_eq!(desk.pass(&[masked]).await.done, [""; 0]);
    // A link of a name that somebody else has is not replaced.
    let other = unit("b.service", "/bin/sleep 1d", ", enabled: true")
        .replace("[Install]", "[Install]\\nAlias=c.service");
    std::os::unix::fs::symlink("/etc/elsewhere", machine.file("c.service")).unwrap();
    let done = desk.pass(&[masked, &other]).await.done;
    assert!(done[0].starts_with("create b.service: partial: invalid: enable b.service: "), "{done:?}");
    let link = fs::read_link(machine.file("c.service")).unwrap();
    assert_eq!(link, Path::new("/etc/elsewhere"));
}

#[tokio::test]
async fn what_has_no_install_section_is_not_enabled_and_says_why() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let pass = desk.pass(&["Unit systemd-exit.service {enabled: true}"]).await;
    assert_eq!(pass.done, ["invalid: systemd-exit.service cannot be enabled: it has no [Install] section"]);
}

#[tokio::test]
async fn a_unit_without_an_install_section_runs_and_is_as_declared() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let install = "[Install]\\nWantedBy=basic.target\\n";
    let with = unit("a.service", "/bin/sleep 1d", RUNNING);
    let without = with.replace(install, "");
    assert_ne!(with, without);
    let (_, problems) = desk.normalize(&[&without]);
    let shown: Vec<String> = problems.iter().map(|problem| problem.to_string()).collect();
    assert_eq!(shown.len(), 1, "{shown:?}");
    for part in ["warning: `a.service` has no [Install] section", "--> file.yaml:1:", "hint: add [Install]"] {
        assert!(shown[0].contains(part), "{part}: {}", shown[0]);
    }
    assert_eq!(desk.pass(&[&without]).await.done, ["create a.service: done"]);
    assert_eq!(machine.property("a.service", "UnitFileState"), "static");
    assert_eq!(machine.property("a.service", "ActiveState"), "active");
    assert_eq!(desk.pass(&[&without]).await.done, [""; 0]);
    // One that says how is enabled, also by a drop-in, and one that no longer does is as declared again.
    let drop_in = without.replace(RUNNING, &format!("{RUNNING}, dropIns: {{boot: \"{install}\"}}"));
    for (spec, state) in [(&with, "enabled"), (&without, ""), (&drop_in, "enabled")] {
        assert_eq!(desk.pass(&[spec]).await.done, ["update a.service: done"], "{spec}");
        assert_eq!(desk.pass(&[spec]).await.done, [""; 0], "{spec}");
        if !state.is_empty() {
            assert_eq!(machine.property("a.service", "UnitFileState"), state, "{spec}");
        }
    }
    assert_eq!(desk.pass(&[]).await.done, ["delete a.service: gone"]);
    assert!(!machine.file("basic.target.wants/a.service").is_symlink());
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_not_taken_for_absent_and_not_shown() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", RUNNING);
    desk.pass(&[&spec]).await;
    let file = machine.file("a.service");
    fs::write(&file, "[Service]\nEnvironment=KEY=canary\n").unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let (_, _, fields) = desk.plan(&desk.desired(&[&spec])).await;
    assert!(fields.iter().any(|field| field.contains("bytes, not shown")), "{fields:?}");
    assert!(!format!("{fields:?}").contains("canary"));
    // Somebody made a directory of it: whether a service of ours runs, nobody can tell from that.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let done = desk.pass(&[]).await.done;
    assert_eq!(done, ["delete a.service: failed: invalid: /etc/systemd/system/a.service is no file"]);
    assert!(desk.is_tracked("a.service"));
    assert_eq!(machine.property("a.service", "ActiveState"), "active", "left as it is");
}

#[tokio::test]
async fn a_bus_that_is_down_is_an_error_and_one_that_is_back_is_used() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", RUNNING);
    desk.pass(&[&spec]).await;
    let desired = desk.desired(&[&spec]);
    let mut hints = desk.provider.hints();
    let quiet = Duration::from_millis(500);
    while tokio::time::timeout(quiet, hints.next()).await.is_ok() {}
    machine.run(&["systemctl", "stop", "dbus.socket", "dbus.service"]);
    assert!(hints.next().await.is_some(), "somebody has to look, and say what is wrong");
    let error = desk.try_observe(&desired).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.hint.is_some(), "{error:?}");
    let answer = desk.provider.versions(&desk.cx, &[]).await;
    assert_eq!(answer.unwrap_err().kind, ErrorKind::Unavailable, "who only asks for an answer is told so");
    machine.run(&["systemctl", "start", "dbus.socket"]);
    assert!(desk.provider.versions(&desk.cx, &[]).await.is_ok());
    assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
}

#[test]
fn units_that_mean_nothing_are_refused_with_what_to_write() {
    let refuse = |spec: &str, part: &str| {
        let desk = Desk::with(|config| config.bus = Some("system".into()));
        let (resources, problems) = desk.normalize(&[spec]);
        let shown: Vec<String> = problems.iter().map(|problem| problem.to_string()).collect();
        assert!(resources.is_empty() && shown.iter().any(|text| text.contains(part)), "{spec}: {shown:#?}");
        assert!(problems.iter().all(|problem| problem.hint.is_some()), "{shown:#?}");
    };
    refuse("Unit web {state: running}", "no name of a unit");
    refuse("Unit web.servce {state: running}", "units of type `servce`");
    refuse("Unit web.swap {state: running}", "units of type `swap`");
    refuse("Unit -.mount {state: running}", "the root of the host");
    refuse("Unit ../x.service {state: running}", "no name of a unit");
    refuse("Unit a.service {onChange: none}", "says nothing");
    refuse("Unit a@.service {state: running}", "is a template");
    refuse("Unit a.service {masked: true, content: \"[Service]\"}", "cannot be masked and have content");
    refuse("Unit a.service {masked: true, state: running}", "neither runs nor is enabled");
    refuse("Unit a.service {dropIns: {a/b: x}}", "no name of a drop-in");
    let ends = "Unit a.service {state: running, content: \"[Service]\\nType=oneshot\\n\"";
    refuse(&format!("{ends}}}"), "ends by itself");
    refuse(&format!("{ends}, dropIns: {{a: \"[Service]\\nRemainAfterExit=no\\n\"}}}}"), "ends by itself");
    refuse("Unit a.service {state: running, reloadOn: [/root/x]}", "below none of the `paths`");
    refuse("Unit a.service {state: running, reloadOn: [etc/x]}", "does not begin with a slash");
    refuse(
        "Unit a.service {state: running, restartOn: [/etc/systemd/system/b.service]}",
        "is a file of units",
    );
    refuse("Unit a.timer {state: running, restartOn: [/etc/x]}", "is no service");
    refuse("Unit a.service {state: running, restartOn: [/etc/x], reloadOn: [/etc/x]}", "is named twice");
    refuse("Unit a.service {restartOn: [/etc/x]}", "says nothing");
    let desk = Desk::with(|config| config.bus = Some("system".into()));
    for stays in [
        format!("{ends}, dropIns: {{a: \"[Service]\\nRemainAfterExit=yes\\n\"}}}}"),
        format!("{ends}, dropIns: {{a: \"[Service]\\nType=simple\\n\"}}}}"),
        ends.replace("running", "stopped") + "}",
    ] {
        let (_, problems) = desk.normalize(&[&stays]);
        assert!(problems.is_empty(), "{stays}: {problems:?}");
    }
    let desk = Desk::new();
    let (_, problems) = desk.normalize(&["Unit a.service {state: running}"]);
    assert!(problems[0].to_string().contains("it has no `bus`"), "{problems:?}");
}

#[tokio::test]
async fn a_link_that_somebody_removes_tells_of_its_unit() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", RUNNING);
    let mut hints = desk.provider.hints();
    desk.pass(&[&spec]).await;
    // What is watched is what was there at the last look at everything.
    assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
    while tokio::time::timeout(Duration::from_secs(1), hints.next()).await.is_ok() {}
    fs::remove_file(machine.file("basic.target.wants/a.service")).unwrap();
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
    assert_eq!(desk.pass(&[&spec]).await.done, ["update a.service: done"]);
    assert!(machine.file("basic.target.wants/a.service").is_symlink());
}

#[tokio::test]
async fn what_somebody_set_by_systemctl_is_drift_and_goes() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let a = unit("a.service", "/bin/sleep 1d", RUNNING);
    desk.pass(&[&a]).await;
    let pid = machine.pid("a.service");
    machine.run(&["systemctl", "set-property", "a.service", "TasksMax=7"]);
    machine.run(&["systemctl", "set-property", "--runtime", "a.service", "TasksMax=8"]);
    // That of a unit which somebody else writes is theirs.
    machine.run(&["systemctl", "set-property", "--runtime", "systemd-journald.service", "TasksMax=80"]);
    let foreign = "Unit systemd-journald.service {state: running}";
    let pass = desk.pass(&[&a, foreign]).await;
    assert_eq!(pass.done, ["update a.service: done"]);
    for directory in ["/etc", "/run"] {
        let path = format!("{directory}/systemd/system.control/a.service.d/50-TasksMax.conf");
        let told = pass.fields.iter().find(|field| field.contains(&path));
        assert!(told.is_some_and(|field| field.contains("TasksMax=")), "{path}: {:?}", pass.fields);
        assert!(!machine.desk_path(&path).exists());
    }
    assert!(!["7", "8"].contains(&&*machine.property("a.service", "TasksMax")));
    assert_eq!(machine.property("systemd-journald.service", "TasksMax"), "80");
    assert_eq!(machine.pid("a.service"), pid, "limits need no restart");
    assert_eq!(desk.pass(&[&a, foreign]).await.done, [""; 0]);
}
