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
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// Entry, reason and outcome of a write.
type Wrote = (Arc<str>, Arc<str>, Arc<str>);

/// A store that is measured.
pub(crate) struct Measured {
    inner: Arc<Db>,
    metrics: Arc<Metrics>,
    under_way: Mutex<UnderWay>,
}

impl Measured {
    pub(crate) fn new(inner: Arc<Db>, metrics: Arc<Metrics>) -> Measured {
        Measured { inner, metrics, under_way: Mutex::default() }
    }

    fn note(&self, writes: Vec<Noted>) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        // Thousands that end at once mostly end alike.
        let mut ended: BTreeMap<Wrote, usize> = BTreeMap::new();
        for Noted { ids, what } in writes {
            match what {
                What::Started(entry, reason) => under_way.begin(ids, entry, reason),
                What::Ended(outcome) => under_way.end(ids, |entry, reason, count| {
                    *ended.entry((entry, reason, outcome.clone())).or_default() += count;
                }),
            }
        }
        for ((entry, reason, outcome), count) in ended {
            self.metrics.wrote(&entry, &reason, &outcome, count);
        }
    }
}

/// Entry and reason of each action that has no outcome yet, by the first of those in a row that have both in common, with the one
/// after the last: a batch of many thousand is one.
#[derive(Default)]
struct UnderWay(BTreeMap<u64, (u64, Arc<str>, Arc<str>)>);

impl UnderWay {
    fn begin(&mut self, ids: Range<u64>, entry: Arc<str>, reason: Arc<str>) {
        self.0.insert(ids.start, (ids.end, entry, reason));
    }

    /// Takes those of `ids` that are under way, and tells how many have which entry and reason.
    fn end(&mut self, ids: Range<u64>, mut tell: impl FnMut(Arc<str>, Arc<str>, usize)) {
        while let Some((&start, _)) = self.0.range(..ids.end).next_back()
            && let Some((end, entry, reason)) = self.0.remove(&start)
        {
            let (from, to) = (start.max(ids.start), end.min(ids.end));
            if from >= to {
                // It ends before: those before it do so as well.
                self.begin(start..end, entry, reason);
                break;
            }
            if to < end {
                self.begin(to..end, entry.clone(), reason.clone());
            }
            if start < from {
                self.begin(start..from, entry.clone(), reason.clone());
            }
            tell(entry, reason, usize::try_from(to - from).unwrap_or(usize::MAX));
            if start <= ids.start {
                break;
            }
        }
    }
}

/// What is kept of a write while it is carried out: of actions in a row, the same for all of them.
#[derive(Debug, PartialEq)]
struct Noted {
    ids: Range<u64>,
    what: What,
}

#[derive(Debug, PartialEq)]
enum What {
    /// Entry and reason.
    Started(Arc<str>, Arc<str>),
    Ended(Arc<str>),
}

fn noted(writes: &[Write]) -> Vec<Noted> {
    let mut all: Vec<Noted> = Vec::new();
    let mut note = |ActionId(id): ActionId, what: What| match all.last_mut() {
        Some(last) if last.ids.end == id && last.what == what => last.ids.end += 1,
        _ => all.push(Noted { ids: id..id + 1, what }),
    };
    let mut last: Arc<str> = "".into();
    for write in writes {
        match write {
            Write::Start { scope, intents, .. } => {
                for intent in intents {
                    // `commit abc1234` names a commit; only the word is counted.
                    let reason = intent.reason.split(' ').next().unwrap_or_default();
                    if *last != *reason {
                        last = reason.into();
                    }
                    note(intent.action, What::Started(scope.provider.clone(), last.clone()));
                }
            }
            Write::End(endings) => {
                endings.iter().for_each(|ending| note(ending.action, What::Ended(ending.outcome.clone())));
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
            self.note(noted);
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
    async fn versions(&self) -> Result<BTreeMap<Scope, KnownVersion>, Error> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_engine::store::Ending;

    fn counted(under_way: &mut UnderWay, ids: Range<u64>) -> Vec<(String, usize)> {
        let mut told = Vec::new();
        under_way.end(ids, |entry, reason, count| told.push((format!("{entry} {reason}"), count)));
        told.sort();
        told
    }

    #[test]
    fn what_is_under_way_ends_in_parts_and_once() {
        let mut under_way = UnderWay::default();
        under_way.begin(0..10, "dns".into(), "commit".into());
        under_way.begin(10..12, "dns".into(), "drift".into());
        under_way.begin(20..30, "cert".into(), "commit".into());
        let one = |what: &str, count| vec![(what.to_owned(), count)];
        assert_eq!(counted(&mut under_way, 3..5), one("dns commit", 2));
        assert_eq!(counted(&mut under_way, 4..6), one("dns commit", 1), "the other one has ended");
        assert_eq!(counted(&mut under_way, 12..20), [], "nobody began these");
        assert_eq!(
            counted(&mut under_way, 0..25),
            [
                ("cert commit".into(), 5),
                ("dns commit".into(), 3),
                ("dns commit".into(), 4),
                ("dns drift".into(), 2)
            ]
        );
        assert_eq!(counted(&mut under_way, 25..30), one("cert commit", 5));
        assert!(under_way.0.is_empty() && counted(&mut under_way, 0..100).is_empty());
    }

    #[test]
    fn endings_in_a_row_are_noted_together() {
        let ending =
            |id, outcome: &str| Ending { action: ActionId(id), outcome: outcome.into(), error: None };
        let endings = [(7, "done"), (8, "done"), (9, "failed"), (11, "failed"), (10, "failed")];
        let writes = [Write::End(endings.map(|(id, outcome)| ending(id, outcome)).into())];
        let ended = |ids, outcome: &str| Noted { ids, what: What::Ended(outcome.into()) };
        let expected =
            [ended(7..9, "done"), ended(9..10, "failed"), ended(11..12, "failed"), ended(10..11, "failed")];
        assert_eq!(noted(&writes), expected);
    }
}
