//! What changes in memory although nothing is written to the remote: adopted, forgotten and moved rows, answers
//! to open intents, claims that came true.
//!
//! Guarantees: pure; a pass that finds nothing new yields no write. It deliberately records no outcome of a
//! call: that is the journal's.

use crate::{
    drift,
    health::HealthState,
    plan::{Blocked, Change, Step, exclusive},
    store::{Ailment, Consent, Ending, Event, MovedAway, OpenIntent, Row, RowState, Write},
    survey::View,
};
use reconciled_provider::{ActionId, Address, Owner, ResourceId, Scope, Tracked};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Calls without an answer that turn out to have taken effect, by change, with the outcome `observed`.
pub(super) type FoundDone = BTreeMap<(&'static str, &'static str), usize>;

/// Most steps of a pass that the audit trail tells of one by one.
const TOLD: usize = 100;

/// What changes in memory although nothing is written to the remote.
pub(super) fn bookkeeping(
    scope: &Scope,
    view: &View,
    held: bool,
    window: Duration,
    now: Duration,
) -> (Vec<Write>, FoundDone) {
    let mut book = Book::of(scope, view, now);
    for step in &view.plan.steps {
        book.step(step, held);
    }
    let answered = answered(view, window, now);
    for open in &answered {
        book.answer(open);
    }
    book.recover(&answered);
    book.close(held)
}

/// What is to be remembered otherwise of one scope.
struct Book<'a> {
    scope: &'a Scope,
    view: &'a View,
    now: Duration,
    rows: Vec<Row>,
    gone: Vec<ResourceId>,
    let_go: Vec<&'a ResourceId>,
    endings: Vec<Ending>,
    found: FoundDone,
    events: Vec<Event>,
}

