//! The published JSON form of a plan: Terraform's plan shape, extended.
//!
//! `resource_changes[].change` is Terraform's, so policies written for Terraform plans read it. `adopt`, `move`
//! and `forget` are added to its actions; a replace is `["delete", "create"]`, as there. Fields are only ever
//! added within a `formatVersion` of the same major number; readers ignore those they do not know.

use crate::store::UnassignedManifest;
use reconciled_engine::{BY_MANIFEST, BY_PERSON, store};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Fields and values of a resource, as a person reads them.
pub type Values = BTreeMap<Arc<str>, String>;

/// What stands where a secret would.
pub(super) const SENSITIVE: &str = "(sensitive)";

/// Version of the form.
pub(super) const FORMAT_VERSION: &str = "1.0";

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Version of this form, `MAJOR.MINOR`.
    #[serde(rename = "formatVersion", default)]
    pub version: Arc<str>,
    /// The same by the name that Terraform's plans have for it, which policies written for those look at.
    pub format_version: Arc<str>,
    /// The worst of what is in it.
    pub state: State,
    /// How many changes of each kind.
    pub summary: Summary,
    /// Resources that are as desired.
    pub in_sync: usize,
    /// Scopes that were not looked at because nothing changes for them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untouched: usize,
    /// What was planned from.
    pub sources: Vec<Source>,
    /// Sources whose newest revision has errors that keep all of it from coming into force: the last good one was planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<Arc<str>>,
    /// The guard's word on each domain that changes.
    pub domains: Vec<GuardDomain>,
    /// The changes, scope by scope, in the order in which they happen.
    pub resource_changes: Vec<ResourceChange>,
    /// Changes that may not be what was meant.
    pub warnings: Vec<Warning>,
    /// What keeps resources from being in sync.
    pub conditions: Vec<Condition>,
    /// What nobody declared here: left alone.
    pub foreign: Foreign,
    /// What is remembered of entries and sources that are not configured here: left alone.
    pub unassigned: Vec<Unassigned>,
    /// Manifests for providers that are not configured here: left to other hosts, as far as they are for those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unassigned_manifests: Vec<UnassignedManifest>,
    /// What is tracked and left as it is, because it is not known here what its source declares.
    #[serde(default)]
    pub frozen: Vec<Frozen>,
    /// What is wrong with the manifests.
    pub problems: Vec<Problem>,
    /// Scopes that could not be read.
    pub failures: Vec<Failure>,
    /// A trailer of a commit may consent to what is held in one of the domains.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trailers: bool,
    /// Something is wrong with sources, manifests or entries, so this is not a plan of all that is meant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// How a plan, a domain or a change stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing is in its way.
    #[default]
    Ready,
    /// It needs time or another resource.
    Waiting,
    /// It needs a person: consent, or something to be put right.
    Held,
    /// Something could not be read.
    Failed,
}

/// How many changes of each kind come with an apply: at once, with consent, or once what they wait for is there. The others are
/// counted apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// New at the remote.
    pub create: usize,
    /// Changed in place, or taking the next step of a change.
    pub update: usize,
    /// Deleted and created anew.
    pub replace: usize,
    /// Gone from the remote.
    pub delete: usize,
    /// Taken over as they are.
    pub adopt: usize,
    /// Known under a new address.
    pub r#move: usize,
    /// No longer tracked, left as they are.
    pub forget: usize,
    /// Stopped by a person, a manifest or a window.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub suspended: usize,
    /// Not done before a person puts something right, such as what a policy forbids.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stalled: usize,
}

/// A source at the revision that was planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// Its name.
    pub name: Arc<str>,
    /// Full commit id; empty for a folder.
    pub revision: Arc<str>,
    /// What people call the revision.
    pub label: Arc<str>,
}

