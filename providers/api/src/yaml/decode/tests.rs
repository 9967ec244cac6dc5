use super::*;
use crate::yaml::{Limits, parse};
use crate::{At, Each};
use serde::de::Deserialize;

#[derive(serde::Deserialize, Debug)]
#[expect(dead_code, reason = "the tests look at problems and counts")]
struct Zone {
    zone: String,
    ttl: Option<u32>,
    #[serde(default)]
    exclusive: bool,
    #[serde(default)]
    records: Each<Record>,
}

#[derive(serde::Deserialize, Debug)]
struct Record {
    name: String,
    values: Vec<String>,
}

fn check(text: &str) -> (Option<Zone>, String) {
    let file = SourceFile::new("z.yaml", text);
    let node = parse(&file, Limits::default()).unwrap().remove(0);
    let (zone, problems) = node.decode::<Zone>(&file);
    let lines: Vec<_> =
        problems.iter().map(|p| format!("{}: {}", p.place.as_ref().unwrap(), p.message)).collect();
    (zone, lines.join("\n"))
}

#[test]
fn good_elements_stand_beside_bad_ones_and_all_problems_are_found() {
    let (zone, problems) = check(
        "zone: a\nrecords:\n- {name: x, values: [1.10]}\n- {name: y, valuez: [b]}\n- {name: [], values: []}\n- 7\nextra: 1\n",
    );
    let zone = zone.unwrap();
    assert_eq!(zone.records.len(), 1);
    assert_eq!(
        (zone.records[0].value.name.as_str(), zone.records[0].value.values[0].as_str()),
        ("x", "1.10")
    );
    assert_eq!(
        problems,
        "z.yaml:4:3: field `values` is missing\nz.yaml:4:13: unknown field `valuez`\nz.yaml:5:10: expected text, found a list\n\
         z.yaml:6:3: expected a mapping, found `7`\nz.yaml:7:1: unknown field `extra`"
    );
}

#[test]
fn a_number_that_is_written_as_another_thing_is_told_with_what_to_write() {
    let check = |ttl: &str, expect: Option<&str>| {
        let file = SourceFile::new("z.yaml", format!("zone: a\nttl: {ttl}\n"));
        let node = parse(&file, Limits::default()).unwrap().remove(0);
        let (_, problems) = node.decode::<Zone>(&file);
        assert_eq!(problems[0].hint.as_deref(), expect, "{ttl}");
    };
    let seconds = Some("write a number without a unit: of a time, its seconds, such as 3600");
    check("1h", seconds);
    check("'30m'", seconds);
    check("'60'", Some("write it without quotes: 60"));
    check("soon", None);
    check("1x", None);
    check("true", None);
    check("[1]", None);
}

#[test]
fn booleans_are_strict_and_numbers_are_not_text() {
    assert_eq!(check("zone: a\nexclusive: yes\n").1, "z.yaml:2:12: expected `true` or `false`, found `yes`");
    assert_eq!(check("zone: a\nttl: '60'\n").1, "z.yaml:2:6: expected a number, found the text `60`");
    assert_eq!(
        check("zone: a\nexclusive: 'true'\n").1,
        "z.yaml:2:12: expected `true` or `false`, found the text `true`"
    );
    assert_eq!(
        check("zone: a\nttl: -1\n").1,
        "z.yaml:2:6: expected a whole number from 0 to 4294967295, found `-1`"
    );
}

#[test]
fn a_number_that_is_not_known_yet_notes_what_it_waits_for() {
    #[derive(serde::Deserialize)]
    struct Timed {
        ttl: At<u32>,
    }
    let file = SourceFile::new("z.yaml", "ttl: 0\n");
    let mut node = parse(&file, Limits::default()).unwrap().remove(0);
    let target = crate::ManifestKey("s/aws/Queue//jobs".into());
    let reference = Reference { target, path: "status.ttl".into() };
    let NodeValue::Map(entries) = &mut node.value else { panic!("a mapping") };
    let unknown = ScalarKind::Unknown([reference.clone()].into());
    entries[0].1.value = NodeValue::Scalar("${Queue/jobs:status.ttl}".into(), unknown);
    let (timed, problems) = node.decode::<Timed>(&file);
    assert_eq!(problems, []);
    assert_eq!(timed.unwrap().ttl.unknown, [reference]);
}

#[test]
fn what_a_type_refuses_points_at_the_value_and_not_at_the_mapping_around_it() {
    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "only the problem counts")]
    struct Timed {
        name: String,
        every: Seconds,
    }
    struct Seconds;
    impl<'de> Deserialize<'de> for Seconds {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
            let text = String::deserialize(deserializer)?;
            Err(de::Error::custom(format!("`{text}` is no duration")))
        }
    }
    let file = SourceFile::new("z.yaml", "name: a\nevery: often\n");
    let node = parse(&file, Limits::default()).unwrap().remove(0);
    let place = node.decode::<Timed>(&file).1.remove(0).place.unwrap();
    assert_eq!((place.line, place.column), (2, 8));
}

#[test]
fn an_element_knows_its_place() {
    let (zone, _) = check("zone: a\nrecords:\n  - name: x\n    values: [a]\n");
    assert_eq!(zone.unwrap().records[0].span, Span { line: 3, column: 5 });
}
