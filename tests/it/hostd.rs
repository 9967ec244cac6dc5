//! The daemon without rights and its helper, as the package brings them, under a real systemd.

use crate::{machine::Machine, running::wait_for};
use reconciled_local::hands::{
    Watched,
    wire::{Answer, Ask, Frames, Question, VERSION, send},
};
use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    process::{Child, Command, Stdio},
};
use tokio::net::UnixStream;

const HELPED: &str = "  - {name: host, type: host, helper: /run/reconciled-hostd.sock, guard: {maxDeletes: 1000, maxUpdates: 1000}}";

/// What the helper may do on this machine. Its command kills it at the first file it is shown.
const MAY: &str = r#"users: [reconciled]
paths: [/etc/app]
units: ["solo.service", "web@*.service"]
commands: {fatal: [sh, -c, "test -e /etc/app/died || { touch /etc/app/died; kill -9 $PPID; sleep 5; }"]}
"#;

const UNITS: &str = "apiVersion: systemd/v1\nkind: Unit\nmetadata: {name: solo.service}\nspec:\n  enabled: true\n  \
    state: running\n  content: |\n    [Service]\n    ExecStart=/bin/sleep 1000\n    [Install]\n    \
    WantedBy=multi-user.target\n---\napiVersion: systemd/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  \
    replicas: 2\n  minReadySeconds: 0\n  content: |\n    [Service]\n    ExecStart=/bin/sleep 2000\n";

fn file(path: &str, rest: &str) -> String {
    let name = path.replace('/', "-");
    format!(
        "apiVersion: local/v1\nkind: File\nmetadata: {{name: x{name}}}\nspec: {{path: {path}, {rest}}}\n---\n"
    )
}

impl Machine {
    /// A machine whose helper may do what [`MAY`] says.
    fn helped() -> Option<Machine> {
        let machine = Machine::with_unit()?;
        machine.run(&["mkdir", "/etc/app"]);
        machine.write("/etc/reconciled/hostd.yaml", MAY);
        machine.config(HELPED);
        machine.run(&["systemctl", "start", "reconciled-hostd.socket"]);
        Some(machine)
    }
    fn is(&self, unit: &str, state: &str) -> bool {
        self.run(&["systemctl", "show", unit, "--value", "-p", "ActiveState"]).trim() == state
    }
    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }
    /// What the helper says first to a question of this user.
    fn ask_as(&self, user: &str, question: &str) -> String {
        let script = "import socket,struct,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect('/run/reconciled-hostd.sock')\n\
            q=sys.argv[1].encode()\ntry: s.sendall(struct.pack('>I',len(q))+q)\nexcept BrokenPipeError: pass\n\
            n=struct.unpack('>I',s.recv(4,socket.MSG_WAITALL))[0]\nprint(s.recv(n,socket.MSG_WAITALL))\n";
        let words = [
            "setpriv",
            &format!("--reuid={user}"),
            "--regid=reconciled",
            "--clear-groups",
            "python3",
            "-c",
            script,
        ];
        self.run(&[&words[..], &[question]].concat())
    }
}

#[test]
fn a_daemon_without_rights_keeps_files_units_and_deployments_through_its_helper() {
    let Some(machine) = Machine::helped() else { return };
    machine.env.push("all.yaml", &(file("/etc/app/a", "content: \"one\\n\"") + UNITS));
    machine.systemctl("start");
    wait_for("all is there", || {
        machine.text("/etc/app/a") == "one\n"
            && ["solo.service", "web@1.service", "web@2.service"]
                .iter()
                .all(|unit| machine.is(unit, "active"))
    });
    assert_eq!(machine.run(&["stat", "-c", "%U %a", "/etc/app/a"]), "root 644\n");
    let daemon = machine.run(&["systemctl", "show", "reconciled", "--value", "-p", "MainPID"]);
    assert_eq!(machine.run(&["ps", "-o", "user=", "-p", daemon.trim()]), "reconciled\n");

    machine.write("/etc/app/a", "by hand\n");
    machine.run(&["systemctl", "stop", "solo.service"]);
    wait_for("it is put right", || {
        machine.text("/etc/app/a") == "one\n" && machine.is("solo.service", "active")
    });

    // What the helper may not do is refused by name, and the rest goes on.
    let outside = file("/etc/other", "content: x") + &file("/etc/app/b", "content: \"two\\n\"");
    machine.env.push("more.yaml", &outside);
    wait_for("what is allowed is done", || machine.text("/etc/app/b") == "two\n");
    let refused = "/etc/other is not below any of the directories that the helper may go to";
    wait_for("the refusal is told", || {
        let output = machine.command(&["reconciled", "status"]);
        String::from_utf8_lossy(&output.stdout).contains(refused)
    });
    assert!(!machine.path("/etc/other").exists());

    // Of its group, and not among those who may ask.
    machine.run(&["useradd", "member"]);
    let look = r#"{"version":5,"ask":{"Look":["/etc/app/a"]}}"#;
    assert!(machine.ask_as("member", look).contains("may not ask the helper"));
    assert!(machine.ask_as("reconciled", look).contains("Seen"));
    let shadow = r#"{"version":5,"ask":{"Look":["/etc/shadow"]}}"#;
    let said = machine.ask_as("reconciled", shadow);
    assert!(said.contains("not below any of the directories") && !said.contains("content"), "{said}");
}

