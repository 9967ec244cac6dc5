//! Pushes while something is away, hangs or dies.

use crate::{
    env::{Env, WIDE_GUARD},
    pdns::Pdns,
    push::{API, FTP, MAIL, WWW, ZONE, addresses, commit, desk, git, push, tip},
    running::{Daemon, is_ready, wait_for},
};
use reconciled::failpoint::{CONSENT, NAMES, VARIABLE};
use std::{fs, os::unix::net::UnixListener, path::Path, time::Duration};

#[test]
fn a_dead_daemon_takes_the_push_and_deploys_it_when_it_is_back() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let sha = commit(&env, &[WWW]);
    push(&env, &[]).exits(0).says(&["note: no plan: the daemon at", "is taken, and applied once"]);
    assert_eq!(tip(&env, "main"), sha);
    let _daemon = Daemon::ready(&env);
    wait_for("the record", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));
}

#[test]
fn a_dead_daemon_refuses_no_push_that_adds_to_what_another_source_declares() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let (url, other) = (env.path("repo.git"), env.path("other.git"));
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let source =
        |name: &str, url: &Path| format!("  - {{name: {name}, url: {}, allow: all}}\n", url.display());
    let (head, tail) = (config.split("sources:").next().unwrap(), config.split("providers:").nth(1).unwrap());
    let sources = source("infra", &url) + &source("apps", &other);
    env.write("config.yaml", &format!("{head}sources:\n{sources}providers:{tail}"));
    env.run(&["init", "repo.git"]).exits(0);
    env.run(&["init", "other.git"]).exits(0);
    commit(&env, &[WWW]);
    push(&env, &[]).exits(0);
    let set = "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: more}\nspec:\n  zone: example.com\n  provider: pdns\n  records:\n    - ";
    env.git_in(".", &["clone", "-q", "other.git", "other"]);
    env.write("other/more.yaml", &format!("{set}{MAIL}\n"));
    env.git_in("other", &["add", "-A"]);
    env.git_in("other", &["commit", "-q", "-m", "more"]);
    let pushed = git(&env, &["-C", "../other", "push", "origin", "HEAD:main"]).output().unwrap();
    let said = String::from_utf8_lossy(&pushed.stderr);
    assert!(pushed.status.success(), "{said}");
    assert!(said.contains("warning: zone `example.com` is not declared here"), "{said}");
    let _daemon = Daemon::ready(&env);
    let both = addresses(&[("www", "192.0.2.1"), ("mail", "192.0.2.2")]);
    wait_for("what both declare", || server.rrsets(ZONE) == both);
}

#[test]
fn a_daemon_that_hangs_keeps_no_push_back() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &format!("{config}hook: {{planTimeout: 1s}}\n"));
    env.run(&["init", "repo.git"]).exits(0).says(&["reconciled.json written"]);
    fs::create_dir_all(env.path("state")).unwrap();
    // It accepts connections, and that is all.
    let _socket = UnixListener::bind(env.path("state/api.sock")).unwrap();
    let sha = commit(&env, &[WWW]);
    push(&env, &[]).exits(0).says(&["did not answer within 1s", "is taken"]);
    assert_eq!(tip(&env, "main"), sha);
}

#[test]
fn hooks_that_were_written_for_another_configuration_are_told() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let stale = |files: &str| format!("{files} of DIR/repo.git are not as");
    let hint = "hint: reconciled init DIR/repo.git";
    commit(&env, &[WWW]);
    push(&env, &[]).exits(0);
    env.run(&["check"]).exits(0).hides(&["push target"]);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &format!("{config}hook: {{onHold: accept}}\n"));
    env.run(&["check"]).exits(0).says(&["warn  push target", &stale("reconciled.json"), hint]);
    let socket = env.path("state/other.sock");
    env.write("config.yaml", &format!("{config}api: {{socket: {}}}\n", socket.display()));
    let hooks = stale("hooks/pre-receive, hooks/post-receive");
    env.run(&["check"]).exits(0).says(&["warn  push target", &hooks, hint]);
    let daemon = Daemon::start_with(&env, &[]);
    wait_for("the daemon", || is_ready(&socket));
    assert!(daemon.log().contains("hooks/pre-receive, hooks/post-receive of"), "{}", daemon.log());
    env.run(&["init", "repo.git"]).exits(0);
    env.run(&["check"]).exits(0).hides(&["push target"]);
}

