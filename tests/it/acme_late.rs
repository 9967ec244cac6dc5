//! Challenges over DNS while a name server is behind: two real BIND, of which the second follows by hand.

use crate::{
    acme::is_good,
    certificates::{certificate, manifest},
    env::{Env, WIDE_GUARD, zone},
    pebble::Pebble,
    running::{Daemon, wait_for},
    updates::{Bind, entry},
};
use std::fs;

const CHALLENGE: &str = "_acme-challenge.example.com";

/// A desk whose zone is at `first`, and served once `second` serves it too; `web` is proven by a record of it.
fn desk(first: &Bind, second: &Bind, pebble: &Pebble, timeout: &str) -> Env {
    let env = Env::trusted();
    fs::create_dir(env.path("ssl")).unwrap();
    let places = [first.port, second.port].map(|port| format!("\"127.0.0.1:{port}\"")).join(", ");
    let verify = format!("verify: {{authoritative: true, timeout: {timeout}, servers: [{places}]}}");
    let bind = entry(&env, first, &format!("{WIDE_GUARD}, {verify}"));
    let ssl = env.path("ssl");
    let cert =
        format!("  - {{name: cert, type: certificates, paths: [{}], listen: '127.0.0.1:0'}}", ssl.display());
    env.config(&format!("{bind}\n{cert}"));
    let solvers = format!("{}, solvers: [{{dns01: {{provider: bind}}}}]}}", pebble.acme());
    let web = certificate(&env, "web", "issuerRef: {name: le}, dnsNames: [example.com]");
    env.write("work/zone.yaml", &zone("example.com", "bind", &["{name: www, type: A, values: [127.0.0.1]}"]));
    env.write("work/web.yaml", &format!("{}{web}", manifest("Issuer", "le", &solvers)));
    env.push_all();
    second.change("update add www.example.com. 300 A 127.0.0.1");
    env
}

#[test]
fn the_authority_is_not_asked_before_every_name_server_has_the_record() {
    let (first, second) = (Bind::start(), Bind::start());
    let pebble = Pebble::start(second.port, "", &[]);
    let env = desk(&first, &second, &pebble, "10m");
    let _daemon = Daemon::start(&env);
    wait_for("the record at the first server", || !first.ask(CHALLENGE, "TXT").is_empty());
    let record = || env.run(&["status", "Claim/*", "-o", "json"]).stdout;
    let lack = format!("127.0.0.1:{} does not know the name", second.port);
    wait_for("the second server to be blamed", || record().contains(&lack));
    // The certificate is looked at again meanwhile, and waits on.
    env.run(&["sync", "Certificate/web"]).exits(0);
    wait_for("another look", || record().contains(&lack));
    assert_eq!((pebble.issued(), asked(&pebble)), ((0, 1), 0));

    second.change(&format!("update add {CHALLENGE}. 60 TXT {}", first.ask(CHALLENGE, "TXT").trim()));
    wait_for("the certificate", || env.path("ssl/web/tls.crt").exists());
    is_good(&env, &pebble, "web");
    assert_eq!((pebble.issued(), asked(&pebble)), ((1, 1), 1));
    wait_for("the record to be gone", || first.ask(CHALLENGE, "TXT").is_empty());
}

#[test]
fn a_name_server_that_never_has_the_record_leaves_the_authority_to_judge() {
    let (first, second) = (Bind::start(), Bind::start());
    // It asks the one that has it.
    let pebble = Pebble::start(first.port, "", &[]);
    let env = desk(&first, &second, &pebble, "2s");
    let _daemon = Daemon::start(&env);
    wait_for("the certificate", || env.path("ssl/web/tls.crt").exists());
    is_good(&env, &pebble, "web");
    assert_eq!((pebble.issued(), asked(&pebble)), ((1, 1), 1));
    assert_eq!(second.ask(CHALLENGE, "TXT"), "");
    wait_for("the record to be gone", || first.ask(CHALLENGE, "TXT").is_empty());
}

/// How many challenges the authority was told to look at.
fn asked(pebble: &Pebble) -> usize {
    pebble.log().lines().filter(|line| line.contains("/chalZ/")).count()
}
