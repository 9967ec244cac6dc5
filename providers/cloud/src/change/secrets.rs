//! What a schema calls secret, in a value of it.
//!
//! *Guarantees*: a part that is no secret by itself, beside one that is, is none.

use crate::{
    cty::Value,
    hidden::Hidden,
    schema::{Attribute, Block, Nesting, canonical},
};
use serde_json::Value as Json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Shorter ones are words, such as the name of a user: what repeats them is put out all the same.
const TELLING: usize = 8;

/// The texts of all secrets in a value: they must not get into an error that a provider writes.
pub fn secrets(block: &Block, value: &Value) -> Vec<Arc<str>> {
    let mut out = Vec::new();
    of_block(block, value, &Meant::All, &mut out);
    out
}

/// As [`secrets`], in the JSON of a state that may be of another version of the schema.
pub fn secrets_in(block: &Block, json: &Json) -> Vec<Arc<str>> {
    let mut out = Vec::new();
    in_block(block, json, &mut out);
    out
}

/// Of the secrets in a state those that nobody gave to the provider, as they are looked for in what it puts out besides: not
/// what is `declared`, or could have been where nothing is known to be. What is written out in a manifest is none, whatever it holds,
/// nor is what the provider tells in an attribute that it does not call sensitive.
pub fn made(block: &Block, state: &Value, declared: Option<&Json>) -> Hidden {
    let mut made = Vec::new();
    of_block(block, state, &Meant::Made(declared.map(|declared| vec![declared])), &mut made);
    let mut open = Vec::new();
    for (name, attribute) in &block.attributes {
        // An id may be made of what is secret, and says nothing of that.
        if attribute.computed && !attribute.is_declarable() && !attribute.has_secret() && **name != *"id" {
            texts(state.get(name), &mut open);
        }
    }
    let open: BTreeSet<Arc<str>> = open.into_iter().collect();
    let written = declared.map(canonical::written_out).unwrap_or_default();
    made.retain(|secret| secret.len() >= TELLING && !open.contains(secret) && !written.contains(secret));
    Hidden::default().and_copies(made, written)
}

/// Which secrets of a value are meant.
#[derive(Clone)]
enum Meant<'a> {
    All,
    /// Those that nobody gave, by what is declared in their place: of elements that nothing tells apart, what is declared of any.
    /// None where that is not known.
    Made(Option<Vec<&'a Json>>),
}

impl<'a> Meant<'a> {
    /// Those of a part, which `part` finds in a declaration.
    fn below(&self, part: impl Fn(&'a Json) -> Vec<&'a Json>) -> Meant<'a> {
        match self {
            Meant::Made(Some(said)) => Meant::Made(Some(said.iter().copied().flat_map(part).collect())),
            other => other.clone(),
        }
    }

    /// Those of what is called so.
    fn of(&self, name: &str) -> Meant<'a> {
        // What is not known yet stands for all of it.
        self.below(|json| vec![if json.get(canonical::UNKNOWN).is_some() { json } else { &json[name] }])
    }

    /// Whether that is the whole of this attribute.
    fn is_whole(&self, attribute: &Attribute) -> bool {
        let is_given = match self {
            Meant::All => return true,
            Meant::Made(None) => true,
            Meant::Made(Some(said)) => !said.is_empty() && said.iter().all(|json| !json.is_null()),
        };
        !(is_given && attribute.is_declarable())
    }
}

fn of_block(block: &Block, value: &Value, meant: &Meant<'_>, out: &mut Vec<Arc<str>>) {
    of_attributes(&block.attributes, value, meant, out);
    for (name, nested) in block.blocks.iter().filter(|(_, nested)| nested.block.has_secret()) {
        each(nested.nesting, value.get(name), &meant.of(name), &mut |one, meant| {
            of_block(&nested.block, one, meant, out);
        });
    }
}

