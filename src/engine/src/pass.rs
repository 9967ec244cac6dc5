//! Doing: a survey carried out. One scope at a time per batch, scopes beside each other, each failing alone.
//!
//! ```text
//! survey ─► bookkeeping (adopt, forget, move, answers to open intents) ─► batch ─► journal ─► provider
//! ```
//!
//! A pass that wrote is not believed: its scope is due again at once, and only the next survey, which sees the
//! remote, settles what was written.

use crate::{
    desired::Desired,
    error_policy::{self, Failures, Next},
    journal::BatchJournal,
    plan::{Blocked, Change, EntryPolicy, Step},
    store::{
        Condition, ConditionKind, Converged, Ending, Event, Hold, OpenIntent, Row, RowState, ScopeMemory,
        Store, Write,
    },
    survey::{Domain, Survey, SurveyOptions, Surveyor, View, Watched, claim_state},
};
use futures_util::{
    FutureExt, StreamExt,
    future::{Either, select},
    stream,
};
use reconciled_provider::{
    Action, ActionId, Address, Batch, Claim, Error, ErrorKind, ManifestKey, Observer, Op, Outcome, Provider,
    ResourceId, Scope,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Everything that doing needs.
pub struct Engine {
    /// Looks.
    pub surveyor: Surveyor,
    /// Writes, by entry.
    writers: BTreeMap<Arc<str>, Arc<dyn Provider>>,
    /// Remembers.
    pub store: Arc<dyn Store>,
    /// Name of this instance, part of client tokens.
    pub instance: Arc<str>,
    actions: AtomicU64,
    failures: Mutex<BTreeMap<Scope, Failures>>,
}

/// How a scope stands after a round.
#[derive(Clone, Debug, PartialEq)]
pub enum ScopeState {
    /// Everything is as desired.
    InSync,
    /// Something was written or must be looked at again at once.
    DueNow,
    /// Nothing to do before this time.
    DueAt(Duration),
    /// A person must consent.
    Held,
    /// A person must act.
    Stalled,
    /// Nothing will happen until the desired state or the remote changes.
    Idle,
}

/// What a round did to one scope.
#[derive(Clone, Debug)]
pub struct ScopeReport {
    /// How it stands now.
    pub state: ScopeState,
    /// What ended, by change and outcome: (`create`, `done`) → 3.
    pub outcomes: BTreeMap<(&'static str, &'static str), usize>,
    /// Resources adopted.
    pub adopted: usize,
    /// Resources seen to be as written, or whose bookkeeping moved.
    pub settled: usize,
    /// What keeps it from being in sync.
    pub conditions: Vec<Condition>,
    /// Scopes to look at again because of what happened here: claims made, claims that came true.
    pub wakes: BTreeSet<Scope>,
}

/// What a round did.
#[derive(Debug, Default)]
pub struct RoundReport {
    /// Each scope.
    pub scopes: BTreeMap<Scope, ScopeReport>,
    /// Domains that wait for consent.
    pub held: Vec<Domain>,
}

impl RoundReport {
    /// True when nothing is left to do and nothing waits.
    pub fn is_in_sync(&self) -> bool {
        self.held.is_empty() && self.scopes.values().all(|s| s.state == ScopeState::InSync)
    }
    /// Scopes that are due at `now`.
    pub fn due(&self, now: Duration) -> BTreeSet<Scope> {
        let is_due = |state: &ScopeState| match state {
            ScopeState::DueNow => true,
            ScopeState::DueAt(at) => *at <= now,
            _ => false,
        };
        self.scopes.iter().filter(|(_, r)| is_due(&r.state)).map(|(scope, _)| scope.clone()).collect()
    }
    /// When the next scope is due, if any is.
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        let at = |state: &ScopeState| match state {
            ScopeState::DueNow => Some(now),
            ScopeState::DueAt(at) => Some(*at),
            _ => None,
        };
        self.scopes.values().filter_map(|r| at(&r.state)).min()
    }
}

