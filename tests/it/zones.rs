//! Zones from what exists elsewhere: included zone files, endpoints of ExternalDNS; and what is bad practice
//! in them.

use crate::{
    env::{Env, WIDE_GUARD, rrsets, zone},
    pdns::Pdns,
    running::Daemon,
};
use std::{fs, path::Path};

const ZONE: &str = "example.com";

/// A manifest in a folder of its own that includes a file of another folder.
const INCLUDING: &str = "apiVersion: dns/v1
kind: Zone
metadata: {name: example.com}
spec:
  records:
    - {zonefile: ../bind/example.com.zone}
    - {name: own, type: A, values: [192.0.2.9]}
";

const FILE: &str = "$TTL 1h
@ IN SOA ns1 hostmaster 2026 3h 1h 1w 5m
  IN NS ns1
ns1 A 192.0.2.53
www 60 A 192.0.2.1
";

fn write(env: &Env, file: &str) -> String {
    env.write("work/zones/example.com.yaml", INCLUDING);
    env.push("bind/example.com.zone", file)
}

#[test]
fn a_change_of_an_included_file_alone_is_a_change_by_that_commit() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    write(&env, FILE);
    let daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    let mut all =
        rrsets(&[("ns1 A", "3600 192.0.2.53"), ("www A", "60 192.0.2.1"), ("own A", "300 192.0.2.9")]);
    assert_eq!(server.rrsets(ZONE), all);
    let commit = write(&env, &FILE.replace("192.0.2.1\n", "192.0.2.2\n"));
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0).says(&["1 updated"]);
    all.insert("www A".into(), "60 192.0.2.2".into());
    assert_eq!(server.rrsets(ZONE), all);
    // It counts as this commit, not as an upgrade of the program, which would be held.
    env.run(&["history", "Zone/example.com#www/A"]).exits(0).says(&[&commit[..7]]);
    daemon.stop();
    env.in_sync();
}

#[test]
fn a_record_waits_for_its_zone_and_says_what_keeps_that() {
    let env = Env::zonefile();
    let www = "{name: www, type: A, values: [192.0.2.1]}";
    env.push("zone.yaml", &zone(ZONE, "zones", &[www]));
    let part = "Zone/example.com#www/A";
    let waits = ["waits until Zone/example.com is made: it is not chosen", "choose it as well"];
    env.run(&["plan", "--detailed-exitcode", "--target", part]).exits(3).says(&waits[..1]);
    env.run(&["apply", "--yes", "--target", part]).exits(3).says(&waits).hides(&["what failed"]);
    env.apply();

    let other = zone("example.org", "zones", &[www])
        .replace("example.org}", "example.org, annotations: {reconciled/suspend: \"true\"}}");
    let into = "---\napiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: more}\nspec: {zone: example.org, records: [{name: more, type: A, values: [192.0.2.2]}]}\n";
    let waits = "waits until Zone/example.org is made: its manifest says `suspend`";
    env.push("other.yaml", &format!("{other}{into}"));
    // That is as Git wants it: neither a change that is pending, nor anything for a person.
    env.run(&["plan", "--detailed-exitcode"]).exits(0).says(&[waits, "0 to create", "3 suspended"]);
    env.run(&["apply", "--yes"]).exits(0);
    env.run(&["status", "--exit-code"]).exits(0);
    env.run(&["status"]).exits(0).says(&["RecordSet/more#more/A", waits]);
    let other = zone("example.org", "zones", &[www]);
    env.push("other.yaml", &format!("{other}{into}"));
    env.apply();
    assert_eq!(env.zone_rrsets("example.org").len(), 2);
}

#[test]
fn a_plan_warns_of_a_zone_that_is_made_without_name_servers() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let plain = zone(ZONE, "pdns", &["{name: www, type: A, values: [192.0.2.1]}"]);
    env.push("zone.yaml", &plain);
    let warning = "the zone is made without an NS record at its name";
    let hint = "hint: name them in `nameservers` of the entry, or declare them: `apex: true`";
    env.run(&["plan"]).exits(0).says(&[
        "warning: Zone/example.com, zone.yaml:",
        warning,
        "RFC 1034 §4.2.1",
        hint,
    ]);
    env.run(&["plan", "-o", "json"]).exits(0).says(&["NoNameServers"]);
    // Declared they may be, or named by the entry.
    let servers = "{name: '@', type: NS, values: [ns1.example.net., ns2.example.net.]}";
    let own =
        plain.replace("  ttl: 300\n  records:\n", &format!("  apex: true\n  records:\n    - {servers}\n"));
    env.push("zone.yaml", &own);
    env.run(&["plan"]).exits(0).says(&["+ Zone/example.com"]).hides(&["without an NS record"]);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write(
        "config.yaml",
        &config.replace("type: powerdns,", "type: powerdns, nameservers: [ns1.example.net.],"),
    );
    env.push("zone.yaml", &plain);
    env.run(&["plan"]).exits(0).says(&["+ Zone/example.com"]).hides(&["without an NS record"]);
    // It keeps nothing from being done, and is over with that.
    env.write("config.yaml", &config);
    env.apply();
    env.run(&["plan", "--refresh"]).exits(0).hides(&["without an NS record"]);
}

