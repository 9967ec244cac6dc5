//! What is there already at a provider of Terraform, and how it is taken over.

use crate::terraform::{desk, state, thing, things};
use std::fs;

#[test]
fn what_exists_already_says_how_to_take_it_over_and_is_tried_again() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a, fault: exists"));
    let says = ["ThingAlreadyExists", "reconciled/import"];
    env.run(&["apply", "--yes", "--timeout", "1s"]).says(&says);
    env.run(&["status", "Thing/a"]).says(&says);
    env.run(&["status"]).says(&["WAITING"]).hides(&["NEEDS A PERSON"]);
    assert!(things(&env).is_empty());
}

#[test]
fn what_exists_is_taken_over_by_its_id() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a, content: x"));
    env.apply();
    fs::remove_dir_all(env.path("state")).unwrap();
    env.push("a.yaml", &thing("a", "reconciled/import: thing-1", "name: a, content: x"));
    env.run(&["plan"]).exits(0).says(&["= Thing/a"]);
    env.apply();
    assert_eq!(things(&env), ["thing-1.json"]);
    // What is not there is not made: the id is wrong.
    env.push("b.yaml", &thing("b", "reconciled/import: thing-9", "name: b"));
    env.run(&["plan"]).says(&["there is no toy_thing with the id `thing-9`"]).hides(&["+ Thing/b"]);
    env.run(&["apply", "--yes"]);
    assert_eq!(things(&env), ["thing-1.json"]);
    env.push_without("b.yaml");
    // What could not be changed into what is declared is not taken over to be deleted.
    fs::remove_dir_all(env.path("state")).unwrap();
    env.push("a.yaml", &thing("a", "reconciled/import: thing-1, reconciled/adopt: \"true\"", "name: other"));
    env.run(&["plan"]).says(&["would delete and make it anew, because of name"]).hides(&["-/+ Thing/a"]);
    env.run(&["apply", "--yes"]);
    assert_eq!(state(&env, "thing-1.json")["name"], "a");
}

#[test]
fn a_consent_to_take_over_shows_all_that_goes_and_holds_for_nothing_else() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a, content: x"));
    env.apply();
    fs::remove_dir_all(env.path("state")).unwrap();
    let tagged = |owner: &str| {
        let mut there = state(&env, "thing-1.json");
        there["tags"] = serde_json::json!({"owner": owner});
        env.write("world/thing-1.json", &there.to_string());
    };
    tagged("team-b");
    env.push("a.yaml", &thing("a", "reconciled/import: thing-1", "name: a, content: y"));
    env.run(&["apply", "--yes"]).exits(3).says(&["differs in content, size, tags"]);
    env.run(&["adopt", "Thing/a", "--yes"])
        .exits(0)
        .says(&["content: x → y", "tags: {\"owner\":\"team-b\"} → (none)"]);
    // Somebody else wrote there since, where nothing is declared.
    tagged("team-c");
    env.run(&["apply", "--yes"]).exits(3).says(&["it changed after `adopt` was said"]);
    assert_eq!(state(&env, "thing-1.json")["tags"]["owner"], "team-c");
    env.run(&["adopt", "Thing/a", "--yes"]).exits(0).says(&["team-c"]);
    env.apply();
    assert!(state(&env, "thing-1.json")["tags"].is_null());
    env.in_sync();
}

#[test]
fn nobody_consents_to_taking_over_what_would_be_made_anew() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a"));
    env.apply();
    env.run(&["forget", "Thing/a", "--yes"]).exits(0);
    env.push("a.yaml", &thing("a", "reconciled/import: thing-1", "name: b"));
    let why = "would delete and make it anew, because of name";
    env.run(&["plan"]).says(&[why]).hides(&["reconciled adopt"]);
    env.run(&["adopt", "Thing/a", "--yes"]).exits(1).says(&["nothing at Thing/a can be taken over", why]);
    env.push("a.yaml", &thing("a", "reconciled/import: thing-1", "name: a, content: new"));
    env.run(&["plan"]).says(&["it was forgotten", "reconciled adopt Thing/a"]);
    env.run(&["adopt", "Thing/a", "--yes"]).exits(0).says(&["content: (none) → new"]);
    env.apply();
    assert_eq!(things(&env), ["thing-1.json"]);
}