impl RoundReport {
    /// True when anything moved that others may wait for.
    fn moved(&self) -> bool {
        self.scopes.values().any(|r| !r.outcomes.is_empty() || r.adopted + r.settled > 0)
    }
    /// Scopes where something waits for another resource.
    fn waiting(&self) -> BTreeSet<Scope> {
        let waits = |r: &ScopeReport| {
            r.state == ScopeState::Idle && r.conditions.iter().any(|c| c.kind == ConditionKind::Waiting)
        };
        self.scopes.iter().filter(|(_, r)| waits(r)).map(|(s, _)| s.clone()).collect()
    }
    fn take_wakes(&mut self) -> BTreeSet<Scope> {
        self.scopes.values_mut().flat_map(|r| std::mem::take(&mut r.wakes)).collect()
    }
    fn replace(&mut self, next: RoundReport) {
        let looked: BTreeSet<&str> = next.held.iter().map(|d| &*d.name).collect();
        self.held
            .retain(|d| !looked.contains(&*d.name) && !d.scopes.iter().any(|s| next.scopes.contains_key(s)));
        self.held.extend(next.held);
        self.scopes.extend(next.scopes);
    }
}

/// What happened over several rounds: (scope, change, outcome) → how many.
#[derive(Clone, Debug, Default)]
pub struct Outcomes(pub BTreeMap<(Scope, &'static str, &'static str), usize>);

impl Outcomes {
    fn add(&mut self, round: &RoundReport) {
        for (scope, report) in &round.scopes {
            for ((change, outcome), count) in &report.outcomes {
                *self.0.entry((scope.clone(), change, outcome)).or_default() += count;
            }
            if report.adopted > 0 {
                *self.0.entry((scope.clone(), "adopt", "done")).or_default() += report.adopted;
            }
        }
    }
    /// How many actions ended with `outcome`.
    pub fn count(&self, outcome: &str) -> usize {
        self.0.iter().filter(|((_, _, o), _)| *o == outcome).map(|(_, n)| n).sum()
    }
}

/// Where converging ended.
#[derive(Debug)]
pub struct Converge {
    /// Each scope as it was last seen.
    pub round: RoundReport,
    /// What was done on the way.
    pub outcomes: Outcomes,
    /// Something is still on its way.
    pub timed_out: bool,
}

/// Upcasts a provider for looking.
pub fn watched(
    provider: &Arc<dyn Provider>,
    policy: EntryPolicy,
    guard: crate::plan::guard::GuardLimits,
) -> Watched {
    Watched { observer: provider.clone() as Arc<dyn Observer>, policy, guard }
}

impl Engine {
    /// An engine over `surveyor` that writes through `writers`, entry by entry.
    pub fn new(
        surveyor: Surveyor,
        writers: BTreeMap<Arc<str>, Arc<dyn Provider>>,
        store: Arc<dyn Store>,
        instance: Arc<str>,
    ) -> Engine {
        Engine { surveyor, writers, store, instance, actions: AtomicU64::new(0), failures: Mutex::default() }
    }

    /// Surveys and carries out what is neither blocked nor held.
    ///
    /// Errors: only the store's. What goes wrong with a remote is in the report, scope by scope.
    pub async fn round(&self, desired: &Desired, options: &SurveyOptions) -> Result<RoundReport, Error> {
        let survey = self.surveyor.survey(&*self.store, desired, options).await?;
        self.carry_out(desired, survey).await
    }

