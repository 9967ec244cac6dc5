//! The drift ledger: what was found changed by somebody else, when first, in which fields, and what became of it.
//!
//! Guarantees: a resource has at most one open entry, from when its drift was first seen until it is as declared
//! again; a crash between an entry and the write that heals it makes no second one; a pass that finds nothing new writes
//! nothing. Values are those a plan shows, so no secret is among them. It deliberately decides nothing: what is healed is
//! the planner's word.

pub use crate::store::{DriftEnd, DriftField, Drifted};

use crate::{
    plan::{Change, Reason, Step},
    store::{Condition, Event, Write},
    survey::View,
};
use reconciled_provider::{ActionId, Drift, ErrorKind, ResourceId, Scope};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// Fields of a drift that are kept.
const FIELDS: usize = 20;
/// Events of one pass.
const EVENTS: usize = 100;

/// The drift that a step is about, if it is about one.
pub(crate) fn of(scope: &Scope, step: &Step, now: Duration) -> Option<Drifted> {
    let was = step.work.was.as_ref().filter(|_| is_drift(step))?;
    let row = step.work.row.as_ref().unwrap_or(was);
    Some(Drifted {
        scope: scope.clone(),
        id: step.id.clone(),
        address: step.address.clone(),
        manifest: row.manifest.clone(),
        mode: row.drift,
        first_seen: now,
        missing: step.work.observed.is_none(),
        // What is created again differs in everything.
        fields: match step.work.observed {
            Some(_) => step.fields.iter().take(FIELDS).map(DriftField::from).collect(),
            None => Vec::new(),
        },
        action: None,
    })
}

/// True for what is made again as it was, or would be: also where something else of it is declared anew, and only what somebody else
/// changed has it made anew.
pub(crate) fn is_drift(step: &Step) -> bool {
    let is_told = || step.work.row.as_ref().is_none_or(|row| row.drift != Drift::Ignore);
    step.change.writes()
        && step.change != Change::Continue
        && (matches!(step.reason, Reason::Drift | Reason::Restore) || step.is_remade_for_drift() && is_told())
}

/// What a look changes in the ledger: entries that begin, change or end.
pub(crate) fn noted(scope: &Scope, view: &View, now: Duration, writes: &mut Vec<Write>) {
    let known = &view.memory.drifts;
    let mut seen = Vec::new();
    let mut events = Vec::new();
    let entries: HashMap<&ResourceId, &Drifted> = known.iter().map(|entry| (&entry.id, entry)).collect();
    for drift in view.plan.steps.iter().filter_map(|step| of(scope, step, now)) {
        match entries.get(&drift.id).copied() {
            None => {
                events.push(event(&drift, "drift", drift.mode.word(), describe(&drift), now));
                seen.push(drift);
            }
            Some(entry) => {
                let drift = Drifted { first_seen: entry.first_seen, action: entry.action, ..drift };
                if drift != *entry {
                    seen.push(drift);
                }
            }
        }
    }
    let found = Found::of(known, view);
    let over: Vec<(ResourceId, DriftEnd)> = known
        .iter()
        .filter_map(|entry| Some((entry, ended(entry, &found, view)?)))
        .map(|(entry, end)| {
            let is_refused = found.refused.contains(&entry.id);
            events.push(event(entry, "drift-over", end.word(), farewell(end, is_refused), now));
            (entry.id.clone(), end)
        })
        .collect();
    if !seen.is_empty() {
        writes.push(Write::Drifted(seen));
    }
    if !over.is_empty() {
        writes.push(Write::DriftOver(scope.clone(), over, now));
    }
    events.truncate(EVENTS);
    writes.extend(events.into_iter().map(Write::Event));
}

/// What a plan says of resources, by id: a zone that somebody emptied has as many entries as resources.
#[derive(Default)]
struct Found<'v> {
    steps: HashMap<&'v ResourceId, Vec<&'v Step>>,
    as_declared: HashSet<&'v ResourceId>,
    ignored: HashSet<&'v ResourceId>,
    lapsed: HashSet<&'v ResourceId>,
    /// What was seen, and is declared so that its provider refuses to make that of it.
    refused: HashSet<&'v ResourceId>,
}

