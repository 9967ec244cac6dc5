//! One word of a person is for all of a plan: a failure or a death in the middle of it needs no other, and what is done is done.

use crate::{
    env::{Env, rrsets, zone},
    pdns::{Pdns, Rrsets},
    proxy::{Damage, Proxy},
};
use reconciled::failpoint::{NAMES, VARIABLE};
use serde_json::Value;
use std::fs;

const ZONE: &str = "example.com";
const GUARD: &str = "guard: {maxDeletes: 2, maxDeletePercent: 100}";

fn zone_of(provider: &str, count: usize) -> String {
    let records: Vec<String> =
        (0..count).map(|n| format!("{{name: h{n:02}, type: A, values: [192.0.2.{n}]}}")).collect();
    zone(ZONE, provider, &records.iter().map(String::as_str).collect::<Vec<_>>())
}

fn left() -> Rrsets {
    rrsets(&[("h00 A", "300 192.0.2.0"), ("h01 A", "300 192.0.2.1")])
}

/// Consents to the only hold, by its first digits.
fn consent(env: &Env) {
    env.run(&["apply", "--yes"]).exits(3).says(&["held", "reconciled approve"]);
    let found: Value = serde_json::from_str(&env.run(&["approvals", "-o", "json"]).stdout).unwrap();
    let [hold] = &found["holds"].as_array().unwrap()[..] else { panic!("{found:#}") };
    env.run(&["approve", hold["digest"].as_str().unwrap(), "--reason", "wanted"]).exits(0);
}

/// All of it was done by one word, and nothing is left of that.
fn done_by_one_word(env: &Env, context: &str) {
    assert_eq!(env.sql("SELECT count(*) FROM approval"), "1", "{context}");
    assert_eq!(env.sql("SELECT count(*) FROM begun"), "0", "{context}");
    assert_eq!(env.sql("SELECT count(*) FROM hold"), "0", "{context}");
    env.in_sync();
}

/// A desk whose server is behind a proxy, with twelve records of which ten are to go, and consent to that.
fn behind_proxy(server: &Pdns, keys: &str) -> (Env, Proxy) {
    let proxy = Proxy::start(server.address());
    let env = Env::pdns(server);
    env.config(&env.pdns_entry(&proxy.url, &format!("timeout: 2s, {GUARD}{keys}")));
    env.push("zone.yaml", &zone_of("pdns", 12));
    env.apply();
    env.push("zone.yaml", &zone_of("pdns", 2));
    consent(&env);
    (env, proxy)
}

#[test]
fn a_server_that_fails_once_uses_up_no_consent() {
    let server = Pdns::start();
    let (env, proxy) = behind_proxy(&server, "");
    proxy.spoil("PATCH", "/zones", Damage::Instead("503 Service Unavailable\r\n"));
    env.run(&["apply", "--yes", "--timeout", "1s"]).hides(&["held"]);
    assert!(proxy.spoilt() > 0);
    assert_eq!(server.rrsets(ZONE).len(), 12);
    proxy.heal();
    env.run(&["apply", "--yes"]).exits(0).says(&["10 deleted"]);
    assert_eq!(server.rrsets(ZONE), left());
    done_by_one_word(&env, "after a failure");
}

#[test]
fn what_a_failure_left_undone_goes_on_and_what_was_done_needs_another_word() {
    let server = Pdns::start();
    // One request has room for a few deletions.
    let (env, proxy) = behind_proxy(&server, ", maxBody: 4200");
    proxy.spoil_after(1, "PATCH", "/zones", Damage::Instead("503 Service Unavailable\r\n"));
    env.run(&["apply", "--yes", "--timeout", "1s"]).hides(&["held"]);
    let between = server.rrsets(ZONE).len();
    assert!(proxy.spoilt() > 0 && (3..12).contains(&between), "{between} are left");
    proxy.heal();
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(server.rrsets(ZONE), left());
    done_by_one_word(&env, "after half of it");
    // The same deletions again: as they were, in a zone that wants everything for itself.
    env.push("zone.yaml", &zone_of("pdns", 12));
    env.apply();
    env.push("zone.yaml", &zone_of("pdns", 2));
    env.run(&["apply", "--yes"]).exits(3).says(&["held"]);
    assert_eq!(server.rrsets(ZONE).len(), 12);
}

