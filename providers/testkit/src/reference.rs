//! The reference provider: one implementation of the contract that plays four kinds of remote.
//!
//! Content is plain text. A declared text that begins with `!` cannot be changed in place, so a change of
//! it is a replacement. One that begins with `?` is created by the cloud in part, which content does not show;
//! an update does the rest.

use crate::{
    faults::{Fault, Faults, Point},
    world::{Contents, Edit, Object, World},
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use reconciled_provider::{
    Action, Batch, Claim, Cx, Delta, Deltas, Error, ErrorKind, Fencing, FieldChange, Focus, Found,
    GuardDomain, Health, Hint, Identity, Inputs, Journal, Kind, Kinds, Lives, Manifest, Marking, Merged,
    Normalized, Observation, Observed, Observer, Op, Origin, Outcome, Owner, PolicyId, Provider,
    ProviderInfo, Resource, ResourceId, Scope, Sealed, Shown, Slot, Spec, Tracked, Version, Want,
    diff_by_compare, no_hints,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

/// What kind of remote is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Lists, versions, compare-and-swap, atomic batches: a DNS zone behind RFC 2136.
    Zone,
    /// Cannot list, one call for each resource, no fencing: files of a host.
    Host,
    /// Assigns identities, shows writes late, creates slowly, puts out outputs.
    Cloud {
        /// The same client token twice is one object.
        tokens: bool,
    },
    /// Works in steps that need a record elsewhere: an ACME issuer.
    Issuer,
}

/// The reference provider.
pub struct Reference {
    role: Role,
    entry: Arc<str>,
    instance: Arc<str>,
    world: Arc<World>,
    faults: Arc<dyn Faults>,
    info: ProviderInfo,
    /// Entry that carries the claims of an issuer.
    claims_at: Arc<str>,
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reference")
            .field("role", &self.role)
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}

/// How long the cloud takes to create.
const SLOW: Duration = Duration::from_secs(20);

impl Reference {
    /// The provider of `entry`, playing `role` in `world`.
    pub fn new(
        role: Role,
        entry: &str,
        instance: &str,
        world: Arc<World>,
        faults: Arc<dyn Faults>,
    ) -> Reference {
        let (identity, window) = match role {
            Role::Cloud { tokens } => (Identity::Assigned { client_token: tokens }, Duration::from_secs(5)),
            _ => (Identity::Deterministic, Duration::ZERO),
        };
        let info = ProviderInfo {
            type_name: "reference",
            static_kinds: &["Thing"],
            guard: if role == Role::Host { GuardDomain::Provider } else { GuardDomain::Scope },
            fencing: if role == Role::Zone { Fencing::Native } else { Fencing::None },
            identity,
            marking: if role == Role::Host { Marking::InventoryOnly } else { Marking::Native },
            lists: !matches!(role, Role::Host | Role::Issuer),
            atomic_batch: role == Role::Zone,
            concurrency: 2,
            consistency_window: window,
            apply_limit: Duration::from_secs(120),
            normalizer: 1,
        };
        Reference {
            role,
            entry: entry.into(),
            instance: instance.into(),
            world,
            faults,
            info,
            claims_at: "zone".into(),
        }
    }

    fn owner(&self, object: &Object) -> Owner {
        match &object.owner {
            Owner::Other(name) if *name == self.instance => Owner::Ours,
            owner => owner.clone(),
        }
    }

    fn mark(&self) -> Owner {
        if self.info.marking == Marking::Native {
            Owner::Other(self.instance.clone())
        } else {
            Owner::Unmarked
        }
    }

    /// One read call, with its faults.
    async fn read(&self, scope: &Scope) -> Result<(Contents, bool), Error> {
        self.faults.pause().await;
        let fault = self.faults.at(Point::Read);
        match fault {
            Some(Fault::CrashBefore) => self.faults.crash().await,
            Some(Fault::DropRequest) => {
                self.faults.time_out().await;
                return Err(Error::unavailable(format!("read {scope}: timed out")));
            }
            Some(Fault::Refuse(kind)) => return Err(refusal(kind, scope)),
            _ => {}
        }
        self.world.count_read();
        let contents = match fault {
            Some(Fault::Stale) => self.world.stale(scope, self.faults.now(), self.info.consistency_window),
            _ => self.world.contents(scope),
        };
        if fault == Some(Fault::CrashAfter) {
            self.faults.crash().await;
        }
        Ok((contents, fault != Some(Fault::Torn)))
    }

    /// One write call, with its faults. `check` is the remote's own condition, asked when the call arrives.
    async fn write(
        &self,
        scope: &Scope,
        edits: Vec<(ResourceId, Edit)>,
        base: Option<u64>,
    ) -> Result<(), Refused> {
        self.faults.pause().await;
        let fault = self.faults.at(Point::Write);
        match fault {
            Some(Fault::CrashBefore) => self.faults.crash().await,
            Some(Fault::DropRequest) => {
                self.faults.time_out().await;
                return Err(Refused::Unknown(Error::unavailable(format!("write {scope}: timed out"))));
            }
            Some(Fault::Refuse(kind)) => return Err(Refused::NoEffect(refusal(kind, scope))),
            _ => {}
        }
        self.world.count_write();
        if base.is_some_and(|base| base != self.world.contents(scope).version) {
            return Err(Refused::NoEffect(Error::conflict(format!("{scope} moved since it was read"))));
        }
        let now = self.faults.now();
        let edits: Vec<_> = edits.into_iter().filter(|(id, edit)| self.is_new(scope, id, edit)).collect();
        match fault {
            // A compare-and-swap cannot take effect twice, nor an atomic batch by half.
            Some(Fault::Partial) if !self.info.atomic_batch => {
                self.world.change(scope, now, &edits[..edits.len() / 2])
            }
            Some(Fault::Duplicate) if base.is_none() => {
                self.world.change(scope, now, &edits);
                let again: Vec<_> =
                    edits.into_iter().filter(|(id, edit)| self.is_new(scope, id, edit)).collect();
                self.world.change(scope, now, &again);
            }
            _ => self.world.change(scope, now, &edits),
        }
        match fault {
            Some(Fault::CrashAfter) => self.faults.crash().await,
            Some(Fault::LoseResponse | Fault::Partial) => {
                self.faults.time_out().await;
                return Err(Refused::Unknown(Error::unavailable(format!("write {scope}: no answer"))));
            }
            _ => {}
        }
        Ok(())
    }

    /// A remote that honours client tokens knows a request it has already carried out.
    fn is_new(&self, scope: &Scope, id: &ResourceId, edit: &Edit) -> bool {
        let (Edit::Add { token, .. }, Identity::Assigned { client_token: true }) = (edit, self.info.identity)
        else {
            return true;
        };
        let contents = self.world.contents(scope);
        !contents.objects.get(id).is_some_and(|list| list.iter().any(|o| o.token == *token))
    }

    fn edit(&self, action: &Action) -> Vec<(ResourceId, Edit)> {
        let assigned = matches!(self.role, Role::Cloud { .. });
        let id = action.op.id().clone();
        let put = |desired: &Resource| {
            let content = text(desired);
            match assigned {
                true => Edit::Add {
                    content,
                    owner: self.mark(),
                    token: action.token.clone(),
                    ready_at: self.faults.now() + SLOW,
                },
                false => Edit::Put { content, owner: self.mark() },
            }
        };
        match &action.op {
            Op::Create { desired, .. } => vec![(id, put(desired))],
            Op::Update { desired, .. } => {
                vec![(id, Edit::Put { content: text(desired), owner: self.mark() })]
            }
            Op::Replace { desired, observed, .. } => {
                vec![
                    (id.clone(), Edit::Remove { remote: observed.remote.clone().filter(|_| assigned) }),
                    (id, put(desired)),
                ]
            }
            Op::Delete { .. } => vec![(id, Edit::Remove { remote: None })],
            Op::Continue { .. } => Vec::new(),
        }
    }

    /// What `diff` planned comes back to `apply`.
    fn is_as_planned(&self, op: &Op) -> bool {
        match op {
            Op::Create { desired, delta }
            | Op::Update { desired, delta, .. }
            | Op::Replace { desired, delta, .. } => {
                !matches!(self.role, Role::Cloud { .. }) || delta.planned == planned(desired)
            }
            Op::Delete { .. } | Op::Continue { .. } => true,
        }
    }

    fn done(&self, scope: &Scope, op: &Op) -> Outcome {
        let Some(desired) = op.desired() else { return Outcome::Gone };
        let contents = self.world.contents(scope);
        let object = contents.objects.get(&desired.id).and_then(|list| list.first());
        let mut tracked = Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default());
        tracked.remote = object.map(|o| o.remote.clone());
        let outputs = object.map(|o| format!(r#"{{"id":"{}"}}"#, o.remote)).unwrap_or_default();
        tracked.outputs = Sealed(Bytes::from(outputs));
        let is_new = matches!(op, Op::Create { .. } | Op::Replace { .. });
        if is_new && matches!(self.role, Role::Cloud { .. }) && text(desired).starts_with('?') {
            tracked.private = Sealed(Bytes::from_static(HALF));
            return Outcome::Partial(tracked, Error::unavailable("the second step failed"));
        }
        match object {
            Some(object) if object.ready_at > self.faults.now() => Outcome::Pending {
                tracked,
                recheck_after: object.ready_at - self.faults.now(),
                claims: Vec::new(),
            },
            _ => Outcome::Done(tracked),
        }
    }

    /// Zone: the whole batch is one compare-and-swap.
    async fn apply_at_once(&self, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        let ids: Vec<_> = batch.actions.iter().map(|a| a.id).collect();
        let base = match &batch.base {
            Version::At(token) => std::str::from_utf8(token).ok().and_then(|t| t.parse().ok()),
            _ => Some(0),
        };
        journal.started(&ids).await?;
        let edits = batch.actions.iter().flat_map(|a| self.edit(a)).collect();
        let result = self.write(&batch.scope, edits, base).await;
        let outcome = |action: &Action| match &result {
            Ok(()) => self.done(&batch.scope, &action.op),
            Err(refused) => refused.outcome(),
        };
        journal.finished(batch.actions.iter().map(|a| (a.id, outcome(a))).collect()).await?;
        match result {
            Err(Refused::NoEffect(error)) if error.kind == ErrorKind::Conflict => Err(error),
            _ => Ok(()),
        }
    }

    /// Host, cloud: one call for each action.
    async fn apply_one_by_one(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        for action in &batch.actions {
            if cx.stop.is_set() {
                return Ok(());
            }
            journal.started(&[action.id]).await?;
            let edits = self.edit(action);
            let result = match self.is_as_planned(&action.op) {
                false => Err(Refused::NoEffect(Error::conflict("this is not what was planned"))),
                true if edits.is_empty() => Ok(()),
                true => self.write(&batch.scope, edits, None).await,
            };
            let outcome = match &result {
                Ok(()) => self.done(&batch.scope, &action.op),
                Err(refused) => refused.outcome(),
            };
            journal.finished(vec![(action.id, outcome)]).await?;
        }
        Ok(())
    }

    /// Issuer: a key (durable before anyone hears of it), a challenge elsewhere, then the certificate.
    async fn apply_in_steps(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        for action in &batch.actions {
            if cx.stop.is_set() {
                return Ok(());
            }
            journal.started(&[action.id]).await?;
            let outcome = match &action.op {
                Op::Delete { .. } => match self.write(&batch.scope, self.edit(action), None).await {
                    Ok(()) => Outcome::Gone,
                    Err(refused) => refused.outcome(),
                },
                Op::Continue { desired, tracked, claims } => {
                    if claims.is_empty() || !claims.iter().all(|c| c.synced) {
                        self.ask(desired, tracked.clone())
                    } else {
                        let edits = vec![(
                            desired.id.clone(),
                            Edit::Put { content: text(desired), owner: self.mark() },
                        )];
                        match self.write(&batch.scope, edits, None).await {
                            Ok(()) => self.done(&batch.scope, &action.op),
                            Err(refused) => refused.outcome(),
                        }
                    }
                }
                Op::Create { desired, .. } | Op::Update { desired, .. } | Op::Replace { desired, .. } => {
                    let mut tracked =
                        Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default());
                    tracked.private = Sealed(Bytes::from(format!("key-of-{}", desired.id)));
                    journal.progress(action.id, tracked.clone()).await?;
                    self.ask(desired, tracked)
                }
            };
            journal.finished(vec![(action.id, outcome)]).await?;
        }
        Ok(())
    }

    fn ask(&self, desired: &Resource, tracked: Tracked) -> Outcome {
        let claim = Claim {
            key: "challenge".into(),
            provider: self.claims_at.clone(),
            kind: "value".into(),
            spec: Bytes::from(format!("challenge.{}={}", desired.scope.name, desired.id)),
            lives: Lives::WhilePending,
        };
        Outcome::Pending { tracked, recheck_after: Duration::from_secs(60), claims: vec![claim] }
    }
}

enum Refused {
    NoEffect(Error),
    Unknown(Error),
}

impl Refused {
    fn outcome(&self) -> Outcome {
        match self {
            Refused::NoEffect(error) => Outcome::Failed(error.clone()),
            Refused::Unknown(error) => Outcome::Unknown(error.clone()),
        }
    }
}

fn refusal(kind: ErrorKind, scope: &Scope) -> Error {
    Error::new(kind, format!("the remote of {scope} refuses")).retry_after(Duration::from_secs(2))
}

/// What is remembered of a resource that was made in part.
const HALF: &[u8] = b"half";

fn planned(desired: &Resource) -> Sealed {
    Sealed(Bytes::from(format!("plan of {}", text(desired))))
}

fn text(resource: &Resource) -> Arc<str> {
    String::from_utf8_lossy(resource.spec.bytes().unwrap_or_default()).into()
}

/// Spec of a `test/v1 Thing`: items of one scope, key → content.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
pub struct ThingSpec {
    /// Entry that carries it.
    #[expect(
        dead_code,
        reason = "read by the manifest loader; accepted here so that it is no unknown field"
    )]
    provider: Option<String>,
    /// Name of the scope.
    scope: String,
    /// Content by key.
    items: BTreeMap<String, String>,
}

