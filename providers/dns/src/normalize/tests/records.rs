//! Records of zones and record sets.

use super::*;

/// Expects exactly one problem, at the `^` of `record` and with each of `parts`, beside one good record and
/// the zone; `stands` when the record itself is left nevertheless.
fn refuse(record: &str, parts: &[&str], stands: bool) {
    let column = record.find('^').unwrap() + 7;
    let record = record.replacen('^', "", 1);
    let good = "    - {name: ok, type: A, values: [192.0.2.9]}\n";
    let out = normalized(&zone_text(&format!("{good}    - {record}\n")));
    let told = told(&out.problems);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].starts_with(&format!("6:{column} ")), "{column}: {told:#?}");
    for part in parts {
        assert!(told[0].contains(part), "{part}: {told:#?}");
    }
    assert_eq!(out.resources.len(), 2 + usize::from(stands), "{:?}", out.resources);
}

#[test]
fn a_zone_becomes_itself_and_its_records() {
    let out = normalized(concat!(
        "kind: Zone\nmetadata: {name: example.com}\nspec:\n  ttl: 600\n  exclusive: true\n  records:\n",
        "    - {name: \"@\", type: a, values: [192.0.2.2, 192.0.2.1]}\n",
        "    - {name: WWW, type: CNAME, values: [Example.com.], ttl: 60}\n",
        "    - {name: v, type: TXT, values: [1.10, true]}\n",
    ));
    assert_eq!(told(&out.problems), [""; 0]);
    let shown: Vec<_> = out
        .resources
        .iter()
        .map(|r| {
            (r.id.to_string(), String::from_utf8_lossy(r.spec.bytes().unwrap()).into_owned(), r.origin.line)
        })
        .collect();
    let expected = [
        ("example.com.", "zone", 1),
        ("example.com./A", "600\n192.0.2.1\n192.0.2.2", 7),
        ("www.example.com./CNAME", "60\nexample.com.", 8),
        ("v.example.com./TXT", "600\n\"1.10\"\n\"true\"", 9),
    ];
    assert_eq!(shown, expected.map(|(id, bytes, line)| (id.into(), bytes.into(), line)));
    assert_eq!(out.exclusive, [Scope::new("pdns", "example.com")]);
}

#[test]
fn a_yes_or_no_of_a_record_is_read_as_that_of_an_annotation() {
    let out = normalized(&zone_text(concat!(
        "    - {name: a, type: A, values: [192.0.2.1], suspend: \"true\", merge: \"true\"}\n",
        "    - {name: b, type: A, values: [192.0.2.1], suspend: true, merge: true}\n",
        "    - {name: c, type: A, values: [192.0.2.1], suspend: \"false\", merge: \"false\"}\n",
    )));
    assert_eq!(told(&out.problems), [""; 0]);
    let policies: Vec<PolicyId> = out.resources.iter().map(|resource| resource.policy).collect();
    let [zone, quoted, bare, none] = policies[..] else { panic!("{:?}", out.resources) };
    assert_eq!(quoted, bare);
    assert_ne!(quoted, none);
    assert_ne!(zone, none, "a zone is abandoned by default");
}

