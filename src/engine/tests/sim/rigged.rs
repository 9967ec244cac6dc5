//! A reference provider that a test can switch off, slow down or break, scope by scope, and that counts.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use reconciled_provider::*;
use reconciled_testkit::{Reference, World};
use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// What is there once an update took effect in part.
pub(crate) const HALF: &str = "neither of both";

/// What a test switches and counts.
#[derive(Debug, Default)]
pub(crate) struct Rig {
    /// There is an entry `cloud`, too.
    pub(crate) has_cloud: bool,
    /// The scopes of `host` are judged together and run apart.
    pub(crate) is_apart: bool,
    /// What every entry takes at once, where that matters.
    pub(crate) concurrency: Option<usize>,
    /// Reads and writes under way, and how many there were at most: of each entry.
    pub(crate) crowd: Mutex<BTreeMap<(&'static str, &'static str), [usize; 2]>>,
    /// Entries that answer nothing; whoever asks waits half a minute for it.
    pub(crate) away: Mutex<BTreeSet<String>>,
    /// Scopes that answer nothing.
    pub(crate) silent: Mutex<BTreeSet<Scope>>,
    /// Scopes that panic.
    pub(crate) panics: Mutex<BTreeSet<Scope>>,
    /// Scopes where updates fail before they write anything, and after what is begun was put down.
    pub(crate) full: Mutex<BTreeSet<Scope>>,
    /// Scopes where updates take effect in part: [`HALF`] is there then.
    pub(crate) halves: Mutex<BTreeSet<Scope>>,
    /// Scopes where nothing may be written, and what is said to who tries.
    pub(crate) denied: Mutex<BTreeMap<Scope, Error>>,
    /// How long every read takes.
    pub(crate) slow: Mutex<Duration>,
    /// How long every write takes.
    pub(crate) slow_writes: Mutex<Duration>,
    /// Scopes whose things the remote tells apart, by this: what is declared finds there what exists, once all of it is known.
    pub(crate) identities: Mutex<BTreeMap<Scope, &'static str>>,
    /// Scopes that take what is written and do not get to use it, and scopes of which something is not in use yet.
    pub(crate) unloaded: Mutex<(BTreeSet<Scope>, BTreeSet<Scope>)>,
    /// Scopes where what is as declared is refused, as a revision is that did not do.
    pub(crate) refused: Mutex<BTreeSet<Scope>>,
    /// Tries to have what was written used, with their time.
    pub(crate) loads: Mutex<Vec<Duration>>,
    /// What is claimed has a place only where something is declared.
    pub(crate) claims_need_scopes: AtomicBool,
    /// Calls for versions, and that they are refused.
    pub(crate) probes: AtomicU64,
    pub(crate) lists_nothing: AtomicBool,
    /// Reads, by scope, with their time.
    pub(crate) reads: Mutex<Vec<(Duration, Scope)>>,
    /// Sweeps under way; and how many reads and writes there were in one, and in none.
    pub(crate) sweeps: AtomicU64,
    pub(crate) swept: Mutex<BTreeMap<&'static str, [u64; 2]>>,
}

impl Rig {
    pub(crate) fn reads_of(&self, scope: &Scope) -> u64 {
        self.reads.lock().unwrap().iter().filter(|(_, read)| read == scope).count() as u64
    }
    pub(crate) fn forget(&self) {
        self.probes.store(0, Ordering::SeqCst);
        self.reads.lock().unwrap().clear();
    }
}

/// Is under way for as long as it lives.
struct Inside<'a>(&'a Rig, (&'static str, &'static str));

impl Rig {
    fn enter(&self, entry: &'static str, call: &'static str) -> Inside<'_> {
        let is_alone = self.sweeps.load(Ordering::SeqCst) == 0;
        self.swept.lock().unwrap().entry(call).or_default()[usize::from(is_alone)] += 1;
        let mut crowd = self.crowd.lock().unwrap();
        let [now, most] = crowd.entry((entry, call)).or_default();
        *now += 1;
        *most = (*now).max(*most);
        Inside(self, (entry, call))
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.crowd.lock().unwrap().entry(self.1).or_default()[0] -= 1;
    }
}

/// Is a sweep for as long as it lives.
struct Sweep(Arc<Rig>);

impl Drop for Sweep {
    fn drop(&mut self) {
        self.0.sweeps.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug)]
pub(crate) struct Rigged {
    pub(crate) inner: Reference,
    pub(crate) info: ProviderInfo,
    pub(crate) entry: &'static str,
    pub(crate) world: Arc<World>,
    pub(crate) rig: Arc<Rig>,
}

