//! Values of one manifest in another.

use crate::{
    env::{Env, rrsets, zone},
    pdns::Pdns,
    running::Daemon,
    terraform::{desk, entry, state, thing, things},
};
use std::fs;

const ZONE: &str = "example.com";
const MIRROR: &str = "apiVersion: dns/v1
kind: RecordSet
metadata: {name: mirror}
spec:
  zone: example.com
  records:
    - {name: mirror, type: A, values: [\"${Zone/example.com:spec.records[name=www,type=A].values[0]}\"]}
";

fn www(value: &str) -> String {
    zone(ZONE, "pdns", &[&format!("{{name: www, type: A, values: [{value}]}}")])
}

#[test]
fn a_folder_without_a_source_knows_the_outputs_of_what_is_tracked() {
    let env = desk("");
    let second =
        |keys: &str| thing("b", "", &format!("name: b, content: \"of ${{Thing/a:status.id}}\"{keys}"));
    let first = thing("a", "", "name: a");
    env.push("a.yaml", &format!("{first}{}", second("")));
    env.apply();
    let told = env.run(&["plan", "--dir", "work", "--detailed-exitcode"]).exits(0);
    told.says(&["No changes"]).hides(&["WaitingForOutput"]);
    env.write("work/a.yaml", &format!("{first}{}", second(", level: 7")));
    env.run(&["plan", "--dir", "work"]).exits(0).says(&["level: 3 → 7"]).hides(&["content", "known after"]);
    env.run(&["apply", "--dir", "work", "--yes"]).exits(0).says(&["1 updated"]);
    let b = state(&env, "thing-2.json");
    assert_eq!((b["content"].as_str(), b["level"].as_i64()), (Some("of thing-1"), Some(7)));
}

#[test]
fn what_the_hosts_configuration_changes_is_nobodys_commit() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let configure = |address: &str| {
        let vars = format!("repo.git, vars: {{address: {address}}}}}");
        env.write("config.yaml", &config.replace("repo.git}", &vars));
    };
    let www = |ttl: u16| {
        let record = format!("{{name: www, type: A, ttl: {ttl}, values: [\"${{vars.address}}\"]}}");
        zone(ZONE, "zones", &[&record])
    };
    configure("192.0.2.1");
    env.push("zone.yaml", &www(300));
    env.apply();
    // Another commit is in force by the time that it is changed.
    env.push("README.md", "words\n");
    env.apply();
    // The second time, this commit is what it was written for last.
    for address in ["192.0.2.2", "192.0.2.3"] {
        configure(address);
        env.run(&["plan"]).exits(0).says(&["www/A", "configuration"]).hides(&["commit"]);
        env.run(&["explain", "Zone/example.com#www/A"]).exits(0).says(&["update (configuration)"]);
        env.apply();
        env.run(&["status", "Zone/example.com#www/A", "-o", "json"])
            .exits(0)
            .says(&["InSync"])
            .hides(&["OutOfDate"]);
        let told = env.run(&["history", "Zone/example.com#www/A", "-o", "json"]).exits(0);
        let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!(
            (&told[0]["kind"], &told[0]["reason"]),
            (&"update".into(), &"configuration".into()),
            "{told:#}"
        );
        assert!(told[0]["author"].is_null(), "{told:#}");
        assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", &format!("300 {address}"))]));
    }
    let sha = env.push("zone.yaml", &www(600));
    env.run(&["plan"]).exits(0).says(&[&format!("commit {}", &sha[..7])]).hides(&["configuration"]);
}

#[test]
fn who_changes_a_value_changes_what_refers_to_it() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.write("work/mirror.yaml", MIRROR);
    env.push("zone.yaml", &www("192.0.2.1"));
    env.run(&["plan", "--detailed-exitcode"])
        .exits(2)
        .says(&["mirror/A", "192.0.2.1"])
        .hides(&["known after"]);
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mirror A", "300 192.0.2.1")]));
    env.push("zone.yaml", &www("192.0.2.2"));
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0).says(&["2 updated"]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.2"), ("mirror A", "300 192.0.2.2")]));
    env.run(&["history"]).exits(0).says(&["mirror/A"]);
    daemon.stop();
    env.in_sync();
}

#[test]
fn what_is_never_put_out_is_not_waited_for_without_a_word() {
    let env = Env::host("");
    let file = |name: &str, content: &str| {
        format!(
            "apiVersion: local/v1\nkind: File\nmetadata: {{name: {name}}}\nspec: {{path: /etc/{name}, template: true, content: \"{content}\"}}\n"
        )
    };
    env.write("work/motd.yaml", &file("motd", "hello"));
    let first = env.push("other.yaml", &file("other", "{{ ref('File/motd:status.serial') }}"));
    let told =
        ["File/motd is in sync and puts out no `serial`", "what its manifest says is ${File/motd:spec.NAME}"];
    // Until it is made, nobody knows.
    env.run(&["plan"]).exits(0).says(&["waiting: for an output of File/motd"]).hides(&told);
    env.run(&["apply", "--yes"]).exits(3).says(&told);
    env.run(&["plan"])
        .exits(3)
        .says(&["warning: File/motd puts out no `serial`", "other.yaml:4:"])
        .says(&told);
    env.run(&["status"]).exits(0).says(&told);
    env.run(&["explain", "File/other"]).exits(0).says(&told);
    env.push("other.yaml", &file("other", "{{ ref('File/motd:spec.content') }}"));
    env.apply();
    env.in_sync();
    // Nor where it is rolled back to that, and nobody else refers to it.
    env.run(&["rollback", first.trim(), "--reason", "it is down"]).exits(0);
    env.run(&["plan"]).exits(3).says(&told);
}