impl<'a> Book<'a> {
    /// With what the plan says by itself.
    fn of(scope: &'a Scope, view: &'a View, now: Duration) -> Book<'a> {
        let plan = &view.plan;
        Book {
            scope,
            view,
            now,
            rows: plan.refreshed.clone(),
            gone: plan.lapsed.iter().map(|row| row.tracked.id.clone()).collect(),
            let_go: plan.let_go.iter().collect(),
            endings: Vec::new(),
            found: FoundDone::new(),
            events: Vec::new(),
        }
    }

    /// A step that writes nothing.
    fn step(&mut self, step: &'a Step, held: bool) {
        let view = self.view;
        match &step.change {
            // What a commit takes over or lets go waits with all else of that commit.
            Change::Adopt | Change::Forget if held || step.blocked.is_some() => return,
            Change::Adopt => self.rows.extend(adopted(step)),
            Change::Forget => {
                self.gone.push(step.id.clone());
                let leaves =
                    |open: &OpenIntent| open.intent.leaves() && open.intent.row.tracked.id == step.id;
                // Where our mark was taken away without an answer, a read may show it once more.
                if is_ours(view, &step.id) || view.memory.open.iter().any(leaves) {
                    self.let_go.push(&step.id);
                }
            }
            Change::Move { .. } => {
                // Where it was refreshed, that row has all of it: the manifest that declares it now, and its policy.
                let is_refreshed = view.plan.refreshed.iter().any(|row| row.tracked.id == step.id);
                if let (Some(was), Some(row), false) = (&step.work.was, &step.work.row, is_refreshed) {
                    self.rows.push(Row::clone(was).with(|moved| {
                        (moved.address, moved.formerly) = (row.address.clone(), row.formerly.clone());
                    }));
                }
            }
            _ => return,
        }
        if self.events.len() < TOLD {
            self.events.push(Event {
                scope: Some(self.scope.clone()),
                address: Some(step.address.clone()),
                ..event(self.now, step.change.word(), &label(step), step.change.word())
            });
        }
    }

    /// An answered question: the observation shows what became of the call.
    fn answer(&mut self, open: &OpenIntent) {
        let (view, intent) = (self.view, &open.intent);
        let id = &intent.row.tracked.id;
        let after = view.seen.get(id).map(|observed| observed.hash);
        let word = ["create", "update", "replace", "delete", "abandon"]
            .into_iter()
            .find(|word| *word == &*intent.op);
        // What another one took the place of is deleted by itself, and the row is the successor's.
        let word = word.filter(|word| *word != "delete" || intent.after.is_none());
        let took_effect = match &*intent.op {
            "delete" => after.is_none(),
            "abandon" => !is_ours(view, id),
            _ => after == intent.after,
        };
        if let (Some(word), true) = (word, took_effect) {
            *self.found.entry((word, "observed")).or_default() += 1;
        }
        // It was deleted by ourselves, so what is wanted of it again is made anew, and nothing to restore.
        let is_forgotten = || view.memory.rows.binary_search_by(|row| row.tracked.id.cmp(id)).is_err();
        if took_effect && &*intent.op == "delete" && is_forgotten() && !self.gone.contains(id) {
            self.gone.push(id.clone());
        }
        // Whoever reads the trail must not take what never happened for a deletion.
        let outcome = if took_effect || word.is_none() { "observed" } else { "not-observed" };
        self.endings.push(Ending { action: intent.action, outcome: outcome.into(), error: None });
    }

    /// Rows recovered from those intents are not in the store yet.
    fn recover(&mut self, answered: &[&OpenIntent]) {
        let rows = &self.view.memory.rows;
        let touched: BTreeSet<&ResourceId> =
            self.rows.iter().map(|r| &r.tracked.id).chain(&self.gone).collect();
        let recovered: Vec<Row> = answered
            .iter()
            .map(|open| &open.intent)
            .filter(|intent| &*intent.op != "delete" && !touched.contains(&intent.row.tracked.id))
            .filter_map(|intent| {
                let found = rows.binary_search_by(|r| r.tracked.id.cmp(&intent.row.tracked.id));
                found.ok().map(|i| rows[i].clone())
            })
            .filter(|row| row.state == RowState::Applied)
            .collect();
        self.rows.extend(recovered);
    }

    /// All of it as writes.
    fn close(self, held: bool) -> (Vec<Write>, FoundDone) {
        let Book { scope, view, now, rows, gone, let_go, endings, found, mut events } = self;
        let plan = &view.plan;
        let mut writes = moved_away(view);
        if !rows.is_empty() {
            writes.push(Write::Rows(rows.into()));
        }
        if !plan.settled.is_empty() {
            writes.push(Write::Settled(scope.clone(), plan.settled.clone()));
        }
        let agreed = exclusive::agreed(plan.exclusive).filter(|_| !held);
        let documents: Vec<_> = plan.documents.iter().cloned().chain(agreed).collect();
        if !documents.is_empty() {
            writes.push(Write::Documents(scope.clone(), documents));
        }
        writes.extend(plan.place.map(|place| Write::Place(scope.clone(), place)));
        if !gone.is_empty() {
            writes.push(Write::Gone(scope.clone(), gone));
        }
        if !endings.is_empty() {
            writes.push(Write::End(endings));
        }
        writes.extend(plan.spent.iter().map(|id| Write::ConsentSpent(scope.clone(), id.clone())));
        writes.extend(let_go.into_iter().map(|id| Write::Consent(scope.clone(), id.clone(), Consent::LetGo)));
        for (suspension, since) in &plan.looked {
            writes.push(Write::Looked(suspension.clone(), *since, scope.clone()));
            let message =
                "the suspension is over, and nothing was changed by hand meanwhile, or it was consented to";
            events.push(Event {
                scope: Some(scope.clone()),
                reason: suspension.clone(),
                ..event(now, "resume", &"".into(), message)
            });
        }
        claims_synced(view, &mut writes);
        drift::noted(scope, view, now, &mut writes);
        writes.extend(events.into_iter().map(Write::Event));
        (writes, found)
    }
}

fn is_ours(view: &View, id: &ResourceId) -> bool {
    view.seen.get(id).is_some_and(|observed| observed.owner == Owner::Ours)
}

