//! Two managers of one thing: what a person or another program undoes whenever it was put right is left alone after a while, and so
//! is what a server itself makes something else of.

use crate::{
    env::{Env, WIDE_GUARD, zone},
    fake::{Fake, Passed, Play, Reply, Request},
    machine::Machine,
    pdns::Pdns,
    running::{Daemon, wait_for},
};

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

/// A PowerDNS behind something that keeps no TTL below a minute, and says nothing of that.
struct Raising(Passed);

impl Play for Raising {
    fn answer(&mut self, request: &Request) -> Reply {
        // As long as before: what was told of its length stays true.
        let body = request.body.replace("\"ttl\":30,", "\"ttl\":60,");
        self.0.answer(&Request { body, ..request.clone() })
    }
}

#[test]
fn what_a_server_makes_of_a_value_is_put_right_three_times_and_the_rest_of_its_zone_is_kept() {
    const ZONE: &str = "example.com";
    let server = Pdns::start();
    let fake = Fake::start(Raising(Passed { server: server.address() }));
    let env = Env::pdns(&server);
    env.config(&env.pdns_entry(&fake.url, &format!("resync: 1s, {WIDE_GUARD}")));
    let records =
        ["{name: low, type: A, values: [192.0.2.1], ttl: 30}", "{name: www, type: A, values: [192.0.2.2]}"];
    let manifest = zone(ZONE, "pdns", &records);
    env.push("zone.yaml", &manifest);
    let daemon = Daemon::ready(&env);
    let writes = || fake.lines().iter().filter(|line| !line.starts_with("GET")).count();
    let told =
        ["Zone/example.com#low/A  Flapping", "ttl is `60`, declared `30`", "reconciled/ignore: \"ttl\""];
    wait_for("it is left alone", || {
        let said = env.run(&["status"]).stdout;
        told.iter().all(|text| said.contains(text))
    });
    assert_eq!(writes(), 4, "it was made, and put right three times");
    // Whoever changes another record has the zone read, and the difference found, again.
    for value in ["192.0.2.98", "192.0.2.99"] {
        server.set(ZONE, "www", "A", value);
        let is_healed = || server.rrsets(ZONE).get("www A").map(String::as_str) == Some("300 192.0.2.2");
        wait_for("the other is as declared", is_healed);
    }
    assert_eq!(writes(), 2);
    env.run(&["status", "--exit-code"]).exits(3).says(&told);
    // As the hint says.
    let named = "metadata: {name: example.com";
    let leaves = format!("{named}, annotations: {{reconciled/ignore: \"ttl\"}}");
    env.push("zone.yaml", &manifest.replace(named, &leaves));
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    env.run(&["status", "--exit-code"]).exits(0).hides(&["Flapping"]);
    assert_eq!(writes(), 0);
    daemon.stop();
}
