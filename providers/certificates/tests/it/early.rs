//! Certificates that are not valid yet: a clock was ahead once, or is behind now.

use crate::{
    authority::{Authority, BEGIN},
    world::Desk,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa};
use reconciled_certificates::wish::Issue;
use reconciled_provider::{Cx, ErrorKind, Health, Outcome};
use reconciled_testkit::context::HandClock;
use std::{sync::Arc, time::Duration};

/// The clock shows `seconds` since 1970 from now on.
fn set(desk: &mut Desk, seconds: u64) {
    let clock = Arc::new(HandClock::default());
    clock.advance(Duration::from_secs(seconds));
    desk.cx = Cx { clock: clock.clone(), ..desk.cx.clone() };
    desk.clock = clock;
}

fn not_before(desk: &Desk) -> u64 {
    desk.keep().issued("web").unwrap().unwrap().facts().unwrap().not_before
}

#[tokio::test(flavor = "multi_thread")]
async fn what_we_issued_while_the_clock_was_ahead_is_issued_anew_once_it_is_right() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    (desk.wish.issuer, desk.wish.duration) = (Issue::SelfSigned, 86_400);
    for (ahead, is_anew) in [(70 * 86_400, true), (3_600, true), (60, false)] {
        set(&mut desk, BEGIN + ahead);
        if desk.keep().issued("web").unwrap().is_some() {
            desk.renew().await;
        }
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await, "{ahead}");
        let before = not_before(&desk);
        set(&mut desk, BEGIN);
        assert_eq!(desk.is_in_sync().await, !is_anew, "{ahead}");
        if is_anew {
            assert!(desk.is_due().await, "{ahead}: nobody changed anything");
            let seen = String::from_utf8(desk.observe().await.unwrap().bytes.to_vec()).unwrap();
            assert!(seen.contains("not valid before "), "{ahead}: {seen}");
        }
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await, "{ahead}");
        assert_eq!((not_before(&desk) < before, not_before(&desk) <= BEGIN), (is_anew, true), "{ahead}");
        assert_eq!(desk.health().await, Health::Healthy, "{ahead}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_issued_anew_by_a_clock_that_may_have_to_be_set_after_a_start() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    (desk.wish.issuer, desk.wish.duration) = (Issue::SelfSigned, 86_400);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    let before = not_before(&desk);
    set(&mut desk, BEGIN - 70 * 86_400);
    desk.clock.stay_up(Duration::from_secs(599));
    desk.restart();
    for _ in 0..2 {
        assert!(desk.is_in_sync().await);
    }
    let health = desk.health().await;
    let why = "is the clock of this machine right?";
    assert!(matches!(&health, Health::Degraded { why: told } if told.contains(why)), "{health:?}");
    // Nobody set it.
    desk.clock.stay_up(Duration::from_secs(600));
    assert!(desk.is_due().await);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert!(not_before(&desk) < before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_authority_gave_is_not_ordered_again_and_a_person_is_asked_about_the_clock() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    authority.begin(BEGIN + 86_400);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    let health = desk.health().await;
    let why = "is the clock of this machine right?";
    assert!(matches!(&health, Health::Degraded { why: told } if told.contains(why)), "{health:?}");
    desk.clock.advance(Duration::from_secs(86_400));
    assert_eq!((desk.health().await, authority.counts()), (Health::Healthy, (1, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_valid_yet_signs_nothing() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "Lab");
    let at = |seconds: u64| time::OffsetDateTime::from_unix_timestamp(seconds as i64).unwrap();
    (params.not_before, params.not_after) = (at(BEGIN + 86_400), at(BEGIN + 100 * 86_400));
    desk.be_signed_by(params);
    let outcome = desk.pass().await;
    let error = outcome.error().unwrap();
    let is_said = error.chain().contains("the certificate of the issuer is not valid before ");
    assert!(error.kind == ErrorKind::Unavailable && is_said, "{error:?}");
    desk.clock.advance(Duration::from_secs(86_400));
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
}
