//! Names, addresses, chains and ports as a real Pebble sees them.

use crate::{
    acme::{DNS, HTTP, TLS, WWW, desk, is_good, issuer},
    certificates::{certificate, manifest, openssl, read},
    env::zone,
    pdns::Pdns,
    pebble::Pebble,
    running::wait_for,
};
use reconciled::failpoint::VARIABLE;
use std::net::TcpListener;

#[test]
fn names_of_a_zone_that_others_manage_are_proven_where_its_cname_leads_to() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    // Nothing here may write to the zone of the names.
    pdns.create("example.com");
    pdns.set("example.com", "_acme-challenge", "CNAME", "example-com.acme.example.net.");
    let theirs = pdns.rrsets("example.com");
    env.push("zone.yaml", &zone("example.net", "pdns", WWW));
    env.apply();
    let ours = pdns.rrsets("example.net");
    let delegated = "{selector: {dnsZones: [example.com]}, dns01: {provider: pdns, delegatedTo: example-com.acme.example.net}}";
    let names = "dnsNames: [example.com, '*.example.com', www.example.net]";
    let web = certificate(&env, "web", &format!("issuerRef: {{name: le}}, {names}"));
    env.push("all.yaml", &(issuer(&pebble, &format!("{DNS}, {delegated}")) + &web));
    // The call that begins the order, and that which writes the records.
    let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, "call.after:2")]);
    assert_eq!(died.signal, Some(9), "{died:?}");
    let written = pdns.rrsets("example.net");
    assert!(written.keys().any(|name| name == "example-com.acme TXT"), "{written:?}");
    env.apply();
    is_good(&env, &pebble, "web");
    assert_eq!(pebble.issued(), (1, 1));
    assert_eq!((pdns.rrsets("example.com"), pdns.rrsets("example.net")), (theirs, ours));
    env.in_sync();
}

#[test]
fn addresses_are_proven_over_http_and_in_tls() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    env.push("zone.yaml", &zone("example.com", "pdns", WWW));
    env.apply();
    let both = "issuerRef: {name: le}, dnsNames: [www.example.com], ipAddresses: [127.0.0.1]";
    let over_http = issuer(&pebble, HTTP) + &certificate(&env, "web", both);
    let in_tls = issuer(&pebble, TLS).replace("name: le}", "name: tls}")
        + &certificate(&env, "tls", "issuerRef: {name: tls}, ipAddresses: [127.0.0.1]");
    env.push("all.yaml", &(over_http + &in_tls));
    env.apply();
    for (name, expect) in
        [("web", "DNS:www.example.com, IP Address:127.0.0.1"), ("tls", "IP Address:127.0.0.1")]
    {
        is_good(&env, &pebble, name);
        let file = format!("ssl/{name}/tls.crt");
        let text = openssl(&env, &["x509", "-in", &file, "-noout", "-ext", "subjectAltName"]);
        assert_eq!(text.lines().last().map(str::trim), Some(expect), "{text}");
    }
    assert_eq!(pebble.issued(), (2, 2));
    env.in_sync();
}

#[test]
fn the_chain_is_the_one_that_leads_to_the_preferred_root() {
    let pdns = Pdns::start();
    let chains = [("PEBBLE_ALTERNATE_ROOTS", "1"), ("PEBBLE_CHAIN_LENGTH", "2")];
    let pebble = Pebble::start(pdns.port, "", &chains);
    let env = desk(&pdns, &pebble, "");
    env.push("zone.yaml", &zone("example.com", "pdns", WWW));
    env.apply();
    let web = certificate(&env, "web", "issuerRef: {name: le}, dnsNames: [www.example.com]");
    let root = |number: usize| {
        pebble.other_root(number, &env.path("root.pem"));
        let subject = openssl(&env, &["x509", "-in", "root.pem", "-noout", "-subject"]);
        subject.rsplit('=').next().unwrap().trim().to_owned()
    };
    for (round, number) in [1, 0].into_iter().enumerate() {
        // From here on `root.pem` is the one that is preferred.
        let preferred = root(number);
        let acme = format!("{}, preferredChain: {preferred}, solvers: [{HTTP}]}}", pebble.acme());
        env.push("all.yaml", &(manifest("Issuer", "le", &acme) + &web));
        if round > 0 {
            // That alone is no reason for another certificate.
            env.in_sync();
            env.run(&["renew", "Certificate/web"]).exits(0);
        }
        env.apply();
        let chain = "ssl/web/tls.crt";
        openssl(&env, &["verify", "-CAfile", "root.pem", "-untrusted", chain, chain]);
        assert_eq!(read(&env, chain).matches("BEGIN CERTIFICATE").count(), 3);
        env.in_sync();
    }
    assert_eq!(pebble.issued(), (2, 2));
}

#[test]
fn a_port_that_another_program_has_is_told_with_what_to_do_and_the_order_waits_for_it() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    let records = ["{name: a, type: A, values: [127.0.0.1]}", "{name: b, type: A, values: [127.0.0.1]}"];
    env.push("zone.yaml", &zone("example.com", "pdns", &records));
    env.apply();
    let others = [pebble.http, pebble.tls].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
    let in_tls = format!("{{selector: {{dnsNames: [b.example.com]}}, {}", TLS.trim_start_matches('{'));
    let mut all = issuer(&pebble, &format!("{HTTP}, {in_tls}"));
    for name in ["a", "b"] {
        all += &certificate(&env, name, &format!("issuerRef: {{name: le}}, dnsNames: [{name}.example.com]"));
    }
    env.push("all.yaml", &all);
    let at = |port: u16, what: &str| {
        format!("listen at 127.0.0.1:{port} for challenges {what}: Address already in use")
    };
    // How far one gets in its time depends on the machine.
    wait_for("both ports to be told of", || {
        let applied = env.run(&["apply", "--yes", "--timeout", "1s"]);
        assert_ne!(applied.code, Some(0), "{}", applied.all());
        let status = env.run(&["status"]).all();
        let hints = [
            "give `listen` of the provider entry another one",
            "give `listenTls` of the provider entry another one",
        ];
        let told = [at(pebble.http, "over HTTP"), at(pebble.tls, "in TLS")];
        told.iter().map(String::as_str).chain(hints).all(|part| status.contains(part))
    });
    assert_eq!(pebble.issued(), (0, 2));
    drop(others);
    env.apply();
    ["a", "b"].iter().for_each(|name| is_good(&env, &pebble, name));
    assert_eq!(pebble.issued(), (2, 2), "the orders that were waiting");
    env.in_sync();
}
