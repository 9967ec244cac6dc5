//! What a state file calls sensitive: values that no schema knows to be secret, since variables or outputs made them so.

use crate::{
    catalog::ResourceType,
    cty::{Value, write_json},
    hidden::Hidden,
    schema::Block,
};
use serde_json::Value as Json;
use std::{collections::BTreeSet, sync::Arc};

/// Where a value stands, from the outermost name inwards; without steps it is all of a resource.
pub(super) type Path = Vec<Step>;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// An attribute, or a key of a map.
    Name(Arc<str>),
    /// An element of a list.
    Index(usize),
}

/// Reads `sensitive_attributes`. A path ends where it is not understood any more: then more is secret, and not less.
pub(super) fn read(paths: &Json) -> Vec<Path> {
    let paths = paths.as_array().into_iter().flatten();
    paths.map(|path| path.as_array().into_iter().flatten().map_while(step).collect()).collect()
}

fn step(step: &Json) -> Option<Step> {
    // The key of an index comes with its type, or by itself.
    let value = step["value"].get("value").unwrap_or(&step["value"]);
    match value {
        Json::String(name) => Some(Step::Name((**name).into())),
        Json::Number(index) => Some(Step::Index(usize::try_from(index.as_u64()?).ok()?)),
        _ => None,
    }
}

/// What of one resource is sensitive.
#[derive(Default)]
pub(super) struct Marked {
    paths: Vec<Path>,
    /// The values, in clear.
    pub(super) values: Hidden,
}

impl Marked {
    /// The paths of a state file with the values that stand there, in the file and now.
    pub(super) fn of(paths: &[Path], file: &Json, of: &ResourceType, state: &Value) -> Marked {
        let now = serde_json::from_slice(&write_json(state, &of.schema.value_type)).unwrap_or_default();
        let mut values = BTreeSet::new();
        for found in paths.iter().flat_map(|path| [at(file, path), at(&now, path)]).flatten() {
            texts(found, &mut values);
        }
        Marked { paths: paths.to_vec(), values: values.into_iter().collect() }
    }

    /// The attributes and blocks that are sensitive, or a part of them is.
    pub(super) fn names(&self) -> BTreeSet<&Arc<str>> {
        self.paths
            .iter()
            .filter_map(|path| match path.first() {
                Some(Step::Name(name)) => Some(name),
                _ => None,
            })
            .collect()
    }

    /// True where all of an attribute is sensitive.
    pub(super) fn is_all_of(&self, name: &str) -> bool {
        self.paths.iter().any(|path| matches!(&path[..], [Step::Name(only)] if **only == *name))
    }

    /// True where all of it is a secret of the schema as well, or becomes one that the manifest names.
    pub(super) fn is_known_by(&self, block: &Block) -> bool {
        let is_known = |name: &Arc<str>| {
            let attribute = block.attributes.get(name);
            attribute.is_some_and(|a| a.is_secret() || a.required && self.is_all_of(name))
        };
        self.names().into_iter().all(is_known)
    }

    /// The attribute or block with something sensitive that stands in what would be written.
    pub(super) fn in_what_is_written(&self, written: &Json) -> Option<String> {
        let path =
            self.paths.iter().find(|path| at(written, path).is_some_and(|value| !is_nothing(value)))?;
        Some(match path.first() {
            Some(Step::Name(name)) => name.to_string(),
            _ => "all of it".into(),
        })
    }
}

fn at<'j>(json: &'j Json, path: &[Step]) -> Option<&'j Json> {
    path.iter().try_fold(json, |json, step| match step {
        Step::Name(name) => json.get(&**name),
        Step::Index(index) => json.get(*index),
    })
}

fn texts(json: &Json, out: &mut BTreeSet<Arc<str>>) {
    match json {
        Json::String(text) => drop(out.insert((**text).into())),
        Json::Number(number) => drop(out.insert(number.to_string().into())),
        Json::Array(all) => all.iter().for_each(|one| texts(one, out)),
        Json::Object(fields) => fields.values().for_each(|one| texts(one, out)),
        Json::Null | Json::Bool(_) => {}
    }
}

fn is_nothing(json: &Json) -> bool {
    match json {
        Json::Null => true,
        Json::Array(all) => all.iter().all(is_nothing),
        Json::Object(fields) => fields.values().all(is_nothing),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_of_a_state_file_lead_to_values() {
        let paths = read(&json!([
            [{ "type": "get_attr", "value": "password" }],
            [
                { "type": "get_attr", "value": "login" },
                { "type": "index", "value": { "value": 1, "type": "number" } },
                { "type": "index", "value": { "value": "pin", "type": "string" } },
            ],
            [{ "type": "get_attr", "value": "tags" }, { "type": "what" }],
        ]));
        let name = |name: &str| Step::Name(name.into());
        let expect =
            [vec![name("password")], vec![name("login"), Step::Index(1), name("pin")], vec![name("tags")]];
        assert_eq!(paths, expect);
        let state =
            json!({ "password": "p", "login": [{}, { "pin": 1234, "user": "u" }], "tags": { "a": "x" } });
        let mut found = BTreeSet::new();
        paths.iter().for_each(|path| texts(at(&state, path).unwrap(), &mut found));
        assert_eq!(found, ["p".into(), "1234".into(), Arc::from("x")].into());
        assert!(read(&Json::Null).is_empty());
    }

    #[test]
    fn what_is_sensitive_and_written_is_told() {
        let check = |written: Json, expect: Option<&str>| {
            let paths =
                vec![vec![Step::Name("on".into())], vec![Step::Name("tags".into()), Step::Name("a".into())]];
            let marked = Marked { paths, values: Hidden::default() };
            assert_eq!(marked.in_what_is_written(&written).as_deref(), expect);
        };
        check(json!({ "name": "x", "tags": { "b": "y", "a": null } }), None);
        check(json!({ "on": false }), Some("on"));
        check(json!({ "tags": { "a": "x" } }), Some("tags"));
    }
}
