//! Who does, and what was learnt meanwhile of failures and of what somebody undoes.
//!
//! It deliberately has no pass in it: each part of one is in a file beside this one.

use super::ledger::Ledger;
use crate::{
    error_policy::Failures,
    plan::{EntryPolicy, guard::GuardLimits},
    store::{Converged, Store, Write},
    survey::{Surveyor, Watched},
};
use reconciled_provider::{Error, Observer, Provider, Scope, Stop};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

/// Everything that doing needs. Clones share what was learnt of failures and of flapping.
#[derive(Clone)]
pub struct Engine {
    /// Looks.
    pub surveyor: Surveyor,
    /// Writes, by entry.
    pub(super) writers: BTreeMap<Arc<str>, Arc<dyn Provider>>,
    /// Remembers.
    pub store: Arc<dyn Store>,
    /// Name of this instance, part of client tokens.
    pub instance: Arc<str>,
    pub(super) actions: Arc<AtomicU64>,
    pub(super) failures: Arc<Mutex<BTreeMap<Scope, Failures>>>,
    pub(super) ledger: Arc<Mutex<Ledger>>,
}

/// Upcasts a provider for looking.
pub fn watched(provider: &Arc<dyn Provider>, policy: EntryPolicy, guard: GuardLimits) -> Watched {
    Watched { observer: provider.clone() as Arc<dyn Observer>, policy, guard }
}

impl Engine {
    /// An engine over `surveyor` that writes through `writers`, entry by entry.
    pub fn new(
        surveyor: Surveyor,
        writers: BTreeMap<Arc<str>, Arc<dyn Provider>>,
        store: Arc<dyn Store>,
        instance: Arc<str>,
    ) -> Engine {
        Engine {
            surveyor,
            writers,
            store,
            instance,
            actions: Arc::default(),
            failures: Arc::default(),
            ledger: Arc::default(),
        }
    }

    /// The same engine under a wish to stop of its own.
    pub fn under(&self, stop: Stop) -> Engine {
        let mut engine = self.clone();
        engine.surveyor.cx.stop = stop;
        engine
    }

    /// Starts afresh: a new revision or an operator ends every backoff and every wish to stop.
    pub fn renew(&mut self) {
        self.surveyor.cx.stop = Stop::default();
        self.failures().clear();
    }

    /// Ends the backoff of these scopes: a new revision, an operator, or a remote that is back.
    pub fn forgive<'a>(&self, scopes: impl IntoIterator<Item = &'a Scope>) {
        let mut failures = self.failures();
        for scope in scopes {
            failures.remove(scope);
        }
    }

    /// Lets what flapped in these scopes be written again: a person said so.
    pub fn acquit<'a>(&self, scopes: impl IntoIterator<Item = &'a Scope>) {
        let mut ledger = self.ledger();
        scopes.into_iter().for_each(|scope| ledger.acquit(scope));
    }

    /// Failures in a row of one scope.
    pub fn failures_of(&self, scope: &Scope) -> u32 {
        self.failures().get(scope).map_or(0, |failures| failures.count)
    }

    pub(super) fn failures(&self) -> MutexGuard<'_, BTreeMap<Scope, Failures>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that all of `source` was found in sync.
    pub async fn converged(&self, converged: Converged) -> Result<(), Error> {
        if self.store.converged(&converged.source).await?.as_ref() == Some(&converged) {
            return Ok(());
        }
        self.store.commit(vec![Write::Converged(Ok(converged))]).await
    }
}
