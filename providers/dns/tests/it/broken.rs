//! Dynamic updates while the network or the server fails: no failure is an empty zone, and none writes twice.

use crate::{
    dnsd::{Dnsd, KINDS, Kind, provider_with},
    relay::{Fault, Relay},
    world::{Notes, converge, desired, observe, plan, scope},
};
use reconciled_provider::{ErrorKind, Observation, Provider, Resource, Version};
use reconciled_testkit::ports::NOBODY;
use std::{sync::Arc, time::Duration};

const ZONE: &str = "example.com";

fn through(relay: &Relay) -> Arc<dyn Provider> {
    provider_with(&relay.address, |config, _| config.options.timeout = Duration::from_secs(2))
}

/// As [`through`], for counting: a machine that stalls makes no question be asked twice.
fn patiently(relay: &Relay) -> Arc<dyn Provider> {
    provider_with(&relay.address, |config, _| config.patience = Duration::from_secs(60))
}

fn wanted(provider: &dyn Provider, count: usize) -> Vec<Resource> {
    let records: Vec<String> = (0..count)
        .map(|i| format!("{{name: h{i}, type: A, values: [10.0.{}.{}]}}", i >> 8, i & 255))
        .collect();
    desired(provider, ZONE, &records).split_off(1)
}

/// A server with 3,000 records, which take several messages of a transfer: four of Knot, thirty of PowerDNS.
async fn filled(kind: Kind) -> (Dnsd, Observation) {
    let server = Dnsd::with_example(kind).await;
    // PowerDNS looks each record of an update up.
    let provider =
        provider_with(&server.address(), |config, _| config.options.timeout = Duration::from_secs(60));
    let cx = server.cx();
    converge(&*provider, &cx, ZONE, &wanted(&*provider, 3_000), &[]).await;
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    (server, seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_transfer_that_breaks_is_a_zone() {
    for kind in KINDS {
        no_broken_transfer_is_a_zone(kind).await;
    }
}

/// Breaks transfers of a server of this kind in each way.
async fn no_broken_transfer_is_a_zone(of: Kind) {
    let (server, seen) = filled(of).await;
    for (fault, kind, part) in [
        (Fault::CutAnswer(0), ErrorKind::Unavailable, "the connection broke"),
        (Fault::CutAnswer(1), ErrorKind::Unavailable, "the connection broke"),
        (Fault::CutAnswer(500), ErrorKind::Unavailable, "the connection broke"),
        // At the end of a message, and within one.
        (Fault::CutAnswer(40_000), ErrorKind::Unavailable, "the connection broke"),
        (Fault::LoseRequest, ErrorKind::Unavailable, "the connection broke"),
        (Fault::Flip(1_000), ErrorKind::Unexpected, "not believed"),
    ] {
        let relay = Relay::to(server.port, vec![fault.clone()]);
        let error = observe(&*through(&relay), &server.cx(), ZONE).await.unwrap_err();
        assert_eq!(error.kind, kind, "{of:?}, {fault:?}: {}", error.chain());
        assert!(error.message.contains(part), "{of:?}, {fault:?}: {}", error.chain());
        // The same again, and nothing in the way.
        assert_eq!(observe(&*through(&relay), &server.cx(), ZONE).await.unwrap(), seen, "{of:?}, {fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_without_an_answer_is_unknown_and_the_next_survey_tells() {
    for (fault, has_effect) in [
        (Fault::LoseAnswer, true),
        (Fault::CutAnswer(5), true),
        (Fault::LoseRequest, false),
        (Fault::CutRequest(20), false),
    ] {
        let server = Dnsd::with_example(Kind::Bind).await;
        let relay = Relay::to(server.port, vec![fault.clone()]);
        let (direct, provider, cx) = (server.provider(), through(&relay), server.cx());
        let wanted = wanted(&*provider, 3);
        let before = observe(&*direct, &cx, ZONE).await.unwrap();
        let batch = plan(&*direct, &cx, ZONE, &wanted, &[], &before).await;
        let notes = Notes::default();
        let error = provider.apply(&cx, &batch, &notes).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{fault:?}: {error}");
        assert_eq!(notes.counts(), [("unknown", 3)].into(), "{fault:?}");
        let after = observe(&*direct, &cx, ZONE).await.unwrap();
        assert_eq!(after != before, has_effect, "{fault:?}");
        // Sent once more as it was, it finds that the zone moved.
        if has_effect {
            let error = provider.apply(&cx, &batch, &Notes::default()).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Conflict, "{fault:?}: {error}");
        }
        converge(&*provider, &cx, ZONE, &wanted, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_signed_as_it_is_leaves_the_outcome_unknown() {
    let server = Dnsd::with_example(Kind::Bind).await;
    let relay = Relay::to(server.port, vec![Fault::Flip(5)]);
    let (provider, cx) = (through(&relay), server.cx());
    let wanted = wanted(&*provider, 1);
    let seen = observe(&*server.provider(), &cx, ZONE).await.unwrap();
    let batch = plan(&*provider, &cx, ZONE, &wanted, &[], &seen).await;
    let notes = Notes::default();
    provider.apply(&cx, &batch, &notes).await.unwrap_err();
    assert_eq!(notes.counts(), [("unknown", 1)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsigned_failure_of_the_server_leaves_the_outcome_unknown_and_a_refusal_does_not() {
    for (code, outcome) in [(2, "unknown"), (4, "failed")] {
        let server = Dnsd::with_example(Kind::Bind).await;
        let relay = Relay::to(server.port, vec![Fault::Say(code)]);
        let (provider, cx) = (through(&relay), server.cx());
        let wanted = wanted(&*provider, 1);
        let seen = observe(&*server.provider(), &cx, ZONE).await.unwrap();
        let batch = plan(&*provider, &cx, ZONE, &wanted, &[], &seen).await;
        let notes = Notes::default();
        let error = provider.apply(&cx, &batch, &notes).await.unwrap_err();
        assert_eq!(notes.counts(), [(outcome, 1)].into(), "{code}: {}", error.chain());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_of_a_zone_that_did_not_change_is_two_packets() {
    let (server, seen) = filled(Kind::Bind).await;
    let relay = Relay::to(server.port, Vec::new());
    let versions = patiently(&relay).versions(&server.cx(), &[scope(ZONE)]).await.unwrap();
    assert_eq!(versions[&scope(ZONE)], seen.version);
    assert_eq!(relay.counts.all(), (2, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_zone_is_a_message_and_the_question_for_its_soa() {
    let server = Dnsd::with_example(Kind::Knot).await;
    let relay = Relay::to(server.port, Vec::new());
    let (provider, cx) = (patiently(&relay), server.cx());
    let wanted = wanted(&*provider, 500);
    let seen = observe(&*server.provider(), &cx, ZONE).await.unwrap();
    let batch = plan(&*provider, &cx, ZONE, &wanted, &[], &seen).await;
    provider.apply(&cx, &batch, &Notes::default()).await.unwrap();
    assert_eq!(relay.counts.all(), (0, 1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_unavailable_and_no_zone_is_absent() {
    let address = format!("127.0.0.1:{NOBODY}");
    let provider = provider_with(&address, |config, _| config.options.timeout = Duration::from_secs(1));
    let cx = crate::world::cx_now(crate::dnsd::SECRET, 0);
    for error in [
        observe(&*provider, &cx, ZONE).await.unwrap_err(),
        provider.versions(&cx, &[scope(ZONE)]).await.unwrap_err(),
        provider.versions(&cx, &[]).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        assert!(error.hint.as_ref().unwrap().contains("is the server running"), "{}", error.message);
    }
    let named = provider_with("no-such-host.invalid", |_, _| {});
    let error = observe(&*named, &cx, ZONE).await.unwrap_err();
    assert!(error.message.contains("the name of the server is not found"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_was_removed_from_the_server_is_an_error_for_what_is_written_too() {
    let with = Dnsd::with_example(Kind::Knot).await;
    let without = Dnsd::start(Kind::Knot, &["example.net".into()]).await;
    let (provider, cx) = (with.provider(), with.cx());
    let wanted = wanted(&*provider, 2);
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    let batch = plan(&*provider, &cx, ZONE, &wanted, &[], &seen).await;
    assert!(matches!(batch.base, Version::At(_)));
    let notes = Notes::default();
    let error = without.provider().apply(&without.cx(), &batch, &notes).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Unavailable | ErrorKind::PermissionDenied), "{error}");
    assert_eq!(notes.counts(), [("failed", 2)].into());
}
