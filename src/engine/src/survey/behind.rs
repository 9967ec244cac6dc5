//! Order that only a whole survey shows: what comes after something that this very survey makes anew, or ends.
//!
//! Guarantees: nothing that a commit or an input asks for is written with what is about to be no more, also where it refers to that
//! by way of others which look as declared; what was replaced goes after what stands on it was. It deliberately keeps no repair back, since
//! what was built on another one is mended as it was, and nothing that takes a slot: what makes room for that would go alone. Nor has it
//! anything wait for what is held: it is not about to be anything else, and a hold concerns one domain. Who refers to it itself waits
//! anyhow, as [`crate::ready`] says.
//!
//! The race: a network is made anew, a subnet in it follows once that is read again, and a server that the same commit adds to the
//! subnet finds that as it is declared.

use super::{Survey, View, Watched, twins::Remembered};
use crate::{
    desired::Desired,
    plan::{Blocked, Change, Reason, Step},
    ready,
};
use reconciled_provider::{ManifestKey, Resource, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Has wait what would be written with outputs that are about to be others; asked for once the guard has spoken.
pub(super) fn wait(entries: &BTreeMap<Arc<str>, Watched>, desired: &Desired, survey: &mut Survey) {
    let remade = remade(desired, survey);
    if remade.is_empty() {
        return;
    }
    let behind = ready::following(desired, remade);
    block(survey, |scope, step| {
        let takes_slot = entries[&scope.provider].observer.slot(&step.id).is_some();
        let writes = matches!(step.change, Change::Create | Change::Update | Change::Replace);
        let repairs = matches!(step.reason, Reason::Drift | Reason::Due | Reason::Restore | Reason::Continue);
        let key = declaring(desired, step).filter(|_| writes && !repairs && !takes_slot)?;
        behind.get(key).map(|on| Blocked::Dependency((*on).clone()))
    });
}

/// The manifests that others refer to and of which something is made anew: at another entry, too, and where it is gone.
fn remade<'d>(desired: &'d Desired, survey: &Survey) -> BTreeSet<&'d ManifestKey> {
    if desired.referred.is_empty() {
        return BTreeSet::new();
    }
    let held = survey.domains.values().filter(|domain| domain.is_held());
    let held: BTreeSet<&Scope> = held.flat_map(|domain| &domain.scopes).collect();
    let mut steps: Vec<&Step> = Vec::new();
    for (scope, view) in &survey.scopes {
        let Ok(view) = view else { continue };
        // What is held may wait for its person for long.
        let is_held = held.contains(scope);
        let happens = |step: &&Step| step.can_happen() && !(is_held && step.waits_for_consent());
        steps.extend(view.plan.steps.iter().filter(happens));
    }
    let goes = steps.iter().filter(|step| step.change == Change::Delete);
    let gone: BTreeSet<&ManifestKey> =
        goes.filter_map(|step| step.work.was.as_ref()).map(|row| &row.manifest).collect();
    let is_remade = |step: &Step, key: &ManifestKey| match step.change {
        Change::Replace => true,
        Change::Create => step.work.was.is_some() || gone.contains(key),
        _ => false,
    };
    let keys = steps.iter().filter_map(|step| declaring(desired, step).filter(|key| is_remade(step, key)));
    let keys: BTreeSet<&ManifestKey> = keys.collect();
    // There may be many references, and hardly ever is anything made anew.
    let targets = desired.referred.iter().filter(|_| !keys.is_empty()).map(|reference| &reference.target);
    targets.filter(|target| keys.contains(*target)).collect()
}

/// Has what was replaced stay while what stands on it was replaced too, and that is still there.
pub(super) fn end_in_order(
    entries: &BTreeMap<Arc<str>, Watched>,
    desired: &Desired,
    remembered: &Remembered,
    survey: &mut Survey,
) {
    let views = survey.scopes.values().filter_map(|view| view.as_ref().ok());
    let mut steps = views.flat_map(|view| &view.plan.steps);
    if !steps.any(|step| step.change == Change::EndFormer && step.blocked.is_none()) {
        return;
    }
    let stood_on = ready::preceding(desired, having(entries, desired, remembered));
    block(survey, |_, step| {
        let key = declaring(desired, step).filter(|_| step.change == Change::EndFormer)?;
        stood_on.get(key).map(|by| Blocked::StoodOnByFormer((*by).clone()))
    });
}

/// The manifests of what took the place of something that is still there.
fn having<'d>(
    entries: &BTreeMap<Arc<str>, Watched>,
    desired: &'d Desired,
    remembered: &Remembered,
) -> BTreeSet<&'d ManifestKey> {
    let has_former = |scope: &Scope, resource: &Resource| {
        let Some(entry) = entries.get(&scope.provider) else { return false };
        let rows = remembered.get(scope).map_or(&[][..], |(rows, _)| rows);
        let private = rows
            .binary_search_by(|row| row.tracked.id.cmp(&resource.id))
            .map(|index| &rows[index].tracked.private);
        private.is_ok_and(|private| !entry.observer.former_names(&resource.id, private).is_empty())
    };
    let all = desired
        .scopes
        .iter()
        .flat_map(|(scope, resources)| resources.iter().map(move |resource| (scope, resource)));
    let found = all.filter(|(scope, resource)| has_former(scope, resource));
    found.map(|(_, resource)| &desired.manifest(resource.origin).key).collect()
}

/// The manifest that declares what `step` writes; none for what is only claimed.
fn declaring<'d>(desired: &'d Desired, step: &Step) -> Option<&'d ManifestKey> {
    let origin = step.work.desired.as_ref()?.origin;
    desired.manifests.get(origin.manifest as usize).map(|manifest| &manifest.key)
}

/// Blocks what nothing else keeps, and says why.
fn block(survey: &mut Survey, why: impl Fn(&Scope, &Step) -> Option<Blocked>) {
    for (scope, view) in &mut survey.scopes {
        let Ok(View { plan, .. }) = view else { continue };
        let mut told = Vec::new();
        for step in plan.steps.iter_mut().filter(|step| step.blocked.is_none()) {
            if let Some(blocked) = why(scope, step) {
                told.push(blocked.condition(step));
                step.blocked = Some(blocked);
            }
        }
        if !told.is_empty() {
            plan.conditions.extend(told);
            plan.conditions.sort_by(|a, b| (&a.id, &a.reason).cmp(&(&b.id, &b.reason)));
        }
    }
}
