//! What cannot be had or done for a while, and stops nothing else: the key that binds an account, the files of a certificate
//! while another one is on its way.

use crate::{
    authority::{Authority, Fault},
    faults::error,
    renewals::move_account_away,
    world::Desk,
};
use reconciled_certificates::wish::{Issue, Solver};
use reconciled_provider::{Cx, ErrorKind, Outcome, SecretRef};
use reconciled_testkit::context::TableSecrets;
use std::{fs, sync::Arc, time::Duration};

/// The key is there, or not; so is said where manifests are read.
fn hold_key(desk: &mut Desk, is_there: bool) {
    let key = (SecretRef::Named("eab".into()), b"Y2FuYXJ5LWNhbmFyeS1jYW5hcnk".to_vec());
    let table = is_there.then_some(key).into_iter().collect();
    desk.cx = Cx { secrets: Arc::new(TableSecrets(table)), ..desk.cx.clone() };
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.binding = Some(("kid".into(), "eab".into()));
    issuer.lacks_binding_key = !is_there;
    desk.restart();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_that_binds_an_account_is_needed_to_make_it_and_never_again() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    hold_key(&mut desk, false);
    let outcome = desk.pass().await;
    let text = error(&outcome).chain();
    assert!(text.contains("an account bound to `kid`: secret eab cannot be had"), "{text}");
    assert_eq!((error(&outcome).kind, authority.calls("account")), (ErrorKind::Unavailable, 0));
    hold_key(&mut desk, true);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    // In the middle of a renewal.
    desk.renew().await;
    authority.fail("finalize", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    hold_key(&mut desk, false);
    fs::remove_file(desk.dir.path().join("out/web/tls.key")).unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(
        (authority.counts(), authority.calls("account")),
        ((2, 2), 1),
        "the same order, the same account"
    );
    move_account_away(&desk);
    desk.renew().await;
    assert!(error(&desk.pass().await).chain().contains("cannot be had"));
    hold_key(&mut desk, true);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((authority.counts(), authority.calls("account")), ((3, 3), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_account_would_be_bound_with_is_named_where_the_authority_makes_none() {
    for word in ["unauthorized", "externalAccountRequired"] {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        hold_key(&mut desk, true);
        authority.fail("account", Fault::Refused(401, word, ""));
        let outcome = desk.pass().await;
        let error = error(&outcome);
        let hint = error.hint.as_ref().unwrap();
        assert_eq!(error.kind, ErrorKind::PermissionDenied, "{word}");
        assert!(hint.contains("are keyID `kid` and secret eab what the authority gave"), "{word}: {hint}");
        assert!(!hint.contains("deactivated"), "{word}: {hint}");
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)), "{word}");
    }
}

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
