//! Control verbs as an operator meets them: through a daemon, with a dead one, and with nothing but a file.

use crate::{
    env::{Env, Output, WIDE_GUARD, is_root, rrsets, zone},
    pdns::{Pdns, Rrsets},
    running::{Daemon, wait_for},
    shared::{other_source, push_other},
};
use std::fs;

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const OTHER: &str = "{name: www, type: A, values: [192.0.2.7]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

fn sync(env: &Env) -> Output {
    env.run(&["sync", "--wait", "--timeout", "60s"])
}

fn first() -> Rrsets {
    rrsets(&[("www A", "300 192.0.2.1")])
}

fn second() -> Rrsets {
    rrsets(&[("www A", "300 192.0.2.7"), ("mail A", "300 192.0.2.2")])
}

#[test]
fn what_is_suspended_is_looked_at_and_not_written_also_by_the_next_daemon() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    env.run(&["sync", "--provider", "pdsn"])
        .exits(1)
        .says(&["no provider is called `pdsn`", "did you mean `pdns`?"]);
    env.run(&["explain", "Zone/exampl.com"]).exits(1).says(&["did you mean `Zone/example.com`?"]);
    for verb in [&["explain"][..], &["plan", "--target"], &["status"]] {
        let said = env.run(&[verb, &["zone/example.com"]].concat()).exits(1);
        let said = said.says(&["`zone/example.com` is not an address", "did you mean `Zone/example.com`?"]);
        assert_eq!(said.all().matches("is not an address").count(), 1, "{}", said.all());
    }
    env.run(&["suspend", "--all", "--reason", "moving the database"]).exits(0).says(&[
        "using daemon",
        "--all suspended, 2 tracked",
        "hint: to resume: reconciled resume",
    ]);
    env.run(&["suspend", "--source", "infra", "--reason="]).exits(1).says(&["the reason is empty", "hint:"]);
    let labels = env.run(&["suspend", "-l", "team=web", "--reason", "theirs"]).exits(0);
    labels.says(&["at most 2 tracked"]);
    env.run(&["resume", "-l", "team=web"]).exits(0);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[OTHER, MAIL]));
    sync(&env).exits(3).says(&["pdns/example.com is suspended"]);
    assert_eq!(server.rrsets(ZONE), first());
    env.run(&["plan"]).exits(0).says(&[
        "Plan: 0 to create, 0 to update, 0 to delete; 2 suspended",
        "suspended: suspended by",
        "moving the database",
    ]);
    env.run(&["plan", "--detailed-exitcode"]).exits(3);
    env.run(&["status"]).exits(0).says(&["SUSPENDED (1)", "--all", "2 changes wait for it"]);
    env.run(&["status", "--exit-code"]).exits(3);
    env.run(&["explain", "Zone/example.com#www/A"]).exits(0).says(&[
        "suspended by",
        "moving the database",
        "resume",
        "wanted by zone.yaml:",
        "of source infra at",
        "values: 192.0.2.7",
        "values: 192.0.2.1",
        "planned    update (commit",
    ]);
    daemon.signal("KILL");
    drop(daemon);

    let daemon = Daemon::start(&env);
    sync(&env).exits(3);
    assert_eq!(server.rrsets(ZONE), first(), "the next daemon wrote");
    env.run(&["resume", "--provider", "pdns"]).exits(1).says(&["suspended now:", "(--all)"]);
    env.run(&["resume", "--all", "--reason", "moved"]).exits(0).says(&["--all goes on"]);
    sync(&env).exits(0);
    assert_eq!(server.rrsets(ZONE), second());
    env.run(&["status"]).exits(0).hides(&["SUSPENDED"]);
    env.run(&["history"]).exits(0).says(&["suspend", "moving the database", "resume", "moved"]);
    daemon.stop();
}

#[test]
fn what_is_suspended_by_its_address_stays_so_whatever_declares_it() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    env.run(&["suspend", "Zone/example.com#www/A", "--reason", "moving the database"]).exits(0);
    let set = |record: &str| {
        let head = "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: web}\nspec:\n  zone: example.com\n";
        format!("{head}  records:\n    - {record}\n")
    };
    env.write("work/web.yaml", &set(WWW));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[MAIL]));
    env.run(&["apply", "--yes"]);
    env.push("web.yaml", &set(OTHER));
    env.run(&["apply", "--yes"]).exits(3).says(&["moving the database"]);
    let served = |www: &str| server.rrsets(ZONE) == rrsets(&[("www A", www), ("mail A", "300 192.0.2.2")]);
    assert!(served("300 192.0.2.1"), "{:?}", server.rrsets(ZONE));
    env.run(&["resume", "Zone/example.com#www/A"]).exits(0);
    env.apply();
    assert!(served("300 192.0.2.7"), "{:?}", server.rrsets(ZONE));
    env.in_sync();
}

