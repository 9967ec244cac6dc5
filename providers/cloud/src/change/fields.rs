//! What a change does to each field, for people: secrets are never shown, what is not known yet says so.

use crate::{
    cty::{Type, Value, write_json},
    hidden::Hidden,
    schema::{Attribute, Block, Nested, Nesting},
    wire::message::{AttributePath, Selector, Step},
};
use reconciled_provider::{FieldChange, Shown};
use std::{collections::BTreeSet, sync::Arc};

/// The fields that differ between two states; either may be null. A leaf that holds what is hidden is not shown.
pub fn fields(block: &Block, before: &Value, after: &Value, hidden: &Hidden) -> Vec<FieldChange> {
    let mut out = Fields { hidden, all: Vec::new() };
    of_block(block, before, after, "", &mut out);
    out.all
}

struct Fields<'a> {
    hidden: &'a Hidden,
    all: Vec<FieldChange>,
}

fn of_block(block: &Block, before: &Value, after: &Value, at: &str, out: &mut Fields<'_>) {
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

fn of_attribute(attribute: &Attribute, before: &Value, after: &Value, path: &str, out: &mut Fields<'_>) {
    let Nested { nesting, attributes } = match &attribute.nested {
        Some(nested) if !attribute.is_secret() => nested,
        _ => return leaf(before, after, path, &attribute.value_type, attribute.is_secret(), out),
    };
    held(*nesting, before, after, path, attribute.has_secret(), out, &mut |before, after, path, out| {
        for (name, inner) in attributes {
            of_attribute(inner, before.get(name), after.get(name), &join(path, name), out);
        }
    });
}

type Inner<'a> = &'a mut dyn FnMut(&Value, &Value, &str, &mut Fields<'_>);

fn held(
    nesting: Nesting,
    before: &Value,
    after: &Value,
    path: &str,
    has_secret: bool,
    out: &mut Fields<'_>,
    inner: Inner<'_>,
) {
    if before == after {
        return;
    }
    if *after == Value::Unknown {
        return leaf(before, after, path, &Type::Dynamic, has_secret, out);
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
            let all = keys(before, after);
            // A path shows the keys in it.
            if out.hidden.hides_key(all.iter()) {
                return leaf(before, after, path, &Type::Dynamic, true, out);
            }
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
                leaf(&without_nulls(&gone), &Value::Null, path, &Type::Dynamic, has_secret, out);
            }
            for new in only(after, before) {
                match after.elements().iter().position(|one| *one == new && !new.is_known()) {
                    Some(index) => inner(&Value::Null, &new, &format!("{path}[{index}]"), out),
                    None => leaf(&Value::Null, &without_nulls(&new), path, &Type::Dynamic, has_secret, out),
                }
            }
        }
    }
}

fn leaf(before: &Value, after: &Value, path: &str, of: &Type, is_secret: bool, out: &mut Fields<'_>) {
    if before == after {
        return;
    }
    // A path shows the keys in it.
    let is_told_apart = || !out.hidden.hides_key(keys(before, after).iter());
    if !is_secret && has_parts(before, after) && is_told_apart() {
        return parts(before, after, path, of, out);
    }
    let is_secret = is_secret || out.hidden.hides_in(before) || out.hidden.hides_in(after);
    let show = |value: &Value| match value {
        Value::Null => Shown::Absent,
        Value::Unknown => Shown::Unknown,
        _ if is_secret => Shown::Sensitive,
        // As JSON it would have null where something is to come.
        value if !value.is_known() => Shown::Unknown,
        Value::String(text) => Shown::Text(text.to_string()),
        other => Shown::Text(String::from_utf8_lossy(&write_json(other, &Type::Dynamic)).into_owned()),
    };
    out.all.push(FieldChange { path: path.into(), before: show(before), after: show(after) });
}

/// True for what is told part by part: two maps, and what is known in part.
fn has_parts(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Map(_), Value::Map(_)) => true,
        (Value::Null, Value::Map(_))
        | (Value::Null | Value::Seq(_), Value::Seq(_))
        | (Value::Null | Value::Dynamic(_), Value::Dynamic(_)) => !after.is_known(),
        _ => false,
    }
}

fn parts(before: &Value, after: &Value, path: &str, of: &Type, out: &mut Fields<'_>) {
    match (after, of) {
        (Value::Dynamic(inner), _) => leaf(within(before), &inner.1, path, &inner.0, false, out),
        (Value::Seq(after), Type::Set(of)) => {
            let before = before.elements();
            for gone in before.iter().filter(|one| !after.contains(one)) {
                leaf(gone, &Value::Null, path, of, false, out);
            }
            for (index, new) in after.iter().enumerate().filter(|(_, one)| !before.contains(one)) {
                leaf(&Value::Null, new, &format!("{path}[{index}]"), of, false, out);
            }
        }
        (Value::Seq(after), _) => {
            let before = before.elements();
            for index in 0..before.len().max(after.len()) {
                let part = |all: &[Value]| all.get(index).cloned().unwrap_or(Value::Null);
                let of = match of {
                    Type::List(of) => of,
                    Type::Tuple(all) => all.get(index).unwrap_or(&Type::Dynamic),
                    _ => &Type::Dynamic,
                };
                leaf(&part(before), &part(after), &format!("{path}[{index}]"), of, false, out);
            }
        }
        _ => {
            for key in keys(before, after) {
                let of = match of {
                    Type::Map(of) => of,
                    Type::Object(fields) => fields.get(&key).unwrap_or(&Type::Dynamic),
                    _ => &Type::Dynamic,
                };
                leaf(before.get(&key), after.get(&key), &join(path, &key), of, false, out);
            }
        }
    }
}

