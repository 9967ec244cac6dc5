//! Pushes that are held, and who consents to them.

use crate::{
    env::{Output, WIDE_GUARD, zone},
    pdns::Pdns,
    push::{API, FTP, MAIL, WWW, ZONE, addresses, commit, desk, git, push, tip},
    running::{Daemon, wait_for},
};
use std::fs;

/// What the hint of a refused push says to type, after `git push`.
fn line_to_type(output: &Output) -> Vec<String> {
    let line = output.stderr.lines().find_map(|line| line.split_once("hint: if it is meant: git push "));
    line.unwrap().1.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_held_push_is_refused_with_the_line_to_type_and_that_line_works() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    let _daemon = Daemon::ready(&env);
    let first = commit(&env, &[WWW, MAIL, API, FTP]);
    push(&env, &[]).exits(0);
    let before = server.rrsets(ZONE);

    let second = commit(&env, &[WWW]);
    let refused = push(&env, &[]).exits(1).says(&["HELD  pdns/example.com", "error: refused", "maxDelete"]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (first.clone(), before.clone()));

    // Consent to something else is none.
    push(&env, &["-o", "reconciled.approve=00000000"])
        .exits(1)
        .says(&["is not the digest of anything this push has held"]);
    push(&env, &["-o", "reconciled.approve=12"]).exits(1).says(&["too short"]);
    push(&env, &["-o", "reconciled.aprove=12"]).exits(1).says(&["did you mean `reconciled.approve`?"]);
    // Nor is it consent to a plan that has changed since.
    let line = line_to_type(&refused);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    commit(&env, &[MAIL]);
    push(&env, &line).exits(1).says(&["is not the digest of anything this push has held"]);
    env.git(&["reset", "-q", "--hard", &second]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (first, before));

    push(&env, &line).exits(0).says(&["APPROVED  pdns/example.com", "push option", "3 deleted"]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (second, addresses(&[("www", "192.0.2.1")])));
    env.run(&["history"]).exits(0).says(&["approve", "push option"]);
}

#[test]
fn where_push_options_may_not_consent_the_host_does() {
    let server = Pdns::start();
    let env = desk(&server, "", ", approve: [socket]");
    let _daemon = Daemon::ready(&env);
    commit(&env, &[WWW, MAIL, API, FTP]);
    push(&env, &[]).exits(0);
    commit(&env, &[WWW]);
    let refused = push(&env, &[]).exits(1).says(&["not the pusher's"]);
    let digest = refused.stderr.split("reconciled approve ").nth(1).unwrap().split(' ').next().unwrap();
    push(&env, &["-o", &format!("reconciled.approve={digest}")])
        .exits(1)
        .says(&["source infra does not let a push approve"]);
    env.run(&["approve", digest, "--reason", "meant"]).exits(0);
    push(&env, &[]).exits(0).says(&["APPROVED", "3 deleted"]);
}

#[test]
fn where_held_pushes_are_taken_what_is_held_waits() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &format!("{config}hook: {{onHold: accept}}\n"));
    let _daemon = Daemon::ready(&env);
    commit(&env, &[WWW, MAIL, API, FTP]);
    push(&env, &[]).exits(0);
    let before = server.rrsets(ZONE);
    let sha = commit(&env, &[WWW]);
    push(&env, &[]).exits(0).says(&["waits for consent", "infra is held at", "reconciled approve"]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (sha, before));
    // The next push is not about that.
    env.write("work/other.yaml", &zone("example.net", "pdns", &[WWW]));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "other"]);
    push(&env, &[]).exits(0);
    assert_eq!(server.rrsets("example.net"), addresses(&[("www", "192.0.2.1")]));
    // A push that changes something else may consent to what still waits.
    let status = env.run(&["status"]).exits(0);
    let digest = status.stdout.split("reconciled approve ").nth(1).unwrap().split(' ').next().unwrap();
    env.write("work/other.yaml", &zone("example.net", "pdns", &[WWW, MAIL]));
    env.git(&["commit", "-q", "-a", "-m", "more"]);
    let consents = push(&env, &["-o", &format!("reconciled.approve={digest}")]).exits(0);
    consents.says(&["APPROVED"]).hides(&["is not the digest of anything"]);
    wait_for("what was held is done", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn a_trailer_consents_to_what_an_earlier_commit_had_held() {
    let server = Pdns::start();
    let env = desk(&server, "", ", approve: [socket, trailer]");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &format!("{config}hook: {{onHold: accept}}\n"));
    let _daemon = Daemon::ready(&env);
    commit(&env, &[WWW, MAIL, API, FTP]);
    push(&env, &[]).exits(0);
    commit(&env, &[WWW]);
    push(&env, &[]).exits(0).says(&["waits for consent"]);
    let status = env.run(&["status", "-o", "json"]).exits(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let digest = status["holds"][0]["digest"].as_str().unwrap().to_owned();
    env.write("work/README.md", "words\n");
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", &format!("words\n\nReconciled-Approve: {digest}")]);
    push(&env, &[]).exits(0);
    wait_for("what was held is done", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn what_somebody_made_past_the_api_is_not_overwritten_by_a_push() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let _daemon = Daemon::ready(&env);
    commit(&env, &[WWW]);
    push(&env, &[]).exits(0);
    // The daemon has seen the zone whole; a change in the database leaves its serial as it was.
    env.run(&["sync", "--wait"]).exits(0);
    server.sneak(ZONE, "mail", "A", "198.51.100.1");
    commit(&env, &[WWW, MAIL]);
    push(&env, &[]).says(&["mail/A", "exists"]);
    let expected = addresses(&[("www", "192.0.2.1"), ("mail", "198.51.100.1")]);
    assert_eq!(server.rrsets(ZONE), expected);
}

#[test]
fn one_push_that_moves_two_sources_is_consented_to_by_one_line() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let repo = env.path("repo.git");
    let source = |name: &str| {
        format!("  - {{name: {name}, url: {}, branch: {name}, path: {name}, allow: all}}\n", repo.display())
    };
    let (head, tail) = (config.split("sources:").next().unwrap(), config.split("providers:").nth(1).unwrap());
    let sources = source("main") + &source("prod");
    env.write("config.yaml", &format!("{head}sources:\n{sources}providers:{tail}"));
    let _daemon = Daemon::ready(&env);
    let write = |records: &[&str]| {
        env.write("work/main/zone.yaml", &zone(ZONE, "pdns", records));
        env.write("work/prod/zone.yaml", &zone("example.net", "pdns", records));
        env.git(&["add", "-A"]);
        env.git(&["commit", "-q", "-m", "change"]);
    };
    let push = |options: &[&str]| {
        let both = ["origin", "HEAD:refs/heads/main", "HEAD:refs/heads/prod"];
        env.finish(git(&env, &[&["push"], options, &both].concat()))
    };
    write(&[WWW, MAIL, API, FTP]);
    push(&[]).exits(0).says(&["main is in sync at", "prod is in sync at"]);
    write(&[WWW]);
    let line = line_to_type(&push(&[]).exits(1));
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    assert_eq!(line.len(), 4, "{line:?}");
    push(&line).exits(0).says(&["main is in sync at", "prod is in sync at"]);
    for zone in [ZONE, "example.net"] {
        assert_eq!(server.rrsets(zone), addresses(&[("www", "192.0.2.1")]));
    }
}