#[test]
fn a_plan_points_into_the_file_that_is_included() {
    let env = Env::zonefile();
    write(&env, FILE);
    let places = ["bind/example.com.zone:5", "zones/example.com.yaml:7"];
    env.run(&["plan"]).exits(0).says(&places);
    let plan: serde_json::Value =
        serde_json::from_str(&env.run(&["plan", "-o", "json"]).exits(0).stdout).unwrap();
    let changes = plan["resource_changes"].as_array().unwrap();
    let www = changes.iter().find(|change| change["address"] == "Zone/example.com#www/A").unwrap();
    assert_eq!(www["file"], "bind/example.com.zone", "{www}");
    assert_eq!(www["line"], 5, "{www}");
    env.apply();
    env.run(&["explain", "Zone/example.com#www/A"]).exits(0).says(&["bind/example.com.zone:5"]);
}

#[test]
fn a_mistake_in_an_included_file_is_told_there_and_nothing_of_its_manifest_is_pruned() {
    let env = Env::zonefile();
    write(&env, FILE);
    env.apply();
    let before = env.zone_rrsets(ZONE);
    assert_eq!(before.len(), 3, "{before:?}");
    write(&env, &FILE.replace("www 60 A 192.0.2.1", "www 60 A 192.0.2"));
    env.run(&["apply", "--yes"]).exits(1).says(&[
        "error: `192.0.2` is not the form of A data",
        "--> bind/example.com.zone:5\n",
        "5 | www 60 A 192.0.2",
    ]);
    assert_eq!(env.zone_rrsets(ZONE), before);
    let output = env.finish(env.command(&["validate", "work", "-o", "github"])).exits(1);
    output.says(&["file=work/bind/example.com.zone,line=5"]);
    env.push_without("bind/example.com.zone");
    env.run(&["plan"]).exits(1).says(&[
        "error: there is no file `bind/example.com.zone` in the repository",
        "--> zones/example.com.yaml:6:18",
    ]);
}

#[test]
fn a_record_in_an_included_file_and_in_another_manifest_is_told_with_both_places() {
    let env = Env::zonefile();
    env.write(
        "work/set.yaml",
        "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: a}\nspec: {zone: example.com, records: [{name: www, type: A, values: [192.0.2.7]}]}\n",
    );
    write(&env, FILE);
    env.run(&["plan"]).exits(1).says(&["is declared twice", "bind/example.com.zone:5", "set.yaml:4"]);
}

const ENDPOINTS: &str = "apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: shop, namespace: default}
spec:
  endpoints:
    - dnsName: shop.example.com
      recordTTL: 180
      recordType: A
      targets: [192.0.2.7]
    - dnsName: deep.sub.example.com
      recordType: CNAME
      targets: [shop.example.com]
      labels: {external-dns/resource: crd/default/shop}
";

#[test]
fn endpoints_of_external_dns_go_to_the_zones_that_hold_them() {
    let env = Env::zonefile();
    let empty = |name: &str| format!("apiVersion: dns/v1\nkind: Zone\nmetadata: {{name: {name}}}\n");
    env.write("work/zone.yaml", &empty(ZONE));
    env.write("work/sub.yaml", &empty("sub.example.com"));
    env.push("shop.yaml", ENDPOINTS);
    env.run(&["plan"]).exits(0).says(&["DNSEndpoint", "shop/A"]);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("shop A", "180 192.0.2.7")]));
    assert_eq!(env.zone_rrsets("sub.example.com"), rrsets(&[("deep CNAME", "300 shop.example.com.")]));
    env.in_sync();
    // What the zone says too is told with both places.
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: shop, type: A, values: [192.0.2.8]}"]));
    env.run(&["plan"]).exits(1).says(&[
        "shop/A in zones/example.com is declared twice",
        "shop.yaml:6",
        "zone.yaml:8",
    ]);
    env.write("work/sub.yaml", &empty("sub.example.net"));
    env.push("zone.yaml", &empty("example.net"));
    env.run(&["plan"])
        .exits(1)
        .says(&["no zone that holds `shop.example.com` is declared", "hint: declare it"]);
    env.finish(env.command(&["validate", "work"])).exits(1).says(&["no zone that holds `shop.example.com`"]);
}