    /// Carries out a survey: exactly what was shown, or nothing where the world has moved.
    pub async fn carry_out(&self, desired: &Desired, survey: Survey) -> Result<RoundReport, Error> {
        let mut report = RoundReport::default();
        let domains = self.holds(desired, &survey).await?;
        report.held = domains.held;
        let fences = self.fences(desired).await?;
        let scopes: BTreeSet<Scope> = desired.scopes.keys().cloned().collect();
        let place = |claim: &Claim| self.place(claim, &scopes);
        let width = survey.scopes.len().clamp(1, WIDTH);
        let jobs = stream::iter(survey.scopes).map(|(scope, view)| {
            let (fences, place, held) = (&fences, &place, domains.scopes.contains(&scope));
            async move {
                let pass = async {
                    match view {
                        Ok(view) => self.pass(&scope, view, held, fences, place).await,
                        Err(error) => self.unseen(&scope, &error).await,
                    }
                };
                let result = AssertUnwindSafe(pass).catch_unwind().await;
                let result = result
                    .unwrap_or_else(|_| Err(Error::unexpected(format!("the pass over {scope} panicked"))));
                (scope, result)
            }
        });
        for (scope, result) in jobs.buffer_unordered(width).collect::<Vec<_>>().await {
            let result = match result {
                Ok(done) => done,
                // The store failed, or another process is the writer: this scope is tried again, others go on.
                Err(error) => self.failed(&scope, &error, Vec::new()),
            };
            report.scopes.insert(scope, result);
        }
        Ok(report)
    }

    /// Rounds until nothing is due: every scope is in sync, or waits for a person, or for a time after `until`.
    ///
    /// What a pass wrote is seen by the next one; who waited for it is looked at again.
    pub async fn converge(
        &self,
        desired: &Desired,
        options: &SurveyOptions,
        until: Duration,
    ) -> Result<Converge, Error> {
        let survey = self.surveyor.survey(&*self.store, desired, options).await?;
        self.converge_from(desired, survey, options, until).await
    }

    /// As [`Engine::converge`], beginning with a survey that was already made (and shown).
    pub async fn converge_from(
        &self,
        desired: &Desired,
        survey: Survey,
        options: &SurveyOptions,
        until: Duration,
    ) -> Result<Converge, Error> {
        let mut total = self.carry_out(desired, survey).await?;
        let mut outcomes = Outcomes::default();
        outcomes.add(&total);
        let mut progress = total.moved();
        loop {
            let now = self.surveyor.cx.clock.now();
            let mut due = total.due(now);
            if progress {
                due.extend(total.waiting());
            }
            due.extend(total.take_wakes());
            if self.surveyor.cx.stop.is_set() {
                return Ok(Converge { round: total, outcomes, timed_out: !due.is_empty() });
            }
            if due.is_empty() {
                match total.next_due(now) {
                    None => return Ok(Converge { round: total, outcomes, timed_out: false }),
                    Some(at) if at > until => {
                        return Ok(Converge { round: total, outcomes, timed_out: true });
                    }
                    Some(at) => {
                        let cx = &self.surveyor.cx;
                        select(cx.clock.sleep(at.saturating_sub(now)), pin!(cx.stop.wished())).await;
                    }
                }
                continue;
            }
            let only = SurveyOptions { only: Some(due.clone()), ..options.clone() };
            let next = self.round(desired, &only).await?;
            outcomes.add(&next);
            progress = next.moved();
            // A scope that nothing desires and nothing remembers has come to its end.
            total.scopes.retain(|scope, _| !due.contains(scope));
            total.replace(next);
        }
    }

    /// Records the holds of this survey and uses up the approvals.
    async fn holds(&self, desired: &Desired, survey: &Survey) -> Result<Held, Error> {
        let mut out = Held::default();
        let before = self.store.holds().await?;
        let mut writes = Vec::new();
        let now = self.surveyor.cx.clock.now();
        let label = desired.sources.values().next().map(|s| s.label.clone()).unwrap_or_default();
        for domain in survey.domains.values() {
            let known = before.iter().find(|h| h.domain == domain.name);
            if domain.is_held() {
                out.scopes.extend(domain.scopes.iter().cloned());
                let digest = domain.verdict.digest.unwrap_or_default();
                if known.is_none_or(|h| h.digest != digest) {
                    let hold = Hold {
                        domain: domain.name.clone(),
                        digest,
                        reasons: domain.verdict.reasons.clone(),
                        counts: domain.verdict.counts,
                        revision: label.clone(),
                        since: now,
                    };
                    writes.push(Write::Event(event(
                        now,
                        "hold",
                        &label,
                        &format!("{} is held: {}", domain.name, domain.verdict.reasons.join("; ")),
                    )));
                    writes.push(Write::Hold(hold));
                }
                out.held.push(domain.clone());
            } else {
                if known.is_some() {
                    writes.push(Write::Release(domain.name.clone()));
                }
                if let Some(approval) = &domain.approval {
                    // Used before the first write: an approval lost in a crash is asked for again, one used
                    // twice could delete twice.
                    writes.push(Write::UseApproval(approval.digest, now));
                }
            }
        }
        for hold in &before {
            let surveyed = survey.scopes.iter().any(|(s, view)| {
                view.is_ok() && (*hold.domain == *s.to_string() || *hold.domain == *s.provider)
            });
            if surveyed && !survey.domains.contains_key(&hold.domain) {
                writes.push(Write::Release(hold.domain.clone()));
            }
        }
        if !writes.is_empty() {
            self.store.commit(writes).await?;
        }
        Ok(out)
    }

