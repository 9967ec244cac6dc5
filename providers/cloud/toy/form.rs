//! Values as they come and go, and what is said of them.

use prost::bytes::Bytes;
use reconciled_cloud::{
    cty::{Number, Type, Value, decode, encode},
    wire::message::{AttributePath, Diagnostic, DynamicValue, Selector, Step},
};
use std::sync::Arc;

pub(crate) fn error(summary: &str) -> Diagnostic {
    Diagnostic { severity: 1, summary: summary.into(), ..Diagnostic::default() }
}

pub(crate) fn path(name: &str) -> AttributePath {
    AttributePath { steps: vec![Step { selector: Some(Selector::AttributeName(name.into())) }] }
}

pub(crate) fn dynamic(value: &Value, of: &Type) -> DynamicValue {
    DynamicValue { msgpack: encode(value, of).into(), json: Bytes::new() }
}

pub(crate) fn value(dynamic: &Option<DynamicValue>, of: &Type) -> Value {
    let bytes = dynamic.as_ref().map(|dynamic| dynamic.msgpack.clone()).unwrap_or_default();
    decode(&bytes, of).unwrap_or(Value::Null)
}

/// JSON as a value of a type.
pub(crate) fn parse(json: &serde_json::Value, of: &Type) -> Value {
    use serde_json::Value as Json;
    match (json, of) {
        (Json::Bool(set), _) => Value::Bool(*set),
        (Json::Number(number), _) => Number::parse(&number.to_string()).map_or(Value::Null, Value::Number),
        (Json::String(text), _) => Value::text(text),
        (Json::Array(all), Type::Set(of)) => Value::set(all.iter().map(|one| parse(one, of)).collect()),
        (Json::Array(all), Type::List(of)) => Value::Seq(all.iter().map(|one| parse(one, of)).collect()),
        (Json::Object(all), Type::Map(of)) => {
            Value::Map(all.iter().map(|(key, one)| (Arc::from(&**key), parse(one, of))).collect())
        }
        (Json::Object(all), Type::Object(types)) => {
            let field = |(name, of): (&Arc<str>, &Type)| {
                (name.clone(), all.get(&**name).map_or(Value::Null, |one| parse(one, of)))
            };
            Value::Map(types.iter().map(field).collect())
        }
        _ => Value::Null,
    }
}
