//! What `status` counts as well, and what it tells of the rest: nothing is well that nobody looks after.

use crate::{
    env::{Env, WIDE_GUARD, zone},
    pdns::Pdns,
    running::{Daemon, wait_for},
};
use reconciled::failpoint::VARIABLE;
use serde_json::Value;
use std::fs;

const SIGKILL: i32 = 9;
const ZONE: &str = "example.com";
const LATE: &str = "example.net";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

fn entry(env: &Env, name: &str) -> String {
    let directory = env.path(name);
    fs::create_dir_all(&directory).unwrap();
    format!(
        "  - {{name: {name}, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {WIDE_GUARD}}}\n",
        directory.display()
    )
}

fn configure(env: &Env, entries: &[&str], labels: &str) {
    let entries: String = entries.iter().map(|name| entry(env, name)).collect();
    env.config(&format!("{entries}host: {{labels: {{{labels}}}}}"));
}

fn reload(env: &Env, daemon: &Daemon, times: usize) {
    daemon.signal("HUP");
    wait_for("it is reloaded", || daemon.log().matches("configuration is reloaded").count() == times);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
}

/// `Synced` and `Healthy` of a resource with its generation.
fn side(env: &Env, address: &str) -> (String, String, Value) {
    let found = env.run(&["status", address, "-o", "json"]).exits(0).stdout;
    let found: Value = serde_json::from_str(&found).unwrap();
    let one = &found["resources"][0];
    let reason = |number: usize| one["conditions"][number]["reason"].as_str().unwrap_or_default().to_owned();
    (reason(0), reason(1), one["generation"].clone())
}

#[test]
fn what_a_reload_brings_into_force_is_declared_by_the_commit_that_stays() {
    let env = Env::zonefile();
    configure(&env, &["zones"], "role: dns");
    let chosen = zone("example.org", "zones", &[WWW]);
    let chosen = chosen.replace(
        "metadata: {name: example.org}",
        "metadata: {name: example.org, annotations: {reconciled/hosts: \"site=b\"}}",
    );
    env.push(
        "zone.yaml",
        &format!("{}---\n{}---\n{chosen}", zone(ZONE, "zones", &[WWW]), zone(LATE, "late", &[WWW])),
    );
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);

    let is_well = |address: &str| {
        let (synced, healthy, generation) = side(&env, address);
        assert_eq!((&*synced, &*healthy), ("InSync", "Healthy"), "{address}");
        assert!(generation.is_u64(), "{address}: {generation}");
    };
    configure(&env, &["zones", "late"], "role: dns");
    reload(&env, &daemon, 1);
    is_well("Zone/example.net#www/A");
    configure(&env, &["zones", "late"], "role: dns, site: b");
    reload(&env, &daemon, 2);
    is_well("Zone/example.org#www/A");
    is_well("Zone/example.com#www/A");
    env.run(&["status", "--exit-code"]).exits(0).hides(&["Undeclared", "OutOfDate"]);
    // It is one commit, whatever it came to mean.
    let history = env.run(&["history"]).exits(0).stdout;
    assert_eq!(history.matches("revision").count(), 1, "{history}");
    daemon.stop();
    env.run(&["status", "Zone/*"]).exits(0).hides(&["Undeclared"]);
}

#[test]
fn what_is_tracked_for_an_entry_that_is_not_configured_is_unassigned_and_not_well() {
    let env = Env::zonefile();
    configure(&env, &["zones", "late"], "role: dns");
    env.push("zone.yaml", &format!("{}---\n{}", zone(ZONE, "zones", &[WWW]), zone(LATE, "late", &[WWW])));
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    env.run(&["status"]).exits(0).says(&["4 well"]);

    configure(&env, &["zones"], "role: dns");
    reload(&env, &daemon, 1);
    for turn in ["with a daemon", "without one"] {
        env.run(&["status"]).exits(0).says(&["UNASSIGNED", "provider late  2 tracked", "\n2 well"]);
        let (synced, healthy, _) = side(&env, "Zone/example.net#www/A");
        assert_eq!((&*synced, &*healthy), ("Unassigned", "Unknown"), "{turn}");
        env.run(&["status", "Zone/example.net*"]).exits(0).says(&["Unassigned"]).hides(&["in sync"]);
        let told = env.run(&["explain", "Zone/example.net#www/A"]).exits(0);
        told.says(&["provider late is not configured"]).hides(&["in sync"]);
        assert_eq!(side(&env, "Zone/example.com#www/A").0, "InSync");
        if turn == "with a daemon" {
            daemon.signal("TERM");
            wait_for("it has ended", || {
                std::os::unix::net::UnixStream::connect(env.path("state/api.sock")).is_err()
            });
        }
    }
}

#[test]
fn what_a_manifest_had_here_that_is_for_another_host_by_now_is_unassigned_and_not_well() {
    let env = Env::zonefile();
    configure(&env, &["zones"], "role: dns");
    let both = |entry: &str| format!("{}---\n{}", zone(ZONE, "zones", &[WWW]), zone(LATE, entry, &[WWW]));
    env.push("zone.yaml", &both("zones"));
    env.apply();
    env.run(&["status"]).exits(0).says(&["\n4 well"]);
    env.push("zone.yaml", &both("berlin"));
    env.run(&["apply", "--yes"]).exits(0).says(&["2 frozen"]);
    env.run(&["status", "--exit-code"]).exits(0).says(&["UNASSIGNED (1)", "\n2 well"]);
    let (synced, healthy, _) = side(&env, "Zone/example.net#www/A");
    assert_eq!((&*synced, &*healthy), ("Unassigned", "Unknown"));
    let (synced, healthy, _) = side(&env, "Zone/example.com#www/A");
    assert_eq!((&*synced, &*healthy), ("InSync", "Healthy"));
}

