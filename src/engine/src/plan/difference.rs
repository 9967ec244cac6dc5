//! How a desired resource differs from the observed one in what counts: the fields that nobody ignores.
//!
//! Guarantees: what is ignored is no reason to write. Where it cannot be left while the rest is written, it is part of that
//! difference, so that the plan shows it. It deliberately leaves to [`super::kept`] what is written.

use super::planner::Planner;
use reconciled_provider::{Delta, Error, FieldChange, Observed, Resource, Spec, is_ignored};
use std::time::Duration;

/// How two sides differ.
pub(super) enum Difference<'a> {
    /// In nothing that matters.
    Same,
    /// In ignored fields only.
    Ignored,
    /// In these fields.
    Fields(Delta),
    /// Not known yet: the declaration waits for an output.
    Unknown,
    /// The provider could not tell, or cannot leave what is ignored.
    Failed(&'a Error),
}

impl<'a> Planner<'a> {
    /// What is still there of what was replaced, and until when, where nothing else differs.
    pub(super) fn still_there(&self, desired: &Resource) -> Option<(&'a Delta, Duration)> {
        let delta = self.input.deltas.get(&desired.id)?;
        let until = delta.as_ref().ok()?.stays_until?;
        self.stays(delta).then_some((delta.as_ref().ok()?, until))
    }

    /// True where the time has not come for what a delta is about.
    fn stays(&self, delta: &Result<Delta, Error>) -> bool {
        delta.as_ref().is_ok_and(|delta| delta.stays_until.is_some_and(|until| self.input.now < until))
    }

    pub(super) fn difference(&self, desired: &Resource, observed: &Observed) -> Difference<'a> {
        let ignored = self.ignored(desired);
        let delta = self.input.deltas.get(&desired.id).filter(|delta| !self.stays(delta));
        // Equal content is no difference, unless the provider knows of one that content does not show: a resource
        // that was created in part.
        if desired.spec.hash() == Some(observed.hash) && delta.is_none() {
            return Difference::Same;
        }
        if ignored.iter().any(|path| &**path == "*") {
            return Difference::Ignored;
        }
        if matches!(desired.spec, Spec::Waiting { .. }) {
            return Difference::Unknown;
        }
        let is_left = |field: &FieldChange| is_ignored(ignored, &field.path);
        match (delta, self.kept(desired)) {
            // The provider compared and found nothing that matters.
            (None, Ok(None)) => Difference::Same,
            (None, _) => Difference::Ignored,
            (Some(Err(error)), _) => Difference::Failed(error),
            // A difference that no field tells of cannot be ignored by path.
            (Some(Ok(delta)), _) if !delta.fields.is_empty() && delta.fields.iter().all(is_left) => {
                Difference::Ignored
            }
            (Some(Ok(_)), Err(error)) => Difference::Failed(error),
            (Some(Ok(delta)), Ok(_)) => Difference::Fields(delta.clone()),
        }
    }
}
