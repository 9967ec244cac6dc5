//! The canonical form of a declaration: JSON, in which secrets are marks, and what a remote has beside it.
//!
//! A provider reports hundreds of attributes where a manifest declares five, and in its own words. What is observed is
//! therefore shown *through* the declaration: the declared attributes, with the values they have. Whether a difference
//! matters is for the provider to say, when it plans.

use super::{Attribute, Block, Nested, NestedBlock, Nesting};
use crate::{
    cty::{Number, Type, Value},
    hidden::Hidden,
};
use reconciled_provider::{Error, Hash};
use serde_json::{Map, Value as Json, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Key that stands for a secret.
const SECRET: &str = "$secret";
/// Key of a secret's mark.
const MARK: &str = "$mark";
/// Key of a number that JSON readers would round.
const NUMBER: &str = "$number";
/// Key of a text with references whose values are not known.
pub const UNKNOWN: &str = "$unknown";

/// Keys that mean something here, and nothing in what a person writes.
pub const RESERVED: [&str; 4] = [SECRET, MARK, NUMBER, UNKNOWN];

/// A declared secret.
pub fn secret(name: &str, mark: &str) -> Json {
    json!({ SECRET: name, MARK: mark })
}

/// A declared text that is not known yet.
pub fn unknown(template: &str) -> Json {
    json!({ UNKNOWN: template })
}

/// True for what [`unknown`] made.
pub fn is_unknown(declared: &Json) -> bool {
    declared.get(UNKNOWN).is_some()
}

/// What is declared as people read it: words stand for secrets and for what is not known yet.
pub fn shown(declared: &Json) -> Json {
    match declared {
        unknown if is_unknown(unknown) => "(known after apply)".into(),
        Json::Object(fields) if fields.contains_key(MARK) => "(secret)".into(),
        Json::Object(fields) if fields.contains_key(NUMBER) => fields[NUMBER].clone(),
        Json::Object(fields) => {
            Json::Object(fields.iter().map(|(name, field)| (name.clone(), shown(field))).collect())
        }
        Json::Array(elements) => Json::Array(elements.iter().map(shown).collect()),
        scalar => scalar.clone(),
    }
}

/// A number, exactly.
pub fn number(number: &Number) -> Json {
    let json: Json = serde_json::from_str(number.as_str()).unwrap_or_default();
    let kept = json.to_string();
    if kept == number.as_str() { json } else { json!({ NUMBER: number.as_str() }) }
}

/// The declaration without marks: what a person wrote.
pub fn without_marks(declared: &Json) -> Json {
    match declared {
        Json::Object(fields) if fields.contains_key(SECRET) => json!({ SECRET: fields[SECRET] }),
        Json::Object(fields) => {
            Json::Object(fields.iter().map(|(name, field)| (name.clone(), without_marks(field))).collect())
        }
        Json::Array(elements) => Json::Array(elements.iter().map(without_marks).collect()),
        scalar => scalar.clone(),
    }
}

/// What clear values of secrets and marks come from.
pub trait Clear {
    /// The value of a secret that a manifest names.
    fn reveal(&self, name: &str) -> Result<String, Error>;
    /// The mark of a value.
    fn mark(&self, clear: &str) -> Hash;
    /// What is a secret wherever it stands.
    fn hidden(&self) -> &Hidden;
}

/// The secrets that a declaration names, in clear.
///
/// Errors: a secret that cannot be read.
pub fn revealed(declared: &Json, clear: &dyn Clear) -> Result<Vec<Arc<str>>, Error> {
    let parts: Vec<&Json> = match declared {
        Json::Object(fields) if fields.contains_key(SECRET) => {
            return Ok(vec![clear.reveal(fields[SECRET].as_str().unwrap_or_default())?.into()]);
        }
        Json::Object(fields) => fields.values().collect(),
        Json::Array(elements) => elements.iter().collect(),
        _ => Vec::new(),
    };
    let mut out = Vec::new();
    for part in parts {
        out.extend(revealed(part, clear)?);
    }
    Ok(out)
}

/// Each text, number and key that a declaration has in clear: they are in Git as they are.
pub fn written_out(declared: &Json) -> BTreeSet<Arc<str>> {
    let mut out = BTreeSet::new();
    write_out(declared, &mut out);
    out
}

fn write_out(declared: &Json, out: &mut BTreeSet<Arc<str>>) {
    match declared {
        Json::Object(fields) if fields.contains_key(SECRET) || fields.contains_key(UNKNOWN) => {}
        Json::Object(fields) => {
            for (key, one) in fields {
                out.insert((**key).into());
                write_out(one, out);
            }
        }
        Json::Array(all) => all.iter().for_each(|one| write_out(one, out)),
        Json::String(text) => drop(out.insert((**text).into())),
        Json::Number(number) => drop(out.insert(number.to_string().into())),
        Json::Bool(_) | Json::Null => {}
    }
}

fn holds_secret(declared: &Json) -> bool {
    match declared {
        Json::Object(fields) => fields.contains_key(SECRET) || fields.values().any(holds_secret),
        Json::Array(elements) => elements.iter().any(holds_secret),
        _ => false,
    }
}

/// The configuration that a declaration comes to, with its secrets in clear.
///
/// Errors: a secret that cannot be read.
pub fn to_value(declared: &Json, block: &Block, clear: &dyn Clear) -> Result<Value, Error> {
    let mut fields = BTreeMap::new();
    for (name, attribute) in &block.attributes {
        fields.insert(name.clone(), attribute_value(declared.get(&**name), attribute, clear)?);
    }
    for (name, nested) in &block.blocks {
        fields.insert(name.clone(), block_value(declared.get(&**name), nested, clear)?);
    }
    Ok(Value::Map(fields))
}

fn block_value(declared: Option<&Json>, nested: &NestedBlock, clear: &dyn Clear) -> Result<Value, Error> {
    match (declared, nested.nesting) {
        (None | Some(Json::Null), _) => Ok(nested.empty()),
        (Some(one), Nesting::Single | Nesting::Group) => to_value(one, &nested.block, clear),
        (Some(all), Nesting::List | Nesting::Set) => {
            let elements = all.as_array().into_iter().flatten();
            let elements =
                elements.map(|one| to_value(one, &nested.block, clear)).collect::<Result<_, _>>()?;
            Ok(if nested.nesting == Nesting::Set { Value::set(elements) } else { Value::Seq(elements) })
        }
        (Some(all), Nesting::Map) => {
            let fields = all.as_object().into_iter().flatten();
            let fields =
                fields.map(|(key, one)| Ok((Arc::from(&**key), to_value(one, &nested.block, clear)?)));
            Ok(Value::Map(fields.collect::<Result<_, Error>>()?))
        }
    }
}

fn attribute_value(
    declared: Option<&Json>,
    attribute: &Attribute,
    clear: &dyn Clear,
) -> Result<Value, Error> {
    let Some(declared) = declared else { return Ok(Value::Null) };
    match &attribute.nested {
        None => typed(declared, &attribute.value_type, clear),
        Some(nested) => nested_value(declared, nested, clear),
    }
}

fn nested_value(declared: &Json, nested: &Nested, clear: &dyn Clear) -> Result<Value, Error> {
    let object = |one: &Json| -> Result<Value, Error> {
        let fields = nested.attributes.iter();
        let fields =
            fields.map(|(name, inner)| Ok((name.clone(), attribute_value(one.get(&**name), inner, clear)?)));
        Ok(Value::Map(fields.collect::<Result<_, Error>>()?))
    };
    match (declared, nested.nesting) {
        (Json::Null, _) => Ok(Value::Null),
        (one, Nesting::Single | Nesting::Group) => object(one),
        (all, Nesting::List) => {
            Ok(Value::Seq(all.as_array().into_iter().flatten().map(object).collect::<Result<_, _>>()?))
        }
        (all, Nesting::Set) => {
            Ok(Value::set(all.as_array().into_iter().flatten().map(object).collect::<Result<_, _>>()?))
        }
        (all, Nesting::Map) => {
            let fields = all.as_object().into_iter().flatten();
            let fields = fields.map(|(key, one)| Ok((Arc::from(&**key), object(one)?)));
            Ok(Value::Map(fields.collect::<Result<_, Error>>()?))
        }
    }
}

fn typed(declared: &Json, of: &Type, clear: &dyn Clear) -> Result<Value, Error> {
    Ok(match (declared, of) {
        (Json::Null, _) => Value::Null,
        (Json::Object(fields), _) if fields.contains_key(UNKNOWN) => Value::Unknown,
        (Json::Object(fields), _) if fields.contains_key(SECRET) => {
            let text = clear.reveal(fields[SECRET].as_str().unwrap_or_default())?;
            match of {
                Type::Number => Number::parse(&text).map(Value::Number).ok_or_else(|| {
                    // What is behind it may be a command, whose arguments are no more for everybody than what it prints.
                    let name = fields[SECRET].as_str().unwrap_or_default();
                    let name = if name.starts_with("exec:") { "exec" } else { name };
                    Error::invalid(format!("secret `{name}` is no number"))
                })?,
                Type::Dynamic => Value::Dynamic(Box::new((Type::String, Value::text(&text)))),
                _ => Value::text(&text),
            }
        }
        (Json::Object(fields), Type::Number) => {
            let text = fields.get(NUMBER).and_then(Json::as_str).unwrap_or_default();
            Number::parse(text).map_or(Value::Null, Value::Number)
        }
        (Json::Bool(set), Type::Bool) => Value::Bool(*set),
        (Json::Number(number), Type::Number) => {
            Number::parse(&number.to_string()).map_or(Value::Null, Value::Number)
        }
        (Json::String(text), Type::String) => Value::text(text),
        (Json::Array(all), Type::List(inner)) => {
            Value::Seq(all.iter().map(|one| typed(one, inner, clear)).collect::<Result<_, _>>()?)
        }
        (Json::Array(all), Type::Set(inner)) => {
            Value::set(all.iter().map(|one| typed(one, inner, clear)).collect::<Result<_, _>>()?)
        }
        (Json::Array(all), Type::Tuple(parts)) => Value::Seq(
            all.iter().zip(parts).map(|(one, of)| typed(one, of, clear)).collect::<Result<_, _>>()?,
        ),
        (Json::Object(all), Type::Map(inner)) => {
            let fields = all.iter().map(|(key, one)| Ok((Arc::from(&**key), typed(one, inner, clear)?)));
            Value::Map(fields.collect::<Result<_, Error>>()?)
        }
        (Json::Object(all), Type::Object(types)) => {
            let fields = types.iter().map(|(name, of)| {
                Ok((name.clone(), typed(all.get(&**name).unwrap_or(&Json::Null), of, clear)?))
            });
            Value::Map(fields.collect::<Result<_, Error>>()?)
        }
        (any, Type::Dynamic) => {
            let own = looks_like(any);
            let value = typed(any, &own, clear)?;
            Value::Dynamic(Box::new((own, value)))
        }
        // A declaration is read by the schema, so nothing else comes here.
        _ => Value::Null,
    })
}

fn looks_like(json: &Json) -> Type {
    match json {
        Json::Null => Type::Dynamic,
        Json::Bool(_) => Type::Bool,
        Json::Number(_) => Type::Number,
        Json::String(_) => Type::String,
        Json::Array(all) => Type::Tuple(all.iter().map(looks_like).collect()),
        Json::Object(all) if all.contains_key(NUMBER) => Type::Number,
        Json::Object(all) if all.contains_key(SECRET) || all.contains_key(UNKNOWN) => Type::String,
        Json::Object(all) => {
            Type::Object(all.iter().map(|(name, one)| (Arc::from(&**name), looks_like(one))).collect())
        }
    }
}

/// What a remote has where something is declared, in the words of the declaration.
pub fn through(declared: &Json, value: &Value, block: &Block, clear: &dyn Clear) -> Json {
    // What nobody declared, such as a key of a map: its schema tells what of it is secret.
    let Json::Object(fields) = declared else { return declarable(value, block, clear) };
    let mut out = Map::new();
    for (name, declared) in fields {
        let value = value.get(name);
        let seen = match (block.attributes.get(&**name), block.blocks.get(&**name)) {
            // It never comes back: as far as anybody can tell it is as declared.
            (Some(attribute), _) if attribute.write_only => declared.clone(),
            (Some(attribute), _) => same_or(declared, value, attribute.has_secret(), clear),
            (None, Some(nested)) => through_blocks(declared, value, nested, clear),
            (None, None) => continue,
        };
        out.insert(name.clone(), seen);
    }
    Json::Object(out)
}

fn through_blocks(declared: &Json, value: &Value, nested: &NestedBlock, clear: &dyn Clear) -> Json {
    match (declared, nested.nesting, value) {
        (_, Nesting::Single | Nesting::Group, Value::Map(_)) => {
            through(declared, value, &nested.block, clear)
        }
        (Json::Array(all), Nesting::List | Nesting::Set, Value::Seq(elements))
            if all.len() == elements.len() =>
        {
            let mut left: Vec<&Value> = elements.iter().collect();
            let mut out = Vec::new();
            for one in all {
                let equal = |value: &&Value| through(one, value, &nested.block, clear) == *one;
                // Elements of a set are told apart by what they are, those of a list by where they are.
                let at = match nested.nesting {
                    Nesting::Set => left.iter().position(equal).unwrap_or(0),
                    _ => 0,
                };
                out.push(through(one, left.remove(at), &nested.block, clear));
            }
            Json::Array(out)
        }
        (Json::Object(all), Nesting::Map, Value::Map(fields)) if !clear.hidden().hides_key(fields.keys()) => {
            let one = |(key, value): (&Arc<str>, &Value)| {
                let declared = all.get(&**key).unwrap_or(&Json::Null);
                (key.to_string(), through(declared, value, &nested.block, clear))
            };
            Json::Object(fields.iter().map(one).collect())
        }
        _ => plain(value, nested.block.has_secret(), clear),
    }
}

/// The declared value where the remote has the same, else the remote's.
fn same_or(declared: &Json, value: &Value, sensitive: bool, clear: &dyn Clear) -> Json {
    if is_same(declared, value, clear) {
        return declared.clone();
    }
    // Where a secret is declared, what is there instead is one too.
    plain(value, sensitive || holds_secret(declared), clear)
}

fn is_same(declared: &Json, value: &Value, clear: &dyn Clear) -> bool {
    match (declared, value) {
        (_, Value::Dynamic(inner)) => is_same(declared, &inner.1, clear),
        (Json::Null, Value::Null) => true,
        (Json::Bool(a), Value::Bool(b)) => a == b,
        (Json::Number(a), Value::Number(b)) => Number::parse(&a.to_string()).as_ref() == Some(b),
        (Json::String(a), Value::String(b)) => **a == **b,
        (Json::Object(fields), Value::String(text)) if fields.contains_key(MARK) => {
            fields[MARK].as_str() == Some(&*clear.mark(text).to_string())
        }
        (Json::Object(fields), Value::Number(b)) => {
            fields.get(NUMBER).and_then(Json::as_str) == Some(b.as_str())
        }
        (Json::Array(all), Value::Seq(elements)) if all.len() == elements.len() => {
            let mut left: Vec<&Value> = elements.iter().collect();
            let in_order = all.iter().zip(elements).all(|(one, value)| is_same(one, value, clear));
            // Sets are kept sorted and declared in any order; an order that matters is the provider's to tell.
            in_order
                || all.iter().all(|one| match left.iter().position(|value| is_same(one, value, clear)) {
                    Some(at) => {
                        left.remove(at);
                        true
                    }
                    None => false,
                })
        }
        (Json::Object(all), Value::Map(fields)) => {
            let declared_are_same = all
                .iter()
                .all(|(name, one)| fields.get(&**name).is_some_and(|value| is_same(one, value, clear)));
            // What is not declared of an object is null or computed; of a map it must not be there.
            declared_are_same
                && fields.iter().all(|(name, value)| all.contains_key(&**name) || value.is_null())
        }
        _ => false,
    }
}

/// A value as JSON without types; a secret as its mark.
pub fn plain(value: &Value, sensitive: bool, clear: &dyn Clear) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Unknown => json!({ UNKNOWN: "" }),
        _ if sensitive
            || is_leaf(value) && clear.hidden().hides_in(value)
            || has_hidden_key(value, clear) =>
        {
            let text = match value {
                Value::String(text) => text.to_string(),
                other => String::from_utf8_lossy(&crate::cty::write_json(other, &Type::Dynamic)).into_owned(),
            };
            json!({ MARK: clear.mark(&text).to_string() })
        }
        Value::Bool(set) => Json::Bool(*set),
        Value::Number(value) => number(value),
        Value::String(text) => Json::String(text.to_string()),
        Value::Seq(elements) => Json::Array(elements.iter().map(|one| plain(one, false, clear)).collect()),
        Value::Map(fields) => Json::Object(
            fields.iter().map(|(name, one)| (name.to_string(), plain(one, false, clear))).collect(),
        ),
        Value::Dynamic(inner) => plain(&inner.1, false, clear),
    }
}

