//! Whether what was written is served: real name servers, of which one lags behind the other.

use crate::{
    dnsd::{Dnsd, Kind, SECRET, provider_with},
    world::{converge, cx_now, desired, diff, observe, scope},
};
use reconciled_dns::{endpoint, served::Verify};
use reconciled_provider::{Focus, Health, Provider, Resource, ResourceId, Spec, Tracked, Want};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const ZONE: &str = "example.com";

/// BIND, which is written to, and Knot, which has the same zone and hears of nothing.
async fn pair() -> (Dnsd, Dnsd) {
    (Dnsd::with_example(Kind::Bind).await, Dnsd::with_example(Kind::Knot).await)
}

fn watching(server: &Dnsd, servers: &[&Dnsd], change: impl FnOnce(&mut Verify)) -> Arc<dyn Provider> {
    let servers = servers.iter().map(|server| endpoint::parse(&server.address()).unwrap()).collect();
    let mut verify = Verify { timeout: Duration::from_secs(60), servers, ..Verify::default() };
    change(&mut verify);
    provider_with(&server.address(), |config, _| config.options.verify = Some(verify))
}

fn wanted(provider: &dyn Provider, records: &[String]) -> Vec<Resource> {
    desired(provider, ZONE, records)
}

fn tracked(resources: &[Resource]) -> Vec<Tracked> {
    let mut rows: Vec<Tracked> = resources
        .iter()
        .map(|resource| {
            let Spec::Known { hash, .. } = &resource.spec else { panic!("all of it is known") };
            Tracked::new(resource.id.clone(), *hash)
        })
        .collect();
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    rows
}

/// What is said `later` seconds from now of a zone in which all that is desired was written.
async fn health(provider: &dyn Provider, desired: &[Resource], later: i64) -> BTreeMap<ResourceId, Health> {
    let mut desired = desired.to_vec();
    desired.sort_by(|a, b| a.id.cmp(&b.id));
    let (scope, tracked) = (scope(ZONE), tracked(&desired));
    let want = Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &tracked, claims: &[] };
    provider.health(&cx_now(SECRET, later), &want).await.unwrap().into_iter().collect()
}

