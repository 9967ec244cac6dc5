//! Verbs that a daemon answers: they say what they would say alone, and do no more than they showed.

use crate::{
    env::{Env, WIDE_GUARD, zone},
    pdns::Pdns,
    proxy::{Damage, Proxy},
    running::{Daemon, wait_for},
};
use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    process::Stdio,
};

const ZONE: &str = "example.com";
const OTHER: &str = "other.example";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";
const NEW: &str = "{name: new, type: A, values: [192.0.2.3]}";

/// A desk whose daemon asks its repository only when it is told to.
fn patient(server: &Pdns, url: &str) -> Env {
    let env = Env::pdns(server);
    env.config_with("it", &env.pdns_entry(url, &format!("timeout: 2s, {WIDE_GUARD}")), ", interval: 1h");
    env
}

/// The same with a zone of three records, of whose next commit not more than one may be deleted without consent.
fn held_by_two_deletes(server: &Pdns) -> (Env, Daemon) {
    let env = Env::pdns(server);
    let guard = "guard: {maxDeletes: 1, maxDeletePercent: 100}";
    env.config_with("it", &env.pdns_entry(&server.url, guard), ", interval: 1h");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL, NEW]));
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait"]).exits(0);
    (env, daemon)
}

#[test]
fn apply_through_a_daemon_ends_as_it_would_alone() {
    let server = Pdns::start();
    let proxy = Proxy::start(server.address());
    let env = patient(&server, &proxy.url);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    let daemon = Daemon::ready(&env);
    env.run(&["apply", "--yes"]).exits(0).says(&["in sync"]);

    // Somebody else's record is in the way: a person has to act, though there is nothing to carry out.
    server.set(ZONE, "new", "A", "192.0.2.200");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL, NEW]));
    for _ in 0..2 {
        env.run(&["apply", "--yes"]).exits(3).says(&["Conflict"]);
    }
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.run(&["apply", "--yes"]).exits(0).says(&["in sync"]);

    // What cannot be read is in sync for nobody.
    proxy.spoil("GET", "/zones", Damage::Instead("500 Internal Server Error\r\n"));
    for _ in 0..2 {
        env.run(&["apply", "--yes", "--refresh"]).exits(1).says(&["answered 500"]);
    }
    proxy.heal();
    env.run(&["apply", "--yes"]).exits(0).says(&["in sync"]);
    daemon.stop();
}

#[test]
fn a_part_is_applied_through_a_daemon_only_where_there_is_nothing_else() {
    let server = Pdns::start();
    let env = patient(&server, &server.url);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.push("other.yaml", &zone(OTHER, "pdns", &[WWW]));
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait"]).exits(0);

    // A commit that the daemon does not have yet, of which only a part is meant.
    env.write("work/other.yaml", &zone(OTHER, "pdns", &[WWW, NEW]));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let before = (server.rrsets(ZONE), server.rrsets(OTHER));
    let part = ["apply", "--yes", "--target", "Zone/other.example#new/A"];
    env.run(&part).exits(1).says(&["another change, of Zone/example.com#mail/A", "hint: all of it"]);
    let file = env.path("part.plan");
    let file = file.to_str().unwrap();
    env.run(&["plan", "--target", "Zone/other.example#new/A", "--out", file]).exits(0);
    env.run(&["apply", file]).exits(1).says(&["another change"]);
    assert_eq!((server.rrsets(ZONE), server.rrsets(OTHER)), before, "something was done");

    // What a person keeps back is no part of what would be done.
    env.run(&["suspend", "Zone/example.com#mail/A", "--reason", "later"]).exits(0);
    env.run(&part).exits(3).says(&["1 created", "pdns/example.com is suspended"]);
    assert_eq!(server.rrsets(ZONE), before.0);
    assert!(server.rrsets(OTHER).contains_key("new A"));
    env.run(&["resume", "Zone/example.com#mail/A"]).exits(0);
    wait_for("the rest is done", || !server.rrsets(ZONE).contains_key("mail A"));
    // In another scope nothing would be looked at.
    env.run(&["apply", "--yes", "--target", "Zone/other.example"]).exits(0);
    daemon.stop();
}

