//! The daemon as a service: the shipped units under a real systemd.
//!
//! Each test boots a systemd of its own (`tests/rig/systemd`), which needs root and namespaces. Where these cannot
//! be had, `RECONCILED_TEST_SYSTEMD=no` leaves these tests out; without it they fail and say why.

use crate::{
    crash::TO_SCHEMA_6,
    env::{rrsets, zone},
    machine::{Machine, UNIT, WWW, ZONE, ZONES, root},
    pdns::Pdns,
    running::wait_for,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

#[test]
fn a_start_is_over_after_the_first_pass_and_a_stop_leaves_a_sound_state() {
    let Some(machine) = Machine::zonefile() else { return };
    machine.systemctl("start");
    // No waiting: the start came back, so the record is there.
    assert!(machine.zone_file().contains("192.0.2.1"), "{}", machine.journal());
    assert_eq!(machine.property("ActiveState"), "active");
    // What was written has to be seen again first.
    wait_for("it is in sync", || machine.property("StatusText").ends_with("scopes: 1 in sync"));
    let status = machine.systemctl("status");
    assert!(status.contains("Status: \"at "), "{status}");
    assert_eq!(machine.run(&["stat", "-c", "%U %a", "/var/lib/reconciled"]), "reconciled 700\n");
    assert_eq!(
        machine.run(&["stat", "-c", "%U:%G %a", "/run/reconciled/api.sock"]),
        "reconciled:reconciled 660\n"
    );
    assert_eq!(machine.run(&["ps", "-o", "user=", "-p", &machine.pid()]), "reconciled\n");

    machine.systemctl("stop");
    assert_eq!(
        (machine.property("Result"), machine.property("ExecMainStatus")),
        ("success".into(), "0".into())
    );
    machine.is_sound();
    machine.systemctl("start");
    assert_eq!(machine.property("NRestarts"), "0");
}

#[test]
fn the_socket_lets_root_and_the_group_in_and_nobody_else() {
    let Some(machine) = Machine::zonefile() else { return };
    machine.run(&["useradd", "--groups", "reconciled", "member"]);
    machine.run(&["useradd", "stranger"]);
    machine.systemctl("start");
    let status = |user: &str| {
        machine.command(&["setpriv", &format!("--reuid={user}"), "--init-groups", "reconciled", "status"])
    };
    for user in ["root", "member"] {
        let output = status(user);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && text.contains("using daemon"), "{user}: {text}");
    }
    let output = status("stranger");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("using daemon"), "a stranger came in");
}

#[test]
fn a_reload_keeps_the_process_and_one_that_is_refused_keeps_it_at_work() {
    let Some(machine) = Machine::zonefile() else { return };
    machine.systemctl("start");
    let pid = machine.pid();
    machine.run(&["install", "-d", "-o", "reconciled", "/srv/zones/more"]);
    let more = ZONES.replace("name: zones", "name: more").replace("/srv/zones", "/srv/zones/more");
    machine.config(&format!("{ZONES}\n{more}"));
    machine.systemctl("reload");
    wait_for("the reload is done", || machine.journal().contains("configuration is reloaded"));
    machine.env.push("more.yaml", &zone("example.org", "more", &[WWW]));
    wait_for("what was reloaded counts", || machine.path("/srv/zones/more/example.org.zone").exists());
    assert!(machine.journal().contains("Reloaded reconciled.service"), "{}", machine.journal());
    wait_for("it is active again", || machine.is_active());

    machine.config("  - {name: zones, type: zonefiel}");
    machine.systemctl("reload");
    let status = || machine.property("StatusText");
    wait_for("the refusal is told", || status().starts_with("reload refused, see the log; at "));
    assert!(machine.journal().contains("did you mean"), "{}", machine.journal());
    assert!(machine.is_active());
    machine.env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    wait_for("it still works", || machine.zone_file().contains("192.0.2.2"));

    machine.config(&format!("{ZONES}\n{more}"));
    machine.systemctl("reload");
    wait_for("the refusal is over", || status().starts_with("at "));
    assert_eq!((machine.pid(), machine.property("NRestarts")), (pid, "0".into()));
}

