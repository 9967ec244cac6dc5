//! One record that several manifests declare together (`merge: true`): the values of each stay until it is known that it no
//! longer declares them.

use crate::{
    env::{Env, Output, WIDE_GUARD, rrsets, zone},
    pdns::Pdns,
    running::{Daemon, wait_for},
};
use std::fs;

const ZONE: &str = "example.com";
const PART: &str = "Zone/example.com#app/A";

/// The zone's own part of `app`, with further keys of the record.
fn own(value: u8, keys: &str) -> String {
    zone(ZONE, "pdns", &[&format!("{{name: app, type: A, values: [192.0.2.{value}], merge: true{keys}}}")])
}

/// What another manifest adds, with further keys of the record.
fn added(value: u8, keys: &str) -> String {
    format!(
        "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: more}}\nspec:\n  zone: {ZONE}\n  records:\n    \
         - {{name: app, type: A, values: [192.0.2.{value}], merge: true{keys}}}\n"
    )
}

/// A desk on which .1 of the zone and .2 of the other manifest are applied.
fn desk(server: &Pdns, own_keys: &str, added_keys: &str) -> Env {
    let env = Env::pdns(server);
    env.write("work/more.yaml", &added(2, added_keys));
    env.push("zone.yaml", &own(1, own_keys));
    env.apply();
    has(server, "192.0.2.1 192.0.2.2");
    env
}

/// Adds a source `other`, and returns the configuration without it.
pub(crate) fn other_source(env: &Env) -> String {
    env.git_in(".", &["init", "-q", "--bare", "-b", "main", "other.git"]);
    env.git_in(".", &["clone", "-q", "other.git", "other"]);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let config = config.replace("repo.git}", "repo.git, allow: all}");
    let url = env.path("other.git");
    let other = format!("  - {{name: other, url: {}, allow: all}}\nproviders:", url.display());
    env.write("config.yaml", &config.replace("providers:", &other));
    config
}

/// Pushes to it what it shall say, and returns the commit.
pub(crate) fn push_other(env: &Env, text: &str) -> String {
    env.write("other/more.yaml", &text.replace("name: more", "name: other"));
    env.git_in("other", &["add", "-A"]);
    env.git_in("other", &["commit", "-q", "-m", "more"]);
    env.git_in("other", &["push", "-q", "origin", "HEAD:main"]);
    env.git_in("other", &["rev-parse", "HEAD"])
}

#[track_caller]
fn has(server: &Pdns, values: &str) {
    assert_eq!(server.rrsets(ZONE), rrsets(&[("app A", &format!("300 {values}"))]));
}

fn apply(env: &Env) -> Output {
    env.run(&["apply", "--yes"])
}

#[test]
fn what_a_file_that_cannot_be_read_added_stays_and_goes_with_its_word() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    env.write("work/zone.yaml", &own(3, ""));
    env.push("more.yaml", "kind: RecordSet: broken\n");
    // The own file is there as ever, and changes its own value; what was its value stays too, as nobody knows whose it is.
    apply(&env).exits(1).says(&["more.yaml", "frozen"]);
    has(&server, "192.0.2.1 192.0.2.2 192.0.2.3");
    apply(&env).exits(1);
    has(&server, "192.0.2.1 192.0.2.2 192.0.2.3");
    env.push("more.yaml", &added(2, ""));
    env.apply();
    has(&server, "192.0.2.2 192.0.2.3");
    env.push_without("more.yaml");
    env.apply();
    has(&server, "192.0.2.3");
    env.in_sync();
}

#[test]
fn what_a_source_added_that_is_configured_no_longer_stays_until_it_is_forgotten() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    let config = other_source(&env);
    push_other(&env, &added(4, ""));
    env.apply();
    has(&server, "192.0.2.1 192.0.2.2 192.0.2.4");
    env.run(&["plan", "--source", "other"]).exits(0);
    env.write("config.yaml", &config);
    env.push_without("more.yaml");
    apply(&env).says(&["UNASSIGNED", "no source `other`"]);
    has(&server, "192.0.2.1 192.0.2.2 192.0.2.4");
    env.run(&["forget", "--source", "other", "--yes"]).exits(0).says(&["RecordSet/other", "shares"]);
    env.apply();
    // What it added is left as it is, and so is what nobody can tell from it.
    has(&server, "192.0.2.1 192.0.2.2 192.0.2.4");
    env.push("zone.yaml", &own(5, ""));
    env.apply();
    has(&server, "192.0.2.1 192.0.2.2 192.0.2.4 192.0.2.5");
    env.in_sync();
}

#[test]
fn each_of_those_who_share_it_is_chosen_and_suspended_by_its_own_name() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    env.run(&["suspend", "RecordSet/more", "--reason", "looking"]).exits(0);
    env.push("more.yaml", &added(6, ""));
    apply(&env).exits(3).says(&["suspended"]);
    has(&server, "192.0.2.1 192.0.2.2");
    env.push_without("more.yaml");
    apply(&env).says(&["a person suspended it"]);
    has(&server, "192.0.2.1 192.0.2.2");
    env.run(&["resume", "RecordSet/more"]).exits(0);
    env.apply();
    has(&server, "192.0.2.1");
    env.push("more.yaml", &added(7, ""));
    env.run(&["plan", "--target", "RecordSet/more", "--detailed-exitcode"]).exits(2).says(&["192.0.2.7"]);
    env.run(&["plan", "--target", "RecordSet/none", "--detailed-exitcode"]).exits(0).hides(&["192.0.2.7"]);
}

