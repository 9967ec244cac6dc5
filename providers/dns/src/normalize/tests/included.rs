//! Included zone files.

use super::*;

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
        "t.example.com./TXT 3600\n\"a\\255\" \"b\"",
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
    let twice = "@ 60 SOA ns1 h 1 2 3 4 5\nx 60 A 192.0.2.1\n@ 60 SOA ns1 h 1 2 3 4 5\n";
    assert_eq!(contents(&beside(&[("f", twice)], text))[1..2], contents(&out)[1..]);
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
