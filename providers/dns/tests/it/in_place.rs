//! What takes the place of something else by dynamic updates: a CNAME and other data, the SOA and NS of a zone.

use crate::{
    dnsd::{Dnsd, KINDS, Kind, provider_with},
    relay::{Fault, Relay},
    rfc2136::{records, settle, wanted},
    world::{Notes, apply, batch, converge, diff, observe, plan},
};
use reconciled_provider::{ErrorKind, Op, Outcome, Resource};
use std::sync::Arc;

const ZONE: &str = "example.com";

/// An address, and the CNAME that takes its place.
const ADDRESS: &str = "name: x, type: A, values: [192.0.2.1]";
const CNAME: &str = "name: x, type: CNAME, values: [a.example.org.]";

#[tokio::test(flavor = "multi_thread")]
async fn a_cname_takes_the_place_of_an_address_and_back_in_one_message() {
    for kind in KINDS.into_iter().chain([Kind::KnotSigned]) {
        let server = Dnsd::with_example(kind).await;
        let (provider, cx) = (server.provider(), server.cx());
        let cname = wanted(&*provider, &records(&[CNAME]));
        let address = wanted(&*provider, &records(&[ADDRESS]));
        converge(&*provider, &cx, ZONE, &cname, &[]).await;
        for (wanted, gone) in [(&address, "x.example.com./CNAME"), (&cname, "x.example.com./A")] {
            let (_, notes, result) = apply(&*provider, &cx, ZONE, wanted, &[gone]).await;
            result.unwrap();
            assert_eq!(notes.started.lock().unwrap().len(), 1, "{kind:?}: one message");
            let seen = observe(&*provider, &cx, ZONE).await.unwrap();
            assert!(seen.get(&gone.into()).is_none() && seen.get(&wanted[0].id).is_some(), "{kind:?}");
        }
        // One CNAME takes the place of another.
        for record in ["ttl: 300, values: [b.example.org.]", "ttl: 60, values: [b.example.org.]"] {
            let other = wanted(&*provider, &records(&[&format!("name: x, type: CNAME, {record}")]));
            converge(&*provider, &cx, ZONE, &other, &[]).await;
            let seen = observe(&*provider, &cx, ZONE).await.unwrap();
            let hash = seen.get(&other[0].id).map(|observed| observed.hash);
            assert_eq!(hash, other[0].spec.hash(), "{kind:?}: {record}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_has_beside_a_cname_stays_when_that_changes() {
    let server = Dnsd::with_example(Kind::Bind).await;
    let (provider, cx) = (server.provider(), server.cx());
    let cname = |host: &str| {
        let record = format!("name: x, type: CNAME, values: [{host}.example.org.]");
        wanted(&*provider, &records(&[&record]))
    };
    converge(&*provider, &cx, ZONE, &cname("a"), &[]).await;
    // RFC 2535 §2.3.5.
    server.change(ZONE, "update add x.example.com. 300 KEY 512 3 8 AQ==");
    converge(&*provider, &cx, ZONE, &cname("b"), &[]).await;
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    assert!(seen.get(&"x.example.com./KEY".into()).is_some(), "{seen:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_stays_where_something_came_beside_it_in_a_zone_that_is_compared_by_sets() {
    let server = Dnsd::with_example(Kind::BindSigned).await;
    let (provider, cx) = (server.provider(), server.cx());
    settle(&*provider, &cx, &wanted(&*provider, &records(&[ADDRESS])), &[]).await;
    let list = records(&[CNAME, "name: y, type: CNAME, values: [a.example.org.]"]);
    let cnames = wanted(&*provider, &list);
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    let batch = plan(&*provider, &cx, ZONE, &cnames, &["x.example.com./A"], &seen).await;
    // No manifest declares the first of these.
    server.change(ZONE, "update add x.example.com. 60 HINFO a b\nupdate add y.example.com. 60 TXT b");
    let notes = Notes::default();
    let error = provider.apply(&cx, &batch, &notes).await.unwrap_err();
    assert_eq!((error.kind, notes.counts()), (ErrorKind::Conflict, [("failed", 3)].into()), "{error}");
    // What is served is behind: with the next change in it, it has all before that.
    settle(&*provider, &cx, &wanted(&*provider, &records(&["name: z, type: TXT, values: [z]"])), &[]).await;
    let seen = observe(&*provider, &cx, ZONE).await.unwrap();
    assert!(seen.get(&"x.example.com./A".into()).is_some(), "{seen:#?}");
    // Where only what goes is there, it goes.
    server.change(ZONE, "update delete x.example.com. HINFO");
    settle(&*provider, &cx, &cnames[..1], &["x.example.com./A"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_switched_off_at_powerdns_stays_where_a_cname_takes_the_place_of_an_address() {
    let server = Dnsd::with_example(Kind::PowerDns).await;
    let (provider, cx) = (server.provider(), server.cx());
    // With a name below it, the name is still one when its address is gone.
    let below = "name: b.x, type: A, values: [192.0.2.2]";
    converge(&*provider, &cx, ZONE, &wanted(&*provider, &records(&[ADDRESS, below])), &[]).await;
    let row = "domain_id, name, type, content, ttl, auth, disabled";
    server.sql(&format!(
        "INSERT INTO records ({row}) VALUES (1, 'x.example.com', 'TXT', '\"theirs\"', 300, 1, 1)"
    ));
    let after = wanted(&*provider, &records(&[CNAME, below]));
    converge(&*provider, &cx, ZONE, &after, &["x.example.com./A"]).await;
    let rows = server.sql("SELECT type, disabled FROM records WHERE name = 'x.example.com' ORDER BY type");
    assert_eq!(rows, "CNAME|0\nTXT|1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_types_at_knot_needs_any_for_a_cname_in_a_zone_that_is_signed_and_nothing_else_fails() {
    for (kind, is_signed) in [(Kind::Knot, false), (Kind::KnotSigned, true)] {
        let server = Dnsd::with_example(kind).await;
        let (all, cx) = (server.provider(), server.cx());
        converge(&*all, &cx, ZONE, &wanted(&*all, &records(&[ADDRESS])), &[]).await;
        let typed = provider_with(&server.address(), |_, keys| keys.update.name = "typed.".into());
        let list = records(&[
            CNAME,
            "name: y, type: A, values: [192.0.2.2]",
            "name: z, type: AAAA, values: ['2001:db8::1']",
        ]);
        let after = wanted(&*typed, &list);
        let (batch, notes, result) = apply(&*typed, &cx, ZONE, &after, &["x.example.com./A"]).await;
        result.unwrap();
        assert_eq!(notes.outcome(&batch, "y.example.com./A"), "done", "{kind:?}");
        let told = |id: &str| notes.outcome(&batch, id);
        let is_told = |told: String| told.starts_with("failed: permission-denied") && told.contains("BADKEY");
        assert!(is_told(told("z.example.com./AAAA")), "{kind:?}: {}", told("z.example.com./AAAA"));
        let cname = told("x.example.com./CNAME");
        match is_signed {
            false => assert_eq!((&*cname, &*told("x.example.com./A")), ("done", "gone")),
            true => assert!(is_told(cname.clone()) && is_told(told("x.example.com./A")), "{cname}"),
        }
        let outcomes = notes.outcomes.lock().unwrap();
        let hints = outcomes.values().filter_map(|outcome| outcome.error()?.hint.clone());
        assert_eq!(
            hints.filter(|hint| hint.contains("`update-type` needs ANY")).count(),
            2 * usize::from(is_signed),
            "the half that goes says it as the half that comes does"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cname_that_is_not_there_right_behind_its_message_is_not_said_to_be_done() {
    for kind in KINDS {
        let server = Arc::new(Dnsd::with_example(kind).await);
        let (provider, cx, hand) = (server.provider(), server.cx(), server.clone());
        converge(&*provider, &cx, ZONE, &wanted(&*provider, &records(&[ADDRESS])), &[]).await;
        let takes = move || hand.change(ZONE, "update delete x.example.com. CNAME");
        // The first question is whether signatures are kept.
        let relay = Relay::to(server.port, vec![Fault::Pass, Fault::after(takes)]);
        let through = provider_with(&relay.address, |_, _| {});
        let cname = wanted(&*through, &records(&[CNAME]));
        let seen = observe(&*provider, &cx, ZONE).await.unwrap();
        let batch = plan(&*provider, &cx, ZONE, &cname, &["x.example.com./A"], &seen).await;
        let notes = Notes::default();
        through.apply(&cx, &batch, &notes).await.unwrap();
        assert_eq!(notes.outcome(&batch, "x.example.com./A"), "gone", "{kind:?}");
        let outcomes = notes.outcomes.lock().unwrap().clone();
        let error = outcomes.values().find_map(Outcome::error).unwrap();
        assert_eq!(error.kind, ErrorKind::Conflict, "{kind:?}: {error}");
        assert!(notes.outcome(&batch, "x.example.com./CNAME").starts_with("unknown"), "{kind:?}: {error}");
        let seen = observe(&*through, &cx, ZONE).await.unwrap();
        assert!(diff(&*through, &cx, ZONE, &cname, &seen).await.is_empty(), "{kind:?}");
        converge(&*through, &cx, ZONE, &cname, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_lost_at_the_question_for_signatures_keeps_nothing_from_being_written() {
    // Asked once more it tells, and who never does is taken to keep none.
    for (kind, losses) in [(Kind::KnotSigned, 1), (Kind::Bind, 2)] {
        let server = Dnsd::with_example(kind).await;
        let (provider, cx) = (server.provider(), server.cx());
        converge(&*provider, &cx, ZONE, &wanted(&*provider, &records(&[ADDRESS])), &[]).await;
        let relay = Relay::to(server.port, vec![Fault::LoseAnswer; losses]);
        let through = provider_with(&relay.address, |_, _| {});
        let cname = wanted(&*through, &records(&[CNAME]));
        let seen = observe(&*provider, &cx, ZONE).await.unwrap();
        let batch = plan(&*provider, &cx, ZONE, &cname, &["x.example.com./A"], &seen).await;
        let notes = Notes::default();
        through.apply(&cx, &batch, &notes).await.unwrap();
        assert_eq!(notes.outcome(&batch, "x.example.com./CNAME"), "done", "{kind:?}");
        let (_, connections, _) = relay.counts.all();
        assert_eq!(connections, losses + 1, "{kind:?}: another one for each that was lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_apex_is_changed_in_place_and_kept() {
    for kind in KINDS {
        let server = Dnsd::with_example(kind).await;
        let (provider, cx) = (server.provider(), server.cx());
        let apex = |ns: &str, ttl: u32, refresh: u32| {
            let mut list = vec![
                format!(r#"name: "@", type: NS, values: [{ns}], ttl: {ttl}"#),
                format!(
                    r#"name: "@", type: SOA, ttl: 3600, values: [ns9.example.net. hostmaster.example.net. {refresh} 3600 604800 300]"#
                ),
            ];
            // It stores a SOA that came by an update in a form that no prerequisite matches afterwards.
            list.truncate(if kind == Kind::PowerDns { 1 } else { 2 });
            records(&list.iter().map(String::as_str).collect::<Vec<_>>())
        };
        for (ns, ttl, refresh) in [
            ("ns1.example.net., ns2.example.net.", 3600, 10_800),
            ("ns1.example.net., ns2.example.net.", 300, 10_800),
            ("ns1.example.net., ns2.example.net., ns4.example.net.", 600, 10_800),
            ("ns3.example.net.", 3600, 7_200),
            ("ns3.example.net.", 60, 7_200),
        ] {
            let wanted = wanted(&*provider, &apex(ns, ttl, refresh));
            converge(&*provider, &cx, ZONE, &wanted, &[]).await;
            let seen = observe(&*provider, &cx, ZONE).await.unwrap();
            let is_there =
                |one: &&Resource| seen.get(&one.id).map(|observed| observed.hash) == one.spec.hash();
            let missing: Vec<&Resource> = wanted.iter().filter(|one| !is_there(one)).collect();
            // It ignores a change of the TTL alone of the only one.
            let is_ignored = kind == Kind::Knot && (ns, ttl) == ("ns3.example.net.", 60);
            assert_eq!(missing.is_empty(), !is_ignored, "{kind:?}, {ns} {ttl}: {missing:?}");
        }
        let seen = observe(&*provider, &cx, ZONE).await.unwrap();
        let observed = seen.get(&"example.com./NS".into()).unwrap().clone();
        let notes = Notes::default();
        let batch = batch(ZONE, &seen, vec![Op::Delete { observed: observed.into(), tracked: None }]);
        provider.apply(&cx, &batch, &notes).await.unwrap();
        let outcome = notes.outcome(&batch, "example.com./NS");
        assert!(outcome.contains("unsupported") && outcome.contains("keeps its SOA and NS"), "{outcome}");
    }
}
