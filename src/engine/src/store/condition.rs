//! What keeps something from being in sync, as it is put down and told.
//!
//! Guarantees: whatever is not said of a condition is none, and it is since it is recorded. It deliberately says nothing in
//! words of its own: reasons and messages are those of whoever finds it.

use reconciled_provider::{Address, Error, Hash, ResourceId};
use std::{sync::Arc, time::Duration};

/// Why something is not in sync, for people: one per manifest or resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The resource, or none for the scope as a whole.
    pub id: Option<ResourceId>,
    /// Address for people.
    pub address: Option<Address>,
    /// What kind of trouble it is.
    pub kind: ConditionKind,
    /// One word for machines: `Conflict`, `ManagementConflict`, …; of an error the [word](reconciled_provider::ErrorKind::word) of
    /// its kind.
    pub reason: Arc<str>,
    /// What is the matter, with the cause chain.
    pub message: Arc<str>,
    /// What to type.
    pub hint: Option<Arc<str>>,
    /// Since when, since the epoch; kept while the condition stays the same. Zero: since it is recorded.
    pub since: Duration,
    /// When it is tried again, if it is.
    pub next_try: Option<Duration>,
    /// What was declared, where the remote refused just that: the condition stands until something else is, or it is taken.
    pub declared: Option<Hash>,
}

impl Condition {
    /// A condition of the scope as a whole, until it is said what it is about.
    pub fn of(kind: ConditionKind, reason: impl Into<Arc<str>>, message: impl Into<Arc<str>>) -> Condition {
        Condition {
            id: None,
            address: None,
            kind,
            reason: reason.into(),
            message: message.into(),
            hint: None,
            since: Duration::ZERO,
            next_try: None,
            declared: None,
        }
    }

    /// One that waits for time or another resource.
    pub fn waiting(reason: impl Into<Arc<str>>, message: impl Into<Arc<str>>) -> Condition {
        Condition::of(ConditionKind::Waiting, reason, message)
    }

    /// One that a person has to resolve.
    pub fn stalled(reason: impl Into<Arc<str>>, message: impl Into<Arc<str>>) -> Condition {
        Condition::of(ConditionKind::Stalled, reason, message)
    }

    /// What went wrong, with the hint of the error.
    pub fn failed(error: &Error) -> Condition {
        let kind = if error.kind.stalls() { ConditionKind::Stalled } else { ConditionKind::Waiting };
        Condition {
            hint: error.hint.as_deref().map(Arc::from),
            ..Condition::of(kind, error.kind.word(), error.chain())
        }
    }

    /// Says which resource it is about.
    pub fn about(self, id: ResourceId, address: Address) -> Condition {
        Condition { id: Some(id), address: Some(address), ..self }
    }

    /// Says what to type.
    pub fn hint(self, hint: impl Into<Arc<str>>) -> Condition {
        Condition { hint: Some(hint.into()), ..self }
    }

    /// Says when it is tried again, since the epoch.
    pub fn next_try(self, at: Duration) -> Condition {
        Condition { next_try: Some(at), ..self }
    }
}

/// Who is needed to resolve a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// All of them.
    pub const ALL: [ConditionKind; 4] =
        [ConditionKind::Waiting, ConditionKind::Stalled, ConditionKind::Held, ConditionKind::Suspended];

    /// The word for it: in the state, in JSON, in metrics and for people.
    pub fn word(self) -> &'static str {
        match self {
            ConditionKind::Waiting => "waiting",
            ConditionKind::Stalled => "stalled",
            ConditionKind::Held => "held",
            ConditionKind::Suspended => "suspended",
        }
    }

    /// The kind of a word.
    pub fn of_word(word: &str) -> Option<ConditionKind> {
        ConditionKind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}
