use super::*;
use crate::normalize::tests::normalized;
use std::{collections::BTreeSet, sync::Arc};

/// The rules that a zone with these records breaks.
fn rules(records: &[&str], is_exclusive: bool, quiet: &[&str]) -> Vec<&'static str> {
    let lines: Vec<String> = records.iter().map(|record| format!("    - {{{record}}}\n")).collect();
    let text = format!(
        "kind: Zone\nmetadata: {{name: example.com}}\nspec:\n  apex: true\n  records:\n{}",
        lines.concat()
    );
    let out = normalized(&text);
    assert!(out.problems.iter().all(|problem| !problem.is_error()), "{:?}", out.problems);
    let quiet: Vec<Arc<str>> = quiet.iter().map(|rule| Arc::from(*rule)).collect();
    let declared: Vec<Linted<'_>> =
        out.resources.iter().map(|resource| Linted { resource, quiet: &quiet }).collect();
    let around = Around { is_exclusive, within: &[&Scope::new("pdns", "inner.example.com")] };
    let found = lint(&out.resources[0].scope, &declared, around);
    for finding in &found {
        let rule = rules::find(finding.rule).unwrap();
        assert_eq!(rule.is_error, finding.is_error);
        assert!(finding.hint.as_ref().unwrap().contains(rule.source));
    }
    found.iter().map(|finding| finding.rule).collect()
}

