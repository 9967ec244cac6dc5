//! One step of a plan: an action on one resource, or a change of what is remembered.

use super::{
    EntryPolicy, PROTECTED, Reason,
    guard::{ADOPTED, RECOVERED},
    place::ANOTHER_PLACE,
    suspended::BY_HAND,
};
use crate::{
    store::{Condition, ConditionKind, Row},
    suspension::{BY_MANIFEST, BY_PERSON, StoppedBy, Suspension},
};
use reconciled_provider::{
    Address, Delta, Drift, FieldChange, Hash, ManifestKey, Observed, Reference, Resource, ResourceId, Scope,
};
use std::{sync::Arc, time::Duration};

/// Stands for what is declared where nothing is: no resource is this text.
const UNDECLARED: &[u8] = b"(nothing)";

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The remote gets a new resource.
    Create,
    /// The remote resource is changed in place.
    Update,
    /// The remote resource is deleted and created anew.
    Replace,
    /// The remote resource goes.
    Delete,
    /// What the resource took the place of goes; the resource itself stays as it is.
    EndFormer,
    /// The inventory takes over a resource that is already as desired.
    Adopt,
    /// The inventory knows a resource under a new address.
    Move {
        /// The address it had.
        from: Box<Address>,
    },
    /// The inventory lets go of a resource, which stays as it is.
    Forget,
    /// The remote resource loses our mark and stays as it is otherwise, and the inventory lets go of it.
    Abandon,
    /// A pending resource takes its next step.
    Continue,
}

impl Change {
    /// True when the remote is written to.
    pub fn writes(&self) -> bool {
        !matches!(self, Change::Adopt | Change::Move { .. } | Change::Forget)
    }
    /// The word for tables and JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Change::Create => "create",
            Change::Update => "update",
            Change::Replace => "replace",
            Change::Delete | Change::EndFormer => "delete",
            Change::Adopt => "adopt",
            Change::Move { .. } => "move",
            Change::Forget => "forget",
            Change::Abandon => "abandon",
            Change::Continue => "continue",
        }
    }
}

/// Where something is declared that is tracked in another scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The scope.
    pub scope: Scope,
    /// What it is called there. None where only a file with errors declares it.
    pub address: Option<Address>,
}

/// What a remote was to make and made in part, again and again.
pub(crate) const MADE_IN_PART: &str = "MadeInPart";

/// What a remote planned and did not bring about, again and again.
pub(crate) const NOT_AS_PLANNED: &str = "NotAsPlanned";

/// What keeps a step from being taken now.
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
    Dependant {
        /// The manifest.
        on: ManifestKey,
        /// One that depends on it.
        by: ManifestKey,
        /// That one is to depend on it, and it declares other things by now, perhaps the same one at another entry, which are not
        /// ready yet.
        is_declared: bool,
    },
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

