//! How resources of Terraform providers are replaced and moved, and who may write them.

use crate::{
    env::{Env, Output},
    running::wait_for,
    terraform::{desk, state, thing, things},
};
use std::{fs, process::Stdio};

fn before(name: &str, lifecycle: &str, spec: &str) -> String {
    thing(name, "", &format!("{spec}, lifecycle: {{{lifecycle}}}"))
}

#[test]
fn the_new_one_is_made_before_the_old_one_goes() {
    let env = desk("");
    let with = |name: &str| before("a", "createBeforeDestroy: true", &format!("name: {name}"));
    env.push("a.yaml", &with("one"));
    env.apply();
    env.push("a.yaml", &with("two"));
    env.run(&["plan"]).exits(0).says(&["-/+ Thing/a"]);
    env.apply();
    // A name that is free is taken: had the old one gone first, this one would have its id.
    assert_eq!(things(&env), ["thing-2.json"]);
    env.in_sync();

    // The old one stays as long as what refers to it may need to move on, and the new one is in sync meanwhile.
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("settle: 0s", "settle: 1h"));
    env.push("a.yaml", &with("three"));
    env.apply();
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json"]);
    env.in_sync();
    let still = "thing-2 is what it took the place of, and still there";
    env.run(&["plan"]).exits(0).says(&["WAITING", &format!("Thing/a  StillThere: {still}"), "  until 2"]);
    env.run(&["status", "--exit-code"]).exits(0).says(&[
        "Thing/a  StillThere",
        ", stays for ",
        still,
        "1 well",
    ]);
    env.run(&["explain", "Thing/a"]).exits(0).says(&[still, "it stays until 2"]);
    // Nor does a look at others end it.
    env.run(&["apply", "--yes", "-l", "team=none"]).exits(0);
    env.run(&["status"]).exits(0).says(&["Thing/a  StillThere", still]);
    // What is no longer declared goes whole.
    env.write("config.yaml", &config);
    env.push("a.yaml", &thing("b", "", "name: b"));
    env.apply();
    let left = things(&env);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(state(&env, &left[0])["name"], "b");
}

#[test]
fn of_what_was_forgotten_nothing_is_said_to_go_later() {
    let env = desk("");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("settle: 0s", "settle: 1h"));
    for name in ["one", "two"] {
        env.push("a.yaml", &before("a", "createBeforeDestroy: true", &format!("name: {name}")));
        env.apply();
    }
    env.run(&["status"]).exits(0).says(&["Thing/a  StillThere"]);
    env.run(&["forget", "Thing/a", "--yes"]).exits(0);
    // No pass was made since.
    env.run(&["status"]).exits(0).hides(&["StillThere"]);
    assert_eq!(things(&env).len(), 2);
}

/// The digest that a person has to approve.
fn digest(said: &Output) -> String {
    let words: Vec<&str> = said.stderr.split_whitespace().chain(said.stdout.split_whitespace()).collect();
    words[words.iter().position(|word| *word == "approve").unwrap() + 1].to_string()
}

#[test]
fn the_old_one_stays_while_what_refers_to_it_is_held() {
    let env = desk("");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("maxDeletes: 100", "maxDeletes: 1"));
    let all = |name: &str| {
        let follower = |b: &str| thing(b, "", &format!("name: \"{b} of ${{Thing/a:status.id}}\""));
        let spec = format!("name: {name}");
        // That what was replaced goes is no drift.
        let annotation = "reconciled/drift: warn";
        let leader = thing("a", annotation, &format!("{spec}, lifecycle: {{createBeforeDestroy: true}}"));
        format!("{leader}{}{}", follower("b1"), follower("b2"))
    };
    env.push("a.yaml", &all("one"));
    env.apply();
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json", "thing-3.json"]);
    env.push("a.yaml", &all("two"));
    let mut held = env.run(&["apply", "--yes"]).exits(3);
    for _ in 0..2 {
        assert!(things(&env).contains(&"thing-1.json".to_string()), "{}", held.all());
        held = env.run(&["apply", "--yes"]).exits(3);
        held = held.says(&["the one before it is deleted once Thing/b1 has moved on to the new one"]);
    }
    env.run(&["approve", &digest(&held), "--reason", "they may go"]).exits(0);
    env.apply();
    env.apply();
    let names: Vec<_> = things(&env).iter().map(|file| state(&env, file)["name"].clone()).collect();
    assert!(!names.contains(&"one".into()), "{names:?}");
    assert!(names.contains(&"b1 of thing-4".into()) && names.contains(&"b2 of thing-4".into()), "{names:?}");
    env.in_sync();
    env.run(&["history", "Thing/a"]).exits(0).says(&["delete"]).hides(&["drift"]);
}

