//! Whose a manifest is: for this host or not, and which entries it is offered to.

use super::{
    envelope::Document,
    loading::Loading,
    place::place,
    request::{Ailing, EntryView, Mode},
    unit::{Standing, Unit},
};
use crate::config::Host;
use reconciled_provider::{Kind, Problem, Span, problem::did_you_mean};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Name of the stand-in entry for manifests that name none, when no configuration is at hand.
pub(super) const ANY: &str = "any";

/// A group that is this program's, and has no kinds yet.
const RESERVED: &str = "reconciled";

/// Decides for every manifest, and numbers those that are desired.
pub(super) fn settle(loading: &mut Loading<'_>) {
    if loading.mode == Mode::Anywhere {
        loading.entries = stand_ins(loading);
    }
    call_by_todays_names(loading);
    let mut next = 0;
    // Who waits for an entry that cannot be used, by source and entry: one word for all of them.
    let mut waiting: BTreeMap<(usize, Arc<str>), Vec<usize>> = BTreeMap::new();
    for index in 0..loading.units.len() {
        let unit = &loading.units[index];
        let (standing, problem) = match decide(loading, &unit.document) {
            // Its file is broken, so nothing of it counts: it is read for what else is wrong in it.
            (Standing::Offered { entries, is_sole }, problem) => {
                (Standing::Offered { entries, is_sole }, problem)
            }
            (_, problem) if unit.document.faulty => (Standing::Faulty, problem),
            decided => decided,
        };
        if let Some((problem, span)) = problem {
            let place = place(loading, unit, problem, span);
            let source = unit.source;
            loading.sides[source].report(place);
        }
        if standing == Standing::Faulty {
            let document = &unit.document;
            let kind = format!("{}/{}", document.group(), document.kind).into();
            let is_strange = !is_known(loading, document);
            loading.sides[unit.source].faulty.note(index, kind, is_strange);
        }
        if let (Standing::Unassigned, Some(ailing)) = (&standing, awaited(loading, &unit.document)) {
            waiting.entry((unit.source, ailing.name.clone())).or_default().push(index);
        }
        let unit = &mut loading.units[index];
        if matches!(standing, Standing::Offered { .. }) {
            unit.index = Some(next);
            next += 1;
        }
        unit.standing = standing;
    }
    for ((source, _), units) in waiting {
        let unit = &loading.units[units[0]];
        if let Some(ailing) = awaited(loading, &unit.document) {
            let problem = waits(&unit.document.kind, units.len() - 1, ailing);
            let placed = place(loading, unit, problem, unit.document.kind_span);
            loading.sides[source].report(placed);
        }
    }
}

/// Has manifests of before an entry was renamed be for the one that it is now.
fn call_by_todays_names(loading: &mut Loading<'_>) {
    let renamed = loading.request.renamed;
    let is_meant =
        |unit: &&mut Unit| unit.document.providers.iter().any(|(name, _)| renamed.contains_key(name));
    for unit in loading.units.iter_mut().filter(is_meant) {
        // The document stays in the cache as it was written.
        for (name, _) in &mut Arc::make_mut(&mut unit.document).providers {
            if let Some(now) = renamed.get(&**name) {
                *name = now.clone();
            }
        }
    }
}

type Verdict = (Standing, Option<(Problem, Span)>);

fn waits(kind: &str, others: usize, ailing: &Ailing) -> Problem {
    let who = match others {
        0 => format!("this {kind} waits"),
        1 => format!("this {kind} and another manifest wait"),
        _ => format!("this {kind} and {others} other manifests wait"),
    };
    Problem::warning(format!("{who}: provider `{}` cannot be used: {}", ailing.name, ailing.why))
        .hint_if(ailing.hint.as_deref())
}

fn decide(loading: &Loading<'_>, document: &Document) -> Verdict {
    let request = loading.request;
    let is_here =
        document.settings.hosts.as_ref().is_none_or(|hosts| hosts.matches(|key| label(request.host, key)));
    if !is_here && loading.mode == Mode::Host {
        return (Standing::Unselected, None);
    }
    if awaited(loading, document).is_some() {
        return (Standing::Unassigned, None);
    }
    let knows = |entry: &EntryView| entry.kinds.find(&document.api_version, &document.kind).is_some();
    let able: Vec<usize> =
        loading.entries.iter().enumerate().filter(|(_, e)| knows(e)).map(|(index, _)| index).collect();
    if able.is_empty() && !is_known(loading, document) {
        return unknown(loading, document);
    }
    if loading.mode == Mode::Anywhere {
        let names: Vec<&str> = match document.providers.is_empty() {
            true => loading.entries.iter().map(|entry| &*entry.name).collect(),
            false => document.providers.iter().map(|(name, _)| &**name).collect(),
        };
        let entries = able.into_iter().filter(|i| names.contains(&&*loading.entries[*i].name)).collect();
        return (Standing::Offered { entries, is_sole: false }, None);
    }
    // Without labels there is one kind of host, and a manifest for another host is a mistake.
    let all_hosts_are_alike = request.host.labels.is_empty();
    if document.providers.is_empty() {
        if !able.is_empty() {
            let is_sole = able.len() == 1;
            return (Standing::Offered { entries: able, is_sole }, None);
        }
        if !all_hosts_are_alike {
            return (Standing::Unassigned, None);
        }
        let problem = Problem::error(format!("no configured provider knows kind {}", document.kind));
        let problem = problem.hint("add an entry under `providers` in the host configuration");
        return (Standing::Faulty, Some((problem, document.kind_span)));
    }
    named(loading, document, &able, all_hosts_are_alike)
}

