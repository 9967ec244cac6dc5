//! Entries and sources that get another name: nothing is made twice, let go of or deleted for it.

use crate::{
    env::{Env, rrsets, zone},
    pdns::Pdns,
    terraform::{desk, thing, things},
};
use reconciled::failpoint::{RENAME, VARIABLE};
use std::fs;

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

/// Replaces words of the configuration.
fn reconfigure(env: &Env, words: &[(&str, &str)]) {
    let text = fs::read_to_string(env.path("config.yaml")).unwrap();
    let changed = words.iter().fold(text.clone(), |text, (old, new)| text.replace(old, new));
    assert_ne!(text, changed);
    env.write("config.yaml", &changed);
}

#[test]
fn a_renamed_dns_entry_and_source_go_on_with_what_they_tracked() {
    let env = Env::zonefile();
    let first = env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    env.apply();
    reconfigure(&env, &[("name: infra", "name: main, was: infra"), ("name: zones", "name: dns, was: zones")]);
    env.push("zone.yaml", &zone(ZONE, "dns", &[WWW, MAIL]));
    // A plan from the old names would be a lie, and who only looks renames nothing.
    env.run(&["plan"]).exits(1).says(&["was `zones`, and the state still has it", "reconciled apply"]);
    env.run(&["check"]).exits(0).says(&["warn  database", "was `zones`"]);
    assert_eq!(env.sql("SELECT count(*) FROM inventory WHERE scope LIKE 'zones/%'"), "3");
    let before = env.zone_rrsets(ZONE);
    env.apply().says(&["0 created, 0 updated, 0 replaced, 0 deleted, 0 adopted"]);
    assert_eq!(env.zone_rrsets(ZONE), before);
    env.in_sync();
    for (table, column) in
        [("inventory", "scope"), ("inventory", "manifest"), ("manifest", "key"), ("document", "scope")]
    {
        let old =
            format!("SELECT count(*) FROM {table} WHERE {column} LIKE 'zones/%' OR {column} LIKE 'infra/%'");
        assert_eq!(env.sql(&old), "0", "{table}.{column}");
    }
    env.run(&["history"])
        .exits(0)
        .says(&["provider `dns` was `zones`; resources that go along: 3", "source `main` was `infra`"]);
    env.run(&["events", "--verify"]).exits(0);

    // What the source no longer declares is still its own, and its history still counts.
    env.push("zone.yaml", &zone(ZONE, "dns", &[WWW]));
    env.apply().says(&["1 deleted"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    env.git(&["reset", "-q", "--hard", first.trim()]);
    env.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    env.run(&["apply", "--yes"]).exits(1).says(&["rewound"]);
}

#[test]
fn an_instance_with_another_name_is_told_at_once_what_the_one_before_marked() {
    let server = Pdns::start();
    for (env, entry) in [(Env::zonefile(), "zones"), (Env::pdns(&server), "pdns")] {
        env.push("zone.yaml", &zone(ZONE, entry, &[WWW]));
        env.apply();
        env.in_sync();
        reconfigure(&env, &[("instance: it", "instance: other")]);
        // Nothing in the zone moved since, and what was seen of it was seen by another name.
        let words = ["ManagementConflict: it carries the ownership mark of `it`", "--from-instance it"];
        env.run(&["plan"]).exits(3).says(&words);
    }
}

#[test]
fn a_renamed_terraform_entry_makes_nothing_a_second_time_wherever_it_dies() {
    for place in RENAME.iter().copied() {
        let env = desk("");
        env.push(
            "a.yaml",
            &format!(
                "{}{}",
                thing("a", "", "name: a"),
                thing("b", "", "name: b, content: \"${Thing/a:status.id}\"")
            ),
        );
        env.apply();
        let made = things(&env);
        reconfigure(&env, &[("name: toy, type", "name: cloud, was: toy, type")]);
        let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, place)]);
        assert_eq!(died.signal, Some(9), "{place}: {died:?}");
        assert_eq!(env.sql("PRAGMA integrity_check"), "ok");
        let renamed = if place.ends_with("before") { "0" } else { "2" };
        assert_eq!(env.sql("SELECT count(*) FROM inventory WHERE scope LIKE 'cloud/%'"), renamed, "{place}");
        env.apply().says(&["0 created", "0 deleted"]).hides(&["UNASSIGNED"]);
        assert_eq!(things(&env), made, "{place}");
        env.in_sync();
        // What is sealed can be read under the new name, and a deletion knows what it deletes.
        env.push("a.yaml", &thing("a", "", "name: a"));
        env.apply().says(&["1 deleted"]);
        assert_eq!(things(&env), ["thing-1.json"], "{place}");
    }
}

#[test]
fn what_both_names_track_is_not_guessed_at() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a"));
    env.apply();
    // Without `was` it is another entry, which makes its own.
    reconfigure(&env, &[("name: toy, type", "name: cloud, type")]);
    env.apply();
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json"]);
    reconfigure(&env, &[("name: cloud, type", "name: cloud, was: toy, type")]);
    env.run(&["apply", "--yes"]).exits(1).says(&["both names track the same resources", "take `was` out"]);
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json"]);
}

#[test]
fn an_earlier_revision_knows_an_entry_by_the_name_that_it_had() {
    let env = Env::zonefile();
    let push = |entry: &str, www: u8, mail: u8| {
        let record = |name: &str, value: u8| format!("{{name: {name}, type: A, values: [192.0.2.{value}]}}");
        env.push("zone.yaml", &zone(ZONE, entry, &[&record("www", www), &record("mail", mail)]))
    };
    let is = |www: &str, mail: &str| {
        assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", www), ("mail A", mail)]));
    };
    let first = push("zones", 1, 2);
    env.apply();
    push("zones", 11, 12);
    env.apply();
    let back = |target: &str| {
        env.run(&["rollback", first.trim(), "--target", target, "--reason", "it is down"]).exits(0);
    };
    back("Zone/example.com#www/A");
    env.apply();
    is("300 192.0.2.1", "300 192.0.2.12");
    reconfigure(&env, &[("name: zones", "name: dns, was: zones")]);
    push("dns", 11, 12);
    env.apply();
    is("300 192.0.2.1", "300 192.0.2.12");
    back("Zone/example.com#mail/A");
    env.apply();
    is("300 192.0.2.1", "300 192.0.2.2");
    env.in_sync();
}
