//! A schema as JSON Schema: what `explain` prints and editors read.
//!
//! It takes whatever [`config`](super::config) takes. What stands first in `anyOf` is how a value is written; other ways to
//! write the same have `x-otherwise`, and nobody is told of them.

use super::{Attribute, Block, Nesting};
use crate::cty::Type;
use serde_json::{Map, Value as Json, json};

/// The JSON Schema of what may be declared.
pub fn json_schema(block: &Block) -> Json {
    let mut properties = Map::new();
    let mut required: Vec<Json> = Vec::new();
    for (name, attribute) in &block.attributes {
        properties.insert(name.to_string(), described(attribute));
        if attribute.required {
            required.push((**name).into());
        }
    }
    for (name, nested) in &block.blocks {
        let (inner, is_one) = (json_schema(&nested.block), nested.max == 1);
        let mut described = held(nested.nesting, inner.clone(), nested.min, nested.max);
        if is_one && matches!(nested.nesting, Nesting::List | Nesting::Set) {
            described = any(described, [inner]);
        }
        properties.insert(name.to_string(), described);
        if nested.min > 0 && nested.nesting != Nesting::Group {
            required.push((**name).into());
        }
    }
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if !block.description.is_empty() {
        schema["description"] = (*block.description).into();
    }
    schema
}

fn held(nesting: Nesting, inner: Json, min: usize, max: usize) -> Json {
    match nesting {
        Nesting::Single | Nesting::Group => inner,
        Nesting::Map => json!({ "type": "object", "additionalProperties": inner }),
        Nesting::List | Nesting::Set => {
            let mut schema = json!({ "type": "array", "items": inner });
            if min > 0 {
                schema["minItems"] = min.into();
            }
            if max > 0 {
                schema["maxItems"] = max.into();
            }
            schema
        }
    }
}

fn described(attribute: &Attribute) -> Json {
    let mut schema = match &attribute.nested {
        Some(nested) => {
            let block = Block { attributes: nested.attributes.clone(), ..Block::default() };
            held(nested.nesting, json_schema(&block), 0, 0)
        }
        None => of_type(&attribute.value_type),
    };
    let mut set = |key: &str, value: bool| {
        if value {
            schema[key] = true.into();
        }
    };
    set("readOnly", !attribute.is_declarable());
    set("writeOnly", attribute.write_only);
    set("x-sensitive", attribute.sensitive);
    set("deprecated", attribute.deprecated);
    let secret =
        if attribute.is_secret() { "A secret: never shown, and put only where one may stand." } else { "" };
    let description = [&*attribute.description, secret].join("\n");
    if !description.trim().is_empty() {
        schema["description"] = description.trim().into();
    }
    schema
}

fn of_type(of: &Type) -> Json {
    match of {
        Type::String => {
            any(json!({ "type": "string" }), [json!({ "type": ["number", "boolean"] }), secret()])
        }
        Type::Number => any(
            json!({ "type": "number" }),
            [reference(), json!({ "type": "string", "pattern": NUMBER }), secret()],
        ),
        Type::Bool => any(
            json!({ "type": "boolean" }),
            [reference(), json!({ "enum": ["true", "false", "1", "0", 1, 0] })],
        ),
        Type::Dynamic => json!({}),
        Type::List(inner) => json!({ "type": "array", "items": of_type(inner) }),
        Type::Set(inner) => json!({ "type": "array", "items": of_type(inner), "uniqueItems": true }),
        Type::Map(inner) => json!({ "type": "object", "additionalProperties": of_type(inner) }),
        Type::Object(fields) => {
            let properties: Map<String, Json> =
                fields.iter().map(|(name, of)| (name.to_string(), of_type(of))).collect();
            json!({ "type": "object", "properties": properties, "additionalProperties": false })
        }
        Type::Tuple(parts) => {
            json!({ "type": "array", "items": parts.iter().map(of_type).collect::<Vec<_>>() })
        }
    }
}

/// A number as text.
const NUMBER: &str = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$";

/// One form, and others in which the same may be written.
fn any(form: Json, others: impl IntoIterator<Item = Json>) -> Json {
    let others = others.into_iter().map(|mut other| {
        other["x-otherwise"] = true.into();
        other
    });
    json!({ "anyOf": std::iter::once(form).chain(others).collect::<Vec<_>>() })
}

/// What another manifest says, or its resource puts out.
fn reference() -> Json {
    json!({ "type": "string", "pattern": r"\$\{.+\}" })
}

/// A secret by its name.
fn secret() -> Json {
    let properties = json!({ "secret": { "type": "string" } });
    json!({ "type": "object", "properties": properties, "required": ["secret"], "additionalProperties": false })
}