#[test]
fn a_helper_that_is_killed_over_a_request_is_started_again_and_the_pass_goes_on() {
    let Some(machine) = Machine::helped() else { return };
    machine.env.push("a.yaml", &file("/etc/app/a", "content: \"one\\n\""));
    machine.systemctl("start");
    wait_for("it is there", || machine.text("/etc/app/a") == "one\n");
    machine.env.push("a.yaml", &file("/etc/app/a", "content: \"two\\n\", validate: fatal"));
    wait_for("the new one is there", || machine.text("/etc/app/a") == "two\n");
    assert!(machine.path("/etc/app/died").exists());
    let names = machine.run(&["ls", "-A", "/etc/app"]);
    assert_eq!(names, "a\ndied\n", "a draft is left");
    let log = machine.run(&["journalctl", "-u", "reconciled-hostd", "-o", "cat", "--no-pager"]);
    assert!(log.contains("Main process exited, code=killed"), "{log}");
}

#[test]
fn a_helper_that_is_away_is_told_at_once_and_no_longer_when_it_is_back() {
    let Some(machine) = Machine::helped() else { return };
    machine.env.push("a.yaml", &file("/etc/app/a", "content: \"one\\n\""));
    machine.systemctl("start");
    wait_for("it is there", || machine.text("/etc/app/a") == "one\n");
    let status = || {
        let output = machine.command(&["reconciled", "status"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let is_away = || status().contains("ask the helper at /run/reconciled-hostd.sock");
    wait_for("it is well", || status().contains("1 well"));
    assert!(!is_away());
    machine.run(&["systemctl", "stop", "reconciled-hostd.socket", "reconciled-hostd.service"]);
    wait_for("it is told", is_away);
    machine.write("/etc/app/a", "by hand\n");
    machine.run(&["systemctl", "start", "reconciled-hostd.socket"]);
    wait_for("it is put right", || machine.text("/etc/app/a") == "one\n");
    wait_for("it is told no longer", || !is_away());
}

#[test]
fn a_configuration_that_others_can_write_is_not_believed() {
    let Some(machine) = Machine::helped() else { return };
    machine.run(&["chown", "reconciled", "/etc/reconciled/hostd.yaml"]);
    machine.env.push("a.yaml", &file("/etc/app/a", "content: x"));
    machine.run(&["systemctl", "start", "--no-block", "reconciled"]);
    let log = || machine.run(&["journalctl", "-u", "reconciled-hostd", "-o", "cat", "--no-pager"]);
    wait_for("it is refused", || log().contains("the configuration of the helper is not believed"));
    assert!(!machine.path("/etc/app/a").exists());
}

/// A helper with this configuration, as root of a namespace of its own that `script` prepares.
struct Lone {
    dir: tempfile::TempDir,
    helper: Child,
}

impl Drop for Lone {
    fn drop(&mut self) {
        let _ = self.helper.kill();
        let _ = self.helper.wait();
    }
}

impl Lone {
    fn start(config: &str, script: &str) -> Lone {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("hostd.yaml");
        fs::write(&path, config).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(dir.path().join("hostd.sock")).unwrap();
        let helper = Command::new("unshare")
            .args(["--user", "--map-root-user", "sh", "-c", script, "-"])
            .arg(env!("CARGO_BIN_EXE_reconciled"))
            .arg("--config")
            .arg(&path)
            .arg("hostd")
            .stdin(OwnedFd::from(listener))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Lone { dir, helper }
    }
    /// What it answers first.
    async fn ask(&self, ask: Ask) -> Option<Answer> {
        let stream = UnixStream::connect(self.dir.path().join("hostd.sock")).await.unwrap();
        let (read, mut to) = stream.into_split();
        send(&mut to, &Question { version: VERSION, ask }).await.unwrap();
        Frames::of(read).words().await.unwrap()
    }
}

#[tokio::test]
async fn a_configuration_that_was_mended_counts_for_the_next_one_who_asks() {
    let lone = Lone::start("paths: [/etc]\nfoo: 1\n", "exec \"$@\"");
    for _ in 0..2 {
        let answer = lone.ask(Ask::Look(Vec::new())).await;
        let Some(Answer::Failed(why)) = answer else { panic!("{answer:?}") };
        let error = reconciled_provider::Error::from(why);
        assert!(error.message.contains("unknown field `foo`"), "{error:?}");
    }
    fs::write(lone.dir.path().join("hostd.yaml"), "paths: [/etc]\n").unwrap();
    let answer = lone.ask(Ask::Look(Vec::new())).await;
    assert!(matches!(answer, Some(Answer::Done)), "{answer:?}");
}

#[tokio::test]
async fn a_helper_that_the_kernel_tells_nothing_says_so_before_it_says_that_it_listens() {
    // The limit counts by user, and each namespace of users has one of its own.
    let script = "echo 0 >/proc/sys/user/max_inotify_instances && exec \"$@\"";
    let lone = Lone::start("paths: [/etc]\n", script);
    let answer = lone.ask(Ask::ListenFiles(1, Watched::default())).await;
    let Some(Answer::Failed(why)) = answer else { panic!("{answer:?}") };
    let error = reconciled_provider::Error::from(why);
    assert_eq!(error.message, "the kernel tells of no changes");
}
