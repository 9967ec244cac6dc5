//! How units stand: their files through the hands, all else from the manager.
//!
//! What is declared of a unit is looked at, and nothing else of it. A unit that runs as its files were before shows as
//! stale: what the inventory remembers says with which files it was started, so that a crash between the files and the
//! restart is found by the next look.

use super::{
    Places, definition,
    files::{access, no_drop_in, no_file, reported, text},
    look::{Look, Place, began, believed, drop_ins, starts},
    memory::Memory,
    places::path,
    reads,
    unit::{OnChange, RunState, Unit, Why},
};
use crate::{
    hands::{Hands, Manager, Seen, UnitState, Watched, What},
    path::FilePath,
};
use reconciled_provider::{
    Cx, Error, Focus, Observation, Observed, Resource, ResourceId, Tracked, Version, Want,
};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a unit counts as enabled where `wanted` is. What is started by way of another name or unit need not be enabled
/// itself, and cannot be disabled either.
pub(crate) fn is_enabled(state: &UnitState, wanted: bool) -> bool {
    matches!(&*state.file, "enabled" | "enabled-runtime")
        || wanted && matches!(&*state.file, "alias" | "indirect")
}

/// Whether `unit` counts as enabled. Of a file of ours that does not say how, systemd has nothing to enable: its manifest has a
/// warning, and there is nothing to put right.
pub(crate) fn counts_as_enabled(unit: &Unit, state: &UnitState, wanted: bool) -> bool {
    let says_how =
        || unit.content.iter().chain(unit.drop_ins.values()).any(|text| definition::has_install(text));
    is_enabled(state, wanted) || wanted && unit.content.is_some() && state.file == "static" && !says_how()
}

/// Reads what is wanted of the units.
pub(crate) async fn observe(
    cx: &Cx,
    hands: &dyn Hands,
    manager: &dyn Manager,
    scope: &'static str,
    want: &Want<'_>,
) -> Result<Observation, Error> {
    let places = manager.places();
    let mut targets: BTreeMap<&ResourceId, (Option<&Resource>, Option<&Tracked>)> = BTreeMap::new();
    for desired in want.desired {
        targets.entry(&desired.id).or_default().0 = Some(desired);
    }
    for tracked in want.tracked {
        targets.entry(&tracked.id).or_default().1 = Some(tracked);
    }
    if *want.focus == Focus::All {
        // Before anything is looked at: what changes from here on is told.
        let names = targets.keys().map(|id| id.0.to_string()).collect();
        hands.watch(scope, watched(places, &targets)).await?;
        manager.watch(scope, names);
    }
    targets.retain(|id, _| want.focus.covers(id));
    let names: Vec<String> = targets.keys().map(|id| id.0.to_string()).collect();
    let states = if names.is_empty() { Vec::new() } else { manager.units(&names).await? };
    let (mut looked, mut paths, mut declared) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut idle = Vec::new();
    for ((id, (desired, tracked)), state) in targets.into_iter().zip(states) {
        let unit = desired.and_then(|desired| Unit::decode(desired.spec.bytes()?));
        let memory = Memory::open(tracked);
        let place = Place::of(state, unit.as_ref(), memory.as_ref());
        place.paths(places, &id.0, &mut paths)?;
        if place.is_idle(unit.as_ref()) {
            idle.push(id.0.to_string());
        }
        if unit.is_some_and(|unit| unit.content.is_some()) {
            declared.insert(id.0.to_string());
        }
        looked.push((id, desired, memory, place));
    }
    let mut beside = drop_ins(hands, places, &declared).await?;
    let timed = looked.iter().filter(|(.., place)| place.is_timed()).map(|(id, ..)| id.0.to_string());
    let began = began(manager, timed.collect()).await?;
    let mut starts = starts(manager, idle).await?;
    // All files in one look.
    let mut seen = hands.look(&paths).await?.into_iter();
    let mut resources = Vec::new();
    for (id, desired, memory, place) in looked {
        let (of_unit, began) = (place.count(), began.get(&*id.0).copied().unwrap_or_default());
        let start = believed(starts.remove(&*id.0).unwrap_or_default(), memory.as_ref());
        let beside = beside.remove(&*id.0).unwrap_or_default();
        let look = place.seen(&id.0, &mut seen.by_ref().take(of_unit), beside, (began, start))?;
        resources.extend(observed(cx, id, desired, memory.as_ref(), &look));
    }
    Ok(Observation { covered: want.focus.clone(), complete: true, version: Version::Unknown, resources })
}

