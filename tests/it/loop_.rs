//! The loop as an operator lives it: Git, plan, apply, drift, heal, prune, and what is never touched.

use crate::{
    env::{Env, WIDE_GUARD, rrsets, zone},
    fake::{Fake, Passed, Play, Reply, Request},
    pdns::Pdns,
    running::Daemon,
};
use std::fs;

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";
const TEXT: &str = "{name: text, type: TXT, values: [\"v=spf1 -all\"]}";

#[test]
fn a_zone_goes_from_git_to_the_server_and_is_kept_so() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL, TEXT]));

    env.run(&["plan", "--detailed-exitcode"]).exits(2).says(&["+", "www/A", "mail/A", "text/TXT"]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[]), "a plan changed the server");
    assert!(!env.path("state/state.db").exists(), "a plan made a database");

    let all = rrsets(&[
        ("www A", "300 192.0.2.1"),
        ("mail A", "300 192.0.2.2"),
        ("text TXT", "300 \"v=spf1 -all\""),
    ]);
    env.apply();
    assert_eq!(server.rrsets(ZONE), all);
    env.in_sync();

    server.set(ZONE, "www", "A", "203.0.113.9");
    server.set(ZONE, "foreign", "A", "198.51.100.1");
    env.run(&["plan", "--detailed-exitcode"])
        .exits(2)
        .says(&["~", "www/A", "drift", "1 foreign"])
        .hides(&["mail/A"]);
    env.apply();
    let mut with_foreign = all.clone();
    with_foreign.insert("foreign A".into(), "300 198.51.100.1".into());
    assert_eq!(server.rrsets(ZONE), with_foreign);

    server.unset(ZONE, "mail", "A");
    env.apply();
    assert_eq!(server.rrsets(ZONE), with_foreign);

    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, TEXT]));
    env.run(&["plan", "--detailed-exitcode"]).exits(2).says(&["-", "mail/A"]);
    env.apply();
    with_foreign.remove("mail A");
    assert_eq!(server.rrsets(ZONE), with_foreign);
    env.in_sync();
}

#[test]
fn a_second_apply_writes_nothing_to_server_or_database() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    // The pass after a write settles what it wrote.
    env.apply();
    let writes = server.writes();
    assert!(writes > 0, "the server's log does not show its requests");
    // Opening for writing raises the epoch, and that is all.
    let dump = || {
        let dump = env.sql(".dump");
        assert!(dump.contains("INTO epoch"), "{dump}");
        dump.lines().filter(|line| !line.starts_with("INSERT INTO epoch")).collect::<Vec<_>>().join(
            "
",
        )
    };
    let before = dump();
    env.apply();
    assert_eq!(server.writes(), writes);
    assert_eq!(dump(), before);
}

#[test]
fn a_change_and_a_pass_without_one_take_the_requests_that_the_docs_say() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    env.push("zone.yaml", &zone(ZONE, "pdns", &["{name: www, type: A, values: [192.0.2.3]}", MAIL]));
    let before = server.requests().len();
    env.apply();
    // A write is logged once it is done, the read that follows it may be so before.
    let mut asked = server.requests().split_off(before);
    asked.sort();
    let zone = format!("/zones/{ZONE}.");
    let get = format!("GET {zone}");
    assert_eq!(asked, ["GET /zones", &get, &get, &get, &format!("PATCH {zone}")]);
    let docs = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dns.md")).unwrap();
    assert!(docs.contains("at PowerDNS 4 + 1"), "{asked:?}");
    env.apply();
    let before = server.requests().len();
    env.apply();
    assert_eq!(server.requests().split_off(before), ["GET /zones"]);
}

#[test]
fn what_is_equal_is_adopted_and_what_differs_is_a_conflict() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    server.create(ZONE);
    server.set(ZONE, "www", "A", "192.0.2.1");
    server.set(ZONE, "mail", "A", "203.0.113.5");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.run(&["plan", "--detailed-exitcode"]).exits(3).says(&["=", "www/A", "mail/A", "hint:"]);
    env.run(&["apply", "--yes"]).exits(3).says(&["mail/A", "reconciled adopt"]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 203.0.113.5")]));
}

