//! What a manifest ignores: others may change it, and a write of the rest leaves it as it is.

use crate::{
    env::{Env, Output, rrsets, zone},
    pdns::Pdns,
};
use std::{fs, os::unix::fs::PermissionsExt};

const ZONE: &str = "example.com";

/// The only change of a plan.
fn change(output: &Output) -> serde_json::Value {
    let plan: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let changes = plan["resource_changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    changes[0]["change"].clone()
}

/// A record whose values are ignored.
fn www(ttl: u32) -> String {
    format!("{{name: www, type: A, values: [192.0.2.1], ttl: {ttl}, ignore: values}}")
}

/// A desk whose zone was made with that record.
fn made(server: &Pdns, ttl: u32) -> Env {
    let env = Env::pdns(server);
    env.push("z.yaml", &zone(ZONE, "pdns", &[&www(ttl)]));
    env.apply();
    env
}

#[test]
fn values_that_are_ignored_stay_when_the_ttl_is_written() {
    let server = Pdns::start();
    let env = made(&server, 100);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "100 192.0.2.1")]), "it is made as declared");
    server.set(ZONE, "www", "A", "192.0.2.77");
    env.run(&["plan"]).exits(0).says(&["ttl: 300 → 100"]).hides(&["192.0.2"]);
    env.apply();
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "100 192.0.2.77")]), "drift is healed without them");
    env.in_sync();
    env.run(&["history", "Zone/example.com#www/A"]).exits(0).says(&["drift-over", "healed"]);

    env.push("z.yaml", &zone(ZONE, "pdns", &[&www(200)]));
    let plan = change(&env.run(&["plan", "-o", "json"]).exits(0));
    assert_eq!(plan["after"]["values"], "192.0.2.77", "{plan}");
    assert_eq!(plan["after"]["ttl"], "200", "{plan}");
    env.run(&["plan"]).exits(0).says(&["ttl: 100 → 200"]).hides(&["192.0.2"]);
    env.apply();
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "200 192.0.2.77")]));
    env.in_sync();

    // What is not ignored any more is as declared again.
    env.push("z.yaml", &zone(ZONE, "pdns", &[&www(200).replace(", ignore: values", "")]));
    env.run(&["plan"]).exits(0).says(&["values: 192.0.2.77 → 192.0.2.1"]);
    env.apply();
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "200 192.0.2.1")]));
    env.in_sync();
}

#[test]
fn a_ttl_that_is_ignored_stays_when_values_are_written_and_goes_with_the_record() {
    let env = Env::zonefile();
    let www = |value: &str| format!("{{name: www, type: A, values: [{value}], ttl: 300, ignore: ttl}}");
    env.push("z.yaml", &zone(ZONE, "zones", &[&www("192.0.2.1")]));
    env.apply();
    let path = env.path("zones/example.com.zone");
    let text = fs::read_to_string(&path).unwrap();
    let by_hand: Vec<String> = text
        .lines()
        .map(|line| if line.contains("192.0.2.1") { line.replace("300", "45") } else { line.to_owned() })
        .collect();
    fs::write(&path, by_hand.join("\n") + "\n").unwrap();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "45 192.0.2.1")]));
    env.push("z.yaml", &zone(ZONE, "zones", &[&www("192.0.2.2")]));
    env.run(&["plan"]).exits(0).says(&["values: 192.0.2.1 → 192.0.2.2"]).hides(&["ttl:"]);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "45 192.0.2.2")]));
    env.in_sync();
    env.push("z.yaml", &zone(ZONE, "zones", &["{name: other, type: A, values: [192.0.2.3]}"]));
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("other A", "300 192.0.2.3")]));
}

#[test]
fn what_is_taken_over_keeps_what_is_ignored() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let other = "{name: other, type: A, values: [192.0.2.2]}";
    env.push("z.yaml", &zone(ZONE, "pdns", &[other]));
    env.apply();
    server.set(ZONE, "www", "A", "192.0.2.77");
    let www = "{name: www, type: A, values: [192.0.2.1], ttl: 100, ignore: values}";
    env.push("z.yaml", &zone(ZONE, "pdns", &[other, www]));
    env.run(&["apply", "--yes"]).exits(3).says(&["is not tracked (differs in ttl)"]);
    env.run(&["adopt", "Zone/example.com#www/A", "--yes"])
        .exits(0)
        .says(&["ttl: 300 → 100"])
        .hides(&["values:"]);
    env.apply();
    assert_eq!(server.rrsets(ZONE), rrsets(&[("other A", "300 192.0.2.2"), ("www A", "100 192.0.2.77")]));
    env.in_sync();
}

#[test]
fn an_approval_is_of_what_was_there_to_be_left() {
    let server = Pdns::start();
    let env = made(&server, 300);
    server.set(ZONE, "www", "A", "192.0.2.77");
    env.push("z.yaml", &zone(ZONE, "pdns", &[&www(200)]));
    env.run(&["plan", "--out", "plan.json"]).exits(0);
    server.set(ZONE, "www", "A", "192.0.2.78");
    env.run(&["apply", "plan.json"]).exits(1).says(&["the plan no longer holds"]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.78")]));
    env.apply();
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "200 192.0.2.78")]));
}

