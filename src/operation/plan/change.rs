//! One change, and what keeps it from being made, in the published form.

use super::domain::State;
use reconciled_engine::store;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Fields and values of a resource, as a person reads them.
pub type Values = BTreeMap<Arc<str>, String>;

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

impl ResourceChange {
    /// True for what is not done before a person puts something right; consent is another thing.
    pub(crate) fn is_stalled(&self) -> bool {
        let is_stalled = |blocked: &Blocked| blocked.kind == ConditionKind::Stalled;
        self.state == State::Held && self.blocked.as_ref().is_some_and(is_stalled)
    }

    /// True for what somebody switched off.
    pub(super) fn is_suspended(&self) -> bool {
        self.blocked.as_ref().is_some_and(|blocked| blocked.kind == ConditionKind::Suspended)
    }
}
