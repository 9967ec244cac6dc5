//! The real process killed with SIGKILL at every named place while a Terraform provider makes, changes, replaces and deletes.
//!
//! After each death: no provider is left running, nothing was made twice, no id was lost, and one more `apply` ends well; where
//! a creation got no answer, after a person has looked.

use crate::{
    env::Env,
    running::wait_for,
    terraform::{configure, desk, is_gone, thing, things},
};
use reconciled::failpoint::{NAMES, STEPS, VARIABLE};
use std::{collections::BTreeMap, fs};

const SIGKILL: i32 = 9;

/// Hits of one failpoint that are tried.
const HITS: u32 = 2;

/// Manifests by their name, and what is declared.
type Wanted = &'static [(&'static str, &'static str)];

const FIRST: Wanted =
    &[("a", "name: a, content: one"), ("b", "name: b, content: \"of ${Thing/a:status.id}\"")];
/// One is changed, one is replaced, one is new.
const SECOND: Wanted = &[("a", "name: a, content: two"), ("b", "name: c, content: x"), ("d", "name: d")];
const LAST: Wanted = &[("d", "name: d")];

/// The name of each thing there is, by its id.
fn names(env: &Env) -> BTreeMap<String, String> {
    let of = |file: String| {
        let text = fs::read_to_string(env.path("world").join(&file)).unwrap();
        let thing: serde_json::Value = serde_json::from_str(&text).unwrap();
        let id = file.strip_suffix(".json").unwrap_or(&file).to_string();
        (id, thing["name"].as_str().unwrap().to_string())
    };
    things(env).into_iter().map(of).collect()
}

fn name_of(spec: &str) -> &str {
    let rest = spec.strip_prefix("name: ").unwrap();
    rest.split(',').next().unwrap()
}

fn push(env: &Env, wanted: &[(&str, &str)], found: &BTreeMap<String, String>) {
    let one = |(manifest, spec): &(&str, &str)| {
        let id = found.iter().find(|(_, name)| **name == *name_of(spec)).map(|(id, _)| id);
        let import = id.map(|id| format!("reconciled/import: {id}")).unwrap_or_default();
        thing(manifest, &import, spec)
    };
    env.push("all.yaml", &wanted.iter().map(one).collect::<String>());
}

/// Kills `apply` at `point` on its way to what is wanted. True when the point was reached.
fn kill(env: &Env, point: &str, wanted: Wanted) -> bool {
    push(env, wanted, &BTreeMap::new());
    let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, point)]);
    let was_reached = died.signal == Some(SIGKILL);
    assert!(was_reached || died.code == Some(0), "{point}: {died:?}");
    let started = fs::read_to_string(env.path("starts")).unwrap_or_default();
    let pids: Vec<u32> = started.lines().map(|pid| pid.parse().unwrap()).collect();
    wait_for("the end of every provider", || pids.iter().all(|pid| is_gone(*pid)));
    was_reached
}

/// What is wanted is there once, and nothing else.
fn is_there(env: &Env, point: &str, wanted: Wanted) {
    let mut there: Vec<String> = names(env).into_values().collect();
    there.sort();
    let mut expect: Vec<&str> = wanted.iter().map(|(_, spec)| name_of(spec)).collect();
    expect.sort_unstable();
    assert_eq!(there, expect, "{point}");
    let plan = env.run(&["plan", "--refresh", "--detailed-exitcode"]);
    assert_eq!(plan.code, Some(0), "{point}: {}", plan.all());
}

/// Kills `apply` at `point` on its way to what is wanted, and goes on. True when the point was reached.
fn kill_and_recover(env: &Env, point: &str, wanted: Wanted) -> bool {
    let was_reached = kill(env, point, wanted);
    let again = env.run(&["apply", "--yes"]);
    if again.code == Some(3) {
        assert!(again.all().contains("may have succeeded"), "{point}: {}", again.all());
        // A person looks: what is there is taken over, what is not was never made. What is being replaced and is there still
        // goes on by itself once nothing else that was made has no answer.
        let found = names(env);
        let is_there = |wished: &str| found.values().any(|name| *name == *wished);
        let (there, gone): (Vec<_>, Vec<_>) = wanted
            .iter()
            .copied()
            .partition(|(manifest, spec)| is_there(name_of(spec)) || is_there(manifest));
        for (manifest, _) in &gone {
            env.run(&["forget", &format!("Thing/{manifest}"), "--yes"]);
        }
        push(env, &there, &found);
        env.run(&["apply", "--yes"]);
        push(env, wanted, &found);
        let last = env.run(&["apply", "--yes"]);
        assert_eq!(last.code, Some(0), "{point}: {}", last.all());
    } else {
        assert_eq!(again.code, Some(0), "{point}: {}", again.all());
    }
    is_there(env, point, wanted);
    was_reached
}