#[test]
fn a_successor_that_cannot_be_made_leaves_the_old_one() {
    let env = desk("");
    let with = |spec: &str| before("a", "createBeforeDestroy: true", spec);
    env.push("a.yaml", &with("name: one"));
    env.apply();
    env.push("a.yaml", &with("name: two, fault: refuse"));
    env.run(&["apply", "--yes", "--timeout", "2s"]).says(&["no such thing can be"]);
    assert_eq!(things(&env), ["thing-1.json"]);
    env.push("a.yaml", &with("name: two"));
    env.run(&["plan"]).says(&["-/+ Thing/a"]);
    env.apply();
    assert_eq!(things(&env), ["thing-2.json"]);
    env.in_sync();
}

#[test]
fn a_successor_without_an_answer_is_not_made_twice() {
    let env = desk("");
    let with = |spec: &str| before("a", "createBeforeDestroy: true", spec);
    env.push("a.yaml", &with("name: one"));
    env.apply();
    env.push("a.yaml", &with("name: two, delay_ms: 4000"));
    let config = env.path("config.yaml");
    let mut apply = env.command(&["--config", config.to_str().unwrap(), "apply", "--yes"]);
    let mut child = apply.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the second thing", || things(&env) == ["thing-1.json", "thing-2.json"]);
    child.kill().unwrap();
    child.wait().unwrap();
    for _ in 0..2 {
        env.run(&["apply", "--yes", "--timeout", "2s"]).says(&["got no answer, so it may exist"]);
    }
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json"], "nothing was made or deleted");
    // A person keeps the new one.
    env.run(&["forget", "Thing/a", "--yes"]).exits(0);
    fs::remove_file(env.path("world/thing-1.json")).unwrap();
    env.push("a.yaml", &thing("a", "reconciled/import: thing-2", "name: two"));
    env.run(&["adopt", "Thing/a", "--yes"]).exits(0);
    env.apply();
    env.in_sync();
    assert_eq!(things(&env), ["thing-2.json"]);
}

/// A desk on which `Thing/a` took the place of `thing-1`, which stays for an hour, and the configuration by which that goes at once.
fn replaced(keys: &str) -> (Env, String) {
    let env = desk(keys);
    let at_once = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &at_once.replace("settle: 0s", "settle: 1h"));
    for name in ["one", "two"] {
        env.push("a.yaml", &before("a", "createBeforeDestroy: true", &format!("name: {name}")));
        env.apply();
    }
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json"]);
    (env, at_once)
}

#[test]
fn what_was_replaced_stays_once_it_is_another_one() {
    for keys in ["", "env: {TOY_NAMELESS: \"1\"}, "] {
        let (env, at_once) = replaced(keys);
        // The cloud knows a thing by its name: what asks for that of the old one gets the old one.
        env.push("b.yaml", &thing("b", "", "name: one, content: precious, fault: same"));
        env.write("config.yaml", &at_once);
        let said = env.run(&["apply", "--yes", "--timeout", "5s"]).exits(3);
        said.says(&["what it was before it was replaced is Thing/b by now", "reconciled forget Thing/a"]);
        env.run(&["apply", "--yes", "--timeout", "5s"]).exits(3);
        assert_eq!(state(&env, "thing-1.json")["content"], "precious");
        // Neither does it go with what took its place, nor once that was deleted by hand.
        env.push_without("a.yaml");
        env.run(&["apply", "--yes", "--timeout", "5s"]).exits(3);
        fs::remove_file(env.path("world/thing-2.json")).unwrap();
        env.run(&["apply", "--yes", "--timeout", "5s"]);
        assert_eq!(things(&env), ["thing-1.json"]);
        assert_eq!(state(&env, "thing-1.json")["content"], "precious");
        // A person says whose it is.
        env.run(&["forget", "Thing/a", "--yes"]).exits(0);
        env.apply();
        env.in_sync();
        assert_eq!(state(&env, "thing-1.json")["content"], "precious");
    }
}

