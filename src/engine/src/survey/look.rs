//! One scope looked at: versions, observation, diff, plan.
//!
//! Guarantees: every read has an end; an error is an error, never an empty scope. It deliberately has no way to
//! write, neither to the remote nor to the store.

use super::{SurveyOptions, Surveyor, View, claim_state, effective::Merger, focus, recover::recover};
use crate::{
    desired::Desired,
    health::{self, Asked},
    plan::{self, Elsewhere, ScopeInput, ScopePlan, Selection, Step, shared},
    ready,
    store::{Row, ScopeMemory},
    suspension::Suspension,
};
use futures_util::future::{Either, select};
use reconciled_provider::{
    Address, ClaimState, Error, Focus, ManifestKey, Observation, Observer, Owner, Resource, ResourceId,
    Scope, Spec, Tracked, Version, Want,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
};

impl Surveyor {
    /// Runs a read, which has an end: `cx.deadline`.
    pub async fn within<T>(
        &self,
        read: impl Future<Output = Result<T, Error>>,
        what: &str,
    ) -> Result<T, Error> {
        let limit = self.cx.deadline;
        match select(pin!(read), pin!(self.cx.clock.sleep(limit))).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => {
                Err(Error::unavailable(format!("{what}: no answer within {} s", limit.as_secs())))
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one private call that threads the parts of a survey")]
    pub(super) async fn look(
        &self,
        desired: &Desired,
        scope: &Scope,
        mut memory: ScopeMemory,
        version: Option<&Version>,
        ahead: Option<Result<Observation, Error>>,
        facts: &ready::Facts,
        moves: &BTreeMap<(Scope, ResourceId), Address>,
        elsewhere: &BTreeMap<ResourceId, Elsewhere>,
        suspensions: &[Arc<Suspension>],
        options: &SurveyOptions,
    ) -> Result<View, Error> {
        let entry = &self.entries[&scope.provider];
        let observer = &*entry.observer;
        let declared = desired.in_scope(scope);
        let arc = Arc::new(scope.clone());
        let shared = shared::of_scope(desired, scope, &memory, suspensions, self.cx.clock.now());
        let merger = Merger {
            observer,
            desired,
            declared,
            scope: &arc,
            claims: &memory.claims_here,
            open: &memory.open,
            shared: &shared,
        };
        let mut effective = merger.merge(&memory.rows, None)?;
        put_off(&mut effective.resources, desired, observer, &facts.ready);
        let needs_merge = merger.is_needed();
        let claims: Vec<ClaimState> = memory.claims_made.iter().map(claim_state).collect();
        let mut tracked: Vec<Tracked> = memory.rows.iter().map(|row| row.tracked.clone()).collect();
        // What may exist because of an unanswered intent must be looked for where nothing can be listed.
        tracked.extend(memory.open.iter().map(|open| open.intent.row.tracked.clone()));

        let besides = besides(desired, scope, &memory, &options.selection);
        let version = version.or(besides.as_ref());
        let focus = focus::focus(desired, scope, &effective.resources, &memory, version);
        let skipped = focus == Focus::Only(Arc::from([]));
        // What is made anew, or shared with others, must not meet what came there without raising the version.
        let is_ours = || !needs_merge && all_tracked(&effective.resources, &memory);
        let recalled = self.recall.at(scope, version, &focus).filter(|_| !skipped && is_ours());
        let is_recalled = recalled.is_some();
        // What is read is compared in the same seat: that may be a call too.
        let mut _seat = None;
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
            _seat = Some(self.rooms.enter_from(&options.line, &scope.provider, most).await);
            let want = Want {
                scope,
                focus: &focus,
                desired: &effective.resources,
                tracked: &tracked,
                claims: &claims,
            };
            Arc::new(self.within(observer.observe(&self.cx, &want), &format!("reading {scope}")).await?)
        };
        if !is_recalled && !seen.resources.is_sorted_by(|a, b| a.id <= b.id) {
            Arc::make_mut(&mut seen).resources.sort_by(|a, b| a.id.cmp(&b.id));
        }
        if !skipped {
            self.recall.keep(observer.info().reads_ahead, options.refresh, scope, &seen);
        }
        if let (Focus::Only(ids), Some(version)) = (&focus, version)
            && (skipped || seen.covered != Focus::All)
        {
            focus::stand_in(Arc::make_mut(&mut seen), ids, &memory.rows, version.clone(), observer);
        }
        let is_wanted =
            |id: &ResourceId| effective.resources.binary_search_by(|wanted| wanted.id.cmp(id)).is_ok();
        if recover(&mut memory, &seen, is_wanted, self.cx.clock.now()) {
            tracked = memory.rows.iter().map(|row| row.tracked.clone()).collect();
        }
        if needs_merge {
            let merger = Merger {
                observer,
                desired,
                declared,
                scope: &arc,
                claims: &memory.claims_here,
                open: &memory.open,
                shared: &shared,
            };
            effective = merger.merge(&memory.rows, Some(&seen))?;
            put_off(&mut effective.resources, desired, observer, &facts.ready);
        }
        let kept = plan::kept(observer, desired, &effective.resources, &seen);
        let written = plan::written(&effective.resources, &kept);
        let want = Want { scope, focus: &focus, desired: &written, tracked: &tracked, claims: &claims };
        let deltas =
            self.within(observer.diff(&self.cx, &want, &seen), &format!("comparing {scope}")).await?;
        let moved = moves
            .iter()
            .filter(|((s, _), _)| s == scope)
            .map(|((_, id), from)| (id.clone(), from.clone()))
            .collect();
        let input = ScopeInput {
            scope,
            provider: observer,
            policy: entry.policy,
            desired,
            effective: &effective.resources,
            shared: &effective.shared,
            memory: &memory,
            moved: &moved,
            seen: &seen,
            kept: &kept,
            deltas: &deltas,
            ready: &facts.ready,
            there: &facts.there,
            stood_on: &facts.stood_on,
            needed: &facts.needed_outside(scope, &memory.rows),
            elsewhere,
            selection: &options.selection,
            suspensions,
            tries_again: options.tries_again(scope),
            now: self.cx.clock.now(),
        };
        let mut plan = plan::plan(&input);
        if !options.selection.is_all() {
            let chosen: BTreeSet<&ResourceId> = plan.steps.iter().map(|step| &step.id).collect();
            let whole = plan::plan(&ScopeInput { selection: &Selection::default(), ..input });
            let is_besides = |step: &Step| step.is_guarded() && !chosen.contains(&step.id);
            plan.unselected = whole.steps.into_iter().filter(is_besides).collect();
        }
        if let (Focus::Only(_), Some(known)) = (&focus, &memory.version) {
            // What is declared since was counted then, and is foreign no more.
            let is_new = |id: &ResourceId| {
                let is_declared = effective.resources.binary_search_by(|wanted| wanted.id.cmp(id)).is_ok();
                is_declared && memory.rows.binary_search_by(|row| row.tracked.id.cmp(id)).is_err()
            };
            let others = seen.resources.iter().filter(|one| one.owner != Owner::System && is_new(&one.id));
            plan.foreign_count = known.foreign.saturating_sub(others.count() as u32);
        }
        let asked = match (observer.tells_health(), options.health) {
            (true, true) => {
                observer.was_unwell(scope, &health::known_unwell(&memory));
                let health = observer.health(&self.cx, &want);
                Asked::Now(self.within(health, &format!("asking for the health of {scope}")).await)
            }
            (true, false) => Asked::NotNow,
            (false, _) => Asked::Never,
        };
        let was_read = |id: &ResourceId| !skipped && !is_recalled && seen.complete && focus.covers(id);
        let now = self.cx.clock.now();
        let written_since = options.written_since;
        let told =
            health::Told { memory: &memory, seen: &seen, was_read: &was_read, asked, now, written_since };
        let mut health = health::assess(told);
        health.leave_out(&memory, &plan.gone, &was_read, now);
        let looked_at = looked_at(desired, scope, &plan, &seen, options);
        Ok(View { memory, seen, plan, skipped, health, looked_at })
    }
}

/// Has wait what is only read, as long as something that it depends on is not ready.
fn put_off(
    effective: &mut [Resource],
    desired: &Desired,
    observer: &dyn Observer,
    ready: &BTreeSet<ManifestKey>,
) {
    for resource in effective {
        let manifest = desired.manifests.get(resource.origin.manifest as usize);
        let is_early = manifest.is_some_and(|m| m.after.iter().any(|key| !ready.contains(key)));
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

/// True when everything that is wanted is in the inventory. Both are sorted by id.
fn all_tracked(effective: &[Resource], memory: &ScopeMemory) -> bool {
    let mut rows = memory.rows.iter().map(|row| &row.tracked.id);
    effective.iter().all(|resource| rows.by_ref().find(|id| **id >= resource.id) == Some(&resource.id))
}

/// The manifests of a scope that was looked at whole. None where nothing moved: what a manifest that changed declares
/// is a step, a condition, a row to refresh or a document to remember, so that a look at what is well costs nothing.
fn looked_at(
    desired: &Desired,
    scope: &Scope,
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
    manifests.map(|manifest| manifest.key.clone()).collect()
}
