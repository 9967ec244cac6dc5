//! What is sent together: units of actions, and the chunks of units that requests hold.
//!
//! A unit is never split over two requests where a part of it without the rest would leave a hole.

use super::action::{is_delete, observed};
use crate::{merge, record};
use reconciled_provider::{Action, ActionId, Error, ErrorKind, Observed, Outcome};
use std::collections::{HashSet, VecDeque};

/// One action on an RRset with what it takes in the words of a backend.
#[derive(Debug)]
pub(crate) struct Item<'b, T> {
    pub(crate) action: &'b Action,
    pub(crate) takes: T,
}

impl<'b, T> Item<'b, T> {
    /// Canonical name.
    pub(crate) fn name(&self) -> &'b str {
        record::parts(self.action.op.id()).map_or("", |(name, _)| name)
    }
    /// Type.
    pub(crate) fn kind(&self) -> &'b str {
        record::parts(self.action.op.id()).map_or("", |(_, kind)| kind)
    }
    /// What it shall be; none to delete it.
    pub(crate) fn desired(&self) -> Option<&'b [u8]> {
        self.action.op.desired().and_then(|resource| resource.spec.bytes())
    }
    /// What it was when the plan was made.
    pub(crate) fn observed(&self) -> Option<&'b Observed> {
        observed(self.action)
    }
    fn is_delete(&self) -> bool {
        is_delete(&self.action.op)
    }
}

/// What is sent together or not at all, in the planner's order.
pub(crate) type Unit<'b, T> = Vec<Item<'b, T>>;

/// Units of one request.
pub(crate) type Chunk<'b, T> = Vec<Unit<'b, T>>;

/// True where a part of a unit without the rest would leave a name without what it is for, or cannot be: a CNAME has its
/// name for itself, and in the place of an address that goes something else shall come.
pub(crate) fn is_swap<T>(unit: &Unit<'_, T>) -> bool {
    let is_alone = |item: &Item<'_, T>| matches!(item.kind(), "CNAME" | "ALIAS");
    let leaves = |item: &Item<'_, T>| item.is_delete() && matches!(item.kind(), "A" | "AAAA");
    unit.iter().any(|item| is_alone(item) || leaves(item))
}

pub(super) fn held_back<T>(item: &Item<'_, T>) -> Error {
    Error::invalid(format!("{} is held back: other data at its name were refused", item.action.op.id()))
}

/// How the parts of a swap end that must not go on without the one that ended with `cause`. A conflict is one for all of
/// it: what is looked at again at once is no reason to wait for a person.
fn held_back_by<T>(item: &Item<'_, T>, cause: &Error) -> Error {
    match cause.kind {
        ErrorKind::Conflict => {
            Error::conflict(format!("{} is held back: other data at its name changed", item.action.op.id()))
        }
        _ => held_back(item),
    }
}

/// Takes units from the queue for as long as they fit, at least one.
pub(crate) fn take<'b, T>(
    queue: &mut VecDeque<Unit<'b, T>>,
    mut fits: impl FnMut(&Unit<'b, T>) -> bool,
) -> Chunk<'b, T> {
    let mut chunk = Chunk::new();
    while let Some(unit) = queue.front() {
        if !fits(unit) && !chunk.is_empty() {
            break;
        }
        chunk.extend(queue.pop_front());
    }
    if queue.is_empty() {
        // There may have been thousands, and their room is not needed any more.
        queue.shrink_to_fit();
    }
    chunk
}

/// All items of a chunk.
pub(crate) fn items<'i, 'b: 'i, T>(
    chunk: &'i [Unit<'b, T>],
) -> impl Iterator<Item = &'i Item<'b, T>> + Clone {
    chunk.iter().flatten()
}

/// All actions of a chunk.
pub(crate) fn ids<T>(chunk: &[Unit<'_, T>]) -> impl Iterator<Item = ActionId> {
    items(chunk).map(|item| item.action.id)
}

/// From so many actions on it is worth while to foresee how they end, and to know of a zone that it was made here.
pub(crate) const MANY: usize = 500;

/// True where it is worth while to foresee how the actions of a chunk end.
pub(crate) fn are_many<T>(chunk: &[Unit<'_, T>]) -> bool {
    items(chunk).take(MANY).count() == MANY
}

/// After so many whoever waits gets a turn.
const TURN: usize = 500;

/// How the actions of a chunk end that took effect. There is room for the zone itself: growing by one would double it. The request
/// that they are of is sent meanwhile.
pub(crate) async fn done<T>(chunk: &[Unit<'_, T>]) -> Vec<(ActionId, Outcome)> {
    let mut outcomes = Vec::with_capacity(items(chunk).count() + 1);
    for item in items(chunk) {
        if outcomes.len() % TURN == 0 {
            tokio::task::yield_now().await;
        }
        outcomes.push((item.action.id, merge::done(item.action)));
    }
    outcomes
}

/// `error` with the RRset it is about.
pub(crate) fn about<T>(item: &Item<'_, T>, error: &Error) -> Error {
    let mut named = error.clone();
    named.message = format!("{} {}: {}", item.name().trim_end_matches('.'), item.kind(), error.message);
    named
}

/// Outcomes of what an answer names, and of the rest of a swap, which must not go on without it.
pub(crate) fn named<'b, T>(
    chunk: &[Unit<'b, T>],
    error: impl Fn(&Item<'b, T>) -> Option<Error>,
) -> Vec<(ActionId, Outcome)> {
    let mut outcomes = Vec::new();
    for unit in chunk {
        let Some(cause) = unit.iter().find_map(&error) else { continue };
        let is_swap = unit.iter().any(Item::is_delete);
        for item in unit {
            match error(item) {
                Some(error) => outcomes.push((item.action.id, Outcome::Failed(error))),
                None if is_swap => {
                    outcomes.push((item.action.id, Outcome::Failed(held_back_by(item, &cause))))
                }
                None => {}
            }
        }
    }
    outcomes
}

/// Somebody changed what an item touches since the request before.
pub(crate) fn changed<T>(item: &Item<'_, T>) -> Error {
    about(item, &Error::conflict("somebody changed it while the batch was written; it is left alone"))
}

/// Takes out of a chunk what has ended.
pub(crate) fn remove<T>(chunk: &mut Chunk<'_, T>, ended: &[(ActionId, Outcome)]) {
    let ended: HashSet<ActionId> = ended.iter().map(|(id, _)| *id).collect();
    for unit in chunk.iter_mut() {
        unit.retain(|item| !ended.contains(&item.action.id));
    }
    chunk.retain(|unit| !unit.is_empty());
}
