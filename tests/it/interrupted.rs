//! `apply` without a daemon, told to stop by a signal while something is made.

use crate::{
    env::{Env, Output},
    running::{Daemon, wait_for},
    terraform::{configure, desk, thing, things},
};
use std::fs;

/// `apply` that runs beside the test.
fn applying(env: &Env) -> Daemon {
    let config = env.path("config.yaml");
    let command = env.command(&["--config", config.to_str().unwrap(), "apply", "--yes"]);
    Daemon::of(command, env.path("apply.log"))
}

/// Waits for its end.
fn end(mut apply: Daemon) -> (Option<i32>, String) {
    wait_for("the end of `apply`", || apply.ended().is_some());
    (apply.ended().and_then(|status| status.code()), apply.log())
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
