//! What `${ADDRESS:path}` comes to: what another manifest says of itself, or what its resources put out.
//!
//! `spec.…` and `metadata.…` are read from the other document, its own `${…}` in place: they are known from Git
//! alone, and count as written here. `status.…`, or a path with none of these roots, is an output: it comes from
//! the inventory, may be unknown, and is no part of what a person wrote.

use super::{
    outputs::Output,
    request::{Mode, Request},
    resolve::Resolver,
    substitute::{Put, Replaced, kind_of, replaced},
    unit::{Resolved, Standing, Unit},
};
use reconciled_provider::{
    Address, Node, Problem, Reference, Secret, Span,
    problem::did_you_mean,
    secret_in,
    yaml::{NodeValue, ScalarKind},
};
use serde_json::Value as Json;
use std::{cell::RefCell, sync::Arc};

/// How far a value is followed from manifest to manifest: each step takes room on the stack.
const DEEPEST: usize = 32;
/// Longest text that references may come to: two in each of a row of manifests would double it at each.
const LONGEST: usize = 64 << 10;

/// One step of a path: `records[0].name` has three, `records[name=www,type=A]` has two.
#[derive(Clone, Debug, PartialEq)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
    /// The first element of a list whose fields have these values.
    Where(Vec<(&'a str, &'a str)>),
}

/// The steps of a path; none when it is no path.
fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let (mut all, mut rest) = (Vec::new(), path);
    loop {
        let (key, after) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
        if key.is_empty() || key.contains([']', '=', ',']) {
            return None;
        }
        all.push(Step::Key(key));
        rest = after;
        while let Some(open) = rest.strip_prefix('[') {
            let (inner, after) = open.split_once(']')?;
            let pairs = || inner.split(',').map(|pair| pair.split_once('=')).collect::<Option<Vec<_>>>();
            all.push(match inner.parse() {
                Ok(index) => Step::Index(index),
                Err(_) => Step::Where(pairs()?),
            });
            rest = after;
        }
        match rest.strip_prefix('.') {
            Some(after) => rest = after,
            None => return rest.is_empty().then_some(all),
        }
    }
}

/// The value at `path` of outputs, which are a JSON object. Text is given bare, everything else as JSON. What stands in a
/// secret, or has one in it, is a secret as a whole.
pub(crate) fn output_at(outputs: &Json, path: &str) -> Output {
    let Some(steps) = steps(path) else { return Output::Unknown };
    let (mut found, mut is_secret) = (outputs, false);
    for step in steps {
        let next = match step {
            Step::Key(key) => found.get(key),
            Step::Index(index) => found.get(index),
            Step::Where(pairs) => found.as_array().into_iter().flatten().find(|element| {
                pairs.iter().all(|(key, expect)| element.get(key).and_then(|v| v.as_str()) == Some(expect))
            }),
        };
        let Some(next) = next else { return Output::Unknown };
        let inner = secret_in(next);
        is_secret |= inner.is_some();
        found = inner.unwrap_or(next);
    }
    let (clear, has_secret) = cleared(found);
    let text = match clear {
        Json::Null => return Output::Unknown,
        Json::String(text) => text,
        other => other.to_string(),
    };
    match is_secret || has_secret {
        true => Output::Secret(Secret::new(text.into_bytes())),
        false => Output::Text(text.into()),
    }
}

/// The value with its secrets in clear, and whether there are any.
fn cleared(value: &Json) -> (Json, bool) {
    if let Some(secret) = secret_in(value) {
        return (cleared(secret).0, true);
    }
    let mut has_secret = false;
    let mut inner = |value: &Json| {
        let (clear, is_secret) = cleared(value);
        has_secret |= is_secret;
        clear
    };
    let clear = match value {
        Json::Array(all) => Json::Array(all.iter().map(inner).collect()),
        Json::Object(all) => all.iter().map(|(key, value)| (key.clone(), inner(value))).collect(),
        scalar => scalar.clone(),
    };
    (clear, has_secret)
}

