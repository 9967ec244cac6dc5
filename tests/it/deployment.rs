//! Deployments and cron jobs through the real program, under the systemd that the unit's tests boot.

use crate::{machine::Machine, running::wait_for};
use reconciled::failpoint::{NAMES, STEPS, VARIABLE};
use std::os::unix::process::ExitStatusExt;

fn web(seconds: u32) -> String {
    format!(
        "apiVersion: systemd/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  provider: host\n  replicas: 3\n  \
         minReadySeconds: 0\n  content: |\n    [Service]\n    ExecStart=/bin/sleep {seconds}\n---\n\
         apiVersion: local/v1\nkind: CronJob\nmetadata: {{name: tidy}}\nspec: {{provider: host, schedule: \"*/5 * * * *\", \
         command: [/bin/true]}}\n"
    )
}

#[test]
fn a_deployment_is_made_rolled_healed_and_taken_away_and_a_cron_job_with_it() {
    let Some(machine) = Machine::bare() else { return };
    machine.write(
        "/srv/desk/c.yaml",
        "stateDir: /srv/desk/state\nsources: [{name: infra, url: /srv/desk/repo.git}]\n\
         providers: [{name: host, type: host, bus: system, paths: [/etc]}]\n",
    );
    let program = env!("CARGO_BIN_EXE_reconciled");
    let run = |words: &[&str]| machine.run(&[&[program, "--config", "/srv/desk/c.yaml"], words].concat());
    let instances = || machine.run(&["systemctl", "list-units", "web@*", "--no-legend", "--state=running"]);
    let command = |number: u32| {
        machine.run(&["systemctl", "show", "--value", "-p", "ExecStart", &format!("web@{number}.service")])
    };

    machine.env.push("web.yaml", &web(1000));
    let plan = run(&["plan"]);
    assert!(plan.contains("Deployment/web#3") && plan.contains("CronJob/tidy#timer"), "{plan}");
    run(&["apply", "--yes"]);
    assert_eq!(instances().lines().count(), 3);
    assert!(machine.run(&["systemctl", "list-timers", "--no-legend"]).contains("tidy.timer"));
    assert!(run(&["plan"]).contains("No changes. 6 resources in sync."));

    machine.run(&["systemctl", "stop", "web@2.service"]);
    assert!(run(&["plan"]).contains("~ Deployment/web#2"));
    run(&["apply", "--yes"]);
    assert_eq!(instances().lines().count(), 3);

    machine.env.push("web.yaml", &web(2000));
    run(&["apply", "--yes"]);
    assert!((1..=3).all(|number| command(number).contains("/bin/sleep 2000")), "{}", command(1));
    assert!(run(&["plan"]).contains("No changes. 6 resources in sync."));

    let none = "apiVersion: local/v1\nkind: Directory\nmetadata: {name: app}\nspec: {provider: host, path: /etc/app}\n";
    machine.env.push("web.yaml", none);
    // Taking away more than the guard lets pass needs consent, as everywhere.
    let held = machine.command(&[program, "--config", "/srv/desk/c.yaml", "apply", "--yes"]);
    let held = String::from_utf8_lossy(&held.stdout).into_owned();
    let words: Vec<&str> = held.split_whitespace().collect();
    let digest = words[words.iter().position(|word| *word == "approve").expect(&held) + 1];
    run(&["approve", digest, "--reason", "not needed any more"]);
    run(&["apply", "--yes"]);
    assert_eq!(instances(), "");
    assert!(!machine.run(&["systemctl", "list-timers", "--all", "--no-legend"]).contains("tidy.timer"));
}

/// Instances that take a moment to start, so that two steps at once could be seen, behind a balancer that they are drained at.
fn slow(seconds: u32) -> String {
    let content = "    [Service]\n    ExecStartPre=/bin/sleep 0.2\n    ExecStart=/bin/sleep";
    format!(
        "apiVersion: systemd/v1\nkind: Deployment\nmetadata: {{name: web, labels: {{app: web}}}}\nspec:\n  replicas: 3\n  \
         minReadySeconds: 0\n  content: |\n{content} {seconds}\n---\n\
         apiVersion: systemd/v1\nkind: LoadBalancer\nmetadata: {{name: front}}\nspec: {{type: haproxy, path: /etc/front/front.cfg, \
         selector: {{app: web}}, listen: 8080, reload: front.service, drainSeconds: 1}}\n"
    )
}

/// The unit of the balancer, which says what it was told to read.
fn front(machine: &Machine) {
    machine.run(&["mkdir", "-p", "/etc/front"]);
    machine.write(
        "/etc/systemd/system/front.service",
        "[Service]\nExecStart=/bin/sleep 1d\nExecReload=/bin/cp /etc/front/front.cfg /run/read\n",
    );
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "start", "front.service"]);
}

