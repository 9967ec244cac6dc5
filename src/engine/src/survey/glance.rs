//! What can be known before the desired state is: memory, versions, and the contents of scopes that moved.
//!
//! Reading manifests and asking remotes have nothing to wait for in each other. A verb casts the glance while it
//! parses; the survey begins with it. It deliberately decides nothing.

use super::{SurveyOptions, Surveyor};
use crate::store::{ScopeMemory, Store};
use futures_util::{FutureExt, StreamExt, stream};
use reconciled_provider::{Error, Focus, Observation, Scope, Tracked, Version, Want};
use std::{collections::BTreeMap, panic::AssertUnwindSafe};

/// What a glance reads ahead of the desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Memory and versions.
    Nothing,
    /// Also remembered scopes whose version does not stand, where the remote can list without being told what to
    /// look for.
    Moved,
}

/// What was seen at a glance.
#[derive(Debug, Default)]
pub struct Glance {
    pub(super) memories: BTreeMap<Scope, ScopeMemory>,
    pub(super) versions: BTreeMap<Scope, Version>,
    pub(super) seen: BTreeMap<Scope, Result<Observation, Error>>,
}

impl Surveyor {
    /// Casts a glance. Errors: only the store's.
    pub async fn glance(
        &self,
        store: &dyn Store,
        options: &SurveyOptions,
        ahead: Ahead,
    ) -> Result<Glance, Error> {
        let mut glance = self.glance_at(store.all().await?, options).await;
        if ahead == Ahead::Moved {
            glance.seen = self.moved(&glance).await;
        }
        Ok(glance)
    }

    /// What can be known of these memories: the versions.
    pub(super) async fn glance_at(
        &self,
        memories: BTreeMap<Scope, ScopeMemory>,
        options: &SurveyOptions,
    ) -> Glance {
        let wanted = |scope: &Scope| options.only.as_ref().is_none_or(|only| only.contains(scope));
        let versions = self.versions(&memories, wanted, options).await;
        Glance { memories, versions, seen: BTreeMap::new() }
    }

    /// Asks each entry once for the versions of the scopes that have one remembered.
    async fn versions(
        &self,
        memories: &BTreeMap<Scope, ScopeMemory>,
        wanted: impl Fn(&Scope) -> bool,
        options: &SurveyOptions,
    ) -> BTreeMap<Scope, Version> {
        let mut all = BTreeMap::new();
        if options.refresh {
            return all;
        }
        for (name, entry) in &self.entries {
            let known = memories.iter().filter(|(scope, m)| scope.provider == *name && m.version.is_some());
            let asked: Vec<Scope> = known.map(|(scope, _)| scope.clone()).filter(|s| wanted(s)).collect();
            if asked.is_empty() {
                continue;
            }
            // Without versions every scope is listed: slower, never wrong.
            if let Ok(versions) =
                self.within(entry.observer.versions(&self.cx, &asked), "asking for versions").await
            {
                all.extend(versions);
            }
        }
        all
    }

    async fn moved(&self, glance: &Glance) -> BTreeMap<Scope, Result<Observation, Error>> {
        let moved = glance.memories.iter().filter(|(scope, memory)| {
            let lists = self.entries.get(&scope.provider).is_some_and(|e| e.observer.info().lists);
            let stands = memory.version.as_ref().map(|k| &k.version) == glance.versions.get(*scope);
            lists && memory.is_remembered() && !(stands && memory.version.is_some())
        });
        let width = self.entries.values().map(|e| e.observer.info().concurrency).max().unwrap_or(1).max(1);
        let reads = moved.map(|(scope, memory)| {
            async move {
                let tracked: Vec<Tracked> = memory.rows.iter().map(|row| row.tracked.clone()).collect();
                let want = Want { scope, focus: &Focus::All, desired: &[], tracked: &tracked, claims: &[] };
                let observer = &self.entries[&scope.provider].observer;
                let what = format!("reading {scope}");
                let read = AssertUnwindSafe(self.within(observer.observe(&self.cx, &want), &what));
                let seen = read.catch_unwind().await.unwrap_or_else(|_| {
                    Err(Error::unexpected(format!("{what} panicked"))
                        .hint("this is a bug in the provider; other scopes go on"))
                });
                (scope.clone(), seen)
            }
            .boxed()
        });
        // Boxed and gathered: a stream of closures over borrowed scopes is not `Send` for every lifetime.
        let reads = stream::iter(reads.collect::<Vec<_>>());
        reads.buffer_unordered(width).collect::<Vec<_>>().await.into_iter().collect()
    }
}
