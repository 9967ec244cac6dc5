//! What identifies a resource, for types that say what that is (protocols 5.9 and 6.9): to find one by it, and to remember it.
//!
//! *Guarantees*: an identity is a text by which two resources are told apart, since its parts are written in one order. What a
//! provider says of an identity loses no state: one that cannot be read after a change is as good as none.

use super::{Known, Plugin, ResourceType, said, write_value};
use crate::{
    cty::{self, Number, Type, Value},
    hidden::Hidden,
    wire::{
        Status,
        message::{
            DynamicValue, IdentityAttribute, IdentityData, IdentitySchemas, RawState, UpgradeIdentity,
        },
    },
};
use prost::bytes::Bytes;
use reconciled_provider::{Error, problem::did_you_mean};
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
    version: i64,
    attributes: Vec<IdentityAttribute>,
    pub(super) of: Type,
}

/// That of all types that have it.
pub(super) type Types = BTreeMap<String, IdentityType>;

impl Plugin {
    /// What `import` says identifies a resource: an object, where the type has an identity. None for an id, which may look
    /// like an object to a type without.
    ///
    /// Errors: `Invalid` for what does not identify a resource of the type.
    pub(super) async fn identity(
        &self,
        of: &ResourceType,
        import: &str,
        hidden: &Hidden,
    ) -> Result<Option<DynamicValue>, Error> {
        let Ok(given) = serde_json::from_str::<Map<String, Json>>(import) else { return Ok(None) };
        let Some(identity) = self.identity_type(of, hidden).await? else { return Ok(None) };
        let value = identified(&identity.attributes, &given).map_err(|(why, hint)| {
            let error = Error::invalid(format!("find a {} by its identity: {why}", of.name));
            error.hint_if(hint)
        })?;
        Ok(Some(write_value(&value, &identity.of)))
    }

    /// What identifies resources of a type, if they have that.
    pub(super) async fn identity_type(
        &self,
        of: &ResourceType,
        hidden: &Hidden,
    ) -> Result<Option<&IdentityType>, Error> {
        let types = self.identities.get_or_try_init(|| self.identity_types(hidden)).await?;
        Ok(types.get(&*of.name))
    }

    async fn identity_types(&self, hidden: &Hidden) -> Result<Types, Error> {
        let doing = "ask what identifies resources";
        let schemas = match self.ask(self.process.calls.identity_schemas()).await {
            Ok(schemas) => match said(doing, &schemas.diagnostics, hidden) {
                Some(error) => return Err(error),
                None => schemas,
            },
            // Of a time before identities.
            Err(Status::Code(12, _)) => IdentitySchemas::default(),
            Err(status) => return Err(self.severed(doing, status, hidden).await),
        };
        let types = schemas.identity_schemas.into_iter().map(|(name, schema)| {
            let parts = schema.attributes.iter().map(|part| {
                let of = Type::parse(&part.type_json).map_err(|why| {
                    Error::unsupported(format!("{doing}: `{}` of {name}: {why}", part.name))
                })?;
                Ok((part.name.as_str().into(), of))
            });
            let of = Type::Object(parts.collect::<Result<_, Error>>()?);
            Ok((name, IdentityType { version: schema.version, attributes: schema.attributes, of }))
        });
        types.collect()
    }

    /// Brings a kept identity into today's form.
    ///
    /// Errors: `Unsupported` for one of a newer version of the provider.
    pub(crate) async fn upgrade_identity(
        &self,
        of: &ResourceType,
        kept: Option<&Identity>,
        hidden: &Hidden,
    ) -> Result<Option<Identity>, Error> {
        let Some(kept) = kept else { return Ok(None) };
        let Some(identity) = self.identity_type(of, hidden).await? else { return Ok(None) };
        if kept.version == identity.version {
            // In one order, whoever wrote it.
            let value = cty::read_json(kept.value.as_bytes(), &identity.of).ok();
            return Ok(value.and_then(|value| identity.write(&value)));
        }
        let doing = format!("read the identity of a {}", of.name);
        if kept.version > identity.version {
            return Err(Error::unsupported(format!("{doing}: it is from a newer version of the provider"))
                .hint("install that version again, or a newer one"));
        }
        let raw_identity = Some(RawState { json: Bytes::copy_from_slice(kept.value.as_bytes()) });
        let message = UpgradeIdentity { type_name: of.name.to_string(), version: kept.version, raw_identity };
        match self.ask(self.process.calls.upgrade_identity(message)).await {
            Ok(answer) => match said(&doing, &answer.diagnostics, hidden) {
                Some(error) => Err(error),
                None => self.told(answer.identity, Some(identity), &doing),
            },
            // The next read says what it is.
            Err(Status::Code(12, _)) => Ok(None),
            Err(status) => Err(self.severed(&doing, status, hidden).await),
        }
    }

    /// What a provider said of an identity.
    ///
    /// Errors: `Unexpected` when that is none.
    pub(super) fn told(
        &self,
        said: Option<IdentityData>,
        of: Option<&IdentityType>,
        doing: &str,
    ) -> Result<Option<Identity>, Error> {
        let (Some(of), Some(data)) = (of, said.and_then(|said| said.identity)) else { return Ok(None) };
        if data.msgpack.is_empty() && data.json.is_empty() {
            return Ok(None);
        }
        let value = self.read_value(Some(data), &of.of, doing)?;
        if !value.is_known() {
            let text = format!("{doing}: provider `{}` does not know what identifies it", self.name);
            return Err(Error::unexpected(text)
                .hint("this is a mistake of the provider; its maintainers want to know"));
        }
        Ok(of.write(&value))
    }
}

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
    fn write(&self, value: &Value) -> Option<Identity> {
        let Value::Map(parts) = value else { return None };
        let says_something = parts.values().any(|part| !part.is_null());
        // JSON is written from texts, which are UTF-8.
        let json = || String::from_utf8_lossy(&cty::write_json(value, &self.of)).into_owned();
        says_something.then(|| Identity { version: self.version, value: json() })
    }
}

impl Known {
    /// The identity for a message.
    pub(super) fn identity_data(&self, of: Option<&IdentityType>) -> Option<IdentityData> {
        self.identity.as_ref()?.data(of)
    }
}

/// The identity as a value. Errors: what is wrong, and what to write.
fn identified(
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
