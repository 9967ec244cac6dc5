//! Calls that this process waits for: of these it is no question what became of them.
//!
//! Guarantees: a call is among them from before it is sent until its outcome is noted down, or it was given up. It deliberately
//! changes nothing of what is judged or carried out: whoever is told of a plan while a pass is at work is told of that as well.

use super::{Survey, View};
use crate::{
    plan::Blocked,
    store::{Condition, OpenIntent},
};
use reconciled_provider::{ActionId, ResourceId};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Reason of what says that a call is under way.
pub const UNDER_WAY: &str = "UnderWay";

/// The calls that are under way; clones share them.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<BTreeSet<ActionId>>>);

/// Some of them, for as long as this lives.
pub(crate) struct UnderWay {
    calls: Calls,
    actions: Vec<ActionId>,
}

impl Calls {
    /// Those that are under way now. To be asked for before a survey is made: what it finds open may have its answer by its end.
    pub fn now(&self) -> BTreeSet<ActionId> {
        self.all().clone()
    }

    /// Says that these begin.
    pub(crate) fn begin(&self, actions: impl IntoIterator<Item = ActionId>) -> UnderWay {
        let actions: Vec<ActionId> = actions.into_iter().collect();
        self.all().extend(&actions);
        UnderWay { calls: self.clone(), actions }
    }

    fn all(&self) -> MutexGuard<'_, BTreeSet<ActionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut all = self.calls.all();
        for action in &self.actions {
            all.remove(action);
        }
    }
}

impl Survey {
    /// Says of what a call is about that this is under way, and nothing else: `before` were under way when the survey began.
    pub fn tell_under_way(&mut self, before: BTreeSet<ActionId>, calls: &Calls) {
        let mut under_way = before;
        under_way.extend(calls.now());
        if under_way.is_empty() {
            return;
        }
        for view in self.scopes.values_mut().flatten() {
            let View { memory, plan, .. } = view;
            let open = memory.open.iter().filter(|open| under_way.contains(&open.intent.action));
            let told: BTreeMap<ResourceId, Condition> =
                open.map(|open| (open.intent.row.tracked.id.clone(), told(open))).collect();
            if told.is_empty() {
                continue;
            }
            plan.conditions.retain(|one| one.id.as_ref().is_none_or(|id| !told.contains_key(id)));
            for step in &mut plan.steps {
                if let Some(told) = told.get(&step.id) {
                    step.blocked = Some(Blocked::UnderWay(Box::new(told.clone())));
                }
            }
            plan.conditions.extend(told.into_values());
            plan.conditions.sort_by(|a, b| (&a.id, &a.reason).cmp(&(&b.id, &b.reason)));
        }
    }
}

fn told(open: &OpenIntent) -> Condition {
    let row = &open.intent.row;
    Condition::waiting(UNDER_WAY, format!("the call to {} it is under way", open.intent.op))
        .about(row.tracked.id.clone(), row.address.clone())
}
