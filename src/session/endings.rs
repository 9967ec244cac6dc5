//! What ends at a time that is known, over all entries: for metrics, and to tell persons in time.

use super::{
    open::{Session, context, secrets_of},
    state::HostState,
};
use crate::{config::Environment, failure::Failure, registry, store::Seal};
use reconciled_provider::{Cx, Ending, Observer, Provider, Scope};
use std::{collections::BTreeMap, sync::Arc};

impl Session {
    /// What of these scopes ends, and when. What cannot be told now is left out: the pass over it says why.
    pub async fn endings(&self, scopes: impl IntoIterator<Item = Scope>) -> Vec<(Scope, Ending)> {
        let mut all = Vec::new();
        for scope in scopes {
            let Some(entry) = self.surveyor.entries.get(&scope.provider) else { continue };
            all.extend(of_scope(&*entry.observer, &self.surveyor.cx, &scope).await);
        }
        all
    }
}

impl HostState {
    /// As [`Session::endings`]. Entries are made for this alone and not asked for their kinds, so that no program is started; one
    /// that cannot be used is left out.
    pub async fn endings(
        &self,
        environment: &Environment,
        scopes: impl IntoIterator<Item = Scope>,
    ) -> Result<Vec<(Scope, Ending)>, Failure> {
        let config = &self.config;
        let seal = Seal::load(&config.state_dir)?;
        let secrets = secrets_of(config, environment, seal.as_ref())?;
        let cx = context(Arc::new(secrets), self.clock.clone());
        let mut entries: BTreeMap<Arc<str>, Option<Arc<dyn Provider>>> = BTreeMap::new();
        let mut all = Vec::new();
        for scope in scopes {
            let entry = entries.entry(scope.provider.clone()).or_insert_with(|| {
                let name = &scope.provider;
                let mut mine = config.providers.iter();
                let mine = mine.find(|entry| entry.name == *name || entry.was.as_ref() == Some(name))?;
                registry::build(mine, config).ok()
            });
            if let Some(entry) = entry {
                all.extend(of_scope(&**entry, &cx, &scope).await);
            }
        }
        Ok(all)
    }
}

async fn of_scope(observer: &dyn Observer, cx: &Cx, scope: &Scope) -> Vec<(Scope, Ending)> {
    let endings = observer.endings(cx, scope).await.unwrap_or_default();
    endings.into_iter().map(|ending| (scope.clone(), ending)).collect()
}
