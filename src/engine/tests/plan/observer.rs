//! The reference provider as the planner's pure observer, with what a scenario says differently of it.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use reconciled_provider::{
    Claim, Cx, Delta, Deltas, Error, FieldChange, Found, Health, Hint, Inputs, Kinds, LeftAlone, Manifest,
    Merged, Normalized, Observation, Observed, Observer, Owner, ProviderInfo, Resource, ResourceId, Scope,
    Slot, Tracked, Version, Want, diff_by_compare, is_ignored,
};
use reconciled_testkit::{Calm, Reference, Role, World};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Content written `ttl=300;values=x` has those fields; other content has one, `content`.
#[derive(Debug)]
pub(crate) struct Spoken {
    reference: Reference,
    pub(crate) info: ProviderInfo,
    pub(crate) words: BTreeMap<ResourceId, &'static str>,
    /// What the remote says that it would not take.
    pub(crate) refused: BTreeSet<ResourceId>,
    /// What is written on the way to another one.
    pub(crate) also: BTreeMap<ResourceId, ResourceId>,
    /// The mark that stands beside a resource.
    pub(crate) remains: BTreeMap<ResourceId, ResourceId>,
    /// Marks of ours that are of nothing are there, by whatever name.
    pub(crate) leaves_marks: bool,
    /// What is made anew only since somebody else changed it.
    pub(crate) by_hand: BTreeSet<ResourceId>,
    /// What was replaced by one that was made before, and is still there.
    pub(crate) former: BTreeMap<ResourceId, (Arc<str>, Option<Duration>)>,
    /// What all others are in.
    pub(crate) holder: Option<ResourceId>,
    /// What comes and goes with the scope.
    pub(crate) of_scope: BTreeSet<ResourceId>,
    /// Where its scopes are.
    pub(crate) points_at: Option<String>,
}

impl Spoken {
    pub(crate) fn new(role: Role, entry: &str) -> Spoken {
        let reference = Reference::new(role, entry, "dns1", Arc::new(World::default()), Arc::new(Calm));
        Spoken {
            info: reference.info().clone(),
            reference,
            words: BTreeMap::new(),
            refused: BTreeSet::new(),
            also: BTreeMap::new(),
            remains: BTreeMap::new(),
            leaves_marks: false,
            by_hand: BTreeSet::new(),
            former: BTreeMap::new(),
            holder: None,
            of_scope: BTreeSet::new(),
            points_at: None,
        }
    }
}

pub(crate) fn fields(bytes: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(bytes);
    let pair = |item: &str| match item.split_once('=') {
        Some((name, value)) => (name.to_string(), value.to_string()),
        None => ("content".to_string(), item.to_string()),
    };
    text.split(';').map(pair).collect()
}