/// True for a kind of this program, or of an entry.
fn is_known(loading: &Loading<'_>, document: &Document) -> bool {
    let (version, kind) = (&document.api_version, &document.kind);
    loading.request.known.find(version, kind).is_some()
        || loading.entries.iter().any(|entry| entry.kinds.find(version, kind).is_some())
}

/// The entry without kinds that a manifest may be for. It goes to no other meanwhile: that one would make a second of what
/// is there.
fn awaited<'a>(loading: &'a Loading<'_>, document: &Document) -> Option<&'a Ailing> {
    let mut ailing = loading.request.ailing.values();
    if !document.providers.is_empty() {
        return ailing.find(|ailing| document.providers.iter().any(|(name, _)| *name == ailing.name));
    }
    let is_of_its_kind = |ailing: &Ailing| {
        let entry = loading.entries.iter().find(|entry| entry.name == ailing.name);
        entry.is_some_and(|entry| entry.kinds.find(&document.api_version, &document.kind).is_some())
    };
    // What names no entry is for the one that is called as its group, whoever else could take it.
    let is_of_another = loading.entries.iter().any(|entry| {
        *entry.name == *document.group()
            && !loading.request.ailing.contains_key(&entry.name)
            && entry.kinds.find(&document.api_version, &document.kind).is_some()
    });
    let is_of_its_group =
        |ailing: &Ailing| !is_of_another && ailing.groups.iter().any(|group| **group == *document.group());
    ailing.find(|ailing| is_of_its_group(ailing) || is_of_its_kind(ailing))
}

/// True for a manifest that waits for an entry which is configured and cannot be used.
pub(super) fn waits_for_entry(loading: &Loading<'_>, document: &Document) -> bool {
    awaited(loading, document).is_some()
}

/// What becomes of a manifest of a kind that nobody here knows. It may be one of a provider that is configured elsewhere, and a
/// misspelt one must not be taken for that: nothing would be made of it, and nobody told.
fn unknown(loading: &Loading<'_>, document: &Document) -> Verdict {
    let faulty = |problem: Problem| (Standing::Faulty, Some((problem, document.kind_span)));
    let are_all_hosts_alike = loading.mode == Mode::Host && loading.request.host.labels.is_empty();
    if are_all_hosts_alike || !may_be_of_a_remote(loading, document) {
        return faulty(unknown_kind(loading, document));
    }
    if loading.mode == Mode::Anywhere {
        let text = format!("kind {} of {} is not checked here", document.kind, document.api_version);
        let hint = "which kinds a Terraform provider has is known where it is configured";
        return (Standing::Unassigned, Some((Problem::warning(text).hint(hint), document.kind_span)));
    }
    let names = || loading.entries.iter().map(|entry| &*entry.name);
    for (name, span) in &document.providers {
        match did_you_mean(name, names()) {
            Some(near) if *near == **name => return faulty(unknown_kind(loading, document)),
            Some(near) => return (Standing::Faulty, Some((not_configured_but(name, near), *span))),
            None => {}
        }
    }
    match did_you_mean(document.group(), names()) {
        Some(near) if near != document.group() => {
            let text =
                format!("no provider on this host has kind {} of {}", document.kind, document.api_version);
            faulty(Problem::error(text).hint(format!("did you mean the group of provider `{near}`?")))
        }
        Some(_) => faulty(unknown_kind(loading, document)),
        None => (Standing::Unassigned, None),
    }
}

fn not_configured_but(name: &str, near: &str) -> Problem {
    let problem = Problem::error(format!("provider `{name}` is not configured on this host"));
    problem.hint(format!("did you mean `{near}`?"))
}

/// True where a kind may be one that only a configured provider tells of: its group is none that is known here, and is
/// not meant to be one.
fn may_be_of_a_remote(loading: &Loading<'_>, document: &Document) -> bool {
    let Some(group) = document.api_version.strip_suffix("/v1") else { return false };
    let is_plain =
        group.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    is_plain && did_you_mean(group, groups(loading)).is_none()
}

