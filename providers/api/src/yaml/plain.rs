//! Long lists of items that are written as plainly as YAML can be, read without the parser.
//!
//! ```text
//! - {name: www, type: A, values: [192.0.2.1]}        - name: www
//!                                                      type: A
//!                                                      values: [192.0.2.1]
//! ```
//!
//! Thousands of such lines are what a large file consists of, and the parser needs most of the time of a push for them.
//! Each run of them is taken out, one item stands in for it, and the parser says where that item is: an element of a
//! list at that very place. Guarantees: what is read is what the parser reads, with the same places (a property test
//! compares both); whatever is not certain (a comment, a tag, an escape, a key twice, a stand-in that is not found
//! where it was put) is left to the parser, and so is every error.

use super::{
    node::{Node, NodeValue, ScalarKind, Span},
    scalar::{Resolved, is_null, resolve},
};
use std::ops::Range;

/// What stands in for a run.
pub(super) const STAND_IN: &str = "a-run-of-plain-items";

/// Lines of a run at least: fewer are not worth a stand-in.
const FEWEST: usize = 4;

/// A text whose runs were taken out.
pub(super) struct Reduced {
    pub(super) text: String,
    runs: Vec<Run>,
    /// Runs whose place was found.
    found: usize,
}

/// Items one after the other.
struct Run {
    /// Line of its stand-in, from 1, and the line in the whole text that this is.
    line: u32,
    number: u32,
    /// Column of its dashes, from 1.
    column: u32,
    /// Lines that are missing from here on.
    missing: u32,
    /// A list is within its items.
    is_deep: bool,
    items: Vec<Node>,
}

impl Reduced {
    /// Takes the runs out of `text`; nothing if there are none.
    pub(super) fn of(text: &str) -> Option<Reduced> {
        if text.contains(STAND_IN) {
            return None;
        }
        let mut lines = Lines { text, at: 0, number: 1 };
        let mut reduced = Reduced { text: String::new(), runs: Vec::new(), found: 0 };
        let (mut copied, mut missing) = (0, 0);
        while let Some(line) = lines.peek() {
            let (begin, number) = (lines.at, lines.number);
            let Some(indent) = dash(line) else {
                lines.pass(line);
                continue;
            };
            let (items, is_deep) = run(&mut lines, indent);
            let count = lines.number - number;
            if (count as usize) < FEWEST {
                if count == 0 {
                    lines.pass(line);
                }
                continue;
            }
            reduced.text.push_str(&text[copied..begin]);
            reduced.text.extend(std::iter::repeat_n(' ', indent));
            reduced.text.push_str("- ");
            reduced.text.push_str(STAND_IN);
            reduced.text.push('\n');
            copied = lines.at;
            let line = number - missing;
            missing += count - 1;
            reduced.runs.push(Run { line, number, column: indent as u32 + 1, missing, is_deep, items });
        }
        reduced.text.push_str(&text[copied..]);
        (!reduced.runs.is_empty()).then_some(reduced)
    }

    /// Where a place of the reduced text is in the whole one.
    pub(super) fn whole(&self, span: Span) -> Span {
        let before = self.runs.partition_point(|run| run.line < span.line);
        let missing = before.checked_sub(1).map_or(0, |last| self.runs[last].missing);
        Span { line: span.line + missing, ..span }
    }

    /// The items for the stand-in that was found at `place`, a place of the whole text, in a list whose elements are
    /// `depth` collections deep.
    pub(super) fn take(&mut self, place: Span, depth: usize, deepest: usize) -> Option<Vec<Node>> {
        let run = self.runs.get_mut(self.found)?;
        let is_here = run.number == place.line && run.column + 2 == place.column;
        if !is_here || depth + usize::from(run.is_deep) >= deepest {
            return None;
        }
        self.found += 1;
        Some(std::mem::take(&mut run.items))
    }

    /// True when every run has its place.
    pub(super) fn is_whole(&self) -> bool {
        self.found == self.runs.len()
    }
}

struct Lines<'a> {
    text: &'a str,
    at: usize,
    number: u32,
}

impl<'a> Lines<'a> {
    /// The next line without its end; one that does not end is none, and is left to the parser.
    fn peek(&self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        rest.find('\n').map(|end| &rest[..end])
    }
    fn pass(&mut self, line: &str) {
        self.at += line.len() + 1;
        self.number += 1;
    }
    /// How far the next line with anything on it is indented; nothing at the end of the text.
    fn next_indent(&self) -> Option<usize> {
        let line = self.text[self.at..].lines().find(|line| !line.trim().is_empty())?;
        Some(line.len() - line.trim_start_matches(' ').len())
    }
}

