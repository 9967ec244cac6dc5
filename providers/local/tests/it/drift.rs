//! What somebody does by hand to units beside the content of their files: who may write them, and what stands beside them.

use crate::{
    deployments,
    desk::{Desk, Pass},
    units::{Machine, RUNNING, install, unit, wait_for},
};
use futures_util::StreamExt;
use reconciled_provider::{Focus, Op};
use reconciled_testkit::PATIENCE;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Has a file belong to nobody and be written by everyone.
fn open_to_all(file: &Path) {
    std::os::unix::fs::chown(file, Some(65534), None).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
}

#[track_caller]
fn is_closed_again(desk: &Desk, pass: &Pass, path: &str, file: &Path) {
    let told = format!("{path} access Text(\"mode 0666, owner nobody\") Absent");
    assert!(pass.fields.contains(&told), "{told}: {:#?}", pass.fields);
    let stat = fs::metadata(file).unwrap();
    assert_eq!((stat.mode() & 0o7777, stat.uid()), (0o644, 0), "{path}");
    assert_eq!(desk.originals(), [""; 0], "nobody wrote anything in it");
}

#[tokio::test]
async fn who_may_write_a_file_of_a_unit_is_put_right_and_nothing_is_restarted_for_it() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let drop_in = ", dropIns: {nice: \"[Service]\\nNice=5\\n\"}";
    let spec = unit("a.service", "/bin/sleep 1d", &format!("{RUNNING}{drop_in}"));
    desk.pass(&[&spec]).await;
    let pid = machine.pid("a.service");
    for name in ["a.service", "a.service.d/nice.conf"] {
        let file = machine.file(name);
        open_to_all(&file);
        let pass = desk.pass(&[&spec]).await;
        assert_eq!(pass.done, ["update a.service: done"]);
        is_closed_again(desk, &pass, &format!("/etc/systemd/system/{name}"), &file);
        assert_eq!(machine.pid("a.service"), pid);
        assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
    }
}

#[tokio::test]
async fn who_may_write_a_unit_of_a_job_is_put_right() {
    let Some(machine) = Machine::of("cron", |_| {}) else { return };
    let desk = &machine.desk;
    let spec = "CronJob tidy {schedule: '@yearly', command: [/bin/true]}";
    desk.pass(&[spec]).await;
    let file = machine.file("tidy.service");
    open_to_all(&file);
    let pass = desk.pass(&[spec]).await;
    assert_eq!(pass.done, ["update tidy.service: done"]);
    is_closed_again(desk, &pass, "/etc/systemd/system/tidy.service", &file);
    assert_eq!(desk.pass(&[spec]).await.done, [""; 0]);
}

#[tokio::test]
async fn who_may_write_a_template_or_the_file_of_a_balancer_is_put_right_and_nothing_is_restarted_for_it() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    fs::write(machine.file("front.service"), "[Service]\nExecStart=/bin/sleep 1d\n").unwrap();
    machine.run(&["systemctl", "daemon-reload"]);
    let specs = [
        "Deployment web app=web {content: \"[Service]\\nExecStart=/bin/sleep 1d\\n\", minReadySeconds: 0}",
        "LoadBalancer front {type: haproxy, path: /etc/front.conf, selector: {app: web}, listen: 8080, reload: front.service}",
    ];
    while !desk.pass(&specs).await.done.is_empty() {}
    let pid = machine.pid(&deployments::unit(1));
    let template = ("/etc/systemd/system/web@.service", machine.file("web@.service"), "web@.service");
    let front = ("/etc/front.conf", machine.desk_path("/etc/front.conf"), "/etc/front.conf");
    for (path, file, id) in [template, front] {
        open_to_all(&file);
        let pass = desk.pass(&specs).await;
        assert_eq!(pass.done, [format!("update {id}: done")]);
        is_closed_again(desk, &pass, path, &file);
        assert_eq!(machine.pid(&deployments::unit(1)), pid);
        assert_eq!(desk.pass(&specs).await.done, [""; 0]);
    }
}