#[test]
fn a_hundred_pushes_in_a_row_end_in_the_last_state() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let _daemon = Daemon::ready(&env);
    for n in 1..=100 {
        commit(&env, &[&format!("{{name: www, type: A, values: [192.0.2.{n}]}}")]);
        push(&env, &["-o", "reconciled.wait=0"]).exits(0);
    }
    commit(&env, &["{name: www, type: A, values: [192.0.2.200]}"]);
    push(&env, &[]).exits(0).says(&["infra is in sync at"]);
    assert_eq!(server.rrsets(ZONE), addresses(&[("www", "192.0.2.200")]));
    assert_eq!(env.sql("SELECT count(*) FROM event WHERE kind = 'push'"), "101");
}

#[test]
fn a_daemon_killed_during_a_push_loses_nothing() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    for n in 1..=5_u64 {
        let daemon = Daemon::ready(&env);
        let value = format!("192.0.2.{n}");
        let sha = commit(&env, &[&format!("{{name: www, type: A, values: [{value}]}}")]);
        let pushing = std::thread::scope(|scope| {
            let pushing = scope.spawn(|| push(&env, &[]));
            std::thread::park_timeout(Duration::from_millis(20 * n));
            drop(daemon);
            pushing.join().unwrap()
        });
        // Whatever it found of the daemon, the push is taken and ends with a word about that.
        let output = pushing.exits(0);
        assert!(output.all().contains("is taken") || output.all().contains("in sync at"), "{}", output.all());
        assert_eq!(tip(&env, "main"), sha);
        let _daemon = Daemon::ready(&env);
        wait_for("the record", || server.rrsets(ZONE) == addresses(&[("www", &value)]));
    }
}

#[test]
fn a_daemon_killed_at_every_place_of_a_push_loses_nothing() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let socket = env.path("state/api.sock");
    let mut reached = std::collections::BTreeSet::new();
    let mut value = 0;
    for name in NAMES {
        // Some places are met before there is a push: then a later hit is the one. After a death there it may be an earlier one again.
        let mut hit = 1;
        for _ in 0..8 {
            value += 1;
            let place = format!("{name}:{hit}");
            let mut daemon = Daemon::start_with(&env, &[(VARIABLE, &place)]);
            wait_for("a daemon", || is_ready(&socket) || daemon.ended().is_some());
            let was_alive = daemon.ended().is_none();
            let address = format!("192.0.2.{value}");
            let sha = commit(&env, &[&format!("{{name: www, type: A, values: [{address}]}}")]);
            push(&env, &[]).exits(0);
            assert_eq!(tip(&env, "main"), sha, "{place}");
            let is_alive = is_ready(&socket);
            drop(daemon);
            let _daemon = Daemon::ready(&env);
            wait_for(&place, || server.rrsets(ZONE) == addresses(&[("www", &address)]));
            assert_eq!(env.sql("PRAGMA integrity_check"), "ok", "{place}");
            if was_alive && !is_alive {
                reached.insert(*name);
                break;
            }
            match was_alive {
                true if hit == 1 => break,
                true => hit -= 1,
                false => hit += 1,
            }
        }
    }
    let missed: Vec<_> = NAMES.iter().filter(|name| !reached.contains(*name)).collect();
    assert_eq!(missed, [&"store.migrate.after-backup"], "no push came there");
}

/// What the trail has of a kind.
fn events(env: &Env, kind: &str) -> usize {
    env.sql(&format!("SELECT count(*) FROM event WHERE kind = '{kind}'")).parse().unwrap()
}