#[test]
fn each_mistake_is_one_problem_at_its_place_and_the_others_stand() {
    refuse("{name: ^x.example.org., type: A, values: [192.0.2.1]}", &["outside zone", "own zone"], false);
    refuse(
        "{name: ^www.example.com, type: A, values: [192.0.2.1]}",
        &["without a dot", "write `www`"],
        false,
    );
    refuse("{name: x, type: A, values: [^\"2001:db8::1\"]}", &["did you mean type `AAAA`"], false);
    refuse("{name: x, type: A, values: [192.0.2.1, ^nope]}", &["not an IPv4"], false);
    refuse("{name: x, type: ^AAA, values: [\"::1\"]}", &["did you mean `AAAA`"], false);
    refuse("^{name: x, type: A, values: []}", &["no values"], false);
    refuse("{name: x, type: A, ^valuess: [192.0.2.1]}", &["unknown field `valuess`", "`values`"], false);
    refuse("{name: x, type: A, values: [192.0.2.1], ^suspnd: true}", &["did you mean `suspend`"], true);
    refuse(
        "{name: x, type: A, values: [192.0.2.1], suspend: ^\"yes\"}",
        &["expected `true` or `false`"],
        false,
    );
    for (word, annotation) in [
        ("provider", "provider"),
        ("depends-on", "depends-on"),
        ("dependsOn", "depends-on"),
        ("wave", "wave"),
        ("import", "import"),
        ("moved-from", "moved-from"),
        ("movedFrom", "moved-from"),
    ] {
        let what = format!("`{word}` is no field here, but an annotation of the manifest");
        let hint = format!("write `reconciled/{annotation}` under `metadata.annotations`");
        let record = format!("{{name: x, type: A, values: [192.0.2.1], ^{word}: \"1\"}}");
        refuse(&record, &[&what, &hint], true);
    }
    refuse("{name: x, type: A, values: [192.0.2.1], ttl: ^4000000000}", &["out of range"], false);
    refuse(
        "{name: \"@\", type: ^CNAME, values: [a.example.org.]}",
        &["cannot stand at the zone", "RFC 1034 §3.6.2"],
        false,
    );
    refuse("{name: x, type: CNAME, values: [a.example.org., ^b.example.org.]}", &["exactly one"], false);
    refuse("{name: \"@\", type: ^NS, values: [ns1.example.org.]}", &["apex: true"], false);
    refuse("{name: x, type: ^SOA, values: [a.]}", &["only at the zone itself"], false);
    refuse("{name: x, type: MX, values: [^mail.example.com.]}", &["10 mail.example.com."], false);
    refuse("{name: x, type: MX, values: [^10 192.0.2.1]}", &["is an address"], false);
    refuse("{name: x, type: SRV, values: [^1 2 sip.example.com.]}", &["10 60 5060"], false);
    refuse("{name: x, type: CAA, values: [^letsencrypt.org]}", &["0 issue"], false);
    refuse("{name: x, type: CNAME, values: [^www]}", &["`www.example.com.`"], false);
    refuse(&format!("{{name: ^{}, type: A, values: [192.0.2.1]}}", "x".repeat(64)), &["63"], false);
    refuse("{name: ^a⒈, type: A, values: [192.0.2.1]}", &["xn--bcher-kva"], false);
    refuse("{name: x, type: MX, values: [^{priority: 10, taget: mail}]}", &["did you mean `target`"], false);
    refuse("{name: x, type: MX, values: [^{target: mail}]}", &["lack the field `priority`"], false);
    refuse("{name: x, type: MX, values: [^{priority: 1, target: 192.0.2.1}]}", &["is an address"], false);
    refuse(
        "{name: x, type: MX, values: [^{priority: 1, target: Mail.example.com}]}",
        &["means `mail.example.com.example.com.`", "write `Mail.example.com.`;"],
        false,
    );
    refuse("{name: x, type: CNAME, values: [^{target: example.com}]}", &["write `example.com.`;"], false);
    refuse(
        "{name: x, type: LOC, values: [^{latitude: 51, longitude: 0 E}]}",
        &["`51 0 E 0m 1m 10000m 10m` is not the form", "51 30 12.748 N"],
        false,
    );
    refuse("{name: x, type: LOC, values: [^{latitude: 1 S}]}", &["lack the field `longitude`"], false);
    refuse(
        "{name: x, type: LOC, values: [^{lat: 1 S}]}",
        &["unknown field `lat`", "latitude, longitude"],
        false,
    );
    refuse(
        "{name: x, type: CNAME, values: [a.example.org., ^b.example.org.]}",
        &["exactly one value", "RFC 2181 §10.1"],
        false,
    );
    refuse("{name: x, type: ALIAS, values: [^[a]]}", &["expected text or a mapping"], false);
    refuse("{name: x, type: TXT, values: [^{spf: {mx: true}}]}", &["all: fail, softfail"], false);
    refuse("{name: x, type: TXT, values: [^{spf: v=spf1}]}", &["no mapping"], false);
    refuse("{name: x, type: TXT, values: [^{text: a, spf: {all: fail}}]}", &["one field"], false);
    refuse("{name: x, type: TXT, values: [^{spff: {all: fail}}]}", &["did you mean `spf`"], false);
    refuse(
        "{name: x, type: TXT, values: [^{strings: a}]}",
        &["no list of texts", "text: and one text"],
        false,
    );
    refuse("{name: x, type: TXT, values: [^'\"a\" \"b\"']}", &["quotes are part", "{strings: [a, b]}"], true);
    refuse("{name: x, type: TXT, values: [^{strings: []}]}", &["no list of texts"], false);
    refuse("{name: x, type: TXT, values: [^{strings: [a], text: b}]}", &["one field"], false);
    let long = "x".repeat(256);
    refuse(&format!("{{name: x, type: TXT, values: [^{{strings: [{long}]}}]}}"), &["longer than 255"], false);
    refuse("{name: x, type: TXT, values: [^{text: [a]}]}", &["`text` of TXT data is a list"], false);
    refuse("{name: x, type: MX, values: [^{priority: [1], target: a}]}", &["is a list"], false);
    refuse("{name: x, type: SVCB, values: [^{priority: 1, target: a, params: [b]}]}", &["is a list"], false);
    refuse("{name: \"@\", type: ^DS, values: [1 13 2 aa]}", &["in the zone above"], false);
    refuse("^{name: x, type: MX, values: [10 a.], reverse: true}", &["it is for A and AAAA"], true);
    refuse(
        "^{name: x, type: A, values: [192.0.2.1], reverse: true}",
        &["192.0.2.1", "`2.0.192.in-addr.arpa`"],
        true,
    );
    refuse("{name: x, type: A, values: [192.0.2.1], adopt: ^maybe}", &["externaldns/OWNER"], true);
    refuse(
        "{name: x, type: A, values: [192.0.2.1], adopt: ^externaldns/}",
        &["unknown value `externaldns/`", "externaldns/OWNER"],
        true,
    );
    refuse("{name: x, type: A, values: [192.0.2.1], ^tll: 3}", &["did you mean `ttl`"], true);
    refuse("{name: x, type: A, values: [^[a], 192.0.2.1]}", &["expected text or a mapping"], false);
    refuse("^{name: x, type: A}", &["no values"], false);
    refuse("{name: x, type: AAAA, values: [\"2001:db8::1\", ^\"2001:DB8:0::1\"]}", &["stands twice"], true);
}