impl Machine {
    /// What `systemctl edit` does.
    fn edit(&self, directory: &str, unit: &str, text: &str) -> PathBuf {
        let directory = self.desk_path(&format!("{directory}/{unit}.d"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("override.conf"), text).unwrap();
        self.run(&["systemctl", "daemon-reload"]);
        directory.join("override.conf")
    }
    fn command(&self, unit: &str) -> String {
        self.run(&["ps", "-o", "args=", "-p", &self.pid(unit)]).trim().to_owned()
    }
}

const ETC: &str = "/etc/systemd/system";
const RUN: &str = "/run/systemd/system";

const OTHER: &str = "[Service]\nExecStart=\nExecStart=/bin/sleep 9d\n";

#[tokio::test]
async fn what_somebody_put_beside_a_unit_file_is_drift_and_goes() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let ours = ", dropIns: {override: \"[Service]\\nNice=5\\n\"}";
    let (a, b) = (
        unit("a.service", "/bin/sleep 1d", RUNNING),
        unit("b.service", "/bin/sleep 1d", &format!("{RUNNING}{ours}")),
    );
    desk.pass(&[&a, &b]).await;
    assert_eq!(desk.pass(&[&a, &b]).await.done, [""; 0]);
    for (count, directory) in [(1, ETC), (2, RUN)] {
        let path = format!("{directory}/a.service.d/override.conf");
        let file = machine.edit(directory, "a.service", OTHER);
        machine.run(&["systemctl", "restart", "a.service"]);
        assert_eq!(machine.command("a.service"), "/bin/sleep 9d");
        let pass = desk.pass(&[&a, &b]).await;
        assert_eq!(pass.done, ["update a.service: done"], "{path}");
        let told = pass.fields.iter().find(|field| field.starts_with(&path));
        assert!(told.is_some_and(|field| field.contains("sleep 9d")), "{:?}", pass.fields);
        assert!(!file.exists());
        assert_eq!(machine.command("a.service"), "/bin/sleep 1d", "it was started with it");
        assert_eq!(desk.originals().len(), count, "what somebody wrote is kept");
        assert_eq!(desk.pass(&[&a, &b]).await.done, [""; 0]);
    }
    // What systemd has not read, or what does not run with it, is no reason to restart.
    let pid = machine.pid("a.service");
    machine.edit(ETC, "a.service", OTHER);
    assert_eq!(desk.pass(&[&a, &b]).await.done, ["update a.service: done"]);
    assert_eq!(
        (machine.pid("a.service"), machine.property("a.service", "DropInPaths")),
        (pid, String::new())
    );
    // One that is declared stays, and so does what is beside the unit of a package.
    assert!(machine.file("b.service.d/override.conf").exists());
    install(&machine, "v.service");
    let file = machine.edit(ETC, "v.service", "[Service]\nNice=5\n");
    let package = "Unit v.service {state: running}";
    desk.pass(&[&a, &b, package]).await;
    assert_eq!(desk.pass(&[&a, &b, package]).await.done, [""; 0]);
    assert!(file.exists());
}

#[tokio::test]
async fn what_was_beside_a_unit_before_it_was_ours_is_in_the_plan_that_takes_it_over() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    install(&machine, "v.service");
    let path = format!("{ETC}/v.service.d/override.conf");
    let file = machine.edit(ETC, "v.service", "[Service]\nNice=5\n");
    let spec = unit("v.service", "/bin/sleep 2d", "");
    // A creation would not say so, and nobody would be asked.
    let desired = desk.desired(&[&spec]);
    let seen = desk.observe(&desired).await;
    assert!(seen.get(&"v.service".into()).is_some());
    let pass = desk.pass(&[&spec]).await;
    assert_eq!(pass.done, ["update v.service: done"]);
    assert!(pass.fields.iter().any(|field| field.starts_with(&path)), "{:?}", pass.fields);
    assert!(!file.exists());
}