#[test]
fn the_journal_is_asked_by_the_fields_of_a_line() {
    let Some(machine) = Machine::zonefile() else { return };
    let config = fs::read_to_string(machine.path("/etc/reconciled/config.yaml")).unwrap();
    machine.write("/etc/reconciled/config.yaml", &format!("{config}telemetry: {{log: journald}}\n"));
    machine.systemctl("start");
    fs::rename(machine.env.path("repo.git"), machine.env.path("away.git")).unwrap();
    let asked = || {
        let of = ["SYSLOG_IDENTIFIER=reconciled", "PRIORITY=4", "RECONCILED_SOURCE=infra"];
        let output = machine.command(&[&["journalctl", "-o", "json", "--no-pager"], &of[..]].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    wait_for("the journal has it", || asked().contains("source cannot be had"));
}

#[test]
fn a_process_that_hangs_is_ended_by_the_watchdog_and_one_that_is_killed_comes_back() {
    let Some(machine) = Machine::zonefile() else { return };
    machine.drop_in("ReadWritePaths=/srv/zones\nRestartSec=100ms\nWatchdogSec=3s");
    machine.systemctl("start");
    let pid = machine.pid();
    // Longer than the watchdog allows: what is well is fed.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        assert_eq!(machine.pid(), pid, "{}", machine.journal());
        std::thread::park_timeout(Duration::from_millis(200));
    }
    machine.kill("STOP");
    wait_for("it is started again", || machine.property("NRestarts") == "1" && machine.is_active());
    assert!(machine.journal().contains("Watchdog timeout"), "{}", machine.journal());

    machine.kill("KILL");
    wait_for("it is started again", || machine.property("NRestarts") == "2" && machine.is_active());
    machine.env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    wait_for("it works", || machine.zone_file().contains("192.0.2.2"));
    machine.systemctl("stop");
    machine.is_sound();
}

#[test]
fn a_loop_that_stands_still_while_all_else_goes_on_is_found_by_the_watchdog() {
    let Some(machine) = Machine::zonefile() else { return };
    // It is taken up many times with each pass.
    let hangs = "Environment=RECONCILED_FAILPOINT=loop.hangs:200";
    machine.drop_in(&format!("ReadWritePaths=/srv/zones\nRestartSec=100ms\nWatchdogSec=4s\n{hangs}"));
    machine.systemctl("start");
    let pid = machine.pid();
    let goes_round = || {
        let output = machine.command(&["reconciled", "sync", "--wait", "--timeout", "5s"]);
        output.status.success()
    };
    wait_for("the loop stands still", || !goes_round());
    // The process answers, and systemd is not told a word more than before.
    machine.run(&["reconciled", "status"]);
    assert_eq!(machine.pid(), pid);
    wait_for("it is started again", || machine.property("NRestarts") == "1" && machine.is_active());
    assert!(machine.journal().contains("Watchdog timeout"), "{}", machine.journal());
    machine.drop_in("ReadWritePaths=/srv/zones\nRestartSec=100ms");
    machine.systemctl("restart");
    machine.env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    wait_for("it works", || machine.zone_file().contains("192.0.2.2"));
    machine.systemctl("stop");
    machine.is_sound();
}

#[test]
fn a_credential_that_only_root_can_read_reaches_the_provider() {
    let server = Pdns::start();
    let Some(machine) = Machine::with_unit() else { return };
    machine.write("/etc/reconciled/pdns.key", &server.key);
    machine.run(&["chmod", "600", "/etc/reconciled/pdns.key"]);
    machine.drop_in("LoadCredential=pdns:/etc/reconciled/pdns.key");
    machine.config(&format!(
        "  - {{name: pdns, type: powerdns, url: \"{}\", apiKey: {{credential: pdns}}}}",
        server.url
    ));
    machine.env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    machine.systemctl("start");
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]), "{}", machine.journal());
    assert!(!machine.journal().contains(&server.key));
}