/// The groups of this program, and of those that are configured.
fn groups<'a>(loading: &'a Loading<'_>) -> BTreeSet<&'a str> {
    let configured = loading.entries.iter().flat_map(|entry| entry.kinds.0.iter());
    let versions = configured.chain(&loading.request.known.0).flat_map(|kind| kind.api_versions.iter());
    let known = versions.map(|version| version.split('/').next().unwrap_or_default());
    let ailing =
        loading.request.ailing.values().flat_map(|ailing| ailing.groups.iter().map(|group| &**group));
    known.chain(ailing).chain([RESERVED]).collect()
}

fn named(loading: &Loading<'_>, document: &Document, able: &[usize], all_hosts_are_alike: bool) -> Verdict {
    let names: Vec<&str> = loading.entries.iter().map(|entry| &*entry.name).collect();
    let mut entries = BTreeSet::new();
    for (name, span) in &document.providers {
        let Some(index) = names.iter().position(|known| *known == &**name) else {
            let near = did_you_mean(name, names.iter().copied());
            match near {
                Some(near) => return (Standing::Faulty, Some((not_configured_but(name, near), *span))),
                None if all_hosts_are_alike => {
                    let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
                    let problem = Problem::error(format!("provider `{name}` is not configured on this host"));
                    let problem = problem.hint(format!("configured: {known}"));
                    return (Standing::Faulty, Some((problem, *span)));
                }
                None => continue,
            }
        };
        if !able.contains(&index) {
            let problem = Problem::error(format!("provider `{name}` does not know kind {}", document.kind));
            let able: Vec<&str> = able.iter().map(|index| names[*index]).collect();
            let hint = match able.is_empty() {
                true => "no configured provider does".to_string(),
                false => format!("these do: {}", able.join(", ")),
            };
            return (Standing::Faulty, Some((problem.hint(hint), *span)));
        }
        entries.insert(index);
    }
    if entries.is_empty() {
        return (Standing::Unassigned, None);
    }
    (Standing::Offered { entries: entries.into_iter().collect(), is_sole: able.len() == 1 }, None)
}

fn unknown_kind(loading: &Loading<'_>, document: &Document) -> Problem {
    let configured = loading.entries.iter().flat_map(|entry| entry.kinds.0.iter());
    let all: Vec<&Kind> = configured.chain(&loading.request.known.0).collect();
    let (version, name) = (&document.api_version, &document.kind);
    let problem = Problem::error(format!("unknown kind {name} of {version}"));
    if let Some(kind) = all.iter().find(|kind| kind.name == *name) {
        return problem.hint(format!("{name} is known as `apiVersion: {}`", kind.api_versions[0]));
    }
    let near = did_you_mean(name, all.iter().map(|kind| &*kind.name));
    match near.and_then(|near| all.iter().find(|kind| &*kind.name == near)) {
        Some(kind) => problem.hint(format!("did you mean `{}` of {}?", kind.name, kind.api_versions[0])),
        None => {
            let (group, groups) = (document.group(), groups(loading));
            if let Some(near) = did_you_mean(group, groups.iter().copied()).filter(|near| *near != group) {
                return problem.hint(format!("did you mean a kind of group `{near}`?"));
            }
            let known: BTreeSet<&str> = all.iter().map(|kind| &*kind.name).collect();
            let known: Vec<&str> = known.into_iter().collect();
            problem.hint(format!("known: {}", known.join(", ")))
        }
    }
}

/// Entries under the names that manifests use, each of the first type that knows their kind.
fn stand_ins(loading: &Loading<'_>) -> Vec<EntryView> {
    let types = loading.request.entries;
    let mut wanted: BTreeMap<Arc<str>, BTreeSet<usize>> = BTreeMap::new();
    for unit in &loading.units {
        let document = &unit.document;
        let knows = |entry: &EntryView| entry.kinds.find(&document.api_version, &document.kind).is_some();
        let Some(first) = types.iter().position(knows) else { continue };
        let names = document.providers.iter().map(|(name, _)| name.clone());
        let names: Vec<Arc<str>> = match document.providers.is_empty() {
            true => vec![ANY.into()],
            false => names.collect(),
        };
        for name in names {
            wanted.entry(name).or_default().insert(first);
        }
    }
    let entry = |name: &Arc<str>, index: usize| EntryView { name: name.clone(), ..types[index].clone() };
    wanted.iter().flat_map(|(name, set)| set.iter().map(move |index| entry(name, *index))).collect()
}

/// True when `entry` counts as the only one for a manifest that names none.
pub(super) fn is_sole(loading: &Loading<'_>, unit: &Unit, entry: &EntryView) -> bool {
    match (&unit.standing, loading.mode) {
        (_, Mode::Anywhere) => &*entry.name == ANY,
        (Standing::Offered { is_sole, .. }, Mode::Host) => *is_sole,
        _ => false,
    }
}

/// What a selector of hosts sees of this one: its labels, and its name as `name`.
pub(super) fn label<'h>(host: &'h Host, key: &str) -> Option<&'h Arc<str>> {
    if key == "name" { Some(&host.name) } else { host.labels.get(key) }
}
