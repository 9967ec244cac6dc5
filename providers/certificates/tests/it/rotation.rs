//! Keys that stay (`rotationPolicy: Never`), and when they do not; and requests, which stay as long as an attempt does.

use crate::{
    authority::{Authority, BEGIN, Fault, LIFE},
    world::Desk,
};
use reconciled_certificates::{kept::Issued, wish::KeyKind, x509};
use reconciled_provider::{Health, Outcome};
use std::time::Duration;

fn issued(desk: &Desk) -> Issued {
    desk.keep().issued("web").unwrap().unwrap()
}

fn key(desk: &Desk) -> Vec<u8> {
    issued(desk).key.secret().reveal().to_vec()
}

async fn desk(authority: &Authority, keeps: bool) -> Desk {
    let mut desk = Desk::new(authority);
    desk.wish.keep_key = keeps;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_stays_when_it_is_renewed_where_that_is_wanted() {
    for keeps in [true, false] {
        let authority = Authority::start();
        let desk = desk(&authority, keeps).await;
        let first = key(&desk);
        desk.clock.advance(Duration::from_secs(LIFE * 3 / 4));
        authority.begin(BEGIN + LIFE * 2 / 3);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        assert_eq!((authority.counts().1, key(&desk) == first), (2, keeps));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_authority_took_back_gets_another_key_and_what_is_only_late_does_not() {
    for (is_told_before, stays) in [(false, false), (true, true)] {
        let authority = Authority::start();
        let desk = desk(&authority, true).await;
        let first = key(&desk);
        authority.suggest((BEGIN + 10_000, BEGIN + 20_000));
        if is_told_before {
            assert_eq!(desk.health().await, Health::Healthy);
        }
        // The daemon was off until the window was over.
        desk.clock.advance(Duration::from_secs(30_000));
        desk.health().await;
        assert!(!desk.is_in_sync().await, "it is due");
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        assert_eq!((authority.counts().1, key(&desk) == first), (2, stays));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_with_a_key_that_is_taken_back_meanwhile_is_not_gone_on_with() {
    let authority = Authority::start();
    let desk = desk(&authority, true).await;
    let first = key(&desk);
    desk.renew().await;
    authority.fail("finalize", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    desk.clock.advance(Duration::from_secs(30_000));
    authority.suggest((BEGIN + 10_000, BEGIN + 20_000));
    desk.health().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert!(key(&desk) != first && authority.counts() == (3, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_stays_and_is_of_another_kind_is_said_and_nothing_is_done() {
    let authority = Authority::start();
    let mut desk = desk(&authority, true).await;
    let first = key(&desk);
    desk.wish.key = KeyKind::Ecdsa(384);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    let health = desk.health().await;
    let why = "KeyMismatch: its key is ECDSA 256, not ECDSA 384, and stays because of rotationPolicy: Never";
    assert_eq!(health, Health::Degraded { why: why.into() });
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((authority.counts().1, key(&desk) == first), (2, true), "renewed with the key it has");
    // Who says that keys change gets the other one at once.
    desk.wish.keep_key = false;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let facts = x509::leaf("it", &issued(&desk).chain).unwrap();
    assert_eq!((authority.counts().1, facts.key), (3, Some(KeyKind::Ecdsa(384))));
    assert_eq!(desk.health().await, Health::Healthy);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_authority_will_not_have_is_not_handed_in_again() {
    for (keeps, word) in [(true, "badCSR"), (false, "badCSR"), (true, "badPublicKey")] {
        let authority = Authority::start();
        let mut desk = desk(&authority, keeps).await;
        let first = key(&desk);
        desk.renew().await;
        authority.fail("authz", Fault::Refused(500, "serverInternal", ""));
        assert!(desk.pass().await.error().is_some());
        let begun = desk.keep().attempt("web").unwrap().unwrap();
        assert_eq!(begun.key.secret().reveal() == first, keeps);
        authority.fail("finalize", Fault::Refused(400, word, ""));
        assert!(matches!(desk.pass().await, Outcome::Pending { .. }), "{word}");
        // As if the process had died between its notes.
        desk.keep().put_attempt("web", &begun).unwrap();
        desk.restart();
        let outcome = desk.pass().await;
        assert!(outcome.error().unwrap().chain().contains(word), "{outcome:?}");
        desk.clock.advance(Duration::from_secs(60));
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        let last = key(&desk);
        assert!(last != first && last != begun.key.secret().reveal(), "{word}, keeps: {keeps}");
        assert!(desk.is_in_sync().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_is_handed_in_again_whatever_became_of_the_first_answer() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    (0..2).for_each(|_| authority.fail("finalize", Fault::Refused(500, "serverInternal", "")));
    for handed_in in 1..=2 {
        assert!(desk.pass().await.error().is_some());
        assert_eq!(authority.requests().len(), handed_in);
        let begun = desk.keep().attempt("web").unwrap().unwrap();
        assert_eq!(begun.request.as_ref(), authority.requests().last());
        desk.restart();
    }
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let requests = authority.requests();
    // A signature of ECDSA is never the same twice.
    assert!(requests.len() == 3 && requests.iter().all(|request| *request == requests[0]));
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_ne!(authority.requests().last(), requests.last(), "another key");
}