fn dash(line: &str) -> Option<usize> {
    let rest = line.trim_start_matches(' ');
    rest.starts_with("- ").then(|| line.len() - rest.len())
}

/// Items from here on with their dashes at `indent`, and whether there is a list within one.
fn run(lines: &mut Lines<'_>, indent: usize) -> (Vec<Node>, bool) {
    let (mut items, mut is_deep) = (Vec::new(), false);
    loop {
        let (at, number) = (lines.at, lines.number);
        let item = item(lines, indent);
        // What is further in goes on with the item before, so that is not one.
        match item.filter(|_| lines.next_indent().is_none_or(|next| next <= indent)) {
            Some(item) => {
                is_deep |= item.entries().iter().any(|(_, value)| matches!(value.value, NodeValue::Seq(_)));
                items.push(item);
            }
            None => {
                (lines.at, lines.number) = (at, number);
                return (items, is_deep);
            }
        }
    }
}

/// One item, in either form.
fn item(lines: &mut Lines<'_>, indent: usize) -> Option<Node> {
    let line = lines.peek()?;
    if dash(line)? != indent {
        return None;
    }
    let mut cursor = Cursor { line, number: lines.number, at: indent + 2, is_flow: false };
    let (span, mut entries) = (cursor.span(), Vec::new());
    if cursor.eat(b'{') {
        cursor.is_flow = true;
        loop {
            entries.push(cursor.entry()?);
            if cursor.eat(b'}') {
                break;
            }
            cursor.comma()?;
        }
        cursor.end()?;
        lines.pass(line);
    } else {
        entries.push(cursor.entry()?);
        cursor.end()?;
        lines.pass(line);
        while let Some(line) = lines.peek()
            && line.len() > indent + 2
            && line.as_bytes()[..indent + 2].iter().all(|byte| *byte == b' ')
            && line.as_bytes()[indent + 2] != b' '
        {
            let mut cursor = Cursor { line, number: lines.number, at: indent + 2, is_flow: false };
            entries.push(cursor.entry()?);
            cursor.end()?;
            lines.pass(line);
        }
    }
    let is_twice = |index: usize| {
        let key = entries[index].0.as_str();
        entries[..index].iter().any(|(other, _): &(Node, Node)| other.as_str() == key)
    };
    if entries.len() > 16 || (1..entries.len()).any(is_twice) {
        return None;
    }
    entries.shrink_to_fit();
    Some(Node { span, value: NodeValue::Map(entries) })
}

struct Cursor<'a> {
    line: &'a str,
    number: u32,
    at: usize,
    is_flow: bool,
}

