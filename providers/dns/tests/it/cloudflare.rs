//! Cloudflare against a fake that enforces its documented rules, and fails as it does.

use crate::{
    fake::{Fake, Fault, Reply},
    fake_cloudflare::{self, Cloudflare, TOKEN, cx, provider, provider_with},
    world::{self, Notes, apply, batch, converge, desired, normalize, observe, plan, scope},
};
use reconciled_provider::{Clock, Cx, ErrorKind, Op, Owner, Provider, Resource, Tracked, Version};
use reconciled_testkit::context::HandClock;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const ZONE: &str = "example.com";

fn with_zone(plan: &str) -> (Fake<Cloudflare>, Arc<dyn Provider>) {
    let fake = fake_cloudflare::start();
    fake.with(|cloudflare| cloudflare.add_zone(ZONE, plan));
    let provider = provider(&fake, "dns1");
    (fake, provider)
}

fn records(list: &[&str]) -> Vec<String> {
    list.iter().map(|record| format!("{{{record}}}")).collect()
}

fn hosts(count: usize) -> Vec<String> {
    let host =
        |i: usize| format!("{{name: h{i}, type: A, values: [10.{}.{}.{}]}}", i >> 16, i >> 8 & 255, i & 255);
    (0..count).map(host).collect()
}

/// A clock that a test moves, and a context with it.
fn with_clock() -> (Arc<HandClock>, Cx) {
    let clock = Arc::new(HandClock::default());
    (clock.clone(), Cx { clock, ..cx() })
}

#[tokio::test]
async fn a_second_run_is_empty_for_every_type() {
    let (fake, provider) = with_zone("free");
    let long = format!("name: long, type: TXT, values: [{}]", "x".repeat(766));
    let wanted = desired(
        &*provider,
        ZONE,
        &records(&[
            r#"name: "@", type: A, values: [192.0.2.2, 192.0.2.1], ttl: 60"#,
            r#"name: auto, type: A, values: [192.0.2.2], ttl: 1"#,
            r#"name: "@", type: MX, values: [10 mail.example.com., 20 @]"#,
            r#"name: nullmx, type: MX, values: [0 .]"#,
            r#"name: "@", type: CAA, values: ['0 issue "letsencrypt.org; a=b"', '128 IssueWild ";"']"#,
            r#"name: WWW, type: CNAME, values: [Example.COM.], cloudflare: {proxied: true}"#,
            r#"name: v6, type: AAAA, values: ["2001:DB8:0:0:1::1", "::ffff:192.0.2.1", "::"]"#,
            r#"name: _sip._tcp, type: SRV, values: [10 60 5060 sip.example.com., 0 0 0 .]"#,
            r#"name: "*.dev", type: A, values: [192.0.2.9], ttl: 86400, cloudflare: {comment: "ask (Bob)"}"#,
            r#"name: sub, type: NS, values: [ns1.example.net., ns2.example.net.]"#,
            "name: loc, type: LOC, values: [51 30 12.748 N 0 7 39.611 W 10m, 52 14 05 S 00 08 50 E -10m 30m 20m 5m]",
            r#"name: key, type: OPENPGPKEY, values: ["mQENBFVHm5sBCADEQ1jW AAECAw=="]"#,
            r#"name: _ftp._tcp, type: URI, values: ['10 1 "ftp://ftp1.example.com/public"']"#,
            r#"name: txt, type: TXT, values: ["", "a;b", "trailing ", "it's `x`", "quo\"te", "back\\slash", "äö\nü"]"#,
            &long,
        ]),
    );
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    let seen = world::observe_for(&*provider, &cx(), ZONE, &wanted).await.unwrap();
    assert_eq!(seen.resources.len(), wanted.len());
    assert!(seen.resources.iter().all(|o| o.owner == Owner::Ours || o.id.0.ends_with('.')), "{seen:?}");
    fake.with(|cloudflare| {
        let www = &cloudflare.at(ZONE, "www.example.com", "CNAME")[0];
        assert_eq!((&www["ttl"], &www["content"]), (&json!(1), &json!("example.com")));
        assert_eq!(
            cloudflare.at(ZONE, "*.dev.example.com", "A")[0]["comment"],
            "ask (Bob) (reconciled=dns1)"
        );
    });
}

