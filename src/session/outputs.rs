//! What resources put out, as far as manifests refer to it: read from the inventory, put in place by the loader.

use super::{Failure, Outlook, Session};
use crate::manifest::{Output, Outputs, output_at};
use reconciled_engine::{Store, ready};
use reconciled_provider::{Hash, ManifestKey, Reference};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};

/// The outputs of the manifests that others refer to. Not printed: an output may be anything.
#[derive(Clone, Default, PartialEq)]
pub struct KnownOutputs {
    all: BTreeMap<ManifestKey, Map<String, Json>>,
    /// Those of them that are in sync: what they do not put out by now they never do.
    settled: BTreeSet<ManifestKey>,
}

impl KnownOutputs {
    /// Reads the outputs of `manifests`.
    pub(super) async fn read(
        manifests: impl IntoIterator<Item = ManifestKey>,
        store: &dyn Store,
    ) -> Result<KnownOutputs, Failure> {
        let mut known = KnownOutputs::default();
        for manifest in manifests {
            let rows = store.rows_with_outputs(&manifest).await?;
            if store.is_settled(&manifest).await? {
                known.settled.insert(manifest.clone());
            }
            known.all.insert(manifest, ready::outputs_of(&rows));
        }
        Ok(known)
    }

    /// True when nobody refers to an output.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The manifests that others refer to.
    pub fn manifests(&self) -> BTreeSet<&ManifestKey> {
        self.all.keys().collect()
    }

    /// What tells them apart from others, by manifest.
    pub(super) fn hashes(&self) -> BTreeMap<ManifestKey, Hash> {
        self.all.iter().map(|(key, outputs)| (key.clone(), ready::hash_of_outputs(outputs))).collect()
    }

    /// True when any output at all is known, or that there is none.
    pub(super) fn says_something(&self) -> bool {
        !self.settled.is_empty() || self.all.values().any(|outputs| !outputs.is_empty())
    }
}

impl Outputs for KnownOutputs {
    fn get(&self, reference: &Reference) -> Output {
        let outputs = self.all.get(&reference.target).cloned().map(Json::Object);
        outputs.map_or(Output::Unknown, |outputs| output_at(&outputs, &reference.path))
    }
    fn names(&self, manifest: &ManifestKey) -> Vec<String> {
        self.all.get(manifest).into_iter().flat_map(|outputs| outputs.keys().cloned()).collect()
    }
    fn is_settled(&self, manifest: &ManifestKey) -> bool {
        self.settled.contains(manifest)
    }
}

impl Session {
    /// Puts outputs in place that came about or changed since `outlook` was loaded; true when there were any.
    pub async fn renew(&self, outlook: &mut Outlook, store: &dyn Store) -> Result<bool, Failure> {
        if !self.has_news(&outlook.outputs, store).await? {
            return Ok(false);
        }
        let snapshots = std::mem::take(&mut outlook.snapshots);
        let new = self.load(snapshots, store).await?;
        // What was wrong with a revision that is withheld is not seen in the one that is in its place.
        let withheld = std::mem::take(&mut outlook.withheld);
        let (reported, broken) = match withheld.is_empty() {
            true => (new.reported, new.broken),
            false => (std::mem::take(&mut outlook.reported), std::mem::take(&mut outlook.broken)),
        };
        *outlook = Outlook { reported, broken, withheld, ..new };
        Ok(true)
    }

    /// True when the inventory knows other outputs than `known`.
    pub async fn has_news(&self, known: &KnownOutputs, store: &dyn Store) -> Result<bool, Failure> {
        if known.is_empty() {
            return Ok(false);
        }
        Ok(KnownOutputs::read(known.all.keys().cloned(), store).await? != *known)
    }
}
