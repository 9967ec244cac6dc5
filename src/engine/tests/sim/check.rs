//! The oracles: what must hold of the world and of memory once everything is at rest.

use crate::{memory::Disk, scenario::Scenario};
use reconciled_engine::RowState;
use reconciled_provider::{Owner, ResourceId};
use reconciled_testkit::{World, reference::snapshot};

/// ESR-1 and S1: the world is as declared, nothing twice, nothing left over, nothing foreign gone.
pub(crate) fn world(scenario: &Scenario, world: &World) -> Vec<String> {
    let mut failures = Vec::new();
    for (scope, expected) in &scenario.expect {
        let found = snapshot(world, scope);
        if found != *expected {
            failures.push(format!("ESR-1: {scope} is {found:?}, declared {expected:?}"));
        }
        let contents = world.contents(scope);
        let marked = scenario.abandoned.iter().filter(|id| {
            let objects = contents.objects.get(&ResourceId::from(**id));
            objects.into_iter().flatten().any(|object| object.owner != Owner::Unmarked)
        });
        failures.extend(marked.map(|id| format!("ESR-1: {scope}/{id} was abandoned and bears our mark")));
    }
    failures
}

/// Memory agrees with the world: a row for each declared resource, no question left open.
pub(crate) fn memory(scenario: &Scenario, disk: &Disk) -> Vec<String> {
    let mut failures = Vec::new();
    for scope in scenario.scopes() {
        let Some(memory) = disk.scopes.get(&scope) else { continue };
        for open in &memory.open {
            failures.push(format!("an intent for {scope}/{} is still open", open.intent.row.tracked.id));
        }
        for row in memory.rows.iter().filter(|r| r.state != RowState::Settled) {
            failures.push(format!("{scope}/{} is {:?} at rest", row.tracked.id, row.state));
        }
        // Everything here is healed: a drift that was seen has come to its end.
        for drift in &memory.drifts {
            failures.push(format!("{scope}/{} is still in the drift ledger at rest", drift.id));
        }
        let foreign = scenario
            .before
            .iter()
            .filter(|(s, id, _)| *s == scope && scenario.expect[&scope].contains_key(*id));
        let is_ours = |id: &&String| !scenario.abandoned.contains(&id.as_str());
        let ours = scenario.expect[&scope].keys().filter(is_ours).count();
        let rows = memory.rows.len();
        if rows > ours || rows + foreign.count() + usize::from(scenario.name == "zone_foreign_writer") < ours
        {
            failures.push(format!("{scope} has {rows} rows for {ours} resources"));
        }
        if !memory.claims_made.is_empty() || !memory.claims_here.is_empty() {
            failures.push(format!("{scope} has claims left"));
        }
    }
    failures
}

/// ESR-B: write calls are bounded by what had to be done and what went wrong.
pub(crate) fn effort(scenario: &Scenario, world: &World, faults: usize) -> Option<String> {
    let needed = 3 * scenario.script.len() + 4;
    let bound = (needed * (1 + faults)) as u64;
    let (_, writes) = world.calls();
    (writes > bound)
        .then(|| format!("ESR-B: {writes} write calls, at most {bound} are needed with {faults} faults"))
}