#[test]
fn the_strings_of_a_text_are_declared_one_by_one() {
    let out = normalized(&zone_text(
        "    - {name: s, type: TXT, values: [{strings: [\"path=/x\", 1.10, \"\"]}, {strings: [one]}]}\n",
    ));
    assert_eq!(told(&out.problems), [""; 0]);
    assert_eq!(out.resources[1].spec.bytes().unwrap(), b"300\n\"one\"\n\"path=/x\" \"1.10\" \"\"");
}

#[test]
fn a_duplicate_names_both_places() {
    let out = normalized(&zone_text(
        "    - {name: x, type: A, values: [192.0.2.1]}\n    - {name: X, type: A, values: [192.0.2.2]}\n",
    ));
    assert_eq!(told(&out.problems).len(), 1);
    assert_eq!((out.problems[0].place.as_ref().unwrap().line, out.problems[0].related[0].0.line), (6, 5));
    assert_eq!(out.resources.len(), 2);
    let out = normalized(&zone_text(
        "    - {name: x, type: A, values: [192.0.2.1], merge: true}\n    - {name: x, type: A, values: [192.0.2.2], merge: true}\n",
    ));
    assert_eq!((out.problems.len(), out.resources.len()), (0, 3), "merged declarations are united later");
}

#[test]
fn what_has_one_value_is_not_shared_by_its_own_word_or_by_that_of_its_manifest() {
    let records = concat!(
        "    - {name: a, type: CNAME, values: [a.example.org.]}\n",
        "    - {name: b, type: ALIAS, values: [a.example.org.], merge: true}\n",
        "    - {name: c, type: DNAME, values: [a.example.org.]}\n",
        "    - {name: d, type: TXT, values: [t], merge: true}\n",
        "    - {zonefile: z.zone}\n",
    );
    let mut all = manifest(&zone_text(records));
    let of_file = [("z.zone", "$TTL 300\ne CNAME a.example.org.\nf TXT t\n")].into();
    let inputs = TestInputs { files: of_file, ..TestInputs::default() };
    let lines = |out: &Normalized| -> Vec<String> {
        let place =
            |p: &Problem| p.place.as_ref().map(|place| format!("{}:{}", place.file, place.line)).unwrap();
        out.problems.iter().map(|p| format!("{}: {}", place(p), p.message)).collect()
    };
    let own = normalize(&all, &inputs);
    assert_eq!(
        lines(&own),
        ["zone.yaml:6: `merge` shares values with others, and an ALIAS has exactly one value"]
    );
    all.policy.merge = true;
    let out = normalize(&all, &inputs);
    let kinds: Vec<String> =
        lines(&out).iter().map(|line| line.split(" shares").next().unwrap().into()).collect();
    let expect = [
        "zone.yaml:5: `reconciled/merge`",
        "zone.yaml:6: `merge`",
        "zone.yaml:7: `reconciled/merge`",
        "z.zone:2: `reconciled/merge`",
    ];
    assert_eq!(kinds, expect);
    let left: Vec<_> = out.resources.iter().map(|r| &*r.id.0).collect();
    assert_eq!(left, ["example.com.", "d.example.com./TXT", "f.example.com./TXT"]);
}

