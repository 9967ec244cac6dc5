//! One pass over one scope: bookkeeping, batch, journal, provider.
//!
//! Guarantees: only steps that are neither blocked nor held are sent; intent is durable before the call; a
//! running `apply` is asked to stop before it is given up. It deliberately does not look at the result: the
//! next survey does.

use super::{
    Engine, ScopeReport,
    bookkeeping::bookkeeping,
    ending::{Carried, Noted},
    holds::Leave,
};
use crate::{
    desired::{Desired, Hidden},
    journal::{BatchJournal, Ended, Place},
    plan::{Change, Step},
    store::{ClaimRow, OpenIntent, ScopeMemory, Write, newest, newest_of},
    survey::{Reread, Room, Survey, View},
};
use futures_util::future::{Either, select};
use reconciled_provider::{
    Action, ActionId, Address, Batch, Claim, Cx, Error, ErrorKind, ManifestKey, Observer, Op, Resource,
    ResourceId, Scope, Tracked,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// What comes after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A report; when to look again is decided elsewhere.
    Report,
    /// A look at what was written.
    Look,
}

/// Scopes by their entry.
pub(super) type ScopesOf = BTreeMap<Arc<str>, BTreeSet<Scope>>;

/// What passes are planned from.
pub(super) struct Fences<'a> {
    pub(super) desired: &'a Desired,
    /// The generation of every manifest then.
    pub(super) planned: Arc<BTreeMap<ManifestKey, u64>>,
    /// That of all that each source declares.
    newest: BTreeMap<Arc<str>, u64>,
    /// Who reads after a manifest what that made: it is read again once that was written.
    pub(super) readers: BTreeMap<&'a ManifestKey, BTreeSet<&'a Scope>>,
}

impl<'a> Fences<'a> {
    pub(super) fn of(
        desired: &'a Desired,
        planned: Arc<BTreeMap<ManifestKey, u64>>,
        only_reads: impl Fn(&Resource) -> bool,
    ) -> Fences<'a> {
        let mut mine: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (key, generation) in planned.iter() {
            mine.entry(key.source()).or_default().push(*generation);
        }
        let of_source = |name: &Arc<str>| {
            let generations = mine.get(&**name).map_or(&[][..], Vec::as_slice);
            (name.clone(), newest(generations.iter().copied()))
        };
        let names = desired.sources.keys().filter(|name| !name.is_empty());
        let newest = names.map(of_source).collect();
        let mut readers: BTreeMap<&ManifestKey, BTreeSet<&Scope>> = BTreeMap::new();
        for resource in desired.scopes.values().flat_map(|resources| resources.iter()) {
            let after = desired.after(resource);
            let Some(after) = after.filter(|after| !after.is_empty() && only_reads(resource)) else {
                continue;
            };
            for key in after.iter() {
                readers.entry(key).or_default().insert(&resource.scope);
            }
        }
        Fences { desired, planned, newest, readers }
    }
}

impl Engine {
    /// The generation of every manifest at the time of the plan.
    ///
    /// What a folder without a name changes stays with the source that has it, which was not read.
    pub(super) async fn fences(
        &self,
        desired: &Desired,
        survey: &Survey,
    ) -> Result<Arc<BTreeMap<ManifestKey, u64>>, Error> {
        if let Some(generations) = &desired.generations {
            return Ok(generations.clone());
        }
        let steps = survey.scopes.values().flatten().flat_map(|view| &view.plan.steps);
        let rows = steps.filter_map(|step| step.work.row.as_ref());
        let mut sources: BTreeSet<&str> = rows.map(|row| row.manifest.source()).collect();
        sources.extend(desired.sources.keys().map(|name| &**name));
        let mut all = BTreeMap::new();
        for source in sources {
            all.extend(self.store.generations(source).await?);
        }
        Ok(Arc::new(all))
    }