#[test]
fn the_mode_of_a_file_that_is_ignored_stays_when_its_content_is_written() {
    let env = Env::host("commands: {check: [grep, -q, o, '{file}']}\n");
    let file = |content: &str| {
        format!(
            "apiVersion: local/v1\nkind: File\nmetadata: {{name: key, annotations: {{reconciled/ignore: mode}}}}\n\
             spec: {{path: /etc/key, content: {content}, validate: check}}\n"
        )
    };
    let path = env.path("machine/etc/key");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    env.push("key.yaml", &file("one"));
    env.apply();
    assert_eq!(mode(), 0o644);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    env.in_sync();
    env.push("key.yaml", &file("two"));
    env.run(&["plan"]).exits(0).says(&["~ File/key"]).hides(&["mode"]);
    env.apply();
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode()), ("two", 0o600));
    env.in_sync();
    fs::remove_file(&path).unwrap();
    env.apply();
    assert_eq!(mode(), 0o644, "what is made anew is as declared");
}

#[test]
fn a_content_that_is_ignored_stays_when_the_mode_is_written_also_where_nobody_may_read_it() {
    let env = Env::host("");
    let file = |mode: &str| {
        format!(
            "apiVersion: local/v1\nkind: File\nmetadata: {{name: key, annotations: {{reconciled/ignore: content}}}}\n\
             spec: {{path: /etc/key, content: declared, mode: \"{mode}\"}}\n"
        )
    };
    let path = env.path("machine/etc/key");
    env.push("key.yaml", &file("0600"));
    env.apply();
    fs::write(&path, "by hand").unwrap();
    env.in_sync();
    env.push("key.yaml", &file("0640"));
    env.run(&["plan"]).exits(0).says(&["mode: 0600 → 0640"]).hides(&["content"]);
    env.apply();
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode), ("by hand", 0o640));
    env.in_sync();
    // It was written here, and is not ours for that: a copy of it stays.
    env.push("key.yaml", &file("0640").replace("key", "other"));
    env.apply();
    assert!(!path.exists());
    let copies = fs::read_dir(env.path("state/originals/host/=2Fetc=2Fkey")).unwrap();
    let kept: Vec<String> = copies.map(|copy| fs::read_to_string(copy.unwrap().path()).unwrap()).collect();
    assert!(kept.iter().any(|text| text == "by hand"), "{kept:?}");
}

#[test]
fn what_is_ignored_and_is_no_field_is_told() {
    let env = Env::host("");
    let file = |annotations: &str| {
        format!(
            "apiVersion: local/v1\nkind: File\nmetadata: {{name: a, annotations: {{{annotations}}}}}\nspec: {{path: /etc/a, content: x}}\n"
        )
    };
    env.push("a.yaml", &file("reconciled/ignore: 'mode, ownr'"));
    let told = [
        "warning: `ignore: ownr` leaves nothing as it is: a File has no field `ownr`",
        "did you mean `owner`?",
    ];
    env.run(&["plan"]).exits(0).says(&told).hides(&["`mode`"]);
    env.run(&["validate", "work"]).exits(0).says(&told);
    env.push("a.yaml", &file("reconciled/adopt: externaldns/me"));
    let told =
        ["warning: reconciled/adopt: externaldns/me means nothing for a File", "reconciled/adopt: \"true\""];
    env.run(&["plan"]).exits(0).says(&told);
    env.run(&["validate", "work"]).exits(0).says(&told);
    env.push("a.yaml", &file("reconciled/ignore: 'content,/etc/x,\"*\"'"));
    env.run(&["plan"]).exits(0).hides(&["warning"]);

    let env = Env::zonefile();
    let records = |ignore: &str| {
        zone(ZONE, "zones", &[&format!("{{name: www, type: A, values: [192.0.2.1], ignore: {ignore}}}")])
    };
    env.push("z.yaml", &records("[ttl, valeus]"));
    env.run(&["plan"]).exits(0).says(&["`ignore: valeus`", "did you mean `values`?", "z.yaml:8"]);
    env.push("z.yaml", &records("[ttl, values]"));
    env.run(&["plan"]).exits(0).hides(&["warning"]);
}

#[test]
fn a_line_that_excludes_files_and_is_wrong_lets_none_in_and_nothing_go() {
    let env = Env::host("");
    let file = |name: &str| {
        format!(
            "apiVersion: local/v1\nkind: File\nmetadata: {{name: {name}}}\nspec: {{path: /etc/{name}, content: x}}\n"
        )
    };
    env.write("work/in/b.yaml", &file("b"));
    env.push("a.yaml", &file("a"));
    env.apply();
    env.write("work/in/draft.yaml", &file("draft"));
    env.write("work/in/.reconciledignore", "[z-a]*.yaml\n");
    env.write("work/c.yaml", &file("c"));
    fs::remove_file(env.path("work/in/b.yaml")).unwrap();
    env.push_all();
    let told = [
        "`[z-a]*.yaml` is no pattern as of a .gitignore",
        "--> in/.reconciledignore:1:1",
        "no manifest in its folder or below is read",
    ];
    env.run(&["apply", "--yes"]).exits(1).says(&told).says(&["+ File/c"]).hides(&["File/draft", "- File/b"]);
    let there = |name: &str| env.path("machine/etc").join(name).exists();
    assert!(there("a") && there("b") && there("c") && !there("draft"));
    env.push("in/.reconciledignore", "draft.yaml\n");
    env.apply();
    assert!(!there("b") && !there("draft"));
}
