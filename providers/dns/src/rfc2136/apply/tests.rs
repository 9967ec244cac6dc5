use super::*;
use hickory_proto::rr::{DNSClass, RecordType};
use reconciled_provider::{Origin, PolicyId, Resource, Spec, Version};
use std::sync::Arc;

fn create(id: &str, content: &[u8]) -> Op {
    let scope = Arc::new(Scope::new("bind", "example.com"));
    let origin = Origin { manifest: 0, line: 1 };
    let spec = Spec::known(content.to_vec());
    let desired = Resource::new(id.into(), scope, spec, origin, PolicyId::default());
    Op::Create { desired, delta: Default::default() }
}

fn planned(ops: Vec<Op>) -> Batch {
    let action = |(i, op): (usize, Op)| Action { id: ActionId(i as u64), token: "t".into(), op };
    let actions = ops.into_iter().enumerate().map(action).collect();
    Batch { scope: Scope::new("bind", "example.com"), base: Version::Unknown, actions }
}

#[test]
fn a_name_server_of_the_zone_that_only_gets_another_ttl_is_not_removed() {
    let Op::Create { desired, delta } = create("example.com./NS", b"300\nns1.example.net.\nns2.example.net.")
    else {
        unreachable!()
    };
    let before = b"60\n(ttl 3600) ns1.example.net.\n(ttl 3600) ns3.example.net.\nns2.example.net.";
    let observed = Observed::new("example.com./NS".into(), before);
    let op = Op::Update { desired, delta, observed: observed.into(), tracked: None };
    let action = Action { id: ActionId(1), token: "t".into(), op };
    let changes = changes(&action, "example.com.", ("example.com.", "NS"), 1, false).unwrap();
    assert_eq!((changes.deletes.len(), changes.adds.len(), changes.removes.len()), (0, 2, 1));
    let mut expected = Changes::default();
    let set = Set::new("example.com.", "NS").unwrap();
    set.remove("NS", "ns3.example.net.", &mut expected).unwrap();
    assert_eq!(changes.removes, expected.removes);
}

#[test]
fn name_servers_of_the_zone_that_all_stay_are_added_anew_unless_it_is_one() {
    let check = |before: &str, after: &[u8], added: &[&str]| {
        let Op::Create { desired, delta } = create("example.com./NS", after) else { unreachable!() };
        let observed = Observed::new("example.com./NS".into(), before.as_bytes());
        let op = Op::Update { desired, delta, observed: observed.into(), tracked: None };
        let action = Action { id: ActionId(1), token: "t".into(), op };
        let changes = changes(&action, "example.com.", ("example.com.", "NS"), 1, false).unwrap();
        let told = |record: &Record| format!("{:?} {}", record.dns_class, record.ttl);
        let told: Vec<String> = changes.adds.iter().map(told).collect();
        assert_eq!(
            (told.iter().map(String::as_str).collect::<Vec<_>>(), changes.removes.len()),
            (added.to_vec(), 0)
        );
    };
    let both = b"60\nns1.example.net.\nns2.example.net.";
    let (gone, new) = ("NONE 0", "IN 60");
    check("300\nns1.example.net.\nns2.example.net.", both, &[gone, new, gone, new]);
    // All of them: PowerDNS would leave out what is taken out beside others that are not.
    check("60\n(ttl 300) ns1.example.net.\nns2.example.net.", both, &[gone, new, gone, new]);
    check("300\nns1.example.net.", both, &[new, new]);
    check("300\nns1.example.net.", b"60\nns1.example.net.", &[new]);
}

#[test]
fn before_a_cname_takes_the_place_of_other_data_all_at_its_name_goes_where_signatures_are_kept() {
    let check = |before: &str, is_cname_there: bool, by_sets: bool, expected: [&[RecordType]; 2]| {
        let Op::Create { desired, delta } = create("x.example.com./CNAME", b"300\na.example.net.") else {
            unreachable!()
        };
        let observed = Observed::new(before.into(), b"300\nb.example.net.");
        let observed = Arc::new(observed);
        let ops = match is_cname_there {
            true => vec![Op::Update { desired, delta, observed, tracked: None }],
            false => vec![Op::Delete { observed, tracked: None }, Op::Create { desired, delta }],
        };
        let batch = planned(ops);
        let work = work(&batch, "example.com.", 1, by_sets, 65_535);
        let units: Vec<Unit<'_, Changes>> = work.units.into();
        let sent = [false, true].map(|keeps_signatures| {
            let records = records(&units, keeps_signatures);
            let deletes = records.iter().filter(|record| record.dns_class == DNSClass::ANY);
            deletes.map(Record::record_type).collect::<Vec<_>>()
        });
        assert_eq!(sent, expected, "{before} {by_sets}");
    };
    check("x.example.com./NS", false, false, [&[RecordType::NS], &[RecordType::NS, RecordType::ANY]]);
    // Of this it is not known that nothing else is there.
    check("x.example.com./NS", false, true, [&[RecordType::NS]; 2]);
    // Somebody may have a KEY beside it, which stays.
    check("x.example.com./CNAME", true, false, [&[]; 2]);
    check("x.example.com./CNAME", true, true, [&[]; 2]);
}