#[test]
fn another_plan_needs_another_word_though_one_was_begun() {
    let server = Pdns::start();
    let (env, proxy) = behind_proxy(&server, "");
    proxy.spoil("PATCH", "/zones", Damage::Instead("503 Service Unavailable\r\n"));
    env.run(&["apply", "--yes", "--timeout", "1s"]);
    proxy.heal();
    env.push("zone.yaml", &zone_of("pdns", 1));
    env.run(&["apply", "--yes"]).exits(3).says(&["held", "11 deletes"]);
    assert_eq!(server.rrsets(ZONE).len(), 12);
    env.push("zone.yaml", &zone_of("pdns", 2));
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(server.rrsets(ZONE), left());
}

#[test]
fn a_death_at_any_place_uses_up_no_consent() {
    let mut reached = 0;
    for name in NAMES.iter().filter(|name| **name != "store.migrate.after-backup") {
        for hit in 1..=2 {
            let env = Env::new();
            let directory = env.path("zones");
            fs::create_dir(&directory).unwrap();
            env.config(&format!(
                "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {GUARD}}}",
                directory.display()
            ));
            env.push("zone.yaml", &zone_of("zones", 12));
            env.apply();
            env.push("zone.yaml", &zone_of("zones", 2));
            consent(&env);
            let point = format!("{name}:{hit}");
            let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, &point)]);
            let was_reached = died.signal == Some(9);
            reached += u32::from(was_reached);
            let again = env.run(&["apply", "--yes"]);
            assert_eq!(again.code, Some(0), "{point}: {}", again.all());
            assert_eq!(env.zone_rrsets(ZONE), left(), "{point}");
            done_by_one_word(&env, &point);
            if !was_reached {
                break;
            }
        }
    }
    assert!(reached >= NAMES.len() as u32 - 2, "only {reached} deaths");
}

#[test]
fn what_the_host_denies_a_source_it_cannot_delete_by_leaving_it_out() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let allow = ", allow: [{provider: pdns, scopes: [example.com], deny: [\"#secret/*\"]}]";
    env.config_with("it", &env.pdns_entry(&server.url, ""), allow);
    server.create(ZONE);
    server.set(ZONE, "secret", "A", "198.51.100.1");
    server.set(ZONE, "other", "A", "198.51.100.2");
    let exclusive = zone_of("pdns", 1).replace("  ttl: 300\n", "  ttl: 300\n  exclusive: true\n");
    env.push("zone.yaml", &exclusive);
    let plan = env.run(&["plan"]);
    plan.says(&["- Zone/example.com#other/A"]).hides(&["secret"]);
    consent(&env);
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("h00 A", "300 192.0.2.0"), ("secret A", "300 198.51.100.1")]));
}

/// Who takes the word out of `guard.always` has not seen what goes by it.
#[test]
fn what_nobody_declared_goes_from_a_zone_the_first_time_by_a_persons_word_whatever_the_guard_says() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.config(&env.pdns_entry(&server.url, "guard: {always: [zone-delete]}"));
    server.create(ZONE);
    let shared = zone_of("pdns", 1);
    let exclusive = shared.replace("  ttl: 300\n", "  ttl: 300\n  exclusive: true\n");
    let ours = ("h00 A", "300 192.0.2.0");
    // Also once it is exclusive for the second time.
    for address in ["198.51.100.1", "198.51.100.2"] {
        env.push("zone.yaml", &shared);
        env.apply();
        server.set(ZONE, "first", "A", address);
        let first = format!("300 {address}");
        env.push("zone.yaml", &exclusive);
        for _ in 0..2 {
            env.run(&["apply", "--yes"]).exits(3).says(&["1 × `foreign-delete`, the first here"]);
            assert_eq!(server.rrsets(ZONE), rrsets(&[ours, ("first A", first.as_str())]));
        }
        consent(&env);
        env.apply();
        assert_eq!(server.rrsets(ZONE), rrsets(&[ours]));
        // From then on the guard's word counts.
        server.set(ZONE, "next", "A", "198.51.100.3");
        env.apply().says(&["1 deleted"]);
        assert_eq!(server.rrsets(ZONE), rrsets(&[ours]));
    }
}
