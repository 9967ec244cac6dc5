//! Orders with which nothing can be done, and what is no matter of one of them.

use crate::{
    authority::{Authority, BEGIN, Fault, LIFE},
    faults::error,
    world::Desk,
};
use reconciled_provider::{ErrorKind, Outcome};
use std::time::Duration;

const UNAUTHORIZED: Fault = Fault::Refused(403, "unauthorized", "");

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_an_order_that_may_not_be_used_costs_that_order_and_not_the_account() {
    for call in ["authz", "challenge", "finalize", "certificate"] {
        let authority = Authority::start();
        let desk = Desk::new(&authority);
        // Such as a name that was proven too long ago, which the authority finds out late.
        authority.fail(call, Fault::Refused(500, "serverInternal", ""));
        assert!(desk.pass().await.error().is_some());
        desk.clock.advance(Duration::from_secs(86_400));
        authority.begin(BEGIN + 86_400);
        authority.fail(call, UNAUTHORIZED);
        let outcome = desk.passes(3).await;
        assert!(matches!(outcome, Outcome::Done(_)), "{call}: {outcome:?}");
        assert_eq!((authority.counts().0, authority.calls("account")), (2, 1), "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_young_order_that_may_not_be_used_is_asked_for_again_first() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    authority.fail("finalize", UNAUTHORIZED);
    assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!(authority.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_lets_no_order_be_used_is_said_to_have_refused_in_its_words() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    (0..100).for_each(|_| authority.fail("finalize", UNAUTHORIZED));
    let mut last = desk.pass().await;
    while let Outcome::Pending { recheck_after, .. } = last {
        desk.clock.advance(recheck_after.max(Duration::from_secs(1)));
        last = desk.pass().await;
    }
    let error = error(&last);
    let text = error.chain();
    assert!(text.contains("3 in a row: ") && text.contains("told to"), "{text}");
    assert_eq!((error.kind, authority.counts().0), (ErrorKind::Unavailable, 3), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_arrives_garbled_is_fetched_again_and_costs_nothing() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    authority.garble(true);
    // However often in a short while, and for a while where it is seldom.
    for wait in [0, 1, 1, 590] {
        desk.clock.advance(Duration::from_secs(wait));
        desk.restart();
        let outcome = desk.pass().await;
        let error = error(&outcome);
        assert!(error.chain().contains("is no certificate in PEM"), "{}", error.chain());
        assert_eq!((error.kind, error.retry_after), (ErrorKind::Unavailable, None));
    }
    authority.garble(false);
    assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!((authority.counts(), desk.keep().refusals("web").unwrap().count), ((1, 1), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stays_garbled_is_let_go_of_after_a_while_and_ordered_again_as_after_a_refusal() {
    // How long it is asked for, at first and where the certificate in use ends in 800 seconds.
    for (left, patience) in [(None, 600), (Some(800), 100)] {
        let authority = Authority::start();
        let desk = Desk::new(&authority);
        if let Some(left) = left {
            assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
            desk.clock.advance(Duration::from_secs(LIFE - 60 - left));
            authority.begin(BEGIN + LIFE - left);
        }
        let before = authority.counts().0;
        authority.garble(true);
        // Three times at least, however long that takes.
        for wait in [0, patience] {
            desk.clock.advance(Duration::from_secs(wait));
            let outcome = desk.pass().await;
            assert!(error(&outcome).chain().contains("is no certificate in PEM"), "{outcome:?}");
            assert_eq!((authority.counts().0, desk.keep().has_orders().unwrap()), (before + 1, true));
        }
        assert!(matches!(desk.pass().await, Outcome::Pending { .. }), "{left:?}");
        let outcome = desk.pass().await;
        let error = error(&outcome);
        assert!(error.chain().contains("refused once"), "{}", error.chain());
        assert_eq!((authority.counts().0, desk.keep().has_orders().unwrap()), (before + 1, false));
        authority.garble(false);
        desk.clock.advance(error.retry_after.unwrap());
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
        assert_eq!(authority.counts().0, before + 2);
    }
}