const INNER: &str = "int.example.com";
const REVERSE: &str = "2.0.192.in-addr.arpa";
const ONE: &str = "  - {name: infra, url: REPO}\n";
const TWO: &str =
    "  - {name: one, url: REPO, path: one, allow: all}\n  - {name: two, url: REPO, path: two, allow: all}\n";

/// A desk with public zones in `zones/` and private ones in `private/`, of one source or of two folders.
fn split(sources: &str) -> Env {
    let env = Env::new();
    let entry = |name: &str| {
        fs::create_dir(env.path(name)).unwrap();
        let directory = env.path(name);
        format!(
            "  - {{name: {name}, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {WIDE_GUARD}}}\n",
            directory.display()
        )
    };
    let providers = entry("zones") + &entry("private");
    let sources = sources.replace("REPO", &env.path("repo.git").display().to_string());
    let state = env.path("state");
    env.write(
        "config.yaml",
        &format!("instance: it\nstateDir: {}\nsources:\n{sources}providers:\n{providers}", state.display()),
    );
    env
}

#[test]
fn an_endpoint_is_published_in_no_other_zone_while_its_own_cannot_be_read() {
    let public =
        |address: &str| zone(ZONE, "zones", &[&format!("{{name: www, type: A, values: [{address}]}}")]);
    let private = zone(INNER, "private", &["{name: h, type: A, values: [10.0.0.1]}"]);
    let endpoint = |address: &str| {
        format!(
            "apiVersion: externaldns.k8s.io/v1alpha1\nkind: DNSEndpoint\nmetadata: {{name: db}}\nspec:\n  endpoints:\n    - {{dnsName: db.{INNER}, recordType: A, targets: [{address}]}}\n"
        )
    };
    for sources in [ONE, TWO] {
        let env = split(sources);
        let inner = || fs::read_to_string(env.path(&format!("private/{INNER}.zone"))).unwrap();
        env.write("work/one/public.yaml", &public("192.0.2.1"));
        env.write("work/two/private.yaml", &private);
        env.push("one/db.yaml", &endpoint("10.0.0.5"));
        env.apply();
        assert!(inner().contains("10.0.0.5"), "{}", inner());
        env.write("work/one/public.yaml", &public("192.0.2.2"));
        env.write("work/two/private.yaml", "kind: ][\n");
        env.push("one/db.yaml", &endpoint("10.0.0.6"));
        env.run(&["apply", "--yes"])
            .exits(1)
            .says(&["private.yaml:1", "FROZEN", "DNSEndpoint/db"])
            .hides(&["10.0.0."]);
        assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.2")]), "all else goes on");
        assert!(inner().contains("10.0.0.5"), "{}", inner());
        env.push("two/private.yaml", &private);
        env.apply();
        assert!(inner().contains("10.0.0.6") && !inner().contains("10.0.0.5"), "{}", inner());
        assert_eq!(env.zone_rrsets(ZONE).len(), 1);
    }
}

#[test]
fn a_ptr_stays_in_its_zone_while_that_cannot_be_read() {
    let host = |name: &str| format!("{{name: {name}, type: A, values: [192.0.2.1], reverse: true}}");
    let filler = "{name: '9.9', type: PTR, values: [x.example.com.]}";
    let reverse = zone(REVERSE, "zones", &["{name: '9', type: PTR, values: [y.example.com.]}"]);
    for sources in [ONE, TWO] {
        let env = split(sources);
        env.write("work/one/zone.yaml", &zone(ZONE, "zones", &[&host("www")]));
        env.write("work/one/reverse.yaml", &zone("192.in-addr.arpa", "zones", &[filler]));
        env.push("two/reverse.yaml", &reverse);
        env.apply();
        let (outer, pointers) = (env.zone_rrsets("192.in-addr.arpa"), env.zone_rrsets(REVERSE));
        assert_eq!((outer.len(), pointers.get("1 PTR").unwrap().as_str()), (1, "300 www.example.com."));
        env.write("work/two/reverse.yaml", "kind: ][\n");
        env.push("one/zone.yaml", &zone(ZONE, "zones", &[&host("web")]));
        env.run(&["apply", "--yes"]).exits(1).says(&["reverse.yaml:1", "FROZEN"]);
        assert!(env.zone_rrsets(ZONE).contains_key("web A"), "what is no PTR goes on");
        assert_eq!((env.zone_rrsets("192.in-addr.arpa"), env.zone_rrsets(REVERSE)), (outer, pointers));
        env.push("two/reverse.yaml", &reverse);
        env.apply();
        assert_eq!(env.zone_rrsets(REVERSE)["1 PTR"], "300 web.example.com.");
        assert_eq!(env.zone_rrsets("192.in-addr.arpa").len(), 1);
    }
}