impl Blocked {
    /// The condition that tells a person.
    pub(crate) fn condition(&self, step: &Step) -> Condition {
        let (kind, reason, message, hint) = match self {
            Blocked::Reference(keys) => (
                ConditionKind::Waiting,
                "WaitingForOutput",
                format!("waits for an output of {}", names(keys)),
                keys.first().map(why),
            ),
            Blocked::NoOutput { reference, hint } => (
                ConditionKind::Stalled,
                "NoSuchOutput",
                format!("{} is in sync and puts out no `{}`", name(&reference.target), reference.path),
                Some(hint.to_string()),
            ),
            Blocked::Dependency(key) => (
                ConditionKind::Waiting,
                "WaitingForDependency",
                format!("waits until {} is ready", name(key)),
                Some(why(key)),
            ),
            Blocked::Dependant { on, by, is_declared: false } => (
                ConditionKind::Waiting,
                "StillNeeded",
                format!("is deleted once nothing depends on {} any more, as {} does", name(on), name(by)),
                Some(why(by)),
            ),
            Blocked::Dependant { on, by, is_declared: true } => (
                ConditionKind::Waiting,
                "StillNeeded",
                format!(
                    "is deleted once what {} declares now is ready, since {} depends on it",
                    name(on),
                    name(by)
                ),
                Some(why(on)),
            ),
            Blocked::StandsOnFormer(key) => (
                ConditionKind::Waiting,
                "StillNeeded",
                format!("the one before it is deleted once {} has moved on to the new one", name(key)),
                Some(why(key)),
            ),
            Blocked::StoodOnByFormer(key) => (
                ConditionKind::Waiting,
                "StillNeeded",
                format!("the one before it is deleted once the one before {} is", name(key)),
                Some(why(key)),
            ),
            Blocked::Successor(address) => (
                ConditionKind::Waiting,
                "WaitingForSuccessor",
                format!("stays until {address} can take its place, which cannot be made"),
                Some(format!("to see why: reconciled explain {address}")),
            ),
            Blocked::Occupied { by, is_tracked: true, is_declared: true } => (
                ConditionKind::Stalled,
                "Occupied",
                format!("cannot be made beside {by}, which is declared"),
                Some(format!(
                    "take {by} out of its manifest, or say in the one that claims this that it goes elsewhere; the page of its \
                     kind says how"
                )),
            ),
            Blocked::Occupied { by, is_tracked: true, .. } => (
                ConditionKind::Waiting,
                "WaitingForRoom",
                format!("cannot be made beside {by}, which stays for now"),
                Some("`status` says what keeps it: a suspension, a source that is in error, a rule of its manifest".into()),
            ),
            Blocked::Occupied { by, is_tracked: false, .. } => (
                ConditionKind::Stalled,
                "Occupied",
                format!("cannot be made beside {by}, which is somebody else's"),
                Some("delete it at the remote, or take this declaration back".into()),
            ),
            Blocked::NoHolder { holder, told } => {
                let reason = match told.kind {
                    // Who may let it go on is told apart by that.
                    ConditionKind::Suspended => told.reason.clone(),
                    _ => "WaitingForHolder".into(),
                };
                return Condition {
                    id: Some(step.id.clone()),
                    address: Some(step.address.clone()),
                    reason,
                    message: format!("waits until {holder} is made: {}", told.message).into(),
                    declared: None,
                    ..(**told).clone()
                };
            }
            Blocked::Heir(address) => {
                let message = format!(
                    "stays until {address} can be read: that waits or failed, and may be the same thing"
                );
                let hint = format!(
                    "if it takes its place, say there `reconciled/moved-from: {}`; if it is to stay whatever comes: \
                     reconciled forget {}",
                    step.address, step.address
                );
                (ConditionKind::Waiting, "WaitingForTwin", message, Some(hint))
            }
            Blocked::Mistakable(address) => {
                let message = format!(
                    "stays until it is known whether {address} was made: what is there may be that one"
                );
                let hint = format!("to see how that stands: reconciled explain {address}");
                (ConditionKind::Waiting, "WaitingForTwin", message, Some(hint))
            }
            Blocked::Taken(address) => {
                let message = format!(
                    "stays, since what it was before it was replaced is {address} by now, and would go with it"
                );
                let hint = format!(
                    "it is left to that one: reconciled forget {own}, give its id as reconciled/import in its manifest, \
                     and reconciled adopt {own}; if they are two, delete by hand what it was before",
                    own = step.address
                );
                (ConditionKind::Stalled, "TakenOver", message, Some(hint))
            }
            Blocked::Same(address) => {
                let message = format!("stays, since {address} is the same thing, and would go with it");
                let hint = format!(
                    "that one has it from now on: reconciled forget {}; if they are two, delete this one by hand",
                    step.address
                );
                (ConditionKind::Stalled, "SameThing", message, Some(hint))
            }
            Blocked::Elsewhere(there) => {
                let Elsewhere { scope, address } = &**there;
                let (message, hint) = match address {
                    Some(address) => (
                        format!("stays until {address} is in {scope}, where it is declared now"),
                        format!("to see how that stands: reconciled explain {address}"),
                    ),
                    None => (
                        format!("stays until it is in {scope}, where a file with errors declares it"),
                        "`status` names the files with errors".into(),
                    ),
                };
                (ConditionKind::Waiting, "WaitingForMove", message, Some(hint))
            }
            Blocked::NotEmpty { kept, such_as } => {
                let message = format!(
                    "stays, since {kept} in it would go with it that are not deleted by this plan, such as {such_as}"
                );
                let hint = format!(
                    "delete them at the remote, or declare them first so that they are adopted; to keep it all and \
                     stop tracking it: reconciled forget {}",
                    step.address
                );
                (ConditionKind::Stalled, "NotEmpty", message, Some(hint))
            }
            // It has been told as it is.
            Blocked::Futile(told) | Blocked::UnderWay(told) => return (**told).clone(),
            Blocked::Drift(_) => {
                let hint = format!(
                    "the manifest or source says `drift: warn`; to heal it once, set `drift: heal` on {}",
                    step.address
                );
                (ConditionKind::Stalled, "Drifted", "it was changed by hand".to_string(), Some(hint))
            }
            Blocked::EntryPolicy(policy) => {
                let (word, change) = (policy.word(), step.change.word());
                let message = format!("the entry's `policy: {word}` does not allow to {change} it");
                let hint = match step.change {
                    Change::Abandon => step.let_go_unwritten(),
                    _ if step.is_undeclared() => format!(
                        "change `policy` of the entry in the configuration of the host, or declare it again; to keep it and \
                         let go of it: reconciled forget {}",
                        step.address
                    ),
                    _ => "change `policy` of the entry in the configuration of the host, or what is declared".into(),
                };
                (ConditionKind::Stalled, "PolicyForbids", message, Some(hint))
            }
            Blocked::OwnPolicy(policy) => {
                let (word, change) = (policy.word(), step.change.word());
                let message =
                    format!("its manifest's `reconciled/policy: {word}` does not allow to {change} it");
                let hint = "change that annotation, or what is declared";
                (ConditionKind::Stalled, "PolicyForbids", message, Some(hint.into()))
            }
            Blocked::Suspended(None) => {
                let hint = "to let it go on, take `suspend` out of the manifest";
                let message = "its manifest says `suspend`".to_string();
                (ConditionKind::Suspended, BY_MANIFEST, message, Some(hint.into()))
            }
            Blocked::Suspended(Some(by)) if matches!(by.stopped_by, StoppedBy::Window(_)) => {
                (ConditionKind::Suspended, "WindowClosed", by.reason.to_string(), Some(by.remedy()))
            }
            Blocked::Suspended(Some(by)) => {
                let message = format!("suspended by {}: {}", by.actor, by.reason);
                (ConditionKind::Suspended, BY_PERSON, message, Some(by.remedy()))
            }
            Blocked::Ambiguous(None) => {
                let message = "an earlier create may have succeeded, and the remote cannot tell".to_string();
                let hint = format!(
                    "look at the remote: if it is there, give its id as `reconciled/import` in the manifest; \
                     if it is not: reconciled forget {}",
                    step.address
                );
                (ConditionKind::Stalled, "CreateUnknown", message, Some(hint))
            }
            Blocked::Ambiguous(Some(_)) => (
                ConditionKind::Waiting,
                "CreateUnknown",
                "an earlier create may have succeeded; looked for until reads must show it".to_string(),
                None,
            ),
        };
        Condition {
            id: Some(step.id.clone()),
            address: Some(step.address.clone()),
            kind,
            reason: reason.into(),
            message: message.into(),
            hint: hint.map(Arc::from),
            since: Duration::ZERO,
            next_try: match self {
                Blocked::Ambiguous(at) => *at,
                Blocked::Suspended(Some(by)) => by.until,
                _ => None,
            },
            declared: None,
        }
    }
}

