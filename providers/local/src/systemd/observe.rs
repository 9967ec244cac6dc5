//! How units stand: their files through the hands, all else from the manager.
//!
//! What is declared of a unit is looked at, and nothing else of it. A unit that runs as its files were before shows as
//! stale: what the inventory remembers says with which files it was started, so that a crash between the files and the
//! restart is found by the next look.

use super::{
    Places, definition,
    places::path,
    reads,
    unit::{RunState, Unit, Why},
};
use crate::{
    hands::{Hands, Manager, Seen, Start, UnitState, Watched, What},
    path::FilePath,
    state::{Access, mode_text},
};
use bytes::Bytes;
use reconciled_provider::{
    Cx, Error, Focus, Observation, Observed, Resource, ResourceId, Sealed, Tracked, Version, Want,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What the inventory remembers of a unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// The file of the unit is ours.
    pub(crate) fragment: bool,
    /// Names of the drop-ins that are ours.
    pub(crate) drop_ins: BTreeSet<String>,
    /// What the files mean that it was last started with.
    pub(crate) effective: String,
    /// The same without what a mount can take over while it is mounted; empty where it is not known.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(crate) fixed: String,
    /// The run that was started with them.
    pub(crate) invocation: String,
    /// Marks of the files that this run has read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(crate) read: BTreeMap<String, String>,
    /// It was started, and was still coming up.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) is_starting: bool,
    /// systemd passed it over when it was last to be started.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) is_passed: bool,
    /// It was stopped so that its files could change, and is to be started after that.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) is_stopped: bool,
    /// How often in a row it ended before it was up.
    #[serde(skip_serializing_if = "is_none", default)]
    pub(crate) early: u32,
}

fn is_none(times: &u32) -> bool {
    *times == 0
}

impl Memory {
    pub(crate) fn seal(&self) -> Sealed {
        Sealed(Bytes::from(serde_json::to_vec(self).unwrap_or_default()))
    }
    pub(crate) fn open(tracked: Option<&Tracked>) -> Option<Memory> {
        serde_json::from_slice(&tracked?.private.0).ok()
    }
    /// True where nothing would be left of it: only settings of somebody else's unit.
    pub(crate) fn has_files(&self) -> bool {
        self.fragment || !self.drop_ins.is_empty()
    }
}

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
    /// The same without what a mount takes over while it is mounted.
    pub(crate) fn fixed(&self) -> String {
        definition::fixed(self.texts().iter().map(String::as_str))
    }
    fn texts(&self) -> Vec<String> {
        let files = std::iter::once(&self.fragment).chain(self.drop_ins.values()).chain(&self.beside);
        files.filter_map(text).collect()
    }
    /// Those of `unit`'s files that are there and ours.
    fn declared(&self, unit: &Unit) -> impl Iterator<Item = &Seen> {
        let fragment = unit.content.is_some().then_some(&self.fragment);
        let drop_ins = self.drop_ins.iter().filter(|(name, _)| unit.drop_ins.contains_key(*name));
        fragment.into_iter().chain(drop_ins.map(|(_, seen)| seen))
    }
}

/// Who may do what with a file of ours: whoever may write it decides what runs, with the rights of the manager.
pub(crate) const ACCESS: Access = Access { owner: None, group: None, mode: 0o644 };

/// Who may do what with a file of ours, where that is another than should be: what a plan calls it, and says of it.
pub(crate) fn access(seen: &Seen) -> Option<(String, String)> {
    let What::File { meta, .. } = &seen.what else { return None };
    let words = [
        (meta.mode != ACCESS.mode).then(|| format!("mode {}", mode_text(meta.mode))),
        (!meta.owner.is_own).then(|| format!("owner {}", meta.owner.named())),
        (!meta.group.is_own).then(|| format!("group {}", meta.group.named())),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| (format!("{} access", seen.path), words.join(", ")))
}

/// What is in a file, as text: of what is none, as much as can be read.
pub(crate) fn text(seen: &Seen) -> Option<String> {
    match &seen.what {
        What::File { content, .. } => Some(String::from_utf8_lossy(content.reveal()).into_owned()),
        _ => None,
    }
}

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

