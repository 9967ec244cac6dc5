//! Services that do not stay up: `Restart=` has systemd start them again, and whoever looks in between sees them run.
//!
//! Only those are asked about that are in another run than the one that is remembered: of all others nothing ended.

use crate::hands::{Manager, Run, UnitState, ended};
use reconciled_provider::{Cx, Delta, Deltas, Error, FieldChange, Health, ResourceId, Shown};
use std::{collections::BTreeMap, time::Duration};

/// How long a start by systemd itself counts.
const RECENT: Duration = Duration::from_secs(60);
/// From so many on in a row it is no accident.
const OFTEN: u32 = 3;

/// Those of `units` that systemd started anew by itself a moment ago, and how they fare. Each is a name, how it stands, and
/// the run that is remembered of it, if one is.
pub(crate) async fn restarted<'a>(
    cx: &Cx,
    manager: &dyn Manager,
    units: impl IntoIterator<Item = (String, &'a UnitState, Option<&'a str>)>,
) -> Result<BTreeMap<String, Health>, Error> {
    let is_other = |(_, state, known): &(String, &UnitState, Option<&str>)| {
        state.is_running() && *known != Some(&*state.invocation)
    };
    let is_service = |(name, ..): &(String, &UnitState, Option<&str>)| name.ends_with(".service");
    let names: Vec<String> =
        units.into_iter().filter(is_service).filter(is_other).map(|(name, ..)| name).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (runs, now) = (manager.runs(&names).await?, cx.clock.now());
    Ok(names
        .into_iter()
        .zip(runs)
        .filter_map(|(name, run)| Some((name.clone(), fares(&name, &run, now)?)))
        .collect())
}

/// Has the deltas of services that do not run say how their last run ended, and what says why, where it ended badly.
pub(crate) async fn tell_ends(manager: &dyn Manager, mut deltas: Deltas) -> Result<Deltas, Error> {
    let has_stopped = |(id, delta): &(&ResourceId, &Result<Delta, Error>)| {
        id.0.ends_with(".service") && delta.as_ref().is_ok_and(|delta| delta.fields.iter().any(is_stopped))
    };
    let ids: Vec<ResourceId> = deltas.iter().filter(has_stopped).map(|(id, _)| id.clone()).collect();
    if ids.is_empty() {
        return Ok(deltas);
    }
    let names: Vec<String> = ids.iter().map(|id| id.0.to_string()).collect();
    for (id, run) in ids.iter().zip(manager.runs(&names).await?) {
        let Some(Ok(delta)) = deltas.get_mut(id) else { continue };
        // A person, or the end of its work.
        if matches!(&*run.result, "" | "success") {
            continue;
        }
        for field in delta.fields.iter_mut().filter(|field| is_stopped(field)) {
            field.before = Shown::Text(format!("stopped: {}", ended(&run.result, run.status)));
        }
        delta.look = Some(format!("journalctl -u {id}").into());
    }
    Ok(deltas)
}

fn is_stopped(field: &FieldChange) -> bool {
    &*field.path == "state" && matches!(&field.before, Shown::Text(text) if text == "stopped")
}

/// None where the run that is on may be taken for one that lasts.
fn fares(name: &str, run: &Run, now: Duration) -> Option<Health> {
    let age = now.saturating_sub(Duration::from_micros(run.began));
    if run.restarts == 0 || age > RECENT {
        return None;
    }
    // The same words each time: how often is for `systemctl show`.
    Some(match run.restarts < OFTEN {
        true => Health::Progressing { why: "it ended, and systemd started it again".into(), recheck: RECENT },
        false => Health::Degraded {
            why: format!("it does not stay up: systemd keeps starting it again; see journalctl -u {name}"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemd_keeps_starting_is_not_well_until_it_stays_up() {
        let at = |restarts, began| {
            let run = Run { restarts, began, ..Run::default() };
            let health = fares("a.service", &run, Duration::from_secs(1_000))?;
            Some(matches!(health, Health::Degraded { .. }))
        };
        assert_eq!(at(0, 999_000_000), None, "a person may have");
        assert_eq!(at(1, 999_000_000), Some(false));
        assert_eq!(at(3, 999_000_000), Some(true));
        assert_eq!(at(3, 939_000_000), None);
    }
}
