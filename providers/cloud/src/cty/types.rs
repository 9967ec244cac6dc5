//! Types of values.

use serde_json::Value as Json;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    /// Text.
    String,
    /// A number of any size and precision.
    Number,
    /// True or false.
    Bool,
    /// Any type; values bring their own along.
    Dynamic,
    /// Values of one type, in order.
    List(Box<Type>),
    /// Different values of one type, in no order.
    Set(Box<Type>),
    /// Values of one type by text.
    Map(Box<Type>),
    /// Values of types of their own by name.
    Object(BTreeMap<Arc<str>, Type>),
    /// Values of types of their own, in order.
    Tuple(Vec<Type>),
}

impl Type {
    /// Reads the JSON form: `"string"`, `["list","string"]`, `["object",{"a":"bool"}]`.
    pub fn parse(json: &[u8]) -> Result<Type, String> {
        let value: Json = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        Type::of(&value).ok_or_else(|| format!("`{value}` is no type"))
    }

    fn of(json: &Json) -> Option<Type> {
        match json {
            Json::String(word) => match &**word {
                "string" => Some(Type::String),
                "number" => Some(Type::Number),
                "bool" => Some(Type::Bool),
                "dynamic" => Some(Type::Dynamic),
                _ => None,
            },
            Json::Array(parts) => match &parts[..] {
                [Json::String(word), inner, ..] => match &**word {
                    "list" => Some(Type::List(Type::of(inner)?.into())),
                    "set" => Some(Type::Set(Type::of(inner)?.into())),
                    "map" => Some(Type::Map(Type::of(inner)?.into())),
                    "object" => {
                        let fields = inner.as_object()?.iter();
                        let fields = fields.map(|(name, field)| Some((Arc::from(&**name), Type::of(field)?)));
                        Some(Type::Object(fields.collect::<Option<_>>()?))
                    }
                    "tuple" => {
                        Some(Type::Tuple(inner.as_array()?.iter().map(Type::of).collect::<Option<_>>()?))
                    }
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// The JSON form.
    pub fn to_json(&self) -> Json {
        match self {
            Type::String => "string".into(),
            Type::Number => "number".into(),
            Type::Bool => "bool".into(),
            Type::Dynamic => "dynamic".into(),
            Type::List(inner) => Json::Array(vec!["list".into(), inner.to_json()]),
            Type::Set(inner) => Json::Array(vec!["set".into(), inner.to_json()]),
            Type::Map(inner) => Json::Array(vec!["map".into(), inner.to_json()]),
            Type::Object(fields) => {
                let fields = fields.iter().map(|(name, field)| (name.to_string(), field.to_json()));
                Json::Array(vec!["object".into(), Json::Object(fields.collect())])
            }
            Type::Tuple(parts) => {
                Json::Array(vec!["tuple".into(), parts.iter().map(Type::to_json).collect()])
            }
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::String => f.write_str("text"),
            Type::Number => f.write_str("a number"),
            Type::Bool => f.write_str("true or false"),
            Type::Dynamic => f.write_str("any value"),
            Type::List(_) | Type::Set(_) | Type::Tuple(_) => f.write_str("a list"),
            Type::Map(_) | Type::Object(_) => f.write_str("a mapping"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_survives_its_json() {
        let check = |json: &str| {
            let parsed = Type::parse(json.as_bytes()).unwrap();
            assert_eq!(parsed.to_json().to_string(), json);
        };
        for json in [
            r#""string""#,
            r#"["list","number"]"#,
            r#"["set",["object",{"a":"bool","b":["map","string"]}]]"#,
            r#"["tuple",["string","dynamic"]]"#,
        ] {
            check(json);
        }
        for wrong in ["", "1", r#""text""#, r#"["list"]"#, r#"["bag","string"]"#, r#"["object",["a"]]"#] {
            assert!(Type::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
