//! What stands in the tags of a template, found without rendering it.
//!
//! *Guarantee*: reading a text costs time in proportion to its length.

/// One `{{ … }}` or `{% … %}`.
#[derive(Debug, Default)]
pub(super) struct Tag<'a> {
    pub(super) line: usize,
    /// The word that a statement begins with.
    pub(super) statement: Option<&'a str>,
    /// How many `+` and `~`.
    pub(super) joins: usize,
    /// What would let values grow without bound, as it is written.
    pub(super) grows: Option<&'static str>,
    /// Literals that `ref` is called with.
    pub(super) references: Vec<&'a str>,
}

/// The tags of a template that parses, without those in comments and raw text.
pub(super) fn tags(text: &str) -> Vec<Tag<'_>> {
    let (mut all, mut at) = (Vec::new(), 0);
    let mut lines = Lines { text, line: 1, counted: 0 };
    while let Some(begin) = text[at..].find('{').map(|begin| at + begin) {
        let inner = begin + 2;
        let closing = match text.get(begin..inner) {
            Some("{{") => "}}",
            Some("{%") => "%}",
            Some("{#") => {
                at = text[inner..].find("#}").map_or(text.len(), |end| inner + end + 2);
                continue;
            }
            _ => {
                at = begin + 1;
                continue;
            }
        };
        let (mut tag, length) = read(&text[inner..], closing);
        at = inner + length;
        tag.line = lines.at(begin);
        if closing == "}}" {
            tag.statement = None;
        }
        if tag.statement == Some("raw") {
            at = end_of_raw(text, at);
        }
        all.push(tag);
    }
    all
}

/// Where raw text that begins at `at` is over: nothing in it is a tag, not even what looks like a long one.
fn end_of_raw(text: &str, mut at: usize) -> usize {
    while let Some(begin) = text[at..].find("{%").map(|begin| at + begin + 2) {
        let inner = text[begin..].trim_start_matches(['-', '+']).trim_start();
        if let Some(rest) = inner.strip_prefix("endraw") {
            let after = rest.trim_start().trim_start_matches(['-', '+']);
            if after.starts_with("%}") {
                return text.len() - after.len() + 2;
            }
        }
        at = begin;
    }
    text.len()
}

/// Counts lines up to places that only go forward.
struct Lines<'a> {
    text: &'a str,
    line: usize,
    counted: usize,
}

impl Lines<'_> {
    fn at(&mut self, place: usize) -> usize {
        self.line += self.text[self.counted..place].matches('\n').count();
        self.counted = place;
        self.line
    }
}

/// What a bracket that is open belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Bracket {
    /// `f(…)` or `x[…]`.
    Applied,
    /// `(…)`, where a comma would make a list.
    Group,
    /// `[…]`, a list.
    List,
}

/// Words after which a bracket begins a value of its own.
const OPERATORS: [&str; 8] = ["and", "else", "elif", "for", "if", "in", "is", "not"];
/// Words that are values themselves.
const CONSTANTS: [&str; 6] = ["true", "false", "none", "True", "False", "None"];

/// Reads a tag up to `closing`; returns how long it is with it.
fn read<'a>(text: &'a str, closing: &str) -> (Tag<'a>, usize) {
    let mut tag = Tag::default();
    let begin = text.trim_start_matches(['-', '+']).trim_start();
    tag.statement = Some(&begin[..word(begin)]).filter(|word| !word.is_empty());
    let (mut open, mut at) = (Vec::new(), 0);
    // The word that a bracket would be applied to, and whether something stands there that takes one.
    let (mut last, mut takes, mut is_target) = ("", false, tag.statement == Some("for"));
    while at < text.len() && !(open.is_empty() && text[at..].starts_with(closing)) {
        let rest = &text[at..];
        let first = rest.chars().next().unwrap_or_default();
        let mut length = first.len_utf8();
        match first {
            '\'' | '"' => {
                length = literal(rest, first);
                let is_argument =
                    open.last() == Some(&Bracket::Applied) && text[..at].trim_end().ends_with('(');
                if is_argument && last == "ref" {
                    tag.references.push(rest[..length].trim_matches(first));
                }
                takes = true;
            }
            _ if word(rest) > 0 => {
                length = word(rest);
                last = &rest[..length];
                let is_plain = first.is_ascii_digit() || CONSTANTS.contains(&last);
                if open.contains(&Bracket::List) && !is_plain {
                    tag.grows = Some("a list of other than plain values");
                }
                if last == "recursive" && tag.statement == Some("for") {
                    tag.grows = Some("`recursive`");
                }
                is_target &= last != "in";
                takes = !OPERATORS.contains(&last);
            }
            '(' | '[' => {
                if open.contains(&Bracket::List) {
                    tag.grows = Some("a list of other than plain values");
                }
                open.push(match first {
                    _ if takes => Bracket::Applied,
                    '(' => Bracket::Group,
                    _ => Bracket::List,
                });
                takes = false;
            }
            ')' | ']' => {
                open.pop();
                (last, takes) = ("", true);
            }
            _ if first.is_whitespace() => {}
            _ => {
                match first {
                    '{' => tag.grows = Some("a mapping"),
                    ',' if open.last() == Some(&Bracket::Group) && !is_target => tag.grows = Some("a tuple"),
                    '*' => tag.grows = Some("`*`"),
                    '+' | '~' => tag.joins += 1,
                    _ => {}
                }
                takes = false;
            }
        }
        at += length;
    }
    (tag, (at + closing.len()).min(text.len()))
}

/// How much of the beginning of `text` is a word or a number.
fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// The length of the quoted text that `text` begins with.
fn literal(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}
