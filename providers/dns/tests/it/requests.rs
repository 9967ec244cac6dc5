//! What a pass costs in requests, for each backend: the table of `docs/dns.md`, measured.
//!
//! A pass is what the engine makes of it: it asks for versions, reads the zones whose version moved or that have none, but
//! for new ones that are said to be absent, and writes. `2 + 1` are two requests that read and one that writes.

use crate::{
    dnsd::{Dnsd, Kind, provider_with},
    fake::{Fake, Passed, Play},
    fake_cloudflare, fake_route53, fake_webhook,
    pdns::Pdns,
    relay::Relay,
    world::{self, Notes, desired, observe_for, plan, scope},
};
use reconciled_provider::{Cx, Focus, Observation, Provider, Scope, Version};
use std::{collections::BTreeMap, time::Duration};

/// The zone with many records, of which one changes.
const ZONE: &str = "example.com";

/// A thousand zones with next to nothing in them.
fn many() -> Vec<String> {
    (0..1_000).map(|i| format!("z{i}.example")).collect()
}

/// A zone that is not there, as the engine takes it from the versions.
fn absent() -> Observation {
    Observation { covered: Focus::All, complete: true, version: Version::Absent, resources: Vec::new() }
}

fn hosts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{{name: h{i}, type: A, values: [10.0.{}.{}]}}", i >> 8, i & 255)).collect()
}

/// A backend under test with a count of its requests.
struct Subject<'a> {
    provider: &'a dyn Provider,
    cx: Cx,
    /// Requests that read, and that write, since the test began.
    count: &'a dyn Fn() -> (usize, usize),
    /// What was read of the zone of many records, as the engine remembers it.
    seen: Option<Observation>,
}

impl<'a> Subject<'a> {
    fn new(provider: &'a dyn Provider, cx: Cx, count: &'a dyn Fn() -> (usize, usize)) -> Subject<'a> {
        Subject { provider, cx, count, seen: None }
    }

    /// Looks at these zones as a pass does.
    async fn look(&mut self, scopes: &[Scope], known: &BTreeMap<Scope, Version>, records: &[String]) {
        let versions = self.provider.versions(&self.cx, scopes).await.unwrap();
        for scope in scopes {
            let is_known =
                |version: &&Version| **version != Version::Unknown && known.get(scope) == Some(*version);
            if versions.get(scope).filter(is_known).is_some() {
                continue;
            }
            let is_large = &*scope.name == ZONE;
            let wanted = if is_large { desired(self.provider, ZONE, records) } else { Vec::new() };
            let is_absent = self.provider.info().lists_scopes
                && known.is_empty()
                && versions.get(scope) == Some(&Version::Absent);
            let seen = match is_absent {
                true => absent(),
                false => observe_for(self.provider, &self.cx, &scope.name, &wanted).await.unwrap(),
            };
            assert!(seen.complete, "{scope:?}");
            if is_large {
                self.seen = Some(seen);
            }
        }
    }

    /// Writes what differs in the zone of many records; returns how many actions that took.
    async fn write(&mut self, records: &[String]) -> usize {
        let wanted: Vec<_> = desired(self.provider, ZONE, records);
        let seen = self.seen.as_ref().unwrap();
        let batch = plan(self.provider, &self.cx, ZONE, &wanted, &[], seen).await;
        let notes = Notes::default();
        self.provider.apply(&self.cx, &batch, &notes).await.unwrap();
        assert_eq!(notes.counts(), [("done", batch.actions.len())].into());
        batch.actions.len()
    }

    /// Requests since `before`, as a cell of the table.
    fn cell(&self, before: (usize, usize)) -> String {
        let now = (self.count)();
        format!("{} + {}", now.0 - before.0, now.1 - before.1)
    }

    /// Looks at all of `scopes`, and returns what they are known as from then on.
    async fn learn(&mut self, scopes: &[Scope], records: &[String]) -> BTreeMap<Scope, Version> {
        self.look(scopes, &BTreeMap::new(), records).await;
        self.provider.versions(&self.cx, scopes).await.unwrap()
    }
}

/// Cells about one zone of 10,000 records: nothing changed, one change, all created.
async fn of_one_zone(mut subject: Subject<'_>) -> String {
    let one = [scope(ZONE)];
    let mut records = hosts(10_000);
    let before = (subject.count)();
    subject.look(&one, &BTreeMap::new(), &records).await;
    assert!(subject.write(&records).await >= 10_000);
    let creates = subject.cell(before);

    let known = subject.learn(&one, &records).await;
    let before = (subject.count)();
    subject.look(&one, &known, &records).await;
    let unchanged = subject.cell(before);

    records[4_711] = records[4_711].replace("10.0", "10.9");
    let before = (subject.count)();
    subject.look(&one, &known, &records).await;
    assert_eq!(subject.write(&records).await, 1);
    let change = subject.cell(before);
    format!("{unchanged} | {change} | {creates}")
}

/// The cell about a thousand zones in which nothing changed.
async fn of_many_zones(mut subject: Subject<'_>) -> String {
    let scopes: Vec<Scope> = many().iter().map(|zone| scope(zone)).collect();
    let known = subject.learn(&scopes, &[]).await;
    let before = (subject.count)();
    subject.look(&scopes, &known, &[]).await;
    subject.cell(before)
}

