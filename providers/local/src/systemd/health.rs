//! How units fare: by what the manager says of them, and by how often it had to start them again.

use super::{
    observe::Memory,
    restarted,
    unit::{RunState, Unit},
};
use crate::hands::{Manager, UnitState};
use reconciled_provider::{Cx, Error, Health, Resource, ResourceId, Want};
use std::{collections::BTreeMap, time::Duration};

/// How the declared units fare.
pub(crate) async fn health(
    cx: &Cx,
    manager: &dyn Manager,
    want: &Want<'_>,
) -> Result<Vec<(ResourceId, Health)>, Error> {
    let asked: Vec<&Resource> =
        want.desired.iter().filter(|desired| want.focus.covers(&desired.id)).collect();
    let names: Vec<String> = asked.iter().map(|desired| desired.id.0.to_string()).collect();
    let states = if names.is_empty() { Vec::new() } else { manager.units(&names).await? };
    let known: BTreeMap<&ResourceId, String> =
        want.tracked.iter().filter_map(|row| Some((&row.id, Memory::open(Some(row))?.invocation))).collect();
    let units = asked.iter().zip(&states).map(|(desired, state)| {
        (desired.id.0.to_string(), state, known.get(&desired.id).map(String::as_str))
    });
    let mut restarted = restarted(cx, manager, units).await?;
    let told = asked.into_iter().zip(states).map(|(desired, state)| {
        let unit = desired.spec.bytes().and_then(Unit::decode).unwrap_or_default();
        let health = match fares(&unit, &state) {
            degraded @ Health::Degraded { .. } => degraded,
            other => restarted.remove(&*desired.id.0).unwrap_or(other),
        };
        (desired.id.clone(), health)
    });
    Ok(told.collect())
}

/// How a unit fares that is in this state.
pub(crate) fn fares(unit: &Unit, state: &UnitState) -> Health {
    match &*state.active {
        "failed" => {
            let status =
                if state.status == 0 { String::new() } else { format!(", exit status {}", state.status) };
            Health::Degraded { why: format!("it failed: {}{status}", state.result) }
        }
        "activating" | "deactivating" | "reloading" => {
            Health::Progressing { why: format!("it is {}", state.active), recheck: Duration::from_secs(5) }
        }
        _ if !matches!(&*state.load, "loaded" | "masked" | "") => {
            Health::Degraded { why: format!("systemd cannot load it: {} {}", state.load, state.load_error) }
        }
        "inactive" if unit.state == Some(RunState::Running) => {
            Health::Degraded { why: "it does not run".into() }
        }
        _ => Health::Healthy,
    }
}