impl Resolver<'_, '_> {
    /// What an address and a path come to.
    pub(super) fn referred(
        &mut self,
        address: &Address,
        path: &Arc<str>,
        span: Span,
        resolved: &mut Resolved,
    ) -> Put {
        let index = match self.directory.find(&self.loading.units, self.unit, address) {
            Ok(index) => index,
            Err(problem) => return self.miss(*problem, span),
        };
        let target = &self.loading.units[index];
        if target.key == self.unit.key {
            let problem = Problem::error(format!("{} refers to itself", self.unit.address));
            self.problems.push((problem, span));
            return Put::Failed;
        }
        resolved.after.push(target.key.clone());
        match path.split_once('.') {
            Some(("spec", rest)) => self.written(index, rest, address, span),
            Some(("metadata", rest)) => self.named(target, rest, address, span),
            Some(("status", rest)) => self.put_out(target, rest.into(), address, span),
            _ => self.put_out(target, path.clone(), address, span),
        }
    }

    /// True when an address without a path can only be meant for us: it names a group, or a kind that there is.
    pub(super) fn is_ours(&self, address: &Address) -> bool {
        let Request { known, entries, .. } = self.loading.request;
        let mut kinds = entries.iter().map(|entry| &*entry.kinds).chain([*known]).flat_map(|kinds| &kinds.0);
        address.group.is_some() || kinds.any(|kind| kind.name == address.kind)
    }

    /// An address that leads to no value.
    pub(super) fn pathless(&mut self, address: &Address, text: &str, span: Span) -> Put {
        let whole = address.without_part();
        let problem = match &address.part {
            Some(_) => Problem::error(format!("`${{{text}}}` refers to a part of a manifest")).hint(format!(
                "name the manifest and a path in it: ${{{whole}:spec.records[name=www,type=A].values[0]}}; $${{ is a literal"
            )),
            None => Problem::error(format!("`${{{text}}}` has no path that leads to a value")).hint(format!(
                "write ${{{whole}:spec.NAME}} for what the manifest says, ${{{whole}:status.NAME}} for what it puts out, \
                 or $${{ for a literal"
            )),
        };
        self.problems.push((problem, span));
        Put::Failed
    }