impl<'v> Found<'v> {
    /// Nothing is looked up where there is no entry.
    fn of(known: &[Drifted], view: &'v View) -> Found<'v> {
        let plan = &view.plan;
        if known.is_empty() {
            return Found::default();
        }
        let mut steps: HashMap<_, Vec<_>> = HashMap::new();
        for step in &plan.steps {
            steps.entry(&step.id).or_default().push(step);
        }
        Found {
            steps,
            as_declared: plan.as_declared.iter().collect(),
            ignored: plan.ignored.iter().collect(),
            lapsed: plan.lapsed.iter().map(|row| &row.tracked.id).collect(),
            refused: plan
                .conditions
                .iter()
                .filter(is_refusal)
                .filter_map(|condition| condition.id.as_ref())
                .filter(|id| view.seen.get(id).is_some())
                .collect(),
        }
    }
}

fn is_refusal(condition: &&Condition) -> bool {
    [ErrorKind::Invalid, ErrorKind::Unsupported].iter().any(|kind| *condition.reason == *kind.word())
}

/// What became of an entry, if a look shows that it is over.
fn ended(entry: &Drifted, found: &Found<'_>, view: &View) -> Option<DriftEnd> {
    // What was written is as declared also where something stays that is ignored.
    match (found.as_declared.contains(&entry.id), found.ignored.contains(&entry.id)) {
        (true, _) | (_, true) if entry.action.is_some() => return Some(DriftEnd::Healed),
        (true, _) => return Some(DriftEnd::Gone),
        (_, true) => return Some(DriftEnd::Ignored),
        _ => {}
    }
    if let Some(steps) = found.steps.get(&entry.id) {
        // Something else is declared now: what differs is no drift any more. What goes on heals.
        let is_other = |step: &&Step| !is_drift(step) && step.reason != Reason::Continue;
        return steps.iter().all(is_other).then_some(DriftEnd::Gone);
    }
    // What was written is no drift any more; what is declared does not do, as a revision that was taken back, and that is told.
    if entry.action.is_some() && found.refused.contains(&entry.id) {
        return Some(DriftEnd::Healed);
    }
    let rows = &view.memory.rows;
    let is_tracked = rows.binary_search_by(|row| row.tracked.id.cmp(&entry.id)).is_ok();
    // Anything else says nothing: not looked at, not visible yet, not to be told.
    (!is_tracked || found.lapsed.contains(&entry.id)).then_some(DriftEnd::Gone)
}

/// Entries that the writes of a journaled group are about to heal.
pub(crate) fn healing<'s>(
    scope: &Scope,
    steps: impl Iterator<Item = (ActionId, &'s Step)>,
    now: Duration,
) -> Option<Write> {
    let drifts: Vec<Drifted> = steps
        .filter_map(|(action, step)| Some(Drifted { action: Some(action), ..of(scope, step, now)? }))
        .collect();
    (!drifts.is_empty()).then_some(Write::Drifted(drifts))
}

/// Entries that a group was to heal and did not: a failure certainly changed nothing.
pub(crate) fn failed<'s>(scope: &Scope, steps: impl Iterator<Item = &'s Step>) -> Option<Write> {
    let ids: BTreeSet<ResourceId> = steps.filter(|step| is_drift(step)).map(|step| step.id.clone()).collect();
    (!ids.is_empty()).then(|| Write::NotHealed(scope.clone(), ids.into_iter().collect()))
}

/// One line for people.
fn describe(drift: &Drifted) -> String {
    if drift.missing {
        return "it is gone from the remote".into();
    }
    let side = |value: &Option<Arc<str>>| match value {
        Some(value) => format!("`{value}`"),
        None => "nothing".into(),
    };
    let fields: Vec<String> = drift
        .fields
        .iter()
        .map(|field| format!("{} is {}, declared {}", field.path, side(&field.remote), side(&field.declared)))
        .collect();
    match &fields[..] {
        [] => "it was changed by somebody else".into(),
        fields => format!("changed by somebody else: {}", fields.join("; ")),
    }
}

fn farewell(end: DriftEnd, is_refused: bool) -> &'static str {
    match (end, is_refused) {
        (DriftEnd::Healed, true) => "what differed is gone, by a write of this instance",
        (DriftEnd::Healed, false) => "it is as declared again, by a write of this instance",
        (DriftEnd::Gone, _) => "put back by somebody else, or declared otherwise",
        (DriftEnd::Ignored, _) => "what differs is ignored now",
    }
}

fn event(entry: &Drifted, kind: &str, reason: &str, message: impl Into<Arc<str>>, at: Duration) -> Event {
    Event {
        at,
        kind: kind.into(),
        scope: Some(entry.scope.clone()),
        address: Some(entry.address.clone()),
        revision: "".into(),
        actor: "engine".into(),
        reason: reason.into(),
        message: message.into(),
    }
}
