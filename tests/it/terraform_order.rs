//! In which order things that refer to each other are made, changed and ended, where one of them is made anew.

use crate::{
    env::Env,
    running::wait_for,
    terraform::{desk, state, thing, things},
    terraform_entries::two,
};
use std::{fs, process::Stdio};

/// The id of the thing that is called so.
fn id(env: &Env, name: &str) -> String {
    let all = things(env);
    let found = all.iter().find(|file| state(env, file)["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not among {all:?}")).replace(".json", "")
}

#[test]
fn who_refers_to_what_is_made_anew_is_written_once_and_with_what_that_puts_out_then() {
    let env = desk("");
    let before = "lifecycle: {createBeforeDestroy: true}";
    let all = |name: &str, more: &str| {
        let leader = thing("a", "", &format!("name: {name}, {before}"));
        // It has no change of its own, and follows.
        let between = thing("m", "", &format!("name: \"m of ${{Thing/a:status.id}}\", {before}"));
        let changed = thing("d", "", &format!("name: d, content: \"of ${{Thing/a:status.id}}\"{more}"));
        [leader, between, changed].concat()
    };
    env.push("a.yaml", &all("one", ""));
    env.apply();
    let new = [
        thing("b", "", "name: \"b of ${Thing/a:status.id}\""),
        thing("c", "", "name: \"c of ${Thing/m:status.id}\""),
    ];
    env.push("a.yaml", &format!("{}{}", all("two", ", level: 5"), new.concat()));
    let shown = "Thing/a is made anew: 3 that follow it may be shown with what it puts out now: \
                 Thing/b, Thing/c, Thing/d";
    let follows = "Thing/a is made anew: 1 that follows it may be changed or made anew too, once its outputs are \
                   known: Thing/m";
    env.run(&["plan"]).exits(0).says(&[shown, follows, "waiting: until Thing/a is ready"]);
    env.apply().says(&["2 created, 1 updated, 2 replaced"]);
    let a = id(&env, "two");
    let m = id(&env, &format!("m of {a}"));
    for name in [format!("b of {a}"), format!("c of {m}")] {
        id(&env, &name);
    }
    let d = state(&env, &format!("{}.json", id(&env, "d")));
    assert_eq!((d["content"].as_str(), d["level"].as_i64()), (Some(&*format!("of {a}")), Some(5)));
    assert_eq!(things(&env).len(), 5);
    env.in_sync();
}

#[test]
fn of_two_that_were_replaced_the_one_that_the_other_stood_on_stays_until_that_is_gone() {
    let env = desk("");
    let all = |name: &str| {
        let before = "lifecycle: {createBeforeDestroy: true}";
        // It takes its time, also to go.
        let second = format!("name: \"b of ${{Thing/a:status.id}}\", delay_ms: 2000, {before}");
        // Once this one has moved on, both may go.
        let third = thing("c", "", "name: c, content: \"of ${Thing/b:status.id}\"");
        [thing("a", "", &format!("name: {name}, {before}")), thing("b", "", &second), third].concat()
    };
    env.push("a.yaml", &all("one"));
    env.apply();
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json", "thing-3.json"]);
    env.push("a.yaml", &all("two"));
    let config = env.path("config.yaml");
    let mut apply = env.command(&["--config", config.to_str().unwrap(), "apply", "--yes"]);
    let mut child = apply.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the end of what stood on the other", || {
        // This one first: it must not be gone while the other one is seen afterwards.
        let is_stood_on = env.path("world/thing-1.json").exists();
        let stands = env.path("world/thing-2.json").exists();
        assert!(is_stood_on || !stands, "it went before what stood on it");
        !stands
    });
    assert!(child.wait().unwrap().success());
    assert_eq!(things(&env), ["thing-3.json", "thing-4.json", "thing-5.json"]);
    env.in_sync();
}

/// Later rounds look at what is due alone, and what came to nothing three times is not tried again.
#[test]
fn who_comes_after_what_could_not_be_made_anew_is_not_made_in_the_one_before() {
    for entry in ["toy", "second"] {
        let (env, _) = two();
        let own = |name: &str, spec: &str| thing(name, "reconciled/provider: toy", spec);
        let all = |spec: &str| {
            let before = "lifecycle: {createBeforeDestroy: true}";
            let between = own("m", &format!("name: \"m of ${{Thing/a:status.id}}\", {before}"));
            format!("{}{between}", own("a", &format!("{spec}, {before}")))
        };
        env.push("a.yaml", &all("name: one"));
        env.apply();
        let provider = format!("reconciled/provider: {entry}");
        let last = thing("c", &provider, "name: \"c of ${Thing/m:status.id}\"");
        let other = thing("z", &provider, "name: z");
        env.push("a.yaml", &[&*all("name: two, fault: refuse"), &*last, &*other].concat());
        env.run(&["apply", "--yes", "--timeout", "60s"]).exits(3).says(&[
            "waiting: until Thing/a is ready",
            "no such thing can be",
            "Applied: 1 created, 0 updated, 0 replaced",
        ]);
        // It goes on once that is mended.
        env.push("a.yaml", &[&*all("name: two"), &*last, &*other].concat());
        env.apply().says(&["1 created", "2 replaced"]);
        env.in_sync();
    }
}

#[test]
fn what_is_gone_with_what_it_refers_to_is_made_once_and_with_what_that_puts_out_then() {
    let env = desk("");
    // So that the id of the one that comes anew is another one.
    let all = [
        thing("c", "", "name: c"),
        thing("a", "", "name: a"),
        thing("b", "", "name: \"b of ${Thing/a:status.id}\""),
    ];
    for some in 1..=3 {
        env.push("a.yaml", &all[..some].concat());
        env.apply();
    }
    env.push("a.yaml", &all[1..].concat());
    env.apply();
    let before = id(&env, "a");
    for file in things(&env) {
        fs::remove_file(env.path("world").join(file)).unwrap();
    }
    env.run(&["plan", "--refresh"]).exits(0).says(&["waiting: until Thing/a is ready"]);
    env.run(&["apply", "--yes", "--refresh"]).exits(0).says(&["2 created, 0 updated, 0 replaced, 0 deleted"]);
    let now = id(&env, "a");
    assert_ne!(before, now);
    id(&env, &format!("b of {now}"));
    env.in_sync();
}