    fn put_out(&mut self, target: &Unit, path: Arc<str>, address: &Address, span: Span) -> Put {
        if matches!(target.standing, Standing::Unselected | Standing::Unassigned) {
            let text = format!("`{address}` is not applied on this host, so this value stays unknown");
            self.problems.push((Problem::warning(text), span));
        }
        let reference = Reference { target: target.key.clone(), path };
        match self.loading.output(&reference) {
            Output::Text(text) => return Put::Output((*text).into(), kind_of(&text), reference),
            Output::Secret(clear) => return self.secret(clear, reference),
            Output::Unknown => {}
        }
        let outputs = self.loading.request.outputs;
        let (names, is_settled) = (outputs.names(&reference.target), outputs.is_settled(&reference.target));
        if !names.is_empty() || is_settled {
            // It stays unknown until the manifest or the remote changes: that looks like waiting, and is none.
            let text = format!("{address} puts out no `{}`", reference.path);
            let near = did_you_mean(&reference.path, names.iter().map(String::as_str));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None if names.is_empty() => {
                    format!("it puts nothing out; what its manifest says is ${{{address}:spec.NAME}}")
                }
                None => format!("it puts out {}", names.join(", ")),
            };
            if is_settled {
                self.loading.vain.borrow_mut().insert(reference.clone(), hint.as_str().into());
            }
            self.problems.push((Problem::warning(text).hint(hint), span));
        }
        Put::Unknown(reference)
    }

    fn named(&mut self, target: &Unit, path: &str, address: &Address, span: Span) -> Put {
        let document = &target.document;
        let value = match path.split_once('.') {
            None if path == "name" => Some(document.name.clone()),
            None if path == "namespace" => Some(document.namespace.clone()),
            Some(("labels", label)) => document.labels.get(label).cloned(),
            _ => None,
        };
        match value {
            Some(text) => Put::Value((*text).into(), ScalarKind::Str),
            None => {
                let problem = Problem::error(format!("{address} has no `metadata.{path}`"));
                let hint = "there are metadata.name, metadata.namespace and metadata.labels.NAME";
                self.miss(problem.hint(hint), span)
            }
        }
    }

    /// The scalar at `path` of another manifest's spec, with that manifest's own values in place.
    fn written(&mut self, index: usize, path: &str, address: &Address, span: Span) -> Put {
        let loading = self.loading;
        let target = &loading.units[index];
        let wrong = |text: String| Problem::error(text);
        let Some(steps) = steps(path) else {
            return self.miss(wrong(format!("`spec.{path}` is no path; write spec.a.b[0]")), span);
        };
        let found = loading.with_spec(target, |spec| scalar(spec, &steps, address));
        let (text, kind) = match found {
            Ok(found) => found,
            Err(problem) => return self.miss(*problem, span),
        };
        if text.len() > LONGEST {
            let text = format!("`{address}` comes to more than {} KiB of text", LONGEST >> 10);
            return self.too_far(wrong(text).hint("refer to less of it"), span);
        }
        if !text.contains("${") || loading.is_verbatim(target, &steps[0].to_string()) {
            return Put::Value(text, kind);
        }
        let place = (index, Arc::from(path));
        if let Some(put) = loading.looked_up.borrow().get(&place) {
            return put.clone();
        }
        // A circle is told by the graph, which knows all of its members.
        if self.trail.contains(&index) {
            return Put::Failed;
        }
        if self.trail.len() > DEEPEST {
            let text = format!("`{address}` refers to a manifest that refers to another, {DEEPEST} deep");
            return self.too_far(wrong(text).hint("refer to the one that has the value"), span);
        }
        let (mut problems, mut within) = (Vec::new(), Resolved::default());
        let trail = self.trail.iter().copied().chain([index]).collect();
        let inner = RefCell::new(Resolver {
            loading,
            directory: self.directory,
            unit: target,
            problems: &mut problems,
            lacks: self.lacks,
            trail,
            beyond: None,
            tampered: self.tampered,
            room: self.room,
        });
        let (within, used) = (RefCell::new(&mut within), RefCell::new(None));
        let new = replaced(&text, LONGEST, &|root| {
            let put = inner.borrow_mut().put(root, span, &mut within.borrow_mut());
            if let Put::Output(_, _, reference) = &put {
                used.borrow_mut().get_or_insert_with(|| reference.clone());
            }
            put
        });
        if let Some(beyond) = inner.into_inner().beyond {
            return self.too_far(beyond, span);
        }
        // What is wrong there is told there, if it is applied here.
        if !matches!(target.standing, Standing::Offered { .. }) {
            self.problems.extend(problems.into_iter().map(|(problem, _)| (problem, span)));
        }
        let put = match new {
            Replaced::Failed => return Put::Failed,
            Replaced::Secret(secret) => Put::Secret(secret),
            Replaced::Holds(_) => {
                let text = format!("`{address}:spec.{path}` has a secret within a longer text");
                return self.miss(wrong(text).hint("let the secret stand alone"), span);
            }
            Replaced::Text(text, _) if text.len() > LONGEST => {
                let text = format!("`{address}` comes to more than {} KiB of text", LONGEST >> 10);
                return self.too_far(wrong(text).hint("refer to less of it"), span);
            }
            Replaced::Text(_, Some(ScalarKind::Unknown(references))) => {
                references.first().map_or(Put::Failed, |reference| Put::Unknown(reference.clone()))
            }
            Replaced::Text(text, new_kind) => {
                let kind = new_kind.unwrap_or(kind);
                match used.into_inner() {
                    Some(reference) => Put::Output(text, kind, reference),
                    None => Put::Value(text, kind),
                }
            }
        };
        loading.looked_up.borrow_mut().insert(place, put.clone());
        put
    }

    /// Each manifest on the way sees another end of it: who began says so.
    fn too_far(&mut self, problem: Problem, span: Span) -> Put {
        if self.trail.len() == 1 {
            return self.miss(problem, span);
        }
        self.beyond = Some(problem);
        Put::Failed
    }

    /// A file that cannot be read is one problem, not one for everything that may be in it.
    pub(super) fn miss(&mut self, problem: Problem, span: Span) -> Put {
        if !self.loading.sides[self.unit.source].has_unread() || self.loading.mode == Mode::Anywhere {
            self.problems.push((problem, span));
        }
        Put::Failed
    }
}

impl std::fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Key(key) => f.write_str(key),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Where(pairs) => {
                let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "[{}]", pairs.join(","))
            }
        }
    }
}

