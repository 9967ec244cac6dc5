//! What takes the place of something else by dynamic updates: a CNAME and other data, the SOA and NS of a zone.

use crate::{
    dnsd::{Dnsd, KINDS, Kind},
    rfc2136::{records, wanted},
    world::{Notes, apply, batch, converge, observe},
};
use reconciled_provider::{Op, Resource};

const ZONE: &str = "example.com";

#[tokio::test(flavor = "multi_thread")]
async fn a_cname_takes_the_place_of_an_address_and_back_in_one_message() {
    for kind in KINDS.into_iter().chain([Kind::KnotSigned]) {
        let server = Dnsd::with_example(kind).await;
        let (provider, cx) = (server.provider(), server.cx());
        let cname = wanted(&*provider, &records(&["name: x, type: CNAME, values: [a.example.org.]"]));
        let address = wanted(&*provider, &records(&["name: x, type: A, values: [192.0.2.1]"]));
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
