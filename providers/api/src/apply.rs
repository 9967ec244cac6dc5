//! The call that writes: batches in, outcomes out, through a journal.

pub use crate::claim::{Claim, ClaimState, Lives};

use crate::{
    diff::Delta,
    error::Error,
    name::{ResourceId, Scope},
    observe::{Observed, Tracked, Version},
    spec::Resource,
};
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};

/// Names one action of a batch in the journal. Unique within the life of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u64);

/// What is to be done to one resource.
#[derive(Clone, Debug)]
pub enum Op {
    /// It does not exist; make it.
    Create {
        /// What it shall be.
        desired: Resource,
        /// What `diff` planned, if anything.
        delta: Arc<Delta>,
    },
    /// It exists; change it in place.
    Update {
        /// What it shall be.
        desired: Resource,
        /// What differs.
        delta: Arc<Delta>,
        /// What it was when the plan was made.
        observed: Arc<Observed>,
        /// What the inventory remembers of it; absent when it is being adopted.
        tracked: Option<Box<Tracked>>,
    },
    /// It exists and cannot be changed in place: delete it and create it anew, one action.
    Replace {
        /// What it shall be.
        desired: Resource,
        /// What differs.
        delta: Arc<Delta>,
        /// What it was when the plan was made.
        observed: Arc<Observed>,
        /// What the inventory remembers of it.
        tracked: Option<Box<Tracked>>,
    },
    /// It exists and is no longer desired.
    Delete {
        /// What it was when the plan was made.
        observed: Arc<Observed>,
        /// What the inventory remembers of it; absent when a foreign resource goes from an exclusive scope.
        tracked: Option<Box<Tracked>>,
    },
    /// An earlier outcome was `Pending`: take the next step. Nothing about the desired state changed.
    Continue {
        /// What it shall be.
        desired: Resource,
        /// What the inventory remembers, with the private state of the last step.
        tracked: Box<Tracked>,
        /// What it was when the plan was made, where it was there: a new declaration may overtake a pending one.
        observed: Option<Arc<Observed>>,
        /// How the claims of this resource fare.
        claims: Vec<ClaimState>,
    },
}

impl Op {
    /// The resource it is about.
    pub fn id(&self) -> &ResourceId {
        match self {
            Op::Create { desired, .. }
            | Op::Update { desired, .. }
            | Op::Replace { desired, .. }
            | Op::Continue { desired, .. } => &desired.id,
            Op::Delete { observed, .. } => &observed.id,
        }
    }
    /// What the resource shall be; none for a deletion.
    pub fn desired(&self) -> Option<&Resource> {
        match self {
            Op::Create { desired, .. }
            | Op::Update { desired, .. }
            | Op::Replace { desired, .. }
            | Op::Continue { desired, .. } => Some(desired),
            Op::Delete { .. } => None,
        }
    }
    /// The word for logs and tables.
    pub fn word(&self) -> &'static str {
        match self {
            Op::Create { .. } => "create",
            Op::Update { .. } => "update",
            Op::Replace { .. } => "replace",
            Op::Delete { .. } => "delete",
            Op::Continue { .. } => "continue",
        }
    }
}

/// One action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name in the journal; for a create also its client token.
    pub id: ActionId,
    /// A token that stays the same when this create is tried again after a crash.
    pub token: Arc<str>,
    /// What to do.
    pub op: Op,
}

/// The actions of one scope, in the order they must happen, planned against `base`.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The scope.
    pub scope: Scope,
    /// Change token of the observation the plan was made from.
    pub base: Version,
    /// The actions, in order.
    pub actions: Vec<Action>,
}

/// How an action ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It took effect, or already had.
    Done(Tracked),
    /// The resource no longer exists, as wanted. A replacement may end so too: the next pass creates.
    Gone,
    /// Accepted and on its way: look again after `recheck_after`, or when a claim changes.
    Pending {
        /// What to remember for the next step.
        tracked: Tracked,
        /// When to take the next step.
        recheck_after: Duration,
        /// What other providers must do meanwhile.
        claims: Vec<Claim>,
    },
    /// It took effect in part: what is there now is remembered, and is not as wanted. The next pass plans the
    /// rest, so `tracked` says in [`Tracked::private`] what `diff` needs to know: that a create was left half done
    /// (Terraform: tainted) and must be replaced.
    Partial(Tracked, Error),
    /// It had no effect, and what [`Journal::progress`] put down meanwhile is taken back: this was remembered before, and is
    /// again, so that the next pass plans it anew.
    Back(Tracked, Error),
    /// It had no effect.
    Failed(Error),
    /// It may have taken effect: observe before anything else.
    Unknown(Error),
}

impl Outcome {
    /// The word for logs and tables.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Done(_) => "done",
            Outcome::Gone => "gone",
            Outcome::Pending { .. } => "pending",
            Outcome::Partial(..) => "partial",
            Outcome::Back(..) | Outcome::Failed(_) => "failed",
            Outcome::Unknown(_) => "unknown",
        }
    }
    /// Why it is not as wanted, if it is not.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Outcome::Partial(_, error)
            | Outcome::Back(_, error)
            | Outcome::Failed(error)
            | Outcome::Unknown(error) => Some(error),
            Outcome::Done(_) | Outcome::Gone | Outcome::Pending { .. } => None,
        }
    }
}

/// Where a provider says what it does. The engine's implementation commits before it returns.
///
/// What returns a `Result` fails when the plan is no longer in force (a newer commit, another writer): the provider
/// then makes no further call and returns the error.
#[async_trait]
pub trait Journal: Send + Sync {
    /// The calls for `actions` are about to be sent. Durable when this returns.
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error>;
    /// Private state that must be durable before the next call: a key, an order URL, a rollout step.
    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error>;
    /// How the calls under way end should all of them take effect, in the order of `finished`: it is put together while the
    /// remote is at work. What came of them `finished` says alone, and this need not be told at all; of few it is no use.
    async fn foreseen(&self, _outcomes: &[(ActionId, Outcome)]) {}
    /// Whether an outcome of `action` may make these claims, whatever their values: for who asks before it does what counts, such as to
    /// order something that it cannot get without them. No I/O.
    ///
    /// Errors: what such an outcome would end with.
    fn has_place(&self, _action: ActionId, _claims: &[Claim]) -> Result<(), Error> {
        Ok(())
    }
    /// The remote answered.
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error>;
}