impl Rigged {
    async fn ask(&self, cx: &Cx, scope: Option<&Scope>) -> Result<(), Error> {
        let slow = *self.rig.slow.lock().unwrap();
        if !slow.is_zero() {
            cx.clock.sleep(slow).await;
        }
        let away = self.rig.away.lock().unwrap().contains(self.entry);
        if away || scope.is_some_and(|scope| self.rig.silent.lock().unwrap().contains(scope)) {
            cx.clock.sleep(Duration::from_secs(30)).await;
            return Err(Error::unavailable(format!("{} does not answer", self.entry)));
        }
        Ok(())
    }

    /// Writes a part of each update, and no more.
    async fn half(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        for action in &batch.actions {
            journal.started(&[action.id]).await?;
            let error = Error::unexpected("the second step failed");
            let outcome = match &action.op {
                Op::Update { desired, tracked: Some(row), .. } => {
                    let (id, now) = (&desired.id.0, cx.clock.now());
                    self.world.by_hand(&batch.scope, id, Some(HALF), Owner::Unmarked, now);
                    Outcome::Partial(Tracked::clone(row), error)
                }
                _ => Outcome::Failed(error),
            };
            journal.finished(vec![(action.id, outcome)]).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Observer for Rigged {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }
    async fn kinds(&self, cx: &Cx) -> Result<Arc<Kinds>, Error> {
        self.inner.kinds(cx).await
    }
    fn normalize(&self, kinds: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        self.inner.normalize(kinds, manifest, inputs)
    }
    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        self.rig.probes.fetch_add(1, Ordering::SeqCst);
        self.ask(cx, None).await?;
        if self.rig.lists_nothing.load(Ordering::SeqCst) {
            return Err(Error::unexpected("half a list"));
        }
        self.inner.versions(cx, scopes).await
    }
    fn sweep(&self, _: &Cx, _: &[Scope]) -> Option<Box<dyn Any + Send>> {
        self.rig.sweeps.fetch_add(1, Ordering::SeqCst);
        Some(Box::new(Sweep(self.rig.clone())))
    }
    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        self.rig.reads.lock().unwrap().push((cx.clock.now(), want.scope.clone()));
        let _inside = self.rig.enter(self.entry, "read");
        let panics = self.rig.panics.lock().unwrap().contains(want.scope);
        assert!(!panics, "a bug in the provider");
        self.ask(cx, Some(want.scope)).await?;
        let mut seen = self.inner.observe(cx, want).await?;
        let identity = self.rig.identities.lock().unwrap().get(want.scope).copied();
        if let Some(identity) = identity {
            let is_known = |id: &ResourceId| {
                let declares = |desired: &Resource| desired.id == *id && desired.spec.bytes().is_some();
                want.tracked.iter().any(|tracked| tracked.id == *id) || want.desired.iter().any(declares)
            };
            seen.resources.retain(|observed| is_known(&observed.id));
            seen.resources.iter_mut().for_each(|observed| observed.identity = Some(identity.into()));
        }
        Ok(seen)
    }
    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        self.inner.compare(desired, observed)
    }
    async fn diff(&self, cx: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        let mut deltas = self.inner.diff(cx, want, seen).await?;
        if self.rig.unloaded.lock().unwrap().1.contains(want.scope) {
            let fields = vec![FieldChange::text(PENDING_FIELD, Some("reload".into()), None)];
            for observed in &seen.resources {
                deltas.insert(observed.id.clone(), Ok(Delta { fields: fields.clone(), ..Delta::default() }));
            }
        }
        if self.rig.refused.lock().unwrap().contains(want.scope) {
            for observed in &seen.resources {
                let refusal = || Err(Error::invalid("it was taken back"));
                deltas.entry(observed.id.clone()).or_insert_with(refusal);
            }
        }
        Ok(deltas)
    }
    fn left_alone(
        &self,
        scope: &Scope,
        rules: &[Arc<str>],
        observed: &Observed,
        seen: &Observation,
    ) -> Option<LeftAlone> {
        self.inner.left_alone(scope, rules, observed, seen)
    }
    fn holder(&self, scope: &Scope) -> Option<ResourceId> {
        self.inner.holder(scope)
    }
    fn shared_names(&self) -> Option<&'static str> {
        self.inner.shared_names()
    }
    fn hides(&self, scope: &Scope, other: &Scope, id: &ResourceId) -> bool {
        self.inner.hides(scope, other, id)
    }
    fn sends(&self, scope: &Scope, other: &Scope, id: &ResourceId) -> bool {
        self.inner.sends(scope, other, id)
    }
    fn is_owned_whole(&self, observed: &Observed) -> bool {
        self.inner.is_owned_whole(observed)
    }
    fn takes_marks_away(&self, id: &ResourceId) -> bool {
        self.inner.takes_marks_away(id)
    }
    fn remains<'s>(&self, scope: &Scope, id: &ResourceId, seen: &'s Observation) -> Option<&'s Observed> {
        self.inner.remains(scope, id, seen)
    }
    fn leaves_mark(&self, scope: &Scope, id: &ResourceId, seen: &Observation) -> bool {
        self.inner.leaves_mark(scope, id, seen)
    }
    fn tells_health(&self) -> bool {
        self.inner.tells_health()
    }

    async fn health(&self, cx: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        self.inner.health(cx, want).await
    }
    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        self.inner.discover(cx, query).await
    }
    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        self.inner.export(found)
    }
    fn part(&self, scope: &Scope, id: &ResourceId) -> Option<Arc<str>> {
        self.inner.part(scope, id)
    }
    fn slot(&self, id: &ResourceId) -> Option<Slot> {
        self.inner.slot(id)
    }
    fn guard_word(&self, scope: &Scope, id: &ResourceId) -> Option<&'static str> {
        self.inner.guard_word(scope, id)
    }
    fn show(&self, id: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        self.inner.show(id, bytes)
    }
    fn keep(&self, desired: &Resource, observed: &Observed, ignored: &[Arc<str>]) -> Result<Vec<u8>, Error> {
        self.inner.keep(desired, observed, ignored)
    }
    fn place(&self, claim: &Claim, scopes: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        let (scope, id) = self.inner.place(claim, scopes)?;
        match self.rig.claims_need_scopes.load(Ordering::SeqCst) && !scopes.contains(&scope) {
            true => Err(Error::invalid(format!("{scope} is not declared"))),
            false => Ok((scope, id)),
        }
    }
    fn would_carry(&self, claim: &Claim, scope: Option<&Scope>) -> Vec<(&'static str, String)> {
        let would = self.inner.place(claim, &BTreeSet::new()).ok().filter(|(would, _)| scope != Some(would));
        would.map(|(would, _)| ("test/Thing", would.name.to_string())).into_iter().collect()
    }
    fn merge(
        &self,
        declared: &[&Resource],
        seen: Option<&Observed>,
        tracked: Option<&Tracked>,
        claims: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        self.inner.merge(declared, seen, tracked, claims)
    }
    fn hints(&self) -> BoxStream<'static, Hint> {
        self.inner.hints()
    }
}

