//! The published JSON form of a plan: Terraform's plan shape, extended.
//!
//! `resource_changes[].change` is Terraform's, so policies written for Terraform plans read it. `adopt`, `move`
//! and `forget` are added to its actions; a replace is `["delete", "create"]`, as there. Fields are only ever
//! added within a `formatVersion` of the same major number; readers ignore those they do not know.

use super::{
    change::{ConditionKind, ResourceChange},
    domain::{GuardDomain, State},
    summary::{Summary, Unlisted, is_zero},
};
use crate::store::UnassignedManifest;
use reconciled_engine::{BY_MANIFEST, BY_PERSON};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

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
    /// Changes that are not listed, by scope. What is published lists all.
    #[serde(skip)]
    pub(crate) unlisted: BTreeMap<Arc<str>, Unlisted>,
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