#[test]
fn what_is_not_there_is_told_with_what_is() {
    let env = Env::zonefile();
    env.write("work/mirror.yaml", &MIRROR.replace("name=www", "name=wwww"));
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.run(&["plan"]).exits(1).says(&[
        "error: Zone/example.com has no `[name=wwww,type=A]` in `spec.records`",
        "mirror.yaml:7:",
        "only what is written in the manifest can be referred to",
    ]);
}

#[test]
fn what_moves_to_another_entry_is_followed_and_then_goes_from_the_one_it_was_at() {
    let env = desk("");
    fs::create_dir(env.path("there")).unwrap();
    let here = entry(&env, "");
    let world = |name: &str| format!("directory: {}", env.path(name).display());
    let there = here.replace("{name: toy,", "{name: toy2,").replace(&world("world"), &world("there"));
    env.config(&format!("{here}\n{there}"));
    let all = |entry: &str| {
        let at = |entry: &str| format!("reconciled/provider: {entry}");
        let follower = thing("b", &at("toy"), "name: b, content: \"of ${Thing/a:status.id}\"");
        // Its id is the one that the first has at the other entry.
        let other = thing("k", &at("toy2"), "name: k");
        [thing("a", &at(entry), "name: a"), follower, other].concat()
    };
    let first = env.push("a.yaml", &all("toy"));
    env.apply();
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json"]);
    assert_eq!(state(&env, "thing-2.json")["content"], "of thing-1");

    env.push("a.yaml", &all("toy2"));
    env.run(&["plan"]).exits(0).says(&[
        "is deleted once what Thing/a declares now is ready, since Thing/b depends on it",
        "Thing/a is made anew: 1 that follows it may be changed or made anew too, once its outputs are known: \
         Thing/b",
    ]);
    env.apply();
    assert_eq!(things(&env), ["thing-2.json"]);
    assert_eq!(state(&env, "thing-2.json")["content"], "of thing-2");
    env.in_sync();

    // Back again: what is kept at an earlier revision is followed where that had it.
    env.run(&["rollback", first.trim(), "--reason", "it was better there"]).exits(0);
    env.apply();
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json"]);
    assert_eq!(state(&env, "thing-2.json")["content"], "of thing-1");
    assert_eq!(fs::read_dir(env.path("there")).unwrap().count(), 1, "only k is left there");
    env.in_sync();
}

#[test]
fn who_refers_to_what_an_update_changes_is_told_in_its_plan() {
    let env = desk("");
    let all = |spec: &str| {
        let follower = thing("b", "", "name: \"b${Thing/a:status.size}\"");
        [thing("a", "", &format!("name: a, {spec}")), follower].concat()
    };
    env.push("a.yaml", &all("content: one"));
    env.apply();
    env.push("a.yaml", &all("content: three"));
    let told = "Thing/a is changed: 1 that follows it may be changed or made anew too, once its outputs are \
                known: Thing/b";
    env.run(&["plan"]).exits(0).says(&["1 to update, 0 to delete; 1 in sync", told]);
    env.run(&["plan", "-o", "json"]).says(&["MayFollow", told]);
    env.apply();
    assert_eq!(state(&env, "thing-2.json")["name"], "b5");
    // Nobody refers to that.
    env.push("a.yaml", &all("content: three, tags: {k: x}"));
    env.run(&["plan"]).exits(0).says(&["1 to update, 0 to delete; 1 in sync"]).hides(&["may be changed"]);
}

/// Things, which put outputs out, and zones that are files.
fn things_and_zones() -> Env {
    let env = desk("");
    fs::create_dir(env.path("zones")).unwrap();
    let (things, directory) = (entry(&env, ""), env.path("zones"));
    let zones = format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.]}}",
        directory.display()
    );
    env.config(&format!("{things}\n{zones}"));
    env.push("a.yaml", &thing("a", "", "name: www"));
    env
}

#[test]
fn a_name_that_is_an_output_is_refused_before_and_after_it_is_known() {
    let env = things_and_zones();
    let named =
        |name: &str| zone(ZONE, "zones", &[&format!("{{name: \"{name}\", type: A, values: [192.0.2.1]}}")]);
    env.push("zone.yaml", &named("${Thing/a:status.name}"));
    let refused =
        ["error: the name of a record cannot depend on an output of another manifest\n  --> zone.yaml:8:14"];
    env.run(&["plan"]).exits(1).says(&refused);
    env.run(&["apply", "--yes"]).exits(1).says(&refused).says(&["1 created"]);
    env.run(&["plan"]).exits(1).says(&refused);
    env.push("zone.yaml", &named("${Thing/a:spec.name}"));
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
}

#[test]
fn apply_says_what_is_wrong_with_a_value_that_it_made() {
    let env = things_and_zones();
    env.push("zone.yaml", &www("\"${Thing/a:status.name}\"").replace("pdns", "zones"));
    env.run(&["plan"]).exits(0);
    let expect = ["error: `www` is not an IPv4 address\n  --> zone.yaml:8:", "hint: an A record wants"];
    let told = env.run(&["apply", "--yes"]).exits(1).says(&expect);
    assert_eq!(told.stderr.matches("not an IPv4 address").count(), 1, "{}", told.stderr);
}
