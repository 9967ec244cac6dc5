//! One scope looked at: versions, observation, diff, plan.
//!
//! Guarantees: every read has an end; an error is an error, never an empty scope. It deliberately has no way to
//! write, neither to the remote nor to the store.

use super::{
    SurveyOptions, Surveyor, View,
    effective::{Effective, Merger},
    focus,
    recover::recover,
    rooms::Seat,
};
use crate::{
    desired::Desired,
    health::{self, Asked, Assessment},
    plan::{self, Elsewhere, Kept, ScopeInput, ScopePlan, Selection, Shared, Step, shared},
    ready,
    store::{ClaimRow, Condition, Row, ScopeMemory},
    suspension::Suspension,
};
use reconciled_provider::{
    Address, ClaimState, Deltas, Error, Focus, ManifestKey, Observation, Observer, Owner, Resource,
    ResourceId, Scope, Spec, Tracked, Version, Want,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a look at one scope is about, and what it is judged by.
pub(super) struct Look<'a> {
    pub(super) surveyor: &'a Surveyor,
    pub(super) desired: &'a Desired,
    pub(super) scope: &'a Scope,
    /// What its remote says of it now.
    pub(super) version: Option<&'a Version>,
    pub(super) facts: &'a ready::Facts,
    /// Addresses that rows were moved from, of all scopes.
    pub(super) moves: &'a BTreeMap<(Scope, ResourceId), Address>,
    /// What is tracked here and declared in another scope.
    pub(super) elsewhere: &'a BTreeMap<ResourceId, Elsewhere>,
    pub(super) suspensions: &'a [Arc<Suspension>],
    pub(super) options: &'a SurveyOptions,
}

/// What is desired and known of a scope: what its provider is asked with.
struct Basis {
    scope: Arc<Scope>,
    /// What is known of what is shared before anything is united.
    shared: Shared,
    effective: Effective,
    /// Some of it is shared with others: it is united anew with what is seen.
    needs_merge: bool,
    tracked: Vec<Tracked>,
    claims: Vec<ClaimState>,
}

/// What was seen of a scope, and by which way.
struct Sight {
    seen: Arc<Observation>,
    focus: Focus,
    /// Nothing was asked of the remote.
    skipped: bool,
    is_recalled: bool,
    /// What is read is compared in the same seat: that may be a call too.
    _seat: Option<Seat>,
}

impl Sight {
    /// True for what was really read, and not taken from memory.
    fn was_read(&self, id: &ResourceId) -> bool {
        !self.skipped && !self.is_recalled && self.seen.complete && self.focus.covers(id)
    }
}

impl<'a> Look<'a> {
    /// What is seen and planned, from what is remembered. `ahead` is what was read of the scope before, where it was.
    pub(super) async fn view(
        self,
        mut memory: ScopeMemory,
        ahead: Option<Result<Observation, Error>>,
    ) -> Result<View, Error> {
        let Look { surveyor, desired, scope, options, .. } = self;
        let observer = self.observer();
        let mut basis = self.basis(&memory)?;
        let sight = self.see(&memory, &basis, ahead).await?;
        let is_wanted = |id: &ResourceId| basis.effective.wants(id);
        if recover(&mut memory, &sight.seen, is_wanted, surveyor.cx.clock.now()) {
            basis.tracked = memory.rows.iter().map(|row| row.tracked.clone()).collect();
        }
        if basis.needs_merge {
            let merger = self.merger(&basis.scope, &basis.shared, &memory);
            basis.effective = self.unite(&merger, &memory.rows, Some(&sight.seen))?;
        }
        let kept = plan::kept(observer, desired, &basis.effective.resources, &sight.seen);
        let written = plan::written(&basis.effective.resources, &kept);
        let want = basis.want(&sight.focus, &written);
        let deltas = observer.diff(&surveyor.cx, &want, &sight.seen);
        let deltas = surveyor.within(deltas, &format!("comparing {scope}")).await?;
        let plan = self.plan(&memory, &basis.effective, &sight, &kept, &deltas);
        let offered = offered(&plan, deltas);
        let health = self.health(&memory, &sight, &want, &plan.gone).await;
        let looked_at = looked_at(desired, scope, &memory.rows, &plan, &sight.seen, options);
        Ok(View { memory, seen: sight.seen, plan, offered, skipped: sight.skipped, health, looked_at })
    }

