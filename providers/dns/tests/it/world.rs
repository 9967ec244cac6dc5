//! What the engine gives a provider: a context, inputs, a journal, and the smallest planner that will do.

use async_trait::async_trait;
use bytes::Bytes;
use reconciled_provider::{
    Action, ActionId, Batch, Clock, Cx, Deltas, Error, Focus, Inputs, Journal, Manifest, ManifestKey,
    Observation, Op, Outcome, Policies, Policy, PolicyId, Problem, Provider, Reference, Resource, ResourceId,
    Scope, Secret, SecretMark, SecretRef, Secrets, SourceFile, Stop, Tracked, Want, manifest::Value, yaml,
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

struct NoClock;

#[async_trait]
impl Clock for NoClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    async fn sleep(&self, _: Duration) {}
}

struct OneKey(&'static str);

impl Secrets for OneKey {
    fn reveal(&self, _: &SecretRef) -> Result<Secret, Error> {
        Ok(Secret::new(self.0.as_bytes().to_vec()))
    }
    fn mark(&self, clear: &[u8]) -> SecretMark {
        SecretMark(reconciled_provider::Hash::of(clear))
    }
}

/// A context in which every secret is `key`.
pub(crate) fn cx(key: &'static str) -> Cx {
    Cx {
        clock: Arc::new(NoClock),
        secrets: Arc::new(OneKey(key)),
        deadline: Duration::from_secs(60),
        stop: Stop::default(),
    }
}

/// A journal in memory.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) started: Mutex<Vec<Vec<ActionId>>>,
    pub(crate) outcomes: Mutex<BTreeMap<ActionId, Outcome>>,
}

#[async_trait]
impl Journal for Notes {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        self.started.lock().unwrap().push(actions.to_vec());
        Ok(())
    }
    async fn progress(&self, _: ActionId, _: Tracked) -> Result<(), Error> {
        Ok(())
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        let started: HashSet<ActionId> = self.started.lock().unwrap().iter().flatten().copied().collect();
        for (id, outcome) in outcomes {
            assert!(started.contains(&id), "{id:?} finished before it was started");
            let earlier = self.outcomes.lock().unwrap().insert(id, outcome);
            assert!(earlier.is_none(), "{id:?} finished twice");
        }
        Ok(())
    }
}

impl Notes {
    /// The outcome of the action on `id`, as a word and its error.
    pub(crate) fn outcome(&self, batch: &Batch, id: &str) -> String {
        let action = batch.actions.iter().find(|action| &*action.op.id().0 == id).unwrap();
        match self.outcomes.lock().unwrap().get(&action.id) {
            None => "none".into(),
            Some(Outcome::Failed(error)) => format!("failed: {}: {error}", error.kind.word()),
            Some(Outcome::Unknown(error)) => format!("unknown: {}: {error}", error.kind.word()),
            Some(other) => other.word().into(),
        }
    }
    /// How many actions ended in each way.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for outcome in self.outcomes.lock().unwrap().values() {
            *counts.entry(outcome.word()).or_default() += 1;
        }
        counts
    }
}

struct TestInputs {
    entry: String,
    scopes: BTreeSet<Scope>,
    policies: RefCell<Policies>,
}

impl Inputs for TestInputs {
    fn entry(&self) -> &str {
        &self.entry
    }
    fn is_sole(&self) -> bool {
        true
    }
    fn blob(&self, path: &str) -> Result<Bytes, Error> {
        Err(Error::invalid(path))
    }
    fn secret(&self, _: &SecretRef) -> Result<SecretMark, Error> {
        Err(Error::invalid("no secrets here"))
    }
    fn output(&self, _: &Reference) -> Value {
        Value::Unknown
    }
    fn scopes(&self) -> &BTreeSet<Scope> {
        &self.scopes
    }
    fn siblings(&self, _: &str) -> Vec<&Manifest> {
        Vec::new()
    }
    fn policy(&self, policy: Policy) -> PolicyId {
        self.policies.borrow_mut().intern(policy)
    }
}

/// The resources and problems of a `Zone` manifest whose `spec` is `spec`.
pub(crate) fn normalize(provider: &dyn Provider, zone: &str, spec: &str) -> (Vec<Resource>, Vec<Problem>) {
    let file = Arc::new(SourceFile::new("zone.yaml", spec));
    let node = yaml::parse(&file, yaml::Limits::default()).unwrap().remove(0);
    let manifest = Manifest {
        index: 0,
        key: ManifestKey::new("infra", "dns", "Zone", "", zone),
        api_version: "dns/v1".into(),
        kind: "Zone".into(),
        name: zone.into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        providers: None,
        policy: Policy::default(),
        file,
        span: node.span,
        spec: node,
    };
    let inputs = TestInputs { entry: "test".into(), scopes: BTreeSet::new(), policies: RefCell::default() };
    let out = provider.normalize(&reconciled_provider::Kinds::default(), &manifest, &inputs);
    (out.resources, out.problems)
}

