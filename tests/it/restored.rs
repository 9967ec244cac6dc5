//! A state that was restored: what came into force after the backup is not taken back.

use crate::{
    env::{Env, rrsets, zone},
    running::{Daemon, wait_for},
};
use std::fs;

const ZONE: &str = "example.com";
const OLD: &str = "{name: old, type: A, values: [192.0.2.9]}";

fn www(last: u8) -> String {
    format!("{{name: www, type: A, values: [192.0.2.{last}]}}")
}

/// A desk whose state is that of the commit before the one that was carried out.
fn restored() -> Env {
    restored_with("")
}

fn restored_with(keys: &str) -> Env {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("repo.git}", &format!("repo.git{keys}}}")));
    env.push("zone.yaml", &zone(ZONE, "zones", &[&www(1), OLD]));
    env.apply();
    env.run(&["backup", "b.db"]).exits(0);
    env.push("zone.yaml", &zone(ZONE, "zones", &[&www(2)]));
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.2")]));
    env.run(&["restore", "b.db", "--yes"]).exits(0);
    env
}

fn writes(env: &Env) -> String {
    env.sql("SELECT count(*) FROM journal")
}

#[test]
fn the_first_pass_after_a_restore_takes_nothing_back_that_came_into_force_since_the_backup() {
    let env = restored();
    let before = writes(&env);
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    env.run(&["status", "--exit-code"]).exits(0).says(&["Healthy", "2 well"]).hides(&["Restored"]);
    daemon.stop();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.2")]));
    assert_eq!(writes(&env), before);
}

#[test]
fn nothing_of_a_source_is_done_before_it_was_had_once_since_the_state_was_restored() {
    let env = restored();
    let before = writes(&env);
    let why = ["source infra", "the state was restored", "nothing of it is done", "hint:", "0 well"];
    env.run(&["status", "--exit-code"])
        .exits(4)
        .says(&why)
        .says(&["Restored", "reconciled sync --source infra"]);
    let row = env.run(&["status", "Zone/example.com#old/A"]).exits(0);
    row.says(&["Restored", "Unknown"]).hides(&["in sync", "Healthy"]);
    fs::rename(env.path("repo.git"), env.path("away.git")).unwrap();
    env.run(&["apply", "--yes"]).exits(1).says(&["the state was restored", "hint:"]);
    let daemon = Daemon::ready(&env);
    wait_for("the source was asked", || daemon.log().contains("source cannot be had"));
    let why = ["NEEDS A PERSON (1)", "SourceBehind", why[0], why[1], why[3], why[4]];
    env.run(&["status", "--exit-code"]).exits(3).says(&why).hides(&["Healthy"]);
    env.run(&["sync", "--wait", "--timeout", "20s"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.2")]));
    assert_eq!(writes(&env), before);
    fs::rename(env.path("away.git"), env.path("repo.git")).unwrap();
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    env.run(&["status", "--exit-code"]).exits(0).says(&["2 well"]);
    daemon.stop();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.2")]));
    assert_eq!(writes(&env), before);

    // It was had by now, so the next start needs no remote.
    fs::rename(env.path("repo.git"), env.path("away.git")).unwrap();
    fs::remove_file(env.path("zones/example.com.zone")).unwrap();
    let daemon = Daemon::ready(&env);
    wait_for("it is made again", || env.zone_rrsets(ZONE) == rrsets(&[("www A", "300 192.0.2.2")]));
    daemon.stop();
}

#[test]
fn what_is_withheld_after_a_restore_is_not_replaced_by_what_the_backup_says() {
    let env = restored_with(", onInvalid: hold");
    env.push("broken.yaml", "apiVersion: dns/v1\nkind: Zone\nmetadata: {name: broken}\nspec: {records: 1}\n");
    let before = writes(&env);
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "--timeout", "20s"]);
    env.run(&["status", "--exit-code"]).exits(3).says(&["InvalidManifests", "Restored", "0 well"]);
    daemon.stop();
    assert_eq!(writes(&env), before);
}

const PART: &str = "Zone/example.com#www/A";

