//! What a remote planned itself and does not bring about: it is made in part again and again, or something else comes of it.
//!
//! Guarantees: a write of one desired content that ends in part [`LIMIT`] times in a row is not repeated until its
//! declaration changes or a person means just that. Each time may have deleted and made it anew, whatever the reason was.
//! Remotes that are away or have enough are no such case: that passes.

use super::{LIMIT, hash, ignoring};
use crate::{
    journal::Ended,
    plan::{Change, MADE_IN_PART, NOT_AS_PLANNED, Step},
    store::Condition,
};
use reconciled_provider::{ErrorKind, Hash, ResourceId, Scope};
use std::{collections::BTreeMap, sync::Arc};

/// Writes that ended in part, by resource.
#[derive(Debug, Default)]
pub(in crate::pass) struct Futile(BTreeMap<Scope, BTreeMap<ResourceId, Attempts>>);

#[derive(Debug)]
struct Attempts {
    desired: Option<Hash>,
    count: usize,
    /// What was said the last time.
    said: Arc<str>,
}

impl Futile {
    pub(in crate::pass) fn ended(&mut self, scope: &Scope, step: &Step, outcome: &Ended) {
        match outcome {
            Ended::Partial(error) if counts(step, error.kind) => {
                let attempts = self.0.entry(scope.clone()).or_default().entry(step.id.clone());
                let desired = hash(step);
                let said = Arc::from(error.chain());
                let known = attempts.or_insert(Attempts { desired, count: 0, said: "".into() });
                let before = if known.desired == desired { known.count } else { 0 };
                *known = Attempts { desired, count: before + 1, said };
            }
            Ended::Done => {
                if let Some(resources) = self.0.get_mut(scope) {
                    resources.remove(&step.id);
                }
            }
            _ => {}
        }
    }

    /// Why a step is not taken once more, if it is not.
    pub(in crate::pass) fn condition(&self, scope: &Scope, step: &Step) -> Option<Condition> {
        let attempts = self.0.get(scope)?.get(&step.id)?;
        if attempts.desired != hash(step) || attempts.count < LIMIT || !is_planned(step) {
            return None;
        }
        let (reason, message, hint) = match step.change {
            Change::Create | Change::Replace => (
                MADE_IN_PART,
                format!(
                    "made in part {LIMIT} times in a row, and not deleted and made once more: {}",
                    attempts.said
                ),
                format!("mend what it lacks, then: {}", once_more(step)),
            ),
            _ => (
                NOT_AS_PLANNED,
                format!("written {LIMIT} times in a row, and never came about: {}", attempts.said),
                format!(
                    "declare what comes about, or leave it to the remote: {}; to try again: {}",
                    ignoring(step),
                    once_more(step)
                ),
            ),
        };
        let told = Condition::stalled(reason, message).about(step.id.clone(), step.address.clone());
        // The next process knows nothing of the others, and would make it as often again.
        Some(Condition { declared: step.declared(), ..told.hint(hint) })
    }

    pub(in crate::pass) fn acquit(&mut self, scope: &Scope) {
        self.0.remove(scope);
    }
}

/// What to type to have it tried again.
fn once_more(step: &Step) -> String {
    format!("reconciled sync {0}; without a daemon: reconciled apply --target {0}", step.address)
}

fn counts(step: &Step, kind: ErrorKind) -> bool {
    is_planned(step) && !matches!(kind, ErrorKind::Unavailable | ErrorKind::RateLimited)
}

/// True where the remote said beforehand what would come about. The end of what was replaced is another matter.
fn is_planned(step: &Step) -> bool {
    !step.work.delta.planned.is_empty() && step.change != Change::EndFormer
}
