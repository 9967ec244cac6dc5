use super::*;

const EXTERNAL: &str = "\"heritage=external-dns,external-dns/owner=k8s,external-dns/resource=ingress/a/b\"";

fn zone(sets: &[(&str, &str)]) -> Vec<Observed> {
    let mut resources: Vec<Observed> = sets
        .iter()
        .map(|(id, value)| Observed::new((*id).into(), format!("300\n{value}").into_bytes()))
        .collect();
    resources.sort_by(|a, b| a.id.cmp(&b.id));
    resources
}

fn reader<'a>(own: Option<&'a Naming>, foreign: Option<&'a Naming>) -> Reader<'a> {
    Reader { instance: "dns1", own, foreign, keys: Vec::new() }
}

/// Who owns what: `NAME/TYPE` to owner, for what has one.
fn owners(reader: &Reader<'_>, sets: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut resources = zone(sets);
    reader.read(&resources).assign(&mut resources);
    let owner = |o: &Observed| match &o.owner {
        Owner::Other(owner) => Some(owner.to_string()),
        Owner::Ours => Some("ours".into()),
        Owner::System => Some("bookkeeping".into()),
        Owner::Unmarked => None,
    };
    resources.iter().filter_map(|o| Some((o.id.to_string(), owner(o)?))).collect()
}

fn check_with(foreign: Option<&Naming>, mark: &str, target: &str, is_marked: bool) {
    let beside = ("other.ex.com./A", "y");
    let found = owners(&reader(None, foreign), &[(mark, EXTERNAL), (target, "x"), beside]);
    assert_eq!(
        found.get(target).map(String::as_str),
        is_marked.then_some("externaldns/k8s"),
        "{mark} {target}"
    );
    assert_eq!(found.get(mark).map(String::as_str), Some("externaldns/k8s"), "{mark}");
    assert_eq!(found.get("other.ex.com./A"), None, "{mark}");
}

fn check(mark: &str, target: &str) {
    check_with(None, mark, target, true);
}

#[test]
fn marks_are_understood_though_nobody_said_how_they_are_named() {
    check("a-www.ex.com./TXT", "www.ex.com./A");
    check("aaaa-www.ex.com./TXT", "www.ex.com./AAAA");
    check("foo.cname-www.ex.com./TXT", "www.ex.com./CNAME");
    check("extdns-a-www.ex.com./TXT", "www.ex.com./A");
    check("extdns-www.ex.com./TXT", "www.ex.com./A");
    check("cname-abc-.www.ex.com./TXT", "www.ex.com./CNAME");
    check("a-abc-.ex.com./TXT", "ex.com./A");
    check("a-www-sfx.ex.com./TXT", "www.ex.com./A");
    check("www-a-sfx.ex.com./TXT", "www.ex.com./A");
    check("a-my-www-sfx.ex.com./TXT", "my-www.ex.com./A");
    check("www.ex.com./TXT", "www.ex.com./A");
    check("www.ex.com./TXT", "www.ex.com./MX");
    check("ex.com./TXT", "ex.com./A");
    check("cname-www.ex.com./TXT", "www.ex.com./A");
    check("a-a-www.ex.com./TXT", "a-www.ex.com./A");
    check("a-any.b.ex.com./TXT", "any.b.ex.com./A");
}

#[test]
fn a_mark_of_ours_is_left_where_its_record_is_gone_and_nowhere_else() {
    let own = Naming::new("own-", "", "").unwrap();
    let ours =
        "\"heritage=external-dns,external-dns/owner=dns1,external-dns/resource=reconciled/zone/ex.com\"";
    // Nobody has the record either, whatever stands at its name by now.
    let is_left = |mark: (&str, &str), beside: &str| {
        let mut resources = zone(&[mark, (beside, "x")]);
        let marks = reader(Some(&own), None).read(&resources);
        marks.assign(&mut resources);
        let owner = resources.iter().find(|observed| &*observed.id.0 == beside).unwrap().owner.clone();
        let is_left = marks.left_at(&mark.0.into()).is_some();
        assert_eq!(owner == Owner::Unmarked, is_left || mark.1 != ours, "{mark:?} {beside}");
        is_left
    };
    let mark = ("own-a-www.ex.com./TXT", ours);
    assert!(!is_left(mark, "www.ex.com./A"));
    assert!(is_left(mark, "www.ex.com./AAAA"));
    // It looks as if it were the mark of this.
    assert!(is_left(mark, "a-www.ex.com./A"));
    // An ExternalDNS would say so of these; ours has the word of its type.
    assert!(is_left(mark, "www.ex.com./ALIAS"));
    let alias = ("own-cname-www.ex.com./TXT", ours);
    assert!(!is_left(alias, "www.ex.com./CNAME"));
    for kind in ["A", "AAAA", "ALIAS"] {
        assert!(is_left(alias, &format!("www.ex.com./{kind}")), "{kind}");
    }
    let noted = format!("{ours}\n\"note\"");
    assert!(!is_left(("own-a-www.ex.com./TXT", noted.as_str()), "x.ex.com./A"), "the rest would go with it");
    assert!(!is_left(("own-a-x.ex.com./TXT", EXTERNAL), "www.ex.com./A"));
}

