//! `reverse: true`.

use super::*;

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

#[test]
fn an_address_without_a_reverse_zone_is_told_without_the_name_of_an_entry() {
    // Where no configuration is at hand, an entry has a name that nobody wrote.
    let record = "    - {name: a, type: A, values: [192.0.2.1], reverse: true}\n";
    let out = normalize(&manifest(&zone_text(record)), &TestInputs::default());
    let expected = "5:7 no reverse zone for 192.0.2.1 is declared at the same provider / declare a Zone such as \
                    `2.0.192.in-addr.arpa`, or leave `reverse` out";
    assert_eq!(told(&out.problems), [expected]);
}

#[test]
fn a_ptr_that_its_zone_ignores_is_not_declared_by_reverse() {
    let name = "2.0.192.in-addr.arpa";
    let zone = format!(
        "kind: Zone\nmetadata: {{name: {name}}}\nspec:\n  ignore:\n    - {{type: PTR, target: a.*}}\n    - {{name: '3'}}\n"
    );
    let scopes = [Scope::new("pdns", name)].into();
    let inputs = TestInputs { scopes, siblings: vec![manifest(&zone)], ..TestInputs::default() };
    let out = normalize(
        &manifest(&zone_text(concat!(
            "    - {name: a, type: A, values: [192.0.2.1], reverse: true}\n",
            "    - {name: b, type: A, values: [192.0.2.2, 192.0.2.3], reverse: true}\n",
        ))),
        &inputs,
    );
    let ignored = |line: u32, part: &str| {
        let hint = "leave `reverse` out, or narrow the rule of `ignore`";
        format!("{line}:7 `reverse` declares {part} of {name}, which ignores it / {hint}")
    };
    assert_eq!(told(&out.problems), [ignored(5, "1/PTR"), ignored(6, "3/PTR")]);
    let rules: Vec<u32> = out.problems.iter().flat_map(|p| &p.related).map(|(place, _)| place.line).collect();
    assert_eq!(rules, [5, 6]);
    let ids: Vec<&str> = out.resources.iter().map(|r| &*r.id.0).filter(|id| id.ends_with("PTR")).collect();
    assert_eq!(ids, ["2.2.0.192.in-addr.arpa./PTR"]);
}

#[test]
fn a_ptr_is_unsettled_while_a_longer_zone_may_be_declared_where_nothing_can_be_read() {
    let record = "    - {name: a, type: A, values: [192.0.2.1], reverse: true}\n";
    let check = |scopes: &[&str], hidden: &'static str, unsettled: &[&str], pointers: usize| {
        let scopes = scopes.iter().map(|name| Scope::new("pdns", *name)).collect();
        let inputs = TestInputs { scopes, hidden: [hidden].into(), ..TestInputs::default() };
        let out = normalize(&manifest(&zone_text(record)), &inputs);
        assert_eq!(told(&out.problems), [""; 0]);
        let found: Vec<String> = out.unsettled.iter().map(|(scope, id)| format!("{scope} {id}")).collect();
        let one = |zone: &&str| format!("pdns/{zone} 1.2.0.192.in-addr.arpa./PTR");
        assert_eq!(found, unsettled.iter().map(one).collect::<Vec<_>>());
        let is_pointer = |resource: &&Resource| resource.id.0.ends_with("PTR");
        assert_eq!(out.resources.iter().filter(is_pointer).count(), pointers);
        assert!(!out.is_unsure, "what else is in the manifest goes on");
        assert!(contents(&out).iter().any(|content| content.starts_with("a.example.com./A")));
    };
    let (short, long) = ("192.in-addr.arpa", "2.0.192.in-addr.arpa");
    check(&[short], long, &[long, short], 0);
    check(&[], long, &[long], 0);
    check(&[long], short, &[], 1);
    check(&[short], "2.0.198.in-addr.arpa", &[], 1);
}
