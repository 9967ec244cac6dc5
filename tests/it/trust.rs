//! What must not be taken on trust the second time: found by review, kept by these tests.

use crate::{
    env::{Env, WIDE_GUARD, rrsets, zone},
    pdns::Pdns,
};
use reconciled::failpoint::VARIABLE;
use std::fs;

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

#[test]
fn a_changed_path_stays_held_however_often_apply_is_said() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("all/zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.push("prod/zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let entry = env.pdns_entry(&server.url, WIDE_GUARD);
    env.config_with("one", &entry, ", path: all");
    env.apply();
    env.config_with("one", &entry, ", path: prod");
    for _ in 0..2 {
        env.run(&["apply", "--yes"]).exits(3).says(&["path"]);
        assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]));
    }
}

#[test]
fn drift_that_is_only_warned_of_stays_in_the_plan() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let entry = env.pdns_entry(&server.url, WIDE_GUARD);
    env.config_with("one", &entry, ", drift: warn");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    env.in_sync();
    server.set(ZONE, "www", "A", "203.0.113.9");
    env.run(&["apply", "--yes"]).exits(3).says(&["www/A"]);
    for _ in 0..2 {
        env.run(&["plan"]).exits(3).says(&["www/A", "drift"]).hides(&["No changes. 3 resources in sync."]);
    }
}

#[test]
fn a_version_seen_by_a_targeted_apply_hides_no_drift_elsewhere() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    server.set(ZONE, "www", "A", "203.0.113.9");
    env.run(&["apply", "--yes", "--target", "Zone/example.com#mail/A"]).exits(0);
    env.run(&["plan", "--detailed-exitcode"]).exits(2).says(&["www/A", "drift"]);
}

#[test]
fn what_is_forgotten_after_a_crash_is_not_taken_back_by_the_open_intent() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    env.apply();
    let changed = "{name: www, type: A, values: [192.0.2.66]}";
    env.push("zone.yaml", &zone(ZONE, "zones", &[changed, MAIL]));
    // Killed once the zone is written, before the outcome is: the journal asks what became of it.
    let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, "store.end.before")]);
    assert_eq!(died.signal, Some(9), "{}", died.all());
    assert_eq!(env.sql("SELECT count(*) FROM journal WHERE ended < total"), "1");
    env.run(&["forget", "Zone/example.com#www/A", "--yes"]).exits(0);
    env.run(&["apply", "--yes"]).exits(3).says(&["Zone/example.com#www/A", "it was forgotten"]);
    assert_eq!(env.sql("SELECT count(*) FROM inventory WHERE id LIKE 'www.%'"), "0");
    // Not ours any more, so it does not go with its declaration.
    env.push("zone.yaml", &zone(ZONE, "zones", &[MAIL]));
    env.apply();
    assert!(env.zone_rrsets(ZONE).contains_key("www A"), "{:?}", env.zone_rrsets(ZONE));
}

/// A desk with two sources, `one` and `two`, which are folders of one repository.
fn two_sources() -> Env {
    let env = Env::zonefile();
    env.push_all();
    two_sources_in_order(&env, ["one", "two"]);
    env
}

fn two_sources_in_order(env: &Env, names: [&str; 2]) {
    let (state, repo, zones) = (env.path("state"), env.path("repo.git"), env.path("zones"));
    let mut text = format!("instance: it\nstateDir: {}\nsources:\n", state.display());
    for name in names {
        let repo = repo.display();
        text += &format!("  - {{name: {name}, url: {repo}, path: {name}, allow: all}}\n");
    }
    let zones = zones.display();
    text += &format!(
        "providers:\n  - {{name: zones, type: zonefile, directory: {zones}, nameservers: [ns1.example.net.], {WIDE_GUARD}}}\n"
    );
    env.write("config.yaml", &text);
}

fn record_set(name: &str, records: &[&str]) -> String {
    format!(
        "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: {name}}}\nspec:\n  zone: {ZONE}\n  ttl: 300\n  records: [{}]\n",
        records.join(", ")
    )
}

