//! Looking: memory, versions, observation, diff and plan of many scopes, and the guard's word on each domain.
//!
//! A [`Surveyor`] holds observers only, so whatever it does cannot write to a remote; nor does it write to the
//! store. `plan` is a survey that is printed; `apply` carries out the very same survey.

use crate::{
    desired::Desired,
    plan::{
        self, EntryPolicy, ScopeInput, ScopePlan, Selection,
        guard::{self, GuardLimits, Verdict},
    },
    ready,
    store::{Approval, Row, ScopeMemory, Store},
};
use futures_util::{
    FutureExt, StreamExt,
    future::{Either, select},
    stream,
};
use reconciled_provider::{
    Address, Claim, ClaimState, Cx, Error, Focus, GuardDomain, Merged, Observation, Observed, Observer,
    Origin, PolicyId, Resource, ResourceId, Scope, Sealed, Spec, Tracked, Version, Want,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    time::Duration,
};

/// One configured entry, as far as looking goes.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Its observer.
    pub observer: Arc<dyn Observer>,
    /// What it may do.
    pub policy: EntryPolicy,
    /// Limits of its guard domains.
    pub guard: GuardLimits,
}

/// Everything that looking needs.
#[derive(Clone)]
pub struct Surveyor {
    /// Configured entries by name.
    pub entries: BTreeMap<Arc<str>, Watched>,
    /// Time, secrets, deadline.
    pub cx: Cx,
}

/// How a survey is made.
#[derive(Clone, Debug, Default)]
pub struct SurveyOptions {
    /// What the user selected.
    pub selection: Selection,
    /// Lists every scope, also those whose version stands.
    pub refresh: bool,
    /// Only these scopes; none means all that are desired or remembered.
    pub only: Option<BTreeSet<Scope>>,
}

/// What was found in one scope, and the plan for it.
#[derive(Clone, Debug)]
pub struct View {
    /// What is remembered, with recovered rows.
    pub memory: ScopeMemory,
    /// What was seen.
    pub seen: Observation,
    /// The plan.
    pub plan: ScopePlan,
    /// The version stood and nothing was asked of the scope itself.
    pub skipped: bool,
}

/// The guard's word on one domain.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Its name.
    pub name: Arc<str>,
    /// The scopes counted in it.
    pub scopes: Vec<Scope>,
    /// The word.
    pub verdict: Verdict,
    /// A person's consent to its digest.
    pub approval: Option<Approval>,
}

impl Domain {
    /// True when its guarded steps must wait for a person.
    pub fn is_held(&self) -> bool {
        self.verdict.is_held() && self.approval.is_none()
    }
}

/// What a survey found.
#[derive(Debug, Default)]
pub struct Survey {
    /// Each scope's view, or why there is none.
    pub scopes: BTreeMap<Scope, Result<View, Error>>,
    /// Each guard domain.
    pub domains: BTreeMap<Arc<str>, Domain>,
    /// Remembered scopes whose entry is not configured here: left alone.
    pub unassigned: Vec<(Scope, usize)>,
}

impl Survey {
    /// The domain a scope belongs to.
    pub fn domain_of(&self, scope: &Scope) -> Option<&Domain> {
        self.domains.get(&*scope.to_string()).or_else(|| self.domains.get(&scope.provider))
    }
}

