//! Text → documents.
//!
//! Nodes are made straight from the parser's events, so a file is in memory once. Guarantees: a node knows where it
//! begins; a mapping has each key once; what a file costs grows with its size only, because aliases and merge keys
//! are refused. Deliberately not done: values. A scalar stays the text that was written, with the kind that the core
//! schema of YAML 1.2 gives it, since `1.10` and `1.1` are different TXT values. What a tag of another program (`!vault`) makes of a
//! value, that program alone knows: no text below one is what is meant.

use super::{
    node::{Node, NodeValue, ScalarKind, SourceFile, Span},
    plain::{Reduced, STAND_IN},
    scalar::{Resolved, is_null, resolve},
};
use crate::problem::Problem;
use serde_saphyr::granit_parser::{self, Event, Marker, Parser, ScalarStyle, StrInput, Tag};
use std::{borrow::Cow, collections::HashSet};

/// What one file may cost.
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

/// Problems that one file may have as YAML before the rest of it is left unread: who reads that many has enough to do.
const PROBLEMS: usize = 20;

/// Parses every document of `file`, as [`parse_all`] does. Errors: the first [`Problem`].
///
/// ```
/// use reconciled_provider::yaml::{parse, Limits, SourceFile};
/// let file = SourceFile::new("a.yaml", "kind: Zone\n---\nkind: File\n");
/// let documents = parse(&file, Limits::default()).unwrap();
/// assert_eq!(documents[1].get("kind").unwrap().as_str(), Some("File"));
/// ```
pub fn parse(file: &SourceFile, limits: Limits) -> Result<Vec<Node>, Box<Problem>> {
    let (documents, problems) = parse_all(file, limits);
    let tags = documents.iter().flat_map(|document| &document.tags);
    match problems.iter().chain(tags).next().cloned() {
        Some(problem) => Err(Box::new(problem)),
        None => Ok(documents.into_iter().map(|document| document.node).collect()),
    }
}

/// One document, as far as it can be read.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// What it says. Of a key that is there twice the first value counts, and what is no value is null.
    pub node: Node,
    /// One of the problems is in it: it can be read for what else is wrong with it, and for nothing else.
    pub is_spoilt: bool,
    /// What is wrong with it if it is for this program: tags of others. Its values are those that it has without them.
    pub tags: Vec<Problem>,
}

/// Parses every document of `file`, and says all that is wrong with it as YAML. A file may have documents for other programs, so
/// the tags of those are told with each document ([`Parsed::tags`]), and are no problem of the file.
///
/// Empty documents are skipped. Nothing after a syntax error can be trusted: where there is one, it is the last problem, and
/// neither its document nor the rest of the file is read.
pub fn parse_all(file: &SourceFile, limits: Limits) -> (Vec<Parsed>, Vec<Problem>) {
    let size = file.text.len();
    if size > limits.file_bytes {
        let text = format!("the file has {size} bytes, more than the limit of {}", limits.file_bytes);
        let problem = Problem::error(text).in_file(&file.path).hint("split it into several files");
        return (Vec::new(), vec![problem]);
    }
    let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
    // Where it went wrong, and how, the whole text tells.
    let quickly = quickly(file, limits, text).map(|documents| (documents, Vec::new()));
    quickly.unwrap_or_else(|| Reader::new(file, limits, text).all())
}

/// The documents of `text` without the parser's word on long lists; none where it has to be asked, or finds a problem.
pub(super) fn quickly(file: &SourceFile, limits: Limits, text: &str) -> Option<Vec<Parsed>> {
    let mut reduced = Reduced::of(text)?;
    let shorter = std::mem::take(&mut reduced.text);
    let mut reader = Reader::new(file, limits, &shorter);
    reader.reduced = Some(reduced);
    let mut documents = Vec::new();
    reader.documents(&mut documents).ok()?;
    let is_whole = reader.reduced.is_some_and(|reduced| reduced.is_whole());
    (is_whole && reader.problems.is_empty()).then_some(documents)
}

type Result<T, E = Box<Problem>> = std::result::Result<T, E>;

