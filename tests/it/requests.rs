//! What the program as a whole asks of a server or a service: the second table of `docs/dns.md`, measured.
//!
//! Each cell is one `apply` without a daemon, with all looks before and behind a write. Twenty zones stand for many: five requests
//! a second are all that Route 53 is asked.

use crate::{
    env::{Env, zone},
    fake::{Fake, Play},
    fake_cloudflare, fake_route53,
    pdns::Pdns,
};
use std::{cell::Cell, fs};

const ZONE: &str = "example.com";

/// A service, and what the program has to be told of it.
struct Service<P> {
    start: fn() -> Fake<P>,
    add_zone: fn(&mut P, &str),
    /// The type of its entry, and the keys that are the secret.
    type_name: &'static str,
    secrets: &'static [&'static str],
    secret: &'static str,
}

/// A desk, and what is asked of the remote of its entry `dns`.
struct Desk {
    env: Env,
    /// Requests since the last call.
    asked: Box<dyn Fn() -> Vec<String>>,
}

impl Desk {
    /// What one `apply` takes: requests that read + requests that write.
    fn apply(&self) -> String {
        (self.asked)();
        self.env.apply();
        let lines = (self.asked)();
        let reads = lines.iter().filter(|line| line.starts_with("GET")).count();
        format!("{reads} + {}", lines.len() - reads)
    }
}

impl<P: Play> Service<P> {
    /// A desk where the service has these zones.
    fn desk(&self, zones: &[String]) -> Desk {
        let (fake, env) = ((self.start)(), Env::new());
        fake.with(|play| zones.iter().for_each(|zone| (self.add_zone)(play, zone)));
        env.write("secret", self.secret);
        let file = env.path("secret");
        let secret = |key: &&str| format!(", {key}: {{file: {}}}", file.display());
        let secrets: String = self.secrets.iter().map(secret).collect();
        env.config(&format!("  - {{name: dns, type: {}, url: \"{}\"{secrets}}}", self.type_name, fake.url));
        Desk { env, asked: Box::new(move || fake.lines()) }
    }
}

/// A desk at a server that has no zones yet.
fn powerdns() -> Desk {
    let (server, env) = (Pdns::start(), Env::new());
    env.write("key", &server.key);
    env.config(&format!(
        "  - {{name: dns, type: powerdns, url: \"{}\", apiKey: {{file: {}}}}}",
        server.url,
        env.path("key").display()
    ));
    let before = Cell::new(0);
    let asked = move || {
        let requests = server.requests();
        let new = requests[before.get()..].to_vec();
        before.set(requests.len());
        new
    };
    Desk { env, asked: Box::new(asked) }
}

/// The row of the table, its last cell apart: of a zone of so many records, and of twenty zones. A desk is one where these zones
/// can be served.
fn row(records: usize, desk: impl Fn(&[String]) -> Desk) -> (String, String) {
    let mut records: Vec<String> = (0..records)
        .map(|i| format!("{{name: h{i}, type: A, values: [10.0.{}.{}]}}", i >> 8, i & 255))
        .collect();
    let push = |env: &Env, records: &[String]| {
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        env.push("zone.yaml", &zone(ZONE, "dns", &records));
    };
    let one = desk(&[ZONE.into()]);
    push(&one.env, &records);
    let created = one.apply();
    let unchanged = one.apply();
    records[711] = records[711].replace("10.0", "10.9");
    push(&one.env, &records);
    let changed = one.apply();

    let names: Vec<String> = (0..20).map(|i| format!("z{i}.example")).collect();
    let many = desk(&names);
    let www = ["{name: www, type: A, values: [192.0.2.1]}"];
    let zones: Vec<String> = names.iter().map(|name| zone(name, "dns", &www)).collect();
    many.env.push("zones.yaml", &zones.join("---\n"));
    let first = many.apply();
    (format!("{unchanged} | {changed} | {created} | {}", many.apply()), first)
}

fn check(name: &str, (row, first): (String, String)) {
    let row = format!("| {name} | {row} | {first} |");
    let docs = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dns.md")).unwrap();
    let (_, table) = docs.split_once("one `apply` without a daemon").expect("docs/dns.md has the table");
    assert!(table.contains(&row), "docs/dns.md has no row\n{row}");
}

/// What is not there is not read: one list tells of all new zones.
#[test]
fn an_apply_takes_the_requests_at_powerdns_that_the_docs_say() {
    // As many as are noted down within the seconds for which what was read meanwhile counts, on a busy machine too.
    check("`powerdns`, of 1,000 records", row(1_000, |_| powerdns()));
}

#[test]
fn an_apply_takes_the_requests_at_cloudflare_that_the_docs_say() {
    let service = |add_zone: fn(&mut fake_cloudflare::Cloudflare, &str)| Service {
        start: fake_cloudflare::start,
        add_zone,
        type_name: "cloudflare",
        secrets: &["token"],
        secret: fake_cloudflare::TOKEN,
    };
    let free = service(|play, zone| drop(play.add_zone(zone, "free")));
    check("`cloudflare`, plan free", row(10_000, |zones| free.desk(zones)));
    let pro = service(|play, zone| drop(play.add_zone(zone, "pro")));
    check("`cloudflare`, plan pro", row(10_000, |zones| pro.desk(zones)));
}

#[test]
fn an_apply_takes_the_requests_at_route53_that_the_docs_say() {
    let service = Service {
        start: fake_route53::start,
        add_zone: |play: &mut fake_route53::Route53, zone: &str| drop(play.add_zone(zone)),
        type_name: "route53",
        secrets: &["accessKeyId", "secretAccessKey"],
        secret: fake_route53::SECRET,
    };
    // Five requests a second: a longer list is not read to its end before what was written is noted down.
    let (row, first) = row(1_000, |zones| service.desk(zones));
    // At that rate some of twenty zones are read again: what was read of them is too old once the last is written.
    let reads: usize = first.strip_suffix(" + 20").unwrap().parse().unwrap();
    assert!((61..=81).contains(&reads), "{first}");
    check("`route53`, of 1,000 records", (row, "61 to 81 + 20".into()));
}
