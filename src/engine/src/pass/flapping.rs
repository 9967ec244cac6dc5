//! Flapping: somebody keeps undoing what we write, and we keep writing it.
//!
//! Guarantees: a resource that had been written is repaired, within an hour and for one desired content, at most [`LIMIT`]
//! times of one and the same state, and [`MOST`] times of whatever state; then it is stalled, and says both values, until
//! its declaration changes or a person says `sync`. Another manager puts its own state back each time, while faults that come
//! one after the other differ; [`MOST`] is for a manager that never writes the same again, such as the time of day.
//! Steps after `Pending` are progress and never count, nor does a new revision, nor what is due by itself.
//! What a remote planned itself and does not bring about, [`LIMIT`] times in a row for one desired content, is [`futile`].
//!
//! The [ledger](super::ledger) is memory only. A restart forgets it, which costs at most [`MOST`] more writes a resource, each
//! of them an event in the audit trail; a durable one would cost a store write for every repair.

mod futile;

pub(super) use futile::Futile;

use crate::{
    journal::Ended,
    plan::{Change, Reason, Step},
    store::{Condition, RowState},
};
use reconciled_provider::{FieldChange, Hash, ResourceId, Scope, Shown};
use std::{collections::BTreeMap, time::Duration};

/// Reason of what says that a resource is repaired no more.
pub const FLAPPING: &str = "Flapping";
/// Repairs of one state within [`WINDOW`] after which there is no further one of it.
const LIMIT: usize = 3;
/// Repairs of different states within [`WINDOW`] after which there is no further one of any.
const MOST: usize = 10;
/// How long a repair counts.
const WINDOW: Duration = Duration::from_secs(3600);

/// Repairs by resource.
#[derive(Debug, Default)]
pub(super) struct Flapping(BTreeMap<Scope, BTreeMap<ResourceId, Repairs>>);

#[derive(Debug)]
struct Repairs {
    desired: Option<Hash>,
    /// When, and of what; at most [`MOST`].
    done: Vec<(Duration, Foreign)>,
}

/// What was there before a repair; none where it was missing.
type Foreign = Option<Hash>;

impl Repairs {
    /// How often it was repaired where `foreign` is no longer repaired. It stays so, however long ago the last one was: what
    /// was undone that often is undone once more as soon as the hour is over.
    fn limit_reached(&self, foreign: Foreign) -> Option<usize> {
        let same = self.done.iter().filter(|(_, of)| *of == foreign).count();
        let last = self.done.last().map_or(Duration::ZERO, |(at, _)| *at);
        let all = self.done.iter().filter(|(at, _)| *at + WINDOW > last).count();
        [(same, LIMIT), (all, MOST)].into_iter().find(|(count, limit)| count >= limit).map(|(_, limit)| limit)
    }

    /// Forgets what counts no longer.
    fn expire(&mut self, now: Duration) {
        // Of many that are repaired at once, each asks all of them.
        if self.done.first().is_none_or(|(at, _)| *at + WINDOW > now) {
            return;
        }
        let counts: Vec<bool> = self
            .done
            .iter()
            .map(|(at, foreign)| *at + WINDOW > now || self.limit_reached(*foreign).is_some())
            .collect();
        let mut counts = counts.into_iter();
        self.done.retain(|_| counts.next().unwrap_or(false));
    }
}

impl Flapping {
    /// Remembers a repair; anything else that was written is none.
    pub(super) fn ended(&mut self, scope: &Scope, step: &Step, outcome: &Ended, now: Duration) {
        let has_written = matches!(outcome, Ended::Done | Ended::Partial(_));
        if !has_written || !is_repair(step) {
            return;
        }
        let resources = self.0.entry(scope.clone()).or_default();
        resources.retain(|_, repairs| {
            repairs.expire(now);
            !repairs.done.is_empty()
        });
        let desired = hash(step);
        let repairs = resources.entry(step.id.clone()).or_insert(Repairs { desired, done: Vec::new() });
        if repairs.desired != desired {
            *repairs = Repairs { desired, done: Vec::new() };
        }
        if repairs.done.len() == MOST {
            repairs.done.remove(0);
        }
        repairs.done.push((now, foreign(step)));
    }

    /// Why a step is not taken once more, if it is not.
    pub(super) fn condition(&self, scope: &Scope, step: &Step) -> Option<Condition> {
        Some(condition(step, self.limit_reached(scope, step)?))
    }

    /// After how many repairs one more would be one too many, if it would.
    fn limit_reached(&self, scope: &Scope, step: &Step) -> Option<usize> {
        let repairs = self.0.get(scope)?.get(&step.id)?;
        let is_same = is_repair(step) && repairs.desired == hash(step);
        repairs.limit_reached(foreign(step)).filter(|_| is_same)
    }

    /// Forgets the repairs of a scope.
    pub(super) fn acquit(&mut self, scope: &Scope) {
        self.0.remove(scope);
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

/// What a repair would end. A delta counts also where hashes are equal, so that of the content does not say it all.
fn foreign(step: &Step) -> Foreign {
    let observed = step.work.observed.as_ref()?;
    let fields = step.fields.iter().map(|field| format!("{}\0{}\0", field.path, shown(&field.before)));
    let fields: String = fields.collect();
    Some(Hash::of(&[&observed.hash.0[..], fields.as_bytes()].concat()))
}

fn condition(step: &Step, count: usize) -> Condition {
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
    let message = format!("written {count} times within an hour, and undone each time; {seen}");
    Condition::stalled(FLAPPING, message).about(step.id.clone(), step.address.clone()).hint(format!(
        "{find}, then: reconciled sync {0}; without a daemon: reconciled apply --target {0}{leave}",
        step.address
    ))
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
