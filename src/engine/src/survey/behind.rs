//! Order that only a look shows: what comes after something that is about to be made anew, or ends.
//!
//! Guarantees: nothing that a commit or an input asks for is written with what is about to be no more, also where it refers to that
//! by way of others which look as declared, and where another pass makes that anew; what was replaced goes after what stands on it
//! was. It deliberately keeps no repair back, since what was built on another one is mended as it was, but for what is gone together with
//! that other one, and nothing that takes a slot: what makes room for that would go alone. Nor has it anything wait for what is held or suspended: it is not about to be
//! anything else, and a hold concerns one domain. Who refers to it itself waits anyhow, as [`crate::ready`] says. What came to nothing
//! again and again is waited for: a person mends it and has it done. And it looks for no drift besides: what is ready by all that is
//! remembered is looked at by its own pass.
//!
//! The race: a network is made anew, a subnet in it follows once that is read again, and a server that the same commit adds to the
//! subnet finds that as it is declared.

use super::{Survey, SurveyOptions, Surveyor, View, Watched, twins::Remembered};
use crate::{
    desired::{Desired, following, preceding},
    plan::{Blocked, Change, Reason, Step},
    ready::Facts,
    store::{ScopeMemory, Store},
};
use reconciled_provider::{Error, ManifestKey, Resource, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What was found by a look besides a survey, at what comes before what that is about to write.
#[derive(Default)]
struct Before {
    survey: Survey,
    /// Manifests of which another pass makes something anew, or did while this one looked.
    moving: BTreeSet<ManifestKey>,
}

impl Surveyor {
    /// Has wait what would be written with outputs that are about to be others; asked for once the guard has spoken.
    pub(super) async fn wait_behind(
        &self,
        store: &dyn Store,
        desired: &Desired,
        facts: &Facts,
        survey: &mut Survey,
        options: &SurveyOptions,
    ) -> Result<(), Error> {
        let before = match options.only {
            Some(_) => self.before(store, desired, facts, survey, options).await?,
            None => Before::default(),
        };
        wait(&self.entries, desired, &before, survey);
        Ok(())
    }

    /// Looks at what is referred to, is not ready, and comes before what `survey` is about to write. Mostly that is nothing, or is in
    /// the survey.
    async fn before(
        &self,
        store: &dyn Store,
        desired: &Desired,
        facts: &Facts,
        survey: &Survey,
        options: &SurveyOptions,
    ) -> Result<Before, Error> {
        let targets = self.unready_before(desired, facts, survey);
        if targets.is_empty() {
            return Ok(Before::default());
        }
        let memories = store.all().await?;
        let only = self.scopes_of(desired, &memories, &targets, survey);
        if only.is_empty() {
            return Ok(Before::default());
        }
        let options = SurveyOptions {
            only: Some(only),
            health: false,
            refresh: false,
            // What stands by itself is left alone.
            asked: Some(BTreeSet::new()),
            ..options.clone()
        };
        let glance = self.glance_at(memories, &options).await;
        let now = self.facts(desired, &glance.memories);
        let moving = moving(&targets, &glance.memories, (facts, &now));
        let mut survey = self.survey_with(store, desired, glance, &now, &options).await?;
        // Of what is run apart only a part was looked at: the word on all of it is on record, and so is a person's on that.
        for hold in store.holds().await?.iter().filter(|hold| hold.once.is_none()) {
            let is_apart = |scope: &Scope| scope.provider == hold.domain && !self.is_counted_whole(scope);
            if !survey.scopes.keys().any(is_apart) {
                continue;
            }
            // What was consented to is about to happen, whatever would be said of the part alone.
            if store.approval(hold.digest).await?.is_some() {
                survey.domains.remove(&hold.domain);
                continue;
            }
            let apart = survey.scopes.iter_mut().filter(|(scope, _)| is_apart(scope));
            let views = apart.filter_map(|(_, view)| view.as_mut().ok());
            views.for_each(|view| view.plan.steps.retain(|step| !step.waits_for_consent()));
        }
        Ok(Before { survey, moving })
    }

    /// What is referred to and not ready of all that comes before what is about to be written. Mostly nothing is written.
    fn unready_before(&self, desired: &Desired, facts: &Facts, survey: &Survey) -> BTreeSet<ManifestKey> {
        let mut written: BTreeSet<&ManifestKey> = BTreeSet::new();
        for (scope, view) in survey.scopes.iter().filter(|_| !desired.referred.is_empty()) {
            let Ok(view) = view else { continue };
            let steps = view.plan.steps.iter();
            written.extend(steps.filter_map(|step| asked_for(&self.entries, desired, scope, step)));
        }
        if written.is_empty() {
            return BTreeSet::new();
        }
        let targets = desired.referred.iter().map(|reference| &reference.target);
        let unready: BTreeSet<&ManifestKey> = targets.filter(|key| !facts.ready.contains(*key)).collect();
        if unready.is_empty() {
            return BTreeSet::new();
        }
        let before = preceding(desired, written);
        unready.into_iter().filter(|key| before.contains_key(*key)).cloned().collect()
    }

    /// The scopes in which something of these manifests is declared or tracked, but for those of `survey`; all of an entry that is
    /// counted whole.
    fn scopes_of(
        &self,
        desired: &Desired,
        memories: &BTreeMap<Scope, ScopeMemory>,
        manifests: &BTreeSet<ManifestKey>,
        survey: &Survey,
    ) -> BTreeSet<Scope> {
        let is_meant = |resource: &Resource| manifests.contains(&desired.manifest(resource.origin).key);
        let declared = desired.scopes.iter().filter(|(_, resources)| resources.iter().any(is_meant));
        let is_tracked =
            |memory: &ScopeMemory| memory.rows.iter().any(|row| manifests.contains(&row.manifest));
        let tracked = memories.iter().filter(|(_, memory)| is_tracked(memory));
        let scopes = declared.map(|(scope, _)| scope).chain(tracked.map(|(scope, _)| scope));
        let mut scopes: BTreeSet<Scope> =
            scopes.filter(|scope| !survey.scopes.contains_key(*scope)).cloned().collect();
        let counted = scopes.iter().filter(|scope| self.is_counted_whole(scope));
        let counted: BTreeSet<Arc<str>> = counted.map(|scope| scope.provider.clone()).collect();
        let remembered = memories.iter().filter(|(_, memory)| memory.is_remembered());
        let all = desired.scopes.keys().chain(remembered.map(|(scope, _)| scope));
        scopes.extend(all.filter(|scope| counted.contains(&scope.provider)).cloned());
        scopes
    }
}

/// Those of `targets` of which a call makes something anew, or may have, and what came to be not ready while the survey was made. What
/// nobody remembers is made for the first time: that is waited for by who refers to it itself.
///
/// The race: a pass looks at who comes after something while another one replaces that. What the remote has by then is as
/// declared, and what refers to it was read with what it put out before.
fn moving(
    targets: &BTreeSet<ManifestKey>,
    memories: &BTreeMap<Scope, ScopeMemory>,
    (before, now): (&Facts, &Facts),
) -> BTreeSet<ManifestKey> {
    let is_remembered = |key: &ManifestKey| {
        memories.values().any(|memory| memory.rows.iter().any(|row| row.manifest == *key))
    };
    let open = memories.values().flat_map(|memory| &memory.open).map(|open| &open.intent);
    let made = open.filter(|intent| intent.makes_anew() && targets.contains(&intent.row.manifest));
    let made = made.filter(|intent| &*intent.op == "replace" || is_remembered(&intent.row.manifest));
    let made = made.map(|intent| &intent.row.manifest);
    made.chain(before.ready.difference(&now.ready)).cloned().collect()
}

/// Blocks what comes after what is about to be made anew.
fn wait(entries: &BTreeMap<Arc<str>, Watched>, desired: &Desired, before: &Before, survey: &mut Survey) {
    let remade = remade(desired, survey, before);
    if remade.is_empty() {
        return;
    }
    let lost = following(desired, lost(desired, &remade, survey, before));
    let behind = following(desired, remade);
    block(survey, |scope, step| {
        let key = asked_for(entries, desired, scope, step)?;
        let on = if is_restored(step) { lost.get(key) } else { behind.get(key) };
        on.map(|on| Blocked::Dependency((*on).clone()))
    });
}

/// Of those made anew the ones that are gone: as it was, what was made with their outputs cannot be made again. What only changed is
/// put right as it was, and what a commit replaces may be held.
fn lost<'d>(
    desired: &'d Desired,
    remade: &BTreeSet<&'d ManifestKey>,
    survey: &Survey,
    before: &Before,
) -> BTreeSet<&'d ManifestKey> {
    let views = [survey, &before.survey].into_iter().flat_map(|one| one.scopes.values());
    let steps = views.filter_map(|view| view.as_ref().ok()).flat_map(|view| &view.plan.steps);
    let gone = steps.filter(|step| step.change == Change::Create && step.work.was.is_some());
    gone.filter_map(|step| declaring(desired, step)).filter(|key| remade.contains(*key)).collect()
}

