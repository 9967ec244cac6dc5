//! The planner: desired × observed × tracked → steps with reasons. Pure, synchronous, no clock.
//!
//! Guarantees: same input, same steps in the same order; only tracked resources are changed; nothing is
//! deleted on an observation that is incomplete or covers a part; a step says why and what differs.
//!
//! It deliberately does not decide whether the steps may be carried out: that is the [`guard`].

pub mod digest;
pub mod guard;
mod order;
mod prune;
mod reason;
mod step;

pub use reason::Reason;
pub use step::{Blocked, Change, Step, Work};

use crate::{
    desired::{Desired, ManifestMeta},
    store::{Condition, ConditionKind, Consent, KnownVersion, Row, RowState, ScopeMemory},
};
use reconciled_provider::{
    Address, Adopt, Deletion, Deltas, Drift, Focus, Hash, ManifestKey, Observation, Observed, Observer,
    Owner, Resource, ResourceId, Scope, Spec, Version,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// What an entry may do at all (`policy` in the host configuration).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryPolicy {
    /// Plan, never write.
    Observe,
    /// Only creates.
    CreateOnly,
    /// Creates and updates.
    UpsertOnly,
    /// Everything.
    #[default]
    Sync,
}

/// What the planner sees of one scope.
pub struct ScopeInput<'a> {
    /// The scope.
    pub scope: &'a Scope,
    /// Its provider, for pure questions only.
    pub provider: &'a dyn Observer,
    /// What the entry may do.
    pub policy: EntryPolicy,
    /// The whole desired state.
    pub desired: &'a Desired,
    /// Desired resources of this scope, merged and claimed, one per id, sorted by id.
    pub effective: &'a [Resource],
    /// Ids in `effective` that exist only because of claims.
    pub claimed: &'a BTreeSet<ResourceId>,
    /// What is remembered, with rows recovered from open intents and moves applied.
    pub memory: &'a ScopeMemory,
    /// Addresses that rows were moved from, by new id.
    pub moved: &'a BTreeMap<ResourceId, Address>,
    /// What was seen.
    pub seen: &'a Observation,
    /// How desired and observed differ.
    pub deltas: &'a Deltas,
    /// Manifests that others wait for and that are ready.
    pub ready: &'a BTreeSet<ManifestKey>,
    /// Manifests that others still depend on, by dependency.
    pub needed: &'a BTreeSet<ManifestKey>,
    /// What the user selected.
    pub selection: &'a Selection,
    /// Now, since the epoch: only for what waits on time.
    pub now: Duration,
}

/// What the user selected with `--target`, `-l` and `--source`. Empty selects everything.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Address patterns; any may match.
    pub targets: Vec<reconciled_provider::Pattern>,
    /// Labels a manifest must have.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
}

impl Selection {
    /// True when everything is selected.
    pub fn is_all(&self) -> bool {
        self.targets.is_empty() && self.labels.is_empty()
    }
    fn selects(&self, address: &Address, group: &str, labels: Option<&BTreeMap<Arc<str>, Arc<str>>>) -> bool {
        let targeted = self.targets.is_empty() || self.targets.iter().any(|t| t.matches(address, group));
        let labelled =
            |(key, value): &(Arc<str>, Arc<str>)| labels.is_some_and(|l| l.get(key) == Some(value));
        targeted && self.labels.iter().all(labelled)
    }
}

/// The plan of one scope.
#[derive(Clone, Debug)]
pub struct ScopePlan {
    /// The scope.
    pub scope: Scope,
    /// Version of the observation it was made from.
    pub base: Version,
    /// Steps in the order they must happen.
    pub steps: Vec<Step>,
    /// Rows whose bookkeeping moved (file, manifest, edges) while the remote is as it should be.
    pub refreshed: Vec<Row>,
    /// Rows seen to be as written, and nothing else about them moved.
    pub settled: Vec<ResourceId>,
    /// Rows whose resource is gone and no longer wanted.
    pub lapsed: Vec<Row>,
    /// Foreign resources left alone.
    pub foreign: Vec<(ResourceId, Option<Arc<str>>)>,
    /// How many foreign resources there are, also when they were not listed.
    pub foreign_count: u32,
    /// What keeps resources from being in sync.
    pub conditions: Vec<Condition>,
    /// Consents that the steps use up.
    pub spent: Vec<ResourceId>,
    /// Rows in the scope, for the guard's percentages.
    pub tracked: usize,
    /// Resources that are in sync.
    pub in_sync: usize,
}