#[test]
fn a_mass_deletion_is_held_and_nothing_of_it_happens() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.config(&env.pdns_entry(&server.url, ""));
    let records: Vec<String> =
        (0..10).map(|n| format!("{{name: h{n}, type: A, values: [192.0.2.{n}]}}")).collect();
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    env.push("zone.yaml", &zone(ZONE, "pdns", &records));
    env.apply();
    let before = server.rrsets(ZONE);
    assert_eq!(before.len(), 10);
    env.push("zone.yaml", &zone(ZONE, "pdns", &records[..2]));
    env.run(&["apply", "--yes"]).exits(3).says(&["held", "reconciled approve"]);
    assert_eq!(server.rrsets(ZONE), before);
    env.push_without("zone.yaml");
    env.run(&["apply", "--yes"]).exits(3);
    assert_eq!(server.rrsets(ZONE), before);
}

#[test]
fn a_plan_file_consents_to_itself_and_to_nothing_else() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.config(&env.pdns_entry(&server.url, "guard: {maxDeletes: 0}"));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL, TEXT]));
    env.apply();
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, TEXT]));
    let file = env.path("plan.json");
    let file = file.to_str().unwrap();
    env.run(&["plan", "--out", file]).exits(3);
    server.set(ZONE, "mail", "A", "203.0.113.9");
    env.run(&["apply", file]).exits(1).says(&["the plan no longer holds", "hint:"]);
    assert!(server.rrsets(ZONE).contains_key("mail A"));
    env.run(&["plan", "--out", file]).exits(3);
    env.run(&["apply", file]).exits(0);
    assert_eq!(
        server.rrsets(ZONE),
        rrsets(&[("www A", "300 192.0.2.1"), ("text TXT", "300 \"v=spf1 -all\"")])
    );
}

#[test]
fn a_folder_without_a_source_prunes_nothing() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.apply();
    env.write("folder/zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.run(&["apply", "--yes", "--dir", "folder"]);
    assert!(server.rrsets(ZONE).contains_key("mail A"));
    env.run(&["plan", "--dir", "folder"]).says(&["1 frozen."]).hides(&["  - ", "to delete"]);
}

#[test]
fn what_is_asked_for_and_is_nowhere_is_said() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    let target = ["--target", "Zone/example.org"];
    env.run(&[&["plan"], &target[..]].concat())
        .exits(0)
        .says(&["warning: nothing is declared", "`Zone/example.org`"]);
    env.run(&[&["apply", "--yes"], &target[..]].concat()).exits(0).says(&["warning: nothing is declared"]);
    env.run(&["plan", "--target", "Zone/example.com"]).exits(0).hides(&["warning"]);
    // One that is there hides none that is not.
    let both =
        ["--target", "Zone/example.com", "--target", "Zone/example.com#wwww/A", "--target", "Zone/*.org"];
    let told = env.run(&[&["plan"], &both[..]].concat()).exits(0).says(&[
        "warning: nothing is declared or tracked that `Zone/example.com#wwww/A` means",
        "hint: did you mean `Zone/example.com#www/A`?",
        "warning: nothing is declared or tracked that `Zone/*.org` means",
    ]);
    told.hides(&["`Zone/example.com` means"]);
    env.run(&["plan", "-l", "team=web"])
        .exits(0)
        .says(&["warning: no manifest has labels that `team=web` means"]);
    // What was deleted from the manifest is tracked still.
    env.push("zone.yaml", &zone(ZONE, "zones", &[]));
    env.run(&["plan", "--target", "Zone/example.com#www/A"]).hides(&["warning: nothing"]);
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::ready(&env);
    let told = ["`Zone/example.com#wwww/A` means", "did you mean `Zone/example.com#www/A`?"];
    env.run(&["sync", "Zone/example.com", "Zone/example.com#wwww/A", "--wait"]).exits(0).says(&told);
    env.run(&["sync", "Zone/example.com#wwww/A"]).exits(1).says(&told);
    daemon.stop();
    env.run(&["suspend", "Zone/example.org", "--reason", "x"])
        .exits(0)
        .says(&["warning: nothing that is tracked"]);
    env.run(&["restore", "nofile", "--yes"]).exits(1).says(&["hint: check the path"]);
    env.write("text", &"this is no database\n".repeat(100));
    let refused = env.run(&["restore", "text", "--yes"]).exits(1);
    let refused = refused.says(&["text is no backup that can be restored", "hint: name another one"]);
    assert_eq!(refused.all().matches("file is not a database").count(), 1, "{}", refused.all());
}