#[test]
fn what_another_source_takes_over_is_no_deletion_where_one_source_is_selected() {
    let env = two_sources();
    env.push("one/zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    env.push("two/set.yaml", &record_set("two", &["{name: new, type: A, values: [192.0.2.3]}"]));
    env.apply();
    // `mail` leaves `one` and is declared by `two` in the same commit.
    env.write("work/one/zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.push("two/set.yaml", &record_set("two", &["{name: new, type: A, values: [192.0.2.3]}", MAIL]));
    env.run(&["plan", "--source", "one"]).exits(0).hides(&["delete"]);
    env.run(&["apply", "--yes", "--source", "one"]).exits(0);
    assert!(env.zone_rrsets(ZONE).contains_key("mail A"), "{:?}", env.zone_rrsets(ZONE));
    env.apply();
    let owner = "SELECT substr(manifest, 1, 3) FROM inventory WHERE id LIKE 'mail.%'";
    assert_eq!(env.sql(owner), "two");
    env.in_sync();
}

#[test]
fn a_folder_in_place_of_a_repository_does_not_open_the_way_for_a_rewind() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    env.run(&["apply", "--yes", "--dir", "work", "--source", "infra"]).exits(0);
    env.write("work/zone.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.66]}"]));
    env.git(&["commit", "-q", "-a", "--amend", "-m", "rewritten"]);
    env.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    env.run(&["apply", "--yes"]).exits(1).says(&["rewound", "--accept-rewind"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
}

#[test]
fn a_folder_in_place_of_a_repository_does_not_confirm_a_changed_path() {
    let env = Env::zonefile();
    env.push("all/zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    env.push("prod/zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let entry = format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {WIDE_GUARD}}}",
        env.path("zones").display()
    );
    env.config_with("it", &entry, ", path: all");
    env.apply();
    env.config_with("it", &entry, ", path: prod");
    // The folder declares both, so nothing of it is held; the repository's change of path is not consented to.
    env.write("folder/prod/zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    env.run(&["apply", "--yes", "--dir", "folder", "--source", "infra"]).exits(0);
    env.run(&["apply", "--yes"]).exits(3).says(&["path"]);
    assert!(env.zone_rrsets(ZONE).contains_key("mail A"));
}

#[test]
fn the_whole_digest_of_a_plan_is_consent_before_anything_was_held() {
    let env = Env::zonefile();
    let records: Vec<String> =
        (0..9).map(|n| format!("{{name: n{n}, type: A, values: [192.0.2.{n}]}}")).collect();
    let all: Vec<&str> = records.iter().map(String::as_str).collect();
    env.push("zone.yaml", &zone(ZONE, "zones", &all));
    let directory = env.path("zones");
    env.config(&format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.]}}",
        directory.display()
    ));
    env.apply();
    env.push("zone.yaml", &zone(ZONE, "zones", &all[..1]));
    let plan = env.run(&["plan", "-o", "json"]).exits(3);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
    let digest = plan["domains"][0]["digest"].as_str().unwrap();
    assert_eq!((digest.len(), env.sql("SELECT count(*) FROM hold").as_str()), (32, "0"));
    // A part of it means a recorded hold, and there is none.
    env.run(&["approve", &digest[..8], "--reason", "planned"]).exits(1).says(&["hint:"]);
    env.run(&["approve", digest, "--reason", "planned"]).exits(0);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE).len(), 1);
}

#[test]
fn the_source_that_has_a_record_keeps_it_whatever_the_order_of_the_configuration() {
    let env = two_sources();
    env.push("one/zone.yaml", &zone(ZONE, "zones", &[MAIL]));
    env.push("two/set.yaml", &record_set("two", &[WWW]));
    env.apply();
    // `one` comes first in the configuration, and declares what `two` has.
    let other = "{name: www, type: A, values: [192.0.2.66]}";
    env.push("one/zone.yaml", &zone(ZONE, "zones", &[MAIL, other]));
    for order in [["one", "two"], ["two", "one"]] {
        two_sources_in_order(&env, order);
        env.run(&["apply", "--yes"]).exits(1).says(&[
            "Zone/example.com#www/A in zones/example.com belongs to source `two`, which declares it too",
            "--> one/zone.yaml:9\n",
            "--> two/set.yaml:7 of source `two` keeps it",
            "hint: remove one; `two` tracks it",
        ]);
        assert_eq!(env.zone_rrsets(ZONE)["www A"], "300 192.0.2.1");
    }
    // It lets go: then it is a hand-over.
    env.push("two/set.yaml", &record_set("two", &["{name: new, type: A, values: [192.0.2.3]}"]));
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE)["www A"], "300 192.0.2.66");
    env.in_sync();
}