    /// Where a claim lands, if the source of `owner` may write there and it is known that it belongs there. Where it is `carried`
    /// already it stays while that is not known, and where nobody declares that any more. `scopes` are those that are declared.
    pub(super) fn place(
        &self,
        claim: &Claim,
        owner: Option<&ManifestKey>,
        carried: Option<&Scope>,
        desired: &Desired,
        scopes: &ScopesOf,
    ) -> Result<(Scope, ResourceId), Error> {
        let entry = self.surveyor.entries.get(&claim.provider).ok_or_else(|| {
            Error::invalid(format!("a claim names the entry `{}`, which is not configured", claim.provider))
        })?;
        let none = BTreeSet::new();
        let mine = scopes.get(&claim.provider).unwrap_or(&none);
        let source = owner.map(ManifestKey::source);
        let (scope, id) = known_place(&*entry.observer, claim, source, carried, &desired.hidden, mine)?;
        let Some(source) = source else { return Ok((scope, id)) };
        let Some(state) = desired.sources.get(source) else { return Ok((scope, id)) };
        // As whoever declares that scope would call it.
        let meta = desired.in_scope(&scope).first().map(|resource| desired.manifest(resource.origin));
        let (address, group) = match (meta, owner) {
            (Some(meta), _) => (meta.address.clone(), meta.key.group()),
            // It was allowed when somebody declared the scope.
            (None, _) if carried == Some(&scope) => return Ok((scope, id)),
            (None, Some(owner)) => (Address::of(owner, None), owner.group()),
            (None, None) => return Ok((scope, id)),
        };
        let address = Address { part: entry.observer.part(&scope, &id), ..address };
        if state.reach.covers(&scope, &address, group) {
            return Ok((scope, id));
        }
        let text =
            format!("source `{source}` may not write {id} in {scope}, which it needs there for a time");
        Err(Error::new(ErrorKind::PermissionDenied, text)
            .hint("the host allows this under `allow` of the source; ask its operator"))
    }

