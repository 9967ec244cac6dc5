//! Accounts at a real Pebble: one that gets another key, one that was deactivated there, and the next issuer where one fails.

use crate::{
    acme::{DNS, HTTP, WWW, desk, is_clean, is_good, issuer},
    certificates::{certificate, manifest},
    env::{Env, zone},
    pdns::Pdns,
    pebble::{Pebble, free_port},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use reconciled::failpoint::VARIABLE;
use serde_json::{Value, json};
use std::{fs, path::PathBuf};

/// The file of the only account, and what it says.
fn account(env: &Env) -> (PathBuf, Value) {
    let mut files = fs::read_dir(env.path("state/certificates/cert/accounts")).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none(), "one account");
    let kept = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    (file, kept)
}

/// The issuers `first` and `second`, which are these authorities.
fn two_issuers(first: &Pebble, second: &Pebble) -> String {
    issuer(first, HTTP).replace("name: le}", "name: first}")
        + &issuer(second, DNS).replace("name: le}", "name: second}")
}

/// A certificate for a name of [`WWW`].
fn web(env: &Env, issuers: &str) -> String {
    certificate(env, "web", &format!("{issuers}, dnsNames: [www.example.com]"))
}

#[test]
fn an_account_gets_another_key_in_time_and_orders_with_it() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    env.push("zone.yaml", &zone("example.com", "pdns", WWW));
    env.apply();
    let acme = format!("{}, rotateAccountKeyAfter: 365d, solvers: [{HTTP}]}}", pebble.acme());
    env.push("all.yaml", &(manifest("Issuer", "le", &acme) + &web(&env, "issuerRef: {name: le}")));
    env.apply();
    let (file, mut before) = account(&env);
    // As if it had been made more than a year ago.
    before["madeAt"] = json!(before["madeAt"].as_u64().unwrap() - 366 * 86_400);
    fs::write(&file, before.to_string()).unwrap();
    let changes = || pebble.log().matches("POST /rollover-account-key").count();
    assert_eq!(changes(), 0);
    env.run(&["renew", "Certificate/web"]).exits(0);
    // The answer to that is lost, so it has to be asked which of the two keys it knows.
    let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, "authority.after:1")]);
    assert_eq!((died.signal, changes()), (Some(9), 1), "{died:?}");
    for round in 2..=3 {
        env.apply();
        is_good(&env, &pebble, "web");
        assert_eq!((pebble.issued(), changes()), ((round, round), 1), "{}", pebble.log());
        env.in_sync();
        env.run(&["renew", "Certificate/web"]).exits(0);
    }
    let (_, after) = account(&env);
    assert_eq!(after["url"], before["url"]);
    assert_ne!(after["key"], before["key"]);
}

#[test]
fn an_account_that_was_deactivated_is_told_of_and_the_next_issuer_asked_until_another_one_is_made() {
    let pdns = Pdns::start();
    let (first, second) = (Pebble::start(pdns.port, "", &[]), Pebble::start(pdns.port, "", &[]));
    let env = desk(&pdns, &first, "");
    env.push("zone.yaml", &zone("example.com", "pdns", WWW));
    env.apply();
    let issuers = two_issuers(&first, &second);
    env.push("all.yaml", &format!("{issuers}{}", web(&env, "issuerRef: {name: first}")));
    env.apply();
    let (file, kept) = account(&env);
    let key = STANDARD.decode(kept["key"].as_str().unwrap()).unwrap();
    first.deactivate(kept["url"].as_str().unwrap(), &key);
    env.run(&["renew", "Certificate/web"]).exits(0);
    let name = file.file_name().unwrap().to_str().unwrap();
    let hint = format!(
        "move DIR/state/certificates/cert/accounts/{name} away, and then: reconciled sync Certificate/web; without a \
         daemon: reconciled apply --target Certificate/web"
    );
    env.run(&["apply", "--yes"]).exits(3).says(&["was the account deactivated there?", &hint]);
    env.run(&["status"]).says(&["NEEDS A PERSON (1)", &hint]);
    assert_eq!(first.issued(), (1, 1));

    env.push("all.yaml", &format!("{issuers}{}", web(&env, "issuerRefs: [{name: first}, {name: second}]")));
    env.apply();
    assert_eq!((first.issued(), second.issued()), ((1, 1), (1, 1)));
    is_good(&env, &second, "web");
    is_clean(&pdns, "example.com");
    env.in_sync();

    fs::rename(&file, env.path("away.json")).unwrap();
    env.run(&["renew", "Certificate/web"]).exits(0);
    env.apply();
    assert_eq!((first.issued(), second.issued()), ((2, 2), (1, 1)));
    is_good(&env, &first, "web");
    env.in_sync();
}

#[test]
fn an_authority_that_refuses_is_made_up_for_by_the_next_issuer_at_once() {
    let pdns = Pdns::start();
    // It asks a DNS server where nobody is, so nothing can be proven to it.
    let (first, second) = (Pebble::start(free_port(), "", &[]), Pebble::start(pdns.port, "", &[]));
    let env = desk(&pdns, &first, "");
    env.push("zone.yaml", &zone("example.com", "pdns", WWW));
    let issuers = two_issuers(&first, &second);
    env.push("all.yaml", &format!("{issuers}{}", web(&env, "issuerRefs: [{name: first}, {name: second}]")));
    env.apply();
    assert_eq!((first.issued(), second.issued()), ((0, 1), (1, 1)));
    is_good(&env, &second, "web");
    is_clean(&pdns, "example.com");
    env.in_sync();
    env.run(&["status", "Certificate/web", "-o", "wide"]).exits(0).says(&["1 in a row, asked again at"]);
}
