//! A schema as JSON Schema: what `explain` prints and editors read.
//!
//! It takes whatever [`config`](super::config) takes. What stands first in `anyOf` is how a value is written; other ways to
//! write the same have `x-otherwise`, and nobody is told of them.

use super::{Attribute, Block, NestedBlock, Nesting};
use crate::cty::Type;
use reconciled_provider::Hash;
use serde_json::{Map, Value as Json, json};
use std::{collections::BTreeMap, sync::Arc};

/// The JSON Schema of what may be declared, of the draft that editors read (7): what is nested stands in its `definitions`.
pub fn json_schema(block: &Block) -> Json {
    let mut inner = Definitions::default();
    let mut schema = inner.block(block);
    if !inner.all.is_empty() {
        schema["definitions"] = Json::Object(inner.all);
    }
    schema
}

/// What is nested, each content once: a firewall has statements within statements, and what may be written in two ways is named
/// twice, so written out at each place it would double with each level.
#[derive(Default)]
struct Definitions {
    all: Map<String, Json>,
    /// By a hash of their content.
    names: BTreeMap<Hash, String>,
}

impl Definitions {
    /// Keeps a schema and says where it is: below the `name` of what has it, which editors show.
    fn put(&mut self, name: &str, schema: Json) -> Json {
        let content = Hash::of(schema.to_string().as_bytes());
        let name = match self.names.get(&content) {
            Some(known) => known.clone(),
            None => {
                let name = self.free(name);
                self.names.insert(content, name.clone());
                self.all.insert(name.clone(), schema);
                name
            }
        };
        json!({ "$ref": format!("#/definitions/{name}") })
    }

    /// The name, or the next that nothing has, with nothing in it that means something in a reference.
    fn free(&self, name: &str) -> String {
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let name: String = name.chars().map(safe).collect();
        let mut names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
        names.find(|name| !self.all.contains_key(name)).unwrap_or_default()
    }

    fn block(&mut self, block: &Block) -> Json {
        let mut schema = self.object(&block.attributes, &block.blocks);
        if !block.description.is_empty() {
            schema["description"] = (*block.description).into();
        }
        schema
    }

    fn object(
        &mut self,
        attributes: &BTreeMap<Arc<str>, Attribute>,
        blocks: &BTreeMap<Arc<str>, NestedBlock>,
    ) -> Json {
        let mut properties = Map::new();
        let mut required: Vec<Json> = Vec::new();
        for (name, attribute) in attributes {
            properties.insert(name.to_string(), self.attribute(name, attribute));
            if attribute.required {
                required.push((**name).into());
            }
        }
        for (name, nested) in blocks {
            let inner = self.block(&nested.block);
            let inner = self.put(name, inner);
            let is_one = nested.max == 1 && matches!(nested.nesting, Nesting::List | Nesting::Set);
            let list = held(nested.nesting, inner.clone(), nested.min, nested.max);
            properties.insert(name.to_string(), if is_one { any(list, [inner]) } else { list });
            if nested.min > 0 && nested.nesting != Nesting::Group {
                required.push((**name).into());
            }
        }
        let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema
    }

    fn attribute(&mut self, name: &str, attribute: &Attribute) -> Json {
        let mut schema = match &attribute.nested {
            Some(nested) => {
                let inner = self.object(&nested.attributes, &BTreeMap::new());
                let mut inner = self.put(name, inner);
                if matches!(nested.nesting, Nesting::Single | Nesting::Group) {
                    // What stands beside a `$ref` counts for nothing, and more is said of the attribute.
                    inner = json!({ "allOf": [inner] });
                }
                held(nested.nesting, inner, 0, 0)
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
        let secret = if attribute.is_secret() {
            "A secret: never shown, and put only where one may stand."
        } else {
            ""
        };
        let description = [&*attribute.description, secret].join("\n");
        if !description.trim().is_empty() {
            schema["description"] = description.trim().into();
        }
        schema
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        schema::{Schema, fixture},
        wire::message,
    };

    /// Blocks that may be there once, so many within one another; at each level there are two equal ones.
    fn deep(levels: usize) -> Block {
        let texts = || vec![fixture::text("name", "r"), fixture::text("value", "oc")];
        let mut inner = message::Block { attributes: texts(), ..Default::default() };
        for _ in 1..levels {
            let within = |name: &str| message::NestedBlock {
                type_name: name.into(),
                block: Some(inner.clone()),
                nesting: 2,
                max_items: 1,
                ..Default::default()
            };
            let block_types = vec![within("left"), within("right")];
            inner = message::Block { attributes: texts(), block_types, ..Default::default() };
        }
        Schema::of(message::Schema { version: 0, block: Some(inner) }).unwrap().block
    }

    #[test]
    fn what_is_nested_many_times_is_said_once() {
        let schema = json_schema(&deep(12));
        assert_eq!(schema["definitions"].as_object().unwrap().len(), 11);
        let (size, of_two) = (schema.to_string().len(), json_schema(&deep(2)).to_string().len());
        assert!(size < 12 * of_two, "{size}, and {of_two} of two levels");
        // Each level is found from the one above it.
        let mut at = &schema;
        for level in 1..12 {
            let forms = &at["properties"]["left"]["anyOf"];
            assert_eq!(forms[0]["maxItems"], 1, "{level}");
            assert_eq!(forms[1]["x-otherwise"], true, "{level}");
            let place = forms[1]["$ref"].as_str().unwrap();
            assert_eq!(forms[0]["items"]["$ref"], place, "{level}");
            assert_eq!(at["properties"]["right"], at["properties"]["left"], "{level}");
            at = schema.pointer(place.trim_start_matches('#')).unwrap();
        }
        assert_eq!(schema["properties"]["left"]["anyOf"][1]["$ref"], "#/definitions/left-11");
        assert!(at["properties"]["name"].is_object() && at["properties"]["left"].is_null());
    }

    #[test]
    fn what_is_said_of_an_attribute_with_attributes_stands_beside_no_reference() {
        let schema = json_schema(&fixture::lettered().block);
        let one = &schema["properties"]["oc1"];
        let place = one["allOf"][0]["$ref"].as_str().unwrap();
        assert!(one["$ref"].is_null());
        let inner = schema.pointer(place.trim_start_matches('#')).unwrap();
        assert_eq!(inner["properties"]["ow"]["writeOnly"], true);
        assert_eq!(schema["properties"]["oc2"]["items"]["$ref"], place);
    }
}
