//! Canonical resources → a manifest a person would have written.
//!
//! Names are relative, the commonest TTL is said once, texts are quoted so that YAML keeps them as they are.
//! The apex NS and SOA are left out, since managing them needs consent, and so is what belongs to the remote
//! itself. So are the TXT records in which an ACME client proves a name: they come and go, and who declared one would take its
//! place. What no manifest can declare is listed in comments instead of being dropped in silence.

use crate::{
    name::{Name, relative, repeats_zone},
    rdata::{self, Type, structured::STRINGS},
    record::{self, DEFAULT_TTL, DISABLED, RrSet},
    route53::routing,
    strings,
};
use bytes::Bytes;
use reconciled_provider::{Found, Observed, Owner, Scope, yaml::quoted};
use std::{collections::BTreeMap, fmt::Write};

/// One manifest that declares what was found: a `Zone`, or a `RecordSet` where the zone itself is not among it.
///
/// It names no provider where `entry` is empty.
pub fn export(entry: &str, found: &Found) -> Vec<Bytes> {
    let sets: Vec<(&Observed, RrSet<'_>)> =
        found.resources.iter().filter_map(|o| Some((o, RrSet::decode(&o.bytes)?))).collect();
    let ttl = commonest_ttl(&found.scope, &sets);
    let zone = &found.scope.name.to_string();
    let mut out = String::new();
    let (mut skipped, mut challenges) = (String::new(), String::new());
    let whole = found.resources.iter().any(|o| o.id == record::zone_id(&found.scope));
    // A `*` in an address is a pattern.
    let first = sets.first().and_then(|(observed, _)| record::parts(&observed.id));
    let first = first.map(|(name, _)| name.trim_end_matches('.').replace('*', "wildcard"));
    let (kind, name) = match &first {
        Some(first) if !whole => ("RecordSet", first),
        _ => ("Zone", zone),
    };
    let _ = writeln!(out, "apiVersion: dns/v1\nkind: {kind}\nmetadata: {{name: {}}}\nspec:", quoted(name));
    if !whole {
        let _ = writeln!(out, "  zone: {}", quoted(zone));
    }
    if !entry.is_empty() {
        let _ = writeln!(out, "  provider: {}", quoted(entry));
    }
    // What a set does not say it takes from its zone, which says it elsewhere.
    if ttl != DEFAULT_TTL || !whole {
        let _ = writeln!(out, "  ttl: {ttl}");
    }
    let mut records = String::new();
    for (observed, set) in &sets {
        if is_challenge(observed) {
            list(&found.scope, observed, set, &mut challenges);
        } else if is_left_out(&found.scope, observed) {
            // Managing it needs consent.
        } else if let Some(record) = written_set(&found.scope, observed, set, ttl) {
            records.push_str(&record);
        } else {
            list(&found.scope, observed, set, &mut skipped);
        }
    }
    if records.is_empty() {
        out.push_str("  records: []\n");
    } else {
        out.push_str("  records:\n");
        out.push_str(&records);
    }
    if !skipped.is_empty() {
        out.push_str("# Not declared here, because no manifest can:\n");
        out.push_str(&skipped);
    }
    if !challenges.is_empty() {
        out.push_str("# Left to the ACME client that puts them there and takes them away:\n");
        out.push_str(&challenges);
    }
    vec![Bytes::from(out)]
}

/// What of `found` [`export`] can only list in comments, in words.
pub fn undeclarable(found: &Found) -> Vec<String> {
    let of = |observed: &Observed| {
        let set = RrSet::decode(&observed.bytes)?;
        let (_, kind) = record::parts(&observed.id)?;
        let is_left = is_challenge(observed) || is_left_out(&found.scope, observed);
        let is_lost = !is_left && written_set(&found.scope, observed, &set, DEFAULT_TTL).is_none();
        let name = listed_name(&found.scope, observed)?;
        is_lost.then(|| format!("{name} {kind} of {}, which no manifest can declare", found.scope.name))
    };
    found.resources.iter().filter_map(of).collect()
}

/// A set as a manifest with this TTL declares it; none where no manifest can.
fn written_set(scope: &Scope, observed: &Observed, set: &RrSet<'_>, ttl: u32) -> Option<String> {
    let (name, kind) = record::parts(&observed.id)?;
    let name = quoted(&written_name(scope, name)?);
    let known = Type::of(kind)?;
    if let Some(routing) = routing::declared(known, set) {
        return Some(format!("    - {{name: {name}, type: {kind}, route53: {}}}\n", literal(&routing)));
    }
    let values = set.values.iter().map(|value| declared(known, value)).collect::<Option<Vec<String>>>()?;
    let mut out = format!("    - {{name: {name}, type: {kind}, values: [{}]", values.join(", "));
    if set.ttl != ttl {
        let _ = write!(out, ", ttl: {}", set.ttl);
    }
    // A JSON object without its braces is a list of keys in the flow style of YAML.
    if let Some(extra) = set.extra.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        let _ = write!(out, ", {}", literal(extra));
    }
    out.push_str("}\n");
    Some(out)
}