#[test]
fn the_removal_of_what_took_the_place_of_another_says_what_becomes_of_that() {
    let (env, _) = replaced("");
    env.push("b.yaml", &thing("b", "", "name: b"));
    env.apply();
    env.push_without("a.yaml");
    env.run(&["plan"]).says(&["1 to delete", "Thing/a is deleted together with 1 that it took the place of"]);
    let kept = "name: two, lifecycle: {createBeforeDestroy: true}";
    env.push("a.yaml", &thing("a", "reconciled/deletion: abandon", kept));
    env.apply();
    env.push_without("a.yaml");
    env.run(&["plan"]).says(&["Thing/a is let go of, and 1 that it took the place of will never be deleted"]);
    env.run(&["plan", "-o", "json"]).says(&["FormerToo"]);
}

#[test]
fn what_was_replaced_stays_while_another_one_may_have_been_made_of_it() {
    let (env, at_once) = replaced("");
    env.push("b.yaml", &thing("b", "", "name: one, content: precious, fault: same, delay_ms: 4000"));
    let config = env.path("config.yaml");
    let mut apply = env.command(&["--config", config.to_str().unwrap(), "apply", "--yes"]);
    let mut child = apply.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the other thing", || state(&env, "thing-1.json")["content"] == "precious");
    child.kill().unwrap();
    child.wait().unwrap();
    env.write("config.yaml", &at_once);
    env.run(&["apply", "--yes", "--timeout", "5s"]).says(&["until it is known whether Thing/b was made"]);
    assert_eq!(state(&env, "thing-1.json")["content"], "precious");
}

#[test]
fn what_a_creation_without_an_answer_may_have_changed_is_not_deleted() {
    for keys in ["", "env: {TOY_NAMELESS: \"1\"}, "] {
        let env = desk(keys);
        env.push("a.yaml", &thing("a", "", "name: x"));
        env.apply();
        // The manifest has another name, and the thing the one it had: its cloud takes the creation for a change of it.
        env.push("a.yaml", &thing("b", "", "name: x, content: precious, fault: same, delay_ms: 4000"));
        let config = env.path("config.yaml");
        let arguments = ["--config", config.to_str().unwrap(), "apply", "--yes", "--target", "Thing/b"];
        let mut apply = env.command(&arguments);
        let mut child = apply.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the change", || state(&env, "thing-1.json")["content"] == "precious");
        child.kill().unwrap();
        child.wait().unwrap();
        for _ in 0..2 {
            let said = env.run(&["apply", "--yes", "--timeout", "5s"]).exits(3);
            said.says(&["until it is known whether Thing/b was made"]);
        }
        env.run(&["status", "Thing/a"]).says(&["WaitingForTwin", "reconciled explain Thing/b"]);
        assert_eq!(state(&env, "thing-1.json")["content"], "precious");
        // It was not made after all: then what is there is what it was before, and goes.
        env.run(&["forget", "Thing/b", "--yes"]).exits(0);
        env.push("a.yaml", &thing("c", "", "name: c"));
        env.apply();
        assert_eq!(things(&env).len(), 1);
        env.in_sync();
    }
}

