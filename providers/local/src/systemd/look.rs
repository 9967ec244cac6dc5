//! A unit, looked at: its files and drop-ins, how it stands, and what came of its last start.

use super::{
    Places, definition,
    files::text,
    memory::Memory,
    places::path,
    unit::{RunState, Unit},
};
use crate::{
    hands::{Hands, Manager, Seen, Start, UnitState, What},
    path::FilePath,
};
use reconciled_provider::Error;
use std::collections::{BTreeMap, BTreeSet};

/// A unit and its files, looked at.
pub(crate) struct Look {
    pub(crate) state: UnitState,
    pub(crate) fragment: Seen,
    pub(crate) drop_ins: BTreeMap<String, Seen>,
    /// Drop-ins that somebody else put beside the unit file, where that is declared.
    pub(crate) beside: Vec<Seen>,
    /// The files that it reads.
    pub(crate) reads: Vec<Seen>,
    /// When the present run began, at the earliest, where that is asked for: in microseconds since the epoch.
    pub(crate) began: u64,
    /// What came of its last start, where it should run and does not.
    pub(crate) start: Start,
}

impl Look {
    /// What the files mean that are there.
    pub(crate) fn effective(&self) -> String {
        definition::effective(self.texts().iter().map(String::as_str))
    }
    /// The same without what is taken over while it runs.
    pub(crate) fn fixed(&self) -> String {
        definition::fixed(self.texts().iter().map(String::as_str))
    }
    pub(super) fn texts(&self) -> Vec<String> {
        let files = std::iter::once(&self.fragment).chain(self.drop_ins.values()).chain(&self.beside);
        files.filter_map(text).collect()
    }
    /// Those of `unit`'s files that are there and ours.
    pub(super) fn declared(&self, unit: &Unit) -> impl Iterator<Item = &Seen> {
        let fragment = unit.content.is_some().then_some(&self.fragment);
        let drop_ins = self.drop_ins.iter().filter(|(name, _)| unit.drop_ins.contains_key(*name));
        fragment.into_iter().chain(drop_ins.map(|(_, seen)| seen))
    }
}

/// What is looked at of a unit: its file, and the drop-ins that are declared or ours.
pub(super) struct Place {
    state: UnitState,
    drop_ins: BTreeSet<String>,
    reads: Vec<FilePath>,
}

impl Place {
    pub(super) fn of(state: UnitState, desired: Option<&Unit>, memory: Option<&Memory>) -> Place {
        let mut drop_ins: BTreeSet<String> =
            desired.iter().flat_map(|unit| unit.drop_ins.keys().cloned()).collect();
        drop_ins.extend(memory.iter().flat_map(|memory| memory.drop_ins.iter().cloned()));
        Place { state, drop_ins, reads: desired.map(Unit::read_paths).unwrap_or_default() }
    }
    pub(super) fn paths(&self, places: &Places, name: &str, paths: &mut Vec<FilePath>) -> Result<(), Error> {
        paths.push(places.fragment(name)?);
        for one in &self.drop_ins {
            paths.push(places.drop_in(name, one)?);
        }
        paths.extend(self.reads.iter().cloned());
        Ok(())
    }
    /// How many paths these are.
    pub(super) fn count(&self) -> usize {
        1 + self.drop_ins.len() + self.reads.len()
    }
    /// True where it counts why it does not run.
    pub(super) fn is_idle(&self, desired: Option<&Unit>) -> bool {
        desired.is_some_and(|unit| unit.state == Some(RunState::Running)) && is_idle(&self.state)
    }
    /// True where it counts since when it runs.
    pub(super) fn is_timed(&self) -> bool {
        !self.reads.is_empty() && self.state.is_running()
    }
    pub(super) fn seen(
        self,
        name: &str,
        seen: &mut impl Iterator<Item = Seen>,
        mut beside: Vec<Seen>,
        (began, start): (u64, Start),
    ) -> Result<Look, Error> {
        let fragment = seen.next().ok_or_else(|| Error::unexpected(format!("nothing was said of {name}")))?;
        let drop_ins: BTreeMap<String, Seen> = self.drop_ins.into_iter().zip(seen.by_ref()).collect();
        beside.retain(|stray| drop_ins.values().all(|ours| ours.path != stray.path));
        let reads = seen.take(self.reads.len()).collect();
        Ok(Look { state: self.state, fragment, drop_ins, beside, reads, began, start })
    }
}

