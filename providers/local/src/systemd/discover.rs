//! Units that somebody made on a host, for import.
//!
//! Those with a file or a drop-in among the unit files of an administrator; what a package brings is the package's. What is no
//! text, or not every user of the host may read, is left out, with its unit, and so are links and the units of reconciled itself.

use super::{Unit, definition, normalize, observe::is_enabled, places::path, unit::RunState};
use crate::hands::{Hands, Manager, Seen, UnitState, What};
use reconciled_provider::{Error, Observed};
use std::collections::BTreeMap;

/// What names of units begin with that are not imported.
const OWN: &str = "reconciled";

/// What was found of a unit; none where a part of it cannot be shown.
type Parts = BTreeMap<String, Option<Unit>>;

/// The units of a host.
pub(crate) async fn discover(hands: &dyn Hands, manager: &dyn Manager) -> Result<Vec<Observed>, Error> {
    let directory = manager.places().directory();
    let mut parts = Parts::new();
    for seen in hands.list(&path(directory.into())?).await? {
        add(&mut parts, directory, &seen);
    }
    parts
        .retain(|name, unit| unit.is_some() && normalize::check_name(name).is_ok() && !name.starts_with(OWN));
    let names: Vec<String> = parts.keys().cloned().collect();
    let states = if names.is_empty() { Vec::new() } else { manager.units(&names).await? };
    let found = parts.into_iter().zip(states).filter_map(|((name, unit), state)| {
        let unit = as_it_stands(&name, unit?, &state);
        Some(Observed::new(name.into(), unit.encode()))
    });
    Ok(found.collect())
}

/// Takes in one entry of the directory, or of one of drop-ins in it.
fn add(parts: &mut Parts, directory: &str, seen: &Seen) {
    let Some(rest) = seen.path.below(directory) else { return };
    let (name, drop_in) = match rest.split_once('/') {
        None => (rest, None),
        Some((folder, file)) => {
            let Some((name, file)) = folder.strip_suffix(".d").zip(file.strip_suffix(".conf")) else {
                return;
            };
            (name, Some(file))
        }
    };
    let is_mask = |target: &str| drop_in.is_none() && target == "/dev/null";
    match &seen.what {
        What::File { .. } => {
            let unit = parts.entry(name.into()).or_insert_with(|| Some(Unit::default()));
            let shown = shown(seen);
            match (unit.as_mut(), shown, drop_in) {
                (Some(unit), Some(text), None) => unit.content = Some(text),
                (Some(unit), Some(text), Some(drop_in)) => drop(unit.drop_ins.insert(drop_in.into(), text)),
                _ => *unit = None,
            }
        }
        What::Link { target } if is_mask(target) => {
            parts.insert(name.into(), Some(Unit { masked: Some(true), ..Unit::default() }));
        }
        _ => {}
    }
}

/// What is in a file, where that is a text which every user may read.
fn shown(seen: &Seen) -> Option<String> {
    let What::File { content, .. } = &seen.what else { return None };
    String::from_utf8(content.reveal().to_vec()).ok().filter(|_| seen.is_public)
}

/// The unit with what is to be said of it besides its files.
fn as_it_stands(name: &str, unit: Unit, state: &UnitState) -> Unit {
    let is_template = name.contains("@.");
    if is_template || unit.masked.is_some() {
        return unit;
    }
    let mut texts = unit.content.iter().chain(unit.drop_ins.values());
    // What is not so need not be meant to be otherwise: it is not said, and not managed.
    let is_enabled = texts.any(|text| definition::has_install(text)) && is_enabled(state, true);
    // What ends by itself is none to keep running.
    let goes_on = state.active == "active" && state.sub != "exited";
    Unit { enabled: is_enabled.then_some(true), state: goes_on.then_some(RunState::Running), ..unit }
}
