//! The engine's memory, measured: how long it takes, and what the journal says of writes.
//!
//! Guarantees: every call is forwarded as it is. What is counted of a write is its entry, its reason and its
//! outcome. It deliberately remembers nothing but actions under way.

use super::Metrics;
use crate::{clock::SystemClock, store::Db};
use async_trait::async_trait;
use reconciled_engine::{
    Pin, Row, Store, Suspension, Write,
    store::{Approval, Begun, Converged, Hold, KnownVersion, Revision, ScopeMemory},
};
use reconciled_provider::{ActionId, Clock, Error, Hash, ManifestKey, Scope};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

/// Entry and reason of actions.
type UnderWay = HashMap<ActionId, (Arc<str>, Arc<str>)>;

/// A store that is measured.
pub(crate) struct Measured {
    inner: Arc<Db>,
    metrics: Arc<Metrics>,
    /// Entry and reason of each action that has no outcome yet.
    under_way: Mutex<UnderWay>,
}

impl Measured {
    pub(crate) fn new(inner: Arc<Db>, metrics: Arc<Metrics>) -> Measured {
        Measured { inner, metrics, under_way: Mutex::default() }
    }

    fn note(&self, writes: &[Noted]) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        // Thousands that end at once mostly end alike.
        let mut ended: BTreeMap<(Arc<str>, Arc<str>, &str), usize> = BTreeMap::new();
        for noted in writes {
            match noted {
                Noted::Started(action, entry, reason) => {
                    under_way.insert(*action, (entry.clone(), reason.clone()));
                }
                Noted::Ended(action, outcome) => {
                    if let Some((entry, reason)) = under_way.remove(action) {
                        *ended.entry((entry, reason, outcome)).or_default() += 1;
                    }
                }
            }
        }
        for ((entry, reason, outcome), count) in ended {
            self.metrics.wrote(&entry, &reason, outcome, count);
        }
    }
}

/// What is kept of a write while it is carried out.
enum Noted {
    Started(ActionId, Arc<str>, Arc<str>),
    Ended(ActionId, Arc<str>),
}

fn noted(writes: &[Write]) -> Vec<Noted> {
    let mut all = Vec::new();
    let mut last: Arc<str> = "".into();
    for write in writes {
        match write {
            Write::Start { scope, intents, .. } => all.extend(intents.iter().map(|intent| {
                // `commit abc1234` names a commit; only the word is counted.
                let reason = intent.reason.split(' ').next().unwrap_or_default();
                if *last != *reason {
                    last = reason.into();
                }
                Noted::Started(intent.action, scope.provider.clone(), last.clone())
            })),
            Write::End(endings) => {
                all.extend(endings.iter().map(|ending| Noted::Ended(ending.action, ending.outcome.clone())));
            }
            _ => {}
        }
    }
    all
}

#[async_trait]
impl Store for Measured {
    async fn commit(&self, writes: Vec<Write>) -> Result<(), Error> {
        let noted = noted(&writes);
        let began = SystemClock.now();
        let result = self.inner.commit(writes).await;
        self.metrics.committed(SystemClock.now().saturating_sub(began), result.is_ok());
        if result.is_ok() {
            self.note(&noted);
        }
        result
    }
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }
    fn foresee(&self, rows: Arc<Vec<Row>>) {
        self.inner.foresee(rows);
    }
    async fn scope(&self, scope: &Scope) -> Result<ScopeMemory, Error> {
        self.inner.scope(scope).await
    }
    async fn all(&self) -> Result<BTreeMap<Scope, ScopeMemory>, Error> {
        self.inner.all().await
    }
    async fn versions(&self) -> Result<Vec<(Scope, KnownVersion)>, Error> {
        self.inner.versions().await
    }
    async fn converged(&self, source: &str) -> Result<Option<Converged>, Error> {
        self.inner.converged(source).await
    }
    async fn rows_with_outputs(&self, manifest: &ManifestKey) -> Result<Vec<Row>, Error> {
        self.inner.rows_with_outputs(manifest).await
    }
    async fn is_settled(&self, manifest: &ManifestKey) -> Result<bool, Error> {
        self.inner.is_settled(manifest).await
    }
    async fn dependants(&self, manifest: &ManifestKey) -> Result<Vec<Row>, Error> {
        self.inner.dependants(manifest).await
    }
    async fn generations(&self, source: &str) -> Result<Vec<(ManifestKey, u64)>, Error> {
        self.inner.generations(source).await
    }
    async fn contents(&self, source: &str) -> Result<Vec<(ManifestKey, Hash)>, Error> {
        self.inner.contents(source).await
    }
    async fn in_force(&self, source: &str) -> Result<Option<Revision>, Error> {
        self.inner.in_force(source).await
    }
    async fn holds(&self) -> Result<Vec<Hold>, Error> {
        self.inner.holds().await
    }
    async fn suspensions(&self) -> Result<Vec<Suspension>, Error> {
        self.inner.suspensions().await
    }
    async fn pins(&self) -> Result<Vec<Pin>, Error> {
        self.inner.pins().await
    }
    async fn begun(&self) -> Result<Vec<Begun>, Error> {
        self.inner.begun().await
    }
    async fn approval(&self, digest: Hash) -> Result<Option<Approval>, Error> {
        self.inner.approval(digest).await
    }
    async fn is_recovering(&self) -> Result<bool, Error> {
        Store::is_recovering(&*self.inner).await
    }
}
