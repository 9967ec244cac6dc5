//! What one entry makes of one manifest: the answer that everything after it works with.

use reconciled_provider::{ManifestKey, Place, Problem, Resource, ResourceId, Scope};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// A file and the id of its content, if it is there.
pub(super) type Blob = (Arc<str>, Option<[u8; 20]>);

/// What one entry made of one manifest.
pub(super) struct Taken {
    pub(super) unit: usize,
    pub(super) product: Arc<Product>,
    /// It may belong to a scope that others declare.
    pub(super) asked_for_scopes: bool,
    /// Other files it was made from, with the ids of their contents.
    pub(super) blobs: Vec<Blob>,
}

/// Resources and problems; origins hold the index the manifest had in the load that made them.
#[derive(Debug, Default)]
pub(super) struct Product {
    /// Shared with the desired set where nothing else is of their scope.
    pub(super) resources: Arc<Vec<Resource>>,
    /// Where in `resources` those of one scope are that come in a row, each sorted by id.
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

/// Sorts by id those of one scope that come in a row; returns where they are. Equal ids keep their order.
pub(super) fn sort_runs(resources: &mut [Resource]) -> Vec<(Arc<Scope>, Range<usize>)> {
    let runs = runs(resources);
    for (_, range) in &runs {
        resources[range.clone()].sort_by(|a, b| a.id.cmp(&b.id));
    }
    runs
}

fn runs(resources: &[Resource]) -> Vec<(Arc<Scope>, Range<usize>)> {
    let same = |a: &Resource, b: &Resource| Arc::ptr_eq(&a.scope, &b.scope) || a.scope == b.scope;
    let mut from = 0;
    let run = |run: &[Resource]| {
        let range = from..from + run.len();
        from = range.end;
        (run[0].scope.clone(), range)
    };
    resources.chunk_by(same).map(run).collect()
}
