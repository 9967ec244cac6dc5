//! Texts of manifests that say `template: true`: minijinja, strict, with `vars`, `host` and `ref('ADDRESS:path')`.
//!
//! # Guarantees
//! - What a text refers to is known without rendering it: `ref` takes one literal address, and nothing else leads to
//!   another manifest.
//! - A text of any content costs bounded time and memory: there are no variables of its own and no macros, what it
//!   comes to has a limit, and so has every part of it.

use super::substitute::{Put, Root, classify};
use crate::config::Host;
use minijinja::{
    Environment, Error, ErrorKind, UndefinedBehavior, Value, filters, functions, syntax::SyntaxConfig, tests,
    value::ValueKind,
};
use reconciled_provider::{Reference, yaml::ScalarKind};
use std::{collections::BTreeMap, io};

/// The longest text that a template may be, and the longest that one part of it may come to.
const PART: usize = 1 << 20;
/// The longest text that a template may come to.
const WHOLE: usize = 16 << 20;
/// Most `+` and `~` within one tag: each may double what it joins.
const JOINS: usize = 64;
/// Most steps of the interpreter.
const FUEL: u64 = 1_000_000;
/// Words that may begin a statement.
const STATEMENTS: [&str; 8] = ["for", "endfor", "if", "elif", "else", "endif", "raw", "endraw"];

/// What is wrong with a template, and in which of its lines.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wrong {
    pub(super) line: usize,
    pub(super) message: String,
}

/// A text that was understood.
pub(super) struct Template<'a> {
    text: &'a str,
    /// What `ref` is called with, and what that means.
    pub(super) references: BTreeMap<String, Root>,
}

/// What a text came to.
#[derive(Debug, PartialEq)]
pub(super) enum Rendered {
    Text(String),
    /// These are not known yet.
    Unknown(Vec<Reference>),
}

impl<'a> Template<'a> {
    /// Reads `text`; renders nothing.
    pub(super) fn parse(text: &'a str) -> Result<Template<'a>, Wrong> {
        if text.len() > PART {
            return Err(Wrong { line: 1, message: format!("a template is longer than {} KiB", PART >> 10) });
        }
        // What it cannot parse it says better than a scan for tags.
        environment().template_from_str(text).map_err(|error| wrong(&error))?;
        let mut references = BTreeMap::new();
        for tag in tags(text) {
            let refuse = |message: String| Err(Wrong { line: tag.line, message });
            if let Some(word) = tag.statement.filter(|word| !STATEMENTS.contains(word)) {
                return refuse(format!("`{word}` is not available in templates, only `for`, `if` and `raw`"));
            }
            if tag.joins > JOINS {
                return refuse(format!("more than {JOINS} of `+` and `~` in one expression"));
            }
            if tag.multiplies {
                return refuse("`*` is not available in templates".into());
            }
            for literal in tag.references {
                match classify(literal) {
                    Some(root @ Root::Output(..)) => references.insert(literal.to_owned(), root),
                    _ => {
                        return refuse(format!(
                            "`{literal}` is no ADDRESS:path, as in Zone/example.com:status.serial"
                        ));
                    }
                };
            }
        }
        Ok(Template { text, references })
    }

    /// Renders it; `puts` are the values of its references.
    pub(super) fn render(
        &self,
        vars: &serde_json::Map<String, serde_json::Value>,
        host: &Host,
        puts: BTreeMap<String, Put>,
    ) -> Result<Rendered, Wrong> {
        let unknown: Vec<Reference> = puts
            .values()
            .filter_map(|put| match put {
                Put::Unknown(reference) => Some(reference.clone()),
                _ => None,
            })
            .collect();
        if !unknown.is_empty() {
            return Ok(Rendered::Unknown(unknown));
        }
        let mut environment = environment();
        environment.add_function("ref", move |address: &str| match puts.get(address) {
            Some(Put::Value(text, kind) | Put::Output(text, kind, _)) => Ok(value(text, kind)),
            _ => Err(Error::new(ErrorKind::InvalidOperation, "`ref` takes one literal: ref('ADDRESS:path')")),
        });
        let labels: BTreeMap<&str, &str> =
            host.labels.iter().map(|(name, value)| (&**name, &**value)).collect();
        let facts = serde_json::json!({"vars": vars, "host": {"name": &*host.name, "labels": labels}});
        let mut out = Bounded(Vec::new());
        let template = environment.template_from_str(self.text).map_err(|error| wrong(&error))?;
        match template.render_captured_to(minijinja::value::Serde(facts), &mut out) {
            Ok(_) => Ok(Rendered::Text(String::from_utf8(out.0).unwrap_or_default())),
            Err(_) if out.0.len() >= WHOLE => {
                Err(Wrong { line: 1, message: format!("it comes to more than {} MiB", WHOLE >> 20) })
            }
            Err(error) => Err(wrong(&error)),
        }
    }
}

fn wrong(error: &Error) -> Wrong {
    let message = match error.kind() {
        ErrorKind::OutOfFuel => "it takes too many steps".to_owned(),
        kind => error.detail().map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}")),
    };
    Wrong { line: error.line().unwrap_or(1), message }
}