#[test]
fn the_page_about_external_dns_works_as_typed() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: shop, type: A, values: [192.0.2.7], ttl: 180}"]));
    env.apply();
    let file = "zones/example.com.zone";
    let theirs =
        "web 300 IN A 192.0.2.8\na-web 300 IN TXT \"heritage=external-dns,external-dns/owner=k8s\"\n";
    env.write(file, &(fs::read_to_string(env.path(file)).unwrap() + "$ORIGIN example.com.\n" + theirs));
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/migrate-externaldns.md"))
        .unwrap();
    let blocks = page.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let imports = blocks.filter(|block| block.starts_with("reconciled import"));
    let [typed] = imports.collect::<Vec<_>>()[..] else { panic!("one block imports") };
    env.write("repo/endpoints.yaml", &ENDPOINTS.replace("deep.sub", "deep"));
    for line in typed.lines() {
        let words: Vec<&str> = line.split_whitespace().skip(1).map(|word| word.trim_matches('\'')).collect();
        let words: Vec<&str> =
            words.into_iter().map(|word| if word == "pdns" { "zones" } else { word }).collect();
        env.run(&words).exits(0);
    }
    let theirs = "reconciled adopt Zone/example.com#web/A --from-instance externaldns/k8s";
    env.run(&["plan", "--dir", "repo"]).exits(3).says(&["+ default/DNSEndpoint/shop#deep/CNAME", theirs]);
}

#[test]
fn what_is_bad_practice_is_told_by_name_and_may_be_silenced() {
    let env = Env::zonefile();
    env.write("work/set.yaml", "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: a}\nspec: {zone: example.com, records: [{name: mail, type: CNAME, values: [x.example.net.]}]}\n");
    let records = |more: &str| {
        let mx = format!("{{name: \"@\", type: MX, values: [10 mail.example.com.]{more}}}");
        zone(ZONE, "zones", &[&mx])
    };
    env.push("zone.yaml", &records(""));
    let words = [
        "warning: @ MX points at mail, which is a CNAME [mx-target-cname]",
        "--> zone.yaml:8\n",
        "--> set.yaml:4 has to do with it",
        "hint: name the host itself (RFC 2181 §10.3)",
    ];
    env.finish(env.command(&["validate", "work"])).exits(0).says(&words);
    env.run(&["plan"]).exits(0).says(&words);
    env.push("zone.yaml", &records(", lintIgnore: [mx-target-cname]"));
    env.run(&["plan"]).exits(0).hides(&["warning:"]);
    env.push("zone.yaml", &records(", lintIgnore: [mx-target-cnam]"));
    env.run(&["plan"]).exits(1).says(&["unknown rule `mx-target-cnam`", "did you mean `mx-target-cname`?"]);
    let silent = records("").replace(
        "name: example.com}",
        "name: example.com, annotations: {reconciled/lint-ignore: mx-target-cname}}",
    );
    env.push("zone.yaml", &silent);
    env.run(&["plan"]).exits(0).hides(&["warning:"]);
}

#[test]
fn what_can_never_work_is_an_error_also_across_manifests_and_in_included_files() {
    let env = Env::zonefile();
    env.write("work/set.yaml", "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {name: a}\nspec: {zone: example.com, records: [{name: www, type: CNAME, values: [x.example.net.]}]}\n");
    write(&env, FILE);
    env.run(&["apply", "--yes"]).exits(1).says(&[
        "error: www A stands beside a CNAME [cname-and-other-data]",
        "--> bind/example.com.zone:5\n",
        "--> set.yaml:4 has to do with it",
    ]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[]));
}

