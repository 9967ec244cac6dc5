//! Flapping: somebody keeps undoing what we write, and we keep writing it.
//!
//! Guarantees: a resource that had been written is repaired at most [`LIMIT`] times within an hour for one desired
//! content; then it is stalled, and says both values, until its declaration changes or a person says `sync`.
//! Steps after `Pending` are progress and never count, nor does a new revision, nor what is due by itself.
//! What a remote planned itself and does not bring about, [`LIMIT`] times in a row for one desired content, is [`futile`].
//!
//! The ledger is memory only. A restart forgets it, which costs at most [`LIMIT`] more writes a resource, each
//! of them an event in the audit trail; a durable one would cost a store write for every repair.

mod futile;

use super::Engine;
use crate::{
    plan::{Change, Reason, Step},
    store::{Condition, ConditionKind, RowState},
};
use reconciled_provider::{FieldChange, Hash, Outcome, ResourceId, Scope, Shown};
use std::{collections::BTreeMap, time::Duration};

/// Repairs within [`WINDOW`] after which there is no further one.
const LIMIT: usize = 3;
/// How long a repair counts.
const WINDOW: Duration = Duration::from_secs(3600);

/// Repairs by resource, and what comes to nothing.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    repairs: BTreeMap<Scope, BTreeMap<ResourceId, Repairs>>,
    futile: futile::Futile,
}

#[derive(Debug)]
struct Repairs {
    desired: Option<Hash>,
    at: Vec<Duration>,
}

impl Repairs {
    fn recent(&self, now: Duration) -> usize {
        self.at.iter().filter(|at| **at + WINDOW > now).count()
    }
}

impl Ledger {
    /// Remembers a repair, and what came about in part; anything else that was written is none.
    pub(super) fn ended(&mut self, scope: &Scope, step: &Step, outcome: &Outcome, now: Duration) {
        self.futile.ended(scope, step, outcome);
        let has_written = matches!(outcome, Outcome::Done(_) | Outcome::Partial(..));
        if !has_written || !is_repair(step) {
            return;
        }
        let resources = self.repairs.entry(scope.clone()).or_default();
        resources.retain(|_, repairs| repairs.recent(now) > 0 || repairs.at.len() >= LIMIT);
        let desired = hash(step);
        let repairs = resources.entry(step.id.clone()).or_insert(Repairs { desired, at: Vec::new() });
        if repairs.desired != desired {
            *repairs = Repairs { desired, at: Vec::new() };
        }
        repairs.at.retain(|at| *at + WINDOW > now);
        repairs.at.push(now);
    }

    /// True when one repair more would be one too many. It stays so, however long ago the last one was: what
    /// was undone three times is undone a fourth time as soon as the hour is over.
    fn is_flapping(&self, scope: &Scope, step: &Step) -> bool {
        let repairs = self.repairs.get(scope).and_then(|resources| resources.get(&step.id));
        is_repair(step) && repairs.is_some_and(|r| r.desired == hash(step) && r.at.len() >= LIMIT)
    }

    /// Forgets the repairs of a scope.
    pub(super) fn acquit(&mut self, scope: &Scope) {
        self.repairs.remove(scope);
        self.futile.acquit(scope);
    }
}

impl Engine {
    /// The steps that may be taken; those that flap, or come to nothing, become conditions.
    pub(super) fn without_flapping<'s>(
        &self,
        scope: &Scope,
        mut steps: Vec<&'s Step>,
        conditions: &mut Vec<Condition>,
    ) -> Vec<&'s Step> {
        let ledger = self.ledger();
        steps.retain(|step| {
            // It says more: what keeps changing may be the remote's own doing.
            let stopped = ledger
                .futile
                .condition(scope, step)
                .or_else(|| ledger.is_flapping(scope, step).then(|| condition(step)));
            let goes_on = stopped.is_none();
            conditions.extend(stopped);
            goes_on
        });
        steps
    }
}

/// A write that only puts back what the revision still asks for. What was written and never seen so counts as
/// well as what had settled: a remote that normalizes our value away is a writer against us.
pub(super) fn is_repair(step: &Step) -> bool {
    let was = step.work.was.as_ref().map(|row| &row.state);
    matches!(was, Some(RowState::Settled | RowState::Applied))
        && matches!(step.reason, Reason::Drift | Reason::Restore)
        && step.change != Change::Continue
}

/// What is declared: what of it is ignored may be another each time.
fn hash(step: &Step) -> Option<Hash> {
    let written = || step.work.desired.as_ref().and_then(|desired| desired.spec.hash());
    step.work.row.as_ref().map(|row| row.tracked.applied).or_else(written)
}

fn condition(step: &Step) -> Condition {
    let fields: Vec<String> = step.fields.iter().map(values).collect();
    let look = step.work.delta.look.as_ref();
    let seen = match (&step.work.observed, look) {
        (None, _) => "it keeps going missing".to_string(),
        (Some(_), Some(_)) => format!("it keeps coming to this by itself: {}", fields.join("; ")),
        (Some(_), None) => format!("somebody else keeps changing it: {}", fields.join("; ")),
    };
    let find = look.map_or("find out who else writes it".into(), |look| format!("{look} says why"));
    let leave = match &step.work.observed {
        Some(_) if look.is_none() => {
            format!("; what the remote itself changes can be left to it: {}", ignoring(step))
        }
        _ => String::new(),
    };
    Condition {
        id: Some(step.id.clone()),
        address: Some(step.address.clone()),
        kind: ConditionKind::Stalled,
        reason: "Flapping".into(),
        message: format!("written {LIMIT} times within an hour, and undone each time; {seen}").into(),
        hint: Some(format!("{find}, then: reconciled sync {}{leave}", step.address).into()),
        since: Duration::ZERO,
        next_try: None,
    }
}

/// The annotation that leaves what differs as it is.
fn ignoring(step: &Step) -> String {
    // What only follows from the others says nothing by itself.
    let told = step.fields.iter().filter(|field| field.after != Shown::Unknown);
    let mut paths: Vec<&str> = told.map(|field| &*field.path).collect();
    paths.dedup();
    format!("`reconciled/ignore: \"{}\"`", paths.join(","))
}

fn shown(value: &Shown) -> String {
    match value {
        Shown::Text(text) => format!("`{text}`"),
        Shown::Sensitive => "a secret".into(),
        Shown::Unknown => "not known yet".into(),
        Shown::Absent => "nothing".into(),
    }
}

fn values(field: &FieldChange) -> String {
    format!("{} is {}, declared {}", field.path, shown(&field.before), shown(&field.after))
}