/// The files of what is declared or ours.
fn watched(
    places: &Places,
    targets: &BTreeMap<&ResourceId, (Option<&Resource>, Option<&Tracked>)>,
) -> Watched {
    let mut watched = Watched::default();
    for (id, (desired, tracked)) in targets {
        let unit = desired.and_then(|desired| Unit::decode(desired.spec.bytes()?)).unwrap_or_default();
        let memory = Memory::open(*tracked).unwrap_or_default();
        let names = unit.drop_ins.keys().chain(&memory.drop_ins);
        watched.paths.extend(names.filter_map(|name| places.drop_in(&id.0, name).ok()));
        watched.paths.extend(places.fragment(&id.0).ok());
        watched.paths.extend(unit.read_paths());
        if unit.enabled == Some(true) {
            watched.paths.extend(links(places, &id.0, &unit));
        }
        if unit.content.is_some() {
            watch_beside(&mut watched, places, &id.0);
        }
    }
    watched.directories.extend(places.control().iter().filter_map(|at| path(at.clone()).ok()));
    watched
}

/// Has changes of the drop-ins of a unit told. A directory of them that is not there is watched from the next look on, and
/// that it comes is told.
pub(crate) fn watch_beside(watched: &mut Watched, places: &Places, unit: &str) {
    let directories = places.drop_in_directories(unit).into_iter().flatten();
    watched.paths.extend(directories.clone());
    let control = places.control().iter().filter_map(|at| path(format!("{at}/{unit}.d")).ok());
    watched.directories.extend(directories.chain(control));
}

/// The links that enable a unit as its own files say: systemd tells nothing when one is removed by hand.
fn links(places: &Places, name: &str, unit: &Unit) -> Vec<FilePath> {
    let texts = unit.content.iter().chain(unit.drop_ins.values());
    let directories = texts.flat_map(|text| definition::links(text));
    directories.filter_map(|directory| places.link(&directory, name).ok()).collect()
}

/// What was seen, as the resource that is asked for; none where there is none.
pub(crate) fn observed(
    cx: &Cx,
    id: &ResourceId,
    desired: Option<&Resource>,
    memory: Option<&Memory>,
    look: &Look,
) -> Option<Observed> {
    let unit = desired.and_then(|desired| Unit::decode(desired.spec.bytes()?));
    let is_linked = |seen: &Seen| matches!(seen.what, What::Link { .. });
    // A mask is a link to /dev/null in the place of the file; other links are somebody's.
    let is_masked = look.state.file.starts_with("masked");
    let seen = match &unit {
        Some(unit) => {
            let has_file = text(&look.fragment).is_some() || is_linked(&look.fragment);
            // What somebody put beside it is in the plan that makes it: a creation would not say so.
            let is_nowhere = matches!(look.fragment.what, What::Absent) && look.beside.is_empty();
            if unit.content.is_some() && !has_file && is_nowhere {
                return None;
            }
            Unit {
                content: match &unit.content {
                    Some(declared) => Some(reported(cx, &look.fragment, Some(declared)).unwrap_or_default()),
                    // A file of ours that is no longer declared is left to go.
                    None => reported(cx, &look.fragment, None)
                        .filter(|_| memory.is_some_and(|memory| memory.fragment)),
                },
                drop_ins: look
                    .drop_ins
                    .iter()
                    .filter_map(|(name, seen)| {
                        let declared = unit.drop_ins.get(name).map(String::as_str);
                        Some((name.clone(), reported(cx, seen, declared)?))
                    })
                    .collect(),
                beside: look
                    .beside
                    .iter()
                    .map(|seen| (seen.path.as_str().into(), reported(cx, seen, None).unwrap_or_default()))
                    .chain(look.declared(unit).filter_map(access))
                    .collect(),
                enabled: unit.enabled.map(|wanted| counts_as_enabled(unit, &look.state, wanted)),
                masked: unit.masked.map(|_| is_masked),
                // One that systemd passes over is as it is wished for: its conditions are declared as well.
                state: unit.state.map(|_| match look.state.is_running() || !look.start.unmet.is_empty() {
                    true => RunState::Running,
                    false => RunState::Stopped,
                }),
                on_change: unit.on_change,
                history: unit.history,
                reads: reads::seen(cx, unit, memory, look),
                is_stale: is_stale(unit, memory, look),
                refused: refusal(id, unit, look),
            }
        }
        // No longer declared: files of ours are what is left to go. A row without a memory is about the file.
        None => {
            let unknown = Memory { fragment: true, ..Memory::default() };
            let ours = memory.or(Some(&unknown)).filter(|memory| memory.has_files())?;
            let content = reported(cx, &look.fragment, None).filter(|_| ours.fragment);
            let drop_ins: BTreeMap<_, _> = look
                .drop_ins
                .iter()
                .filter_map(|(name, seen)| Some((name.clone(), reported(cx, seen, None)?)))
                .collect();
            let files = ours.fragment.then_some(&look.fragment).into_iter().chain(look.drop_ins.values());
            // What cannot be looked at may be there.
            let refused = files.filter_map(no_file).next().or_else(|| unstoppable(id, ours, look));
            if content.is_none() && drop_ins.is_empty() && refused.is_none() {
                return None;
            }
            Unit { content, drop_ins, refused, ..Unit::default() }
        }
    };
    let bytes = match (&unit, desired.and_then(|desired| desired.spec.bytes())) {
        (Some(unit), Some(bytes)) if *unit == seen => bytes.to_vec(),
        _ => seen.encode(),
    };
    let mut observed = Observed::new(id.clone(), bytes);
    observed.private = remembered(cx, unit.as_ref(), look).seal();
    Some(observed)
}