/// One row for each rule: records that break it alone, and records like them that break none.
const TABLE: &[(&str, &[&str], &[&str])] = &[
    (
        "address-unusable",
        &["name: a, type: A, values: [0.0.0.0]"],
        &["name: a, type: A, values: [192.0.2.1]", "name: a, type: AAAA, values: ['2001:db8::1']"],
    ),
    (
        "alias-and-address",
        &["name: a, type: ALIAS, values: [x.example.net.]", "name: a, type: AAAA, values: ['2001:db8::1']"],
        &["name: a, type: ALIAS, values: [x.example.net.]", "name: a, type: TXT, values: [x]"],
    ),
    (
        "alias-root",
        &["name: a, type: ALIAS, values: [x.example.net.]"],
        &[
            "name: '@', type: ALIAS, values: [x.example.net.]",
            "name: a, type: ALIAS, values: [x.example.net.]",
            "name: a, type: MX, values: [10 x.example.net.]",
        ],
    ),
    (
        "below-dname",
        &["name: d, type: DNAME, values: [x.example.net.]", "name: a.b.d, type: A, values: [192.0.2.1]"],
        &["name: d, type: DNAME, values: [x.example.net.]", "name: ad, type: A, values: [192.0.2.1]"],
    ),
    (
        "below-delegation",
        &[
            "name: s, type: NS, values: [a.example.net., b.example.net.]",
            "name: x.s, type: A, values: [192.0.2.1]",
        ],
        &[
            "name: s, type: NS, values: [ns.s.example.com., b.example.net.]",
            "name: ns.s, type: A, values: [192.0.2.1]",
            "name: s, type: DS, values: [1 13 9 aa]",
        ],
    ),
    (
        "below-zone",
        &["name: a.inner, type: A, values: [192.0.2.1]"],
        &[
            "name: inner, type: NS, values: [ns.inner.example.com., b.example.net.]",
            "name: inner, type: DS, values: [1 13 9 aa]",
            "name: ns.inner, type: A, values: [192.0.2.1]",
            "name: notinner, type: A, values: [192.0.2.1]",
        ],
    ),
    (
        "caa-flags",
        &["name: a, type: CAA, values: ['1 issue \"ca.example\"']"],
        &["name: a, type: CAA, values: ['128 issue \"ca.example\"']"],
    ),
    (
        "caa-iodef",
        &["name: a, type: CAA, values: ['0 iodef \"a@example.com\"']"],
        &["name: a, type: CAA, values: ['0 iodef \"mailto:a@example.com\"']"],
    ),
    (
        "caa-issuer",
        &["name: a, type: CAA, values: ['0 issue \"https://ca.example/\"']"],
        &[
            "name: a, type: CAA, values: ['0 issue \"ca.example; account=1/2\"', '0 issuemail \";\"', '0 issuewild \"\"']",
        ],
    ),
    (
        "caa-tag",
        &["name: a, type: CAA, values: ['0 isue \"ca.example\"']"],
        &["name: a, type: CAA, values: ['0 issuewild \";\"']"],
    ),
    (
        "cname-chain",
        &[
            "name: a, type: CNAME, values: [b.example.com.]",
            "name: b, type: CNAME, values: [c.example.com.]",
            "name: c, type: CNAME, values: [d.example.com.]",
            "name: d, type: CNAME, values: [x.example.net.]",
        ],
        &["name: d, type: CNAME, values: [x.example.net.]"],
    ),
    (
        "cname-loop",
        &[
            "name: a, type: CNAME, values: [b.example.com.]",
            "name: b, type: CNAME, values: [c.example.com.]",
            "name: c, type: CNAME, values: [b.example.com.]",
        ],
        &["name: a, type: CNAME, values: [b.example.com.]", "name: b, type: A, values: [192.0.2.1]"],
    ),
    (
        "cname-target-cname",
        &[
            "name: b, type: CNAME, values: [c.example.com.]",
            "name: c, type: CNAME, values: [d.example.com.]",
            "name: d, type: CNAME, values: [x.example.net.]",
        ],
        &[
            "name: a, type: CNAME, values: [d.example.com.]",
            "name: b, type: CNAME, values: [d.example.com.]",
            "name: d, type: A, values: [192.0.2.1]",
        ],
    ),
    (
        "dkim-form",
        &["name: a._domainkey, type: TXT, values: ['v=DKIM1; k=rsa; p=no base64!']"],
        &[
            "name: a._domainkey, type: TXT, values: ['v=DKIM1; p=', 'v=other; p=?']",
            "name: a.b, type: TXT, values: ['v=DKIM1']",
        ],
    ),
    (
        "dkim-weak",
        &["name: a._domainkey, type: TXT, values: ['v=DKIM1; p=AQID']"],
        &["name: a._domainkey, type: TXT, values: ['v=DKIM1; k=ed25519; p=AQID']"],
    ),
    (
        "dmarc-form",
        &["name: _dmarc, type: TXT, values: ['v=DMARC1; rua=mailto:a@example.com']"],
        &["name: _dmarc, type: TXT, values: ['v=DMARC1; p=none']"],
    ),
    (
        "dmarc-several",
        &["name: _dmarc, type: TXT, values: ['v=DMARC1; p=none', 'v=DMARC1; p=reject']"],
        &["name: _dmarc, type: TXT, values: ['v=DMARC1; p=none', other]"],
    ),
    (
        "ds-weak",
        &["name: s, type: DS, values: [1 5 9 aa]"],
        &["name: s, type: DS, values: [1 13 9 aa, 1 5 9 aa]"],
    ),
    (
        "hostname-hyphen",
        &["name: a.b-, type: AAAA, values: ['2001:db8::1']"],
        &["name: -a, type: TXT, values: [x]", "name: a-b.xn--bcher-kva, type: A, values: [192.0.2.1]"],
    ),
    (
        "hostname-hyphen",
        &["name: -a, type: CNAME, values: [x.example.net.]"],
        &["name: a-b, type: CNAME, values: [-x.example.net.]"],
    ),
    (
        "hostname-underscore",
        &["name: a_b, type: A, values: [192.0.2.1]"],
        &["name: a_b, type: TXT, values: [x]", "name: _dc, type: A, values: [192.0.2.1]"],
    ),
    (
        "hostname-underscore",
        &["name: a_b, type: CNAME, values: [x.example.net.]"],
        &[
            "name: _acme-challenge.a, type: CNAME, values: [x.example.net.]",
            "name: s_1._domainkey, type: CNAME, values: [x.example.net.]",
            "name: _dmarc, type: CNAME, values: [x.example.net.]",
        ],
    ),
    (
        "mx-null",
        &["name: '@', type: MX, values: [0 ., 10 a.example.net.]"],
        &["name: '@', type: MX, values: [0 .]"],
    ),
    (
        "mx-null-sender",
        &["name: a, type: MX, values: [0 .]", "name: a, type: TXT, values: ['v=spf1 mx -all']"],
        &["name: a, type: MX, values: [0 .]", "name: a, type: TXT, values: ['v=spf1  -ALL']"],
    ),
    (
        "mx-target-cname",
        &[
            "name: '@', type: MX, values: [10 a.example.com.]",
            "name: a, type: CNAME, values: [x.example.net.]",
        ],
        &["name: '@', type: MX, values: [10 a.example.com.]", "name: a, type: A, values: [192.0.2.1]"],
    ),
    (
        "naptr-both",
        &["name: a, type: NAPTR, values: ['1 1 u s \"!a!b!\" x.example.net.']"],
        &["name: a, type: NAPTR, values: ['1 1 u s \"!a!b!\" .', '1 1 s s \"\" x.example.net.']"],
    ),
    (
        "ns-single",
        &["name: s, type: NS, values: [a.example.net.]"],
        &["name: s, type: NS, values: [a.example.net., b.example.net.]"],
    ),
    (
        "ns-target-cname",
        &[
            "name: '@', type: NS, values: [a.example.com., b.example.net.]",
            "name: a, type: CNAME, values: [x.example.net.]",
        ],
        &[
            "name: '@', type: NS, values: [a.example.com., b.example.net.]",
            "name: a, type: A, values: [192.0.2.1]",
        ],
    ),
    (
        "ns-without-glue",
        &["name: s, type: NS, values: [ns.s.example.com., b.example.net.]"],
        &[
            "name: s, type: NS, values: [ns.s.example.com., b.example.net.]",
            "name: ns.s, type: AAAA, values: ['2001:db8::1']",
        ],
    ),
    (
        "service-name",
        &["name: sip, type: SRV, values: [1 1 1 a.example.net.]"],
        &[
            "name: _sip._tcp, type: SRV, values: [1 1 1 a.example.net.]",
            "name: '*._tcp', type: TLSA, values: [3 1 0 aa]",
        ],
    ),
    (
        "service-name",
        // Before the service stands a hash of the mailbox, RFC 8162 §3.
        &["name: _smimecert, type: SMIMEA, values: [3 1 0 aa]"],
        &["name: ab._smimecert, type: SMIMEA, values: [3 1 0 aa]"],
    ),
    (
        "soa-mailbox",
        &["name: '@', type: SOA, values: ['a.example.net. b@example.net. 7200 900 1209600 300']"],
        &["name: '@', type: SOA, values: [a.example.net. b.example.net. 7200 900 1209600 300]"],
    ),
    (
        "soa-timers",
        &["name: '@', type: SOA, values: [a.example.net. b.example.net. 100 200 400 60]"],
        &["name: '@', type: SOA, values: [a.example.net. b.example.net. 7200 900 1209600 300]"],
    ),
    (
        "soa-zero",
        &["name: '@', type: SOA, values: [a.example.net. b.example.net. 7200 900 1209600 0]"],
        &["name: '@', type: SOA, values: [a.example.net. b.example.net. 7200 900 1209600 1]"],
    ),
    (
        "spf-all",
        &["name: a, type: TXT, values: ['v=spf1 +all']"],
        &["name: a, type: TXT, values: ['v=spf1 -all']"],
    ),
    (
        "spf-lookups",
        &[
            "name: a, type: TXT, values: ['v=spf1 include:a include:b include:c include:d include:e include:f include:g include:h mx a exists:i -all']",
        ],
        &[
            "name: a, type: TXT, values: ['v=spf1 include:b.example.com mx ip4:192.0.2.0/24 -all']",
            "name: b, type: TXT, values: ['v=spf1 include:a.example.com a redirect=b.example.com']",
        ],
    ),
    (
        "spf-ptr",
        &["name: a, type: TXT, values: ['v=spf1 ptr:example.com -all']"],
        &["name: a, type: TXT, values: ['v=spf10 ptr']"],
    ),
    (
        "spf-several",
        &["name: a, type: TXT, values: ['v=spf1 -all', 'v=spf1 mx -all']"],
        &["name: a, type: TXT, values: ['v=spf1 -all', other]"],
    ),
    (
        "srv-target-cname",
        &[
            "name: _s._tcp, type: SRV, values: [1 1 1 a.example.com.]",
            "name: a, type: CNAME, values: [x.example.net.]",
        ],
        &[
            "name: _s._tcp, type: SRV, values: [1 1 1 a.example.com.]",
            "name: a, type: A, values: [192.0.2.1]",
        ],
    ),
    ("sshfp-weak", &["name: a, type: SSHFP, values: [2 9 aa]"], &["name: a, type: SSHFP, values: [4 9 aa]"]),
    (
        "svcb-alias",
        &["name: a, type: HTTPS, values: [0 x.example.net. alpn=h2]"],
        &["name: a, type: HTTPS, values: [0 x.example.net.]"],
    ),
    (
        "target-address",
        &["name: a, type: CNAME, values: [192.0.2.1.example.com.]"],
        &["name: a, type: PTR, values: [1.2.0.192.in-addr.arpa.]"],
    ),
    (
        "tlsa-fields",
        &["name: _443._tcp, type: TLSA, values: [4 1 9 aa]"],
        &["name: _443._tcp, type: TLSA, values: [3 1 0 aa]"],
    ),
    (
        "tlsa-fields",
        &["name: ab._smimecert, type: SMIMEA, values: [3 2 0 aa]"],
        &["name: ab._smimecert, type: SMIMEA, values: [3 1 0 aa]"],
    ),
    (
        "ttl-differs",
        &[
            "name: a, type: A, values: [192.0.2.1], merge: true, ttl: 60",
            "name: a, type: A, values: [192.0.2.2], merge: true",
        ],
        &[
            "name: a, type: A, values: [192.0.2.1], merge: true, ttl: 60",
            "name: a, type: A, values: [192.0.2.2], merge: true, ttl: 60",
            "name: a, type: AAAA, values: ['2001:db8::1']",
        ],
    ),
    (
        "ttl-long",
        &["name: a, type: A, values: [192.0.2.1], ttl: 604801"],
        &["name: a, type: A, values: [192.0.2.1], ttl: 604800"],
    ),
    (
        "ttl-zero",
        &["name: a, type: A, values: [192.0.2.1], ttl: 0"],
        &["name: a, type: A, values: [192.0.2.1], ttl: 1"],
    ),
    (
        "txt-blank",
        &["name: a, type: TXT, values: ['v=x ']"],
        &["name: a, type: TXT, values: [' v=x', 'say \"a \"', '']"],
    ),
    (
        "wildcard-delegation",
        &["name: '*.a', type: DNAME, values: [x.example.net.]"],
        &["name: '*.a', type: CNAME, values: [x.example.net.]"],
    ),
];

