//! What should have been made anew by now, or is over, while nobody looked: for `status` without a daemon, from what is remembered
//! of it.
//!
//! Guarantees: reaches no remote. It deliberately tells of no look that was only long ago: who runs `apply` by hand has no other.

use super::health::Known;
use crate::{
    config::Environment,
    failure::Failure,
    session::HostState,
    store::{DegradedEntry, Reader, Stamp, Status},
};
use reconciled_provider::{Ending, Scope};
use std::{collections::BTreeMap, time::Duration};

/// What is tracked and late, as far as its entries remember.
pub async fn late(
    state: &HostState,
    environment: &Environment,
    reader: &Reader,
) -> Result<Vec<DegradedEntry>, Failure> {
    let now = state.clock.now();
    let endings = state.endings(environment, reader.tracking().await?.into_keys()).await?;
    let late: Vec<(Scope, Ending)> =
        endings.into_iter().filter(|(_, ending)| ending.late_at() <= now).collect();
    if late.is_empty() {
        return Ok(Vec::new());
    }
    let rows = reader.rows(None).await?;
    let addresses: BTreeMap<(&str, &str), &str> =
        rows.iter().map(|row| ((&*row.scope, &*row.id), &*row.address)).collect();
    let entry = |(scope, ending): &(Scope, Ending)| {
        let (scope, id) = (scope.to_string(), ending.id.0.to_string());
        let address = (*addresses.get(&(&*scope, &*id))?).to_owned();
        let (message, since) = (said(ending, now), Stamp(ending.late_at()));
        Some(DegradedEntry { address, scope, id, message, since, next_try: None })
    };
    Ok(late.iter().filter_map(entry).collect())
}

/// What is the matter with one that is late.
fn said(ending: &Ending, now: Duration) -> String {
    let (at, renewed_at) = (Stamp(ending.at), Stamp(ending.renewed_at));
    let what = match ending.at <= now {
        true => format!("it is over since {at}"),
        false => format!("it should have been renewed at {renewed_at}, is over at {at}"),
    };
    format!("{what}, and was not looked at since it became late")
}

/// Has what is `late` be told, be Degraded, and count as well no longer, where no look has said the same. What nobody looks after is
/// told as that.
pub(super) fn tell(late: &[DegradedEntry], stands: &mut Known, status: &mut Status) {
    for one in late {
        let key = (one.scope.clone(), one.id.clone());
        if !stands.may_degrade(&key) {
            continue;
        }
        if stands.counts(&key) {
            count_less(status, &one.scope, 1);
        }
        status.progressing.retain(|other| (&other.scope, &other.id) != (&one.scope, &one.id));
        // What a person has to act on anyway is told by its condition.
        let is_told = status.conditions.iter().any(|condition| {
            let is_of_it = condition.scope == one.scope && condition.id.as_ref() == Some(&one.id);
            is_of_it && matches!(&*condition.kind, "stalled" | "held")
        });
        if !is_told {
            status.degraded.push(one.clone());
        }
        stands.degrade(one);
    }
    status.degraded.sort_by(|a, b| (a.since, &a.scope, &a.id).cmp(&(b.since, &b.scope, &b.id)));
}

/// Has so many of a scope not count as well.
pub(super) fn count_less(status: &mut Status, scope: &str, count: u64) {
    for mine in status.scopes.iter_mut().filter(|mine| mine.scope == scope) {
        // Where nothing of the scope counts, none of these did.
        let less = count.min(mine.well);
        mine.well -= less;
        status.well = status.well.saturating_sub(less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_late_before_it_is_over_and_over_from_its_end_on() {
        let at = |hours: u64| Duration::from_secs(hours * 3_600);
        let ending = Ending { id: "web".into(), at: at(9), renewed_at: at(6), served: Vec::new() };
        let late =
            "it should have been renewed at 1970-01-01T06:00:00Z, is over at 1970-01-01T09:00:00Z, and ";
        assert!(said(&ending, at(8)).starts_with(late), "{}", said(&ending, at(8)));
        assert!(said(&ending, at(9)).starts_with("it is over since 1970-01-01T09:00:00Z, and "));
    }
}
