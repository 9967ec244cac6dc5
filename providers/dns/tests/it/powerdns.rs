//! Against a real PowerDNS.

use crate::{
    fake::{Fake, Play, Reply, Request},
    pdns::{KEY, Pdns},
    world::{self, Notes, apply, converge, desired, diff, observe, plan, scope},
};
use async_trait::async_trait;
use futures_util::future::join_all;
use reconciled_provider::{
    ActionId, Error, ErrorKind, Focus, Journal, Op, Outcome, Owner, Resource, ResourceId, Tracked, Version,
    Want,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

const ZONE: &str = "example.com";

/// What every server knows, and what only this one does.
fn every_type() -> Vec<String> {
    let mut records = world::every_type();
    records.push("{name: lb, type: ALIAS, values: [Lb.example.net.]}".into());
    records
}

fn a_records(count: usize) -> Vec<String> {
    (0..count)
        .map(|i| format!("{{name: h{i}, type: A, values: [10.{}.{}.{}]}}", i >> 16, i >> 8 & 255, i & 255))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_is_empty_for_every_type() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let absent = observe(&*provider, &cx, ZONE).await.unwrap();
    assert_eq!((&absent.version, absent.complete, absent.resources.len()), (&Version::Absent, true, 0));
    let desired = desired(&*provider, ZONE, &every_type());
    converge(&*provider, &cx, ZONE, &desired, &[]).await;
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    for resource in &desired {
        let observed = seen.get(&resource.id).unwrap();
        let owner = if resource.id.0.ends_with('.') { Owner::Unmarked } else { Owner::Ours };
        assert_eq!(
            (&observed.owner, Some(&observed.bytes[..])),
            (&owner, resource.spec.bytes()),
            "{}",
            resource.id
        );
    }
    assert_eq!(seen.resources.len(), desired.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_stays_cut_as_it_was_found() {
    let server = Pdns::start().await;
    world::strings_stay(&*server.provider(), &server.cx(), ZONE).await;
    let stored = server.zone(ZONE).await;
    for content in [r#""\"path=/x\" \"rp=lp\"""#, r#""\"path=/\" \"xrp=lp\"""#] {
        assert!(stored.contains(content), "{content}: {stored}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_zone_declares_what_is_there() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let desired = desired(&*provider, ZONE, &every_type());
    converge(&*provider, &cx, ZONE, &desired, &[]).await;
    let found = provider.discover(&cx, "*.com").await.unwrap();
    assert_eq!(found.len(), 1);
    let text = String::from_utf8(provider.export(&found[0]).unwrap().remove(0).to_vec()).unwrap();
    let spec = text.split_once("spec:\n").unwrap().1;
    let (again, problems) = world::normalize(
        &*provider,
        ZONE,
        &format!("  apex: true\n{spec}").replace("  provider: test\n", ""),
    );
    assert!(problems.is_empty(), "{problems:?}\n{text}");
    assert_eq!(again.len(), desired.len() - 2, "all but the apex NS and SOA: {text}");
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    assert!(plan(&*provider, &cx, ZONE, &again, &[], &seen).await.actions.is_empty(), "{text}");
    let error = provider.discover(&cx, "exmple.com").await.unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("did you mean `example.com`?"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cname_takes_the_place_of_an_address_and_back_in_one_request() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let cname = desired(&*provider, ZONE, &["{name: x, type: CNAME, values: [a.example.org.]}".into()]);
    let address = desired(&*provider, ZONE, &["{name: x, type: A, values: [192.0.2.1]}".into()]);
    converge(&*provider, &cx, ZONE, &cname, &[]).await;
    for (wanted, gone) in [(&address, "x.example.com./CNAME"), (&cname, "x.example.com./A")] {
        let (_, notes, result) = apply(&*provider, &cx, ZONE, wanted, &[gone]).await;
        result.unwrap();
        assert_eq!(notes.started.lock().unwrap().len(), 1, "one request");
        assert_eq!(notes.counts(), [("done", 1), ("gone", 1)].into());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_record_fails_alone_and_half_a_swap_is_held_back() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let first = desired(&*provider, ZONE, &["{name: swap, type: CNAME, values: [a.example.org.]}".into()]);
    converge(&*provider, &cx, ZONE, &first, &[]).await;
    let mut records = a_records(20);
    // Names that DNS allows and this server refuses.
    records.push(r#"{name: "a\\032b", type: A, values: [192.0.2.1]}"#.into());
    records.push(r#"{name: swap, type: A, values: [192.0.2.1]}"#.into());
    let mut wanted = desired(&*provider, ZONE, &records);
    // A value that is no address, as a bug or a newer provider might write it.
    let swap = wanted.last_mut().unwrap();
    swap.spec = reconciled_provider::Spec::known(b"300\nnonsense".to_vec());
    let (batch, notes, result) = apply(&*provider, &cx, ZONE, &wanted, &["swap.example.com./CNAME"]).await;
    result.unwrap();
    let outcome = |id: &str| notes.outcome(&batch, id);
    assert!(outcome("swap.example.com./A").contains("invalid"), "{}", outcome("swap.example.com./A"));
    assert!(outcome("swap.example.com./A").contains("nonsense"));
    assert!(outcome("swap.example.com./CNAME").contains("held back"));
    assert!(outcome("a\\032b.example.com./A").contains("unsupported characters"));
    assert_eq!(notes.counts(), [("done", 20), ("failed", 3)].into());
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    assert!(seen.get(&"swap.example.com./CNAME".into()).is_some(), "the name must not vanish");
    assert!(seen.get(&"h19.example.com./A".into()).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_is_created_without_the_record_that_is_refused() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let mut wanted = desired(&*provider, ZONE, &a_records(5));
    wanted[3].spec = reconciled_provider::Spec::known(b"300\nnonsense".to_vec());
    let (batch, notes, result) = apply(&*provider, &cx, ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 5), ("failed", 1)].into());
    assert!(notes.outcome(&batch, "h2.example.com./A").contains("nonsense"));
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_records_need_two_requests_and_a_name_is_never_split() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let wanted = desired(&*provider, ZONE, &a_records(20_000));
    let (_, notes, result) = apply(&*provider, &cx, ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 20_001)].into());
    assert!(notes.started.lock().unwrap().len() <= 3);
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    assert!(diff(&*provider, &cx, ZONE, &wanted, &seen).await.is_empty());

    // A server with a smaller limit than the entry knows: the request is split until it fits. The server
    // closes while it is being written to, so that an answer may be lost on the way.
    let small = server.provider_with(|config| config.max_body = 8_000_000);
    let wanted: Vec<Resource> = desired(&*small, "example.net", &a_records(20_000));
    for _ in 0..10 {
        let (_, _, result) = apply(&*small, &cx, "example.net", &wanted, &[]).await;
        match result {
            Ok(()) => break,
            Err(error) => assert_eq!(error.kind, ErrorKind::Unavailable, "{error}"),
        }
    }
    converge(&*small, &cx, "example.net", &wanted, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_records_sync_on_the_default_server() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let wanted = desired(&*provider, ZONE, &a_records(100_000));
    let (_, notes, result) = apply(&*provider, &cx, ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 100_001)].into());
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    assert!(diff(&*provider, &cx, ZONE, &wanted, &seen).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_and_the_comments_of_others_survive_writes_of_both_sides() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let record = |ip: &str| vec![format!("{{name: x, type: A, values: [{ip}]}}")];
    converge(&*provider, &cx, ZONE, &desired(&*provider, ZONE, &record("192.0.2.1")), &[]).await;
    // Somebody changes the record without naming comments, somebody else adds one of his own.
    let body = r#"{"rrsets": [{"name": "x.example.com.", "type": "A", "ttl": 60, "changetype": "REPLACE",
        "records": [{"content": "192.0.2.66", "disabled": false}]}]}"#;
    server.change("PATCH", "/zones/example.com.", body).await;
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    assert_eq!(seen.get(&"x.example.com./A".into()).unwrap().owner, Owner::Ours);
    let body = r#"{"rrsets": [{"name": "x.example.com.", "type": "A", "changetype": "REPLACE",
        "comments": [{"account": "reconciled", "content": "dns1"}, {"account": "ops", "content": "call me"}]}]}"#;
    server.change("PATCH", "/zones/example.com.", body).await;

    converge(&*provider, &cx, ZONE, &desired(&*provider, ZONE, &record("192.0.2.2")), &[]).await;
    let text = server.zone(ZONE).await;
    assert!(text.contains("call me") && text.contains("dns1"), "{text}");

    let unmarked = server.provider_with(|config| config.marks = false);
    converge(&*unmarked, &cx, ZONE, &desired(&*provider, ZONE, &record("192.0.2.3")), &[]).await;
    let text = server.zone(ZONE).await;
    assert!(text.contains("call me") && text.contains("dns1"), "{text}");

    let other = reconciled_dns::powerdns::connect(
        "test",
        "dns2",
        reconciled_dns::powerdns::Config::new(&server.url),
        reconciled_provider::SecretRef::Env("K".into()),
    );
    let seen = observe(&*other.unwrap(), &cx, ZONE).await.unwrap();
    assert_eq!(seen.get(&"x.example.com./A".into()).unwrap().owner, Owner::Other("dns1".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merged_value_of_ours_that_somebody_disables_stays_ours() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let wanted = desired(&*provider, ZONE, &["{name: x, type: A, values: [192.0.2.1], merge: true}".into()]);
    converge(&*provider, &cx, ZONE, &wanted, &[]).await;
    let body = r#"{"rrsets": [{"name": "x.example.com.", "type": "A", "ttl": 300, "changetype": "REPLACE", "records":
        [{"content": "192.0.2.1", "disabled": true}, {"content": "192.0.2.9", "disabled": true}]}]}"#;
    server.change("PATCH", "/zones/example.com.", body).await;
    let ours = wanted.iter().find(|resource| &*resource.id.0 == "x.example.com./A").unwrap();
    let tracked = Tracked {
        private: reconciled_dns::merge::remember(ours.spec.bytes().unwrap(), None, None),
        ..Tracked::new(ours.id.clone(), ours.spec.hash().unwrap())
    };
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    let merge = |declared: &[&Resource]| {
        let merged = provider.merge(declared, seen.get(&ours.id), Some(&tracked), &[]).unwrap().unwrap();
        String::from_utf8_lossy(merged.resource.spec.bytes().unwrap()).into_owned()
    };
    assert_eq!(merge(&[ours]), "300\n(disabled) 192.0.2.9\n192.0.2.1");
    assert_eq!(merge(&[]), "300\n(disabled) 192.0.2.9");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_plan_is_a_conflict_and_writes_nothing() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let wanted = desired(&*provider, ZONE, &a_records(2));
    converge(&*provider, &cx, ZONE, &wanted, &[]).await;
    let other = r#"{"rrsets": [{"name": "y.example.com.", "type": "A", "ttl": 60, "changetype": "REPLACE",
        "records": [{"content": "192.0.2.66", "disabled": false}]}]}"#;
    // The serial is a token here, then it is none.
    for edit in ["DEFAULT", ""] {
        server.change("PUT", "/zones/example.com.", &format!(r#"{{"soa_edit_api": "{edit}"}}"#)).await;
        server.change("PATCH", "/zones/example.com.", &other.replace("66", "1")).await;
        let seen = observe(&*provider, &cx, ZONE).await.unwrap();
        let mut batch = plan(&*provider, &cx, ZONE, &[], &["y.example.com./A"], &seen).await;
        server.change("PATCH", "/zones/example.com.", other).await;
        let before = server.zone(ZONE).await;
        let notes = Notes::default();
        let error = provider.apply(&cx, &batch, &notes).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
        assert!(notes.started.lock().unwrap().is_empty());
        assert_eq!(server.zone(ZONE).await, before);
        // Planned against what never was: a zone that does not exist.
        batch.base = Version::Absent;
        assert_eq!(provider.apply(&cx, &batch, &notes).await.unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(server.zone(ZONE).await, before);
    }
    // Creating a zone that somebody else created meanwhile.
    let seen = observe(&*provider, &cx, "new.example").await.unwrap();
    let wanted = desired(&*provider, "new.example", &a_records(1));
    let batch = plan(&*provider, &cx, "new.example", &wanted, &[], &seen).await;
    server.change("POST", "/zones", r#"{"name": "new.example.", "kind": "Native", "nameservers": []}"#).await;
    let error = provider.apply(&cx, &batch, &Notes::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
}

/// A journal during which somebody else changes a record, once a request has ended.
struct Meddled<'s> {
    notes: Notes,
    server: &'s Pdns,
    ttl: u32,
    was: AtomicBool,
}

#[async_trait]
impl Journal for Meddled<'_> {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        self.notes.started(actions).await
    }
    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error> {
        self.notes.progress(action, tracked).await
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        self.notes.finished(outcomes).await?;
        if !self.was.swap(true, Ordering::Relaxed) {
            let body = r#"{"rrsets": [{"name": "h59.example.com.", "type": "A", "ttl": TTL, "changetype": "REPLACE",
                "records": [{"content": "192.0.2.66", "disabled": false}]}]}"#;
            let body = body.replace("TTL", &self.ttl.to_string());
            self.server.change("PATCH", "/zones/example.com.", &body).await;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_others_between_two_requests_of_a_batch_is_not_overwritten() {
    let server = Pdns::start().await;
    let (whole, cx) = (server.provider(), server.cx());
    // About 25 records a request.
    let split = server.provider_with(|config| config.max_body = 8_192);
    let of = |ttl: u32| {
        let records = a_records(60).into_iter();
        let records = records.map(|record| record.replace("values", &format!("ttl: {ttl}, values")));
        desired(&*whole, ZONE, &records.collect::<Vec<_>>())
    };
    // A new zone, the rest of whose records follow its creation.
    converge(&*split, &cx, ZONE, &of(300), &[]).await;
    // The serial is a token, or it is none; the server may raise it to that of today.
    for edit in ["DEFAULT", "INCREASE", "SOA-EDIT-INCREASE", ""] {
        server.change("PUT", "/zones/example.com.", &format!(r#"{{"soa_edit_api": "{edit}"}}"#)).await;
        let (_, notes, result) = apply(&*split, &cx, ZONE, &of(60), &[]).await;
        result.unwrap();
        let requests = notes.started.lock().unwrap().len();
        assert!(requests > 2 && notes.counts() == [("done", 60)].into(), "{edit}: {requests} requests");
        // By several requests, and by one of which a record is refused.
        for (provider, ttl) in [(&split, 77), (&whole, 78)] {
            let mut wanted = of(600);
            if Arc::ptr_eq(provider, &whole) {
                wanted[1].spec = reconciled_provider::Spec::known(b"300\nnonsense".to_vec());
            }
            let seen = observe(&**provider, &cx, ZONE).await.unwrap();
            let batch = plan(&**provider, &cx, ZONE, &wanted, &[], &seen).await;
            let journal =
                Meddled { notes: Notes::default(), server: &server, ttl, was: AtomicBool::new(false) };
            let result = provider.apply(&cx, &batch, &journal).await;
            let error = result.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Conflict, "{edit}: {error}");
            let outcome = journal.notes.outcome(&batch, "h59.example.com./A");
            assert!(outcome == "none" || outcome.contains("conflict"), "{edit}: {outcome}");
            let now = observe(&*whole, &cx, ZONE).await.unwrap();
            let theirs = &now.get(&"h59.example.com./A".into()).unwrap().bytes;
            assert_eq!(&theirs[..], format!("{ttl}\n192.0.2.66").as_bytes(), "{edit}");
        }
        converge(&*whole, &cx, ZONE, &of(300), &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_serial_nobody_raises_is_no_token_and_such_a_zone_is_written_all_the_same() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let body = r#"{"name": "example.com.", "kind": "Native", "nameservers": [], "soa_edit_api": ""}"#;
    server.change("POST", "/zones", body).await;
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    assert_eq!(seen.version, Version::Unknown);
    let listed = provider.versions(&cx, &[scope(ZONE)]).await.unwrap();
    assert_ne!(listed[&scope(ZONE)], seen.version);
    converge(&*provider, &cx, ZONE, &desired(&*provider, ZONE, &a_records(3)), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_somebody_makes_anew_on_the_day_it_was_made_is_told_from_it() {
    let soa = "{name: '@', type: SOA, values: [ns1.example.net. host.example.net. 3600 600 86400 60]}";
    // The server may count days by a clock that is ahead of ours.
    for time_zone in ["UTC", "<+14>-14"] {
        let server = Pdns::start_in(time_zone).await;
        // About 25 records a request.
        let provider = server.provider_with(|config| config.max_body = 8_192);
        let cx = world::cx_now(KEY, 0);
        let zones =
            [("a.example", a_records(1)), ("b.example", vec![soa.into()]), ("c.example", a_records(60))];
        for (zone, records) in zones {
            converge(&*provider, &cx, zone, &desired(&*provider, zone, &records), &[]).await;
            let scopes = [scope(zone)];
            let made = provider.versions(&cx, &scopes).await.unwrap();
            server.change("DELETE", &format!("/zones/{zone}."), "").await;
            let body = format!(r#"{{"name": "{zone}.", "kind": "Native", "nameservers": []}}"#);
            server.change("POST", "/zones", &body).await;
            assert_ne!(provider.versions(&cx, &scopes).await.unwrap(), made, "{zone} {time_zone}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_a_thousand_zones_are_one_call_and_equal_what_was_observed() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    for i in 0..1_000 {
        let body = format!(
            r#"{{"name": "z{i}.example.", "kind": "Native", "nameservers": [], "soa_edit_api": "DEFAULT"}}"#
        );
        server.change("POST", "/zones?rrsets=false", &body).await;
    }
    let mut scopes: Vec<_> = (0..1_000).map(|i| scope(&format!("z{i}.example"))).collect();
    scopes.push(scope("missing.example"));
    let versions = provider.versions(&cx, &scopes).await.unwrap();
    assert_eq!(versions.len(), 1_001);
    assert_eq!(versions[&scope("missing.example")], Version::Absent);
    let seen = observe(&*provider, &cx, "z7.example").await.unwrap();
    assert_eq!(versions[&scope("z7.example")], seen.version);
    let wanted = desired(&*provider, "z7.example", &a_records(1));
    converge(&*provider, &cx, "z7.example", &wanted, &[]).await;
    let moved = provider.versions(&cx, &scopes).await.unwrap();
    let changed: Vec<_> = scopes.iter().filter(|scope| moved[scope] != versions[scope]).collect();
    assert_eq!(changed, [&scope("z7.example")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn zones_that_change_at_once_take_turns_at_a_server_with_one_writer() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let zones: Vec<String> = (0..8).map(|i| format!("z{i}.example")).collect();
    for ttl in 300..310 {
        let records: Vec<String> =
            (0..200).map(|i| format!("{{name: h{i}, type: A, ttl: {ttl}, values: [10.0.0.{i}]}}")).collect();
        let change = async |zone: &String| {
            let wanted = desired(&*provider, zone, &records);
            let (_, notes, result) = apply(&*provider, &cx, zone, &wanted, &[]).await;
            result.unwrap_or_else(|error| panic!("{zone}: {}", error.chain()));
            assert_eq!(notes.counts()["done"], if ttl == 300 { 201 } else { 200 }, "{zone}");
        };
        join_all(zones.iter().map(change)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_focused_read_sees_what_is_asked_and_the_token_of_the_zone() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let wanted = desired(&*provider, ZONE, &a_records(50));
    converge(&*provider, &cx, ZONE, &wanted, &[]).await;
    let all = observe(&*provider, &cx, ZONE).await.unwrap();
    let ids: [ResourceId; 2] = ["h7.example.com./A".into(), "nothing.example.com./A".into()];
    let tracked: Vec<Tracked> = ids.iter().map(|id| Tracked::new(id.clone(), Default::default())).collect();
    let (scope, focus) = (scope(ZONE), Focus::Only(ids.clone().into()));
    let want = Want { scope: &scope, focus: &focus, desired: &wanted, tracked: &tracked, claims: &[] };
    let seen = provider.observe(&cx, &want).await.unwrap();
    assert_eq!((&seen.covered, &seen.version, seen.complete), (&focus, &all.version, true));
    assert_eq!(seen.resources.len(), 1);
    assert_eq!(seen.get(&ids[0]), all.get(&ids[0]));
    let untracked = Want { tracked: &[], ..want };
    assert_eq!(provider.observe(&cx, &untracked).await.unwrap().covered, Focus::All, "marks of others count");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_with_a_slash_lives_and_dies_like_any_other() {
    let server = Pdns::start().await;
    let (provider, cx) = (server.provider(), server.cx());
    let zone = "0/25.2.0.192.in-addr.arpa";
    let wanted = desired(&*provider, zone, &["{name: 1, type: PTR, values: [www.example.com.]}".into()]);
    converge(&*provider, &cx, zone, &wanted, &[]).await;
    let seen = observe(&*provider, &cx, zone).await.unwrap();
    let observed = seen.get(&wanted[0].id).unwrap().clone();
    let batch = world::batch(zone, &seen, vec![Op::Delete { observed: observed.into(), tracked: None }]);
    let notes = Notes::default();
    provider.apply(&cx, &batch, &notes).await.unwrap();
    assert_eq!(notes.counts(), [("gone", 1)].into());
    assert_eq!(observe(&*provider, &cx, zone).await.unwrap().version, Version::Absent);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_key_is_permission_denied_and_a_wish_to_stop_is_heard() {
    let server = Pdns::start().await;
    let provider = server.provider();
    let error = observe(&*provider, &world::cx("wrong"), ZONE).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::PermissionDenied);
    assert!(error.hint.as_ref().unwrap().contains("apiKey") && !error.message.contains("wrong"));

    let cx = server.cx();
    let wanted = desired(&*provider, ZONE, &a_records(1));
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    let batch = plan(&*provider, &cx, ZONE, &wanted, &[], &seen).await;
    cx.stop.set();
    let notes = Notes::default();
    provider.apply(&cx, &batch, &notes).await.unwrap();
    assert!(notes.started.lock().unwrap().is_empty());
    let listed = provider.versions(&cx, &[scope(ZONE)]).await.unwrap();
    assert_eq!(listed[&scope(ZONE)], Version::Absent);
}

/// What stands before a server and has had enough.
struct Busy;

impl Play for Busy {
    fn answer(&mut self, _: &Request) -> Reply {
        Reply::new(429, "slow down").with("Retry-After", "600")
    }
}

#[tokio::test]
async fn too_many_calls_are_no_storm_of_calls() {
    let fake = Fake::start(Busy);
    let config = reconciled_dns::powerdns::Config::new(&fake.url);
    let key = reconciled_provider::SecretRef::Env("K".into());
    let provider = reconciled_dns::powerdns::connect("test", "dns1", config, key).unwrap();
    for zone in ["a.example", "b.example", "c.example"] {
        let error = observe(&*provider, &world::cx("k"), zone).await.unwrap_err();
        assert_eq!(
            (error.kind, error.retry_after.map(|wait| wait.as_secs())),
            (ErrorKind::RateLimited, Some(600))
        );
    }
    assert_eq!(fake.lines().len(), 1);
}