/// How a manifest for the zone names this: relative, or with the dot at the end where that would read as another name or as a
/// mistake. None where it can be written in no way.
fn written_name(scope: &Scope, name: &str) -> Option<String> {
    let zone = Name::zone(&scope.name).ok()?;
    let means_it = |text: &str| Name::within(text, &zone).is_ok_and(|read| read.as_str() == name);
    let short = relative(name, zone.as_str());
    if means_it(&short) && !repeats_zone(&short, &zone) {
        return Some(short.into_owned());
    }
    means_it(name).then(|| name.to_owned())
}

/// A value as a manifest declares it; none where no manifest can.
fn declared(kind: Type, value: &str) -> Option<String> {
    let is_canonical = rdata::observed(kind.word(), value) == value;
    if value.starts_with(DISABLED) || !is_canonical {
        return None;
    }
    let cut = rdata::strings(kind, value);
    let whole = cut.as_ref().and_then(|_| strings::joined(value));
    if let Some(strings) = cut {
        let string = |octets| String::from_utf8(octets).ok().map(|text| quoted(&literal(&text)));
        if let Some(strings) = strings.into_iter().map(string).collect::<Option<Vec<String>>>() {
            return Some(format!("{{{STRINGS}: [{}]}}", strings.join(", ")));
        }
    }
    // What is cut within a character cannot be told string by string: its text equals it, however it is cut.
    let value = whole.as_deref().unwrap_or(value);
    let text = rdata::for_manifest(kind, value).filter(|_| survives(kind, value))?;
    Some(quoted(&literal(&text)))
}

/// Lists the records of a set in comments.
fn list(scope: &Scope, observed: &Observed, set: &RrSet<'_>, comments: &mut String) {
    let Some((_, kind)) = record::parts(&observed.id) else { return };
    let Some(name) = listed_name(scope, observed) else { return };
    for value in &set.values {
        let _ = writeln!(comments, "#   {name} {} {kind} {value}", set.ttl);
    }
}

/// What a set is called among comments.
fn listed_name(scope: &Scope, observed: &Observed) -> Option<String> {
    let (name, _) = record::parts(&observed.id)?;
    let short = || relative(name, &record::zone_name(scope)).into_owned();
    Some(written_name(scope, name).unwrap_or_else(short))
}

/// True for the answers to challenges of ACME (RFC 8555 §8.4). A CNAME or NS at such a name leads to where they are, and stays.
fn is_challenge(observed: &Observed) -> bool {
    record::parts(&observed.id)
        .is_some_and(|(name, kind)| name.starts_with("_acme-challenge.") && kind == "TXT")
}

/// True for what is the remote's own, or needs consent to be managed.
fn is_left_out(scope: &Scope, observed: &Observed) -> bool {
    observed.owner == Owner::System || record::guard_word(scope, &observed.id) == Some("apex-ns")
}

/// True when a manifest that declares the value gives the same canonical value again.
fn survives(kind: Type, canonical: &str) -> bool {
    let Ok(zone) = Name::zone("invalid") else { return false };
    let written = rdata::for_manifest(kind, canonical).map(|value| rdata::written(kind, &value, &zone));
    matches!(written, Some(Ok(again)) if again == canonical)
}