#[test]
fn consent_of_a_push_counts_whole_or_not_at_all_wherever_the_daemon_is_killed() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    let socket = env.path("state/api.sock");
    let mut reached = std::collections::BTreeSet::new();
    // Of the places of every pass, those at which something of the consent is written down or about to be used. What comes once it
    // is used is the same whoever gave it: `consented.rs` has a death at each of them.
    let is_meant = |name: &&&str| {
        **name == "apply.before" || name.starts_with("store.") && !name.starts_with("store.migrate")
    };
    let names = NAMES.iter().filter(is_meant);
    for (round, name) in CONSENT.iter().chain(names).enumerate() {
        let record = |name: &str| format!("{{name: {name}, type: A, values: [192.0.2.{}]}}", round + 1);
        let address = format!("192.0.2.{}", round + 1);
        let four: Vec<_> = ["www", "mail", "api", "ftp"].map(|name| (name, &*address)).into();
        let (all, one) = (addresses(&four), addresses(&four[..1]));
        let mut hit = 1;
        loop {
            let place = format!("{name}:{hit}");
            let daemon = Daemon::ready(&env);
            let records = ["www", "mail", "api", "ftp"].map(record);
            commit(&env, &records.each_ref().map(String::as_str));
            push(&env, &[]).exits(0);
            wait_for("what is to be deleted", || server.rrsets(ZONE) == all);
            let sha = commit(&env, &[&records[0]]);
            let planned = push(&env, &["-o", "reconciled.plan"]).exits(1);
            let option = planned.stderr.split("-o reconciled.approve=").nth(1).unwrap();
            let option = format!("reconciled.approve={}", option.split_whitespace().next().unwrap());
            drop(daemon);
            let before = [events(&env, "approve"), events(&env, "push")];

            let mut daemon = Daemon::start_with(&env, &[(VARIABLE, &place)]);
            // Some places are met before there is a push: then a later hit is the one.
            wait_for("a daemon", || is_ready(&socket) || daemon.ended().is_some());
            let was_alive = daemon.ended().is_none();
            push(&env, &["-o", &option]).exits(0);
            assert_eq!(tip(&env, "main"), sha, "{place}");
            let has_died = daemon.ended().is_some();
            drop(daemon);
            if was_alive && has_died {
                reached.insert(*name);
            }
            let after = [events(&env, "approve"), events(&env, "push")];
            if was_alive
                && has_died
                && env.sql("SELECT commit_id FROM revision ORDER BY number DESC LIMIT 1") == sha
            {
                assert_eq!(after[1], before[1] + 1, "{place}: who pushed what is in force is not known");
            }

            let _daemon = Daemon::ready(&env);
            if after[0] == before[0] {
                env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3);
                assert_eq!(server.rrsets(ZONE), all, "{place}: nobody consented");
                let digest = option.split('=').nth(1).unwrap();
                env.run(&["approve", digest, "--reason", "meant"]).exits(0);
            }
            wait_for(&place, || server.rrsets(ZONE) == one);
            assert_eq!(env.sql("PRAGMA integrity_check"), "ok", "{place}");
            if was_alive || hit == 6 {
                break;
            }
            hit += 1;
        }
    }
    let missed: Vec<_> = CONSENT.iter().filter(|name| !reached.contains(*name)).collect();
    assert!(missed.is_empty(), "no push came there: {missed:?}");
}

/// Has Git kill a daemon once a push is planned, and before it is taken.
fn kill_between(env: &Env, daemon: &Daemon) {
    env.write("repo.git/hooks/update", &format!("#!/bin/sh\nkill -s KILL {}\n", daemon.id()));
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(env.path("repo.git/hooks/update"), executable).unwrap();
}

