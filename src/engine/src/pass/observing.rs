//! Looking without doing: `run --observe`.
//!
//! Guarantees: no write to a remote; of the store only conditions, health and the drift ledger. It deliberately
//! adopts nothing either.

use super::{
    Engine, RoundReport, ScopeReport,
    ending::{conditions_write, state_without_actions},
};
use crate::{Desired, drift, plan::EntryPolicy, survey::Survey};
use reconciled_provider::Error;

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
        let generations = self.fences(desired).await?;
        for (scope, view) in survey.scopes {
            let result = match view {
                Err(error) => self.unseen(&scope, &error).await?,
                Ok(view) => {
                    let conditions = view.plan.conditions.clone();
                    let mut writes = Vec::new();
                    drift::noted(&scope, &view, self.surveyor.cx.clock.now(), &mut writes);
                    self.fared(&scope, &view, &generations, &mut writes);
                    conditions_write(&scope, &view.memory.conditions, &conditions, &mut writes);
                    if !writes.is_empty() {
                        self.store.commit(writes).await?;
                    }
                    self.succeeded(&scope);
                    let state = state_without_actions(&view, false, &conditions, false);
                    ScopeReport { recheck: view.health.recheck, ..ScopeReport::quiet(state, conditions) }
                }
            };
            report.scopes.insert(scope, result);
        }
        Ok(report)
    }
}