#[test]
fn nothing_stands_at_a_name_where_a_cname_meets_other_data() {
    let out = normalized(&zone_text(concat!(
        "    - {name: x, type: CNAME, values: [a.example.org.]}\n",
        "    - {name: y, type: A, values: [192.0.2.1]}\n",
        "    - {name: x, type: TXT, values: [t]}\n",
    )));
    assert_eq!(told(&out.problems).len(), 1);
    assert_eq!((out.problems[0].place.as_ref().unwrap().line, out.problems[0].related[0].0.line), (7, 5));
    let left: Vec<_> = out.resources.iter().map(|r| &*r.id.0).collect();
    assert_eq!(left, ["example.com.", "y.example.com./A"]);
}

#[test]
fn what_is_wrong_and_has_a_name_and_a_type_is_declared_all_the_same() {
    let out = normalized(&zone_text(concat!(
        "    - {name: good, type: A, values: [192.0.2.1]}\n",
        "    - {name: bad, type: A, values: [192.0.2.300]}\n",
        "    - {name: where, type: A, values: [192.0.2.1], hosts: role}\n",
        "    - {name: alias, type: CNAME, values: [a.example.org.]}\n",
        "    - {name: alias, type: TXT, values: [x]}\n",
        "    - {name: odd, type: AA, values: [x]}\n",
    )));
    let unsettled: Vec<String> = out.unsettled.iter().map(|(scope, id)| format!("{scope} {id}")).collect();
    let expected =
        ["bad.example.com./A", "where.example.com./A", "alias.example.com./CNAME", "alias.example.com./TXT"];
    assert_eq!(unsettled, expected.map(|id| format!("pdns/example.com {id}")));
    let ids: Vec<&str> = out.resources.iter().map(|resource| &*resource.id.0).collect();
    assert_eq!(ids, ["example.com.", "good.example.com./A"]);
}

