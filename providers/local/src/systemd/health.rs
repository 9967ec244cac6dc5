//! How units fare: by what the manager says of them, and by how often it had to start them again.

use super::{
    look::{believed, is_idle, starts},
    memory::Memory,
    restarted,
    unit::{RunState, Unit},
};
use crate::hands::{Manager, Start, UnitState};
use reconciled_provider::{Cx, Error, Health, Resource, ResourceId, Want};
use std::{collections::BTreeMap, time::Duration};

/// How the declared units fare. Those that systemd passes over, and why, are put into `passed`.
pub(crate) async fn health(
    cx: &Cx,
    manager: &dyn Manager,
    want: &Want<'_>,
    passed: &mut BTreeMap<ResourceId, String>,
) -> Result<Vec<(ResourceId, Health)>, Error> {
    let asked: Vec<&Resource> =
        want.desired.iter().filter(|desired| want.focus.covers(&desired.id)).collect();
    let names: Vec<String> = asked.iter().map(|desired| desired.id.0.to_string()).collect();
    let states = if names.is_empty() { Vec::new() } else { manager.units(&names).await? };
    let known: BTreeMap<&ResourceId, Memory> =
        want.tracked.iter().filter_map(|row| Some((&row.id, Memory::open(Some(row))?))).collect();
    let units = asked.iter().zip(&states).map(|(desired, state)| {
        (desired.id.0.to_string(), state, known.get(&desired.id).map(|memory| &*memory.invocation))
    });
    let mut restarted = restarted(cx, manager, units).await?;
    let declared = |desired: &Resource| desired.spec.bytes().and_then(Unit::decode).unwrap_or_default();
    let is_to_run = |desired: &Resource| declared(desired).state == Some(RunState::Running);
    let idle = asked.iter().zip(&states).filter(|(desired, state)| is_idle(state) && is_to_run(desired));
    let starts = starts(manager, idle.map(|(desired, _)| desired.id.0.to_string()).collect()).await?;
    let told = asked.into_iter().zip(states).map(|(desired, state)| {
        let unit = declared(desired);
        let start = starts.get(&*desired.id.0).cloned().unwrap_or_default();
        let start = believed(start, known.get(&desired.id));
        if let Some(why) = start.why().filter(|_| !start.unmet.is_empty()) {
            passed.insert(desired.id.clone(), why);
        }
        let health = match fares(&unit, &state, &start) {
            degraded @ Health::Degraded { .. } => degraded,
            other => restarted.remove(&*desired.id.0).unwrap_or(other),
        };
        (desired.id.clone(), health)
    });
    Ok(told.collect())
}

/// How a unit fares that is in this state, and whose last start came to that.
pub(crate) fn fares(unit: &Unit, state: &UnitState, start: &Start) -> Health {
    match &*state.active {
        "failed" => Health::Degraded { why: format!("it failed{}", after(state)) },
        "activating" | "deactivating" | "reloading" => Health::Progressing {
            why: format!("it is {}{}", state.active, after(state)),
            recheck: Duration::from_secs(5),
        },
        _ if !matches!(&*state.load, "loaded" | "masked" | "") => {
            Health::Degraded { why: format!("systemd cannot load it: {} {}", state.load, state.load_error) }
        }
        // What its conditions keep from running has not failed.
        "inactive" if unit.state == Some(RunState::Running) && start.unmet.is_empty() => {
            Health::Degraded { why: start.why().unwrap_or_else(|| "it does not run".into()) }
        }
        _ => Health::Healthy,
    }
}

/// What came of its last run, behind what it is.
pub(crate) fn after(state: &UnitState) -> String {
    state.end().map_or_else(String::new, |end| format!(": {end}"))
}
