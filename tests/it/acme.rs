//! Certificates of an authority: real Pebble, names proven by records of a real PowerDNS and over HTTP.

use crate::{
    acme_web::Nginx,
    certificates::{certificate, fingerprint, is_pair, make_regular, manifest, openssl, read},
    env::{Env, WIDE_GUARD, zone},
    pdns::Pdns,
    pebble::Pebble,
    running::wait_for,
};
use reconciled::failpoint::{CERTIFICATES, NAMES, VARIABLE};
use std::{fs, time::Instant};

const SIGKILL: i32 = 9;

/// A desk with the entries `pdns` and `cert`.
pub(crate) fn desk(pdns: &Pdns, pebble: &Pebble, keys: &str) -> Env {
    let env = Env::trusted();
    fs::create_dir(env.path("ssl")).unwrap();
    env.write("key", &pdns.key);
    let dir = env.dir.path().display();
    let cert = format!(
        "  - {{name: cert, type: certificates, paths: [{dir}/ssl], listen: '127.0.0.1:{}', listenTls: '127.0.0.1:{}', \
         reload: [sh, -c, 'cd {dir}; echo $1 >> reloaded', sh, '{{unit}}'], {WIDE_GUARD}}}\n{keys}",
        pebble.http, pebble.tls
    );
    env.config(&format!("{}\n{cert}", env.pdns_entry(&pdns.url, WIDE_GUARD)));
    env
}

pub(crate) fn issuer(pebble: &Pebble, solver: &str) -> String {
    manifest("Issuer", "le", &format!("{}, solvers: [{solver}]}}", pebble.acme()))
}

pub(crate) const DNS: &str = "{dns01: {provider: pdns}}";
pub(crate) const HTTP: &str = "{http01: {}}";
pub(crate) const TLS: &str = "{tlsAlpn01: {}}";
/// By files in a folder that a web server shows.
const WEBROOT: &str = "{http01: {webroot: DIRECTORY}}";

/// What a zone has besides.
pub(crate) const WWW: &[&str] = &["{name: www, type: A, values: [127.0.0.1]}"];

/// The chain leads to the root of the authority, and the key is its own.
#[track_caller]
pub(crate) fn is_good(env: &Env, pebble: &Pebble, name: &str) {
    pebble.root(&env.path("root.pem"));
    let chain = format!("ssl/{name}/tls.crt");
    openssl(env, &["verify", "-CAfile", "root.pem", "-untrusted", &chain, &chain]);
    is_pair(env, name);
}

/// Nothing is left of what proved names.
#[track_caller]
pub(crate) fn is_clean(pdns: &Pdns, zone: &str) {
    let left: Vec<_> =
        pdns.rrsets(zone).into_keys().filter(|name| name.contains("_acme-challenge")).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_name_and_all_below_it_are_proven_by_records_that_are_gone_afterwards() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    let web = certificate(
        &env,
        "web",
        "issuerRef: {name: le}, dnsNames: [example.com, '*.example.com'], reload: [nginx.service]",
    );
    let zone = zone("example.com", "pdns", &["{name: www, type: A, values: [127.0.0.1]}"]);
    env.push("all.yaml", &format!("{}{web}{zone}", issuer(&pebble, DNS)));
    let planned = env.run(&["plan"]).exits(0).says(&["+ Certificate/web"]).all();
    assert_eq!(pebble.issued(), (0, 0), "a plan orders nothing");
    // The records that prove the names were in no plan, and are not counted as if they had been.
    let (before, _) = planned.rsplit_once(" to create").expect("what would be created");
    let count = before.rsplit(' ').next().unwrap_or_default();
    let summary = format!("Applied: {count} created, 0 updated, 0 replaced, 0 deleted, 0 adopted; ");
    env.run(&["apply", "--yes"]).exits(0).says(&[&summary, "claimed or given back on the way"]);
    is_good(&env, &pebble, "web");
    is_clean(&pdns, "example.com");
    let text = openssl(&env, &["x509", "-in", "ssl/web/tls.crt", "-noout", "-ext", "subjectAltName"]);
    assert!(text.contains("DNS:*.example.com") && text.contains("DNS:example.com"), "{text}");
    assert_eq!((pebble.issued(), read(&env, "reloaded")), ((1, 1), "nginx.service\n".into()));
    env.in_sync();
    env.apply();
    assert_eq!(pebble.issued(), (1, 1));

    // The certificate is there still when the files are not.
    let first = fingerprint(&env, "web");
    fs::remove_dir_all(env.path("ssl/web")).unwrap();
    env.apply();
    assert_eq!((fingerprint(&env, "web"), pebble.issued()), (first, (1, 1)));
}