#[tokio::test]
async fn an_alias_at_the_zone_itself_is_a_cname_that_is_flattened() {
    let (fake, provider) = with_zone("free");
    let text = r#"name: "@", type: TXT, values: [beside]"#;
    let list = |apex: &str| desired(&*provider, ZONE, &records(&[apex, text]));
    let alias = list(r#"name: "@", type: ALIAS, values: [www.example.net.], cloudflare: {proxied: true}"#);
    converge(&*provider, &cx(), ZONE, &alias, &[]).await;
    let kept = fake.with(|cloudflare| cloudflare.at(ZONE, ZONE, "CNAME")[0].clone());
    assert_eq!((&kept["content"], &kept["proxied"]), (&json!("www.example.net"), &json!(true)));
    let address = list(r#"name: "@", type: A, values: [192.0.2.1]"#);
    converge(&*provider, &cx(), ZONE, &address, &["example.com./ALIAS"]).await;
    converge(&*provider, &cx(), ZONE, &alias, &["example.com./A"]).await;
    let spec = "records: [{name: www, type: ALIAS, values: [a.example.net.]}]";
    let (_, problems) = normalize(&*provider, ZONE, spec);
    assert!(problems[0].message.contains("only at the zone itself"), "{problems:?}");
    let spec = "records: [{name: '@', type: CNAME, values: [a.example.net.]}]";
    let (_, problems) = normalize(&*provider, ZONE, spec);
    assert!(problems[0].hint.as_ref().unwrap().contains("ALIAS"), "{problems:?}");
}

#[tokio::test]
async fn a_pass_without_changes_asks_for_the_zones_and_then_for_each_zone_once() {
    let fake = fake_cloudflare::start();
    let zones: Vec<String> = (0..1_000).map(|i| format!("z{i}.example")).collect();
    fake.with(|cloudflare| {
        for zone in &zones {
            cloudflare.add_zone(zone, "free");
        }
    });
    let provider = provider(&fake, "dns1");
    let scopes: Vec<_> = zones.iter().map(|zone| scope(zone)).collect();
    assert!(provider.versions(&cx(), &scopes).await.unwrap().is_empty(), "every zone is there");
    assert_eq!(fake.asked().len(), 20, "50 zones a page");
    for zone in &zones {
        assert!(observe(&*provider, &cx(), zone).await.unwrap().complete);
    }
    assert_eq!(fake.asked().len(), 1_000);
    let more: Vec<_> = ["gone.example", "z1.example", "a", "b"].map(scope).into();
    let versions = provider.versions(&cx(), &more).await.unwrap();
    assert_eq!((versions.len(), &versions[&more[0]]), (3, &Version::Absent));
}

#[tokio::test]
async fn ten_thousand_creates_and_one_change_take_as_few_requests_as_the_plan_allows() {
    for (plan, creates) in [("free", 50), ("pro", 3)] {
        let (fake, provider) = with_zone(plan);
        let mut list = hosts(10_000);
        let wanted = desired(&*provider, ZONE, &list);
        let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
        result.unwrap();
        assert_eq!(notes.counts(), [("done", 10_000)].into());
        // The zone by its name, its records to plan from, and once more before the first write.
        assert_eq!(fake.lines().len(), 3 + creates, "{plan}");
        list[17] = list[17].replace("10.0", "10.9");
        let wanted = desired(&*provider, ZONE, &list);
        let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
        assert_eq!(fake.lines().len(), 2, "5,000 records a page");
        let batch = plan_of(&*provider, &wanted, &seen).await;
        assert_eq!(batch.actions.len(), 1);
        provider.apply(&cx(), &batch, &Notes::default()).await.unwrap();
        let asked = fake.asked();
        assert_eq!(asked.len(), 3, "two pages to make sure that nothing moved, and the change");
        let body: Value = serde_json::from_str(&asked[2].body).unwrap();
        assert_eq!(body["patches"].as_array().unwrap().len(), 1, "{body}");
    }
}

async fn plan_of(
    provider: &dyn Provider,
    wanted: &[Resource],
    seen: &reconciled_provider::Observation,
) -> reconciled_provider::Batch {
    plan(provider, &cx(), ZONE, wanted, &[], seen).await
}

#[tokio::test]
async fn one_bad_record_in_five_hundred_is_named_and_the_others_are_written() {
    for (points, most) in [(false, 24), (true, 5)] {
        let (fake, provider) = with_zone("pro");
        fake.with(|cloudflare| (cloudflare.points, cloudflare.bad) = (points, Some("10.0.1.77")));
        let wanted = desired(&*provider, ZONE, &hosts(500));
        let (batch, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
        result.unwrap();
        assert_eq!(notes.counts(), [("done", 499), ("failed", 1)].into());
        let outcome = notes.outcome(&batch, "h333.example.com./A");
        assert!(
            outcome.starts_with("failed: invalid: h333.example.com A: change zone example.com"),
            "{outcome}"
        );
        assert!(outcome.contains("Content for A record is invalid. (9005)"), "{outcome}");
        let count = fake.lines().len();
        assert!(count <= most, "{count} requests; by halves: 2 for each halving of 500");
    }
}

#[tokio::test]
async fn a_zone_that_is_full_and_a_plan_that_cannot_work_cost_few_requests() {
    let (fake, provider) = with_zone("free");
    fake.with(|cloudflare| cloudflare.quota = 200);
    let wanted = desired(&*provider, ZONE, &hosts(1_000));
    let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    assert!(result.unwrap_err().message.contains("quota exceeded"));
    assert_eq!(notes.counts(), [("done", 200), ("failed", 200)].into());
    assert_eq!(fake.lines().len(), 5);

    let (fake, provider) = with_zone("pro");
    fake.with(|cloudflare| cloudflare.bad = Some("10.0."));
    let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("failed", 1_000)].into());
    assert!(fake.lines().len() < 70, "after twenty culprits nothing more is tried");
}

#[tokio::test]
async fn a_limit_that_is_lower_than_the_plan_says_is_learnt_from_the_answer() {
    let (fake, provider) = with_zone("pro");
    fake.with(|cloudflare| cloudflare.batch = Some(200));
    let wanted = desired(&*provider, ZONE, &hosts(1_000));
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    let batches = fake.lines().iter().filter(|line| line.ends_with("/batch")).count();
    assert_eq!(batches, 1 + 5, "one that is too large, then all of it in batches of 200");
}

#[tokio::test]
async fn a_page_that_fails_is_no_smaller_zone() {
    let (fake, provider) = with_zone("free");
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &hosts(5)), &[]).await;
    fake.with(|cloudflare| cloudflare.page = 2);
    let second = |fault| fake.fail("dns_records?{\"page\": \"2\"", 0, fault);
    let fails = async |fault, kind, part: &str| {
        second(fault);
        let error = observe(&*provider, &cx(), ZONE).await.unwrap_err();
        let text = format!("{} / {:?}", error.chain(), error.hint);
        assert!(error.kind == kind && text.contains(part), "{kind:?}: {text}");
        assert!(!text.contains(TOKEN), "{text}");
    };
    let say = |status, body: &str| Fault::Say(Reply::new(status, body));
    fails(say(500, "oops"), ErrorKind::Unavailable, "answered 500: oops").await;
    fails(say(200, "<html>"), ErrorKind::Unexpected, "not what the API gives").await;
    fails(say(200, "{\"success\": true, \"errors\": []}"), ErrorKind::Unexpected, "no list").await;
    fails(say(200, "{\"success\": true, \"result\": []}"), ErrorKind::Unexpected, "no length").await;
    fails(Fault::DoAndHang, ErrorKind::Unavailable, "the connection broke").await;
    let no = "{\"success\": false, \"errors\": [{\"code\": 1, \"message\": \"no\\u001b[2J\"}]}";
    fails(say(200, no), ErrorKind::Unexpected, "answered 200: no [2J (1)").await;
    let other =
        "{\"success\": true, \"result\": [], \"result_info\": {\"total_pages\": 2, \"total_count\": 4}}";
    // Asked twice: the zone may have been made anew, with another id.
    second(say(200, other));
    fails(say(200, other), ErrorKind::Conflict, "changed while it was read").await;
    assert_eq!(observe(&*provider, &cx(), ZONE).await.unwrap().resources.len(), 6);
}

