//! From which documents a scope was planned: what tells an upgrade of this program from a commit.
//!
//! Kept by scope and manifest, not by row: one change of a manifest of 10,000 records is one change here.

use super::{exclusive, planner::Planner};
use crate::store::Row;
use reconciled_provider::{Hash, ManifestKey, ResourceId};
use std::collections::{BTreeMap, BTreeSet};

/// What changed of the documents since they were last remembered.
///
/// What was not planned whole is left out; a manifest that declares nothing here any more is kept as long as a row
/// names it, or its word is missing, because it may only be unreadable.
pub(super) fn changed(planner: &Planner<'_>, lapsed: &[Row]) -> Vec<(ManifestKey, Option<Hash>)> {
    let input = planner.input;
    let known = &input.memory.documents;
    let mut declared: BTreeMap<&ManifestKey, Option<Hash>> = BTreeMap::new();
    let mut last = None;
    for desired in input.desired.in_scope(input.scope) {
        if last.replace(desired.origin.manifest) == Some(desired.origin.manifest) {
            continue;
        }
        let Some(manifest) = input.desired.manifests.get(desired.origin.manifest as usize) else { continue };
        let is_whole =
            input.selection.targets.is_empty() && planner.selects(&manifest.address, Some(manifest));
        declared.insert(&manifest.key, is_whole.then_some(manifest.content));
    }
    let new =
        declared.iter().filter(|(key, document)| document.is_some() && known.get(**key) != document.as_ref());
    let mut changed: Vec<_> = new.map(|(key, document)| ((*key).clone(), *document)).collect();
    let (marks, silent): (Vec<&ManifestKey>, Vec<&ManifestKey>) =
        known.keys().filter(|key| !declared.contains_key(key)).partition(|key| exclusive::is_mark(key));
    if !marks.is_empty() && exclusive::is_over(input) {
        changed.extend(marks.into_iter().map(|mark| (mark.clone(), None)));
    }
    if !silent.is_empty() {
        let gone: BTreeSet<&ResourceId> = lapsed.iter().map(|row| &row.tracked.id).collect();
        let kept = input.memory.rows.iter().filter(|row| !gone.contains(&row.tracked.id));
        let named: BTreeSet<&ManifestKey> = kept.map(|row| &row.manifest).collect();
        let is_over = |key: &&ManifestKey| !named.contains(key) && !input.shared.silent.contains(*key);
        changed.extend(silent.into_iter().filter(is_over).map(|key| (key.clone(), None)));
    }
    changed
}