#[test]
fn what_records_may_be_is_explained_in_each_form() {
    let env = Env::zonefile();
    env.run(&["explain", "Zone"]).exits(0).says(&[
        "records <",
        "name <text, required>",
        "zonefile <text, required>",
    ]);
    let zone = env.finish(env.command(&["explain", "Zone"])).stdout;
    assert_eq!(zone.matches("zonefile <").count(), 1, "{zone}");
    env.run(&["explain", "Zone.records.ttl"]).exits(0).says(&["ttl of Zone.records"]);
    env.run(&["explain", "DNSEndpoint.endpoints.recordTTL"]).exits(0).says(&["externaldns.k8s.io/v1alpha1"]);
}

/// A zone with a name server of its own that goes with its manifest.
const GOES: &str = "apiVersion: dns/v1
kind: Zone
metadata: {name: example.com, annotations: {reconciled/deletion: delete}}
spec:
  apex: true
  records:
    - {name: \"@\", type: NS, values: [ns9.example.net.]}
    - {name: www, type: A, values: [192.0.2.1]}
";

/// The digest that a held plan asks to be approved.
fn digest(env: &Env) -> String {
    let plan: serde_json::Value =
        serde_json::from_str(&env.run(&["plan", "-o", "json"]).exits(3).stdout).unwrap();
    plan["domains"][0]["digest"].as_str().unwrap_or_else(|| panic!("{plan}")).to_owned()
}

#[test]
fn a_zone_that_is_to_be_deleted_stays_while_a_foreign_record_is_in_it() {
    let env = Env::zonefile();
    env.push("zone.yaml", GOES);
    env.apply();
    let file = env.path("zones/example.com.zone");
    let with_foreign = fs::read_to_string(&file).unwrap() + "theirs.example.com. 300 IN A 192.0.2.9\n";
    fs::write(&file, with_foreign).unwrap();
    env.push_without("zone.yaml");
    env.run(&["plan"]).exits(3).says(&[
        "1 in it would go with it",
        "such as theirs/A",
        "forget Zone/example.com",
    ]);
    env.run(&["approve", &digest(&env), "--reason", "moved"]).exits(0);
    env.run(&["apply", "--yes"]).exits(3).says(&["1 deleted", "NotEmpty"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("theirs A", "300 192.0.2.9")]));
    let left = fs::read_to_string(&file).unwrap();
    assert!(left.contains("ns9.example.net."), "a zone keeps its name servers: {left}");
    // Once that is gone, the zone goes, with consent of its own.
    let without: Vec<&str> = left.lines().filter(|line| !line.starts_with("theirs")).collect();
    fs::write(&file, without.join("\n") + "\n").unwrap();
    env.run(&["apply", "--yes"]).exits(3).says(&["zone-delete"]);
    env.run(&["approve", &digest(&env), "--reason", "moved"]).exits(0);
    env.run(&["apply", "--yes"]).exits(0).says(&["1 deleted"]);
    assert!(!file.exists());
}

#[test]
fn name_servers_of_a_zone_are_let_go_of_with_the_consent_to_manage_them() {
    let env = Env::zonefile();
    env.push("zone.yaml", GOES);
    env.apply();
    let without = GOES
        .replace("  apex: true\n", "")
        .replace("    - {name: \"@\", type: NS, values: [ns9.example.net.]}\n", "");
    env.push("zone.yaml", &without);
    env.run(&["plan"]).exits(0).says(&["1 to forget"]).hides(&["- Zone/"]);
    env.apply();
    let left = fs::read_to_string(env.path("zones/example.com.zone")).unwrap();
    assert!(left.contains("ns9.example.net."), "{left}");
    env.in_sync();
    // Withdrawn while the consent stands, it is deleted, with a word of its own.
    env.push("zone.yaml", GOES);
    env.apply();
    env.push("zone.yaml", &GOES.replace("    - {name: \"@\", type: NS, values: [ns9.example.net.]}\n", ""));
    env.run(&["plan"]).exits(3).says(&["1 × `apex-ns`"]);
}

