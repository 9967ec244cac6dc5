//! Deployments and cron jobs through the real program, under the systemd that the unit's tests boot.

use crate::unit::Machine;

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