#[test]
fn records_of_a_zone_that_went_to_another_host_stay_as_the_zone_does_and_keep_nothing_else() {
    let env = Env::zonefile();
    let entry = format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {WIDE_GUARD}}}",
        env.path("zones").display()
    );
    env.config(&format!("{entry}\nhost: {{labels: {{role: dns}}}}"));
    let record = |name: &str| format!("{{name: {name}, type: A, values: [192.0.2.1]}}");
    let set = "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: us}\nspec: {zone: afar.example, records: [RECORD]}\n";
    env.write("work/us.yaml", &set.replace("RECORD", &record("i")));
    env.write("work/afar.yaml", &zone("afar.example", "zones", &[&record("h")]));
    env.push("zone.yaml", &zone(ZONE, "zones", &[&record("a"), &record("b")]));
    env.apply();
    let before = env.zone_rrsets("afar.example");
    assert_eq!(before, rrsets(&[("h A", "300 192.0.2.1"), ("i A", "300 192.0.2.1")]));
    env.write("work/afar.yaml", &zone("afar.example", "pdns-berlin", &[&record("h")]));
    env.push("zone.yaml", &zone(ZONE, "zones", &[&record("a")]));
    env.run(&["plan"]).exits(0).says(&["RecordSet/us (`pdns-berlin`)", "Zone/afar.example (`pdns-berlin`)"]);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("a A", "300 192.0.2.1")]));
    assert_eq!(env.zone_rrsets("afar.example"), before);
    // What its manifest said last counts for nothing here, and a selector that does not match has all of it pruned.
    env.push("us.yaml", &set.replace("RECORD", ""));
    env.in_sync();
    let of_web = zone("afar.example", "zones", &[&record("h")])
        .replace("{name: afar.example}", "{name: afar.example, annotations: {reconciled/hosts: role=web}}");
    env.push("afar.yaml", &of_web);
    env.run(&["plan"]).exits(3).says(&["RecordSet/us#i/A", "Zone/afar.example#h/A", "2 × `host-unselected`"]);
}

#[test]
fn a_manifest_for_a_provider_of_another_host_is_shown_as_unassigned() {
    let env = Env::zonefile();
    let entry = format!("  - {{name: zones, type: zonefile, directory: {}}}", env.path("zones").display());
    env.config(&format!("{entry}\nhost: {{labels: {{role: dns}}}}"));
    let both = zone("example.net", "zones", &[WWW]).replace("provider: zones", "providers: [zones, other]");
    env.push("zone.yaml", &format!("{}---\n{both}", zone(ZONE, "elsewhere", &[WWW])));
    let text = "Zone/example.com (`elsewhere`), Zone/example.net (`other`): for providers that are not configured here";
    env.run(&["plan"]).exits(0).says(&["UNASSIGNED", text]);
    env.apply();
    // Also where nothing moved since, so that no manifest is read.
    env.run(&["plan"]).exits(0).says(&["No changes", "UNASSIGNED", text]);
    let plan = env.run(&["plan", "-o", "json"]).exits(0).stdout;
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let one = |address: &str, provider: &str| serde_json::json!({"address": address, "source": "infra", "provider": provider});
    let all = [one("Zone/example.com", "elsewhere"), one("Zone/example.net", "other")];
    assert_eq!(plan["unassigned_manifests"], serde_json::json!(all));
    let why = "provider `elsewhere` is not configured on this host";
    env.run(&["status"]).exits(0).says(&[
        "UNASSIGNED (2)",
        "Zone/example.com  of source infra",
        why,
        "`other`",
    ]);
    env.run(&["status", "Zone/example.com"]).exits(0).says(&[why]).hides(&["nothing is tracked", "`other`"]);
    env.run(&["explain", "Zone/example.com"]).exits(0).says(&[why]).hides(&["nothing is known"]);
    env.run(&["explain", "Zone/example.net"])
        .exits(0)
        .says(&["`other` is not configured", "zones/example.net"]);
    env.push("zone.yaml", &zone("example.net", "zones", &[WWW]));
    env.apply();
    env.run(&["status"]).exits(0).hides(&["UNASSIGNED"]);
}