/// What to type to see why something is not as it shall be.
fn why(key: &ManifestKey) -> String {
    format!("to see how that stands: reconciled explain {}", name(key))
}

fn name(key: &ManifestKey) -> String {
    Address::of(key, None).to_string()
}

/// Each once, however many of its outputs are meant.
fn names(keys: &[ManifestKey]) -> String {
    let mut names = Vec::new();
    for name in keys.iter().map(name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// What carrying a step out needs.
#[derive(Clone, Debug)]
pub struct Work {
    /// What it shall be.
    pub desired: Option<Resource>,
    /// What was seen.
    pub observed: Option<Arc<Observed>>,
    /// The row as it shall be remembered.
    pub row: Option<Arc<Row>>,
    /// The row as it was.
    pub was: Option<Arc<Row>>,
    /// What the provider planned.
    pub delta: Arc<Delta>,
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it does.
    pub change: Change,
    /// To which resource.
    pub id: ResourceId,
    /// Address for people.
    pub address: Address,
    /// Why.
    pub reason: Reason,
    /// File and line of the declaration.
    pub place: Option<(Arc<str>, u32)>,
    /// What differs; for creates and deletes the renderer asks the provider to show the bytes.
    pub fields: Vec<FieldChange>,
    /// Hash of what was observed.
    pub before: Option<Hash>,
    /// Hash of the declaration, references unresolved.
    pub after: Option<Hash>,
    /// What keeps it from being taken now.
    pub blocked: Option<Blocked>,
    /// Guard words it needs consent for, whatever the counts.
    pub guard_words: Vec<&'static str>,
    /// It is gone before it is made anew: a replacement that is not one transaction, so its data are lost.
    pub is_remade: bool,
    /// The guard counts it no more: an input that moved beside what is held, and is not too much by itself.
    pub goes_on: bool,
    /// What carrying it out needs.
    pub work: Work,
}

impl Step {
    /// True when the guard counts and may hold it.
    ///
    /// Drift repair goes on while a commit is held, but not where it deletes, nor where somebody changed by hand what
    /// was suspended. What cannot happen, because the entry or the manifest forbids it, is not counted; what waits is.
    pub fn is_guarded(&self) -> bool {
        self.can_happen() && self.is_of_a_commit() && !self.goes_on
    }

    /// True when the guard would count it, had a person not stopped it: who stops a part of a change that is too large does not
    /// make the rest of it a small one.
    pub fn is_put_off(&self) -> bool {
        let is_stopped = match &self.blocked {
            Some(Blocked::Suspended(by)) => by.is_some(),
            Some(Blocked::NoHolder { told, .. }) => {
                told.kind == ConditionKind::Suspended && &*told.reason != BY_MANIFEST
            }
            _ => false,
        };
        is_stopped && self.is_of_a_commit()
    }

    /// What it writes, as it is declared: whatever is ignored, and written besides; of what goes, that nothing is. None where
    /// nothing is written for what is declared.
    pub(crate) fn declared(&self) -> Option<Hash> {
        if self.change == Change::Delete {
            return Some(Hash::of(UNDECLARED));
        }
        let writes_it =
            matches!(self.change, Change::Create | Change::Update | Change::Replace | Change::Continue);
        let row = self.work.row.as_ref().filter(|_| writes_it && self.work.desired.is_some());
        row.map(|row| row.tracked.applied)
    }

    /// How to let go of what cannot be written to.
    pub(crate) fn let_go_unwritten(&self) -> String {
        format!("to let go of it at once, with our mark on it: reconciled forget {}", self.address)
    }

    /// True for what is tracked and goes since no manifest declares it any more.
    fn is_undeclared(&self) -> bool {
        self.place.is_none() && self.work.was.is_some() && self.reason != Reason::Claim
    }

    /// True where it would be deleted and made anew only since somebody else changed it, whatever else is declared of it by now.
    pub(crate) fn is_remade_for_drift(&self) -> bool {
        let is_drift = || self.reason == Reason::Drift || self.work.delta.heals_drift;
        self.change == Change::Replace && is_drift()
    }

    fn is_of_a_commit(&self) -> bool {
        let loses = self.change == Change::Replace && self.guard_words.contains(&PROTECTED);
        let in_doubt = [ANOTHER_PLACE, BY_HAND, RECOVERED];
        let is_doubtful = self.guard_words.iter().any(|word| in_doubt.contains(word));
        let needs = self.reason.is_guarded() || self.is_remade || loses || is_doubtful;
        let acts = self.change.writes() || self.guard_words.contains(&ADOPTED);
        acts && needs
    }

    /// True when it waits while its domain is held: what the guard counts, and letting go and taking over, which no count holds
    /// but which the same commit asks for. Were it let go beforehand, taking that commit back would make it a second time; were
    /// it taken over, that would delete what was never ours.
    pub fn waits_for_consent(&self) -> bool {
        self.is_guarded() || matches!(self.change, Change::Forget | Change::Adopt)
    }

    /// False when a word of the host, the manifest or a person forbids it, or what others have in it, or where it is of no use;
    /// what only waits can happen.
    pub fn can_happen(&self) -> bool {
        match &self.blocked {
            Some(Blocked::NoHolder { told, .. }) => told.kind != ConditionKind::Suspended,
            Some(
                Blocked::EntryPolicy(_)
                | Blocked::OwnPolicy(_)
                | Blocked::Suspended(_)
                | Blocked::Drift(_)
                | Blocked::NotEmpty { .. }
                | Blocked::Futile(_),
            ) => false,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_named_once_however_many_of_its_outputs_are_waited_for() {
        let key = |name| ManifestKey::new("infra", "toy", "Thing", "", name);
        assert_eq!(names(&[key("b"), key("a"), key("b")]), "Thing/b, Thing/a");
    }
}