#[test]
fn each_rule_finds_what_breaks_it_and_leaves_what_does_not() {
    for (rule, bad, good) in TABLE {
        let broken: BTreeSet<&str> = rules(bad, false, &[]).into_iter().collect();
        // Some bad zones are bad in two ways at once; the rule itself is always told.
        assert!(broken.contains(rule), "{rule}: {broken:?}");
        assert!(broken.len() <= 2, "{rule}: {broken:?}");
        assert_eq!(rules(good, false, &[]), [""; 0], "{rule}");
    }
}

#[test]
fn what_is_missing_is_told_of_exclusive_zones_only() {
    let target = ["name: a, type: CNAME, values: [b.example.com.]"];
    assert_eq!(rules(&target, true, &[]), ["target-missing"]);
    assert_eq!(rules(&target, false, &[]), [""; 0], "the server may have it");
    let wild = [target[0], "name: '*', type: A, values: [192.0.2.1]"];
    assert_eq!(rules(&wild, true, &[]), [""; 0]);
    let alias = "name: '*.w', type: CNAME, values: [a.w.example.com.]";
    assert_eq!(rules(&[alias], true, &[]), ["target-missing"], "it leads to itself");
    assert_eq!(rules(&[alias], false, &[]), [""; 0], "the server may have it");
    let there = "name: a.w, type: A, values: [192.0.2.1]";
    assert_eq!(rules(&[alias, there], true, &[]), [""; 0]);
    let other = "name: '*', type: CNAME, values: [a.w.example.com.]";
    assert_eq!(rules(&[other, "name: '*.w', type: A, values: [192.0.2.1]"], true, &[]), [""; 0]);
    let ds = ["name: s, type: DS, values: [1 13 9 aa]"];
    assert_eq!((rules(&ds, true, &[]), rules(&ds, false, &[])), (vec!["ds-without-ns"], vec![]));
}

