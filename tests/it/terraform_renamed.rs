//! What a rename of a manifest moves: it goes back with its commit, and is stopped by what stops it under its former name.

use crate::terraform::{desk, state, thing, things};
use std::fs;

#[test]
fn a_rename_goes_back_with_its_commit_also_where_that_was_held_or_suspended() {
    let env = desk("");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("maxDeletes: 100", "maxDeletes: 1"));
    let others = [thing("x", "", "name: x"), thing("y", "", "name: y")].concat();
    let renamed = |to: &str, from: &str, content: &str| {
        thing(to, &format!("reconciled/moved-from: Thing/{from}"), &format!("name: db, content: {content}"))
    };
    let first = thing("db", "", "name: db, content: one") + &others;
    env.push("a.yaml", &first);
    env.apply();
    let before = things(&env);
    assert_eq!(before.len(), 3);
    let goes_back = |words: &[&str]| {
        env.push("a.yaml", &first);
        env.run(&["plan"]).exits(0).says(&["> Thing/db"]).says(words).hides(&["meant as a move?"]);
        env.apply().says(&["0 created", "0 replaced", "0 deleted"]);
        assert_eq!(things(&env), before);
        env.in_sync();
    };
    env.push("a.yaml", &renamed("database", "db", "one"));
    env.run(&["apply", "--yes"]).exits(3).says(&["2 deletes, limit 1"]);
    goes_back(&["moved from Thing/database"]);

    // What was carried out goes back as well, of two commits at once and with what else they changed.
    for (to, from, content) in [("database", "db", "one"), ("store", "database", "two")] {
        env.push("a.yaml", &(renamed(to, from, content) + &others));
        env.apply().says(&["0 created", "0 deleted"]);
        env.in_sync();
    }
    goes_back(&["moved from Thing/store"]);

    env.run(&["suspend", "--all", "--reason", "moving"]).exits(0);
    env.push("a.yaml", &(renamed("database", "db", "one") + &others));
    env.run(&["apply", "--yes"]).exits(0).says(&["> Thing/database"]);
    goes_back(&["moved from Thing/database"]);
    env.run(&["resume", "--all"]).exits(0);
    env.apply().says(&["0 created", "0 deleted"]);
    assert_eq!(things(&env), before);
}

#[test]
fn what_is_suspended_by_its_address_is_not_written_under_another_name() {
    let env = desk("");
    env.push("a.yaml", &thing("old", "", "name: same, content: one"));
    env.apply();
    env.run(&["suspend", "Thing/old", "--reason", "do not touch"]).exits(0);
    for (to, from) in [("new", "old"), ("newer", "new")] {
        let moved = format!("reconciled/moved-from: Thing/{from}");
        env.push("a.yaml", &thing(to, &moved, "name: same, content: two"));
        // What was written down at the first look must not end it at the second.
        for _ in 0..2 {
            env.run(&["apply", "--yes"]).exits(3).says(&["do not touch"]);
            assert_eq!(state(&env, "thing-1.json")["content"], "one", "{to}");
        }
    }
    env.run(&["resume", "Thing/old"]).exits(0);
    env.apply().says(&["0 created", "0 deleted"]);
    assert_eq!(state(&env, "thing-1.json")["content"], "two");
    env.in_sync();
}

#[test]
fn what_is_for_other_hosts_keeps_what_it_has_from_who_has_its_earlier_name() {
    let env = desk("");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let has_role = |role: &str| {
        env.write("config.yaml", &format!("{config}host: {{name: h, labels: {{role: {role}}}}}\n"));
    };
    has_role("db");
    let spec = "name: db, content: precious";
    env.push("a.yaml", &thing("db", "", spec));
    env.apply();
    let old = thing("db-old", "reconciled/moved-from: Thing/db, reconciled/hosts: role=db", spec);
    env.push("a.yaml", &old);
    env.apply().says(&["0 created", "0 deleted"]);
    let new = thing("db", "reconciled/hosts: role=web", "name: web, content: cache");
    env.push("a.yaml", &(old + &new));
    env.in_sync();
    // A label of the host is wrong for a moment.
    has_role("web");
    let guarded = ["host-unselected", "- Thing/db-old"];
    env.run(&["apply", "--yes"]).exits(3).says(&guarded).hides(&["moved from", "-/+"]);
    assert_eq!(things(&env), ["thing-1.json"]);
    assert_eq!(state(&env, "thing-1.json")["content"], "precious");
    has_role("db");
    env.in_sync();
}

#[test]
fn what_is_to_be_left_to_others_is_not_written_over_by_who_has_its_earlier_name() {
    let env = desk("");
    env.push("a.yaml", &thing("db", "", "name: db, content: precious"));
    env.apply();
    let left = "reconciled/moved-from: Thing/db, reconciled/deletion: abandon";
    env.push("a.yaml", &thing("db-old", left, "name: db, content: precious"));
    env.apply().says(&["0 created", "0 deleted"]);
    let another = |annotations: &str| thing("db", annotations, "name: db, content: new");
    env.push("a.yaml", &another(""));
    let hint = "where both are one, say `reconciled/moved-from: Thing/db-old`";
    env.run(&["apply", "--yes"]).exits(3).says(&["Thing/db-old is not moved back to Thing/db", hint]);
    assert_eq!(things(&env), ["thing-1.json"]);
    assert_eq!(state(&env, "thing-1.json")["content"], "precious");
    // What it says to do helps.
    env.push("a.yaml", &another("reconciled/moved-from: Thing/db-old"));
    env.apply().says(&["0 created", "0 deleted"]);
    assert_eq!(state(&env, "thing-1.json")["content"], "new");
}
