//! What a plan hears of remotes while its source takes time: a repository over ssh behind a gate that a test opens.

use crate::{
    env::{Env, Output, zone},
    pdns::Pdns,
    running::wait_for,
    ssh::over_ssh,
};
use std::{fs, thread, time::Duration};

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";

/// A desk in sync, whose repository stays closed while there is a file `closed`, and where a file `asked` is made once it was asked.
fn behind_gate(server: &Pdns) -> Env {
    let env = Env::pdns(server);
    let at = |name: &str| env.path(name).display().to_string();
    let gate = format!(
        "touch {}\nwhile [ -e {} ]; do sleep 0.02; done\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
        at("asked"),
        at("closed")
    );
    env.write("gate", &gate);
    over_ssh(&env, &format!("ForceCommand sh {}", at("gate")), &format!(", key: {}", at("client")));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.apply();
    // The pass after a write settles what it wrote.
    env.apply();
    env.run(&["plan", "--detailed-exitcode"]).exits(0);
    env
}

/// A plan, and what happens while it waits for its source.
fn plan(env: &Env, meanwhile: impl FnOnce()) -> Output {
    env.write("closed", "");
    fs::remove_file(env.path("asked")).unwrap();
    thread::scope(|scope| {
        let plan = scope.spawn(|| env.run(&["plan", "--detailed-exitcode"]));
        wait_for("the source is asked", || env.path("asked").exists());
        meanwhile();
        fs::remove_file(env.path("closed")).unwrap();
        plan.join().unwrap()
    })
}

#[test]
fn remotes_are_asked_while_the_source_is_and_not_again() {
    let server = Pdns::start();
    let env = behind_gate(&server);
    let before = server.requests().len();
    let asked = || server.requests().split_off(before);
    plan(&env, || wait_for("the server is asked", || !asked().is_empty())).exits(0).says(&["No changes"]);
    assert_eq!(asked(), ["GET /zones"]);

    env.push("zone.yaml", &zone(ZONE, "pdns", &["{name: www, type: A, values: [192.0.2.9]}"]));
    let before = server.requests().len();
    let asked = || server.requests().split_off(before);
    plan(&env, || wait_for("the server is asked", || !asked().is_empty())).exits(2).says(&["192.0.2.9"]);
    assert_eq!(asked().iter().filter(|line| **line == "GET /zones").count(), 1, "{:?}", asked());
}

#[test]
fn what_was_heard_before_a_source_that_took_long_is_asked_again() {
    let server = Pdns::start();
    let env = behind_gate(&server);
    let output = plan(&env, || {
        thread::park_timeout(Duration::from_secs(6));
        server.set(ZONE, "www", "A", "203.0.113.5");
    });
    output.exits(2).says(&["203.0.113.5"]);
}

#[test]
fn what_was_under_way_as_a_plan_began_is_looked_at_though_all_is_in_sync_by_then() {
    let server = Pdns::start();
    let env = behind_gate(&server);
    // What an apply leaves of a scope that it writes to: no version until it has settled.
    let columns = ["quote(scope)", "quote(state)", "quote(token)", "foreigners"].join(" || ',' || ");
    let version = env.sql(&format!("SELECT {columns} FROM scope_version"));
    env.sql("DELETE FROM scope_version");
    let output = plan(&env, || {
        env.sql(&format!("INSERT INTO scope_version (scope, state, token, foreigners) VALUES ({version})"));
        server.set(ZONE, "www", "A", "203.0.113.5");
    });
    output.exits(2).says(&["203.0.113.5"]);
}
