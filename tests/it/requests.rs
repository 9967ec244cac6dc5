//! What the program as a whole asks of services that count and bill requests: the second table of `docs/dns.md`, measured.
//!
//! Each cell is one `apply` without a daemon, with all looks before and behind a write. Twenty zones stand for many: five requests
//! a second are all that Route 53 is asked.

use crate::{
    env::{Env, zone},
    fake::{Fake, Play},
    fake_cloudflare, fake_route53,
};
use std::fs;

const ZONE: &str = "example.com";

/// A service, and what the program has to be told of it.
struct Service<P> {
    start: fn() -> Fake<P>,
    add_zone: fn(&mut P, &str),
    /// The type of its entry, and the keys that are the secret.
    type_name: &'static str,
    secrets: &'static [&'static str],
    secret: &'static str,
    /// How many records its large zone has.
    records: usize,
}

/// A desk, and the service of its entry.
struct Desk<P> {
    fake: Fake<P>,
    env: Env,
}

impl<P: Play> Desk<P> {
    /// What one `apply` takes: requests that read + requests that write.
    fn apply(&self) -> String {
        self.fake.lines();
        self.env.apply();
        let lines = self.fake.lines();
        let reads = lines.iter().filter(|line| line.starts_with("GET")).count();
        format!("{reads} + {}", lines.len() - reads)
    }
}

impl<P: Play> Service<P> {
    /// A desk where the service has these zones.
    fn desk(&self, zones: &[String]) -> Desk<P> {
        let (fake, env) = ((self.start)(), Env::new());
        fake.with(|play| zones.iter().for_each(|zone| (self.add_zone)(play, zone)));
        env.write("secret", self.secret);
        let file = env.path("secret");
        let secret = |key: &&str| format!(", {key}: {{file: {}}}", file.display());
        let secrets: String = self.secrets.iter().map(secret).collect();
        env.config(&format!("  - {{name: dns, type: {}, url: \"{}\"{secrets}}}", self.type_name, fake.url));
        Desk { fake, env }
    }

    /// The row of the table.
    fn row(&self) -> String {
        let mut records: Vec<String> = (0..self.records)
            .map(|i| format!("{{name: h{i}, type: A, values: [10.0.{}.{}]}}", i >> 8, i & 255))
            .collect();
        let push = |env: &Env, records: &[String]| {
            let records: Vec<&str> = records.iter().map(String::as_str).collect();
            env.push("zone.yaml", &zone(ZONE, "dns", &records));
        };
        let desk = self.desk(&[ZONE.into()]);
        push(&desk.env, &records);
        let created = desk.apply();
        let unchanged = desk.apply();
        records[711] = records[711].replace("10.0", "10.9");
        push(&desk.env, &records);
        let changed = desk.apply();

        let names: Vec<String> = (0..20).map(|i| format!("z{i}.example")).collect();
        let desk = self.desk(&names);
        let www = ["{name: www, type: A, values: [192.0.2.1]}"];
        let zones: Vec<String> = names.iter().map(|name| zone(name, "dns", &www)).collect();
        desk.env.push("zones.yaml", &zones.join("---\n"));
        desk.env.apply();
        let many = desk.apply();
        format!("{unchanged} | {changed} | {created} | {many}")
    }
}

fn check(name: &str, row: &str) {
    let row = format!("| {name} | {row} |");
    let docs = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dns.md")).unwrap();
    let (_, table) = docs.split_once("one `apply` without a daemon").expect("docs/dns.md has the table");
    assert!(table.contains(&row), "docs/dns.md has no row\n{row}");
}

#[test]
fn an_apply_takes_the_requests_at_cloudflare_that_the_docs_say() {
    let service = |add_zone: fn(&mut fake_cloudflare::Cloudflare, &str)| Service {
        start: fake_cloudflare::start,
        add_zone,
        type_name: "cloudflare",
        secrets: &["token"],
        secret: fake_cloudflare::TOKEN,
        records: 10_000,
    };
    check("`cloudflare`, plan free", &service(|play, zone| drop(play.add_zone(zone, "free"))).row());
    check("`cloudflare`, plan pro", &service(|play, zone| drop(play.add_zone(zone, "pro"))).row());
}

#[test]
fn an_apply_takes_the_requests_at_route53_that_the_docs_say() {
    let service = Service {
        start: fake_route53::start,
        add_zone: |play: &mut fake_route53::Route53, zone: &str| drop(play.add_zone(zone)),
        type_name: "route53",
        secrets: &["accessKeyId", "secretAccessKey"],
        secret: fake_route53::SECRET,
        // Five requests a second: a longer list is not read to its end before what was written is noted down.
        records: 1_000,
    };
    check("`route53`, of 1,000 records", &service.row());
}