#[test]
fn a_mark_of_ours_that_is_named_as_before_is_of_a_record_of_its_type_alone() {
    let own = Naming::new("own-", "", "").unwrap();
    let ours = format!("\"{}\"", label::write("dns1", "ex.com."));
    let is_ours = |mark: &str, record: &str| {
        let found = owners(&reader(Some(&own), None), &[(mark, ours.as_str()), (record, "x")]);
        found.get(record).map(String::as_str) == Some("ours")
    };
    for (mark, kind) in [
        ("old-a-www", "A"),
        ("cname-www", "CNAME"),
        ("old-cname-www", "CNAME"),
        ("old-caa-www", "CAA"),
        ("a.old.www", "A"),
        ("aaaa-www-old", "AAAA"),
    ] {
        for seen in ["A", "AAAA", "ALIAS", "CAA", "CNAME", "MX"] {
            let (mark, record) = (format!("{mark}.ex.com./TXT"), format!("www.ex.com./{seen}"));
            assert_eq!(is_ours(&mark, &record), seen == kind, "{mark} {record}");
        }
    }
}

#[test]
fn what_a_mark_is_not_of_is_left_as_it_is() {
    let no = |mark: &str, target: &str| check_with(None, mark, target, false);
    no("a-www.ex.com./TXT", "www.ex.com./AAAA");
    no("a-www.ex.com./TXT", "a-www.ex.com./A");
    no("www.ex.com./TXT", "www.ex.com./AAAA");
    no("a-www.ex.com./TXT", "a.ex.com./A");
    no("a-www.ex.com./TXT", "ww.ex.com./A");
}

#[test]
fn what_the_host_says_of_their_names_is_exact() {
    let of = |prefix: &str, suffix: &str, wildcard: &str| Naming::new(prefix, suffix, wildcard).unwrap();
    let check = |naming: &Naming, mark: &str, target: &str, is_marked| {
        check_with(Some(naming), mark, target, is_marked);
    };
    let prefixed = of("extdns-", "", "any");
    check(&prefixed, "extdns-a-www.ex.com./TXT", "www.ex.com./A", true);
    check(&prefixed, "extdns-www.ex.com./TXT", "www.ex.com./CNAME", true);
    check(&prefixed, "extdns-a-any.ex.com./TXT", "*.ex.com./A", true);
    check(&prefixed, "a-www.ex.com./TXT", "www.ex.com./A", false);
    let suffixed = of("", "-%{record_type}.owner", "");
    check(&suffixed, "www-a.owner.ex.com./TXT", "www.ex.com./A", true);
    check(&suffixed, "www-cname.owner.ex.com./TXT", "www.ex.com./A", true);
    check(&suffixed, "www-a.owner.ex.com./TXT", "www.ex.com./MX", false);
}

#[test]
fn octodns_marks_name_and_type() {
    let mark = "\"*octodns*\"";
    let found = owners(
        &reader(None, None),
        &[
            ("_owner.a.www.ex.com./TXT", mark),
            ("_owner.mx.ex.com./TXT", mark),
            ("_owner.a._wildcard.ex.com./TXT", mark),
            ("www.ex.com./A", "x"),
            ("*.ex.com./A", "x"),
            ("ex.com./MX", "x"),
            ("www.ex.com./AAAA", "x"),
            ("octo.ex.com./TXT", mark),
        ],
    );
    assert!(found.values().all(|owner| owner == "octodns") && found.len() == 6, "{found:?}");
    for (name, kind) in [("www.ex.com.", "A"), ("*.ex.com.", "MX")] {
        assert_eq!(octodns_target(&octodns_place(name, kind)), Some(record::id(name, kind)));
    }
}

#[test]
fn a_sealed_mark_is_somebodys_with_or_without_its_key() {
    let key = || SealKey::of([9; 32]);
    let text = "heritage=external-dns,external-dns/owner=k8s,external-dns/resource=ingress/a/b";
    let sealed = format!("\"{}\"", key().seal("a-www.ex.com.", text).unwrap());
    let sets = [
        ("a-www.ex.com./TXT", sealed.as_str()),
        ("www.ex.com./A", "x"),
        ("token.ex.com./TXT", sealed.as_str()),
    ];
    let blind = owners(&reader(None, None), &sets);
    assert_eq!(blind["www.ex.com./A"], "externaldns/encrypted");
    assert_eq!(blind["a-www.ex.com./TXT"], "externaldns/encrypted");
    assert_eq!(blind.get("token.ex.com./TXT"), None, "a text that looks sealed elsewhere is a text");
    let keyed = owners(&Reader { keys: vec![key()], ..reader(None, None) }, &sets);
    assert_eq!(keyed["www.ex.com./A"], "externaldns/k8s");
    assert_eq!(keyed["token.ex.com./TXT"], "externaldns/k8s");
}