#[test]
fn quotes_around_a_text_are_kept_and_warned_about() {
    let out = normalized(&zone_text("    - {name: x, type: TXT, values: ['\"v=spf1 -all\"']}\n"));
    assert!(!out.problems[0].is_error());
    assert_eq!(
        RrSet::decode(out.resources[1].spec.bytes().unwrap()).unwrap().values,
        [r#""\"v=spf1 -all\"""#]
    );
}

#[test]
fn a_host_in_a_mapping_that_looks_whole_and_has_no_dot_is_warned_about() {
    let of = |target: &str| {
        let record = format!("    - {{name: x, type: MX, values: [{{priority: 1, target: {target}}}]}}\n");
        let out = normalized(&zone_text(&record));
        assert!(out.problems.iter().all(|problem| !problem.is_error()), "{:?}", out.problems);
        (told(&out.problems).join("\n"), contents(&out).remove(1))
    };
    let (told, content) = of("mail.example.net");
    assert!(
        told.contains(
            "no dot at the end, so it means `mail.example.net.example.com.` / write `mail.example.net.`, or"
        ),
        "{told}"
    );
    assert_eq!(content, "x.example.com./MX 300\n1 mail.example.net.example.com.");
    for target in
        ["mail.example.net.", "mail", "'@'", "mail.example.net.example.com.", "s1._domainkey", "'1.0-25'"]
    {
        assert_eq!(of(target).0, "", "{target}");
    }
}

#[test]
fn an_alias_whose_target_looks_whole_and_has_no_dot_is_warned_about() {
    let of = |routed: &str| {
        let text = zone_text(&format!("    - {{name: x, type: A, route53: {routed}}}\n"));
        let out = normalize_for(&manifest(&text), &TestInputs::default(), &crate::route53::SERVED);
        assert!(out.problems.iter().all(|problem| !problem.is_error()), "{:?}", out.problems);
        (told(&out.problems).join("\n"), contents(&out).remove(1))
    };
    let alias = |target: &str| format!("{{alias: {{target: {target}}}}}");
    let set = |target: &str| format!("{{sets: [{{id: a, weight: 1, alias: {{target: {target}}}}}]}}");
    let warning = "`lb.example.net` has no dot at the end, so it means `lb.example.net.example.com.` / write `lb.example.net.`, or";
    for routed in [alias("lb.example.net"), set("lb.example.net")] {
        let (told, content) = of(&routed);
        assert!(told.contains(warning), "{routed}: {told}");
        assert!(content.ends_with("(alias lb.example.net.example.com.)"), "{routed}: {content}");
    }
    for target in ["lb.example.net.", "lb", "'@'", "s1._tcp"] {
        assert_eq!((of(&alias(target)).0, of(&set(target)).0), Default::default(), "{target}");
    }
}

#[test]
fn the_root_is_no_zone_and_the_hint_says_what_one_is() {
    for text in [
        "kind: Zone\nmetadata: {name: \".\"}\nspec: {records: []}\n",
        "kind: Zone\nmetadata: {name: a}\nspec: {zone: \".\", records: []}\n",
        "kind: RecordSet\nmetadata: {name: a}\nspec: {zone: \".\", records: []}\n",
    ] {
        let told = told(&normalized(text).problems);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].ends_with("which is no zone here / name the zone, such as `example.com`"),
            "{told:?}"
        );
    }
}

#[test]
fn a_name_that_repeats_its_zone_is_a_mistake_in_either_form_of_it() {
    for name in ["www.bücher.example", "www.BÜCHER.example", "www.xn--bcher-kva.example"] {
        let record = format!("    - {{name: {name}, type: A, values: [192.0.2.1]}}\n");
        let out = normalized(&zone_text(&record).replace("example.com", "bücher.example"));
        let told = told(&out.problems);
        assert_eq!(told.len(), 1, "{told:?}");
        let hint = format!("write `www` or `{name}.`; if the long name is meant");
        assert!(told[0].contains("without a dot at the end") && told[0].contains(&hint), "{told:?}");
    }
}

#[test]
fn policies_come_from_manifest_and_record_and_a_zone_outlives_its_manifest() {
    let inputs = TestInputs::default();
    let mut manifest = manifest(&zone_text(concat!(
        "    - {name: x, type: A, values: [192.0.2.1]}\n",
        "    - {name: y, type: A, values: [192.0.2.1], protect: true, merge: true, ignore: \"ttl,values\", adopt: true}\n",
    )));
    manifest.policy.drift = Some(reconciled_provider::Drift::Warn);
    let out = normalize(&manifest, &inputs);
    let policies = inputs.policies.borrow();
    let of = |index: usize| policies.get(out.resources[index].policy);
    assert_eq!(of(0).deletion, Some(Deletion::Abandon));
    assert_eq!(*of(1), manifest.policy);
    let own = of(2);
    assert_eq!((own.deletion, own.merge, own.ignore.len()), (Some(Deletion::Protect), true, 2));
    assert_eq!((own.drift, &own.adopt), (manifest.policy.drift, &Adopt::Always));
}

#[test]
fn a_record_for_other_hosts_is_left_out_and_told_apart_from_one_that_is_gone() {
    let out = normalized(&zone_text(concat!(
        "    - {name: x, type: A, values: [192.0.2.1], hosts: role=web}\n",
        "    - {name: y, type: A, values: [192.0.2.2], hosts: role=db, reverse: true}\n",
        "    - {name: y, type: A, values: [192.0.2.3], hosts: role=web}\n",
        "    - {name: z, type: A, values: [192.0.2.4], hosts: role}\n",
    )));
    let ids: Vec<&str> = out.resources.iter().skip(1).map(|resource| &*resource.id.0).collect();
    assert_eq!(ids, ["x.example.com./A", "y.example.com./A"]);
    let unselected: Vec<&str> = out.unselected.iter().map(|(_, id)| &*id.0).collect();
    assert_eq!(unselected, ["y.example.com./A"]);
    let shown: Vec<String> = out.problems.iter().map(|problem| problem.to_string()).collect();
    assert!(shown.len() == 1 && shown[0].contains("hosts: `role` is no selector"), "{shown:?}");
    assert!(shown[0].contains("hint: write role=web"), "{shown:?}");
}