struct Reader<'a> {
    file: &'a SourceFile,
    limits: Limits,
    events: Parser<'a, StrInput<'a>>,
    /// What was taken out of the text that is read.
    reduced: Option<Reduced>,
    /// What is wrong and leaves the rest readable.
    problems: Vec<Problem>,
    /// The first tags of other programs in the document that is read.
    tags: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn new(file: &'a SourceFile, limits: Limits, text: &'a str) -> Reader<'a> {
        let options = granit_parser::options! {
            emit_comments: false,
            emit_unresolved_aliases: true,
            // One more than is accepted: the reader below says what is wrong.
            flow_nesting_limit: limits.depth + 1,
            block_nesting_limit: limits.depth + 1,
        };
        Reader {
            file,
            limits,
            events: Parser::new_from_str_with_options(text, options),
            reduced: None,
            problems: Vec::new(),
            tags: Vec::new(),
        }
    }

    fn all(mut self) -> (Vec<Parsed>, Vec<Problem>) {
        let mut documents = Vec::new();
        let end = self.documents(&mut documents);
        self.problems.extend(end.err().map(|problem| *problem));
        (documents, self.problems)
    }

    fn documents(&mut self, documents: &mut Vec<Parsed>) -> Result<()> {
        while let Some((event, start)) = self.next()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
                event => {
                    let problems = self.problems.len();
                    let node = self.node(event, start, 0)?;
                    let (tags, is_spoilt) = (std::mem::take(&mut self.tags), problems != self.problems.len());
                    if !node.is_null() || !tags.is_empty() {
                        documents.push(Parsed { node, is_spoilt, tags });
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts down what is wrong and leaves the rest readable; it ends the reading where there is too much of it.
    fn report(&mut self, problem: Box<Problem>) -> Result<()> {
        if self.problems.len() + 1 >= PROBLEMS {
            return Err(problem);
        }
        self.problems.push(*problem);
        Ok(())
    }

    /// Puts down a tag that only another program understands.
    fn report_tag(&mut self, place: Span) {
        if self.tags.len() < PROBLEMS {
            // Not the tag itself, which may be a secret that begins with this sign.
            let problem = self.refuse(place, "this tag means nothing here");
            let hint = format!("write the value itself, without a tag; {}", quote('!'));
            self.tags.push(problem.hint(hint));
        }
    }

    /// The next event and where it begins; none at the end.
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>> {
        match self.events.next() {
            Some(Ok((event, extent))) => {
                if event.tag().is_some_and(|tag| matches!(says(tag), Says::Foreign)) {
                    self.report_tag(self.place(&extent.tag_start.unwrap_or(extent.start)));
                }
                Ok(Some((event, self.place(&extent.start))))
            }
            Some(Err(error)) => {
                let place = self.place(error.marker());
                let mut problem = self.refuse(place, lower_first(&error.info()));
                problem.hint = self.sign(place).map(quote);
                Err(problem)
            }
            None => Ok(None),
        }
    }

    /// The sign at `place`, if no plain text may begin with it.
    fn sign(&self, place: Span) -> Option<char> {
        let line = self.file.line(place.line)?;
        let sign = line.chars().nth(place.column.checked_sub(1)? as usize)?;
        matches!(sign, '@' | '`' | '%' | '*' | '&' | '!').then_some(sign)
    }

    fn place(&self, mark: &Marker) -> Span {
        let span = span(mark);
        self.reduced.as_ref().map_or(span, |reduced| reduced.whole(span))
    }

    /// The next event inside of a collection, which is never the last one.
    fn inner(&mut self, start: Span) -> Result<(Event<'a>, Span)> {
        self.next()?.ok_or_else(|| self.refuse(start, "the file ends inside of this"))
    }

    /// The node that begins with `event`, `depth` collections deep.
    fn node(&mut self, event: Event<'a>, start: Span, depth: usize) -> Result<Node> {
        let value = match event {
            Event::Scalar(text, style, _, tag) => match self.scalar(text, style, tag.as_deref(), start) {
                Ok(value) => value,
                Err(problem) => {
                    self.report(problem)?;
                    NodeValue::Null
                }
            },
            Event::SequenceStart(_, _, tag) => {
                self.collection(tag.as_deref(), "seq", start, depth)?;
                self.sequence(start, depth + 1)?
            }
            Event::MappingStart(_, _, tag) => {
                self.collection(tag.as_deref(), "map", start, depth)?;
                self.mapping(start, depth + 1)?
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                let mut problem = self.refuse(start, "an alias stands where a value is expected");
                let text = quote('*');
                problem.hint = Some(format!("aliases (`*name`) are not read: write the value out; {text}"));
                return Err(problem);
            }
            _ => return Err(self.refuse(start, "a value is expected here")),
        };
        Ok(Node { span: start, value })
    }

    fn sequence(&mut self, start: Span, depth: usize) -> Result<NodeValue> {
        let mut nodes = Vec::new();
        loop {
            match self.inner(start)? {
                (Event::SequenceEnd, _) => {
                    // Most lists have one element, and a vector begins with room for four.
                    nodes.shrink_to_fit();
                    return Ok(NodeValue::Seq(nodes));
                }
                (Event::Scalar(text, ScalarStyle::Plain, _, None), start)
                    if self.reduced.is_some() && text == STAND_IN =>
                {
                    let reduced = self.reduced.as_mut();
                    match reduced.and_then(|reduced| reduced.take(start, depth, self.limits.depth)) {
                        Some(items) => nodes.extend(items),
                        None => return Err(self.refuse(start, "no list is here")),
                    }
                }
                (event, start) => nodes.push(self.node(event, start, depth)?),
            }
        }
    }

    fn mapping(&mut self, start: Span, depth: usize) -> Result<NodeValue> {
        let mut entries: Vec<(Node, Node)> = Vec::new();
        loop {
            match self.inner(start)? {
                (Event::MappingEnd, _) => break,
                (event, start) => {
                    let key = self.key(event, start)?;
                    let (event, start) = self.inner(start)?;
                    entries.push((key, self.node(event, start, depth)?));
                }
            }
        }
        let repeated = repeated(&entries);
        for key in repeated.iter().map(|index| &entries[*index].0) {
            let text = key.as_str().unwrap_or_default();
            self.report(self.refuse(key.span, format!("duplicate mapping key `{text}`")))?;
        }
        repeated.iter().rev().for_each(|index| drop(entries.remove(*index)));
        entries.shrink_to_fit();
        Ok(NodeValue::Map(entries))
    }

    /// A key is text, however it was written; `~` and nothing are none.
    fn key(&self, event: Event<'a>, start: Span) -> Result<Node> {
        let Event::Scalar(text, style, _, tag) = event else {
            return Err(self.refuse(start, "a key is text, not a list, a mapping or an alias"));
        };
        match tag.as_deref().map_or(Says::Nothing, says) {
            Says::Core(_) => return Err(self.mismatch(tag.as_deref(), start)),
            Says::Nothing if style == ScalarStyle::Plain && tag.is_none() && text == "<<" => {
                let mut problem = self.refuse(start, "a merge key (`<<`) is not read");
                problem.hint = Some("write its entries out".into());
                return Err(problem);
            }
            Says::Nothing if style == ScalarStyle::Plain && is_null(&text) => {
                return Err(self.refuse(start, "a key is missing here"));
            }
            Says::Text | Says::Foreign | Says::Nothing => {}
        }
        Ok(Node { span: start, value: NodeValue::Scalar(text.into(), ScalarKind::Str) })
    }

    fn scalar(
        &self,
        text: Cow<'a, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        start: Span,
    ) -> Result<NodeValue> {
        let resolved = match tag.map_or(Says::Nothing, says) {
            Says::Text => Resolved::Kind(ScalarKind::Str),
            Says::Foreign | Says::Nothing if style != ScalarStyle::Plain => Resolved::Kind(ScalarKind::Str),
            Says::Foreign | Says::Nothing => resolve(&text),
            Says::Core("null") => Resolved::Null,
            Says::Core(word) => match (word, resolve(&text)) {
                ("bool", resolved @ Resolved::Kind(ScalarKind::Bool))
                | ("int", resolved @ Resolved::Kind(ScalarKind::Int))
                | ("float", resolved @ Resolved::Kind(ScalarKind::Int | ScalarKind::Float)) => resolved,
                _ => return Err(self.mismatch(tag, start)),
            },
        };
        match resolved {
            Resolved::Null => Ok(NodeValue::Null),
            Resolved::Kind(kind) => Ok(NodeValue::Scalar(text.into(), kind)),
            Resolved::NotFinite => {
                let mut problem = self.refuse(start, format!("`{text}` is no finite number"));
                problem.hint = Some("quote it if text is meant".into());
                Err(problem)
            }
        }
    }

    /// Refuses a collection that is too deep, and one whose tag says that it is something else.
    fn collection(&self, tag: Option<&Tag>, kind: &str, start: Span, depth: usize) -> Result<()> {
        if depth >= self.limits.depth {
            return Err(self.refuse(start, format!("nested deeper than {} levels", self.limits.depth)));
        }
        match tag.and_then(Tag::core_suffix) {
            Some(word) if word != kind => Err(self.mismatch(tag, start)),
            _ => Ok(()),
        }
    }

    fn mismatch(&self, tag: Option<&Tag>, start: Span) -> Box<Problem> {
        let tag = tag.map(Tag::original).unwrap_or_default();
        self.refuse(start, format!("this is not what its tag `{tag}` says"))
    }

    fn refuse(&self, start: Span, message: impl Into<String>) -> Box<Problem> {
        Box::new(Problem::error(message).at(self.file, start))
    }
}

/// The entries whose keys were there before.
fn repeated(entries: &[(Node, Node)]) -> Vec<usize> {
    // Most mappings have a few keys, which are compared faster than hashed.
    if entries.len() <= 8 {
        let was_there = |index: &usize| {
            let (before, key) = (&entries[..*index], entries[*index].0.as_str());
            before.iter().any(|(other, _)| other.as_str() == key)
        };
        return (1..entries.len()).filter(was_there).collect();
    }
    let mut seen = HashSet::with_capacity(entries.len());
    (0..entries.len()).filter(|index| !seen.insert(entries[*index].0.as_str())).collect()
}

/// What a tag says of a scalar.
enum Says<'a> {
    /// `!!str`, and `!` alone.
    Text,
    /// Another type of the core schema.
    Core(&'a str),
    /// Something that only another program understands.
    Foreign,
    /// There is none.
    Nothing,
}

fn says(tag: &Tag) -> Says<'_> {
    match tag.core_suffix() {
        Some("str") => Says::Text,
        Some(word) => Says::Core(word),
        None if tag.original_parts() == ("", "!") => Says::Text,
        None => Says::Foreign,
    }
}

fn span(mark: &Marker) -> Span {
    Span { line: mark.line() as u32, column: mark.col() as u32 + 1 }
}

/// What to write; not the text itself, which may be a secret.
fn quote(sign: char) -> String {
    format!("write text that begins with `{sign}` in quotes: \"{sign}…\"")
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
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
    fn what_leaves_the_rest_readable_hides_no_other_problem_and_no_other_document() {
        let text = "a: 1\na: 2\nb: .inf\n---\nc: 1\n---\nd: {e: 1, e: 2}\n---\nf: [\n";
        let (documents, problems) = parse_all(&SourceFile::new("t.yaml", text), Limits::default());
        let spoilt: Vec<bool> = documents.iter().map(|document| document.is_spoilt).collect();
        assert_eq!(spoilt, [true, false, true], "{documents:?}");
        let text = |at: usize, key: &str| documents[at].node.get(key).and_then(Node::as_str);
        assert_eq!((text(0, "a"), text(0, "b"), text(1, "c")), (Some("1"), None, Some("1")));
        assert_eq!(
            documents[0].node.entries().len(),
            2,
            "of a key that is there twice the first value counts"
        );
        let lines: Vec<_> = problems.iter().map(|problem| problem.place.as_ref().unwrap().line).collect();
        assert_eq!(lines[..3], [3, 2, 7], "{problems:?}");
        assert_eq!(lines.len(), 4, "what cannot be read ends the reading");
        let many = "a: .inf\n---\n".repeat(1_000);
        let (documents, problems) = parse_all(&SourceFile::new("t.yaml", many), Limits::default());
        assert_eq!((documents.len(), problems.len()), (PROBLEMS - 1, PROBLEMS));
    }

    #[test]
    fn aliases_are_refused_and_the_hint_says_what_to_write() {
        let problem = refusal("a: &x 1\nb: *x\n");
        assert!(problem.hint.unwrap().contains("write the value out"));
    }

    #[test]
    fn text_that_begins_with_a_sign_of_yaml_is_to_be_quoted() {
        for (text, sign) in [("@", '@'), ("*.dev", '*'), ("*", '*'), ("`a", '`'), ("%a", '%')] {
            for around in [format!("- name: {text}\n"), format!("é: [{{name: {text}, ttl: 1}}]\n")] {
                let hint = refusal(&around).hint.unwrap_or_default();
                assert!(hint.contains(&format!("in quotes: \"{sign}…\"")), "{around}: {hint}");
            }
        }
        assert_eq!(refusal("a: [b\n").hint, None);
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
    fn a_tag_of_yaml_decides() {
        let node = one(
            "a: !!str 1\nb: ! 2\nc: !!map {x: ! [y]}\nd: !!null x\ne: !!float 4\nf: !!int 5\ng: !!seq []\nh: !!bool true\n",
        );
        let described: Vec<_> = node.entries().iter().map(|(_, value)| value.describe()).collect();
        let expected =
            ["text", "text", "a mapping", "nothing", "a number", "a number", "a list", "a boolean"];
        assert_eq!(described, expected);
        for text in ["a: !!int x\n", "a: !!seq {}\n", "!!int 1: a\n"] {
            assert!(refusal(text).message.contains("tag"), "{text}");
        }
    }

    #[test]
    fn a_tag_of_another_program_is_refused_with_its_place_and_what_to_write() {
        let run = "- {a: b}\n".repeat(9);
        for (text, line, column) in [
            ("a: !vault |\n  $ANSIBLE_VAULT\n", 1, 4),
            ("a: 1\nb: !Ref foo\n", 2, 4),
            ("a:\n  - !Sub 'x'\n", 2, 5),
            ("a: !GetAtt [b, c]\n", 1, 4),
            ("a: !own {b: c}\n", 1, 4),
            ("a: !own\n  - b\n", 1, 4),
            ("a: !own\n", 1, 4),
            ("a: !!binary aGk=\n", 1, 4),
            ("!own a: b\n", 1, 1),
            ("--- !own\na: b\n", 1, 5),
            ("%TAG !e! tag:example.com,2000:\n---\na: !e!x b\n", 3, 4),
            (&*format!("{run}- a: !own x\n"), 10, 6),
        ] {
            let problem = refusal(text);
            let place = problem.place.unwrap();
            assert_eq!(problem.message, "this tag means nothing here", "{text}");
            assert_eq!((place.line, place.column), (line, column), "{text}");
            let hint = problem.hint.unwrap();
            assert!(hint.contains("without a tag") && hint.contains("in quotes: \"!…\""), "{text}: {hint}");
        }
        // Text that only has the sign in it has no tag.
        assert_eq!(one("a: x!y\n").get("a").and_then(Node::as_str), Some("x!y"));
    }

    #[test]
    fn tags_of_others_are_told_of_their_document_alone_and_what_is_wrong_besides_is_found() {
        let text = "a: !own 1\n---\nb: 2\n---\n!own\n---\nc: !own x\nc: 3\n";
        let (documents, problems) = parse_all(&SourceFile::new("t.yaml", text), Limits::default());
        let told: Vec<_> =
            documents.iter().map(|document| (document.tags.len(), document.is_spoilt)).collect();
        assert_eq!(told, [(1, false), (0, false), (1, false), (1, true)], "{documents:?}");
        assert_eq!(documents[0].node.get("a").and_then(Node::as_str), Some("1"));
        assert_eq!(problems.len(), 1, "{problems:?}");
        let many = "- !own x\n".repeat(1_000);
        let (documents, problems) = parse_all(&SourceFile::new("t.yaml", many), Limits::default());
        assert_eq!((documents[0].node.elements().len(), documents[0].tags.len()), (1_000, PROBLEMS));
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn what_is_no_finite_number_or_no_key_is_refused() {
        for (text, message) in [
            ("a: .inf\n", "`.inf` is no finite number"),
            ("a: 1e999\n", "`1e999` is no finite number"),
            ("~: a\n", "a key is missing here"),
            ("[a]: b\n", "a key is text, not a list, a mapping or an alias"),
            ("<<: {a: b}\n", "a merge key (`<<`) is not read"),
        ] {
            assert_eq!(refusal(text).message, message);
        }
    }

    #[test]
    fn nesting_ends_at_the_limit() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        one(&nested(32));
        assert_eq!(refusal(&nested(33)).message, "nested deeper than 32 levels");
        let block = (0..33).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>();
        assert_eq!(refusal(&block).message, "nested deeper than 32 levels");
    }

    #[test]
    fn a_large_honest_file_is_read() {
        let text: String = (0..20_000).map(|i| format!("- {{n: h{i}, v: [1]}}\n")).collect();
        assert_eq!(one(&text).elements().len(), 20_000);
    }

    #[test]
    fn broken_yaml_names_line_and_column() {
        let problem = refusal("kind: Zone\nspec: [a, b\n");
        assert!(problem.place.unwrap().line >= 2);
    }
}