#[test]
fn a_loss_that_only_a_change_by_hand_asks_for_is_held_whatever_else_of_it_changes() {
    for drift in ["heal", "ignore"] {
        let env = desk("");
        let config = fs::read_to_string(env.path("config.yaml")).unwrap();
        env.write("key", "one");
        let secrets = format!("secrets: {{key: {{file: {}}}}}\n", env.path("key").display());
        env.write("config.yaml", &format!("{secrets}{config}"));
        let with = |level: u8| {
            let spec = format!("name: made, content: {{secret: key}}, level: {level}");
            thing("a", &format!("reconciled/drift: {drift}"), &spec)
        };
        env.push("a.yaml", &with(1));
        env.apply();
        let file = env.path("world/thing-1.json");
        let by_hand = fs::read_to_string(&file).unwrap().replace("\"made\"", "\"by hand\"");
        fs::write(&file, by_hand).unwrap();
        env.write("key", "two");
        wait_for("both in the plan", || env.run(&["plan"]).all().contains("-/+ Thing/a"));
        let held = "1 × drift would be healed by deleting and making anew";
        env.run(&["apply", "--yes"]).exits(3).says(&[held]);
        env.push("a.yaml", &with(2));
        let said = env.run(&["apply", "--yes"]).exits(3).says(&[held]);
        assert_eq!(state(&env, "thing-1.json")["name"], "by hand", "{drift}");
        env.run(&["approve", &digest(&said), "--reason", "it may go"]).exits(0);
        env.apply();
        assert_eq!(state(&env, "thing-1.json")["name"], "made");
        env.in_sync();
    }
}

#[test]
fn what_is_declared_and_cannot_be_read_makes_no_desired_state_empty() {
    let env = desk("");
    for name in ["a", "b", "c"] {
        env.push(&format!("{name}.yaml"), &thing(name, "", &format!("name: {name}")));
    }
    env.apply();
    for file in things(&env).iter().filter(|file| state(&env, file)["name"] != "a") {
        let path = env.path("world").join(file);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
    }
    env.push_without("a.yaml");
    let said = env.run(&["apply", "--yes", "--refresh"]).says(&["connection refused"]);
    said.hides(&["became empty"]);
    assert_eq!(things(&env).len(), 2, "what nobody declares is gone");
}

#[test]
fn a_value_that_changes_replaces_what_follows_it() {
    let env = desk("");
    let follower = |more: &str| thing("b", "", &format!("name: b{more}"));
    let leader = |content: &str| thing("a", "", &format!("name: a, content: {content}"));
    let trigger =
        ", lifecycle: {createBeforeDestroy: true, replaceTriggeredBy: [\"${Thing/a:status.size}\"]}";
    env.push("a.yaml", &format!("{}{}", leader("four"), follower("")));
    env.apply();
    // To begin to follow a value replaces nothing.
    env.push("a.yaml", &format!("{}{}", leader("four"), follower(trigger)));
    env.run(&["plan"]).says(&["~ Thing/b", "lifecycle.replaceTriggeredBy: (none) → 4"]).hides(&["-/+"]);
    env.apply();
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json"]);
    env.push("a.yaml", &format!("{}{}", leader("seven77"), follower(trigger)));
    env.apply();
    env.in_sync();
    assert_eq!(things(&env), ["thing-1.json", "thing-3.json"], "the follower is another one now");
    assert_eq!(state(&env, "thing-1.json")["size"], 7);
    env.push("a.yaml", &before("a", "createBeforDestroy: true, replaceTriggeredBy: x", "name: a"));
    env.run(&["plan"]).exits(1).says(&[
        "unknown field `createBeforDestroy` of lifecycle",
        "did you mean `createBeforeDestroy`?",
        "expected a list for `replaceTriggeredBy`",
    ]);
}