#[test]
fn what_is_held_does_not_count_as_well_and_all_else_does() {
    let env = Env::zonefile();
    let wide = entry(&env, "zones");
    env.config(&wide.replace(WIDE_GUARD, "guard: {maxDeletes: 0}"));
    env.push(
        "zone.yaml",
        &format!("{}---\n{}", zone(ZONE, "zones", &[WWW, MAIL]), zone(LATE, "zones", &[WWW])),
    );
    env.apply();
    env.run(&["status"]).exits(0).says(&["5 well"]);
    env.push("zone.yaml", &format!("{}---\n{}", zone(ZONE, "zones", &[WWW]), zone(LATE, "zones", &[WWW])));
    env.run(&["apply", "--yes"]).exits(3);
    env.run(&["status"]).exits(0).says(&["1 to delete", "\n4 well at least"]);
    // Which one it is nobody remembers.
    assert_eq!(side(&env, "Zone/example.com#www/A").0, "Held");
    assert_eq!(side(&env, "Zone/example.net#www/A").0, "InSync");
}

#[test]
fn what_is_held_since_its_manifest_went_elsewhere_was_looked_at() {
    let env = Env::zonefile();
    configure(&env, &["zones", "late"], "role: dns");
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    env.push("zone.yaml", &zone(ZONE, "late", &[WWW]));
    env.run(&["apply", "--yes"]).exits(3);
    env.run(&["status"])
        .exits(0)
        .says(&["the desired state became empty", "WAITING (1)"])
        .hides(&["OutOfDate"]);
}

#[test]
fn what_is_gone_is_missing_also_where_that_is_ignored() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let ignored = "{name: www, type: A, values: [192.0.2.1], drift: ignore}";
    env.push("zone.yaml", &zone(ZONE, "pdns", &[ignored, MAIL]));
    env.apply();
    let address = "Zone/example.com#www/A";
    assert_eq!(side(&env, address).1, "Healthy");

    server.unset(ZONE, "www", "A");
    env.run(&["apply", "--yes"]).exits(0);
    let (synced, healthy, _) = side(&env, address);
    assert_eq!((&*synced, &*healthy), ("Missing", "Missing"));
    env.run(&["status"]).exits(0).says(&["Missing", "1 missing"]);
    env.run(&["explain", address]).exits(0).says(&["gone from the remote"]).hides(&["is in sync"]);
    // Again nothing is new, and nothing is written down.
    let before = env.sql("SELECT id, state, since FROM health");
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(env.sql("SELECT id, state, since FROM health"), before);

    server.set(ZONE, "www", "A", "192.0.2.1");
    env.run(&["apply", "--yes"]).exits(0);
    let (synced, healthy, _) = side(&env, address);
    assert_eq!((&*synced, &*healthy), ("InSync", "Healthy"));
    env.run(&["status"]).exits(0).hides(&["issing"]);
}

#[test]
fn what_nobody_has_looked_at_since_it_changed_is_not_well_also_without_a_daemon() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone("example.com", "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.apply();
    env.run(&["status", "--exit-code"]).exits(0);
    // As a daemon leaves it that ends between a commit and the pass for it.
    env.sql("UPDATE manifest SET content = zeroblob(16), generation = generation + 1");
    env.run(&["status", "--exit-code"]).exits(4).says(&["\n0 well", "not looked at since"]);
    env.run(&["status", "Zone/*", "--exit-code"]).exits(4);
    env.run(&["status", "Zone/example.com#www/A", "--exit-code"]).exits(4).says(&["OutOfDate"]);
}

#[test]
fn what_a_commit_removed_is_not_in_sync_before_it_is_gone_also_without_a_daemon() {
    let env = Env::zonefile();
    let mail = format!("metadata: {{name: mail}}\nspec: {{zone: {ZONE}, records: [{MAIL}]}}\n");
    env.write("work/mail.yaml", &format!("apiVersion: dns/v1\nkind: RecordSet\n{mail}"));
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    env.run(&["status", "--exit-code"]).exits(0).says(&["\n3 well"]);

    let waits = [
        "WAITING (1)\n  zones/example.com  OutOfDate",
        "`reconciled plan` says what becomes of it",
        "\n0 well",
    ];
    env.push_without("mail.yaml");
    // Before anybody has looked, and once that is planned and nothing of it is begun.
    for place in ["store.force.after", "store.start.before"] {
        let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, place)]);
        assert_eq!(died.signal, Some(SIGKILL), "{place}: {died:?}");
        env.run(&["status", "--exit-code"]).exits(4).says(&waits);
        env.run(&["status", "Zone/example.com#www/A", "--exit-code"]).exits(4).says(&["OutOfDate"]);
    }
    // Who leaves it out says nothing of it.
    env.run(&["apply", "--yes", "--target", "Zone/example.com#www/A"]).exits(0);
    env.run(&["status", "--exit-code"]).exits(4).says(&waits);
    env.apply();
    env.run(&["status", "--exit-code"]).exits(0).says(&["\n2 well"]);
}

#[test]
fn what_a_commit_removed_and_is_held_was_looked_at() {
    let env = Env::zonefile();
    let wide = entry(&env, "zones");
    env.config(&wide.replace(WIDE_GUARD, "guard: {maxDeletes: 0}"));
    env.write("work/other.yaml", &zone(LATE, "zones", &[WWW]));
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    env.push_without("other.yaml");
    env.run(&["apply", "--yes"]).exits(3);
    env.run(&["status", "--exit-code"]).exits(3).says(&["1 to delete"]).hides(&["WAITING", "OutOfDate"]);
}