impl ScopePlan {
    /// True when the remote is as it should be and nothing waits: no steps, no conditions.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.conditions.is_empty()
    }
    /// The token to remember: set only when all of the scope was seen and is in sync.
    pub fn known_version(&self, seen: &Observation) -> Option<KnownVersion> {
        let whole = seen.complete && seen.covered == Focus::All && matches!(seen.version, Version::At(_));
        let settled = self.steps.is_empty() && self.conditions.is_empty();
        (whole && settled)
            .then(|| KnownVersion { version: seen.version.clone(), foreign: self.foreign_count })
    }
}

/// Plans one scope.
pub fn plan(input: &ScopeInput<'_>) -> ScopePlan {
    let mut out = ScopePlan {
        scope: input.scope.clone(),
        base: input.seen.version.clone(),
        steps: Vec::new(),
        refreshed: Vec::new(),
        settled: Vec::new(),
        lapsed: Vec::new(),
        foreign: Vec::new(),
        foreign_count: 0,
        conditions: Vec::new(),
        spent: Vec::new(),
        tracked: input.memory.rows.len(),
        in_sync: 0,
    };
    let planner = Planner { input };
    for desired in input.effective {
        planner.desired(desired, &mut out);
    }
    prune::tracked_and_no_longer_desired(&planner, &mut out);
    prune::foreign(&planner, &mut out);
    order::sort(input, &mut out.steps);
    if !input.seen.complete {
        out.conditions.push(Condition {
            id: None,
            address: None,
            kind: ConditionKind::Waiting,
            reason: "IncompleteRead".into(),
            message: "not all of it could be read: nothing is created or deleted on the word of a part"
                .into(),
            hint: None,
            since: Duration::ZERO,
            next_try: Some(input.now + INCOMPLETE_AGAIN),
        });
    }
    out
}

/// The questions asked of the input, with binary searches in its sorted lists.
struct Planner<'a> {
    input: &'a ScopeInput<'a>,
}

