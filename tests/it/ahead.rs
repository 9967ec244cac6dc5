//! Consent ahead of its time: given while a window is closed or something is suspended, and used once that is over.

use crate::{
    env::{Env, zone},
    pdns::Pdns,
    push::{API, FTP, MAIL, WWW, ZONE, addresses, commit, desk, push, tip},
    running::{Daemon, wait_for},
};
use serde_json::Value;

const OPEN: &str = "{allow: \"* * * * *\", duration: 1h}";
const CLOSED: &str = "{deny: \"* * * * *\", duration: 1h}";

/// The configuration of a desk with this window, and further keys of the source.
fn window(env: &Env, server: &Pdns, window: &str, keys: &str) {
    let entry = env.pdns_entry(&server.url, "");
    env.config_with("it", &entry, &format!(", interval: 1s, windows: [{window}]{keys}"));
}

/// A daemon of a zone with four addresses, and then a closed window.
fn closed(server: &Pdns) -> (Env, Daemon) {
    let env = Env::pdns(server);
    window(&env, server, OPEN, "");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL, API, FTP]));
    env.apply();
    window(&env, server, CLOSED, "");
    let daemon = Daemon::ready(&env);
    (env, daemon)
}

/// Has the daemon take what the configuration says now, where the window is open.
fn opens(env: &Env, server: &Pdns, daemon: &Daemon, keys: &str) {
    window(env, server, OPEN, keys);
    daemon.signal("HUP");
}

fn json(env: &Env, args: &[&str]) -> Value {
    serde_json::from_str(&env.run(args).exits(0).stdout).unwrap()
}

/// Of the one plan that waits for consent, or will.
fn hold(env: &Env) -> Value {
    let status = json(env, &["status", "-o", "json"]);
    let holds = status["holds"].as_array().unwrap();
    assert_eq!(holds.len(), 1, "{holds:?}");
    holds[0].clone()
}

fn digest(env: &Env) -> String {
    hold(env)["digest"].as_str().unwrap().to_owned()
}

fn sync(env: &Env) -> crate::env::Output {
    env.run(&["sync", "--wait", "--timeout", "60s"])
}

#[test]
fn what_is_approved_while_the_window_is_closed_is_written_once_it_opens_and_not_before() {
    let server = Pdns::start();
    let (env, daemon) = closed(&server);
    let before = server.rrsets(ZONE);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    sync(&env).exits(3).says(&["held once the window opens: pdns/example.com: ", "reconciled approve"]);
    let digest = digest(&env);
    assert_eq!(hold(&env)["once"], "once the window opens");

    let short = &digest[..8];
    let line = format!("HELD  pdns/example.com  {short}  once the window opens");
    env.run(&["plan"]).exits(0).says(&[&line, "limit 20 % (guard.maxDeletePercent)", "reconciled approve"]);
    env.run(&["plan", "-o", "markdown"]).exits(0).says(&[&line[6..]]);
    env.run(&["plan", "--detailed-exitcode"]).exits(2);
    let plan = json(&env, &["plan", "-o", "json"]);
    let foreseen = &plan["domains"][0]["foreseen"];
    assert_eq!((&foreseen["digest"], &foreseen["counts"]["delete"]), (&digest.clone().into(), &3.into()));
    assert_eq!((&plan["state"], &plan["domains"][0]["state"]), (&"waiting".into(), &"waiting".into()));
    assert_eq!(plan["resource_changes"][0]["digest"], digest.as_str());
    let will = ["WILL NEED A PERSON (1)", "held once the window opens", "reconciled approve"];
    env.run(&["status", "--exit-code"]).exits(0).says(&will).hides(&["\nNEEDS A PERSON"]);
    env.run(&["approvals"]).exits(0).says(&will);
    env.run(&["explain", "Zone/example.com"]).exits(0).says(&["is held once the window opens"]);

    let approve = |reason: &str| env.run(&["approve", short, "--reason", reason]).exits(0);
    approve("first").says(&["nothing is written now: it goes on once the window opens"]);
    approve("second");
    sync(&env).exits(3).hides(&["held once"]);
    env.run(&["plan"])
        .exits(0)
        .says(&["APPROVED", "first, which counts once the window opens"])
        .hides(&["HELD"]);
    env.run(&["status"]).exits(0).says(&["approved by", "then it goes on"]);
    assert_eq!(server.rrsets(ZONE), before, "it wrote while the window was closed");

    opens(&env, &server, &daemon, "");
    wait_for("it is written", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));
    sync(&env).exits(0);
    env.run(&["status"]).exits(0).hides(&["NEED A PERSON"]);
    let history = env.run(&["history"]).exits(0);
    let used = history.stdout.lines().find(|line| line.contains("consented")).unwrap();
    assert!(used.contains("first") && !used.contains("second"), "{used}");
    history.says(&["approved by", ": first"]).hides(&[": second"]);
    daemon.stop();
}

