//! What proves a name has no place, or none that is known to be the right one: nothing is ordered meanwhile, since authorities count it.

use crate::{
    acme::{desk, is_clean, is_good},
    certificates::{certificate, fingerprint, manifest, read},
    env::{Env, zone},
    pdns::Pdns,
    pebble::Pebble,
    running::{Daemon, wait_for},
};

const WWW: &[&str] = &["{name: www, type: A, values: [127.0.0.1]}"];

/// A certificate for `name` that a record at `pdns` proves.
fn web(env: &Env, pebble: &Pebble, name: &str) -> String {
    let solvers = format!("{}, solvers: [{{dns01: {{provider: pdns}}}}]}}", pebble.acme());
    let web = certificate(env, "web", &format!("issuerRef: {{name: le}}, dnsNames: [{name}]"));
    format!("{}{web}", manifest("Issuer", "le", &solvers))
}

#[test]
fn nothing_is_ordered_until_a_zone_takes_the_record_and_then_at_once() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    env.write("config.yaml", &read(&env, "config.yaml").replace("repo.git}", "repo.git, interval: 1s}"));
    env.push("web.yaml", &web(&env, &pebble, "web.example.com"));
    env.push("other.yaml", &zone("example.net", "pdns", WWW));
    let _daemon = Daemon::start(&env);
    let told = [
        "nothing is ordered: no zone of provider `pdns` holds `_acme-challenge.web.example.com",
        "declare the zone with a manifest of kind `Zone`",
    ];
    wait_for("that it lacks a zone", || {
        let status = env.run(&["status"]).all();
        told.iter().all(|part| status.contains(part))
    });
    assert_eq!(pebble.issued(), (0, 0));
    // Nobody asks for another look.
    env.push("zone.yaml", &zone("example.com", "pdns", WWW));
    wait_for("the certificate", || {
        ["crt", "key"].iter().all(|end| env.path(&format!("ssl/web/tls.{end}")).exists())
    });
    is_good(&env, &pebble, "web");
    assert_eq!(pebble.issued(), (1, 1));
}

#[test]
fn an_order_that_is_under_way_goes_on_with_its_records_when_their_zone_is_no_longer_declared() {
    let pdns = Pdns::start();
    // It looks at a proof after a while, ten seconds at most.
    let slow = [("PEBBLE_VA_NOSLEEP", "0"), ("PEBBLE_VA_SLEEPTIME", "10")];
    let pebble = Pebble::start(pdns.port, "", &slow);
    let env = desk(&pdns, &pebble, "");
    env.write("config.yaml", &read(&env, "config.yaml").replace("repo.git}", "repo.git, interval: 1s}"));
    env.push("other.yaml", &zone("example.net", "pdns", WWW));
    env.push("zone.yaml", &zone("example.com", "pdns", WWW));
    env.push("web.yaml", &web(&env, &pebble, "web.example.com"));
    let _daemon = Daemon::start(&env);
    wait_for("the record", || pdns.rrsets("example.com").keys().any(|name| name.contains("_acme-challenge")));
    env.push_without("zone.yaml");
    // Long before anybody looks again by the clock.
    wait_for("the certificate", || {
        ["crt", "key"].iter().all(|end| env.path(&format!("ssl/web/tls.{end}")).exists())
    });
    is_good(&env, &pebble, "web");
    assert_eq!(pebble.issued(), (1, 1));
    wait_for("the record to be gone", || {
        !pdns.rrsets("example.com").keys().any(|name| name.contains("_acme-challenge"))
    });
}

#[test]
fn nothing_is_ordered_while_the_zone_of_a_name_may_be_declared_where_nothing_can_be_read() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    let inner = zone("int.example.com", "pdns", WWW);
    env.push("zone.yaml", &zone("example.com", "pdns", WWW));
    env.push("int.yaml", &inner);
    env.apply();
    env.push("web.yaml", &web(&env, &pebble, "db.int.example.com"));
    // Not to be parsed, in error before it is known whose it is, and in error as a zone.
    let wrong = [
        "a: [\n".to_owned(),
        inner.replace("provider: pdns", "provider: pdsn"),
        inner.replace("records", "recrods"),
    ];
    for text in wrong {
        env.push("int.yaml", &text);
        let applied = env.run(&["apply", "--yes"]);
        assert_ne!(applied.code, Some(0), "{text}{}", applied.all());
        let told = "belong into pdns/int.example.com, which may be declared in int.yaml of source `infra`, which has errors";
        env.run(&["status"]).says(&["nothing is ordered", told]);
        assert_eq!(pebble.issued(), (0, 0), "{text}");
        is_clean(&pdns, "example.com");
    }
    env.push("int.yaml", &inner);
    env.apply();
    is_good(&env, &pebble, "web");
    is_clean(&pdns, "example.com");
    is_clean(&pdns, "int.example.com");
    assert_eq!(pebble.issued(), (1, 1));
}

#[test]
fn nothing_is_ordered_for_a_name_in_a_zone_that_is_for_other_hosts_and_it_is_said_for_which() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    let config = read(&env, "config.yaml");
    let labelled = |role: &str| format!("{config}host: {{name: h, labels: {{role: {role}}}}}\n");
    env.write("config.yaml", &labelled("web"));
    let named = "metadata: {name: int.example.com";
    let inner = zone("int.example.com", "pdns", WWW);
    assert!(inner.contains(named), "{inner}");
    let inner = inner.replace(named, &format!("{named}, annotations: {{reconciled/hosts: role=dns}}"));
    env.push("int.yaml", &inner);
    env.push("web.yaml", &web(&env, &pebble, "db.int.example.com"));
    for (is_around, told) in [(false, "holds `_acme-challenge.db.int.example.com"), (true, "belongs into")] {
        if is_around {
            env.push("zone.yaml", &zone("example.com", "pdns", WWW));
        }
        env.run(&["plan"]).says(&[told, "`reconciled/hosts` of zone `int.example.com` says role=dns"]);
        assert_ne!(env.run(&["apply", "--yes"]).code, Some(0));
        let other = "Zone/int.example.com is for other hosts: role=dns";
        env.run(&["status"]).says(&["nothing is ordered", told, other]);
        assert_eq!(pebble.issued(), (0, 0));
    }
    is_clean(&pdns, "example.com");
    env.write("config.yaml", &labelled("dns"));
    env.apply();
    is_good(&env, &pebble, "web");
    assert_eq!(pebble.issued(), (1, 1));
}

#[test]
fn what_is_renewed_while_a_window_is_closed_that_heals_is_had_and_leaves_nothing_behind() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    env.push("zone.yaml", &zone("example.com", "pdns", WWW));
    env.push("web.yaml", &web(&env, &pebble, "web.example.com"));
    env.apply();
    let before = fingerprint(&env, "web");
    let windows = "repo.git, windows: [{deny: \"* * * * *\", duration: 1h, heal: all}]}";
    env.write("config.yaml", &read(&env, "config.yaml").replace("repo.git}", windows));
    env.run(&["renew", "Certificate/web"]).exits(0);
    env.apply();
    assert_ne!(fingerprint(&env, "web"), before);
    assert_eq!(pebble.issued().0, 2);
    is_good(&env, &pebble, "web");
    is_clean(&pdns, "example.com");
    // What a commit asks for waits.
    env.push("other.yaml", &zone("example.net", "pdns", WWW));
    env.run(&["apply", "--yes"]).exits(3).says(&["window closed"]);
}
