//! DNS-PERSIST-01: a record that is declared once proves a name at every renewal.

use crate::{
    authority::{Authority, LIFE, PERSIST},
    world::Desk,
};
use reconciled_certificates::wish::{Issue, Solver};
use reconciled_provider::Outcome;
use std::time::Duration;

fn desk(authority: &Authority, name: &str) -> Desk {
    authority.offer(PERSIST);
    let mut desk = Desk::new(authority);
    desk.wish.names = [name.to_owned()].into();
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![(name.into(), Solver::Persist)];
    desk
}

async fn record(desk: &Desk) -> Option<String> {
    let mut facts = desk.facts().await.into_iter();
    facts.find(|fact| &*fact.name == "record to declare").map(|fact| fact.value)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_declared_once_proves_a_name_at_every_renewal() {
    let authority = Authority::start();
    let desk = desk(&authority, "a.example");
    // Nobody can know the record before there is an account: it is told, and there is time to declare it.
    let outcome = desk.pass().await;
    let Outcome::Pending { recheck_after, claims, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((recheck_after, claims.len(), authority.calls("challenge")), (Duration::from_secs(60), 0, 0));
    let url = format!("{}/accounts/1", authority.url);
    let told = format!("_validation-persist.a.example. TXT \"ca.example; accounturi={url}\"");
    assert_eq!(record(&desk).await.as_deref(), Some(&*told));
    authority.see("_validation-persist.a.example", &format!("ca.example; accounturi={url}"));
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!((authority.counts(), authority.calls("challenge")), ((1, 1), 1));
    assert!(desk.is_in_sync().await);
    // A renewal needs nobody and nothing.
    desk.clock.advance(Duration::from_secs(LIFE * 3 / 4));
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!((authority.counts(), record(&desk).await), ((2, 2), Some(told)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_missing_is_said_with_all_of_it() {
    let authority = Authority::start();
    let desk = desk(&authority, "*.a.example");
    assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
    assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
    let outcome = desk.pass().await;
    let error = outcome.error().unwrap_or_else(|| panic!("no error: {outcome:?}"));
    let value = format!("ca.example; accounturi={}/accounts/1; policy=wildcard", authority.url);
    let looked = format!("it looks for _validation-persist.a.example. TXT \"{value}\"");
    assert!(error.message.contains(&looked), "{}", error.message);
    assert_eq!((authority.counts(), error.retry_after), ((1, 0), Some(Duration::from_secs(60))));
    authority.see("_validation-persist.a.example", &value);
    desk.clock.advance(Duration::from_secs(61));
    assert!(matches!(desk.pass().await, Outcome::Done(_)), "told before, so not waited for");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_told_is_forgotten_once_names_are_proven_otherwise() {
    let authority = Authority::start();
    let mut desk = desk(&authority, "a.example");
    assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
    assert!(record(&desk).await.is_some());
    authority.offer("http-01");
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![("a.example".into(), Solver::Http)];
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!(record(&desk).await, None);
}