#[tokio::test]
async fn what_comes_beside_a_unit_after_the_plan_is_left_to_the_next_one() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", "");
    let (batch, _, _) = desk.plan(&desk.desired(&[&spec])).await;
    let file = machine.edit(ETC, "a.service", "[Service]\nNice=5\n");
    let done = desk.apply(&batch).await;
    assert_eq!(done, ["create a.service: failed: conflict: a.service changed since it was looked at"]);
    assert!(file.exists());
    // Dead once it has put down that it begins: what it goes on with has not seen what came since.
    fs::remove_file(&file).unwrap();
    assert!(!desk.pass_dying(&[&spec], 0).await);
    let (batch, _, _) = desk.plan(&desk.desired(&[&spec])).await;
    let file = machine.edit(ETC, "a.service", "[Service]\nNice=5\n");
    assert_eq!(desk.apply(&batch).await, ["continue a.service: done"]);
    assert!(file.exists());
    assert_eq!(desk.pass(&[&spec]).await.done, ["update a.service: done"]);
    assert!(!file.exists());
}

#[tokio::test]
async fn what_is_beside_a_unit_and_in_no_plan_stays_when_the_unit_is_written() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", RUNNING);
    desk.pass(&[&spec]).await;
    let file = machine.edit(ETC, "a.service", "[Service]\nNice=5\n");
    machine.run(&["systemctl", "restart", "a.service"]);
    let pid = machine.pid("a.service");
    fs::set_permissions(machine.file("a.service"), fs::Permissions::from_mode(0o600)).unwrap();
    // As `reconciled/ignore` has it.
    let (mut batch, ..) = desk.plan(&desk.desired(&[&spec])).await;
    let Op::Update { delta, .. } = &mut batch.actions[0].op else { panic!("{batch:?}") };
    Arc::make_mut(delta).fields.retain(|field| !field.path.ends_with("override.conf"));
    assert_eq!(desk.apply(&batch).await, ["update a.service: done"]);
    assert!(file.exists());
    assert_eq!(machine.pid("a.service"), pid, "it runs as its files are");
}

#[tokio::test]
async fn a_process_that_dies_once_a_drop_in_of_somebody_is_gone_knows_that_it_ran_with_it() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", RUNNING);
    desk.pass(&[&spec]).await;
    let file = machine.edit(ETC, "a.service", OTHER);
    machine.run(&["systemctl", "restart", "a.service"]);
    assert!(!desk.pass_dying(&[&spec], 0).await);
    // As if it had come to that.
    fs::remove_file(&file).unwrap();
    assert_eq!(desk.pass(&[&spec]).await.done, ["continue a.service: done"]);
    assert_eq!(machine.command("a.service"), "/bin/sleep 1d");
    assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
}

#[tokio::test]
async fn a_drop_in_of_somebody_tells_of_its_unit_and_goes_through_the_helper_as_well() {
    let Some((machine, _helper)) = Machine::helped("systemd", "units: [a.service]\n") else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", RUNNING);
    let mut hints = desk.provider.hints();
    desk.pass(&[&spec]).await;
    assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
    for directory in [ETC, RUN] {
        while tokio::time::timeout(Duration::from_secs(1), hints.next()).await.is_ok() {}
        let at = machine.desk_path(&format!("{directory}/a.service.d"));
        let _ = fs::remove_dir(&at);
        fs::create_dir(&at).unwrap();
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
        let file = machine.edit(directory, "a.service", OTHER);
        assert_eq!(desk.pass(&[&spec]).await.done, ["update a.service: done"], "{directory}");
        assert!(!file.exists());
    }
}

#[tokio::test]
async fn what_is_put_beside_a_template_until_the_next_boot_goes_as_well() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let spec = "Deployment web {content: \"[Service]\\nExecStart=/bin/sleep 1d\\n\", minReadySeconds: 0}";
    while !desk.pass(&[spec]).await.done.is_empty() {}
    let path = format!("{RUN}/web@.service.d/override.conf");
    let file = machine.edit(RUN, "web@.service", "[Service]\nTasksMax=7\n");
    let pass = desk.pass(&[spec]).await;
    assert_eq!(pass.done, ["update web@.service: done"]);
    assert!(pass.fields.iter().any(|field| field.starts_with(&path)), "{:?}", pass.fields);
    assert!(!file.exists());
    assert_eq!(desk.pass(&[spec]).await.done, [""; 0]);
}

