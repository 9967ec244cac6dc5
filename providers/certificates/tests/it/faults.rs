//! What goes wrong at an authority, and what comes of it.

use crate::{
    authority::{Authority, BEGIN, Fault},
    renewals::move_account_away,
    world::Desk,
};
use reconciled_provider::{ErrorKind, Health, Outcome, Renewal};
use reconciled_testkit::{PATIENCE, context::HandClock};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

#[track_caller]
pub(crate) fn error(outcome: &Outcome) -> &reconciled_provider::Error {
    outcome.error().unwrap_or_else(|| panic!("no error: {outcome:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_at_any_call_burns_no_certificate() {
    for fault in [Fault::Lost, Fault::Dropped, Fault::Refused(500, "serverInternal", "")] {
        for number in 1.. {
            let authority = Authority::start();
            let mut desk = Desk::new(&authority);
            authority.fail_nth(number, fault.clone());
            let first = desk.pass().await;
            if authority.is_armed() {
                assert!(number > 8 && matches!(first, Outcome::Done(_)), "{number}: {first:?}");
                break;
            }
            // reqwest sends a request once more whose connection was closed before an answer began, so not all are seen.
            assert!(matches!(first, Outcome::Done(_)) || first.error().is_some(), "{number}: {first:?}");
            desk.restart();
            let outcome = desk.passes(5).await;
            assert!(matches!(outcome, Outcome::Done(_)), "{fault:?} at {number}: {outcome:?}");
            let (orders, issued) = authority.counts();
            assert_eq!(issued, 1, "{fault:?} at {number}");
            assert!(orders <= 2, "{fault:?} at {number}: {orders} orders");
            assert!(desk.is_in_sync().await, "{fault:?} at {number}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_asks_to_be_left_alone_is() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    authority.fail("order", Fault::Refused(429, "rateLimited", "Retry-After: 3600\r\n"));
    let outcome = desk.pass().await;
    let waits = |outcome: &Outcome| error(outcome).retry_after.unwrap().as_secs();
    assert_eq!((error(&outcome).kind, waits(&outcome)), (ErrorKind::RateLimited, 3_600));
    // Also by a process that has just started, whatever else is asked of it.
    desk.restart();
    desk.clock.advance(Duration::from_secs(600));
    desk.wish.key = reconciled_certificates::wish::KeyKind::Ed25519;
    let (outcome, asked) = (desk.pass().await, authority.calls("order"));
    assert_eq!((error(&outcome).kind, waits(&outcome), asked), (ErrorKind::RateLimited, 3_000, 1));
    desk.clock.advance(Duration::from_secs(3_000));
    authority.fail("orders", Fault::Refused(503, "", "Retry-After: 17\r\n"));
    assert_eq!(waits(&desk.pass().await), 17);
    assert!(desk.pass().await.error().is_some());
    desk.clock.advance(Duration::from_secs(17));
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!((authority.counts(), desk.keep().busy("web").unwrap()), ((1, 1), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_certificate_finds_out_for_all_that_an_account_asked_too_much() {
    for (call, status) in [("order", 429), ("account", 429), ("dir", 429), ("order", 503)] {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        let word = if status == 429 { "rateLimited" } else { "" };
        authority.fail(call, Fault::Refused(status, word, "Retry-After: 3600\r\n"));
        let before = |authority: &Authority| authority.calls("order") + authority.calls("account");
        assert!(desk.pass().await.error().is_some());
        let asked = before(&authority);
        for name in ["a", "b", "c"] {
            desk.restart();
            let outcome = desk.pass_of(name).await;
            let error = error(&outcome);
            assert_eq!((error.kind, error.retry_after.unwrap().as_secs()), (ErrorKind::RateLimited, 3_600));
            assert!(error.message.contains("asked to be left alone"), "{}", error.message);
        }
        assert_eq!(before(&authority), asked, "{call}");
        // A person may say otherwise, for one of them.
        desk.clock.advance(Duration::from_secs(1));
        desk.renew().await;
        assert!(desk.pass_of("a").await.error().is_some());
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)), "{call}");
        assert_eq!(authority.calls("order"), if call == "order" { 2 } else { 1 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_ordered_goes_on_while_the_account_may_order_nothing() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    authority.fail("finalize", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    authority.fail("order", Fault::Refused(429, "rateLimited", "Retry-After: 3600\r\n"));
    assert!(desk.pass_of("a").await.error().is_some());
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    // And a person who asks again is heeded once.
    desk.clock.advance(Duration::from_secs(1));
    authority.fail("order", Fault::Refused(429, "rateLimited", "Retry-After: 3600\r\n"));
    desk.renew().await;
    for _ in 0..3 {
        assert!(desk.pass().await.error().is_some());
        desk.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(authority.calls("order"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_some_names_keeps_no_other_certificate_back() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    let text =
        "too many certificates (5) already issued for this exact set of identifiers in the last 168h0m0s";
    authority.fail("order", Fault::Said(429, "rateLimited", text));
    let outcome = desk.pass_of("a").await;
    assert_eq!(error(&outcome).kind, ErrorKind::RateLimited);
    assert!(desk.keep().busy("a").unwrap().is_some());
    let outcome = desk.pass_of("a").await;
    assert!(error(&outcome).message.contains("asked to be left alone"));
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!(authority.calls("order"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_remembered_and_the_waits_grow_until_something_else_is_wished_for() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    authority.refuse(true);
    let mut waits = Vec::new();
    for orders in 1..=3 {
        let released = desk.pass().await;
        assert!(matches!(released, Outcome::Pending { ref claims, .. } if claims.is_empty()), "{released:?}");
        assert_eq!(authority.counts().0, orders);
        desk.restart();
        let refused = desk.pass().await;
        let error = error(&refused);
        assert!(error.chain().contains("a.example: what is there is wrong"), "{}", error.chain());
        assert!(error.hint.as_ref().unwrap().contains("reconciled renew Certificate/web"));
        assert_eq!(authority.counts().0, orders, "it is not asked meanwhile");
        waits.push(error.retry_after.unwrap().as_secs());
        desk.clock.advance(error.retry_after.unwrap());
    }
    assert_eq!(waits, [60, 300, 900]);
    authority.refuse(false);
    desk.wish.reload.clear();
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!(desk.keep().refusals("web").unwrap().count, 0);
    // A wish that is refused does not keep another one back.
    authority.refuse(true);
    desk.wish.key = reconciled_certificates::wish::KeyKind::Ecdsa(384);
    desk.pass().await;
    assert!(desk.pass().await.error().is_some());
    authority.refuse(false);
    desk.wish.key = reconciled_certificates::wish::KeyKind::Ed25519;
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_forgotten_is_made_again_and_one_that_takes_its_time_is_waited_for() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    authority.fail("authz", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    authority.forget();
    authority.slow(2);
    // It may be one that not all of its machines know yet.
    let outcome = desk.pass().await;
    assert!(matches!(outcome, Outcome::Pending { .. }) && authority.counts().0 == 1, "{outcome:?}");
    desk.clock.advance(Duration::from_secs(60));
    let outcome = desk.pass().await;
    let Outcome::Pending { recheck_after, .. } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(*recheck_after, Duration::from_secs(30));
    desk.restart();
    assert!(matches!(desk.passes(4).await, Outcome::Done(_)));
    assert_eq!(authority.counts(), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_an_order_that_is_not_known_at_once_burns_nothing() {
    for call in ["authz", "challenge", "certificate"] {
        let authority = Authority::start();
        let desk = Desk::new(&authority);
        authority.fail(call, Fault::Refused(404, "malformed", ""));
        assert!(matches!(desk.passes(4).await, Outcome::Done(_)), "{call}");
        assert_eq!(authority.counts(), (1, 1), "{call}");
        assert!(authority.calls(call) >= 2, "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_forgets_every_order_is_asked_three_times_and_then_refuses() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    (0..100).for_each(|_| authority.fail("orders", Fault::Refused(404, "malformed", "")));
    for orders in [1, 1, 2, 3] {
        assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
        assert_eq!(authority.counts().0, orders);
        let wait = if orders == 1 { 30 } else { 60 };
        desk.clock.advance(Duration::from_secs(wait));
        desk.restart();
    }
    let outcome = desk.passes(2).await;
    let text = error(&outcome).chain();
    assert!(text.contains("does not know orders that it gave, 3 in a row"), "{text}");
    assert_eq!((authority.counts().0, desk.keep().refusals("web").unwrap().count), (3, 1));
    assert_eq!(error(&outcome).retry_after, Some(Duration::from_secs(60)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_stays_as_it_is_is_asked_for_less_and_less_often() {
    // The request is never taken; and: it takes its time, and does not say how much.
    for state in ["ready", "processing"] {
        let authority = Authority::start();
        let desk = Desk::new(&authority);
        match state {
            "ready" => {
                (0..1_000).for_each(|_| authority.fail("finalize", Fault::Refused(403, "orderNotReady", "")))
            }
            _ => authority.slow_and_silent(1_000),
        }
        let outcome = desk.pass().await;
        let Outcome::Pending { recheck_after, .. } = &outcome else { panic!("{state}: {outcome:?}") };
        assert!(*recheck_after >= Duration::from_secs(5), "{state}: {recheck_after:?}");
        assert!(authority.calls("orders") < 15, "{state}: {}", authority.calls("orders"));
        desk.clock.advance(Duration::from_secs(4_000));
        let outcome = desk.pass().await;
        assert!(
            matches!(&outcome, Outcome::Pending { recheck_after, .. } if recheck_after.as_secs() == 300),
            "{state}: {outcome:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_that_never_comes_to_a_result_is_waited_for_and_let_go_of_after_days() {
    let authority = Authority::start();
    authority.ponder();
    let desk = Desk::new(&authority);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let outcome = desk.pass().await;
        let Outcome::Pending { recheck_after, .. } = outcome else { panic!("{outcome:?}") };
        desk.clock.advance(recheck_after);
        waits.push(recheck_after.as_secs());
    }
    assert!(waits.is_sorted() && *waits.last().unwrap() <= 300 && waits[0] < 60, "{waits:?}");
    assert_eq!(authority.counts(), (1, 0), "the same order all the time");
    desk.clock.advance(Duration::from_secs(6 * 86_400));
    assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
    assert_eq!(authority.counts(), (2, 0));
    assert!(matches!(desk.delete().await, Outcome::Gone));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_said_and_waited_for() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    desk.listen = taken.local_addr().unwrap();
    desk.restart();
    let outcome = desk.pass().await;
    let text = error(&outcome).chain();
    assert!(text.contains("listen at 127.0.0.1:") && text.contains("for challenges over HTTP"), "{text}");
    drop(taken);
    // For a moment a connection of another test may have it.
    let deadline = Instant::now() + PATIENCE;
    let mut outcome = desk.pass().await;
    while !matches!(outcome, Outcome::Done(_)) {
        assert!(Instant::now() < deadline, "{outcome:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        outcome = desk.pass().await;
    }
    assert_eq!(authority.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_goes_with_its_manifest() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    authority.fail("authz", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    assert!(desk.keep().attempt("web").unwrap().is_some());
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(desk.keep().attempt("web").unwrap().is_none(), "no key is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_the_authority_does_not_have_is_said_with_those_it_has() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let reconciled_certificates::wish::Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.profile = Some("shortlife".into());
    let outcome = desk.pass().await;
    let error = error(&outcome);
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.hint.as_ref().unwrap().contains("it has classic, shortlived"));
    assert_eq!(authority.counts(), (0, 0));
    // One that it has got since then is no mistake any more.
    authority.add_profile("shortlife");
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_was_deactivated_is_said_and_no_other_one_is_made() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    authority.fail("authz", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    for call in ["orders", "orders", "order", "order"] {
        authority.fail(call, Fault::Refused(403, "unauthorized", ""));
    }
    // The order might be one that is not known everywhere yet.
    assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
    desk.clock.advance(Duration::from_secs(60));
    for _ in 0..2 {
        let outcome = desk.pass().await;
        let error = error(&outcome);
        assert_eq!(error.kind, ErrorKind::PermissionDenied, "{error:?}");
        let hint = error.hint.as_ref().unwrap();
        assert!(hint.contains("was the account deactivated there?"), "{hint}");
        let file = hint.split_once("move ").and_then(|(_, rest)| rest.split_once(" away")).unwrap().0;
        assert!(std::path::Path::new(file).is_file(), "{hint}");
    }
    assert_eq!((authority.counts(), authority.calls("account")), ((1, 0), 1));
    move_account_away(&desk);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((authority.counts(), authority.calls("account")), ((2, 1), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_off_by_ten_minutes_costs_nothing() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    // It is behind: what it gets begins in the future.
    authority.begin(BEGIN + 660);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert!(desk.is_in_sync().await && desk.health().await == Health::Healthy);
    authority.fail("finalize", Fault::Refused(500, "serverInternal", ""));
    desk.renew().await;
    assert!(desk.pass().await.error().is_some());
    // It goes back in the middle of an order.
    let clock = Arc::new(HandClock::default());
    clock.advance(Duration::from_secs(BEGIN - 540));
    (desk.cx.clock, desk.clock) = (clock.clone(), clock);
    assert!(matches!(desk.passes(3).await, Outcome::Done(_)));
    assert!(desk.is_in_sync().await);
    assert_eq!(authority.counts(), (2, 2));
    // And one that is ahead of a certificate of a few minutes is said.
    authority.live(300);
    desk.clock.advance(Duration::from_secs(1_500));
    desk.renew().await;
    let outcome = desk.passes(1).await;
    assert!(error(&outcome).hint.as_ref().unwrap().contains("is the clock of this machine right?"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_the_authority_adds_are_no_reason_for_another_certificate() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    authority.add("www.a.example");
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert!(desk.is_in_sync().await);
    assert_eq!(authority.counts(), (1, 1));
    desk.wish.names.insert("b.a.example".into());
    assert!(!desk.is_in_sync().await, "one that was not asked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_what_was_asked_for_is_let_go_of_and_asked_for_again_after_a_wait() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    authority.drop_names(true);
    for (orders, wait) in [(1, 60), (2, 300)] {
        let outcome = desk.pass().await;
        let error = error(&outcome);
        assert!(error.chain().contains("is not for all of its names"), "{}", error.chain());
        assert_eq!(error.kind, ErrorKind::Unavailable, "nobody has to declare it anew");
        assert_eq!((authority.counts().0, desk.keep().has_orders().unwrap()), (orders, false));
        desk.restart();
        let outcome = desk.pass().await;
        let left = self::error(&outcome).retry_after.unwrap().as_secs();
        assert_eq!((left, authority.counts().0), (wait, orders), "it is not asked meanwhile");
        desk.clock.advance(Duration::from_secs(wait));
    }
    authority.drop_names(false);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!((authority.counts().0, desk.keep().refusals("web").unwrap().count), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_records_go_before_it_is_said_that_what_came_is_of_no_use() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    authority.drop_names(true);
    let outcome = desk.go_on().await;
    assert!(matches!(outcome, Outcome::Pending { ref claims, .. } if claims.is_empty()), "{outcome:?}");
    let outcome = desk.pass().await;
    assert!(error(&outcome).chain().contains("is not for all of its names"));
    assert_eq!(authority.counts().0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_wants_another_certificate_does_not_get_that_of_an_order_that_is_done() {
    for is_first in [true, false] {
        let authority = Authority::start();
        let desk = Desk::new(&authority);
        if !is_first {
            assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
            desk.renew().await;
            desk.clock.advance(Duration::from_secs(1));
        }
        let before = authority.counts().0;
        authority.fail("certificate", Fault::Refused(500, "serverInternal", ""));
        assert!(desk.pass().await.error().is_some());
        desk.clock.advance(Duration::from_secs(1));
        desk.renew().await;
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        assert_eq!(authority.counts().0, before + 2, "{is_first}");
        assert!(desk.is_in_sync().await && desk.keep().renewal("web").unwrap().is_none(), "{is_first}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_certificate_is_tried_at_once_when_a_person_says_so_whatever_is_waited_for() {
    let way = Renewal { issuer: Some("second".into()), ..Renewal::default() };
    type Break = fn(&Authority);
    let cases: [(&str, Break); 4] = [
        ("asked to be left alone", |it| {
            it.fail("authz", Fault::Refused(429, "rateLimited", "Retry-After: 3600\r\n"));
        }),
        ("asked to be left alone", |it| {
            it.fail("order", Fault::Refused(429, "rateLimited", "Retry-After: 3600\r\n"));
        }),
        ("refused once", |it| it.fail("order", Fault::Refused(400, "rejectedIdentifier", ""))),
        ("refused once", |it| it.drop_names(true)),
    ];
    for (said, wrong) in cases {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        let refused = desk.renew_by(&Renewal::default()).await.unwrap_err();
        assert!(refused.hint.as_ref().unwrap().contains("asks for what was never asked for"));
        wrong(&authority);
        desk.pass().await;
        let outcome = desk.pass().await;
        assert!(error(&outcome).chain().contains(said), "{outcome:?}");
        assert!(error(&outcome).hint.as_ref().unwrap().contains("reconciled renew Certificate/web"));
        let hint = desk.renew_by(&way).await.unwrap_err().into_told().hint.unwrap();
        assert!(hint.contains("reconciled renew Certificate/web"), "{hint}");
        desk.clock.advance(Duration::from_secs(1));
        authority.drop_names(false);
        desk.renew().await;
        desk.restart();
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)), "{said}");
        let keep = desk.keep();
        assert_eq!((keep.busy("web").unwrap(), keep.renewal("web").unwrap()), (None, None));
        assert_eq!(keep.refusals("web").unwrap().count, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_counts_once_when_the_process_dies_before_its_order_is_let_go_of() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    authority.fail("authz", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    let begun = desk.keep().attempt("web").unwrap().unwrap();
    authority.refuse(true);
    assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
    desk.keep().put_attempt("web", &begun).unwrap();
    // The records go although nobody may be asked.
    let outcome = desk.go_on().await;
    assert!(matches!(outcome, Outcome::Pending { ref claims, .. } if claims.is_empty()), "{outcome:?}");
    desk.clock.advance(Duration::from_secs(60));
    assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
    assert_eq!((desk.keep().refusals("web").unwrap().count, authority.counts().0), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn records_go_before_a_certificate_is_put_in_place() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    let outcome = desk.go_on().await;
    assert!(
        matches!(outcome, Outcome::Pending { recheck_after: Duration::ZERO, ref claims, .. } if claims.is_empty()),
        "{outcome:?}"
    );
    assert_eq!(authority.counts(), (1, 1));
    assert!(!desk.dir.path().join("out/web/tls.crt").exists());
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!(authority.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_wants_another_key_gets_one_whenever_the_process_died() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    authority.fail("certificate", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    let finished = desk.keep().attempt("web").unwrap().unwrap();
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    let before = desk.keep().issued("web").unwrap().unwrap();
    // As if the process had died before it forgot what it had begun.
    desk.keep().put_attempt("web", &finished).unwrap();
    desk.renew().await;
    assert!(!desk.is_in_sync().await);
    // A pass that was under way writes what it knows, which does not end what was asked for.
    desk.keep().put_issued("web", &before).unwrap();
    assert!(!desk.is_in_sync().await);
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    let after = desk.keep().issued("web").unwrap().unwrap();
    assert_ne!(before.key.secret().reveal(), after.key.secret().reveal());
    assert!(desk.is_in_sync().await);
    assert_eq!((authority.counts(), desk.keep().renewal("web").unwrap()), ((2, 2), None));
}