impl Surveyor {
    /// Surveys all scopes that are desired or remembered.
    ///
    /// Errors: only the store's; what goes wrong with a remote is part of the result, scope by scope.
    pub async fn survey(
        &self,
        store: &dyn Store,
        desired: &Desired,
        options: &SurveyOptions,
    ) -> Result<Survey, Error> {
        let mut memories = store.all().await?;
        let facts = ready::facts(desired, &memories);
        let mut names: BTreeSet<Scope> = desired.scopes.keys().cloned().collect();
        names.extend(memories.iter().filter(|(_, m)| m.is_remembered()).map(|(scope, _)| scope.clone()));
        let mut survey = Survey::default();
        // A guard domain is judged whole, or its limits could be evaded one scope at a time.
        let whole = |scope: &Scope| {
            self.entries
                .get(&scope.provider)
                .is_some_and(|e| e.observer.info().guard == GuardDomain::Provider)
        };
        let counted: BTreeSet<Arc<str>> =
            options.only.iter().flatten().filter(|s| whole(s)).map(|s| s.provider.clone()).collect();
        names.retain(|scope| {
            if !self.entries.contains_key(&scope.provider) {
                survey.unassigned.push((scope.clone(), memories.get(scope).map_or(0, |m| m.rows.len())));
                return false;
            }
            options.only.as_ref().is_none_or(|only| only.contains(scope) || counted.contains(&scope.provider))
        });
        let versions = self.versions(&names, &memories, options).await;
        let moves = moves(desired, &mut memories);
        let jobs: Vec<_> = names
            .into_iter()
            .map(|scope| {
                let memory = memories.remove(&scope).unwrap_or_default();
                (scope, memory)
            })
            .collect();
        let width = self.entries.values().map(|e| e.observer.info().concurrency).max().unwrap_or(1).max(1);
        let views = stream::iter(jobs).map(|(scope, memory)| {
            let (versions, facts, moves) = (&versions, &facts, &moves);
            async move {
                let look = self.look(desired, &scope, memory, versions.get(&scope), facts, moves, options);
                let view = match AssertUnwindSafe(look).catch_unwind().await {
                    Ok(view) => view,
                    Err(_) => Err(Error::unexpected(format!("looking at {scope} panicked"))
                        .hint("this is a bug in the provider; other scopes go on")),
                };
                (scope, view)
            }
        });
        survey.scopes = views.buffer_unordered(width).collect::<Vec<_>>().await.into_iter().collect();
        self.judge(store, desired, &mut survey).await?;
        Ok(survey)
    }

    /// Asks each entry once for the versions of the scopes that have one remembered.
    async fn versions(
        &self,
        names: &BTreeSet<Scope>,
        memories: &BTreeMap<Scope, ScopeMemory>,
        options: &SurveyOptions,
    ) -> BTreeMap<Scope, Version> {
        let mut all = BTreeMap::new();
        if options.refresh {
            return all;
        }
        for (name, entry) in &self.entries {
            let known = |scope: &&Scope| {
                scope.provider == *name && memories.get(*scope).is_some_and(|m| m.version.is_some())
            };
            let asked: Vec<Scope> = names.iter().filter(known).cloned().collect();
            if asked.is_empty() {
                continue;
            }
            // Without versions every scope is listed: slower, never wrong.
            if let Ok(versions) =
                self.within(entry.observer.versions(&self.cx, &asked), "asking for versions").await
            {
                all.extend(versions);
            }
        }
        all
    }