#[async_trait]
impl Observer for Reference {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn kinds(&self, _: &Cx) -> Result<Arc<Kinds>, Error> {
        Ok(Arc::new(Kinds(vec![Kind::of::<ThingSpec>(&["test/v1"], "Thing", "items of one scope")])))
    }

    fn normalize(&self, _: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        if !manifest.is_for(&self.entry, inputs.is_sole()) {
            return Normalized::default();
        }
        let (spec, problems) = manifest.spec::<ThingSpec>();
        let policy = inputs.policy(manifest.policy.clone());
        let resources = spec.into_iter().flat_map(|spec| {
            let scope = Arc::new(Scope::new(self.entry.clone(), spec.scope));
            spec.items.into_iter().map(move |(key, content)| Resource {
                id: key.into(),
                scope: scope.clone(),
                spec: Spec::known(content.into_bytes()),
                origin: manifest.origin(manifest.span),
                policy,
            })
        });
        Normalized { resources: resources.collect(), problems, ..Normalized::default() }
    }

    async fn versions(&self, _: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        if self.role != Role::Zone {
            return Ok(BTreeMap::new());
        }
        let mut versions = BTreeMap::new();
        if let Some(first) = scopes.first() {
            // One call for all of them; its faults are those of any read.
            self.read(first).await?;
        }
        for scope in scopes {
            versions.insert(scope.clone(), token(&self.world.contents(scope)));
        }
        Ok(versions)
    }