#[test]
fn a_record_that_never_gets_a_place_is_told_of_with_what_to_write() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    let web = certificate(&env, "web", "issuerRef: {name: le}, dnsNames: [web.example.com]");
    let all = |zone: &str| format!("{}{web}{zone}", issuer(&pebble, DNS));
    let missing = "no zone of provider `pdns` that is declared holds `_acme-challenge.web.example.com`";
    env.push("all.yaml", &all(""));
    env.run(&["plan"]).exits(0).says(&[missing, "+ Certificate/web"]);
    let alias = "{name: _acme-challenge.web, type: CNAME, values: [elsewhere.example.net.]}";
    let aliased = zone("example.com", "pdns", &[alias]);
    env.push("all.yaml", &aliased);
    env.apply();
    env.push("all.yaml", &all(&aliased));
    env.run(&["plan"]).exits(0).says(&["+ Certificate/web"]).hides(&[missing]);
    let told = [
        "waits for what it claims: _acme-challenge.web.example.com./TXT in pdns/example.com",
        "cannot be made beside _acme-challenge.web.example.com./CNAME, which is declared",
        "or say in the one that claims this that it goes elsewhere",
    ];
    // How far one gets in its time depends on the machine.
    wait_for("the order to wait for its record", || {
        let applied = env.run(&["apply", "--yes", "--timeout", "5s"]);
        assert_ne!(applied.code, Some(0), "{}", applied.all());
        let status = env.run(&["status"]).all();
        told.iter().all(|part| status.contains(part))
    });
    env.push("all.yaml", &all(&zone("example.com", "pdns", WWW)));
    env.apply();
    is_good(&env, &pebble, "web");
    is_clean(&pdns, "example.com");
    assert_eq!(pebble.issued(), (1, 1), "the order that was waiting");
}

#[test]
fn names_are_proven_over_http_and_in_tls_while_somebody_waits() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    let names = ["a", "b", "c"];
    let records: Vec<String> =
        names.iter().map(|name| format!("{{name: {name}, type: A, values: [127.0.0.1]}}")).collect();
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    env.push("zone.yaml", &zone("example.com", "pdns", &records));
    env.apply();
    let mut text =
        issuer(&pebble, &format!("{HTTP}, {{selector: {{dnsNames: [c.example.com]}}, tlsAlpn01: {{}}}}"));
    for name in names {
        // One of each challenge in one order, and an RSA key.
        let rest = if name == "b" { ", c.example.com" } else { "" };
        let spec = format!("dnsNames: [{name}.example.com{rest}], privateKey: {{algorithm: RSA}}");
        text += &certificate(&env, name, &format!("issuerRef: {{name: le}}, {spec}"));
    }
    env.push("certificates.yaml", &text);
    env.apply();
    for name in names {
        is_good(&env, &pebble, name);
    }
    env.in_sync();
}

