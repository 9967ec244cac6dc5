//! What a person said about how a resource may be treated.

use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// What happens to the remote resource when its declaration goes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Deletion {
    /// It is deleted.
    Delete,
    /// It is left as it is and forgotten.
    Abandon,
    /// It is kept and tracked; deleting it is held until a person approves.
    Protect,
}

/// What happens when the remote is changed by hand.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Drift {
    /// It is put right.
    Heal,
    /// It is reported and left.
    Warn,
    /// It is not even reported.
    Ignore,
}

impl Drift {
    /// The word, as manifests say it.
    ///
    /// ```
    /// assert_eq!(reconciled_provider::Drift::Warn.word(), "warn");
    /// ```
    pub fn word(self) -> &'static str {
        match self {
            Drift::Heal => "heal",
            Drift::Warn => "warn",
            Drift::Ignore => "ignore",
        }
    }
}

/// What may be written at all: `policy` of an entry, and of a manifest, which can only say less.
///
/// ```
/// use reconciled_provider::EntryPolicy;
/// assert_eq!(EntryPolicy::Sync.min(EntryPolicy::CreateOnly), EntryPolicy::CreateOnly);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

impl EntryPolicy {
    /// The word, as people write it.
    ///
    /// ```
    /// assert_eq!(reconciled_provider::EntryPolicy::UpsertOnly.word(), "upsert-only");
    /// ```
    pub fn word(self) -> &'static str {
        match self {
            EntryPolicy::Observe => "observe",
            EntryPolicy::CreateOnly => "create-only",
            EntryPolicy::UpsertOnly => "upsert-only",
            EntryPolicy::Sync => "sync",
        }
    }
}

/// Whether a resource that exists but is not tracked may be taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Adopt {
    /// Only when it equals the desired state and carries nobody else's mark.
    #[default]
    WhenEqual,
    /// Also when it differs (`"true"`).
    Always,
    /// Also when the named other tool marked it (`externaldns/OWNER`, `octodns`).
    From(Arc<str>),
    /// Not even when equal.
    Never,
}

/// The annotations of one manifest or record that decide how it is treated.
///
/// `None` means "as the kind, source or entry says".
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Policy {
    /// What happens when the declaration goes.
    pub deletion: Option<Deletion>,
    /// What happens on drift.
    pub drift: Option<Drift>,
    /// Whether an existing resource may be taken over.
    pub adopt: Adopt,
    /// What may be written, where that is less than the entry allows.
    pub writes: EntryPolicy,
    /// No writes, observing goes on.
    pub suspend: bool,
    /// The declared values are ours, others stay.
    pub merge: bool,
    /// Field paths that are left alone.
    pub ignore: Arc<[Arc<str>]>,
    /// Rules of [`crate::Observer::lint`] that are not told.
    pub lint_ignore: Arc<[Arc<str>]>,
    /// How long it is not looked at again while it is unchanged; zero: for as long as it is.
    pub interval: Option<Duration>,
}

impl Policy {
    /// What counts for a resource that both have: the more careful of each.
    pub fn with(&self, other: &Policy) -> Policy {
        let union = |a: &Arc<[Arc<str>]>, b: &Arc<[Arc<str>]>| -> Arc<[Arc<str>]> {
            let all: BTreeSet<Arc<str>> = a.iter().chain(b.iter()).cloned().collect();
            all.into_iter().collect()
        };
        let is_never = self.adopt == Adopt::Never || other.adopt == Adopt::Never;
        Policy {
            deletion: self.deletion.max(other.deletion),
            drift: self.drift.max(other.drift),
            adopt: if is_never { Adopt::Never } else { self.adopt.clone() },
            writes: self.writes.min(other.writes),
            suspend: self.suspend || other.suspend,
            merge: self.merge && other.merge,
            ignore: union(&self.ignore, &other.ignore),
            lint_ignore: union(&self.lint_ignore, &other.lint_ignore),
            interval: self.interval.or(other.interval),
        }
    }
}

/// Index into [`Policies`]: few distinct policies, many resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId(pub u32);

/// The distinct policies of a desired set. Index 0 is the default policy.
///
/// ```
/// use reconciled_provider::{Policies, Policy};
/// let mut policies = Policies::default();
/// let id = policies.intern(Policy { suspend: true, ..Policy::default() });
/// assert!(policies.get(id).suspend);
/// assert_eq!(policies.intern(policies.get(id).clone()), id);
/// ```
#[derive(Clone, Debug)]
pub struct Policies {
    list: Vec<Policy>,
    index: BTreeMap<Policy, PolicyId>,
}

impl Default for Policies {
    fn default() -> Policies {
        Policies { list: vec![Policy::default()], index: BTreeMap::from([(Policy::default(), PolicyId(0))]) }
    }
}

impl Policies {
    /// Returns the index of `policy`, adding it if it is new.
    pub fn intern(&mut self, policy: Policy) -> PolicyId {
        if let Some(id) = self.index.get(&policy) {
            return *id;
        }
        let id = PolicyId(self.list.len() as u32);
        self.list.push(policy.clone());
        self.index.insert(policy, id);
        id
    }
    /// The policy behind `id`; the default policy for an index this set never gave out.
    pub fn get(&self, id: PolicyId) -> &Policy {
        self.list.get(id.0 as usize).unwrap_or(&self.list[0])
    }
}