#[test]
fn who_takes_mail_says_who_sends_it_in_exclusive_zones() {
    let mx = "name: '@', type: MX, values: [10 mx.example.net.]";
    assert_eq!(rules(&[mx], true, &[]), ["spf-missing", "dmarc-missing"]);
    assert_eq!(rules(&[mx], false, &[]), [""; 0], "the server may have them");
    let spf = "name: '@', type: TXT, values: ['v=spf1 mx -all']";
    let dmarc = "name: _dmarc, type: TXT, values: ['v=DMARC1; p=reject']";
    assert_eq!(rules(&[mx, spf, dmarc], true, &[]), [""; 0]);
    let below = "name: a, type: MX, values: [10 mx.example.net.]";
    assert_eq!(rules(&[below, dmarc], true, &[]), ["spf-missing"], "the policy of the zone counts below it");
    let elsewhere = "name: _dmarc, type: CNAME, values: [policy.example.net.]";
    assert_eq!(rules(&[mx, spf, elsewhere], true, &[]), [""; 0]);
    assert_eq!(rules(&["name: '@', type: MX, values: [0 .]"], true, &[]), [""; 0], "it takes none");
}

#[test]
fn a_policy_counts_what_it_includes_from_the_same_zone() {
    let inner = |name: &str, asks: usize| {
        let terms: Vec<String> = (0..asks).map(|n| format!("exists:{n}.example.net")).collect();
        format!("name: {name}, type: TXT, values: ['v=spf1 {} -all']", terms.join(" "))
    };
    let outer = "name: '@', type: TXT, values: ['v=spf1 include:_a.example.com redirect=_b.example.com']";
    let told = |a, b| rules(&[outer, &inner("_a", a), &inner("_b", b)], false, &[]);
    assert_eq!(told(4, 4), [""; 0]);
    assert_eq!(told(4, 5), ["spf-lookups"]);
    // Forty that all include each other have more ways through them than anybody can walk.
    let all: Vec<String> = (0..40).map(|n| format!("include:{n}.example.com")).collect();
    let every: Vec<String> = (0..40)
        .map(|n| format!("name: '{n}', type: TXT, values: ['v=spf1 {} -all']", all.join(" ")))
        .collect();
    let every: Vec<&str> = every.iter().map(String::as_str).collect();
    assert_eq!(rules(&every, false, &[]), ["spf-lookups"; 40]);
}

