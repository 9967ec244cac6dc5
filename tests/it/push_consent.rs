//! Pushes that are held, and who consents to them.

use crate::{
    env::{Env, Output, WIDE_GUARD, zone},
    pdns::Pdns,
    push::{API, FTP, MAIL, WWW, ZONE, addresses, commit, desk, git, push, tip},
    running::{Daemon, wait_for},
};
use std::{fs, os::unix::fs::PermissionsExt};

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
fn who_consents_with_a_push_is_told_by_their_own_account_beside_the_user() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    let _daemon = Daemon::ready(&env);
    let push_as = |who: &str, options: &[&str]| {
        let mut command = git(&env, &[&["push"], options, &["origin", "HEAD:main"]].concat());
        command.env("REMOTE_USER", who);
        env.finish(command)
    };
    commit(&env, &[WWW, MAIL, API, FTP]);
    push_as("carol", &[]).exits(0);
    commit(&env, &[WWW]);
    let refused = push_as("dave", &[]).exits(1);
    let option = refused.stderr.split("-o reconciled.approve=").nth(1).unwrap();
    let option = format!("reconciled.approve={}", option.split_whitespace().next().unwrap());
    push_as("erin", &["-o", &option]).exits(0).says(&["in sync at"]);

    let user = env.run(&["history", "-o", "json"]).exits(0).stdout;
    let entries: serde_json::Value = serde_json::from_str(&user).unwrap();
    let push = entries.as_array().unwrap().iter().find(|entry| entry["kind"] == "push").unwrap();
    let erin = format!("{}, by their own account erin", push["actor"].as_str().unwrap());
    env.run(&["approvals"]).exits(0).says(&[&erin]);
    let deleted = ["history", "Zone/example.com#mail/A"];
    env.run(&deleted).exits(0).says(&[
        &format!("approved by {erin}: push option"),
        &format!("pushed by {}, by their own account carol", push["actor"].as_str().unwrap()),
    ]);
    let all = env.run(&["history", "--actor", "erin"]).exits(0);
    all.says(&["approve ", "delete ", "pushed to main, by their own account erin"]).hides(&["carol"]);
    let by_user = env.run(&["history", "--actor", push["actor"].as_str().unwrap()]).exits(0);
    by_user.says(&["by their own account erin", "by their own account carol"]);
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
    let taken = push(&env, &[]).exits(0);
    taken
        .says(&["waits for consent", "infra is held at", "nothing changed so far", "reconciled approve"])
        .hides(&["nothing to change"]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (sha, before));
    // The next push is not about that.
    env.write("work/other.yaml", &zone("example.net", "pdns", &[WWW]));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "other"]);
    // Its own part is done, and the source is not in sync.
    let held = ["infra is held at", "a person must consent or act", "reconciled approve"];
    push(&env, &[]).exits(0).says(&["example.net: 2 created"]).says(&held).hides(&["in sync at"]);
    env.git(&["commit", "-q", "--allow-empty", "-m", "nothing"]);
    push(&env, &[]).exits(0).says(&held).hides(&["in sync at"]);
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
    let held = push(&env, &[]).exits(0).says(&["HELD  pdns/example.com", "waits for consent"]);
    let digest = held_digest(&env);
    // There is nothing to push but a commit that says so; push options may not.
    let line =
        format!("git commit --allow-empty -m \"…\" --trailer 'Reconciled-Approve: {digest}', then git push");
    held.says(&[&line]).hides(&["reconciled.approve="]);
    env.write("work/README.md", "words\n");
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", &format!("words\n\nReconciled-Approve: {digest}")]);
    let short = &env.git(&["rev-parse", "HEAD"])[..7];
    push(&env, &[])
        .exits(0)
        .says(&["APPROVED  pdns/example.com", &format!("by {short}: trailer"), "3 deleted", "in sync at"])
        .says(&["is consented to by a trailer of the commit"])
        .hides(&["HELD", "held:"]);
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

/// A desk with the sources `main` and `prod`, each a branch and a folder of one repository, and further keys of each.
fn two_sources(server: &Pdns, main: &str, prod: &str, on_hold: &str) -> Env {
    let env = desk(server, "", "");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let repo = env.path("repo.git");
    let source = |name: &str, keys: &str| {
        let url = repo.display();
        format!("  - {{name: {name}, url: {url}, branch: {name}, path: {name}, allow: all{keys}}}\n")
    };
    let (head, tail) = (config.split("sources:").next().unwrap(), config.split("providers:").nth(1).unwrap());
    let sources = source("main", main) + &source("prod", prod);
    let text = format!("{head}sources:\n{sources}providers:{tail}\nhook: {{onHold: {on_hold}}}\n");
    env.write("config.yaml", &text);
    env
}

/// Commits these records of `prod`'s zone, example.net, or of `main`'s, with a message.
fn commit_to(env: &Env, source: &str, records: &[&str], message: &str) {
    let name = if source == "prod" { "example.net" } else { ZONE };
    env.write(&format!("work/{source}/zone.yaml"), &zone(name, "pdns", records));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "--allow-empty", "-m", message]);
}

