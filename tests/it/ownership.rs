//! Whose records are whose: what an operator sees of ExternalDNS, takes over from it, and gets back after a loss.

use crate::{
    env::{Env, WIDE_GUARD, rrsets, zone},
    pdns::Pdns,
    shared::{other_source, push_other},
};
use std::fs;

/// A zone file in which an ExternalDNS and nobody in particular have records.
const SHARED: &str = "\
$ORIGIN a.example.
$TTL 300
@ IN SOA ns1.example.net. hostmaster.example.net. 7 3h 1h 1w 5m
@ IN NS ns1.example.net.
www IN A 192.0.2.1
a-www IN TXT \"heritage=external-dns,external-dns/owner=k8s,external-dns/resource=ingress/a/www\"
api IN A 192.0.2.2
extdns-a-api IN TXT \"heritage=external-dns,external-dns/owner=k8s,external-dns/resource=ingress/a/api\"
octo IN A 192.0.2.3
_owner.a.octo IN TXT \"*octodns*\"
_acme-challenge IN TXT \"somebody waits for this\"
free IN A 192.0.2.4
";

fn env(keys: &str) -> Env {
    let env = Env::new();
    fs::create_dir(env.path("zones")).unwrap();
    let directory = env.path("zones").display().to_string();
    env.config(&format!(
        "  - {{name: zones, type: zonefile, directory: {directory}, nameservers: [ns1.example.net.], {WIDE_GUARD}{keys}}}"
    ));
    env
}

fn text(env: &Env) -> String {
    fs::read_to_string(env.path("zones/a.example.zone")).unwrap()
}

#[test]
fn records_of_others_survive_an_exclusive_zone_and_are_taken_over_with_their_marks() {
    let env = env("");
    env.write("zones/a.example.zone", SHARED);
    // What a manifest declared of the marks would stay when their records are taken over.
    env.run(&["import", "zones", "a.example"])
        .exits(0)
        .says(&[
            "{name: www, type: A",
            "{name: octo, type: A",
            "2 marked as externaldns/k8s's",
            "1 marked as octodns's",
        ])
        .hides(&["heritage=", "*octodns*"]);
    let www = "{name: www, type: A, values: [192.0.2.1]}";
    let exclusive =
        |records: &[&str]| zone("a.example", "zones", records).replace("  ttl:", "  exclusive: true\n  ttl:");
    env.push("zone.yaml", &exclusive(&[www]));
    env.run(&["plan", "--show-foreign"])
        .exits(3)
        .says(&["externaldns/k8s", "octodns", "ManagementConflict", "--from-instance externaldns/k8s"])
        .says(&["- Zone/a.example#free/A", "foreign-delete"]);
    // What nobody declared has the address of the zone, as everything that is planned.
    env.run(&["plan", "--target", "Zone/a.example#free/A"]).exits(3).says(&["- Zone/a.example#free/A"]);
    env.run(&["plan", "--target", "Zone/a.example*"]).exits(3).says(&["- Zone/a.example#free/A"]);
    env.run(&["plan", "--target", "Zone/a.example#www/A"]).hides(&["free/A"]);
    env.run(&["explain", "Zone/a.example#free/A"])
        .exits(0)
        .says(&["Zone/a.example#free/A", "delete (commit"])
        .says(&["foreign: nobody declared it; Zone/a.example (zone.yaml:1) is exclusive"])
        .hides(&["no longer declared"]);
    env.run(&["apply", "--yes"]).exits(3);
    assert_eq!(text(&env), SHARED, "held and stalled: nothing is written");
    // It is tracked by nobody, and a suspension keeps it all the same.
    env.run(&["suspend", "Zone/a.example#free/A", "--reason", "asking whose it is"])
        .exits(0)
        .says(&["an exclusive zone would delete is left alone"]);
    env.run(&["plan"]).exits(3).says(&["asking whose it is", "1 suspended"]);
    env.run(&["resume", "Zone/a.example#free/A"]).exits(0);

    // Whose mark is named consents to nothing that bears none.
    let free = "{name: free, type: A, values: [192.0.2.9], adopt: externaldns/k8s}";
    env.push("zone.yaml", &zone("a.example", "zones", &[free]));
    env.run(&["apply", "--yes"]).exits(3).says(&["it bears no mark of `externaldns/k8s`"]);
    assert_eq!(text(&env), SHARED);

    let taken = www.replace('}', ", adopt: externaldns/k8s}");
    let octo = "{name: octo, type: A, values: [192.0.2.3], adopt: octodns}";
    env.push("zone.yaml", &zone("a.example", "zones", &[&taken, octo]));
    env.run(&["plan"]).exits(0).says(&["externaldns/k8s → this instance", "octodns → this instance"]);
    env.apply();
    let after = text(&env);
    assert!(!after.contains("ingress/a/www") && !after.contains("_owner.a.octo"), "{after}");
    assert!(after.contains("ingress/a/api") && after.contains("192.0.2.4"), "{after}");
    env.in_sync();
    // What is counted is listed, though nothing moved since it was counted.
    env.run(&["plan"]).exits(0).says(&["4 foreign, left alone (--show-foreign)"]);
    env.run(&["plan", "--show-foreign"]).exits(0).says(&[
        "4 foreign, left alone",
        "free.a.example./A",
        "api.a.example./A",
    ]);
}

