//! The real process killed with SIGKILL at every named place while a Terraform provider makes, changes, replaces and deletes.
//!
//! After each death: no provider is left running, nothing was made twice, no id was lost, and one more `apply` ends well; where
//! a creation got no answer, after a person has looked.

use crate::{
    env::Env,
    running::wait_for,
    terraform::{configure, desk, is_gone, thing, things},
};
use reconciled::failpoint::{NAMES, VARIABLE};
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

/// Kills `apply` at `point` on its way to what is wanted, and goes on. True when the point was reached.
fn kill_and_recover(env: &Env, point: &str, wanted: Wanted) -> bool {
    push(env, wanted, &BTreeMap::new());
    let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, point)]);
    let was_reached = died.signal == Some(SIGKILL);
    assert!(was_reached || died.code == Some(0), "{point}: {died:?}");
    let started = fs::read_to_string(env.path("starts")).unwrap_or_default();
    let pids: Vec<u32> = started.lines().map(|pid| pid.parse().unwrap()).collect();
    wait_for("the end of every provider", || pids.iter().all(|pid| is_gone(*pid)));

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
    let mut there: Vec<String> = names(env).into_values().collect();
    there.sort();
    let expect: Vec<&str> = wanted.iter().map(|(_, spec)| name_of(spec)).collect();
    assert_eq!(there, expect, "{point}");
    let plan = env.run(&["plan", "--refresh", "--detailed-exitcode"]);
    assert_eq!(plan.code, Some(0), "{point}: {}", plan.all());
    was_reached
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
            if hit == 1 && !reached.contains(&true) {
                missed.push(point);
            }
        }
    }
    assert_eq!(missed, [""; 0], "no life comes past these places");
}
