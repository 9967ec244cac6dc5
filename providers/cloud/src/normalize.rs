//! Manifests to resources, by the schema of their type. Pure.

use crate::{
    catalog::Catalog,
    kind::{self, API_VERSION},
    schema::{canonical, config::Reader},
};
use reconciled_provider::{
    Hash, Inputs, Manifest, Node, Normalized, Policy, Problem, Resource, ResourceId, Scope, Spec,
    problem::did_you_mean, yaml::NodeValue,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::sync::Arc;

/// Annotation with the id of what exists already.
const IMPORT: &str = "reconciled/import";
/// Keys of a `terraform/v1 Resource`.
const KEYS: [&str; 3] = ["provider", "type", "attributes"];

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
pub(crate) fn normalize(catalog: Option<&Catalog>, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
    let mut out = Normalized::default();
    let Some((type_name, attributes)) = split(catalog, manifest, inputs, &mut out.problems) else {
        return out;
    };
    let Some(catalog) = catalog else { return out };
    let found = match catalog.resource(&type_name) {
        Ok(found) => found,
        Err(error) => {
            let span = manifest.spec.get("type").map_or(manifest.span, |node| node.span);
            let problem = manifest.error(span, error.message);
            out.problems.push(match error.hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            });
            return out;
        }
    };
    let source = (manifest, inputs);
    let mut reader = Reader::new(&source);
    let config = reader.block(&attributes, &found.schema.block, manifest.span, &[]);
    let (problems, waits_for) = (reader.problems, reader.waits_for);
    let is_wrong = problems.iter().any(Problem::is_error);
    out.problems.extend(problems);
    if is_wrong {
        return out;
    }
    let declared = Declared {
        config,
        ignore: manifest.policy.ignore.to_vec(),
        import: manifest.annotations.get(IMPORT).cloned(),
    };
    let written = Declared { config: canonical::without_marks(&declared.config), ..declared.clone() };
    let template = Hash::of(&written.bytes());
    let spec = match waits_for.is_empty() {
        true => Spec::resolved(declared.bytes(), template),
        false => Spec::Waiting { template, on: waits_for.into() },
    };
    let (scope, id): (Scope, ResourceId) =
        kind::place(inputs.entry(), &type_name, manifest.key.namespace(), &manifest.name);
    let deletion = manifest.policy.deletion.or_else(|| kind::default_deletion(&type_name));
    let policy = inputs.policy(Policy { deletion, ..manifest.policy.clone() });
    out.resources.push(Resource {
        id,
        scope: scope.into(),
        spec,
        origin: manifest.origin(manifest.span),
        policy,
    });
    out
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
    for (key, _) in spec.entries() {
        let word = key.as_str().unwrap_or_default();
        if !KEYS.contains(&word) {
            let problem = manifest.error(key.span, format!("unknown field `{word}`"));
            problems.push(match did_you_mean(word, KEYS) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint(format!("there are: {}", KEYS.join(", "))),
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
