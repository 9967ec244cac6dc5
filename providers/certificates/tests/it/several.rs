//! Orders for several names, each of which is proven by itself and in its own way.

use crate::{
    authority::{Authority, Fault},
    faults::error,
    world::Desk,
};
use reconciled_certificates::wish::{Issue, Solver};
use reconciled_provider::Outcome;

/// A desk whose certificate is for three names: one is proven over HTTP, one in TLS, one by a record.
fn desk(authority: &Authority) -> Desk {
    let mut desk = Desk::new(authority);
    authority.offer_for("b.example", "tls-alpn-01");
    authority.offer_for("c.example", "dns-01");
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    let ways = [Solver::Http, Solver::Tls, Solver::Dns("zones".into(), None)];
    let names = ["a.example", "b.example", "c.example"].map(String::from);
    issuer.solvers = names.iter().cloned().zip(ways).collect();
    desk.wish.names = names.into();
    desk
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_proven_each_in_its_own_way_whatever_answer_is_lost() {
    for fault in [Fault::Lost, Fault::Dropped] {
        for number in 1.. {
            let authority = Authority::start();
            let mut desk = desk(&authority);
            authority.fail_nth(number, fault.clone());
            desk.carried(2).await;
            desk.restart();
            let outcome = desk.carried(12).await;
            assert!(matches!(outcome, Outcome::Done(_)), "{fault:?} at {number}: {outcome:?}");
            assert!(desk.is_in_sync().await && desk.records.lock().unwrap().is_empty());
            let (orders, issued) = authority.counts();
            assert!(orders <= 2 && issued == 1, "{fault:?} at {number}: {orders} orders, {issued} issued");
            if authority.is_armed() {
                assert!(number > 12, "all of its calls were tried");
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_proven_is_named_and_the_others_are_not_blamed() {
    let authority = Authority::start();
    let mut desk = desk(&authority);
    authority.refuse_for(Some("b.example"));
    let mut last = desk.carried(1).await;
    while matches!(last, Outcome::Pending { .. }) {
        last = desk.carried(1).await;
    }
    let message = error(&last).chain();
    assert!(message.contains("b.example: "), "{message}");
    assert!(!message.contains("a.example: ") && !message.contains("c.example: "), "{message}");
    assert!(desk.records.lock().unwrap().is_empty(), "nothing is left of the proofs of the others");
    assert_eq!(authority.counts(), (1, 0));
    authority.refuse_for(None);
    desk.restart();
    desk.renew().await;
    assert!(matches!(desk.carried(12).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(authority.counts(), (2, 1));
}