fn keys(before: &Value, after: &Value) -> BTreeSet<Arc<str>> {
    let of = |value: &Value| match value {
        Value::Map(all) => all.keys().cloned().collect::<Vec<Arc<str>>>(),
        _ => Vec::new(),
    };
    of(before).into_iter().chain(of(after)).collect()
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

/// A path as it is written in `reconciled/ignore`.
fn join(at: &str, name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    match (at.is_empty(), is_plain) {
        (true, _) => name.into(),
        (false, true) => format!("{at}.{name}"),
        (false, false) => format!("{at}[\"{name}\"]"),
    }
}

/// A path as far as it may be told: a key may be a secret.
pub fn open_part(path: &AttributePath, hidden: &Hidden) -> AttributePath {
    let is_open = |step: &&Step| match &step.selector {
        Some(Selector::ElementKeyString(key)) => !hidden.hides(key),
        _ => true,
    };
    AttributePath { steps: path.steps.iter().take_while(is_open).cloned().collect() }
}

/// The value that a path of a provider leads to, and the path in words. None: there is no such place.
pub fn at_path<'v>(value: &'v Value, path: &AttributePath) -> (String, Option<&'v Value>) {
    let (mut words, mut found) = (String::new(), Some(value));
    for step in &path.steps {
        // A path says nothing of where any type may stand.
        let inside = found.map(within);
        match &step.selector {
            Some(Selector::AttributeName(name) | Selector::ElementKeyString(name)) => {
                words = join(&words, name);
                found = inside.and_then(|value| match value {
                    Value::Map(all) => all.get(&**name),
                    _ => None,
                });
            }
            Some(Selector::ElementKeyInt(index)) => {
                words += &format!("[{index}]");
                found = inside.and_then(|value| value.elements().get(usize::try_from(*index).ok()?));
            }
            None => {}
        }
    }
    (words, found)
}

fn within(value: &Value) -> &Value {
    match value {
        Value::Dynamic(inner) => within(&inner.1),
        other => other,
    }
}

