//! Finding a resource by what identifies it, for types that say what that is (protocols 5.9 and 6.9).

use super::{Plugin, ResourceType, write_value};
use crate::{
    cty::{Number, Type, Value},
    hidden::Hidden,
    wire::message::{DynamicValue, IdentityAttribute, IdentitySchemas},
};
use reconciled_provider::{Error, problem::did_you_mean};
use serde_json::{Map, Value as Json};
use std::{collections::BTreeMap, sync::Arc};

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
        let schemas = self.identities.get_or_try_init(|| self.identity_schemas(hidden)).await?;
        let Some(schema) = schemas.identity_schemas.get(&*of.name) else { return Ok(None) };
        let (value, of_type) = identified(&schema.attributes, &given).map_err(|(why, hint)| {
            let error = Error::invalid(format!("find a {} by its identity: {why}", of.name));
            hint.into_iter().fold(error, |error, hint| error.hint(hint))
        })?;
        Ok(Some(write_value(&value, &of_type)))
    }

    async fn identity_schemas(&self, hidden: &Hidden) -> Result<IdentitySchemas, Error> {
        let doing = "ask what identifies resources";
        match self.call(self.process.calls.identity_schemas()).await {
            Ok(schemas) => match super::said(doing, &schemas.diagnostics, hidden) {
                Some(error) => Err(error),
                None => Ok(schemas),
            },
            // Of a time before identities.
            Err(crate::wire::Status::Code(12, _)) => Ok(IdentitySchemas::default()),
            Err(status) => Err(self.severed(doing, status, hidden).await),
        }
    }
}

/// The identity as a value, and its type. Errors: what is wrong, and what to write.
fn identified(
    attributes: &[IdentityAttribute],
    given: &Map<String, Json>,
) -> Result<(Value, Type), (String, Option<String>)> {
    let names = || attributes.iter().map(|attribute| &*attribute.name);
    if let Some(unknown) = given.keys().find(|key| !names().any(|name| name == **key)) {
        let hint = match did_you_mean(unknown, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are: {}", names().collect::<Vec<_>>().join(", ")),
        };
        return Err((format!("`{unknown}` is no part of it"), Some(hint)));
    }
    let (mut value, mut types) = (BTreeMap::new(), BTreeMap::new());
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
        value.insert(name.clone(), part);
        types.insert(name, of);
    }
    Ok((Value::Map(value), Type::Object(types)))
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
            let found = found.map(|(value, _)| value).map_err(|(why, _)| why);
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