fn value(text: &str, kind: &ScalarKind) -> Value {
    match kind {
        ScalarKind::Int => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from),
        ScalarKind::Bool => Value::from(text == "true"),
        _ => Value::from(text),
    }
}

/// An interpreter that knows only what cannot grow without bound.
fn environment() -> Environment<'static> {
    let mut all = Environment::empty();
    all.set_undefined_behavior(UndefinedBehavior::Strict);
    all.set_syntax(syntax());
    all.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    all.set_fuel(Some(FUEL));
    all.set_recursion_limit(50);
    all.add_function("range", functions::range);
    all.add_function("ref", |_: &str| Value::from(""));
    all.add_filter("default", filters::default);
    all.add_filter("first", filters::first);
    all.add_filter("int", filters::int);
    all.add_filter("items", filters::items);
    all.add_filter("join", join);
    all.add_filter("last", filters::last);
    all.add_filter("length", filters::length);
    all.add_filter("lower", filters::lower);
    all.add_filter("replace", replace);
    all.add_filter("sort", filters::sort);
    all.add_filter("string", filters::string);
    all.add_filter("tojson", filters::tojson);
    all.add_filter("trim", filters::trim);
    all.add_filter("upper", filters::upper);
    all.add_test("defined", tests::is_defined);
    all.add_test("undefined", tests::is_undefined);
    all.add_test("none", tests::is_none);
    all.add_test("string", tests::is_string);
    all.add_test("number", tests::is_number);
    all.add_test("sequence", tests::is_sequence);
    all.add_test("mapping", tests::is_mapping);
    all.add_test("startingwith", tests::is_startingwith);
    all.add_test("endingwith", tests::is_endingwith);
    all
}

/// That of Jinja, but the last line end of a file stays.
fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder().keep_trailing_newline(true).build().unwrap_or_default()
}

fn too_long() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("a part comes to more than {} KiB", PART >> 10))
}

fn replace(text: &str, from: &str, to: &str) -> Result<String, Error> {
    let count = if from.is_empty() { text.len() + 1 } else { text.matches(from).count() };
    let length = count.checked_mul(to.len()).and_then(|length| length.checked_add(text.len()));
    match length.is_some_and(|length| length <= PART) {
        true => Ok(text.replace(from, to)),
        false => Err(too_long()),
    }
}

fn join(list: Value, between: Option<&str>) -> Result<String, Error> {
    let mut text = String::new();
    for (index, item) in list.try_iter()?.enumerate() {
        if index > 0 {
            text.push_str(between.unwrap_or_default());
        }
        match item.kind() {
            ValueKind::String | ValueKind::Number | ValueKind::Bool => text.push_str(&item.to_string()),
            kind => return Err(Error::new(ErrorKind::InvalidOperation, format!("cannot join a {kind}"))),
        }
        if text.len() > PART {
            return Err(too_long());
        }
    }
    Ok(text)
}

/// Takes so much and no more.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = WHOLE.saturating_sub(self.0.len()).min(bytes.len());
        self.0.extend_from_slice(&bytes[..room]);
        match room == bytes.len() {
            true => Ok(room),
            false => Err(io::Error::other("too long")),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One `{{ … }}` or `{% … %}`.
#[derive(Default)]
struct Tag<'a> {
    line: usize,
    /// The word that a statement begins with.
    statement: Option<&'a str>,
    joins: usize,
    multiplies: bool,
    /// Literals that `ref` is called with.
    references: Vec<&'a str>,
}

/// The tags of a template that parses, without those in comments and raw text.
fn tags(text: &str) -> Vec<Tag<'_>> {
    let (mut all, mut at, mut is_raw) = (Vec::new(), 0, false);
    while let Some(begin) = text[at..].find('{').map(|begin| at + begin) {
        let inner = begin + 2;
        let closing = match text.get(begin..inner) {
            Some("{{") => "}}",
            Some("{%") => "%}",
            Some("{#") => "#}",
            _ => {
                at = begin + 1;
                continue;
            }
        };
        if closing == "#}" {
            at = text[inner..].find(closing).map_or(text.len(), |end| inner + end + 2);
            continue;
        }
        let line = 1 + text[..begin].matches('\n').count();
        let (mut tag, length) = read(&text[inner..], closing);
        at = inner + length;
        tag.line = line;
        if closing == "}}" {
            tag.statement = None;
        }
        is_raw = match (is_raw, tag.statement) {
            (false, Some("raw")) => true,
            (true, Some("endraw")) => false,
            (true, _) => {
                // Nothing in raw text is a tag, not even what looks like a long one.
                at = inner;
                continue;
            }
            (false, _) => false,
        };
        all.push(tag);
    }
    all
}