    fn observer(&self) -> &'a dyn Observer {
        &*self.surveyor.entries[&self.scope.provider].observer
    }

    /// What there is before anything is seen.
    fn basis(&self, memory: &ScopeMemory) -> Result<Basis, Error> {
        let now = self.surveyor.cx.clock.now();
        let shared = shared::of_scope(self.desired, self.scope, memory, self.suspensions, now);
        let scope = Arc::new(self.scope.clone());
        let merger = self.merger(&scope, &shared, memory);
        let effective = self.unite(&merger, &memory.rows, None)?;
        let needs_merge = merger.is_needed();
        let claims = memory.claims_made.iter().map(ClaimRow::state).collect();
        let mut tracked: Vec<Tracked> = memory.rows.iter().map(|row| row.tracked.clone()).collect();
        // What may exist because of an unanswered intent must be looked for where nothing can be listed.
        tracked.extend(memory.open.iter().map(|open| open.intent.row.tracked.clone()));
        Ok(Basis { scope, shared, effective, needs_merge, tracked, claims })
    }

    fn merger<'m>(&self, scope: &'m Arc<Scope>, shared: &'m Shared, memory: &'m ScopeMemory) -> Merger<'m>
    where
        'a: 'm,
    {
        Merger {
            observer: self.observer(),
            desired: self.desired,
            declared: self.desired.in_scope(self.scope),
            scope,
            claims: &memory.claims_here,
            open: &memory.open,
            shared,
        }
    }

    /// What is desired, as far as it is not to be put off.
    fn unite(
        &self,
        merger: &Merger<'_>,
        rows: &[Row],
        seen: Option<&Observation>,
    ) -> Result<Effective, Error> {
        let mut effective = merger.merge(rows, seen)?;
        put_off(&mut effective.resources, self.desired, self.observer(), &self.facts.ready);
        Ok(effective)
    }

    /// Sees what must be seen: nothing, what was read ahead or before at this version, or what the remote says now.
    async fn see(
        &self,
        memory: &ScopeMemory,
        basis: &Basis,
        ahead: Option<Result<Observation, Error>>,
    ) -> Result<Sight, Error> {
        let Look { surveyor, desired, scope, options, .. } = *self;
        let observer = self.observer();
        let effective = &basis.effective.resources;
        let besides = besides(desired, scope, memory, &options.selection);
        let version = self.version.or(besides.as_ref());
        let version = version.filter(|_| !plan::place::is_another(observer, scope, memory));
        let focus = focus::focus(desired, scope, effective, memory, version);
        let skipped = focus == Focus::Only(Arc::from([]));
        // What is made anew, or shared with others, must not meet what came there without raising the version.
        let is_ours = || !basis.needs_merge && all_tracked(effective, memory);
        let recalled = surveyor.recall.at(scope, version, &focus).filter(|_| !skipped && is_ours());
        let is_recalled = recalled.is_some();
        let mut seat = None;
        let mut seen = if skipped {
            let resources = Vec::new();
            Arc::new(Observation {
                covered: Focus::All,
                complete: true,
                version: Version::Unknown,
                resources,
            })
        } else if let Some(seen) = ahead.filter(|_| focus == Focus::All) {
            Arc::new(seen?)
        } else if let Some(seen) = recalled {
            seen
        } else {
            let most = observer.info().concurrency;
            seat = Some(surveyor.rooms.enter_from(&options.line, &scope.provider, most).await);
            let want = basis.want(&focus, effective);
            let read = observer.observe(&surveyor.cx, &want);
            Arc::new(surveyor.within(read, &format!("reading {scope}")).await?)
        };
        if !is_recalled && !seen.resources.is_sorted_by(|a, b| a.id <= b.id) {
            Arc::make_mut(&mut seen).resources.sort_by(|a, b| a.id.cmp(&b.id));
        }
        if !skipped {
            surveyor.recall.keep(observer.info().reads_ahead, options.refresh, scope, &seen);
        }
        if let (Focus::Only(ids), Some(version)) = (&focus, version)
            && (skipped || seen.covered != Focus::All)
        {
            focus::stand_in(Arc::make_mut(&mut seen), ids, &memory.rows, version.clone(), observer);
        }
        Ok(Sight { seen, focus, skipped, is_recalled, _seat: seat })
    }

    fn plan(
        &self,
        memory: &ScopeMemory,
        effective: &Effective,
        sight: &Sight,
        kept: &Kept,
        deltas: &Deltas,
    ) -> ScopePlan {
        let Look { surveyor, desired, scope, facts, options, .. } = *self;
        let moved = self
            .moves
            .iter()
            .filter(|((s, _), _)| s == scope)
            .map(|((_, id), from)| (id.clone(), from.clone()))
            .collect();
        let input = ScopeInput {
            scope,
            provider: self.observer(),
            policy: surveyor.entries[&scope.provider].policy,
            desired,
            effective: &effective.resources,
            shared: &effective.shared,
            memory,
            moved: &moved,
            seen: &sight.seen,
            kept,
            deltas,
            ready: &facts.ready,
            there: &facts.there,
            stood_on: &facts.stood_on,
            needed: &facts.needed_outside(scope, &memory.rows),
            elsewhere: self.elsewhere,
            selection: &options.selection,
            suspensions: self.suspensions,
            tries_again: options.tries_again(scope),
            now: surveyor.cx.clock.now(),
        };
        let mut plan = plan::plan(&input);
        if !options.selection.is_all() {
            let chosen: BTreeSet<&ResourceId> = plan.steps.iter().map(|step| &step.id).collect();
            let whole = plan::plan(&ScopeInput { selection: &Selection::default(), ..input });
            let is_besides = |step: &Step| step.is_guarded() && !chosen.contains(&step.id);
            plan.besides = unasked(&plan, &whole, &memory.conditions);
            plan.unselected = whole.steps.into_iter().filter(is_besides).collect();
        }
        let theirs = of_unasked(desired, &plan, memory, |id| effective.wants(id));
        plan.besides.extend(theirs);
        if let (Focus::Only(_), Some(known)) = (&sight.focus, &memory.version) {
            // What is declared since was counted then, and is foreign no more.
            let is_new = |id: &ResourceId| {
                effective.wants(id) && memory.rows.binary_search_by(|row| row.tracked.id.cmp(id)).is_err()
            };
            let others = sight.seen.resources.iter();
            let others = others.filter(|one| one.owner != Owner::System && is_new(&one.id));
            plan.foreign_count = known.foreign.saturating_sub(others.count() as u32);
        }
        plan
    }

    /// How its resources fare, but for those that are `gone`, which are left out.
    async fn health(
        &self,
        memory: &ScopeMemory,
        sight: &Sight,
        want: &Want<'_>,
        gone: &[ResourceId],
    ) -> Assessment {
        let Look { surveyor, scope, options, .. } = *self;
        let observer = self.observer();
        let asked = match (observer.tells_health(), options.health) {
            (true, true) => {
                observer.was_unwell(scope, &health::known_unwell(memory));
                let health = observer.health(&surveyor.cx, want);
                Asked::Now(surveyor.within(health, &format!("asking for the health of {scope}")).await)
            }
            (true, false) => Asked::NotNow,
            (false, _) => Asked::Never,
        };
        let was_read = |id: &ResourceId| sight.was_read(id);
        let now = surveyor.cx.clock.now();
        let written_since = options.written_since;
        let told = health::Told { memory, seen: &sight.seen, was_read: &was_read, asked, now, written_since };
        let mut health = health::assess(told);
        health.leave_out(memory, gone, &was_read, now);
        health
    }
}