#[tokio::test]
async fn an_empty_list_is_an_empty_zone_only_when_the_api_says_how_long_it_is() {
    let (_, provider) = with_zone("free");
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    assert_eq!((seen.resources.len(), seen.complete), (1, true));
}

#[tokio::test]
async fn wrong_credentials_are_no_missing_zones() {
    let (fake, provider) = with_zone("free");
    let wrong = world::cx("wrong");
    let error = observe(&*provider, &wrong, ZONE).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::PermissionDenied);
    assert!(error.hint.unwrap().contains("Zone:Read and DNS:Edit"));
    assert!(provider.versions(&wrong, &[scope(ZONE)]).await.is_err());
    fake.fail("/zones", 0, Fault::Say(fake_cloudflare::error(400, 6_003, "Invalid request headers")));
    assert_eq!(observe(&*provider, &cx(), ZONE).await.unwrap_err().kind, ErrorKind::PermissionDenied);
    let error = observe(&*provider, &world::cx("two\nlines"), ZONE).await.unwrap_err();
    assert!(error.message.contains("cannot be sent in a header"), "{error}");
}

#[tokio::test]
async fn too_many_calls_for_an_hour_are_no_storm_of_calls() {
    let (fake, provider) = with_zone("free");
    let (clock, cx) = with_clock();
    let blocked = || fake_cloudflare::error(429, 971, "Please wait and consider throttling");
    let (mut asked, mut waited) = (0, Duration::ZERO);
    while clock.now() < Duration::from_secs(3_600) {
        fake.fail("GET", 0, Fault::Say(blocked()));
        // Many scopes want to look at once.
        for zone in [ZONE, "b.example", "c.example"] {
            let error = observe(&*provider, &cx, zone).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::RateLimited);
            waited = error.retry_after.unwrap();
        }
        asked += fake.lines().len();
        clock.advance(waited);
    }
    assert_eq!(asked, 12, "once in five minutes");
    // What the server says about the time counts.
    fake.fail("GET", 0, Fault::Say(blocked().with("Retry-After", "17")));
    let error = observe(&*provider, &cx, ZONE).await.unwrap_err();
    assert_eq!(error.retry_after, Some(Duration::from_secs(17)));
    clock.advance(Duration::from_secs(17));
    fake.with(|_| ());
    fake.fail("GET", 0, Fault::Say(Reply::new(429, "")));
    assert!(observe(&*provider, &cx, ZONE).await.is_err());
    clock.advance(Duration::from_secs(300));
    observe(&*provider, &cx, ZONE).await.unwrap();
}

