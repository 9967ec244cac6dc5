//! What an order counts as, where the limits of the authority are counted here.

use crate::{
    authority::{Authority, BEGIN, Fault, LIFE},
    renewals::move_account_away,
    world::Desk,
};
use reconciled_certificates::{
    config::Limits,
    wish::{Issue, KeyKind, Solver},
};
use reconciled_provider::Outcome;
use std::{collections::BTreeSet, time::Duration};

fn counted(authority: &Authority) -> Desk {
    let mut desk = Desk::new(authority);
    desk.limits = Some(Limits::LetsEncrypt);
    desk.restart();
    desk
}

/// What is counted, without the numbers of names.
fn buckets(desk: &Desk, authority: &Authority) -> BTreeSet<String> {
    let limits = desk.keep().limits(&format!("{}/dir", authority.url)).unwrap();
    let name = |name: &String| name.split(" (").next().unwrap().to_owned();
    limits.keys().map(name).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const FIRST: [&str; 3] = ["certificates for a.example", "certificates for exactly these names", "orders"];

#[tokio::test(flavor = "multi_thread")]
async fn one_for_exactly_the_same_names_as_before_counts_for_these_alone() {
    for is_adopted in [true, false] {
        let authority = Authority::start();
        let desk = counted(&authority);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        assert_eq!(buckets(&desk, &authority), set(&FIRST));
        // What was counted is long ago, and no order says what it replaces.
        desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
        authority.begin(BEGIN + LIFE * 2 / 3);
        match is_adopted {
            true => {
                let mut issued = desk.keep().issued("web").unwrap().unwrap();
                (issued.issuer, issued.account) = (None, None);
                desk.keep().put_issued("web", &issued).unwrap();
            }
            false => move_account_away(&desk),
        }
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        assert_eq!((authority.counts().0, authority.last_replaces()), (2, None));
        assert_eq!(buckets(&desk, &authority), set(&FIRST[1..2]), "adopted: {is_adopted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_for_another_name_or_of_another_authority_counts_as_a_first_one() {
    for is_elsewhere in [true, false] {
        let (first, second) = (Authority::start(), Authority::start());
        let mut desk = counted(&first);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        let asked = if is_elsewhere { &second } else { &first };
        match is_elsewhere {
            true => desk.wish.issuer = Desk::new(&second).wish.issuer,
            false => {
                desk.wish.names.insert("b.a.example".into());
                let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
                issuer.solvers.push(("b.a.example".into(), Solver::Http));
            }
        }
        desk.clock.advance(Duration::from_secs(LIFE / 2));
        asked.begin(BEGIN + LIFE / 2);
        first.replaced();
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        assert_eq!(buckets(&desk, asked), set(&FIRST), "elsewhere: {is_elsewhere}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_for_an_address_are_counted_over_every_wish_for_it() {
    for address in ["192.0.2.1", "2001:db8::1"] {
        let authority = Authority::start();
        let mut desk = counted(&authority);
        desk.wish.names.clear();
        desk.wish.addresses = [address.parse().unwrap()].into();
        let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
        issuer.solvers = vec![(address.into(), Solver::Http)];
        authority.refuse(true);
        for number in 0..5 {
            desk.wish.key = if number % 2 == 0 { KeyKind::Ed25519 } else { KeyKind::Ecdsa(256) };
            assert!(matches!(desk.pass().await, Outcome::Pending { .. }), "{address}: {number}");
        }
        desk.wish.key = KeyKind::Ecdsa(384);
        desk.restart();
        let outcome = desk.pass().await;
        let said = format!("gives 5 failures for {address} in 1h");
        assert!(outcome.error().unwrap().message.contains(&said), "{outcome:?}");
        assert_eq!(authority.counts().0, 5, "{address}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_counts_as_a_domain_and_one_of_ipv6_with_its_network() {
    let authority = Authority::start();
    let mut desk = counted(&authority);
    desk.wish.names.clear();
    let addresses = ["192.0.2.1", "2001:db8::1", "2001:db8::2"];
    desk.wish.addresses = addresses.map(|address| address.parse().unwrap()).into();
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = addresses.map(|address| (address.to_owned(), Solver::Http)).into();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let [_, same, orders] = FIRST;
    let expect = ["certificates for 192.0.2.1", "certificates for 2001:db8::/64", same, orders];
    assert_eq!(buckets(&desk, &authority), set(&expect));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_is_what_was_counted() {
    let authority = Authority::start();
    let desk = counted(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let full = || desk.keep().limits(&format!("{}/dir", authority.url)).unwrap();
    let before = full();
    move_account_away(&desk);
    desk.renew().await;
    authority.fail("order", Fault::Refused(400, "rejectedIdentifier", ""));
    assert!(desk.passes(2).await.error().is_some());
    assert_eq!(full(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_nobody_knows_any_more_count_for_no_certificate() {
    let authority = Authority::start();
    let mut desk = counted(&authority);
    (0..100).for_each(|_| authority.fail("orders", Fault::Refused(404, "malformed", "")));
    for _ in 0..8 {
        desk.pass().await;
        desk.clock.advance(Duration::from_secs(60));
        desk.restart();
    }
    assert!(authority.counts().0 >= 3 && authority.counts().1 == 0);
    let (now, full) = (desk.cx.clock.now().as_secs(), desk.keep().limits(&format!("{}/dir", authority.url)));
    let counted: Vec<String> =
        full.unwrap().into_iter().filter(|(_, at)| *at > now).map(|(name, _)| name).collect();
    assert!(counted.iter().all(|name| name == "orders"), "{counted:?}");
}
