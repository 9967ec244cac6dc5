//! How a step ends that failed: what certainly changed nothing is told from what may have.

use crate::{
    authority::{Authority, Fault},
    world::Desk,
};
use reconciled_certificates::wish::{Issue, Solver};
use reconciled_provider::{Hash, Outcome};
use std::time::Duration;

fn is_failed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(_))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_before_anything_is_ordered_had_no_effect_and_leaves_no_key() {
    let faults = [
        ("dir", Fault::Refused(500, "serverInternal", "")),
        ("account", Fault::Refused(401, "unauthorized", "")),
        ("order", Fault::Refused(429, "rateLimited", "")),
    ];
    for (call, fault) in faults {
        let authority = Authority::start();
        let desk = Desk::new(&authority);
        authority.fail(call, fault);
        let outcome = desk.pass().await;
        assert!(is_failed(&outcome), "{call}: {outcome:?}");
        assert!(desk.keep().attempt("web").unwrap().is_none(), "{call}: nobody would find it again");
        assert_eq!(authority.counts(), (0, 0), "{call}");
        // A person may want it tried at once.
        desk.clock.advance(Duration::from_secs(1));
        desk.renew().await;
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)), "{call}");
    }
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![("a.example".into(), Solver::Dns("zones".into(), None))];
    desk.lacks_place = true;
    let outcome = desk.pass().await;
    assert!(is_failed(&outcome) && outcome.error().unwrap().message.starts_with("nothing is ordered"));
    // The host has no such secrets.
    desk.wish.duration = 86_400;
    desk.wish.issuer = Issue::Secret { cert: "ca".into(), key: "key".into(), mark: Hash::default() };
    let outcome = desk.pass().await;
    assert!(is_failed(&outcome), "{outcome:?}");
    assert!(!desk.dir.path().join("out/web").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_been_ordered_is_unknown() {
    for (call, is_kept) in [("order", false), ("authz", true), ("finalize", true)] {
        let authority = Authority::start();
        let desk = Desk::new(&authority);
        authority.fail(call, Fault::Refused(500, "serverInternal", ""));
        let outcome = desk.pass().await;
        assert!(matches!(outcome, Outcome::Unknown(_)), "{call}: {outcome:?}");
        let attempt = desk.keep().attempt("web").unwrap().unwrap();
        assert_eq!(attempt.order.is_some(), is_kept, "{call}");
        assert!(matches!(desk.passes(3).await, Outcome::Done(_)), "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_put_in_place_before_a_service_failed_is_unknown() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.wish.reload = ["bad.service".to_owned()].into();
    let outcome = desk.passes(2).await;
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    assert!(desk.dir.path().join("out/web/tls.crt").exists());
}
