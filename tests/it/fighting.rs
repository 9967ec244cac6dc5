//! Two managers of one unit: what a person or another program stops whenever it runs is left alone after a while.

use crate::{machine::Machine, running::wait_for};

fn sleeper(name: &str) -> String {
    format!(
        "apiVersion: systemd/v1\nkind: Unit\nmetadata: {{name: {name}.service}}\nspec:\n  state: running\n  \
         content: |\n    [Service]\n    ExecStart=/bin/sleep 1d\n---\n"
    )
}

const WEB: &str = "apiVersion: systemd/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n  \
    content: |\n    [Service]\n    ExecStart=/bin/sleep 1d\n---\n";

#[test]
fn a_unit_that_somebody_stops_again_and_again_is_left_alone_and_the_others_are_kept() {
    let Some(machine) = Machine::with_unit() else { return };
    machine.config("  - {name: host, type: host, bus: system, paths: [/etc]}");
    machine.env.push("all.yaml", &(sleeper("a") + &sleeper("b") + WEB));
    machine.run(&["systemctl", "start", "reconciled-host.service"]);
    let is = |unit: &str, state: &str| {
        machine.run(&["systemctl", "show", unit, "--value", "-p", "ActiveState"]).trim() == state
    };
    for unit in ["a.service", "b.service", "web@1.service", "web@2.service"] {
        wait_for("it runs", || is(unit, "active"));
    }
    for (unit, address, other) in
        [("a.service", "Unit/a.service", "b.service"), ("web@1.service", "Deployment/web#1", "web@2.service")]
    {
        let told = [address, "Flapping", "somebody else keeps changing it", "`stopped`", "`running`"];
        let said = || {
            let output = machine.command(&["reconciled", "status", "--exit-code"]);
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        wait_for("it gives up and shows both", || {
            // The other manager undoes it whenever it sees that, also while it is being stopped: that fails, then.
            if is(unit, "active") {
                machine.command(&["systemctl", "stop", unit]);
            }
            told.iter().all(|text| said().1.contains(text))
        });
        assert!(is(unit, "inactive"));
        assert_eq!(said().0, Some(3));
        // A look at the same scope, which found something to do.
        machine.command(&["systemctl", "stop", other]);
        wait_for("the other runs again", || is(other, "active"));
        assert!(is(unit, "inactive"), "it was started once more");
        // A person begins anew.
        machine.run(&["reconciled", "sync", address, "--wait"]);
        assert!(is(unit, "active"));
    }
    machine.run(&["systemctl", "stop", "reconciled-host.service"]);
}