impl Basis {
    fn want<'w>(&'w self, focus: &'w Focus, desired: &'w [Resource]) -> Want<'w> {
        Want { scope: &self.scope, focus, desired, tracked: &self.tracked, claims: &self.claims }
    }
}

/// What of `deltas` is about what only a person's word has taken over.
fn offered(plan: &ScopePlan, mut deltas: Deltas) -> Deltas {
    let waits = plan.conditions.iter().filter(|condition| plan::BY_ADOPT.contains(&&*condition.reason));
    let waits: BTreeSet<&ResourceId> = waits.filter_map(|condition| condition.id.as_ref()).collect();
    deltas.retain(|id, _| waits.contains(id));
    deltas
}

/// Has wait what is only read, as long as something that it depends on is not ready.
fn put_off(
    effective: &mut [Resource],
    desired: &Desired,
    observer: &dyn Observer,
    ready: &BTreeSet<ManifestKey>,
) {
    for resource in effective {
        let after = desired.after(resource);
        let is_early = after.is_some_and(|after| after.iter().any(|key| !ready.contains(key)));
        if is_early && resource.spec.bytes().is_some() && observer.only_reads(&resource.id) {
            resource.spec = Spec::waiting(resource.spec.template(), []);
        }
    }
}

/// The remembered version of a scope without a token of its remote's, of which nothing is selected: that it is counted
/// by the guard is no reason to look.
fn besides(desired: &Desired, scope: &Scope, memory: &ScopeMemory, selection: &Selection) -> Option<Version> {
    let known = &memory.version.as_ref().filter(|known| known.version.stands_unasked())?.version;
    let is_declared = |resource: &Resource| {
        let manifest = desired.manifest(resource.origin);
        selection.may_select(&manifest.key, &manifest.address, Some(&manifest.labels))
    };
    let was_declared = |row: &Row| selection.may_select(&row.manifest, &row.address, None);
    let is_meant = desired.in_scope(scope).iter().any(is_declared) || memory.rows.iter().any(was_declared);
    (!is_meant).then(|| known.clone())
}