    /// The generation of every manifest at the time of the plan.
    async fn fences(&self, desired: &Desired) -> Result<BTreeMap<ManifestKey, u64>, Error> {
        let mut all = BTreeMap::new();
        for source in desired.sources.keys() {
            all.extend(self.store.generations(source).await?);
        }
        Ok(all)
    }

    fn place(&self, claim: &Claim, scopes: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        let entry = self.surveyor.entries.get(&claim.provider).ok_or_else(|| {
            Error::invalid(format!("a claim names the entry `{}`, which is not configured", claim.provider))
        })?;
        let mine = scopes.iter().filter(|s| s.provider == claim.provider).cloned().collect();
        entry.observer.place(claim, &mine)
    }

    /// One scope: bookkeeping, then the batch.
    async fn pass(
        &self,
        scope: &Scope,
        view: View,
        held: bool,
        fences: &BTreeMap<ManifestKey, u64>,
        place: crate::journal::Place<'_>,
    ) -> Result<ScopeReport, Error> {
        let now = self.surveyor.cx.clock.now();
        let actionable: Vec<&Step> = view
            .plan
            .steps
            .iter()
            .filter(|s| s.change.writes() && s.blocked.is_none() && !(held && s.reason.is_guarded()))
            .collect();
        let mut conditions = view.plan.conditions.clone();
        conditions.sort_by(|a, b| (&a.id, &a.reason).cmp(&(&b.id, &b.reason)));
        let settled = view.plan.settled.len() + view.plan.refreshed.len() + view.plan.lapsed.len();
        let adopted = view.plan.steps.iter().filter(|s| s.change == Change::Adopt).count();
        let batch = self.batch(scope, &view, &actionable);
        let mut writes = bookkeeping(
            scope,
            &view,
            self.surveyor.entries[&scope.provider].observer.info().consistency_window,
            now,
        );
        let wakes: BTreeSet<Scope> = writes
            .iter()
            .filter_map(|write| match write {
                Write::ClaimSynced(owner, ..) => Some(owner.clone()),
                _ => None,
            })
            .collect();
        if batch.actions.is_empty() {
            let version = view.plan.known_version(&view.seen).filter(|_| !held);
            if version != view.memory.version && !view.skipped {
                writes.push(Write::Version(scope.clone(), version));
            }
            conditions_write(scope, &view.memory.conditions, &conditions, &mut writes);
            if !writes.is_empty() {
                self.store.commit(writes).await?;
            }
            self.succeeded(scope);
            let state = state_without_actions(&view, held, &conditions, adopted > 0);
            return Ok(ScopeReport { state, outcomes: BTreeMap::new(), adopted, settled, conditions, wakes });
        }
        if !writes.is_empty() {
            self.store.commit(writes).await?;
        }
        let fence = fence(&actionable, fences);
        let journal = BatchJournal {
            store: &*self.store,
            clock: &*self.surveyor.cx.clock,
            scope,
            steps: batch
                .actions
                .iter()
                .zip(&actionable)
                .map(|(a, s)| (a.id, (*s, a.token.clone())))
                .collect(),
            fence,
            place,
            ended: Mutex::default(),
        };
        let result = self.apply(scope, &batch, &journal).await;
        let ended = journal.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        let claimed = ended.iter().filter_map(|(_, outcome)| match outcome {
            Outcome::Pending { claims, .. } => Some(claims),
            _ => None,
        });
        let claimed: BTreeSet<Scope> =
            claimed.flatten().filter_map(|c| place(c).ok()).map(|(scope, _)| scope).collect();
        let mut report = self
            .report(scope, &view, &actionable, &batch, result, ended, claimed, conditions, adopted)
            .await?;
        report.wakes.extend(wakes);
        Ok(report)
    }

