//! The planner's words for what keeps a resource from being in sync.
//!
//! Guarantees: each names the resource and, where a person can do something, what to type.
//! It deliberately decides nothing.

use crate::store::Condition;
use reconciled_provider::{Address, Deltas, Error, Resource, ResourceId};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Reason of what says that a predecessor is still there.
pub const STILL_THERE: &str = "StillThere";

/// Reasons of what a person resolves by taking it over.
pub const BY_ADOPT: [&str; 2] = ["Conflict", "ManagementConflict"];

pub(super) fn not_yet_visible(desired: &Resource, address: Address, until: Duration) -> Condition {
    Condition::waiting("NotYetVisible", "written, not yet visible to reads")
        .about(desired.id.clone(), address)
        .next_try(until)
}

/// What was replaced waits for its end: of no condition is anything kept from being in sync.
pub(super) fn still_there(address: Address, former: &[Arc<str>], until: Duration) -> Condition {
    let message = format!(
        "{} is what it took the place of, and still there; after that time it is deleted, once nothing refers to it",
        former.join(", ")
    );
    Condition { address: Some(address), ..Condition::waiting(STILL_THERE, message).next_try(until) }
}

pub(super) fn management_conflict(desired: &Resource, address: Address, other: &str) -> Condition {
    let hint = format!("to take it over: reconciled adopt {address} --from-instance {other}");
    let message = format!("it carries the ownership mark of `{other}`");
    Condition::stalled("ManagementConflict", message).about(desired.id.clone(), address).hint(hint)
}

pub(super) fn not_ours(desired: &Resource, address: Address, why: &str) -> Condition {
    let hint = format!("to take it over as it is and make it as declared: reconciled adopt {address}");
    Condition::stalled("Conflict", why).about(desired.id.clone(), address).hint(hint)
}

/// It was let go of, and nothing but a person can tell where it is.
pub(super) fn forgotten(desired: &Resource, address: Address) -> Condition {
    let hint = format!(
        "if it is there, give its id as `reconciled/import` in the manifest, then: reconciled adopt {address}; \
         if it is not, remove the manifest, and put it back once that is in force"
    );
    let message = "it was forgotten and may still be there; making it would make a second one";
    Condition::stalled("Forgotten", message).about(desired.id.clone(), address).hint(hint)
}

pub(super) fn failed_to_plan(desired: &Resource, address: Address, error: &Error) -> Condition {
    Condition::failed(error).about(desired.id.clone(), address)
}

pub(super) fn differences(deltas: &Deltas, id: &ResourceId) -> String {
    let Some(Ok(delta)) = deltas.get(id) else { return String::new() };
    let mut seen = BTreeSet::new();
    let paths = delta.fields.iter().map(|field| &*field.path);
    // One that differs in several ways is named once.
    let fields: Vec<&str> = paths.filter(|path| seen.insert(*path)).collect();
    if fields.is_empty() { String::new() } else { format!(" (differs in {})", fields.join(", ")) }
}

/// Another source tracks it and has not let go of it.
pub(super) fn owned_elsewhere(desired: &Resource, address: Address, owner: &str) -> Condition {
    let message =
        format!("source `{owner}` tracks it and could not be read whole, so it may still declare it");
    let hint = format!("mend source `{owner}`, or take the declaration out of one of the two");
    Condition::stalled("OwnedByAnotherSource", message).about(desired.id.clone(), address).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Delta, FieldChange};

    #[test]
    fn a_field_that_differs_in_several_ways_is_named_once() {
        let field = |path, before: &str| FieldChange::text(path, Some(before.into()), None);
        let fields = vec![field("output", "a"), field("ttl", "1"), field("output", "b")];
        let deltas = Deltas::from([("web".into(), Ok(Delta { fields, ..Delta::default() }))]);
        assert_eq!(differences(&deltas, &"web".into()), " (differs in output, ttl)");
    }
}
