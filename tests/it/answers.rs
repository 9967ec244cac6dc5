//! What verbs that act tell programs.

use crate::{
    env::{Env, zone},
    running::Daemon,
};
use serde_json::{Value, json};
use std::fs;

fn json(env: &Env, args: &[&str]) -> Value {
    let text = env.run(args).exits(0).stdout;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
}

fn www(address: &str) -> String {
    zone("example.com", "zones", &[&format!("{{name: www, type: A, values: [{address}]}}")])
}

#[test]
fn each_is_one_object_with_a_version() {
    let env = Env::zonefile();
    env.push("zone.yaml", &www("192.0.2.1"));
    env.apply();
    let address = "Zone/example.com#www/A";

    let checked = json(&env, &["check", "-o", "json"]);
    assert_eq!((&checked["formatVersion"], &checked["failures"]), (&"1.0".into(), &0.into()), "{checked}");
    let verdicts: Vec<_> =
        checked["checks"].as_array().unwrap().iter().map(|check| &check["verdict"]).collect();
    assert!(verdicts.contains(&&"ok".into()), "{checked}");

    let suspended = json(&env, &["suspend", address, "--reason", "a person works on it", "-o", "json"]);
    assert_eq!((&suspended["formatVersion"], &suspended["tracked"]), (&"1.0".into(), &1.into()));
    let id = suspended["suspension"]["id"].as_str().unwrap();
    let resumed = json(&env, &["resume", id, "-o", "json"]);
    assert_eq!(resumed["ended"]["id"], id);

    let first = env.git(&["rev-parse", "HEAD"]);
    env.push("zone.yaml", &www("192.0.2.2"));
    env.apply();
    let back = json(&env, &["rollback", &first, "--reason", "it was better", "-o", "json"]);
    assert_eq!(back["pins"][0]["address"], address, "{back}");
    assert_eq!(json(&env, &["resume", address, "-o", "json"])["released"][0]["address"], address);

    let gone = json(&env, &["forget", address, "--yes", "-o", "json"]);
    assert_eq!((&gone["count"], &gone["resources"][0]["address"]), (&1.into(), &address.into()));
    env.push("zone.yaml", &www("192.0.2.3"));
    let adopted = json(&env, &["adopt", address, "--yes", "-o", "json"]);
    assert_eq!(adopted["found"][0]["address"], address, "{adopted}");
}

#[test]
fn apply_and_rollback_answer_in_one_form_alone_and_through_a_daemon() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    // The daemon asks its repository only when it is told to.
    env.write("config.yaml", &config.replace("repo.git}", "repo.git, interval: 1h}"));
    let first = env.push("zone.yaml", &www("192.0.2.1"));
    let apply = ["apply", "--yes", "-o", "json"];
    let rollback = ["rollback", first.as_str(), "--reason", "it was better", "-o", "json"];
    env.apply();
    env.push("zone.yaml", &www("192.0.2.2"));
    let applied = json(&env, &apply);
    assert_eq!(
        applied,
        json!({
            "formatVersion": "1.0",
            "exit": 0,
            "outcomes": [{"scope": "zones/example.com", "change": "update", "outcome": "done", "count": 1}],
            "messages": [],
            "timedOut": false,
        })
    );
    let back = json(&env, &rollback);
    env.run(&["resume", "Zone/example.com#www/A"]).exits(0);

    let daemon = Daemon::ready(&env);
    env.push("zone.yaml", &www("192.0.2.3"));
    assert_eq!(json(&env, &apply), applied);
    let through = json(&env, &rollback);
    let keys = |answer: &Value| answer.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!((keys(&through), &through["pins"][0]["address"]), (keys(&back), &back["pins"][0]["address"]));
    daemon.stop();
}

#[test]
fn what_is_wrong_with_manifests_is_in_the_answer_of_apply_alone_and_through_a_daemon() {
    let env = Env::zonefile();
    env.write("work/bad.yaml", "a: [\n");
    env.push("zone.yaml", &www("192.0.2.1"));
    let check = || {
        let told = env.run(&["apply", "--yes", "-o", "json"]).exits(1);
        let answer: Value = serde_json::from_str(&told.stdout).unwrap();
        let message = answer["messages"][0].as_str().unwrap_or_default();
        assert!(message.starts_with("error: ") && message.contains("bad.yaml:1:"), "{answer}");
    };
    check();
    let daemon = Daemon::ready(&env);
    check();
    daemon.stop();
}

#[test]
fn an_audit_trail_that_is_not_there_is_checked_in_the_form_that_is_asked_for() {
    let env = Env::zonefile();
    let found = json(&env, &["events", "--verify", "-o", "json"]);
    assert_eq!(found, json!({"checked": 0, "first": null, "broken": null}));
}

#[test]
fn who_does_not_wait_for_a_request_can_see_later_that_it_was_handled() {
    let env = Env::zonefile();
    env.push("zone.yaml", &www("192.0.2.1"));
    let _daemon = Daemon::ready(&env);
    let lines = env.run(&["sync", "--request", "ci-42", "--json"]).exits(0).stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named: Vec<_> = lines.iter().filter(|line| line["request"] == "ci-42").collect();
    assert_eq!(named.len(), 2, "the beginning and the end: {lines:?}");
    crate::running::wait_for("it to be handled", || {
        let status = json(&env, &["status", "-o", "json"]);
        let request = &status["requests"][0];
        assert_eq!(request["request"], "ci-42", "{status}");
        request["handled"] == true
    });
    env.run(&["sync", "--request", "two words"]).exits(1).says(&["printable ASCII"]);
}

#[test]
fn history_tells_of_the_last_while_alone() {
    let env = Env::zonefile();
    env.push("zone.yaml", &www("192.0.2.1"));
    env.apply();
    // As if that was two days ago.
    let ago = 2 * 86_400_000;
    env.sql(&format!(
        "UPDATE revision SET at = at - {ago}; UPDATE journal SET started_at = started_at - {ago}"
    ));
    env.push("zone.yaml", &www("192.0.2.2"));
    env.apply();
    let told = |since: &str| {
        let all = json(&env, &["history", "--since", since, "-o", "json"]);
        let count = |kind: &str| all.as_array().unwrap().iter().filter(|entry| entry["kind"] == kind).count();
        ["revision", "create", "update"].map(count)
    };
    let check = || {
        let [revisions, made, changed] = told("1d");
        assert_eq!((revisions, made, changed > 0), (1, 0, true));
        let [revisions, made, still] = told("3d");
        assert_eq!((revisions, made > 0, still), (2, true, changed));
    };
    check();
    env.run(&["history", "--since", "yesterday"])
        .exits(1)
        .says(&["`yesterday` is no duration", "12h or 30d"]);
    let daemon = Daemon::ready(&env);
    check();
    daemon.stop();
}