/// True for what is gone and made again as it was.
fn is_restored(step: &Step) -> bool {
    step.change == Change::Create && step.reason == Reason::Restore
}

/// The manifest of what a commit or an input asks for, or what is gone, and nothing keeps from being written.
fn asked_for<'d>(
    entries: &BTreeMap<Arc<str>, Watched>,
    desired: &'d Desired,
    scope: &Scope,
    step: &Step,
) -> Option<&'d ManifestKey> {
    let writes = matches!(step.change, Change::Create | Change::Update | Change::Replace);
    let repairs = matches!(step.reason, Reason::Drift | Reason::Due | Reason::Restore | Reason::Continue)
        && !is_restored(step);
    let takes_slot = || entries[&scope.provider].observer.slot(&step.id).is_some();
    declaring(desired, step).filter(|_| step.blocked.is_none() && writes && !repairs && !takes_slot())
}

/// The manifests that others refer to and of which something is made anew: at another entry, too, and where it is gone.
fn remade<'d>(desired: &'d Desired, survey: &Survey, before: &Before) -> BTreeSet<&'d ManifestKey> {
    if desired.referred.is_empty() {
        return BTreeSet::new();
    }
    let surveys = [survey, &before.survey];
    let held = surveys.into_iter().flat_map(|one| one.domains.values()).filter(|domain| domain.is_held());
    let held: BTreeSet<&Scope> = held.flat_map(|domain| &domain.scopes).collect();
    let mut steps: Vec<&Step> = Vec::new();
    for (scope, view) in surveys.into_iter().flat_map(|one| &one.scopes) {
        let Ok(view) = view else { continue };
        // What is held may wait for its person for long.
        let is_held = held.contains(scope);
        let is_futile = |step: &Step| matches!(step.blocked, Some(Blocked::Futile(_)));
        let happens =
            |step: &&Step| (step.can_happen() || is_futile(step)) && !(is_held && step.waits_for_consent());
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
    // There may be many references and manifests, and hardly ever is anything made anew.
    let targets = desired.referred.iter().filter(|_| !keys.is_empty()).map(|reference| &reference.target);
    let mut remade: BTreeSet<&ManifestKey> = targets.filter(|target| keys.contains(*target)).collect();
    if !before.moving.is_empty() {
        let manifests = desired.manifests.iter().map(|manifest| &manifest.key);
        remade.extend(manifests.filter(|key| before.moving.contains(*key)));
    }
    remade
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
    let stood_on = preceding(desired, having(entries, desired, remembered));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Intent, OpenIntent, Row};
    use reconciled_provider::ActionId;
    use std::time::Duration;

    #[test]
    fn what_another_pass_makes_anew_or_made_anew_meanwhile_is_on_its_way() {
        let key = |name: &str| ManifestKey::new("s", "toy", "Thing", "", name);
        let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect::<BTreeSet<_>>();
        let open = |op: &str, name: &str| {
            let scope = Scope::new("toy", name);
            let intent = Intent {
                action: ActionId(1),
                op: op.into(),
                token: "".into(),
                row: Arc::new(Row::settled(scope.clone(), name, key(name))),
                before: None,
                after: None,
                reason: "".into(),
                consented: None,
            };
            let open = vec![OpenIntent { intent, started_at: Duration::ZERO }];
            (scope, ScopeMemory { open, ..ScopeMemory::default() })
        };
        let mut memories: BTreeMap<Scope, ScopeMemory> =
            [open("replace", "a"), open("update", "b"), open("create", "c"), open("create", "d")].into();
        let scope = Scope::new("toy", "d");
        let lost = vec![Row::settled(scope.clone(), "d", key("d"))];
        memories.entry(scope).or_default().rows = lost.into();
        let ready = |names: &[&str]| {
            let mut facts = Facts::default();
            facts.ready.extend(keys(names));
            facts
        };
        let check = |targets: &[&str], before: &[&str], now: &[&str], expect: &[&str]| {
            let facts = (&ready(before), &ready(now));
            assert_eq!(moving(&keys(targets), &memories, facts), keys(expect), "{targets:?}");
        };
        check(&["a", "b"], &["m"], &["m"], &["a"]);
        // One that was lost, and one that never was.
        check(&["c", "d"], &["m"], &["m"], &["d"]);
        // What it puts out moved, and what follows it is not as it is declared any more.
        check(&["b"], &["m", "n"], &["n", "o"], &["m"]);
    }
}