#[test]
fn what_an_invalid_file_declared_is_shown_as_frozen_and_not_as_in_sync() {
    let env = Env::zonefile();
    env.push("a.yaml", &zone(ZONE, "zones", &[WWW]));
    env.push("b.yaml", &zone("example.org", "zones", &[WWW, MAIL]));
    env.apply();
    env.push("b.yaml", "kind: [");
    for verb in [&["plan"][..], &["apply", "--yes"]] {
        env.run(verb).exits(1).says(&[
            "--> b.yaml:1:",
            "FROZEN: not changed, restored or deleted",
            "source infra  3 of Zone/example.org: files with errors may still declare it: b.yaml",
            "No changes. 2 resources in sync, 3 frozen.",
        ]);
    }
}

#[test]
fn a_source_is_not_called_like_a_folder_without_a_name() {
    let env = Env::zonefile();
    let repo = env.path("repo.git");
    env.write("config.yaml", &format!("sources:\n  - {{name: dir, url: {}}}\n", repo.display()));
    env.run(&["check"]).exits(1).says(&[
        "DIR/config.yaml:2:5: `dir` is reserved for a source",
        "hint: it is what a folder without a source is called (`--dir`); choose another name",
    ]);
}

#[test]
fn check_says_answers_only_of_what_was_asked() {
    let env = Env::new();
    env.write("token", "canary");
    let away = env.path("away");
    let (token, away) = (env.path("token"), away.display().to_string());
    // A tree with the names of this machine's users and nobody in it.
    let tree = env.path("tree");
    env.write("tree/etc/passwd", &fs::read_to_string("/etc/passwd").unwrap());
    env.config(&format!(
        "  - {{name: cf, type: cloudflare, url: \"http://127.0.0.1:1\", token: {{file: {0}}}}}
  - {{name: hook, type: webhook, url: \"http://127.0.0.1:1\"}}
  - {{name: zones, type: zonefile, directory: {away}}}
  - {{name: host, type: host, root: {away}, paths: [/etc]}}
  - {{name: bus, type: host, root: {1}, bus: user, paths: [/srv]}}
  - {{name: helper, type: host, helper: {away}/hostd.sock, paths: [/opt]}}
backup: {{dir: /proc/backups}}
audit: {{export: {away}/audit.jsonl}}
telemetry: {{otlp: \"http://127.0.0.1:4317\"}}
notify: [{{name: ops, type: slack, url: {{file: {away}}}, on: [degraded]}}]",
        token.display(),
        tree.display()
    ));
    env.push("zone.yaml", "");
    env.run(&["check"])
        .exits(1)
        .says(&[
            "FAIL  provider cf:",
            "FAIL  provider hook:",
            "FAIL  provider zones:",
            "FAIL  provider host: list",
            "FAIL  provider bus: reach systemd at unix:path=",
            "FAIL  provider helper: ask the helper at",
            "FAIL  backup: write to /proc/backups",
            "FAIL  audit.export:",
            "warn  telemetry.otlp: http://127.0.0.1:4317/ does not take spans, by OTLP over gRPC: 127.0.0.1: connect:",
            "FAIL  receiver ops url",
        ])
        .hides(&["answers in", "canary"]);
}

#[test]
fn a_clock_that_was_ahead_keeps_nothing_from_being_healed_once_it_is_right() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.apply();
    // As if the clock had been two hours ahead until now, at a write and at one that was cut off.
    let ahead = "written_at = written_at + 7200000";
    env.sql(&format!("UPDATE inventory SET {ahead}; UPDATE inventory_stamp SET stamp = stamp + 1"));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, "store.start.after")]);
    assert_eq!(died.signal, Some(9), "{}", died.all());
    env.sql("UPDATE journal SET started_at = started_at + 7200000 WHERE ended < total");
    server.unset(ZONE, "www", "A");
    env.run(&["plan", "--detailed-exitcode"]).exits(2).says(&["2 to create"]).hides(&["not yet visible"]);
    env.apply();
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]));
    env.in_sync();
}
