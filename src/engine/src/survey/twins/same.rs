//! Two resources that are one thing, where the remote tells no identity: by the identifier that it assigned.
//!
//! Guarantees: nothing is deleted that another resource of the entry stands for, and what is tracked already is not taken over by
//! a second one. An identifier proves less than an identity, so it stops nothing else: what is tracked and declared goes on.

use super::{
    former::{Known, all},
    refused::{Twin, refused},
    unknown::{Remembered, has_row},
};
use crate::{
    desired::Desired,
    plan::{Blocked, Change, Step},
    survey::{Survey, Watched},
};
use reconciled_provider::{Error, Observed, Observer, RemoteNames, ResourceId, Scope};
use std::{collections::BTreeMap, sync::Arc};

/// What deletes what the remote has.
fn ends(step: &Step) -> bool {
    step.blocked.is_none() && matches!(step.change, Change::Delete | Change::Replace)
}

/// The identifier that tells a resource from others of its kind, where the remote assigned one.
pub(super) fn assigned<'o>(observer: &dyn Observer, observed: &'o Observed) -> Option<&'o Arc<str>> {
    let is_told = || observer.remote_names(&observed.id, &observed.private).remote.is_some();
    observed.remote.as_ref().filter(|_| is_told())
}

/// Has stay what another one stands for as well, and refuses what would be tracked twice.
pub(in crate::survey) fn keep(
    entries: &BTreeMap<Arc<str>, Watched>,
    desired: &Desired,
    remembered: &Remembered,
    survey: &mut Survey,
) {
    let mut kept: Vec<(Scope, ResourceId, Blocked)> = Vec::new();
    let mut errors: Vec<(Scope, Error)> = Vec::new();
    let mut known: BTreeMap<Arc<str>, Vec<Known<'_>>> = BTreeMap::new();
    for (scope, view) in &survey.scopes {
        let Ok(view) = view else { continue };
        let observer = &*entries[&scope.provider].observer;
        let mut others = |names: &[RemoteNames]| -> Vec<usize> {
            let known = known
                .entry(scope.provider.clone())
                .or_insert_with(|| all(desired, remembered, survey, (&scope.provider, observer)));
            let is_it = |one: &Known<'_>| {
                one.scope != scope && names.iter().any(|names| names.is(&one.names) == Some(true))
            };
            (0..known.len()).filter(|index| is_it(&known[*index])).collect()
        };
        let mut found: Vec<(&Step, Vec<usize>)> = Vec::new();
        for step in view.plan.steps.iter().filter(|step| ends(step)) {
            let Some(seen) = &step.work.observed else { continue };
            if seen.identity.is_some() || assigned(observer, seen).is_none() {
                continue;
            }
            let was = step.work.was.as_ref().map(|row| &row.tracked.private);
            let own = std::iter::once(&seen.private).chain(was);
            let own: Vec<RemoteNames> = own.map(|private| observer.remote_names(&step.id, private)).collect();
            found.push((step, others(&own)));
        }
        let mut new: Vec<(&ResourceId, &Arc<str>, Vec<usize>)> = Vec::new();
        // Most remotes assign nothing, and have thousands: none of those is looked up.
        let are_told_apart = |seen: &Observed| seen.identity.is_none() && seen.remote.is_some();
        let may_be_new = view.seen.resources.iter().any(are_told_apart);
        let declared = if may_be_new { desired.in_scope(scope) } else { &[] };
        for resource in declared.iter().filter(|one| !has_row(&view.memory.rows, &one.id)) {
            let Some(seen) = view.seen.get(&resource.id).filter(|seen| seen.identity.is_none()) else {
                continue;
            };
            let Some(remote) = assigned(observer, seen) else { continue };
            new.push((&resource.id, remote, others(&[observer.remote_names(&resource.id, &seen.private)])));
        }
        let known = known.get(&scope.provider).map_or(&[][..], Vec::as_slice);
        for (step, others) in found {
            // Whoever is about to take it over is refused with it, below.
            let other = others.iter().map(|index| &known[*index]).find(|other| other.is_tracked);
            kept.extend(
                other.map(|other| {
                    (scope.clone(), step.id.clone(), Blocked::Same(other.address.clone().into()))
                }),
            );
        }
        for (id, remote, others) in new {
            let mut twins = vec![Twin {
                scope: scope.clone(),
                is_tracked: false,
                is_declared: true,
                is_in_doubt: view.memory.open.iter().any(|open| open.intent.row.tracked.id == *id),
            }];
            for other in others.into_iter().map(|index| &known[index]) {
                if twins.iter().all(|twin| twin.scope != *other.scope) {
                    twins.push(twin(desired, other));
                }
            }
            if twins.len() > 1 {
                errors.extend(refused(remote, &twins));
            }
        }
    }
    for (scope, id, blocked) in kept {
        let Some(Ok(view)) = survey.scopes.get_mut(&scope) else { continue };
        let plan = &mut view.plan;
        for step in plan.steps.iter_mut().filter(|step| step.id == id && ends(step)) {
            plan.conditions.push(blocked.condition(step));
            step.blocked = Some(blocked.clone());
        }
        plan.conditions.sort_by(|a, b| (&a.id, &a.reason).cmp(&(&b.id, &b.reason)));
    }
    for (scope, error) in errors {
        if let Some(view @ Ok(_)) = survey.scopes.get_mut(&scope) {
            *view = Err(error);
        }
    }
}

fn twin(desired: &Desired, known: &Known<'_>) -> Twin {
    Twin {
        scope: known.scope.clone(),
        is_tracked: known.is_tracked,
        is_declared: desired.in_scope(known.scope).iter().any(|resource| resource.id == *known.id),
        is_in_doubt: known.is_open,
    }
}