#[test]
fn a_rename_moves_what_there_is_and_a_word_that_names_nothing_is_held() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: same"));
    env.apply();
    env.run(&["plan"]).exits(0).hides(&["meant as a move?"]);
    // Without the annotation it is asked about, and what it says to write is what helps.
    env.push("a.yaml", &thing("b", "", "name: same"));
    env.run(&["plan"]).says(&["meant as a move?", "reconciled/moved-from: Thing/a"]);
    for (name, from) in [("b", "Thing.toy/a"), ("c", "Thing/b")] {
        env.push("a.yaml", &thing(name, &format!("reconciled/moved-from: {from}"), "name: same"));
        env.run(&["plan"]).exits(0).says(&[&format!("> Thing/{name}")]).hides(&["meant as a move?"]);
        env.apply().says(&["0 created", "0 deleted"]);
        assert_eq!(things(&env), ["thing-1.json"]);
        env.in_sync();
    }
    env.push("a.yaml", &thing("later", "reconciled/moved-from: Thing/cc", "name: same"));
    let held = env.run(&["apply", "--yes"]).exits(3).says(&[
        "`reconciled/moved-from: Thing/cc` names nothing that could be moved; did you mean Thing/c?",
        "reconciled approve",
    ]);
    assert_eq!(things(&env), ["thing-1.json"], "{}", held.all());
    assert_eq!(state(&env, "thing-1.json")["name"], "same");
    // A person may mean it all the same.
    let words: Vec<&str> = held.stderr.split_whitespace().chain(held.stdout.split_whitespace()).collect();
    let digest = words[words.iter().position(|word| *word == "approve").unwrap() + 1];
    env.run(&["approve", digest, "--reason", "it is another"]).exits(0);
    env.apply();
    env.in_sync();
    assert_eq!(things(&env).len(), 1);
    // Where nothing is left over, the annotation is history.
    fs::remove_dir_all(env.path("state")).unwrap();
    for thing in things(&env) {
        fs::remove_file(env.path("world").join(thing)).unwrap();
    }
    env.apply();
}

#[test]
fn what_is_renamed_to_a_name_that_is_not_free_is_held_and_nothing_goes() {
    let env = desk("");
    let plain = |name: &str, spec: &str| thing(name, "", &format!("name: {spec}"));
    let from = |name: &str, from: &str, spec: &str| {
        thing(name, &format!("reconciled/moved-from: Thing/{from}"), &format!("name: {spec}"))
    };
    let names = |env: &Env| -> Vec<(String, String)> {
        let name = |file: String| (state(env, &file)["name"].as_str().unwrap().to_string(), file);
        things(env).into_iter().map(name).collect()
    };
    env.push("a.yaml", &[plain("old", "one"), plain("web", "two"), plain("z", "z")].concat());
    env.apply();
    let before = names(&env);
    assert_eq!(before.len(), 3);
    let held = |manifests: &[String], words: &[&str]| {
        env.push("a.yaml", &manifests.concat());
        env.run(&["plan"]).exits(3).says(words);
        env.run(&["apply", "--yes"]).exits(3).says(words).says(&["reconciled approve"]);
        assert_eq!(names(&env), before);
    };
    // Its name was another's, which goes with the same commit.
    let taken = "`reconciled/moved-from: Thing/old` does not move Thing/old: Thing/web is tracked already";
    held(&[from("web", "old", "one"), plain("z", "z")], &[taken]);
    let chain = [from("web", "old", "one"), from("www", "web", "two"), plain("z", "z")];
    held(&chain, &[taken, "`reconciled/moved-from: Thing/web` names what a.yaml:1 declares still"]);
    let circle = ["Thing/web` of Thing/old moves nothing", "Thing/old` of Thing/web moves nothing"];
    held(&[from("web", "old", "one"), from("old", "web", "two"), plain("z", "z")], &circle);
    let both = "Thing/old cannot be moved to each of Thing/x (a.yaml:1), Thing/y (a.yaml:6)";
    let two = [from("x", "old", "one"), from("y", "old", "one"), plain("web", "two"), plain("z", "z")];
    held(&two, &[both]);
    // What it says to do helps.
    for manifests in [[plain("old", "one"), plain("z", "z")], [from("web", "old", "one"), plain("z", "z")]] {
        env.push("a.yaml", &manifests.concat());
        env.apply().says(&["0 created", "0 replaced"]);
        env.in_sync();
    }
    assert_eq!(names(&env), [before[0].clone(), before[2].clone()]);
}