impl<'a> Planner<'a> {
    fn row(&self, id: &ResourceId) -> Option<&'a Row> {
        let rows = &self.input.memory.rows;
        rows.binary_search_by(|row| row.tracked.id.cmp(id)).ok().map(|i| &rows[i])
    }
    fn is_desired(&self, id: &ResourceId) -> bool {
        self.input.effective.binary_search_by(|r| r.id.cmp(id)).is_ok()
    }
    fn consent(&self, id: &ResourceId) -> Option<&'a Consent> {
        self.input.memory.consents.iter().find(|(i, _)| i == id).map(|(_, consent)| consent)
    }
    fn manifest(&self, desired: &Resource) -> Option<&'a ManifestMeta> {
        if self.input.claimed.contains(&desired.id) {
            return None;
        }
        self.input.desired.manifests.get(desired.origin.manifest as usize)
    }
    fn address(&self, desired: &Resource) -> Address {
        let part = self.input.provider.part(self.input.scope, &desired.id);
        match self.manifest(desired) {
            Some(manifest) => Address { part, ..manifest.address.clone() },
            None => claim_address(self.input.scope, &desired.id, part),
        }
    }
    fn selects(&self, address: &Address, manifest: Option<&ManifestMeta>) -> bool {
        let selection = self.input.selection;
        selection.is_all()
            || selection.selects(address, manifest.map_or("", |m| m.key.group()), manifest.map(|m| &m.labels))
    }
    fn covers(&self, id: &ResourceId) -> bool {
        self.input.seen.covered.covers(id)
    }

    /// Plans one desired resource: the table of INTERFACE §3.
    fn desired(&self, desired: &Resource, out: &mut ScopePlan) {
        let address = self.address(desired);
        if !self.covers(&desired.id) || !self.selects(&address, self.manifest(desired)) {
            return;
        }
        let row = self.row(&desired.id);
        let observed = self.input.seen.get(&desired.id);
        match (row, observed) {
            (Some(row), _) if matches!(row.state, RowState::Pending { .. }) => {
                self.go_on(desired, row, observed, address, out)
            }
            (Some(row), Some(observed)) => self.tracked_and_seen(desired, row, observed, address, out),
            (None, Some(observed)) => self.untracked_but_seen(desired, observed, address, out),
            // What was not seen may still be there.
            (_, None) if !self.input.seen.complete => {}
            (Some(row), None) => self.tracked_but_missing(desired, row, address, out),
            (None, None) => self.create(desired, None, address, out),
        }
    }

    fn tracked_and_seen(
        &self,
        desired: &Resource,
        row: &Row,
        observed: &Observed,
        address: Address,
        out: &mut ScopePlan,
    ) {
        if let Owner::Other(other) = &observed.owner
            && !self.may_take_from(desired, other)
        {
            out.conditions.push(management_conflict(desired, address, other));
            return;
        }
        if let Some(from) = self.input.moved.get(&desired.id) {
            out.steps.push(self.step(
                Change::Move { from: from.clone() },
                desired,
                Some(row),
                Some(observed),
                address.clone(),
            ));
        }
        if self.is_ignored(desired) || self.is_equal(desired, observed) {
            self.in_sync(desired, row, address, out);
            return;
        }
        let unseen = self.unseen_until(row).filter(|_| row.template == desired.spec.template());
        if let Some(at) = unseen.max(self.unanswered_until(&desired.id, Some(observed))) {
            out.conditions.push(not_yet_visible(desired, address, at));
            return;
        }
        match self.input.deltas.get(&desired.id) {
            Some(Err(error)) => out.conditions.push(failed_to_plan(desired, address, error)),
            Some(Ok(delta)) => {
                let change = if delta.replace { Change::Replace } else { Change::Update };
                let mut step = self.step(change, desired, Some(row), Some(observed), address);
                step.fields = delta.fields.clone();
                step.work.delta = delta.clone();
                self.push(step, desired, Some(row), out);
            }
            None if matches!(desired.spec, Spec::Waiting { .. }) => {
                if row.template != desired.spec.template() {
                    let step = self.step(Change::Update, desired, Some(row), Some(observed), address);
                    self.push(step, desired, Some(row), out);
                }
            }
            // The provider compared and found nothing that matters.
            None => self.in_sync(desired, row, address, out),
        }
    }

    /// A pending resource takes its next step when its time has come; until then it waits.
    fn go_on(
        &self,
        desired: &Resource,
        row: &Row,
        observed: Option<&Observed>,
        address: Address,
        out: &mut ScopePlan,
    ) {
        let RowState::Pending { recheck_at } = row.state else { return };
        let mut mine = self.input.memory.claims_made.iter().filter(|c| c.owner == desired.id).peekable();
        let claims_came_true = mine.peek().is_some() && mine.all(|c| c.synced);
        let due = self.input.now >= recheck_at || claims_came_true;
        // A new declaration overtakes a pending one; the provider gets both and decides how.
        if !due && row.template == desired.spec.template() {
            let mut wait = condition(
                desired,
                address,
                ConditionKind::Waiting,
                "Progressing",
                "the remote is on its way".into(),
            );
            wait.next_try = Some(recheck_at);
            out.conditions.push(wait);
            return;
        }
        let mut step = self.step(Change::Continue, desired, Some(row), observed, address);
        if let Some(Ok(delta)) = self.input.deltas.get(&desired.id) {
            step.fields = delta.fields.clone();
            step.work.delta = delta.clone();
        }
        self.push(step, desired, Some(row), out);
    }

    fn in_sync(&self, desired: &Resource, row: &Row, address: Address, out: &mut ScopePlan) {
        out.in_sync += 1;
        let now = self.row_for(desired, Some(row), address);
        let settled = Row { state: RowState::Settled, revision: row.revision.clone(), ..now };
        if settled == *row {
            return;
        }
        let only_state = Row { state: row.state.clone(), ..settled.clone() } == *row;
        if only_state {
            out.settled.push(desired.id.clone());
        } else {
            out.refreshed.push(settled);
        }
    }

    fn untracked_but_seen(
        &self,
        desired: &Resource,
        observed: &Observed,
        address: Address,
        out: &mut ScopePlan,
    ) {
        let policy = self.input.desired.policies.get(desired.policy);
        let consent = self.consent(&desired.id);
        if let Owner::Other(other) = &observed.owner
            && !self.may_take_from(desired, other)
            && !policy.merge
        {
            out.conditions.push(management_conflict(desired, address, other));
            return;
        }
        let equal = self.is_equal(desired, observed)
            || !self.input.deltas.contains_key(&desired.id) && desired.spec.hash().is_some();
        let agreed =
            matches!(consent, Some(Consent::Adopt { observed: shown, .. }) if *shown == observed.hash);
        let barred = matches!(consent, Some(Consent::Barred)) || policy.adopt == Adopt::Never;
        let is_claim = self.input.claimed.contains(&desired.id);
        // Shared values leave those of others alone; a mark of this instance is its own earlier word.
        let needs_consent =
            !(is_claim || policy.merge || matches!(observed.owner, Owner::System | Owner::Ours));
        if barred && !agreed {
            out.conditions.push(not_ours(
                desired,
                address,
                "it was forgotten, or its manifest says `adopt: never`",
            ));
            return;
        }
        if equal {
            let mut step = self.step(Change::Adopt, desired, None, Some(observed), address);
            step.reason = Reason::Adopt;
            if agreed {
                out.spent.push(desired.id.clone());
            }
            self.push(step, desired, None, out);
            return;
        }
        let always = matches!(policy.adopt, Adopt::Always | Adopt::From(_));
        if needs_consent && !agreed && !always {
            let why = match consent {
                Some(Consent::Adopt { .. }) => "it changed after `adopt` was said",
                _ => "it exists, differs from the manifest, and is not tracked",
            };
            let mut found = not_ours(desired, address, why);
            found.message =
                format!("{}{}", found.message, differences(self.input.deltas, &desired.id)).into();
            out.conditions.push(found);
            return;
        }
        if let Some(Ok(delta)) = self.input.deltas.get(&desired.id) {
            let change = if delta.replace { Change::Replace } else { Change::Update };
            let mut step = self.step(change, desired, None, Some(observed), address);
            if agreed || always {
                step.reason = Reason::Adopt;
            }
            step.fields = delta.fields.clone();
            step.work.delta = delta.clone();
            if agreed {
                out.spent.push(desired.id.clone());
            }
            self.push(step, desired, None, out);
        }
    }

    fn tracked_but_missing(&self, desired: &Resource, row: &Row, address: Address, out: &mut ScopePlan) {
        if self.is_ignored(desired) {
            return;
        }
        if let Some(at) = self.unseen_until(row).max(self.unanswered_until(&desired.id, None)) {
            // A write may stay unseen that long; creating again would make two.
            out.conditions.push(not_yet_visible(desired, address, at));
            return;
        }
        self.create(desired, Some(row), address, out);
    }

    /// Until when our last write may be missing from what reads show.
    fn unseen_until(&self, row: &Row) -> Option<Duration> {
        let until = row.written_at + self.input.provider.info().consistency_window;
        (self.input.now < until).then_some(until)
    }

    /// Until when a write that got no answer may be missing from what reads show.
    fn unanswered_until(&self, id: &ResourceId, observed: Option<&Observed>) -> Option<Duration> {
        let window = self.input.provider.info().consistency_window;
        let mut open = self.input.memory.open.iter().filter(|o| o.intent.row.tracked.id == *id);
        let latest = open.next_back()?;
        let shown = observed.is_some_and(|o| latest.intent.after == Some(o.hash));
        let until = latest.started_at + window;
        (!shown && self.input.now < until).then_some(until)
    }

    fn create(&self, desired: &Resource, row: Option<&Row>, address: Address, out: &mut ScopePlan) {
        let step = self.step(Change::Create, desired, row, None, address);
        self.push(step, desired, row, out);
    }

    /// Adds `step`, or says what keeps it from being taken.
    fn push(&self, mut step: Step, desired: &Resource, row: Option<&Row>, out: &mut ScopePlan) {
        let policy = self.input.desired.policies.get(desired.policy);
        step.blocked = self.blocked(&step, desired, row, policy.suspend);
        match &step.blocked {
            Some(Blocked::Drift(Drift::Ignore)) => {
                out.in_sync += 1;
                return;
            }
            Some(blocked) => out.conditions.push(blocked.condition(&step)),
            None => {}
        }
        out.steps.push(step);
    }

    fn blocked(
        &self,
        step: &Step,
        desired: &Resource,
        row: Option<&Row>,
        suspended: bool,
    ) -> Option<Blocked> {
        if matches!(step.change, Change::Adopt) {
            return None;
        }
        if suspended {
            return Some(Blocked::Suspended);
        }
        if matches!(step.reason, Reason::Drift | Reason::Restore) {
            let policy = self.input.desired.policies.get(desired.policy);
            let source = row.and_then(|r| self.input.desired.sources.get(r.manifest.source()));
            match policy.drift.or_else(|| source.and_then(|s| s.drift)).unwrap_or(Drift::Heal) {
                Drift::Heal => {}
                mode => return Some(Blocked::Drift(mode)),
            }
        }
        let allowed = match step.change {
            Change::Create => self.input.policy >= EntryPolicy::CreateOnly,
            Change::Update | Change::Continue => self.input.policy >= EntryPolicy::UpsertOnly,
            _ => self.input.policy >= EntryPolicy::Sync,
        };
        if !allowed {
            return Some(Blocked::EntryPolicy(self.input.policy));
        }
        if let Spec::Waiting { on, .. } = &desired.spec {
            return Some(Blocked::Reference(on.iter().map(|r| r.target.clone()).collect()));
        }
        let unready = |key: &&ManifestKey| !self.input.ready.contains(*key);
        let after = self.manifest(desired).map_or(&[][..], |m| &m.after);
        after.iter().find(unready).map(|key| Blocked::Dependency(key.clone()))
    }

    fn is_equal(&self, desired: &Resource, observed: &Observed) -> bool {
        desired.spec.hash() == Some(observed.hash)
    }

    fn is_ignored(&self, desired: &Resource) -> bool {
        let policy = self.input.desired.policies.get(desired.policy);
        policy.ignore.iter().any(|path| &**path == "*")
    }

    fn may_take_from(&self, desired: &Resource, other: &str) -> bool {
        let policy = self.input.desired.policies.get(desired.policy);
        let declared = matches!(&policy.adopt, Adopt::From(from) if **from == *other);
        let said = matches!(self.consent(&desired.id), Some(Consent::Adopt { from: Some(from), .. }) if **from == *other);
        declared || said
    }

    fn step(
        &self,
        change: Change,
        desired: &Resource,
        row: Option<&Row>,
        observed: Option<&Observed>,
        address: Address,
    ) -> Step {
        let manifest = self.manifest(desired);
        let guard_words = match &change {
            Change::Update | Change::Replace => {
                self.input.provider.guard_word(self.input.scope, &desired.id).into_iter().collect()
            }
            _ => Vec::new(),
        };
        let reason = match &change {
            Change::Continue => Reason::Continue,
            _ => reason::of(self.input, manifest, desired, row, observed),
        };
        Step {
            id: desired.id.clone(),
            place: manifest.map(|m| (m.file.clone(), desired.origin.line)),
            reason,
            fields: Vec::new(),
            before: observed.map(|o| o.hash),
            after: Some(desired.spec.template()),
            blocked: None,
            guard_words,
            work: Work {
                desired: Some(desired.clone()),
                observed: observed.cloned(),
                row: Some(self.row_for(desired, row, address.clone())),
                was: row.cloned(),
                delta: Default::default(),
            },
            address,
            change,
        }
    }

    /// The row as it shall be once `desired` is applied.
    fn row_for(&self, desired: &Resource, row: Option<&Row>, address: Address) -> Row {
        let input = self.input;
        let policy = input.desired.policies.get(desired.policy);
        let manifest = self.manifest(desired);
        let key = manifest.map_or_else(|| claim_key(input.scope, &desired.id), |m| m.key.clone());
        let source = input.desired.sources.get(key.source());
        let mut tracked = match row {
            Some(row) => row.tracked.clone(),
            None => reconciled_provider::Tracked::new(desired.id.clone(), Hash::default()),
        };
        tracked.applied = desired.spec.hash().unwrap_or(tracked.applied);
        tracked.after = manifest.map_or_else(|| Arc::from([]), |m| m.after.clone());
        Row {
            scope: input.scope.clone(),
            tracked,
            file: manifest.map_or_else(|| Arc::from(""), |m| m.file.clone()),
            content: manifest.map_or(Hash::default(), |m| m.content),
            template: desired.spec.template(),
            normalizer: input.provider.info().normalizer,
            deletion: policy.deletion.unwrap_or(Deletion::Delete),
            drift: policy.drift.or_else(|| source.and_then(|s| s.drift)).unwrap_or(Drift::Heal),
            merge: policy.merge,
            state: row.map_or(RowState::Settled, |r| r.state.clone()),
            written_at: row.map_or(Duration::ZERO, |r| r.written_at),
            revision: source.map_or_else(|| Arc::from(""), |s| s.label.clone()),
            manifest: key,
            address,
        }
    }
}

