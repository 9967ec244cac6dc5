//! `DNSEndpoint` of ExternalDNS.

use super::*;
use crate::route53;

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
fn endpoints_with_a_set_identifier_are_sets_of_one_record_at_route53() {
    let manifest = endpoints(concat!(
        "    - {dnsName: www.example.com, recordType: A, recordTTL: 60, targets: [192.0.2.1], setIdentifier: eu,\n",
        "       providerSpecific: [{name: aws/weight, value: '10'}, {name: aws/health-check-id, value: hc1}]}\n",
        "    - {dnsName: WWW.example.com, recordType: A, targets: [192.0.2.2], setIdentifier: us,\n",
        "       providerSpecific: [{name: aws/weight, value: '90'}, {name: aws/evaluate-target-health, value: 'true'}]}\n",
        "    - {dnsName: g.example.com, recordType: A, targets: [192.0.2.3], setIdentifier: de,\n",
        "       providerSpecific: [{name: aws/geolocation-country-code, value: DE}]}\n",
        "    - {dnsName: b.example.com, recordType: A, targets: [192.0.2.4], setIdentifier: x,\n",
        "       providerSpecific: [{name: aws/weight, value: many}]}\n",
        "    - {dnsName: p.example.com, recordType: A, targets: [192.0.2.5]}\n",
    ));
    let out = normalize_for(&manifest, &at_scopes(&["pdns/example.com"]), &route53::SERVED);
    assert_eq!(
        told(&out.problems),
        [
            "9:60 `aws/evaluate-target-health` with `true` is not supported, and is left out / ",
            "13:27 `aws/weight` with `many` is not supported, and is left out / ",
            "12:7 a set needs one way to be chosen / write one of weight, region, geo, failover and multivalue",
        ]
    );
    let expected = [
        "www.example.com./A 60 {\"route53\":{\"sets\":{\"eu\":{\"ttl\":60,\"weight\":10,\"healthCheck\":\"hc1\"},\
         \"us\":{\"ttl\":300,\"weight\":90}}}}\n(set eu) 192.0.2.1\n(set us) 192.0.2.2",
        "g.example.com./A 300 {\"route53\":{\"sets\":{\"de\":{\"ttl\":300,\"geo\":{\"country\":\"DE\"}}}}}\n(set de) 192.0.2.3",
        "p.example.com./A 300\n192.0.2.5",
    ];
    assert_eq!(contents(&out), expected);
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
fn an_endpoint_is_unsure_while_a_zone_that_would_take_it_may_be_declared_where_nothing_can_be_read() {
    let db = "    - {dnsName: db.int.example.com, recordType: A, targets: [10.0.0.5]}\n";
    let check = |hidden: &'static str, providers: &[&str], is_unsure: bool| {
        let mut manifest = endpoints(db);
        manifest.providers =
            (!providers.is_empty()).then(|| providers.iter().map(|name| (*name).into()).collect());
        let inputs =
            TestInputs { hidden: [hidden].into(), ..at_scopes(&["pdns/example.com", "cf/example.org"]) };
        let out = normalize(&manifest, &inputs);
        assert_eq!((out.is_unsure, told(&out.problems)), (is_unsure, Vec::new()), "{hidden} {providers:?}");
    };
    check("int.example.com", &[], true);
    check("db.int.example.com", &["pdns"], true);
    check("com", &[], false);
    check("int.example.org", &[], false);
    // The same zone at another entry would be a question, unless it is said which is meant.
    check("example.com", &[], true);
    check("example.com", &["pdns"], false);
    check("example.com", &["pdns", "cf"], true);
    let out = normalize(&endpoints(db), &at_scopes(&["pdns/example.com"]));
    assert!(!out.is_unsure && !out.resources.is_empty());
}