    /// Runs a read, which has an end: `cx.deadline`.
    async fn within<T>(&self, read: impl Future<Output = Result<T, Error>>, what: &str) -> Result<T, Error> {
        let limit = self.cx.deadline;
        match select(pin!(read), pin!(self.cx.clock.sleep(limit))).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => {
                Err(Error::unavailable(format!("{what}: no answer within {} s", limit.as_secs())))
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one private call that threads the parts of a survey")]
    async fn look(
        &self,
        desired: &Desired,
        scope: &Scope,
        mut memory: ScopeMemory,
        version: Option<&Version>,
        facts: &ready::Facts,
        moves: &BTreeMap<(Scope, ResourceId), Address>,
        options: &SurveyOptions,
    ) -> Result<View, Error> {
        let entry = &self.entries[&scope.provider];
        let observer = &*entry.observer;
        let declared = desired.in_scope(scope);
        let arc = Arc::new(scope.clone());
        let merger = Merger { observer, desired, declared, scope: &arc, claims: &memory.claims_here };
        let mut effective = merger.merge(&memory.rows, None)?;
        let needs_merge = merger.is_needed();
        let claims: Vec<ClaimState> = memory.claims_made.iter().map(claim_state).collect();
        let mut tracked: Vec<Tracked> = memory.rows.iter().map(|row| row.tracked.clone()).collect();
        // What may exist because of an unanswered intent must be looked for where nothing can be listed.
        tracked.extend(memory.open.iter().map(|open| open.intent.row.tracked.clone()));

        let focus = focus(desired, scope, &effective.resources, &memory, version, options);
        let skipped = focus == Focus::Only(Arc::from([]));
        let mut seen = if skipped {
            Observation {
                covered: Focus::All,
                complete: true,
                version: Version::Unknown,
                resources: Vec::new(),
            }
        } else {
            let want = Want {
                scope,
                focus: &focus,
                desired: &effective.resources,
                tracked: &tracked,
                claims: &claims,
            };
            self.within(observer.observe(&self.cx, &want), &format!("reading {scope}")).await?
        };
        if !seen.resources.is_sorted_by(|a, b| a.id <= b.id) {
            seen.resources.sort_by(|a, b| a.id.cmp(&b.id));
        }
        if let (Focus::Only(ids), Some(version)) = (&focus, version) {
            stand_in(&mut seen, ids, &memory.rows, version.clone());
        }
        if recover(&mut memory, &seen, self.cx.clock.now()) {
            tracked = memory.rows.iter().map(|row| row.tracked.clone()).collect();
        }
        if needs_merge {
            let merger = Merger { observer, desired, declared, scope: &arc, claims: &memory.claims_here };
            effective = merger.merge(&memory.rows, Some(&seen))?;
        }
        let want =
            Want { scope, focus: &focus, desired: &effective.resources, tracked: &tracked, claims: &claims };
        let deltas =
            self.within(observer.diff(&self.cx, &want, &seen), &format!("comparing {scope}")).await?;
        let moved = moves
            .iter()
            .filter(|((s, _), _)| s == scope)
            .map(|((_, id), from)| (id.clone(), from.clone()))
            .collect();
        let mut plan = plan::plan(&ScopeInput {
            scope,
            provider: observer,
            policy: entry.policy,
            desired,
            effective: &effective.resources,
            claimed: &effective.claimed,
            ours: &effective.ours,
            memory: &memory,
            moved: &moved,
            seen: &seen,
            deltas: &deltas,
            ready: &facts.ready,
            needed: &facts.needed_outside(scope),
            selection: &options.selection,
            now: self.cx.clock.now(),
        });
        if let (Focus::Only(_), Some(known)) = (&focus, &memory.version) {
            plan.foreign_count = known.foreign;
        }
        Ok(View { memory, seen, plan, skipped })
    }

    /// Groups the plans into guard domains and judges each.
    async fn judge(&self, store: &dyn Store, desired: &Desired, survey: &mut Survey) -> Result<(), Error> {
        let mut groups: BTreeMap<Arc<str>, Vec<&Scope>> = BTreeMap::new();
        for scope in survey.scopes.keys() {
            let info = self.entries[&scope.provider].observer.info();
            groups.entry(guard::domain(info, scope)).or_default().push(scope);
        }
        let moved_path = desired.sources.values().any(|s| s.path_changed);
        let recovering = store.is_recovering().await?;
        for (name, scopes) in groups {
            let entry = &self.entries[&scopes[0].provider];
            let plans: Vec<&ScopePlan> = scopes
                .iter()
                .filter_map(|s| survey.scopes[*s].as_ref().ok())
                .map(|view| &view.plan)
                .collect();
            if plans.iter().all(|p| p.steps.is_empty()) {
                continue;
            }
            let info = entry.observer.info();
            let slot = |step: &plan::Step| entry.observer.slot(&step.id);
            let mut verdict =
                guard::judge(&entry.guard, desired, &plans, info.atomic_batch, slot, moved_path);
            if recovering {
                verdict.reasons.extend(guard::recovering(&verdict.counts, info));
            }
            let approval = match verdict.digest {
                Some(digest) if verdict.is_held() => store.approval(digest).await?,
                _ => None,
            };
            let scopes = scopes.into_iter().cloned().collect();
            survey.domains.insert(name.clone(), Domain { name, scopes, verdict, approval });
        }
        Ok(())
    }
}

impl ScopeMemory {
    /// True when anything about the scope must still be looked at.
    pub fn is_remembered(&self) -> bool {
        !(self.rows.is_empty() && self.open.is_empty() && self.claims_here.is_empty())
    }
}

pub(crate) fn claim_state(row: &crate::store::ClaimRow) -> ClaimState {
    ClaimState { owner: row.owner.clone(), key: row.claim.key.clone(), synced: row.synced, health: None }
}

/// How much of a scope must be read.
///
/// While the remembered version stands, the scope is as it was when it was last seen whole and in sync; only
/// what the desired state asks for differently needs to be looked at. That also holds for deletions, since
/// the observation remembered by the inventory was complete.
fn focus(
    desired: &Desired,
    scope: &Scope,
    effective: &[Resource],
    memory: &ScopeMemory,
    version: Option<&Version>,
    options: &SurveyOptions,
) -> Focus {
    let stands = match (&memory.version, version) {
        (Some(known), Some(now)) => known.version == *now && matches!(now, Version::At(_)),
        _ => false,
    };
    let plain = memory.open.is_empty() && memory.consents.is_empty() && !desired.exclusive.contains(scope);
    if options.refresh || !stands || !plain {
        return Focus::All;
    }
    let mut ids: Vec<ResourceId> = Vec::new();
    let (mut rows, mut wanted) = (memory.rows.iter().peekable(), effective.iter().peekable());
    loop {
        match (rows.peek(), wanted.peek()) {
            (None, None) => break,
            (Some(row), Some(want)) if row.tracked.id == want.id => {
                let same = want.spec.hash() == Some(row.tracked.applied)
                    && row.state == crate::store::RowState::Settled;
                if !same {
                    ids.push(want.id.clone());
                }
                rows.next();
                wanted.next();
            }
            (Some(row), Some(want)) if row.tracked.id < want.id => {
                ids.push(row.tracked.id.clone());
                rows.next();
            }
            (Some(row), None) => {
                ids.push(row.tracked.id.clone());
                rows.next();
            }
            (_, Some(want)) => {
                ids.push(want.id.clone());
                wanted.next();
            }
        }
    }
    Focus::Only(ids.into())
}

/// Completes a focused observation with what the inventory knows to stand unchanged.
fn stand_in(seen: &mut Observation, asked: &[ResourceId], rows: &[Row], version: Version) {
    let asked: BTreeSet<&ResourceId> = asked.iter().collect();
    let known = rows.iter().filter(|row| !asked.contains(&row.tracked.id)).map(|row| Observed {
        hash: row.tracked.applied,
        remote: row.tracked.remote.clone(),
        ..Observed::new(row.tracked.id.clone(), bytes::Bytes::new())
    });
    seen.resources.extend(known.collect::<Vec<_>>());
    seen.resources.sort_by(|a, b| a.id.cmp(&b.id));
    // The focused read came after the version was asked for: if it moved in between, the write is fenced by
    // the older version and refused.
    seen.version = version;
    seen.covered = Focus::All;
}

/// Adds rows for resources that an unanswered intent made: found as intended, they are ours.
fn recover(memory: &mut ScopeMemory, seen: &Observation, now: Duration) -> bool {
    let mut found = Vec::new();
    for open in &memory.open {
        let row = &open.intent.row;
        let known = memory.rows.binary_search_by(|r| r.tracked.id.cmp(&row.tracked.id)).is_ok();
        let Some(observed) = seen.get(&row.tracked.id) else { continue };
        let ours =
            open.intent.after == Some(observed.hash) || observed.owner == reconciled_provider::Owner::Ours;
        if !known && ours && &*open.intent.op != "delete" {
            let mut row = row.clone();
            row.tracked.applied = observed.hash;
            row.tracked.remote = observed.remote.clone();
            if !row.merge {
                row.tracked.private = observed.private.clone();
            }
            row.state = crate::store::RowState::Applied;
            row.written_at = now;
            found.push(row);
        }
    }
    let any = !found.is_empty();
    memory.rows.extend(found);
    memory.rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
    memory.rows.dedup_by(|a, b| a.tracked.id == b.tracked.id);
    any
}

/// Unites declarations with `merge: true`, claims, and what others put there.
struct Merger<'a> {
    observer: &'a dyn Observer,
    desired: &'a Desired,
    declared: &'a [Resource],
    scope: &'a Arc<Scope>,
    claims: &'a [crate::store::ClaimRow],
}

impl Merger<'_> {
    fn is_needed(&self) -> bool {
        !self.claims.is_empty() || self.declared.iter().any(|r| self.shares(r))
    }