/// What keeps what was not asked for: by the plan for all of it, and where that would try again, as it is `known`.
fn unasked(plan: &ScopePlan, whole: &ScopePlan, known: &[Condition]) -> Vec<Condition> {
    let of = |all: &[Condition]| all.iter().filter_map(|one| one.id.clone()).collect::<BTreeSet<_>>();
    let mut asked = of(&plan.conditions);
    asked.extend(of(&plan.still_refused));
    asked.extend(plan.steps.iter().map(|step| step.id.clone()));
    let told = of(&whole.conditions);
    let pending: BTreeSet<&ResourceId> = whole.steps.iter().map(|step| &step.id).collect();
    let is_said = |one: &Condition| plan.conditions.iter().any(|c| c.id.is_none() && c.reason == one.reason);
    let is_besides = |one: &&Condition| match &one.id {
        Some(id) => !asked.contains(id),
        None => !is_said(one),
    };
    let stands = |one: &&Condition| {
        one.id.as_ref().is_some_and(|id| pending.contains(id) && !asked.contains(id) && !told.contains(id))
    };
    // Of these none names a resource but by its address.
    let is_to_come = |one: &&Condition| plan.to_come.iter().all(|other| other.address != one.address);
    let all = whole.conditions.iter().filter(is_besides).chain(whole.to_come.iter().filter(is_to_come));
    all.chain(known.iter().filter(stands)).cloned().collect()
}