/// True for a map of which no part can be told by its place.
fn has_hidden_key(value: &Value, clear: &dyn Clear) -> bool {
    matches!(value, Value::Map(all) if clear.hidden().hides_key(all.keys()))
}

fn is_leaf(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_))
}

/// Everything of a resource that a manifest could declare and that is there, for what no manifest declares.
pub fn declarable(value: &Value, block: &Block, clear: &dyn Clear) -> Json {
    let mut out = Map::new();
    for (name, attribute) in &block.attributes {
        let value = value.get(name);
        if attribute.is_declarable() && !attribute.deprecated && !is_empty(value) {
            out.insert(name.to_string(), plain(value, attribute.has_secret(), clear));
        }
    }
    for (name, nested) in &block.blocks {
        let inner = |value: &Value| declarable(value, &nested.block, clear);
        let shown = match (nested.nesting, value.get(name)) {
            (_, Value::Null) => continue,
            (Nesting::Single | Nesting::Group, one) => inner(one),
            (Nesting::Map, all) if has_hidden_key(all, clear) => plain(all, true, clear),
            (Nesting::Map, Value::Map(all)) => {
                Json::Object(all.iter().map(|(key, one)| (key.to_string(), inner(one))).collect())
            }
            (_, all) if all.elements().is_empty() => continue,
            (_, all) => Json::Array(all.elements().iter().map(inner).collect()),
        };
        out.insert(name.to_string(), shown);
    }
    Json::Object(out)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Seq(all) => all.is_empty(),
        Value::Map(all) => all.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        schema::fixture::{Bare, block, map, nested, text},
        wire::message,
    };

    #[test]
    fn what_is_in_clear_in_a_declaration_is_written_out() {
        let declared = json!({
            "name": "web", "size": 3, "key": secret("key", "7f31"), "open": unknown("${Thing/a:status.id}"),
            "tags": { "a b": ["x"] }, "on": true,
        });
        let found: Vec<String> = written_out(&declared).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["3", "a b", "key", "name", "on", "open", "size", "tags", "web", "x"]);
    }

    #[test]
    fn a_copy_is_seen_as_its_mark_where_it_stands() {
        let tags = message::Attribute { type_json: br#"["map","string"]"#.to_vec(), ..text("tags", "o") };
        let block = block(vec![tags], Vec::new());
        let hidden = Hidden::default().and_copies(["made-by-it".into()], BTreeSet::new());
        let seen = |tags: &[(&str, Value)]| {
            let declared = json!({ "tags": { "env": "test" } });
            through(&declared, &map(&[("tags", map(tags))]), &block, &Bare(hidden.clone()))["tags"].clone()
        };
        let found = seen(&[("env", Value::text("test")), ("url", Value::text("db://u:made-by-it@h"))]);
        assert!(found["env"] == "test" && found["url"].get(MARK).is_some(), "{found}");
        let found = seen(&[("of-made-by-it", Value::text("1"))]);
        assert!(found.get(MARK).is_some() && !found.to_string().contains("made-by-it"), "{found}");
    }

    #[test]
    fn no_mark_of_ours_is_shown() {
        let large = number(&Number::parse("123456789012345678901").unwrap());
        let declared = json!({
            "tags": { "a": unknown("${Thing/a:status.id}"), "b": secret("key", "7f31") },
            "words": ["x", unknown("of ${Thing/a:status.id}")],
            "size": large,
            "level": 3,
        });
        let expect = json!({
            "tags": { "a": "(known after apply)", "b": "(secret)" },
            "words": ["x", "(known after apply)"],
            "size": "123456789012345678901",
            "level": 3,
        });
        assert_eq!(shown(&declared), expect);
    }

    #[test]
    fn a_key_that_nobody_declared_shows_no_secret() {
        let login = nested("login", 4, vec![text("user", "o"), text("password", "os")]);
        let block = block(Vec::new(), vec![login]);
        let one = |user: &str| map(&[("user", Value::text(user)), ("password", Value::text("hunter2"))]);
        let state = map(&[("login", map(&[("a", one("x")), ("b", one("y"))]))]);
        let declared = json!({ "login": { "a": { "user": "x" } } });
        let seen = through(&declared, &state, &block, &Bare(Hidden::default()));
        assert_eq!(seen["login"]["a"], json!({ "user": "x" }));
        assert_eq!(seen["login"]["b"]["user"], "y");
        assert!(seen["login"]["b"]["password"].get(MARK).is_some() && !seen.to_string().contains("hunter2"));
    }
}
