//! What is declared more than once: the same resource, and one thing of a remote by two names.
//!
//! Guarantees: of several sources the one that owns it keeps it, and the others are told; of one source nobody gets it. It
//! deliberately removes nothing: who loses is an answer.

use super::{
    files::read_text,
    loading::Loading,
    normalize,
    place::{at_line, first_column, part_address, path},
    product::Taken,
    request::Mode,
    scopes::Scopes,
    standing,
};
use reconciled_provider::{Place, Policies, Problem, Resource, ResourceId, Scope, Span};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// How many resources that two manifests both declare are shown one by one.
const SHOWN_DUPLICATES: usize = 10;

type Loser = (Scope, ResourceId, u32);

/// Reports resources that are declared more than once. Returns those that lose to the source that owns them, and
/// what several sources declare.
pub(super) fn check_duplicates(
    loading: &mut Loading<'_>,
    scopes: &Scopes,
    shared: &BTreeSet<Scope>,
    policies: &Policies,
    unit_of: &[usize],
    taken: &[Taken],
) -> (HashSet<Loser>, BTreeSet<(Scope, ResourceId)>) {
    let (mut losers, mut contested) = (HashSet::new(), BTreeSet::new());
    let mut reports = Vec::new();
    for (scope, resources) in shared.iter().filter_map(|scope| scopes.get_key_value(scope)) {
        for run in resources.chunk_by(|a, b| a.id == b.id).filter(|run| run.len() > 1) {
            if run.iter().all(|resource| policies.get(resource.policy).merge) {
                continue;
            }
            let unit = |resource: &Resource| unit_of[resource.origin.manifest as usize];
            // Whoever tracks it owns it; what nobody tracks yet, the first in the order of the configuration.
            let key = (scope.clone(), run[0].id.clone());
            let tracked = loading.request.owners.get(&key);
            let tracking =
                tracked.and_then(|name| run.iter().find(|r| *loading.units[unit(r)].key.source() == **name));
            let first = || run.iter().min_by_key(|r| loading.units[unit(r)].source);
            let owner = tracking.or_else(first).unwrap_or(&run[0]);
            let owning = loading.units[unit(owner)].source;
            if run.iter().any(|resource| loading.units[unit(resource)].source != owning) {
                contested.insert(key);
            }
            let mut first_in: HashMap<usize, &Resource> = HashMap::new();
            for resource in run {
                let number = unit(resource);
                let source = loading.units[number].source;
                if source != owning {
                    losers.insert((scope.clone(), resource.id.clone(), resource.origin.manifest));
                    reports.push((number, resource, unit(owner), owner, true));
                } else if let Some(first) = first_in.get(&source) {
                    if may_be_on_other_hosts(loading, unit(first), number) {
                        continue;
                    }
                    reports.push((number, resource, unit(first), *first, false));
                } else {
                    first_in.insert(source, resource);
                }
            }
        }
    }
    // A file copied whole is one mistake: a few of its resources show it.
    let mut counts: HashMap<(usize, usize), usize> = HashMap::new();
    let mut found = Vec::new();
    for (number, resource, other, first, across) in reports {
        let count = counts.entry((number, other)).or_default();
        *count += 1;
        if *count <= SHOWN_DUPLICATES {
            let problem = duplicate(loading, taken, (number, resource), (other, first), across);
            found.push((number, problem, other, across));
        }
    }
    for ((number, other), count) in counts.into_iter().filter(|(_, count)| *count > SHOWN_DUPLICATES) {
        let (unit, owner) = (&loading.units[number], &loading.units[other]);
        let more = count - SHOWN_DUPLICATES;
        let text = format!("{more} more resources of {} are declared by {} too", unit.address, owner.address);
        let problem = at_line(loading, unit, Problem::error(text), first_column(unit.document.span.line));
        found.push((number, problem, other, unit.source != owner.source));
    }
    for (number, problem, other, across) in found {
        let source = loading.units[number].source;
        if across {
            // Each keeps the rest of its file: what one source lets go of the other has, or it would go between them.
            loading.sides[source].report_loss(problem);
            continue;
        }
        loading.sides[source].report(problem);
        for unit in [number, other] {
            // The problem may be told at the place of an included file.
            let path = path(loading, &loading.units[unit]).clone();
            loading.sides[source].mark_broken(&path);
        }
    }
    (losers, contested)
}

/// One name of a thing of a remote: the unit that gives it, and its resource.
struct Named<'a> {
    unit: usize,
    scope: &'a Scope,
    id: &'a ResourceId,
}