    /// One scope: bookkeeping, then the batch.
    pub(super) async fn pass(
        &self,
        scope: &Scope,
        view: View,
        leave: Leave,
        fences: &Fences<'_>,
        place: Place<'_>,
        next: Next,
    ) -> Result<ScopeReport, Error> {
        let now = self.surveyor.cx.clock.now();
        let held = leave.is_held();
        let actionable: Vec<&Step> = view
            .plan
            .steps
            .iter()
            .filter(|s| s.change.writes() && s.blocked.is_none() && !(held && s.waits_for_consent()))
            .collect();
        let mut conditions = view.plan.conditions.clone();
        let actionable = self.ledger().without_flapping(scope, actionable, &mut conditions);
        let mut settled = view.plan.settled.len() + view.plan.refreshed.len() + view.plan.lapsed.len();
        let adopted = view
            .plan
            .steps
            .iter()
            .filter(|s| s.change == Change::Adopt && s.blocked.is_none() && !held)
            .count();
        let batch = self.batch(scope, &view, &actionable);
        let window = self.surveyor.entries[&scope.provider].observer.info().consistency_window;
        let (mut writes, found) = bookkeeping(scope, &view, held, window, now);
        let has_news = self.fared(scope, &view, &fences.planned, &mut writes);
        // Who waits until this is healthy is looked at again.
        settled += usize::from(has_news);
        let wakes = wakes(scope, &view, &writes);
        let mut noted = Noted { adopted, settled, outcomes: found, wakes };
        if batch.actions.is_empty() {
            return self.report_unsent(scope, &view, held, conditions, noted, writes).await;
        }
        if !writes.is_empty() {
            self.store.commit(writes).await?;
        }
        let fence = fence(scope, &actionable, fences);
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
            claims: &view.memory.claims_made,
            lacks_place: AtomicBool::default(),
            consented: leave.consented(),
            ended: Mutex::default(),
            unwritten: Mutex::default(),
            is_seen_at_once: window.is_zero(),
            foreseen: Mutex::default(),
            reread: self.rereads(scope, next).then(|| Reread::new(&self.surveyor)),
            span: tracing::Span::current(),
            spans: Mutex::default(),
        };
        let result = self.apply(scope, &batch, &journal).await;
        let carried = Carried::of(journal, result);
        noted.wakes.extend(self.read_again(&carried, fences).await);
        let claimed = carried.ended.iter().filter_map(|(_, outcome)| match outcome {
            Ended::Pending(claims) => Some(claims),
            _ => None,
        });
        let claimed = claimed.flatten().filter_map(|claim| place(claim, None, None).ok());
        noted.wakes.extend(claimed.map(|(scope, _)| scope));
        self.report(scope, &view, carried, conditions, noted).await
    }

    /// The scopes of what reads what was written just now. What is remembered of them stands no longer.
    async fn read_again(&self, carried: &Carried<'_>, fences: &Fences<'_>) -> Vec<Scope> {
        if fences.readers.is_empty() {
            return Vec::new();
        }
        let had_effect = carried.ended.iter().filter(|(_, outcome)| !matches!(outcome, Ended::Failed(_)));
        let written = had_effect.filter_map(|(id, _)| carried.steps.get(id));
        let rows = written.filter_map(|step| step.work.row.as_ref());
        let readers = rows.filter_map(|row| fences.readers.get(&row.manifest)).flatten();
        let readers: BTreeSet<&Scope> = readers.copied().collect();
        let writes: Vec<Write> = readers.iter().map(|scope| Write::Version((*scope).clone(), None)).collect();
        if !writes.is_empty()
            && let Err(error) = self.store.commit(writes).await
        {
            // What was done must not be lost with that: it is read again at the next resync.
            tracing::warn!(error = %error.chain(), "not noted what is to be read again");
        }
        readers.into_iter().cloned().collect()
    }

    fn rereads(&self, scope: &Scope, next: Next) -> bool {
        next == Next::Look && self.surveyor.entries[&scope.provider].observer.info().reads_ahead
    }

    fn batch(&self, scope: &Scope, view: &View, steps: &[&Step]) -> Batch {
        let mut open: BTreeMap<&ResourceId, Vec<&OpenIntent>> = BTreeMap::new();
        for intent in &view.memory.open {
            open.entry(&intent.intent.row.tracked.id).or_default().push(intent);
        }
        let actions = steps.iter().map(|step| {
            let number = self.actions.fetch_add(1, Ordering::Relaxed);
            // Epochs never repeat within the life of a database, so neither do ids.
            let id = ActionId((self.store.epoch() << 32) | number);
            let after = step.work.desired.as_ref().and_then(|d| d.spec.hash());
            // A replacement that lost its answer half way goes on as a create: the same request to the remote.
            let makes_anew = matches!(step.change, Change::Create | Change::Replace);
            let same = |o: &&&OpenIntent| {
                (*o.intent.op == *step.change.word() || makes_anew && o.intent.makes_anew())
                    && o.intent.after == after
            };
            let token = match open.get(&step.id).and_then(|mine| mine.iter().rev().find(same)) {
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
        // A wish of its own: one apply past its limit stops itself, not everything that shares the context.
        let cx = Cx { stop: self.surveyor.cx.stop.child(), ..self.surveyor.cx.clone() };
        let most = provider.info().concurrency;
        let seat = pin!(self.surveyor.rooms.enter(&scope.provider, Room::Writes, most));
        // Nothing was begun yet.
        let Either::Left((_seat, _)) = select(seat, pin!(cx.stop.wished())).await else { return Ok(()) };
        let _under_way = self.surveyor.calls.begin(batch.actions.iter().map(|action| action.id));
        let limit = provider.info().apply_limit;
        let apply = pin!(provider.apply(&cx, batch, journal));
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
}

/// The scopes that have to be looked at because of what is written down of this one.
fn wakes(scope: &Scope, view: &View, writes: &[Write]) -> BTreeSet<Scope> {
    let mut wakes = BTreeSet::new();
    for write in writes {
        match write {
            Write::ClaimSynced(owner, ..) => drop(wakes.insert(owner.clone())),
            // What they claimed goes with them: whoever carries it must look.
            Write::Gone(from, ids) if from == scope => {
                let theirs = view.memory.claims_made.iter().filter(|claim| ids.contains(&claim.owner));
                wakes.extend(theirs.map(|claim| claim.scope.clone()));
            }
            _ => {}
        }
    }
    wakes
}

/// Where a claim lands among the scopes of its entry that are declared, unless one may be `hidden` that would take it from there, or
/// `source` has one for other hosts: in a scope around that nobody would find it. What is in such a one stays in it: it was known to
/// belong there.
fn known_place(
    observer: &dyn Observer,
    claim: &Claim,
    source: Option<&str>,
    carried: Option<&Scope>,
    hidden: &Hidden,
    scopes: &BTreeSet<Scope>,
) -> Result<(Scope, ResourceId), Error> {
    let placed = observer.place(claim, scopes);
    // Whoever claims it goes on with what is there, and gives that back in the end.
    if placed.is_err()
        && let Some(carried) = carried
        && let Ok(there) = observer.place(claim, &BTreeSet::from([carried.clone()]))
    {
        return Ok(there);
    }
    let scope = placed.as_ref().ok().map(|(scope, _)| scope);
    if scope.is_some() && scope == carried {
        return placed;
    }
    let rather = observer.would_carry(claim, scope);
    let found = |by: &dyn Fn(&str, &str) -> Option<String>| -> Vec<(Scope, String)> {
        let one = |(kind, name): &(&'static str, String)| {
            Some((Scope::new(claim.provider.clone(), name.as_str()), by(kind, name)?))
        };
        rather.iter().filter_map(one).collect()
    };
    let hiding = found(&|kind, name| hidden.by(&claim.provider, kind, name));
    let for_others = found(&|kind, name| hidden.for_others(source?, &claim.provider, kind, name));
    if let Some(carried) = carried
        && hiding.iter().chain(&for_others).any(|(scope, _)| scope == carried)
    {
        return observer.place(claim, &BTreeSet::from([carried.clone()]));
    }
    match (hiding.into_iter().next(), placed) {
        (Some((scope, by)), Ok(_)) => Err(not_known(&scope, &by)),
        // Which of many it may be says less than that there is none.
        (Some((_, by)), Err(mut error)) => {
            error.message += &format!(", unless it is declared in {by}");
            Err(error)
        }
        (None, placed) => match (for_others.into_iter().next_back(), placed) {
            (None, placed) => placed,
            (Some((scope, by)), Ok(_)) => {
                let text = format!("what is needed for a time belongs into {scope}: {by}");
                Err(Error::invalid(text).hint(FOR_OTHERS))
            }
            (Some((_, by)), Err(mut error)) => {
                error.message += &format!("; {by}");
                Err(error.hint(FOR_OTHERS))
            }
        },
    }
}

/// What to do where a manifest is for other hosts than the one that claims something of it.
const FOR_OTHERS: &str = "let both be for one host: `reconciled/hosts` of a manifest says for which it is";

/// What a claim waits for that may belong into `scope`.
fn not_known(scope: &Scope, by: &str) -> Error {
    let text = format!("what is needed for a time may belong into {scope}, which may be declared in {by}");
    Error::invalid(text).hint("mend that first: `reconciled status` says what is wrong")
}

fn op(step: &Step, memory: &ScopeMemory) -> Op {
    let work = &step.work;
    let tracked = work.was.as_ref().map(|row| Box::new(row.tracked.clone()));
    let delta = work.delta.clone();
    match (&step.change, work.desired.clone(), work.observed.clone()) {
        (Change::Continue, Some(desired), observed) => {
            let tracked = tracked.unwrap_or_else(|| Tracked::new(step.id.clone(), Default::default()).into());
            let mine = memory.claims_made.iter().filter(|c| c.owner == step.id);
            Op::Continue { desired, tracked, observed, claims: mine.map(ClaimRow::state).collect() }
        }
        (Change::Replace, Some(desired), Some(observed)) => Op::Replace { desired, delta, observed, tracked },
        (Change::Update | Change::EndFormer | Change::Abandon, Some(desired), Some(observed)) => {
            Op::Update { desired, delta, observed, tracked }
        }
        (_, Some(desired), _) => Op::Create { desired, delta },
        (_, None, observed) => {
            let observed = observed.expect("a step without a desired state deletes what was observed");
            Op::Delete { observed, tracked }
        }
    }
}

/// Generations of what these steps were planned from. A manifest that is gone has none: it fences nothing unless it is there
/// again. What deletes is planned from what nobody declares, so it is fenced by all that is declared.
fn fence(scope: &Scope, steps: &[&Step], fences: &Fences<'_>) -> Vec<(ManifestKey, u64)> {
    let Fences { desired, planned, newest, .. } = fences;
    let rows = steps.iter().filter_map(|step| step.work.row.as_ref().or(step.work.was.as_ref()));
    let mut keys: BTreeSet<ManifestKey> = rows.map(|row| row.manifest.clone()).collect();
    let is_loss = |step: &&&Step| matches!(step.change, Change::Delete) || step.work.row.is_none();
    let has_losses = steps.iter().any(|step| is_loss(&step));
    if has_losses {
        // Whoever wants the scope for itself may want that no longer.
        let exclusive = desired.exclusive.get(scope).into_iter().flatten();
        keys.extend(exclusive.map(|index| desired.manifests[*index as usize].key.clone()));
    }
    let mut fence: Vec<(ManifestKey, u64)> = keys
        .into_iter()
        .map(|key| {
            let planned = planned.get(&key).copied().unwrap_or(0);
            (key, planned)
        })
        .collect();
    if has_losses {
        fence.extend(newest.iter().map(|(source, generation)| (newest_of(source), *generation)));
    }
    fence
}
