//! Secrets that cannot be had in the middle: nothing is lost or made of less, and all goes on once they are there again.

use crate::{
    acme::{self, is_good},
    certificates::{certificate, desk, fingerprint, is_pair, manifest, openssl, read},
    env::{Env, zone},
    pdns::Pdns,
    pebble::Pebble,
    running::{Daemon, wait_for},
};
use std::fs;

/// Declares secrets of these names, each in a file that is called so.
fn declare_secrets(env: &Env, names: &[&str]) {
    let at = |name: &&str| format!("{name}: {{file: {}}}", env.path(name).display());
    let all: Vec<String> = names.iter().map(at).collect();
    env.write("config.yaml", &format!("{}secrets: {{{}}}\n", read(env, "config.yaml"), all.join(", ")));
}

/// What accounts are bound with, as `kid-1`.
const KEY: &str = "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LWNhbmFyeQ";

/// An authority that makes no account without [`KEY`], and a desk at which it is the secret `eab`.
fn bound(pdns: &Pdns) -> (Pebble, Env) {
    let keys = format!(
        ", \"externalAccountMACKeys\": {{\"kid-1\": \"{KEY}\"}}, \"externalAccountBindingRequired\": true"
    );
    let pebble = Pebble::start(pdns.port, &keys, &[]);
    let env = acme::desk(pdns, &pebble, "");
    declare_secrets(&env, &["eab"]);
    (pebble, env)
}

/// It is due, and a file is gone.
fn make_due(env: &Env) {
    env.run(&["renew", "Certificate/web"]).exits(0);
    fs::remove_file(env.path("ssl/web/tls.key")).unwrap();
}

#[test]
fn a_certificate_is_renewed_and_put_back_without_the_key_that_its_account_was_bound_with() {
    let pdns = Pdns::start();
    let (pebble, env) = bound(&pdns);
    env.write("eab", KEY);
    let binding = "externalAccountBinding: {keyID: kid-1, key: {secret: eab}}";
    let solvers = "solvers: [{dns01: {provider: pdns}}]";
    let issuer = manifest("Issuer", "le", &format!("{}, {binding}, {solvers}}}", pebble.acme()));
    let of = |name: &str| {
        certificate(&env, name, &format!("issuerRef: {{name: le}}, dnsNames: [{name}.example.com]"))
    };
    let zone = zone("example.com", "pdns", &["{name: www, type: A, values: [127.0.0.1]}"]);
    env.push("all.yaml", &format!("{issuer}{}{zone}", of("web")));
    env.apply();
    let first = fingerprint(&env, "web");
    make_due(&env);
    fs::remove_file(env.path("eab")).unwrap();
    let words =
        ["no account can be bound", "read secret file", "one that is made already is used without it"];
    env.run(&["plan"]).exits(0).says(&words);
    env.apply();
    is_good(&env, &pebble, "web");
    assert_ne!(fingerprint(&env, "web"), first);
    env.in_sync();
    // Others of the same account are had as well.
    env.push("other.yaml", &of("other"));
    env.apply();
    is_good(&env, &pebble, "other");
    assert_eq!(fs::read_dir(env.path("state/certificates/cert/accounts")).unwrap().count(), 1);
    // A name that the host does not know is a mistake all the same.
    env.push("all.yaml", &format!("{issuer}{}{zone}", of("web")).replace("secret: eab", "secret: bea"));
    env.run(&["plan"]).exits(1).says(&["secret `bea` is not declared on this host"]);
}

#[test]
fn a_daemon_binds_its_account_once_the_key_is_the_right_one() {
    let pdns = Pdns::start();
    let (pebble, env) = bound(&pdns);
    let config = read(&env, "config.yaml").replace("repo.git}", "repo.git, interval: 1s}");
    env.write("config.yaml", &config);
    env.write("eab", &KEY.replacen("Y2Fu", "bm90", 1));
    let binding = "externalAccountBinding: {keyID: kid-1, key: {secret: eab}}";
    let solvers = "solvers: [{dns01: {provider: pdns}}]";
    let issuer = manifest("Issuer", "le", &format!("{}, {binding}, {solvers}}}", pebble.acme()));
    let web = certificate(&env, "web", "issuerRef: {name: le}, dnsNames: [web.example.com]");
    let zone = zone("example.com", "pdns", &["{name: www, type: A, values: [127.0.0.1]}"]);
    env.push("all.yaml", &format!("{issuer}{web}{zone}"));
    let daemon = Daemon::start(&env);
    wait_for("the wrong key is told of", || {
        env.run(&["status"]).all().contains("are keyID `kid-1` and secret eab what the authority gave")
    });
    assert_eq!(pebble.issued(), (0, 0));
    // Nobody asks: the secret is looked at when the source is.
    env.write("eab", KEY);
    wait_for("it is had", || {
        ["crt", "key"].iter().all(|end| env.path(&format!("ssl/web/tls.{end}")).exists())
    });
    is_good(&env, &pebble, "web");
    daemon.stop();
}

#[test]
fn a_certificate_stays_as_it_is_while_who_signs_it_or_the_password_of_its_file_is_away() {
    let env = desk();
    let (ca, password) = (["ca.pem", "ca.key"], "password");
    crate::pebble::write_server(env.dir.path());
    env.write(password, "canary");
    declare_secrets(&env, &[ca[0], ca[1], password]);
    let issuer = manifest("Issuer", "ca", "ca: {cert: {secret: ca.pem}, key: {secret: ca.key}}");
    let web = certificate(
        &env,
        "web",
        "issuerRef: {name: ca}, dnsNames: [a.example], duration: 1d, reload: [app.service]",
    );
    let web = web.replacen("}, ", ", pkcs12: {password: {secret: password}}}, ", 1);
    env.push("all.yaml", &format!("{issuer}{web}"));
    env.apply();
    openssl(&env, &["verify", "-CAfile", "ca.pem", "ssl/web/tls.crt"]);
    for away in [ca[0], ca[1], password] {
        let (first, chain) = (fingerprint(&env, "web"), read(&env, "ssl/web/tls.crt"));
        let told = read(&env, "reloaded");
        make_due(&env);
        fs::rename(env.path(away), env.path("elsewhere")).unwrap();
        env.run(&["plan"]).exits(1).says(&["read secret file", away]).hides(&["- Certificate/web"]);
        for _ in 0..2 {
            env.run(&["apply", "--yes"]).exits(1).says(&["read secret file", away]);
            assert_eq!(read(&env, "ssl/web/tls.crt"), chain, "{away}");
            assert!(env.path("ssl/web/keystore.p12").exists(), "{away}");
        }
        assert_eq!(read(&env, "reloaded"), told, "{away}");
        env.run(&["status", "--exit-code"]).exits(3).says(&["FROZEN (1)\n  Certificate/web"]);
        fs::rename(env.path("elsewhere"), env.path(away)).unwrap();
        env.apply();
        is_pair(&env, "web");
        openssl(&env, &["verify", "-CAfile", "ca.pem", "ssl/web/tls.crt"]);
        assert_ne!(fingerprint(&env, "web"), first, "{away}: what was asked for is done");
        env.in_sync();
    }
}
