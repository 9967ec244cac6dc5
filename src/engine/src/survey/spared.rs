//! What an entry says of many scopes at once, so that they need not be read one by one: that they are not there, or that they
//! are as they were seen a while ago.
//!
//! Guarantees: a scope is taken for absent on this word alone only where nothing is remembered of it, so that nothing is let go
//! of for it: all that may follow is a creation, which the provider refuses where the scope came to be (`Version::Absent` is a base
//! too). What went wrong in a scope is remembered: the next look reads it. Without an answer every scope is read: slower, never
//! wrong.

use super::{SurveyOptions, Surveyor, beside};
use crate::store::{ConditionKind, ScopeMemory};
use futures_util::FutureExt;
use reconciled_provider::{Error, Focus, Observation, Scope, Version};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Surveyor {
    /// What need not be read of `names`. `late` was seen after the last write, and too long ago to be believed by itself.
    pub(super) async fn spared(
        &self,
        names: &BTreeSet<Scope>,
        memories: &BTreeMap<Scope, ScopeMemory>,
        mut late: BTreeMap<Scope, Observation>,
        options: &SurveyOptions,
    ) -> BTreeMap<Scope, Result<Observation, Error>> {
        late.retain(|_, seen| matches!(seen.version, Version::At(_)) && !seen.version.stands_unasked());
        let is_new = |scope: &Scope| {
            let is_listed = self.entries[&scope.provider].observer.info().lists_scopes;
            // Who lists everything wants each scope read.
            is_listed && !options.refresh && memories.get(scope).is_none_or(ScopeMemory::is_blank)
        };
        let mut asked: BTreeMap<Arc<str>, Vec<Scope>> = BTreeMap::new();
        for scope in names.iter().filter(|scope| late.contains_key(*scope) || is_new(scope)) {
            asked.entry(scope.provider.clone()).or_default().push(scope.clone());
        }
        let jobs = asked.into_iter().map(|(entry, scopes)| (entry.clone(), (entry, scopes)));
        let ask = |(entry, scopes): (Arc<str>, Vec<Scope>)| {
            async move { self.versions_of(&entry, &scopes).await.unwrap_or_default() }.boxed()
        };
        let mut spared = BTreeMap::new();
        for (scope, version) in beside(jobs, |_| 1, ask).await.into_iter().flatten() {
            let seen = match late.remove(&scope) {
                Some(seen) => Some(seen).filter(|seen| seen.version == version),
                None => (version == Version::Absent).then(absent),
            };
            spared.extend(seen.map(|seen| (scope, Ok(seen))));
        }
        spared
    }
}

/// A scope that is not there, seen whole.
fn absent() -> Observation {
    Observation { covered: Focus::All, complete: true, version: Version::Absent, resources: Vec::new() }
}

impl ScopeMemory {
    /// True when nothing is remembered of the scope, no trouble either: at most that somebody keeps it from being made.
    fn is_blank(&self) -> bool {
        let is_kept = |kind| matches!(kind, ConditionKind::Held | ConditionKind::Suspended);
        !self.is_remembered()
            && self.consents.is_empty()
            && self.version.is_none()
            && self.conditions.iter().all(|condition| is_kept(condition.kind))
    }
}