#[test]
fn twenty_certificates_are_had_at_once_although_half_of_all_nonces_are_refused() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[("PEBBLE_WFE_NONCEREJECT", "50")]);
    let env = desk(&pdns, &pebble, "");
    env.push("zone.yaml", &zone("example.com", "pdns", WWW));
    env.apply();
    let names: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
    let mut text = issuer(&pebble, DNS);
    for name in &names {
        text += &certificate(&env, name, &format!("issuerRef: {{name: le}}, dnsNames: [{name}.example.com]"));
    }
    env.push("certificates.yaml", &text);
    let begun = Instant::now();
    env.apply();
    println!("20 certificates in {:?}", begun.elapsed());
    names.iter().for_each(|name| is_good(&env, &pebble, name));
    assert_eq!(pebble.issued(), (20, 20));
    is_clean(&pdns, "example.com");
    env.in_sync();
    // Whether it suggests moments is asked once.
    env.apply();
    let calls = pebble.calls();
    env.apply();
    assert_eq!(pebble.calls(), calls, "nothing is to be done, and nothing asked: {}", pebble.log());
}

#[test]
fn an_account_is_bound_to_one_that_exists_and_its_key_is_nowhere() {
    let pdns = Pdns::start();
    let key = "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LWNhbmFyeQ";
    let keys = format!(
        ", \"externalAccountMACKeys\": {{\"kid-1\": \"{key}\"}}, \"externalAccountBindingRequired\": true"
    );
    let pebble = Pebble::start(pdns.port, &keys, &[]);
    let env = desk(&pdns, &pebble, "");
    let config = read(&env, "config.yaml");
    env.write("eab", key);
    env.write("config.yaml", &format!("{config}secrets: {{eab: {{file: {}}}}}\n", env.path("eab").display()));
    let web = certificate(&env, "web", "issuerRef: {name: le}, dnsNames: [example.com]");
    let all = |issuer: &str| format!("{issuer}{web}{}", zone("example.com", "pdns", WWW));
    env.push("all.yaml", &all(&issuer(&pebble, DNS)));
    let refused = env.run(&["apply", "--yes"]);
    assert!(
        refused.code != Some(0) && refused.all().contains("externalAccountBinding: {keyID: ID"),
        "{}",
        refused.all()
    );
    let bound = manifest(
        "Issuer",
        "le",
        &format!(
            "{}, externalAccountBinding: {{keyID: kid-1, key: {{secret: eab}}}}, solvers: [{DNS}]}}",
            pebble.acme()
        ),
    );
    env.push("all.yaml", &all(&bound));
    let said = env.run(&["-vv", "apply", "--yes"]).exits(0).all() + &env.run(&["plan", "-o", "json"]).all();
    is_good(&env, &pebble, "web");
    env.in_sync();
    let accounts = fs::read_dir(env.path("state/certificates/cert/accounts")).unwrap();
    let accounts = accounts.map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let accounts: Vec<serde_json::Value> =
        accounts.map(|text| serde_json::from_slice(&text).unwrap()).collect();
    let mut secrets: Vec<&str> = accounts.iter().map(|account| account["key"].as_str().unwrap()).collect();
    secrets.push(key);
    for secret in secrets {
        assert!(!said.contains(secret));
        for entry in fs::read_dir(env.path("state")).unwrap() {
            let path = entry.unwrap().path();
            let bytes = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{}", path.display());
        }
    }
}

#[test]
fn an_authority_without_memory_is_told_again_who_we_are() {
    let pdns = Pdns::start();
    let mut pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    let web = |names: &str| {
        let web = certificate(&env, "web", &format!("issuerRef: {{name: le}}, dnsNames: [{names}]"));
        format!("{}{web}{}", issuer(&pebble, DNS), zone("example.com", "pdns", WWW))
    };
    let (one, two) = (web("example.com"), web("example.com, www.example.com"));
    env.push("all.yaml", &one);
    env.apply();
    pebble.restart();
    env.push("all.yaml", &two);
    env.apply();
    is_good(&env, &pebble, "web");
    is_clean(&pdns, "example.com");
    env.in_sync();
}