/// The scalar that `steps` lead to.
fn scalar(
    spec: &Node,
    steps: &[Step<'_>],
    address: &Address,
) -> Result<(Box<str>, ScalarKind), Box<Problem>> {
    let (mut node, mut walked) = (spec, String::from("spec"));
    for step in steps {
        let next = match (step, &node.value) {
            (Step::Key(key), NodeValue::Map(_)) => node.get(key),
            (Step::Index(index), NodeValue::Seq(nodes)) => nodes.get(*index),
            (Step::Where(pairs), NodeValue::Seq(nodes)) => nodes.iter().find(|element| {
                pairs.iter().all(|(key, value)| element.get(key).and_then(Node::as_str) == Some(*value))
            }),
            _ => None,
        };
        let Some(next) = next else {
            let problem = Problem::error(format!("{address} has no `{step}` in `{walked}`"));
            let keys = node.entries().iter().filter_map(|(key, _)| key.as_str());
            let near = match step {
                Step::Key(key) => did_you_mean(key, keys),
                Step::Index(_) | Step::Where(_) => None,
            };
            return Err(Box::new(match near {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => {
                    problem.hint("only what is written in the manifest can be referred to; defaults cannot")
                }
            }));
        };
        if matches!(step, Step::Key(_)) {
            walked.push('.');
        }
        walked.push_str(&step.to_string());
        node = next;
    }
    match &node.value {
        NodeValue::Scalar(text, kind) => Ok((text.clone(), kind.clone())),
        _ => Err(Box::new(
            Problem::error(format!("`{walked}` of {address} is not one value"))
                .hint("refer to one of its fields, or to an element: spec.list[0], spec.list[name=NAME]"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::secret_output;

    #[test]
    fn a_path_is_keys_and_indices() {
        let check = |path: &str, expect: Option<&str>| {
            let shown = steps(path).map(|all| all.iter().map(Step::to_string).collect::<Vec<_>>().join(" "));
            assert_eq!(shown.as_deref(), expect, "{path}");
        };
        check("a", Some("a"));
        check("a.b[0][12].c", Some("a b [0] [12] c"));
        check("a[name=x.y,type=A].c", Some("a [name=x.y,type=A] c"));
        for wrong in ["", "a..b", ".a", "a.", "[0]", "a[", "a[x]", "a[0]b", "a[-1]", "a=b", "a[b=c,d]"] {
            check(wrong, None);
        }
    }

    #[test]
    fn what_is_in_a_secret_or_has_one_in_it_is_a_secret() {
        let login = serde_json::json!({"password": secret_output("made".into()), "user": "web"});
        let data = secret_output(serde_json::json!({"key": "k", "n": 3}));
        let outputs = serde_json::json!({"login": login, "data": data, "all": [secret_output(1.into())]});
        let check = |path: &str, expect: Option<&str>| match output_at(&outputs, path) {
            Output::Secret(secret) => assert_eq!(secret.reveal_str().ok(), expect, "{path}"),
            Output::Text(text) => panic!("{path} is no secret: {text}"),
            Output::Unknown => assert_eq!(expect, None, "{path}"),
        };
        check("login.password", Some("made"));
        check("login", Some(r#"{"password":"made","user":"web"}"#));
        check("data.key", Some("k"));
        check("data", Some(r#"{"key":"k","n":3}"#));
        check("all[0]", Some("1"));
        check("all", Some("[1]"));
        check("data.none", None);
        assert_eq!(output_at(&outputs, "login.user").text().as_deref(), Some("web"));
    }

    #[test]
    fn outputs_are_found_by_their_path() {
        let outputs = serde_json::json!({"arn": "a:b", "n": 3, "l": [{"x": true}, {"x": 1, "name": "b"}], "none": null});
        let check = |path: &str, expect: Option<&str>| {
            assert_eq!(output_at(&outputs, path).text().as_deref(), expect)
        };
        check("arn", Some("a:b"));
        check("n", Some("3"));
        check("l[0].x", Some("true"));
        check("l[2].x", None);
        check("none", None);
        check("l[name=b].x", Some("1"));
        check("l[0]", Some("{\"x\":true}"));
    }
}
