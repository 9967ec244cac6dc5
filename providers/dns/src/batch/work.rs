//! Takes a batch apart: what is done with the zone itself, what is to be sent in units, and what ends without a call.

use super::{
    action::is_delete,
    unit::{Item, Unit, held_back},
};
use crate::{merge, record};
use reconciled_provider::{Action, ActionId, Batch, Error, Hash, Journal, Op, Outcome, Tracked};
use std::collections::{HashMap, HashSet, VecDeque};

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

/// Finishes what needs no call.
pub(crate) async fn settle(journal: &dyn Journal, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
    if outcomes.is_empty() {
        return Ok(());
    }
    journal.started(&outcomes.iter().map(|(id, _)| *id).collect::<Vec<_>>()).await?;
    journal.finished(outcomes).await
}
