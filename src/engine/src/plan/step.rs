//! One step of a plan: an action on one resource, or a change of what is remembered.

use super::{
    Blocked, Reason,
    guard_words::{ADOPTED, ANOTHER_PLACE, BY_HAND, PROTECTED, RECOVERED},
};
use crate::{
    store::{ConditionKind, Row},
    suspension::BY_MANIFEST,
};
use reconciled_provider::{Address, Delta, FieldChange, Hash, Observed, Resource, ResourceId};
use std::sync::{Arc, LazyLock};

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

/// What was planned by a provider that plans nothing: of thousands of steps it is one.
pub(super) fn unplanned() -> Arc<Delta> {
    static UNPLANNED: LazyLock<Arc<Delta>> = LazyLock::new(Arc::default);
    UNPLANNED.clone()
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
    pub(super) fn is_undeclared(&self) -> bool {
        self.place.is_none() && self.work.was.is_some() && self.reason != Reason::Claim
    }

    /// True where the resource is gone itself, and what goes is only what is left of it.
    pub(super) fn ends_remains(&self) -> bool {
        let is_another = |observed: &Arc<Observed>| observed.id != self.id;
        self.change == Change::Delete && self.work.observed.as_ref().is_some_and(is_another)
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

    /// False when a word of the host, the manifest or a person forbids it, or what others have in it, or what it would hide, or where
    /// it is of no use; what only waits can happen.
    pub fn can_happen(&self) -> bool {
        match &self.blocked {
            Some(Blocked::NoHolder { told, .. }) => told.kind != ConditionKind::Suspended,
            Some(
                Blocked::EntryPolicy(_)
                | Blocked::OwnPolicy(_)
                | Blocked::Suspended(_)
                | Blocked::Drift(_)
                | Blocked::NotEmpty { .. }
                | Blocked::Hidden { .. }
                | Blocked::Futile(_),
            ) => false,
            _ => true,
        }
    }
}