#[test]
fn a_record_that_is_declared_in_another_zone_stays_until_it_is_there() {
    let env = Env::zonefile();
    fs::create_dir(env.path("inner")).unwrap();
    let (inner, open) = (env.path("inner"), env.path("open"));
    // Nothing is written there as long as one file is missing.
    let entry = format!(
        "  - {{name: inner, type: zonefile, directory: {}, nameservers: [ns1.example.net.], check: [test, -e, \"{}\"]}}\n",
        inner.display(),
        open.display()
    );
    env.write("config.yaml", &(fs::read_to_string(env.path("config.yaml")).unwrap() + &entry));
    let records =
        ["{name: www, type: A, values: [192.0.2.1]}", "{name: a.sub, type: A, values: [192.0.2.7]}"];
    env.push("z.yaml", &zone(ZONE, "zones", &records));
    env.apply();
    env.write("work/z.yaml", &zone(ZONE, "zones", &records[..1]));
    env.push("s.yaml", &zone("sub.example.com", "inner", &["{name: a, type: A, values: [192.0.2.7]}"]));
    let stays = "stays until Zone/sub.example.com#a/A is in inner/sub.example.com, where it is declared now";
    env.run(&["plan"]).says(&[stays]);
    env.run(&["apply", "--yes"]).exits(3).says(&["0 deleted"]);
    let both = [("a.sub A", "300 192.0.2.7"), ("www A", "300 192.0.2.1")];
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&both));
    env.run(&["status"]).says(&[stays]);
    env.write("open", "");
    env.apply().says(&["2 created", "1 deleted"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&both[1..]));
    assert!(fs::read_to_string(inner.join("sub.example.com.zone")).unwrap().contains("192.0.2.7"));
    env.in_sync();
}

#[test]
fn a_record_that_goes_to_the_outer_zone_stays_while_the_inner_one_hides_it() {
    let env = Env::zonefile();
    let inner = "sub.example.com";
    // Whoever has the inner zone: the other one sends there for its names.
    let elsewhere = env.path("inner");
    fs::create_dir(&elsewhere).unwrap();
    let entry = format!(
        "  - {{name: inner, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {WIDE_GUARD}}}\n",
        elsewhere.display()
    );
    env.write("config.yaml", &(fs::read_to_string(env.path("config.yaml")).unwrap() + &entry));
    let has = |records: &[&str]| {
        let text = fs::read_to_string(elsewhere.join("sub.example.com.zone")).unwrap();
        records.iter().all(|record| text.contains(record))
    };
    let www = "{name: www, type: A, values: [192.0.2.1]}";
    let moved = "{name: a.sub, type: A, values: [192.0.2.7]}";
    let outer_records = [www, "{name: sub, type: NS, values: [ns1.example.net.]}", moved];
    let inner_records =
        ["{name: b, type: A, values: [192.0.2.8]}", "{name: a, type: A, values: [192.0.2.7]}"];
    env.write("work/s.yaml", &zone(inner, "inner", &inner_records));
    env.push("z.yaml", &zone(ZONE, "zones", &outer_records[..2]));
    env.apply();
    env.write("work/s.yaml", &zone(inner, "inner", &inner_records[..1]));
    env.push("z.yaml", &zone(ZONE, "zones", &outer_records));
    let stays = "stays, since inner/sub.example.com is still there and hides Zone/example.com#a.sub/A of \
                 zones/example.com";
    let hint = "take out of zones/example.com what sends to inner/sub.example.com";
    env.run(&["plan"]).says(&[stays, hint]).hides(&["WaitingForMove"]);
    env.run(&["apply", "--yes"]).exits(3).says(&["1 created", "StillHides"]);
    let both = ["192.0.2.7", "192.0.2.8"];
    assert!(has(&both));
    env.run(&["status"]).says(&[stays]);
    // Back where it is seen, it goes from where it was not.
    env.write("work/s.yaml", &zone(inner, "inner", &inner_records));
    env.push("z.yaml", &zone(ZONE, "zones", &outer_records[..2]));
    env.apply().says(&["1 deleted"]);
    assert!(has(&both));
    // Where nobody is sent to the inner zone, as to an internal one, what is in the outer one is seen all the same.
    env.push("z.yaml", &zone(ZONE, "zones", &[www]));
    env.apply().says(&["1 deleted"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    env.write("work/s.yaml", &zone(inner, "inner", &inner_records[..1]));
    env.push("z.yaml", &zone(ZONE, "zones", &[www, moved]));
    env.apply().says(&["1 created", "1 deleted"]);
    assert!(has(&both[1..]) && !has(&both[..1]));
    env.in_sync();
    // What sends there may go with the very commit: it is looked at once more when that is done.
    env.write("work/s.yaml", &zone(inner, "inner", &inner_records));
    env.push("z.yaml", &zone(ZONE, "zones", &outer_records[..2]));
    env.apply();
    env.write("work/s.yaml", &zone(inner, "inner", &inner_records[..1]));
    env.push("z.yaml", &zone(ZONE, "zones", &[www, moved]));
    env.apply().says(&["1 created", "2 deleted"]);
    assert!(has(&both[1..]) && !has(&both[..1]));
}
