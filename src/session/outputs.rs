//! What resources put out, as far as manifests refer to it: read from the inventory, put in place by the loader.

use super::open::Session;
use crate::{
    failure::Failure,
    manifest::{Output, Outputs, output_at},
};
use reconciled_engine::{Desired, Pin, PutOut, Store, pin::Standing, ready};
use reconciled_provider::{ManifestKey, Reference, ResourceId, Scope};
use serde_json::{Map, Value as Json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The outputs of the manifests that others refer to. Not printed: an output may be anything.
#[derive(Clone, Default, PartialEq)]
pub struct KnownOutputs {
    all: BTreeMap<ManifestKey, Map<String, Json>>,
    /// Those of them that are in sync: what they do not put out by now they never do.
    settled: BTreeSet<ManifestKey>,
    /// Where each of them declares something.
    declared: BTreeMap<ManifestKey, BTreeSet<Scope>>,
    /// The manifests that what they declare is tracked for, where they are of a folder that stands for no source.
    tracked_for: BTreeMap<ManifestKey, ManifestKey>,
}

impl KnownOutputs {
    /// Reads the outputs of `manifests`, as `desired`, the newest revisions, and what is pinned `now` declare them.
    pub(super) async fn read(
        manifests: &BTreeSet<ManifestKey>,
        desired: &Desired,
        store: &dyn Store,
        now: Duration,
    ) -> Result<KnownOutputs, Failure> {
        if manifests.is_empty() {
            return Ok(KnownOutputs::default());
        }
        let mut pins = store.pins().await?;
        pins.retain(|pin| {
            desired.sources.contains_key(pin.manifest.source())
                && pin.standing(desired, now) == Standing::Kept
        });
        KnownOutputs::read_with(manifests, desired, &pins, store).await
    }

    /// Reads those of more `manifests` as well, which only what is pinned refers to; true when they say anything. `kept` is all that is
    /// pinned, whether it was put back into `desired` already or not.
    pub(super) async fn read_more(
        &mut self,
        manifests: &BTreeSet<ManifestKey>,
        desired: &Desired,
        kept: &[Pin],
        store: &dyn Store,
    ) -> Result<bool, Failure> {
        let more = KnownOutputs::read_with(manifests, desired, kept, store).await?;
        let says_something = more.says_something();
        self.all.extend(more.all);
        self.settled.extend(more.settled);
        self.declared.extend(more.declared);
        self.tracked_for.extend(more.tracked_for);
        Ok(says_something)
    }

    async fn read_with(
        manifests: &BTreeSet<ManifestKey>,
        desired: &Desired,
        pins: &[Pin],
        store: &dyn Store,
    ) -> Result<KnownOutputs, Failure> {
        let declared = places(manifests, desired, pins);
        let tracked_for = tracked_for(&declared, desired, store).await?;
        KnownOutputs::read_of(declared, tracked_for, store).await
    }

    /// Reads the outputs of manifests that declare something in these scopes.
    async fn read_of(
        declared: BTreeMap<ManifestKey, BTreeSet<Scope>>,
        tracked_for: BTreeMap<ManifestKey, ManifestKey>,
        store: &dyn Store,
    ) -> Result<KnownOutputs, Failure> {
        let mut known = KnownOutputs::default();
        for (manifest, scopes) in &declared {
            let tracked = tracked_for.get(manifest).unwrap_or(manifest);
            let rows = store.rows_with_outputs(tracked).await?;
            known.all.insert(manifest.clone(), ready::outputs_of(&rows, |scope| scopes.contains(scope)));
            // Where only what it declared before is there, that it is in sync says nothing of what is to come.
            let has_moved =
                !scopes.is_empty() && !rows.is_empty() && !rows.iter().any(|row| scopes.contains(&row.scope));
            if !has_moved && store.is_settled(tracked).await? {
                known.settled.insert(manifest.clone());
            }
        }
        Ok(KnownOutputs { declared, tracked_for, ..known })
    }

    /// True when nobody refers to an output.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The manifests that others refer to.
    pub fn manifests(&self) -> BTreeSet<&ManifestKey> {
        self.all.keys().collect()
    }

    /// What tells them apart from others, and where they were looked for, by the manifest that they are tracked for.
    pub(super) fn put_out(&self) -> BTreeMap<ManifestKey, PutOut> {
        let put_out = |(key, outputs): (&ManifestKey, &Map<String, Json>)| {
            let declared_in = self.declared.get(key).cloned().unwrap_or_default();
            let key = self.tracked_for.get(key).unwrap_or(key);
            (key.clone(), PutOut { hash: ready::hash_of_outputs(outputs), declared_in })
        };
        self.all.iter().map(put_out).collect()
    }

    /// True when any output at all is known, or that there is none.
    pub(super) fn says_something(&self) -> bool {
        !self.settled.is_empty() || self.all.values().any(|outputs| !outputs.is_empty())
    }
}

/// Where each of `manifests` declares something. What is pinned is declared where an earlier revision had it, and is put back
/// only after this.
fn places(
    manifests: &BTreeSet<ManifestKey>,
    desired: &Desired,
    pins: &[Pin],
) -> BTreeMap<ManifestKey, BTreeSet<Scope>> {
    let mut found: BTreeMap<ManifestKey, BTreeSet<Scope>> =
        manifests.iter().map(|key| (key.clone(), BTreeSet::new())).collect();
    let meant: Vec<Option<&ManifestKey>> =
        desired.manifests.iter().map(|manifest| manifests.get(&manifest.key)).collect();
    let pinned: BTreeSet<(&Scope, &ResourceId)> = pins.iter().map(|pin| (&pin.scope, &pin.id)).collect();
    for (scope, resources) in &desired.scopes {
        for resource in resources.iter().filter(|resource| !pinned.contains(&(scope, &resource.id))) {
            let key = meant.get(resource.origin.manifest as usize).copied().flatten();
            if let Some(scopes) = key.and_then(|key| found.get_mut(key))
                && !scopes.contains(scope)
            {
                scopes.insert(scope.clone());
            }
        }
    }
    for pin in pins.iter().filter(|pin| pin.declared) {
        if let Some(scopes) = found.get_mut(pin.heir(desired).unwrap_or(&pin.manifest)) {
            scopes.insert(pin.scope.clone());
        }
    }
    found
}

/// The manifests that others track for what a folder declares that stands for no source: it only tries that out, so that what
/// it refers to is put out by them.
async fn tracked_for(
    declared: &BTreeMap<ManifestKey, BTreeSet<Scope>>,
    desired: &Desired,
    store: &dyn Store,
) -> Result<BTreeMap<ManifestKey, ManifestKey>, Failure> {
    let tries_out = |key: &ManifestKey| {
        let source = desired.sources.get(key.source());
        source.is_some_and(|source| !source.prunes && source.revision.is_empty())
    };
    let meant = declared.iter().filter(|(key, _)| tries_out(key));
    // Many of them may be in one.
    let scopes: BTreeSet<&Scope> = meant.flat_map(|(_, scopes)| scopes).collect();
    let mut found: BTreeMap<ManifestKey, ManifestKey> = BTreeMap::new();
    for scope in scopes {
        let rows = store.scope(scope).await?.rows;
        for resource in desired.in_scope(scope) {
            let key = &desired.manifest(resource.origin).key;
            if found.contains_key(key) || !declared.contains_key(key) || !tries_out(key) {
                continue;
            }
            let row = rows.binary_search_by(|row| row.tracked.id.cmp(&resource.id)).map(|at| &rows[at]);
            if let Ok(row) = row
                && row.manifest != *key
            {
                found.insert(key.clone(), row.manifest.clone());
            }
        }
    }
    Ok(found)
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
    /// True when the inventory knows other outputs than `known`.
    pub async fn has_news(&self, known: &KnownOutputs, store: &dyn Store) -> Result<bool, Failure> {
        if known.is_empty() {
            return Ok(false);
        }
        let now = KnownOutputs::read_of(known.declared.clone(), known.tracked_for.clone(), store).await?;
        Ok(now != *known)
    }
}
