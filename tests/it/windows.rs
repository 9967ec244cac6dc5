//! Windows as an operator meets them: closed now, open now, and opening while the daemon runs.

use crate::{
    env::{Env, Output, rrsets, zone},
    pdns::Pdns,
    running::{Daemon, wait_for},
};
use std::process::Command;

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1], protect: true}";
const OTHER: &str = "{name: www, type: A, values: [192.0.2.7], protect: true}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

/// A desk whose source has these windows.
fn desk(server: &Pdns, windows: &str) -> Env {
    let env = Env::pdns(server);
    configure(&env, server, windows);
    env
}

fn configure(env: &Env, server: &Pdns, windows: &str) {
    let entry = env.pdns_entry(&server.url, crate::env::WIDE_GUARD);
    env.config_with("it", &entry, &format!(", interval: 1s, windows: [{windows}]"));
}

/// A desk whose record has another address than at first, and the commit that had the first one.
fn moved(server: &Pdns) -> (Env, String) {
    let env = desk(server, "{allow: \"* * * * *\", duration: 1h}");
    let first = env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    env.push("zone.yaml", &zone(ZONE, "pdns", &[OTHER, MAIL]));
    env.apply();
    (env, first.trim().to_owned())
}

fn sync(env: &Env) -> Output {
    env.run(&["sync", "--wait", "--timeout", "60s"])
}

/// The clock in UTC: `(seconds since 1970, minute, hour)`.
fn clock() -> (u64, String, String) {
    let output = Command::new("date").args(["-u", "+%s %-M %-H"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    (words[0].parse().unwrap(), words[1].into(), words[2].into())
}

#[test]
fn while_the_window_is_closed_everything_is_planned_and_nothing_written() {
    let server = Pdns::start();
    let env = desk(&server, "{allow: \"* * * * *\", duration: 1h}");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    env.run(&["status"]).exits(0).hides(&["SUSPENDED"]);
    let first = rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]);
    assert_eq!(server.rrsets(ZONE), first, "an open window stops nothing");
    env.run(&["check"]).says(&["source infra windows: open now"]);
    daemon.stop();

    // Closed all day long; at no time is nothing denied, so no opening is told.
    configure(&env, &server, "{deny: \"* * * * *\", duration: 1h, heal: protected}");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[OTHER]));
    let daemon = Daemon::start(&env);
    sync(&env)
        .exits(3)
        .says(&["pdns/example.com is suspended", "it goes on once that is over"])
        .hides(&["needs a person"]);
    assert_eq!(server.rrsets(ZONE), first, "it wrote while the window was closed");
    env.run(&["plan"]).exits(0).says(&[
        "Plan: 0 to create, 0 to update, 0 to delete; 2 suspended",
        "window closed (deny \"* * * * *\")",
    ]);
    env.run(&["status"])
        .exits(0)
        .says(&[
            "SUSPENDED (1)",
            "source infra",
            "2 changes wait for it",
            "no opening is in sight by `windows` of source infra in the daemon's configuration: leave some time",
        ])
        .hides(&["goes on by itself"]);
    env.run(&["explain", "Zone/example.com#www/A"])
        .exits(0)
        .says(&["window closed (deny", "planned    update (commit"]);
    env.run(&["plan", "-o", "json"]).exits(0).says(&["\"WindowClosed\""]);
    env.run(&["check"]).says(&["source infra windows: window closed (deny", "no opening is in sight"]);
    daemon.stop();
    env.run(&["apply", "--yes"]).exits(3).says(&["window closed"]);
    assert_eq!(server.rrsets(ZONE), first, "alone it wrote");
}

#[test]
fn what_is_protected_is_healed_while_the_window_is_closed_where_it_says_so() {
    let server = Pdns::start();
    let env = desk(&server, "{allow: \"* * * * *\", duration: 1h}");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    configure(&env, &server, "{deny: \"* * * * *\", duration: 1h, heal: protected}");
    server.set(ZONE, "www", "A", "203.0.113.9");
    server.set(ZONE, "mail", "A", "203.0.113.9");
    env.run(&["apply", "--yes"]).exits(3);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 203.0.113.9")]));
    configure(&env, &server, "{deny: \"* * * * *\", duration: 1h, heal: all}");
    env.apply();
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]));
}

#[test]
fn a_rollback_passes_a_closed_window_unless_the_window_says_otherwise() {
    let server = Pdns::start();
    let (env, first) = moved(&server);
    env.run(&["rollback", &first, "--reason", "the new address is down"]).exits(0);
    configure(&env, &server, "{deny: \"* * * * *\", duration: 1h, rollback: false}");
    env.run(&["apply", "--yes"]).exits(3).says(&["window closed"]);
    assert_eq!(server.rrsets(ZONE)["www A"], "300 192.0.2.7");
    configure(&env, &server, "{deny: \"* * * * *\", duration: 1h}");
    env.apply();
    assert_eq!(server.rrsets(ZONE)["www A"], "300 192.0.2.1");
}