#[test]
fn a_part_of_what_the_daemon_holds_is_no_plan_of_its_own() {
    let server = Pdns::start();
    let (env, daemon) = held_by_two_deletes(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.run(&["apply", "--yes"]).exits(3);
    let before = server.rrsets(ZONE);
    env.run(&["apply", "--yes", "--target", "Zone/example.com#mail/A"]).exits(1).says(&[
        "the daemon holds all of pdns/example.com, and a part of it",
        "hint: to consent to all of it: reconciled approve",
    ]);
    assert_eq!(server.rrsets(ZONE), before);
    daemon.stop();
}

#[test]
fn what_waits_for_something_that_a_person_has_to_mend_is_not_waited_for() {
    let server = Pdns::start();
    let env = patient(&server, &server.url);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.push("other.yaml", &zone(OTHER, "pdns", &[WWW]));
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait"]).exits(0);
    server.set(ZONE, "new", "A", "192.0.2.200");
    let other = zone(OTHER, "pdns", &[WWW, MAIL]);
    let after = format!("metadata: {{name: {OTHER}, annotations: {{reconciled/depends-on: Zone/{ZONE}}}}}");
    env.write("work/other.yaml", &other.replace(&format!("metadata: {{name: {OTHER}}}"), &after));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, NEW]));
    // With the timeout of five minutes it would be still going.
    env.run(&["apply", "--yes"]).exits(3).says(&["pdns/other.example is waiting", "needs a person"]);
    assert!(!server.rrsets(OTHER).contains_key("mail A"));

    // What its own manifest suspends is as it is wished for.
    let suspended = zone(ZONE, "pdns", &[WWW, NEW]).replace(
        &format!("metadata: {{name: {ZONE}}}"),
        &format!("metadata: {{name: {ZONE}, annotations: {{reconciled/suspend: 'true'}}}}"),
    );
    env.write("work/other.yaml", &zone(OTHER, "pdns", &[WWW]));
    server.set(ZONE, "new", "A", "192.0.2.3");
    env.push("zone.yaml", &suspended);
    env.run(&["apply", "--yes"]).exits(0);
    daemon.stop();
}

#[test]
fn what_waits_for_manifests_that_are_in_error_is_not_waited_for() {
    let server = Pdns::start();
    let env = patient(&server, &server.url);
    let set = |name: &str, record: &str| {
        format!(
            "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: {name}}}\nspec: {{zone: {ZONE}, records: [{record}]}}\n"
        )
    };
    env.write("work/old.yaml", &set("old", "{name: c, type: A, values: [192.0.2.3]}"));
    env.write("work/other.yaml", &set("other", MAIL));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait"]).exits(0);
    // The broken file may declare the A by now, so that stays, and leaves the CNAME no room.
    fs::remove_file(env.path("work/old.yaml")).unwrap();
    env.write("work/new.yaml", &set("new", "{name: c, type: CNAME, values: [www.example.com.]}"));
    env.push("other.yaml", "x: [");
    // With the timeout of five minutes it would be still going.
    env.run(&["apply", "--yes"]).exits(1).says(&["pdns/example.com is waiting", "manifests have errors"]);
    env.run(&["sync", "--wait", "--timeout", "1s"]).exits(1).hides(&["still going"]);
    daemon.stop();
}