/// What is worth remembering of a unit that is as declared.
pub(crate) fn remembered(cx: &Cx, unit: Option<&Unit>, look: &Look) -> Memory {
    Memory {
        is_starting: false,
        is_stopped: false,
        is_passed: !look.start.unmet.is_empty(),
        early: 0,
        fragment: unit.is_some_and(|unit| unit.content.is_some()),
        drop_ins: unit.map(|unit| unit.drop_ins.keys().cloned().collect()).unwrap_or_default(),
        effective: look.effective(),
        fixed: look.fixed(),
        invocation: look.state.invocation.clone(),
        read: reads::marks(cx, look),
    }
}

fn is_stale(unit: &Unit, memory: Option<&Memory>, look: &Look) -> bool {
    // One that was stopped for its change runs as no files say.
    let is_left = memory.is_some_and(|memory| memory.is_stopped) && !look.state.is_running();
    if look.state.needs_reload || is_left {
        return true;
    }
    let is_watched = unit.on_change != OnChange::None && look.state.is_running();
    is_watched
        && memory.is_some_and(|memory| {
            memory.invocation == look.state.invocation && memory.effective != look.effective()
        })
}

/// Why a unit that is to go cannot be stopped, if so.
fn unstoppable(id: &ResourceId, ours: &Memory, look: &Look) -> Option<Why> {
    let texts = look.texts();
    let refuses = definition::refuses(texts.iter().map(String::as_str));
    (ours.fragment && look.state.is_running() && refuses.stop == Some(true)).then(|| {
        let text =
            format!("{id} cannot be stopped: systemd does that for other units alone (RefuseManualStop=yes)");
        Why::new(text, "declare it once more without that line, and leave it out after that")
    })
}

/// Why a unit cannot be managed as it is.
fn refusal(id: &ResourceId, unit: &Unit, look: &Look) -> Option<Why> {
    if let Some(why) = look.beside.iter().find_map(no_drop_in) {
        return Some(why);
    }
    for seen in std::iter::once(&look.fragment).chain(look.drop_ins.values()) {
        match &seen.what {
            What::Link { target } if unit.content.is_some() && &**target != "/dev/null" => {
                let text = format!("{} is a link to {target}, which somebody else made", seen.path);
                return Some(Why::new(text, "remove it by hand, or leave `content` out"));
            }
            _ => {}
        }
        if let Some(why) = no_file(seen) {
            return Some(why);
        }
    }
    if let Some(why) = look.reads.iter().find_map(no_file) {
        return Some(why);
    }
    let may_be_enabled =
        unit.content.is_some() || unit.drop_ins.values().any(|text| definition::has_install(text));
    if unit.enabled == Some(true) && look.state.file == "static" && !may_be_enabled {
        let text = format!("{id} cannot be enabled: it has no [Install] section");
        return Some(Why::new(
            text,
            "leave `enabled` out, or declare a drop-in with [Install] and WantedBy=",
        ));
    }
    // A template has files and no state.
    let is_nowhere = look.state.load == "not-found" && look.state.file.is_empty();
    let text = format!("this host has no unit {id}");
    (unit.content.is_none() && is_nowhere)
        .then(|| Why::for_now(text, "write its `content`, or install the package that brings it"))
}