fn of_attributes(
    attributes: &BTreeMap<Arc<str>, Attribute>,
    value: &Value,
    meant: &Meant<'_>,
    out: &mut Vec<Arc<str>>,
) {
    for (name, attribute) in attributes.iter().filter(|(_, attribute)| attribute.has_secret()) {
        let (value, meant) = (value.get(name), meant.of(name));
        match &attribute.nested {
            Some(nested) if !attribute.is_secret() => {
                each(nested.nesting, value, &meant, &mut |one, meant| {
                    of_attributes(&nested.attributes, one, meant, out);
                })
            }
            _ if meant.is_whole(attribute) => texts(value, out),
            _ => {}
        }
    }
}

/// Each of what is held, and which of its secrets are meant.
fn each<'a>(nesting: Nesting, value: &Value, meant: &Meant<'a>, one: &mut dyn FnMut(&Value, &Meant<'a>)) {
    match value {
        Value::Seq(all) => {
            for (at, value) in all.iter().enumerate() {
                let meant = meant.below(|json| match json {
                    Json::Array(said) if nesting == Nesting::List && said.len() == all.len() => {
                        vec![&said[at]]
                    }
                    Json::Array(said) => said.iter().collect(),
                    json => vec![json],
                });
                one(value, &meant);
            }
        }
        Value::Map(all) if nesting == Nesting::Map => {
            all.iter().for_each(|(key, value)| one(value, &meant.of(key)));
        }
        Value::Map(_) => one(value, meant),
        _ => {}
    }
}

fn texts(value: &Value, out: &mut Vec<Arc<str>>) {
    match value {
        Value::String(text) => out.push(text.clone()),
        Value::Number(number) => out.push(number.as_str().into()),
        Value::Seq(all) => all.iter().for_each(|one| texts(one, out)),
        Value::Map(all) => all.values().for_each(|one| texts(one, out)),
        Value::Dynamic(inner) => texts(&inner.1, out),
        Value::Null | Value::Unknown | Value::Bool(_) => {}
    }
}

fn in_block(block: &Block, json: &Json, out: &mut Vec<Arc<str>>) {
    in_attributes(&block.attributes, json, out);
    for (name, nested) in block.blocks.iter().filter(|(_, nested)| nested.block.has_secret()) {
        each_in(nested.nesting, &json[&**name], &mut |one: &Json| in_block(&nested.block, one, out));
    }
}

fn in_attributes(attributes: &BTreeMap<Arc<str>, Attribute>, json: &Json, out: &mut Vec<Arc<str>>) {
    for (name, attribute) in attributes.iter().filter(|(_, attribute)| attribute.has_secret()) {
        let json = &json[&**name];
        match &attribute.nested {
            Some(nested) if !attribute.is_secret() => {
                each_in(nested.nesting, json, &mut |one: &Json| in_attributes(&nested.attributes, one, out));
            }
            _ => texts_in(json, out),
        }
    }
}

fn each_in(nesting: Nesting, json: &Json, one: &mut dyn FnMut(&Json)) {
    match json {
        Json::Array(all) => all.iter().for_each(one),
        Json::Object(all) if nesting == Nesting::Map => all.values().for_each(one),
        Json::Object(_) => one(json),
        _ => {}
    }
}

