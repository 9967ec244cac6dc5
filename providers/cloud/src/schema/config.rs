//! YAML to the canonical form of a declaration, by the schema of its type, with every problem at its place.

use super::{Attribute, Block, Nested, NestedBlock, Nesting, canonical};
use crate::cty::{Number, Type};
use reconciled_provider::{
    Error, Inputs, Manifest, Node, Problem, Reference, SecretRef, Span,
    problem::did_you_mean,
    yaml::{NodeValue, ScalarKind},
};
use serde_json::{Map, Value as Json};

/// Where values come from that are not written out.
pub trait Source {
    /// The name of the secret that stands in place of a scalar, where one does.
    fn secret(&self, node: &Node) -> Option<String>;
    /// How a secret is written there.
    fn form(&self) -> &'static str;
    /// The mark of a secret that the text names.
    fn mark(&self, name: &str) -> Result<String, Error>;
    /// An error at a place.
    fn problem(&self, span: Span, message: String) -> Problem;
}

impl Source for (&Manifest, &dyn Inputs) {
    fn secret(&self, node: &Node) -> Option<String> {
        match node.entries() {
            [(key, name)] if key.as_str() == Some("secret") => name.as_str().map(String::from),
            _ => None,
        }
    }
    fn form(&self) -> &'static str {
        "{secret: NAME}"
    }
    fn mark(&self, name: &str) -> Result<String, Error> {
        self.1.secret(&SecretRef::Named(name.into())).map(|mark| mark.0.to_string())
    }
    fn problem(&self, span: Span, message: String) -> Problem {
        self.0.error(span, message)
    }
}

/// Reads declarations.
pub struct Reader<'a> {
    source: &'a dyn Source,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// What it refers to and is not known yet.
    pub waits_for: Vec<Reference>,
}

impl<'a> Reader<'a> {
    /// A reader that has found nothing.
    pub fn new(source: &'a dyn Source) -> Reader<'a> {
        Reader { source, problems: Vec::new(), waits_for: Vec::new() }
    }

    fn refuse(&mut self, span: Span, message: String, hint: Option<String>) {
        self.problems.push(self.source.problem(span, message).hint_if(hint));
    }

    /// Reads what a block declares. `at` is where it stands, for what is missing; `more` are keys that others read.
    pub fn block(&mut self, node: &Node, block: &Block, at: Span, more: &[&str]) -> Json {
        let mut out = Map::new();
        if !matches!(node.value, NodeValue::Map(_) | NodeValue::Null) {
            self.refuse(node.span, format!("expected a mapping, found {}", node.describe()), None);
            return Json::Object(out);
        }
        for (key, value) in node.entries() {
            let name = key.as_str().unwrap_or_default();
            if more.contains(&name) {
                continue;
            }
            let read = match (block.attributes.get(name), block.blocks.get(name)) {
                (Some(attribute), _) => self.declared(key, value, name, attribute),
                (None, Some(nested)) => self.nested_block(value, name, nested),
                (None, None) => {
                    let names =
                        block.attributes.iter().filter(|(_, a)| a.is_declarable()).map(|(name, _)| &**name);
                    self.unknown(key, name, names.chain(block.blocks.keys().map(|name| &**name)));
                    None
                }
            };
            // Null is as good as nothing.
            if let Some(read) = read.filter(|read| !read.is_null()) {
                out.insert(name.into(), read);
            }
        }
        for (name, _) in block.attributes.iter().filter(|(_, attribute)| attribute.required) {
            self.require(&out, name, node, at);
        }
        for (name, nested) in block.blocks.iter().filter(|(_, nested)| nested.min > 0) {
            if nested.nesting != Nesting::Group
                && out.get(&**name).is_none_or(|v| v.as_array().is_some_and(Vec::is_empty))
            {
                self.require(&Map::new(), name, node, at);
            }
        }
        // One form whatever the order in which it is written.
        out.sort_keys();
        Json::Object(out)
    }

    fn require(&mut self, out: &Map<String, Json>, name: &str, node: &Node, at: Span) {
        let is_there = out.contains_key(name) || node.get(name).is_some_and(|value| !value.is_null());
        if !is_there {
            let span = if node.is_null() { at } else { node.span };
            self.refuse(span, format!("`{name}` is required and missing"), None);
        }
    }

    fn unknown<'n>(&mut self, key: &Node, name: &str, names: impl Iterator<Item = &'n str>) {
        let names: Vec<&str> = names.collect();
        let hint = match did_you_mean(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.len() <= 12 => format!("there are: {}", names.join(", ")),
            None => "to see what there is: reconciled explain KIND".into(),
        };
        self.refuse(key.span, format!("unknown attribute `{name}`"), Some(hint));
    }

