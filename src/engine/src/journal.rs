//! The engine's side of [`reconciled_provider::Journal`]: intent durable before the call, outcome after.
//!
//! Invariant: nothing is sent before `started` returned `Ok`. `started` fails with `Conflict` when a newer
//! declaration came into force or another process became the writer, so a stale plan writes nothing.
//! The journal is evidence, never a work list: the next pass plans anew from observation.

mod ended;
mod part;

pub(crate) use ended::Ended;

use crate::{
    drift,
    plan::{Change, Reason, Step, digest},
    store::{ClaimRow, Consent, Ending, Event, Intent, Row, RowState, Store, Write},
    survey::Reread,
    telemetry,
};
use async_trait::async_trait;
use futures_util::future::join;
use part::{back, half};
use reconciled_provider::{
    ActionId, Claim, Clock, Error, Hash, Journal, Lives, ManifestKey, Outcome, ResourceId, Scope, Tracked,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};
use tracing::Span;

/// Where a claim lands: asked with the manifest that claims it, and with the scope that carries it already, if one does. Provided by the
/// engine, which knows every entry. Fails where the manifest's source may not write, or no scope is known to be the right one.
pub(crate) type Place<'a> = &'a (
        dyn Fn(&Claim, Option<&ManifestKey>, Option<&Scope>) -> Result<(Scope, ResourceId), Error>
            + Send
            + Sync
    );

/// The journal of one batch.
pub(crate) struct BatchJournal<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) scope: &'a Scope,
    pub(crate) steps: BTreeMap<ActionId, (&'a Step, Arc<str>)>,
    pub(crate) fence: Vec<(ManifestKey, u64)>,
    pub(crate) place: Place<'a>,
    /// Claims that resources of the scope made before.
    pub(crate) claims: &'a [ClaimRow],
    /// A claim found no place.
    pub(crate) lacks_place: AtomicBool,
    /// The plan that a person consented to, where that was needed.
    pub(crate) consented: Option<Hash>,
    pub(crate) ended: Mutex<Vec<(ActionId, Ended)>>,
    /// Why something could not be written down.
    pub(crate) unwritten: Mutex<Option<Error>>,
    /// A read shows at once what was written: rows may say that they were a moment before they were.
    pub(crate) is_seen_at_once: bool,
    /// What would be written down of outcomes that are foreseen.
    pub(crate) foreseen: Mutex<Option<Foreseen>>,
    /// Reads the scope while the last outcomes are noted down.
    pub(crate) reread: Option<Reread<'a>>,
    /// The span of the scope: a provider calls from within spans of its own.
    pub(crate) span: Span,
    /// Spans of actions under way.
    pub(crate) spans: Mutex<BTreeMap<ActionId, Span>>,
}