#[test]
fn marks_in_txt_records_bring_a_lost_state_back_and_delete_nothing() {
    let env = env(", marks: {type: txt, prefix: 'own-%{record_type}.', wildcard: any}");
    let (www, gone) =
        ("{name: www, type: A, values: [192.0.2.1]}", "{name: gone, type: A, values: [192.0.2.9]}");
    env.push("zone.yaml", &zone("a.example", "zones", &[www, gone]));
    env.apply();
    let marked = text(&env);
    for mark in ["own-a.www", "own-a.gone"] {
        assert!(marked.contains(mark), "{marked}");
    }
    let labels =
        "heritage=external-dns,external-dns/owner=it,external-dns/resource=reconciled/zone/a.example";
    assert_eq!(marked.matches(labels).count(), 2, "{marked}");
    env.in_sync();
    env.run(&["plan", "--show-foreign"]).exits(0).hides(&["foreign, left alone"]);

    // The database is lost while one record is declared otherwise and another no longer.
    fs::remove_dir_all(env.path("state")).unwrap();
    let changed = www.replace("192.0.2.1", "192.0.2.7");
    env.push("zone.yaml", &zone("a.example", "zones", &[&changed]));
    env.run(&["state", "init", "--recover"]).exits(0);
    env.apply();
    let after = text(&env);
    assert!(
        after.contains("192.0.2.7") && after.contains("192.0.2.9") && after.contains("own-a.gone"),
        "{after}"
    );
    env.in_sync();

    // What is tracked again goes with its mark.
    env.push("zone.yaml", &zone("a.example", "zones", &["{name: other, type: A, values: [192.0.2.8]}"]));
    env.apply();
    let after = text(&env);
    assert!(
        !after.contains("own-a.www") && after.contains("own-a.other") && after.contains("own-a.gone"),
        "{after}"
    );
}

#[test]
fn the_mark_of_what_somebody_removed_goes_once_nothing_declares_it() {
    let env = env(", marks: {type: txt, prefix: 'own-'}");
    let keep = "{name: keep, type: A, values: [192.0.2.1]}";
    let www = "{name: www, type: A, values: [192.0.2.5]}";
    env.push("zone.yaml", &zone("a.example", "zones", &[keep, www]));
    env.apply();
    let marked = text(&env);
    assert!(marked.contains("\nown-a-www "), "{marked}");
    let without: Vec<&str> = marked.lines().filter(|line| !line.starts_with("www ")).collect();
    env.write("zones/a.example.zone", &(without.join("\n") + "\n"));

    // What else is written takes nothing of it along: a person may have stopped that.
    env.run(&["suspend", "Zone/a.example#www/A", "--reason", "it comes back in an hour"]).exits(0);
    let keep = &keep.replace("192.0.2.1", "192.0.2.2");
    env.push("zone.yaml", &zone("a.example", "zones", &[keep, www]));
    env.run(&["apply", "--yes"]).says(&["1 updated"]);
    let after = text(&env);
    assert!(after.contains("192.0.2.2") && after.contains("\nown-a-www "), "{after}");
    env.run(&["resume", "Zone/a.example#www/A"]).exits(0);

    env.push("zone.yaml", &zone("a.example", "zones", &[keep]));
    env.run(&["plan"]).exits(0).says(&["- Zone/a.example#www/A", "heritage="]);
    env.apply();
    let after = text(&env);
    assert!(!after.contains("own-a-www") && after.contains("\nown-a-keep "), "{after}");
    env.in_sync();

    // What somebody else puts there is theirs, also where Git declares it later.
    env.write("zones/a.example.zone", &format!("{after}www 300 IN A 203.0.113.9\n"));
    env.push("zone.yaml", &zone("a.example", "zones", &[keep, www]));
    env.run(&["apply", "--yes"]).exits(3).says(&["it exists, differs from the manifest, and is not tracked"]);
    assert!(text(&env).contains("203.0.113.9"));
}

