//! Pushes while something is away, hangs or dies.

use crate::{
    env::WIDE_GUARD,
    pdns::Pdns,
    push::{WWW, ZONE, addresses, commit, desk, push, tip},
    running::{Daemon, is_ready, wait_for},
};
use reconciled::failpoint::{NAMES, VARIABLE};
use std::{
    fs,
    os::unix::net::UnixListener,
    time::{Duration, Instant},
};

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
    let start = Instant::now();
    push(&env, &[]).exits(0).says(&["did not answer within 1s", "is taken"]);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(tip(&env, "main"), sha);
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
        for hit in 1..=6 {
            value += 1;
            let place = format!("{name}:{hit}");
            let mut daemon = Daemon::start_with(&env, &[(VARIABLE, &place)]);
            // Some places are met before there is a push: then a later hit is the one.
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
            }
            if was_alive {
                break;
            }
        }
    }
    let missed: Vec<_> = NAMES.iter().filter(|name| !reached.contains(*name)).collect();
    assert_eq!(missed, [&"store.migrate.after-backup"], "no push came there");
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