#[async_trait]
impl Observer for Spoken {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }
    async fn kinds(&self, cx: &Cx) -> Result<Arc<Kinds>, Error> {
        self.reference.kinds(cx).await
    }
    fn normalize(&self, kinds: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        self.reference.normalize(kinds, manifest, inputs)
    }
    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        self.reference.versions(cx, scopes).await
    }
    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        self.reference.observe(cx, want).await
    }
    /// A rule is a pattern of ids; what begins with `_acme` is left alone by custom.
    fn left_alone(
        &self,
        _: &Scope,
        rules: &[Arc<str>],
        observed: &Observed,
        _: &Observation,
    ) -> Option<LeftAlone> {
        if self.of_scope.contains(&observed.id) {
            return Some(LeftAlone::OfScope);
        }
        let fits = |rule: &Arc<str>| reconciled_provider::address::glob(rule, &observed.id.0);
        if rules.iter().any(fits) {
            return Some(LeftAlone::Ignored);
        }
        observed.id.0.starts_with("_acme").then_some(LeftAlone::Custom)
    }
    fn points_at(&self, _: &Scope) -> Option<String> {
        self.points_at.clone()
    }
    fn takes_marks_away(&self, id: &ResourceId) -> bool {
        self.reference.takes_marks_away(id)
    }
    fn remains<'s>(&self, _: &Scope, id: &ResourceId, seen: &'s Observation) -> Option<&'s Observed> {
        seen.get(self.remains.get(id)?)
    }
    fn leaves_mark(&self, _: &Scope, id: &ResourceId, seen: &Observation) -> bool {
        self.leaves_marks || self.remains.get(id).is_some_and(|mark| seen.get(mark).is_some())
    }
    fn is_owned_whole(&self, observed: &Observed) -> bool {
        matches!(&observed.owner, Owner::Other(other) if other.starts_with("externaldns/"))
    }
    fn holder(&self, _: &Scope) -> Option<ResourceId> {
        self.holder.clone()
    }
    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        let mut delta = self.reference.compare(desired, observed)?;
        let (before, after) = (fields(&observed.bytes), fields(desired.spec.bytes().unwrap_or_default()));
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let differs = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
        delta.fields = differs
            .map(|name| FieldChange::text(name, before.get(name).cloned(), after.get(name).cloned()))
            .collect();
        Some(delta)
    }
    async fn diff(&self, _: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        let mut deltas = diff_by_compare(|d, o| self.compare(d, o), want, seen);
        for (id, other) in &self.also {
            if let Some(Ok(delta)) = deltas.get_mut(id) {
                delta.also.push(other.clone());
            }
        }
        for id in &self.by_hand {
            if let Some(Ok(delta)) = deltas.get_mut(id) {
                delta.heals_drift = delta.replace;
            }
        }
        let ends = |(id, (former, stays_until)): (&ResourceId, &(Arc<str>, Option<Duration>))| {
            let fields = vec![FieldChange::text("replaced", Some(former.to_string()), None)];
            let (former, stays_until) = (vec![former.clone()], *stays_until);
            (id.clone(), Ok(Delta { fields, former, stays_until, ..Delta::default() }))
        };
        deltas.extend(self.former.iter().map(ends));
        let refused = want.desired.iter().filter(|desired| self.refused.contains(&desired.id));
        let error = || Err(Error::invalid("the remote does not take it"));
        deltas.extend(refused.map(|desired| (desired.id.clone(), error())));
        Ok(deltas)
    }
    async fn health(&self, cx: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        self.reference.health(cx, want).await
    }
    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        self.reference.discover(cx, query).await
    }
    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        self.reference.export(found)
    }
    fn part(&self, scope: &Scope, id: &ResourceId) -> Option<Arc<str>> {
        self.reference.part(scope, id)
    }
    fn slot(&self, id: &ResourceId) -> Option<Slot> {
        self.reference.slot(id)
    }
    fn guard_word(&self, _: &Scope, id: &ResourceId) -> Option<&'static str> {
        self.words.get(id).copied()
    }
    fn show(&self, id: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        self.reference.show(id, bytes)
    }
    fn keep(&self, desired: &Resource, observed: &Observed, ignored: &[Arc<str>]) -> Result<Vec<u8>, Error> {
        let (seen, mut kept) = (fields(&observed.bytes), fields(desired.spec.bytes().unwrap_or_default()));
        if seen.contains_key("sealed") && is_ignored(ignored, "sealed") {
            return Err(Error::unsupported("what is sealed cannot be left"));
        }
        // Names cannot be left while the rest is written.
        let names: BTreeSet<String> = seen.keys().chain(kept.keys()).cloned().collect();
        for name in names.into_iter().filter(|name| name != "names" && is_ignored(ignored, name)) {
            match seen.get(&name) {
                Some(value) => kept.insert(name, value.clone()),
                None => kept.remove(&name),
            };
        }
        let content = |(name, value): (&String, &String)| match &**name {
            "content" => value.clone(),
            name => format!("{name}={value}"),
        };
        Ok(kept.iter().map(content).collect::<Vec<_>>().join(";").into_bytes())
    }
    fn place(&self, claim: &Claim, scopes: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        self.reference.place(claim, scopes)
    }
    fn merge(
        &self,
        declared: &[&Resource],
        seen: Option<&Observed>,
        tracked: Option<&Tracked>,
        claims: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        self.reference.merge(declared, seen, tracked, claims)
    }
    fn hints(&self) -> BoxStream<'static, Hint> {
        self.reference.hints()
    }
}
