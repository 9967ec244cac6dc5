//! Flapping: somebody keeps undoing what we write, and we keep writing it.
//!
//! Guarantees: a resource that had been written is repaired at most [`LIMIT`] times within an hour for one desired
//! content; then it is stalled, and says both values, until its declaration changes or a person says `sync`.
//! Steps after `Pending` are progress and never count, nor does a new revision, nor what is due by itself.
//!
//! The ledger is memory only. A restart forgets it, which costs at most [`LIMIT`] more writes a resource, each
//! of them an event in the audit trail; a durable one would cost a store write for every repair.

use super::Engine;
use crate::{
    plan::{Change, Reason, Step},
    store::{Condition, ConditionKind, RowState},
};
use reconciled_provider::{FieldChange, Hash, ResourceId, Scope, Shown};
use std::{collections::BTreeMap, time::Duration};

/// Repairs within [`WINDOW`] after which there is no further one.
const LIMIT: usize = 3;
/// How long a repair counts.
const WINDOW: Duration = Duration::from_secs(3600);

/// Repairs by resource.
#[derive(Debug, Default)]
pub(super) struct Ledger(BTreeMap<Scope, BTreeMap<ResourceId, Repairs>>);

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
    /// Remembers a repair; anything else that was written is none.
    pub(super) fn wrote(&mut self, scope: &Scope, step: &Step, now: Duration) {
        if !is_repair(step) {
            return;
        }
        let resources = self.0.entry(scope.clone()).or_default();
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
        let repairs = self.0.get(scope).and_then(|resources| resources.get(&step.id));
        is_repair(step) && repairs.is_some_and(|r| r.desired == hash(step) && r.at.len() >= LIMIT)
    }

    /// Forgets the repairs of a scope.
    pub(super) fn acquit(&mut self, scope: &Scope) {
        self.0.remove(scope);
    }
}

impl Engine {
    /// The steps that may be taken; those that flap become conditions.
    pub(super) fn without_flapping<'s>(
        &self,
        scope: &Scope,
        mut steps: Vec<&'s Step>,
        conditions: &mut Vec<Condition>,
    ) -> Vec<&'s Step> {
        let ledger = self.ledger();
        steps.retain(|step| {
            let flaps = ledger.is_flapping(scope, step);
            if flaps {
                conditions.push(condition(step));
            }
            !flaps
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

fn hash(step: &Step) -> Option<Hash> {
    step.work.desired.as_ref().and_then(|desired| desired.spec.hash())
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
    Condition {
        id: Some(step.id.clone()),
        address: Some(step.address.clone()),
        kind: ConditionKind::Stalled,
        reason: "Flapping".into(),
        message: format!("written {LIMIT} times within an hour, and undone each time; {seen}").into(),
        hint: Some(format!("{find}, then: reconciled sync {}", step.address).into()),
        since: Duration::ZERO,
        next_try: None,
    }
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
