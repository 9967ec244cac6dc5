//! What the planner sees of one scope, and nothing else: whatever is asked, read or worked out for it was so before.

use super::selection::Selection;
use crate::{desired::Desired, store::ScopeMemory, suspension::Suspension};
use reconciled_provider::{
    Address, Deltas, EntryPolicy, Error, ManifestKey, Observation, Observer, Resource, ResourceId, Scope,
    Sealed,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

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
    /// What is shared with others.
    pub shared: &'a Shared,
    /// What is remembered, with rows recovered from open intents and moves applied.
    pub memory: &'a ScopeMemory,
    /// Addresses that rows were moved from, by new id.
    pub moved: &'a BTreeMap<ResourceId, Address>,
    /// What was seen.
    pub seen: &'a Observation,
    /// What is written in the place of what is declared, where something is ignored.
    pub kept: &'a Kept,
    /// How what is written and what was seen differ.
    pub deltas: &'a Deltas,
    /// Manifests that others wait for and that are ready.
    pub ready: &'a BTreeSet<ManifestKey>,
    /// Those that are as they were last applied.
    pub there: &'a BTreeSet<ManifestKey>,
    /// Manifests that something stands on as they were before, each with one that does.
    pub stood_on: &'a BTreeMap<ManifestKey, ManifestKey>,
    /// Manifests that others still depend on, each with one that does.
    pub needed: &'a BTreeMap<ManifestKey, ManifestKey>,
    /// What is tracked here and declared in another scope, where it is not settled yet, or is hidden by this one.
    pub elsewhere: &'a BTreeMap<ResourceId, Elsewhere>,
    /// What the user selected.
    pub selection: &'a Selection,
    /// What persons stopped, and what they stopped and whose time is over.
    pub suspensions: &'a [Arc<Suspension>],
    /// A person asks for what came to nothing to be tried once more.
    pub tries_again: bool,
    /// Now, since the epoch: only for what waits on time.
    pub now: Duration,
}

/// What uniting declarations, claims and the values of others came to, in one scope.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Ids that exist only because of claims.
    pub claimed: BTreeSet<ResourceId>,
    /// Which values are ours.
    pub ours: BTreeMap<ResourceId, Sealed>,
    /// Manifests whose word is missing.
    pub silent: BTreeSet<ManifestKey>,
    /// Where values stay because of that.
    pub kept: BTreeSet<ResourceId>,
    /// Where values of ours go.
    pub goes: BTreeSet<ResourceId>,
    /// Those of them where all else is as it shall be.
    pub only_goes: BTreeSet<ResourceId>,
    /// A manifest from which the scope was planned before is known to declare nothing here any more.
    pub has_left: bool,
}

/// What is written in the place of declarations, by id: of those alone of which something differs that is ignored. An error where
/// that can neither be left nor overwritten.
pub type Kept = BTreeMap<ResourceId, Result<Resource, Error>>;

/// Where something is declared that is tracked in another scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The scope.
    pub scope: Scope,
    /// What it is called there. None where only a file with errors declares it.
    pub address: Option<Address>,
    /// It was seen there as it was written, or taken over.
    pub is_settled: bool,
    /// Nobody sees it there as long as the scope is there that tracks it.
    pub is_hidden: bool,
}
