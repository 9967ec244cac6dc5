//! What is kept from one load to the next: envelopes by blob, normalizations by blob and inputs.
//!
//! No tree is kept. An entry is used only if everything it came from is equal: the blob, the values put in
//! the place of `${…}`, and each recorded use of other inputs.

use super::{
    envelope::{Document, Verbatim},
    inputs::Uses,
};
use reconciled_provider::{
    Hash, Kinds, ManifestKey, Observer, Place, Policies, Problem, Resource, ResourceId, Scope,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    sync::{Arc, Weak},
};

/// Results of earlier loads. Belongs to one set of sources and entries.
#[derive(Debug, Default)]
pub struct Cache {
    pub(super) files: HashMap<FileKey, CachedFile>,
    pub(super) outcomes: HashMap<OutcomeKey, Outcome>,
    pub(super) lints: HashMap<Scope, super::lint::Known>,
    pub(super) lists: HashMap<Scope, List>,
    /// Grows only: the policy ids in `outcomes` stay valid.
    pub(super) policies: Policies,
    /// The verbatim fields that envelopes were read with.
    pub(super) verbatim: Verbatim,
}

/// Source and path: problems name the path, so equal blobs elsewhere are other entries.
pub(super) type FileKey = (Arc<str>, Arc<str>);

#[derive(Clone, Debug)]
pub(super) struct CachedFile {
    pub(super) oid: [u8; 20],
    pub(super) parsed: Arc<ParsedFile>,
}

/// A file without its trees.
#[derive(Debug, Default)]
pub(super) struct ParsedFile {
    pub(super) documents: Vec<Arc<Document>>,
    pub(super) problems: Vec<Problem>,
    pub(super) skipped: usize,
    /// An error left fewer documents than there are.
    pub(super) is_short: bool,
}

/// Source, path, number of the manifest in the file, entry.
pub(super) type OutcomeKey = (Arc<str>, Arc<str>, usize, Arc<str>);

/// What one entry made of one manifest, and from what.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) oid: [u8; 20],
    /// Hash of content and substituted values.
    pub(super) input: Hash,
    pub(super) observer: Weak<dyn Observer>,
    pub(super) normalizer: u32,
    pub(super) kinds: Weak<Kinds>,
    pub(super) is_sole: bool,
    pub(super) uses: Uses,
    /// Scopes it declares by itself, without knowing those of others.
    pub(super) scopes: Arc<BTreeSet<Scope>>,
    pub(super) product: Arc<Product>,
}

/// Resources and problems; origins hold the index the manifest had in the load that made them.
#[derive(Debug, Default)]
pub(super) struct Product {
    pub(super) resources: Vec<Resource>,
    /// Where in `resources` those of one scope are that come in a row.
    pub(super) runs: Vec<(Arc<Scope>, Range<usize>)>,
    /// Where those stand that are declared in an included file.
    pub(super) places: BTreeMap<(Arc<Scope>, ResourceId), Place>,
    pub(super) exclusive: Vec<Scope>,
    pub(super) ignored: Vec<(Scope, Arc<str>)>,
    /// What the remote calls them, where a manifest says so.
    pub(super) remotes: Vec<(Arc<Scope>, ResourceId, Arc<str>)>,
    /// What of this host each has for itself.
    pub(super) on_host: Vec<(Arc<Scope>, ResourceId, Arc<str>)>,
    /// Those that it declares for other hosts.
    pub(super) unselected: Vec<(Arc<Scope>, ResourceId)>,
    /// Scopes that it contributes to, and that only these manifests declare, of which nothing is made here.
    pub(super) absent: Vec<(Scope, ManifestKey)>,
    /// Those that it declares in a scope that is not known.
    pub(super) unsettled: Vec<(Arc<Scope>, ResourceId)>,
    pub(super) problems: Vec<Problem>,
    /// A secret could not be had: what is wrong may be that alone.
    pub(super) lacks_secret: bool,
    /// It belongs to the entry, although nothing may come of it.
    pub(super) is_taken: bool,
    /// What it contributes to may be declared where nothing can be read.
    pub(super) is_unsure: bool,
}

/// The resources of one scope, each declared once, and what they were made from.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) runs: Vec<Run>,
    pub(super) resources: Arc<Vec<Resource>>,
}

/// Resources of one scope that come in a row.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Held, so that no other product can come to lie at the same address.
    pub(super) product: Arc<Product>,
    pub(super) range: Range<usize>,
    /// The index of the manifest.
    pub(super) manifest: u32,
}

impl PartialEq for Run {
    fn eq(&self, other: &Run) -> bool {
        Arc::ptr_eq(&self.product, &other.product)
            && (&self.range, self.manifest) == (&other.range, other.manifest)
    }
}

/// Where resources of one scope come in a row.
pub(super) fn runs(resources: &[Resource]) -> Vec<(Arc<Scope>, Range<usize>)> {
    let same = |a: &Resource, b: &Resource| Arc::ptr_eq(&a.scope, &b.scope) || a.scope == b.scope;
    let mut from = 0;
    let run = |run: &[Resource]| {
        let range = from..from + run.len();
        from = range.end;
        (run[0].scope.clone(), range)
    };
    resources.chunk_by(same).map(run).collect()
}

impl Product {
    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty()
            && self.exclusive.is_empty()
            && self.problems.is_empty()
            && self.unselected.is_empty()
            && self.absent.is_empty()
            && self.unsettled.is_empty()
            && !self.is_taken
    }
}
