//! Names are asked for each millisecond while they change: none that was there before and is there after is ever gone.

use crate::{
    asker::Probe,
    dnsd::{Dnsd, KINDS, Kind, provider_with},
    pdns::Pdns,
    world::{apply, converge, desired, observe, scope},
};
use reconciled_dns::zonefile;
use reconciled_provider::{Cx, Provider, Resource, Version};
use reconciled_testkit::PATIENCE;
use std::time::{Duration, Instant};

const ZONE: &str = "example.com";

fn resources(provider: &dyn Provider, records: &[String]) -> Vec<Resource> {
    desired(provider, ZONE, records)
}

/// The zone itself and what a DNS server wants in it, then the names `swap-N`, of one kind or the other.
fn swaps(is_alias: bool) -> Vec<String> {
    let record = |i: usize| match is_alias {
        true => format!("{{name: swap-{i}, type: CNAME, values: [a{i}.example.org.]}}"),
        false => format!("{{name: swap-{i}, type: A, values: [192.0.2.{i}]}}"),
    };
    (0..20).map(record).collect()
}

/// Some of the names `swap-N`, so few that each is asked for every few milliseconds.
fn asked_swaps() -> Vec<String> {
    [0, 7, 13, 19].map(|i| format!("swap-{i}.example.com")).into()
}

/// Turns CNAMEs to addresses and back while somebody asks for them.
async fn swap(server: &str, provider: &dyn Provider, cx: &Cx, port: u16) {
    let (alias, address) = (resources(provider, &swaps(true)), resources(provider, &swaps(false)));
    converge(provider, cx, ZONE, &alias, &[]).await;
    let ids = |kind: &str| (0..20).map(|i| format!("swap-{i}.example.com./{kind}")).collect::<Vec<_>>();
    let (aliases, addresses) = (ids("CNAME"), ids("A"));
    let probe = Probe::start(port, asked_swaps());
    for turn in 0..20 {
        let (wanted, gone) = if turn % 2 == 0 { (&address, &aliases) } else { (&alias, &addresses) };
        let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
        let (_, notes, result) = apply(provider, cx, ZONE, wanted, &gone).await;
        result.unwrap_or_else(|error| panic!("{server}: {}", error.chain()));
        assert_eq!(notes.counts(), [("done", 20), ("gone", 20)].into());
    }
    probe.heard_only_data(server);
}

/// Changes, creates and deletes a thousand records each in one batch while somebody asks for some of those that stay: the first and
/// the last, and what requests end with. What was written `arrives` at who is asked.
async fn mass(server: &str, provider: &dyn Provider, cx: &Cx, port: u16, mut arrives: impl AsyncFnMut()) {
    let record = |name: &str, i: usize, net: u8| {
        format!("{{name: {name}-{i}, type: A, values: [10.{net}.{}.{}]}}", i >> 8, i & 255)
    };
    let list = |name: &'static str, net| (0..1_000).map(move |i| record(name, i, net));
    let before: Vec<String> = list("stays", 1).chain(list("goes", 1)).collect();
    let after: Vec<String> = list("stays", 2).chain(list("comes", 2)).collect();
    converge(provider, cx, ZONE, &resources(provider, &before), &[]).await;
    arrives().await;
    let gone: Vec<String> = (0..1_000).map(|i| format!("goes-{i}.example.com./A")).collect();
    let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
    let asked = [0, 1, 99, 100, 249, 250, 499, 500, 749, 750, 998, 999];
    let probe = Probe::start(port, asked.map(|i| format!("stays-{i}.example.com")).into());
    let (_, notes, result) = apply(provider, cx, ZONE, &resources(provider, &after), &gone).await;
    result.unwrap_or_else(|error| panic!("{server}: {}", error.chain()));
    assert_eq!(notes.counts(), [("done", 2_000), ("gone", 1_000)].into());
    arrives().await;
    probe.heard_only_data(server);
    let seen = observe(provider, cx, ZONE).await.unwrap();
    assert!(seen.get(&"comes-999.example.com./A".into()).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_goes_and_comes_in_two_steps_is_heard_to_be_gone() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let (provider, cx) = (server.provider(), server.cx());
        let alias = resources(&*provider, &swaps(true)[..1]);
        let probe = Probe::start(server.port, vec!["swap-0.example.com".into()]);
        for _ in 0..20 {
            converge(&*provider, &cx, ZONE, &alias, &[]).await;
            converge(&*provider, &cx, ZONE, &alias[..1], &["swap-0.example.com./CNAME"]).await;
        }
        let heard = probe.end();
        assert!(heard.gaps.contains_key("NXDOMAIN for swap-0.example.com"), "{kind:?}: {heard:?}");
        assert!(heard.answers > 0, "{kind:?}: {heard:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_is_ever_gone_while_it_changes_through_the_api_of_powerdns() {
    for marks in [true, false] {
        let server = Pdns::start().await;
        let provider = server.provider_with(|config| config.marks = marks);
        swap("the API of PowerDNS", &*provider, &server.cx(), server.port).await;
        mass("the API of PowerDNS", &*provider, &server.cx(), server.port, async || ()).await;
    }
}

/// Changes names of a server of this kind by updates.
async fn update(kind: Kind) {
    let server = Dnsd::with_example(kind).await;
    // PowerDNS walks the zone for each deletion of an update.
    let provider =
        provider_with(&server.address(), |config, _| config.options.timeout = Duration::from_secs(60));
    let name = format!("{kind:?}");
    swap(&name, &*provider, &server.cx(), server.port).await;
    mass(&name, &*provider, &server.cx(), server.port, async || ()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_is_ever_gone_while_it_changes_by_updates_of_bind() {
    update(Kind::Bind).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_is_ever_gone_while_it_changes_by_updates_of_knot() {
    update(Kind::Knot).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_is_ever_gone_while_it_changes_by_updates_of_powerdns() {
    update(Kind::PowerDns).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_is_ever_gone_while_a_server_loads_zone_files() {
    let server = Dnsd::with_example(Kind::Knot).await;
    let mut config = zonefile::Config::new(server.zones());
    config.reload = server.reload();
    let files = zonefile::open("test", "dns1", config).unwrap();
    let cx = crate::world::cx("");
    let (alias, address) = (resources(&*files, &swaps(true)), resources(&*files, &swaps(false)));
    // The server has a file when its serial has moved; nobody waits for that but this test.
    let loaded = async |before: &Version| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = server.provider().versions(&server.cx(), &[scope(ZONE)]).await.unwrap();
            match now.into_values().next() {
                Some(version) if version != *before => return version,
                _ => assert!(Instant::now() < deadline, "the file was not loaded"),
            }
        }
    };
    let empty = loaded(&Version::Unknown).await;
    converge(&*files, &cx, ZONE, &alias, &[]).await;
    let mut version = loaded(&empty).await;
    let ids = |kind: &str| (0..20).map(|i| format!("swap-{i}.example.com./{kind}")).collect::<Vec<_>>();
    let (aliases, addresses) = (ids("CNAME"), ids("A"));
    let probe = Probe::start(server.port, asked_swaps());
    for turn in 0..10 {
        let (wanted, gone) = if turn % 2 == 0 { (&address, &aliases) } else { (&alias, &addresses) };
        converge(&*files, &cx, ZONE, wanted, &gone.iter().map(String::as_str).collect::<Vec<_>>()).await;
        version = loaded(&version).await;
    }
    probe.heard_only_data("Knot with zone files");
    let arrives = async || version = loaded(&version).await;
    mass("Knot with zone files", &*files, &cx, server.port, arrives).await;
}
