//! What a plan says of a name that changes its type (CNAME ↔ A) where a backend has no transactions.

use crate::record;
use reconciled_provider::{Delta, Deltas, FieldChange, Observation, Want};

/// Adds to what is created in the place of other data at its name that both do not happen in one step.
pub(super) fn tell(want: &Want<'_>, seen: &Observation, deltas: &mut Deltas) {
    for desired in want.desired {
        if seen.get(&desired.id).is_some() || deltas.contains_key(&desired.id) {
            continue;
        }
        let (Some((name, kind)), Some(slot)) = (record::parts(&desired.id), record::slot(&desired.id)) else {
            continue;
        };
        // Ids of one name stand together.
        let prefix = format!("{name}/");
        let first = seen.resources.partition_point(|observed| *observed.id.0 < *prefix);
        let others = seen.resources[first..].iter().take_while(|observed| observed.id.0.starts_with(&prefix));
        let in_the_way =
            others.filter(|other| record::slot(&other.id).is_some_and(|its| its.clashes_with(&slot)));
        let before: Vec<&str> =
            in_the_way.filter_map(|other| record::parts(&other.id)).map(|(_, kind)| kind).collect();
        if !before.is_empty() {
            let after = format!("{kind}, not in one step: the name may answer nothing for a moment");
            let field = FieldChange::text("type", Some(before.join(", ")), Some(after));
            deltas.insert(desired.id.clone(), Ok(Delta { fields: vec![field], ..Delta::default() }));
        }
    }
}