#[tokio::test]
async fn what_is_beside_a_template_and_in_no_plan_stays_through_a_rolling_update() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let spec = |days: u32| {
        format!(
            "Deployment web {{replicas: 2, minReadySeconds: 0, content: \"[Service]\\nExecStart=/bin/sleep {days}d\\n\"}}"
        )
    };
    while !desk.pass(&[&spec(1)]).await.done.is_empty() {}
    let file = machine.edit(ETC, "web@.service", "[Service]\nEnvironment=A=1\n");
    let desired = desk.desired(&[&spec(2)]);
    for _ in 0..100 {
        let (mut batch, ..) = desk.plan(&desired).await;
        // As `reconciled/ignore` has it.
        batch.actions.retain_mut(|action| match &mut action.op {
            Op::Update { delta, .. } => {
                Arc::make_mut(delta).fields.retain(|field| !field.path.ends_with("override.conf"));
                !delta.fields.is_empty()
            }
            _ => true,
        });
        if batch.actions.is_empty() {
            break;
        }
        let done = desk.apply(&batch).await;
        assert!(!done.iter().any(|line| line.contains("failed")), "{done:?}");
    }
    assert!(file.exists());
    for number in [1, 2] {
        assert_eq!(machine.command(&deployments::unit(number)), "/bin/sleep 2d");
    }
    let (.., fields) = desk.plan(&desired).await;
    assert!(matches!(&fields[..], [field] if field.contains("override.conf")), "{fields:#?}");
}

/// Puts a pipe in the place of a file.
fn pipe(file: &Path) {
    let _ = fs::remove_file(file);
    mknodat(CWD, file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Sees whether anybody opens a pipe to read, and has whoever does go on.
struct Guard(Arc<AtomicBool>, JoinHandle<bool>);

impl Guard {
    fn at(pipe: PathBuf) -> Guard {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let watch = move || {
            let mut reads = false;
            while !over.load(Ordering::Relaxed) {
                // It can be opened to write where it is open to read.
                reads |= rustix::fs::open(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).is_ok();
                thread::park_timeout(Duration::from_millis(5));
            }
            reads
        };
        Guard(is_over, thread::spawn(watch))
    }
    fn reads(self) -> bool {
        self.0.store(true, Ordering::Relaxed);
        self.1.join().unwrap()
    }
}

#[tokio::test]
async fn nobody_waits_at_a_pipe_in_the_place_of_a_unit_file() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    // Whether one could be enabled that is not is read in its file.
    let plain = "Unit b.service {state: running, content: \"[Service]\\nExecStart=/bin/sleep 2d\\n\"}";
    let a = unit("a.service", "/bin/sleep 1d", RUNNING);
    desk.pass(&[&a, plain]).await;
    pipe(&machine.file("b.service"));
    let guard = Guard::at(machine.file("b.service"));
    let refused = "invalid: /etc/systemd/system/b.service is no file";
    // Also once it does not run: systemd would read the pipe to tell what came of its start.
    for stopped in ["a.service", "b.service"] {
        machine.run(&["systemctl", "stop", stopped]);
        desk.health_of_all(&desk.desired(&[&a, plain])).await;
        let pass = desk.pass(&[&a, plain]).await;
        let done =
            if stopped == "a.service" { &["update a.service: done", refused][..] } else { &[refused][..] };
        assert_eq!(pass.done, done);
    }
    assert!(!guard.reads());
}

#[tokio::test]
async fn nothing_is_asked_of_a_unit_for_which_systemd_would_read_a_pipe_among_its_drop_ins() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    // As a package brings them: their drop-ins are nobody's business.
    let text = "[Service]\nExecStart=/bin/sleep 1d\n[Install]\nWantedBy=basic.target\n";
    ["a.service", "b.service"].iter().for_each(|name| fs::write(machine.file(name), text).unwrap());
    let drop_in = |name: &str| machine.edit(ETC, name, "");
    let (idle, runs) = (drop_in("a.service"), drop_in("b.service"));
    machine.run(&["systemctl", "start", "b.service"]);
    pipe(&idle);
    let guard = Guard::at(idle.clone());
    for (declared, doing) in [("state: running", "start"), ("enabled: true", "enable")] {
        let pass = desk.pass(&[&format!("Unit a.service {{{declared}}}")]).await;
        let told = format!("{doing} a.service: /etc/systemd/system/a.service.d/override.conf is a pipe");
        assert!(pass.done.iter().any(|done| done.contains(&told)), "{:#?}", pass.done);
    }
    assert!(!guard.reads());
    fs::remove_file(&idle).unwrap();
    pipe(&runs);
    let guard = Guard::at(runs.clone());
    // What runs stays as it is: systemd would have to read its files first.
    let pass = desk.pass(&["Unit b.service {state: stopped}"]).await;
    let told = "have systemd read its unit files: /etc/systemd/system/b.service.d/override.conf is a pipe";
    assert!(matches!(&pass.done[..], [done] if done.contains(told)), "{:#?}", pass.done);
    assert!(!guard.reads());
    fs::remove_file(runs).unwrap();
    for (name, state) in [("b.service", "stopped"), ("a.service", "running")] {
        let pass = desk.pass(&[&format!("Unit {name} {{state: {state}}}")]).await;
        let done = format!(" {name}: done");
        assert!(matches!(&pass.done[..], [one] if one.ends_with(&done)), "{:#?}", pass.done);
    }
}