#[test]
fn an_authority_whose_own_certificate_is_not_trusted_is_told_with_the_key_to_set() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    let acme = pebble.acme();
    let (untrusted, _) = acme.split_once(", caBundle").unwrap();
    let of = |name: &str| {
        certificate(&env, name, &format!("issuerRef: {{name: le}}, dnsNames: ['{name}.example.com']"))
    };
    let issuer = manifest("Issuer", "le", &format!("{untrusted}, solvers: [{HTTP}]}}"));
    env.push("all.yaml", &format!("{issuer}{}{}", of("a"), of("b")));
    let words = ["its own certificate is not trusted", "set `caBundle` of the issuer"];
    env.run(&["apply", "--yes", "--timeout", "3s"]).says(&words);
    // Whoever does not ask since another one had no answer says the same.
    let status = env.run(&["status"]).stdout;
    assert!(status.contains("WAITING (2)"), "each is told once: {status}");
    assert_eq!(status.matches("is not trusted").count(), 2, "{status}");
}

#[test]
fn an_authority_that_refuses_is_not_asked_again_at_once_and_leaves_nothing_behind() {
    let pdns = Pdns::start();
    // It asks a DNS server where nobody is, so nothing can be proven.
    let pebble = Pebble::start(crate::pebble::free_port(), "", &[]);
    let env = desk(&pdns, &pebble, "");
    let web = certificate(&env, "web", "issuerRef: {name: le}, dnsNames: [example.com]");
    env.push("all.yaml", &format!("{}{web}{}", issuer(&pebble, DNS), zone("example.com", "pdns", WWW)));
    let refused = env.run(&["apply", "--yes", "--timeout", "5s"]);
    assert!(refused.code == Some(4) || refused.code == Some(1), "{}", refused.all());
    refused.says(&["refused once", "example.com: "]);
    is_clean(&pdns, "example.com");
    let orders = pebble.issued();
    assert_eq!(orders, (0, 1));
    env.run(&["apply", "--yes", "--timeout", "1s"]).says(&["refused once"]);
    assert_eq!(pebble.issued(), orders);
    assert!(!env.path("ssl/web").exists());
    // Another wish is another matter.
    let both = certificate(&env, "web", "issuerRef: {name: le}, dnsNames: [example.com, www.example.com]");
    env.push("all.yaml", &format!("{}{both}{}", issuer(&pebble, DNS), zone("example.com", "pdns", WWW)));
    env.run(&["apply", "--yes", "--timeout", "5s"]).says(&["refused once"]);
    assert_eq!(pebble.issued(), (0, 2));
}

#[test]
fn what_is_selected_has_its_records_written_and_taken_away() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    env.push("zone.yaml", &zone("example.com", "pdns", WWW));
    env.apply();
    let web = certificate(&env, "web", "issuerRef: {name: le}, dnsNames: [example.com]");
    env.push("all.yaml", &(issuer(&pebble, DNS) + &web));
    // The call that begins the order, and that which writes the record.
    let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, "call.after:2")]);
    assert_eq!(died.signal, Some(SIGKILL), "{died:?}");
    assert!(pdns.rrsets("example.com").keys().any(|name| name.contains("_acme-challenge")));
    for (number, selection) in ["--target=Certificate/web", "--source=infra"].into_iter().enumerate() {
        env.run(&["apply", "--yes", selection]).exits(0);
        assert_eq!(pebble.issued().0, number + 1, "{selection}");
        is_good(&env, &pebble, "web");
        is_clean(&pdns, "example.com");
        env.in_sync();
        env.run(&["renew", "Certificate/web"]).exits(0);
    }
}

/// What a process is killed at.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    First,
    Renewal,
}

/// A desk at which the certificate `web` is declared, and its zone served.
struct Place<'a> {
    _server: Option<Nginx>,
    env: Env,
    pdns: &'a Pdns,
    pebble: &'a Pebble,
    zone: String,
}

