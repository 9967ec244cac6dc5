//! What loading came to: the desired state, all problems, and what was asked for on the way.

use super::secrets::KnownSecrets;
use reconciled_engine::Desired;
use reconciled_provider::{ManifestKey, Problem, Reference, ResourceId, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What loading came to.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The desired state; without what is broken or withheld.
    pub desired: Desired,
    /// All problems, sorted by source, file and line.
    pub problems: Vec<Reported>,
    /// Sources with `onInvalid: hold` that have an error, or with an encrypted file that was tampered with: nothing of this revision may come into force.
    pub withheld: BTreeSet<Arc<str>>,
    /// Sources with something that was not checked here: files that could not be read, and manifests that other hosts
    /// make something of as well.
    pub unchecked: BTreeSet<Arc<str>>,
    /// What more than one source declares, also by names of their own. Who tracks it owns it; with [`Request::owners`](super::Request::owners) loading again tells.
    pub contested: BTreeSet<(Scope, ResourceId)>,
    /// What manifests share (`merge: true`) that do not count.
    pub shared_aside: BTreeMap<(Scope, ResourceId), BTreeSet<ManifestKey>>,
    /// Outputs that were asked for. With [`Request::outputs`](super::Request::outputs) loading again puts their values in place.
    pub outputs: BTreeSet<Reference>,
    /// Secrets that were asked for.
    pub secrets: KnownSecrets,
    /// How much was read.
    pub counts: Counts,
}

impl Loaded {
    /// True when something is an error.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|reported| reported.problem.is_error())
    }
}

/// A problem and the source it was found in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Name of the source.
    pub source: Arc<str>,
    /// The problem; its place is a path within the source.
    pub problem: Problem,
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files with manifests.
    pub files: usize,
    /// Files parsed in this load.
    pub parsed: usize,
    /// Files that were not parsed because their content stands in the cache.
    pub reused: usize,
    /// Manifests, desired or not.
    pub manifests: usize,
    /// Normalizations done in this load.
    pub normalized: usize,
    /// Normalizations taken from the cache.
    pub kept: usize,
    /// Documents that are no manifests.
    pub skipped_documents: usize,
    /// YAML files that are excluded.
    pub excluded_files: usize,
}