/// One that is made before the one it takes the place of goes, which waits for what refers to it.
const BEFORE: Wanted = &[
    ("a", "name: one, lifecycle: {createBeforeDestroy: true}"),
    ("b", "name: b, content: \"of ${Thing/a:status.id}\""),
];
const AFTER: Wanted = &[
    ("a", "name: two, lifecycle: {createBeforeDestroy: true}"),
    ("b", "name: b, content: \"of ${Thing/a:status.id}\""),
];

/// Hits of one failpoint that are tried on the way from one to the other: the new one, what refers to it, the old one.
const HITS_OF_A_SUCCESSION: u32 = 3;

/// Goes on as the hints say: of the two, the new one is kept where it was made, and the other is deleted by hand.
fn go_on(env: &Env, point: &str) {
    let again = env.run(&["apply", "--yes"]);
    if again.code == Some(3) {
        assert!(again.all().contains("got no answer, so it may exist"), "{point}: {}", again.all());
        let all = names(env);
        let is_new = all.values().any(|name| name == "two");
        let kept = if is_new { "two" } else { "one" };
        for (id, _) in all.iter().filter(|(_, name)| is_new && *name == "one") {
            fs::remove_file(env.path("world").join(format!("{id}.json"))).unwrap();
        }
        env.run(&["forget", "Thing/a", "--yes"]).exits(0);
        let found = names(env).into_iter().filter(|(_, name)| name == kept).collect();
        push(env, if is_new { AFTER } else { BEFORE }, &found);
        env.run(&["adopt", "Thing/a", "--yes"]).exits(0);
        env.run(&["apply", "--yes"]).exits(0);
        push(env, AFTER, &BTreeMap::new());
        env.run(&["apply", "--yes"]).exits(0);
    } else {
        assert_eq!(again.code, Some(0), "{point}: {}", again.all());
    }
    is_there(env, point, AFTER);
}

#[test]
fn a_death_at_any_place_of_a_succession_makes_nothing_twice_and_leaves_nothing() {
    let mut missed: Vec<String> = Vec::new();
    for name in NAMES.iter().chain(STEPS).filter(|name| !name.starts_with("store.migrate")) {
        for hit in 1..=HITS_OF_A_SUCCESSION {
            let env = desk("");
            let starts = env.path("starts");
            configure(&env, &format!("env: {{TOY_STARTS: {}, TOY_FRESH: \"1\"}}, ", starts.display()));
            push(&env, BEFORE, &BTreeMap::new());
            env.apply();
            let point = format!("{name}:{hit}");
            let was_reached = kill(&env, &point, AFTER);
            go_on(&env, &point);
            if !was_reached {
                missed.extend((hit == 1).then_some(point));
                break;
            }
        }
    }
    assert_eq!(missed, [""; 0], "no succession comes past these places");
}

#[test]
fn a_death_at_any_place_makes_nothing_twice_and_leaves_no_provider() {
    let mut missed: Vec<String> = Vec::new();
    for name in NAMES.iter().filter(|name| !name.starts_with("store.migrate")) {
        for hit in 1..=HITS {
            let env = desk("");
            // No id is given twice: what has the id of one that is being deleted would be taken for that one after the death.
            let starts = env.path("starts");
            configure(&env, &format!("env: {{TOY_STARTS: {}, TOY_FRESH: \"1\"}}, ", starts.display()));
            let point = format!("{name}:{hit}");
            let reached = [FIRST, SECOND, LAST].map(|wanted| kill_and_recover(&env, &point, wanted));
            if !reached.contains(&true) {
                missed.extend((hit == 1).then_some(point));
                break;
            }
        }
    }
    assert_eq!(missed, [""; 0], "no life comes past these places");
}