impl BatchJournal<'_> {
    async fn commit(&self, writes: Vec<Write>) -> Result<(), Error> {
        let result = self.store.commit(writes).await;
        if let Err(error) = &result {
            *self.unwritten.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
        result
    }

    fn step(&self, action: ActionId) -> Result<&(&Step, Arc<str>), Error> {
        self.steps.get(&action).ok_or_else(|| {
            Error::unexpected(format!("the provider named action {} of another batch", action.0))
        })
    }

    /// Opens the spans of `actions`, as far as the batch may have any.
    fn open_spans(&self, actions: &[ActionId]) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let left = telemetry::ACTIONS.saturating_sub(spans.len());
        for action in actions.iter().take(left) {
            let Some((step, _)) = self.steps.get(action) else { continue };
            let (op, resource) = (step.change.word(), &step.address);
            let span = tracing::info_span!(
                parent: &self.span,
                telemetry::ACTION,
                op,
                %resource,
                error = tracing::field::Empty
            );
            spans.insert(*action, span);
        }
    }

    fn close_spans(&self, all: &[(ActionId, Ended)]) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        for (action, ended) in all {
            let Some(span) = spans.get_mut(action) else { continue };
            if let Some(error) = ended.error() {
                span.record("error", error.kind.word());
            }
            // It stays in the map, disabled: it counts for the batch.
            *span = Span::none();
        }
    }

    fn intent<'s>(&'s self, action: ActionId, words: &mut Words<'s>) -> Result<Intent, Error> {
        let (step, token) = self.step(action)?;
        let row = step.work.row.clone().or_else(|| step.work.was.clone());
        Ok(Intent {
            action,
            op: words.word(step.change.word()),
            token: token.clone(),
            row: row.unwrap_or_else(|| placeholder(self.scope, step).into()),
            before: step.before,
            after: step.work.desired.as_ref().and_then(|d| d.spec.hash()),
            reason: words.reason(&step.reason),
            // The rest goes on without consent, also where some was given.
            consented: self.consented.filter(|_| step.is_guarded()),
        })
    }

    /// The row after an outcome: the provider's memory, our bookkeeping.
    fn row(&self, step: &Step, tracked: Tracked, state: RowState, written_at: Duration) -> Option<Row> {
        let row = step.work.row.as_ref()?;
        // Of the declaration, of which what is ignored is not written.
        let applied = row.tracked.applied;
        let private = if row.merge { row.tracked.private.clone() } else { tracked.private.clone() };
        let tracked =
            Tracked { private, applied, after: row.tracked.after.clone(), id: step.id.clone(), ..tracked };
        let mut row = Row { known: row.known.clone(), state, written_at };
        row.track(tracked);
        Some(row)
    }

    fn outcome(
        &self,
        step: &Step,
        outcome: &Outcome,
        now: Duration,
        writes: &mut Writes,
    ) -> Result<(), Error> {
        match outcome {
            Outcome::Done(tracked) => match self.row(step, tracked.clone(), RowState::Applied, now) {
                Some(row) => {
                    writes.rows.push(row);
                    self.claims(step, outcome, writes)?;
                }
                None => {
                    writes.gone.push(step.id.clone());
                    // For as long as a read may still show our mark, that says nothing.
                    writes.let_go.extend((step.change == Change::Abandon).then(|| step.id.clone()));
                }
            },
            Outcome::Gone => {
                writes.gone.push(step.id.clone());
                self.claims(step, outcome, writes)?;
            }
            Outcome::Pending { tracked, recheck_after, .. } => {
                let state = RowState::Pending { recheck_at: now + *recheck_after };
                writes.rows.extend(self.row(step, tracked.clone(), state, now));
                self.claims(step, outcome, writes)?;
            }
            Outcome::Partial(tracked, _) => {
                writes.rows.extend(
                    self.row(step, tracked.clone(), RowState::Applied, now).map(|row| half(step, row)),
                );
            }
            Outcome::Back(tracked, _) => {
                let row = self.row(step, tracked.clone(), RowState::Applied, now);
                writes.rows.extend(row.map(|row| back(step, row)));
            }
            Outcome::Failed(_) | Outcome::Unknown(_) => {}
        }
        Ok(())
    }

    fn placed(
        &self,
        claim: &Claim,
        owner: Option<&ManifestKey>,
        carried: Option<&Scope>,
    ) -> Result<(Scope, ResourceId), Error> {
        let placed = (self.place)(claim, owner, carried);
        if placed.is_err() {
            self.lacks_place.store(true, Ordering::Relaxed);
        }
        placed
    }

    /// The claims of the resource after this outcome, committed with it.
    ///
    /// `Done` ends the claims made while pending; those made for as long as the resource is tracked stay.
    fn claims(&self, step: &Step, outcome: &Outcome, writes: &mut Writes) -> Result<(), Error> {
        let made = match outcome {
            Outcome::Pending { claims, .. } => &claims[..],
            _ => &[],
        };
        let (is_done, gone) = (matches!(outcome, Outcome::Done(_)), matches!(outcome, Outcome::Gone));
        let stays = |claim: &&ClaimRow| claim.owner == step.id && claim.claim.lives == Lives::WhileTracked;
        let mut rows: Vec<ClaimRow> = match is_done {
            true => self.claims.iter().filter(stays).cloned().collect(),
            false => Vec::new(),
        };
        let manifest = step.work.row.as_ref().map(|row| &row.manifest);
        for claim in made {
            let is_same = |row: &&ClaimRow| row.owner == step.id && row.claim.key == claim.key;
            let carried = self.claims.iter().find(is_same).map(|row| &row.scope);
            let (scope, id) = self.placed(claim, manifest, carried)?;
            rows.push(ClaimRow {
                owner_scope: self.scope.clone(),
                owner: step.id.clone(),
                claim: claim.clone(),
                scope,
                id,
                synced: false,
            });
        }
        let may_have_any =
            step.work.was.as_ref().is_some_and(|r| matches!(r.state, RowState::Pending { .. }))
                || step.change == Change::Continue;
        if !rows.is_empty() || may_have_any || gone {
            writes.claims.push((step.id.clone(), rows));
        }
        Ok(())
    }
}

