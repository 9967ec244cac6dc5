//! Several issuers, and several ways to prove a name.

use crate::{
    authority::{Authority, Fault},
    world::Desk,
};
use reconciled_certificates::wish::{Issue, Solver, Wish};
use reconciled_provider::{ErrorKind, Outcome, Renewal};
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

/// A desk whose certificate may be had from both, the first one first.
fn desk(first: &Authority, second: &Authority) -> Desk {
    let mut desk = Desk::new(first);
    let mut other = desk.wish.issuer.clone();
    let Issue::Acme(authority) = &mut other else { panic!() };
    authority.server = format!("{}/dir", second.url);
    desk.wish.others.push(other);
    desk
}

fn by(desk: &Desk) -> String {
    desk.keep().issued("web").unwrap().unwrap().issuer.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_issuer_is_asked_when_one_refuses_and_the_first_one_when_it_is_renewed() {
    let (first, second) = (Authority::start(), Authority::start());
    let desk = desk(&first, &second);
    first.refuse(true);
    assert!(matches!(desk.passes(3).await, Outcome::Done(_)));
    assert_eq!((first.counts(), second.counts()), ((1, 0), (1, 1)));
    assert!(by(&desk).starts_with(&second.url));
    assert!(desk.is_in_sync().await, "whoever of them issued it");
    first.refuse(false);
    desk.renew().await;
    assert!(matches!(desk.passes(3).await, Outcome::Done(_)));
    assert_eq!((first.counts(), second.counts()), ((2, 1), (1, 1)));
    assert!(desk.is_in_sync().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_away_is_waited_for_and_then_the_next_one_is_asked() {
    let (first, second) = (Authority::start(), Authority::start());
    let mut desk = desk(&first, &second);
    for _ in 0..60 {
        first.fail("dir", Fault::Refused(500, "serverInternal", ""));
    }
    for wait in [1, 200, 398] {
        assert!(desk.pass().await.error().is_some_and(|error| error.kind == ErrorKind::Unavailable));
        assert_eq!(second.counts(), (0, 0), "an outage may be short");
        desk.clock.advance(Duration::from_secs(wait));
        desk.restart();
    }
    desk.clock.advance(Duration::from_secs(1));
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!((first.counts(), second.counts()), ((0, 0), (1, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_issuer_is_asked_where_one_wants_nothing_to_do_with_the_account() {
    for word in ["unauthorized", "userActionRequired", "externalAccountRequired"] {
        let (first, second) = (Authority::start(), Authority::start());
        let desk = desk(&first, &second);
        first.fail("order", Fault::Refused(403, word, ""));
        assert!(matches!(desk.pass().await, Outcome::Done(_)), "{word}");
        assert_eq!((first.counts(), second.counts()), ((0, 0), (1, 1)), "{word}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_wish_is_said_and_no_other_issuer_hides_it() {
    let (first, second) = (Authority::start(), Authority::start());
    let mut desk = desk(&first, &second);
    let Issue::Acme(authority) = &mut desk.wish.issuer else { panic!() };
    authority.profile = Some("shortlife".into());
    assert_eq!(desk.pass().await.error().unwrap().kind, ErrorKind::Invalid);
    assert_eq!(second.counts(), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_them_may_fail_and_then_all_are_said() {
    let (first, second) = (Authority::start(), Authority::start());
    let desk = desk(&first, &second);
    first.refuse(true);
    second.refuse(true);
    desk.pass().await;
    desk.pass().await;
    let outcome = desk.pass().await;
    let error = outcome.error().unwrap();
    assert!(error.message.contains(&first.url) && error.message.contains(&second.url), "{}", error.message);
    assert_eq!(error.retry_after, Some(Duration::from_secs(60)));
    assert_eq!((first.counts(), second.counts()), ((1, 0), (1, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_was_begun_is_gone_on_with_although_the_first_issuer_is_back() {
    let (first, second) = (Authority::start(), Authority::start());
    let mut desk = desk(&first, &second);
    first.refuse(true);
    desk.pass().await;
    second.fail("finalize", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    first.refuse(false);
    desk.clock.advance(Duration::from_secs(60));
    desk.restart();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((first.counts(), second.counts()), ((1, 0), (1, 1)));
    assert!(!desk.keep().is_begun("web").unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_says_from_whom_and_how_this_once() {
    let (first, second) = (Authority::start(), Authority::start());
    let mut desk = desk(&first, &second);
    let webroot = desk.dir.path().join("www");
    for issuer in std::iter::once(&mut desk.wish.issuer).chain(&mut desk.wish.others) {
        let Issue::Acme(authority) = issuer else { panic!() };
        // That it is proven by a file is seen by the fake asking for nothing.
        authority.others = vec![("a.example".into(), Solver::Tls)];
        authority.solvers = vec![("a.example".into(), Solver::Webroot(webroot.display().to_string()))];
    }
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let way = |issuer: Option<&str>, solver: Option<&str>| Renewal {
        issuer: issuer.map(Into::into),
        solver: solver.map(Into::into),
    };
    let refused = desk.renew_by(&way(Some("third"), None)).await.unwrap_err();
    assert!(
        refused.message.contains("`third` is no issuer")
            && refused.hint.as_ref().unwrap().contains("first, second")
    );
    assert!(desk.renew_by(&way(None, Some("dns01"))).await.is_err());
    assert!(desk.is_in_sync().await, "what was refused changed nothing");
    desk.renew_by(&way(Some("second"), Some("http01"))).await.unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((first.counts(), second.counts()), ((1, 1), (1, 1)));
    assert!(desk.is_in_sync().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_for_a_web_server_is_there_while_it_is_needed_and_never_stays() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let webroot = desk.dir.path().join("www");
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![("a.example".into(), Solver::Webroot(webroot.display().to_string()))];
    // The process dies with the file in place.
    authority.fail("challenge", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    let below = webroot.join(".well-known/acme-challenge");
    let files: Vec<_> = fs::read_dir(&below).unwrap().flatten().collect();
    assert_eq!(files.len(), 1);
    assert_eq!(fs::metadata(files[0].path()).unwrap().permissions().mode() & 0o777, 0o644);
    let token = files[0].file_name().into_string().unwrap();
    assert!(fs::read_to_string(files[0].path()).unwrap().starts_with(&format!("{token}.")));
    desk.restart();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert!(webroot.exists() && !webroot.join(".well-known").exists());
    // So it is with a certificate that nobody wants any more, and with an order that is refused.
    desk.renew().await;
    authority.refuse(true);
    desk.pass().await;
    assert!(!webroot.join(".well-known").exists());
    authority.fail("challenge", Fault::Refused(500, "serverInternal", ""));
    desk.clock.advance(Duration::from_secs(60));
    assert!(desk.pass().await.error().is_some());
    assert!(below.exists());
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(!webroot.join(".well-known").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_that_died_left_over_is_ended_although_the_certificate_is_good() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let webroot = desk.dir.path().join("www");
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![("a.example".into(), Solver::Webroot(webroot.display().to_string()))];
    authority.fail("certificate", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    let finished = desk.keep().attempt("web").unwrap().unwrap();
    let answer = fs::read_to_string(&finished.answers[0]).unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    // As if it had died between the certificate and this.
    desk.keep().put_attempt("web", &finished).unwrap();
    fs::create_dir_all(finished.answers[0].parent().unwrap()).unwrap();
    fs::write(&finished.answers[0], answer).unwrap();
    desk.restart();
    let seen = desk.observe().await.unwrap();
    assert!(String::from_utf8_lossy(&seen.bytes).contains("something begun is left over"));
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert!(!finished.answers[0].exists() && !desk.keep().has_orders().unwrap());
    assert!(desk.is_in_sync().await);
    assert_eq!(authority.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_directories_of_others_at_a_web_server_stay() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let webroot = desk.dir.path().join("www");
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![("a.example".into(), Solver::Webroot(webroot.display().to_string()))];
    let below = webroot.join(".well-known/acme-challenge");
    fs::create_dir_all(webroot.join(".well-known")).unwrap();
    fs::create_dir(&below).unwrap();
    // The token of its first order.
    fs::write(below.join("t0"), "somebody else's").unwrap();
    let outcome = desk.pass().await;
    let error = outcome.error().unwrap();
    assert!(error.message.contains("t0 is there already, and is not of ours"), "{}", error.message);
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert_eq!(fs::read_to_string(below.join("t0")).unwrap(), "somebody else's");
    // What a process that died has begun to write is its own; and the directories were there before.
    fs::write(below.join("t1"), "t").unwrap();
    desk.restart();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let left: Vec<_> = fs::read_dir(&below).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["t0"]);
    fs::remove_file(below.join("t0")).unwrap();
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert!(below.exists(), "it is empty, and was not made here");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_put_outside_of_what_the_host_allows() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![("a.example".into(), Solver::Webroot("/var/www".into()))];
    let outcome = desk.pass().await;
    assert!(outcome.error().unwrap().message.contains("is in none of the directories"), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_profile_counts_when_it_is_renewed_or_at_once_where_that_is_wanted() {
    for at_once in [false, true] {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
        (issuer.profile, issuer.profile_at_once) = (Some("shortlived".into()), at_once);
        assert_eq!(desk.is_in_sync().await, !at_once);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
        assert_eq!(
            (authority.counts().1, authority.last_profile().is_some()),
            (1 + usize::from(at_once), at_once)
        );
        desk.renew().await;
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        assert_eq!(authority.last_profile().as_deref(), Some("shortlived"));
        assert!(by(&desk).ends_with(" shortlived") && desk.is_in_sync().await);
        // Another authority is another matter.
        let other = Authority::start();
        let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
        issuer.server = format!("{}/dir", other.url);
        assert!(!desk.is_in_sync().await);
    }
}

/// The issuers are declared the other way round.
fn turn_round(desk: &mut Desk) {
    let Wish { issuer, others, issuer_names, .. } = &mut desk.wish;
    std::mem::swap(issuer, &mut others[0]);
    issuer_names.reverse();
    desk.restart();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_order_of_the_issuers_ends_neither_orders_nor_waits() {
    let (first, second) = (Authority::start(), Authority::start());
    let mut waiting = desk(&first, &second);
    first.refuse(true);
    waiting.pass().await;
    second.fail("finalize", Fault::Refused(500, "serverInternal", ""));
    assert!(waiting.pass().await.error().is_some());
    turn_round(&mut waiting);
    assert!(matches!(waiting.pass().await, Outcome::Done(_)));
    assert_eq!((first.counts(), second.counts()), ((1, 0), (1, 1)));
    assert!(!waiting.keep().is_begun("web").unwrap());
    let (first, second) = (Authority::start(), Authority::start());
    let mut refused = desk(&first, &second);
    first.refuse(true);
    second.refuse(true);
    refused.pass().await;
    refused.pass().await;
    for _ in 0..2 {
        turn_round(&mut refused);
        assert!(refused.pass().await.error().is_some());
        assert_eq!((first.counts(), second.counts()), ((1, 0), (1, 0)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_issuer_says_of_itself_ends_neither_orders_nor_waits() {
    let ca = rcgen::generate_simple_self_signed(["ca.example".to_owned()]).unwrap().cert.pem();
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    authority.give_chains();
    let change = |desk: &mut Desk, email: &str, chain: &str| {
        let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
        (issuer.email, issuer.bundle) = (Some(email.into()), Some(ca.clone()));
        issuer.preferred_chain = Some(chain.into());
        desk.restart();
    };
    authority.refuse(true);
    desk.pass().await;
    change(&mut desk, "a@example", "Fake Root");
    assert!(desk.pass().await.error().is_some());
    assert_eq!(authority.counts(), (1, 0));
    authority.refuse(false);
    desk.clock.advance(Duration::from_secs(60));
    authority.fail("finalize", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    change(&mut desk, "b@example", "Old Root");
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((authority.counts(), authority.calls("other")), ((2, 1), 1));
}