/// True where a path leads to what is given to the provider and never comes back.
pub fn is_write_only(block: &Block, path: &AttributePath) -> bool {
    let names = path.steps.iter().filter_map(|step| match &step.selector {
        Some(Selector::AttributeName(name)) => Some(name),
        _ => None,
    });
    let (mut block, mut attributes) = (Some(block), &block.attributes);
    for name in names {
        if let Some(attribute) = attributes.get(&**name) {
            match &attribute.nested {
                _ if attribute.write_only => return true,
                Some(nested) => (block, attributes) = (None, &nested.attributes),
                None => return false,
            }
        } else if let Some(nested) = block.and_then(|block| block.blocks.get(&**name)) {
            (block, attributes) = (Some(&nested.block), &nested.block.attributes);
        } else {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cty::Number,
        schema::{Schema, fixture},
        wire::message,
    };
    use serde_json::{Value as Json, json};

    fn path(steps: &[Selector]) -> AttributePath {
        let step = |selector: &Selector| Step { selector: Some(selector.clone()) };
        AttributePath { steps: steps.iter().map(step).collect() }
    }

    fn map(fields: &[(&str, Value)]) -> Value {
        Value::Map(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
    }

    #[test]
    fn a_path_leads_through_values_of_any_type() {
        let inner = Value::Seq(vec![map(&[("port", Value::Number(Number::from(80)))])]);
        let value = map(&[("manifest", Value::Dynamic(Box::new((Type::Dynamic, map(&[("rules", inner)])))))]);
        let name = |name: &str| Selector::AttributeName(name.into());
        let steps = [name("manifest"), name("rules"), Selector::ElementKeyInt(0), name("port")];
        let (words, found) = at_path(&value, &path(&steps));
        assert_eq!(words, "manifest.rules[0].port");
        assert!(found == Some(&Value::Number(Number::from(80))));
        assert!(at_path(&value, &path(&[name("manifest"), name("other")])).1.is_none());
    }

    fn block() -> Block {
        let attribute = |name: &str, write_only| message::Attribute {
            name: name.into(),
            type_json: br#""string""#.to_vec(),
            optional: true,
            write_only,
            ..message::Attribute::default()
        };
        let attributes = vec![attribute("password", true), attribute("url", false)];
        let block = message::Block { attributes, ..Default::default() };
        Schema::of(message::Schema { version: 0, block: Some(block) }).unwrap().block
    }

    #[test]
    fn what_never_comes_back_is_known_by_its_path() {
        let at = |name: &str| path(&[Selector::AttributeName(name.into())]);
        assert!(is_write_only(&block(), &at("password")));
        assert!(!is_write_only(&block(), &at("url")) && !is_write_only(&block(), &at("other")));
    }

    #[test]
    fn of_what_is_known_in_part_each_part_is_told() {
        let schema = fixture::lettered();
        let check = |before: Json, after: Json, expect: &[&str]| {
            let of = |json: &Json| fixture::value(json, &schema.value_type);
            let side = |shown: Shown| match shown {
                Shown::Absent => "-".to_string(),
                Shown::Unknown => "?".into(),
                Shown::Sensitive => "(sensitive)".into(),
                Shown::Text(text) => text,
            };
            let all = fields(&schema.block, &of(&before), &of(&after), &Hidden::default());
            let told = |one: FieldChange| format!("{}: {} > {}", one.path, side(one.before), side(one.after));
            assert_eq!(all.into_iter().map(told).collect::<Vec<_>>(), expect, "{after}");
        };
        let nothing = || json!({});
        check(
            nothing(),
            json!({ "omap": { "a": "?", "z z": "x" } }),
            &["omap.a: - > ?", "omap[\"z z\"]: - > x"],
        );
        check(nothing(), json!({ "olist": ["x", "?"] }), &["olist[0]: - > x", "olist[1]: - > ?"]);
        // What is known is told as a whole, as before.
        check(nothing(), json!({ "olist": ["x"] }), &["olist: - > [\"x\"]"]);
        check(json!({ "olist": ["x", "y"] }), json!({ "olist": ["x", "?"] }), &["olist[1]: y > ?"]);
        // A set has no order: what is in it before and after is no difference.
        let (one, two) = (json!({ "a": "1", "b": "1" }), json!({ "a": "2", "b": "2" }));
        check(
            json!({ "oset": [one, two] }),
            json!({ "oset": [{ "a": "0", "b": "?" }, two] }),
            &["oset: {\"a\":\"1\",\"b\":\"1\"} > -", "oset[0].a: - > 0", "oset[0].b: - > ?"],
        );
        check(
            json!({ "set": [{ "r": "1", "oc": "2" }] }),
            json!({ "set": [{ "r": "1", "oc": "2" }, { "r": "0", "oc": "?" }] }),
            &["set[0].oc: - > ?", "set[0].r: - > 0"],
        );
        check(nothing(), json!({ "oc3": [{ "r": "?" }] }), &["oc3[0].r: - > ?"]);
    }

    #[test]
    fn a_secret_is_not_shown_wherever_it_stands() {
        let hidden: Hidden = ["hunter2".into()].into_iter().collect();
        let shown = |before: Value, after: Value| {
            let (before, after) = (map(&[("url", before)]), map(&[("url", after)]));
            let all = fields(&block(), &before, &after, &hidden);
            (all[0].before.clone(), all[0].after.clone())
        };
        assert_eq!(shown(Value::Null, Value::text("db://u:hunter2@h")), (Shown::Absent, Shown::Sensitive));
        assert_eq!(shown(Value::text("old"), Value::text("hunter2")), (Shown::Sensitive, Shown::Sensitive));
        assert_eq!(
            shown(Value::text("a"), Value::text("b")),
            (Shown::Text("a".into()), Shown::Text("b".into()))
        );
        let keyed = map(&[("hunter2", Value::Unknown), ("b", Value::text("x"))]);
        assert_eq!(shown(Value::Null, keyed), (Shown::Absent, Shown::Sensitive));
        let key = |key: &str| Step { selector: Some(Selector::ElementKeyString(key.into())) };
        let mut steps = path(&[Selector::AttributeName("tags".into())]).steps;
        steps.extend([key("x-hunter2"), key("a")]);
        let open = open_part(&AttributePath { steps }, &hidden);
        assert_eq!(at_path(&Value::Null, &open).0, "tags");
    }

    #[test]
    fn a_key_of_blocks_that_is_a_secret_is_in_no_path() {
        let block =
            fixture::block(Vec::new(), vec![fixture::nested("login", 4, vec![fixture::text("user", "o")])]);
        let hidden: Hidden = ["hunter2".into()].into_iter().collect();
        let login = |key: &str| map(&[("login", map(&[(key, map(&[("user", Value::text("web"))]))]))]);
        let told = |before: &Value, after: &Value| {
            let all = fields(&block, before, after, &hidden);
            all.into_iter().map(|one| (one.path.to_string(), one.after)).collect::<Vec<_>>()
        };
        let absent = map(&[("login", map(&[]))]);
        assert_eq!(told(&absent, &login("a")), [("login.a.user".to_string(), Shown::Text("web".into()))]);
        assert_eq!(told(&absent, &login("of-hunter2")), [("login".to_string(), Shown::Sensitive)]);
    }
}
