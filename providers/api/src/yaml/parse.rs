//! Text → documents, with budgets.

use super::node::{Node, NodeValue, ScalarKind, SourceFile, Span};
use crate::problem::Problem;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};
use std::fmt;

/// What one file may cost. Each budget grows with the size of the file, because an honest document needs
/// at least a byte or two for each node, so only amplification (aliases, merge keys) is ever refused.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest accepted file in bytes.
    pub file_bytes: usize,
    /// Deepest accepted nesting.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { file_bytes: 16 << 20, depth: 32 }
    }
}

/// Parses every document of `file`.
///
/// Empty documents are skipped. Errors: one [`Problem`] that says what is wrong with the file as YAML; a
/// file is one unit here, since nothing after a syntax error can be trusted.
///
/// ```
/// use reconciled_provider::yaml::{parse, Limits, SourceFile};
/// let file = SourceFile::new("a.yaml", "kind: Zone\n---\nkind: File\n");
/// let documents = parse(&file, Limits::default()).unwrap();
/// assert_eq!(documents[1].get("kind").unwrap().as_str(), Some("File"));
/// ```
pub fn parse(file: &SourceFile, limits: Limits) -> Result<Vec<Node>, Box<Problem>> {
    let size = file.text.len();
    if size > limits.file_bytes {
        let text = format!("the file has {size} bytes, more than the limit of {}", limits.file_bytes);
        return Err(Box::new(Problem::error(text).in_file(&file.path).hint("split it into several files")));
    }
    let raw: Vec<Spanned<Raw>> = serde_saphyr::from_multiple_with_options(&file.text, options(size, limits))
        .map_err(|error| Box::new(problem(file, &error)))?;
    let nodes = raw.into_iter().map(|raw| settle(raw, &file.text)).filter(|node| !node.is_null()).collect();
    Ok(nodes)
}

fn options(size: usize, limits: Limits) -> serde_saphyr::Options {
    serde_saphyr::options! {
        strict_booleans: true,
        legacy_octal_numbers: false,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 0 },
        budget: serde_saphyr::budget! {
            max_events: size * 2 + 1_000,
            max_nodes: size + 1_000,
            max_documents: size / 4 + 16,
            max_total_scalar_bytes: size + 1_000,
            max_depth: limits.depth,
            max_aliases: 0,
            max_anchors: size / 4 + 16,
            max_merge_keys: 0,
        },
    }
}

fn problem(file: &SourceFile, error: &serde_saphyr::Error) -> Problem {
    let error = error.without_snippet();
    let text = error.to_string();
    // The library appends the place to its text; ours is printed apart.
    let message = text.split(" at line ").next().unwrap_or(&text).trim_end_matches(['.', ',']).to_string();
    let lower = lower_first(&message);
    let problem = match error.location() {
        Some(location) => Problem::error(lower).at(file, span(&location)),
        None => Problem::error(lower).in_file(&file.path),
    };
    if text.contains("alias") {
        return problem.hint("aliases (`*name`) are not read: write the value out");
    }
    problem
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

fn span(location: &Location) -> Span {
    Span { line: location.line() as u32, column: location.column() as u32 }
}

/// A node before its plain scalars are given back the text they were written with.
enum Raw {
    Null,
    Text(Box<str>),
    Plain(ScalarKind),
    Seq(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

/// Turns the parsed form into nodes. The parser hands out numbers and booleans as values; their text is
/// taken from the source, since `1.10` and `1.1` are different TXT values.
fn settle(raw: Spanned<Raw>, text: &str) -> Node {
    let value = match raw.value {
        Raw::Null => NodeValue::Null,
        Raw::Text(text) => NodeValue::Scalar(text, ScalarKind::Str),
        Raw::Plain(kind) => NodeValue::Scalar(written(&raw.defined, text), kind),
        Raw::Seq(nodes) => NodeValue::Seq(nodes.into_iter().map(|node| settle(node, text)).collect()),
        Raw::Map(entries) => NodeValue::Map(
            entries.into_iter().map(|(key, node)| (settle_key(key), settle(node, text))).collect(),
        ),
    };
    Node { span: span(&raw.referenced), value }
}

fn settle_key(key: Spanned<String>) -> Node {
    Node {
        span: span(&key.referenced),
        value: NodeValue::Scalar(key.value.into_boxed_str(), ScalarKind::Str),
    }
}

fn written(location: &Location, text: &str) -> Box<str> {
    let start = location.span().byte_offset().unwrap_or(0) as usize;
    let length = location.span().byte_len().unwrap_or(0) as usize;
    text.get(start..start + length).unwrap_or("").trim().into()
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
    fn visit_none<E>(self) -> Result<Raw, E> {
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
    fn visit_i128<E>(self, _: i128) -> Result<Raw, E> {
        Ok(Raw::Plain(ScalarKind::Int))
    }
    fn visit_u128<E>(self, _: u128) -> Result<Raw, E> {
        Ok(Raw::Plain(ScalarKind::Int))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Plain(ScalarKind::Float))
    }
    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.into()))
    }
    fn visit_string<E>(self, text: String) -> Result<Raw, E> {
        Ok(Raw::Text(text.into_boxed_str()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Node {
        parse(&SourceFile::new("t.yaml", text), Limits::default()).unwrap().remove(0)
    }

    fn refusal(text: &str) -> Problem {
        *parse(&SourceFile::new("t.yaml", text), Limits::default()).unwrap_err()
    }

    #[test]
    fn plain_scalars_keep_the_text_they_were_written_with() {
        let node = one("a: 1.10\nb: 0755\nc: 1_000\nd: 'no'\ne: no\nf: 0x1F\ng: TRUE\n");
        let texts: Vec<_> = node.entries().iter().map(|(_, v)| v.as_str().unwrap()).collect();
        assert_eq!(texts, ["1.10", "0755", "1_000", "no", "no", "0x1F", "TRUE"]);
    }

    #[test]
    fn every_node_knows_its_line_and_column() {
        let node = one("a:\n  - x\n  - {b: y}\n");
        let b = node.get("a").unwrap().elements()[1].get("b").unwrap();
        assert_eq!(b.span, Span { line: 3, column: 9 });
    }

    #[test]
    fn a_duplicate_key_is_refused_with_its_place() {
        let problem = refusal("a: 1\nb: 2\na: 3\n");
        assert_eq!(problem.place.unwrap().line, 3);
        assert!(problem.message.contains("duplicate"), "{}", problem.message);
    }

    #[test]
    fn aliases_are_refused_and_the_hint_says_what_to_write() {
        let problem = refusal("a: &x 1\nb: *x\n");
        assert!(problem.hint.unwrap().contains("write the value out"));
    }

    #[test]
    fn exponential_quadratic_and_deep_bombs_are_refused() {
        let mut lol = String::from("a0: &a0 [x]\n");
        for i in 1..10 {
            lol += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(","));
        }
        refusal(&lol);
        refusal(&format!("a: &a {}\nb: [{}]\n", "x".repeat(50_000), vec!["*a"; 50_000].join(",")));
        refusal(&"[".repeat(100_000));
        refusal(&"a: {".repeat(100));
    }

    #[test]
    fn a_large_honest_file_fits_its_budget() {
        let text: String = (0..20_000).map(|i| format!("- {{n: h{i}, v: [1]}}\n")).collect();
        assert_eq!(one(&text).elements().len(), 20_000);
    }

    #[test]
    fn broken_yaml_names_line_and_column() {
        let problem = refusal("kind: Zone\nspec: [a, b\n");
        assert!(problem.place.unwrap().line >= 2);
    }
}
