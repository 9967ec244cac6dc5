//! Batches: their limits, refusals and races.

use super::*;

#[tokio::test]
async fn ten_thousand_creates_and_one_change_take_as_few_requests_as_the_plan_allows() {
    for (plan, creates, looks) in [("free", 50, 25 + 2 * 24), ("pro", 3, 1 + 2)] {
        let (fake, provider) = with_zone(plan);
        let mut list = hosts(10_000);
        let wanted = desired(&*provider, ZONE, &list);
        let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
        result.unwrap();
        assert_eq!(notes.counts(), [("done", 10_000)].into());
        // The zone by its name, its records to plan from, and once more before each write, where it has ever more of them.
        assert_eq!(fake.lines().len(), 3 + looks + creates, "{plan}");
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

#[tokio::test]
async fn one_bad_record_in_five_hundred_is_named_and_the_others_are_written() {
    for (points, most) in [(false, 40), (true, 6)] {
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
        assert!(
            count <= most,
            "{count} requests; by halves: 2 for each halving of 500, and a look before each"
        );
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
    assert_eq!(fake.lines().len(), 6);

    let (fake, provider) = with_zone("pro");
    fake.with(|cloudflare| cloudflare.bad = Some("10.0."));
    let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("failed", 1_000)].into());
    assert!(fake.lines().len() < 140, "after twenty culprits nothing more is tried");
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
async fn too_many_calls_between_two_batches_end_the_rest_without_an_effect() {
    let (fake, provider) = with_zone("free");
    let wanted = desired(&*provider, ZONE, &hosts(500));
    fake.fail("/batch", 1, Fault::Say(fake_cloudflare::error(429, 971, "slow down")));
    let (_, notes, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    assert_eq!(result.unwrap_err().kind, ErrorKind::RateLimited);
    assert_eq!(notes.counts(), [("done", 200), ("failed", 200)].into());
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
async fn without_an_account_a_missing_zone_is_asked_for_and_not_created() {
    let fake = fake_cloudflare::start();
    let provider = provider_with(&fake, "dns1", |config| config.account = None);
    let wanted = desired(&*provider, ZONE, &hosts(1));
    let (_, _, result) = apply(&*provider, &cx(), ZONE, &wanted, &[]).await;
    let error = result.unwrap_err();
    assert!(error.message.contains("names no account") && error.hint.as_ref().unwrap().contains("dashboard"));
    assert!(fake.lines().iter().all(|line| line.starts_with("GET")));
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
        Op::Delete { observed: observed.into(), tracked: None },
        Op::Create { desired: cname[1].clone(), delta: Default::default() },
    ];
    let batch = batch(ZONE, &seen, ops);
    let notes = Notes::default();
    provider.apply(&cx(), &batch, &notes).await.unwrap();
    assert_eq!(notes.counts(), [("failed", 2)].into());
    assert_eq!(fake.with(|cloudflare| cloudflare.at(ZONE, "www.example.com", "A").len()), 1);
}
