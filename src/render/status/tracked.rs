//! `status ADDRESS`: tables of what is tracked, what it rests on, and facts of it.

use crate::{
    operation::{FactEntry, ResourceEntry, UNTRACKED},
    render::table::Table,
    store::{ConditionEntry, Stamp, TrackedEntry},
    text::{
        clean,
        time::{age, rfc3339},
    },
};
use std::time::Duration;

/// Tracked resources, one a row, without how they stand.
pub fn rows(rows: &[TrackedEntry]) -> String {
    let mut table = Table::new(["ADDRESS", "SCOPE", "STATE", "REVISION"]);
    for row in rows {
        let state = if row.state == "settled" { "in sync" } else { &row.state };
        table.row([&*row.address, &row.scope, state, &row.revision]);
    }
    table.render(None)
}

/// Tracked resources, one a row. A resource that is not in sync shows what its condition is.
pub fn tracked(rows: &[ResourceEntry], conditions: &[ConditionEntry], wide: bool) -> String {
    let mut table = Table::new(["ADDRESS", "SCOPE", "STATE", "HEALTH", "REVISION"]);
    if wide {
        table = Table::new([
            "ADDRESS", "SCOPE", "STATE", "HEALTH", "REVISION", "ID", "FILE", "DELETION", "DRIFT", "WRITTEN",
        ]);
    }
    for resource in rows {
        let row = &resource.tracked;
        let synced = resource.conditions.iter().find(|side| side.kind == "Synced");
        let matter = conditions.iter().find(|c| c.scope == row.scope && c.id.as_ref() == Some(&row.id));
        let state = match (matter, row.state.as_str()) {
            (Some(condition), _) => condition.kind.as_str(),
            (None, "settled") => match synced.filter(|side| side.status != "True") {
                Some(side) => &side.reason,
                None => "in sync",
            },
            (None, state) => state,
        };
        let mut cells = vec![row.address.clone(), row.scope.clone(), state.into()];
        cells.extend([resource.health.clone(), row.revision.clone()]);
        if wide {
            let written = match row.written_at {
                _ if row.state == UNTRACKED => String::new(),
                Some(at) => rfc3339(at.0),
                None => "never".into(),
            };
            cells.extend([
                row.id.clone(),
                row.file.clone(),
                row.deletion.clone(),
                row.drift.clone(),
                written,
            ]);
        }
        table.row(cells);
    }
    table.render(None)
}

/// When those are looked at again whose manifests say so, one a line.
pub fn rests(rows: &[ResourceEntry], now: Duration) -> String {
    let line = |resource: &ResourceEntry| {
        let until = resource.tracked.rests_until?;
        let address = clean(&resource.tracked.address);
        Some(match until {
            _ if until.is_last() => {
                format!(
                    "{address}: next look once it changes, or with: reconciled sync {address}; without a daemon: \
                     reconciled apply --target {address}\n"
                )
            }
            Stamp(until) if until <= now => format!("{address}: next look is due\n"),
            Stamp(until) => format!("{address}: next look from {} ({})\n", rfc3339(until), age(now, until)),
        })
    };
    rows.iter().filter_map(line).collect()
}

/// What remotes say of scopes besides their resources, one a row.
pub fn facts(facts: &[FactEntry]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["SCOPE", "AT", "FACT"]);
    for fact in facts {
        table.row([&*fact.scope, &fact.name, &fact.value]);
    }
    table.render(None)
}