    fn batch(&self, scope: &Scope, view: &View, steps: &[&Step]) -> Batch {
        let actions = steps.iter().map(|step| {
            let number = self.actions.fetch_add(1, Ordering::Relaxed);
            // Epochs never repeat within the life of a database, so neither do ids.
            let id = ActionId((self.store.epoch() << 32) | number);
            let after = step.work.desired.as_ref().and_then(|d| d.spec.hash());
            let same = |o: &&OpenIntent| {
                o.intent.row.tracked.id == step.id
                    && *o.intent.op == *step.change.word()
                    && o.intent.after == after
            };
            let token = match view.memory.open.iter().rev().find(same) {
                Some(open) => open.intent.token.clone(),
                _ => format!("{}-{:x}", self.instance, id.0).into(),
            };
            Action { id, token, op: op(step, &view.memory) }
        });
        Batch { scope: scope.clone(), base: view.plan.base.clone(), actions: actions.collect() }
    }

    /// Calls the provider. A running `apply` is never dropped before its limit: it is asked to stop first.
    async fn apply(&self, scope: &Scope, batch: &Batch, journal: &BatchJournal<'_>) -> Result<(), Error> {
        let Some(provider) = self.writers.get(&scope.provider) else {
            return Err(Error::unsupported(format!("the entry `{}` is not writable here", scope.provider)));
        };
        let cx = &self.surveyor.cx;
        let limit = provider.info().apply_limit;
        let apply = pin!(provider.apply(cx, batch, journal));
        match select(apply, pin!(cx.clock.sleep(limit))).await {
            Either::Left((result, _)) => result,
            Either::Right((_, apply)) => {
                cx.stop.set();
                match select(apply, pin!(cx.clock.sleep(limit))).await {
                    Either::Left((result, _)) => result,
                    Either::Right(_) => Err(Error::unavailable(format!(
                        "writing to {scope}: no end within {} s",
                        limit.as_secs() * 2
                    ))),
                }
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one private call at the end of a pass that needs all of its parts"
    )]
    async fn report(
        &self,
        scope: &Scope,
        view: &View,
        steps: &[&Step],
        batch: &Batch,
        result: Result<(), Error>,
        ended: Vec<(ActionId, Outcome)>,
        claimed: BTreeSet<Scope>,
        mut conditions: Vec<Condition>,
        adopted: usize,
    ) -> Result<ScopeReport, Error> {
        let by_id: BTreeMap<ActionId, &Step> =
            batch.actions.iter().map(|a| a.id).zip(steps.iter().copied()).collect();
        let mut outcomes: BTreeMap<(&'static str, &'static str), usize> = BTreeMap::new();
        let mut worst: Option<Error> = result.err();
        for (id, outcome) in &ended {
            let Some(step) = by_id.get(id) else { continue };
            *outcomes.entry((step.change.word(), outcome.word())).or_default() += 1;
            if let Outcome::Failed(error) | Outcome::Unknown(error) = outcome {
                conditions.push(failure(step, error));
                // A retryable error decides when to look again; one that stalls does not stop the others.
                if worst.as_ref().is_none_or(|w| w.kind.stalls()) {
                    worst = Some(error.clone());
                }
            }
        }
        // Claims came or went with these outcomes: whoever carries them must look.
        let mut wakes: BTreeSet<Scope> = view.memory.claims_made.iter().map(|c| c.scope.clone()).collect();
        wakes.extend(claimed);
        let any_done = ended.iter().any(|(_, o)| !matches!(o, Outcome::Failed(_) | Outcome::Unknown(_)));
        let report = match worst {
            Some(error) => {
                let mut report = self.failed(scope, &error, conditions);
                if report.state == ScopeState::Stalled && any_done {
                    report.state = ScopeState::DueNow;
                }
                report
            }
            None => {
                self.succeeded(scope);
                ScopeReport {
                    state: ScopeState::DueNow,
                    outcomes: BTreeMap::new(),
                    adopted,
                    settled: 0,
                    conditions,
                    wakes: BTreeSet::new(),
                }
            }
        };
        let mut writes = Vec::new();
        conditions_write(scope, &view.memory.conditions, &report.conditions, &mut writes);
        if !writes.is_empty()
            && let Err(error) = self.store.commit(writes).await
        {
            // What was done and whom it wakes must not be lost with a report about it; the next pass, which
            // is due anyway, writes the conditions again.
            tracing::warn!(scope = %scope, error = %error.chain(), "conditions not recorded");
        }
        Ok(ScopeReport { outcomes, adopted, wakes, ..report })
    }

    /// A scope that could not be looked at: nothing is concluded, it is tried again.
    async fn unseen(&self, scope: &Scope, error: &Error) -> Result<ScopeReport, Error> {
        let report = self.failed(scope, error, Vec::new());
        let known = self.store.scope(scope).await?.conditions;
        let mut writes = Vec::new();
        conditions_write(scope, &known, &report.conditions, &mut writes);
        if !writes.is_empty() {
            self.store.commit(writes).await?;
        }
        Ok(report)
    }

    fn failed(&self, scope: &Scope, error: &Error, mut conditions: Vec<Condition>) -> ScopeReport {
        let now = self.surveyor.cx.clock.now();
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = failures.entry(scope.clone()).or_default();
        let jitter = self.jitter(scope, entry.count);
        let state = match error_policy::next(error, entry, jitter) {
            Next::Stalled => ScopeState::Stalled,
            Next::Now => ScopeState::DueNow,
            Next::Backoff(wait) | Next::AsTold(wait) => ScopeState::DueAt(now + wait),
        };
        let next_try = match state {
            ScopeState::DueAt(at) => Some(at),
            _ => None,
        };
        if conditions.iter().all(|c| c.id.is_some()) && error.kind != ErrorKind::Conflict {
            let kind = if error.kind.stalls() { ConditionKind::Stalled } else { ConditionKind::Waiting };
            conditions.push(Condition {
                id: None,
                address: None,
                kind,
                reason: error.kind.word().into(),
                message: error.chain().into(),
                hint: error.hint.as_deref().map(Arc::from),
                since: Duration::ZERO,
                next_try,
            });
        }
        ScopeReport {
            state,
            outcomes: BTreeMap::new(),
            adopted: 0,
            settled: 0,
            conditions,
            wakes: BTreeSet::new(),
        }
    }

    /// Spreads retries of different scopes and instances; the same on every run of a simulation.
    fn jitter(&self, scope: &Scope, count: u32) -> u8 {
        reconciled_provider::Hash::of(format!("{}{scope}{count}", self.instance).as_bytes()).0[0]
    }

    fn succeeded(&self, scope: &Scope) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(scope);
    }