#[test]
fn a_folder_without_a_source_changes_what_a_source_has_and_leaves_it_to_that() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    env.write("folder/zone.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.7]}"]));
    env.run(&["plan", "--dir", "folder"]).exits(0).says(&["1 to update"]);
    env.run(&["apply", "--yes", "--dir", "folder"]).exits(0).says(&["1 updated"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.7")]));
    // The source still has it, and takes it back.
    env.apply().says(&["1 updated"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
}

#[test]
fn a_target_limits_deletions_too() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL, TEXT]));
    env.apply();
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.run(&["apply", "--yes", "--target", "Zone/example.com#mail/A"]).exits(0);
    let now = server.rrsets(ZONE);
    assert!(!now.contains_key("mail A") && now.contains_key("text TXT"), "{now:?}");
}

#[test]
fn beside_an_invalid_file_the_rest_is_applied_and_nothing_pruned() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.write("work/zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    env.push("other.yaml", &zone("example.org", "pdns", &[WWW]));
    env.apply();
    env.write("work/zone.yaml", &zone(ZONE, "pdns", &["{name: www, type: A, values: [192.0.2.77]}"]));
    env.push("other.yaml", "apiVersion: dns/v1\nkind: Zone\n  metadata: [");
    env.run(&["apply", "--yes"]).exits(1).says(&["other.yaml:"]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.77"), ("mail A", "300 192.0.2.2")]));
    assert_eq!(server.rrsets("example.org"), rrsets(&[("www A", "300 192.0.2.1")]));
}

#[test]
fn a_record_set_contributes_to_a_zone_and_leaves_with_its_file() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.write("work/zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.push("app.yaml", "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: app}\nspec: {zone: example.com, records: [{name: app, type: A, values: [192.0.2.7]}]}\n");
    env.apply();
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("app A", "300 192.0.2.7")]));
    env.push_without("app.yaml");
    env.apply();
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
}

#[test]
fn a_cname_and_an_address_take_each_others_place() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let cname = "{name: alias, type: CNAME, values: [www.example.net.]}";
    let address = "{name: alias, type: A, values: [192.0.2.3]}";
    for (record, expect) in [
        (cname, ("alias CNAME", "300 www.example.net.")),
        (address, ("alias A", "300 192.0.2.3")),
        (cname, ("alias CNAME", "300 www.example.net.")),
    ] {
        env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, record]));
        env.apply();
        assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), expect]));
        env.in_sync();
    }
}

#[test]
fn a_protected_record_survives_the_removal_of_its_own_protection() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push(
        "zone.yaml",
        &zone(ZONE, "pdns", &[MAIL, "{name: www, type: A, values: [192.0.2.1], protect: true}"]),
    );
    env.apply();
    env.push("zone.yaml", &zone(ZONE, "pdns", &[MAIL]));
    env.run(&["apply", "--yes"]).exits(3).says(&["protected"]);
    assert!(server.rrsets(ZONE).contains_key("www A"));
}

#[test]
fn a_mark_of_another_instance_is_a_management_conflict() {
    let server = Pdns::start();
    let (ours, theirs) = (Env::pdns(&server), Env::pdns(&server));
    theirs.config_with("theirs", &theirs.pdns_entry(&server.url, WIDE_GUARD), "");
    theirs.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    theirs.apply();
    ours.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    ours.run(&["apply", "--yes"]).exits(3).says(&["ManagementConflict", "theirs", "--from-instance"]);
    theirs.in_sync();
}