impl<'a> Place<'a> {
    fn new(pdns: &'a Pdns, pebble: &'a Pebble, solver: &str, label: &str) -> Place<'a> {
        let zone_name = format!("{label}.example.com");
        let env = desk(pdns, pebble, "");
        let webroot = env.path("ssl/webroot");
        let server = (solver == WEBROOT).then(|| Nginx::of_files(&env, &webroot, pebble.http));
        let solver_here = solver.replace("DIRECTORY", &webroot.display().to_string());
        env.push("zone.yaml", &zone(&zone_name, "pdns", &["{name: '@', type: A, values: [127.0.0.1]}"]));
        env.apply();
        let names = if solver == DNS { format!("{zone_name}, '*.{zone_name}'") } else { zone_name.clone() };
        let web = certificate(
            &env,
            "web",
            &format!("issuerRef: {{name: le}}, dnsNames: [{names}], reload: [a.service]"),
        );
        env.push("all.yaml", &(issuer(pebble, &solver_here) + &web));
        Place { _server: server, env, pdns, pebble, zone: zone_name }
    }

    /// One where `web` is had, to be renewed as often as anybody likes.
    fn with_certificate(pdns: &'a Pdns, pebble: &'a Pebble, solver: &str) -> Place<'a> {
        let place = Place::new(pdns, pebble, solver, "renewed");
        // The same names come more often than a real authority would have it.
        let config = read(&place.env, "config.yaml");
        let without = config.replace("type: certificates,", "type: certificates, limits: none,");
        assert_ne!(config, without);
        place.env.write("config.yaml", &without);
        place.env.apply();
        place
    }
}

/// Goes on after a death. Where the authority looked while nobody was there to answer, it is asked again at once, as the hint
/// says; who `is_patient` waits, once. True where it did: that order is over, and another one needed.
fn go_on(env: &Env, point: &str, is_patient: &mut bool) -> bool {
    // A refusal is waited out for a minute, so here it never is.
    let mut again = env.run(&["apply", "--yes", "--timeout", "45s"]);
    let was_refused = again.all().contains("refused once");
    if was_refused && !std::mem::take(is_patient) {
        again = again.says(&["hint: to try at once after mending it: reconciled renew Certificate/web"]);
        env.run(&["renew", "Certificate/web"]).exits(0);
    }
    if again.code != Some(0) {
        again = env.run(&["apply", "--yes"]);
    }
    assert_eq!(again.code, Some(0), "{point}: {}", again.all());
    was_refused
}

/// One life, killed once at `point`. True when it was reached.
fn life(place: &Place<'_>, work: Work, name: &str, hit: u32, is_patient: &mut bool) -> bool {
    let Place { env, pebble, .. } = place;
    let point = format!("{name}:{hit}");
    if work == Work::Renewal {
        if name == "certificate.link" {
            // Only then is there another name to be switched.
            make_regular(env, "web");
        }
        env.run(&["renew", "Certificate/web"]).exits(0);
        env.write("reloaded", "");
    }
    let first = read(env, "ssl/web/tls.crt");
    let before = pebble.issued();
    let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, &point)]);
    let was_reached = died.signal == Some(SIGKILL);
    assert!(was_reached || died.code == Some(0), "{point}: {died:?}");
    let is_there = |file: &&str| env.path(&format!("ssl/web/{file}")).exists();
    if work == Work::Renewal || ["tls.crt", "tls.key"].iter().all(is_there) {
        is_pair(env, "web");
    }
    // The answer to the order is lost with the process: nobody knows where the order is.
    let is_lost = was_reached && name == "authority.after" && pebble.was_an_order_last();
    let was_refused = go_on(env, &point, is_patient);
    is_good(env, pebble, "web");
    assert_ne!(read(env, "ssl/web/tls.crt"), first, "{point}");
    is_clean(place.pdns, &place.zone);
    let (issued, orders) = pebble.issued();
    assert_eq!(issued - before.0, 1, "{point}: certificates issued");
    let most = 1 + usize::from(is_lost) + usize::from(was_refused);
    assert!(orders - before.1 <= most, "{point}: orders");
    assert!(read(env, "reloaded").contains("a.service"), "{point}");
    env.in_sync();
    assert_eq!(env.sql("SELECT count(*) FROM journal WHERE ended < total"), "0", "{point}: open intents");
    was_reached
}

