//! What resources of other manifests put out, as far as loading asks for it.

use reconciled_provider::{ManifestKey, Reference, Secret};
use std::sync::Arc;

/// What a reference to an output comes to.
#[derive(Clone, Debug)]
pub enum Output {
    /// A value that anybody may see.
    Text(Arc<str>),
    /// One that nobody may see.
    Secret(Secret),
    /// It will be known after apply.
    Unknown,
}

impl Output {
    /// The value, if anybody may see it.
    pub(super) fn text(self) -> Option<Arc<str>> {
        match self {
            Output::Text(text) => Some(text),
            Output::Secret(_) | Output::Unknown => None,
        }
    }
}

/// What other resources put out.
pub trait Outputs {
    /// The value of one output, if it is there.
    fn get(&self, reference: &Reference) -> Output;
    /// What is put out by a manifest whose outputs are known, for "did you mean".
    fn names(&self, manifest: &ManifestKey) -> Vec<String>;
    /// True when the manifest is in sync, so that it puts out all it ever does.
    fn is_settled(&self, manifest: &ManifestKey) -> bool;
}

/// No output is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOutputs;

impl Outputs for NoOutputs {
    fn get(&self, _: &Reference) -> Output {
        Output::Unknown
    }
    fn names(&self, _: &ManifestKey) -> Vec<String> {
        Vec::new()
    }
    fn is_settled(&self, _: &ManifestKey) -> bool {
        false
    }
}