fn said(health: &BTreeMap<ResourceId, Health>, id: &str) -> String {
    match health.get(&ResourceId::from(id)) {
        Some(Health::Progressing { why, .. }) => format!("progressing: {why}"),
        Some(Health::Degraded { why }) => format!("degraded: {why}"),
        Some(other) => format!("{other:?}"),
        None => "healthy".into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_progresses_until_every_server_serves_it_and_degrades_after_the_timeout() {
    let (bind, knot) = pair().await;
    let provider = watching(&bind, &[&bind, &knot], |_| {});
    assert!(provider.tells_health());
    assert_eq!(health(&*provider, &[], 0).await, BTreeMap::new(), "nothing was written yet");
    // The text does not fit into a packet: it is asked for again over TCP.
    let long = "x".repeat(250);
    let texts: Vec<String> = (0..8).map(|n| format!("\"{n}{long}\"")).collect();
    let records = [
        "{name: www, type: A, values: [192.0.2.1, 192.0.2.2]}".to_string(),
        "{name: '*.wild', type: A, values: [192.0.2.3]}".into(),
        "{name: mail, type: MX, values: ['10 mx.example.org.']}".into(),
        format!("{{name: text, type: TXT, values: [{}]}}", texts.join(", ")),
    ];
    let mut all = wanted(&*provider, &records);
    let zone = all.remove(0);
    converge(&*provider, &bind.cx(), ZONE, &all, &[]).await;
    all.push(zone);

    let lag = format!("{} does not know the name", knot.address());
    let now = health(&*provider, &all, 0).await;
    for id in ["www.example.com./A", "*.wild.example.com./A", "mail.example.com./MX", "text.example.com./TXT"]
    {
        assert_eq!(said(&now, id), format!("progressing: {lag}"), "{id}");
    }
    assert_eq!(now.len(), 4, "the zone itself is served: {now:?}");
    let later = health(&*provider, &all, 61).await;
    let late = said(&later, "www.example.com./A");
    assert!(
        late.starts_with(&format!("degraded: {lag}, 6")) && late.ends_with("s after it was due"),
        "{late}"
    );

    all.pop();
    converge(&*knot.provider(), &knot.cx(), ZONE, &all, &[]).await;
    assert_eq!(health(&*provider, &all, 62).await, BTreeMap::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_serves_something_else_is_named_with_its_answer() {
    let (bind, knot) = pair().await;
    let provider = watching(&bind, &[&bind, &knot], |_| {});
    let names = ["a", "b", "c", "d", "e"];
    let records: Vec<String> = names
        .iter()
        .map(|name| format!("{{name: {name}, type: A, ttl: 300, values: [192.0.2.1]}}"))
        .collect();
    let all = wanted(&*provider, &records).split_off(1);
    converge(&*provider, &bind.cx(), ZONE, &all, &[]).await;
    converge(&*knot.provider(), &knot.cx(), ZONE, &all, &[]).await;
    assert_eq!(health(&*provider, &all, 0).await, BTreeMap::new());
    let change = [
        "update delete a.example.com. A",
        "update add a.example.com. 300 A 198.51.100.9",
        "update delete b.example.com. A",
        "update add b.example.com. 900 A 192.0.2.1",
        "update delete c.example.com. A",
        "update add c.example.com. 300 CNAME other.example.com.",
        "update delete d.example.com. A",
        "update add d.example.com. 300 TXT here",
    ];
    knot.change(ZONE, &change.join("\n"));
    // What was seen served is looked at again, a few at a time.
    let now = health(&*provider, &all, 0).await;
    let at = knot.address();
    let expected = [
        ("a", format!("progressing: {at} answers 198.51.100.9")),
        ("b", format!("progressing: {at} answers with a TTL of 900, declared 300")),
        ("c", format!("progressing: {at} answers with the alias other.example.com.")),
        ("d", format!("progressing: {at} has no A there")),
        ("e", "healthy".into()),
    ];
    for (name, expected) in expected {
        assert_eq!(said(&now, &format!("{name}.example.com./A")), expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_or_has_no_such_zone_is_blamed_for_the_zone_and_for_what_was_written() {
    let bind = Dnsd::with_example(Kind::Bind).await;
    let other = Dnsd::start(Kind::Knot, &["example.net".into()]).await;
    let provider = watching(&bind, &[&bind, &other], |verify| {
        verify.servers.push(("127.0.0.1".into(), crate::pdns::free_port()));
    });
    let before: Vec<String> =
        (0..50).map(|n| format!("{{name: h{n}, type: A, values: [192.0.2.1]}}")).collect();
    let all = wanted(&*provider, &before);
    converge(&*provider, &bind.cx(), ZONE, &all[1..], &[]).await;
    let refused = format!("{} answers Query Refused", other.address());
    let expected = format!("progressing: {refused}, and another server differs as well");
    let now = health(&*provider, &all, 0).await;
    assert_eq!(said(&now, "example.com."), expected);
    assert_eq!(now.len(), 1, "what was there before is served by the one that can be asked: {now:?}");
    let later = said(&health(&*provider, &all, 90).await, "example.com.");
    assert!(later.starts_with(&format!("degraded: {refused}")), "{later}");

    let more: Vec<String> =
        before.into_iter().chain(["{name: www, type: A, values: [192.0.2.2]}".into()]).collect();
    let all = wanted(&*provider, &more);
    converge(&*provider, &bind.cx(), ZONE, &all[1..], &[]).await;
    let now = health(&*provider, &all, 100).await;
    assert_eq!(said(&now, "www.example.com./A"), expected);
    assert_eq!(now.len(), 2, "{now:?}");
    let later = said(&health(&*provider, &all, 170).await, "www.example.com./A");
    assert!(later.starts_with(&format!("degraded: {refused}")), "{later}");

    let facts = provider.facts(&bind.cx(), &scope(ZONE)).await.unwrap();
    let values: Vec<(&str, &str)> = facts.iter().map(|fact| (&*fact.name, &*fact.value)).collect();
    assert_eq!(values[0], (&*bind.address(), "serial 3"));
    assert_eq!(values[1], (&*other.address(), "answers Query Refused"));
    assert_eq!(values[2].1, "does not answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_below_a_delegation_or_a_dname_and_what_differs_is_not_asked_for() {
    let (bind, knot) = pair().await;
    let provider = watching(&bind, &[&bind], |_| {});
    health(&*provider, &[], 0).await;
    let records: Vec<String> = [
        "{name: sub, type: NS, values: [ns1.sub.example.com.]}",
        "{name: ns1.sub, type: A, values: [192.0.2.53]}",
        "{name: elsewhere, type: DNAME, values: [example.org.]}",
        "{name: www, type: A, values: [192.0.2.1]}",
    ]
    .map(String::from)
    .into();
    let all = wanted(&*provider, &records).split_off(1);
    converge(&*provider, &bind.cx(), ZONE, &all, &[]).await;
    assert_eq!(health(&*provider, &all, 0).await, BTreeMap::new());
    drop(knot);

    bind.change(ZONE, "update delete www.example.com. A\nupdate add www.example.com. 300 A 198.51.100.9");
    let seen = observe(&*provider, &bind.cx(), ZONE).await.unwrap();
    let deltas = diff(&*provider, &bind.cx(), ZONE, &all, &seen).await;
    assert_eq!(deltas.len(), 1, "it drifted");
    assert_eq!(health(&*provider, &all, 0).await, BTreeMap::new(), "drift is no matter of health");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_change_is_asked_for_at_once() {
    let (bind, knot) = pair().await;
    let provider = watching(&bind, &[&bind, &knot], |verify| {
        // So many answers may take a busy machine longer than anybody would wait for them.
        verify.patience = Some(Duration::from_secs(120));
    });
    health(&*provider, &[], 0).await;
    let records: Vec<String> = (0..1_200)
        .map(|n| format!("{{name: h{n}, type: A, values: [10.0.{}.{}]}}", n / 250, n % 250))
        .collect();
    let all = wanted(&*provider, &records).split_off(1);
    converge(&*provider, &bind.cx(), ZONE, &all, &[]).await;
    let lag = format!("progressing: {} does not know the name", knot.address());
    let now = health(&*provider, &all, 0).await;
    assert_eq!(now.keys().filter(|id| said(&now, &id.0) == lag).count(), 1_200);
    converge(&*knot.provider(), &knot.cx(), ZONE, &all, &[]).await;
    assert_eq!(health(&*provider, &all, 120).await, BTreeMap::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn with_wait_for_ttl_a_change_progresses_until_resolvers_have_forgotten_what_was_there() {
    let bind = Dnsd::with_example(Kind::Bind).await;
    let provider = watching(&bind, &[&bind], |verify| verify.wait_for_ttl = true);
    let record = |value: &str| vec![format!("{{name: www, type: A, ttl: 300, values: [{value}]}}")];
    let before = wanted(&*provider, &record("192.0.2.1")).split_off(1);
    health(&*provider, &[], 0).await;
    converge(&*provider, &bind.cx(), ZONE, &before, &[]).await;
    assert_eq!(health(&*provider, &before, 0).await, BTreeMap::new(), "nobody knew anything of it");
    let after = wanted(&*provider, &record("192.0.2.2")).split_off(1);
    converge(&*provider, &bind.cx(), ZONE, &after, &[]).await;
    let now = said(&health(&*provider, &after, 0).await, "www.example.com./A");
    assert!(now.starts_with("progressing: served; resolvers may have the old answer for another"), "{now}");
    assert_eq!(health(&*provider, &after, 301).await, BTreeMap::new());

    let alias =
        wanted(&*provider, &["{name: www, type: CNAME, values: [a.example.org.]}".into()]).split_off(1);
    converge(&*provider, &bind.cx(), ZONE, &alias, &["www.example.com./A"]).await;
    let now = said(&health(&*provider, &alias, 0).await, "www.example.com./CNAME");
    assert!(
        now.starts_with("progressing: served; resolvers may have the old answer"),
        "of another type: {now}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_servers_those_are_asked_that_the_zone_names() {
    let bind = Dnsd::with_example(Kind::Bind).await;
    let change = [
        "update add example.com. 3600 NS ns1.example.com.",
        "update add example.com. 3600 NS ns2.example.com.",
        "update delete example.com. NS ns1.example.net.",
        "update add ns1.example.com. 60 A 127.0.0.1",
        "update add ns2.example.com. 60 AAAA ::1",
    ];
    bind.change(ZONE, &change.join("\n"));
    let provider = watching(&bind, &[], |verify| {
        verify.resolver = vec![bind.address().parse().unwrap()];
    });
    let facts = provider.facts(&bind.cx(), &scope(ZONE)).await.unwrap();
    let names: Vec<&str> = facts.iter().map(|fact| &*fact.name).collect();
    assert_eq!(names, ["ns1.example.com (127.0.0.1)", "ns2.example.com (::1)"]);

    let error = provider.facts(&bind.cx(), &scope("none.example.com")).await.unwrap_err().chain();
    let told = "looking for the name servers of none.example.com.: there are none";
    assert!(error.contains(told) && !error.contains("Query"), "{error}");

    let lost = watching(&bind, &[], |verify| {
        verify.resolver = vec![([127, 0, 0, 1], crate::pdns::free_port()).into()];
    });
    let error = lost.facts(&bind.cx(), &scope(ZONE)).await.unwrap_err();
    assert!(error.to_string().contains("looking for the name servers of example.com."), "{error}");
    assert!(error.hint.as_ref().unwrap().contains("verify: {servers:"), "what to do");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_whose_serving_is_not_verified_has_facts_all_the_same() {
    let bind = Dnsd::with_example(Kind::Bind).await;
    let provider = provider_with(&bind.address(), |_, _| {});
    assert!(!provider.tells_health());
    // Nobody has delegated it, so that nobody but the resolver of this machine is asked.
    let facts = provider.facts(&bind.cx(), &scope("zone.invalid")).await;
    let told = facts.map(|facts| facts.is_empty()).map_err(|error| error.to_string());
    assert!(told.is_err_and(|error| error.contains("name servers of zone.invalid.")), "it was not asked");
}
