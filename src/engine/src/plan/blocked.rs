//! What keeps a step from being taken.
//!
//! It deliberately does not find out whether anything does.

mod words;

use super::input::Elsewhere;
use crate::{store::Condition, suspension::Suspension};
use reconciled_provider::{Address, Drift, EntryPolicy, ManifestKey, Reference, ResourceId, Scope};
use std::{sync::Arc, time::Duration};

/// Reason of what stays until it is where it is declared.
pub(super) const WAITING_FOR_MOVE: &str = "WaitingForMove";
/// Of what stays since the place it left hides the new one.
pub(crate) const STILL_HIDES: &str = "StillHides";

/// What a remote was to make and made in part, again and again.
pub(crate) const MADE_IN_PART: &str = "MadeInPart";

/// What a remote planned and did not bring about, again and again.
pub(crate) const NOT_AS_PLANNED: &str = "NotAsPlanned";

/// Reason of what may have been made by a call that has no answer.
pub const CREATE_UNKNOWN: &str = "CreateUnknown";

/// Reason of what was changed by hand, and is left so.
pub const DRIFTED: &str = "Drifted";

/// Reason of what the entry or the manifest does not let be written.
pub const POLICY_FORBIDS: &str = "PolicyForbids";

/// Where to find what is in error.
pub(super) const FILES_IN_ERROR: &str = "`status` names the files with errors";

/// A manifest of which something shall be deleted, and who needs that.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependant {
    /// The manifest.
    pub on: ManifestKey,
    /// One that depends on it.
    pub by: ManifestKey,
    /// What that one waits for by now: it may be what has no room beside this.
    pub awaits: Option<ManifestKey>,
    /// That one is to depend on it, and it declares other things by now, perhaps the same one at another entry, which are not
    /// ready yet.
    pub is_declared: bool,
}

/// What keeps a step from being taken now: small, since each of many thousand has room for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Blocked {
    /// Outputs of these manifests are not known yet.
    Reference(Vec<ManifestKey>),
    /// This output is not among those of its manifest, which is in sync: nothing is to be waited for.
    NoOutput {
        /// The output.
        reference: Box<Reference>,
        /// What to do about it.
        hint: Arc<str>,
    },
    /// This manifest is not ready yet.
    Dependency(ManifestKey),
    /// What shall be deleted is of a manifest that another one depends on.
    Dependant(Box<Dependant>),
    /// This manifest was not written since, and stands on what the one before was.
    StandsOnFormer(ManifestKey),
    /// What this manifest was before is still there, and stands on what the one before was.
    StoodOnByFormer(ManifestKey),
    /// What shall take its place cannot be made.
    Successor(Box<Address>),
    /// This is in its place and stays.
    Occupied {
        /// What is there.
        by: ResourceId,
        /// The inventory knows it.
        is_tracked: bool,
        /// It is declared, and what has no room is only claimed: it never makes any.
        is_declared: bool,
    },
    /// What it would be in is not there, and not made now.
    NoHolder {
        /// What all of the scope are in.
        holder: Box<Address>,
        /// What keeps that.
        told: Box<Condition>,
    },
    /// Only a manifest that does not count declares this scope, and it is not tracked: it may be meant to be another one.
    InError(Box<Scope>),
    /// This one may be about to take it over, and could not be looked up.
    Heir(Box<Address>),
    /// This one was being made, and nobody knows what came of that: what was found may be that one.
    Mistakable(Box<Address>),
    /// What was in its place before is this one by now.
    Taken(Box<Address>),
    /// This one is the same thing, and would go with it.
    Same(Box<Address>),
    /// It is declared there by now, and not as it shall be yet.
    Elsewhere(Box<Elsewhere>),
    /// It is declared there by now, where nobody sees it.
    Hidden {
        /// The scope that hides it as long as that is there.
        by: Box<Scope>,
        /// Where it is declared.
        there: Box<Elsewhere>,
    },
    /// Others are in it that would go with it.
    NotEmpty {
        /// How many.
        kept: usize,
        /// One of them.
        such_as: Arc<str>,
    },
    /// It was done again and again and came to nothing, and just that is declared still.
    Futile(Box<Condition>),
    /// The drift mode says not to heal.
    Drift(Drift),
    /// The entry's policy does not allow it.
    EntryPolicy(EntryPolicy),
    /// Its manifest forbids it (`reconciled/policy`).
    OwnPolicy(EntryPolicy),
    /// The manifest says `suspend`, or a person stopped it.
    Suspended(Option<Arc<Suspension>>),
    /// A create may be under way that no read can see yet; looked for again at this time.
    Ambiguous(Option<Duration>),
    /// A call about it is under way.
    UnderWay(Box<Condition>),
}