#[tokio::test]
async fn nothing_is_loaded_while_systemd_would_read_a_pipe_for_what_that_wants() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let text = |more: &str| {
        format!("[Unit]\n{more}[Service]\nExecStart=/bin/sleep 1d\n[Install]\nWantedBy=basic.target\n")
    };
    let units = [("a.service", "Wants=b.service\n"), ("b.service", ""), ("c.service", "")];
    units.iter().for_each(|(name, more)| fs::write(machine.file(name), text(more)).unwrap());
    machine.run(&["ln", "-s", "c.service", "/etc/systemd/system/other.service"]);
    let drop_in = machine.edit(ETC, "b.service", "");
    machine.run(&["systemctl", "start", "c.service"]);
    pipe(&drop_in);
    let guard = Guard::at(drop_in.clone());
    for (declared, doing) in [("state: running", "start"), ("enabled: true", "enable")] {
        let pass = desk.pass(&[&format!("Unit a.service {{{declared}}}")]).await;
        let told = format!("{doing} a.service: /etc/systemd/system/b.service.d/override.conf is a pipe");
        assert!(pass.done.iter().any(|done| done.contains(&told)), "{:#?}", pass.done);
    }
    // What is loaded is known by all of its names, and stopped as ever.
    for (state, done) in [("running", &[][..]), ("stopped", &["update other.service: done"])] {
        assert_eq!(desk.pass(&[&format!("Unit other.service {{state: {state}}}")]).await.done, done);
    }
    assert!(!guard.reads());
    desk.forget("other.service");
    fs::remove_file(drop_in).unwrap();
    let pass = desk.pass(&["Unit a.service {state: running}"]).await;
    assert!(matches!(&pass.done[..], [one] if one.ends_with(" a.service: done")), "{:#?}", pass.done);
}

#[tokio::test]
async fn what_is_loaded_is_not_started_while_systemd_would_read_a_pipe_for_what_that_wants() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let write = |path: &str, text: &str| fs::write(machine.desk_path(path), text).unwrap();
    let (a, drop_in) = (machine.file("a.service"), machine.file("b.service.d/x.conf"));
    fs::write(a, "[Unit]\nWants=b.service\n[Service]\nExecStart=/bin/sleep 1d\n").unwrap();
    fs::create_dir(machine.file("b.service.d")).unwrap();
    write("/etc/app.conf", "1");
    let restart = "Unit a.service {state: running, restartOn: [/etc/app.conf]}";
    desk.pass(&[restart]).await;
    // It stays loaded, whatever becomes of it.
    fs::write(machine.file("c.service"), "[Unit]\nWants=a.service\n[Service]\nExecStart=/bin/sleep 3d\n")
        .unwrap();
    machine.run(&["systemctl", "start", "c.service"]);
    assert_eq!(machine.property("b.service", "LoadState"), "not-found");
    pipe(&drop_in);
    let guard = Guard::at(drop_in.clone());
    // Of a unit that is not there systemd reads no drop-ins.
    let pid = machine.pid("a.service");
    write("/etc/app.conf", "2");
    assert_eq!(desk.pass(&[restart]).await.done, ["update a.service: done"]);
    let run = machine.pid("a.service");
    assert_ne!(run, pid);
    fs::write(machine.file("b.service"), "[Service]\nExecStart=/bin/sleep 2d\n").unwrap();
    write("/etc/app.conf", "3");
    let is_refused = async |spec: &str, doing: &str| {
        let done = desk.pass(&[spec]).await.done;
        let told = format!("{doing} a.service: /etc/systemd/system/b.service.d/x.conf is a pipe");
        assert!(matches!(&done[..], [one] if one.contains(&told)), "{done:#?}");
    };
    is_refused(restart, "restart").await;
    assert_eq!(machine.pid("a.service"), run);
    machine.run(&["systemctl", "kill", "--signal=KILL", "a.service"]);
    wait_for("it ended", || machine.property("a.service", "ActiveState") == "failed");
    is_refused(restart, "start").await;
    assert!(!guard.reads());
    fs::remove_file(drop_in).unwrap();
    assert_eq!(desk.pass(&[restart]).await.done, ["update a.service: done"]);
    wait_for("it is started as well", || machine.property("b.service", "ActiveState") == "active");
}

