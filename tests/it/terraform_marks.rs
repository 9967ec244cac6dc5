//! Marks in tags: whose a resource of a Terraform provider is.

use crate::{
    env::Env,
    terraform::{Moto, aws_entry, configure, desk, state, thing, things},
};
use serde_json::json;
use std::fs;

const KEY: &str = "reconciled-instance";

/// A desk of the instance `one`, which marks its things.
fn marking() -> Env {
    let env = desk("marks: {type: tag}, ");
    called(&env, "one");
    env
}

fn called(env: &Env, instance: &str) {
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let rest: String = config
        .lines()
        .filter(|line| !line.starts_with("instance:"))
        .map(|line| format!("{line}\n"))
        .collect();
    env.write("config.yaml", &format!("instance: {instance}\n{rest}"));
}

fn put(env: &Env, number: u32, name: &str, tags: &serde_json::Value) {
    let id = format!("thing-{number}");
    let fields = json!({ "id": id, "name": name, "size": 0, "level": 3, "tags": tags });
    fs::write(env.path("world").join(format!("{id}.json")), fields.to_string()).unwrap();
}

fn tags(env: &Env, number: u32) -> serde_json::Value {
    state(env, &format!("thing-{number}.json"))["tags"].clone()
}

#[test]
fn what_is_made_is_marked_and_what_is_equal_is_adopted_without_a_mark() {
    let env = marking();
    put(&env, 2, "b", &json!({ "team": "web" }));
    let b = thing("b", "reconciled/import: thing-2", "name: b, tags: {team: web}");
    env.push("a.yaml", &format!("{}{b}", thing("a", "", "name: a")));
    env.run(&["plan"]).exits(0).says(&["+ Thing/a", "one", "= Thing/b"]).hides(&["~ Thing/b"]);
    env.apply();
    env.in_sync();
    let mine = things(&env).len() as u32;
    assert_eq!(mine, 2);
    assert_eq!((tags(&env, 1), tags(&env, 2)), (json!({ KEY: "one" }), json!({ "team": "web" })));

    // The mark comes with what is changed for another reason, and goes on to be there.
    env.push("b.yaml", &b.replace("team: web", "team: db"));
    env.push_without("a.yaml");
    env.push("a.yaml", &thing("a", "", "name: a, content: x"));
    env.run(&["plan"]).exits(0).says(&["~ Thing/b", "team: web → db", "(none) → one"]);
    env.apply();
    env.in_sync();
    assert_eq!(tags(&env, 1), json!({ KEY: "one" }));
    assert_eq!(tags(&env, 2), json!({ KEY: "one", "team": "db" }));
    // As a declaration it is nobody's.
    env.run(&["import", "toy", "Thing", "thing-2"]).exits(1).says(&["managed by Thing/b"]);
    env.run(&["forget", "Thing/b", "--yes"]).exits(0);
    env.run(&["import", "toy", "Thing", "thing-2"]).exits(0).says(&["team: db"]).hides(&[KEY]);

    env.push("c.yaml", &thing("c", "", &format!("name: c, tags: {{{KEY}: two}}")));
    env.run(&["plan"])
        .exits(1)
        .says(&["`reconciled-instance` of `tags` says whose it is", "names another key"]);
}

#[test]
fn what_another_instance_marked_is_left_to_it_until_it_is_taken_over() {
    let env = marking();
    put(&env, 1, "a", &json!({ KEY: "two", "team": "web" }));
    let declared = thing("a", "reconciled/import: thing-1", "name: a, content: x, tags: {team: web}");
    env.push("a.yaml", &declared);
    env.run(&["apply", "--yes"]).says(&["two"]).hides(&["1 updated"]);
    assert_eq!(tags(&env, 1)[KEY], "two");
    assert!(state(&env, "thing-1.json")["content"].is_null());
    env.run(&["adopt", "Thing.toy/a", "--from-instance", "two", "--yes"]).exits(0);
    env.apply();
    env.in_sync();
    assert_eq!(tags(&env, 1), json!({ KEY: "one", "team": "web" }));
    assert_eq!(state(&env, "thing-1.json")["content"], "x");

    // What is as declared gets the mark alone.
    put(&env, 2, "b", &json!({ KEY: "two" }));
    env.push("b.yaml", &thing("b", "reconciled/import: thing-2", "name: b"));
    env.run(&["apply", "--yes"]).says(&["two"]);
    assert_eq!(tags(&env, 2), json!({ KEY: "two" }));
    env.run(&["adopt", "Thing.toy/b", "--from-instance", "two", "--yes"]).exits(0);
    env.apply();
    env.in_sync();
    assert_eq!(tags(&env, 2), json!({ KEY: "one" }));

    // Another instance takes it: no longer ours to change, nor to delete.
    put(&env, 2, "b", &json!({ KEY: "three" }));
    env.push("b.yaml", &thing("b", "", "name: b, content: y"));
    env.run(&["apply", "--yes"]).says(&["three"]);
    assert!(state(&env, "thing-2.json")["content"].is_null());
    env.push_without("b.yaml");
    env.run(&["apply", "--yes"]).says(&["it carries the ownership mark of `three`"]);
    assert_eq!(things(&env).len(), 2);
}

#[test]
fn a_mark_has_the_key_that_the_entry_names_and_no_place_in_types_without_tags() {
    let env = marking();
    configure(&env, "marks: {type: tag, key: owner}, ");
    called(&env, "one");
    let trivial = "apiVersion: toy/v1\nkind: Trivial\nmetadata: {name: n}\nspec: {input: x}\n---\n";
    let ignored = thing("b", "reconciled/ignore: tags", "name: b");
    env.push("a.yaml", &format!("{trivial}{}{ignored}", thing("a", "", "name: a")));
    env.apply();
    env.in_sync();
    let mut all = [tags(&env, 1), tags(&env, 2)];
    all.sort_by_key(ToString::to_string);
    assert_eq!(all, [json!(null), json!({ "owner": "one" })]);
    configure(&env, "marks: {type: txt}, ");
    env.run(&["plan"]).exits(1).says(&["marks", "tag"]);
}

