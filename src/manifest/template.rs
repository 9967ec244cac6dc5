//! Texts of manifests that say `template: true`: minijinja, strict, with `vars`, `host` and `ref('ADDRESS:path')`.
//!
//! # Guarantees
//! - What a text refers to is known without rendering it: `ref` takes one literal address, and nothing else leads to
//!   another manifest.
//! - A text of any content costs bounded time and memory: there are no variables of its own, no macros, no recursion
//!   and no lists but of plain values, so that no value can be made from itself again and again; what a filter makes
//!   has a limit, and so has the whole.

mod scan;

use super::substitute::{Put, Root, classify};
use crate::config::Host;
use minijinja::{
    Environment, Error, ErrorKind, UndefinedBehavior, Value, filters, functions, syntax::SyntaxConfig, tests,
    value::ValueKind,
};
use reconciled_provider::{Reference, problem::did_you_mean, yaml::ScalarKind};
use scan::tags;
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The longest text that a template may be, and the longest that a filter may make.
const PART: usize = 1 << 20;
/// The longest text that a template may come to, and the most that all of its filters make.
const WHOLE: usize = 16 << 20;
/// The longest value of a reference, and most of them in one text.
const REFERENCE: usize = 64 << 10;
const REFERENCES: usize = 256;
/// The most that all variables may be, as JSON.
const VARS: usize = 256 << 10;
/// Most `+` and `~` within one tag: each copies what it joins.
const JOINS: usize = 16;
/// Most steps of the interpreter.
const FUEL: u64 = 250_000;
/// The longest line that is told with what is wrong in it.
const SHOWN: usize = 120;
/// Words that may begin a statement.
const STATEMENTS: [&str; 8] = ["for", "endfor", "if", "elif", "else", "endif", "raw", "endraw"];

/// What is wrong with a template, and in which of its lines.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wrong {
    pub(super) line: usize,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Wrong {
    fn new(line: usize, message: String) -> Wrong {
        Wrong { line, message, hint: None }
    }
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
            return Err(Wrong::new(1, format!("a template is longer than {} KiB", PART >> 10)));
        }
        // What it cannot parse it says better than a scan for tags.
        environment().template_from_str(text).map_err(|error| wrong(text, &error))?;
        let mut references = BTreeMap::new();
        for tag in tags(text) {
            let refuse = |message: String| Err(Wrong::new(tag.line, message));
            if let Some(word) = tag.statement.filter(|word| !STATEMENTS.contains(word)) {
                return refuse(format!("`{word}` is not available in templates, only `for`, `if` and `raw`"));
            }
            if tag.joins > JOINS {
                return refuse(format!("more than {JOINS} of `+` and `~` in one expression"));
            }
            if tag.joins > 0 && tag.statement == Some("for") {
                return refuse("`+` and `~` are not available in `for`".into());
            }
            if let Some(what) = tag.grows {
                return refuse(format!("{what} is not available in templates"));
            }
            for literal in tag.references {
                match classify(literal) {
                    Some(root @ Root::Output(..)) => references.insert(literal.to_owned(), root),
                    _ => {
                        return refuse(format!("`{literal}` is no ADDRESS:path, as in File/motd:spec.path"));
                    }
                };
            }
            if references.len() > REFERENCES {
                return refuse(format!("more than {REFERENCES} references in one template"));
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
        if puts.values().any(|put| put.len() > REFERENCE) {
            let message = format!("a reference comes to more than {} KiB", REFERENCE >> 10);
            return Err(Wrong::new(1, message));
        }
        if serde_json::to_writer(&mut Bounded::new(VARS), vars).is_err() {
            let message = format!("variables of more than {} KiB are not available in templates", VARS >> 10);
            return Err(Wrong::new(1, message));
        }
        // What the interpreter says of a value quotes it.
        let has_secret = puts.values().any(|put| matches!(put, Put::Secret(_)));
        let wrong = |error: &Error| if has_secret { discreet(error) } else { wrong(self.text, error) };
        let mut environment = environment();
        environment.add_function("ref", move |address: &str| match puts.get(address) {
            Some(Put::Value(text, kind) | Put::Output(text, kind, _)) => Ok(value(text, kind)),
            Some(Put::Secret(secret)) => Ok(Value::from(&*String::from_utf8_lossy(secret.clear.reveal()))),
            _ => Err(invalid("`ref` takes one literal: ref('ADDRESS:path')".into())),
        });
        let labels: BTreeMap<&str, &str> =
            host.labels.iter().map(|(name, value)| (&**name, &**value)).collect();
        let facts = serde_json::json!({"vars": vars, "host": {"name": &*host.name, "labels": labels}});
        let mut out = Bounded::new(WHOLE);
        let template = environment.template_from_str(self.text).map_err(|error| wrong(&error))?;
        match template.render_captured_to(minijinja::value::Serde(&facts), &mut out) {
            Ok(_) => Ok(Rendered::Text(String::from_utf8(out.text).unwrap_or_default())),
            Err(_) if out.is_full() => {
                Err(Wrong::new(1, format!("it comes to more than {} MiB", WHOLE >> 20)))
            }
            Err(error) if error.kind() == ErrorKind::UndefinedError => {
                let found = wrong(&error);
                let line = self.text.lines().nth(found.line.saturating_sub(1)).unwrap_or_default();
                Err(Wrong { hint: Some(defined(line, &facts)), ..found })
            }
            Err(error) => Err(wrong(&error)),
        }
    }
}