#[tokio::test]
async fn systemd_is_not_told_to_read_its_files_where_one_of_them_is_a_pipe() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let (a, b) = (unit("a.service", "/bin/sleep 1d", RUNNING), unit("b.service", "/bin/sleep 2d", RUNNING));
    desk.pass(&[&a, &b]).await;
    let drop_in = machine.edit(ETC, "b.service", "[Service]\nNice=5\n");
    pipe(&drop_in);
    let guard = Guard::at(drop_in.clone());
    let changed = a.replace("sleep 1d", "sleep 3d");
    let pass = desk.pass(&[&changed, &b]).await;
    assert!(
        matches!(&pass.done[..], [written, refused] if refused == "invalid: /etc/systemd/system/b.service.d/override.conf is no file"
            && written.contains("have systemd read its unit files: /etc/systemd/system/b.service.d/override.conf is a pipe")),
        "{:#?}",
        pass.done
    );
    assert!(!guard.reads());
    fs::remove_file(drop_in).unwrap();
    while !desk.pass(&[&changed, &b]).await.done.is_empty() {}
    assert_eq!(machine.command("a.service"), "/bin/sleep 3d");
}

#[tokio::test]
async fn a_link_in_the_place_of_the_directory_of_drop_ins_is_told() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", RUNNING);
    desk.pass(&[&spec]).await;
    machine.run(&["bash", "-c", "mkdir -p /opt/dd; printf '[Service]\\nNice=5\\n' >/opt/dd/x.conf"]);
    for directory in [ETC, RUN, "/etc/systemd/system.control", "/run/systemd/system.control"] {
        let link = format!("{directory}/a.service.d");
        machine.run(&["mkdir", "-p", directory]);
        machine.run(&["ln", "-s", "/opt/dd", &link]);
        machine.run(&["systemctl", "daemon-reload"]);
        assert_eq!(machine.property("a.service", "Nice"), "5", "systemd reads what is there: {link}");
        let told = format!("invalid: {link} is a link to /opt/dd: drop-ins there outrank what is declared");
        assert_eq!(desk.pass(&[&spec]).await.done, [told]);
        machine.run(&["rm", &link]);
        machine.run(&["systemctl", "daemon-reload"]);
        assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
    }
}

#[tokio::test]
async fn what_is_no_text_is_not_what_is_declared() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let spec = unit("a.service", "/bin/sleep 1d", RUNNING).replace("Description=d", "Description=\u{fffd}");
    desk.pass(&[&spec]).await;
    let file = machine.file("a.service");
    let declared = fs::read(&file).unwrap();
    let at = declared.windows(3).position(|octets| octets == "\u{fffd}".as_bytes()).unwrap();
    let other = [&declared[..at], &b"\xff"[..], &declared[at + 3..]].concat();
    fs::write(&file, &other).unwrap();
    let pass = desk.pass(&[&spec]).await;
    assert_eq!(pass.done, ["update a.service: done"]);
    assert!(pass.fields.iter().any(|field| field.contains("bytes, not shown")), "{:?}", pass.fields);
    assert_eq!(fs::read(&file).unwrap(), declared);
    assert_eq!(desk.pass(&[&spec]).await.done, [""; 0]);
}
