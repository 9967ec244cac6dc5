//! What must not be taken on trust the second time: found by review, kept by these tests.

use crate::{
    env::{Env, WIDE_GUARD, rrsets, zone},
    pdns::Pdns,
};

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

#[test]
fn a_changed_path_stays_held_however_often_apply_is_said() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("all/zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.push("prod/zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let entry = env.pdns_entry(&server.url, WIDE_GUARD);
    env.config_with("one", &entry, ", path: all");
    env.apply();
    env.config_with("one", &entry, ", path: prod");
    for _ in 0..2 {
        env.run(&["apply", "--yes"]).exits(3).says(&["path"]);
        assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]));
    }
}

#[test]
fn drift_that_is_only_warned_of_stays_in_the_plan() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let entry = env.pdns_entry(&server.url, WIDE_GUARD);
    env.config_with("one", &entry, ", drift: warn");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    env.in_sync();
    server.set(ZONE, "www", "A", "203.0.113.9");
    env.run(&["apply", "--yes"]).exits(3).says(&["www/A"]);
    for _ in 0..2 {
        env.run(&["plan"]).exits(3).says(&["www/A", "drift"]).hides(&["No changes. 3 resources in sync."]);
    }
}

#[test]
fn a_version_seen_by_a_targeted_apply_hides_no_drift_elsewhere() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    server.set(ZONE, "www", "A", "203.0.113.9");
    env.run(&["apply", "--yes", "--target", "Zone/example.com#mail/A"]).exits(0);
    env.run(&["plan", "--detailed-exitcode"]).exits(2).says(&["www/A", "drift"]);
}