#[test]
fn one_apply_of_fewer_instances_waits_until_their_requests_are_over_and_ends_well() {
    let Some(machine) = Machine::bare() else { return };
    machine.write(
        "/srv/desk/c.yaml",
        "stateDir: /srv/desk/state\nsources: [{name: infra, url: /srv/desk/repo.git}]\n\
         providers: [{name: host, type: host, bus: system, paths: [/etc], guard: {maxDeletes: 9, maxUpdatePercent: 100}}]\n",
    );
    front(&machine);
    let program = [env!("CARGO_BIN_EXE_reconciled"), "--config", "/srv/desk/c.yaml"];
    let three = slow(1000).replace("drainSeconds: 1", "drainSeconds: 3");
    machine.env.push("web.yaml", &three);
    machine.run(&[&program[..], &["apply", "--yes"]].concat());
    machine.env.push("web.yaml", &three.replace("replicas: 3", "replicas: 2"));
    let output = machine.command(&[&program[..], &["apply", "--yes"]].concat());
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("1 deleted") && !said.contains("fail") && !said.contains("is kept"), "{said}");
    let left = machine.run(&["systemctl", "list-units", "web@*", "--no-legend", "--state=running"]);
    assert_eq!(left.lines().count(), 2, "{left}");
    assert!(machine.run(&[&program[..], &["plan"]].concat()).contains("No changes."));
}

#[test]
fn a_rolling_update_that_is_killed_anywhere_goes_on_and_never_has_two_steps_at_once() {
    let Some(machine) = Machine::bare() else { return };
    // The state is as this program has it, so nothing is migrated.
    let places = NAMES.iter().chain(STEPS).filter(|name| !name.starts_with("store.migrate"));
    kill_anywhere(&machine, "bus: system, paths: [/etc]", slow, places);
}

/// The same through the helper, which the first health command of a rolling update kills.
#[test]
fn a_rolling_update_through_a_helper_is_killed_anywhere_and_so_is_the_helper() {
    let Some(machine) = Machine::with_unit() else { return };
    machine.write(
        "/etc/reconciled/hostd.yaml",
        "users: [reconciled]\npaths: [/etc/front]\nunits: ['web@*.service', front.service]\ncommands:\n  \
         well: [sh, -c, 'test ! -e /run/watching -o -e /run/died || { touch /run/died; kill -9 $PPID; sleep 5; }']\n",
    );
    machine.run(&["systemctl", "start", "reconciled-hostd.socket"]);
    let helped = |seconds: u32| {
        let checked = "  health: [{command: well}]\n  content: |\n";
        slow(seconds).replacen("  content: |\n", checked, 1)
    };
    // Only where a change is under way does it matter who makes it.
    let places = NAMES.iter().chain(STEPS).filter(|name| name.starts_with("call.") || STEPS.contains(name));
    kill_anywhere(&machine, "helper: /run/reconciled-hostd.sock", helped, places);
    assert!(machine.path("/run/died").exists());
    let log = machine.run(&["journalctl", "-u", "reconciled-hostd", "-o", "cat", "--no-pager"]);
    assert!(log.contains("Main process exited, code=killed"), "{log}");
}

/// Kills `apply` at each of these places of a rolling update of what `app` says, at a host with these `keys`. All are reached.
fn kill_anywhere<'n>(
    machine: &Machine,
    keys: &str,
    app: impl Fn(u32) -> String,
    places: impl Iterator<Item = &'n &'static str>,
) {
    let guard = "guard: {maxDeletes: 1000, maxUpdates: 1000, maxUpdatePercent: 100}";
    machine.write(
        "/srv/desk/c.yaml",
        &format!(
            "stateDir: /srv/desk/state\nsources: [{{name: infra, url: /srv/desk/repo.git}}]\n\
             providers: [{{name: host, type: host, {keys}, {guard}}}]\n"
        ),
    );
    let program = [env!("CARGO_BIN_EXE_reconciled"), "--config", "/srv/desk/c.yaml"];
    let run = |words: &[&str]| machine.run(&[&program[..], words].concat());
    front(machine);
    let mut seconds = 1000;
    machine.env.push("web.yaml", &app(seconds));
    run(&["apply", "--yes"]);
    // Writes down whenever fewer than `replicas - maxUnavailable` are active, or more than the others are drained. What it looks for
    // lasts as long as an instance takes to start, at least; a loop without a pause would have a core for itself.
    let watch = "while :; do n=$(systemctl list-units 'web@*' --state=active --no-legend | wc -l); \
                 [ \"$n\" -ge 2 ] || echo \"$n\" >>/run/low; n=$(grep -c ' disabled ' /etc/front/front.cfg); \
                 [ \"$n\" -le 1 ] || echo \"$n drained\" >>/run/low; : >/run/watching; sleep 0.05; done";
    machine.run(&["systemd-run", "--quiet", "sh", "-c", watch]);
    wait_for("somebody watches", || machine.path("/run/watching").exists());

    let mut missed: Vec<&str> = Vec::new();
    for name in places {
        let is_often = STEPS.contains(name) || name.starts_with("call.");
        for hit in 1..=if is_often { 2 } else { 1 } {
            seconds += 1;
            machine.env.push("web.yaml", &app(seconds));
            let armed = format!("{VARIABLE}={name}:{hit}");
            let output = machine.command(&[&["env", &armed], &program[..], &["apply", "--yes"]].concat());
            let was_reached = output.status.signal() == Some(9) || output.status.code() == Some(137);
            run(&["apply", "--yes"]);
            let commands =
                machine.run(&["systemctl", "show", "--value", "-p", "ExecStart", "web@1", "web@2", "web@3"]);
            assert_eq!(
                commands.matches(&format!("/bin/sleep {seconds} ;")).count(),
                3,
                "{name}:{hit}: {commands}"
            );
            let log = machine.run(&["sh", "-c", "cat /run/low 2>/dev/null || true"]);
            assert_eq!(log, "", "{name}:{hit}: fewer instances were left than may be");
            let read = machine.run(&["cat", "/run/read"]);
            assert!(!read.contains(" disabled "), "{name}:{hit}: {read}");
            assert_eq!(machine.run(&["cat", "/etc/front/front.cfg"]), read, "{name}:{hit}");
            if !was_reached {
                missed.extend((hit == 1).then_some(*name));
                break;
            }
        }
    }
    assert_eq!(missed, [""; 0], "no rolling update comes past these places");
    assert!(run(&["plan"]).contains("No changes."));
}