fn push_to(env: &Env, branch: &str, options: &[&str]) -> Output {
    env.finish(git(env, &[&["push"], options, &["origin", &format!("HEAD:refs/heads/{branch}")]].concat()))
}

/// The whole digest of the one plan that is held.
fn held_digest(env: &Env) -> String {
    let status = env.run(&["status", "-o", "json"]).exits(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let holds = status["holds"].as_array().unwrap();
    assert_eq!(holds.len(), 1, "{holds:?}");
    holds[0]["digest"].as_str().unwrap().to_owned()
}

#[test]
fn nobody_consents_by_a_push_to_what_other_sources_had_held() {
    let server = Pdns::start();
    let env = two_sources(&server, ", approve: [socket, push-option, trailer]", "", "accept");
    let _daemon = Daemon::ready(&env);
    let all = [WWW, MAIL, API, FTP];
    commit_to(&env, "main", &all, "all");
    commit_to(&env, "prod", &all, "all");
    push_to(&env, "main", &[]).exits(0);
    push_to(&env, "prod", &[]).exits(0);
    commit_to(&env, "prod", &[WWW], "less");
    push_to(&env, "prod", &[]).exits(0).says(&["waits for consent"]);
    let digest = held_digest(&env);
    let four = server.rrsets("example.net");
    assert_eq!(four.len(), 4, "{four:?}");

    commit_to(&env, "main", &all, "words");
    let option = format!("reconciled.approve={digest}");
    let refused = push_to(&env, "main", &["-o", &option]).exits(1);
    refused.says(&["is not the digest of anything this push has held"]).hides(&["example.net"]);
    // Nor by a trailer, also where the push itself is taken.
    commit_to(&env, "main", &all, &format!("more words\n\nReconciled-Approve: {digest}"));
    push_to(&env, "main", &[]).exits(0);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3);
    env.run(&["approvals", "-o", "json"]).exits(0).hides(&["more words"]);
    assert_eq!(server.rrsets("example.net"), four);

    // A trailer of its own source counts where that lists it, whatever others list.
    commit_to(&env, "main", &[WWW], "less");
    push_to(&env, "main", &[]).exits(0).says(&["waits for consent"]);
    let status = env.run(&["status", "-o", "json"]).exits(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let holds = status["holds"].as_array().unwrap();
    let own =
        holds.iter().find(|hold| hold["domain"] == "pdns/example.com").unwrap()["digest"].as_str().unwrap();
    commit_to(&env, "main", &[WWW], &format!("meant\n\nReconciled-Approve: {own}"));
    push_to(&env, "main", &[]).exits(0);
    wait_for("main goes on", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));
    assert_eq!(server.rrsets("example.net"), four);

    // Who pushes to the source may.
    commit_to(&env, "prod", &[WWW], "words");
    push_to(&env, "prod", &["-o", &option]).exits(0).says(&["APPROVED"]);
    wait_for("prod goes on", || server.rrsets("example.net") == addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn a_push_that_is_not_taken_has_consented_to_nothing() {
    let server = Pdns::start();
    let env = two_sources(&server, "", "", "accept");
    let _daemon = Daemon::ready(&env);
    commit_to(&env, "main", &[WWW, MAIL, API, FTP], "all");
    push_to(&env, "main", &[]).exits(0);
    let before = server.rrsets(ZONE);
    commit_to(&env, "main", &[WWW], "less");
    push_to(&env, "main", &[]).exits(0).says(&["waits for consent"]);
    let option = format!("reconciled.approve={}", held_digest(&env));
    commit_to(&env, "main", &[WWW], "words");
    let check = |output: Output, words: &[&str]| {
        output.exits(1).says(words);
        env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3);
        assert_eq!(server.rrsets(ZONE), before, "{words:?}");
    };
    let planned = push_to(&env, "main", &["-o", "reconciled.plan", "-o", &option]);
    check(planned, &["APPROVED", "nothing was taken"]);
    let other = "reconciled.approve=00000000";
    check(push_to(&env, "main", &["-o", &option, "-o", other]), &["is not the digest of anything"]);
    // Of two refs the other one is refused.
    env.write("work/prod/zone.yaml", "apiVersion: dns/v1\nkind: Zoen\nmetadata: {name: a}\n");
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "broken"]);
    let both = ["push", "-o", &option, "origin", "HEAD~1:refs/heads/main", "HEAD:refs/heads/prod"];
    check(env.finish(git(&env, &both)), &["its manifests have errors"]);
    env.git(&["reset", "-q", "--hard", "HEAD~1"]);
    // Fine but on this host.
    env.write("work/main/other.yaml", &zone("example.org", "elsewhere", &[WWW]));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "elsewhere"]);
    check(push_to(&env, "main", &["-o", &option]), &["errors on this host"]);
    env.git(&["reset", "-q", "--hard", "HEAD~1"]);
    // Git refuses what the hooks took.
    let update = env.path("repo.git/hooks/update");
    fs::write(&update, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&update, fs::Permissions::from_mode(0o755)).unwrap();
    check(push_to(&env, "main", &["-o", &option]), &["hook declined"]);
    fs::remove_file(&update).unwrap();
    // Planned with consent, and pushed without.
    push_to(&env, "main", &["-o", "reconciled.plan", "-o", &option]).exits(1);
    push_to(&env, "main", &[]).exits(0);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3);
    assert_eq!(server.rrsets(ZONE), before);

    commit_to(&env, "main", &[WWW], "more words");
    push_to(&env, "main", &["-o", &option]).exits(0).says(&["APPROVED"]);
    wait_for("it is done", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn one_push_that_moves_two_sources_is_consented_to_by_one_line() {
    let server = Pdns::start();
    let env = two_sources(&server, "", "", "refuse");
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

#[test]
fn of_two_sources_on_one_branch_those_of_a_plan_say_how_it_is_consented_to() {
    for on_hold in ["refuse", "accept"] {
        let server = Pdns::start();
        let env = two_sources(&server, ", approve: [socket]", "", on_hold);
        let config = fs::read_to_string(env.path("config.yaml")).unwrap();
        // Both follow `main`; the source `main`, which lets no push approve, is the first of them.
        env.write("config.yaml", &config.replace("branch: prod", "branch: main"));
        let _daemon = Daemon::ready(&env);
        let four = [WWW, MAIL, API, FTP];
        commit_to(&env, "main", &four, "all");
        commit_to(&env, "prod", &four, "all");
        push(&env, &[]).exits(0);
        commit_to(&env, "prod", &[WWW], "less");
        let held = push(&env, &[]);
        let held = match on_hold {
            "refuse" => held.exits(1).hides(&["the pusher's", "reconciled approve"]),
            _ => held.exits(0).says(&["held: pdns/example.net", "hint: to consent with a push:"]),
        };
        let option = held.stderr.split("git push -o ").nth(1).unwrap().split_whitespace().next().unwrap();
        commit_to(&env, "prod", &[WWW], "words");
        push(&env, &["-o", option]).exits(0).says(&["APPROVED"]).hides(&["not approved"]);
        wait_for("prod goes on", || server.rrsets("example.net") == addresses(&[("www", "192.0.2.1")]));

        // What the other one has a part in is consented to on the host.
        commit_to(&env, "main", &[WWW], "less");
        let held = push(&env, &[]).says(&["hint: to consent on the daemon's host: reconciled approve"]);
        held.says(&["HELD  pdns/example.com"]).hides(&["git push -o"]);
    }
}

#[test]
fn of_what_a_push_has_held_the_pusher_consents_to_their_part() {
    let server = Pdns::start();
    let env = two_sources(&server, ", approve: [socket]", "", "refuse");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("branch: prod", "branch: main"));
    let _daemon = Daemon::ready(&env);
    for (records, message) in [(&[WWW, MAIL, API, FTP][..], "all"), (&[WWW], "less")] {
        commit_to(&env, "main", records, message);
        commit_to(&env, "prod", records, message);
        if message == "all" {
            push(&env, &[]).exits(0);
        }
    }
    let refused = push(&env, &[]).exits(1).says(&["needs consent, and not the pusher's alone"]);
    let host = refused.stderr.split("reconciled approve ").nth(1).unwrap().split(' ').next().unwrap();
    env.run(&["approve", host, "--reason", "meant"]).exits(0);
    let line = line_to_type(&refused);
    assert_eq!(line.len(), 2, "{line:?}");
    push(&env, &line.iter().map(String::as_str).collect::<Vec<_>>()).exits(0);
    for zone in [ZONE, "example.net"] {
        wait_for(zone, || server.rrsets(zone) == addresses(&[("www", "192.0.2.1")]));
    }
}

#[test]
fn who_pushed_is_told_of_the_ways_to_consent_that_are_open() {
    for (ways, said, hidden) in [
        ("push-option", "hint: to consent with a push: git commit --allow-empty", "reconciled approve"),
        ("trailer", "hint: to consent with a commit: git commit --allow-empty", "reconciled approve"),
        ("socket", "hint: to consent on the daemon's host: reconciled approve", "to consent with a"),
        (
            "",
            "hint: root or the daemon's own user consents on its host: reconciled approve",
            "to consent with a",
        ),
    ] {
        let server = Pdns::start();
        let env = desk(&server, "", &format!(", approve: [{ways}]"));
        let config = fs::read_to_string(env.path("config.yaml")).unwrap();
        env.write("config.yaml", &format!("{config}hook: {{onHold: accept}}\n"));
        let daemon = Daemon::ready(&env);
        commit(&env, &[WWW, MAIL, API, FTP]);
        push(&env, &[]).exits(0);
        commit(&env, &[WWW]);
        let held = push(&env, &[]).exits(0).says(&["held: pdns/example.com"]);
        // What the daemon said, after the push was taken.
        let after = held.stderr.split("held: pdns/example.com").nth(1).unwrap();
        assert!(after.contains(said) && !after.contains(hidden), "{ways}: {after}");
        daemon.stop();
    }
}