#[test]
fn zone_files_go_through_the_same_loop() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL, TEXT]));
    env.run(&["plan", "--detailed-exitcode"]).exits(2);
    env.apply();
    env.in_sync();
    let all = rrsets(&[
        ("www A", "300 192.0.2.1"),
        ("mail A", "300 192.0.2.2"),
        ("text TXT", "300 \"v=spf1 -all\""),
    ]);
    assert_eq!(env.zone_rrsets(ZONE), all);
    let file = env.path("zones/example.com.zone");
    let damaged = fs::read_to_string(&file).unwrap().replace("192.0.2.1", "203.0.113.9");
    fs::write(&file, damaged).unwrap();
    env.run(&["plan", "--detailed-exitcode"]).exits(2).says(&["drift", "www/A"]);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), all);
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    let before = fs::read(&file).unwrap();
    env.apply();
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn what_is_imported_name_by_name_is_in_sync_and_one_file_each() {
    let env = Env::zonefile();
    let all = [
        "{name: \"*.dev\", type: A, values: [192.0.2.3]}",
        "{name: \"@\", type: TXT, values: [hi], ttl: 60}",
    ];
    env.push(
        "zone.yaml",
        &zone(ZONE, "zones", &[&all[..], &[WWW, "{name: www, type: TXT, values: [x]}"]].concat()),
    );
    env.apply();
    env.run(&["import", "zones", ZONE, "--out", "in", "--split", "by-name"])
        .exits(0)
        .says(&["3 files written to in"]);
    let mut files: Vec<_> = fs::read_dir(env.path("in/example.com"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["_.dev.yaml", "example.com.yaml", "www.yaml"]);
    env.run(&["plan", "--dir", "in", "--source", "infra", "--refresh", "--detailed-exitcode"]).exits(0);
}

#[test]
fn what_drifted_is_imported_alone_and_says_where_it_is_declared() {
    let env = Env::zonefile();
    let mail = "{name: mail, type: A, values: [192.0.2.2]}";
    let gone = "{name: gone, type: A, values: [192.0.2.3]}";
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, mail, gone]));
    env.apply();
    env.run(&["import", "zones", ZONE, "--drifted"]).exits(0).says(&["nothing that is declared differs"]);
    let none = env.run(&["import", "zones", ZONE, "--only", "wwww"]).exits(0);
    none.says(&["warning: --only and --ignore leave nothing of what is there"]);
    env.push("broken.yaml", &zone("example.net", "zones", &["{name: www, type: A, values: [x]}"]));
    let told = env.run(&["import", "zones", ZONE, "--drifted"]).exits(1).says(&["broken.yaml"]);
    told.hides(&["nothing that is declared differs"]);
    env.push_without("broken.yaml");
    let file = env.path("zones/example.com.zone");
    let text = fs::read_to_string(&file).unwrap().replace("192.0.2.1 ", "203.0.113.9 ");
    let lines = text.lines().filter(|line| !line.starts_with("gone")).chain(["foreign 300 IN A 192.0.2.9"]);
    fs::write(&file, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let output = env.run(&["import", "zones", ZONE, "--drifted"]).exits(0).says(&[
        "Zone/example.com#www/A, declared in zone.yaml:8, differs in values",
        "Zone/example.com#gone/A, declared in zone.yaml:10, is not there",
    ]);
    assert!(output.stdout.contains("{name: www, type: A, values: [\"203.0.113.9\"]}"), "{}", output.stdout);
    assert!(!output.stdout.contains("mail") && !output.stdout.contains("foreign"), "{}", output.stdout);
}

#[test]
fn what_a_source_tracked_that_is_configured_no_longer_is_listed_and_stays() {
    let env = Env::zonefile();
    env.git_in(".", &["init", "-q", "--bare", "-b", "main", "team.git"]);
    env.push("zone.yaml", &zone("example.com", "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.git(&["checkout", "-q", "--orphan", "team"]);
    env.git(&["rm", "-q", "-r", "-f", "."]);
    env.write(
        "work/team.yaml",
        &zone("example.net", "zones", &["{name: app, type: A, values: [192.0.2.2]}"]),
    );
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "of the team"]);
    env.git(&["push", "-q", "../team.git", "HEAD:main"]);
    let alone = fs::read_to_string(env.path("config.yaml")).unwrap();
    let team = format!("  - {{name: team, url: {}, allow: all}}\nproviders:", env.path("team.git").display());
    let both = alone.replace("repo.git}", "repo.git, allow: all}").replace("providers:", &team);
    env.write("config.yaml", &both);
    env.apply();
    env.run(&["status"]).exits(0).says(&["source team at"]).hides(&["UNASSIGNED"]);

    let file = env.path("zones/example.net.zone");
    let is_served = || fs::read_to_string(&file).is_ok_and(|text| text.contains("192.0.2.2"));

    env.write("config.yaml", &alone);
    env.run(&["plan"])
        .exits(0)
        .says(&[
            "UNASSIGNED, left alone",
            "zones/example.net  2 tracked; no source `team` is configured here",
        ])
        .hides(&["FROZEN", "delete"]);
    let plan: serde_json::Value = serde_json::from_str(&env.run(&["plan", "-o", "json"]).stdout).unwrap();
    assert_eq!(plan["unassigned"][0]["source"], "team", "{plan:#}");
    env.apply();
    assert!(is_served(), "what it declared stays");
    env.run(&["status"])
        .exits(0)
        .says(&["UNASSIGNED (1)", "source team  2 tracked", "reconciled forget --source team"])
        .hides(&["source team at"]);
    env.run(&["forget", "--source", "team", "--yes"]).exits(0);
    env.run(&["status"]).exits(0).hides(&["team"]);
    assert!(is_served(), "what it declared stays");
}

