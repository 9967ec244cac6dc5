//! Instances that are coming up: what a program does not answer yet says nothing against it.
//!
//! Nothing here is remembered from look to look but how each was found by the one before, in the engine's words.

use crate::hands::Manager;
use reconciled_provider::{Cx, Error, ResourceId, Unwell};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How often one that is coming up is looked at.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// How long a run counts as just begun where nobody knows whether it answered before.
const FRESH: Duration = Duration::from_secs(10);

/// Those of `silent`, units that run and of which a check says no, that have not been available since they began to come up,
/// no longer than `limit` ago. `before` is what did not do its work when it was last looked at.
pub(super) async fn coming_up(
    cx: &Cx,
    manager: &dyn Manager,
    silent: Vec<String>,
    before: &BTreeMap<ResourceId, Unwell>,
    limit: Duration,
) -> Result<BTreeSet<String>, Error> {
    if silent.is_empty() {
        return Ok(BTreeSet::new());
    }
    let (runs, now) = (manager.runs(&silent).await?, cx.clock.now());
    let is_coming = |(name, began): &(String, Duration)| {
        is_coming_up(*began, before.get(&ResourceId::from(name.as_str())), now, limit)
    };
    let began = runs.into_iter().map(|run| Duration::from_micros(run.began));
    Ok(silent.into_iter().zip(began).filter(is_coming).map(|(name, _)| name).collect())
}

fn is_coming_up(began: Duration, before: Option<&Unwell>, now: Duration, limit: Duration) -> bool {
    // The clock may go back.
    let is_within = |since: Duration, limit: Duration| now.abs_diff(since) < limit;
    match before {
        // It was well, maybe in the run before.
        None => is_within(began, limit.min(FRESH)),
        // That was said of the run before.
        Some(before) if before.is_degraded => before.since < began && is_within(began, limit),
        // However often it began anew meanwhile.
        Some(before) => is_within(before.since, limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_coming_up_until_its_deadline_unless_it_was_well_in_this_run() {
        let limit = Duration::from_secs(60);
        let seconds = Duration::from_secs;
        let check = |began, before: Option<(bool, u64)>| {
            let before = before.map(|(is_degraded, since)| Unwell {
                id: "web@1.service".into(),
                is_degraded,
                why: "why".into(),
                since: seconds(since),
            });
            is_coming_up(seconds(began), before.as_ref(), seconds(1_000), limit)
        };
        assert!(check(995, None) && !check(985, None), "it was well when it was last looked at");
        assert!(check(950, Some((false, 950))) && !check(950, Some((false, 940))));
        assert!(!check(999, Some((false, 930))), "it begins anew again and again");
        assert!(check(950, Some((true, 949))) && !check(939, Some((true, 900))), "it was in another run");
        assert!(!check(950, Some((true, 951))), "it was well, or is past its time");
        assert!(!check(2_000, None) && !check(2_000, Some((false, 2_000))), "the clock was set back since");
    }
}
