//! What comes to nothing each time is not tried for ever, and once more for whom it is meant by.

use crate::{
    env::Env,
    running::{Daemon, wait_for},
    terraform::{desk, state, thing, things},
};
use std::fs;

#[test]
fn what_never_comes_about_is_not_tried_for_ever() {
    let env = desk("env: {TOY_FRESH: \"1\"}, ");
    // Made in part each time, and deleted each time.
    env.push("a.yaml", &thing("a", "", "name: a, content: x, fault: half"));
    env.run(&["apply", "--yes", "--timeout", "60s"]).exits(3).says(&[
        "made in part 3 times in a row, and not deleted and made once more",
        "only half of it was made",
        "reconciled sync Thing",
        "Applied: 0 created, 0 updated, 0 replaced, 0 deleted, 0 adopted, 3 done in part",
    ]);
    // Another process knows it as well, says it, and leaves it alone until a person means just that.
    let told = "made in part 3 times in a row, and not deleted and made once more";
    let once_more = "without a daemon: reconciled apply --target Thing/a";
    env.run(&["plan"]).exits(3).says(&[told, once_more, "1 stalled"]).hides(&["1 to replace"]);
    env.run(&["apply", "--yes"]).exits(3).says(&[told]).hides(&["done in part"]);
    env.run(&["apply", "--yes", "--target", "Thing/a", "--timeout", "60s"])
        .exits(3)
        .says(&["3 done in part"]);
    let made = things(&env);
    assert_eq!(made.len(), 1);
    let daemon = Daemon::ready(&env);
    env.run(&["status", "Thing/a"]).says(&[told]);
    // Nor is a word for whatever there is to do one for this.
    env.run(&["sync", "--wait"]).exits(3);
    env.run(&["apply", "--yes"]).exits(3).says(&[told]);
    assert_eq!(things(&env), made, "nobody asked for another one");
    env.run(&["sync", "Thing/a"]);
    wait_for("another try", || things(&env) != made);
    wait_for("that it has had its tries", || env.run(&["status", "Thing/a"]).all().contains(told));
    let made = things(&env);
    env.run(&["apply", "--yes", "--target", "Thing/a"]);
    assert_ne!(things(&env), made, "somebody asked for it");
    daemon.stop();
    env.push("a.yaml", &thing("a", "", "name: a, content: x"));
    env.apply();
    env.in_sync();

    // It breaks its own plan each time.
    let other = |annotations: &str| thing("a", annotations, "name: a, content: y, fault: inconsistent");
    env.push("a.yaml", &other(""));
    env.run(&["apply", "--yes", "--timeout", "60s"]).exits(3).says(&[
        "written 3 times in a row, and never came about",
        "did not come about as the provider planned it",
        "`reconciled/ignore: \"content\"`",
    ]);
    env.push("a.yaml", &other("reconciled/ignore: content"));
    env.apply();
    env.in_sync();
}

#[test]
fn consent_to_something_else_is_no_word_for_what_came_to_nothing() {
    let env = desk("env: {TOY_FRESH: \"1\"}, ");
    let half = thing("a", "", "name: a, content: x, fault: half");
    let others: String =
        ["b", "c"].iter().map(|name| thing(name, "", &format!("name: {name}, content: y"))).collect();
    env.push("a.yaml", &[&*half, &*others].concat());
    env.run(&["apply", "--yes", "--timeout", "60s"]).exits(3).says(&["made in part 3 times in a row"]);
    // What has another content than the others.
    let halves = || -> Vec<String> {
        things(&env).into_iter().filter(|file| state(&env, file)["content"] != "y").collect()
    };
    let made = halves();
    assert_eq!((made.len(), things(&env).len()), (1, 3));

    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("maxDeletes: 100", "maxDeletes: 0"));
    let daemon = Daemon::ready(&env);
    env.push("a.yaml", &half);
    env.run(&["sync", "--wait"]).exits(3);
    let approve = || {
        env.run(&["approve", &held(&env), "--reason", "I have seen it"]).exits(0);
    };
    approve();
    wait_for("what was consented to", || things(&env).len() == 1);
    env.run(&["sync", "--wait"]).exits(3);
    assert_eq!(halves(), made, "nobody spoke of it");

    // Where what was asked for is held, the word for it lasts until somebody consents, also over other looks.
    env.run(&["sync", "--wait", "Thing/a"]).exits(3);
    env.run(&["sync", "--wait"]).exits(3);
    assert_eq!(halves(), made, "it is held");
    // A plan says what consent would do, and not what would be without the word.
    let planned = env.run(&["plan"]).exits(3).says(&["Thing/a", "HELD", "reconciled approve"]);
    planned.hides(&["made in part 3 times in a row"]);
    approve();
    wait_for("another try", || things(&env) != made);
    daemon.stop();
}

#[test]
fn consent_by_a_trailer_is_for_what_was_meant_by_the_word_too() {
    let env = desk("env: {TOY_FRESH: \"1\"}, ");
    env.push("a.yaml", &thing("a", "", "name: a, content: x, fault: half"));
    env.run(&["apply", "--yes", "--timeout", "60s"]).exits(3).says(&["made in part 3 times in a row"]);
    let made = things(&env);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let config = config.replace("repo.git}", "repo.git, approve: [socket, trailer]}");
    env.write("config.yaml", &config.replace("maxDeletes: 100", "maxDeletes: 0"));
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "Thing/a"]).exits(3);
    assert_eq!(things(&env), made, "it is held");
    // Nothing else is declared by it.
    let said = env.run(&["plan"]).exits(3).all();
    let trailer = said.lines().find_map(|line| line.split_once("Reconciled-Approve: ")).unwrap().1.trim();
    let message = format!("it is meant\n\nReconciled-Approve: {trailer}");
    env.git(&["commit", "-q", "--allow-empty", "-m", &message]);
    env.git(&["push", "-q", "origin", "HEAD:main"]);
    env.run(&["sync"]);
    wait_for("another try", || things(&env) != made);
    daemon.stop();
}

/// The digest of what is held.
fn held(env: &Env) -> String {
    let said = env.run(&["status"]).says(&["reconciled approve"]).all();
    let words: Vec<&str> = said.split_whitespace().collect();
    words[words.iter().position(|word| *word == "approve").unwrap() + 1].to_owned()
}

#[test]
fn a_replacement_of_which_only_the_old_one_went_is_told_as_a_deletion() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a, content: x"));
    env.apply();
    env.push("a.yaml", &thing("a", "", "name: b, content: x, fault: refuse"));
    let told = env.run(&["apply", "--yes"]).exits(3);
    let told = told.says(&["no such thing can be", "0 created, 0 updated, 0 replaced, 1 deleted"]);
    assert_eq!(told.all().matches("no such thing can be").count(), 1, "{}", told.all());
    assert!(things(&env).is_empty());
    env.push("a.yaml", &thing("a", "", "name: b, content: x"));
    env.apply().says(&["1 created, 0 updated, 0 replaced, 0 deleted"]);
}
