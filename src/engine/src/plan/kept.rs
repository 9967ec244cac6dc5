//! What is written of declarations of which something is ignored: that stays as it was observed.
//!
//! Guarantees: pure; it is settled before anything is compared, so that the plan shows, the digest names and the batch carries
//! what is written, and a provider knows of no exception. It deliberately remembers nothing: a row is of the declaration, so
//! that the next commit, and not what was ignored, is the reason of the next write.

use super::{Kept, planner::Planner};
use crate::desired::Desired;
use reconciled_provider::{Error, Hash, Observation, Observed, Observer, Resource, Spec, is_ignored};
use std::{borrow::Cow, sync::Arc};

/// Asks `provider` what is written of the `effective` resources of a scope.
pub fn kept(provider: &dyn Observer, desired: &Desired, effective: &[Resource], seen: &Observation) -> Kept {
    let one = |declared: &Resource| {
        let ignored = &desired.policies.get(declared.policy).ignore;
        if ignored.is_empty() {
            return None;
        }
        let observed = seen.get(&declared.id)?;
        Some((declared.id.clone(), leave(provider, declared, observed, ignored)?))
    };
    effective.iter().filter_map(one).collect()
}

fn leave(
    provider: &dyn Observer,
    declared: &Resource,
    observed: &Observed,
    ignored: &[Arc<str>],
) -> Option<Result<Resource, Error>> {
    let bytes = declared.spec.bytes().filter(|_| declared.spec.hash() != Some(observed.hash))?;
    let differs = provider.compare(declared, observed)?.fields;
    if !differs.iter().any(|field| is_ignored(ignored, &field.path)) {
        return None;
    }
    match provider.keep(declared, observed, ignored) {
        Ok(kept) if kept == bytes => None,
        Ok(kept) => {
            let spec = Spec::resolved(kept, declared.spec.template());
            Some(Ok(declared.clone().with(|resource| resource.spec = spec)))
        }
        Err(error) => Some(Err(error)),
    }
}

/// The `effective` resources as they are written: what is compared with what was seen.
pub fn written<'a>(effective: &'a [Resource], kept: &Kept) -> Cow<'a, [Resource]> {
    let as_written = |declared: &Resource| match kept.get(&declared.id) {
        Some(Ok(kept)) => kept.clone(),
        _ => declared.clone(),
    };
    match kept.is_empty() {
        true => effective.into(),
        false => effective.iter().map(as_written).collect(),
    }
}

impl<'a> Planner<'a> {
    /// What is written in the place of `desired`, where something is ignored that differs.
    pub(super) fn kept(&self, desired: &Resource) -> Result<Option<&'a Resource>, &'a Error> {
        self.input.kept.get(&desired.id).map(Result::as_ref).transpose()
    }

    /// Stands for what is written in the digest: the template, and what is left as it was observed.
    pub(super) fn after_leaving(&self, desired: &Resource) -> Hash {
        let mut bytes = desired.spec.template().0.to_vec();
        for path in self.ignored(desired) {
            bytes.push(0);
            bytes.extend_from_slice(path.as_bytes());
        }
        Hash::of(&bytes)
    }

    pub(super) fn ignored(&self, desired: &Resource) -> &'a [Arc<str>] {
        &self.input.desired.policies.get(desired.policy).ignore
    }
}
