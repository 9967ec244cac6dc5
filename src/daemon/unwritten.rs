//! What passes came to and could not write down, as on a full disk: what the state says of their scopes is older.
//!
//! Guarantees: pure but for the state it reads, and that only where there is any.

use super::Instance;
use crate::{
    failure::Failure,
    store::{ConditionEntry, Reader, Stamp},
};
use reconciled_engine::store::ConditionKind;

/// What keeps scopes as a whole and is not in the state.
pub(crate) async fn unwritten(instance: &Instance, reader: &Reader) -> Result<Vec<ConditionEntry>, Failure> {
    let standing = instance.scheduler.standing();
    let mut all: Vec<ConditionEntry> = Vec::new();
    for (scope, standing) in &standing {
        let Some(condition) = &standing.unwritten else { continue };
        let kind = match condition.kind {
            ConditionKind::Stalled => "stalled",
            _ => "waiting",
        };
        all.push(ConditionEntry {
            scope: scope.to_string(),
            id: None,
            address: None,
            kind: kind.into(),
            reason: condition.reason.to_string(),
            message: condition.message.to_string(),
            hint: condition.hint.as_deref().map(str::to_owned),
            since: Stamp(condition.since),
            next_try: condition.next_try.map(Stamp),
        });
    }
    if !all.is_empty() {
        let known = reader.not_well().await?.conditions;
        all.retain(|one| !known.iter().any(|c| c.scope == one.scope && c.message == one.message));
    }
    Ok(all)
}