    /// Starts afresh: a new revision or an operator ends every backoff and every wish to stop.
    pub fn renew(&mut self) {
        self.surveyor.cx.stop = reconciled_provider::Stop::default();
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Remembers that all of `source` was found in sync.
    pub async fn converged(&self, converged: Converged) -> Result<(), Error> {
        if self.store.converged(&converged.source).await?.as_ref() == Some(&converged) {
            return Ok(());
        }
        self.store.commit(vec![Write::Converged(Ok(converged))]).await
    }
}

/// Scopes worked on at once, over all entries.
const WIDTH: usize = 16;

#[derive(Default)]
struct Held {
    held: Vec<Domain>,
    scopes: BTreeSet<Scope>,
}

fn op(step: &Step, memory: &ScopeMemory) -> Op {
    let work = &step.work;
    let tracked = work.was.as_ref().map(|row| row.tracked.clone());
    let delta = work.delta.clone();
    match (&step.change, work.desired.clone(), work.observed.clone()) {
        (Change::Continue, Some(desired), _) => {
            let tracked = tracked
                .unwrap_or_else(|| reconciled_provider::Tracked::new(step.id.clone(), Default::default()));
            let mine = memory.claims_made.iter().filter(|c| c.owner == step.id);
            Op::Continue { desired, tracked, claims: mine.map(claim_state).collect() }
        }
        (Change::Replace, Some(desired), Some(observed)) => Op::Replace { desired, delta, observed, tracked },
        (Change::Update, Some(desired), Some(observed)) => Op::Update { desired, delta, observed, tracked },
        (_, Some(desired), _) => Op::Create { desired, delta },
        (_, None, observed) => {
            let observed = observed.expect("a step without a desired state deletes what was observed");
            Op::Delete { observed, tracked }
        }
    }
}

/// Generations of the manifests behind these steps. A manifest that is gone has none and fences nothing: its
/// source's revision raised no counter for it, and the deletion was planned from that very revision.
fn fence(steps: &[&Step], fences: &BTreeMap<ManifestKey, u64>) -> Vec<(ManifestKey, u64)> {
    let keys: BTreeSet<&ManifestKey> =
        steps.iter().filter_map(|s| s.work.row.as_ref()).map(|row| &row.manifest).collect();
    keys.into_iter().map(|key| (key.clone(), fences.get(key).copied().unwrap_or(0))).collect()
}

/// What changes in memory although nothing is written to the remote.
fn bookkeeping(scope: &Scope, view: &View, window: Duration, now: Duration) -> Vec<Write> {
    let plan = &view.plan;
    let mut rows: Vec<Row> = plan.refreshed.clone();
    let mut gone: Vec<ResourceId> = plan.lapsed.iter().map(|row| row.tracked.id.clone()).collect();
    let mut events = Vec::new();
    for step in &plan.steps {
        match &step.change {
            Change::Adopt => {
                if let (Some(row), Some(observed)) = (&step.work.row, &step.work.observed) {
                    let mut row = row.clone();
                    row.tracked.remote = observed.remote.clone();
                    row.tracked.private = observed.private.clone();
                    row.tracked.outputs = observed.outputs.clone();
                    row.state = RowState::Settled;
                    rows.push(row);
                }
            }
            Change::Forget => gone.push(step.id.clone()),
            Change::Move { .. } => {
                if let Some(row) = &step.work.was {
                    rows.push(Row { address: step.address.clone(), ..row.clone() });
                }
            }
            _ => continue,
        }
        if events.len() < 100 {
            events.push(Event {
                scope: Some(scope.clone()),
                address: Some(step.address.clone()),
                ..event(now, step.change.word(), &label(step), step.change.word())
            });
        }
    }
    // An answered question: the observation shows what became of the call.
    let answered = |open: &&OpenIntent| {
        let id = &open.intent.row.tracked.id;
        let asked =
            plan.steps.iter().any(|s| s.id == *id && matches!(s.blocked, Some(Blocked::Ambiguous(_))));
        // Within the consistency window, "not there" is no answer to whether a create took effect.
        let visible =
            view.seen.get(id).is_some() || &*open.intent.op != "create" || now >= open.started_at + window;
        !asked && visible && view.seen.covered.covers(id) && view.seen.complete
    };
    let endings: Vec<Ending> = view
        .memory
        .open
        .iter()
        .filter(answered)
        .map(|open| Ending { action: open.intent.action, outcome: "observed".into(), error: None })
        .collect();
    // Rows recovered from those intents are not in the store yet.
    let touched: BTreeSet<&ResourceId> = rows.iter().map(|r| &r.tracked.id).chain(&gone).collect();
    let recovered: Vec<Row> = view
        .memory
        .open
        .iter()
        .filter(answered)
        .filter(|open| &*open.intent.op != "delete" && !touched.contains(&open.intent.row.tracked.id))
        .filter_map(|open| {
            let rows = &view.memory.rows;
            rows.binary_search_by(|r| r.tracked.id.cmp(&open.intent.row.tracked.id))
                .ok()
                .map(|i| rows[i].clone())
        })
        .filter(|row| row.state == RowState::Applied)
        .collect();
    rows.extend(recovered);
    let mut writes = Vec::new();
    for (from, id) in &view.memory.moved_away {
        writes.push(Write::Gone(from.clone(), vec![id.clone()]));
    }
    if !rows.is_empty() {
        writes.push(Write::Rows(rows));
    }
    if !plan.settled.is_empty() {
        writes.push(Write::Settled(scope.clone(), plan.settled.clone()));
    }
    if !gone.is_empty() {
        writes.push(Write::Gone(scope.clone(), gone));
    }
    if !endings.is_empty() {
        writes.push(Write::End(endings));
    }
    writes.extend(plan.spent.iter().map(|id| Write::ConsentSpent(scope.clone(), id.clone())));
    claims_synced(view, &mut writes);
    writes.extend(events.into_iter().map(Write::Event));
    writes
}

/// A claim is synced when the resource that carries it is in sync.
fn claims_synced(view: &View, writes: &mut Vec<Write>) {
    for claim in &view.memory.claims_here {
        let unsettled = view.plan.steps.iter().any(|s| s.id == claim.id)
            || view.plan.conditions.iter().any(|c| c.id.as_ref() == Some(&claim.id));
        let synced = !unsettled && view.seen.get(&claim.id).is_some();
        if synced != claim.synced {
            writes.push(Write::ClaimSynced(
                claim.owner_scope.clone(),
                claim.owner.clone(),
                claim.claim.key.clone(),
                synced,
            ));
        }
    }
}

/// Writes conditions only when they changed: a pass that finds nothing new writes nothing.
fn conditions_write(scope: &Scope, before: &[Condition], now: &[Condition], writes: &mut Vec<Write>) {
    let same = |a: &Condition, b: &Condition| {
        (&a.id, a.kind, &a.reason, &a.message) == (&b.id, b.kind, &b.reason, &b.message)
    };
    let unchanged = before.len() == now.len() && now.iter().all(|c| before.iter().any(|b| same(b, c)));
    if !unchanged {
        writes.push(Write::Conditions(scope.clone(), now.to_vec()));
    }
}

fn state_without_actions(view: &View, held: bool, conditions: &[Condition], adopted: bool) -> ScopeState {
    let stalled = conditions.iter().any(|c| c.kind == ConditionKind::Stalled);
    let next = conditions.iter().filter_map(|c| c.next_try).min();
    let guarded = held && view.plan.steps.iter().any(|s| s.change.writes());
    match (next, guarded, stalled) {
        (Some(at), ..) => ScopeState::DueAt(at),
        (None, true, _) => ScopeState::Held,
        (None, false, true) => ScopeState::Stalled,
        (None, false, false) if adopted => ScopeState::DueNow,
        (None, false, false) if conditions.is_empty() => ScopeState::InSync,
        _ => ScopeState::Idle,
    }
}

fn failure(step: &Step, error: &Error) -> Condition {
    Condition {
        id: Some(step.id.clone()),
        address: Some(step.address.clone()),
        kind: if error.kind.stalls() { ConditionKind::Stalled } else { ConditionKind::Waiting },
        reason: error.kind.word().into(),
        message: error.chain().into(),
        hint: error.hint.as_deref().map(Arc::from),
        since: Duration::ZERO,
        next_try: None,
    }
}

fn label(step: &Step) -> Arc<str> {
    step.work.row.as_ref().map_or_else(|| Arc::from(""), |r| r.revision.clone())
}

fn event(at: Duration, kind: &str, revision: &Arc<str>, message: &str) -> Event {
    Event {
        at,
        kind: kind.into(),
        scope: None,
        address: None::<Address>,
        revision: revision.clone(),
        actor: "engine".into(),
        reason: "".into(),
        message: message.into(),
    }
}
