use super::*;
use crate::record::RrSet;
use bytes::Bytes;
use reconciled_provider::{
    Adopt, Error, ManifestKey, Policies, PolicyId, Reference, ResourceId, SecretMark, SecretRef, SourceFile,
    manifest::Value, yaml,
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

struct TestInputs {
    is_sole: bool,
    scopes: BTreeSet<Scope>,
    siblings: Vec<Manifest>,
    policies: RefCell<Policies>,
    /// Other files of the repository, by path.
    files: BTreeMap<&'static str, &'static str>,
}

impl Default for TestInputs {
    fn default() -> TestInputs {
        TestInputs {
            is_sole: true,
            scopes: BTreeSet::new(),
            siblings: Vec::new(),
            policies: RefCell::default(),
            files: BTreeMap::new(),
        }
    }
}

impl Inputs for TestInputs {
    fn entry(&self) -> &str {
        "pdns"
    }
    fn is_sole(&self) -> bool {
        self.is_sole
    }
    fn blob(&self, path: &str) -> Result<Bytes, Error> {
        let text =
            self.files.get(path).ok_or_else(|| Error::invalid(format!("there is no file `{path}`")))?;
        Ok(Bytes::from_static(text.as_bytes()))
    }
    fn secret(&self, _: &SecretRef) -> Result<SecretMark, Error> {
        Err(Error::invalid("no secrets here"))
    }
    fn output(&self, _: &Reference) -> Value {
        Value::Unknown
    }
    fn scopes(&self) -> &BTreeSet<Scope> {
        &self.scopes
    }
    fn siblings(&self, kind: &str) -> Vec<&Manifest> {
        self.siblings.iter().filter(|manifest| &*manifest.kind == kind).collect()
    }
    fn policy(&self, policy: Policy) -> PolicyId {
        self.policies.borrow_mut().intern(policy)
    }
}

/// A manifest from its text, as the loader would make it.
pub(crate) fn manifest(text: &str) -> Manifest {
    let file = Arc::new(SourceFile::new("zone.yaml", text));
    let mut node = yaml::parse(&file, yaml::Limits::default()).unwrap().remove(0);
    let text = |path: &[&str]| {
        path.iter()
            .try_fold(&node, |node, key| node.get(key))
            .and_then(|node| node.as_str())
            .map(Arc::<str>::from)
    };
    let kind = text(&["kind"]).unwrap();
    let name = text(&["metadata", "name"]).unwrap_or_else(|| "example.com".into());
    let providers = text(&["spec", "provider"]).map(|name| Arc::from([name]));
    let api_version = text(&["apiVersion"]).unwrap_or_else(|| API_VERSION.into());
    let span = node.span;
    let yaml::NodeValue::Map(entries) = &mut node.value else { panic!("no mapping") };
    let index = entries.iter().position(|(key, _)| key.as_str() == Some("spec")).unwrap();
    let spec = entries.remove(index).1;
    Manifest {
        index: 0,
        key: ManifestKey::new("infra", "dns", &kind, "", &name),
        api_version,
        kind,
        name,
        labels: Default::default(),
        annotations: Default::default(),
        providers,
        policy: Policy::default(),
        file,
        span,
        spec,
    }
}

/// Normalizes the only manifest of a text at the only entry.
pub(crate) fn normalized(text: &str) -> Normalized {
    normalize(&manifest(text), &TestInputs::default())
}

/// Normalizes a manifest beside other files.
fn beside(files: &[(&'static str, &'static str)], text: &str) -> Normalized {
    let inputs = TestInputs { files: files.iter().copied().collect(), ..TestInputs::default() };
    normalize(&manifest(text), &inputs)
}

/// Id and content of each resource.
fn contents(out: &Normalized) -> Vec<String> {
    let one = |r: &Resource| format!("{} {}", r.id, String::from_utf8_lossy(r.spec.bytes().unwrap()));
    out.resources.iter().map(one).collect()
}

/// One line for each problem: `LINE:COLUMN message / hint`.
fn told(problems: &[Problem]) -> Vec<String> {
    let one = |p: &Problem| {
        let place = p.place.as_ref().unwrap();
        format!("{}:{} {} / {}", place.line, place.column, p.message, p.hint.as_deref().unwrap_or(""))
    };
    problems.iter().map(one).collect()
}

fn zone_text(records: &str) -> String {
    format!("kind: Zone\nmetadata: {{name: example.com}}\nspec:\n  records:\n{records}")
}

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
        "    - {name: \"@\", type: a, values: [192.0.2.2, 192.0.2.1, 192.0.2.1]}\n",
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
    refuse("{name: x, type: A, values: [192.0.2.1], ttl: ^4000000000}", &["out of range"], false);
    refuse("{name: \"@\", type: ^CNAME, values: [a.example.org.]}", &["cannot stand at the zone"], false);
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
    refuse("{name: x, type: LOC, values: [^{latitude: 51}]}", &["51 30 12.748 N"], false);
    refuse("{name: x, type: ALIAS, values: [^[a]]}", &["expected text or a mapping"], false);
    refuse("{name: \"@\", type: ^DS, values: [1 13 2 aa]}", &["in the zone above"], false);
    refuse("^{name: x, type: MX, values: [10 a.], reverse: true}", &["it is for A and AAAA"], true);
    refuse(
        "^{name: x, type: A, values: [192.0.2.1], reverse: true}",
        &["192.0.2.1", "`2.0.192.in-addr.arpa`"],
        true,
    );
    refuse("{name: x, type: A, values: [192.0.2.1], adopt: ^maybe}", &["externaldns/OWNER"], true);
    refuse("{name: x, type: A, values: [192.0.2.1], ^tll: 3}", &["did you mean `ttl`"], true);
    refuse("{name: x, type: A, values: [^[a], 192.0.2.1]}", &["expected text or a mapping"], false);
    refuse("^{name: x, type: A}", &["no values"], false);
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
fn quotes_around_a_text_are_kept_and_warned_about() {
    let out = normalized(&zone_text("    - {name: x, type: TXT, values: ['\"v=spf1 -all\"']}\n"));
    assert!(!out.problems[0].is_error());
    assert_eq!(
        RrSet::decode(out.resources[1].spec.bytes().unwrap()).unwrap().values,
        [r#""\"v=spf1 -all\"""#]
    );
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
    let mut manifest =
        manifest(&zone_text("    - {name: x, type: A, values: [\"${Host/a:ip}\", 192.0.2.1]}\n"));
    let reference = Reference { target: ManifestKey::new("infra", "g", "Host", "", "a"), path: "ip".into() };
    manifest.spec.for_each_scalar_mut(&mut |_, text, kind| {
        if text.starts_with("${") {
            *kind = yaml::ScalarKind::Unknown([reference.clone()].into());
        }
    });
    let out = normalize(&manifest, &TestInputs::default());
    let Spec::Waiting { on, .. } = &out.resources[1].spec else { panic!("{:?}", out.resources) };
    assert_eq!(**on, [reference]);
    assert!(out.problems.is_empty(), "{:?}", out.problems);
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
        ("MX", "{priority: 10, target: mail}", "10 mail.example.com."),
        ("MX", "{priority: 10, target: '@'}", "10 example.com."),
        ("SRV", "{priority: 1, weight: 2, port: 3, target: Sip.example.net.}", "1 2 3 sip.example.net."),
        ("CAA", "{tag: issue, value: letsencrypt.org}", "0 issue letsencrypt.org"),
        (
            "NAPTR",
            "{order: 1, preference: 2, flags: u, service: E2U+sip, regexp: '!^.*$!a\\b!', replacement: .}",
            r#"1 2 u E2U+sip "!^.*$!a\\b!" ."#,
        ),
        ("SSHFP", "{algorithm: 4, fingerprintType: 9, fingerprint: ABCD}", "4 9 abcd"),
        (
            "HTTPS",
            "{priority: 1, target: ., params: {alpn: \"h2,h3\", port: 8443, no-default-alpn: ''}}",
            "1 . alpn=h2,h3 no-default-alpn port=8443",
        ),
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
fn an_address_that_is_refused_for_a_cname_beside_it_has_no_ptr() {
    let scopes = [Scope::new("pdns", "2.0.192.in-addr.arpa")].into();
    let inputs = TestInputs { scopes, ..TestInputs::default() };
    let out = normalize(
        &manifest(&zone_text(concat!(
            "    - {name: a, type: A, values: [192.0.2.1], reverse: true}\n",
            "    - {name: a, type: CNAME, values: [b.example.com.]}\n",
            "    - {name: b, type: A, values: [192.0.2.2], reverse: true}\n",
        ))),
        &inputs,
    );
    assert_eq!(out.problems.len(), 1, "{:?}", told(&out.problems));
    let pointers: Vec<&str> =
        out.resources.iter().map(|r| &*r.id.0).filter(|id| id.ends_with("PTR")).collect();
    assert_eq!(pointers, ["2.2.0.192.in-addr.arpa./PTR"]);
}

#[test]
fn reverse_declares_the_ptr_in_the_longest_reverse_zone_of_the_entry() {
    let scope = |name: &str| Scope::new("pdns", name);
    let other = Scope::new("other", "1.2.0.192.in-addr.arpa");
    let scopes =
        [scope("192.in-addr.arpa"), scope("2.0.192.in-addr.arpa"), scope("8.b.d.0.1.0.0.2.ip6.arpa"), other];
    let inputs = TestInputs { scopes: scopes.into(), ..TestInputs::default() };
    let out = normalize(
        &manifest(&zone_text(concat!(
            "    - {name: a, type: A, values: [192.0.2.1, 192.0.9.1], reverse: true, ttl: 60}\n",
            "    - {name: b, type: A, values: [192.0.2.1], reverse: true}\n",
            "    - {name: b, type: AAAA, values: [\"2001:db8::1\"], reverse: true}\n",
            "    - {name: c, type: A, values: [192.0.2.2]}\n",
        ))),
        &inputs,
    );
    assert_eq!(told(&out.problems), [""; 0]);
    let pointers: Vec<_> = out.resources[5..]
        .iter()
        .map(|r| {
            (
                r.scope.name.to_string(),
                r.id.to_string(),
                String::from_utf8_lossy(r.spec.bytes().unwrap()).into_owned(),
                r.origin.line,
            )
        })
        .collect();
    let ip6 = format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa./PTR", "0.".repeat(23));
    let expected = [
        ("8.b.d.0.1.0.0.2.ip6.arpa", ip6.as_str(), "300\nb.example.com.", 7),
        ("2.0.192.in-addr.arpa", "1.2.0.192.in-addr.arpa./PTR", "60\na.example.com.\nb.example.com.", 5),
        ("192.in-addr.arpa", "1.9.0.192.in-addr.arpa./PTR", "60\na.example.com.", 5),
    ];
    let expected =
        expected.map(|(zone, id, bytes, line)| (zone.to_owned(), id.to_owned(), bytes.to_owned(), line));
    assert_eq!(pointers, expected);
}

const FILE: &str = "$ORIGIN example.com.
$TTL 1h
@ IN SOA ns1 hostmaster 2026 3h 1h 1w 5m
  IN NS ns1
ns1 A 192.0.2.53 ; glue
www 60 A 192.0.2.1
    60 A 192.0.2.2
t TXT \"a\\255\" \"b\"
";

#[test]
fn a_zone_file_among_records_declares_what_it_holds() {
    let text = "kind: Zone\nmetadata: {name: example.com}\nspec:\n  records:\n    - {zonefile: example.com.zone}\n    - {name: x, type: A, values: [192.0.2.9]}\n";
    let out = beside(&[("example.com.zone", FILE)], text);
    assert_eq!(told(&out.problems), [""; 0]);
    let expected = [
        "example.com. zone",
        "x.example.com./A 300\n192.0.2.9",
        "ns1.example.com./A 3600\n192.0.2.53",
        "www.example.com./A 60\n192.0.2.1\n192.0.2.2",
        "t.example.com./TXT 3600\n\"a\\255b\"",
    ];
    assert_eq!(contents(&out), expected);
    let www = ResourceId::from("www.example.com./A");
    let key = (out.resources[0].scope.clone(), www);
    assert_eq!(out.places[&key].to_string(), "example.com.zone:6");
    assert_eq!(out.resources[3].origin.line, 5, "the origin is the line that includes the file");
    assert_eq!(out.places.len(), 3, "what the manifest itself says has no other place");
    let alone =
        "kind: Zone\nmetadata: {name: example.com}\nspec: {records: {zonefile: ./example.com.zone}}\n";
    assert_eq!(beside(&[("example.com.zone", FILE)], alone).resources.len(), 4);
}

#[test]
fn the_apex_of_an_included_file_counts_with_consent_and_its_ttl_may_be_the_manifests() {
    let text =
        "kind: Zone\nmetadata: {name: example.com}\nspec: {apex: true, ttl: 77, records: {zonefile: f}}\n";
    let out = beside(&[("f", "@ 60 SOA ns1 h 1 2 3 4 5\n")], text);
    assert_eq!(contents(&out)[1], "example.com./SOA 60\nns1.example.com. h.example.com. 2 3 4 5");
    let out = beside(&[("f", "@ NS ns1\nns1 A 192.0.2.1\n")], text);
    assert_eq!(
        contents(&out)[1..],
        ["example.com./NS 77\nns1.example.com.", "ns1.example.com./A 77\n192.0.2.1"]
    );
}

/// Expects these problems of a zone that includes a file with `file` in it.
fn refuse_file(file: &'static str, expect: &[&str]) {
    let text = "kind: Zone\nmetadata: {name: example.com}\nspec:\n  records:\n    - {name: x, type: A, values: [192.0.2.9]}\n    - {zonefile: f.zone}\n";
    let out = beside(&[("f.zone", file)], text);
    let told: Vec<String> =
        out.problems.iter().map(|p| format!("{} {}", p.place.as_ref().unwrap(), p.message)).collect();
    assert_eq!(told, expect, "{file}");
}

#[test]
fn each_mistake_in_an_included_file_has_its_line_there() {
    refuse_file(
        "a 60 A 192.0.2\nb 60 A 192.0.2.1\n$INCLUDE other\nc 60 CNAME d\nc 60 CNAME e\nd 60 HINFO a b\n",
        &[
            "f.zone:1 `192.0.2` is not the form of A data",
            "f.zone:3 $INCLUDE is not supported: write the records into this file",
            "f.zone:5 a CNAME has exactly one value",
            "f.zone:6 unknown record type `HINFO`",
        ],
    );
    refuse_file(
        "\n$GENERATE 1-9 h$ A 192.0.2.$\n",
        &["f.zone:2 $GENERATE is not supported: write the records into this file"],
    );
    refuse_file("\nx 60 A 192.0.2.1\n", &["f.zone:2 x A is declared twice"]);
    refuse_file("x 60 CNAME y\n", &["zone.yaml:5:7 x A stands beside a CNAME"]);
    refuse_file(
        "@ 60 CNAME y\n",
        &["f.zone:1 a CNAME cannot stand at the zone itself, beside its SOA and NS"],
    );
    refuse_file(
        "y.example.org. 60 A 192.0.2.1\n",
        &["f.zone:1 `y.example.org.` lies outside zone example.com."],
    );
    refuse_file("y 60 TXT \"open\n", &["f.zone:1 a quoted string is never closed"]);
    refuse_file(
        "y 60 A 192.0.2.1\ny 61 A 192.0.2.2\n",
        &["f.zone:2 the A records of y.example.com. have several TTLs; 60 counts"],
    );
    refuse_file(
        "y 60 RRSIG A 13 3\ny 60 RRSIG B 13 3\nz 60 NSEC a A\n",
        &["f.zone records of signing software are left out: 1 NSEC, 2 RRSIG"],
    );
}

#[test]
fn a_file_that_cannot_be_included_is_a_problem_where_it_is_named() {
    let check = |records: &str, expect: &str| {
        let text = format!("kind: Zone\nmetadata: {{name: example.com}}\nspec:\n  records: {records}\n");
        assert_eq!(told(&beside(&[], &text).problems)[..], [expect]);
    };
    check(
        "{zonefile: a.zone}",
        "4:23 there is no file `a.zone` / a path counts from the folder of the manifest, with `/` in front from the root of the repository; what lies outside of the source's `path` is not read",
    );
    check(
        "{zonefile: ../../etc/passwd}",
        "4:23 `../../etc/passwd` lies outside of the repository / a file to include is in the same repository as its manifest",
    );
    check("{zonfile: a}", "4:13 unknown field `zonfile` beside an included file / did you mean `zonefile`?");
    check(
        "{zonefile: [a]}",
        "4:23 expected a path, found a list / write the path of a zone file of this repository",
    );
}

fn endpoints(records: &str) -> Manifest {
    manifest(&format!(
        "apiVersion: externaldns.k8s.io/v1alpha1\nkind: DNSEndpoint\nmetadata: {{name: e}}\nspec:\n  endpoints:\n{records}"
    ))
}

fn at_scopes(scopes: &[&str]) -> TestInputs {
    let scopes = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
    TestInputs { scopes, is_sole: false, ..TestInputs::default() }
}

#[test]
fn an_endpoint_goes_to_the_longest_zone_that_holds_its_name() {
    let manifest = endpoints(concat!(
        "    - {dnsName: www.example.com, recordType: A, recordTTL: 60, targets: [192.0.2.1, 192.0.2.2]}\n",
        "    - {dnsName: a.sub.example.com, recordType: CNAME, recordTTL: 0, targets: [www.example.com]}\n",
        "    - {dnsName: b.other.example.com., recordType: A, targets: [192.0.2.3]}\n",
        "    - {dnsName: example.com, recordType: TXT, targets: ['\"v=spf1 -all\"'], labels: {owner: x}}\n",
        "    - {dnsName: example.com, recordType: CNAME, targets: [lb.example.org], providerSpecific: [{name: alias, value: 'true'}]}\n",
    ));
    let scopes = at_scopes(&["pdns/example.com", "pdns/sub.example.com", "cf/other.example.com", "cf/com"]);
    let out = normalize(&manifest, &scopes);
    assert_eq!(told(&out.problems), [""; 0]);
    let found: Vec<_> =
        out.resources.iter().zip(contents(&out)).map(|(r, c)| format!("{} {c}", r.scope)).collect();
    let expected = [
        "pdns/example.com www.example.com./A 60\n192.0.2.1\n192.0.2.2",
        "pdns/example.com example.com./TXT 300\n\"v=spf1 -all\"",
        "pdns/example.com example.com./ALIAS 300\nlb.example.org.",
        "pdns/sub.example.com a.sub.example.com./CNAME 300\nwww.example.com.",
    ];
    assert_eq!(found, expected, "that of the other entry is left to it");
}

#[test]
fn an_endpoint_without_a_zone_or_with_two_says_what_to_write() {
    let www = "    - {dnsName: www.example.com, recordType: A, targets: [192.0.2.1]}\n";
    let check = |scopes: &[&str], siblings: Vec<Manifest>, expect: &[&str]| {
        let inputs = TestInputs { siblings, ..at_scopes(scopes) };
        assert_eq!(told(&normalize(&endpoints(www), &inputs).problems), expect);
    };
    check(
        &["pdns/example.org"],
        Vec::new(),
        &[
            "6:17 no zone that holds `www.example.com` is declared / declare it with a manifest of kind `Zone`; it may be without records",
        ],
    );
    check(
        &["pdns/example.com", "cf/example.com"],
        Vec::new(),
        &[
            "6:17 `www.example.com` may go to zone `example.com` at cf or pdns / annotate the manifest: reconciled/provider: cf,pdns",
        ],
    );
    let mut zone = manifest("kind: Zone\nmetadata: {name: example.com}\nspec: {providers: [pdns, cf]}\n");
    zone.providers = Some(["pdns".into(), "cf".into()].into());
    check(&["pdns/example.com", "cf/example.com"], vec![zone], &[]);
    let mut named = endpoints(www);
    named.providers = Some(["pdns".into()].into());
    let out = normalize(&named, &at_scopes(&["pdns/example.com", "cf/example.com"]));
    assert_eq!((out.problems.len(), out.resources.len()), (0, 1));
}

#[test]
fn what_an_endpoint_says_to_others_is_an_error_or_a_warning_by_name() {
    let check = |endpoint: &str, is_error: bool, part: &str| {
        let out = normalize(&endpoints(&format!("    - {endpoint}\n")), &at_scopes(&["pdns/example.com"]));
        assert_eq!(out.problems.len(), 1, "{:?}", out.problems);
        assert_eq!(out.problems[0].is_error(), is_error, "{endpoint}");
        assert!(told(&out.problems)[0].contains(part), "{:?}", out.problems);
        assert_eq!(out.resources.is_empty(), is_error, "{endpoint}");
    };
    let rest = "recordType: A, targets: [192.0.2.1]";
    check(&format!("{{dnsName: a.example.com, {rest}, setIdentifier: eu}}"), true, "one of several answers");
    check(
        &format!("{{dnsName: a.example.com, {rest}, providerSpecific: [{{name: aws/weight, value: '10'}}]}}"),
        false,
        "`aws/weight` means nothing",
    );
    check("{dnsName: example.com, recordType: CNAME, targets: [a.example.org]}", true, "or ALIAS where");
    check("{dnsName: a.example.com, recordType: A, targets: []}", true, "no targets");
    check("{dnsName: a.example.com, recordType: A, targets: [x]}", true, "not an IPv4 address");
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