/// A desk with a backup in which `www` is rolled back; since then that was resumed, and everything suspended.
fn resumed_since() -> Env {
    let env = Env::zonefile();
    let first = env.push("zone.yaml", &zone(ZONE, "zones", &[&www(1)]));
    let daemon = Daemon::ready(&env);
    sync(&env);
    env.push("zone.yaml", &zone(ZONE, "zones", &[&www(2)]));
    sync(&env);
    env.run(&["rollback", &first, "--target", PART, "--reason", "bad"]).exits(0);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    env.run(&["backup", "b.db"]).exits(0);
    env.run(&["resume", PART]).exits(0);
    wait_for("it goes on", || env.zone_rrsets(ZONE) == rrsets(&[("www A", "300 192.0.2.2")]));
    sync(&env);
    env.run(&["suspend", "--all", "--reason", "to be restored"]).exits(0);
    daemon.stop();
    env
}

fn sync(env: &Env) {
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
}

#[test]
fn what_was_resumed_and_suspended_since_the_backup_is_so_after_it_was_restored() {
    let env = resumed_since();
    let told = env.run(&["restore", "b.db", "--yes"]).exits(0);
    told.says(&["suspended: --all", "to be restored"]).hides(&["rolled back"]);
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "--timeout", "20s"]);
    env.run(&["status"]).exits(0).says(&["SUSPENDED (1)", "to be restored"]).hides(&["ROLLED BACK"]);
    env.run(&["resume", "--all"]).exits(0);
    sync(&env);
    daemon.stop();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.2")]));
}

#[test]
fn what_a_backup_has_rolled_back_is_not_written_unasked_where_nobody_knows_what_was_said_since() {
    let env = resumed_since();
    for file in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(env.path(&format!("state/{file}")));
    }
    env.run(&["restore", "b.db", "--yes"])
        .exits(0)
        .says(&["rolled back: 1 resource is kept at", "not known"]);
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3);
    let why = "1 rolled back in it may have been resumed since";
    env.run(&["status", "--exit-code"]).exits(3).says(&["ROLLED BACK (1)", why]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.2")]));
    env.run(&["resume", PART]).exits(0);
    sync(&env);
    daemon.stop();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.2")]));
}

#[test]
fn a_consent_that_was_given_since_a_restore_is_for_all_of_its_plan() {
    let env = Env::zonefile();
    let directory = env.path("zones");
    env.config(&format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.]}}",
        directory.display()
    ));
    let records = |names: &[&str], last: u8| -> Vec<String> {
        names.iter().map(|name| format!("{{name: {name}, type: A, values: [192.0.2.{last}]}}")).collect()
    };
    let declare = |file: &str, name: &str, records: &[String]| {
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        env.write(&format!("work/{file}"), &zone(name, "zones", &records));
    };
    declare("outer.yaml", "a.test", &records(&["n1.sub", "n2", "n3", "n4", "n5", "n6"], 1));
    declare("inner.yaml", "sub.a.test", &records(&["x1", "x2", "x3"], 1));
    env.push_all();
    env.apply();
    env.run(&["backup", "b.db"]).exits(0);
    env.run(&["restore", "b.db", "--yes"]).exits(0);

    // The one is deleted once the other is made, which waits for consent as well.
    let inner = [records(&["x1", "x2", "x3"], 2), records(&["n1"], 1)].concat();
    declare("inner.yaml", "sub.a.test", &inner);
    declare("outer.yaml", "a.test", &records(&["n2", "n3", "n4", "n5", "n6"], 1));
    env.push_all();
    env.run(&["apply", "--yes"]).exits(3);
    let plan: serde_json::Value =
        serde_json::from_str(&env.run(&["plan", "-o", "json"]).exits(3).stdout).unwrap();
    let domains = plan["domains"].as_array().unwrap();
    assert!(domains.len() == 2 && domains.iter().all(|domain| domain["state"] == "held"), "{domains:?}");
    for domain in domains {
        env.run(&["approve", domain["digest"].as_str().unwrap(), "--reason", "seen"]).exits(0);
    }
    env.run(&["apply", "--yes"]).exits(0).says(&["1 created, 3 updated", "1 deleted"]);
    assert_eq!(env.zone_rrsets("a.test").len(), 5);
    env.in_sync();
}
