//! Manifests to resources, by the schema of their type. Pure.

use crate::{
    catalog::Catalog,
    change,
    kind::{self, API_VERSION},
    lifecycle::{self, LIFECYCLE, Lifecycle},
    mark::Mark,
    schema::{Block, canonical, config::Reader},
};
use reconciled_provider::{
    Hash, Inputs, Manifest, Node, Normalized, Policy, Problem, Resource, ResourceId, Scope, Severity, Spec,
    problem::did_you_mean, yaml::NodeValue,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::{collections::BTreeMap, sync::Arc};

/// Annotation with the id of what exists already.
const IMPORT: &str = "reconciled/import";
/// Keys of a `terraform/v1 Resource`.
const KEYS: [&str; 4] = ["provider", "type", "attributes", LIFECYCLE];

/// A declaration in canonical form; the content of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Declared {
    /// What is declared, by the schema.
    pub(crate) config: Json,
    /// Paths that are left as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ignore: Vec<Arc<str>>,
    /// The id of what exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) import: Option<Arc<str>>,
    /// How it is replaced.
    #[serde(default, skip_serializing_if = "Lifecycle::is_default")]
    pub(crate) lifecycle: Lifecycle,
    /// Seconds for which it is not looked at again while it is unchanged; none: for as long as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<u64>,
}

impl Declared {
    /// Canonical bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
    /// Reads canonical bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Declared> {
        serde_json::from_slice(bytes).ok()
    }
}

/// Turns a manifest into its resource. Without a catalog nothing is known of its type, and only its form is checked.
pub(crate) fn normalize(
    catalog: Option<&Catalog>,
    mark: Option<&Mark>,
    manifest: &Manifest,
    inputs: &dyn Inputs,
) -> Normalized {
    let mut out = Normalized::default();
    let Some((type_name, attributes)) = split(catalog, manifest, inputs, &mut out.problems) else {
        return out;
    };
    let is_data = *manifest.api_version == *API_VERSION && *manifest.kind == *kind::DATA;
    if is_data && manifest.annotations.contains_key(IMPORT) {
        let problem = manifest.error(manifest.span, "data is read and cannot be imported");
        out.problems.push(problem.hint("leave reconciled/import out"));
    }
    let Some(catalog) = catalog else { return out };
    let found = match if is_data { catalog.data_source(&type_name) } else { catalog.resource(&type_name) } {
        Ok(found) => found,
        Err(error) => {
            let span = manifest.spec.get("type").map_or(manifest.span, |node| node.span);
            let error = error.into_told();
            out.problems.push(manifest.error(span, error.message).hint_if(error.hint));
            return out;
        }
    };
    let source = (manifest, inputs);
    let block = &found.schema.block;
    let mut reader = Reader::new(&source);
    let has_lifecycle = *manifest.api_version == *API_VERSION || lifecycle::is_ours(block);
    let more: &[&str] =
        if *manifest.api_version != *API_VERSION && has_lifecycle { &[LIFECYCLE] } else { &[] };
    let config = reader.block(&attributes, block, manifest.span, more);
    let (mut problems, mut waits_for) = (reader.problems, reader.waits_for);
    let lifecycle = match manifest.spec.get(LIFECYCLE).filter(|_| has_lifecycle && !is_data) {
        Some(node) => lifecycle::read(node, manifest, &mut problems, &mut waits_for),
        None => Lifecycle::default(),
    };
    problems.extend(unnoticed(block, &config, manifest, &attributes));
    for path in manifest.policy.ignore.iter().filter(|_| !is_data) {
        if let Err((what, hint)) = change::check_ignored(block, path) {
            let problem = manifest.error(manifest.span, format!("`reconciled/ignore: {path}`: {what}"));
            problems.push(problem.hint_if(hint));
        }
    }
    if let Some(mark) = mark.filter(|_| !is_data)
        && let Some(place) = mark.declared_in(block, &config)
    {
        let span = attributes.get(place).map_or(manifest.span, |node| node.span);
        let problem = manifest.error(span, format!("`{}` of `{place}` says whose it is", mark.key));
        problems.push(
            problem.hint("leave it out; `marks` of the entry in the host configuration names another key"),
        );
    }
    let is_wrong = problems.iter().any(Problem::is_error);
    out.problems.extend(problems);
    if is_wrong {
        return out;
    }
    let declared = Declared {
        config,
        ignore: manifest.policy.ignore.to_vec(),
        import: manifest.annotations.get(IMPORT).cloned(),
        lifecycle,
        interval: manifest.policy.interval.map(|interval| interval.as_secs()),
    };
    let written = Declared { config: canonical::without_marks(&declared.config), ..declared.clone() };
    let template = Hash::of(&written.bytes());
    let spec = match waits_for.is_empty() {
        true => Spec::resolved(declared.bytes(), template),
        false => Spec::Waiting { template, on: waits_for.into(), so_far: declared.bytes().into() },
    };
    let place = if is_data { kind::place_of_data } else { kind::place };
    let (scope, id): (Scope, ResourceId) =
        place(inputs.entry(), &type_name, manifest.key.namespace(), &manifest.name);
    let scope = Arc::new(scope);
    if let Some(import) = manifest.annotations.get(IMPORT) {
        out.remotes.push((scope.clone(), id.clone(), format!("{type_name} `{}`", same(import)).into()));
    }
    let by_default = || kind::default_deletion(&type_name, block, &manifest.policy.ignore);
    let deletion = manifest.policy.deletion.or_else(by_default);
    let policy = inputs.policy(Policy { deletion, ..manifest.policy.clone() });
    out.resources.push(Resource::new(id, scope, spec, manifest.origin(manifest.span), policy));
    out
}

