//! How a desired resource differs from the observed one in what counts: the fields that nobody ignores.
//!
//! Guarantees: what is ignored is neither shown as a difference nor a reason to write. It deliberately leaves
//! what is written to the provider: an update of other fields writes the declaration as a whole.

use super::Planner;
use reconciled_provider::{Delta, Error, Observed, Resource, Spec};

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
    /// The provider could not tell.
    Failed(&'a Error),
}

impl<'a> Planner<'a> {
    pub(super) fn difference(&self, desired: &Resource, observed: &Observed) -> Difference<'a> {
        let ignore = &self.input.desired.policies.get(desired.policy).ignore;
        let delta = self.input.deltas.get(&desired.id);
        // Equal content is no difference, unless the provider knows of one that content does not show: a resource
        // that was created in part.
        if desired.spec.hash() == Some(observed.hash) && delta.is_none() {
            return Difference::Same;
        }
        if ignore.iter().any(|path| &**path == "*") {
            return Difference::Ignored;
        }
        if matches!(desired.spec, Spec::Waiting { .. }) {
            return Difference::Unknown;
        }
        match delta {
            // The provider compared and found nothing that matters.
            None => Difference::Same,
            Some(Err(error)) => Difference::Failed(error),
            Some(Ok(delta)) => {
                let counts = |field: &str| !ignore.iter().any(|path| covers(path, field));
                let mut left = delta.clone();
                left.fields.retain(|field| counts(&field.path));
                // A difference that no field tells of cannot be ignored by path.
                if left.fields.is_empty() && !delta.fields.is_empty() {
                    return Difference::Ignored;
                }
                Difference::Fields(left)
            }
        }
    }
}

/// True when `field` is `path` or below it.
fn covers(path: &str, field: &str) -> bool {
    field.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '/']))
}