/// What is wrong in a text with a secret in it.
fn discreet(error: &Error) -> Wrong {
    let message = format!("{}; no more is said, since a secret is in it", error.kind());
    Wrong::new(error.line().unwrap_or(1), message)
}

fn wrong(text: &str, error: &Error) -> Wrong {
    let line = error.line().unwrap_or(1);
    let message = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => "it takes too many steps".to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        // It is not said which.
        (kind, None) => match text.lines().nth(line.saturating_sub(1)).map(str::trim) {
            Some(written) if !written.is_empty() && written.len() <= SHOWN => {
                format!("{kind} in `{written}`")
            }
            _ => kind.to_string(),
        },
    };
    Wrong::new(line, message)
}

/// What may be meant where a value is not defined in this line of a template.
fn defined(line: &str, facts: &serde_json::Value) -> String {
    for (root, all) in
        [("host.labels.", &facts["host"]["labels"]), ("host.", &facts["host"]), ("vars.", &facts["vars"])]
    {
        let known = || all.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        for (at, _) in line.match_indices(root) {
            let rest = &line[at + root.len()..];
            let is_name = |c: char| c.is_alphanumeric() || c == '_';
            let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
            if known().any(|known| known == name) {
                continue;
            }
            if let Some(near) = did_you_mean(name, known()) {
                return format!("did you mean `{root}{near}`?");
            }
        }
    }
    let names = "there are vars.NAME, host.name, host.labels.NAME and ref('ADDRESS:path')";
    format!("{names}; what may be missing is written with a filter: vars.NAME | default('…')")
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
    let made = Made::default();
    let (joining, replacing, writing) = (made.clone(), made.clone(), made.clone());
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
    all.add_filter("join", move |list: Value, between: Option<&str>| joining.join(list, between));
    all.add_filter("last", filters::last);
    all.add_filter("length", filters::length);
    all.add_filter("lower", filters::lower);
    all.add_filter("replace", move |text: &str, from: &str, to: &str| replacing.replace(text, from, to));
    all.add_filter("sort", filters::sort);
    all.add_filter("string", move |value: Value| writing.string(value));
    all.add_filter("tojson", move |value: Value| made.json(value));
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

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// What all filters of one rendering have made.
#[derive(Clone, Default)]
struct Made(Arc<AtomicUsize>);

impl Made {
    fn take(&self, length: Option<usize>) -> Result<(), Error> {
        let length = length.filter(|length| *length <= PART);
        let length =
            length.ok_or_else(|| invalid(format!("a part comes to more than {} KiB", PART >> 10)))?;
        match self.0.fetch_add(length, Ordering::Relaxed) + length > WHOLE {
            true => Err(invalid(format!("its parts come to more than {} MiB", WHOLE >> 20))),
            false => Ok(()),
        }
    }

    fn replace(&self, text: &str, from: &str, to: &str) -> Result<String, Error> {
        let count = if from.is_empty() { text.len() + 1 } else { text.matches(from).count() };
        let length = count.checked_mul(to.len()).and_then(|length| length.checked_add(text.len()));
        self.take(length)?;
        Ok(text.replace(from, to))
    }

    fn join(&self, list: Value, between: Option<&str>) -> Result<String, Error> {
        let mut text = Bounded::new(PART);
        for (index, item) in list.try_iter()?.enumerate() {
            let between = if index > 0 { between.unwrap_or_default() } else { "" };
            let item = match item.kind() {
                ValueKind::String | ValueKind::Number | ValueKind::Bool => item.to_string(),
                kind => return Err(invalid(format!("cannot join a {kind}"))),
            };
            if io::Write::write_fmt(&mut text, format_args!("{between}{item}")).is_err() {
                self.take(None)?;
            }
        }
        self.made(text)
    }

    fn json(&self, value: Value) -> Result<String, Error> {
        let mut text = Bounded::new(PART);
        match serde_json::to_writer(&mut text, &value) {
            Err(_) if text.is_full() => self.take(None)?,
            done => done.map_err(|error| invalid(error.to_string()))?,
        }
        self.made(text)
    }

    fn string(&self, value: Value) -> Result<String, Error> {
        let mut text = Bounded::new(PART);
        if io::Write::write_fmt(&mut text, format_args!("{value}")).is_err() {
            self.take(None)?;
        }
        self.made(text)
    }

    fn made(&self, text: Bounded) -> Result<String, Error> {
        self.take(Some(text.text.len()))?;
        String::from_utf8(text.text).map_err(|error| invalid(error.to_string()))
    }
}

/// Takes so much and no more.
struct Bounded {
    text: Vec<u8>,
    limit: usize,
}

impl Bounded {
    fn new(limit: usize) -> Bounded {
        Bounded { text: Vec::new(), limit }
    }
    fn is_full(&self) -> bool {
        self.text.len() >= self.limit
    }
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.limit.saturating_sub(self.text.len()).min(bytes.len());
        self.text.extend_from_slice(&bytes[..room]);
        match room == bytes.len() {
            true => Ok(room),
            false => Err(io::Error::other("too long")),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
            ("{% for p in [80, 'x', true] %}{{ p }},{% endfor %}", "80,x,True,"),
            ("{% for (k, v) in vars.a | items %}{{ k ~ v }}{% endfor %}", "bc"),
            ("{{ vars['peers'][0] }}{{ (vars.port + 1) | string | tojson }}", "a\"81\""),
            (
                "{% if 'a' in vars.peers and vars.port in [80, 443] %}{{ vars.a | tojson }}{% endif %}",
                "{\"b\":\"c\"}",
            ),
            ("{%- raw -%} {{ {%- endraw -%} x", "{{x"),
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
            ("a\nb {{ vars.nope }}", 2, "undefined value in `b {{ vars.nope }}`"),
            ("a\n\n{{ vars.", 3, ""),
            ("{% set a = 1 %}", 1, "`set` is not available"),
            ("\n{% with a = 1 %}{% endwith %}", 2, "`with` is not available"),
            ("{% include 'x' %}", 1, ""),
            ("{{ ref('vars.x') }}", 1, "no ADDRESS:path, as in File/motd:spec.path"),
            ("{{ ref(vars.domain) }}", 1, "one literal"),
            ("{{ 'a' * 1000000 }}", 1, "`*`"),
            ("{% for b in [vars.a, vars.a] %}{% endfor %}", 1, "a list of other"),
            ("{% for b in [[1], [1]] %}{% endfor %}", 1, "a list of other"),
            ("{% for b in (vars.a, vars.a) %}{% endfor %}", 1, "a tuple"),
            ("{% if vars.a in [vars.a] %}{% endif %}", 1, "a list of other"),
            ("{{ {'a': vars.a} }}", 1, "a mapping"),
            ("{% for b in vars.a ~ vars.a %}{% endfor %}", 1, "in `for`"),
            ("{% for b in vars.peers recursive %}{{ loop(vars.peers) }}{% endfor %}", 1, "`recursive`"),
            ("{{ [1]|tojson(indent=100000000000) }}", 1, ""),
        ] {
            let wrong = render(text).unwrap_err();
            assert_eq!(wrong.line, line, "{text}: {wrong:?}");
            assert!(wrong.message.contains(words), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn what_is_not_defined_is_told_with_what_is() {
        let check = |text: &str, expect: &str| assert_eq!(render(text).unwrap_err().hint.unwrap(), expect);
        check("{{ vars.domian }}", "did you mean `vars.domain`?");
        check("{{ vars.port }}\n{{ host.name }} {{ host.labels.rloe }}", "did you mean `host.labels.role`?");
        check("{{ host.nmae }}", "did you mean `host.name`?");
        let hint = render("{{ peer }}").unwrap_err().hint.unwrap();
        assert!(hint.starts_with("there are vars.NAME, host.name"), "{hint}");
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
            format!("{{{{ vars.domain{} }}}}", many("|tojson", 60)),
            format!(
                "{{% for i in range(1000) %}}{{% if vars.domain|replace('e', '{}') == 1 %}}{{% endif %}}{{% endfor %}}",
                many("x", 100_000)
            ),
            many("a", PART + 1),
        ] {
            let wrong = render(&text).unwrap_err();
            assert!(!wrong.message.is_empty(), "{wrong:?}");
        }
    }

    #[test]
    fn what_looks_like_many_tags_is_read_once() {
        let long = format!("{{% raw %}}{}{{% endraw %}}{{{{ vars.domain }}}}", "{{".repeat(400_000));
        assert_eq!(tags(&long).len(), 2);
        assert!(text(&long).ends_with("{{example.com"));
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_text_the_scan_for_tags_ends(text in r"(\{\{|\}\}|\{%|%\}|\{#|#\}| |raw|endraw|ref\(|'|é|\+|\\){0,40}") {
            tags(&text);
        }
    }
}