/// What the guard says of one domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardDomain {
    /// `PROVIDER/NAME` of a scope, or the name of an entry.
    pub name: Arc<str>,
    /// The scopes counted in it.
    pub scopes: Vec<Arc<str>>,
    /// Digest of its guarded changes, 32 hexadecimal digits: what an approval is bound to.
    pub digest: Option<Arc<str>>,
    /// Held, failed, waiting or ready.
    pub state: State,
    /// Why it is, or without its approval would be, held.
    pub reasons: Vec<Arc<str>>,
    /// What the guard counted.
    pub counts: Counts,
    /// A person's consent to the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// A trailer of a commit may consent to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trailers: bool,
    /// The state has a hold with this digest, so that the first digits name it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
    /// What of it will be held once a window opens or a person resumes it; none while something is held now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreseen: Option<Foreseen>,
}

impl GuardDomain {
    /// The digests that a person has still to consent to: of what is held now, and of what will be.
    pub fn wanted(&self) -> impl Iterator<Item = &Arc<str>> {
        let now = self.digest.as_ref().filter(|_| self.state == State::Held);
        let later = self.foreseen.as_ref().filter(|foreseen| foreseen.approval.is_none());
        now.into_iter().chain(later.map(|foreseen| &foreseen.digest))
    }
}

/// What a closed window or a person stops, and will be held, or would be without its approval, once nothing does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Foreseen {
    /// When: `once the window opens`.
    pub once: Arc<str>,
    /// Its digest by then, if nothing of it changes: consent may be given ahead.
    pub digest: Arc<str>,
    /// Why it is, or without its approval would be, held.
    pub reasons: Vec<Arc<str>>,
    /// What the guard counted.
    pub counts: Counts,
    /// A person's consent to the digest: nothing is written by it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// As of the domain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
}

/// Changes that the guard counts: not repairs, restores and claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Creates.
    pub create: u32,
    /// Updates.
    pub update: u32,
    /// Replaces.
    pub replace: u32,
    /// Deletes.
    pub delete: u32,
}

/// A person's consent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// By whom.
    pub actor: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
    /// When, RFC 3339.
    pub at: String,
}

/// One part of a change. As Terraform's, and three more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// New at the remote.
    Create,
    /// Changed in place.
    Update,
    /// Gone from the remote.
    Delete,
    /// Taken over as it is.
    Adopt,
    /// Known under a new address.
    Move,
    /// No longer tracked, left as it is.
    Forget,
}

/// What happens to one resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceChange {
    /// Address for people.
    pub address: String,
    /// The address it had, for a move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_address: Option<String>,
    /// What it took the place of, as the remote knows it: that is what is deleted, and the resource stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposed: Option<String>,
    /// The entry that carries it.
    pub provider: Arc<str>,
    /// `PROVIDER/NAME` of its scope.
    pub scope: Arc<str>,
    /// Remote key within the scope.
    pub id: Arc<str>,
    /// Kind of its manifest.
    pub r#type: Arc<str>,
    /// What happens.
    pub change: Change,
    /// What differs, for what is on both sides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// Why: `commit abc1234`, `configuration`, `drift`, `due`, `input`, `adopt`, `restore`, `rollback abc1234`, `upgrade`, `claim`,
    /// `continue`.
    pub reason: Arc<str>,
    /// Ready, held or waiting: held also where a person has to put something right, which `blocked` tells.
    pub state: State,
    /// What keeps it from happening now, apart from the guard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// Its guard domain.
    pub domain: Arc<str>,
    /// The domain's digest, or that of what is foreseen there, where it covers this change.
    pub digest: Option<Arc<str>>,
    /// File of the declaration, within its source; none when it is gone.
    pub file: Option<Arc<str>>,
    /// Line of the declaration.
    pub line: Option<u32>,
}

/// Terraform's `change`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// What happens, in order.
    pub actions: Vec<Action>,
    /// What the remote has; null when it is not there or was not read.
    pub before: Option<Values>,
    /// What it will have; null when it will not be there.
    pub after: Option<Values>,
    /// Fields known only after another resource was applied; `*` when that is all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub after_unknown: BTreeMap<Arc<str>, bool>,
    /// Fields of `before` that are secret: `(sensitive)` stands for their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub before_sensitive: BTreeMap<Arc<str>, bool>,
    /// Fields of `after` that are secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub after_sensitive: BTreeMap<Arc<str>, bool>,
    /// The fields because of which it is deleted and made anew, as Terraform writes paths; empty where the remote does not
    /// tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace_paths: Vec<Vec<PathStep>>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PathStep {
    /// An element of a list.
    Index(u64),
    /// An attribute, or a key.
    Name(String),
}

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Field {
    /// Path of the field.
    pub path: Arc<str>,
    /// What the remote has; null when it is not there.
    pub before: Option<String>,
    /// What it will have; null when it will not be there, or is not known yet.
    pub after: Option<String>,
    /// `after` is known only after another resource was applied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_unknown: bool,
    /// It is deleted and made anew because of this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forces_replacement: bool,
}

