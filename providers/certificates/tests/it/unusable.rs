//! Orders with which nothing can be done, and what is no matter of one of them.

use crate::{
    authority::{Authority, BEGIN, Fault},
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
