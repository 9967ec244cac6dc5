//! The YAML reader beside serde-saphyr, which reads the same events into any type: same nodes, same places, same
//! refusals, but for tags of other programs, which only the reader refuses.

use proptest::prelude::*;
use reconciled_provider::{
    Node, Span,
    yaml::{Limits, NodeValue, ScalarKind, SourceFile, parse},
};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};
use std::fmt;

/// A node before its plain scalars are given back the text they were written with.
enum Raw {
    Null,
    Text(String),
    Plain(ScalarKind),
    Seq(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

fn node(raw: Spanned<Raw>, text: &str) -> Node {
    let value = match raw.value {
        Raw::Null => NodeValue::Null,
        Raw::Text(text) => NodeValue::Scalar(text.into(), ScalarKind::Str),
        Raw::Plain(kind) => NodeValue::Scalar(written(&raw.defined, text), kind),
        Raw::Seq(nodes) => NodeValue::Seq(nodes.into_iter().map(|raw| node(raw, text)).collect()),
        Raw::Map(entries) => {
            NodeValue::Map(entries.into_iter().map(|(key, raw)| (key_node(key), node(raw, text))).collect())
        }
    };
    Node { span: span(&raw.referenced), value }
}

fn key_node(key: Spanned<String>) -> Node {
    Node { span: span(&key.referenced), value: NodeValue::Scalar(key.value.into(), ScalarKind::Str) }
}

fn written(location: &Location, text: &str) -> Box<str> {
    let start = location.span().byte_offset().unwrap_or(0) as usize;
    let length = location.span().byte_len().unwrap_or(0) as usize;
    text.get(start..start + length).unwrap_or("").trim().into()
}

fn span(location: &Location) -> Span {
    Span { line: location.line() as u32, column: location.column() as u32 }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Raw, E> {
        Ok(Raw::Plain(ScalarKind::Bool))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Raw, E> {
        Ok(Raw::Plain(ScalarKind::Int))
    }
    fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
        Ok(Raw::Plain(ScalarKind::Int))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Plain(ScalarKind::Float))
    }
    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.into()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = access.next_element()? {
            nodes.push(node);
        }
        Ok(Raw::Seq(nodes))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

/// What serde-saphyr makes of a file with the same rules.
fn expected(text: &str) -> Result<Vec<Node>, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        legacy_octal_numbers: false,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 0 },
        budget: serde_saphyr::budget! { max_depth: 32, max_aliases: 0, max_merge_keys: 0 },
    };
    let raw: Vec<Spanned<Raw>> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.to_string())?;
    Ok(raw.into_iter().map(|raw| node(raw, text)).filter(|node| !node.is_null()).collect())
}

fn check(text: &str) -> Result<(), TestCaseError> {
    let read = parse(&SourceFile::new("f.yaml", text), Limits::default());
    match (read, expected(text)) {
        (Ok(read), Ok(expected)) => prop_assert_eq!(read, expected, "{:?}", text),
        (Err(_), Err(_)) => {}
        (read, expected) => prop_assert!(false, "{:?}\nread: {:?}\nexpected: {:?}", text, read, expected),
    }
    Ok(())
}

/// Pieces of YAML; put together they are as often wrong as right.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "a",
        "b: ",
        "- ",
        "? ",
        "key: ",
        "\n",
        "\n  ",
        "\n    ",
        ", ",
        "[",
        "]",
        "{",
        "}",
        "'x'",
        "\"y\\n\"",
        "|\n  block\n",
        ">-\n  folded\n",
        "# note\n",
        "---\n",
        "...\n",
        "~",
        "null",
        "true",
        "False",
        "no",
        "0",
        "-1",
        "1.10",
        "0755",
        "0x1F",
        "1_000",
        "1__0",
        "+5",
        ".5",
        "5.",
        "1e3",
        ".inf",
        "-.nan",
        "inf",
        "18446744073709551616",
        "-9223372036854775808",
        "10.0.0.1",
        "2001-01-01",
        "&x ",
        "*x",
        "<<: ",
        "!!str ",
        "!!int ",
        "!!null ",
        "! ",
        "\t",
        "é",
        "\u{feff}",
        "%YAML 1.2\n",
        ":",
        "::1",
        "a:b",
    ];
    prop::sample::select(words.map(String::from).to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn anything_is_read_or_refused_as_serde_saphyr_does(pieces in prop::collection::vec(piece(), 0..14)) {
        check(&pieces.concat())?;
    }

    #[test]
    fn flow_collections_are_read_alike(pieces in prop::collection::vec(piece(), 1..6)) {
        check(&format!("k: [{}]\n", pieces.join(", ")))?;
        check(&format!("- {{a: {}}}\n", pieces.join(", z: ")))?;
    }
}