#[test]
fn two_instances_that_declare_one_queue_at_aws_notice_each_other() {
    let moto = Moto::start();
    let instance = |name: &str, annotations: &str, timeout: u32| {
        let env = Env::new();
        aws_entry(&env, &moto, "    settle: 0s\n    marks: {type: tag}\n");
        called(&env, name);
        let queue = format!(
            "apiVersion: aws/v1\nkind: SqsQueue\nmetadata: {{name: jobs, annotations: {{{annotations}}}}}\n\
             spec: {{name: jobs, visibility_timeout_seconds: {timeout}, tags: {{team: web}}}}\n"
        );
        env.push("a.yaml", &queue);
        env
    };
    let one = instance("one", "", 60);
    one.run(&["plan"])
        .exits(0)
        .says(&["+ SqsQueue/jobs", r#"tags: (none) → {"reconciled-instance":"one","team":"web"}"#]);
    one.apply();
    one.in_sync();
    let url = format!("reconciled/import: \"http://127.0.0.1:{}/123456789012/jobs\"", moto.port);
    let two = instance("two", &url, 30);
    two.run(&["apply", "--yes"]).exits(3).says(&["ManagementConflict", "one"]);
    one.in_sync();
    two.run(&["adopt", "SqsQueue.aws/jobs", "--from-instance", "one", "--yes"]).exits(0);
    two.apply();
    two.in_sync();
    // From now on the first leaves it alone, and deletes nothing.
    one.run(&["apply", "--yes"]).exits(3).says(&["two"]);
    one.push_without("a.yaml");
    one.run(&["apply", "--yes"]).says(&["it carries the ownership mark of `two`"]);
    two.in_sync();
}

#[test]
fn what_is_abandoned_loses_our_mark_and_nothing_else() {
    let env = marking();
    let abandoned = |name: &str| {
        thing(name, "reconciled/deletion: abandon", &format!("name: {name}, tags: {{team: web}}"))
    };
    let (a, b) = (abandoned("a"), abandoned("b"));
    env.push("a.yaml", &a);
    env.apply();
    env.push("b.yaml", &b);
    env.apply();
    let marked = json!({ KEY: "one", "team": "web" });
    assert_eq!((tags(&env, 1), tags(&env, 2)), (marked.clone(), marked.clone()));
    let before = state(&env, "thing-1.json");

    env.push_without("a.yaml");
    let file = env.path("plan").display().to_string();
    env.run(&["plan", "--out", &file]).exits(0).says(&[
        ". Thing/a",
        "owner: this instance → (none)",
        "1 to forget",
    ]);
    // Somebody else took it away: the plan no longer says what is done.
    let by_hand = |tags: &serde_json::Value| {
        let mut fields = before.clone();
        fields["tags"] = tags.clone();
        fs::write(env.path("world/thing-1.json"), fields.to_string()).unwrap();
    };
    by_hand(&json!({ "team": "web" }));
    env.run(&["apply", &file]).exits(1).says(&["the plan no longer holds"]);
    by_hand(&marked);
    env.run(&["apply", &file]).exits(0).says(&["1 abandoned"]);
    let mut left = before.clone();
    left["tags"] = json!({ "team": "web" });
    assert_eq!(state(&env, "thing-1.json"), left);
    env.in_sync();
    env.run(&["history", "Thing.toy/a"]).exits(0).says(&["abandon"]);

    // Where nothing may be written it stays tracked, until it may or a person lets go of it as it is.
    configure(&env, "policy: create-only, marks: {type: tag}, ");
    called(&env, "one");
    env.push_without("b.yaml");
    env.run(&["apply", "--yes"])
        .exits(3)
        .says(&["does not allow to abandon it", "reconciled forget Thing/b"]);
    env.run(&["forget", "Thing.toy/b", "--yes"]).exits(0);
    env.apply();
    env.run(&["status", "--exit-code"]).exits(0);
    assert_eq!(tags(&env, 2), marked);
}

#[test]
fn a_queue_at_aws_that_was_abandoned_is_anybodys() {
    let moto = Moto::start();
    let instance = |name: &str, annotations: &str| {
        let env = Env::new();
        aws_entry(&env, &moto, "    settle: 0s\n    marks: {type: tag}\n");
        called(&env, name);
        let queue = format!(
            "apiVersion: aws/v1\nkind: SqsQueue\nmetadata: {{name: jobs, annotations: {{{annotations}}}}}\n\
             spec: {{name: jobs, visibility_timeout_seconds: 60, tags: {{team: web}}}}\n"
        );
        env.push("a.yaml", &queue);
        env
    };
    let one = instance("one", "reconciled/deletion: abandon");
    one.apply();
    one.in_sync();
    one.push_without("a.yaml");
    one.run(&["plan"]).exits(0).says(&[". SqsQueue/jobs", "owner: this instance → (none)"]);
    one.run(&["apply", "--yes"]).exits(0).says(&["1 abandoned"]);
    one.in_sync();
    // It is there as it was, and bears nobody's mark: another instance finds it equal, and takes it over without a word.
    let url = format!("reconciled/import: \"http://127.0.0.1:{}/123456789012/jobs\"", moto.port);
    let two = instance("two", &url);
    two.run(&["plan"]).exits(0).says(&["= SqsQueue/jobs"]);
    two.apply();
    two.in_sync();
}
