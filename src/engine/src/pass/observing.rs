//! Looking without doing: `run --observe`.
//!
//! Guarantees: no write to a remote; of the store only conditions, health and the drift ledger. It deliberately
//! adopts nothing either.

use super::{
    Engine, RoundReport, ScopeReport,
    ending::{conditions_write, recheck, recorded, state_without_actions},
};
use crate::{
    Desired, drift,
    plan::{Blocked, EntryPolicy, POLICY_FORBIDS},
    store::{Condition, ConditionKind},
    survey::{Survey, View},
};
use reconciled_provider::{Error, ResourceId};
use std::collections::BTreeSet;

impl Engine {
    /// The same engine with every entry's policy at `observe`: its plans say that nothing may be written.
    pub fn observing(&self) -> Engine {
        let mut engine = self.clone();
        engine.surveyor.entries.values_mut().for_each(|entry| entry.policy = EntryPolicy::Observe);
        engine
    }

    /// Records what a survey found to be not in sync, and nothing else.
    ///
    /// Errors: only the store's.
    pub async fn record(&self, desired: &Desired, survey: Survey) -> Result<RoundReport, Error> {
        let mut report = RoundReport::default();
        let generations = self.fences(desired, &survey).await?;
        for (scope, view) in survey.scopes {
            let result = match view {
                Err(error) => self.unseen(&scope, &error).await?,
                Ok(view) => {
                    let conditions = only_looking(&view);
                    let mut writes = Vec::new();
                    drift::noted(&scope, &view, self.surveyor.cx.clock.now(), &mut writes);
                    self.fared(&scope, &view, &generations, &mut writes);
                    conditions_write(
                        &scope,
                        &view.memory.conditions,
                        &recorded(&view, &conditions),
                        &mut writes,
                    );
                    if !writes.is_empty() {
                        self.store.commit(writes).await?;
                    }
                    self.succeeded(&scope);
                    let state = state_without_actions(&view, false, &conditions, false);
                    ScopeReport { recheck: recheck(&view), ..ScopeReport::quiet(state, conditions) }
                }
            };
            report.scopes.insert(scope, result);
        }
        Ok(report)
    }
}

/// The conditions of a look: what nobody forbids but the looking says so, and waits for no person's word.
fn only_looking(view: &View) -> Vec<Condition> {
    let forbidden = |blocked: &Option<Blocked>| matches!(blocked, Some(Blocked::EntryPolicy(_)));
    let steps = view.plan.steps.iter().filter(|step| forbidden(&step.blocked));
    let left: BTreeSet<&ResourceId> = steps.map(|step| &step.id).collect();
    let told = view.plan.conditions.iter().map(|condition| {
        let is_left = condition.id.as_ref().is_some_and(|id| left.contains(id));
        if !is_left || &*condition.reason != POLICY_FORBIDS {
            return condition.clone();
        }
        Condition {
            kind: ConditionKind::Suspended,
            reason: OBSERVING.into(),
            message: "it differs, and the daemon only looks (`run --observe`)".into(),
            hint: Some(
                "to see what would be done: reconciled plan; to have it done, run without --observe".into(),
            ),
            ..condition.clone()
        }
    });
    told.collect()
}

/// Why nothing is done about a difference that a daemon sees which only looks.
const OBSERVING: &str = "Observing";
