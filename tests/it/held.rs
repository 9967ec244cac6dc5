//! What is held and waits while other commits come: whose it is, and who is told of it.

use crate::{
    env::{Env, Output, zone},
    running::{Daemon, wait_for},
};
use serde_json::Value;
use std::fs;

const ZONE: &str = "example.com";
const TEAM: &str = "team.example.com";
const LIMITS: &str = "nameservers: [ns1.example.net.], guard: {maxDeletes: 2, maxDeletePercent: 100}";

fn records(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{{name: h{n}, type: A, values: [192.0.2.{n}]}}")).collect()
}

fn zone_of(name: &str, count: usize) -> String {
    let records = records(count);
    zone(name, "zones", &records.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A desk with a narrow guard.
fn desk() -> Env {
    let env = Env::new();
    fs::create_dir(env.path("zones")).unwrap();
    let directory = env.path("zones");
    env.config(&format!("  - {{name: zones, type: zonefile, directory: {}, {LIMITS}}}", directory.display()));
    env
}

/// Commits what lies in the working copy as `author` and pushes.
fn commit(env: &Env, author: &str) -> String {
    env.git(&["add", "-A"]);
    let author = format!("{author} <{author}@example.com>");
    env.git(&["commit", "-q", "--allow-empty", "-m", "change", "--author", &author]);
    env.git(&["push", "-q", "origin", "HEAD:main"]);
    env.git(&["rev-parse", "HEAD"])
}

fn sync(env: &Env) -> Output {
    env.run(&["sync", "--wait", "--timeout", "60s"])
}

fn json(env: &Env, args: &[&str]) -> Value {
    let output = env.run(args);
    serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}", output.all()))
}

/// The digest of the only hold.
fn digest(env: &Env) -> String {
    let all = json(env, &["approvals", "-o", "json"]);
    let [one] = &all["holds"].as_array().unwrap_or_else(|| all.as_array().expect("a list"))[..] else {
        panic!("{all:#}")
    };
    one["digest"].as_str().unwrap().to_owned()
}

/// A host on which more than two updates are held, with more of its configuration.
fn narrow_host(more: &str) -> Env {
    let env = Env::host("");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let (before, after) = config.split_once("guard: {").unwrap();
    let (_, after) = after.split_once('}').unwrap();
    let guard = "guard: {maxUpdates: 2, maxUpdatePercent: 100}";
    env.write(
        "config.yaml",
        &format!("{before}{guard}{after}{}", more.replace("ENV", &env.path("").to_string_lossy())),
    );
    env
}

fn file(name: &str, content: &str) -> String {
    format!(
        "apiVersion: local/v1\nkind: File\nmetadata: {{name: {name}}}\nspec: {{path: /etc/{name}, content: {content}}}\n---\n"
    )
}

#[test]
fn what_depends_on_something_held_is_repaired_all_the_same() {
    let env = narrow_host("");
    let all = |content: &str| {
        let plain: String = ["a", "b", "c"].iter().map(|name| file(name, content)).collect();
        let annotations = "{name: d, annotations: {reconciled/depends-on: File/a}}";
        plain + &file("d", "z").replace("{name: d}", annotations)
    };
    env.push("all.yaml", &all("x"));
    env.run(&["apply", "--yes"]).exits(0);
    env.push("all.yaml", &all("y"));
    env.run(&["apply", "--yes"]).exits(3).says(&["3 updates, limit 2"]);
    let held = digest(&env);
    env.write("machine/etc/d", "by hand");
    env.run(&["plan"]).says(&["~ File/d", "drift"]).hides(&["waits until"]);
    env.run(&["apply", "--yes"]).exits(3).says(&["1 updated"]);
    assert_eq!(fs::read_to_string(env.path("machine/etc/d")).unwrap(), "z");
    assert_eq!(digest(&env), held);
}

#[test]
fn a_secret_that_is_rotated_goes_on_beside_a_hold_and_leaves_its_digest_as_it_is() {
    let env = narrow_host("secrets: {t: {file: ENV/token}}\n");
    let all = |content: &str| {
        let plain: String = ["a", "b", "c"].iter().map(|name| file(name, content)).collect();
        plain + &file("s", "{secret: t}")
    };
    env.write("token", "one");
    env.push("all.yaml", &all("x"));
    env.run(&["apply", "--yes"]).exits(0);
    env.push("all.yaml", &all("y"));
    env.run(&["apply", "--yes"]).exits(3).says(&["3 updates, limit 2"]);
    let held = digest(&env);

    env.write("token", "two");
    env.run(&["plan"]).says(&["3 updates, limit 2", &held[..8]]);
    env.run(&["apply", "--yes"]).exits(3).says(&["1 updated"]);
    let text = |name: &str| fs::read_to_string(env.path(&format!("machine/etc/{name}"))).unwrap();
    assert_eq!((text("s"), text("a")), ("two".into(), "x".into()));
    assert_eq!(digest(&env), held);

    // Consent that was given before the next one is rotated still counts.
    env.run(&["approve", &held, "--reason", "meant"]).exits(0);
    env.write("token", "three");
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!((text("s"), text("a")), ("three".into(), "y".into()));
}

#[test]
fn a_held_plan_stays_one_of_its_own_commit_whatever_follows() {
    let env = desk();
    env.write("work/zone.yaml", &zone_of(ZONE, 8));
    commit(&env, "ann");
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    env.write("work/zone.yaml", &zone_of(ZONE, 2));
    let less = commit(&env, "ann");
    sync(&env).exits(3);
    env.write("work/other.yaml", &zone_of("example.net", 1));
    let other = commit(&env, "bob");
    sync(&env).exits(3);
    let empty = commit(&env, "bob");
    sync(&env).exits(3);
    let plan = env.run(&["plan"]).exits(3);
    let plan = plan.says(&[&format!("commit {}", &less[..7])]);
    plan.hides(&[&format!("commit {}", &other[..7]), &format!("commit {}", &empty[..7])]);
    let status = json(&env, &["status", "-o", "json"]);
    assert_eq!(status["holds"][0]["revision"], less[..7], "{status:#}");
    let digest = status["holds"][0]["digest"].as_str().unwrap();
    env.run(&["approve", digest, "--reason", "meant"]).exits(0);
    wait_for("it is done", || env.zone_rrsets(ZONE).len() == 2);
    let shown = json(&env, &["history", "Zone/example.com#h7/A", "-o", "json"]);
    let gone = &shown[0];
    assert_eq!((&gone["kind"], &gone["revision"]), (&"delete".into(), &less[..7].into()), "{shown:#}");
    assert!(gone["author"].as_str().unwrap().contains("ann@"), "{shown:#}");
    assert_eq!(gone["approvalReason"], "meant", "{shown:#}");
    daemon.stop();
}

#[test]
fn a_hold_has_the_revision_of_its_own_source_and_is_consented_to_as_that_allows() {
    let env = desk();
    env.git_in(".", &["init", "-q", "--bare", "-b", "main", "team.git"]);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let (first, rest) = config.split_once("providers:").unwrap();
    let first = first.replace("repo.git}", "repo.git, allow: all, approve: [socket, trailer]}");
    let team = format!("  - {{name: team, url: {}, allow: all}}\n", env.path("team.git").display());
    env.write("config.yaml", &format!("{first}{team}providers:{rest}"));
    env.write("work/zone.yaml", &zone_of(ZONE, 8));
    commit(&env, "ann");
    env.git_in(".", &["init", "-q", "-b", "main", "theirs"]);
    let commit_theirs = |count: usize| {
        env.write("theirs/zone.yaml", &zone_of(TEAM, count));
        env.git_in("theirs", &["add", "-A"]);
        env.git_in("theirs", &["commit", "-q", "-m", "of the team"]);
        env.git_in("theirs", &["push", "-q", "../team.git", "HEAD:main"]);
        env.git_in("theirs", &["rev-parse", "HEAD"])
    };
    commit_theirs(8);
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    env.write("work/zone.yaml", &zone_of(ZONE, 2));
    let (ours, theirs) = (commit(&env, "ann"), commit_theirs(2));
    sync(&env).exits(3);
    let status = json(&env, &["status", "-o", "json"]);
    let hold = |domain: &str| {
        let holds = status["holds"].as_array().unwrap();
        holds.iter().find(|hold| hold["domain"] == *domain).unwrap_or_else(|| panic!("{status:#}")).clone()
    };
    let (of_infra, of_team) = (hold("zones/example.com"), hold("zones/team.example.com"));
    assert_eq!((&of_infra["revision"], &of_team["revision"]), (&ours[..7].into(), &theirs[..7].into()));
    // Only infra lets a trailer consent.
    let trailer = |hold: &Value| format!("Reconciled-Approve: {}", hold["digest"].as_str().unwrap());
    env.run(&["plan"]).exits(3).says(&[&trailer(&of_infra)]).hides(&[&trailer(&of_team)]);
    env.run(&["approve", of_team["digest"].as_str().unwrap(), "--reason", "meant"]).exits(0);
    wait_for("it is done", || env.zone_rrsets(TEAM).len() == 2);
    let events = json(&env, &["events", "-o", "json"]);
    let told = |kind: &str| {
        let events = events.as_array().unwrap();
        let of_team = |event: &&Value| {
            event["kind"] == kind && event["message"].as_str().unwrap().contains("zones/team.example.com")
        };
        events.iter().find(of_team).unwrap_or_else(|| panic!("no {kind} in {events:#?}"))["revision"].clone()
    };
    assert_eq!((told("hold"), told("consented")), (theirs[..7].into(), theirs[..7].into()));
    daemon.stop();
}

#[test]
fn a_change_that_is_too_large_goes_on_in_no_slices() {
    let env = desk();
    env.write("work/zone.yaml", &zone_of(ZONE, 8));
    commit(&env, "ann");
    env.apply();
    let records = env.zone_rrsets(ZONE).len();
    env.write(
        "work/zone.yaml",
        &format!("{}    - {{name: new, type: A, values: [192.0.2.99]}}\n", zone_of(ZONE, 5)),
    );
    commit(&env, "ann");
    env.run(&["apply", "--yes"]).exits(3).says(&["3 deletes, limit 2 (guard.maxDeletes)"]);
    env.run(&["suspend", "Zone/example.com#h7/A", "--reason", "careful"]).exits(0);
    let more = "3 deletes with 1 that are suspended, not asked for or in what cannot be read, limit 2";
    env.run(&["apply", "--yes"]).exits(3).says(&[more, "h7/A"]);
    env.run(&["resume", "Zone/example.com#h7/A"]).exits(0);
    for name in ["h6", "h7"] {
        let target = format!("Zone/example.com#{name}/A");
        let refused = env.run(&["apply", "--yes", "--target", &target]).exits(3);
        refused.says(&["3 deletes with 2 that are suspended, not asked for or in what cannot be read"]);
    }
    assert_eq!(env.zone_rrsets(ZONE).len(), records, "nothing was deleted");
    // What is no part of it goes on, also by itself.
    env.run(&["apply", "--yes", "--target", "Zone/example.com#new/A"]).exits(0);
    assert_eq!(env.zone_rrsets(ZONE).len(), records + 1);
    // A part can be consented to.
    let target = ["--target", "Zone/example.com#h7/A"];
    let plan = json(&env, &[&["plan", "-o", "json"], &target[..]].concat());
    let digest = plan["domains"][0]["digest"].as_str().unwrap();
    env.run(&["approve", digest, "--reason", "this one"]).exits(0);
    env.run(&[&["apply", "--yes"], &target[..]].concat()).exits(0);
    assert_eq!(env.zone_rrsets(ZONE).len(), records);
}

#[test]
fn what_was_not_asked_for_is_held_and_stalled_as_before() {
    let env = desk();
    env.push("zone.yaml", &zone_of(ZONE, 5));
    env.apply();
    env.run(&["forget", "Zone/example.com#h0/A"]).exits(0);
    env.push("zone.yaml", &zone_of(ZONE, 2));
    env.run(&["apply", "--yes"]).exits(3).says(&["3 deletes"]);
    let told = ["3 to delete", "Zone/example.com#h0/A  Conflict"];
    env.run(&["status", "--exit-code"]).exits(3).says(&told);
    for part in [["--target", "Zone/example.com#h1/A"], ["-l", "team=none"]] {
        env.run(&[&["apply", "--yes"], &part[..]].concat()).exits(0);
        env.run(&["status", "--exit-code"]).exits(3).says(&told);
    }
    // Nor does a folder end it, which knows nothing of what is held and stalled.
    env.write("folder/zone.yaml", &zone(ZONE, "zones", &["{name: more, type: A, values: [192.0.2.99]}"]));
    env.run(&["apply", "--yes", "--dir", "folder"]).exits(0).says(&["1 created"]);
    env.run(&["status", "--exit-code"]).exits(3).says(&told);
    // All of it is asked for again, and nothing of it is wanted any more.
    env.push("zone.yaml", &zone_of(ZONE, 5));
    env.run(&["apply", "--yes"]).exits(3);
    env.run(&["status"]).exits(0).says(&told[1..]).hides(&["to delete"]);
}

#[test]
fn what_was_not_asked_for_of_a_host_is_held_as_before_whatever_is_done_and_consented_to_besides() {
    let env = narrow_host("");
    let all = |content: &str| ["a", "b", "c", "d", "e"].map(|name| file(name, content)).concat();
    env.push("all.yaml", &all("x"));
    env.run(&["apply", "--yes"]).exits(0);
    env.push("all.yaml", &format!("{}{}", all("y"), file("new", "z")));
    env.run(&["apply", "--yes"]).exits(3).says(&["5 updates, limit 2"]);
    let held = digest(&env);
    let run = |verb: &[&str], name: &str| {
        let target = format!("File/{name}");
        env.run(&[verb, &["--target", &*target]].concat())
    };
    // It is written in one round, and looked at by itself in the next one.
    run(&["apply", "--yes"], "new").exits(0).says(&["1 created"]);
    assert_eq!(digest(&env), held);
    // What is held of a part takes not the place of what is held of all.
    run(&["apply", "--yes"], "a").exits(3).says(&["reconciled approve"]);
    assert_eq!(digest(&env), held);
    // Consent to a part is none to the rest.
    let plan: Value = serde_json::from_str(&run(&["plan", "-o", "json"], "a").stdout).unwrap();
    let part = plan["domains"][0]["digest"].as_str().unwrap();
    assert_ne!(part, held);
    env.run(&["approve", part, "--reason", "this one"]).exits(0);
    run(&["apply", "--yes"], "a").exits(0).says(&["1 updated"]);
    assert_eq!(fs::read_to_string(env.path("machine/etc/a")).unwrap(), "y");
    assert_eq!(digest(&env), held);
    // All of it is asked for again.
    env.run(&["apply", "--yes"]).exits(3).says(&["4 updates, limit 2"]);
    let held = digest(&env);
    env.run(&["approve", &held, "--reason", "wanted"]).exits(0);
    env.run(&["apply", "--yes"]).exits(0).says(&["4 updated"]);
    env.run(&["approvals"]).exits(0).hides(&["4 updates"]);
}

#[test]
fn a_broken_file_lets_no_part_of_a_held_change_go_on() {
    let env = desk();
    let zone_of =
        |address: &str| zone(ZONE, "zones", &[&format!("{{name: \"@\", type: A, values: [{address}]}}")]);
    let set_of = |names: &[&str]| {
        let one = |name: &&str| format!("    - {{name: {name}, type: A, values: [192.0.2.1]}}\n");
        let records: String = names.iter().map(one).collect();
        format!(
            "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: set}}\nspec:\n  zone: {ZONE}\n  records:\n{records}"
        )
    };
    env.write("work/zone.yaml", &zone_of("192.0.2.1"));
    env.push("set.yaml", &set_of(&["a", "b", "c", "d"]));
    env.apply();
    let before = env.zone_rrsets(ZONE);
    // One is changed, and three are to go: more than two.
    env.write("work/zone.yaml", &zone_of("192.0.2.2"));
    env.push("set.yaml", &set_of(&["a"]));
    env.run(&["apply", "--yes"]).exits(3).says(&["3 deletes"]);
    let held = digest(&env);
    let set = set_of(&["a"]);
    for (file, text) in [("set.yaml", format!("{set}x: [")), ("other.yaml", "x: [".into())] {
        env.push(file, &text);
        env.run(&["plan"]).says(&["HELD", "frozen and may be a part of what was held before"]);
        env.run(&["apply", "--yes"]).says(&["HELD", "FROZEN"]);
        assert_eq!(env.zone_rrsets(ZONE), before, "{file}");
    }
    // A person's word is for what is held, and ends that.
    let part = digest(&env);
    assert_ne!(part, held);
    // Nothing of it is left that could be done: it is held all the same until it can be read.
    env.push("zone.yaml", "x: [");
    env.run(&["apply", "--yes"]).exits(1);
    env.push("zone.yaml", &zone_of("192.0.2.2"));
    env.run(&["apply", "--yes"]).says(&["HELD", "FROZEN"]);
    assert_eq!(env.zone_rrsets(ZONE), before);
    // What a person consents to goes on, and so does all of it once it can be read.
    env.write("work/set.yaml", &set);
    env.push_without("other.yaml");
    env.run(&["apply", "--yes"]).exits(3).says(&["3 deletes"]);
    assert_eq!(digest(&env), held);
    env.run(&["approve", &held, "--reason", "wanted"]).exits(0);
    env.run(&["apply", "--yes"]).exits(0).says(&["1 updated, 0 replaced, 3 deleted"]);
    // Mended by taking it back, nothing is held any more.
    env.push("set.yaml", &set_of(&["a", "b", "c", "d"]));
    env.apply();
    env.push("set.yaml", &set_of(&["a"]));
    env.run(&["apply", "--yes"]).exits(3);
    env.push("other.yaml", "x: [");
    env.run(&["apply", "--yes"]).says(&["FROZEN"]);
    env.write("work/set.yaml", &set_of(&["a", "b", "c", "d"]));
    env.push_without("other.yaml");
    env.apply();
    env.run(&["approvals"]).exits(0).hides(&["3 deletes"]);
}
