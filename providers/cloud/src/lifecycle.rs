//! `spec.lifecycle`: how a resource is replaced, and because of what.

use crate::schema::{Block, canonical};
use reconciled_provider::{
    Manifest, Node, Problem, Reference,
    problem::did_you_mean,
    yaml::{NodeValue, ScalarKind},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// The key below `spec`. Terraform reserves the word too, so hardly a type has such an attribute.
pub(crate) const LIFECYCLE: &str = "lifecycle";
const BEFORE: &str = "createBeforeDestroy";
const TRIGGERS: &str = "replaceTriggeredBy";

/// What a manifest says of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lifecycle {
    /// The new one is made before the old one is deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) create_before_destroy: bool,
    /// Values that it is replaced with when one of them changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) triggers: Vec<Json>,
}

impl Lifecycle {
    /// True where nothing is said.
    pub(crate) fn is_default(&self) -> bool {
        *self == Lifecycle::default()
    }
    /// The values, where there are any: what is remembered with the resource that was made with them.
    pub(crate) fn made_with(&self) -> Option<Vec<Json>> {
        (!self.triggers.is_empty()).then(|| self.triggers.clone())
    }
}

/// True where `lifecycle` is no attribute of the type itself.
pub(crate) fn is_ours(block: &Block) -> bool {
    !block.attributes.contains_key(LIFECYCLE) && !block.blocks.contains_key(LIFECYCLE)
}

/// Reads it.
pub(crate) fn read(
    node: &Node,
    manifest: &Manifest,
    problems: &mut Vec<Problem>,
    waits_for: &mut Vec<Reference>,
) -> Lifecycle {
    let mut found = Lifecycle::default();
    if !matches!(node.value, NodeValue::Map(_) | NodeValue::Null) {
        let text = format!("expected a mapping for `lifecycle`, found {}", node.describe());
        problems.push(manifest.error(node.span, text));
    }
    for (key, value) in node.entries() {
        match key.as_str().unwrap_or_default() {
            BEFORE => match &value.value {
                NodeValue::Scalar(text, ScalarKind::Bool) => found.create_before_destroy = &**text == "true",
                _ => {
                    let text = format!("expected true or false for `{BEFORE}`, found {}", value.describe());
                    problems.push(manifest.error(value.span, text));
                }
            },
            TRIGGERS => found.triggers = triggers(value, manifest, problems, waits_for),
            other => {
                let problem = manifest.error(key.span, format!("unknown field `{other}` of lifecycle"));
                problems.push(match did_you_mean(other, [BEFORE, TRIGGERS]) {
                    Some(near) => problem.hint(format!("did you mean `{near}`?")),
                    None => problem.hint(format!("there are: {BEFORE}, {TRIGGERS}")),
                });
            }
        }
    }
    found
}

fn triggers(
    node: &Node,
    manifest: &Manifest,
    problems: &mut Vec<Problem>,
    waits_for: &mut Vec<Reference>,
) -> Vec<Json> {
    let NodeValue::Seq(all) = &node.value else {
        let text = format!("expected a list for `{TRIGGERS}`, found {}", node.describe());
        let hint = "write values: replaceTriggeredBy: [\"${SqsQueue.aws/jobs:status.arn}\"]";
        problems.push(manifest.error(node.span, text).hint(hint));
        return Vec::new();
    };
    let mut found = Vec::new();
    for one in all {
        match &one.value {
            NodeValue::Scalar(text, ScalarKind::Unknown(on)) => {
                waits_for.extend(on.iter().cloned());
                found.push(canonical::unknown(text));
            }
            NodeValue::Scalar(text, _) => found.push(Json::String(text.to_string())),
            _ => {
                let text = format!("expected a value in `{TRIGGERS}`, found {}", one.describe());
                problems.push(manifest.error(one.span, text));
            }
        }
    }
    found
}

/// Its JSON Schema.
pub(crate) fn schema() -> Json {
    json!({
        "type": "object",
        "description": "How it is replaced, and because of what",
        "properties": {
            BEFORE: {
                "type": "boolean",
                "description": "Make the new one before the old one is deleted",
            },
            TRIGGERS: {
                "type": "array",
                "items": { "type": "string" },
                "description": "Values, such as outputs of others: when one changes, it is replaced",
            },
        },
        "additionalProperties": false,
    })
}