#[async_trait]
impl Provider for Rigged {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        let _inside = self.rig.enter(self.entry, "write");
        let slow = *self.rig.slow_writes.lock().unwrap();
        if !slow.is_zero() {
            cx.clock.sleep(slow).await;
        }
        if self.rig.full.lock().unwrap().contains(&batch.scope) {
            return full(batch, journal).await;
        }
        if self.rig.halves.lock().unwrap().contains(&batch.scope) {
            return self.half(cx, batch, journal).await;
        }
        let denied = self.rig.denied.lock().unwrap().get(&batch.scope).cloned();
        if let Some(error) = denied {
            let ids: Vec<ActionId> = batch.actions.iter().map(|action| action.id).collect();
            journal.started(&ids).await?;
            let failed = ids.into_iter().map(|id| (id, Outcome::Failed(error.clone())));
            return journal.finished(failed.collect()).await;
        }
        let (is_stuck, is_unfinished) = {
            let unloaded = self.rig.unloaded.lock().unwrap();
            (unloaded.0.contains(&batch.scope), unloaded.1.contains(&batch.scope))
        };
        if !is_stuck && !is_unfinished {
            return self.inner.apply(cx, batch, journal).await;
        }
        // As a zone file does: what is made is there and tracked, and what only has to be used fails.
        self.rig.loads.lock().unwrap().push(cx.clock.now());
        let error = Error::unavailable("written, but not loaded");
        if !is_unfinished {
            self.inner.apply(cx, batch, journal).await?;
            self.rig.unloaded.lock().unwrap().1.insert(batch.scope.clone());
            return Err(error);
        }
        let ids: Vec<ActionId> = batch.actions.iter().map(|action| action.id).collect();
        journal.started(&ids).await?;
        let outcome = |action: &Action| match (&action.op, is_stuck) {
            (Op::Update { tracked: Some(tracked), .. }, false) => Outcome::Done(Tracked::clone(tracked)),
            _ => Outcome::Failed(error.clone()),
        };
        journal.finished(batch.actions.iter().map(|action| (action.id, outcome(action))).collect()).await?;
        if is_stuck {
            return Err(error);
        }
        self.rig.unloaded.lock().unwrap().1.remove(&batch.scope);
        Ok(())
    }
}

/// Begins each update, and takes that back.
async fn full(batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
    for action in &batch.actions {
        journal.started(&[action.id]).await?;
        let error = Error::unavailable("no space is left");
        let outcome = match &action.op {
            Op::Update { desired, tracked: Some(row), .. } => {
                let mut begun = Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default());
                begun.private = Sealed::new(b"begun");
                journal.progress(action.id, begun).await?;
                Outcome::Back(Tracked::clone(row), error)
            }
            _ => Outcome::Failed(error),
        };
        journal.finished(vec![(action.id, outcome)]).await?;
    }
    Ok(())
}