/// What keeps a change from happening now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Blocked {
    /// Who is needed.
    pub kind: ConditionKind,
    /// One word for machines.
    pub reason: Arc<str>,
    /// What is the matter.
    pub message: Arc<str>,
}

/// Who is needed to resolve a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConditionKind {
    /// Time or another resource.
    Waiting,
    /// A person.
    Stalled,
    /// A person's consent.
    Held,
    /// Nobody: somebody switched it off.
    Suspended,
}

impl ConditionKind {
    /// The word for people, as in JSON.
    pub fn word(self) -> &'static str {
        store::ConditionKind::from(self).word()
    }
}

impl From<store::ConditionKind> for ConditionKind {
    fn from(kind: store::ConditionKind) -> ConditionKind {
        match kind {
            store::ConditionKind::Waiting => ConditionKind::Waiting,
            store::ConditionKind::Stalled => ConditionKind::Stalled,
            store::ConditionKind::Held => ConditionKind::Held,
            store::ConditionKind::Suspended => ConditionKind::Suspended,
        }
    }
}

impl From<ConditionKind> for store::ConditionKind {
    fn from(kind: ConditionKind) -> store::ConditionKind {
        match kind {
            ConditionKind::Waiting => store::ConditionKind::Waiting,
            ConditionKind::Stalled => store::ConditionKind::Stalled,
            ConditionKind::Held => store::ConditionKind::Held,
            ConditionKind::Suspended => store::ConditionKind::Suspended,
        }
    }
}

/// What keeps a resource, or a whole scope, from being in sync.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// `PROVIDER/NAME` of the scope.
    pub scope: Arc<str>,
    /// Remote key of the resource; none for the scope as a whole.
    pub id: Option<Arc<str>>,
    /// Address for people.
    pub address: Option<String>,
    /// Who is needed.
    pub kind: ConditionKind,
    /// One word for machines.
    pub reason: Arc<str>,
    /// What is the matter.
    pub message: Arc<str>,
    /// What to type.
    pub hint: Option<Arc<str>>,
    /// When it is tried again, RFC 3339.
    pub next_try: Option<String>,
}

/// A change that may not be what was meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// One word for machines: `PossibleMove`, `MayFollow`, `PlannedAgain`, `FormerToo`, `NoNameServers`, `BelowDelegation`.
    pub reason: Arc<str>,
    /// What is odd.
    pub message: String,
    /// What to do if so.
    pub hint: Option<String>,
    /// The addresses concerned.
    pub addresses: Vec<String>,
}

/// What nobody declared here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Foreign {
    /// How many there are.
    pub count: usize,
    /// How many more are left to others because `ignore` of their zone names them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ignored: usize,
    /// Which, where asked for; fewer than `count` where a scope needed no listing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ForeignResource>,
}

/// One foreign resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ForeignResource {
    /// `PROVIDER/NAME` of the scope.
    pub scope: Arc<str>,
    /// Remote key within the scope.
    pub id: Arc<str>,
    /// Whose mark it carries.
    pub owner: Option<Arc<str>>,
}

/// A remembered scope whose entry is not configured here, or a part of one whose source is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unassigned {
    /// `PROVIDER/NAME` of the scope.
    pub scope: Arc<str>,
    /// How many resources of it are tracked.
    pub tracked: usize,
    /// The source that is not configured; none where the entry is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
}