/// When an incomplete read is repeated.
const INCOMPLETE_AGAIN: Duration = Duration::from_secs(10);

/// Source part of the key of a resource that exists only because of claims.
pub const CLAIMS: &str = "$claims";

fn claim_key(scope: &Scope, id: &ResourceId) -> ManifestKey {
    ManifestKey::new(CLAIMS, "", "Claim", "", &format!("{scope}/{id}"))
}

fn claim_address(scope: &Scope, id: &ResourceId, part: Option<Arc<str>>) -> Address {
    let name: Arc<str> =
        if part.is_some() { scope.to_string().into() } else { format!("{scope}/{id}").into() };
    Address { namespace: None, kind: "Claim".into(), group: None, name, part }
}

fn condition(
    desired: &Resource,
    address: Address,
    kind: ConditionKind,
    reason: &str,
    message: String,
) -> Condition {
    Condition {
        id: Some(desired.id.clone()),
        address: Some(address),
        kind,
        reason: reason.into(),
        message: message.into(),
        hint: None,
        since: Duration::ZERO,
        next_try: None,
    }
}

fn not_yet_visible(desired: &Resource, address: Address, until: Duration) -> Condition {
    let message = "written, not yet visible to reads".to_string();
    Condition {
        next_try: Some(until),
        ..condition(desired, address, ConditionKind::Waiting, "NotYetVisible", message)
    }
}