fn commonest_ttl(scope: &Scope, sets: &[(&Observed, RrSet<'_>)]) -> u32 {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for (observed, set) in sets {
        if !is_left_out(scope, observed) {
            *counts.entry(set.ttl).or_default() += 1;
        }
    }
    // The smallest of equals, so that the text does not depend on the order of records.
    counts
        .iter()
        .max_by_key(|(ttl, count)| (**count, std::cmp::Reverse(**ttl)))
        .map_or(DEFAULT_TTL, |(ttl, _)| *ttl)
}

/// As a manifest writes what it does not want anything put in place of: `$${`.
fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalize::tests::normalized;
    use proptest::prelude::*;
    use reconciled_provider::Normalized;

    fn found(normalized: &Normalized) -> Found {
        let observed =
            |r: &reconciled_provider::Resource| Observed::new(r.id.clone(), r.spec.bytes().unwrap());
        let mut resources: Vec<_> = normalized.resources.iter().map(observed).collect();
        resources.sort_by(|a, b| a.id.cmp(&b.id));
        Found::new((*normalized.resources[0].scope).clone(), resources)
    }

    fn contents(normalized: &Normalized) -> BTreeMap<String, Vec<u8>> {
        let content =
            |r: &reconciled_provider::Resource| (r.id.to_string(), r.spec.bytes().unwrap().to_vec());
        normalized.resources.iter().map(content).collect()
    }

    fn round(text: &str) -> String {
        let first = normalized(text);
        assert!(first.problems.iter().all(|p| !p.is_error()), "{:?}", first.problems);
        let exported = String::from_utf8(export("pdns", &found(&first)).remove(0).to_vec()).unwrap();
        // What a manifest has put in its place before it is normalized.
        let second = normalized(&exported.replace("$${", "${"));
        assert!(second.problems.iter().all(|p| !p.is_error()), "{exported}\n{:?}", second.problems);
        assert_eq!(contents(&first), contents(&second), "{exported}");
        exported
    }

    #[test]
    fn an_export_reads_like_a_manifest_somebody_wrote() {
        let text = round(concat!(
            "kind: Zone\nmetadata: {name: example.com}\nspec:\n  records:\n",
            "    - {name: \"@\", type: A, values: [192.0.2.1, 192.0.2.2], ttl: 60}\n",
            "    - {name: www, type: CNAME, values: [example.com.], ttl: 60}\n",
            "    - {name: \"*.dev\", type: TXT, values: [\"v=spf1 -all\"], ttl: 5}\n",
            "    - {name: \"@\", type: CAA, values: ['0 issue \"letsencrypt.org\"'], ttl: 60}\n",
        ));
        assert_eq!(
            text,
            concat!(
                "apiVersion: dns/v1\nkind: Zone\nmetadata: {name: example.com}\nspec:\n",
                "  provider: pdns\n  ttl: 60\n  records:\n",
                "    - {name: \"*.dev\", type: TXT, values: [\"v=spf1 -all\"], ttl: 5}\n",
                "    - {name: \"@\", type: A, values: [\"192.0.2.1\", \"192.0.2.2\"]}\n",
                "    - {name: \"@\", type: CAA, values: [\"0 issue \\\"letsencrypt.org\\\"\"]}\n",
                "    - {name: www, type: CNAME, values: [example.com.]}\n",
            )
        );
    }

    #[test]
    fn what_reads_like_a_reference_is_written_as_the_text_that_it_is() {
        let text = round(concat!(
            "kind: Zone\nmetadata: {name: example.com}\nspec:\n  records:\n",
            "    - {name: t, type: TXT, values: [\"a ${vars.domain} b ${HOME}\"]}\n",
        ));
        assert!(text.contains("\"a $${vars.domain} b $${HOME}\""), "{text}");
    }

    #[test]
    fn the_strings_of_a_text_are_declared_where_it_is_cut_elsewhere_than_every_255_octets() {
        let long = "x".repeat(300);
        let text = round(&format!(
            "kind: Zone\nmetadata: {{name: example.com}}\nspec:\n  records:\n    - {{name: a, type: TXT, values: [{{strings: [\"path=/x\", rp, \"\", \"${{x}}\"]}}, plain]}}\n    - {{name: b, type: TXT, values: [{long}]}}\n",
        ));
        assert!(text.contains("values: [{strings: [\"path=/x\", rp, \"\", \"$$"), "{text}");
        assert!(text.contains(", plain]") && text.contains(&format!("values: [{long}]")), "{text}");
    }

    #[test]
    fn a_text_that_is_cut_within_a_character_is_declared_as_a_whole() {
        let cut = "300\n\"x\\195\" \"\\164y\"";
        let resources = vec![
            Observed::new("a.example.com./TXT".into(), cut.as_bytes()),
            Observed::new("example.com.".into(), "zone".as_bytes()),
        ];
        let found = Found::new(Scope::new("pdns", "example.com"), resources);
        assert_eq!(undeclarable(&found), [""; 0]);
        let text = String::from_utf8(export("pdns", &found).remove(0).to_vec()).unwrap();
        let again = normalized(&text);
        assert_eq!(again.problems, [], "{text}");
        assert_eq!(contents(&again)["a.example.com./TXT"], "300\n\"xäy\"".as_bytes(), "{text}");
    }

    #[test]
    fn what_no_manifest_can_declare_is_listed_in_comments_and_the_apex_is_left_out() {
        let observed = |id: &str, bytes: &str| Observed::new(id.into(), bytes.as_bytes());
        let resources = vec![
            observed("example.com.", "zone"),
            observed("example.com./NS", "300\nns1.example.com."),
            observed("example.com./SOA", "300\na. b. 1 2 3 4"),
            observed("loc.example.com./LOC", "300\n51 30 12.748 N"),
            observed("off.example.com./A", "300\n(disabled) 192.0.2.1"),
            observed("raw.example.com./TXT", "300\n\"\\255\""),
        ];
        let mut found = Found::new(Scope::new("pdns", "example.com"), resources);
        found.resources[2].owner = Owner::System;
        let text = String::from_utf8(export("pdns", &found).remove(0).to_vec()).unwrap();
        assert!(text.contains("records: []"), "{text}");
        assert!(!text.contains("NS ") && !text.contains("SOA"), "{text}");
        for part in ["#   loc 300 LOC 51", "#   off 300 A (disabled)", "#   raw 300 TXT \"\\255\""] {
            assert!(text.contains(part), "{text}");
        }
        assert!(normalized(&text).problems.is_empty());
    }

    #[test]
    fn a_name_that_would_read_as_another_is_written_with_its_dot_or_listed() {
        let observed = |id: &str| Observed::new(id.into(), "300\n192.0.2.1".as_bytes());
        let found = Found::new(
            Scope::new("pdns", "example.com"),
            vec![
                observed("@.example.com./A"),
                observed("example.com./A"),
                observed("example.com.example.com./A"),
                observed("star*x.example.com./A"),
                observed("www.example.com.example.com./A"),
                Observed::new("example.com.".into(), "zone".as_bytes()),
            ],
        );
        let text = String::from_utf8(export("pdns", &found).remove(0).to_vec()).unwrap();
        let again = normalized(&text);
        assert_eq!(again.problems, [], "{text}");
        let mut declared: Vec<String> = again.resources.iter().map(|r| r.id.to_string()).collect();
        declared.sort();
        let mut expected: Vec<String> = found.resources.iter().map(|o| o.id.to_string()).collect();
        expected.retain(|id| !id.starts_with("star"));
        expected.sort();
        assert_eq!(declared, expected, "{text}");
        assert!(text.contains("can:\n#   star*x 300 A 192.0.2.1\n"), "{text}");
        assert_eq!(undeclarable(&found), ["star*x A of example.com, which no manifest can declare"]);
    }

    #[test]
    fn what_an_acme_client_proves_names_with_is_left_to_it() {
        let observed = |id: &str, bytes: &str| Observed::new(id.into(), bytes.as_bytes());
        let resources = vec![
            observed("_acme-challenge.a.example.com./CNAME", "300\nx.example.net."),
            observed("_acme-challenge.b.example.com./NS", "300\nns1.example.net."),
            observed("_acme-challenge.example.com./TXT", "60\n\"token\"\n\"token2\""),
            observed("acme.example.com./TXT", "300\n\"kept\""),
            observed("example.com.", "zone"),
        ];
        let found = Found::new(Scope::new("pdns", "example.com"), resources);
        let text = String::from_utf8(export("pdns", &found).remove(0).to_vec()).unwrap();
        let out = normalized(&text);
        assert_eq!((out.problems.len(), out.resources.len()), (0, 4), "{text}");
        let comments = concat!(
            "# Left to the ACME client that puts them there and takes them away:\n",
            "#   _acme-challenge 60 TXT \"token\"\n#   _acme-challenge 60 TXT \"token2\"\n",
        );
        assert!(text.ends_with(comments) && !text.contains("can:"), "{text}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn exporting_loses_nothing(
            texts in proptest::collection::vec(".{0,40}", 1..4),
            ttl in 0u32..100_000,
            name in "(@|[a-z_][a-z0-9-]{0,8}|no|[0-9]{1,4})",
        ) {
            let values: Vec<_> = texts.iter().map(|t| quoted(t)).collect();
            round(&format!(
                "kind: Zone\nmetadata: {{name: example.com}}\nspec:\n  records:\n    - {{name: \"{name}\", type: TXT, ttl: {ttl}, values: [{}]}}\n",
                values.join(", ")
            ));
        }
    }
}