#[test]
fn suspending_works_alone_and_means_what_it_names() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.run(&["apply", "--yes"]).exits(0);
    for (args, says) in [
        (&["--provider", "pnds"][..], "configured providers: pdns"),
        (&["--source", "nowhere"], "configured sources: infra"),
        (&[], "--provider NAME"),
        (&["--all", "--source", "infra"], "in one way"),
        (&["--all", "--for", "0s"], "is no duration"),
    ] {
        env.run(&[&["suspend", "--reason", "x"], args].concat()).exits(1).says(&[says]);
    }
    env.run(&["suspend", "*/File/*", "--reason", "x"])
        .exits(0)
        .says(&["warning: nothing that is tracked has the address `*/File/*`", "0 tracked"]);
    env.run(&["resume", "*/File/*"]).exits(0);
    let every = env.run(&["suspend", "*/Zone/*", "--reason", "x"]).exits(0);
    every.says(&["2 tracked"]).hides(&["warning: "]);
    env.run(&["resume", "*/Zone/*"]).exits(0);
    env.run(&["suspend", "Zone/example.com#www/*", "--reason", "mine", "--for", "2h"])
        .exits(0)
        .says(&["Zone/example.com#www/* suspended until", "1 tracked"]);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[OTHER, MAIL]));
    env.run(&["apply", "--yes"]).exits(3).says(&["1 created, 0 updated"]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]));
    let status =
        env.run(&["status"]).exits(0).says(&["SUSPENDED (1)", "m to go, by tester", "1 change waits"]);
    let line = status.stdout.lines().find(|line| line.contains("reconciled resume")).unwrap().to_string();
    let id = line.split_whitespace().last().unwrap();
    env.run(&["resume", id]).exits(0);
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(server.rrsets(ZONE), second());
}

#[test]
fn what_is_excepted_is_written_while_all_else_is_suspended() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    env.run(&["suspend", "--all", "--except", "Zone/example.com#mail/*", "--reason", "a move"]).exits(0);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[OTHER, MAIL]));
    sync(&env).exits(3);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]));
    env.run(&["resume", "--all"]).exits(0);
    sync(&env).exits(0);
    assert_eq!(server.rrsets(ZONE), second());
    daemon.stop();
}

#[test]
fn an_entry_does_no_more_than_its_policy_says() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let may =
        |policy: &str| env.config(&env.pdns_entry(&server.url, &format!("{WIDE_GUARD}, policy: {policy}")));
    may("observe");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.run(&["apply", "--yes"]).says(&["`policy: observe`"]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[]), "it looks only");
    may("create-only");
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(server.rrsets(ZONE), first());
    env.push("zone.yaml", &zone(ZONE, "pdns", &[OTHER, MAIL]));
    env.run(&["apply", "--yes"]).says(&["`policy: create-only`"]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]));
    may("upsert-only");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[OTHER]));
    let forbidden = env.run(&["apply", "--yes"]).says(&["`policy: upsert-only`", "reconciled forget Zone/"]);
    forbidden.exits(3).says(&["0 to delete; 1 stalled;"]).hides(&["1 to delete"]);
    let plan = env.run(&["plan", "-o", "json"]).exits(3).stdout;
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["summary"]["stalled"], 1, "{plan}");
    assert_eq!(plan["resource_changes"][0]["state"], "held", "{plan}");
    assert_eq!(server.rrsets(ZONE), second(), "it deletes nothing");
    may("sync");
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(server.rrsets(ZONE).len(), 1);
}

