//! The reference provider: one implementation of the contract that plays four kinds of remote.
//!
//! Content is plain text. A declared text that begins with `!` cannot be changed in place, so a change of
//! it is a replacement. One that begins with `?` is created by the cloud in part, which content does not show;
//! an update does the rest. What shows [`OVERDUE`] instead of what is declared is due by itself. What is abandoned loses its
//! mark in the cloud, and keeps it in a zone.

mod looks;

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
    diff_by_compare, is_ignored, no_hints,
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

/// What is there once its time has come, whatever is declared.
pub const OVERDUE: &str = "overdue";

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
            // The cloud finds what is tracked by its identity, also where its name is another one by now.
            reads_ahead: role == Role::Zone,
            lists_scopes: role == Role::Zone,
            atomic_batch: role == Role::Zone,
            concurrency: 2,
            consistency_window: window,
            apply_limit: Duration::from_secs(120),
            create_backoff: ProviderInfo::BACKOFF,
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
                false => Edit::Put { content, owner: self.mark(), remote: None },
            }
        };
        // What has an assigned identity is changed by that, whatever it is called.
        let assigned_to = |observed: &Observed| observed.remote.clone().filter(|_| assigned);
        match &action.op {
            Op::Create { desired, .. } => vec![(id, put(desired))],
            Op::Update { delta, observed, .. } if delta.leaves => {
                let remote = assigned_to(observed).unwrap_or_else(|| id.0.clone());
                vec![(id, Edit::Unmark { remote })]
            }
            Op::Update { desired, observed, .. } => {
                vec![(
                    id,
                    Edit::Put { content: text(desired), owner: self.mark(), remote: assigned_to(observed) },
                )]
            }
            Op::Replace { desired, observed, .. } => {
                vec![(id.clone(), Edit::Remove { remote: assigned_to(observed) }), (id, put(desired))]
            }
            Op::Delete { observed, .. } => vec![(id, Edit::Remove { remote: assigned_to(observed) })],
            Op::Continue { .. } => Vec::new(),
        }
    }

    /// What `diff` planned comes back to `apply`.
    fn is_as_planned(&self, op: &Op) -> bool {
        match op {
            Op::Update { delta, .. } if delta.leaves => true,
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
        let known = match op {
            Op::Continue { tracked, .. } if matches!(self.role, Role::Cloud { .. }) => {
                tracked.remote.as_ref()
            }
            _ => None,
        };
        // What is on its way goes by its identity: it may have got another name since.
        let renamed = known.and_then(|remote| {
            let here = contents.objects.values().flatten().find(|object| object.remote == *remote).cloned();
            here.or_else(|| self.world.elsewhere(scope, remote))
        });
        let named = contents.objects.get(&desired.id).and_then(|list| list.first());
        let object = renamed.as_ref().or(named);
        let mut tracked = Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default());
        tracked.remote = object.map(|o| o.remote.clone());
        let outputs = object.map(|o| format!(r#"{{"id":"{}"}}"#, o.remote)).unwrap_or_default();
        tracked.outputs = Sealed::new(outputs);
        let is_new = matches!(op, Op::Create { .. } | Op::Replace { .. });
        if is_new && matches!(self.role, Role::Cloud { .. }) && text(desired).starts_with('?') {
            tracked.private = Sealed::new(HALF);
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
        let foreseen = |action: &Action| (action.id, self.done(&batch.scope, &action.op));
        journal.foreseen(&batch.actions.iter().map(foreseen).collect::<Vec<_>>()).await;
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
                Op::Continue { desired, tracked, claims, .. } => {
                    if claims.is_empty() || !claims.iter().all(|c| c.synced) {
                        self.ask(desired, Tracked::clone(tracked))
                    } else {
                        let edits = vec![(
                            desired.id.clone(),
                            Edit::Put { content: text(desired), owner: self.mark(), remote: None },
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
                    tracked.private = Sealed::new(format!("key-of-{}", desired.id));
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
    Sealed::new(format!("plan of {}", text(desired)))
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
