//! Dynamic updates against real servers.

use crate::{
    dnsd::{Dnsd, KINDS, Kind, SECRET, provider_with},
    relay::{Fault, Relay},
    world::{self, Notes, apply, batch, converge, desired, diff, normalize, observe, plan, scope},
};
use reconciled_provider::{Cx, ErrorKind, Focus, Op, Outcome, Owner, Provider, Resource, Spec};

const ZONE: &str = "example.com";

pub(crate) fn records(list: &[&str]) -> Vec<String> {
    list.iter().map(|record| format!("{{{record}}}")).collect()
}

fn a_records(count: usize) -> Vec<String> {
    (0..count)
        .map(|i| format!("{{name: h{i}, type: A, values: [10.{}.{}.{}]}}", i >> 16, i >> 8 & 255, i & 255))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_is_read_with_the_token_that_its_serial_gives() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let (provider, cx) = (server.provider(), server.cx());
        let seen = observe(&*provider, &cx, ZONE).await.unwrap();
        assert!(seen.resources.iter().all(|o| o.owner == Owner::System), "{kind:?}: {seen:?}");
        assert_eq!((seen.complete, seen.covered, seen.resources.len()), (true, Focus::All, 3), "{kind:?}");
        let versions = provider.versions(&cx, &[scope(ZONE), scope("missing.example")]).await.unwrap();
        assert_eq!(versions, [(scope(ZONE), seen.version.clone())].into(), "{kind:?}");
        let wanted = wanted(&*provider, &a_records(1));
        converge(&*provider, &cx, ZONE, &wanted, &[]).await;
        let moved = provider.versions(&cx, &[scope(ZONE)]).await.unwrap();
        assert_ne!(moved[&scope(ZONE)], seen.version, "{kind:?}");
    }
}

/// The resources of records without the zone, which nobody can make.
pub(crate) fn wanted(provider: &dyn Provider, records: &[String]) -> Vec<Resource> {
    desired(provider, ZONE, records).split_off(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_is_empty_for_every_type() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let (provider, cx) = (server.provider(), server.cx());
        let mut records = world::every_type();
        if kind == Kind::PowerDns {
            // It stores a SOA that came by an update in a form that no prerequisite matches afterwards.
            records.retain(|record| !record.contains("type: SOA"));
        }
        let wanted = wanted(&*provider, &records);
        converge(&*provider, &cx, ZONE, &wanted, &[]).await;
        let seen = observe(&*provider, &cx, ZONE).await.unwrap();
        let of_server = 1 + usize::from(kind == Kind::PowerDns);
        assert_eq!(seen.resources.len(), wanted.len() + of_server, "{kind:?}");
        // All of it goes again but what a zone keeps, and the address that BIND keeps for an NS.
        let kept = ["example.com./NS", "example.com./SOA", "ns1.example.com./A"];
        let ids: Vec<&str> = wanted.iter().map(|r| &*r.id.0).filter(|id| !kept.contains(id)).collect();
        converge(&*provider, &cx, ZONE, &[], &ids).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_stays_cut_as_it_was_found() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        world::strings_stay(&*server.provider(), &server.cx(), ZONE).await;
    }
}

/// What somebody else changes of a zone of [`a_records`].
const EDITS: [&str; 3] = [
    "update delete h7.example.com. A\nupdate add new.example.com. 60 TXT \"a b\"",
    "update delete h9.example.com. A\nupdate add h9.example.com. 77 A 198.51.100.9",
    "update add h9.example.com. 77 A 198.51.100.10\nupdate delete new.example.com. TXT",
];

