//! Which commits the plan of a guard domain is of.
//!
//! Guarantees: a plan that waits for consent stays one of the commits it was held with while its digest stands, whatever
//! comes into force beside it. It deliberately guesses nothing: what was never held is of the revision in force.

use crate::{
    desired::{Desired, SourceState},
    plan::{Change, Reason, ScopePlan, Step},
    store::{Hold, Terms},
};
use reconciled_provider::Scope;
use std::{collections::BTreeMap, sync::Arc};

/// Between the revisions of several sources.
const AND: &str = "+";

/// The sources of which `plans` carry out something that the guard counts, and what is in force of them.
fn sources(desired: &Desired, plans: &[&ScopePlan]) -> BTreeMap<Arc<str>, Arc<str>> {
    let mut found = BTreeMap::new();
    for plan in plans {
        for step in plan.steps.iter().filter(|step| step.is_guarded()) {
            let source = source(desired, &plan.scope, step);
            found.extend(source.map(|(name, state)| (name.clone(), state.label.clone())));
        }
    }
    found
}

/// The source whose word a step carries out.
fn source<'a>(desired: &'a Desired, scope: &Scope, step: &Step) -> Option<(&'a Arc<str>, &'a SourceState)> {
    match step.work.row.as_ref().or(step.work.was.as_ref()) {
        Some(row) => desired.sources.get_key_value(row.manifest.source()),
        None => desired.source_of(scope),
    }
}

/// The revisions that a plan is of, each by its source.
pub(super) struct Commits(BTreeMap<Arc<str>, Arc<str>>);

impl Commits {
    /// Those of `hold`, which is the same plan; else what is in force.
    pub(super) fn of(desired: &Desired, plans: &[&ScopePlan], hold: Option<&Hold>) -> Commits {
        let mut found = sources(desired, plans);
        let held: Vec<&str> = hold.map(|hold| hold.revision.split(AND).collect()).unwrap_or_default();
        if held.len() == found.len() {
            found.values_mut().zip(held).for_each(|(label, held)| *label = held.into());
        }
        Commits(found)
    }

    /// What people call them.
    pub(super) fn label(&self) -> Arc<str> {
        let labels: Vec<&str> = self.0.values().map(|label| &**label).collect();
        labels.join(AND).into()
    }

    /// Says in a plan which commits it is of.
    pub(super) fn put(&self, desired: &Desired, plan: &mut ScopePlan) {
        let (scope, mut terms) = (&plan.scope, None);
        for step in plan.steps.iter_mut().filter(|step| step.is_guarded()) {
            let Reason::Commit(in_force) = &step.reason else { continue };
            let Some((name, _)) = source(desired, scope, step) else { continue };
            let Some(label) = self.0.get(name).filter(|label| *label != in_force) else { continue };
            // What goes keeps the revision that it was made with.
            if step.change != Change::Delete
                && let Some(row) = &mut step.work.row
            {
                let row = Arc::make_mut(row);
                let relabelled = Terms { revision: label.clone(), ..Terms::clone(&row.terms) };
                row.terms = relabelled.shared(&mut terms);
            }
            step.reason = Reason::Commit(label.clone());
        }
    }
}
