//! Small schemas for unit tests.

use super::{Block, Schema, canonical::Clear};
use crate::{
    cty::{Number, Type, Value},
    hidden::Hidden,
    wire::message,
};
use reconciled_provider::{Error, Hash};
use serde_json::Value as Json;
use std::sync::Arc;

/// No secret has a name, and all have one mark.
pub(crate) struct Bare(pub(crate) Hidden);

impl Clear for Bare {
    fn reveal(&self, _: &str) -> Result<String, Error> {
        Err(Error::unexpected("nothing is named"))
    }
    fn mark(&self, _: &str) -> Hash {
        Hash::default()
    }
    fn hidden(&self) -> &Hidden {
        &self.0
    }
}

/// A text, with rights in letters: `r`equired, `o`ptional, `c`omputed, `s`ensitive.
pub(crate) fn text(name: &str, rights: &str) -> message::Attribute {
    message::Attribute {
        name: name.into(),
        type_json: br#""string""#.to_vec(),
        required: rights.contains('r'),
        optional: rights.contains('o'),
        computed: rights.contains('c'),
        sensitive: rights.contains('s'),
        ..message::Attribute::default()
    }
}

/// A block below another one; `nesting` is the number of the protocol.
pub(crate) fn nested(name: &str, nesting: i32, attributes: Vec<message::Attribute>) -> message::NestedBlock {
    let block = Some(message::Block { attributes, ..Default::default() });
    message::NestedBlock { type_name: name.into(), block, nesting, ..Default::default() }
}

/// A block as it is read.
pub(crate) fn block(attributes: Vec<message::Attribute>, block_types: Vec<message::NestedBlock>) -> Block {
    let block = Some(message::Block { attributes, block_types, ..Default::default() });
    Schema::of(message::Schema { version: 0, block }).unwrap().block
}

/// An object.
pub(crate) fn map(fields: &[(&str, Value)]) -> Value {
    Value::Map(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
}

/// An attribute of which the letters of its name say what it is: `r`equired or `o`ptional in front, `c`omputed and
/// `w`rite-only behind.
fn attribute(name: &str, of: &str) -> message::Attribute {
    message::Attribute {
        name: name.into(),
        type_json: of.as_bytes().to_vec(),
        required: name.starts_with('r'),
        optional: name.starts_with('o'),
        computed: name.contains('c'),
        write_only: name == "ow",
        ..message::Attribute::default()
    }
}

/// A schema with attributes, attributes with attributes (`oc1` and so on, by the number of their nesting), and blocks of all
/// nestings; `deep` is a set of blocks with sets of blocks.
pub(crate) fn lettered() -> Schema {
    let text = r#""string""#;
    let inner = || vec![attribute("r", text), attribute("oc", text), attribute("ow", text)];
    let object = |nesting| message::Attribute {
        nested_type: Some(message::NestedType { nesting, attributes: inner() }),
        type_json: Vec::new(),
        ..attribute(&format!("oc{nesting}"), "")
    };
    let mut deep = nested("deep", 3, inner());
    if let Some(block) = &mut deep.block {
        block.block_types.push(nested("set", 3, inner()));
    }
    let block = message::Block {
        attributes: vec![
            attribute("r", text),
            attribute("o", text),
            attribute("oc", text),
            attribute("c", text),
            attribute("ow", text),
            attribute("omap", r#"["map","string"]"#),
            attribute("oset", r#"["set",["object",{"a":"string","b":"string"}]]"#),
            attribute("olist", r#"["list","string"]"#),
            object(1),
            object(2),
            object(3),
            object(4),
        ],
        block_types: vec![
            nested("single", 1, inner()),
            nested("list", 2, inner()),
            nested("set", 3, inner()),
            nested("map", 4, inner()),
            nested("group", 5, inner()),
            deep,
        ],
        ..message::Block::default()
    };
    Schema::of(message::Schema { version: 0, block: Some(block) }).unwrap()
}

/// A value of JSON; `"?"` is unknown. What [`lettered`] has and JSON does not is null, or a block that is not there.
pub(crate) fn value(json: &Json, of: &Type) -> Value {
    match (json, of) {
        (Json::Null, _) => Value::Null,
        (Json::String(text), _) if text == "?" => Value::Unknown,
        (Json::String(text), _) => Value::text(text),
        (Json::Number(number), _) => Value::Number(Number::parse(&number.to_string()).unwrap()),
        (Json::Bool(set), _) => Value::Bool(*set),
        (Json::Array(all), Type::Set(of)) => Value::set(all.iter().map(|one| value(one, of)).collect()),
        (Json::Array(all), Type::List(of)) => Value::Seq(all.iter().map(|one| value(one, of)).collect()),
        (Json::Object(all), Type::Map(of)) => {
            Value::Map(all.iter().map(|(key, one)| (Arc::from(&**key), value(one, of))).collect())
        }
        (Json::Object(all), Type::Object(types)) => {
            let missing = |name: &str, of: &Type| match (name, of) {
                ("map", _) => Value::Map([].into()),
                ("group", Type::Object(types)) => {
                    Value::Map(types.keys().map(|name| (name.clone(), Value::Null)).collect())
                }
                (_, Type::List(_) | Type::Set(_)) if !name.starts_with('o') => Value::Seq(Vec::new()),
                _ => Value::Null,
            };
            let field = |(name, of): (&Arc<str>, &Type)| {
                (name.clone(), all.get(&**name).map_or_else(|| missing(name, of), |one| value(one, of)))
            };
            Value::Map(types.iter().map(field).collect())
        }
        _ => panic!("{json} is no {of:?}"),
    }
}