#[test]
fn a_provider_and_a_repository_that_hang_fail_neither_the_start_nor_the_stop() {
    let Some(machine) = Machine::with_unit() else { return };
    // Takes every call and answers none.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    // A start that is over its limit and lives, a stop that does not wait for libgit2 to give up.
    machine.drop_in("TimeoutStartSec=3s\nTimeoutStopSec=15s");
    machine.write("/etc/reconciled/key", "key");
    machine.config_with(
        &format!("  - {{name: hung, url: \"https://{address}/x.git\", allow: all}}\n"),
        &format!("  - {{name: pdns, type: powerdns, url: \"http://{address}\", apiKey: {{file: /etc/reconciled/key}}, timeout: 5s}}"),
    );
    machine.env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let start = Instant::now();
    machine.run(&["systemctl", "start", "--no-block", UNIT]);
    wait_for("it runs", || machine.journal().contains("daemon is running"));
    // A reload is no end of the start.
    machine.kill("HUP");
    wait_for("it is reloaded", || machine.journal().contains("configuration is reloaded"));
    assert_eq!(machine.property("ActiveState"), "activating", "{}", machine.journal());
    machine.systemctl("start");
    assert!(start.elapsed() > Duration::from_secs(3), "the start never was at its limit");
    assert_eq!(machine.property("NRestarts"), "0", "{}", machine.journal());
    machine.systemctl("stop");
    assert_eq!(machine.property("Result"), "success", "{}", machine.journal());
    machine.is_sound();
}

#[test]
fn a_host_s_own_daemon_takes_the_place_of_the_other_and_keeps_its_state() {
    let Some(machine) = Machine::zonefile() else { return };
    machine.systemctl("start");
    machine.run(&["install", "-d", "/etc/zones"]);
    machine.config(&ZONES.replace("/srv/zones", "/etc/zones"));
    machine.run(&["systemctl", "start", "reconciled-host.service"]);
    assert_eq!(machine.property("ActiveState"), "inactive");
    let file = fs::read_to_string(machine.path("/etc/zones/example.com.zone")).unwrap();
    assert!(file.contains("192.0.2.1"), "{file}");
    machine.run(&["systemctl", "stop", "reconciled-host.service"]);
    machine.is_sound();
    // The way back: the state belongs to the user again.
    machine.config(ZONES);
    machine.systemctl("start");
    assert!(machine.is_active());
}

/// Configuration of a host that manages its own files and units.
const HOST: &str = "  - {name: host, type: host, bus: system, paths: [/etc]}";

/// A manifest of a unit that sleeps so long.
fn sleeper(name: &str, program: &str) -> String {
    format!(
        "apiVersion: systemd/v1\nkind: Unit\nmetadata: {{name: {name}}}\nspec:\n  enabled: true\n  state: running\n  \
         content: |\n    [Service]\n    ExecStart={program} 1d\n    [Install]\n    WantedBy=basic.target\n---\n"
    )
}