/// Texts that neighbours mostly share: of thousands of steps they are made once.
#[derive(Default)]
struct Words<'s> {
    word: Option<Arc<str>>,
    reason: Option<(&'s Reason, Arc<str>)>,
}

impl<'s> Words<'s> {
    fn word(&mut self, text: &str) -> Arc<str> {
        match &self.word {
            Some(last) if **last == *text => last.clone(),
            _ => self.word.insert(text.into()).clone(),
        }
    }

    fn reason(&mut self, reason: &'s Reason) -> Arc<str> {
        match &self.reason {
            Some((last, text)) if *last == reason => text.clone(),
            _ => self.reason.insert((reason, reason.to_string().into())).1.clone(),
        }
    }
}

/// A foreign resource that goes from an exclusive scope has no row; its intent still names what it was.
fn placeholder(scope: &Scope, step: &Step) -> Row {
    let manifest = ManifestKey::new("", "", "Foreign", "", &step.id.0);
    Row::settled(scope.clone(), &step.id.0, manifest).with(|row| {
        row.tracked.applied = step.before.unwrap_or_default();
        row.address = step.address.clone();
    })
}

fn goes_well((_, outcome): &(ActionId, Outcome)) -> bool {
    matches!(outcome, Outcome::Done(_) | Outcome::Gone)
}

/// What follows from outcomes that may come. What they are can be told from it, so that many of them are not kept twice.
pub(crate) struct Foreseen {
    rows: Arc<Vec<Row>>,
    /// All but the rows.
    rest: Writes,
    /// What the rows say of when they were written.
    at: Duration,
}

/// For so long it is no matter which side of a call a row says that it was written on: caches of others are counted from then.
const MOMENT: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Writes {
    rows: Vec<Row>,
    gone: Vec<ResourceId>,
    let_go: Vec<ResourceId>,
    claims: Vec<(ResourceId, Vec<ClaimRow>)>,
}

#[async_trait]
impl Journal for BatchJournal<'_> {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        // Collected into a result it would grow step by step.
        let (mut intents, mut words) = (Vec::with_capacity(actions.len()), Words::default());
        for action in actions {
            intents.push(self.intent(*action, &mut words)?);
        }
        // From here on nobody may conclude from the commit alone that everything is in sync.
        let sources: BTreeSet<Arc<str>> = intents.iter().map(|i| i.row.manifest.source().into()).collect();
        let start = Write::Start {
            scope: self.scope.clone(),
            intents,
            fence: self.fence.clone(),
            at: self.clock.now(),
        };
        let mut writes = vec![start, Write::Version(self.scope.clone(), None)];
        // With the intent, so that a crash leaves both or none.
        let steps = actions.iter().filter_map(|a| Some((*a, self.steps.get(a)?.0)));
        writes.extend(drift::healing(self.scope, steps, self.clock.now()));
        writes.extend(sources.into_iter().map(|source| Write::Converged(Err(source))));
        self.commit(writes).await?;
        self.open_spans(actions);
        Ok(())
    }

    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error> {
        let (step, _) = self.step(action)?;
        let now = self.clock.now();
        let row = self.row(step, tracked, RowState::Pending { recheck_at: now }, now);
        self.commit(vec![Write::Rows(Arc::new(row.into_iter().collect()))]).await
    }

    async fn foreseen(&self, outcomes: &[(ActionId, Outcome)]) {
        if !self.is_seen_at_once || !outcomes.iter().all(goes_well) {
            return;
        }
        let at = self.clock.now();
        // What cannot be put together is told as an error where it is needed.
        let Ok(mut writes) = self.follow(outcomes, at).await else { return };
        let rows = Arc::new(mem::take(&mut writes.rows));
        self.store.foresee(rows.clone());
        let foreseen = Foreseen { rows, rest: writes, at };
        *self.foreseen.lock().unwrap_or_else(PoisonError::into_inner) = Some(foreseen);
    }

    fn has_place(&self, action: ActionId, claims: &[Claim]) -> Result<(), Error> {
        let owner = self.step(action)?.0.work.row.as_ref().map(|row| &row.manifest);
        claims.iter().try_for_each(|claim| self.placed(claim, owner, None).map(drop))
    }

    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        let reread = self.reread.as_ref().filter(|_| self.is_over(&outcomes));
        let commit = async {
            let writes = self.writes(&outcomes).await?;
            // What is remembered of many thousand is not needed while they are written: to collect them would keep its room.
            let mut ended = Vec::with_capacity(outcomes.len());
            ended.extend(outcomes.into_iter().map(|(action, outcome)| (action, Ended::from(outcome))));
            self.commit(writes).await?;
            self.close_spans(&ended);
            let mut all = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            match all.is_empty() {
                // Most batches end at once.
                true => *all = ended,
                false => all.extend(ended),
            }
            Ok(())
        };
        match reread {
            // A listing takes about as long as the commit, and neither has to wait for the other.
            Some(reread) => join(reread.look(self.scope), commit).await.1,
            None => commit.await,
        }
    }
}