/// Warnings of values that a provider keeps nowhere and that are sent again only with another version beside them, which nobody
/// declares.
fn unnoticed(block: &Block, config: &Json, manifest: &Manifest, attributes: &Node) -> Vec<Problem> {
    let declared = |name: &str| !config[name].is_null();
    let written = block.attributes.iter().filter(|(name, attribute)| attribute.write_only && declared(name));
    let version = |name: &str| format!("{name}_version");
    written
        .filter(|(name, _)| block.attributes.contains_key(&*version(name)) && !declared(&version(name)))
        .map(|(name, _)| {
            let span = attributes.get(name).map_or(manifest.span, |node| node.span);
            let text =
                format!("`{name}` is sent once: that it changed is not noticed, whatever `status` says");
            Problem { severity: Severity::Warning, ..manifest.error(span, text) }
                .hint(format!("declare `{}` as well, and raise it each time", version(name)))
        })
        .collect()
}

/// An identity without what tells two ways of writing it apart; an id as it is.
fn same(import: &str) -> String {
    let identity = serde_json::from_str::<BTreeMap<String, Json>>(import);
    identity.map_or_else(|_| import.into(), |identity| serde_json::json!(identity).to_string())
}

/// The type of a manifest that is ours, and its attributes.
fn split(
    catalog: Option<&Catalog>,
    manifest: &Manifest,
    inputs: &dyn Inputs,
    problems: &mut Vec<Problem>,
) -> Option<(Arc<str>, Node)> {
    let spec = &manifest.spec;
    if &*manifest.api_version != API_VERSION {
        let type_name = kind::type_of(catalog?, &manifest.api_version, &manifest.kind)?;
        // One entry called like the group is the one that is meant.
        let group = manifest.key.group();
        let is_meant = manifest.is_for(inputs.entry(), inputs.is_sole() || inputs.entry() == group);
        return is_meant.then(|| (type_name.clone(), spec.clone()));
    }
    let type_node = spec.get("type");
    let type_name = type_node.and_then(Node::as_str);
    let group = type_name.and_then(|name| name.split('_').next()).unwrap_or_default();
    if !manifest.is_for(inputs.entry(), inputs.is_sole() || inputs.entry() == group) {
        return None;
    }
    // Data is not made, so nothing is to be said of how.
    let keys = if *manifest.kind == *kind::DATA { &KEYS[..3] } else { &KEYS[..] };
    for (key, _) in spec.entries() {
        let word = key.as_str().unwrap_or_default();
        if !keys.contains(&word) {
            let problem = manifest.error(key.span, format!("unknown field `{word}`"));
            problems.push(match did_you_mean(word, keys.iter().copied()) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint(format!("there are: {}", keys.join(", "))),
            });
        }
    }
    let Some(type_name) = type_name else {
        let problem = manifest.error(spec.span, "field `type` is missing");
        problems.push(problem.hint("write the type of the resource, such as type: aws_sqs_queue"));
        return None;
    };
    let nothing = Node { span: spec.span, value: NodeValue::Map(Vec::new()) };
    Some((type_name.into(), spec.get("attributes").cloned().unwrap_or(nothing)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_the_same_in_whatever_order_it_is_written() {
        assert_eq!(same(r#"{"b": 1, "a": "x"}"#), same(r#"{ "a":"x","b":1 }"#));
        assert_ne!(same(r#"{"a": "x"}"#), same(r#"{"a": "y"}"#));
        assert_eq!(same("an id: {"), "an id: {");
    }
}