#[test]
fn a_warning_is_silenced_and_an_error_is_not() {
    let zero = ["name: a, type: A, values: [192.0.2.1], ttl: 0"];
    assert_eq!(rules(&zero, false, &["ttl-zero"]), [""; 0]);
    assert_eq!(rules(&zero, false, &["ttl-long"]), ["ttl-zero"]);
    let looped = ["name: a, type: CNAME, values: [a.example.com.]"];
    assert_eq!(rules(&looped, false, &["cname-loop"]), ["cname-loop"]);
}

#[test]
fn the_catalogue_is_sorted_and_every_rule_is_tested() {
    assert!(RULES.windows(2).all(|pair| pair[0].id < pair[1].id));
    let mut tested: BTreeSet<&str> = TABLE.iter().map(|(rule, ..)| *rule).collect();
    // Two manifests, an exclusive zone, a large one: tests of their own.
    tested.extend(["cname-and-other-data", "target-missing", "ds-without-ns", "answer-large"]);
    tested.extend(["dmarc-missing", "spf-missing"]);
    assert_eq!(tested, RULES.iter().map(|rule| rule.id).collect());
}

#[test]
fn two_manifests_that_exclude_each_other_are_told() {
    let record = |text: &str| {
        normalized(&format!("kind: Zone\nmetadata: {{name: example.com}}\nspec: {{records: [{{{text}}}]}}\n"))
    };
    let one = record("name: a, type: CNAME, values: [x.example.net.]");
    let two = record("name: a, type: TXT, values: [x]");
    let all: Vec<_> = one.resources.iter().chain(&two.resources[1..]).collect();
    let declared: Vec<_> = all.iter().map(|resource| Linted { resource, quiet: &[] }).collect();
    let found = lint(&one.resources[0].scope, &declared, Around::default());
    assert_eq!((found[0].rule, found[0].index, found[0].other), ("cname-and-other-data", 2, Some(1)));
}