#[test]
fn after_a_recovery_nothing_is_made_before_a_person_says_so() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a"));
    env.apply();
    fs::remove_dir_all(env.path("state")).unwrap();
    env.run(&["state", "init", "--recover"]).exits(0);
    env.run(&["apply", "--yes"])
        .exits(3)
        .says(&["the state was recovered: what would be created may be there already"]);
    assert_eq!(things(&env), ["thing-1.json"]);
    env.push("a.yaml", &thing("a", "reconciled/import: thing-1", "name: a"));
    env.apply();
    assert_eq!(things(&env), ["thing-1.json"]);
    env.in_sync();
}

#[test]
fn two_manifests_of_one_resource_are_a_mistake() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a"));
    env.apply();
    fs::remove_dir_all(env.path("state")).unwrap();
    env.push("a.yaml", &thing("a", "reconciled/import: thing-1", "name: a"));
    let resource = "apiVersion: terraform/v1\nkind: Resource\nmetadata: {name: b, annotations: {reconciled/import: thing-1}}\nspec: {type: toy_thing, attributes: {name: b}}\n";
    env.push("b.yaml", resource);
    env.run(&["plan"]).exits(1).says(&[
        "Resource/b and Thing/a are one resource, toy_thing `thing-1`",
        "b.yaml:1",
        "a.yaml:1",
        "give each its own `reconciled/import`",
    ]);
    env.run(&["apply", "--yes"]);
    assert_eq!(state(&env, "thing-1.json")["name"], "a");
}

#[test]
fn two_manifests_of_one_thing_are_told_by_its_identity() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a, content: x"));
    env.apply();
    let other = thing(
        "b",
        "reconciled/import: '{\"name\": \"a\"}', reconciled/adopt: \"true\"",
        "name: a, content: y",
    );
    env.push("b.yaml", &other);
    env.run(&["plan"]).says(&["toy/Thing/b is one thing with toy/Thing/a", "take its manifest out"]);
    env.run(&["apply", "--yes"]);
    assert_eq!(state(&env, "thing-1.json")["content"], "x", "it is written by one of them alone");
    // The other one goes, and must not take the thing with it.
    env.push_without("a.yaml");
    env.run(&["plan"]).says(&["toy/Thing/a is one thing with toy/Thing/b", "reconciled forget"]);
    env.run(&["apply", "--yes"]);
    assert_eq!(things(&env), ["thing-1.json"]);
    env.run(&["forget", "Thing/a", "--yes"]).exits(0);
    env.apply();
    assert_eq!(state(&env, "thing-1.json")["content"], "y");
    env.in_sync();
}

#[test]
fn what_two_have_is_told_by_its_id_where_it_has_no_identity() {
    let env = desk("env: {TOY_NAMELESS: \"1\"}, ");
    let spec = "name: a, content: x";
    env.push("a.yaml", &thing("old", "", spec));
    env.apply();
    // Another name for the manifest, which says what it means and not where it was.
    env.push("a.yaml", &thing("new", "reconciled/import: thing-1", spec));
    let both = "toy/Thing/new is one thing with toy/Thing/old: thing-1";
    env.run(&["plan"]).says(&[both, "reconciled/moved-from"]).hides(&["- Thing/old"]);
    env.run(&["apply", "--yes"]).says(&[both]);
    assert_eq!(things(&env), ["thing-1.json"]);
    env.push("a.yaml", &thing("new", "reconciled/import: thing-1, reconciled/moved-from: Thing/old", spec));
    env.apply();
    env.in_sync();
    // A second one beside it does not get it, and the first one goes on.
    env.push("a.yaml", &thing("new", "", "name: a, content: y"));
    env.push("b.yaml", &thing("other", "reconciled/import: thing-1, reconciled/adopt: \"true\"", spec));
    let both = "toy/Thing/other is one thing with toy/Thing/new: thing-1";
    env.run(&["apply", "--yes"]).says(&[both, "take its manifest out"]);
    assert_eq!(state(&env, "thing-1.json")["content"], "y");
    env.push_without("a.yaml");
    env.run(&["apply", "--yes"]).says(&["reconciled forget"]);
    assert_eq!(things(&env), ["thing-1.json"]);
    env.run(&["forget", "Thing/new", "--yes"]).exits(0);
    env.apply();
    assert_eq!(state(&env, "thing-1.json")["content"], "x");
    env.in_sync();
}