#[test]
fn the_pointers_of_a_record_for_other_hosts_are_for_other_hosts_too() {
    let text = zone_text(
        "    - {name: y, type: A, values: [192.0.2.2, 198.51.100.1], hosts: role=db, reverse: true}\n",
    );
    let scopes = BTreeSet::from(["example.com", "2.0.192.in-addr.arpa"].map(|zone| Scope::new("pdns", zone)));
    let out = normalize(&manifest(&text), &TestInputs { scopes, ..TestInputs::default() });
    let unselected: Vec<String> =
        out.unselected.iter().map(|(scope, id)| format!("{} {}", scope.name, id.0)).collect();
    let [record, pointer] =
        ["example.com y.example.com./A", "2.0.192.in-addr.arpa 2.2.0.192.in-addr.arpa./PTR"];
    assert_eq!((unselected, out.problems.len()), (vec![record.into(), pointer.into()], 0));
}

#[test]
fn a_record_set_joins_the_zone_of_its_name_and_inherits_its_ttl() {
    let set = manifest(
        "kind: RecordSet\nmetadata: {name: web}\nspec: {zone: Example.com., records: [{name: app, type: A, values: [192.0.2.7]}]}\n",
    );
    let zone =
        manifest("kind: Zone\nmetadata: {name: z}\nspec: {zone: example.com, provider: pdns, ttl: 77}\n");
    let inputs = TestInputs { siblings: vec![zone], is_sole: false, ..TestInputs::default() };
    let out = normalize(&set, &inputs);
    assert_eq!(out.resources.len(), 1, "{:?}", out.problems);
    assert_eq!(out.resources[0].spec.bytes().unwrap(), b"77\n192.0.2.7");

    let scopes = BTreeSet::from([Scope::new("pdns", "example.com")]);
    let elsewhere = TestInputs { scopes, is_sole: false, ..TestInputs::default() };
    assert_eq!(normalize(&set, &elsewhere).resources[0].spec.bytes().unwrap(), b"300\n192.0.2.7");

    let stranger = TestInputs { is_sole: false, ..TestInputs::default() };
    assert!(normalize(&set, &stranger).problems.is_empty(), "another entry may serve that zone");
    assert_eq!(told(&normalize(&set, &TestInputs::default()).problems).len(), 1);
}

#[test]
fn a_manifest_for_another_entry_gives_nothing() {
    let out = normalized("kind: Zone\nmetadata: {name: example.com}\nspec: {provider: other, bogus: 1}\n");
    assert!(out.resources.is_empty() && out.problems.is_empty());
}

#[test]
fn a_record_with_an_unknown_value_waits_and_its_template_is_what_was_written() {
    let manifest =
        waiting(manifest(&zone_text("    - {name: x, type: A, values: [\"${Host/a:ip}\", 192.0.2.1]}\n")));
    let out = normalize(&manifest, &TestInputs::default());
    let Spec::Waiting { on, .. } = &out.resources[1].spec else { panic!("{:?}", out.resources) };
    assert_eq!(**on, [host_ip()]);
    assert!(out.problems.is_empty(), "{:?}", out.problems);
}

#[test]
fn no_name_waits_for_an_output() {
    let check = |text: &str, expect: &str, ids: &[&str]| {
        let out = normalize(&waiting(manifest(text)), &TestInputs::default());
        let hint = "write the name out; `spec.` and `metadata.` of another manifest may stand in it";
        let message = format!("{expect} cannot depend on an output of another manifest / {hint}");
        assert_eq!(told(&out.problems), [message]);
        assert_eq!(out.resources.iter().map(|r| &*r.id.0).collect::<Vec<_>>(), ids);
    };
    let records =
        "    - {name: \"${Host/a:ip}\", type: TXT, values: [x]}\n    - {name: y, type: TXT, values: [y]}\n";
    check(&zone_text(records), "5:14 the name of a record", &["example.com.", "y.example.com./TXT"]);
    let zone = "kind: Zone\nmetadata: {name: z}\nspec: {zone: \"${Host/a:ip}\"}\n";
    check(zone, "3:14 the name of a zone", &[]);
    let set = zone.replace("kind: Zone", "kind: RecordSet");
    check(&set, "3:14 the name of a zone", &[]);
    let endpoint = "apiVersion: externaldns.k8s.io/v1alpha1\nkind: DNSEndpoint\nmetadata: {name: e}\nspec:\n  endpoints:\n    - {dnsName: \"${Host/a:ip}\", recordType: A, targets: [192.0.2.1]}\n";
    check(endpoint, "6:17 the name of a record", &[]);
}