fn check(name: &str, one: &str, many: &str) {
    let row = format!("| {name} | {one} | {many} |");
    let docs = include_str!("../../../../docs/dns.md");
    assert!(docs.contains(&row), "docs/dns.md has no row\n{row}");
}

/// Requests of a fake that read, and that `writes`; never less than before.
fn counted<P: Play>(fake: Fake<P>, writes: fn(&str) -> bool) -> impl Fn() -> (usize, usize) {
    let sum = std::cell::Cell::new((0, 0));
    move || {
        let lines = fake.lines();
        let more = lines.iter().filter(|line| writes(line)).count();
        let (reads, written) = sum.get();
        sum.set((reads + lines.len() - more, written + more));
        sum.get()
    }
}

fn is_no_get(line: &str) -> bool {
    !line.starts_with("GET")
}

#[tokio::test(flavor = "multi_thread")]
async fn powerdns_takes_the_requests_that_its_docs_say() {
    let server = Pdns::start().await;
    let fake = Fake::start(Passed { server: server.url.replace("http://", "") });
    let through = server.provider_with(|config| config.url = fake.url.clone());
    let count = counted(fake, is_no_get);
    let one = of_one_zone(Subject::new(&*through, server.cx(), &count)).await;
    for zone in many() {
        let body = format!(
            r#"{{"name": "{zone}.", "kind": "Native", "nameservers": [], "soa_edit_api": "DEFAULT"}}"#
        );
        server.change("POST", "/zones?rrsets=false", &body).await;
    }
    check("`powerdns`", &one, &of_many_zones(Subject::new(&*through, server.cx(), &count)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn rfc2136_takes_the_messages_that_its_docs_say() {
    for kind in [Kind::Bind, Kind::Knot] {
        let zones: Vec<String> = many().into_iter().chain([ZONE.into()]).collect();
        let server = Dnsd::start(kind, &zones).await;
        let relay = Relay::to(server.port, Vec::new());
        let provider = provider_with(&relay.address, |config, _| config.patience = Duration::from_secs(60));
        let count = || relay.counts.questions_and_updates();
        let one = of_one_zone(Subject::new(&*provider, server.cx(), &count)).await;
        check("`rfc2136`", &one, &of_many_zones(Subject::new(&*provider, server.cx(), &count)).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cloudflare_takes_the_requests_that_its_docs_say() {
    for plan in ["free", "pro"] {
        let with = |zones: &[String]| {
            let fake = fake_cloudflare::start();
            fake.with(|cloudflare| zones.iter().for_each(|zone| drop(cloudflare.add_zone(zone, plan))));
            (fake_cloudflare::provider(&fake, "dns1"), counted(fake, is_no_get))
        };
        let (provider, count) = with(&[ZONE.into()]);
        let one = of_one_zone(Subject::new(&*provider, fake_cloudflare::cx(), &count)).await;
        let (provider, count) = with(&many());
        let zones = of_many_zones(Subject::new(&*provider, fake_cloudflare::cx(), &count)).await;
        check(&format!("`cloudflare`, plan {plan}"), &one, &zones);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn route53_takes_the_requests_that_its_docs_say() {
    let with = |zones: &[String]| {
        let fake = fake_route53::start();
        fake.with(|route53| zones.iter().for_each(|zone| drop(route53.add_zone(zone))));
        (fake_route53::provider(&fake), counted(fake, is_no_get))
    };
    let (provider, count) = with(&[ZONE.into()]);
    let one = of_one_zone(Subject::new(&*provider, fake_route53::cx(), &count)).await;
    let (provider, count) = with(&many());
    check("`route53`", &one, &of_many_zones(Subject::new(&*provider, fake_route53::cx(), &count)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_takes_the_requests_that_its_docs_say() {
    let fake = fake_webhook::start();
    fake.with(|webhook| {
        many().iter().for_each(|zone| webhook.put(&format!("www.{zone}"), "A", "192.0.2.1"));
    });
    let provider = fake_webhook::provider(&fake);
    let count = counted(fake, |line| line == "POST /records");
    let one = of_one_zone(Subject::new(&*provider, world::cx(""), &count)).await;
    check("`webhook`", &one, &of_many_zones(Subject::new(&*provider, world::cx(""), &count)).await);
}

/// Of a zone that is new: no request but its share of one list, and the one that makes it with its records.
#[tokio::test(flavor = "multi_thread")]
async fn powerdns_makes_new_zones_without_reading_them_first() {
    let server = Pdns::start().await;
    let fake = Fake::start(Passed { server: server.url.replace("http://", "") });
    let (provider, cx) = (server.provider_with(|config| config.url = fake.url.clone()), server.cx());
    let count = counted(fake, is_no_get);
    let zones = &many()[..200];
    let scopes: Vec<Scope> = zones.iter().map(|zone| scope(zone)).collect();
    let told = provider.versions(&cx, &scopes).await.unwrap();
    for zone in zones {
        assert_eq!(told[&scope(zone)], Version::Absent);
        let wanted = desired(&*provider, zone, &hosts(10));
        let batch = plan(&*provider, &cx, zone, &wanted, &[], &absent()).await;
        let notes = Notes::default();
        provider.apply(&cx, &batch, &notes).await.unwrap();
        assert_eq!(notes.counts(), [("done", 11)].into());
    }
    assert_eq!(count(), (1, 200));
    // Nothing of that is remembered: the next list has them all.
    let told = provider.versions(&cx, &scopes).await.unwrap();
    assert!(told.values().all(|version| matches!(version, Version::At(_))));
}