fn texts_in(json: &Json, out: &mut Vec<Arc<str>>) {
    match json {
        Json::String(text) => out.push((**text).into()),
        Json::Number(number) => out.push(number.to_string().into()),
        Json::Array(all) => all.iter().for_each(|one| texts_in(one, out)),
        Json::Object(all) => all.values().for_each(|one| texts_in(one, out)),
        Json::Bool(_) | Json::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        schema::{
            Schema,
            fixture::{map, nested, text},
        },
        wire::message,
    };
    use serde_json::json;

    /// `key` and `login`, a list of blocks; `auth` are attributes of an attribute, by keys.
    fn schema() -> Schema {
        let inner = || vec![text("user", "o"), text("password", "os"), text("token", "cs")];
        let auth = message::Attribute {
            nested_type: Some(message::NestedType { nesting: 4, attributes: inner() }),
            type_json: Vec::new(),
            ..text("auth", "o")
        };
        let attributes =
            vec![text("id", "c"), text("host", "c"), text("key", "ocs"), text("name", "o"), auth];
        let block_types = vec![nested("login", 2, inner())];
        let block = Some(message::Block { attributes, block_types, ..Default::default() });
        Schema::of(message::Schema { version: 0, block }).unwrap()
    }

    fn login(of: &str) -> Value {
        let fields =
            ["user", "password", "token"].map(|name| (name, Value::text(&format!("{name}-of-{of}"))));
        map(&fields)
    }

    fn state() -> Value {
        let text = |name: &'static str, text: &str| (name, Value::text(text));
        map(&[
            text("id", "web-key-of-it"),
            text("host", "host-of-it"),
            text("key", "web-key-of-it"),
            text("name", "web"),
            ("auth", map(&[("a", login("a")), ("b", login("b"))])),
            ("login", Value::Seq(vec![login("c"), login("d")])),
        ])
    }

    #[test]
    fn secrets_are_found_in_what_is_nested_and_what_is_beside_them_is_none() {
        let schema = schema();
        let mut expect = vec!["web-key-of-it".to_string()];
        expect.extend(
            ["a", "b", "c", "d"]
                .iter()
                .flat_map(|of| [format!("password-of-{of}"), format!("token-of-{of}")]),
        );
        let sorted = |all: Vec<Arc<str>>| {
            let mut all: Vec<String> = all.iter().map(ToString::to_string).collect();
            all.sort();
            all
        };
        expect.sort();
        assert_eq!(sorted(secrets(&schema.block, &state())), expect);
        let json = crate::cty::write_json(&state(), &schema.value_type);
        let json = serde_json::from_slice(&json).unwrap();
        assert_eq!(sorted(secrets_in(&schema.block, &json)), expect);
    }

    #[test]
    fn what_a_manifest_says_or_the_provider_tells_openly_is_not_what_it_made() {
        let schema = schema();
        let made = |state: &Value, declared: Option<&Json>| made(&schema.block, state, declared);
        let declared = json!({ "login": [{ "password": { "$secret": "x", "$mark": "y" } }] });
        let hidden = made(&state(), Some(&declared));
        for (text, expect) in [
            ("db://web-key-of-it@h", true),
            ("x-password-of-a", true),
            ("x-token-of-c", true),
            // It is given, though by whom is another matter.
            ("x-password-of-c", false),
            ("x-user-of-a", false),
        ] {
            assert_eq!(hidden.hides(text), expect, "{text}");
        }
        // Beside what is given of the same block, or of the same element.
        let hidden = made(&state(), Some(&json!({ "login": [{ "user": "x" }] })));
        assert!(hidden.hides("x-password-of-c") && hidden.hides("x-password-of-d"));
        let given = json!({ "password": { "$secret": "x", "$mark": "y" } });
        let declared = json!({ "auth": { "a": given, "b": { "user": "x" } }, "login": [{}, given] });
        let hidden = made(&state(), Some(&declared));
        for (of, expect) in [("a", false), ("b", true), ("c", true), ("d", false)] {
            assert_eq!(hidden.hides(&format!("x-password-of-{of}")), expect, "{of}");
        }
        let hidden = made(&state(), Some(&json!({ "key": "web-key-of-it" })));
        assert!(!hidden.hides("db://web-key-of-it@h") && hidden.hides("x-password-of-a"));
        // It is in Git, and others may refer to it as they could before.
        let hidden = made(&state(), Some(&json!({ "name": "web-key-of-it:80" })));
        assert!(!hidden.hides("web-key-of-it:80") && hidden.hides("db://web-key-of-it@h"));
        // Nobody knows what was declared: what only the provider can have made.
        let hidden = made(&state(), None);
        assert!(
            !hidden.hides("db://web-key-of-it@h")
                && !hidden.hides("x-password-of-a")
                && hidden.hides("x-token-of-a")
        );
        // Told openly, and too short to be more than a word.
        let with = |key: &str| {
            let Value::Map(mut all) = state() else { panic!("a map") };
            all.insert("key".into(), Value::text(key));
            made(&Value::Map(all), Some(&json!({})))
        };
        assert!(with("host-of-ut").hides("host-of-ut:80"));
        assert!(!with("host-of-it").hides("host-of-it:80") && !with("seven-7").hides("seven-7"));
    }
}
