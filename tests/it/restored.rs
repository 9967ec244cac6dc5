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
