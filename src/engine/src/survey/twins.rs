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
pub(super) mod same;

use super::{Survey, View, Watched};
use crate::{
    desired::Desired,
    plan::{Blocked, Change},
    store::{Condition, OpenIntent, Row, ScopeMemory},
};
use reconciled_provider::{Address, Error, ManifestKey, Observed, ResourceId, Scope, Spec};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A resource that stands for a thing.
struct Twin {
    scope: Scope,
    is_tracked: bool,
    is_declared: bool,
    /// A call without an answer replaced it: it may be gone, and the thing another one.
    is_in_doubt: bool,
}

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

/// Those of `all` that cannot have the thing, and why.
fn refused(identity: &str, all: &[Twin]) -> Vec<(Scope, Error)> {
    let mut tracked = all.iter().filter(|twin| twin.is_tracked);
    let owner = match (tracked.next(), tracked.next()) {
        (Some(only), None) if only.is_declared && !only.is_in_doubt => Some(only),
        _ => None,
    };
    let hint = match (owner, all.iter().any(|twin| twin.is_tracked)) {
        (Some(_), _) => "take its manifest out",
        (None, false) => "take all of their manifests out but one",
        (None, true) => {
            "let go of those that are not meant to have it: reconciled forget ADDRESS; a manifest that took the place of \
             another one says so: reconciled/moved-from"
        }
    };
    let others = all.iter().filter(|twin| owner.is_none_or(|owner| owner.scope != twin.scope));
    let refuse = |twin: &Twin| {
        let beside = all.iter().filter(|other| other.scope != twin.scope);
        let beside: Vec<String> = beside.map(|other| other.scope.to_string()).collect();
        let text = format!("{} is one thing with {}: {identity}", twin.scope, beside.join(" and "));
        (twin.scope.clone(), Error::invalid(text).hint(hint))
    };
    others.map(refuse).collect()
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

/// What is remembered of each scope, also where that cannot be read.
pub(super) type Remembered = BTreeMap<Scope, (Arc<Vec<Row>>, Vec<OpenIntent>)>;

/// What is tracked and what has no answer, as memories have it.
pub(super) fn remembered(memories: &BTreeMap<Scope, ScopeMemory>) -> Remembered {
    let of = |memory: &ScopeMemory| (memory.rows.clone(), memory.open.clone());
    memories.iter().map(|(scope, memory)| (scope.clone(), of(memory))).collect()
}

/// Resources of which nobody knows what they stand for, by the entry and kind of manifest they are of. One of each says enough.
#[derive(Default)]
pub(super) struct Unknown {
    /// Declared and not tracked: they may be about to take over what something else has.
    wanting: BTreeMap<Place, Address>,
    /// Tracked: they may have what something else is about to take over.
    having: BTreeMap<Place, Address>,
    /// Being made by a call without an answer, and not found: they may be what something else finds in place of its own, and would
    /// delete.
    making: BTreeMap<Place, Address>,
}

/// Entry, group and kind: only what shares them can be one thing.
type Place = (Arc<str>, Arc<str>, Arc<str>);

fn place(scope: &Scope, manifest: &ManifestKey) -> Place {
    (scope.provider.clone(), manifest.group().into(), manifest.kind().into())
}

/// What is not known of `survey`: asked for before anything in it is refused.
pub(super) fn unknown(desired: &Desired, remembered: &Remembered, survey: &Survey) -> Unknown {
    let mut unknown = Unknown::default();
    for (scope, view) in &survey.scopes {
        let (rows, open) = match view {
            Ok(view) => (&**view.memory.rows, &*view.memory.open),
            Err(_) => remembered.get(scope).map_or((&[][..], &[][..]), |(rows, open)| (rows, open)),
        };
        let is_found = |id: &ResourceId| view.as_ref().is_ok_and(|view| view.seen.get(id).is_some());
        let made = open.iter().filter(|open| open.intent.makes_anew()).map(|open| &open.intent.row);
        let made = made.filter(|row| !is_found(&row.tracked.id));
        unknown.making.extend(made.map(|row| (place(scope, &row.manifest), row.address.clone())));
        for resource in desired.in_scope(scope) {
            let is_unknown = match view {
                // What it takes over is said in what nobody has yet.
                Ok(view) => {
                    matches!(resource.spec, Spec::Waiting { .. }) && view.seen.get(&resource.id).is_none()
                }
                Err(_) => true,
            };
            let manifest = desired.manifest(resource.origin);
            if is_unknown && !has_row(rows, &resource.id) {
                unknown.wanting.insert(place(scope, &manifest.key), manifest.address.clone());
            }
        }
        if view.is_err() {
            let having = rows.iter().map(|row| (place(scope, &row.manifest), row.address.clone()));
            unknown.having.extend(having);
        }
    }
    unknown
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

/// True when `id` is tracked; rows are sorted by id.
fn has_row(rows: &[Row], id: &ResourceId) -> bool {
    rows.binary_search_by(|row| row.tracked.id.cmp(id)).is_ok()
}

fn not_taken_over(id: &ResourceId, address: &Address, owner: &Address) -> Condition {
    let message = format!("is taken over once {owner} can be read: both may be one thing");
    let hint = format!("if {owner} is not meant to have it: reconciled forget {owner}");
    Condition::waiting("WaitingForTwin", message).about(id.clone(), address.clone()).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each by its name, with `t` where it is tracked, `d` where it is declared and `?` where it was being replaced.
    fn check(all: &[(&str, &str)], expect: &[&str], hint: &str) {
        let twin = |(name, is): &(&str, &str)| Twin {
            scope: Scope::new("toy", *name),
            is_tracked: is.contains('t'),
            is_declared: is.contains('d'),
            is_in_doubt: is.contains('?'),
        };
        let refused = refused("toy_thing 1", &all.iter().map(twin).collect::<Vec<_>>());
        let names: Vec<&str> = refused.iter().map(|(scope, _)| &*scope.name).collect();
        assert_eq!(names, expect, "{all:?}");
        for (_, error) in refused {
            assert!(error.hint.as_deref().is_some_and(|said| said.contains(hint)), "{all:?}: {error:?}");
        }
    }

    #[test]
    fn the_only_one_that_is_tracked_and_declared_keeps_the_thing() {
        check(&[("a", "td"), ("b", "d")], &["b"], "take its manifest out");
        check(&[("a", "d"), ("b", "td"), ("c", "d")], &["a", "c"], "take its manifest out");
    }

    #[test]
    fn where_nobody_or_more_than_one_has_it_a_person_decides() {
        check(&[("a", "d"), ("b", "d")], &["a", "b"], "but one");
        check(&[("a", "td"), ("b", "td")], &["a", "b"], "reconciled forget");
        // What goes would take with it what the other one is about to take over.
        check(&[("a", "t"), ("b", "d")], &["a", "b"], "reconciled/moved-from");
        check(&[("a", "t"), ("b", "td")], &["a", "b"], "reconciled forget");
        check(&[("a", "td?"), ("b", "d")], &["a", "b"], "reconciled forget");
    }

    #[test]
    fn what_is_told_has_both_places_and_the_identity() {
        let twin = |name, is_tracked| Twin {
            scope: Scope::new("toy", name),
            is_tracked,
            is_declared: true,
            is_in_doubt: false,
        };
        let refused = refused("toy_thing 1", &[twin("Thing/a", true), twin("Thing/b", false)]);
        assert_eq!(refused[0].1.message, "toy/Thing/b is one thing with toy/Thing/a: toy_thing 1");
    }
}