#[test]
fn a_file_beside_the_configuration_suspends_everything() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.run(&["apply", "--yes"]).exits(0);
    env.write("suspended", "the disk is on fire\n");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[OTHER, MAIL]));
    env.run(&["apply", "--yes"]).exits(3).says(&["the disk is on fire"]);
    assert_eq!(server.rrsets(ZONE), first(), "alone it wrote");
    let daemon = Daemon::start(&env);
    sync(&env).exits(3);
    assert_eq!(server.rrsets(ZONE), first(), "the daemon wrote");
    env.run(&["status"]).exits(0).says(&[
        "SUSPENDED (1)",
        "the disk is on fire",
        "to resume: rm DIR/suspended",
    ]);
    fs::remove_file(env.path("suspended")).unwrap();
    wait_for("the daemon goes on by itself", || server.rrsets(ZONE) == second());
    daemon.stop();
}

#[test]
fn what_was_changed_by_hand_meanwhile_is_held_once_the_time_is_over() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    env.run(&["suspend", "--source", "infra", "--for", "3s", "--reason", "by hand"]).exits(0);
    server.set(ZONE, "www", "A", "203.0.113.9");
    let by_hand = server.rrsets(ZONE);
    wait_for("it is held", || env.run(&["status"]).all().contains("changed by hand while suspended"));
    assert_eq!(server.rrsets(ZONE), by_hand, "it was healed without a word");
    let approvals = env.run(&["approvals", "-o", "json"]).exits(0);
    let digest = serde_json::from_str::<serde_json::Value>(&approvals.stdout).unwrap();
    let digest = digest["holds"][0]["digest"].as_str().unwrap().to_string();
    env.run(&["approve", &digest, "--reason", "no longer needed"]).exits(0);
    wait_for("it is healed", || server.rrsets(ZONE) == first());
    sync(&env).exits(0);
    env.run(&["status"]).exits(0).hides(&["SUSPENDED", "NEEDS A PERSON"]);
    daemon.stop();
}

#[test]
fn what_went_to_another_source_while_its_own_was_suspended_stays_while_that_cannot_be_read() {
    let env = Env::zonefile();
    other_source(&env);
    push_other(&env, "# nothing yet\n");
    let web = format!(
        "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: web}}\nspec: {{zone: {ZONE}, records: [{WWW}]}}\n"
    );
    env.write("work/web.yaml", &web);
    env.push("zone.yaml", &zone(ZONE, "zones", &[MAIL]));
    env.apply();
    let both = env.zone_rrsets(ZONE);
    assert_eq!(both.len(), 2, "{both:?}");
    env.run(&["suspend", "--source", "infra", "--reason", "maintenance"]).exits(0);
    push_other(&env, &web);
    env.push_without("web.yaml");
    env.apply();
    push_other(&env, "a: [\n");
    env.run(&["apply", "--yes"]).exits(1).says(&["more.yaml"]);
    env.run(&["resume", "--source", "infra"]).exits(0);
    env.run(&["apply", "--yes"]).exits(1).says(&["more.yaml"]);
    assert_eq!(env.zone_rrsets(ZONE), both);
}

#[test]
fn a_state_that_may_not_be_read_is_not_taken_for_none() {
    if !is_root() {
        // Only root can become somebody else; the store has a test of its own.
        return;
    }
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(env.dir.path(), open).unwrap();
    let config = env.path("config.yaml");
    let as_nobody = |verb: &[&str]| {
        let mut command = env.command(&[&["--config", config.to_str().unwrap()], verb].concat());
        std::os::unix::process::CommandExt::uid(&mut command, 65_534);
        std::os::unix::process::CommandExt::gid(&mut command, 65_534);
        env.finish(command)
    };
    let verbs: [&[&str]; 6] = [
        &["status"],
        &["status", "--exit-code"],
        &["history"],
        &["approvals"],
        &["events", "--verify"],
        &["suspend", "--all", "--reason", "x"],
    ];
    for verb in verbs {
        let told = ["the state in DIR/state may not be read by this user", "hint: ask as root", "api.group"];
        as_nobody(verb).exits(1).says(&told).hides(&["no state", "state init"]);
    }
    as_nobody(&["check"]).exits(1).says(&["FAIL  database: the state in DIR/state"]).hides(&["none yet"]);
}