/// The resources of a `Zone` manifest without problems; `records` are the elements of its list.
pub(crate) fn desired(provider: &dyn Provider, zone: &str, records: &[String]) -> Vec<Resource> {
    let spec = format!("apex: true\nrecords:\n  - {}\n", records.join("\n  - "));
    let (resources, problems) = normalize(provider, zone, &spec);
    assert!(problems.is_empty(), "{problems:?}");
    resources
}

/// The scope of `zone` at the entry under test.
pub(crate) fn scope(zone: &str) -> Scope {
    Scope::new("test", zone)
}

/// Reads all of a zone.
pub(crate) async fn observe(provider: &dyn Provider, cx: &Cx, zone: &str) -> Result<Observation, Error> {
    let scope = scope(zone);
    let want = Want { scope: &scope, focus: &Focus::All, desired: &[], tracked: &[], claims: &[] };
    provider.observe(cx, &want).await
}

/// Reads all of a zone for who wants `desired`.
pub(crate) async fn observe_for(
    provider: &dyn Provider,
    cx: &Cx,
    zone: &str,
    desired: &[Resource],
) -> Result<Observation, Error> {
    let scope = scope(zone);
    let want = Want { scope: &scope, focus: &Focus::All, desired, tracked: &[], claims: &[] };
    provider.observe(cx, &want).await
}

/// Differences between what is desired and what was seen.
pub(crate) async fn diff(
    provider: &dyn Provider,
    cx: &Cx,
    zone: &str,
    desired: &[Resource],
    seen: &Observation,
) -> Deltas {
    let scope = scope(zone);
    let want = Want { scope: &scope, focus: &Focus::All, desired, tracked: &[], claims: &[] };
    provider.diff(cx, &want, seen).await.unwrap()
}

/// Everything that must be done: creates and updates in the order of `desired`, then the named deletions.
pub(crate) async fn plan(
    provider: &dyn Provider,
    cx: &Cx,
    zone: &str,
    desired: &[Resource],
    delete: &[&str],
    seen: &Observation,
) -> Batch {
    let deltas = diff(provider, cx, zone, desired, seen).await;
    let mut ops = Vec::new();
    for resource in desired {
        let desired = resource.clone();
        match (seen.get(&resource.id), deltas.get(&resource.id)) {
            (None, _) => ops.push(Op::Create { desired, delta: Default::default() }),
            (Some(observed), Some(Ok(delta))) => ops.push(Op::Update {
                desired,
                delta: delta.clone(),
                observed: observed.clone(),
                tracked: None,
            }),
            _ => {}
        }
    }
    for id in delete {
        let observed =
            seen.get(&ResourceId::from(*id)).unwrap_or_else(|| panic!("{id} was not seen")).clone();
        ops.push(Op::Delete { observed, tracked: None });
    }
    batch(zone, seen, ops)
}

/// A batch of `ops` planned from `seen`.
pub(crate) fn batch(zone: &str, seen: &Observation, ops: Vec<Op>) -> Batch {
    let action =
        |(i, op): (usize, Op)| Action { id: ActionId(i as u64 + 1), token: format!("t{i}").into(), op };
    Batch {
        scope: scope(zone),
        base: seen.version.clone(),
        actions: ops.into_iter().enumerate().map(action).collect(),
    }
}

/// Observes, plans, applies; returns the batch, its notes and what `apply` said.
pub(crate) async fn apply(
    provider: &dyn Provider,
    cx: &Cx,
    zone: &str,
    desired: &[Resource],
    delete: &[&str],
) -> (Batch, Notes, Result<(), Error>) {
    let seen = observe_for(provider, cx, zone, desired).await.unwrap();
    let batch = plan(provider, cx, zone, desired, delete, &seen).await;
    let notes = Notes::default();
    let result = provider.apply(cx, &batch, &notes).await;
    (batch, notes, result)
}

/// Applies and expects that all of it is done and nothing is left to do.
pub(crate) async fn converge(
    provider: &dyn Provider,
    cx: &Cx,
    zone: &str,
    desired: &[Resource],
    delete: &[&str],
) {
    let (batch, notes, result) = apply(provider, cx, zone, desired, delete).await;
    result.unwrap();
    let counts = notes.counts();
    let done = counts.get("done").unwrap_or(&0) + counts.get("gone").unwrap_or(&0);
    assert_eq!(done, batch.actions.len(), "{counts:?}");
    let seen = observe_for(provider, cx, zone, desired).await.unwrap();
    let again = plan(provider, cx, zone, desired, &[], &seen).await;
    assert!(again.actions.is_empty(), "a second run wants {:#?}", again.actions);
    for id in delete {
        assert!(seen.get(&ResourceId::from(*id)).is_none(), "{id} is still there");
    }
}