#[test]
fn a_rolling_update_waits_in_the_middle_while_its_balancer_is_suspended() {
    let Some(machine) = Machine::bare() else { return };
    let guard = "guard: {maxDeletes: 1000, maxUpdates: 1000, maxUpdatePercent: 100}";
    machine.write(
        "/srv/desk/c.yaml",
        &format!(
            "stateDir: /srv/desk/state\nsources: [{{name: infra, url: /srv/desk/repo.git}}]\n\
             providers: [{{name: host, type: host, bus: system, paths: [/etc], {guard}}}]\n"
        ),
    );
    let program = [env!("CARGO_BIN_EXE_reconciled"), "--config", "/srv/desk/c.yaml"];
    let run = |words: &[&str]| machine.run(&[&program[..], words].concat());
    front(&machine);
    machine.env.push("web.yaml", &slow(1000));
    run(&["apply", "--yes"]);
    let pids = || {
        let show = ["systemctl", "show", "--value", "-p", "MainPID", "web@1", "web@2", "web@3"];
        machine.run(&show)
    };
    let read = || machine.run(&["cat", "/etc/front/front.cfg"]);
    let before = (pids(), read());

    // It dies with the first instance drained, or about to be.
    machine.env.push("web.yaml", &slow(1001));
    let armed = format!("{VARIABLE}=progress.after:1");
    machine.command(&[&["env", &armed], &program[..], &["apply", "--yes"]].concat());
    run(&["suspend", "LoadBalancer/front", "--reason", "looking"]);
    let file = read();
    let output = machine.command(&[&program[..], &["apply", "--yes", "--timeout", "10s"]].concat());
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("suspended"), "{said}");
    assert_eq!((pids(), read()), (before.0.clone(), file), "{said}");

    run(&["resume", "LoadBalancer/front"]);
    run(&["apply", "--yes"]);
    assert_ne!(pids(), before.0);
    assert_eq!(read(), before.1, "nobody is drained");
    assert!(run(&["plan"]).contains("No changes."));
}

#[test]
fn drift_of_a_unit_that_is_only_to_be_told_is_told_and_left() {
    let Some(machine) = Machine::bare() else { return };
    machine.write(
        "/srv/desk/c.yaml",
        "stateDir: /srv/desk/state\nsources: [{name: infra, url: /srv/desk/repo.git}]\n\
         providers: [{name: host, type: host, bus: system, paths: [/etc]}]\n",
    );
    let program = [env!("CARGO_BIN_EXE_reconciled"), "--config", "/srv/desk/c.yaml"];
    let unit = |seconds: u32| {
        format!(
            "apiVersion: systemd/v1\nkind: Unit\nmetadata: {{name: solo.service, annotations: {{reconciled/drift: warn}}}}\n\
             spec:\n  provider: host\n  state: running\n  content: |\n    [Service]\n    ExecStart=/bin/sleep {seconds}\n"
        )
    };
    let state = || machine.run(&["systemctl", "show", "solo.service", "--value", "-p", "ActiveState"]);
    machine.env.push("unit.yaml", &unit(1000));
    machine.run(&[&program[..], &["apply", "--yes"]].concat());
    assert_eq!(state(), "active\n");

    machine.run(&["systemctl", "stop", "solo.service"]);
    machine.write("/etc/systemd/system/solo.service.d/by-hand.conf", "[Service]\nEnvironment=A=1\n");
    machine.run(&["systemctl", "daemon-reload"]);
    let output = machine.command(&[&program[..], &["apply", "--yes"]].concat());
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("by-hand.conf") && said.contains("stopped"), "{said}");
    assert_eq!(state(), "inactive\n", "{said}");
    assert!(machine.path("/etc/systemd/system/solo.service.d/by-hand.conf").exists(), "{said}");

    // A commit is another matter.
    machine.env.push("unit.yaml", &unit(2000));
    machine.run(&[&program[..], &["apply", "--yes"]].concat());
    assert_eq!(state(), "active\n");
    assert!(machine.run(&["systemctl", "show", "solo.service", "-p", "ExecStart"]).contains("sleep 2000"));
}
