//! How a push ends that is not simply in sync, and what a reload in the middle of it takes from it: nothing.

use crate::{
    env::{Env, Output, zone},
    pdns::Pdns,
    push::{API, FTP, MAIL, WWW, ZONE, addresses, commit as commit_pdns, desk as pdns_desk, git, push, tip},
    running::{Daemon, wait_for},
};
use std::{fs, os::unix::fs::PermissionsExt, process::Stdio};

/// A push target whose zone is written once the file `go` is there; that it is about to be says the file `begun`.
fn desk() -> Env {
    let env = Env::zonefile();
    let script = format!(
        "#!/bin/sh\ntouch {0}/begun\nwhile [ ! -e {0}/go ]; do sleep 0.02; done\n",
        env.dir.path().display()
    );
    env.write("check", &script);
    fs::set_permissions(env.path("check"), fs::Permissions::from_mode(0o755)).unwrap();
    env.config(&format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.], check: [{}]}}",
        env.path("zones").display(),
        env.path("check").display()
    ));
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git"]).exits(0);
    env
}

fn commit(env: &Env, records: &[&str]) -> String {
    env.write("work/zone.yaml", &zone(ZONE, "zones", records));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "change"]);
    env.git(&["rev-parse", "HEAD"])
}

/// A push that goes on beside the test.
fn pushing(env: &Env) -> std::process::Child {
    let mut command = git(env, &["push", "origin", "HEAD:main"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn said(child: std::process::Child) -> String {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn a_push_is_followed_over_a_reload() {
    let env = desk();
    let daemon = Daemon::ready(&env);
    let sha = commit(&env, &[WWW]);
    let pushing = pushing(&env);
    wait_for("the zone is being written", || env.path("begun").exists());
    daemon.signal("HUP");
    wait_for("the reload has begun", || daemon.log().contains("configuration is read anew"));
    env.write("go", "");
    wait_for("the reload", || daemon.log().contains("configuration is reloaded"));
    let said = said(pushing);
    assert!(said.contains(&format!("infra is in sync at {}", &sha[..7])), "{said}");
    assert!(said.contains("the configuration is read anew") && !said.contains("stopping"), "{said}");
    assert!(env.zone_rrsets(ZONE).contains_key("www A"));
    daemon.stop();
}

#[test]
fn a_push_whose_commit_somebody_else_found_first_is_not_said_to_change_nothing() {
    let env = desk();
    env.write("go", "");
    let daemon = Daemon::ready(&env);
    // Git runs this once the ref is moved, and before it runs the hook that follows.
    let sync = format!(
        "#!/bin/sh\n[ \"$1\" != committed ] || {} --config {} sync --wait >/dev/null 2>&1\n",
        env!("CARGO_BIN_EXE_reconciled"),
        env.path("config.yaml").display()
    );
    env.write("repo.git/hooks/reference-transaction", &sync);
    let hook = env.path("repo.git/hooks/reference-transaction");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let sha = commit(&env, &[WWW]);
    let found = format!("infra is in sync at {} (", &sha[..7]);
    push(&env, &[]).exits(0).says(&["Plan: 2 to create", &found]).hides(&["nothing to change"]);
    assert!(env.zone_rrsets(ZONE).contains_key("www A"));
    fs::remove_file(hook).unwrap();
    env.git(&["commit", "-q", "--allow-empty", "-m", "nothing"]);
    push(&env, &[]).exits(0).says(&[": nothing to change ("]);
    daemon.stop();
}

#[test]
fn consent_of_a_push_outlives_a_reload_between_its_plan_and_its_end() {
    let server = Pdns::start();
    let env = pdns_desk(&server, "", "");
    let daemon = Daemon::ready(&env);
    commit_pdns(&env, &[WWW, MAIL, API, FTP]);
    push(&env, &[]).exits(0);
    let less = commit_pdns(&env, &[WWW]);
    let refused = push(&env, &[]).exits(1);
    let line = refused.stderr.lines().find_map(|line| line.split_once("hint: if it is meant: git push "));
    let line: Vec<&str> = line.unwrap().1.split_whitespace().collect();
    // Git runs this between the hook that plans and the one that follows.
    let log = env.path("daemon.log");
    let update = format!(
        "#!/bin/sh\nkill -s HUP {}\nwhile ! grep -q 'configuration is reloaded' {}; do sleep 0.02; done\n",
        daemon.id(),
        log.display()
    );
    env.write("repo.git/hooks/update", &update);
    fs::set_permissions(env.path("repo.git/hooks/update"), fs::Permissions::from_mode(0o755)).unwrap();
    push(&env, &line)
        .exits(0)
        .says(&["APPROVED  pdns/example.com", "3 deleted"])
        .hides(&["nothing is approved"]);
    assert_eq!((tip(&env, "main"), server.rrsets(ZONE)), (less, addresses(&[("www", "192.0.2.1")])));
    daemon.stop();
}

#[test]
fn a_push_that_takes_too_long_is_still_going_and_one_that_another_overtakes_is_superseded() {
    let env = desk();
    let daemon = Daemon::ready(&env);
    let first = commit(&env, &[WWW]);
    push(&env, &["-o", "reconciled.wait=1s"])
        .exits(0)
        .says(&[&format!("infra is still going at {}", &first[..7]), "it goes on without you"]);
    let second = commit(&env, &[WWW, MAIL]);
    let overtaken = pushing(&env);
    wait_for("the second commit is known", || env.run(&["events"]).all().contains(&second[..7]));
    let third = commit(&env, &[WWW, MAIL, API]);
    let third_push = pushing(&env);
    wait_for("the third commit is known", || env.run(&["events"]).all().contains(&third[..7]));
    env.write("go", "");
    let overtaken = said(overtaken);
    let is_superseded = format!("{} is superseded: infra is at a newer revision", &second[..7]);
    assert!(overtaken.contains(&is_superseded), "{overtaken}");
    let third_said = said(third_push);
    assert!(third_said.contains(&format!("infra is in sync at {}", &third[..7])), "{third_said}");
    daemon.stop();
}

#[test]
fn a_push_while_all_is_suspended_says_so() {
    let env = desk();
    env.write("go", "");
    let daemon = Daemon::ready(&env);
    env.run(&["suspend", "--all", "--reason", "a look"]).exits(0);
    let sha = commit(&env, &[WWW]);
    let pushed: Output = push(&env, &[]);
    pushed.exits(0).says(&[&format!("infra is suspended at {}", &sha[..7]), "it goes on once that is over"]);
    assert!(env.zone_rrsets(ZONE).is_empty());
    env.run(&["resume", "--all"]).exits(0);
    wait_for("it goes on", || env.zone_rrsets(ZONE).contains_key("www A"));
    daemon.stop();
}
