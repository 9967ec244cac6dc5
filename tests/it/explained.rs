//! `explain ADDRESS` never takes what nothing is planned for for what is in sync.

use crate::{
    env::{Env, Output, WIDE_GUARD, zone},
    running::{Daemon, wait_for},
};
use reconciled_testkit::ports::NOBODY;
use serde_json::Value;
use std::fs;

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";
const ADDRESS: &str = "Zone/example.com#www/A";

/// A desk with labels, so that a manifest may be for another host, and with what is in its zone file.
fn desk(record: &str) -> Env {
    let env = Env::new();
    let zones = env.path("zones");
    fs::create_dir(&zones).unwrap();
    let entry = format!("  - {{name: zones, type: zonefile, directory: {}, {WIDE_GUARD}}}", zones.display());
    env.config(&format!("{entry}\nhost: {{name: ns1, labels: {{role: dns}}}}"));
    let soa = "@ 3600 IN SOA ns1.example.net. h.example.net. 5 10800 3600 604800 3600";
    env.write("zones/example.com.zone", &format!("$ORIGIN example.com.\n{soa}\n{record}\n"));
    env
}

/// Puts another address in the place of that of `www`.
fn by_hand(env: &Env) {
    let file = "zones/example.com.zone";
    let text = fs::read_to_string(env.path(file)).unwrap();
    let changed = text.replace("www 300 IN A 192.0.2.1", "www 300 IN A 192.0.2.77");
    assert_ne!(changed, text);
    env.write(file, &changed);
}

#[track_caller]
fn explain(env: &Env, address: &str, words: &[&str]) -> Output {
    env.run(&["explain", address]).exits(0).says(words).hides(&["is in sync"])
}

#[test]
fn a_kind_that_is_not_known_is_told_with_those_that_are() {
    let env = Env::new();
    let known = "hint: known: Certificate, ClusterIssuer, ";
    let others = "those of a Terraform provider are known where an entry of it is configured";
    env.run(&["explain", "SqsQueue"]).exits(1).says(&["there is no kind `SqsQueue`", known, others]);
    env.run(&["explain", "Zne"]).exits(1).says(&["hint: did you mean `Zone`?"]).hides(&[others]);
}

#[test]
fn a_conflict_that_no_pass_has_met_yet() {
    let env = desk("www 300 IN A 192.0.2.77");
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    let conflict = ["is stalled (Conflict)", "hint: to take it over", "reconciled adopt"];
    explain(&env, ADDRESS, &conflict);
    let told = env.run(&["explain", ADDRESS, "-o", "json"]).exits(0).stdout;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["now"][0]["conditions"][0]["reason"], "Conflict", "{told}");
    // A newer commit than the one that is in force, alone and for a daemon.
    env.push("zone.yaml", &zone(ZONE, "zones", &[MAIL]));
    env.apply();
    env.run(&["explain", "Zone/example.com#mail/A"]).exits(0).says(&["Zone/example.com#mail/A is in sync"]);
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    explain(&env, ADDRESS, &conflict);
    let daemon = Daemon::ready(&env);
    // It begins with the commit that was in force.
    wait_for("the newer commit", || env.run(&["explain", ADDRESS]).code == Some(0));
    explain(&env, ADDRESS, &conflict);
    daemon.stop();
}

#[test]
fn what_is_frozen_or_for_another_host_is_not_in_sync_and_not_undeclared_either() {
    let env = desk("");
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    env.apply();
    by_hand(&env);
    env.push("zone.yaml", "a: [\n");
    let frozen = ["files with errors may still declare it: zone.yaml", "not known to be declared"];
    explain(&env, ADDRESS, &frozen).hides(&["no longer declared"]);
    let daemon = Daemon::ready(&env);
    explain(&env, ADDRESS, &frozen).hides(&["no longer declared"]);
    daemon.stop();
    env.push("zone.yaml", &zone(ZONE, "elsewhere", &[WWW, MAIL]));
    let words = ["its provider is not configured on this host", "not changed, restored or deleted"];
    explain(&env, ADDRESS, &words).hides(&["no longer declared"]);
}

#[test]
fn what_differs_and_is_forgotten_or_ignored() {
    let env = desk("");
    let ignored = "{name: www, type: A, values: [192.0.2.1], drift: ignore}";
    env.push("zone.yaml", &zone(ZONE, "zones", &[ignored, MAIL]));
    env.apply();
    env.run(&["explain", ADDRESS]).exits(0).says(&[&format!("{ADDRESS} is in sync")]);
    by_hand(&env);
    explain(&env, ADDRESS, &["it differs, and the difference is ignored"]);
    env.run(&["forget", ADDRESS, "--yes"]).exits(0);
    explain(&env, ADDRESS, &["is stalled (Conflict)", "it was forgotten"]);
}

#[test]
fn what_cannot_be_looked_at_is_known_all_the_same() {
    let env = desk("");
    env.write("zones/example.com.zone", "");
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    explain(&env, ADDRESS, &["cannot be looked at now", "without a SOA record"]);
}

#[test]
fn what_is_tried_again_is_told_with_why_and_when() {
    let env = Env::new();
    env.write("key", "of nobody");
    env.config(&env.pdns_entry(&format!("http://127.0.0.1:{NOBODY}"), WIDE_GUARD));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let daemon = Daemon::start(&env);
    env.run(&["sync", "--wait"]).exits(1);
    let waits = [
        "pdns/example.com is waiting (unavailable) since 20",
        "Connection refused",
        "hint: is the server running",
    ];
    explain(&env, ADDRESS, &waits);
    // Between two tries; while one is due it says so.
    wait_for("the time of the next try", || {
        env.run(&["explain", ADDRESS]).exits(0).stdout.contains("\n  next try 20")
    });
    let told: Value = serde_json::from_str(&env.run(&["explain", ADDRESS, "-o", "json"]).stdout).unwrap();
    assert_eq!(told["conditions"][0]["reason"], "unavailable", "{told}");
    assert!(told["conditions"][0]["nextTry"].is_string(), "{told}");
    daemon.stop();
}