#[test]
fn a_daemon_that_dies_between_the_plan_and_the_push_is_said_to_have_lost_the_consent() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    let daemon = Daemon::ready(&env);
    let first = commit(&env, &[WWW, MAIL, API, FTP]);
    push(&env, &[]).exits(0);
    commit(&env, &[WWW]);
    let planned = push(&env, &["-o", "reconciled.plan"]).exits(1);
    let option = planned.stderr.split("-o ").nth(1).unwrap().split_whitespace().next().unwrap();
    let digest = option.split('=').nth(1).unwrap();
    kill_between(&env, &daemon);
    let by_push =
        format!("hint: to consent with a push: git commit --allow-empty -m \"…\", then git push -o {option}");
    let by_host = format!("reconciled approve {digest} --reason");
    push(&env, &["-o", option]).exits(0).says(&[
        "APPROVED",
        "note: nothing is approved: ",
        &by_push,
        &by_host,
    ]);
    drop(daemon);

    // The line that was said works, and where it dies later it cannot be known what it had done.
    fs::remove_file(env.path("repo.git/hooks/update")).unwrap();
    let daemon = Daemon::start_with(&env, &[(VARIABLE, "push.approved")]);
    wait_for("a daemon", || is_ready(&env.path("state/api.sock")));
    env.git(&["commit", "-q", "--allow-empty", "-m", "consent"]);
    push(&env, &["-o", option]).exits(0).says(&["whether anything is approved is not known", &by_host]);
    drop(daemon);
    let daemon = Daemon::ready(&env);
    wait_for("it was approved", || server.rrsets(ZONE) == addresses(&[("www", "192.0.2.1")]));

    // The same of a rewind.
    env.git(&["reset", "-q", "--hard", &first]);
    kill_between(&env, &daemon);
    let rewind = format!("reconciled.accept-rewind={first}");
    let host = format!("reconciled sync --source infra --accept-rewind {first}");
    push(&env, &["--force", "-o", &rewind])
        .exits(0)
        .says(&["nobody has consented to the rewind", &host, "git push -o reconciled.accept-rewind=$("])
        .hides(&["applied once the daemon looks"]);
    drop(daemon);
    fs::remove_file(env.path("repo.git/hooks/update")).unwrap();
    let _daemon = Daemon::ready(&env);
    env.git(&["commit", "-q", "--allow-empty", "-m", "consent"]);
    let rewind = format!("reconciled.accept-rewind={}", env.git(&["rev-parse", "HEAD"]));
    push(&env, &["-o", &rewind]).exits(0).says(&["is rewound to", "in sync at", "3 created"]);
}

#[test]
fn a_rewind_is_in_force_only_together_with_who_consented_to_it() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    let daemon = Daemon::ready(&env);
    let first = commit(&env, &[WWW]);
    push(&env, &[]).exits(0);
    commit(&env, &[WWW, MAIL]);
    push(&env, &[]).exits(0);
    drop(daemon);
    env.git(&["reset", "-q", "--hard", &first]);
    let option = format!("reconciled.accept-rewind={first}");
    let mut daemon = Daemon::start_with(&env, &[(VARIABLE, "store.force.after")]);
    wait_for("a daemon", || is_ready(&env.path("state/api.sock")));
    push(&env, &["--force", "-o", &option]).exits(0);
    wait_for("its death", || daemon.ended().is_some());
    assert_eq!(env.sql("SELECT commit_id FROM revision ORDER BY number DESC LIMIT 1"), first);
    assert_eq!((events(&env, "rewind"), events(&env, "push")), (1, 3));
    // Once for each time, whatever is looked at again.
    let _daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait"]).exits(0);
    assert_eq!((events(&env, "rewind"), events(&env, "push")), (1, 3));
}

#[test]
fn a_push_while_the_server_is_down_is_taken_and_says_that_it_failed() {
    let server = Pdns::start();
    let env = desk(&server, WIDE_GUARD, "");
    env.write("key", "canary-of-the-key");
    // Nothing listens on the port of discard.
    env.config(&env.pdns_entry("http://127.0.0.1:9", WIDE_GUARD));
    let _daemon = Daemon::ready(&env);
    let sha = commit(&env, &[WWW]);
    push(&env, &["-o", "reconciled.wait=10s"])
        .exits(0)
        .says(&["COULD NOT BE READ", &format!("infra failed at {}", &sha[..7])])
        .hides(&["canary-of-the-key"]);
    assert_eq!(tip(&env, "main"), sha);
}
