//! A batch taken apart into units that are sent together; `delivery` sends them until each action has ended.
//!
//! Guarantees: what changes places at a name (CNAME ↔ A) is one unit, and a unit is never split over two requests; where
//! a part of it cannot be written, neither is the rest: half a swap would leave a hole.

mod delivery;

pub(crate) use delivery::{Answer, Delivery, Sender, give_up};

use crate::{
    merge,
    record::{self, RrSet},
};
use reconciled_provider::{
    Action, ActionId, Batch, Error, ErrorKind, Hash, Journal, Observed, Op, Outcome, Tracked,
};
use std::collections::{HashMap, HashSet, VecDeque};

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

/// Which actions are one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    /// All at a name.
    Names,
    /// All at a name where something is deleted; others are units of their own.
    Swaps,
}

/// The actions of a batch on RRsets.
#[derive(Debug)]
pub(crate) struct Work<'b, T> {
    /// What is to be sent.
    pub(crate) units: VecDeque<Unit<'b, T>>,
    /// What ends without being sent.
    pub(crate) settled: Vec<(ActionId, Outcome)>,
}

/// The actions of a batch on the zone itself.
pub(crate) struct OfZone<'b> {
    pub(crate) create: Option<&'b Action>,
    pub(crate) delete: Option<&'b Action>,
    /// Those that need no call.
    pub(crate) kept: Vec<&'b Action>,
}

impl<'b> OfZone<'b> {
    pub(crate) fn of(batch: &'b Batch) -> OfZone<'b> {
        let mut out = OfZone { create: None, delete: None, kept: Vec::new() };
        for action in batch.actions.iter().filter(|action| record::parts(action.op.id()).is_none()) {
            match &action.op {
                Op::Create { .. } => out.create = Some(action),
                Op::Delete { .. } => out.delete = Some(action),
                _ => out.kept.push(action),
            }
        }
        out
    }
    /// How those end that need no call.
    pub(crate) fn settled(&self) -> Vec<(ActionId, Outcome)> {
        self.kept.iter().map(|action| (action.id, zone_done(action))).collect()
    }
}

/// How an action ends after which the zone is there.
pub(crate) fn zone_done(action: &Action) -> Outcome {
    Outcome::Done(Tracked::new(action.op.id().clone(), Hash::of(record::ZONE)))
}

impl<'b, T> Work<'b, T> {
    /// Sorts the actions on RRsets by what each takes; none for one that is as wanted already.
    pub(crate) fn of(
        batch: &'b Batch,
        together: Together,
        mut takes: impl FnMut(&'b Action, &'b str, &'b str) -> Result<Option<T>, Error>,
    ) -> Work<'b, T> {
        let actions = || batch.actions.iter().filter_map(|a| record::parts(a.op.id()).map(|at| (a, at)));
        let swapped: HashSet<&str> =
            actions().filter(|(action, _)| is_delete(&action.op)).map(|(_, (name, _))| name).collect();
        let (mut units, mut settled): (VecDeque<Unit<'b, T>>, _) = (VecDeque::new(), Vec::new());
        let (mut by_name, mut broken) = (HashMap::<&str, usize>::new(), HashSet::new());
        for (action, (name, kind)) in actions() {
            let takes = match takes(action, name, kind) {
                Ok(Some(takes)) => takes,
                Ok(None) => {
                    settled.push((action.id, merge::done(action)));
                    continue;
                }
                Err(error) => {
                    settled.push((action.id, Outcome::Failed(error)));
                    broken.insert(name);
                    continue;
                }
            };
            let index = match together == Together::Names || swapped.contains(name) {
                true => *by_name.entry(name).or_insert(units.len()),
                false => units.len(),
            };
            match units.get_mut(index) {
                Some(unit) => unit.push(Item { action, takes }),
                None => units.push_back(vec![Item { action, takes }]),
            }
        }
        let mut work = Work { units, settled };
        work.settle_if(|unit| {
            let name = unit.first().map_or("", Item::name);
            let is_held = swapped.contains(name) && broken.contains(name);
            is_held.then_some(held_back)
        });
        work
    }

    /// Settles units that cannot be sent: `error` gives what each action of such a unit ends with.
    pub(crate) fn settle_if<E: Fn(&Item<'b, T>) -> Error>(
        &mut self,
        error: impl Fn(&Unit<'b, T>) -> Option<E>,
    ) {
        let settled = &mut self.settled;
        self.units.retain(|unit| {
            let Some(error) = error(unit) else { return true };
            settled.extend(unit.iter().map(|item| (item.action.id, Outcome::Failed(error(item)))));
            false
        });
    }
}

/// What an action wants an RRset to be; none to delete it.
///
/// Errors: that is not known yet, or is no RRset.
pub(crate) fn wanted(action: &Action) -> Result<Option<RrSet<'_>>, Error> {
    let Some(resource) = action.op.desired() else { return Ok(None) };
    let set = resource.spec.bytes().and_then(RrSet::decode);
    set.map(Some).ok_or_else(|| Error::invalid(format!("the content of {} is not known yet", resource.id)))
}

/// What it was when an action was planned.
pub(crate) fn observed(action: &Action) -> Option<&Observed> {
    match &action.op {
        Op::Update { observed, .. } | Op::Replace { observed, .. } | Op::Delete { observed, .. } => {
            Some(observed)
        }
        Op::Continue { observed, .. } => observed.as_deref(),
        Op::Create { .. } => None,
    }
}

/// True where a part of a unit without the rest would leave a name without what it is for, or cannot be: a CNAME has its
/// name for itself, and in the place of an address that goes something else shall come.
pub(crate) fn is_swap<T>(unit: &Unit<'_, T>) -> bool {
    let is_alone = |item: &Item<'_, T>| matches!(item.kind(), "CNAME" | "ALIAS");
    let leaves = |item: &Item<'_, T>| item.is_delete() && matches!(item.kind(), "A" | "AAAA");
    unit.iter().any(|item| is_alone(item) || leaves(item))
}

fn is_delete(op: &Op) -> bool {
    matches!(op, Op::Delete { .. })
}

fn held_back<T>(item: &Item<'_, T>) -> Error {
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

/// Finishes what needs no call.
pub(crate) async fn settle(journal: &dyn Journal, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
    if outcomes.is_empty() {
        return Ok(());
    }
    journal.started(&outcomes.iter().map(|(id, _)| *id).collect::<Vec<_>>()).await?;
    journal.finished(outcomes).await
}

/// True when what an action touches, of which `seen` is there now, is as planned, or already as wanted.
pub(crate) fn stands(action: &Action, seen: Option<Hash>) -> bool {
    let wanted = action.op.desired().and_then(|resource| resource.spec.hash());
    seen == observed(action).map(|observed| observed.hash) || seen == wanted
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

/// From so many actions on it is worth while to foresee how they end.
const MANY: usize = 500;

/// True where it is worth while to foresee how the actions of a chunk end.
pub(crate) fn are_many<T>(chunk: &[Unit<'_, T>]) -> bool {
    items(chunk).take(MANY).count() == MANY
}

/// How the actions of a chunk end that took effect. There is room for the zone itself: growing by one would double it.
pub(crate) fn done<T>(chunk: &[Unit<'_, T>]) -> Vec<(ActionId, Outcome)> {
    let mut outcomes = Vec::with_capacity(items(chunk).count() + 1);
    outcomes.extend(items(chunk).map(|item| (item.action.id, merge::done(item.action))));
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

#[cfg(test)]
mod tests;
