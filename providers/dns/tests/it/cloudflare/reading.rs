//! Zones and pages of records, and what goes wrong with them.

use super::*;

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
    // What stands between may echo the token, and so may the API.
    let echo = format!(
        "{{\"success\": false, \"errors\": [{{\"code\": 1, \"message\": \"Bearer {TOKEN} is bad\"}}]}}"
    );
    for status in [200, 500] {
        let kind = if status == 200 { ErrorKind::Unexpected } else { ErrorKind::Unavailable };
        fails(say(status, &echo), kind, "(secret) is bad (1)").await;
    }
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
    assert!(error.hint.as_ref().unwrap().contains("Zone:Read and DNS:Edit"));
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
        let batch = batch(ZONE, &seen, vec![Op::Delete { observed: observed.into(), tracked: None }]);
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
async fn a_zone_that_two_accounts_have_is_no_guess() {
    let (fake, provider) = with_zone("free");
    fake.with(|cloudflare| cloudflare.add_zone(ZONE, "free"));
    let error = observe(&*provider, &cx(), ZONE).await.unwrap_err();
    assert!(
        error.message.contains("several of that name") && error.hint.as_ref().unwrap().contains("account")
    );
}
