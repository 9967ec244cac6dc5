//! What a route takes, in words for whoever asked for something else. Made of the same schema as the published description.

use reconciled_provider::problem::did_you_mean;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;
use std::sync::Arc;
use url::form_urlencoded;

/// The keys of a question, each with what it may be.
#[derive(Clone, Debug)]
pub(super) struct Takes(Arc<[(String, &'static str)]>);

impl Takes {
    /// The keys of `A`; none where it is no mapping.
    pub(super) fn of<A: JsonSchema>() -> Takes {
        let schema: Schema = SchemaGenerator::default().into_root_schema_for::<A>();
        let properties = schema.as_value().get("properties").and_then(Value::as_object);
        let pair = |(key, schema): (&String, &Value)| (key.clone(), word(schema));
        Takes(properties.into_iter().flatten().map(pair).collect())
    }

    /// The first key of a query that is none of these.
    pub(super) fn unknown(&self, query: Option<&str>) -> Option<String> {
        let mut keys = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).map(|(key, _)| key);
        keys.find(|key| !key.is_empty() && self.0.iter().all(|(known, _)| known != key)).map(Into::into)
    }

    /// What to write in place of a key that is none.
    pub(super) fn instead_of(&self, key: &str) -> String {
        match did_you_mean(key, self.0.iter().map(|(known, _)| &**known)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => self.query(),
        }
    }

    /// What a query may have.
    pub(super) fn query(&self) -> String {
        match self.0.is_empty() {
            true => "this path takes nothing in its query".into(),
            false => format!("this path takes in its query: {}", self.list()),
        }
    }

    /// What a body may have.
    pub(super) fn body(&self) -> String {
        match self.0.is_empty() {
            true => "GET /v1/openapi.json describes what this path takes".into(),
            false => format!("this path takes {{{}}}; GET /v1/openapi.json describes it", self.list()),
        }
    }

    fn list(&self) -> String {
        let each = self.0.iter().map(|(key, word)| match word.is_empty() {
            true => key.clone(),
            false => format!("{key} ({word})"),
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

/// What a value may be; nothing where it is not told in a word.
fn word(schema: &Value) -> &'static str {
    if schema["format"] == "date-time" {
        return "a time such as 2026-07-01T12:00:00Z";
    }
    let is = |name: &str| {
        let kind = &schema["type"];
        *kind == name || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == name))
    };
    match (is("boolean"), is("integer"), is("string")) {
        (true, ..) => "true or false",
        (_, true, _) => "a number",
        (.., true) => "text",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{HistoryAsk, StatusAsk};

    #[test]
    fn every_key_is_told_with_what_it_may_be() {
        let takes = Takes::of::<StatusAsk>();
        assert_eq!(
            takes.query(),
            "this path takes in its query: address (text), wide (true or false), quick (true or false)"
        );
        assert!(Takes::of::<HistoryAsk>().query().contains("since (a time such as 2026-07-01T12:00:00Z)"));
        assert_eq!(takes.unknown(Some("address=a&foo=1")).as_deref(), Some("foo"));
        assert_eq!((takes.unknown(Some("address=a&wide=true")), takes.unknown(None)), (None, None));
        assert_eq!(takes.instead_of("adress"), "did you mean `address`?");
    }
}