/// The row of what is taken over.
fn adopted(step: &Step) -> Option<Row> {
    let (row, observed) = (step.work.row.as_ref()?, step.work.observed.as_ref()?);
    let private = if row.merge { row.tracked.private.clone() } else { observed.private.clone() };
    let (remote, outputs) = (observed.remote.clone(), observed.outputs.clone());
    Some(Row::clone(row).with(|adopted| {
        adopted.state = RowState::Settled;
        adopted.track(Tracked { remote, private, outputs, ..row.tracked.clone() });
    }))
}

/// Intents without an outcome of which the observation shows what became of the call.
fn answered(view: &View, window: Duration, now: Duration) -> Vec<&OpenIntent> {
    let plan = &view.plan;
    let ambiguous = plan.steps.iter().filter(|step| matches!(step.blocked, Some(Blocked::Ambiguous(_))));
    let ambiguous: BTreeSet<&ResourceId> = ambiguous.map(|step| &step.id).collect();
    let unanswered: BTreeSet<ActionId> = plan.unanswered.iter().copied().collect();
    let is_answered = |open: &&OpenIntent| {
        let id = &open.intent.row.tracked.id;
        let asked = ambiguous.contains(id);
        // Within the consistency window, "not there" is no answer to whether a create took effect.
        let visible =
            view.seen.get(id).is_some() || !open.intent.makes_anew() || now >= open.started_at + window;
        let asked = asked || unanswered.contains(&open.intent.action);
        !asked && visible && view.seen.covered.covers(id) && view.seen.complete
    };
    view.memory.open.iter().filter(is_answered).collect()
}

/// The old row goes only together with its new one: a move that found nothing under its new identity waits, and a row that
/// stayed beside the new one would have the thing of both deleted.
fn moved_away(view: &View) -> Vec<Write> {
    let moves = view.plan.steps.iter().filter(|step| matches!(step.change, Change::Move { .. }));
    let moved: BTreeSet<&ResourceId> = moves.map(|step| &step.id).collect();
    let away = view.memory.moved_away.iter().filter(|away| moved.contains(&away.id));
    let mut writes = Vec::new();
    for MovedAway { scope: from, was, .. } in away {
        writes.push(Write::Gone(from.clone(), vec![was.clone()]));
        if *from != view.plan.scope {
            writes.push(Write::Moved(from.clone(), view.plan.scope.clone()));
        }
    }
    writes
}

/// A claim is synced when the resource that carries it is in sync and no longer on its way, such as to every name server.
/// One that is known not to get there is: whoever made the claim finds out what that means for it.
fn claims_synced(view: &View, writes: &mut Vec<Write>) {
    if view.memory.claims_here.is_empty() {
        return;
    }
    let steps = view.plan.steps.iter().map(|step| &step.id);
    let conditions = view.plan.conditions.iter().filter_map(|condition| condition.id.as_ref());
    let progressing = |ailment: &&Ailment| ailment.state == HealthState::Progressing;
    let on_their_way =
        view.health.ailments.iter().filter(progressing).filter_map(|ailment| ailment.id.as_ref());
    let unsettled: BTreeSet<&ResourceId> = steps.chain(conditions).chain(on_their_way).collect();
    // Where health could not be asked for, it is not known whether anything is on its way.
    let is_unknown = |ailment: &Ailment| ailment.id.is_none() && ailment.state == HealthState::Unknown;
    let is_unknown = view.health.ailments.iter().any(is_unknown);
    for claim in &view.memory.claims_here {
        let is_there = view.seen.get(&claim.id).is_some();
        // What was synced before stays so.
        let synced = !unsettled.contains(&claim.id) && is_there && (claim.synced || !is_unknown);
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

fn label(step: &Step) -> Arc<str> {
    step.work.row.as_ref().map_or_else(|| Arc::from(""), |r| r.revision.clone())
}

pub(super) fn event(at: Duration, kind: &str, revision: &Arc<str>, message: &str) -> Event {
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
