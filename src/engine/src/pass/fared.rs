//! What a pass remembers of how things fare: health, drift, and up to which generation it looked.
//!
//! Guarantees: pure; a pass that finds nothing new yields no write.

use super::Engine;
use crate::{
    health,
    store::{OF_MANIFEST, Write},
    survey::View,
};
use reconciled_provider::{ManifestKey, Scope};
use std::collections::BTreeMap;

impl Engine {
    /// Adds what changed of health and of the generations looked at. Returns whether health did.
    pub(super) fn fared(
        &self,
        scope: &Scope,
        view: &View,
        generations: &BTreeMap<ManifestKey, u64>,
        writes: &mut Vec<Write>,
    ) -> bool {
        let generation = |key| generations.get(key).map_or(0, |generation| generation & OF_MANIFEST);
        let newest = view.looked_at.iter().map(generation).max().unwrap_or(0);
        if newest > view.memory.looked_at {
            writes.push(Write::LookedAt(scope.clone(), newest));
        }
        health::write(scope, &view.memory.ailments, &view.health.ailments, writes)
    }
}
