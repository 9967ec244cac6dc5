//! What `status` counts as well, and what it tells of the rest: nothing is well that nobody looks after.

use crate::{
    env::{Env, WIDE_GUARD, zone},
    running::{Daemon, wait_for},
};
use serde_json::Value;
use std::fs;

const ZONE: &str = "example.com";
const LATE: &str = "example.net";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";

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