/// After so many outcomes whoever waits for an answer gets a turn.
const TURN: usize = 500;

impl BatchJournal<'_> {
    /// What follows from these outcomes for rows and claims.
    async fn follow(&self, outcomes: &[(ActionId, Outcome)], now: Duration) -> Result<Writes, Error> {
        let mut writes = Writes { rows: Vec::with_capacity(outcomes.len()), ..Writes::default() };
        for some in outcomes.chunks(TURN) {
            for (action, outcome) in some {
                self.outcome(self.step(*action)?.0, outcome, now, &mut writes)?;
            }
            if outcomes.len() > TURN {
                give_way().await;
            }
        }
        Ok(writes)
    }

    /// True when it all came so, and soon: each outcome is the one that the next row, or the next of what is gone, follows from.
    fn came(&self, foreseen: &Foreseen, outcomes: &[(ActionId, Outcome)], now: Duration) -> bool {
        let (mut rows, mut gone) = (foreseen.rows.iter(), foreseen.rest.gone.iter());
        let is_so = |(action, outcome): &(ActionId, Outcome)| {
            let Ok((step, _)) = self.step(*action) else { return false };
            match (outcome, &step.work.row) {
                (Outcome::Done(tracked), Some(row)) => rows.next().is_some_and(|foreseen| {
                    let Tracked { id, remote, private, outputs, .. } = &foreseen.tracked;
                    *id == step.id
                        && *remote == tracked.remote
                        && *outputs == tracked.outputs
                        && (row.merge || *private == tracked.private)
                }),
                (Outcome::Gone, _) => gone.next() == Some(&step.id),
                _ => false,
            }
        };
        let is_soon = now.checked_sub(foreseen.at).is_some_and(|since| since <= MOMENT);
        is_soon && outcomes.iter().all(is_so) && rows.next().is_none() && gone.next().is_none()
    }

    /// What is written down of these outcomes.
    async fn writes(&self, outcomes: &[(ActionId, Outcome)]) -> Result<Vec<Write>, Error> {
        let foreseen = self.foreseen.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One time for all of them: what was answered together was written together.
        let now = self.clock.now();
        let (rows, writes) = match foreseen.filter(|foreseen| self.came(foreseen, outcomes, now)) {
            Some(foreseen) => (foreseen.rows, foreseen.rest),
            None => {
                let mut writes = self.follow(outcomes, now).await?;
                (Arc::new(mem::take(&mut writes.rows)), writes)
            }
        };
        let (mut endings, mut words) = (Vec::with_capacity(outcomes.len()), Words::default());
        let mut events = Vec::new();
        for some in outcomes.chunks(TURN) {
            for (action, outcome) in some {
                let (step, _) = self.step(*action)?;
                let error = outcome.error().map(|error| Arc::from(error.chain()));
                if outcomes.len() <= EVENTS_APIECE {
                    events.push(self.event(step, outcome, error.clone()));
                }
                endings.push(Ending { action: *action, outcome: words.word(outcome.word()), error });
            }
            if outcomes.len() > TURN {
                give_way().await;
            }
        }
        if outcomes.len() > EVENTS_APIECE {
            events.push(self.summary(outcomes));
        }
        let mut all = vec![Write::End(endings)];
        if !rows.is_empty() {
            all.push(Write::Rows(rows));
        }
        if !writes.gone.is_empty() {
            all.push(Write::Gone(self.scope.clone(), writes.gone));
        }
        let let_go = |id| Write::Consent(self.scope.clone(), id, Consent::LetGo);
        all.extend(writes.let_go.into_iter().map(let_go));
        all.extend(writes.claims.into_iter().map(|(id, rows)| Write::Claims(self.scope.clone(), id, rows)));
        // What was done is no part any more of what was consented to, whoever makes it again.
        if let Some(digest) = self.consented {
            let is_done = |outcome: &Outcome| matches!(outcome, Outcome::Done(_) | Outcome::Gone);
            let done = outcomes.iter().filter(|(_, outcome)| is_done(outcome));
            let steps = done.filter_map(|(action, _)| Some(self.steps.get(action)?.0));
            let done: Vec<Hash> = steps
                .filter(|step| step.is_guarded())
                .map(|step| digest::of_step(self.scope, step))
                .collect();
            if !done.is_empty() {
                all.push(Write::StepsOver(digest, self.scope.clone(), done));
            }
        }
        let failed =
            outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_) | Outcome::Back(..)));
        let failed = failed.filter_map(|(action, _)| Some(self.steps.get(action)?.0));
        all.extend(drift::failed(self.scope, failed));
        all.extend(events.into_iter().map(Write::Event));
        Ok(all)
    }
}