#[tokio::test(flavor = "multi_thread")]
async fn of_a_zone_that_was_read_only_what_changed_is_transferred() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let cx = server.cx();
        converge(&*server.provider(), &cx, ZONE, &wanted(&*server.provider(), &a_records(500)), &[]).await;
        let relay = Relay::to(server.port, Vec::new());
        let provider = provider_with(&relay.address, |_, _| {});
        let anew = async || observe(&*server.provider(), &cx, ZONE).await.unwrap();
        assert_eq!(observe(&*provider, &cx, ZONE).await.unwrap(), anew().await, "{kind:?}");
        let (_, _, all) = relay.counts.transfers();
        // One at a time, and several at once.
        for edits in [&EDITS[..1], &EDITS[1..]] {
            edits.iter().for_each(|edit| server.change(ZONE, edit));
            let (_, _, before) = relay.counts.transfers();
            assert_eq!(observe(&*provider, &cx, ZONE).await.unwrap(), anew().await, "{kind:?}");
            let (wholes, _, octets) = relay.counts.transfers();
            assert_eq!(wholes, 1, "{kind:?}: {edits:?}");
            // PowerDNS answers with all of the zone.
            assert!(
                kind == Kind::PowerDns || (octets - before) * 5 < all,
                "{kind:?}: {octets} {before} {all}"
            );
        }
        assert_eq!(relay.counts.transfers().1, 2, "{kind:?}");
        // Who looks again although nothing moved sees what no serial tells.
        assert_eq!(observe(&*provider, &cx, ZONE).await.unwrap(), anew().await, "{kind:?}");
        assert_eq!(relay.counts.transfers().0, 2, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_difference_that_breaks_is_a_reason_to_transfer_all() {
    let faults =
        [Fault::CutAnswer(90), Fault::Flip(90), Fault::Say(4), Fault::LoseAnswer, Fault::LoseRequest];
    for kind in [Kind::Bind, Kind::Knot] {
        let server = Dnsd::with_example(kind).await;
        let cx = server.cx();
        converge(&*server.provider(), &cx, ZONE, &wanted(&*server.provider(), &a_records(50)), &[]).await;
        for (number, fault) in faults.iter().enumerate() {
            let relay = Relay::to(server.port, vec![Fault::Pass, fault.clone()]);
            let provider = provider_with(&relay.address, |_, _| {});
            observe(&*provider, &cx, ZONE).await.unwrap();
            server.change(ZONE, &format!("update add n{number}.example.com. 60 A 192.0.2.1"));
            let seen = observe(&*provider, &cx, ZONE).await.unwrap();
            assert_eq!(seen, observe(&*server.provider(), &cx, ZONE).await.unwrap(), "{kind:?}, {fault:?}");
            let (wholes, differences, _) = relay.counts.transfers();
            assert_eq!(differences, usize::from(!matches!(fault, Fault::LoseRequest)), "{kind:?}, {fault:?}");
            assert_eq!(wholes, 2, "{kind:?}, {fault:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_protocol_has_no_form_for_is_refused_by_name() {
    let provider = provider_with("127.0.0.1:53", |_, _| {});
    let spec = r#"records: [{name: "@", type: ALIAS, values: [a.example.org.]}]"#;
    let (resources, problems) = normalize(&*provider, ZONE, spec);
    assert_eq!(resources.len(), 1, "the zone alone");
    assert!(
        problems[0].message.contains("ALIAS records cannot be served by `test`, a provider of type rfc2136")
    );
    assert!(problems[0].hint.as_ref().unwrap().contains("A and AAAA"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_soa_in_a_later_message_is_newer_than_what_the_messages_before_left() {
    for kind in [Kind::Bind, Kind::Knot] {
        let server = Dnsd::with_example(kind).await;
        let provider = provider_with(&server.address(), |config, _| config.max_message = 1_000);
        let mut records = a_records(100);
        let soa = "ns1.example.com. hostmaster.example.com. 10800 3600 604800 299";
        records.push(format!("{{name: '@', type: SOA, values: [{soa}]}}"));
        let wanted = wanted(&*provider, &records);
        let (_, notes, result) = apply(&*provider, &server.cx(), ZONE, &wanted, &[]).await;
        result.unwrap();
        assert!(notes.started.lock().unwrap().len() > 3, "{kind:?}: several messages");
        let seen = observe(&*provider, &server.cx(), ZONE).await.unwrap();
        let kept = seen.get(&"example.com./SOA".into()).unwrap();
        assert!(String::from_utf8_lossy(&kept.bytes).ends_with("299"), "{kind:?}: {kept:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_between_read_and_write_is_a_conflict_and_is_kept() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let (provider, cx) = (server.provider(), server.cx());
        let wanted = wanted(&*provider, &a_records(3));
        let seen = observe(&*provider, &cx, ZONE).await.unwrap();
        let batch = plan(&*provider, &cx, ZONE, &wanted, &[], &seen).await;
        server.change(ZONE, "update add h1.example.com. 60 A 198.51.100.1");
        let before = observe(&*provider, &cx, ZONE).await.unwrap();
        let notes = Notes::default();
        let error = provider.apply(&cx, &batch, &notes).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "{kind:?}: {error}");
        assert_eq!(notes.counts(), [("failed", 3)].into(), "{kind:?}");
        assert_eq!(observe(&*provider, &cx, ZONE).await.unwrap(), before, "{kind:?}");
    }
}

/// Passes until what is wanted is there, as the engine takes them: a conflict is planned anew.
pub(crate) async fn settle(provider: &dyn Provider, cx: &Cx, wanted: &[Resource], delete: &[&str]) {
    let mut told = Vec::new();
    for _ in 0..20 {
        let (batch, notes, result) = apply(provider, cx, ZONE, wanted, delete).await;
        let outcomes = notes.outcomes.lock().unwrap().clone();
        told = outcomes.values().filter_map(Outcome::error).map(reconciled_provider::Error::chain).collect();
        match result {
            Ok(()) if batch.actions.iter().all(|action| delete.contains(&&*action.op.id().0)) => return,
            Err(error) => assert_eq!(error.kind, ErrorKind::Conflict, "{error}"),
            Ok(()) => {}
        }
        let seen = observe(provider, cx, ZONE).await.unwrap();
        let left = plan(provider, cx, ZONE, wanted, &[], &seen).await;
        told.extend(left.actions.iter().map(|action| format!("left: {:?}", action.op)));
        if left.actions.is_empty() && delete.iter().all(|id| seen.get(&(*id).into()).is_none()) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("it never settles: {told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_is_signed_as_it_is_served_is_written_set_by_set() {
    let server = Dnsd::with_example(Kind::BindSigned).await;
    let (provider, cx) = (server.provider(), server.cx());
    let mut records = world::every_type();
    // The SOA has another serial, and the policy of the server has a longest TTL.
    records.retain(|record| !record.contains("type: SOA") && !record.contains("2147483647"));
    let all = wanted(&*provider, &records);
    settle(&*provider, &cx, &all, &[]).await;
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    let of = |id: &str| seen.get(&id.into()).unwrap().bytes.clone();
    let texts: Vec<_> = all.iter().filter(|resource| resource.id.0.ends_with("/TXT")).collect();
    assert!(texts.iter().all(|text| text.spec.bytes() == Some(&of(&text.id.0)[..])), "{seen:?}");

    // What somebody changes between the look and the write is left alone, and the rest is done.
    let three = wanted(&*provider, &a_records(3));
    settle(&*provider, &cx, &three, &[]).await;
    let others: Vec<String> =
        (0..3).map(|i| format!("{{name: h{i}, type: A, values: [192.0.2.{i}]}}")).collect();
    let others = wanted(&*provider, &others);
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    let batch = plan(&*provider, &cx, ZONE, &others, &[], &seen).await;
    server.change(ZONE, "update delete h1.example.com. A\nupdate add h1.example.com. 60 A 198.51.100.1");
    let notes = Notes::default();
    let error = provider.apply(&cx, &batch, &notes).await.unwrap_err();
    assert_eq!(
        (error.kind, notes.counts()),
        (ErrorKind::Conflict, [("done", 2), ("failed", 1)].into()),
        "{error}"
    );
    assert!(notes.outcome(&batch, "h1.example.com./A").contains("conflict"));
    settle(&*provider, &cx, &others, &[]).await;
    settle(&*provider, &cx, &[], &["h0.example.com./A", "h2.example.com./A"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_ignores_is_said_once_and_tried_again_when_the_zone_moves() {
    let server = Dnsd::with_example(Kind::Bind).await;
    let (provider, cx) = (server.provider(), server.cx());
    server.change(ZONE, "update add x.example.com. 60 A 198.51.100.1");
    let records =
        records(&["name: x, type: CNAME, values: [a.example.org.]", "name: y, type: A, values: [192.0.2.1]"]);
    let wanted = wanted(&*provider, &records);
    let (batch, notes, result) = apply(&*provider, &cx, ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.outcome(&batch, "x.example.com./CNAME"), "done", "the server said so");
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    assert!(
        seen.get(&"x.example.com./CNAME".into()).is_none() && seen.get(&"y.example.com./A".into()).is_some()
    );
    let deltas = diff(&*provider, &cx, ZONE, &wanted, &seen).await;
    let error = deltas[&"x.example.com./CNAME".into()].as_ref().unwrap_err();
    assert_eq!((error.kind, deltas.len()), (ErrorKind::Invalid, 1));
    assert!(error.message.contains("answered NOERROR to the change of x.example.com./CNAME"), "{error}");
    assert!(error.hint.as_ref().unwrap().contains("share a name"));
    // Somebody makes room: nothing is held against the server any longer.
    server.change(ZONE, "update delete x.example.com. A");
    converge(&*provider, &cx, ZONE, &wanted, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refused_record_of_five_hundred_fails_alone_and_few_messages_find_it() {
    let server = Dnsd::with_example(Kind::Bind).await;
    let (provider, cx) = (server.provider(), server.cx());
    let mut list = a_records(499);
    list.insert(300, "{name: forbidden, type: A, values: [192.0.2.1]}".into());
    let wanted = wanted(&*provider, &list);
    let (batch, notes, result) = apply(&*provider, &cx, ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 499), ("failed", 1)].into());
    let outcome = notes.outcome(&batch, "forbidden.example.com./A");
    assert!(outcome.contains("permission-denied") && outcome.contains("REFUSED"), "{outcome}");
    assert_eq!(notes.started.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_refused_for_want_of_a_later_one_is_written_after_it() {
    let server = Dnsd::with_example(Kind::Bind).await;
    let provider = provider_with(&server.address(), |_, _| {});
    // BIND refuses an MX whose host in the zone is not there; the forbidden name has the batch taken apart.
    let list = records(&[
        "name: '@', type: MX, values: [10 zmail.example.com.]",
        "name: forbidden, type: A, values: [192.0.2.1]",
        "name: zmail, type: A, values: [192.0.2.25]",
    ]);
    let wanted = wanted(&*provider, &list);
    let (batch, notes, result) = apply(&*provider, &server.cx(), ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 2), ("failed", 1)].into());
    assert!(notes.outcome(&batch, "forbidden.example.com./A").contains("when asked to create"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_bind_checks_is_no_lack_of_rights() {
    let server = Dnsd::with_example(Kind::Bind).await;
    let (provider, cx) = (server.provider(), server.cx());
    let list = records(&[
        "name: '@', type: MX, values: [10 mail.example.com.]",
        "name: forbidden, type: A, values: [192.0.2.1]",
        "name: good, type: A, values: [192.0.2.1]",
    ]);
    let (batch, notes, result) = apply(&*provider, &cx, ZONE, &wanted(&*provider, &list), &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 1), ("failed", 2)].into());
    let outcome = |id| notes.outcome(&batch, id);
    assert!(outcome("forbidden.example.com./A").starts_with("failed: permission-denied"));
    let told = outcome("example.com./MX");
    assert!(told.starts_with("failed: invalid") && told.contains("REFUSED, when asked to create"), "{told}");
    let outcomes = notes.outcomes.lock().unwrap();
    let hints: Vec<_> = outcomes.values().filter_map(|outcome| outcome.error()?.hint.clone()).collect();
    assert!(hints.iter().any(|hint| hint.contains("declare A or AAAA of `mail.example.com.`")), "{hints:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_takes_nothing_else_at_its_name_with_it() {
    let server = Dnsd::with_example(Kind::Bind).await;
    let (provider, cx) = (server.provider(), server.cx());
    // BIND checks the names of hosts: one with an underscore has no address.
    let list = records(&[
        "name: _t._tcp, type: AAAA, values: ['2001:db8::1']",
        "name: _t._tcp, type: TXT, values: [x]",
        "name: _t._tcp, type: URI, values: ['10 1 https://example.net/']",
    ]);
    let (batch, notes, result) = apply(&*provider, &cx, ZONE, &wanted(&*provider, &list), &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 2), ("failed", 1)].into());
    assert!(notes.outcome(&batch, "_t._tcp.example.com./AAAA").contains("REFUSED"));
    assert_eq!(notes.started.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_does_not_go_where_what_comes_in_its_place_is_refused() {
    let server = Dnsd::with_example(Kind::Bind).await;
    let (provider, cx) = (server.provider(), server.cx());
    let before = wanted(&*provider, &records(&["name: h, type: A, values: [192.0.2.1]"]));
    converge(&*provider, &cx, ZONE, &before, &[]).await;
    let after = wanted(
        &*provider,
        // BIND refuses an MX whose host in the zone is not there.
        &records(&["name: h, type: MX, values: [10 gone.example.com.]", "name: h, type: TXT, values: [x]"]),
    );
    let (_, notes, result) = apply(&*provider, &cx, ZONE, &after, &["h.example.com./A"]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("failed", 3)].into());
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    assert!(seen.resources.iter().any(|observed| &*observed.id.0 == "h.example.com./A"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_the_server_cannot_read_is_no_lack_of_rights() {
    let server = Dnsd::with_example(Kind::Bind).await;
    let relay = Relay::to(server.port, vec![Fault::Say(1)]);
    let through = provider_with(&relay.address, |_, _| {});
    let wanted = wanted(&*through, &a_records(1));
    let seen = observe(&*server.provider(), &server.cx(), ZONE).await.unwrap();
    let batch = plan(&*through, &server.cx(), ZONE, &wanted, &[], &seen).await;
    let notes = Notes::default();
    // It is asked for twice, and the second time the server takes it.
    through.apply(&server.cx(), &batch, &notes).await.unwrap_err();
    let outcomes = notes.outcomes.lock().unwrap();
    let error = outcomes.values().find_map(Outcome::error).unwrap();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.hint.as_ref().unwrap().contains("record type"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn powerdns_refuses_a_cname_beside_other_data_and_the_rest_is_written() {
    let server = Dnsd::with_example(Kind::PowerDns).await;
    let (provider, cx) = (server.provider(), server.cx());
    server.change(ZONE, "update add x.example.com. 60 A 198.51.100.1");
    let mut list = a_records(20);
    list.push("{name: x, type: CNAME, values: [a.example.org.]}".into());
    let wanted = wanted(&*provider, &list);
    let (batch, notes, result) = apply(&*provider, &cx, ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 20), ("failed", 1)].into());
    assert!(notes.outcome(&batch, "x.example.com./CNAME").contains("REFUSED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_only_read_changes_nothing_and_says_what_to_allow() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let provider = provider_with(&server.address(), |_, keys| {
            keys.update.name = "reader".into();
            keys.transfer.name = "reader".into();
        });
        let wanted = wanted(&*provider, &a_records(50));
        let (_, notes, result) = apply(&*provider, &server.cx(), ZONE, &wanted, &[]).await;
        assert_eq!(notes.counts(), [("failed", 50)].into(), "{kind:?}");
        let outcomes = notes.outcomes.lock().unwrap();
        let error = outcomes.values().next().and_then(Outcome::error).unwrap();
        assert_eq!(error.kind, ErrorKind::PermissionDenied, "{kind:?}: {error}");
        assert!(error.hint.as_ref().unwrap().contains("update"), "{kind:?}");
        // BIND judges each record by itself; the others say that nothing may be written at all.
        assert_eq!(result.is_ok(), kind == Kind::Bind, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_the_server_does_not_know_and_a_wrong_secret_are_told_apart() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let stranger = provider_with(&server.address(), |_, keys| {
            keys.update.name = "stranger".into();
            keys.transfer.name = "stranger".into();
        });
        let error = observe(&*stranger, &server.cx(), ZONE).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::PermissionDenied, "{kind:?}: {error}");
        // PowerDNS does not say what it is about a signature that it does not accept.
        let why = |word: &'static str| if kind == Kind::PowerDns { "NOTAUTH, the signature" } else { word };
        assert!(error.message.contains(why("BADKEY")), "{kind:?}: {error}");
        let wrong = world::cx_now("bm90IHRoZSBzZWNyZXQgb2YgYW55Ym9keSBoZXJlIQ==", 0);
        let error = observe(&*server.provider(), &wrong, ZONE).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::PermissionDenied, "{kind:?}: {error}");
        assert!(error.message.contains(why("BADSIG")), "{kind:?}: {error}");
        // What `check` asks, of which Knot needs a zone.
        let asked = [scope(ZONE)];
        let error = server.provider().versions(&wrong, &asked).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::PermissionDenied, "{kind:?}: {error}");
        assert_eq!(server.provider().versions(&wrong, &[]).await.is_err(), kind != Kind::Knot, "{kind:?}");
        let writer = provider_with(&server.address(), |_, keys| keys.update.name = "stranger".into());
        assert_eq!(writer.versions(&server.cx(), &[]).await.is_err(), kind != Kind::Knot, "{kind:?}");
        assert_eq!(writer.versions(&server.cx(), &asked).await.unwrap().len(), 1, "{kind:?}");
        let error = observe(&*server.provider(), &world::cx_now("no base64!", 0), ZONE).await.unwrap_err();
        assert!(error.message.contains("is not base64") && !error.message.contains("no base64!"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_taken_away_between_two_messages_ends_the_batch_and_accuses_no_record() {
    let server = std::sync::Arc::new(Dnsd::with_example(Kind::Knot).await);
    let (provider, cx, hand) = (server.provider(), server.cx(), server.clone());
    let relay = Relay::to(server.port, vec![Fault::after(move || hand.forget_key())]);
    let through = provider_with(&relay.address, |config, keys| {
        config.max_message = 1_000;
        keys.transfer.name = "reader.".into();
    });
    let hosts = wanted(&*provider, &a_records(100));
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    let batch = plan(&*provider, &cx, ZONE, &hosts, &[], &seen).await;
    let notes = Notes::default();
    let error = through.apply(&cx, &batch, &notes).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::PermissionDenied, "{error}");
    assert!(error.message.contains("BADKEY") && notes.counts().contains_key("done"), "{error}");
    let (_, updates) = relay.counts.questions_and_updates();
    assert_eq!(
        updates, 3,
        "one that is taken, one that is refused, and the question whether it is the records"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_goes_wrong_is_told_as_such() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let provider = server.provider();
        let late = world::cx_now(SECRET, -4_005);
        for error in [
            observe(&*provider, &late, ZONE).await.unwrap_err(),
            provider.versions(&late, &[scope(ZONE)]).await.unwrap_err(),
        ] {
            let (expected, word, hint) = match kind {
                Kind::PowerDns => (ErrorKind::PermissionDenied, "NOTAUTH, the signature", "both clocks"),
                _ => (ErrorKind::Unavailable, "BADTIME, the clock here is 400", "NTP"),
            };
            assert_eq!(error.kind, expected, "{kind:?}: {}", error.chain());
            assert!(error.message.contains(word), "{kind:?}: {error}");
            assert!(error.hint.as_ref().unwrap().contains(hint), "{kind:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_is_not_there_is_an_error_and_never_an_empty_zone() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let error = observe(&*server.provider(), &server.cx(), "missing.example").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{kind:?}: {error}");
        assert!(error.message.contains("zone missing.example is not served by"), "{kind:?}: {error}");
        assert!(error.hint.as_ref().unwrap().contains("never created over DNS"), "{kind:?}");
        let found = server.provider().discover(&server.cx(), ZONE).await.unwrap();
        assert_eq!(found[0].resources.len(), 3, "{kind:?}");
        let error = server.provider().discover(&server.cx(), "*").await.unwrap_err();
        assert!(error.hint.as_ref().unwrap().contains("does not list its zones"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_records_are_a_few_messages_each_after_the_other() {
    for kind in [Kind::Bind, Kind::Knot] {
        let server = Dnsd::with_example(kind).await;
        let (provider, cx) = (server.provider(), server.cx());
        let wanted = wanted(&*provider, &a_records(10_000));
        let (_, notes, result) = apply(&*provider, &cx, ZONE, &wanted, &[]).await;
        result.unwrap();
        assert_eq!(notes.counts(), [("done", 10_000)].into(), "{kind:?}");
        let messages = notes.started.lock().unwrap().len();
        assert!((4..=8).contains(&messages), "{kind:?}: {messages}");
        let seen = observe(&*provider, &cx, ZONE).await.unwrap();
        assert!(diff(&*provider, &cx, ZONE, &wanted, &seen).await.is_empty(), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_message_holds_fails_alone() {
    let server = Dnsd::with_example(Kind::Bind).await;
    let (provider, cx) = (server.provider(), server.cx());
    let mut list = a_records(2);
    let texts: Vec<String> = (0..1_100).map(|i| format!("{i:060}")).collect();
    list.push(format!("{{name: huge, type: TXT, values: [{}]}}", texts.join(", ")));
    let wanted = wanted(&*provider, &list);
    let (batch, notes, result) = apply(&*provider, &cx, ZONE, &wanted, &[]).await;
    result.unwrap();
    assert_eq!(notes.counts(), [("done", 2), ("failed", 1)].into());
    assert!(notes.outcome(&batch, "huge.example.com./TXT").contains("octets"));
}

#[tokio::test(flavor = "multi_thread")]
async fn zones_are_neither_made_nor_deleted() {
    let server = Dnsd::with_example(Kind::Bind).await;
    let (provider, cx) = (server.provider(), server.cx());
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    let zone = desired(&*provider, ZONE, &a_records(1)).remove(0);
    let observed = seen.get(&zone.id).unwrap().clone();
    assert_eq!(zone.spec, Spec::known(observed.bytes.to_vec()), "a declared zone is what is there");
    for op in [
        Op::Create { desired: zone, delta: Default::default() },
        Op::Delete { observed: observed.into(), tracked: None },
    ] {
        let (batch, notes) = (batch(ZONE, &seen, vec![op]), Notes::default());
        provider.apply(&cx, &batch, &notes).await.unwrap();
        let outcome = notes.outcome(&batch, "example.com.");
        assert!(outcome.contains("failed: unsupported: zone example.com. cannot be"), "{outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serials_of_five_hundred_zones_are_a_packet_each() {
    let zones: Vec<String> = (0..500).map(|i| format!("z{i}.example")).collect();
    let server = Dnsd::start(Kind::Knot, &zones).await;
    let scopes: Vec<_> = zones.iter().map(|zone| scope(zone)).collect();
    let versions = server.provider().versions(&server.cx(), &scopes).await.unwrap();
    assert_eq!(versions.len(), 500);
}

#[test]
fn knot_accepts_the_configuration_that_the_docs_show() {
    let docs = include_str!("../../../../docs/dns-rfc2136.md");
    let (_, rest) = docs.split_once("\nKnot:\n\n").unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with("    "));
    let config: String = lines.map(|line| format!("{}\n", &line[4..])).collect();
    assert!(config.contains("domain: example.com"), "{config}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("knot.conf");
    std::fs::write(&file, config.replace('…', SECRET)).unwrap();
    let output = std::process::Command::new("knotc")
        .env("PATH", "/usr/sbin:/usr/local/sbin:/sbin:/usr/bin:/bin")
        .arg("-c")
        .arg(&file)
        .arg("conf-check")
        .output()
        .expect("cannot run knotc: install knot");
    assert!(output.status.success(), "{output:?}\n{config}");
}