impl<'a> Cursor<'a> {
    fn span(&self) -> Span {
        // Whatever was passed is ASCII.
        Span { line: self.number, column: self.at as u32 + 1 }
    }
    fn byte(&self) -> Option<u8> {
        self.line.as_bytes().get(self.at).copied()
    }
    fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.byte() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }
    fn comma(&mut self) -> Option<()> {
        (self.eat(b',') && self.eat(b' ')).then_some(())
    }
    fn end(&self) -> Option<()> {
        (self.at == self.line.len()).then_some(())
    }
    fn take(&mut self, range: Range<usize>) -> &'a str {
        self.at = range.end;
        &self.line[range]
    }

    /// `key: value`
    fn entry(&mut self) -> Option<(Node, Node)> {
        let (span, begin) = (self.span(), self.at);
        let word = self.line.as_bytes()[begin..].iter();
        let length = word.take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        // A longer one is no key to the parser.
        if length > 1_000 {
            return None;
        }
        let key = self.take(begin..begin + length);
        let is_word = key.starts_with(|first: char| first.is_ascii_alphabetic());
        if !is_word || is_null(key) || !(self.eat(b':') && self.eat(b' ')) {
            return None;
        }
        let key = Node { span, value: NodeValue::Scalar(key.into(), ScalarKind::Str) };
        Some((key, self.value()?))
    }

    /// A scalar, or a list of scalars in brackets.
    fn value(&mut self) -> Option<Node> {
        let (span, was_flow) = (self.span(), self.is_flow);
        if !self.eat(b'[') {
            return self.scalar();
        }
        self.is_flow = true;
        let mut list = Vec::new();
        loop {
            list.push(self.scalar()?);
            if self.eat(b']') {
                break;
            }
            self.comma()?;
        }
        self.is_flow = was_flow;
        list.shrink_to_fit();
        Some(Node { span, value: NodeValue::Seq(list) })
    }

    fn scalar(&mut self) -> Option<Node> {
        let (span, begin) = (self.span(), self.at);
        let rest = &self.line.as_bytes()[begin..];
        let value = match *rest.first()? {
            quote @ (b'"' | b'\'') => {
                let length = rest[1..].iter().position(|byte| *byte == quote)?;
                let text = self.take(begin + 1..begin + 1 + length);
                self.at += 1;
                let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'\\';
                // A doubled quote is one quote.
                if !text.bytes().all(is_plain) || self.byte() == Some(quote) {
                    return None;
                }
                NodeValue::Scalar(text.into(), ScalarKind::Str)
            }
            _ => {
                let is_end = |byte: u8| self.is_flow && matches!(byte, b',' | b']' | b'}');
                let length = rest.iter().position(|byte| is_end(*byte)).unwrap_or(rest.len());
                let text = self.take(begin..begin + length);
                if !text.split(' ').all(is_word) {
                    return None;
                }
                match resolve(text) {
                    Resolved::Kind(kind) => NodeValue::Scalar(text.into(), kind),
                    Resolved::Null | Resolved::NotFinite => return None,
                }
            }
        };
        Some(Node { span, value })
    }
}