#[test]
fn what_another_one_has_too_is_not_deleted() {
    let env = desk("env: {TOY_NAMELESS: \"1\"}, ");
    let spec = "name: a, content: x";
    env.push("a.yaml", &thing("a", "", spec));
    env.apply();
    // The cloud knows a thing by its name, and gives it to whoever asks for that.
    env.push("b.yaml", &thing("b", "", &format!("{spec}, fault: same")));
    env.apply();
    assert_eq!(things(&env), ["thing-1.json"]);
    env.push_without("a.yaml");
    let said = env.run(&["apply", "--yes"]).exits(3);
    said.says(&["stays, since Thing/b is the same thing", "reconciled forget Thing/a"]);
    assert_eq!(things(&env), ["thing-1.json"]);
    env.run(&["forget", "Thing/a", "--yes"]).exits(0);
    env.apply();
    env.in_sync();
    assert_eq!(things(&env), ["thing-1.json"]);
}

#[test]
fn what_a_manifest_that_waits_takes_over_is_not_deleted_before() {
    for keys in ["", "env: {TOY_NAMELESS: \"1\"}, "] {
        let env = desk(keys);
        env.push("a.yaml", &thing("a", "", "name: a"));
        env.apply();
        env.push_without("a.yaml");
        let spec = "name: a, content: \"of ${Thing/c:status.id}\"";
        let heir = thing("b", "reconciled/import: thing-1", spec);
        env.push("b.yaml", &format!("{heir}{}", thing("c", "", "name: c")));
        env.run(&["plan"]).says(&["stays until Thing/b can be read"]);
        env.run(&["apply", "--yes"]).says(&["is one thing with"]);
        assert_eq!(things(&env), ["thing-1.json", "thing-2.json"]);
    }
}

#[test]
fn a_manifest_may_forbid_what_its_entry_allows() {
    let env = desk("");
    let only = |policy: &str, spec: &str| thing("a", &format!("reconciled/policy: {policy}"), spec);
    env.push("a.yaml", &only("observe", "name: a"));
    env.run(&["apply", "--yes"])
        .says(&["its manifest's `reconciled/policy: observe` does not allow to create"]);
    assert_eq!(things(&env), [""; 0]);
    env.push("a.yaml", &only("create-only", "name: a, content: x"));
    env.apply();
    env.push("a.yaml", &only("create-only", "name: a, content: y"));
    env.run(&["apply", "--yes"]).says(&["`reconciled/policy: create-only` does not allow to update"]);
    env.push("a.yaml", &only("upsert-only", "name: a, content: y"));
    env.apply();
    assert_eq!(state(&env, "thing-1.json")["content"], "y");
    env.push("a.yaml", &only("upsert-only", "name: b"));
    env.run(&["apply", "--yes"]).says(&["does not allow to replace"]);
    env.push_without("a.yaml");
    env.apply();
    assert_eq!(things(&env), ["thing-1.json"], "what must not be deleted is left when its manifest goes");
    env.push("a.yaml", &thing("a", "reconciled/policy: sinc", "name: a"));
    env.run(&["plan"]).exits(1).says(&["unknown value `sinc`", "upsert-only"]);
    let both = thing("a", "reconciled/policy: upsert-only, reconciled/deletion: delete", "name: a");
    env.push("a.yaml", &both);
    env.run(&["plan"]).exits(1).says(&["contradict each other"]);
}