#[test]
fn what_is_approved_while_a_window_is_closed_that_lets_a_person_is_written_now() {
    let server = Pdns::start();
    let (env, daemon) = closed(&server);
    let manual = "{deny: \"* * * * *\", duration: 1h, manual: true}";
    window(&env, &server, manual, "");
    daemon.signal("HUP");
    wait_for("the reload", || daemon.log().contains("configuration is reloaded"));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    wait_for("it is known ahead", || json(&env, &["approvals", "-o", "json"])["holds"][0].is_object());
    let once = "once the window opens or a person asks for it";
    assert_eq!(hold(&env)["once"], once);
    let short = &digest(&env)[..8];
    for verb in [&["status"][..], &["approvals"], &["plan"], &["explain", "Zone/example.com"]] {
        env.run(verb).exits(0).says(&[once]);
    }
    env.run(&["approve", short, "--reason", "meant", "-o", "json"])
        .exits(0)
        .says(&["the daemon goes on with it now"])
        .hides(&["nothing is written now", "\"once\""]);
    wait_for("it is written", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));
    daemon.stop();
}

#[test]
fn a_push_is_refused_for_what_will_be_held_and_taken_with_consent_ahead() {
    let server = Pdns::start();
    let keys = ", approve: [socket, push-option, trailer]";
    let env = desk(&server, "", keys);
    let daemon = Daemon::ready(&env);
    commit(&env, &[WWW, MAIL, API, FTP]);
    push(&env, &[]).exits(0);
    window(&env, &server, CLOSED, keys);
    daemon.signal("HUP");
    wait_for("the window is closed", || env.run(&["status"]).stdout.contains("window closed"));
    let before = server.rrsets(ZONE);

    let sha = commit(&env, &[WWW]);
    let refused = push(&env, &[]).exits(1);
    let refused = refused.says(&["HELD  pdns/example.com", "once the window opens", "error: refused"]);
    assert_ne!(tip(&env, "main"), sha);
    let option = refused.stderr.split("-o reconciled.approve=").nth(1).unwrap();
    let option = option.split_whitespace().next().unwrap().to_owned();
    push(&env, &["-o", &format!("reconciled.approve={option}")])
        .exits(0)
        .says(&["APPROVED  pdns/example.com", "which counts once the window opens"]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (sha, before.clone()));

    // What it is about changed, and the trailer of that commit consents.
    commit(&env, &[MAIL]);
    push(&env, &[]).exits(1).says(&["once the window opens"]);
    let plan = json(&env, &["plan", "-o", "json", "--dir", "work", "--source", "infra"]);
    let digest = plan["domains"][0]["foreseen"]["digest"].as_str().unwrap();
    env.git(&["commit", "-q", "--amend", "-m", &format!("mail stays\n\nReconciled-Approve: {digest}")]);
    push(&env, &[]).exits(0).says(&["is consented to by a trailer of the commit"]);
    sync(&env).exits(3);
    assert_eq!(server.rrsets(ZONE), before, "it wrote while the window was closed");
    opens(&env, &server, &daemon, keys);
    wait_for("it is written", || server.rrsets(ZONE) == addresses(&[("mail", "192.0.2.2")]));
    daemon.stop();
}
