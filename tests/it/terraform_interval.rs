//! Resources of Terraform providers that are not looked at before their interval is over.

use crate::{
    env::Env,
    running::{Daemon, wait_for},
    terraform::{desk, state, thing, things},
};
use std::fs;

/// Changes by hand what the thing called `name` has as its content.
fn change(env: &Env, name: &str) {
    let file = file_of(env, name);
    let text = fs::read_to_string(env.path("world").join(&file)).unwrap();
    let by_hand = text.replace("\"content\":\"x\"", "\"content\":\"by hand\"");
    assert_ne!(text, by_hand, "{name} has no content to change");
    fs::write(env.path("world").join(file), by_hand).unwrap();
}

fn file_of(env: &Env, name: &str) -> String {
    things(env).into_iter().find(|file| state(env, file)["name"] == *name).expect("a thing of that name")
}

fn content(env: &Env, name: &str) -> String {
    state(env, &file_of(env, name))["content"].as_str().unwrap_or_default().into()
}

fn of(name: &str, interval: &str, more: &str) -> String {
    let annotation = match interval {
        "" => String::new(),
        _ => format!("reconciled/interval: \"{interval}\""),
    };
    thing(name, &annotation, &format!("name: {name}{more}"))
}

/// A desk whose repository is asked for news every second.
fn polled(keys: &str) -> Env {
    let env = desk(keys);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let polled = config.replace("repo.git}", "repo.git, interval: 1s}");
    assert_ne!(config, polled);
    env.write("config.yaml", &polled);
    env
}

fn says(env: &Env, name: &str, words: &str) -> bool {
    env.run(&["status", &format!("Thing/{name}")]).all().contains(words)
}

#[test]
fn what_has_an_interval_is_looked_at_when_that_is_over_or_somebody_asks() {
    let env = polled("resync: 1s, ");
    let all = [
        of("often", "", ", content: x"),
        of("seldom", "1h", ", content: x"),
        of("never", "0", ", content: x"),
    ];
    env.push("a.yaml", &all.concat());
    let daemon = Daemon::start(&env);
    wait_for("what is looked at later", || says(&env, "seldom", "next look from 20"));
    wait_for("what is not looked at by itself", || says(&env, "never", "next look once it changes"));
    assert!(!says(&env, "often", "next look"));

    ["seldom", "never"].iter().for_each(|name| change(&env, name));
    for _ in 0..3 {
        change(&env, "often");
        wait_for("the healed thing", || content(&env, "often") == "x");
    }
    assert_eq!(["seldom", "never"].map(|name| content(&env, name)), ["by hand", "by hand"]);
    // A plan looks at all that there is, and changes nothing.
    let plan = env.run(&["plan"]);
    plan.says(&["~ Thing/seldom", "~ Thing/never", "content: by hand → x"]);
    // Who asks about one does not ask about the others.
    env.run(&["sync", "Thing/seldom", "--wait"]);
    wait_for("what was asked about", || content(&env, "seldom") == "x");
    assert_eq!(content(&env, "never"), "by hand");
    env.push(
        "a.yaml",
        &[&all[0], &all[1], &of("never", "0", ", content: x, level: 2")].map(|s| &**s).concat(),
    );
    wait_for("what changed in Git", || content(&env, "never") == "x");

    // It is remembered from one run to the next.
    wait_for("what is looked at later", || says(&env, "seldom", "next look from 20"));
    wait_for("what is not looked at by itself", || says(&env, "never", "next look once it changes"));
    daemon.stop();
    ["seldom", "never", "often"].iter().for_each(|name| change(&env, name));
    let daemon = Daemon::start(&env);
    wait_for("the healed thing", || content(&env, "often") == "x");
    assert_eq!(["seldom", "never"].map(|name| content(&env, name)), ["by hand", "by hand"]);
    // One that is shorter is over sooner.
    let all = [
        of("often", "", ", content: x"),
        of("seldom", "2s", ", content: x"),
        of("never", "0", ", content: x, level: 2"),
    ];
    env.push("a.yaml", &all.concat());
    wait_for("what changed in Git", || content(&env, "seldom") == "x");
    change(&env, "seldom");
    wait_for("what is due again", || content(&env, "seldom") == "x");
    assert_eq!(content(&env, "never"), "by hand");
    daemon.stop();
}