#[test]
fn the_most_careful_of_those_who_share_it_decides() {
    let server = Pdns::start();
    let env = desk(&server, "", ", drift: warn");
    server.set(ZONE, "app", "A", "192.0.2.1");
    apply(&env).says(&["drift"]);
    has(&server, "192.0.2.1");
    // Nobody else put anything there: taken away by hand, it is no change by a commit.
    env.run(&["plan", "-o", "json"]).says(&["\"reason\": \"drift\""]);
    env.push("more.yaml", &added(2, ""));
    env.apply();
    has(&server, "192.0.2.1 192.0.2.2");
}

#[test]
fn what_one_of_them_protects_does_not_go_with_its_manifest() {
    let server = Pdns::start();
    let env = desk(&server, "", ", protect: true");
    env.push_without("more.yaml");
    apply(&env).exits(3).says(&["protected", "held"]);
    has(&server, "192.0.2.1 192.0.2.2");
}

#[test]
fn what_is_declared_instead_replaces_it_where_the_entry_deletes_nothing() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    env.config(&env.pdns_entry(&server.url, &format!("{WIDE_GUARD}, policy: upsert-only")));
    // A text such as SPF means nothing beside the one before, whoever else has a part in the record or leaves it.
    env.push("zone.yaml", &own(3, ""));
    env.apply();
    has(&server, "192.0.2.2 192.0.2.3");
    env.write("work/zone.yaml", &own(4, ""));
    env.push_without("more.yaml");
    env.apply();
    has(&server, "192.0.2.4");
    env.in_sync();
    // All of it would be a deletion.
    env.push("zone.yaml", &zone(ZONE, "pdns", &["{name: keep, type: A, values: [192.0.2.9]}"]));
    apply(&env).exits(3).says(&["the entry's `policy: upsert-only` does not allow to delete it"]);
    let both = [("app A", "300 192.0.2.4"), ("keep A", "300 192.0.2.9")];
    assert_eq!(server.rrsets(ZONE), rrsets(&both));
}

#[test]
fn a_record_that_is_shared_no_longer_does_not_take_what_others_put_there() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.config(&env.pdns_entry(&server.url, WIDE_GUARD));
    server.create(ZONE);
    server.set(ZONE, "app", "A", "192.0.2.9");
    env.push("zone.yaml", &own(1, ""));
    env.apply();
    has(&server, "192.0.2.1 192.0.2.9");
    env.push("zone.yaml", &own(1, "").replace("merge: true", "merge: false"));
    apply(&env).exits(3).says(&["foreign-delete", PART]);
    has(&server, "192.0.2.1 192.0.2.9");
    server.set(ZONE, "app", "A", "192.0.2.1");
    env.apply();
    has(&server, "192.0.2.1");
    env.in_sync();
}

#[test]
fn a_manifest_that_shares_a_record_is_ready_for_those_who_wait_for_it() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    server.create(ZONE);
    server.set(ZONE, "app", "A", "192.0.2.9");
    let late = "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: late, annotations: {reconciled/depends-on: RecordSet/more}}\n\
                spec: {zone: example.com, records: [{name: late, type: A, values: [192.0.2.8]}]}\n";
    env.write("work/late.yaml", late);
    env.write("work/more.yaml", &added(2, ""));
    env.push("zone.yaml", &own(1, ""));
    env.apply();
    let all = rrsets(&[("app A", "300 192.0.2.1 192.0.2.2 192.0.2.9"), ("late A", "300 192.0.2.8")]);
    assert_eq!(server.rrsets(ZONE), all);
}

#[test]
fn what_another_source_adds_is_chosen_and_goes_back_on_its_own() {
    let server = Pdns::start();
    let env = desk(&server, "", "");
    other_source(&env);
    let before = push_other(&env, &added(4, ""));
    env.apply();
    push_other(&env, &added(5, ""));
    env.run(&["plan", "--source", "other", "--detailed-exitcode"]).exits(2).says(&["192.0.2.5"]);
    env.apply();
    has(&server, "192.0.2.1 192.0.2.2 192.0.2.5");
    env.run(&["rollback", &before[..7], "--source", "other", "--reason", "wrong"]).exits(0);
    env.apply();
    has(&server, "192.0.2.1 192.0.2.2 192.0.2.4");
    env.run(&["resume", "--source", "other"]).exits(0);
    env.apply();
    has(&server, "192.0.2.1 192.0.2.2 192.0.2.5");
}

#[test]
fn a_source_that_is_forgotten_takes_nothing_of_others_along() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &own(1, ""));
    let config = other_source(&env);
    push_other(&env, &added(4, "").replace("name: app", "name: own").replace(", merge: true", ""));
    let daemon = Daemon::start(&env);
    env.run(&["sync", "--wait"]).exits(0);
    daemon.stop();
    env.write("config.yaml", &config);
    let daemon = Daemon::ready(&env);
    env.run(&["forget", "--source", "other", "--yes"]).exits(0);
    // What shared nothing with it is tracked again at once, and goes with its declaration.
    let is_tracked = || env.sql("SELECT count(*) FROM inventory WHERE id LIKE 'app.%'") == "1";
    wait_for("what is declared by the other", is_tracked);
    daemon.stop();
}
