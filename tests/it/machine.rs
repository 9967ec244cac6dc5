//! A machine with a systemd of its own (`tests/rig/systemd`), and a desk that it sees.

use crate::env::{Env, zone};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) const UNIT: &str = "reconciled.service";
pub(crate) const ZONE: &str = "example.com";
pub(crate) const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
pub(crate) const ZONES: &str =
    "  - {name: zones, type: zonefile, directory: /srv/zones, nameservers: [ns1.example.net.]}";

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A machine with the unit, its user and an empty /etc/reconciled.
pub(crate) struct Machine {
    dir: PathBuf,
    /// A desk; the machine sees it at /srv/desk.
    pub(crate) env: Env,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = rig("down", &self.dir).status();
    }
}

fn rig(verb: &str, dir: &Path) -> Command {
    let mut command = Command::new(root().join("tests/rig/systemd"));
    command.arg(verb).arg(dir);
    command
}

/// False when the person at the tests said that there is no systemd to be had.
fn is_wanted() -> bool {
    #[expect(clippy::disallowed_methods, reason = "a person says so to the tests")]
    let says_no = std::env::var("RECONCILED_TEST_SYSTEMD").is_ok_and(|value| value == "no");
    !says_no
}

impl Machine {
    /// Boots without anything of ours; none where these tests are left out.
    pub(crate) fn bare() -> Option<Machine> {
        if !is_wanted() {
            return None;
        }
        let env = Env::new();
        let dir = env.dir.path().with_extension("machine");
        let binary = Path::new(env!("CARGO_BIN_EXE_reconciled"));
        let seen = format!("{} {}", env.dir.path().display(), binary.parent().unwrap().display());
        let output = rig("up", &dir).env("BIND", seen).output().unwrap();
        assert!(
            output.status.success(),
            "{}hint: run the tests as root, or leave these out: RECONCILED_TEST_SYSTEMD=no tests/run",
            String::from_utf8_lossy(&output.stderr)
        );
        let machine = Machine { dir, env };
        // The desk belongs to root, and services have a /tmp of their own.
        let desk = machine.env.dir.path().to_str().unwrap();
        machine.run(&["chmod", "755", desk]);
        machine.run(&["mkdir", "/srv/desk"]);
        machine.run(&["mount", "--bind", desk, "/srv/desk"]);
        Some(machine)
    }
    /// The same with units and user, as the package brings them.
    pub(crate) fn with_unit() -> Option<Machine> {
        let machine = Machine::bare()?;
        machine.run(&["install", "/dev/null", "/usr/bin/reconciled"]);
        machine.run(&["mount", "--bind", env!("CARGO_BIN_EXE_reconciled"), "/usr/bin/reconciled"]);
        for (from, to) in [
            ("reconciled.service", "/usr/lib/systemd/system/reconciled.service"),
            ("reconciled-host.service", "/usr/lib/systemd/system/reconciled-host.service"),
            ("reconciled-hostd.service", "/usr/lib/systemd/system/reconciled-hostd.service"),
            ("reconciled-hostd.socket", "/usr/lib/systemd/system/reconciled-hostd.socket"),
            ("reconciled-plugin@.service", "/usr/lib/systemd/system/reconciled-plugin@.service"),
            ("reconciled-plugin.socket", "/usr/lib/systemd/system/reconciled-plugin.socket"),
            ("sysusers.conf", "/usr/lib/sysusers.d/reconciled.conf"),
        ] {
            machine.write(to, &fs::read_to_string(root().join("systemd").join(from)).unwrap());
        }
        machine.run(&["systemd-sysusers", "reconciled.conf"]);
        machine.run(&["mkdir", "-p", "/etc/reconciled"]);
        Some(machine)
    }

    /// The place of a file of the machine, seen from here.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        let pid = fs::read_to_string(self.dir.join("pid")).unwrap();
        PathBuf::from(format!("/proc/{}/root{path}", pid.trim()))
    }
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    /// What an administrator adds to the unit, as docs/systemd.md tells.
    pub(crate) fn drop_in(&self, lines: &str) {
        self.write(&format!("/etc/systemd/system/{UNIT}.d/local.conf"), &format!("[Service]\n{lines}\n"));
        self.run(&["systemctl", "daemon-reload"]);
    }
    /// Writes the configuration with these provider entries.
    pub(crate) fn config(&self, providers: &str) {
        self.config_with("", providers);
    }
    /// The same with a further source.
    pub(crate) fn config_with(&self, source: &str, providers: &str) {
        let infra = "  - {name: infra, url: /srv/desk/repo.git, interval: 1s, allow: all}";
        self.write(
            "/etc/reconciled/config.yaml",
            &format!("api: {{group: reconciled}}\nsources:\n{infra}\n{source}providers:\n{providers}\n"),
        );
    }
    /// A machine that manages zone files in /srv/zones.
    pub(crate) fn zonefile() -> Option<Machine> {
        let machine = Machine::with_unit()?;
        machine.run(&["install", "-d", "-o", "reconciled", "/srv/zones"]);
        machine.drop_in("ReadWritePaths=/srv/zones\nRestartSec=100ms");
        machine.config(ZONES);
        machine.env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
        Some(machine)
    }

    pub(crate) fn command(&self, command: &[&str]) -> std::process::Output {
        rig("run", &self.dir).args(command).output().unwrap()
    }
    /// Runs a command that must end well; returns what it says.
    #[track_caller]
    pub(crate) fn run(&self, command: &[&str]) -> String {
        let output = self.command(command);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{command:?}: {}{}{}",
            text(&output.stdout),
            text(&output.stderr),
            self.journal()
        );
        text(&output.stdout)
    }
    #[track_caller]
    pub(crate) fn systemctl(&self, verb: &str) -> String {
        self.run(&["systemctl", verb, UNIT, "--no-pager"])
    }
    pub(crate) fn property(&self, name: &str) -> String {
        self.run(&["systemctl", "show", UNIT, "--value", "-p", name]).trim().to_owned()
    }
    pub(crate) fn is_active(&self) -> bool {
        self.property("ActiveState") == "active"
    }
    pub(crate) fn pid(&self) -> String {
        self.property("MainPID")
    }
    pub(crate) fn kill(&self, signal: &str) {
        self.run(&["systemctl", "kill", "-s", signal, "--kill-who=main", UNIT]);
    }
    pub(crate) fn journal(&self) -> String {
        let output = self.command(&["journalctl", "-u", UNIT, "-o", "cat", "--no-pager"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
    /// The state is whole, and nothing in it is open.
    #[track_caller]
    pub(crate) fn is_sound(&self) {
        let ask = |query: &str| self.run(&["sqlite3", "/var/lib/reconciled/state.db", query]);
        assert_eq!(ask("PRAGMA integrity_check"), "ok\n");
        assert_eq!(ask("SELECT count(*) FROM journal WHERE ended < total"), "0\n", "open intents");
    }
    pub(crate) fn zone_file(&self) -> String {
        fs::read_to_string(self.path("/srv/zones/example.com.zone")).unwrap_or_default()
    }
}
