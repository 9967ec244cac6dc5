//! `apply` and `backup` without a daemon, told to stop by a signal while something is made.

use crate::{
    env::{Env, Output},
    input::applied,
    running::{Daemon, wait_for},
    terraform::{configure, desk, thing, things},
};
use std::fs;

/// A verb that runs beside the test.
fn beside(env: &Env, verb: &[&str]) -> Daemon {
    let config = env.path("config.yaml");
    let command = env.command(&[&["--config", config.to_str().unwrap()], verb].concat());
    Daemon::of(command, env.path("verb.log"))
}

fn applying(env: &Env) -> Daemon {
    beside(env, &["apply", "--yes"])
}

/// Waits for its end.
fn end(mut verb: Daemon) -> (Option<i32>, String) {
    wait_for("the end of the verb", || verb.ended().is_some());
    (verb.ended().and_then(|status| status.code()), verb.log())
}

fn plan(env: &Env) -> Output {
    env.run(&["plan", "--refresh"])
}

#[test]
fn what_is_under_way_ends_after_a_signal_and_nothing_more_begins() {
    for signal in ["INT", "TERM"] {
        let env = desk("");
        let second = thing("b", "", "name: b, content: \"of ${Thing/a:status.id}\"");
        env.push("a.yaml", &format!("{}{second}", thing("a", "", "name: a, delay_ms: 4000")));
        let apply = applying(&env);
        // Half of the delay is before it takes effect, half after.
        wait_for("the thing", || things(&env) == ["thing-1.json"]);
        apply.signal(signal);
        let (code, log) = end(apply);
        assert_eq!(code, Some(4), "{signal}: {log}");
        assert!(log.contains("stopping: what is under way is waited for"), "{signal}: {log}");
        assert_eq!(things(&env), ["thing-1.json"], "nothing more began");
        plan(&env).exits(0).hides(&["may have succeeded"]).says(&["+ Thing/b"]);
        env.apply();
        assert_eq!(things(&env), ["thing-1.json", "thing-2.json"]);
        env.in_sync();
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let env = desk("");
    let calls = env.path("calls");
    configure(&env, &format!("env: {{TOY_CALLS: {}}}, ", calls.display()));
    env.push("a.yaml", &thing("a", "", "name: a, delay_ms: 600000"));
    let apply = applying(&env);
    wait_for("the call", || fs::read_to_string(&calls).unwrap_or_default().contains("ApplyResourceChange"));
    apply.signal("INT");
    wait_for("the word that it stops", || apply.log().contains("once more ends at once"));
    apply.signal("INT");
    let (code, log) = end(apply);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("what was under way has no answer"), "{log}");
    // The state alone tells which it is, before anybody has looked.
    let told = ["Thing/a", "it was sent and has no answer so far", "reconciled plan"];
    env.run(&["status"]).exits(0).says(&told);
    env.run(&["status", "Thing/a"]).exits(0).says(&told);
    env.run(&["status", "--exit-code"]).exits(4);
    plan(&env).exits(3).says(&["an earlier create may have succeeded"]);
}

#[test]
fn of_a_backup_that_a_signal_ends_nothing_is_left() {
    let env = applied();
    // It takes a moment to copy.
    env.sql("INSERT INTO meta (key, value) VALUES ('large', hex(zeroblob(30000000)))");
    let unfinished = || -> Vec<String> {
        let names = fs::read_dir(env.dir.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("b.db.")).collect()
    };
    // By then it has its journal too.
    let has_begun = || {
        let part = unfinished().into_iter().find(|name| name.ends_with(".part"));
        part.is_some_and(|name| fs::metadata(env.path(&name)).is_ok_and(|part| part.len() > 0))
    };
    for signal in ["INT", "TERM"] {
        wait_for("a backup that is cut off", || {
            let mut backup = beside(&env, &["backup", "b.db"]);
            let mut is_over = false;
            wait_for("a copy that is under way, or done", || {
                is_over = backup.ended().is_some();
                is_over || has_begun()
            });
            if !is_over {
                backup.signal(signal);
            }
            let (code, log) = end(backup);
            assert_eq!(unfinished(), Vec::<String>::new(), "{signal}: {log}");
            let is_cut_off = log.contains("ended by a signal");
            assert_eq!(code, Some(i32::from(is_cut_off)), "{signal}: {log}");
            is_cut_off
        });
    }
}