#[test]
fn what_is_held_counts_for_more_than_what_is_still_going() {
    let env = Env::zonefile();
    // No answer ever comes from there.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    env.write("key", "x");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let entry = env.pdns_entry(&format!("http://{}", silent.local_addr().unwrap()), "");
    env.write(
        "config.yaml",
        &format!("{}{entry}\n", config.replace("repo.git}", "repo.git, apply: approve}")),
    );
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let _daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3);
    env.push("other.yaml", &zone(OTHER, "pdns", &[WWW]));
    let told = env.run(&["sync", "--wait", "--timeout", "5s"]).exits(3);
    told.says(&["held: zones/example.com", "needs a person"]);
}

#[test]
fn the_line_that_a_plan_prints_consents_to_what_the_daemon_comes_to() {
    let server = Pdns::start();
    let (env, daemon) = held_by_two_deletes(&server);

    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let approve = |output: &str| {
        let (_, rest) = output.split_once("reconciled approve ").unwrap_or_else(|| panic!("{output}"));
        rest.split_whitespace().next().unwrap().to_owned()
    };
    // Nobody has put it down, so all of its digits are needed; of a part there is nothing to consent to.
    env.run(&["plan", "--target", "Zone/*"])
        .exits(3)
        .says(&["consent is to whole plans"])
        .hides(&["approve "]);
    let digest = approve(&env.run(&["plan"]).exits(3).all());
    assert_eq!(digest.len(), 32);
    env.run(&["apply", "--yes"]).exits(3);
    // Now the daemon holds it.
    let short = approve(&env.run(&["plan"]).exits(3).all());
    assert!(short.len() < 32 && digest.starts_with(&short), "{short} {digest}");
    env.run(&["approve", &short, "--reason", "meant"]).exits(0);
    wait_for("both are deleted", || server.rrsets(ZONE).len() == 1);

    // Consent to a commit that the daemon does not have yet is used once it has.
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL, NEW]));
    env.run(&["apply", "--yes"]).exits(0);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let digest = approve(&env.run(&["plan"]).exits(3).all());
    env.run(&["approve", &digest, "--reason", "meant"]).exits(0);
    env.run(&["apply", "--yes"]).exits(0).says(&["2 deleted"]);
    daemon.stop();
}

#[test]
fn a_plan_file_is_refused_when_a_value_moved_again() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    let file = env.path("zones/example.com.zone");
    let by_hand = |from: &str, to: &str| {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&file, text.replace(from, to)).unwrap();
    };
    by_hand("192.0.2.1", "192.0.2.77");
    let plan = env.path("heal.plan");
    let plan = plan.to_str().unwrap();
    env.run(&["plan", "--refresh", "--out", plan]).exits(0).says(&["192.0.2.77"]);
    by_hand("192.0.2.77", "192.0.2.78");
    env.run(&["apply", plan]).exits(1).says(&["the plan no longer holds: Zone/example.com#www/A changed"]);
    by_hand("192.0.2.78", "192.0.2.77");
    env.run(&["apply", plan]).exits(0).says(&["1 updated"]);
}

#[test]
fn apply_writes_the_plan_in_the_form_that_is_asked_for() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let markdown = env.run(&["apply", "--yes", "-o", "markdown"]).exits(0);
    assert!(markdown.stdout.contains("| "), "no table: {}", markdown.all());
    let json = env.run(&["apply", "--yes", "-o", "json"]).exits(0);
    let said: serde_json::Value =
        serde_json::from_str(&json.stdout).unwrap_or_else(|_| panic!("{}", json.all()));
    assert_eq!(said["exit"], 0);
}

#[test]
fn a_watch_of_how_it_stands_goes_on_in_a_pipe_until_nobody_reads() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    let config = env.path("config.yaml");
    let mut command = env.command(&["--config", config.to_str().unwrap(), "status", "--watch"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(!first.contains('\u{1b}'), "{first}");
    // Times in it differ from look to look.
    let begin = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let again = lines.by_ref().any(|line| begin(&line.unwrap()) == begin(&first));
    assert!(again, "it was shown once: {first}");
    drop(lines);
    wait_for("the watch ends", || child.try_wait().unwrap().is_some());
}