#[test]
fn a_daemon_is_asked_also_while_its_configuration_is_broken() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::ready(&env);
    let good = fs::read_to_string(env.path("config.yaml")).unwrap();
    for broken in ["bogus: 1\n", "secrets: {a: {\n"] {
        env.write("config.yaml", &format!("{good}{broken}"));
        let told = ["warning: the configuration cannot be used", "config.yaml:", "using daemon at"];
        env.run(&["suspend", "--all", "--reason", "incident"]).exits(0).says(&told);
        env.run(&["status"]).exits(0).says(&told).says(&["SUSPENDED (1)", "incident"]);
        env.run(&["approvals"]).exits(0).says(&told);
        env.run(&["resume", "--all"]).exits(0).says(&told);
        sync(&env).exits(0).says(&told);
        env.run(&["--standalone", "status"]).exits(1).hides(&["using daemon"]);
        env.run(&["check"]).exits(1).says(&["FAIL  config"]);
    }
    daemon.stop();
    env.run(&["status"]).exits(1).says(&["config.yaml:"]).hides(&["warning", "daemon"]);
}

#[test]
fn a_daemon_that_hangs_is_not_well() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::ready(&env);
    let is = "ok    api.socket: DIR/state/api.sock answers: instance it, version";
    env.run(&["check"]).exits(0).says(&[is, "state DIR/state"]);
    daemon.signal("STOP");
    let said = ["FAIL  api.socket", "does not answer in time: 1s were given", "systemctl restart"];
    env.run(&["check", "--timeout", "1s"]).exits(1).says(&said);
    let said = ["does not answer within 1s", "it is there and hangs"];
    env.run(&["sync", "--wait", "--timeout", "1s"]).exits(5).says(&said);
    daemon.signal("CONT");
    env.run(&["check"]).exits(0);
    daemon.stop();
}

#[test]
fn consent_to_what_nothing_held_has_is_told_as_such() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    let digest = "0123456789abcdef0123456789abcdef";
    let early = env.run(&["approve", digest, "--reason", "x"]).exits(0);
    early.says(&["is approved for 24 hours", "nothing that is held has this digest", "reconciled approvals"]);
    let daemon = Daemon::ready(&env);
    let early = env.run(&["approve", digest, "--reason", "x"]).exits(0);
    early.says(&["nothing that is held has this digest"]).hides(&["goes on with it,"]);
    daemon.stop();
}

#[test]
fn nothing_can_be_stopped_that_never_began_and_it_is_said_what_can() {
    let env = Env::zonefile();
    let said = ["no state in DIR/state yet: nothing was applied", "touch /etc/reconciled/suspended"];
    env.run(&["suspend", "--all", "--reason", "x"]).exits(1).says(&said).hides(&["restore"]);
}

/// A desk where something exists that differs from what is declared, and nothing was ever applied.
fn before_the_first(source_keys: &str) -> Env {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("{name: infra,", &format!("{{name: infra,{source_keys}")));
    let soa = "@ 3600 IN SOA ns1.example.net. h.example.net. 5 10800 3600 604800 3600";
    let text =
        format!("$ORIGIN example.com.\n{soa}\n@ 300 IN NS ns1.example.net.\nwww 300 IN A 192.0.2.77\n");
    env.write("zones/example.com.zone", &text);
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env
}

#[test]
fn what_the_first_plan_hints_at_can_be_done_at_once() {
    let env = before_the_first("");
    let adopt = "reconciled adopt Zone/example.com#www/A";
    env.run(&["plan"]).exits(3).says(&[adopt]);
    env.run(&["adopt", "Zone/example.com#www/A"]).exits(0).says(&["now: reconciled apply"]);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));

    let env = before_the_first(" apply: approve,");
    env.push("zone.yaml", &zone(ZONE, "zones", &[MAIL]));
    let planned = env.run(&["plan"]).exits(3).stdout;
    let digest = planned.split("reconciled approve ").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(digest.len(), 32, "{planned}");
    env.run(&["approve", digest, "--reason", "go"]).exits(0).says(&["is approved for 24 hours"]);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE)["mail A"], "300 192.0.2.2");
}

#[test]
fn what_has_nothing_to_do_without_a_state_does_not_say_that_one_was_lost() {
    let env = before_the_first("");
    for verb in [&["forget", "Zone/*"][..], &["backup", "b.db"], &["approve", "abcdef", "--reason", "x"]] {
        let said = env.run(verb).exits(1);
        said.says(&["no state in DIR/state yet: nothing was applied", "`reconciled apply`"])
            .hides(&["restore", "--recover"]);
    }
    assert!(!env.path("state/state.db").exists());
}