/// Reads a tag up to `closing`; returns how long it is with it.
fn read<'a>(text: &'a str, closing: &str) -> (Tag<'a>, usize) {
    let mut tag = Tag::default();
    let begin = text.trim_start_matches(['-', '+']).trim_start();
    let word = begin.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(begin.len());
    tag.statement = Some(&begin[..word]).filter(|word| !word.is_empty());
    let mut at = 0;
    while at < text.len() && !text[at..].starts_with(closing) {
        let rest = &text[at..];
        let first = rest.chars().next().unwrap_or_default();
        match first {
            '\'' | '"' => {
                let end = literal(rest, first);
                let before = text[..at].trim_end();
                let called =
                    before.strip_suffix('(').map(str::trim_end).and_then(|text| text.strip_suffix("ref"));
                let is_word = |text: &str| text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                if called.is_some_and(|before| !is_word(before)) {
                    tag.references.push(rest[..end].trim_matches(first));
                }
                at += end;
                continue;
            }
            '+' | '~' => tag.joins += 1,
            '*' => tag.multiplies = true,
            _ => {}
        }
        at += first.len_utf8();
    }
    (tag, (at + closing.len()).min(text.len()))
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

#[cfg(test)]
mod unit {
    use super::*;
    use reconciled_provider::ManifestKey;

    fn render(text: &str) -> Result<Rendered, Wrong> {
        let template = Template::parse(text)?;
        let vars = serde_json::json!({"domain": "example.com", "port": 80, "on": true, "peers": ["a", "b"], "a": {"b": "c"}});
        let host = Host { name: "h1".into(), labels: [("role".into(), "web".into())].into() };
        let put = |(literal, _): (&String, &Root)| {
            let put = match &**literal {
                "Zone/a:status.serial" => Put::Value("7".into(), ScalarKind::Int),
                _ => {
                    Put::Unknown(Reference { target: ManifestKey(literal.as_str().into()), path: "x".into() })
                }
            };
            (literal.clone(), put)
        };
        template.render(vars.as_object().unwrap(), &host, template.references.iter().map(put).collect())
    }

    fn text(text: &str) -> String {
        match render(text) {
            Ok(Rendered::Text(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_text_is_rendered_and_nothing_else_is_changed() {
        for (from, to) in [
            ("{{ vars.domain }}:{{ vars.port + 1 }} ${HOME}\n", "example.com:81 ${HOME}\n"),
            ("{% for p in vars.peers %}{{ loop.index }}={{ p }}\n{% endfor %}", "1=a\n2=b\n"),
            ("{% if vars.on and host.labels.role == 'web' %}x{% else %}y{% endif %}", "x"),
            (
                "{{ vars.a.b | upper }} {{ vars.peers | join(', ') }} {{ vars.none | default('-') }}",
                "C a, b -",
            ),
            ("{{ ref('Zone/a:status.serial') + 1 }}", "8"),
            ("{% raw %}{{ vars.nope }} {% set x %}{% endraw %}<&>", "{{ vars.nope }} {% set x %}<&>"),
            ("{# ref('x') #}{{ '}}' }} { {x", "}} { {x"),
        ] {
            assert_eq!(text(from), to, "{from}");
        }
        let Ok(Rendered::Unknown(on)) = render("{% if false %}{{ ref(\"Zone/b:status.x\") }}{% endif %}")
        else {
            panic!()
        };
        assert_eq!(&*on[0].target.0, "Zone/b:status.x");
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, line, words) in [
            ("a\n{{ vars.nope }}", 2, "undefined"),
            ("a\n\n{{ vars.", 3, ""),
            ("{% set a = 1 %}", 1, "`set` is not available"),
            ("\n{% with a = 1 %}{% endwith %}", 2, "`with` is not available"),
            ("{% include 'x' %}", 1, ""),
            ("{{ ref('vars.x') }}", 1, "no ADDRESS:path"),
            ("{{ ref(vars.domain) }}", 1, "one literal"),
            ("{{ 'a' * 1000000 }}", 1, "`*`"),
        ] {
            let wrong = render(text).unwrap_err();
            assert_eq!(wrong.line, line, "{text}: {wrong:?}");
            assert!(wrong.message.contains(words), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn nothing_grows_without_bound() {
        let many = |text: &str, times: usize| text.repeat(times);
        for text in [
            format!("{{{{ vars.domain{} }}}}", many(" ~ vars.domain", 100)),
            format!("{{{{ vars.domain{} }}}}", many("|replace('e', 'eeeeeeee')", 40)),
            format!("{{{{ range(1000)|join('{}') }}}}", many("x", 10_000)),
            format!(
                "{}{{{{ vars.domain }}}}{}",
                many("{% for i in range(900) %}", 5),
                many("{% endfor %}", 5)
            ),
            format!("{{% for i in range(90000) %}}{}{{% endfor %}}", many("x", 10_000)),
            many("a", PART + 1),
        ] {
            let wrong = render(&text).unwrap_err();
            assert!(!wrong.message.is_empty(), "{wrong:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_text_the_scan_for_tags_ends(text in r"(\{\{|\}\}|\{%|%\}|\{#|#\}| |raw|endraw|ref\(|'|é|\+|\\){0,40}") {
            tags(&text);
        }
    }
}
