//! Moments that an authority says: when to renew (ARI), and until when to leave it alone.

use crate::{
    authority::{Authority, BEGIN, Fault},
    world::Desk,
};
use reconciled_certificates::kept::{Busy, Refusals};
use reconciled_provider::Outcome;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_cannot_say_when_is_not_asked_at_every_look() {
    for fault in [Fault::Refused(500, "serverInternal", ""), Fault::Refused(404, "malformed", "")] {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        authority.suggest((BEGIN + 3_000_000, BEGIN + 3_100_000));
        (0..2).for_each(|_| authority.fail("info", fault.clone()));
        for asked in [1, 2] {
            for _ in 0..3 {
                desk.health().await;
                desk.restart();
            }
            assert_eq!(authority.calls("info"), asked, "once in six hours");
            assert!(desk.is_in_sync().await);
            desk.clock.advance(Duration::from_secs(6 * 3_600));
        }
        desk.health().await;
        let suggested = desk.keep().issued("web").unwrap().unwrap().suggested;
        assert_eq!(suggested.unwrap().window, (BEGIN + 3_000_000, BEGIN + 3_100_000));
        // What it said stands while it cannot say more.
        desk.clock.advance(Duration::from_secs(7_200));
        (0..5).for_each(|_| authority.fail("info", fault.clone()));
        for _ in 0..3 {
            desk.health().await;
        }
        assert_eq!(authority.calls("info"), 4);
        assert!(desk.keep().issued("web").unwrap().unwrap().suggested.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_begins_to_suggest_is_noticed_and_seldom_asked_whether_it_does() {
    for restarts in [false, true] {
        let authority = Authority::start();
        authority.lack_info(true);
        let mut desk = Desk::new(&authority);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        desk.health().await;
        let asked = authority.calls("dir");
        for _ in 0..3 {
            if restarts {
                desk.restart();
            }
            desk.health().await;
        }
        assert_eq!((authority.calls("dir"), authority.calls("info")), (asked, 0));
        authority.lack_info(false);
        authority.suggest((BEGIN + 3_000_000, BEGIN + 3_100_000));
        // What it said of its services counts for a day.
        desk.clock.advance(Duration::from_secs(86_400 + 6 * 3_600));
        desk.health().await;
        assert_eq!((authority.calls("dir"), authority.calls("info")), (asked + 1, 1));
        let suggested = desk.keep().issued("web").unwrap().unwrap().suggested;
        assert_eq!(suggested.unwrap().window, (BEGIN + 3_000_000, BEGIN + 3_100_000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_certificate_of_an_hour_it_is_asked_more_often() {
    let authority = Authority::start();
    authority.live(3_600);
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    for asked in 1..=3 {
        desk.health().await;
        desk.health().await;
        assert_eq!(authority.calls("info"), asked);
        desk.clock.advance(Duration::from_secs(360));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_until_which_it_wants_to_be_left_alone_is_heeded() {
    // BEGIN is 2027-01-15 08:00:00, and the clock is a minute ahead.
    let date = "Retry-After: Fri, 15 Jan 2027 09:01:00 GMT\r\n";
    let text = "too many new orders (300) from this account, retry after 2027-01-15 09:01:00 UTC: see there";
    for fault in [Fault::Refused(429, "rateLimited", date), Fault::Said(429, "rateLimited", text)] {
        let authority = Authority::start();
        let desk = Desk::new(&authority);
        authority.fail("order", fault);
        let outcome = desk.pass().await;
        assert_eq!(outcome.error().unwrap().retry_after, Some(Duration::from_secs(3_600)));
        desk.clock.advance(Duration::from_secs(3_600));
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_clock_that_was_ahead_has_written_keeps_nobody_from_asking() {
    const YEAR: u64 = 365 * 86_400;
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.renew().await;
    let (keep, ahead) = (desk.keep(), BEGIN + YEAR);
    let server = format!("{}/dir", authority.url);
    keep.put_busy("web", &Busy { server, until: ahead, message: "not now".into() }).unwrap();
    let refused = Refusals { material: desk.wish.material(), count: 3, until: ahead, ..Refusals::default() };
    keep.put_refusals("web", &refused).unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!(authority.counts(), (2, 2));
    // The same of the moment at which it would like it renewed.
    authority.suggest((BEGIN + 3_000_000, BEGIN + 3_100_000));
    let mut issued = keep.issued("web").unwrap().unwrap();
    issued.unasked_until = ahead;
    keep.put_issued("web", &issued).unwrap();
    desk.health().await;
    assert_eq!(authority.calls("info"), 1);
    let mut issued = keep.issued("web").unwrap().unwrap();
    issued.suggested.as_mut().unwrap().ask_again = ahead;
    keep.put_issued("web", &issued).unwrap();
    desk.health().await;
    assert_eq!(authority.calls("info"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_a_clock_that_was_ahead_is_no_failure_that_another_issuer_makes_up_for() {
    let (first, second) = (Authority::start(), Authority::start());
    let mut desk = Desk::new(&first);
    desk.wish.others = Desk::new(&second).wish.issuers().cloned().collect();
    let until = BEGIN + 365 * 86_400;
    let refused = Refusals { material: desk.wish.material(), count: 3, until, ..Refusals::default() };
    desk.keep().put_refusals("web", &refused).unwrap();
    first.fail("order", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    assert_eq!((first.calls("order"), second.calls("order")), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_would_have_each_certificate_replaced_at_once_is_followed_less_and_less_often() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    authority.suggest((BEGIN, BEGIN + 1));
    let mut waits = Vec::new();
    for issued in 2..=5 {
        desk.health().await;
        assert!(!desk.is_in_sync().await);
        let mut outcome = desk.pass().await;
        if let Some(error) = outcome.error() {
            assert!(error.message.contains("it suggested to replace it"), "{}", error.message);
            waits.push(error.retry_after.unwrap().as_secs());
            desk.clock.advance(error.retry_after.unwrap());
            outcome = desk.pass().await;
        }
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        assert_eq!(authority.counts().1, issued);
    }
    assert_eq!(waits, [60, 300, 900], "one that was taken back is replaced at once");
    // A person is heeded, and so is one that has come to reason.
    authority.suggest((BEGIN + 3_000_000, BEGIN + 3_100_000));
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.health().await;
    assert!(desk.is_in_sync().await);
    assert_eq!((authority.counts().1, desk.keep().refusals("web").unwrap().count), (6, 0));
}

/// As if somebody else had put it there.
fn adopt(desk: &Desk) {
    let mut issued = desk.keep().issued("web").unwrap().unwrap();
    (issued.issuer, issued.account) = (None, None);
    desk.keep().put_issued("web", &issued).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_one_that_was_adopted_the_authority_is_asked_as_well_which_may_not_know_it() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    adopt(&desk);
    for _ in 0..3 {
        desk.health().await;
    }
    assert!(desk.is_in_sync().await);
    assert_eq!(authority.calls("info"), 1, "it is not its own");
    desk.clock.advance(Duration::from_secs(6 * 3_600));
    authority.suggest((BEGIN + 1, BEGIN + 2));
    desk.health().await;
    assert_eq!(authority.calls("info"), 2);
    assert!(desk.is_due().await, "it was taken back");
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!(authority.counts(), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_does_not_answer_is_not_waited_for_at_each_look_and_asked_again_soon() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    authority.suggest((BEGIN + 3_000_000, BEGIN + 3_100_000));
    // A client sends it again where the connection was closed before an answer began.
    (0..4).for_each(|_| authority.fail("info", Fault::Dropped));
    desk.health().await;
    let asked = authority.calls("info");
    assert!((1..4).contains(&asked), "{asked}");
    for _ in 0..3 {
        desk.health().await;
    }
    assert_eq!(authority.calls("info"), asked);
    let suggested = || desk.keep().issued("web").unwrap().unwrap().suggested;
    for _ in 0..4 {
        desk.clock.advance(Duration::from_secs(60));
        desk.health().await;
    }
    assert_eq!(suggested().unwrap().window, (BEGIN + 3_000_000, BEGIN + 3_100_000), "long before six hours");
    // Nor is one that wants to be left alone.
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    authority.fail("account", Fault::Refused(429, "rateLimited", "Retry-After: 3600\r\n"));
    let accounts = std::fs::read_dir(desk.dir.path().join("state/accounts")).unwrap();
    accounts.for_each(|file| std::fs::remove_file(file.unwrap().path()).unwrap());
    desk.renew().await;
    assert!(desk.pass().await.error().is_some());
    let asked = authority.calls("info");
    desk.health().await;
    assert_eq!(authority.calls("info"), asked);
}