/// A life for each hit of each of these failpoints, at most so many of one; all of them are reached.
fn lives<'n>(solver: &str, work: Work, names: impl IntoIterator<Item = &'n str>, most: u32) {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let renewed = (work == Work::Renewal).then(|| Place::with_certificate(&pdns, &pebble, solver));
    // The minute after a refusal is spent in one of these tests alone.
    let mut is_patient = solver == TLS && work == Work::First && most > 1;
    for name in names {
        let mut one = |hit: u32| {
            let new;
            let place = match &renewed {
                Some(place) => place,
                None => {
                    new = Place::new(&pdns, &pebble, solver, &format!("{}-{hit}", name.replace('.', "-")));
                    &new
                }
            };
            life(place, work, name, hit, &mut is_patient)
        };
        let hits = (1..=most).take_while(|hit| one(*hit)).count();
        assert!(hits > 0, "{name} is never reached");
    }
}

#[test]
fn a_process_killed_anywhere_burns_no_order_leaks_no_record_and_tears_no_pair() {
    lives(DNS, Work::First, CERTIFICATES.iter().copied(), u32::MAX);
}

/// The places of the engine that every pass meets.
pub(crate) fn engine() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied().filter(|name| !name.starts_with("store.migrate"))
}

#[test]
fn nor_does_it_where_the_engine_writes_down_what_is_pending_and_what_it_claims() {
    lives(DNS, Work::First, engine(), 3);
}

#[test]
fn nor_does_it_where_nothing_is_claimed_and_names_are_proven_over_http() {
    lives(HTTP, Work::First, engine(), 1);
}

#[test]
fn nor_does_it_where_nothing_is_claimed_and_a_web_server_has_the_answer() {
    lives(WEBROOT, Work::First, engine(), 1);
}

#[test]
fn nor_does_it_where_nothing_is_claimed_and_the_answer_is_in_tls() {
    lives(TLS, Work::First, engine(), 1);
}

#[test]
fn nor_does_it_where_names_are_proven_over_http() {
    lives(HTTP, Work::First, CERTIFICATES.iter().copied(), u32::MAX);
}

#[test]
fn nor_does_it_where_names_are_proven_by_files_of_a_web_server() {
    lives(WEBROOT, Work::First, CERTIFICATES.iter().copied(), u32::MAX);
}

#[test]
fn nor_does_it_where_names_are_proven_in_tls() {
    lives(TLS, Work::First, CERTIFICATES.iter().copied(), u32::MAX);
}

#[test]
fn nor_does_it_where_a_certificate_is_renewed() {
    lives(HTTP, Work::Renewal, CERTIFICATES.iter().copied(), u32::MAX);
}

#[test]
fn nor_does_it_where_one_is_renewed_that_records_prove() {
    lives(DNS, Work::Renewal, CERTIFICATES.iter().copied(), u32::MAX);
}

#[test]
fn nor_does_it_where_the_engine_writes_down_what_a_renewal_claims() {
    lives(DNS, Work::Renewal, engine(), 1);
}

#[test]
fn nor_does_it_where_one_is_renewed_that_a_web_server_proves() {
    // Of renewals that claim nothing this one alone comes to the places of the engine.
    lives(WEBROOT, Work::Renewal, CERTIFICATES.iter().copied().chain(engine()), 1);
}

#[test]
fn nor_does_it_where_one_is_renewed_that_is_proven_in_tls() {
    lives(TLS, Work::Renewal, CERTIFICATES.iter().copied(), 1);
}