#[test]
fn a_mark_that_stays_gives_away_nothing_that_somebody_puts_there_later() {
    let env = env(", policy: upsert-only, marks: {type: txt, prefix: 'own-'}");
    let keep = "{name: keep, type: A, values: [192.0.2.1]}";
    let www = "{name: www, type: A, values: [192.0.2.5]}";
    env.push("zone.yaml", &zone("a.example", "zones", &[keep, www]));
    env.apply();
    let marked = text(&env);
    let without: Vec<&str> = marked.lines().filter(|line| !line.starts_with("www ")).collect();
    env.write("zones/a.example.zone", &(without.join("\n") + "\n"));
    env.push("zone.yaml", &zone("a.example", "zones", &[keep]));
    env.apply();
    // Nothing may be deleted, so the mark stays, and what comes there bears it.
    let after = text(&env);
    assert!(after.contains("\nown-a-www "), "{after}");
    env.write("zones/a.example.zone", &format!("{after}www 300 IN A 203.0.113.9\n"));
    env.run(&["apply", "--yes"]).exits(0);
    env.push("zone.yaml", &zone("a.example", "zones", &[keep, www]));
    env.run(&["apply", "--yes"]).exits(3).says(&["it was left to others, and differs from the manifest"]);
    assert!(text(&env).contains("203.0.113.9"));
}

#[test]
fn what_a_zone_ignores_is_neither_pruned_nor_listed_and_challenges_stay() {
    let env = env("");
    env.write("zones/a.example.zone", SHARED);
    let www = "{name: www, type: A, values: [192.0.2.1], adopt: externaldns/k8s}";
    let text_of = |rules: &str| {
        zone("a.example", "zones", &[www])
            .replace("  ttl:", &format!("  exclusive: true\n  ignore: {rules}\n  ttl:"))
    };
    env.push("zone.yaml", &text_of("[{name: fr*, type: A}, {target: '192.0.2.3'}]"));
    env.run(&["plan", "--show-foreign"]).exits(0).says(&["2 ignored", "_acme-challenge"]).hides(&[
        "foreign-delete",
        "free.a.example",
        "octo.a.example./A",
    ]);
    env.apply();
    let after = text(&env);
    for kept in ["192.0.2.3", "192.0.2.4", "somebody waits for this"] {
        assert!(after.contains(kept), "{kept}: {after}");
    }
    env.in_sync();

    env.push("zone.yaml", &text_of("[{name: www}]"));
    env.run(&["plan"])
        .exits(1)
        .says(&["www A is declared, and ignored by its zone", "the rule that names it"]);
}

/// What a source may not declare excludes nothing that another one may.
#[test]
fn what_a_source_must_not_declare_freezes_no_manifest_of_another() {
    const ZONE: &str = "example.com";
    let env = Env::zonefile();
    other_source(&env);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let few = "other.git, allow: [{provider: zones, scopes: [other.test]}]";
    env.write("config.yaml", &config.replace("other.git, allow: all", few));
    push_other(
        &env,
        &format!(
            "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: more}}\nspec:\n  zone: {ZONE}\n  records:\n    \
             - {{name: www, type: CNAME, values: [host.example.net.]}}\n"
        ),
    );
    for value in [1, 2] {
        let own = format!("{{name: www, type: A, values: [192.0.2.{value}]}}");
        env.push("zone.yaml", &zone(ZONE, "zones", &[&own]));
        env.run(&["apply", "--yes"])
            .exits(1)
            .says(&["source `other` may not manage", "more.yaml:7"])
            .hides(&["zone.yaml  frozen", "source infra: the revision has errors"]);
        assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", &format!("300 192.0.2.{value}"))]));
    }
}

#[test]
fn what_is_declared_since_is_counted_among_the_foreign_no_more() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    let one = |name: &str, last: u8| format!("{{name: {name}, type: A, values: [192.0.2.{last}]}}");
    let (a, b, c) = (one("a", 1), one("b", 2), one("c", 3));
    env.push("zone.yaml", &zone("example.com", "pdns", &[&c]));
    env.apply();
    for (name, value) in [("a", "192.0.2.1"), ("b", "192.0.2.2"), ("d", "192.0.2.4")] {
        server.set("example.com", name, "A", value);
    }
    env.apply();
    env.run(&["plan"]).exits(0).says(&["3 foreign, left alone"]);
    env.push("zone.yaml", &zone("example.com", "pdns", &[&a, &b, &c]));
    env.run(&["plan"]).exits(0).says(&["2 to adopt", "1 foreign, left alone"]);
    env.apply().says(&["1 foreign, left alone"]);
    env.run(&["plan"]).exits(0).says(&["1 foreign, left alone"]);
}
