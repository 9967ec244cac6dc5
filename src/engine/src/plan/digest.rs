//! The digest of a plan: what an approval is bound to.
//!
//! It covers (provider, scope, key, action, before, after) of the guarded steps, sorted. `after` is the
//! template hash, so serials, restarts, unrelated commits and rotated secrets do not void an approval, and a
//! touched resource that moves does.

use super::{ScopePlan, Step};
use reconciled_provider::Hash;

/// The digest of the guarded steps of `plans`; none when there are none.
pub fn digest<'a>(plans: impl IntoIterator<Item = &'a ScopePlan>) -> Option<Hash> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for plan in plans {
        let guarded = plan.steps.iter().filter(|s| s.is_guarded());
        lines.extend(guarded.map(|step| line(plan, step)));
    }
    if lines.is_empty() {
        return None;
    }
    lines.sort();
    Some(Hash::of(&lines.concat()))
}

fn line(plan: &ScopePlan, step: &Step) -> Vec<u8> {
    let hash = |h: Option<Hash>| h.map_or_else(|| "-".to_string(), |h| h.to_string());
    let parts = [
        &*plan.scope.provider,
        &*plan.scope.name,
        &*step.id.0,
        step.change.word(),
        &hash(step.before),
        &hash(step.after),
    ];
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u32).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    bytes
}