/// Why what was seen at the path of a file cannot be managed, if so.
pub(crate) fn no_file(seen: &Seen) -> Option<Why> {
    match &seen.what {
        What::Refused(refusal) => Some(Why::of(refusal, BY_HAND)),
        What::Directory { .. } | What::Other(_) => {
            Some(Why::new(format!("{} is no file", seen.path), BY_HAND))
        }
        What::Absent | What::File { .. } | What::Link { .. } => None,
    }
}

const BY_HAND: &str = "remove it by hand, or let it be managed there";

/// Why what systemd reads drop-ins from can neither be told nor taken away, if so.
pub(crate) fn no_drop_in(seen: &Seen) -> Option<Why> {
    match &seen.what {
        What::Link { target } if seen.path.as_str().ends_with(".d") => {
            let text =
                format!("{} is a link to {target}: drop-ins there outrank what is declared", seen.path);
            Some(Why::new(text, "remove it by hand, and declare what shall stay of them"))
        }
        _ => no_file(seen),
    }
}

/// What is in a file, as it is reported: what is declared, and what every user of the host may read, in clear; of all else a
/// mark and the length, or a repository were a way to read the host. What is no text is never what is declared.
pub(crate) fn reported(cx: &Cx, seen: &Seen, declared: Option<&str>) -> Option<String> {
    let What::File { content, .. } = &seen.what else { return None };
    Some(match std::str::from_utf8(content.reveal()) {
        Ok(text) if seen.is_public || declared == Some(text) => text.to_owned(),
        _ => closed(cx, content.reveal()),
    })
}

/// True for what stands for a text: no unit begins so.
pub(crate) fn is_closed(text: &str) -> bool {
    text.starts_with('(') && text.contains(" bytes, not shown, mark ")
}

/// What stands for something that not everyone may read, or that is no text.
pub(crate) fn closed(cx: &Cx, octets: &[u8]) -> String {
    let mark: String = cx.secrets.mark(octets).0.to_string().chars().take(16).collect();
    format!("({} bytes, not shown, mark {mark})", octets.len())
}

/// What is looked at of a unit: its file, and the drop-ins that are declared or ours.
struct Place {
    state: UnitState,
    drop_ins: BTreeSet<String>,
    reads: Vec<FilePath>,
}

impl Place {
    fn of(state: UnitState, desired: Option<&Unit>, memory: Option<&Memory>) -> Place {
        let mut drop_ins: BTreeSet<String> =
            desired.iter().flat_map(|unit| unit.drop_ins.keys().cloned()).collect();
        drop_ins.extend(memory.iter().flat_map(|memory| memory.drop_ins.iter().cloned()));
        Place { state, drop_ins, reads: reads::paths(desired) }
    }
    fn paths(&self, places: &Places, name: &str, paths: &mut Vec<FilePath>) -> Result<(), Error> {
        paths.push(places.fragment(name)?);
        for one in &self.drop_ins {
            paths.push(places.drop_in(name, one)?);
        }
        paths.extend(self.reads.iter().cloned());
        Ok(())
    }
    /// How many paths these are.
    fn count(&self) -> usize {
        1 + self.drop_ins.len() + self.reads.len()
    }
    /// True where it counts why it does not run.
    fn is_idle(&self, desired: Option<&Unit>) -> bool {
        desired.is_some_and(|unit| unit.state == Some(RunState::Running)) && is_idle(&self.state)
    }
    /// True where it counts since when it runs.
    fn is_timed(&self) -> bool {
        !self.reads.is_empty() && self.state.is_running()
    }
    fn seen(
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
pub(crate) fn believed(start: Start, memory: Option<&Memory>) -> Start {
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
async fn began(manager: &dyn Manager, names: Vec<String>) -> Result<BTreeMap<String, u64>, Error> {
    let runs = if names.is_empty() { Vec::new() } else { manager.runs(&names).await? };
    Ok(names.into_iter().zip(runs.into_iter().map(|run| run.earliest())).collect())
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
        watched.paths.extend(reads::paths(Some(&unit)));
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
    let is_watched = unit.on_change != super::unit::OnChange::None && look.state.is_running();
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