#[tokio::test]
async fn too_many_calls_between_two_batches_end_the_rest_without_an_effect() {
    let (fake, provider) = with_zone("free");
    let wanted = desired(&*provider, ZONE, &hosts(500));
    fake.fail("/batch", 1, Fault::Say(fake_cloudflare::error(429, 971, "slow down")));
    let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::RateLimited);
    assert_eq!(notes.counts(), [("done", 200), ("failed", 200)].into());
}

#[tokio::test]
async fn a_header_that_says_nothing_is_left_is_believed() {
    let (fake, provider) = with_zone("free");
    let (clock, cx) = with_clock();
    let list = json!({"success": true, "errors": [], "result": [], "result_info": {"total_pages": 1, "total_count": 0}});
    let reply = Reply::new(200, list.to_string()).with("Ratelimit", "\"default\";r=0;t=30");
    fake.fail("GET /zones", 0, Fault::Say(reply));
    assert_eq!(observe(&*provider, &cx, ZONE).await.unwrap().version, Version::Absent);
    assert_eq!(observe(&*provider, &cx, ZONE).await.unwrap_err().kind, ErrorKind::RateLimited);
    clock.advance(Duration::from_secs(30));
    assert_eq!(observe(&*provider, &cx, ZONE).await.unwrap().resources.len(), 1);
    assert_eq!(fake.lines().len(), 3);
}

