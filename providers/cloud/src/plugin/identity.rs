//! What identifies a resource, for types that say what that is (protocols 5.9 and 6.9): to find one by it, and to remember it.
//!
//! *Guarantees*: an identity is a text by which two resources are told apart, since its parts are written in one order.

use super::value::write_value;
use crate::{
    cty::{self, Number, Type, Value},
    wire::message::{IdentityAttribute, IdentityData},
};
use reconciled_provider::problem::did_you_mean;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::{collections::BTreeMap, sync::Arc};

/// What identifies a resource, as its provider said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Version of the schema it was written with.
    pub(crate) version: i64,
    /// JSON, as text: every digit of a number counts.
    pub(crate) value: String,
}

impl Identity {
    /// True where a part of the two differs that both have: a provider may learn more of one in time.
    pub(crate) fn is_other(&self, other: &Identity) -> bool {
        let parts = |identity: &Identity| serde_json::from_str::<Map<String, Json>>(&identity.value);
        let (Ok(own), Ok(others)) = (parts(self), parts(other)) else { return self != other };
        let differs = |(name, own): (&String, &Json)| {
            others.get(name).is_some_and(|other| !own.is_null() && !other.is_null() && own != other)
        };
        own.iter().any(differs)
    }
}

/// What identifies resources of a type.
#[derive(Debug)]
pub(super) struct IdentityType {
    pub(super) version: i64,
    pub(super) attributes: Vec<IdentityAttribute>,
    pub(super) of: Type,
}

/// That of all types that have it.
pub(super) type Types = BTreeMap<String, IdentityType>;

impl Identity {
    /// For a message; nothing where it does not have today's form.
    pub(super) fn data(&self, of: Option<&IdentityType>) -> Option<IdentityData> {
        let of = of.filter(|of| of.version == self.version)?;
        let value = cty::read_json(self.value.as_bytes(), &of.of).ok()?;
        Some(IdentityData { identity: Some(write_value(&value, &of.of)) })
    }

    /// What a planned identity is once it came about: nothing while a part of it is not known.
    pub(super) fn planned(msgpack: Option<&[u8]>, of: Option<&IdentityType>) -> Option<Identity> {
        let of = of?;
        let value = cty::decode(msgpack?, &of.of).ok().filter(Value::is_known)?;
        of.write(&value)
    }
}

impl IdentityType {
    /// Nothing for one that says nothing: that is how the old SDK has none.
    pub(super) fn write(&self, value: &Value) -> Option<Identity> {
        let Value::Map(parts) = value else { return None };
        let says_something = parts.values().any(|part| !part.is_null());
        // JSON is written from texts, which are UTF-8.
        let json = || String::from_utf8_lossy(&cty::write_json(value, &self.of)).into_owned();
        says_something.then(|| Identity { version: self.version, value: json() })
    }
}

/// The identity as a value. Errors: what is wrong, and what to write.
pub(super) fn identified(
    attributes: &[IdentityAttribute],
    given: &Map<String, Json>,
) -> Result<Value, (String, Option<String>)> {
    let names = || attributes.iter().map(|attribute| &*attribute.name);
    if let Some(unknown) = given.keys().find(|key| !names().any(|name| name == **key)) {
        let hint = match did_you_mean(unknown, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are: {}", names().collect::<Vec<_>>().join(", ")),
        };
        return Err((format!("`{unknown}` is no part of it"), Some(hint)));
    }
    let mut value = BTreeMap::new();
    for attribute in attributes {
        let name: Arc<str> = attribute.name.as_str().into();
        let of = Type::parse(&attribute.type_json).map_err(|why| (why, None))?;
        let said = given.get(&*name).filter(|said| !said.is_null());
        if said.is_none() && attribute.required_for_import {
            return Err((format!("`{name}` is missing"), None));
        }
        let part = match said {
            Some(said) => part(said, &of).ok_or_else(|| (format!("`{name}` cannot be {said}"), None))?,
            None => Value::Null,
        };
        value.insert(name, part);
    }
    Ok(Value::Map(value))
}

/// A part of an identity: texts, numbers, truth, and lists of them.
fn part(said: &Json, of: &Type) -> Option<Value> {
    Some(match (said, of) {
        (Json::String(text), Type::String) => Value::text(text),
        (Json::Number(number), Type::String) => Value::text(&number.to_string()),
        (Json::Number(number), Type::Number) => Value::Number(Number::parse(&number.to_string())?),
        (Json::Bool(is_so), Type::Bool) => Value::Bool(*is_so),
        (Json::Array(all), Type::List(of)) => {
            Value::Seq(all.iter().map(|one| part(one, of)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_by_its_schema() {
        let attribute = |name: &str, of: &str, required_for_import| IdentityAttribute {
            name: name.into(),
            type_json: of.as_bytes().to_vec(),
            required_for_import,
        };
        let attributes = [
            attribute("name", r#""string""#, true),
            attribute("account", r#""string""#, false),
            attribute("number", r#""number""#, false),
        ];
        let check = |given: &str, expect: Result<&[(&str, Value)], &str>| {
            let found = identified(&attributes, &serde_json::from_str(given).unwrap());
            let found = found.map_err(|(why, _)| why);
            assert_eq!(found, expect.map(crate::schema::fixture::map).map_err(String::from), "{given}");
        };
        let number = Value::Number(Number::parse("7").unwrap());
        check(
            r#"{"name": "a", "account": 123, "number": 7}"#,
            Ok(&[("name", Value::text("a")), ("account", Value::text("123")), ("number", number)]),
        );
        check(
            r#"{"name": "a"}"#,
            Ok(&[("name", Value::text("a")), ("account", Value::Null), ("number", Value::Null)]),
        );
        check(r#"{"account": "1"}"#, Err("`name` is missing"));
        check(r#"{"nmae": "a"}"#, Err("`nmae` is no part of it"));
        check(r#"{"name": ["a"]}"#, Err(r#"`name` cannot be ["a"]"#));
    }
}