/// True for a unit that could run, does not, and has not failed. Nothing more is asked of one whose file is none: systemd reads it
/// for its answer, and a pipe for ever.
pub(crate) fn is_idle(state: &UnitState) -> bool {
    state.active == "inactive" && state.load == "loaded" && state.file != "bad"
}

/// True for what systemd reads drop-ins of `unit` from: what is called so in the directory of that name, whatever it is, and a link
/// in the place of that directory.
fn is_drop_in(seen: &Seen, unit: &str) -> bool {
    let directory = format!("/{unit}.d");
    match (&seen.what, seen.path.parent().ends_with(&directory)) {
        // It looks into no directory there.
        (What::File { .. } | What::Link { .. } | What::Other(_), true) => {
            seen.path.as_str().ends_with(".conf")
        }
        (What::Link { .. }, false) => seen.path.as_str().ends_with(&directory),
        _ => false,
    }
}

/// The drop-ins of these units that a person makes: by `systemctl edit` and `systemctl set-property`, those of ours among
/// them. Of a unit whose file is not declared they are nobody's business, and what a package brings is the package's.
pub(crate) async fn drop_ins(
    hands: &dyn Hands,
    places: &Places,
    units: &BTreeSet<String>,
) -> Result<BTreeMap<String, Vec<Seen>>, Error> {
    let mut all: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    if units.is_empty() {
        return Ok(all);
    }
    let directories = units.iter().map(|unit| places.drop_in_directories(unit));
    let directories: Vec<FilePath> =
        directories.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let mut found = hands.look(&directories).await?;
    let control: Vec<FilePath> = places.control().iter().cloned().map(path).collect::<Result<_, _>>()?;
    let there = found.iter().filter(|seen| matches!(seen.what, What::Directory { .. }));
    let there: Vec<FilePath> = there.map(|seen| seen.path.clone()).collect();
    for directory in control.into_iter().chain(there) {
        found.extend(hands.list(&directory).await?);
    }
    for seen in found {
        let unit = places.unit_at(&seen.path).map(|unit| unit.0.to_string());
        if let Some(unit) = unit.filter(|unit| units.contains(unit) && is_drop_in(&seen, unit)) {
            all.entry(unit).or_default().push(seen);
        }
    }
    Ok(all)
}

/// Looks at one unit.
pub(crate) async fn look(
    hands: &dyn Hands,
    manager: &dyn Manager,
    state: UnitState,
    name: &str,
    desired: Option<&Unit>,
    memory: Option<&Memory>,
) -> Result<Look, Error> {
    let places = manager.places();
    let (place, mut paths) = (Place::of(state, desired, memory), Vec::new());
    place.paths(places, name, &mut paths)?;
    let is_declared = desired.is_some_and(|unit| unit.content.is_some());
    let declared = is_declared.then(|| name.to_owned()).into_iter().collect();
    let beside = drop_ins(hands, places, &declared).await?.remove(name).unwrap_or_default();
    let timed = if place.is_timed() { vec![name.to_owned()] } else { Vec::new() };
    let began = began(manager, timed).await?.remove(name).unwrap_or_default();
    let idle = if place.is_idle(desired) { vec![name.to_owned()] } else { Vec::new() };
    let start = believed(starts(manager, idle).await?.remove(name).unwrap_or_default(), memory);
    place.seen(name, &mut hands.look(&paths).await?.into_iter(), beside, (began, start))
}

/// What systemd said once and has forgotten counts for as long as it is seen to be so: it remembers a unit that nothing refers to no
/// longer than whoever had it started is there.
pub(super) fn believed(start: Start, memory: Option<&Memory>) -> Start {
    match memory.is_some_and(|memory| memory.is_passed) && start.unmet.is_empty() {
        true => Start { unmet: start.unasked.clone(), ..start },
        false => start,
    }
}

/// What came of the last start of each of these.
pub(crate) async fn starts(
    manager: &dyn Manager,
    names: Vec<String>,
) -> Result<BTreeMap<String, Start>, Error> {
    let starts = if names.is_empty() { Vec::new() } else { manager.starts(&names).await? };
    Ok(names.into_iter().zip(starts).collect())
}

/// When the present runs of these began, at the earliest: who errs has a service read once more what it has read.
pub(super) async fn began(manager: &dyn Manager, names: Vec<String>) -> Result<BTreeMap<String, u64>, Error> {
    let runs = if names.is_empty() { Vec::new() } else { manager.runs(&names).await? };
    Ok(names.into_iter().zip(runs.into_iter().map(|run| run.earliest())).collect())
}