    fn declared(&mut self, key: &Node, value: &Node, name: &str, attribute: &Attribute) -> Option<Json> {
        if !attribute.is_declarable() {
            let hint = format!("leave it out; others can refer to it as ${{KIND/NAME:status.{name}}}");
            self.refuse(key.span, format!("`{name}` is decided by the provider"), Some(hint));
            return None;
        }
        if attribute.deprecated {
            let problem = self.source.problem(key.span, format!("`{name}` is deprecated"));
            self.problems.push(Problem { severity: reconciled_provider::Severity::Warning, ..problem });
        }
        match &attribute.nested {
            None => self.value(value, &attribute.value_type, name),
            Some(nested) => self.nested_attribute(value, name, nested),
        }
    }

    fn object(&mut self, node: &Node, nested: &Nested) -> Json {
        // Attributes of an attribute follow the rules of those of a block.
        let block = Block { attributes: nested.attributes.clone(), ..Block::default() };
        self.block(node, &block, node.span, &[])
    }

    fn nested_attribute(&mut self, node: &Node, name: &str, nested: &Nested) -> Option<Json> {
        match (&node.value, nested.nesting) {
            (NodeValue::Null, _) => None,
            (NodeValue::Map(_), Nesting::Single | Nesting::Group) => Some(self.object(node, nested)),
            (NodeValue::Seq(all), Nesting::List | Nesting::Set) => {
                Some(Json::Array(all.iter().map(|one| self.object(one, nested)).collect()))
            }
            (NodeValue::Map(all), Nesting::Map) => {
                let mut out = Map::new();
                for (key, node) in all {
                    if !self.is_free(key) {
                        continue;
                    }
                    out.insert(text(key), self.object(node, nested));
                }
                Some(Json::Object(out))
            }
            (_, nesting) => self.misfit(node, name, nesting),
        }
    }

    fn nested_block(&mut self, node: &Node, name: &str, nested: &NestedBlock) -> Option<Json> {
        let block = &nested.block;
        match (&node.value, nested.nesting) {
            (NodeValue::Null, _) => None,
            (NodeValue::Map(_), Nesting::Single | Nesting::Group) => {
                Some(self.block(node, block, node.span, &[]))
            }
            (NodeValue::Seq(all), Nesting::List | Nesting::Set) => {
                self.count(node, name, all.len(), nested);
                Some(Json::Array(all.iter().map(|one| self.block(one, block, one.span, &[])).collect()))
            }
            // One of what can be there once needs no list around it.
            (NodeValue::Map(_), Nesting::List | Nesting::Set) if nested.max == 1 => {
                Some(Json::Array(vec![self.block(node, block, node.span, &[])]))
            }
            (NodeValue::Map(all), Nesting::Map) => {
                let mut out = Map::new();
                for (key, node) in all {
                    if !self.is_free(key) {
                        continue;
                    }
                    out.insert(text(key), self.block(node, block, node.span, &[]));
                }
                Some(Json::Object(out))
            }
            (_, nesting) => self.misfit(node, name, nesting),
        }
    }

    fn count(&mut self, node: &Node, name: &str, count: usize, nested: &NestedBlock) {
        if count < nested.min {
            self.refuse(node.span, format!("`{name}` needs at least {}", nested.min), None);
        }
        if nested.max > 0 && count > nested.max {
            self.refuse(node.span, format!("`{name}` may be there {} times at most", nested.max), None);
        }
    }

    /// False for a key that means something in the canonical form: what it stands for is nobody's to write.
    fn is_free(&mut self, key: &Node) -> bool {
        let name = key.as_str().unwrap_or_default();
        let is_reserved = canonical::RESERVED.contains(&name);
        if is_reserved {
            let hint = "choose another key; a secret is {secret: NAME}";
            self.refuse(key.span, format!("the key `{name}` is reserved"), Some(hint.into()));
        }
        !is_reserved
    }

