//! A turn of a rolling update: one step of it, as far as it goes now.
//!
//! A rolling update is `Pending` from its first step to its last. Each turn takes what is on the disk and what systemd says
//! for true, and the memory only for what cannot be seen there: which instances are being replaced right now. That is
//! written down before they are touched, so that a process that dies, wherever, leaves a step that the next turn takes up:
//! it starts the same instances anew, and no others before they are available.

mod drain;
mod reloads;
mod restart;
mod step;
mod watch;

use super::{
    kind::Deployment,
    look::{Group, group, numbers},
    memory::Memory,
    observe::deployment,
    parts,
};
use crate::{
    hands::{Hands, Manager},
    systemd::apply::planned_fields,
};
use reconciled_provider::{Action, Error, Op, Resource, Tracked};
use std::{collections::BTreeSet, time::Duration};

/// How often what is being started is looked at.
const STEP: Duration = Duration::from_millis(200);
/// How often it is looked at what nothing can be done about now.
const IDLE: Duration = Duration::from_secs(1);
/// The same of what took too long, and there is nothing to go back to.
const STUCK: Duration = Duration::from_secs(5);

/// How a turn of a deployment ended, besides in error.
enum End {
    Settled,
    Wait(Duration),
    Back(String),
    /// It does not come up, and there is nothing to go back to, or that does not come up either.
    Stuck(String),
}

pub(super) use reloads::{Reloads, Seat};

/// One turn of a deployment.
pub(super) struct Turn<'a> {
    seat: &'a Seat<'a>,
    action: &'a Action,
    name: &'a str,
    resource: &'a Resource,
    declared: Deployment,
    memory: Memory,
    is_new: bool,
    /// Instances that have a row of their own, as the plan saw them; none where it did not look.
    rows: Option<BTreeSet<u32>>,
    /// Paths of what the plan says that differs: of the drop-ins of others, these go. What is to be ignored is in none, nor is
    /// anything while a rolling update goes on.
    named: BTreeSet<String>,
}

impl<'a> Turn<'a> {
    pub(super) fn of(action: &'a Action, seat: &'a Seat<'a>) -> Option<Turn<'a>> {
        let (resource, tracked) = match &action.op {
            Op::Create { desired, .. } => (desired, None),
            Op::Update { desired, tracked, .. } | Op::Replace { desired, tracked, .. } => {
                (desired, tracked.as_deref())
            }
            Op::Continue { desired, tracked, .. } => (desired, Some(&**tracked)),
            Op::Delete { .. } => return None,
        };
        let (name, _) = parts(&action.op.id().0)?;
        let mut declared = deployment(Some(resource))?;
        let seen = match &action.op {
            Op::Update { observed, .. } | Op::Replace { observed, .. } => Some(observed),
            Op::Continue { observed, .. } => observed.as_ref(),
            _ => None,
        };
        // What is somebody else's is neither marked nor reloaded.
        let Memory { ours, rows, .. } = seen.map(|seen| Memory::read(&seen.private)).unwrap_or_default();
        declared.fronts.retain(|front| ours.contains(&front.path));
        let (memory, is_new) = (Memory::open(tracked), tracked.is_none());
        let named = planned_fields(&action.op);
        Some(Turn { seat, action, name, resource, declared, memory, is_new, rows, named })
    }

    fn tracked(&self) -> Tracked {
        let mut tracked =
            Tracked::new(self.resource.id.clone(), self.resource.spec.hash().unwrap_or_default());
        tracked.private = self.memory.seal();
        tracked
    }

    async fn look(&self, hands: &dyn Hands, manager: &dyn Manager) -> Result<Group, Error> {
        group(hands, manager, self.name, &numbers(Some(&self.declared), &self.memory)).await
    }

    /// What shall run: the declared revision, or the one before it where that was taken back.
    fn goal(&self, group: &Group) -> String {
        let was_tried = self.memory.refusal(&self.declared).is_some();
        let before =
            || self.memory.good.as_ref().map(|good| good.content.clone()).or_else(|| group.content());
        was_tried.then(before).flatten().unwrap_or_else(|| self.declared.content.clone())
    }

    fn why(&self) -> String {
        self.memory.rollout.as_ref().map(|rollout| rollout.why.clone()).unwrap_or_default()
    }

    /// True where a revision that does not do can be taken back: it was not yet, and there is one to go back to.
    fn may_go_back(&self) -> bool {
        self.memory.refusal(&self.declared).is_none() && self.memory.good.is_some()
    }

    /// Waits, or goes back from what took too long.
    fn wait(&mut self, now: u64, wait: Duration, why: String) -> End {
        self.wait_longer(now, wait, why, 0)
    }

    /// The same, where so many seconds more are allowed for.
    fn wait_longer(&mut self, now: u64, wait: Duration, why: String, more: u32) -> End {
        let may_go_back = self.may_go_back();
        let Some(rollout) = &mut self.memory.rollout else { return End::Wait(wait) };
        if !why.is_empty() {
            rollout.why = why;
        }
        let limit = u64::from(self.declared.deadline) + u64::from(more);
        if now <= rollout.progressed + limit * 1_000 {
            return End::Wait(wait);
        }
        if may_go_back {
            return End::Back(format!("no progress within {limit} s: {}", rollout.why));
        }
        // There is nothing else to do than to look whether it is better, and to say that it is not well.
        rollout.is_stuck = true;
        End::Wait(wait.max(STUCK))
    }
}

#[cfg(test)]
mod tests;