#[test]
fn a_soa_is_managed_with_consent_and_without_its_serial() {
    let text = |record: &str| {
        format!(
            "kind: Zone\nmetadata: {{name: example.com}}\nspec:\n  apex: true\n  records:\n    - {record}\n"
        )
    };
    let good = normalized(&text(
        "{name: \"@\", type: SOA, values: [ns1.example.com. h.example.com. 10800 3600 604800 3600]}",
    ));
    assert_eq!(
        good.resources[1].spec.bytes().unwrap(),
        b"300\nns1.example.com. h.example.com. 10800 3600 604800 3600"
    );
    let bad = normalized(&text(
        "{name: \"@\", type: SOA, values: [ns1.example.com. h.example.com. 1 10800 3600 604800 3600]}",
    ));
    assert!(told(&bad.problems)[0].contains("leave it out"));
}

#[test]
fn a_mapping_of_fields_is_the_same_value_as_its_text() {
    for (kind, fields, text) in [
        ("A", "{address: 192.0.2.1}", "192.0.2.1"),
        ("TXT", "{text: v=spf1 -all}", "v=spf1 -all"),
        (
            "TXT",
            "{spf: {mx: true, include: [_a.example.net, _b.example.net], all: softfail}}",
            "v=spf1 mx include:_a.example.net include:_b.example.net ~all",
        ),
        ("TXT", "{dmarc: {p: reject, pct: 50}}", "v=DMARC1; p=reject; pct=50"),
        ("TXT", "{dkim: {k: rsa, p: AQID}}", "v=DKIM1; k=rsa; p=AQID"),
        ("MX", "{priority: 10, target: mail}", "10 mail.example.com."),
        ("MX", "{priority: 10, target: '@'}", "10 example.com."),
        ("SRV", "{priority: 1, weight: 2, port: 3, target: Sip.example.net.}", "1 2 3 sip.example.net."),
        ("CAA", "{tag: issue, value: letsencrypt.org}", "0 issue letsencrypt.org"),
        (
            "NAPTR",
            "{order: 1, preference: 2, flags: u, service: E2U+sip, regexp: '!^.*$!a\\b!', replacement: .}",
            r#"1 2 u E2U+sip "!^.*$!a\\b!" ."#,
        ),
        ("LOC", "{latitude: 51 30 12.748 N, longitude: 0 7 39.6 W}", "51 30 12.748 N 0 7 39.6 W 0m"),
        (
            "LOC",
            "{latitude: 1 S, longitude: 2 E, altitude: -5, size: 2m, verticalPrecision: 3}",
            "1 S 2 E -5m 2m 10000m 3m",
        ),
        ("SSHFP", "{algorithm: 4, fingerprintType: 9, fingerprint: ABCD}", "4 9 abcd"),
        (
            "HTTPS",
            "{priority: 1, target: ., params: {alpn: \"h2,h3\", port: 8443, no-default-alpn: ''}}",
            "1 . alpn=h2,h3 no-default-alpn port=8443",
        ),
        ("HTTPS", "{priority: 1, target: ., params: {alpn: [h2, h3]}}", "1 . alpn=h2,h3"),
        ("HTTPS", "{priority: 0, target: web}", "0 web.example.com."),
        ("SVCB", "{priority: 1, target: ., params: alpn=h2}", "1 . alpn=h2"),
        (
            "URI",
            "{priority: 1, weight: 2, target: 'https://a.example/b c'}",
            r#"1 2 "https://a.example/b c""#,
        ),
    ] {
        let values = |value: &str| {
            let quoted = if value.starts_with('{') { value.into() } else { format!("'{value}'") };
            let out =
                normalized(&zone_text(&format!("    - {{name: x, type: {kind}, values: [{quoted}]}}\n")));
            assert_eq!(told(&out.problems), [""; 0], "{kind} {value}");
            String::from_utf8_lossy(out.resources[1].spec.bytes().unwrap()).into_owned()
        };
        assert_eq!(values(fields), values(text), "{kind}");
    }
}

