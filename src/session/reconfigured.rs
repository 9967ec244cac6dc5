//! What the configuration of the host makes another thing of, with the commit as it was.
//!
//! Guarantees: only where the commit of a source is the one in force. Manifests of one source refer to none of another, so
//! nobody else's commit changes what they come to. It deliberately does not say what of the configuration did it.

use crate::failure::Failure;
use reconciled_engine::{Desired, Store};
use reconciled_provider::{Hash, ManifestKey};
use std::collections::BTreeMap;

/// The manifests of `desired` that are another thing than when their commit came into force, with what they were then.
pub(super) async fn reconfigured(
    desired: &Desired,
    store: &dyn Store,
) -> Result<BTreeMap<ManifestKey, Hash>, Failure> {
    let mut found = BTreeMap::new();
    for (name, source) in desired.sources.iter().filter(|(_, source)| !source.revision.is_empty()) {
        let of_source = || desired.manifests.iter().filter(|manifest| manifest.key.source() == &**name);
        let in_force = store.in_force(name).await?;
        if in_force.is_none_or(|revision| revision.commit != source.revision) {
            continue;
        }
        let was: BTreeMap<ManifestKey, Hash> = store.contents(name).await?.into_iter().collect();
        let differs = |key: &ManifestKey, content: Hash| was.get(key).filter(|was| **was != content);
        found.extend(of_source().filter_map(|manifest| {
            differs(&manifest.key, manifest.content).map(|was| (manifest.key.clone(), *was))
        }));
    }
    Ok(found)
}