#[test]
fn what_an_earlier_key_sealed_is_ours_while_that_key_is_known() {
    let (own, earlier) = (Naming::new("", "", "any").unwrap(), || SealKey::of([9; 32]));
    let sealed = earlier().seal("a-www.ex.com.", &label::write("dns1", "ex.com.")).unwrap();
    let sealed = format!("\"{sealed}\"");
    let sets = [("a-www.ex.com./TXT", sealed.as_str()), ("www.ex.com./A", "x")];
    let owner = |keys| {
        let reader = Reader { keys, ..reader(Some(&own), Some(&own)) };
        owners(&reader, &sets)["www.ex.com./A"].clone()
    };
    assert_eq!(owner(vec![SealKey::of([7; 32])]), "externaldns/encrypted");
    assert_eq!(owner(vec![SealKey::of([7; 32]), earlier()]), "ours");
}

#[test]
fn our_marks_make_records_ours_and_are_bookkeeping_themselves() {
    let own = Naming::new("", "", "any").unwrap();
    let ours = format!("\"{}\"", label::write("dns1", "ex.com."));
    let theirs = format!("\"{}\"", label::write("dns2", "ex.com."));
    let sets = [
        ("caa-www.ex.com./TXT", ours.as_str()),
        ("www.ex.com./CAA", "x"),
        ("a-any.ex.com./TXT", &ours),
        ("*.ex.com./A", "x"),
        ("a-api.ex.com./TXT", &theirs),
        ("api.ex.com./A", "x"),
        ("a-gone.ex.com./TXT", &ours),
        ("a-both.ex.com./TXT", &format!("{ours}\n{EXTERNAL}")),
        ("both.ex.com./A", "x"),
    ];
    let found = owners(&reader(Some(&own), None), &sets);
    let of = |id: &str| found.get(id).map(String::as_str);
    assert_eq!(of("www.ex.com./CAA"), Some("ours"));
    assert_eq!(of("*.ex.com./A"), Some("ours"));
    assert_eq!(of("caa-www.ex.com./TXT"), Some("bookkeeping"));
    assert_eq!(of("a-gone.ex.com./TXT"), Some("bookkeeping"));
    assert_eq!((of("api.ex.com./A"), of("a-api.ex.com./TXT")), (Some("dns2"), Some("dns2")));
    assert_eq!(of("both.ex.com./A"), Some("externaldns/k8s"), "another's mark outweighs ours");
}

#[test]
fn other_texts_and_disabled_marks_mark_nothing() {
    let found = owners(
        &reader(None, None),
        &[
            ("a-www.ex.com./TXT", "\"v=spf1 -all\""),
            ("aaaa-www.ex.com./TXT", &format!("{DISABLED}{EXTERNAL}")),
            ("www.ex.com./A", "x"),
            ("www.ex.com./AAAA", "x"),
        ],
    );
    assert_eq!(found, BTreeMap::new());
}

#[test]
fn a_mark_of_another_outweighs_what_a_backend_found_to_be_ours() {
    let check = |sets: &[(&str, &str)], ours: &[&str], theirs: &[&str]| {
        let mut resources = zone(sets);
        for observed in resources.iter_mut().filter(|observed| ours.contains(&&*observed.id.0)) {
            observed.owner = Owner::Ours;
        }
        reader(None, None).read(&resources).assign(&mut resources);
        let other = Owner::Other("externaldns/k8s".into());
        let records = resources.iter().filter(|observed| !observed.id.0.ends_with("/TXT"));
        let found: Vec<&str> = records.filter(|o| o.owner == other).map(|o| &*o.id.0).collect();
        assert_eq!(found, theirs, "{sets:?}");
    };
    let (a, mx) = (("www.ex.com./A", "x"), ("www.ex.com./MX", "x"));
    let (typed, untyped) = (("a-www.ex.com./TXT", EXTERNAL), ("www.ex.com./TXT", EXTERNAL));
    let both = ["www.ex.com./A", "www.ex.com./MX"];
    check(&[typed, a, mx], &both, &["www.ex.com./A"]);
    // What names no type is of what bears no mark of ours, where there is such a record.
    check(&[untyped, a, mx], &["www.ex.com./MX"], &["www.ex.com./A"]);
    check(&[untyped, a, mx], &both, &both);
    // So a takeover of that one waits for no other.
    let mut resources = zone(&[untyped, a, mx]);
    let is_mx = |observed: &&mut Observed| *observed.id.0 == *both[1];
    resources.iter_mut().find(is_mx).unwrap().owner = Owner::Ours;
    let marks = reader(None, None).read(&resources);
    let of: Vec<_> = marks.within(&"www.ex.com./TXT".into()).map(|mark| mark.of.clone()).collect();
    assert_eq!(of, [[ResourceId::from(both[0])]]);
}

#[test]
fn a_set_in_which_a_mark_stands_is_told_from_others() {
    let check = |id: &str, values: &str, expect: bool| {
        assert_eq!(has_marks(&zone(&[(id, values)])[0], "dns1"), expect, "{id} {values}");
    };
    check("www.ex.com./TXT", &format!("{EXTERNAL}\n\"v=spf1 -all\""), true);
    check("_owner.a.www.ex.com./TXT", OCTODNS_MARK, true);
    check("www.ex.com./TXT", "\"v=spf1 -all\"", false);
    check("www.ex.com./MX", "10 a.ex.com.", false);
}
