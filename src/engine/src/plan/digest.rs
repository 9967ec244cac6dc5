//! The digest of a plan: what an approval is bound to.
//!
//! It covers (provider, scope, key, action, before, after) of the guarded steps, sorted. `after` is the
//! template hash, so serials, restarts, unrelated commits and rotated secrets do not void an approval, and a
//! touched resource that moves does.

use super::{ScopePlan, Step};
use reconciled_provider::{Hash, Scope};

/// The digest of the guarded steps of `plans`; none when there are none.
pub fn digest<'a>(plans: impl IntoIterator<Item = &'a ScopePlan>) -> Option<Hash> {
    // One text of all of them, and where each is in it.
    let (mut text, mut ends) = (Vec::new(), Vec::new());
    for plan in plans {
        for step in plan.steps.iter().filter(|step| step.is_guarded()) {
            line(&plan.scope, step, &mut text);
            ends.push(text.len());
        }
    }
    if ends.is_empty() {
        return None;
    }
    let begins = [0].into_iter().chain(ends.iter().copied());
    let mut lines: Vec<&[u8]> = begins.zip(&ends).map(|(begin, end)| &text[begin..*end]).collect();
    lines.sort_unstable();
    Some(Hash::of(&lines.concat()))
}

/// The guarded steps of one plan, a hash each, sorted: what of a plan that a person consented to is left in this scope.
pub fn guarded(plan: &ScopePlan) -> Vec<Hash> {
    hashes(plan, plan.steps.iter().filter(|step| step.is_guarded()))
}

/// As [`guarded`], with what is only put off or not asked for: it is not done yet, and was consented to as well.
pub fn left(plan: &ScopePlan) -> Vec<Hash> {
    let put_off = plan.steps.iter().filter(|step| step.is_guarded() || step.is_put_off());
    hashes(plan, put_off.chain(&plan.unselected))
}

fn hashes<'a>(plan: &ScopePlan, steps: impl Iterator<Item = &'a Step>) -> Vec<Hash> {
    let mut hashes: Vec<Hash> = steps.map(|step| of_step(&plan.scope, step)).collect();
    hashes.sort();
    hashes
}

/// What one step is told apart by in a plan that was consented to.
pub fn of_step(scope: &Scope, step: &Step) -> Hash {
    let mut bytes = Vec::new();
    line(scope, step, &mut bytes);
    Hash::of(&bytes)
}

fn line(scope: &Scope, step: &Step, bytes: &mut Vec<u8>) {
    let hash = |h: Option<Hash>| h.map_or_else(|| "-".to_string(), |h| h.to_string());
    let parts = [
        &*scope.provider,
        &*scope.name,
        &*step.id.0,
        step.change.word(),
        &hash(step.before),
        &hash(step.after),
    ];
    for part in parts {
        bytes.extend((part.len() as u32).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
}
