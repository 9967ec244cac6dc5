//! What can be known before the desired state is: memory, versions, and the contents of scopes that moved.
//!
//! Reading manifests and asking remotes have nothing to wait for in each other. A verb casts the glance while it
//! parses; the survey begins with it. It deliberately decides nothing.

use super::{Seen, SurveyOptions, Surveyor, beside};
use crate::store::{KnownVersion, ScopeMemory, Store};
use futures_util::{
    FutureExt,
    future::{join, join_all},
};
use reconciled_provider::{Error, Observation, Scope, Version};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// What a glance reads ahead of the desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Memory and versions.
    Nothing,
    /// Also scopes whose remembered version does not stand, where the remote can list without being told what to
    /// look for.
    Moved,
}

/// What was seen at a glance.
#[derive(Debug, Default)]
pub struct Glance {
    pub(super) memories: BTreeMap<Scope, ScopeMemory>,
    pub(super) versions: BTreeMap<Scope, Version>,
    pub(super) seen: BTreeMap<Scope, Result<Observation, Error>>,
    /// What was seen too long ago to be believed before the remote was asked whether it stands.
    pub(super) late: BTreeMap<Scope, Observation>,
}

impl Glance {
    /// Takes what was read of scopes since the last call that may have changed them.
    pub(super) fn take(&mut self, seen: BTreeMap<Scope, Seen>, now: Duration) {
        for (scope, seen) in seen {
            match seen.fresh(now) {
                Ok(observation) => drop(self.seen.insert(scope, Ok(observation))),
                Err(observation) => drop(self.late.insert(scope, observation)),
            }
        }
    }
}

/// What remotes said just now of the scopes of theirs that are known, by entry: who looks at once does not ask these again. What one
/// did not say, nobody knows.
pub type Heard = BTreeMap<Arc<str>, BTreeMap<Scope, Version>>;

impl Surveyor {
    /// Casts a glance, as soon as it was `heard` what remotes say that are being asked already. Errors: only the store's.
    pub async fn glance(
        &self,
        store: &dyn Store,
        options: &SurveyOptions,
        ahead: Ahead,
        heard: impl Future<Output = Heard> + Send,
    ) -> Result<Glance, Error> {
        let mut known = store.versions().await?;
        known.retain(|scope, _| options.only.as_ref().is_none_or(|only| only.contains(scope)));
        let remote = async {
            let versions = self.versions(&known, options, &heard.await).await;
            let seen = match ahead {
                Ahead::Moved => self.moved(&known, &versions, options).await,
                Ahead::Nothing => BTreeMap::new(),
            };
            (versions, seen)
        };
        // Memory is read while remotes are asked: neither has to wait for the other.
        let (memories, (versions, seen)) = join(store.all(), remote).await;
        Ok(Glance { memories: memories?, versions, seen, ..Glance::default() })
    }

    /// What can be known of these memories: the versions.
    pub(super) async fn glance_at(
        &self,
        memories: BTreeMap<Scope, ScopeMemory>,
        options: &SurveyOptions,
    ) -> Glance {
        let wanted = |scope: &Scope| options.only.as_ref().is_none_or(|only| only.contains(scope));
        let known = memories.iter().filter(|(scope, _)| wanted(scope));
        let known = known.filter_map(|(scope, memory)| Some((scope.clone(), memory.version.clone()?)));
        let versions = self.versions(&known.collect(), options, &Heard::new()).await;
        Glance { memories, versions, ..Glance::default() }
    }

    /// What an entry's remote says of `scopes`, in as few calls as it can. Left out is what only stands between two looks.
    pub async fn versions_of(
        &self,
        entry: &str,
        scopes: &[Scope],
    ) -> Result<BTreeMap<Scope, Version>, Error> {
        let versions = self.entries[entry].observer.versions(&self.cx, scopes);
        let mut versions = self.within(versions, &format!("asking {entry} what moved")).await?;
        versions.retain(|_, version| !version.is_resting());
        Ok(versions)
    }

    /// Asks each entry once for the versions of the scopes that have one remembered, but for those that stand by themselves.
    async fn versions(
        &self,
        known: &BTreeMap<Scope, KnownVersion>,
        options: &SurveyOptions,
        heard: &Heard,
    ) -> BTreeMap<Scope, Version> {
        let now = self.cx.clock.now();
        let is_asked = |scope: &Scope| options.asked.as_ref().is_none_or(|asked| asked.contains(scope));
        let stands = |scope: &Scope, version: &Version| version.stands_at(now) && !is_asked(scope);
        let resting = known.iter().filter(|(scope, known)| stands(scope, &known.version));
        let mut all: BTreeMap<Scope, Version> =
            resting.map(|(scope, known)| (scope.clone(), known.version.clone())).collect();
        // To list everything is to be asked about everything, so far as there is a choice.
        let is_meant = |scope: &Scope, version: &Version| match version.is_resting() {
            true => !is_asked(scope),
            false => version.stands_until().is_none() && !options.refresh,
        };
        let mut calls = Vec::new();
        for (name, entry) in &self.entries {
            let asked = known
                .iter()
                .filter(|(scope, known)| scope.provider == *name && is_meant(scope, &known.version));
            let asked: Vec<Scope> = asked.map(|(scope, _)| scope.clone()).collect();
            if asked.is_empty() {
                continue;
            }
            if let Some(heard) = heard.get(name) {
                let told = |scope: Scope| heard.get(&scope).cloned().map(|version| (scope, version));
                all.extend(asked.into_iter().filter_map(told));
                continue;
            }
            calls.push(async move {
                self.within(entry.observer.versions(&self.cx, &asked), "asking for versions").await
            });
        }
        // Without versions every scope is listed: slower, never wrong.
        all.extend(join_all(calls).await.into_iter().flatten().flatten());
        all
    }

    async fn moved(
        &self,
        known: &BTreeMap<Scope, KnownVersion>,
        versions: &BTreeMap<Scope, Version>,
        options: &SurveyOptions,
    ) -> BTreeMap<Scope, Result<Observation, Error>> {
        let moved = known.iter().filter(|(scope, known)| {
            let is_apt = self.entries.get(&scope.provider).is_some_and(|e| e.observer.info().reads_ahead);
            is_apt && versions.get(*scope) != Some(&known.version)
        });
        // Gathered: what maps borrowed scopes is not `Send` for every lifetime.
        let scopes: Vec<_> = moved.map(|(scope, _)| (scope.provider.clone(), scope.clone())).collect();
        let list = |scope: Scope| {
            async move {
                let listed = self.list(&scope).await;
                (scope, listed)
            }
            .boxed()
        };
        beside(scopes, |entry| self.width(entry, options), list).await.into_iter().collect()
    }
}
