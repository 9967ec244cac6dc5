//! Entries that come to point to another place: what others have there is theirs, whatever was tracked in the old one.

use crate::{
    env::{Env, Output, WIDE_GUARD, zone},
    running::{Daemon, wait_for},
};
use std::fs;

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";
const API: &str = "{name: api, type: A, values: [192.0.2.3]}";
const THEIRS: &str = "$ORIGIN example.com.
@ 3600 IN SOA ns1.example.net. h.example.com. 1 2 3 4 5
@ 3600 IN NS ns1.example.net.
www 60 IN A 198.51.100.1
mail 60 IN A 198.51.100.2
theirs 60 IN A 198.51.100.3
";

/// A desk whose entry `zones` has put three records without marks into `zones/`.
fn desk() -> Env {
    let env = Env::new();
    fs::create_dir(env.path("zones")).unwrap();
    points_at(&env, "zones");
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL, API]));
    env.apply();
    env
}

fn points_at(env: &Env, folder: &str) {
    let directory = env.path(folder);
    env.config(&format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.], marks: false, {WIDE_GUARD}}}",
        directory.display()
    ));
}

fn text(env: &Env, folder: &str) -> String {
    fs::read_to_string(env.path(&format!("{folder}/{ZONE}.zone"))).unwrap()
}

fn sync(env: &Env) -> Output {
    env.run(&["sync", "--wait", "--timeout", "60s"])
}

#[test]
fn what_others_have_where_an_entry_points_to_by_now_is_changed_by_consent_alone() {
    let env = desk();
    let left = text(&env, "zones");
    let daemon = Daemon::ready(&env);
    env.write("theirs/example.com.zone", THEIRS);
    points_at(&env, "theirs");
    daemon.signal("HUP");
    wait_for("the configuration is reloaded", || daemon.log().contains("configuration is reloaded"));
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, API]));
    sync(&env).exits(3);
    let why =
        "`zones` points to another place, where 2 are not as they were left, and may be somebody else's";
    env.run(&["status", "--exit-code"]).exits(3).says(&[why]);
    env.run(&["plan"]).exits(3).says(&[why, "reconciled approve"]);
    let held = text(&env, "theirs");
    for theirs in ["198.51.100.1", "198.51.100.2", "198.51.100.3"] {
        assert!(held.contains(theirs), "{held}");
    }
    assert!(held.contains("192.0.2.3"), "what is missing is made: {held}");

    let approvals = env.run(&["approvals", "-o", "json"]).exits(0);
    let approvals: serde_json::Value = serde_json::from_str(&approvals.stdout).unwrap();
    let digest = approvals["holds"][0]["digest"].as_str().unwrap();
    env.run(&["approve", digest, "--reason", "all of that server is ours"]).exits(0);
    sync(&env).exits(0);
    let ours = text(&env, "theirs");
    assert!(ours.contains("192.0.2.1") && ours.contains("198.51.100.3"), "{ours}");
    assert!(!ours.contains("198.51.100.1") && !ours.contains("198.51.100.2"), "{ours}");
    env.run(&["status", "--exit-code"]).exits(0);
    daemon.stop();
    assert_eq!(text(&env, "zones"), left);
    env.in_sync();
}

#[test]
fn what_is_found_as_it_was_left_is_ours_wherever_an_entry_points_to() {
    let env = desk();
    env.write("moved/example.com.zone", &text(&env, "zones"));
    points_at(&env, "moved");
    env.push("zone.yaml", &zone(ZONE, "zones", &[&WWW.replace("192.0.2.1", "192.0.2.9"), API]));
    env.apply().says(&["0 created, 1 updated, 0 replaced, 1 deleted"]);
    let moved = text(&env, "moved");
    assert!(moved.contains("192.0.2.9") && !moved.contains("192.0.2.2"), "{moved}");

    // From then on it is the place of what is tracked, and what others change in that is drift.
    env.write("moved/example.com.zone", &moved.replace("192.0.2.3", "203.0.113.9"));
    env.apply().says(&["1 updated"]);
    assert!(text(&env, "moved").contains("192.0.2.3"));
    env.in_sync();
}
