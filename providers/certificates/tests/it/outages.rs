//! What cannot be done for a while, and stops nothing else: putting files back while another certificate is on its way.

use crate::{
    authority::Authority,
    faults::error,
    world::Desk,
};
use reconciled_certificates::wish::{Issue, Solver};
use reconciled_provider::{ErrorKind, Outcome};
use std::{fs, time::Duration};

/// Nothing of ours can be put in place until it goes.
fn block(desk: &Desk) {
    let key = desk.dir.path().join("out/web/tls.key");
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_put_back_are_said_while_a_record_is_waited_for() {
    let authority = Authority::start();
    authority.offer("dns-01");
    let mut desk = Desk::new(&authority);
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![("a.example".into(), Solver::Dns("zones".into(), None))];
    assert!(matches!(desk.carried(6).await, Outcome::Done(_)));
    authority.ponder();
    desk.renew().await;
    block(&desk);
    // What proves the name is claimed first, and stands from then on.
    let outcome = desk.carried(1).await;
    assert!(matches!(&outcome, Outcome::Pending { claims, .. } if claims.len() == 1), "{outcome:?}");
    for _ in 0..2 {
        let outcome = desk.carried(1).await;
        let error = error(&outcome);
        let text = error.chain();
        assert!(text.contains("another certificate is on its way") && text.contains("tls.key"), "{text}");
        assert_eq!(error.kind, ErrorKind::RateLimited, "it is looked at when it is time to");
        assert!(error.retry_after.unwrap() <= Duration::from_secs(300));
        assert_eq!(desk.records.lock().unwrap().len(), 1);
        desk.clock.advance(error.retry_after.unwrap());
    }
    fs::remove_dir(desk.dir.path().join("out/web/tls.key")).unwrap();
    assert!(matches!(desk.carried(1).await, Outcome::Pending { .. }));
    assert!(desk.dir.path().join("out/web/tls.key").is_file());
    assert_eq!(authority.counts(), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_are_they_kept_quiet_about_where_nothing_is_claimed() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    authority.slow(3);
    desk.renew().await;
    block(&desk);
    let outcome = desk.pass().await;
    assert!(error(&outcome).chain().contains("another certificate is on its way"), "{outcome:?}");
    assert_eq!(error(&outcome).retry_after, Some(Duration::from_secs(30)));
    fs::remove_dir(desk.dir.path().join("out/web/tls.key")).unwrap();
    assert!(matches!(desk.passes(6).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(authority.counts(), (2, 2));
}
