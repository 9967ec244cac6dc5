//! What was in the place of a resource before, and is to be deleted: it may be another one by now.
//!
//! Guarantees: nothing of the kind goes that another resource of the entry is called, tracked or about to be taken over, nor
//! while one is being made of which nobody knows yet what it will be called. It deliberately lets nothing go from memory: whose
//! it is is for a person to say.
//!
//! The race: what was replaced keeps its name until it goes. A remote that knows things by their names gives it to whoever asks
//! for that name meanwhile, also within the same run.

use super::unknown::{Place, Remembered, Unknown, has_row, place};
use crate::{
    desired::Desired,
    plan::{Blocked, Change, Step},
    store::Row,
    survey::{Survey, View, Watched},
};
use reconciled_provider::{Address, Observer, RemoteNames, ResourceId, Scope};
use std::{collections::BTreeMap, sync::Arc};

/// What deletes it too, or nothing else.
fn may_end(step: &Step) -> bool {
    step.blocked.is_none() && matches!(step.change, Change::EndFormer | Change::Delete | Change::Replace)
}

/// Has stay what may be another one by now.
pub(in crate::survey) fn keep(
    entries: &BTreeMap<Arc<str>, Watched>,
    desired: &Desired,
    (remembered, unknown): (&Remembered, &Unknown),
    survey: &mut Survey,
) {
    let mut kept: Vec<(Scope, ResourceId, Blocked)> = Vec::new();
    let mut known: BTreeMap<Arc<str>, Vec<Known<'_>>> = BTreeMap::new();
    let mut made: Option<Made<'_>> = None;
    for (scope, view) in &survey.scopes {
        let Ok(view) = view else { continue };
        let observer = &*entries[&scope.provider].observer;
        for step in view.plan.steps.iter().filter(|step| may_end(step)) {
            // What was seen may be the first of them, where what took its place is gone.
            let seen = step.work.observed.as_ref().map(|seen| &seen.private);
            let was = step.work.was.as_ref().map(|row| &row.tracked.private).filter(|was| seen != Some(*was));
            let former = seen.into_iter().chain(was).flat_map(|of| observer.former_names(&step.id, of));
            let former: Vec<RemoteNames> = former.collect();
            if former.is_empty() {
                continue;
            }
            let known = known
                .entry(scope.provider.clone())
                .or_insert_with(|| all(desired, remembered, survey, (&scope.provider, observer)));
            let is_it = |one: &&Known<'_>| {
                one.scope != scope && former.iter().any(|former| former.is(&one.names) == Some(true))
            };
            let blocked = match known.iter().find(is_it) {
                Some(taken) => Some(Blocked::Taken(taken.address.clone().into())),
                None => step.work.was.as_ref().and_then(|row| {
                    let made = made.get_or_insert_with(|| about_to_be_made(survey));
                    doubt(scope, step, row, unknown, made)
                }),
            };
            kept.extend(blocked.map(|blocked| (scope.clone(), step.id.clone(), blocked)));
        }
    }
    for (scope, id, blocked) in kept {
        let Some(Ok(view)) = survey.scopes.get_mut(&scope) else { continue };
        let plan = &mut view.plan;
        for step in plan.steps.iter_mut().filter(|step| step.id == id && may_end(step)) {
            plan.conditions.push(blocked.condition(step));
            step.blocked = Some(blocked.clone());
        }
        plan.conditions.sort_by(|a, b| (&a.id, &a.reason).cmp(&(&b.id, &b.reason)));
    }
}

/// A resource and what it is called.
pub(super) struct Known<'s> {
    pub(super) scope: &'s Scope,
    pub(super) id: &'s ResourceId,
    pub(super) address: &'s Address,
    pub(super) is_tracked: bool,
    /// A call to it has no answer.
    pub(super) is_open: bool,
    pub(super) names: RemoteNames,
}

/// All of an entry: tracked, being made without an answer, or seen and declared.
pub(super) fn all<'s>(
    desired: &'s Desired,
    remembered: &'s Remembered,
    survey: &'s Survey,
    (entry, observer): (&str, &dyn Observer),
) -> Vec<Known<'s>> {
    let of_entry = |scope: &Scope| *scope.provider == *entry;
    let mut all = Vec::new();
    for (scope, (rows, open)) in remembered.iter().filter(|(scope, _)| of_entry(scope)) {
        let is_open = |id: &ResourceId| open.iter().any(|open| open.intent.row.tracked.id == *id);
        let of_row = |row: &'s Row| Known {
            scope,
            id: &row.tracked.id,
            address: &row.address,
            is_tracked: has_row(rows, &row.tracked.id),
            is_open: is_open(&row.tracked.id),
            names: observer.remote_names(&row.tracked.id, &row.tracked.private),
        };
        all.extend(rows.iter().chain(open.iter().map(|open| &*open.intent.row)).map(of_row));
    }
    for (scope, view) in survey.scopes.iter().filter(|(scope, _)| of_entry(scope)) {
        let Ok(View { seen, memory, .. }) = view else { continue };
        for resource in desired.in_scope(scope) {
            let Some(seen) = seen.get(&resource.id) else { continue };
            all.push(Known {
                scope,
                id: &resource.id,
                address: &desired.manifest(resource.origin).address,
                is_tracked: has_row(&memory.rows, &resource.id),
                is_open: false,
                names: observer.remote_names(&resource.id, &seen.private),
            });
        }
    }
    all
}

/// What is made, by its kind.
type Made<'s> = BTreeMap<Place, Vec<(&'s Scope, &'s Address)>>;

/// What this very plan makes.
fn about_to_be_made(survey: &Survey) -> Made<'_> {
    let mut made = Made::new();
    for (scope, view) in &survey.scopes {
        let Ok(view) = view else { continue };
        let makes =
            |step: &&Step| step.blocked.is_none() && matches!(step.change, Change::Create | Change::Replace);
        for step in view.plan.steps.iter().filter(makes) {
            if let Some(row) = &step.work.row {
                made.entry(place(scope, &row.manifest)).or_default().push((scope, &step.address));
            }
        }
    }
    made
}

/// Why it cannot be known yet whether what goes with `step` is another one.
fn doubt(scope: &Scope, step: &Step, row: &Row, unknown: &Unknown, made: &Made<'_>) -> Option<Blocked> {
    let place = place(scope, &row.manifest);
    if let Some(other) = unknown.making.get(&place) {
        return Some(Blocked::Mistakable(other.clone().into()));
    }
    if let Some(heir) = unknown.wanting.get(&place) {
        return Some(Blocked::Heir(heir.clone().into()));
    }
    // Two that are each replaced once more would wait for one another.
    if step.change == Change::Replace {
        return None;
    }
    let other = made.get(&place).into_iter().flatten().find(|(other, _)| *other != scope);
    other.map(|(_, address)| Blocked::Mistakable((*address).clone().into()))
}
