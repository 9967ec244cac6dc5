//! What was learnt of writes that somebody undoes, and of those that come to nothing: kept in memory, as [`super::flapping`] says.

use super::flapping::{Flapping, Futile};
use crate::{journal::Ended, plan::Step, store::Condition};
use reconciled_provider::Scope;
use std::time::Duration;

/// Repairs by resource, and what comes to nothing.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    repairs: Flapping,
    futile: Futile,
}

impl Ledger {
    /// Remembers a repair, and what came about in part; anything else that was written is none.
    pub(super) fn ended(&mut self, scope: &Scope, step: &Step, outcome: &Ended, now: Duration) {
        self.futile.ended(scope, step, outcome);
        self.repairs.ended(scope, step, outcome, now);
    }

    /// The steps that may be taken; those that flap, or come to nothing, become conditions.
    pub(super) fn without_flapping<'s>(
        &self,
        scope: &Scope,
        mut steps: Vec<&'s Step>,
        conditions: &mut Vec<Condition>,
    ) -> Vec<&'s Step> {
        steps.retain(|step| {
            // It says more: what keeps changing may be the remote's own doing.
            let stopped = self.futile.condition(scope, step).or_else(|| self.repairs.condition(scope, step));
            let goes_on = stopped.is_none();
            conditions.extend(stopped);
            goes_on
        });
        steps
    }

    /// Forgets what was learnt of a scope.
    pub(super) fn acquit(&mut self, scope: &Scope) {
        self.repairs.acquit(scope);
        self.futile.acquit(scope);
    }
}