    fn misfit<T>(&mut self, node: &Node, name: &str, nesting: Nesting) -> Option<T> {
        let expected = match nesting {
            Nesting::List | Nesting::Set => "a list of mappings",
            Nesting::Single | Nesting::Group | Nesting::Map => "a mapping",
        };
        self.refuse(node.span, format!("expected {expected} for `{name}`, found {}", node.describe()), None);
        None
    }

    fn value(&mut self, node: &Node, of: &Type, name: &str) -> Option<Json> {
        match (&node.value, of) {
            (NodeValue::Null, _) => Some(Json::Null),
            (NodeValue::Scalar(text, ScalarKind::Unknown(on)), _) => {
                self.waits_for.extend(on.iter().cloned());
                Some(canonical::unknown(text))
            }
            (NodeValue::Map(_), Type::String | Type::Number | Type::Dynamic)
                if self.source.secret(node).is_some() =>
            {
                let name = self.source.secret(node).unwrap_or_default();
                match self.source.mark(&name) {
                    Ok(mark) => Some(canonical::secret(&name, &mark)),
                    Err(error) => {
                        self.refuse(node.span, error.chain(), error.into_told().hint);
                        None
                    }
                }
            }
            (NodeValue::Scalar(text, kind), Type::String | Type::Number | Type::Bool | Type::Dynamic) => {
                let read = scalar(text, kind, of);
                if read.is_none() {
                    let hint = (*of == Type::Bool).then(|| "write true or false".to_string());
                    self.refuse(
                        node.span,
                        format!("expected {of} for `{name}`, found {}", node.describe()),
                        hint,
                    );
                }
                read
            }
            (NodeValue::Seq(all), Type::List(inner) | Type::Set(inner)) => {
                Some(Json::Array(all.iter().filter_map(|one| self.value(one, inner, name)).collect()))
            }
            (NodeValue::Seq(all), Type::Tuple(parts)) if all.len() == parts.len() => Some(Json::Array(
                all.iter().zip(parts).filter_map(|(one, of)| self.value(one, of, name)).collect(),
            )),
            (NodeValue::Seq(all), Type::Dynamic) => {
                Some(Json::Array(all.iter().filter_map(|one| self.value(one, of, name)).collect()))
            }
            (NodeValue::Map(all), Type::Map(_) | Type::Dynamic) => {
                let inner = if let Type::Map(inner) = of { inner } else { of };
                let mut fields = Map::new();
                for (key, one) in all {
                    if !self.is_free(key) {
                        continue;
                    }
                    fields.extend(self.value(one, inner, name).map(|read| (text(key), read)));
                }
                fields.sort_keys();
                Some(Json::Object(fields))
            }
            (NodeValue::Map(all), Type::Object(types)) => {
                let mut fields = Map::new();
                for (key, one) in all {
                    let field = key.as_str().unwrap_or_default();
                    match types.get(field) {
                        Some(of) => fields.extend(self.value(one, of, field).map(|read| (text(key), read))),
                        None => self.unknown(key, field, types.keys().map(|name| &**name)),
                    }
                }
                fields.sort_keys();
                Some(Json::Object(fields))
            }
            _ => {
                let is_mapping = matches!(node.value, NodeValue::Map(_));
                let may_be_secret = is_mapping && matches!(of, Type::String | Type::Number);
                let hint = may_be_secret.then(|| format!("a secret is written {} here", self.source.form()));
                let found = node.describe();
                self.refuse(node.span, format!("expected {of} for `{name}`, found {found}"), hint);
                None
            }
        }
    }
}

fn text(key: &Node) -> String {
    key.as_str().unwrap_or_default().into()
}

/// A scalar as a value of a type, by the conversions of Terraform: numbers and truth become text and back.
fn scalar(text: &str, kind: &ScalarKind, of: &Type) -> Option<Json> {
    match (of, kind) {
        // `8.0` and `012` are what was written, not what a reader would make of them: a version, an account.
        (Type::String, _) => Some(Json::String(text.into())),
        (Type::Number, _) => Number::parse(text).map(|n| canonical::number(&n)),
        (Type::Bool, _) => match text {
            "true" | "1" => Some(Json::Bool(true)),
            "false" | "0" => Some(Json::Bool(false)),
            _ => None,
        },
        (_, ScalarKind::Bool) => Some(Json::Bool(text == "true")),
        (_, ScalarKind::Int | ScalarKind::Float) => Number::parse(text).map(|n| canonical::number(&n)),
        _ => Some(Json::String(text.into())),
    }
}
