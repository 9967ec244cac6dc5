//! The short way to "no changes": a revision that was found in sync stays so while the commit, all else that
//! decides the desired state, and the version of every scope stand. Then nothing needs to be parsed or listed.

use super::{open::Session, sources::Snapshot};
use crate::{failure::Failure, registry};
use futures_util::future::join_all;
use reconciled_engine::{
    Store,
    store::{Converged, KnownVersion},
    survey::Heard,
};
use reconciled_provider::{Hash, Scope, Version};
use std::{collections::BTreeMap, sync::Arc};

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

    /// What remotes say of all that is known, with one call for each entry. Left alone is one of which it is certain that it does not
    /// stand as a whole: what is to be asked of it is known later.
    pub async fn hear(&self, known: &BTreeMap<Scope, KnownVersion>) -> Heard {
        let can_stand = |version: &Version| matches!(version, Version::At(_)) && !version.stands_unasked();
        let ask = async |name: &Arc<str>| {
            let all: Vec<_> = known.iter().filter(|(scope, _)| scope.provider == *name).collect();
            if all.is_empty() || !all.iter().all(|(_, known)| can_stand(&known.version)) {
                return None;
            }
            let scopes: Vec<_> = all.iter().map(|(scope, _)| Scope::clone(scope)).collect();
            // Who could not say it now is not asked again: all of it is listed.
            Some((name.clone(), self.surveyor.versions_of(name, &scopes).await.unwrap_or_default()))
        };
        join_all(self.surveyor.entries.keys().map(ask)).await.into_iter().flatten().collect()
    }

    /// True where these are the revisions that were found in sync at these versions, and all else that decides the desired state is as
    /// it was.
    ///
    /// `known` was read before: where an apply was under way then, what it wrote to is not among them, and all may be in sync again by
    /// now. So they are compared with those that there are once the revisions are known to be in sync.
    pub async fn are_as_converged(
        &self,
        snapshots: &[Snapshot],
        known: &BTreeMap<Scope, KnownVersion>,
        store: &dyn Store,
    ) -> Result<bool, Failure> {
        // What is kept at an earlier revision is no part of the commit.
        let is_pinned = !store.pins().await?.is_empty();
        if is_pinned || !self.ailing().is_empty() || snapshots.iter().any(|s| s.behind.is_some()) {
            return Ok(false);
        }
        let inputs = self.inputs();
        for snapshot in snapshots {
            let expected =
                Converged { source: snapshot.name.clone(), commit: snapshot.revision.clone(), inputs };
            if store.converged(&snapshot.name).await?.as_ref() != Some(&expected) {
                return Ok(false);
            }
        }
        Ok(store.versions().await? == *known)
    }

    /// How all that is known here stands, where its remotes say that it does.
    pub fn stands(&self, known: &BTreeMap<Scope, KnownVersion>, heard: &Heard) -> Option<Standing> {
        let stands = |scope: &Scope, version: &Version| {
            heard.get(&scope.provider).and_then(|told| told.get(scope)) == Some(version)
        };
        let mut here = known.iter().filter(|(scope, _)| self.surveyor.entries.contains_key(&scope.provider));
        let all_stand = here.all(|(scope, known)| stands(scope, &known.version));
        all_stand.then(|| Standing { foreign: known.values().map(|known| known.foreign as usize).sum() })
    }

    /// What to remember once all of `snapshots` was found in sync; where not every scope had a version, that spares no later look.
    pub fn converged(&self, snapshots: &[&Snapshot], is_versioned: bool) -> Vec<Converged> {
        let inputs = if is_versioned { self.inputs() } else { Converged::LOOKED_AT };
        let of = |s: &&Snapshot| Converged { source: s.name.clone(), commit: s.revision.clone(), inputs };
        snapshots.iter().filter(|s| !s.revision.is_empty()).map(of).collect()
    }
}
