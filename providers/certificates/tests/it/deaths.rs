//! A process that dies at every place at which it may, whatever proves names: nothing is burned, left over or torn.

use crate::{
    authority::{Authority, PERSIST},
    world::Desk,
};
use futures_util::FutureExt;
use reconciled_certificates::{
    key,
    wish::{Issue, Solver},
    x509,
};
use reconciled_provider::{Outcome, Secret};
use std::{
    fs,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering},
};

/// How many places are passed until the process dies; none for zero.
static LEFT: AtomicUsize = AtomicUsize::new(0);

fn die(_: &str) {
    let left = LEFT.load(Ordering::SeqCst);
    LEFT.store(left.saturating_sub(1), Ordering::SeqCst);
    if left == 1 {
        // As a panic, without a word about it.
        std::panic::resume_unwind(Box::new(()));
    }
}

/// Key and certificate belong together, if they are there.
#[track_caller]
fn is_no_torn_pair(desk: &Desk, place: &str) {
    let read = |name: &str| fs::read_to_string(desk.dir.path().join("out/web").join(name)).ok();
    let (Some(chain), Some(secret)) = (read("tls.crt"), read("tls.key")) else { return };
    let public = key::public("it", &Secret::new(secret.into_bytes())).unwrap();
    assert_eq!(x509::leaf("it", &chain).unwrap().public, public, "{place}");
}

/// One life that ends at this place. True when it was reached.
async fn life(kind: &'static str, place: usize) -> bool {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let webroot = desk.dir.path().join("www");
    let solver = match kind {
        "http-01" => Solver::Http,
        "a web server" => Solver::Webroot(webroot.display().to_string()),
        "tls-alpn-01" => Solver::Tls,
        "dns-01" => Solver::Dns("zones".into(), None),
        _ => Solver::Persist,
    };
    authority.offer(solver.word());
    if kind == PERSIST {
        let value = format!("ca.example; accounturi={}/accounts/1", authority.url);
        authority.see("_validation-persist.a.example", &value);
    }
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![("a.example".into(), solver)];
    desk.wish.reload = ["a.service".to_owned()].into();
    desk.passed = die;
    desk.restart();
    let name = format!("{kind}, place {place}");
    LEFT.store(place, Ordering::SeqCst);
    let died = AssertUnwindSafe(desk.carried(6)).catch_unwind().await.is_err();
    LEFT.store(0, Ordering::SeqCst);
    is_no_torn_pair(&desk, &name);
    desk.restart();
    let outcome = desk.carried(8).await;
    assert!(matches!(outcome, Outcome::Done(_)), "{name}: {outcome:?}");
    is_no_torn_pair(&desk, &name);
    let (orders, issued) = authority.counts();
    // The answer to an order may be lost with the process; then nobody knows where the order is.
    assert!(orders <= 2 && issued == 1, "{name}: {orders} orders, {issued} certificates");
    assert!(desk.is_in_sync().await, "{name}");
    assert!(!webroot.join(".well-known").exists(), "{name}");
    assert!(!desk.keep().is_begun("web").unwrap(), "{name}");
    let told = fs::read_to_string(desk.dir.path().join("reloaded")).unwrap();
    assert!(told.lines().count() <= 2, "{name}: told {told}");
    died
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_proves_names_nothing_is_burned_left_over_or_torn() {
    for kind in ["http-01", "a web server", "tls-alpn-01", "dns-01", PERSIST] {
        let mut place = 1;
        while life(kind, place).await {
            place += 1;
        }
        assert!(place > 12, "{kind}: only {place} places");
    }
}