/// What is tracked and neither changed, restored nor deleted, for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Frozen {
    /// The source it is tracked for.
    pub source: Arc<str>,
    /// Why.
    pub reason: String,
    /// The manifests that declared it.
    pub manifests: Vec<String>,
    /// How many resources of theirs are tracked.
    pub tracked: usize,
}

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// `error` or `warning`.
    pub severity: Arc<str>,
    /// File, within its source.
    pub file: Option<Arc<str>>,
    /// Line, from 1; none when the whole file is meant.
    pub line: Option<u32>,
    /// Column, from 1, in characters; none when the whole line is meant.
    pub column: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// A scope that could not be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// `PROVIDER/NAME` of the scope.
    pub scope: Arc<str>,
    /// Kind of the error: `unavailable`, `permission-denied`, ….
    pub kind: Arc<str>,
    /// What was being done and every cause behind its failing.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Document {
    /// The document of a world that stands as it was when everything was last found in sync.
    ///
    /// `sources` are name, revision and label.
    pub fn standing(in_sync: usize, foreign: usize, sources: &[(Arc<str>, Arc<str>, Arc<str>)]) -> Document {
        let source = |(name, revision, label): &(Arc<str>, Arc<str>, Arc<str>)| Source {
            name: name.clone(),
            revision: revision.clone(),
            label: label.clone(),
        };
        Document {
            version: FORMAT_VERSION.into(),
            format_version: FORMAT_VERSION.into(),
            in_sync,
            sources: sources.iter().map(source).collect(),
            foreign: Foreign { count: foreign as _, ..Foreign::default() },
            ..Document::default()
        }
    }

    /// True when something is held or stalled.
    pub fn needs_person(&self) -> bool {
        let held = self.domains.iter().any(|d| d.state == State::Held);
        held || self.conditions.iter().any(|c| matches!(c.kind, ConditionKind::Stalled | ConditionKind::Held))
    }

    /// True when a person suspended any of it.
    pub fn is_stopped(&self) -> bool {
        self.conditions.iter().any(|c| &*c.reason == BY_PERSON)
    }

    /// True when anything would change, at a remote or in the inventory.
    pub fn has_changes(&self) -> bool {
        !self.resource_changes.is_empty()
    }

    /// True when any of that is to come. What its own manifest suspends is as it is wished for: nobody and nothing is waited for.
    pub fn is_pending(&self) -> bool {
        let is_otherwise = |c: &Condition| c.kind == ConditionKind::Suspended && &*c.reason != BY_MANIFEST;
        self.has_changes() && (!self.summary.is_suspended() || self.conditions.iter().any(is_otherwise))
    }

    /// JSON, indented, with a line feed at its end.
    pub fn json(&self) -> String {
        // Invariant: string keys and finite numbers only, so there is nothing that JSON cannot hold.
        let mut text = serde_json::to_string_pretty(self).expect("a plan is plain data");
        text.push('\n');
        text
    }
    /// JSON Schema of this form, for the documentation and for readers in other languages.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Document).to_value()
    }
}

impl ResourceChange {
    /// True for what is not done before a person puts something right; consent is another thing.
    pub(crate) fn is_stalled(&self) -> bool {
        let is_stalled = |blocked: &Blocked| blocked.kind == ConditionKind::Stalled;
        self.state == State::Held && self.blocked.as_ref().is_some_and(is_stalled)
    }

    /// True for what somebody switched off.
    fn is_suspended(&self) -> bool {
        self.blocked.as_ref().is_some_and(|blocked| blocked.kind == ConditionKind::Suspended)
    }
}

impl Summary {
    /// How many of each there are, and how many of any kind do not come by themselves.
    pub(crate) fn of<'a>(changes: impl IntoIterator<Item = &'a ResourceChange>) -> Summary {
        let mut summary = Summary::default();
        for change in changes {
            *match change.change.actions[..] {
                _ if change.is_suspended() => &mut summary.suspended,
                _ if change.is_stalled() => &mut summary.stalled,
                [Action::Create] => &mut summary.create,
                [Action::Update] => &mut summary.update,
                [Action::Delete] => &mut summary.delete,
                [Action::Adopt] => &mut summary.adopt,
                [Action::Move] => &mut summary.r#move,
                [Action::Forget] => &mut summary.forget,
                _ => &mut summary.replace,
            } += 1;
        }
        summary
    }

    /// True where all there is was switched off.
    fn is_suspended(&self) -> bool {
        self.suspended > 0 && *self == Summary { suspended: self.suspended, ..Summary::default() }
    }
}
