//! Renewals: when one is due, what it says it replaces, and what comes of an authority that does not want that.

use crate::faults::error;
use crate::{
    authority::{Authority, BEGIN, Fault, LIFE},
    world::Desk,
};
use futures_util::StreamExt;
use reconciled_provider::{ErrorKind, Health, Outcome};
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_when_it_is_due_and_says_what_it_replaces() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.clock.advance(Duration::from_secs(LIFE * 2 / 3 - 120));
    assert!(desk.is_in_sync().await, "a minute before");
    assert_eq!(desk.health().await, Health::Healthy);
    desk.clock.advance(Duration::from_secs(120));
    assert!(!desk.is_in_sync().await);
    authority.begin(BEGIN + LIFE * 2 / 3);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!(authority.counts(), (2, 2));
    assert!(
        authority.last_replaces().is_some_and(|id| id.ends_with(".AIAAAAE")),
        "{:?}",
        authority.last_replaces()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_is_due_whatever_somebody_does_to_the_files() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let key = desk.dir.path().join("out/web/tls.key");
    let open = || fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    open();
    assert!(!desk.is_due().await, "that is drift");
    desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
    assert!(desk.is_due().await);
    authority.begin(BEGIN + LIFE * 2 / 3);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    open();
    desk.renew().await;
    assert!(desk.is_due().await, "so is one that a person asked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_replaced_already_is_ordered_without_saying_so() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
    authority.replaced();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((authority.counts(), authority.last_replaces()), ((2, 2), None));
}

pub(crate) fn move_account_away(desk: &Desk) {
    let accounts = fs::read_dir(desk.dir.path().join("state/accounts")).unwrap();
    accounts.for_each(|file| fs::remove_file(file.unwrap().path()).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_account_ordered_is_renewed_without_saying_what_it_replaces() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let account = || desk.keep().issued("web").unwrap().unwrap().account;
    assert_eq!(account(), Some(format!("{}/accounts/1", authority.url)));
    move_account_away(&desk);
    desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
    authority.begin(BEGIN + LIFE * 2 / 3);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((authority.calls("order"), authority.last_replaces()), (2, None));
    assert_eq!(account(), Some(format!("{}/accounts/2", authority.url)));
    // The next one is of the account it has now; so is one of which a former version of this program did not know.
    for is_known in [true, false] {
        let mut issued = desk.keep().issued("web").unwrap().unwrap();
        issued.account = issued.account.filter(|_| is_known);
        desk.keep().put_issued("web", &issued).unwrap();
        desk.restart();
        desk.renew().await;
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        assert!(authority.last_replaces().is_some(), "known: {is_known}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_refused_with_what_it_replaces_is_sent_once_more_without() {
    for word in ["unauthorized", "conflict", "malformed"] {
        let authority = Authority::start();
        let desk = Desk::new(&authority);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
        authority.begin(BEGIN + LIFE * 2 / 3);
        authority.fail("order", Fault::Refused(403, word, ""));
        assert!(matches!(desk.pass().await, Outcome::Done(_)), "{word}");
        assert_eq!((authority.calls("order"), authority.last_replaces()), (3, None), "{word}");
    }
    // What is no matter of that is not.
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
    authority.fail("order", Fault::Refused(429, "rateLimited", "Retry-After: 60\r\n"));
    assert_eq!(error(&desk.pass().await).kind, ErrorKind::RateLimited);
    assert_eq!(authority.calls("order"), 2);
}

/// What a person is told of the moment that the authority suggested.
async fn why_then(desk: &Desk) -> Option<String> {
    let mut facts = desk.facts().await.into_iter();
    facts.find(|fact| &*fact.name == "why then").map(|fact| fact.value)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_that_the_authority_suggests_is_chosen_once_and_followed() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let window = (BEGIN + 1_000_000, BEGIN + 1_100_000);
    authority.suggest(window);
    assert_eq!(desk.health().await, Health::Healthy);
    let chosen = || desk.keep().issued("web").unwrap().unwrap().suggested.unwrap();
    let first = chosen();
    assert!((window.0..window.1).contains(&first.at));
    assert_eq!(desk.health().await, Health::Healthy);
    assert_eq!(authority.calls("info"), 1, "it is not asked before it said");
    assert_eq!(why_then(&desk).await, None);
    authority.explain("https://ca.example/why");
    desk.clock.advance(Duration::from_secs(7_201));
    assert_eq!(desk.health().await, Health::Healthy);
    assert_eq!((authority.calls("info"), chosen().at), (2, first.at));
    assert_eq!(why_then(&desk).await.as_deref(), Some("https://ca.example/why"));
    assert!(desk.is_in_sync().await);
    desk.clock.advance(Duration::from_secs(1_100_000));
    assert!(!desk.is_in_sync().await, "long before two thirds");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_is_late_is_said_and_an_end_even_more() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.clock.advance(Duration::from_secs(LIFE * 5 / 6));
    let health = desk.health().await;
    assert!(
        matches!(&health, Health::Degraded { why } if why.contains("should have been renewed")),
        "{health:?}"
    );
    desk.clock.advance(Duration::from_secs(LIFE / 6));
    let health = desk.health().await;
    assert!(matches!(&health, Health::Degraded { why } if why.contains("it is over since")), "{health:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_manifest_declares_that_can_be_read_is_late_and_over_all_the_same() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let mut hints = desk.hints();
    let late_at = Duration::from_secs(BEGIN + LIFE * 5 / 6);
    desk.clock.advance(late_at - Duration::from_secs(2) - desk.cx.clock.now());
    assert_eq!(desk.health_undeclared().await, None);
    // Nothing else has it looked at then.
    assert_eq!(&*hints.next().await.unwrap().scope.name, "web");
    for (left, words) in [(3, "should have been renewed at"), (LIFE / 6, "it is over since")] {
        desk.clock.advance(Duration::from_secs(left));
        let health = desk.health_undeclared().await;
        let Some(Health::Degraded { why }) = &health else { panic!("{health:?}") };
        assert!(why.contains(words) && why.contains("so nothing renews it"), "{why}");
    }
    assert_eq!(authority.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_that_is_due_at_once_is_used_and_another_one_waits() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    desk.clock.advance(Duration::from_secs(LIFE * 3 / 4));
    for (issued, wait) in [(1, 60), (2, 300)] {
        assert!(matches!(desk.pass().await, Outcome::Done(_)));
        assert_eq!(authority.counts().1, issued);
        let outcome = desk.pass().await;
        let error = error(&outcome);
        assert!(error.message.contains("the new certificate is not as declared"), "{}", error.message);
        assert_eq!((error.retry_after, authority.counts().1), (Some(Duration::from_secs(wait)), issued));
        desk.clock.advance(Duration::from_secs(wait));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_mended_before_the_end_of_a_short_certificate_renews_it_in_time() {
    const DAY: u64 = 86_400;
    let authority = Authority::start();
    authority.live(DAY);
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.clock.advance(Duration::from_secs(DAY / 2));
    authority.refuse(true);
    // Nobody mends it for seven and a half hours.
    let seconds = || desk.cx.clock.now().as_secs();
    let mended_at = seconds() + 27_000;
    let mut refusals = 0;
    while seconds() < mended_at {
        let outcome = desk.pass().await;
        if let Some(error) = outcome.error() {
            refusals += 1;
            desk.clock.advance(error.retry_after.unwrap());
        }
    }
    assert!((8..20).contains(&refusals), "{refusals}");
    authority.refuse(false);
    authority.begin(seconds());
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert!(seconds() < BEGIN + DAY - 3_600, "{} s before its end", (BEGIN + DAY).saturating_sub(seconds()));
    assert_eq!(desk.keep().refusals("web").unwrap().count, 0);
}