/// Lets others in the same task go on first.
async fn give_way() {
    let mut has_waited = false;
    poll_fn(|cx| match mem::replace(&mut has_waited, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

impl BatchJournal<'_> {
    /// True when nothing of the batch is under way after these outcomes, which went well.
    fn is_over(&self, last: &[(ActionId, Outcome)]) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).len();
        ended + last.len() == self.steps.len() && last.iter().all(goes_well)
    }
}

/// Up to this many actions of one group are an event each; a larger group is one event, and the journal
/// still names every action.
const EVENTS_APIECE: usize = 100;

impl BatchJournal<'_> {
    fn event(&self, step: &Step, outcome: &Outcome, error: Option<Arc<str>>) -> Event {
        let message = match (&error, outcome) {
            (Some(error), _) => format!("{} {}: {error}", step.change.word(), outcome.word()),
            (None, _) => format!("{} {}", step.change.word(), outcome.word()),
        };
        Event {
            at: self.clock.now(),
            kind: step.change.word().into(),
            scope: Some(self.scope.clone()),
            address: Some(step.address.clone()),
            revision: step.work.row.as_ref().map_or_else(|| Arc::from(""), |r| r.revision.clone()),
            actor: "engine".into(),
            reason: step.reason.to_string().into(),
            message: message.into(),
        }
    }

    fn summary(&self, outcomes: &[(ActionId, Outcome)]) -> Event {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, outcome) in outcomes {
            *counts.entry(outcome.word()).or_default() += 1;
        }
        let words: Vec<_> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let first = outcomes.first().and_then(|(a, _)| self.steps.get(a));
        Event {
            at: self.clock.now(),
            kind: "batch".into(),
            scope: Some(self.scope.clone()),
            address: None,
            revision: first
                .and_then(|(s, _)| s.work.row.as_ref())
                .map_or_else(|| Arc::from(""), |r| r.revision.clone()),
            actor: "engine".into(),
            reason: first.map_or_else(String::new, |(s, _)| s.reason.to_string()).into(),
            message: format!("{} actions: {}", outcomes.len(), words.join(", ")).into(),
        }
    }
}