#[test]
fn a_commit_looks_at_what_it_changes_and_a_person_at_everything() {
    let env = polled("resync: 1h, ");
    let both =
        |level: &str| [of("a", "", &format!(", content: x{level}")), of("b", "", ", content: x")].concat();
    env.push("a.yaml", &both(""));
    let daemon = Daemon::start(&env);
    env.run(&["sync", "--wait"]).exits(0);
    change(&env, "b");
    env.push("a.yaml", &both(", level: 2"));
    wait_for("what changed in Git", || state(&env, &file_of(&env, "a"))["level"] == 2);
    env.run(&["sync", "Thing/a", "--wait"]).exits(0);
    // Whoever reads what is torn says so.
    let torn = env.path("world").join(file_of(&env, "b"));
    let whole = fs::read(&torn).unwrap();
    fs::write(&torn, "{").unwrap();
    env.run(&["explain", "Thing/a"]).says(&["is in sync"]).hides(&["cannot be looked at"]);
    env.run(&["adopt", "Thing/a"]).says(&["nothing at Thing/a needs to be taken over"]);
    fs::write(&torn, whole).unwrap();
    assert_eq!(content(&env, "b"), "by hand", "nobody asked about it");
    // A plan tells all of it, a plan of one thing no more than that.
    env.run(&["plan"]).says(&["~ Thing/b", "content: by hand → x"]);
    env.run(&["plan", "--target", "Thing/a"]).says(&["No changes."]);
    env.run(&["sync", "--wait"]).exits(0);
    assert_eq!(content(&env, "b"), "x");
    // What was seen in another life may have been another account's.
    daemon.stop();
    change(&env, "b");
    let daemon = Daemon::start(&env);
    wait_for("what changed while nobody looked", || content(&env, "b") == "x");
    daemon.stop();
}

#[test]
fn what_is_selected_is_all_that_is_read() {
    let env = desk("");
    env.push("a.yaml", &[of("a", "", ", content: x"), of("b", "", ", content: x")].concat());
    env.run(&["apply", "--yes"]).exits(0);
    env.run(&["apply", "--yes"]).exits(0);
    ["a", "b"].iter().for_each(|name| change(&env, name));
    // It cannot be read, so whoever reads it says so.
    let torn = env.path("world").join(file_of(&env, "b"));
    let whole = fs::read(&torn).unwrap();
    fs::write(&torn, "{").unwrap();
    env.run(&["plan", "--target", "Thing/a"]).exits(0).says(&["~ Thing/a", "content: by hand → x"]);
    env.run(&["explain", "Thing/a"]).says(&["update (drift)", "by hand"]).hides(&["cannot be looked at"]);
    env.run(&["adopt", "Thing/a"]).says(&["nothing at Thing/a needs to be taken over"]);
    env.run(&["apply", "--yes", "--target", "Thing/a"]).exits(0);
    env.run(&["plan"]).exits(1);
    fs::write(&torn, whole).unwrap();
    env.run(&["plan"]).says(&["~ Thing/b"]);
}

#[test]
fn what_is_not_looked_at_keeps_what_it_is_told_apart_by() {
    let env = polled("resync: 1s, ");
    env.push("a.yaml", &of("a", "0", ""));
    let daemon = Daemon::start(&env);
    wait_for("what is not looked at by itself", || says(&env, "a", "next look once it changes"));
    let other = thing("b", "reconciled/import: thing-1", "name: a");
    env.push("a.yaml", &[of("a", "0", ""), other].concat());
    wait_for("the two that are one thing", || {
        env.run(&["status"]).all().contains("toy/Thing/b is one thing with toy/Thing/a")
    });
    daemon.stop();
}

#[test]
fn an_interval_that_is_none_or_means_nothing_is_an_error() {
    let env = desk("");
    for (wrong, why) in [
        ("soon", "`soon` is not a duration"),
        ("20ms", "less than a second"),
        ("600w", "more than ten years"),
    ] {
        env.push("a.yaml", &of("a", wrong, ""));
        env.run(&["plan"]).exits(1).says(&["reconciled/interval: ", why, "a.yaml:3:"]);
    }
    env.write(
        "other/zone.yaml",
        "apiVersion: dns/v1\nkind: Zone\nmetadata: {name: example.com, annotations: {reconciled/interval: 1h}}\nspec: {records: []}\n",
    );
    env.run(&["validate", "other"])
        .exits(1)
        .says(&["reconciled/interval means nothing for a Zone", "zone.yaml:1:"]);
}
