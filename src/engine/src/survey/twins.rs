//! Two resources that are one thing at the remote: found by the identity that the remote tells (`same` does it without one).
//!
//! Guarantees: nothing is written to or deleted for a thing that two resources of one entry stand for, but by the only one that
//! is tracked and declared: it keeps the thing, and the others are refused. What stands for something that nobody could look
//! up, because it waits or its read failed, may be any thing of its kind: meanwhile nothing of that kind in its entry is deleted
//! that it may be about to take over, and nothing is taken over that it may have. It deliberately decides nothing else: who of
//! them has it is for a person to say.
//!
//! The race: a process dies between both halves of a replacement, while another of that kind is made. A remote whose ids are
//! names may have given the id that became free to that other one. What the replacement finds under its id looks like what it
//! was to delete, and is not touched while it is not known what came of the other. Where a manifest got another name and its
//! resource kept its own, the creation under the new name may have changed what the old row stands for: that row stays as well.

pub(super) mod former;
mod refused;
pub(super) mod same;
mod unknown;

pub(super) use unknown::{Remembered, Unknown, remembered, unknown};

use super::{Survey, View, Watched};
use crate::{
    desired::Desired,
    plan::{Blocked, Change},
    store::Condition,
};
use reconciled_provider::{Address, Observed, ResourceId, Scope};
use refused::{Twin, refused};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use unknown::{has_row, place};

/// Refuses those that cannot have their thing, as if they could not be looked at.
pub(super) fn refuse(desired: &Desired, survey: &mut Survey) {
    let mut found: BTreeMap<(Arc<str>, Arc<str>), Vec<Twin>> = BTreeMap::new();
    for (scope, view) in &survey.scopes {
        let Ok(view) = view else { continue };
        for resource in &view.seen.resources {
            if let Some(identity) = &resource.identity {
                let twin = twin(desired, scope, &resource.id, view);
                found.entry((scope.provider.clone(), identity.clone())).or_default().push(twin);
            }
        }
    }
    for ((_, identity), all) in found.into_iter().filter(|(_, all)| all.len() > 1) {
        for (scope, error) in refused(&identity, &all) {
            survey.scopes.insert(scope, Err(error));
        }
    }
}

fn twin(desired: &Desired, scope: &Scope, id: &ResourceId, view: &View) -> Twin {
    Twin {
        scope: scope.clone(),
        is_tracked: has_row(&view.memory.rows, id),
        is_declared: desired.in_scope(scope).iter().any(|resource| resource.id == *id),
        is_in_doubt: view
            .memory
            .open
            .iter()
            .any(|open| open.intent.row.tracked.id == *id && &*open.intent.op == "replace"),
    }
}

/// Has wait what may be one thing with what is not known: deletions of what nothing declares, and what would be taken over.
pub(super) fn wait(
    entries: &BTreeMap<Arc<str>, Watched>,
    desired: &Desired,
    unknown: &Unknown,
    survey: &mut Survey,
) {
    if unknown.wanting.is_empty() && unknown.having.is_empty() && unknown.making.is_empty() {
        return;
    }
    for (scope, view) in &mut survey.scopes {
        let Ok(view) = view else { continue };
        let observer = &*entries[&scope.provider].observer;
        let ends = view.plan.steps.iter().any(|step| step.change == Change::Delete);
        if !ends && view.seen.resources.iter().all(|seen| seen.identity.is_none()) {
            continue;
        }
        let is_named = |seen: &Observed| seen.identity.is_some() || same::assigned(observer, seen).is_some();
        let may_be_another = |id: &ResourceId| view.seen.get(id).is_some_and(is_named);
        let plan = &mut view.plan;
        let has_identity = |id: &ResourceId| view.seen.get(id).is_some_and(|seen| seen.identity.is_some());
        let mut doubtful: BTreeMap<&ResourceId, &Address> = BTreeMap::new();
        for open in view.memory.open.iter().filter(|open| &*open.intent.op == "replace") {
            let row = &open.intent.row;
            let is_done =
                view.seen.get(&row.tracked.id).is_some_and(|seen| open.intent.after == Some(seen.hash));
            let other = unknown.making.get(&place(scope, &row.manifest));
            if let Some(other) = other.filter(|_| has_identity(&row.tracked.id) && !is_done) {
                doubtful.insert(&row.tracked.id, other);
                // The question stays, or nobody would remember it at the next look.
                plan.unanswered.push(open.intent.action);
            }
        }
        for step in &mut plan.steps {
            let other = doubtful.get(&step.id).filter(|_| step.change.writes() && step.blocked.is_none());
            if let Some(other) = other {
                let blocked = Blocked::Mistakable((*other).clone().into());
                plan.conditions.push(blocked.condition(step));
                step.blocked = Some(blocked);
                continue;
            }
            let row = step.work.was.as_ref().filter(|_| step.change == Change::Delete);
            let Some(row) = row.filter(|_| step.blocked.is_none() && may_be_another(&step.id)) else {
                continue;
            };
            let of_its_kind = place(scope, &row.manifest);
            let heir = unknown.wanting.get(&of_its_kind).map(|heir| Blocked::Heir(heir.clone().into()));
            let made = || {
                let other = unknown.making.get(&of_its_kind)?;
                Some(Blocked::Mistakable(other.clone().into()))
            };
            let Some(blocked) = heir.or_else(made) else { continue };
            plan.conditions.push(blocked.condition(step));
            step.blocked = Some(blocked);
        }
        let mut refused = BTreeSet::new();
        for resource in desired.in_scope(scope) {
            let manifest = desired.manifest(resource.origin);
            let is_new = !has_row(&view.memory.rows, &resource.id);
            let owner = unknown.having.get(&place(scope, &manifest.key));
            let Some(owner) = owner.filter(|_| is_new && has_identity(&resource.id)) else { continue };
            if plan.steps.iter().any(|step| step.id == resource.id) && refused.insert(&resource.id) {
                plan.conditions.push(not_taken_over(&resource.id, &manifest.address, owner));
            }
        }
        plan.steps.retain(|step| !refused.contains(&step.id));
        plan.resumed.retain(|step| !refused.contains(&step.id));
        plan.spent.retain(|id| !refused.contains(id));
        plan.conditions.sort_by(|a, b| (&a.id, &a.reason).cmp(&(&b.id, &b.reason)));
    }
}

fn not_taken_over(id: &ResourceId, address: &Address, owner: &Address) -> Condition {
    let message = format!("is taken over once {owner} can be read: both may be one thing");
    let hint = format!("if {owner} is not meant to have it: reconciled forget {owner}");
    Condition::waiting("WaitingForTwin", message).about(id.clone(), address.clone()).hint(hint)
}