/// A word of a plain scalar that means nothing but itself wherever it stands.
fn is_word(word: &str) -> bool {
    let is_inner = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'+' | b'=' | b'-' | b':')
    };
    let is_outer = |byte: Option<u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/'))
    };
    let bytes = word.as_bytes();
    bytes.iter().all(|byte| is_inner(*byte))
        && is_outer(bytes.first().copied())
        && is_outer(bytes.last().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{Limits, SourceFile, parse, parse::quickly as quickly_of};
    use proptest::prelude::*;

    fn read(text: &str, end: &str) -> Result<Vec<Node>, (Box<str>, u32, u32)> {
        let file = SourceFile::new("t.yaml", format!("{text}\n# {end}\n"));
        parse(&file, Limits::default()).map_err(|problem| {
            let place = problem.place.expect("every error in a text has its place");
            (problem.message.as_str().into(), place.line, place.column)
        })
    }

    /// Nothing is taken out of a text that names the stand-in.
    fn slowly(text: &str) -> Result<Vec<Node>, (Box<str>, u32, u32)> {
        read(text, STAND_IN)
    }

    fn quickly(text: &str) -> Result<Vec<Node>, (Box<str>, u32, u32)> {
        read(text, "the-end-of-this-text")
    }

    /// Lines of the text that the parser sees.
    fn left(text: &str) -> usize {
        Reduced::of(text).map_or(text, |reduced| Box::leak(reduced.text.into_boxed_str())).lines().count()
    }

    const FLOW: &str = "- {name: www, type: A, ttl: 300, values: [192.0.2.1, '192.0.2.2']}\n";
    const BLOCK: &str = "- name: www\n  type: TXT\n  values: [\"v=spf1 -all\", 2001:db8::1]\n";

    #[test]
    fn plain_items_never_reach_the_parser() {
        assert_eq!(left(&FLOW.repeat(50)), 1);
        assert_eq!(left(&BLOCK.repeat(50)), 1);
        assert_eq!(left(&format!("{}# here\n{}", FLOW.repeat(50), BLOCK.repeat(50))), 3);
        assert_eq!(left(&FLOW.repeat(3)), 3);
        assert_eq!(left(&format!("{}x: {STAND_IN}\n", FLOW.repeat(50))), 51);
    }

    #[test]
    fn every_run_of_a_text_finds_its_place() {
        let list = format!("a:\n{}# here\n{}b:\n{}", FLOW.repeat(50), BLOCK.repeat(50), FLOW.repeat(9));
        for text in [list.clone(), format!("{list}---\n{list}")] {
            let file = SourceFile::new("t.yaml", text.clone());
            let quickly = quickly_of(&file, Limits::default(), &text).expect("nothing is left to the parser");
            let quickly: Vec<Node> = quickly.into_iter().map(|document| document.node).collect();
            assert_eq!(quickly, slowly(&text).unwrap());
        }
    }

    #[test]
    fn places_are_those_of_the_whole_text() {
        let text = format!("a:\n{}b:\n{}c: [x\n", FLOW.repeat(9), BLOCK.repeat(9));
        assert_eq!(quickly(&text), slowly(&text));
        let text = format!("a:\n{}b:\n{}c: d\n", FLOW.repeat(9), BLOCK.repeat(9));
        let nodes = quickly(&text).unwrap();
        assert_eq!(nodes, slowly(&text).unwrap());
        assert_eq!(nodes[0].get("c").unwrap().span, Span { line: 1 + 9 + 1 + 27 + 1, column: 4 });
    }

    #[test]
    fn items_within_a_text_are_text() {
        let text = format!("a: |\n{}b: \"\n{}  \"\n", "  - {a: b}\n".repeat(9), "  - {a: b}\n".repeat(9));
        let nodes = quickly(&text).unwrap();
        assert_eq!(nodes, slowly(&text).unwrap());
        assert!(nodes[0].get("a").unwrap().as_str().unwrap().starts_with("- {a: b}\n"));
    }

    #[test]
    fn what_goes_on_below_an_item_belongs_to_it() {
        for rest in ["    more\n", "\n    more\n", "  b: c\n", "   b: c\n", "  - x\n", "# x\n  b: c\n"] {
            for item in ["- a: b\n", "- {a: b}\n"] {
                let text = format!("{}{rest}", item.repeat(9));
                assert_eq!(quickly(&text), slowly(&text), "{text}");
            }
        }
    }

    #[test]
    fn nesting_ends_at_the_same_limit() {
        for depth in 27..33 {
            let deep = (0..depth).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>();
            let items = format!("{}- {{a: [b]}}\n", " ".repeat(depth)).repeat(9);
            let text = deep + &items;
            assert_eq!(quickly(&text), slowly(&text), "{depth}");
        }
    }

    /// Pieces of which lines are made, most of them plain.
    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            6 => "[a-z0-9]{1,3}([.:/_=+ -][a-z0-9.]{1,3}){0,2}",
            2 => "\"[ -!#-\\[\\]-~]{0,4}\"",
            2 => "'[ -&(-~]{0,4}'",
            2 => "\\[[a-z0-9.]{1,3}(, [a-z0-9:.]{1,4}){0,2}\\]",
            1 => "[ -~]{0,4}",
            1 => Just("~".to_string()),
            1 => Just("0x1F".to_string()),
            1 => Just("1e999".to_string()),
            1 => Just("null".to_string()),
        ]
    }

    fn line() -> impl Strategy<Value = String> {
        let keys = prop_oneof![4 => "[a-z]{1,2}", 1 => Just("null".to_string()), 1 => "[a-z0-9_-]{1,2}"];
        let entry = (keys, value()).prop_map(|(key, value)| format!("{key}: {value}")).boxed();
        let flow =
            prop::collection::vec(entry.clone(), 1..4).prop_map(|all| format!("- {{{}}}", all.join(", ")));
        prop_oneof![
            8 => flow,
            6 => entry.clone().prop_map(|entry| format!("- {entry}")),
            6 => entry.clone().prop_map(|entry| format!("  {entry}")),
            1 => (0..5_usize, entry).prop_map(|(indent, entry)| format!("{}{entry}", " ".repeat(indent))),
            1 => Just(String::new()),
            1 => "#[ a]{0,2}",
            1 => "  - [a-z]",
            1 => Just("---".to_string()),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        #[test]
        fn whatever_is_written_reads_as_the_parser_reads_it(
            before in prop_oneof![Just(""), Just("a:\n"), Just("a: |\n"), Just("a: >-\n"), Just("- b:\n"), Just("a: \"\n")],
            indent in 0..3_usize,
            lines in prop::collection::vec(line(), 1..14),
            repeats in 1..6_usize,
            after in prop_oneof![Just(""), Just("z: 1\n"), Just("\"\n"), Just("...\n"), Just("  y\n")],
        ) {
            let mut text = before.to_string();
            for line in lines {
                for _ in 0..repeats {
                    text += &format!("{}{line}\n", " ".repeat(indent));
                }
            }
            text += after;
            prop_assert_eq!(quickly(&text), slowly(&text), "{}", text);
        }
    }
}