#[tokio::test]
async fn a_write_without_an_answer_is_unknown_and_the_next_pass_finds_it_done() {
    let no = Reply::new(502, "bad gateway");
    for fault in [Fault::DoAndHang, Fault::DoAndSay(no), Fault::DoAndSay(Reply::new(200, "<html>"))] {
        let (fake, provider) = with_zone("free");
        let wanted = desired(&*provider, ZONE, &hosts(3));
        fake.fail("/batch", 0, fault.clone());
        let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
        assert!(result.is_err(), "{fault:?}");
        assert_eq!(notes.counts(), [("unknown", 3)].into(), "{fault:?}");
        let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
        assert!(plan_of(&*provider, &wanted, &seen).await.actions.is_empty(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_batch_that_is_refused_with_200_had_no_effect() {
    let (fake, provider) = with_zone("free");
    let wanted = desired(&*provider, ZONE, &hosts(1));
    let no = json!({"success": false, "errors": [{"code": 9005, "message": "no good"}], "result": null});
    fake.fail("/batch", 0, Fault::Say(Reply::new(200, no.to_string())));
    let (batch, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert!(notes.outcome(&batch, "h0.example.com./A").contains("invalid: h0.example.com A: change zone"));
}

#[tokio::test]
async fn a_person_who_edits_between_look_and_write_is_not_overwritten() {
    let (fake, provider) = with_zone("free");
    let wanted = desired(&*provider, ZONE, &hosts(2));
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    let changed = desired(&*provider, ZONE, &records(&["name: h0, type: A, values: [192.0.2.7]"]));
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let batch = plan_of(&*provider, &changed, &seen).await;
    fake.with(|cloudflare| {
        cloudflare.remove(ZONE, "h0.example.com", "A");
        cloudflare.put(ZONE, json!({"name": "h0.example.com", "type": "A", "content": "203.0.113.9"}));
    });
    fake.asked();
    let notes = Notes::default();
    let error = provider.apply(&cx(), &batch, &notes).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(notes.started.lock().unwrap().is_empty());
    assert!(fake.lines().iter().all(|line| line.starts_with("GET")));
}

#[tokio::test]
async fn a_zone_that_was_removed_is_absent_and_one_made_anew_is_read() {
    let (fake, provider) = with_zone("free");
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &hosts(2)), &[]).await;
    fake.with(|cloudflare| cloudflare.zones.clear());
    assert_eq!(observe(&*provider, &cx(), ZONE).await.unwrap().version, Version::Absent);
    fake.with(|cloudflare| cloudflare.add_zone(ZONE, "free"));
    assert_eq!(observe(&*provider, &cx(), ZONE).await.unwrap().resources.len(), 1);
    fake.with(|cloudflare| {
        cloudflare.zones.clear();
        cloudflare.add_zone(ZONE, "free");
        cloudflare.put(ZONE, json!({"name": "a.example.com", "type": "A", "content": "192.0.2.1"}));
    });
    assert_eq!(observe(&*provider, &cx(), ZONE).await.unwrap().resources.len(), 2);
}

#[tokio::test]
async fn only_a_zone_that_is_not_there_was_deleted() {
    let (fake, provider) = with_zone("free");
    let held = fake_cloudflare::error(409, 1_099, "The zone has a zone hold");
    for (fault, outcome) in [
        (Fault::Say(held.clone()), "failed"),
        // The answer says the same, but nobody finds the zone any longer.
        (Fault::DoAndSay(held), "gone"),
    ] {
        let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
        let observed = seen.get(&"example.com.".into()).unwrap().clone();
        let batch = batch(ZONE, &seen, vec![Op::Delete { observed, tracked: None }]);
        fake.fail("DELETE", 0, fault);
        let notes = Notes::default();
        let result = provider.apply(&cx(), &batch, &notes).await;
        assert_eq!((notes.counts(), result.is_ok()), ([(outcome, 1)].into(), outcome == "gone"));
    }
}

#[tokio::test]
async fn a_zone_with_an_international_name_is_found_by_its_ascii_form() {
    let fake = fake_cloudflare::start();
    fake.with(|cloudflare| cloudflare.add_zone("bücher.example", "free"));
    let provider = provider(&fake, "dns1");
    let zone = "xn--bcher-kva.example";
    converge(&*provider, &cx(), zone, &desired(&*provider, zone, &hosts(2)), &[]).await;
    for others in [0, 5] {
        let mut scopes: Vec<_> = (0..others).map(|i| scope(&format!("z{i}.example"))).collect();
        scopes.push(scope(zone));
        let versions = provider.versions(&cx(), &scopes).await.unwrap();
        assert_eq!((versions.len(), versions.contains_key(&scope(zone))), (others, false));
    }
    for query in ["Bücher.example", zone, "*"] {
        let found = provider.discover(&cx(), query).await.unwrap();
        assert_eq!((found.len(), &*found[0].scope.name), (1, zone), "{query}");
    }
}

#[tokio::test]
async fn a_list_of_zones_that_is_not_whole_is_an_error() {
    let (fake, provider) = with_zone("free");
    fake.with(|cloudflare| {
        (0..9).for_each(|i| drop(cloudflare.add_zone(&format!("z{i}.example"), "free")));
        cloudflare.page = 4;
    });
    let scopes: Vec<_> = (0..9).map(|i| scope(&format!("z{i}.example"))).collect();
    assert!(provider.versions(&cx(), &scopes).await.unwrap().is_empty());
    for (list, total) in
        [("[]", 10), ("[]", 6), ("[{\"id\": \"00000000000000000000000000000001\", \"name\": \"x\"}]", 10)]
    {
        let body = format!(
            "{{\"success\": true, \"result\": {list}, \"result_info\": {{\"total_pages\": 3, \"total_count\": {total}}}}}"
        );
        fake.fail("\"page\": \"2\"", 0, Fault::Say(Reply::new(200, body)));
        let error = provider.versions(&cx(), &scopes).await.unwrap_err();
        assert!(error.kind == ErrorKind::Unavailable && error.message.contains("changed while"), "{error}");
    }
}

#[tokio::test]
async fn a_zone_that_goes_while_it_is_written_ends_the_batch() {
    let (fake, provider) = with_zone("pro");
    let wanted = desired(&*provider, ZONE, &hosts(1_000));
    let gone = fake_cloudflare::error(404, 7_003, "Could not route to the zone");
    for _ in 0..50 {
        fake.fail("/batch", 0, Fault::Say(gone.clone()));
    }
    let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!((notes.counts(), fake.lines().len()), ([("failed", 1_000)].into(), 4));
}

#[tokio::test]
async fn what_somebody_proxies_is_a_difference_that_one_write_takes_away() {
    let (fake, provider) = with_zone("free");
    let wanted = desired(&*provider, ZONE, &records(&["name: www, type: A, values: [192.0.2.1]"]));
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    fake.with(|cloudflare| {
        for record in cloudflare.zone(ZONE).records.values_mut() {
            record.insert("proxied".into(), json!(true));
            // Some answers keep the TTL that was set before.
            record.insert("ttl".into(), json!(300));
        }
    });
    let seen = world::observe_for(&*provider, &cx(), ZONE, &wanted).await.unwrap();
    let deltas = world::diff(&*provider, &cx(), ZONE, &wanted, &seen).await;
    let delta = deltas[&"www.example.com./A".into()].as_ref().unwrap();
    let paths: Vec<&str> = delta.fields.iter().map(|field| &*field.path).collect();
    assert_eq!(paths, ["ttl", "cloudflare.proxied"]);
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
    let proxied = desired(
        &*provider,
        ZONE,
        &records(&["name: www, type: A, values: [192.0.2.1], cloudflare: {proxied: true}"]),
    );
    converge(&*provider, &cx(), ZONE, &proxied, &[]).await;
}

#[tokio::test]
async fn old_texts_without_quotes_are_equal_and_other_comments_stay() {
    let (fake, provider) = with_zone("free");
    fake.with(|cloudflare| {
        let content = "v=spf1 -all";
        cloudflare
            .put(ZONE, json!({"name": ZONE, "type": "TXT", "content": content, "comment": "old (ask Bob)"}));
    });
    let spf = r#"name: "@", type: TXT, values: ["v=spf1 -all"]"#;
    let wanted = desired(&*provider, ZONE, &records(&[spf]));
    let seen = world::observe_for(&*provider, &cx(), ZONE, &wanted).await.unwrap();
    assert!(plan_of(&*provider, &wanted, &seen).await.actions.is_empty());
    let other = desired(&*provider, ZONE, &records(&[&spf.replace("-all", "~all")]));
    converge(&*provider, &cx(), ZONE, &other, &[]).await;
    fake.with(|cloudflare| {
        let now = cloudflare.at(ZONE, ZONE, "TXT");
        assert_eq!(now.len(), 1);
        assert_eq!(now[0]["content"], "\"v=spf1 ~all\"");
        assert_eq!(now[0]["comment"], "old (ask Bob) (reconciled=dns1)");
    });
}

#[tokio::test]
async fn comments_and_tags_are_declared_changed_and_left_to_others() {
    let (fake, provider) = with_zone("business");
    let record = |extra: &str| {
        let record = format!("name: www, type: A, values: [192.0.2.1, 192.0.2.2]{extra}");
        desired(&*provider, ZONE, &records(&[&record]))
    };
    for extra in [
        ", cloudflare: {comment: one, tags: [\"Team:web\", b]}",
        ", cloudflare: {comment: two, tags: [b]}",
        ", cloudflare: {comment: \"\", tags: []}",
        ", cloudflare: {proxied: true, comment: three}",
    ] {
        let wanted = record(extra);
        let (_, _, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
        result.unwrap();
        let seen = world::observe_for(&*provider, &cx(), ZONE, &wanted).await.unwrap();
        assert!(plan_of(&*provider, &wanted, &seen).await.actions.is_empty(), "{extra}: {seen:?}");
    }
    let now = fake.with(|cloudflare| cloudflare.at(ZONE, "www.example.com", "A"));
    assert_eq!(
        (&now[0]["comment"], &now[1]["comment"]),
        (&json!("three (reconciled=dns1)"), &now[0]["comment"])
    );
    // Nobody declares them any more: they stay.
    let silent = record("");
    converge(&*provider, &cx(), ZONE, &silent, &[]).await;
    let now = fake.with(|cloudflare| cloudflare.at(ZONE, "www.example.com", "A"));
    assert_eq!(now[0]["comment"], "three (reconciled=dns1)");
}

#[tokio::test]
async fn what_other_products_of_cloudflare_keep_is_the_systems_and_not_written() {
    let (fake, provider) = with_zone("free");
    fake.with(|cloudflare| {
        cloudflare.put(
            ZONE,
            json!({"name": ZONE, "type": "MX", "content": "route1.mx.cloudflare.net", "priority": 5,
                "meta": {"email_routing": true, "read_only": true}}),
        );
    });
    let wanted =
        desired(&*provider, ZONE, &records(&[r#"name: "@", type: MX, values: [10 mail.example.net.]"#]));
    let (batch, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    result.unwrap();
    let outcome = notes.outcome(&batch, "example.com./MX");
    assert!(outcome.contains("unsupported: example.com. MX is kept by another product"), "{outcome}");
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    assert_eq!(seen.get(&"example.com./MX".into()).unwrap().owner, Owner::System);
}

#[tokio::test]
async fn a_manifest_that_cloudflare_would_refuse_is_refused_at_its_place() {
    let (_, provider) = with_zone("free");
    let refuse = |record: &str, part: &str| {
        let spec = format!("apex: true\nrecords:\n  - {{{record}}}\n");
        let (_, problems) = normalize(&*provider, ZONE, &spec);
        let text: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
        assert!(text.contains(part) && text.contains("zone.yaml:3:"), "{record}: {text}");
    };
    refuse("name: a, type: A, values: [192.0.2.1], ttl: 20", "takes no ttl of 20 seconds");
    refuse("name: a, type: A, values: [192.0.2.1], ttl: 90000", "60 to 86400");
    refuse("name: a, type: MX, values: [0 .], cloudflare: {proxied: true}", "a MX cannot be proxied");
    refuse("name: a, type: A, values: [192.0.2.1], ttl: 60, cloudflare: {proxied: true}", "leave `ttl` out");
    refuse("name: a, type: A, values: [192.0.2.1], cloudflare: {proxyed: true}", "did you mean `proxied`");
    refuse("name: a, type: A, values: [192.0.2.1], cloudflare: {comment: \"a\\nb\"}", "one line");
    refuse("name: a, type: A, values: [192.0.2.1], cloudflare: {tags: [\"a,b\"]}", "is no tag");
    refuse(
        "name: a, type: A, values: [192.0.2.1], cloudflare: {comment: x (reconciled=dns2)}",
        "looks like the mark",
    );
    refuse(
        "name: a, type: A, values: [192.0.2.1], cloudflare: {tags: [\"Reconciled:dns2\"]}",
        "looks like the mark",
    );
    refuse("name: \"@\", type: SOA, values: [a. b. 1 2 3 4]", "keeps the SOA");
}

#[tokio::test]
async fn without_an_account_a_missing_zone_is_asked_for_and_not_created() {
    let fake = fake_cloudflare::start();
    let provider = provider_with(&fake, "dns1", |config| config.account = None);
    let wanted = desired(&*provider, ZONE, &hosts(1));
    let (_, _, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    let error = result.unwrap_err();
    assert!(error.message.contains("names no account") && error.hint.unwrap().contains("dashboard"));
    assert!(fake.lines().iter().all(|line| line.starts_with("GET")));
}

#[tokio::test]
async fn a_zone_that_two_accounts_have_is_no_guess() {
    let (fake, provider) = with_zone("free");
    fake.with(|cloudflare| cloudflare.add_zone(ZONE, "free"));
    let error = observe(&*provider, &cx(), ZONE).await.unwrap_err();
    assert!(error.message.contains("several of that name") && error.hint.unwrap().contains("account"));
}

#[tokio::test]
async fn a_merged_value_of_ours_that_somebody_proxies_stays_ours() {
    let (fake, provider) = with_zone("free");
    let record = ["name: www, type: A, values: [192.0.2.1], merge: true"];
    let wanted = desired(&*provider, ZONE, &records(&record)).split_off(1);
    fake.with(|cloudflare| {
        let put = |ttl, proxied, content| json!({"name": "www.example.com", "type": "A", "ttl": ttl, "proxied": proxied, "content": content});
        cloudflare.put(ZONE, put(1, true, "192.0.2.1"));
        cloudflare.put(ZONE, put(600, false, "192.0.2.9"));
    });
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let observed = seen.get(&wanted[0].id).unwrap();
    let shown = String::from_utf8_lossy(&observed.bytes).into_owned();
    assert!(shown.contains(") 192.0.2.1\n") || shown.ends_with(") 192.0.2.1"), "{shown}");
    let tracked = Tracked {
        private: reconciled_dns::merge::remember(wanted[0].spec.bytes().unwrap(), None, None),
        ..Tracked::new(wanted[0].id.clone(), wanted[0].spec.hash().unwrap())
    };
    let merge = |declared: &[&Resource]| {
        let merged = provider.merge(declared, Some(observed), Some(&tracked), &[]).unwrap().unwrap();
        String::from_utf8_lossy(merged.resource.spec.bytes().unwrap()).into_owned()
    };
    let both = merge(&[&wanted[0]]);
    assert_eq!(both.matches("192.0.2.1").count(), 1, "{both}");
    assert!(both.contains("192.0.2.9"), "{both}");
    let left = merge(&[]);
    assert!(left.contains("192.0.2.9") && !left.contains("192.0.2.1"), "{left}");
}

#[tokio::test]
async fn half_a_swap_is_never_written() {
    let (fake, provider) = with_zone("free");
    let a = desired(&*provider, ZONE, &records(&["name: www, type: A, values: [192.0.2.1]"]));
    converge(&*provider, &cx(), ZONE, &a, &[]).await;
    fake.with(|cloudflare| cloudflare.bad = Some("bad.example.net"));
    let cname = desired(&*provider, ZONE, &records(&["name: www, type: CNAME, values: [bad.example.net.]"]));
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let observed = seen.get(&"www.example.com./A".into()).unwrap().clone();
    let ops = vec![
        Op::Delete { observed, tracked: None },
        Op::Create { desired: cname[1].clone(), delta: Default::default() },
    ];
    let batch = batch(ZONE, &seen, ops);
    let notes = Notes::default();
    provider.apply(&cx(), &batch, &notes).await.unwrap();
    assert_eq!(notes.counts(), [("failed", 2)].into());
    assert_eq!(fake.with(|cloudflare| cloudflare.at(ZONE, "www.example.com", "A").len()), 1);
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let connect = |change: &dyn Fn(&mut reconciled_dns::cloudflare::Config), instance: &str| {
        let mut config = reconciled_dns::cloudflare::Config::default();
        change(&mut config);
        let secret = reconciled_provider::SecretRef::Named("token".into());
        reconciled_dns::cloudflare::connect("cf", instance, config, secret).map(|_| ()).unwrap_err()
    };
    assert!(connect(&|c| c.url = "http://me:canary@x".into(), "dns1").message.contains("belong in a secret"));
    assert!(connect(&|c| c.account = Some("my account".into()), "dns1").message.contains("is no id"));
    assert!(connect(&|_| (), "two words").hint.unwrap().contains("marks: false"));
}