    fn shares(&self, resource: &Resource) -> bool {
        self.desired.policies.get(resource.policy).merge
    }

    /// One resource for each id, sorted.
    fn merge(&self, rows: &[Row], seen: Option<&Observation>) -> Result<Effective, Error> {
        let mut claims: BTreeMap<&ResourceId, Vec<Claim>> = BTreeMap::new();
        for row in self.claims {
            claims.entry(&row.id).or_default().push(row.claim.clone());
        }
        let mut out = Effective {
            resources: Vec::with_capacity(self.declared.len() + claims.len()),
            ..Effective::default()
        };
        for group in self.declared.chunk_by(|a, b| a.id == b.id) {
            let first = &group[0];
            let made = claims.remove(&first.id).unwrap_or_default();
            let shared = group.len() > 1 || !made.is_empty() || self.shares(first);
            let waiting = group.iter().any(|r| matches!(r.spec, Spec::Waiting { .. }));
            let merged =
                if shared && !waiting { self.unite(group, &first.id, rows, seen, &made)? } else { None };
            out.add(merged, first);
        }
        for (id, made) in claims {
            let Some(merged) = self.unite(&[], id, rows, seen, &made)? else { continue };
            let origin = Origin { manifest: u32::MAX, line: 0 };
            let place = Resource {
                id: id.clone(),
                scope: self.scope.clone(),
                spec: merged.resource.spec.clone(),
                origin,
                policy: PolicyId(0),
            };
            out.claimed.insert(id.clone());
            out.add(Some(merged), &place);
        }
        if !out.claimed.is_empty() {
            out.resources.sort_by(|a, b| a.id.cmp(&b.id));
        }
        Ok(out)
    }