#[test]
fn a_rule_fits_what_it_says_or_is_an_error() {
    let told_of = |rule: &str| {
        let out = normalized(&format!(
            "kind: Zone\nmetadata: {{name: example.com}}\nspec:\n  ignore:\n    - {rule}\n  records: []\n"
        ));
        (told(&out.problems).join("\n"), out.ignored.first().map(|(_, rule)| rule.clone()))
    };
    for (rule, said) in [
        ("{name: keep.example.com}", "write `keep.example.com.`"),
        ("{name: '*.example.com'}", "write `*.example.com.`"),
        ("{type: CNAM}", "did you mean `CNAME`?"),
        ("{name: 'a..b'}", "has an empty label"),
    ] {
        let (problems, ignored) = told_of(rule);
        assert!(problems.contains(said) && ignored.is_none(), "{rule}: {problems}");
    }
    for (rule, fits) in [
        ("{name: bücher}", "xn--bcher-kva.example.com./A"),
        ("{name: '*.bücher'}", "a.xn--bcher-kva.example.com./A"),
        ("{name: '@', type: mx}", "example.com./MX"),
        ("{name: KEEP.example.com.}", "keep.example.com./A"),
        ("{target: '*.ELB.example.net'}", "up.example.com./CNAME"),
        ("{type: LUA}", "x.example.com./LUA"),
        ("{type: TYPE65400}", "x.example.com./TYPE65400"),
    ] {
        let (problems, ignored) = told_of(rule);
        let rules = [ignored.unwrap_or_else(|| panic!("{rule}: {problems}"))];
        let scope = Scope::new("pdns", "example.com");
        let data = b"300\nx.elb.example.net.";
        let left = crate::ignore::left_alone(&scope, &rules, &fits.into(), data);
        assert_eq!((problems.as_str(), left), ("", Some(reconciled_provider::LeftAlone::Ignored)), "{rule}");
    }
}

#[test]
fn what_is_declared_and_ignored_is_an_error_with_both_places() {
    let zone = "kind: Zone\nmetadata: {name: example.com}\nspec:\n  ignore:\n    - {name: \"*.k8s\"}\n    \
                - {type: TXT, target: \"v=spf1*\"}\n    - {}\n  records:\n    - {name: a.k8s, type: A, values: [192.0.2.1]}\n    \
                - {name: \"@\", type: TXT, values: [\"v=spf1 -all\"]}\n    - {name: www, type: A, values: [192.0.2.1]}\n";
    let out = normalized(zone);
    let problems = told(&out.problems);
    assert_eq!(problems.len(), 3, "{problems:#?}");
    assert!(problems.iter().any(|p| p.starts_with("7:7 a rule of `ignore` names nothing")), "{problems:#?}");
    assert!(problems.iter().any(|p| p.starts_with("9:7 a.k8s A is declared, and ignored")), "{problems:#?}");
    assert!(problems.iter().any(|p| p.starts_with("10:7 @ TXT is declared, and ignored")), "{problems:#?}");
    let related: Vec<u32> =
        out.problems.iter().flat_map(|p| &p.related).map(|(place, _)| place.line).collect();
    assert_eq!(related, [5, 6]);
    assert_eq!((out.resources.len(), out.ignored.len()), (2, 2), "the zone and www; two rules");

    // The rules of a zone are rules for records declared elsewhere.
    let set = "kind: RecordSet\nmetadata: {name: x}\nspec:\n  zone: example.com\n  records:\n    \
               - {name: b.k8s, type: A, values: [192.0.2.1]}\n";
    let inputs = TestInputs { siblings: vec![manifest(zone)], ..TestInputs::default() };
    let out = normalize(&manifest(set), &inputs);
    assert!(told(&out.problems)[0].contains("b.k8s A is declared, and ignored"), "{:?}", told(&out.problems));
    assert!(out.resources.is_empty() && out.ignored.is_empty());
}
