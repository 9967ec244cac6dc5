//! The short way to "no changes": a revision that was found in sync stays so while the commit, all else that
//! decides the desired state, and the version of every scope stand. Then nothing needs to be parsed or listed.

use super::{desired::Ask, open::Session, sources::Snapshot};
use crate::{failure::Failure, registry};
use reconciled_engine::{Store, store::Converged, survey::Heard};
use reconciled_provider::{Hash, Version};
use std::collections::BTreeMap;

/// Everything stands as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Foreign resources, as counted when the scopes were last listed.
    pub foreign: usize,
}

impl Session {
    /// What must stand besides the commit: the configuration file, the surroundings, this program.
    pub fn inputs(&self) -> Hash {
        let normalizers: Vec<String> =
            registry::types().iter().map(|t| format!("{} {}", t.name, t.info.normalizer)).collect();
        let parts = [
            &*self.config.file.text,
            &*self.config.host.name,
            env!("CARGO_PKG_VERSION"),
            &normalizers.join(" "),
        ];
        Hash::of(parts.join("\0").as_bytes())
    }

    /// Asks whether everything stands, with one call for each entry; none when that cannot be told so cheaply. What the remotes
    /// said is in `heard`.
    pub async fn stands(
        &self,
        ask: &Ask,
        snapshots: &[Snapshot],
        store: &dyn Store,
        heard: &mut Heard,
    ) -> Result<Option<Standing>, Failure> {
        let whole = ask.selection.is_all() && !ask.refresh && ask.folder.is_none() && ask.source.is_none();
        // What is kept at an earlier revision is no part of the commit.
        let is_pinned = !store.pins().await?.is_empty();
        if !whole || is_pinned || !self.ailing().is_empty() || snapshots.iter().any(|s| s.behind.is_some()) {
            return Ok(None);
        }
        let inputs = self.inputs();
        for snapshot in snapshots {
            let expected =
                Converged { source: snapshot.name.clone(), commit: snapshot.revision.clone(), inputs };
            if store.converged(&snapshot.name).await?.as_ref() != Some(&expected) {
                return Ok(None);
            }
        }
        let known: BTreeMap<_, _> = store.versions().await?.into_iter().collect();
        for name in self.surveyor.entries.keys() {
            let scopes: Vec<_> = known.keys().filter(|s| s.provider == *name).cloned().collect();
            if scopes.is_empty() {
                continue;
            }
            let Ok(now) = self.surveyor.versions_of(name, &scopes).await else { return Ok(None) };
            let stands = |scope| {
                matches!(now.get(scope), Some(Version::At(_)))
                    && now.get(scope) == known.get(scope).map(|k| &k.version)
            };
            let all_stand = scopes.iter().all(stands);
            // Where not all is told, the rest is asked for.
            if scopes.iter().all(|scope| now.contains_key(scope)) {
                heard.insert(name.clone(), now);
            }
            if !all_stand {
                return Ok(None);
            }
        }
        Ok(Some(Standing { foreign: known.values().map(|k| k.foreign as usize).sum() }))
    }

    /// What to remember once all of `snapshots` was found in sync; where not every scope had a version, that spares no later look.
    pub fn converged(&self, snapshots: &[&Snapshot], is_versioned: bool) -> Vec<Converged> {
        let inputs = if is_versioned { self.inputs() } else { Converged::LOOKED_AT };
        let of = |s: &&Snapshot| Converged { source: s.name.clone(), commit: s.revision.clone(), inputs };
        snapshots.iter().filter(|s| !s.revision.is_empty()).map(of).collect()
    }
}
