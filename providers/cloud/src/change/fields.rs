//! What a change does to each field, for people: secrets are never shown, what is not known yet says so.

use crate::{
    cty::{Type, Value, write_json},
    schema::{Attribute, Block, Nested, Nesting},
    wire::message::{AttributePath, Selector},
};
use reconciled_provider::{FieldChange, Shown};
use std::{collections::BTreeSet, sync::Arc};

/// The fields that differ between two states; either may be null.
pub fn fields(block: &Block, before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut out = Vec::new();
    of_block(block, before, after, "", &mut out);
    out
}

fn of_block(block: &Block, before: &Value, after: &Value, at: &str, out: &mut Vec<FieldChange>) {
    for (name, attribute) in &block.attributes {
        of_attribute(attribute, before.get(name), after.get(name), &join(at, name), out);
    }
    for (name, nested) in &block.blocks {
        let (before, after, path) = (before.get(name), after.get(name), join(at, name));
        let has_secret = nested.block.has_secret();
        held(nested.nesting, before, after, &path, has_secret, out, &mut |before, after, path, out| {
            of_block(&nested.block, before, after, path, out)
        });
    }
}

fn of_attribute(
    attribute: &Attribute,
    before: &Value,
    after: &Value,
    path: &str,
    out: &mut Vec<FieldChange>,
) {
    let Nested { nesting, attributes } = match &attribute.nested {
        Some(nested) if !attribute.sensitive => nested,
        _ => return leaf(before, after, path, attribute.sensitive, out),
    };
    held(*nesting, before, after, path, attribute.has_secret(), out, &mut |before, after, path, out| {
        for (name, inner) in attributes {
            of_attribute(inner, before.get(name), after.get(name), &join(path, name), out);
        }
    });
}

type Inner<'a> = &'a mut dyn FnMut(&Value, &Value, &str, &mut Vec<FieldChange>);

fn held(
    nesting: Nesting,
    before: &Value,
    after: &Value,
    path: &str,
    has_secret: bool,
    out: &mut Vec<FieldChange>,
    inner: Inner<'_>,
) {
    if before == after {
        return;
    }
    if *after == Value::Unknown {
        return leaf(before, after, path, has_secret, out);
    }
    match nesting {
        Nesting::Single | Nesting::Group => inner(before, after, path, out),
        Nesting::List => {
            let (a, b) = (before.elements(), after.elements());
            for index in 0..a.len().max(b.len()) {
                let of = |all: &[Value]| all.get(index).cloned().unwrap_or(Value::Null);
                inner(&of(a), &of(b), &format!("{path}[{index}]"), out);
            }
        }
        Nesting::Map => {
            let keys = |value: &Value| match value {
                Value::Map(all) => all.keys().cloned().collect::<Vec<Arc<str>>>(),
                _ => Vec::new(),
            };
            let all: BTreeSet<Arc<str>> = keys(before).into_iter().chain(keys(after)).collect();
            for key in all {
                inner(before.get(&key), after.get(&key), &join(path, &key), out);
            }
        }
        Nesting::Set => {
            // An element of a set that differs in one field is another element.
            let only = |all: &Value, others: &Value| -> Vec<Value> {
                all.elements().iter().filter(|one| !others.elements().contains(one)).cloned().collect()
            };
            for gone in only(before, after) {
                leaf(&without_nulls(&gone), &Value::Null, path, has_secret, out);
            }
            for new in only(after, before) {
                leaf(&Value::Null, &without_nulls(&new), path, has_secret, out);
            }
        }
    }
}

fn leaf(before: &Value, after: &Value, path: &str, is_secret: bool, out: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    if let (Value::Map(a), Value::Map(b), false) = (before, after, is_secret) {
        let keys: BTreeSet<&Arc<str>> = a.keys().chain(b.keys()).collect();
        for key in keys {
            leaf(before.get(key), after.get(key), &join(path, key), false, out);
        }
        return;
    }
    let show = |value: &Value| match value {
        Value::Null => Shown::Absent,
        Value::Unknown => Shown::Unknown,
        _ if is_secret => Shown::Sensitive,
        Value::String(text) => Shown::Text(text.to_string()),
        other => Shown::Text(String::from_utf8_lossy(&write_json(other, &Type::Dynamic)).into_owned()),
    };
    out.push(FieldChange { path: path.into(), before: show(before), after: show(after) });
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Map(all) => {
            let kept = all
                .iter()
                .filter(|(_, value)| !value.is_null() && !matches!(value, Value::Seq(s) if s.is_empty()));
            Value::Map(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.into() } else { format!("{at}.{name}") }
}

/// The value that a path of a provider leads to, and the path in words. None: there is no such place.
pub fn at_path<'v>(value: &'v Value, path: &AttributePath) -> (String, Option<&'v Value>) {
    let (mut words, mut found) = (String::new(), Some(value));
    for step in &path.steps {
        match &step.selector {
            Some(Selector::AttributeName(name)) => {
                words = join(&words, name);
                found = found.and_then(|value| match value {
                    Value::Map(all) => all.get(&**name),
                    _ => None,
                });
            }
            Some(Selector::ElementKeyString(key)) => {
                words = join(&words, key);
                found = found.and_then(|value| match value {
                    Value::Map(all) => all.get(&**key),
                    _ => None,
                });
            }
            Some(Selector::ElementKeyInt(index)) => {
                words += &format!("[{index}]");
                found = found.and_then(|value| value.elements().get(usize::try_from(*index).ok()?));
            }
            None => {}
        }
    }
    (words, found)
}

/// The texts of all secrets in a value: they must not get into an error that a provider writes.
pub fn secrets(block: &Block, value: &Value) -> Vec<Arc<str>> {
    let mut out = Vec::new();
    for (name, _) in block.attributes.iter().filter(|(_, attribute)| attribute.has_secret()) {
        texts(value.get(name), &mut out);
    }
    for (name, nested) in block.blocks.iter().filter(|(_, nested)| nested.block.has_secret()) {
        match value.get(name) {
            Value::Map(all) if nested.nesting == Nesting::Map => {
                all.values().for_each(|one| out.extend(secrets(&nested.block, one)))
            }
            one @ Value::Map(_) => out.extend(secrets(&nested.block, one)),
            all => all.elements().iter().for_each(|one| out.extend(secrets(&nested.block, one))),
        }
    }
    out
}

fn texts(value: &Value, out: &mut Vec<Arc<str>>) {
    match value {
        Value::String(text) => out.push(text.clone()),
        Value::Number(number) => out.push(number.as_str().into()),
        Value::Seq(all) => all.iter().for_each(|one| texts(one, out)),
        Value::Map(all) => all.values().for_each(|one| texts(one, out)),
        Value::Dynamic(inner) => texts(&inner.1, out),
        Value::Null | Value::Unknown | Value::Bool(_) => {}
    }
}