#[test]
fn a_host_s_own_daemon_keeps_files_and_units_and_hears_when_they_change() {
    let Some(machine) = Machine::with_unit() else { return };
    machine.config(HOST);
    let file = "apiVersion: local/v1\nkind: File\nmetadata: {name: x}\nspec: {path: /etc/x, content: x, owner: daemon, mode: \"2640\"}\n---\n";
    machine.env.push("all.yaml", &format!("{file}{}", sleeper("sleeper.service", "/bin/sleep")));
    machine.run(&["systemctl", "start", "reconciled-host.service"]);
    let log = || {
        let output = machine.command(&["journalctl", "-u", "reconciled-host", "-o", "cat", "--no-pager"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(machine.run(&["stat", "-c", "%U %a", "/etc/x"]), "daemon 2640\n", "{}", log());
    let is = |property: &str| {
        machine.run(&["systemctl", "show", "sleeper", "--value", "-p", property]).trim().to_owned()
    };
    assert_eq!((is("ActiveState"), is("UnitFileState")), ("active".into(), "enabled".into()), "{}", log());

    // Nothing but what the machine tells can be in time: the next look by the clock is ten minutes away.
    let pid = is("MainPID");
    machine.run(&["systemctl", "kill", "-s", "KILL", "sleeper"]);
    wait_for("it runs again", || is("ActiveState") == "active" && is("MainPID") != pid);
    machine.run(&["systemctl", "disable", "sleeper"]);
    wait_for("it is enabled again", || is("UnitFileState") == "enabled");
    machine.run(&["rm", "/etc/systemd/system/sleeper.service"]);
    wait_for("it is back", || machine.path("/etc/systemd/system/sleeper.service").exists());
    machine.write("/etc/x", "by hand");
    wait_for("it is put back", || fs::read_to_string(machine.path("/etc/x")).unwrap() == "x");

    // A line that systemd cannot read is found before anything is written.
    machine.env.push("all.yaml", &format!("{file}{}", sleeper("sleeper.service", "./no/path")));
    let output = machine.command(&["reconciled", "sync", "--wait", "--timeout", "30s"]);
    assert_eq!(output.status.code(), Some(3), "{}", log());
    let status = machine.command(&["reconciled", "status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("systemd-analyze verify") && status.contains("./no/path"), "{status}");
    assert_eq!(is("ActiveState"), "active", "what runs is left alone");
    machine.run(&["systemctl", "stop", "reconciled-host.service"]);
}

#[test]
fn a_package_starts_what_it_installs_and_an_upgrade_keeps_state_and_wishes() {
    let Some(machine) = Machine::bare() else { return };
    let parts = Parts::of(&machine);
    let packages = ["0.1.0", "0.1.1"].map(|version| package(&machine, &parts, version));
    // A policy against starts would be this machine's.
    machine.run(&["rm", "-f", "/usr/sbin/policy-rc.d"]);
    let dpkg = |arguments: &[&str]| {
        machine.run(&[&["env", "DEBIAN_FRONTEND=noninteractive", "dpkg"], arguments].concat())
    };

    dpkg(&["--install", &packages[0]]);
    assert_eq!(
        (machine.property("ActiveState"), machine.property("UnitFileState")),
        ("active".into(), "enabled".into())
    );
    let other = machine.command(&["systemctl", "is-enabled", "reconciled-host.service"]);
    assert_eq!(String::from_utf8_lossy(&other.stdout), "disabled\n");
    for file in
        ["man/man1/reconciled-plan.1", "bash-completion/completions/reconciled", "doc/reconciled/systemd.md"]
    {
        assert!(machine.path(&format!("/usr/share/{file}")).exists(), "{file}");
    }

    machine.run(&["install", "-d", "-o", "reconciled", "/srv/zones"]);
    machine.drop_in("ReadWritePaths=/srv/zones");
    let kept = "backup: {dir: /var/backups/reconciled, every: 6h, keep: 8}\naudit: {keep: 400d, export: /var/log/reconciled/audit.jsonl}";
    machine.config(&format!("{ZONES}\n{kept}"));
    machine.env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    machine.systemctl("restart");
    wait_for("a backup", || {
        fs::read_dir(machine.path("/var/backups/reconciled")).is_ok_and(|entries| entries.count() > 0)
    });
    wait_for("an export", || machine.path("/var/log/reconciled/audit.jsonl").exists());
    let pid = machine.pid();
    let history = machine.run(&["reconciled", "history"]);
    assert!(history.contains("create"), "{history}");

    // The state is that of a program of before, so that the new one has something to bring up to date.
    let state =
        |query: &str| machine.run(&["sqlite3", "/var/lib/reconciled/state.db", query]).trim().to_owned();
    let newest = state("PRAGMA user_version");
    machine.systemctl("stop");
    state(TO_SCHEMA_6);
    assert_eq!(state("PRAGMA user_version"), "6");
    dpkg(&["--install", &packages[1]]);
    assert!(machine.is_active() && machine.pid() != pid, "{}", machine.journal());
    assert_eq!(state("PRAGMA user_version"), newest);
    assert_eq!(machine.run(&["reconciled", "history"]), history);
    machine.run(&["reconciled", "sync", "--wait"]);
    machine.is_sound();

    machine.run(&["systemctl", "disable", "--now", UNIT]);
    dpkg(&["--install", &packages[0]]);
    assert_eq!(
        (machine.property("ActiveState"), machine.property("UnitFileState")),
        ("inactive".into(), "disabled".into())
    );
    machine.run(&["systemctl", "enable", "--now", UNIT]);

    dpkg(&["--remove", "reconciled"]);
    assert!(
        machine.path("/var/lib/reconciled/state.db").exists()
            && machine.path("/etc/reconciled/config.yaml").exists()
    );
    assert!(!machine.path("/run/reconciled/api.sock").exists());
    dpkg(&["--purge", "reconciled"]);
    assert!(
        !machine.path("/var/lib/reconciled").exists()
            && !machine.path("/etc/reconciled/config.yaml").exists()
    );
}

/// What a command says that is run in the root of the repository, and must end well.
fn ended(command: &mut Command) -> Vec<u8> {
    let output = command.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// What each version of the package has in it, on the desk.
struct Parts {
    program: PathBuf,
    generated: PathBuf,
}

impl Parts {
    /// The program of these tests, and what is generated of it.
    fn of(machine: &Machine) -> Parts {
        let (program, generated) = (machine.env.path("reconciled"), machine.env.path("generated"));
        ended(Command::new("strip").arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_reconciled")));
        ended(Command::new("systemd/debian/generate").args([&program, &generated]));
        Parts { program, generated }
    }
}

/// The package as `[package.metadata.deb]` describes it, on the desk; returns where the machine sees it.
fn package(machine: &Machine, Parts { program, generated }: &Parts, version: &str) -> String {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let metadata: serde_json::Value =
        serde_json::from_slice(&ended(Command::new(env!("CARGO")).args(arguments))).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let deb = &packages.iter().find(|p| p["name"] == "reconciled").unwrap()["metadata"]["deb"];
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();

    let tree = machine.env.path(version);
    for asset in deb["assets"].as_array().unwrap() {
        let (source, dest, mode) = (text(&asset[0]), text(&asset[1]), text(&asset[2]));
        let source = source.replace("target/release/package", generated.to_str().unwrap());
        let source = source.replace("target/release/reconciled", program.to_str().unwrap());
        // A shell resolves what may be a pattern; `install` fails where nothing is.
        let line = match (dest.ends_with('/'), tree.join(&dest).display()) {
            (true, folder) => format!("install -D -m {mode} -t {folder} {source}"),
            (false, file) => format!("install -D -m {mode} -T {source} {file}"),
        };
        ended(Command::new("sh").args(["-c", &line]));
    }
    let scripts = text(&deb["maintainer-scripts"]);
    for script in ["postinst", "prerm", "postrm"] {
        let to = tree.join("DEBIAN").join(script);
        ended(Command::new("install").arg("-D").arg(Path::new(&scripts).join(script)).arg(to));
    }
    let conffiles: String =
        deb["conf-files"].as_array().unwrap().iter().map(|file| text(file) + "\n").collect();
    fs::write(tree.join("DEBIAN/conffiles"), conffiles).unwrap();
    let architecture = String::from_utf8(ended(Command::new("dpkg").arg("--print-architecture"))).unwrap();
    let control = format!(
        "Package: reconciled\nVersion: {version}\nArchitecture: {architecture}Maintainer: {}\nDepends: {}\nDescription: it\n",
        text(&deb["maintainer"]),
        text(&deb["depends"]).replace("$auto, ", ""),
    );
    fs::write(tree.join("DEBIAN/control"), control).unwrap();
    ended(Command::new("dpkg-deb").args(["--root-owner-group", "-Znone", "--build"]).arg(&tree));
    format!("/srv/desk/{version}.deb")
}

#[test]
fn scripts_are_as_shellcheck_wants_them() {
    let scripts =
        ["postinst", "prerm", "postrm", "generate", "build"].map(|name| format!("systemd/debian/{name}"));
    let output = Command::new("shellcheck")
        .args(scripts)
        .args(["tests/run", "tests/rig/systemd", ".ci/run"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn units_are_well_formed_and_as_closed_as_they_claim() {
    let limits = [
        ("reconciled.service", 2.0),
        ("reconciled-host.service", 3.0),
        ("reconciled-hostd.service", 2.0),
        ("reconciled-plugin@.service", 1.5),
    ];
    for (unit, limit) in limits {
        let file = root().join("systemd").join(unit);
        let output = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager"])
            .arg(&file)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // A template is looked at as one of its instances.
        let shown = unit.replace("@.", "@i.");
        let (_, score) =
            text.split_once(&format!("exposure level for {shown}: ")).unwrap_or_else(|| panic!("{text}"));
        let score: f64 = score.split(' ').next().unwrap().parse().unwrap();
        assert!(score > 0.0 && score <= limit, "{unit}: {score}\n{text}");
    }
    let Some(machine) = Machine::with_unit() else { return };
    let units = limits.map(|(unit, _)| format!("/usr/lib/systemd/system/{unit}"));
    let units: Vec<&str> = units.iter().map(String::as_str).collect();
    let output = machine.command(&[&["systemd-analyze", "verify", "--man=no"][..], &units].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("reconciled"), "{said}");
}

#[test]
fn a_terraform_provider_has_a_user_of_its_own_and_ends_with_the_daemon() {
    let Some(machine) = Machine::with_unit() else { return };
    // Where everybody may write, and a provider that the daemon may read.
    machine.run(&["install", "-d", "-m", "777", "/srv/things", "/srv/things/world"]);
    let toy = crate::terraform::toy();
    machine.run(&["install", "-D", toy.to_str().unwrap(), "/usr/lib/reconciled/terraform-provider-toy"]);
    machine.write(
        "/etc/systemd/system/reconciled-plugin@.service.d/local.conf",
        "[Service]\nReadWritePaths=/srv/things\n",
    );
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "start", "reconciled-plugin.socket"]);
    machine.config(
        "  - {name: toy, type: terraform, source: example/toy, settle: 0s, path: /usr/lib/reconciled/terraform-provider-toy, config: {directory: /srv/things/world}, sandbox: /run/reconciled-plugin.sock}"
    );
    machine.env.push("a.yaml", &crate::terraform::thing("a", "", "name: a"));
    machine.systemctl("start");
    wait_for("the thing", || machine.path("/srv/things/world/thing-1.json").exists());
    // By a user who is neither the daemon's nor root, and exists no longer than that.
    let owner = machine.run(&["stat", "-c", "%u", "/srv/things/world/thing-1.json"]).trim().to_string();
    let daemon = machine.run(&["id", "-u", "reconciled"]).trim().to_string();
    assert!(owner != "0" && owner != daemon, "{owner}");
    let units = || machine.run(&["systemctl", "list-units", "--plain", "--no-legend", "reconciled-plugin@*"]);
    assert_eq!(units().lines().count(), 1, "{}", units());
    // Nobody else can have programs run there.
    assert_eq!(machine.run(&["stat", "-c", "%U %a", "/run/reconciled-plugin.sock"]), "reconciled 600\n");
    machine.kill("SIGKILL");
    machine.run(&["systemctl", "stop", UNIT]);
    wait_for("the end of the provider", || units().is_empty());
}