/// Reports manifests that give one thing of a remote, or of this host, two names: both would write it. Those that lose to another
/// source are put to `losers`, and who tracks what several sources have a name for is to be asked.
pub(super) fn check_remotes(
    loading: &mut Loading<'_>,
    taken: &[Taken],
    losers: &mut HashSet<Loser>,
    contested: &mut BTreeSet<(Scope, ResourceId)>,
) {
    // By entry, none for what is of this host, and name there.
    let mut all: BTreeMap<(Option<&str>, &str), Vec<Named<'_>>> = BTreeMap::new();
    for taken in taken {
        let of_entry = taken.product.remotes.iter().map(|one| (Some(&*one.0.provider), one));
        let of_host = taken.product.on_host.iter().map(|one| (None, one));
        for (entry, (scope, id, remote)) in of_entry.chain(of_host) {
            all.entry((entry, &**remote)).or_default().push(Named { unit: taken.unit, scope, id });
        }
    }
    let mut found = Vec::new();
    for ((_, remote), names) in all.iter().filter(|(_, names)| names.len() > 1) {
        let source = |one: &Named<'_>| loading.units[one.unit].source;
        let tracks = |one: &&Named<'_>| {
            let tracked = loading.request.owners.get(&(one.scope.clone(), one.id.clone()));
            tracked.is_some_and(|name| *loading.units[one.unit].key.source() == **name)
        };
        let across = names.iter().any(|one| source(one) != source(&names[0]));
        // A push to one source takes nothing from another one, whatever their order.
        let tracking = names.iter().filter(|_| across).find(tracks);
        let first = || names.iter().min_by_key(|one| source(one));
        let owner = tracking.or_else(first).unwrap_or(&names[0]);
        if across {
            contested.extend(names.iter().map(|one| (one.scope.clone(), one.id.clone())));
        }
        for one in names {
            // What is one resource already is declared twice, and told as that.
            let is_same = one.unit == owner.unit || (one.scope, one.id) == (owner.scope, owner.id);
            if is_same || may_be_on_other_hosts(loading, owner.unit, one.unit) {
                continue;
            }
            let (unit, owning) = (&loading.units[one.unit], &loading.units[owner.unit]);
            let across = unit.source != owning.source;
            // Either has a thing in the state. Whose this one is, its provider tells.
            if across && tracks(&one) {
                continue;
            }
            let file = path(loading, owning).clone();
            let place = Place { file, line: owning.document.span.line, column: 0 };
            let text = format!("{} and {} are one resource, {remote}", unit.address, owning.address);
            let hint = match unit.document.annotations.contains_key("reconciled/import") {
                true => "give each its own `reconciled/import`, or remove one of the manifests",
                false => "give each its own, or remove one of the manifests",
            };
            let is_there = match across {
                true => format!("{} of source `{}` keeps it", owning.address, owning.key.source()),
                false => format!("{} is here", owning.address),
            };
            let problem = Problem::error(text).hint(hint).related(place, is_there);
            let problem = at_line(loading, unit, problem, first_column(unit.document.span.line));
            if across {
                let index = unit.index.expect("only numbered manifests are offered");
                losers.insert((one.scope.clone(), one.id.clone(), index));
            }
            found.push((one.unit, owner.unit, problem));
        }
    }
    for (number, other, problem) in found {
        let (source, theirs) = (loading.units[number].source, loading.units[other].source);
        if source != theirs {
            loading.sides[source].report_loss(problem);
            continue;
        }
        loading.sides[source].report(problem);
        let path = path(loading, &loading.units[other]).clone();
        loading.sides[source].mark_broken(&path);
    }
}

/// Without a host at hand, two manifests with selectors may be meant for different hosts.
fn may_be_on_other_hosts(loading: &Loading<'_>, a: usize, b: usize) -> bool {
    let selects = |unit: usize| loading.units[unit].document.settings.hosts.is_some();
    loading.mode == Mode::Anywhere && (selects(a) || selects(b))
}

/// Whether both may stay, with their values united.
fn is_shareable(loading: &Loading<'_>, resource: &Resource) -> bool {
    let entry = loading.entries.iter().find(|entry| *entry.name == *resource.scope.provider);
    entry.is_none_or(|entry| normalize::is_shareable(&*entry.observer, resource))
}

fn duplicate(
    loading: &Loading<'_>,
    taken: &[Taken],
    (number, resource): (usize, &Resource),
    (other, first): (usize, &Resource),
    across: bool,
) -> Problem {
    let (unit, owner) = (&loading.units[number], &loading.units[other]);
    let address = part_address(loading, unit, resource);
    let scope = &resource.scope;
    let (message, word, hint) = if across {
        let source = owner.key.source();
        let key = ((**scope).clone(), resource.id.clone());
        let is_tracked = loading.request.owners.get(&key).is_some_and(|name| **name == *source);
        let why = match is_tracked {
            true => format!("remove one; `{source}` tracks it, and owns it as long as it declares it"),
            false => {
                "remove one; nothing tracks it yet, so the first source in the host configuration gets it"
                    .into()
            }
        };
        (
            format!("{address} in {scope} belongs to source `{source}`, which declares it too"),
            format!("of source `{source}` keeps it"),
            why,
        )
    } else {
        (
            // Nobody wrote the name of an entry that stands in for one.
            match loading.mode == Mode::Anywhere && &*scope.provider == standing::ANY {
                true => format!("{address} in {} is declared twice", scope.name),
                false => format!("{address} in {scope} is declared twice"),
            },
            "first declared here".to_string(),
            match (is_shareable(loading, resource), &address.part) {
                (true, Some(_)) => "remove one, or write `merge: true` on all to unite their values".into(),
                (true, None) => {
                    "remove one, or annotate all with `reconciled/merge: \"true\"` to unite them".into()
                }
                (false, _) => "remove one of them".into(),
            },
        )
    };
    let place = place_of(loading, taken, other, first);
    let problem = Problem::error(message).hint(hint).related(place, word);
    at_place(loading, unit.source, problem, &place_of(loading, taken, number, resource))
}

/// Where a resource of `unit` is declared.
fn place_of(loading: &Loading<'_>, taken: &[Taken], unit: usize, resource: &Resource) -> Place {
    let products = taken.iter().filter(|taken| taken.unit == unit).map(|taken| &taken.product);
    let key = (resource.scope.clone(), resource.id.clone());
    match products.into_iter().find_map(|product| product.places.get(&key)) {
        Some(place) => place.clone(),
        None => {
            let file = path(loading, &loading.units[unit]).clone();
            Place { file, line: resource.origin.line, column: 0 }
        }
    }
}

fn at_place(loading: &Loading<'_>, source: usize, problem: Problem, place: &Place) -> Problem {
    match read_text(loading.sides[source].request.files, &place.file) {
        Ok(file) => problem.at(&file, Span { line: place.line, column: place.column }),
        Err(_) => problem.in_file(&place.file),
    }
}
