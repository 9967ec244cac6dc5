//! What a manifest takes from another one.

use crate::name::ManifestKey;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A reference to an output of another manifest: `${ADDRESS:path}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The manifest referred to.
    pub target: ManifestKey,
    /// Path into its outputs.
    pub path: Arc<str>,
}

impl Serialize for Reference {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&*self.target.0, &*self.path).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Reference, D::Error> {
        let (target, path) = <(String, String)>::deserialize(deserializer)?;
        Ok(Reference { target: ManifestKey(target.into()), path: path.into() })
    }
}