#[test]
fn what_several_share_is_looked_at_as_one_record() {
    // What is said of two records that share a name and type, and whether at both places.
    let told = |name: &str, kind: &str, values: [&str; 2]| {
        let record = |value| {
            let record = format!("name: '{name}', type: {kind}, values: ['{value}'], merge: true");
            format!("    - {{{record}}}\n")
        };
        let head = "kind: Zone\nmetadata: {name: example.com}\nspec:\n  records:\n";
        let out = normalized(&format!("{head}{}", values.map(record).concat()));
        let declared: Vec<_> = out.resources.iter().map(|resource| Linted { resource, quiet: &[] }).collect();
        let found = lint(&out.resources[0].scope, &declared, Around::default());
        let one = |finding: Finding| (finding.rule, finding.index, finding.other);
        found.into_iter().map(one).collect::<Vec<_>>()
    };
    let check = |name: &str, kind: &str, values: [&str; 2], expected: &[(&str, usize, Option<usize>)]| {
        assert_eq!(told(name, kind, values), expected, "{kind} {values:?}");
    };
    check("s", "NS", ["a.example.net.", "b.example.net."], &[]);
    check("s", "NS", ["a.example.net.", "a.example.net."], &[("ns-single", 1, None)]);
    check("s", "DS", ["1 5 9 aa", "1 13 9 aa"], &[]);
    check("a", "MX", ["10 a.example.net.", "0 ."], &[("mx-null", 1, Some(2))]);
    check("a", "HTTPS", ["0 a.example.net.", "1 ."], &[("svcb-alias", 1, Some(2))]);
    check("@", "TXT", ["v=spf1 mx -all", "v=spf1 a -all"], &[("spf-several", 1, Some(2))]);
    check("@", "TXT", ["v=spf1 mx -all", "v=spf1 mx -all"], &[]);
    check("_dmarc", "TXT", ["v=DMARC1; p=none", "v=DMARC1; p=reject"], &[("dmarc-several", 1, Some(2))]);
    // What is wrong with one of them is said of that one.
    check("@", "TXT", ["v=spf1 ptr -all", "verified"], &[("spf-ptr", 1, None)]);
    check("@", "TXT", ["verified", "v=spf1 ptr -all"], &[("spf-ptr", 2, None)]);
    check("a", "A", ["192.0.2.1", "0.0.0.0"], &[("address-unusable", 2, None)]);
}

#[test]
fn a_row_of_fifty_thousand_names_is_told_once() {
    let mut text = String::from("kind: Zone\nmetadata: {name: example.com}\nspec:\n  records:\n");
    for n in 0..50_000 {
        text += &format!("    - {{name: h{n}, type: A, values: [192.0.2.1]}}\n");
        text += &format!("    - {{name: c{n}, type: CNAME, values: [c{}.example.com.]}}\n", n + 1);
    }
    let values: Vec<String> = (0..400).map(|n| format!("10.0.{}.{}", n / 256, n % 256)).collect();
    text += &format!("    - {{name: many, type: A, values: [{}]}}\n", values.join(", "));
    let out = normalized(&text);
    let declared: Vec<_> = out.resources.iter().map(|resource| Linted { resource, quiet: &[] }).collect();
    // What is quadratic takes minutes.
    let found = lint(&out.resources[0].scope, &declared, Around::default());
    let rules: Vec<_> = found.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["cname-chain", "answer-large"]);
}

#[test]
fn the_page_of_rules_has_each_of_them() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dns-lint.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let row = |rule: &Rule| {
        let word = if rule.is_error { "error" } else { "warning" };
        format!("| `{}` | {word} | {} | {} |", rule.id, rule.says, rule.source)
    };
    assert_eq!(rows, RULES.iter().map(row).collect::<Vec<_>>());
}