fn management_conflict(desired: &Resource, address: Address, other: &str) -> Condition {
    let hint = format!("to take it over: reconciled adopt {address} --from-instance {other}");
    let message = format!("it carries the ownership mark of `{other}`");
    Condition {
        hint: Some(hint.into()),
        ..condition(desired, address, ConditionKind::Stalled, "ManagementConflict", message)
    }
}

fn not_ours(desired: &Resource, address: Address, why: &str) -> Condition {
    let hint = format!("to take it over as it is and make it as declared: reconciled adopt {address}");
    Condition {
        hint: Some(hint.into()),
        ..condition(desired, address, ConditionKind::Stalled, "Conflict", why.into())
    }
}

fn failed_to_plan(desired: &Resource, address: Address, error: &reconciled_provider::Error) -> Condition {
    let kind = if error.kind.stalls() { ConditionKind::Stalled } else { ConditionKind::Waiting };
    let mut found = condition(desired, address, kind, error.kind.word(), error.chain());
    found.hint = error.hint.as_deref().map(Arc::from);
    found
}

fn differences(deltas: &Deltas, id: &ResourceId) -> String {
    let Some(Ok(delta)) = deltas.get(id) else { return String::new() };
    let fields: Vec<_> = delta.fields.iter().map(|f| &*f.path).collect();
    if fields.is_empty() { String::new() } else { format!(" (differs in {})", fields.join(", ")) }
}
