//! Zones within zones and lists that several zones share, at a webhook.

use crate::webhook::{ZONE, hosts, nothing_is_wrong, records, start};
use crate::world::{Notes, apply, cx, desired, observe, plan, scope};
use crate::{fake_cloudflare, fake_route53};
use reconciled_provider::{Clock, Cx, ErrorKind, Focus, Resource, Scope, Tracked, Version, Want};
use reconciled_testkit::context::HandClock;
use serde_json::json;
use std::{sync::Arc, time::Duration};

#[tokio::test]
async fn what_a_zone_within_this_one_has_is_never_created_again() {
    let (fake, provider) = start();
    fake.with(|webhook| webhook.put("www.sub.example.com", "A", "192.0.2.1"));
    // Heard of once, and then forgotten by the manifests.
    desired(&*provider, "sub.example.com", &hosts(1));
    let wanted = desired(
        &*provider,
        ZONE,
        &records(&["name: www.sub, type: A, values: [192.0.2.9]", "name: b, type: A, values: [192.0.2.1]"]),
    );
    let (batch, notes, result) = apply(&*provider, &cx(""), ZONE, &wanted, &[]).await;
    result.unwrap();
    let outcome = notes.outcome(&batch, "www.sub.example.com./A");
    assert!(outcome.contains("conflict") && outcome.contains("is there already"), "{outcome}");
    assert_eq!(notes.outcome(&batch, "b.example.com./A"), "done");
    let kept = fake.with(|webhook| webhook.records.values().next_back().cloned()).unwrap();
    assert_eq!(kept["targets"], json!(["192.0.2.1"]));
}

#[tokio::test]
async fn a_zone_that_the_filter_does_not_cover_is_an_error_and_no_empty_zone() {
    let (fake, provider) = start();
    fake.with(|webhook| webhook.filter = json!({"include": ["example.org"], "exclude": ["x.example.org"]}));
    let error = observe(&*provider, &cx(""), ZONE).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.hint.as_ref().unwrap().contains("its domain filter is: example.org; not x.example.org"));
    assert!(provider.versions(&cx(""), &[scope(ZONE)]).await.unwrap().is_empty());
    let zone = "example.org";
    let wanted = desired(
        &*provider,
        zone,
        &records(&["name: a.x, type: A, values: [192.0.2.1]", "name: b, type: A, values: [192.0.2.1]"]),
    );
    let (batch, notes, result) = apply(&*provider, &cx(""), zone, &wanted, &[]).await;
    result.unwrap();
    assert!(notes.outcome(&batch, "a.x.example.org./A").contains("outside of the domain filter"));
    assert_eq!(notes.outcome(&batch, "b.example.org./A"), "done");
    let found = provider.discover(&cx(""), "*").await.unwrap();
    assert_eq!((found.len(), &*found[0].scope.name), (1, zone));
}

#[tokio::test]
async fn zones_that_are_asked_about_one_after_the_other_are_read_from_the_newest_list() {
    let (fake, provider) = start();
    let zones = ["a.example", "b.example", "new.example"];
    fake.with(|webhook| {
        zones[..2].iter().for_each(|zone| webhook.put(&format!("www.{zone}"), "A", "192.0.2.1"))
    });
    provider.versions(&cx(""), &[scope(zones[0]), scope(zones[1])]).await.unwrap();
    fake.with(|webhook| webhook.put("late.b.example", "A", "192.0.2.2"));
    let told = provider.versions(&cx(""), &[scope(zones[2])]).await.unwrap();
    assert_eq!(told[&scope(zones[2])], Version::Absent);
    fake.lines();
    for (zone, records) in zones.into_iter().zip([1, 2, 0]) {
        assert_eq!(observe(&*provider, &cx(""), zone).await.unwrap().resources.len(), records, "{zone}");
    }
    assert_eq!(fake.lines(), [""; 0]);
}

#[tokio::test]
async fn a_zone_of_a_service_hides_what_the_outer_zone_has_but_the_proof_of_its_keys() {
    let (cloudflare, route53) = (fake_cloudflare::start(), fake_route53::start());
    let providers =
        [start().1, fake_cloudflare::provider(&cloudflare, "dns1"), fake_route53::provider(&route53)];
    for provider in providers {
        let hides = |outer: &Scope, id: &str| provider.hides(&scope("sub.example.com"), outer, &id.into());
        let elsewhere = Scope::new("another", ZONE);
        let hidden = [&scope(ZONE), &elsewhere].map(|outer| {
            ["www.sub.example.com./A", "sub.example.com./NS", "sub.example.com./DS"]
                .map(|id| hides(outer, id))
        });
        assert_eq!(hidden, [[true, true, false]; 2], "{}", provider.info().type_name);
    }
}

#[tokio::test]
async fn a_zone_within_a_zone_has_its_records_for_itself() {
    let (fake, provider) = start();
    fake.with(|webhook| {
        webhook.put("www.example.com", "A", "192.0.2.1");
        webhook.put("www.sub.example.com", "A", "192.0.2.2");
    });
    assert_eq!(observe(&*provider, &cx(""), ZONE).await.unwrap().resources.len(), 2);
    let versions = provider.versions(&cx(""), &[scope(ZONE), scope("sub.example.com")]).await.unwrap();
    assert!(versions.values().all(|version| matches!(version, Version::At(_))));
    assert_eq!(observe(&*provider, &cx(""), ZONE).await.unwrap().resources.len(), 1);
    assert_eq!(observe(&*provider, &cx(""), "sub.example.com").await.unwrap().resources.len(), 1);
}