/// What is known to keep what sources declare that were not asked: a look without them finds out nothing of it. What keeps the scope
/// as a whole it has seen, and what becomes of all that is wanted here.
fn of_unasked(
    desired: &Desired,
    plan: &ScopePlan,
    memory: &ScopeMemory,
    is_wanted: impl Fn(&ResourceId) -> bool,
) -> Vec<Condition> {
    if desired.unasked.is_empty() {
        return Vec::new();
    }
    let found = [&plan.conditions, &plan.still_refused, &plan.besides].into_iter().flatten();
    let mut told: BTreeSet<&ResourceId> = found.filter_map(|one| one.id.as_ref()).collect();
    told.extend(plan.steps.iter().map(|step| &step.id));
    let rows: &[Row] = &memory.rows;
    let is_theirs =
        |row: &Row| desired.unasked.contains(row.manifest.source()) && !is_wanted(&row.tracked.id);
    // Of what nobody tracks it is not known whose it is.
    let may_be_theirs = |id: &ResourceId| match rows.binary_search_by(|row| row.tracked.id.cmp(id)) {
        Ok(at) => rows.get(at).is_some_and(is_theirs),
        Err(_) => !is_wanted(id),
    };
    let stands = |one: &&Condition| match (&one.id, &one.address) {
        (Some(id), _) => !told.contains(id) && may_be_theirs(id),
        // What is to come names its resource by the address alone.
        (None, Some(address)) => rows.iter().any(|row| row.address == *address && is_theirs(row)),
        (None, None) => false,
    };
    memory.conditions.iter().filter(stands).cloned().collect()
}

/// True when everything that is wanted is in the inventory. Both are sorted by id.
fn all_tracked(effective: &[Resource], memory: &ScopeMemory) -> bool {
    let mut rows = memory.rows.iter().map(|row| &row.tracked.id);
    effective.iter().all(|resource| rows.by_ref().find(|id| **id >= resource.id) == Some(&resource.id))
}

/// The manifests of a scope that was looked at whole, with those that declared something here before: what such a one no
/// longer declares may stay for as long as it is held. None where nothing moved: what a manifest that changed declares is a
/// step, a condition, a row to refresh or a document to remember, so that a look at what is well costs nothing.
fn looked_at(
    desired: &Desired,
    scope: &Scope,
    rows: &[Row],
    plan: &ScopePlan,
    seen: &Observation,
    options: &SurveyOptions,
) -> BTreeSet<ManifestKey> {
    let is_whole = seen.complete && seen.covered == Focus::All && options.selection.is_all();
    let is_quiet = plan.is_empty() && plan.refreshed.is_empty() && plan.documents.is_empty();
    if !is_whole || is_quiet {
        return BTreeSet::new();
    }
    let declared: BTreeSet<u32> = desired.in_scope(scope).iter().map(|r| r.origin.manifest).collect();
    let manifests = declared.into_iter().filter_map(|index| desired.manifests.get(index as usize));
    let keys: BTreeSet<&ManifestKey> =
        manifests.map(|manifest| &manifest.key).chain(rows.iter().map(|row| &row.manifest)).collect();
    keys.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::STILL_THERE;

    #[test]
    fn a_look_without_a_source_ends_nothing_that_is_told_of_what_that_declares() {
        let scope = Scope::new("toy", "things");
        let told = |id: &str| {
            Condition::stalled("Conflict", "").about(id.into(), format!("Thing/{id}").parse().unwrap())
        };
        let still_there = |id: &str| Condition {
            address: Some(format!("Thing/{id}").parse().unwrap()),
            ..Condition::waiting(STILL_THERE, "")
        };
        let row = |id: &str, source: &str| {
            Row::settled(scope.clone(), id, ManifestKey::new(source, "test", "Thing", "", id))
        };
        let memory = ScopeMemory {
            rows: Arc::new(vec![row("mine", ""), row("taken", "infra"), row("theirs", "infra")]),
            conditions: vec![
                Condition::waiting("Unavailable", ""),
                told("found"),
                told("mine"),
                told("taken"),
                told("theirs"),
                told("untracked"),
                told("wanted"),
                still_there("mine"),
                still_there("taken"),
                still_there("theirs"),
            ],
            ..ScopeMemory::default()
        };
        let mut plan = ScopePlan::nothing(scope.clone(), Version::Unknown);
        plan.conditions = vec![told("found")];
        let is_wanted = |id: &ResourceId| ["taken", "wanted"].contains(&&*id.0);
        let mut desired = Desired::default();
        assert_eq!(of_unasked(&desired, &plan, &memory, is_wanted), []);
        desired.unasked.insert("infra".into());
        let stands = of_unasked(&desired, &plan, &memory, is_wanted);
        assert_eq!(stands, [told("theirs"), told("untracked"), still_there("theirs")]);
    }
}