    fn unite(
        &self,
        group: &[Resource],
        id: &ResourceId,
        rows: &[Row],
        seen: Option<&Observation>,
        claims: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        let declared: Vec<&Resource> = group.iter().collect();
        let tracked = rows.binary_search_by(|r| r.tracked.id.cmp(id)).ok().map(|i| &rows[i].tracked);
        self.observer.merge(&declared, seen.and_then(|s| s.get(id)), tracked, claims)
    }
}

/// What is desired of a scope once declarations, claims and the values of others are united.
#[derive(Default)]
struct Effective {
    resources: Vec<Resource>,
    /// Ids that exist only because of claims.
    claimed: BTreeSet<ResourceId>,
    /// Which values of shared resources are ours.
    ours: BTreeMap<ResourceId, Sealed>,
}

impl Effective {
    fn add(&mut self, merged: Option<Merged>, place: &Resource) {
        let Some(merged) = merged else {
            self.resources.push(place.clone());
            return;
        };
        self.ours.insert(place.id.clone(), merged.ours);
        self.resources.push(Resource { spec: merged.resource.spec, ..place.clone() });
    }
}

/// Rows that a manifest says it was moved from get its identity, so that a rename is no delete and create.
///
/// Only within one entry, only when the old address is no longer desired and the new one is not tracked.
fn moves(
    desired: &Desired,
    memories: &mut BTreeMap<Scope, ScopeMemory>,
) -> BTreeMap<(Scope, ResourceId), Address> {
    let mut moved = BTreeMap::new();
    if desired.manifests.iter().all(|m| m.moved_from.is_none()) {
        return moved;
    }
    let wanted: BTreeSet<(Scope, ResourceId)> = desired
        .scopes
        .iter()
        .flat_map(|(s, list)| list.iter().map(move |r| (s.clone(), r.id.clone())))
        .collect();
    for (scope, resources) in &desired.scopes {
        for resource in resources {
            let Some(manifest) = desired.manifests.get(resource.origin.manifest as usize) else { continue };
            let Some(from) = &manifest.moved_from else { continue };
            let tracked =
                memories.get(scope).is_some_and(|m| m.rows.iter().any(|r| r.tracked.id == resource.id));
            if tracked {
                continue;
            }
            let old =
                memories.iter().filter(|(s, _)| s.provider == scope.provider).find_map(|(s, memory)| {
                    let index = memory.rows.iter().position(|row| {
                        row.address == *from && !wanted.contains(&(s.clone(), row.tracked.id.clone()))
                    })?;
                    Some((s.clone(), index))
                });
            let Some((old_scope, index)) = old else { continue };
            let Some(memory) = memories.get_mut(&old_scope) else { continue };
            let mut row = memory.rows.remove(index);
            let old_id = std::mem::replace(&mut row.tracked.id, resource.id.clone());
            row.scope = scope.clone();
            moved.insert((scope.clone(), resource.id.clone()), row.address.clone());
            let target = memories.entry(scope.clone()).or_default();
            target.rows.push(row);
            target.rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
            target.moved_away.push((old_scope, old_id));
        }
    }
    moved
}

/// How long a survey may wait for one read when nobody said otherwise.
pub const READ_LIMIT: Duration = Duration::from_secs(60);