#[tokio::test]
async fn a_zone_that_was_only_looked_at_takes_no_record_away() {
    let (fake, provider) = start();
    fake.with(|webhook| {
        for host in ["www", "a.sub", "b.sub"] {
            webhook.put(&format!("{host}.example.com"), "A", "192.0.2.1");
        }
    });
    let hosts = |value: &str| {
        let record = |name: &str| format!("name: {name}, type: A, ttl: 60, values: [{value}]");
        let list = [record("www"), record("a.sub"), record("b.sub")];
        desired(&*provider, ZONE, &records(&list.each_ref().map(String::as_str)))
    };
    // Of an import nothing is remembered.
    assert_eq!(provider.discover(&cx(""), "sub.example.com").await.unwrap()[0].resources.len(), 3);
    assert_eq!(observe(&*provider, &cx(""), ZONE).await.unwrap().resources.len(), 3);
    // Of a plan that was refused there is no word.
    desired(&*provider, "sub.example.com", &records(&["name: c, type: A, values: [192.0.2.3]"]));
    observe(&*provider, &cx(""), "sub.example.com").await.unwrap();
    let wanted = hosts("192.0.2.2");
    let tracked: Vec<Tracked> =
        wanted.iter().map(|r| Tracked::new(r.id.clone(), r.spec.hash().unwrap())).collect();
    let scope = scope(ZONE);
    let look = async || {
        // The list that tells of all versions does not do.
        provider.versions(&cx(""), std::slice::from_ref(&scope)).await.unwrap();
        let want =
            Want { scope: &scope, focus: &Focus::All, desired: &wanted, tracked: &tracked, claims: &[] };
        provider.observe(&cx(""), &want).await.unwrap()
    };
    let seen = look().await;
    assert_eq!(seen.resources.len(), 3, "none of them is gone");
    let batch = plan(&*provider, &cx(""), ZONE, &wanted, &[], &seen).await;
    let notes = Notes::default();
    provider.apply(&cx(""), &batch, &notes).await.unwrap();
    assert_eq!(notes.counts(), [("done", 3)].into(), "they are changed as before");
    // What somebody else changed meanwhile is not overwritten.
    let seen = look().await;
    let later = hosts("192.0.2.4");
    let batch = plan(&*provider, &cx(""), ZONE, &later, &[], &seen).await;
    fake.with(|webhook| webhook.put("a.sub.example.com", "A", "192.0.2.66"));
    let notes = Notes::default();
    provider.apply(&cx(""), &batch, &notes).await.unwrap();
    assert!(notes.outcome(&batch, "a.sub.example.com./A").contains("conflict"));
    assert_eq!(notes.counts(), [("done", 2), ("failed", 1)].into());
    nothing_is_wrong(&fake);
}

#[tokio::test]
async fn what_is_declared_no_longer_is_deleted_although_a_zone_within_was_planned() {
    let (fake, provider) = start();
    fake.with(|webhook| {
        for host in ["www", "a.sub", "b.sub"] {
            webhook.put(&format!("{host}.example.com"), "A", "192.0.2.1");
        }
    });
    let hosts = |zone: &str, names: &[&str]| {
        let record = |name: &&str| format!("{{name: {name}, type: A, ttl: 300, values: [192.0.2.1]}}");
        desired(&*provider, zone, &names.iter().map(record).collect::<Vec<_>>())
    };
    let tracked: Vec<Tracked> = hosts(ZONE, &["www", "a.sub", "b.sub"])
        .iter()
        .map(|r| Tracked::new(r.id.clone(), r.spec.hash().unwrap()))
        .collect();
    let (outer, inner) = (scope(ZONE), scope("sub.example.com"));
    let look = async |scope: &Scope, wanted: &[Resource], tracked: &[Tracked]| {
        provider.versions(&cx(""), std::slice::from_ref(scope)).await.unwrap();
        let want = Want { scope, focus: &Focus::All, desired: wanted, tracked, claims: &[] };
        provider.observe(&cx(""), &want).await.unwrap()
    };
    // A plan that was refused has a zone of its own for what lies below `sub`, and one of the records in it.
    let planned = hosts("sub.example.com", &["b", "c"]);
    look(&inner, &planned, &[]).await;

    let wanted = hosts(ZONE, &["www", "b.sub"]);
    let seen = look(&outer, &wanted, &tracked).await;
    assert_eq!(seen.resources.len(), 3, "what is not seen would be forgotten and stay");
    let batch = plan(&*provider, &cx(""), ZONE, &wanted, &["a.sub.example.com./A"], &seen).await;
    let notes = Notes::default();
    provider.apply(&cx(""), &batch, &notes).await.unwrap();
    assert_eq!(notes.counts(), [("gone", 1)].into());
    assert_eq!(look(&outer, &wanted, &tracked).await.resources.len(), 2);

    // What the zone within declares goes over to it, and is not deleted on the way.
    let wanted = hosts(ZONE, &["www"]);
    assert_eq!(look(&outer, &wanted, &tracked).await.resources.len(), 1);
    let seen = look(&inner, &planned, &[]).await;
    assert_eq!(seen.resources.iter().map(|o| &*o.id.0).collect::<Vec<_>>(), ["b.sub.example.com./A"]);
    nothing_is_wrong(&fake);
}

#[tokio::test]
async fn a_list_serves_other_zones_for_a_moment_only() {
    let (fake, provider) = start();
    fake.with(|webhook| webhook.put("www.example.com", "A", "192.0.2.1"));
    let clock = Arc::new(HandClock::default());
    let cx = Cx { clock: clock.clone(), ..cx("") };
    provider.versions(&cx, &[scope(ZONE)]).await.unwrap();
    clock.advance(Duration::from_secs(6));
    fake.with(|webhook| webhook.put("b.example.com", "A", "192.0.2.1"));
    assert_eq!(observe(&*provider, &cx, ZONE).await.unwrap().resources.len(), 2);
    assert!(clock.now() > Duration::ZERO);
}