#[test]
fn the_status_of_what_nobody_knows_is_an_error_that_says_what_is_near() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.apply().says(&["standalone · state ", " · source infra at "]);
    let ask = |address: &str| env.run(&["status", address]);
    ask("Zone/example.con").exits(1).says(&[
        "nothing is known of `Zone/example.con`",
        "not tracked in ",
        "did you mean `Zone/example.com`?",
    ]);
    ask("Zone/example.com#wwww/A").exits(1).says(&["did you mean `Zone/example.com#www/A`?"]);
    ask("File/motd").exits(1).says(&["reconciled status '*/*'"]).hides(&["did you mean"]);
    let found = env.run(&["status", "File/motd", "-o", "json"]).exits(1).stdout;
    assert!(found.contains("\"resources\": []"), "{found}");
    // Who asks for whatever there is, is told that there is nothing.
    ask("File/*").exits(0).says(&["nothing is tracked at File/*"]);
    ask("Zone/example.com").exits(0);
    let daemon = Daemon::ready(&env);
    ask("Zone/example.con")
        .exits(1)
        .says(&["nor declared where the daemon", "did you mean `Zone/example.com`?"]);
    ask("Zone/example.com").exits(0);
    daemon.stop();
}

/// A server at which somebody makes a zone right before the program does.
struct Overtaken {
    server: Passed,
    has_come: bool,
}

impl Play for Overtaken {
    fn answer(&mut self, request: &Request) -> Reply {
        let made = request.body.strip_prefix("{\"name\":\"").and_then(|rest| rest.split_once('"'));
        if let Some((zone, _)) = made.filter(|_| request.method == "POST" && !self.has_come) {
            self.has_come = true;
            let body = serde_json::json!({"name": zone, "kind": "Native", "nameservers": [], "rrsets": [
                {"name": format!("www.{zone}"), "type": "A", "ttl": 60, "records": [{"content": "198.51.100.1"}]}]});
            let mut theirs = Request { body: body.to_string(), ..request.clone() };
            theirs.headers.insert("content-length".into(), theirs.body.len().to_string());
            assert_eq!(self.server.answer(&theirs).status, 201);
        }
        self.server.answer(request)
    }
}

#[test]
fn a_zone_that_somebody_makes_after_the_list_of_zones_is_read_and_not_overwritten() {
    let server = Pdns::start();
    let fake = Fake::start(Overtaken { server: Passed { server: server.address() }, has_come: false });
    let env = Env::pdns(&server);
    env.config(&env.pdns_entry(&fake.url, WIDE_GUARD));
    let names: Vec<String> = (0..5).map(|number| format!("z{number}.example")).collect();
    let zones: Vec<String> = names.iter().map(|name| zone(name, "pdns", &[WWW])).collect();
    env.push("zones.yaml", &zones.join("---\n"));
    env.run(&["apply", "--yes"]).exits(3).says(&["www/A"]);
    let lines = fake.lines();
    let first_write = lines.iter().position(|line| line.starts_with("POST")).unwrap();
    assert_eq!(first_write, 1, "one list says of all zones that they are not there: {lines:?}");
    let theirs = rrsets(&[("www A", "60 198.51.100.1")]);
    let (kept, made): (Vec<_>, Vec<_>) = names.iter().partition(|name| server.rrsets(name) == theirs);
    assert_eq!((kept.len(), made.len()), (1, 4));
    let read = format!("GET /api/v1/servers/localhost/zones/{}.", kept[0]);
    assert!(lines.contains(&read), "{read} is not in {lines:?}");
    for name in made {
        assert_eq!(server.rrsets(name), rrsets(&[("www A", "300 192.0.2.1")]), "{name}");
    }
}
