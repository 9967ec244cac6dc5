//! The published description of the API (OpenAPI 3.1), made from the routes and the types they take and answer, so
//! that it cannot say anything else than what is served.

use super::{
    caller::Right,
    route::{Form, Route, SchemaOf},
};
use crate::client::Refusal;
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The description of `routes`, and of what is open to anybody.
pub(super) fn describe(routes: &[Route]) -> Value {
    let settings = |inline| {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings.inline_subschemas = inline;
        })
    };
    let mut answers = settings(false).for_serialize().into_generator();
    // One type may need less in a question than an answer says, so a question's is written where it is used.
    let mut asks = settings(true).for_deserialize().into_generator();
    let mut paths: Map<String, Value> = open();
    for route in routes {
        let operation = operation(route, &mut asks, &mut answers);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation;
    }
    let refusal = answers.subschema_for::<Refusal>();
    let schemas = answers.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "reconciled",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The API of the daemon, on its unix socket and at `api.listen`. See docs/api.md.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "On the unix socket none is needed."},
            },
            "responses": {
                "Refused": {
                    "description": "Why it was not done, and what to do.",
                    "content": {"application/json": {"schema": refusal}},
                },
            },
            "schemas": schemas,
        },
    })
}

fn operation(route: &Route, asks: &mut SchemaGenerator, answers: &mut SchemaGenerator) -> Value {
    let (role, only) = match route.needs {
        Right::Read => ("read", ""),
        Right::Operator => ("operator", ""),
        Right::Socket => ("socket", "Answered on the unix socket alone."),
    };
    let words: Vec<&str> =
        route.path.split(['/', '.']).filter(|word| !word.is_empty() && *word != "v1").collect();
    let method = route.method.as_str().to_lowercase();
    let content = |schema: Value| json!({"application/json": {"schema": schema}});
    let answer = match &route.answer {
        Form::Value(of) => content(schema(*of, answers)),
        Form::Lines(of) => {
            // One value a line.
            json!({"application/x-ndjson": {"schema": schema(*of, answers)}})
        }
        Form::Bytes(media) => json!({*media: {}}),
    };
    let mut operation = json!({
        "operationId": format!("{method}-{}", words.join("-")),
        "summary": route.about,
        "x-role": role,
        "responses": {
            "200": {"description": "The answer.", "content": answer},
            "default": {"$ref": "#/components/responses/Refused"},
        },
    });
    if !only.is_empty() {
        operation["description"] = only.into();
    }
    let ask = schema(route.ask, asks);
    if method == "post" {
        operation["requestBody"] = json!({"required": true, "content": content(ask)});
        return operation;
    }
    let needed = |name: &str| ask["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let parameters: Vec<Value> = ask["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(
            |(name, schema)| json!({"name": name, "in": "query", "required": needed(name), "schema": schema}),
        )
        .collect();
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    operation
}

fn schema(of: SchemaOf, generator: &mut SchemaGenerator) -> Value {
    of(generator).to_value()
}

/// What needs neither token nor peer.
fn open() -> Map<String, Value> {
    let text = |about: &str, answers: &[(&str, &str)]| {
        let answer = |(status, text): &(&str, &str)| {
            let content = json!({"text/plain": {"schema": {"type": "string"}}});
            (status.to_string(), json!({"description": text, "content": content}))
        };
        let responses: Map<String, Value> = answers.iter().map(answer).collect();
        json!({"summary": about, "security": [], "responses": responses})
    };
    let mut webhook = text("a forge says that somebody pushed", &[("202", "The source is looked at soon.")]);
    for (status, text) in [("404", "Path or signature are wrong."), ("413", "More than 1 MiB.")] {
        let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}});
        webhook["responses"][status] = json!({"description": text, "content": content});
    }
    webhook["responses"]["default"] = json!({"$ref": "#/components/responses/Refused"});
    webhook["parameters"] = json!([
        {"name": "path", "in": "path", "required": true, "schema": {"type": "string"},
         "description": "Source and key, as `reconciled check` prints them."}
    ]);
    let paths = [
        ("/healthz", json!({"get": text("whether the process answers", &[("200", "It does.")])})),
        (
            "/readyz",
            json!({"get": text("whether everything was looked at once", &[("200", "It was."), ("503", "Not yet.")])}),
        ),
        ("/hooks/{path}", json!({"post": webhook})),
    ];
    paths.into_iter().map(|(path, item)| (path.to_string(), item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::routes;
    use std::collections::BTreeSet;

    /// Calls `see` with every `$ref` below `value`.
    fn references(value: &Value, see: &mut impl FnMut(&str)) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match value.as_str().filter(|_| key == "$ref") {
                        Some(place) => see(place),
                        None => references(value, see),
                    }
                }
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, see)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_operation_has_a_name_of_its_own() {
        let whole = describe(&routes::all());
        let mut count = 0;
        references(&whole, &mut |place| {
            count += 1;
            let pointer =
                place.strip_prefix('#').unwrap_or_else(|| panic!("{place} leads out of the document"));
            assert!(whole.pointer(pointer).is_some(), "{place}");
        });
        assert!(count > 20, "{count} references");
        let mut names = BTreeSet::new();
        for (path, item) in whole["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let open = operation["security"] == json!([]);
                let name = operation["operationId"].as_str();
                assert!(open || name.is_some_and(|name| names.insert(name.to_owned())), "{method} {path}");
                let blank = path.contains('{');
                assert_eq!(
                    blank,
                    operation["parameters"]
                        .as_array()
                        .is_some_and(|all| all.iter().any(|p| p["in"] == "path"))
                );
            }
        }
    }

    #[test]
    fn what_names_places_of_the_host_is_for_the_socket_alone() {
        for route in routes::all() {
            let is_push = route.path.starts_with("/v1/push/");
            assert_eq!(route.needs == Right::Socket, is_push, "{}", route.path);
        }
    }
}
