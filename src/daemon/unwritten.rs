//! What passes came to and could not write down, as on a full disk: what the state says of their scopes is older.
//!
//! Guarantees: pure but for the state it reads, and that only where there is any.

use super::instance::Instance;
use crate::{
    failure::Failure,
    store::{ConditionEntry, Reader},
};

/// What keeps scopes as a whole and is not in the state.
pub(crate) async fn unwritten(instance: &Instance, reader: &Reader) -> Result<Vec<ConditionEntry>, Failure> {
    let standing = instance.scheduler.standing();
    let mut all: Vec<ConditionEntry> = Vec::new();
    for (scope, standing) in &standing {
        let Some(condition) = &standing.unwritten else { continue };
        all.push(ConditionEntry::from((scope, condition)));
    }
    if !all.is_empty() {
        let known = reader.not_well().await?.conditions;
        all.retain(|one| !known.iter().any(|c| c.scope == one.scope && c.message == one.message));
    }
    Ok(all)
}