    async fn observe(&self, _: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        let (contents, complete) = self.read(want.scope).await?;
        let asked: BTreeSet<&ResourceId> =
            want.desired.iter().map(|d| &d.id).chain(want.tracked.iter().map(|t| &t.id)).collect();
        let mut resources = Vec::new();
        let dropped = if complete { None } else { contents.objects.keys().next() };
        for (id, list) in &contents.objects {
            let shown = self.info.lists || asked.contains(id);
            let Some(object) = list.first().filter(|_| shown && want.focus.covers(id) && Some(id) != dropped)
            else {
                continue;
            };
            let mut observed = Observed::new(id.clone(), Bytes::copy_from_slice(object.content.as_bytes()));
            observed.owner = self.owner(object);
            observed.remote = Some(object.remote.clone());
            resources.push(observed);
        }
        let version = if self.role == Role::Zone { token(&contents) } else { Version::Unknown };
        Ok(Observation { covered: want.focus.clone(), complete, version, resources })
    }

    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        let (before, after) =
            (String::from_utf8_lossy(&observed.bytes).into_owned(), text(desired).to_string());
        if desired.spec.hash() == Some(observed.hash) {
            return None;
        }
        let replace = after.starts_with('!') || before.starts_with('!');
        Some(Delta {
            fields: vec![FieldChange::text("content", Some(before), Some(after))],
            replace,
            planned: Sealed::default(),
        })
    }

    async fn diff(&self, _: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        let mut deltas = diff_by_compare(|d, o| self.compare(d, o), want, seen);
        if !matches!(self.role, Role::Cloud { .. }) {
            return Ok(deltas);
        }
        // The cloud plans by itself, also what does not exist yet, and carries out only what it planned.
        for desired in want.desired {
            if seen.get(&desired.id).is_none() && desired.spec.hash().is_some() {
                let id = FieldChange { path: "id".into(), before: Shown::Absent, after: Shown::Unknown };
                deltas.insert(desired.id.clone(), Ok(Delta { fields: vec![id], ..Delta::default() }));
            }
            if want.tracked.iter().any(|t| t.id == desired.id && t.private.0 == HALF) {
                deltas.entry(desired.id.clone()).or_insert_with(|| Ok(Delta::default()));
            }
            if let Some(Ok(delta)) = deltas.get_mut(&desired.id) {
                delta.planned = planned(desired);
            }
        }
        Ok(deltas)
    }

    fn tells_health(&self) -> bool {
        // A host knows how its units fare.
        matches!(self.role, Role::Host)
    }

    async fn health(&self, _: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        let is_asked = |id: &ResourceId| want.desired.iter().any(|desired| desired.id == *id);
        let mut told = self.world.health(want.scope);
        told.retain(|(id, _)| self.tells_health() && is_asked(id));
        Ok(told)
    }

    async fn discover(&self, _: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        let scope = Scope::new(self.entry.clone(), query);
        let (contents, complete) = self.read(&scope).await?;
        if !complete {
            return Err(Error::unavailable(format!("{scope}: a page is missing")));
        }
        let resources = contents.objects.iter().filter_map(|(id, list)| {
            let object = list.first()?;
            Some(Observed::new(id.clone(), Bytes::copy_from_slice(object.content.as_bytes())))
        });
        Ok(vec![Found { scope, resources: resources.collect() }])
    }

    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        let mut yaml = format!(
            "apiVersion: test/v1\nkind: Thing\nmetadata: {{name: {name}}}\nspec:\n  provider: {entry}\n  scope: {name}\n  items:\n",
            name = found.scope.name,
            entry = self.entry
        );
        for observed in &found.resources {
            let content = serde_json::to_string(&String::from_utf8_lossy(&observed.bytes))
                .map_err(|e| Error::unexpected("export").caused_by(e))?;
            yaml += &format!("    {}: {content}\n", observed.id);
        }
        Ok(vec![Bytes::from(yaml)])
    }

    fn part(&self, _: &Scope, id: &ResourceId) -> Option<Arc<str>> {
        Some(id.0.clone())
    }

    fn slot(&self, id: &ResourceId) -> Option<Slot> {
        // `www/CNAME` wants `www` for itself; keys without a slash have no slot.
        id.0.split_once('/').map(|(name, kind)| Slot { name: name.into(), alone: kind == "CNAME" })
    }

    fn guard_word(&self, _: &Scope, _: &ResourceId) -> Option<&'static str> {
        None
    }

    fn show(&self, _: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        vec![("content".into(), String::from_utf8_lossy(bytes).into_owned())]
    }

    fn place(&self, claim: &Claim, _: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        let text = String::from_utf8_lossy(&claim.spec);
        let (id, _) =
            text.split_once('=').ok_or_else(|| Error::invalid(format!("claim `{text}` is not KEY=VALUE")))?;
        Ok((Scope::new(self.entry.clone(), "claims"), id.into()))
    }

    fn merge(
        &self,
        declared: &[&Resource],
        seen: Option<&Observed>,
        tracked: Option<&Tracked>,
        claims: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        let lines = |bytes: &[u8]| -> BTreeSet<String> {
            String::from_utf8_lossy(bytes).lines().map(str::to_string).collect()
        };
        let ours: BTreeSet<String> =
            declared
                .iter()
                .flat_map(|r| lines(r.spec.bytes().unwrap_or_default()))
                .chain(claims.iter().filter_map(|c| {
                    String::from_utf8_lossy(&c.spec).split_once('=').map(|(_, v)| v.to_string())
                }))
                .collect();
        let before = tracked.map(|t| lines(&t.private.0)).unwrap_or_default();
        let others = seen.map(|o| lines(&o.bytes)).unwrap_or_default();
        let others: BTreeSet<String> = others.into_iter().filter(|line| !before.contains(line)).collect();
        let mine: Vec<String> = ours.iter().filter(|line| !others.contains(*line)).cloned().collect();
        let all: BTreeSet<String> = others.into_iter().chain(ours).collect();
        if all.is_empty() {
            return Ok(None);
        }
        let content = all.into_iter().collect::<Vec<_>>().join("\n");
        let id = declared.first().map(|r| r.id.clone()).or_else(|| seen.map(|o| o.id.clone()));
        let resource = Resource {
            id: id.unwrap_or_else(|| "".into()),
            scope: declared
                .first()
                .map_or_else(|| Arc::new(Scope::new(self.entry.clone(), "claims")), |r| r.scope.clone()),
            spec: Spec::known(content.into_bytes()),
            origin: declared.first().map_or(Origin { manifest: u32::MAX, line: 0 }, |r| r.origin),
            policy: declared.first().map_or(PolicyId(0), |r| r.policy),
        };
        Ok(Some(Merged { resource, ours: Sealed(mine.join("\n").into()) }))
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        no_hints()
    }
}

fn token(contents: &Contents) -> Version {
    if contents.version == 0 {
        Version::Absent
    } else {
        Version::At(Bytes::from(contents.version.to_string()))
    }
}

#[async_trait]
impl Provider for Reference {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        match self.role {
            // One call carries everything, so this is the only moment to hear the wish.
            Role::Zone if cx.stop.is_set() || batch.actions.is_empty() => Ok(()),
            Role::Zone => self.apply_at_once(batch, journal).await,
            Role::Host | Role::Cloud { .. } => self.apply_one_by_one(cx, batch, journal).await,
            Role::Issuer => self.apply_in_steps(cx, batch, journal).await,
        }
    }
}

/// Everything of a scope, for tests that compare worlds: key → contents of all objects with that key.
pub fn snapshot(world: &World, scope: &Scope) -> BTreeMap<String, Vec<String>> {
    let contents = world.contents(scope);
    contents
        .objects
        .iter()
        .map(|(id, list)| (id.to_string(), list.iter().map(|o| o.content.to_string()).collect()))
        .collect()
}

/// The focus that means these keys.
pub fn only(ids: &[&str]) -> Focus {
    Focus::Only(ids.iter().map(|id| ResourceId::from(*id)).collect())
}