#[test]
fn a_rollback_that_waits_for_the_window_goes_on_with_a_persons_word() {
    let server = Pdns::start();
    let (env, first) = moved(&server);
    configure(&env, &server, "{deny: \"* * * * *\", duration: 1h, rollback: false, manual: true}");
    let daemon = Daemon::start(&env);
    env.run(&["rollback", &first, "--reason", "the new address is down"]);
    wait_for("the rollback waits", || env.run(&["status"]).stdout.contains(" for it"));
    assert_eq!(server.rrsets(ZONE)["www A"], "300 192.0.2.7", "a rollback alone is no such word here");
    sync(&env).exits(0);
    assert_eq!(server.rrsets(ZONE)["www A"], "300 192.0.2.1");
    daemon.stop();
}

#[test]
fn what_waited_is_written_once_the_window_opens() {
    // Where a busy machine takes longer than the window, a wider one.
    let is_written = [8, 25, 75, 225].into_iter().any(written_after);
    assert!(is_written, "no window was long enough to look into");
}

/// Has a zone written once a window opens that is closed for so many seconds more; false where it opened before it could be
/// looked at.
fn written_after(seconds: u64) -> bool {
    let server = Pdns::start();
    let (now, minute, hour) = clock();
    // Begun with this minute, over in some seconds.
    let lasts = now % 60 + seconds;
    let opens = now - now % 60 + lasts;
    let env = desk(&server, &format!("{{deny: \"{minute} {hour} * * *\", duration: {lasts}s}}"));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let daemon = Daemon::start(&env);
    let status = env.run(&["status"]).exits(0);
    if clock().0 >= opens {
        daemon.stop();
        return false;
    }
    status.says(&["SUSPENDED (1)", "opens in", "window closed until", "it goes on by itself"]);
    wait_for("the window opens", || clock().0 >= opens || !server.rrsets(ZONE).is_empty());
    assert!(clock().0 >= opens, "it wrote before the window opened");
    wait_for("what waited is written", || !server.rrsets(ZONE).is_empty());
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    sync(&env).exits(0);
    daemon.stop();
    true
}

#[test]
fn a_person_may_write_while_the_window_is_closed_where_it_says_manual() {
    let server = Pdns::start();
    let env = desk(&server, "{allow: \"* * * * *\", duration: 1h}");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    configure(&env, &server, "{deny: \"* * * * *\", duration: 1h, manual: true}");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[OTHER, MAIL]));
    env.run(&["plan"]).exits(0).says(&["1 suspended", "window closed"]);
    env.run(&["plan", "-o", "json"]).exits(0).says(&["reconciled sync"]);
    env.apply();
    assert_eq!(server.rrsets(ZONE)["www A"], "300 192.0.2.7", "alone, `apply` is a person's word");

    let daemon = Daemon::start(&env);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    wait_for("the commit waits", || env.run(&["status"]).stdout.contains(" for it"));
    assert_eq!(server.rrsets(ZONE)["www A"], "300 192.0.2.7", "a commit is no such word");
    sync(&env).exits(0);
    assert_eq!(server.rrsets(ZONE)["www A"], "300 192.0.2.1");
    // Nor is the word more than what it was about.
    server.set(ZONE, "mail", "A", "203.0.113.9");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[OTHER, MAIL]));
    wait_for("the next one waits", || env.run(&["status"]).stdout.contains(" for it"));
    assert_eq!(server.rrsets(ZONE)["www A"], "300 192.0.2.1");

    // A file is a person's word as well, and planned as it is applied.
    let plan = env.path("plan.json");
    env.run(&["plan", "--out", plan.to_str().unwrap()]).exits(0).hides(&["suspended"]);
    env.run(&["apply", plan.to_str().unwrap()]).exits(0);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.7"), ("mail A", "300 192.0.2.2")]));
    daemon.stop();
}

#[test]
fn what_a_person_had_held_while_the_window_is_closed_can_be_consented_to() {
    let server = Pdns::start();
    let env = desk(&server, "{deny: \"* * * * *\", duration: 1h, manual: true}");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    // What is protected goes with consent alone.
    env.push("zone.yaml", &zone(ZONE, "pdns", &[MAIL]));
    let daemon = Daemon::start(&env);
    sync(&env).exits(3).says(&["held"]);
    let status = env.run(&["status", "-o", "json"]).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let digest = status["holds"][0]["digest"].as_str().unwrap().to_owned();
    daemon.stop();
    // Passes that nobody asked for leave what was found held.
    let daemon = Daemon::ready(&env);
    env.run(&["approve", &digest[..8], "--reason", "it moved"]).exits(0);
    wait_for("it is gone", || !server.rrsets(ZONE).contains_key("www A"));
    daemon.stop();
}