#[test]
fn where_sets_are_compared_a_cname_comes_only_where_nothing_else_is() {
    let cname = || create("x.example.com./CNAME", b"300\na.example.net.");
    let needs = |ops: Vec<Op>| {
        let batch = planned(ops);
        let work = work(&batch, "example.com.", 1, true, 65_535);
        let needs = work.units.iter().flatten().flat_map(|item| &item.takes.needs);
        let absent = needs.filter(|record| record.dns_class == DNSClass::NONE);
        absent.map(Record::record_type).collect::<HashSet<_>>()
    };
    assert_eq!(needs(vec![cname()]), HashSet::from([RecordType::CNAME, RecordType::ANY]));
    let address = Observed::new("x.example.com./A".into(), b"300\n192.0.2.1");
    let swap = needs(vec![Op::Delete { observed: address.into(), tracked: None }, cname()]);
    let declarable = Type::all().filter_map(Type::number).map(RecordType::from);
    assert!(declarable.filter(|kind| *kind != RecordType::A).all(|kind| swap.contains(&kind)), "{swap:?}");
    assert!(swap.contains(&RecordType::HINFO) && swap.contains(&RecordType::CERT), "{swap:?}");
    // What goes, and what may be beside a CNAME.
    for kind in [RecordType::A, RecordType::KEY, RecordType::RRSIG, RecordType::NSEC] {
        assert!(!swap.contains(&kind), "{kind:?} {swap:?}");
    }
}

#[test]
fn what_somebody_put_where_a_cname_shall_come_does_not_go_with_what_was_there() {
    let seen = |id: &str| Observed::new(id.into(), b"300\n192.0.2.1");
    let gone = Op::Delete { observed: seen("x.example.com./A").into(), tracked: None };
    let batch = planned(vec![gone, create("x.example.com./CNAME", b"300\na.example.net.")]);
    let units: Vec<Unit<'_, Changes>> = work(&batch, "example.com.", 1, false, 65_535).units.into();
    let ended = |now: &[&str]| {
        let now: Vec<Observed> = now.iter().map(|id| seen(id)).collect();
        let kind = |outcome: &Outcome| outcome.error().map(|error| error.kind);
        let ended = changed_by_others(&units, &now);
        ended.iter().map(|(id, outcome)| (id.0, kind(outcome))).collect::<Vec<_>>()
    };
    assert!(ended(&["w.example.com./TXT", "x.example.com./A", "xx.example.com./TXT"]).is_empty());
    let conflict = Some(ErrorKind::Conflict);
    let both = [(0, conflict), (1, conflict)];
    assert_eq!(ended(&["x.example.com./A", "x.example.com./TXT"]), both);
}

#[test]
fn half_a_swap_is_held_back_and_what_else_is_at_the_name_of_a_refusal_is_not() {
    let cname = Observed::new("x.example.com./CNAME".into(), b"300\na.example.net.");
    let ops = vec![
        Op::Delete { observed: cname.into(), tracked: None },
        create("x.example.com./ALIAS", b"300\nb.example.net."),
        create("y.example.com./A", b"300\n192.0.2.1"),
        create("y.example.com./ALIAS", b"300\nb.example.net."),
    ];
    let batch = planned(ops);
    let work = work(&batch, "example.com.", 1, false, 65_535);
    let sent: Vec<u64> = work.units.iter().flatten().map(|item| item.action.id.0).collect();
    let mut settled: Vec<u64> = work.settled.iter().map(|(id, _)| id.0).collect();
    settled.sort_unstable();
    assert_eq!((sent, settled), (vec![2], vec![0, 1, 3]));
    let held =
        work.settled.iter().find(|(id, _)| id.0 == 0).and_then(|(_, outcome)| outcome.error()).unwrap();
    assert!(held.message.contains("x.example.com./CNAME is held back"), "{held}");
}
