//! From what entries took to the desired set: duplicates, rules, and what is broken is left out.

use super::{
    Cache, Loaded, Mode, Reported,
    cache::{List, Run},
    graph::After,
    lint,
    normalize::{Blob, Taken},
    read::{Loading, Unit},
    standing::{self, Standing},
};
use crate::config::{Allow, AllowRule, OnInvalid};
use reconciled_engine::{Desired, ManifestMeta, Reach, SourceState};
use reconciled_provider::{
    Address, Hash, ManifestKey, Origin, Place, Policies, Policy, Problem, Resource, ResourceId, Scope, Span,
    address::glob,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// Resources of all sources by scope, each list sorted by id; equal ids keep the order of sources and files.
pub(super) type Scopes = BTreeMap<Scope, Arc<Vec<Resource>>>;

/// Puts the desired set together.
pub(super) fn assemble(
    mut loading: Loading<'_>,
    after: After,
    taken: Vec<Taken>,
    cache: &mut Cache,
) -> Loaded {
    report_products(&mut loading, &taken);
    report_untaken(&mut loading, &taken);
    check_rules(&mut loading, &taken);
    let (mut scopes, shared) = by_scope(&loading, &taken, &mut cache.lists);
    let unit_of = unit_by_index(&loading);
    let (losers, contested) =
        check_duplicates(&mut loading, &scopes, &shared, &cache.policies, &unit_of, &taken);
    share_policies(&loading, &mut scopes, &shared, &mut cache.policies, &unit_of);
    check_remotes(&mut loading, &taken);
    lint::look(&mut loading, &scopes, &taken, &unit_of, cache);
    let withheld: BTreeSet<Arc<str>> = loading
        .sides
        .iter()
        .filter(|side| {
            side.is_tampered || side.has_errors && side.request.rules.on_invalid == OnInvalid::Hold
        })
        .map(|side| side.request.name.clone())
        .collect();
    let stands = |number: usize| {
        let unit = &loading.units[number];
        let side = &loading.sides[unit.source];
        !withheld.contains(&side.request.name)
            && !is_broken(&loading, unit)
            && !side.lacking.contains(&number)
    };
    let standing: Vec<bool> = unit_of.iter().map(|unit| stands(*unit)).collect();
    for (scope, resources) in &mut scopes {
        let stays = |resource: &Resource| {
            let index = resource.origin.manifest;
            standing[index as usize]
                && (losers.is_empty() || !losers.contains(&(scope.clone(), resource.id.clone(), index)))
        };
        if !resources.iter().all(stays) {
            Arc::make_mut(resources).retain(stays);
        }
    }
    scopes.retain(|_, resources| !resources.is_empty());
    let mut exclusive: BTreeMap<Scope, Vec<u32>> = BTreeMap::new();
    for taken in taken.iter().filter(|taken| stands(taken.unit)) {
        let index = loading.units[taken.unit].index.expect("only numbered manifests are offered");
        for scope in &taken.product.exclusive {
            exclusive.entry(scope.clone()).or_default().push(index);
        }
    }
    let contents = contents(&loading, &taken);
    let mut ignored: BTreeMap<Scope, Vec<Arc<str>>> = BTreeMap::new();
    for taken in taken.iter().filter(|taken| stands(taken.unit)) {
        for (scope, rule) in &taken.product.ignored {
            ignored.entry(scope.clone()).or_default().push(rule.clone());
        }
    }
    let desired = Desired {
        sources: source_states(&loading, &withheld),
        manifests: unit_of.iter().map(|unit| meta(&loading, *unit, &after, contents.get(unit))).collect(),
        policies: cache.policies.clone(),
        places: places(&loading, &taken),
        scopes,
        exclusive,
        ignored,
        pinned: BTreeMap::new(),
        ailing: loading.request.ailing.keys().cloned().collect(),
        // The session knows what it gave.
        outputs: BTreeMap::new(),
        generations: None,
    };
    let counts = loading.counts;
    let (outputs, secrets) = (loading.asked.take(), loading.secrets.take());
    let unchecked = unchecked(&loading);
    let problems = sorted_problems(loading);
    Loaded { desired, problems, withheld, unchecked, contested, outputs, secrets, counts }
}

/// Where what stands in included files is declared.
fn places(loading: &Loading<'_>, taken: &[Taken]) -> BTreeMap<(u32, ResourceId), Place> {
    let of = |taken: &Taken| {
        let manifest = loading.units[taken.unit].index.expect("only numbered manifests are offered");
        let each = taken.product.places.iter();
        each.map(|((_, id), place)| ((manifest, id.clone()), place.clone())).collect::<Vec<_>>()
    };
    taken.iter().flat_map(of).collect()
}

/// The unit of each index in the desired set.
fn unit_by_index(loading: &Loading<'_>) -> Vec<usize> {
    let applied = loading.units.iter().enumerate().filter(|(_, unit)| unit.index.is_some());
    applied.map(|(number, _)| number).collect()
}

pub(super) fn path<'a>(loading: &'a Loading<'_>, unit: &Unit) -> &'a Arc<str> {
    &loading.sides[unit.source].texts[unit.text].path
}

/// A manifest is broken with any of its files.
fn is_broken(loading: &Loading<'_>, unit: &Unit) -> bool {
    let broken = &loading.sides[unit.source].broken;
    let own = broken.contains(path(loading, unit));
    own || unit.merged.as_ref().is_some_and(|merged| merged.paths().any(|path| broken.contains(path)))
}

fn report_products(loading: &mut Loading<'_>, taken: &[Taken]) {
    for taken in taken {
        let source = loading.units[taken.unit].source;
        let lacks_secret = taken.product.lacks_secret;
        for problem in &taken.product.problems {
            match lacks_secret {
                true => loading.sides[source].report_lack(taken.unit, problem.clone()),
                false => loading.sides[source].report(problem.clone()),
            }
        }
        if lacks_secret {
            continue;
        }
        // An error in an included file breaks the manifest, not only that file.
        let file = |problem: &Problem| Some(problem.place.as_ref()?.file.clone());
        let errors = taken.product.problems.iter().filter(|problem| problem.is_error());
        let beyond = |path: Arc<str>| !loading.sides[source].texts.iter().any(|text| text.path == path);
        if errors.filter_map(file).any(beyond) {
            let own = path(loading, &loading.units[taken.unit]).clone();
            loading.sides[source].mark_broken(&own);
        }
    }
}

/// Reports manifests that every entry left to others.
fn report_untaken(loading: &mut Loading<'_>, taken: &[Taken]) {
    let mut results: BTreeMap<usize, (bool, bool)> = BTreeMap::new();
    for taken in taken {
        let result = results.entry(taken.unit).or_default();
        result.0 |= !taken.product.is_empty();
        result.1 |= taken.asked_for_scopes;
    }
    let (mut problems, mut follows) = (Vec::new(), Vec::new());
    let has_unread = loading.sides.iter().any(|side| side.has_unread());
    for (number, (was_taken, asked)) in results {
        let unit = &loading.units[number];
        let Standing::Offered { entries, is_sole } = &unit.standing else { continue };
        let names_one = !unit.document.providers.is_empty();
        // What only one could take was looked at by it, and need not be a resource.
        let is_sole = *is_sole || entries.len() == 1;
        if was_taken || unit.resolved.failed || (!asked && (is_sole || names_one)) {
            continue;
        }
        if asked && has_unread {
            // Its scope may be declared in a file that cannot be read; that is reported.
            follows.push((unit.source, path(loading, unit).clone()));
            continue;
        }
        if let (false, Some((field, span))) = (asked, &unit.document.meant_provider) {
            let problem = Problem::error(format!("unknown field `{field}`"));
            let problem = problem.hint("did you mean `provider`?");
            problems.push((unit.source, standing::place(loading, unit, problem, *span)));
            continue;
        }
        let problem = Problem::error(format!("no provider takes {}", unit.address));
        let names: Vec<&str> = entries.iter().map(|entry| &*loading.entries[*entry].name).collect();
        let problem = match asked {
            true => problem.hint("what it contributes to is declared nowhere in the sources of this host"),
            false => problem.hint(format!("write `provider:` in its spec, one of: {}", names.join(", "))),
        };
        let problem = standing::place(loading, unit, problem, unit.document.span);
        problems.push((unit.source, problem));
    }
    problems.into_iter().for_each(|(source, problem)| loading.sides[source].report(problem));
    follows.into_iter().for_each(|(source, path)| loading.sides[source].mark_broken(&path));
}

/// The resources by scope, and the scopes in which several declare one resource. A list is made anew where what it comes from
/// is other than at the last load.
fn by_scope(
    loading: &Loading<'_>,
    taken: &[Taken],
    cache: &mut HashMap<Scope, List>,
) -> (Scopes, BTreeSet<Scope>) {
    let mut sources: BTreeMap<&Scope, (Vec<Run>, bool)> = BTreeMap::new();
    for taken in taken {
        let unit = &loading.units[taken.unit];
        let manifest = unit.index.expect("only numbered manifests are offered");
        for (scope, range) in &taken.product.runs {
            let (runs, is_plain) = sources.entry(scope).or_insert((Vec::new(), true));
            runs.push(Run { product: taken.product.clone(), range: range.clone(), manifest });
            // Lines of united manifests are those of a file that may be another one.
            *is_plain &= unit.merged.is_none();
        }
    }
    let unit_of = unit_by_index(loading);
    let (mut scopes, mut shared, mut known) = (Scopes::new(), BTreeSet::new(), HashMap::new());
    for (scope, (runs, is_plain)) in sources {
        if let Some(list) = cache.remove(scope).filter(|list| is_plain && list.runs == runs) {
            scopes.insert(scope.clone(), list.resources.clone());
            known.insert(scope.clone(), list);
            continue;
        }
        let mut resources = Vec::with_capacity(runs.iter().map(|run| run.range.len()).sum());
        for Run { product, range, manifest } in &runs {
            let unit = &loading.units[unit_of[*manifest as usize]];
            let line = |line: u32| match &unit.merged {
                Some(merged) => merged.line_in_last(line).unwrap_or(unit.document.span.line),
                None => line,
            };
            resources.extend(product.resources[range.clone()].iter().map(|resource| Resource {
                origin: Origin { manifest: *manifest, line: line(resource.origin.line) },
                ..resource.clone()
            }));
        }
        resources.sort_by(|a, b| a.id.cmp(&b.id));
        let is_shared = resources.windows(2).any(|pair| pair[0].id == pair[1].id);
        let resources = Arc::new(resources);
        scopes.insert(scope.clone(), resources.clone());
        if is_shared {
            shared.insert(scope.clone());
        } else if is_plain {
            known.insert(scope.clone(), List { runs, resources });
        }
    }
    *cache = known;
    (scopes, shared)
}

/// Gives what several declare together one policy: whoever is most careful decides.
fn share_policies(
    loading: &Loading<'_>,
    scopes: &mut Scopes,
    shared: &BTreeSet<Scope>,
    policies: &mut Policies,
    unit_of: &[usize],
) {
    for scope in shared {
        let Some(resources) = scopes.get_mut(scope) else { continue };
        for run in Arc::make_mut(resources).chunk_by_mut(|a, b| a.id == b.id).filter(|run| run.len() > 1) {
            let mut each = run.iter().map(|resource| {
                let unit = &loading.units[unit_of[resource.origin.manifest as usize]];
                let drift = loading.sides[unit.source].request.rules.drift;
                let policy = policies.get(resource.policy);
                Policy { drift: policy.drift.or(drift), ..policy.clone() }
            });
            let first = each.next().expect("no run is empty");
            let shared = each.fold(first, |shared, policy| shared.with(&policy));
            if shared.merge {
                let shared = policies.intern(shared);
                run.iter_mut().for_each(|resource| resource.policy = shared);
            }
        }
    }
}

/// How many resources that two manifests both declare are shown one by one.
const SHOWN_DUPLICATES: usize = 10;

type Loser = (Scope, ResourceId, u32);

/// Reports resources that are declared more than once. Returns those that lose to the source that owns them, and
/// what several sources declare.
fn check_duplicates(
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
        loading.sides[source].report(problem);
        // The problem may be told at the place of an included file.
        let broken = [Some(number), Some(other).filter(|_| !across)];
        for unit in broken.into_iter().flatten() {
            let path = path(loading, &loading.units[unit]).clone();
            loading.sides[source].mark_broken(&path);
        }
    }
    (losers, contested)
}

/// Reports manifests that give one thing of a remote two names: both would write it.
fn check_remotes(loading: &mut Loading<'_>, taken: &[Taken]) {
    // By entry and name there: the manifest that was first, and its resource.
    type First<'a> = (usize, (&'a Scope, &'a ResourceId));
    let mut first: BTreeMap<(&str, &str), First<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for taken in taken {
        for (scope, id, remote) in &taken.product.remotes {
            let key = (&*scope.provider, &**remote);
            let this = (&**scope, id);
            let (other, first) = *first.entry(key).or_insert((taken.unit, this));
            // What is one resource already is declared twice, and told as that.
            if other == taken.unit || first == this || may_be_on_other_hosts(loading, other, taken.unit) {
                continue;
            }
            let (unit, owner) = (&loading.units[taken.unit], &loading.units[other]);
            let text = format!("{} and {} are one resource, {remote}", unit.address, owner.address);
            let file = path(loading, owner).clone();
            let place = Place { file, line: owner.document.span.line, column: 0 };
            let hint = match unit.document.annotations.contains_key("reconciled/import") {
                true => "give each its own `reconciled/import`, or remove one of the manifests",
                false => "give each its own, or remove one of the manifests",
            };
            let problem =
                Problem::error(text).hint(hint).related(place, format!("{} is here", owner.address));
            let problem = at_line(loading, unit, problem, first_column(unit.document.span.line));
            found.push((taken.unit, other, problem));
        }
    }
    for (number, other, problem) in found {
        let (source, theirs) = (loading.units[number].source, loading.units[other].source);
        loading.sides[source].report(problem);
        if source == theirs {
            let path = path(loading, &loading.units[other]).clone();
            loading.sides[source].mark_broken(&path);
        }
    }
}

/// Without a host at hand, two manifests with selectors may be meant for different hosts.
fn may_be_on_other_hosts(loading: &Loading<'_>, a: usize, b: usize) -> bool {
    let selects = |unit: usize| loading.units[unit].document.settings.hosts.is_some();
    loading.mode == Mode::Anywhere && (selects(a) || selects(b))
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
            "remove one, or write `merge: true` on all to unite their values".into(),
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
    match super::read_text(loading.sides[source].request.files, &place.file) {
        Ok(file) => problem.at(&file, Span { line: place.line, column: place.column }),
        Err(_) => problem.in_file(&place.file),
    }
}

/// Origins count lines of the last layer, so the plain file is right for united manifests too.
fn at_line(loading: &Loading<'_>, unit: &Unit, problem: Problem, span: Span) -> Problem {
    match super::read_text(loading.sides[unit.source].request.files, path(loading, unit)) {
        Ok(file) => problem.at(&file, span),
        Err(_) => problem.in_file(path(loading, unit)),
    }
}

fn part_address(loading: &Loading<'_>, unit: &Unit, resource: &Resource) -> Address {
    let entry = loading.entries.iter().find(|entry| entry.name == resource.scope.provider);
    let part = entry.and_then(|entry| entry.observer.part(&resource.scope, &resource.id));
    Address { part, ..unit.address.clone() }
}

/// Enforces `allow`: one problem for each manifest and scope, and one for each denied resource.
fn check_rules(loading: &mut Loading<'_>, taken: &[Taken]) {
    let mut problems = Vec::new();
    for taken in taken {
        let unit = &loading.units[taken.unit];
        let Allow::Rules(rules) = &loading.sides[unit.source].request.rules.allow else { continue };
        let product = &taken.product;
        let mut verdicts: BTreeMap<&Scope, Vec<&AllowRule>> = BTreeMap::new();
        let declared = product.resources.iter().map(|r| (&*r.scope, r.origin.line));
        let exclusive = product.exclusive.iter().map(|scope| (scope, unit.document.span.line));
        for (scope, line) in declared.chain(exclusive) {
            if verdicts.contains_key(scope) {
                continue;
            }
            let hits: Vec<&AllowRule> = rules.iter().filter(|rule| lets_through(rule, scope, unit)).collect();
            if hits.is_empty() {
                let kind = format!("{}/{}", unit.document.group(), unit.document.kind);
                let source = unit.key.source();
                let problem = Problem::error(format!("source `{source}` may not manage {kind} in {scope}"));
                let hint = "the host allows this under `allow` of the source; ask its operator";
                problems.push((unit.source, at_line(loading, unit, problem.hint(hint), first_column(line))));
            }
            verdicts.insert(scope, hits);
        }
        let denies = rules.iter().any(|rule| !rule.deny.is_empty());
        for resource in product.resources.iter().filter(|_| denies) {
            let hits = &verdicts[&*resource.scope];
            let address = part_address(loading, unit, resource);
            let denied = |rule: &&AllowRule| {
                rule.deny.iter().any(|pattern| pattern.matches(&address, unit.document.group()))
            };
            if !hits.is_empty() && hits.iter().all(denied) {
                let source = unit.key.source();
                let problem = Problem::error(format!("source `{source}` may not manage {address}"));
                let problem =
                    problem.hint("the host denies it under `allow` of the source; ask its operator");
                let span = first_column(resource.origin.line);
                problems.push((unit.source, at_line(loading, unit, problem, span)));
            }
        }
    }
    problems.into_iter().for_each(|(source, problem)| loading.sides[source].report(problem));
}

fn first_column(line: u32) -> Span {
    Span { line, column: 0 }
}

fn lets_through(rule: &AllowRule, scope: &Scope, unit: &Unit) -> bool {
    let kind = format!("{}/{}", unit.document.group(), unit.document.kind);
    reaches(rule, scope)
        && rule.kinds.as_ref().is_none_or(|globs| globs.iter().any(|pattern| glob(pattern, &kind)))
}

/// The content of manifests that are made from other files too: a change of such a file is a change of the manifest.
fn contents(loading: &Loading<'_>, taken: &[Taken]) -> HashMap<usize, Hash> {
    let mut blobs: BTreeMap<usize, BTreeSet<_>> = BTreeMap::new();
    for taken in taken.iter().filter(|taken| !taken.blobs.is_empty()) {
        blobs.entry(taken.unit).or_default().extend(&taken.blobs);
    }
    let content = |(unit, blobs): (usize, BTreeSet<&Blob>)| {
        let mut bytes = loading.units[unit].resolved.content.0.to_vec();
        for (path, oid) in blobs {
            bytes.extend_from_slice(path.as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(&oid.unwrap_or_default());
        }
        (unit, Hash::of(&bytes))
    };
    blobs.into_iter().map(content).collect()
}

fn meta(loading: &Loading<'_>, number: usize, after: &After, content: Option<&Hash>) -> ManifestMeta {
    let unit = &loading.units[number];
    let line = unit.document.span.line;
    ManifestMeta {
        key: unit.key.clone(),
        address: unit.address.clone(),
        file: path(loading, unit).clone(),
        line: unit.merged.as_ref().map_or(line, |merged| merged.line_in_last(line).unwrap_or(line)),
        content: content.copied().unwrap_or(unit.resolved.content),
        labels: unit.document.labels.clone(),
        after: after[number].clone(),
        moved_from: unit.document.settings.moved_from.clone(),
    }
}

fn source_states(loading: &Loading<'_>, withheld: &BTreeSet<Arc<str>>) -> BTreeMap<Arc<str>, SourceState> {
    let keys = |source: usize, standing: &Standing| {
        let of = loading.units.iter().filter(|unit| unit.source == source && unit.standing == *standing);
        of.map(|unit| unit.key.clone()).collect()
    };
    let state = |(source, side): (usize, &super::read::Side<'_>)| {
        let mut broken = side.broken.clone();
        broken.extend(side.lacking.iter().map(|unit| path(loading, &loading.units[*unit]).clone()));
        if withheld.contains(&side.request.name) {
            broken.extend(side.texts.iter().map(|text| text.path.clone()));
        }
        let state = SourceState {
            revision: side.request.revision.clone(),
            label: side.request.label.clone(),
            prunes: side.request.prunes && !side.has_errors,
            broken,
            unassigned: keys(source, &Standing::Unassigned),
            elsewhere: elsewhere(loading, source),
            unselected: keys(source, &Standing::Unselected),
            path_changed: false,
            needs_consent: side.request.rules.needs_consent,
            drift: side.request.rules.drift,
            reach: reach(&side.request.rules.allow),
        };
        (side.request.name.clone(), state)
    };
    loading.sides.iter().enumerate().map(state).collect()
}

/// What the manifests of a source are for and is not configured here, also where they are for an entry of this host besides.
fn elsewhere(loading: &Loading<'_>, source: usize) -> BTreeSet<(ManifestKey, Arc<str>)> {
    let is_here = |name: &str| loading.entries.iter().any(|entry| *entry.name == *name);
    let mut found = BTreeSet::new();
    for unit in loading.units.iter().filter(|unit| unit.source == source) {
        let is_offered = matches!(unit.standing, Standing::Offered { .. });
        // What waits for an entry that cannot be used has said so.
        if !is_offered
            && (unit.standing != Standing::Unassigned || standing::waits_for_entry(loading, &unit.document))
        {
            continue;
        }
        let missing = unit.document.providers.iter().filter(|(name, _)| !is_here(name));
        found.extend(missing.map(|(name, _)| (unit.key.clone(), name.clone())));
        if !is_offered && unit.document.providers.is_empty() {
            found.insert((unit.key.clone(), Arc::default()));
        }
    }
    found
}

/// Where a source may claim something: `provider`, `scopes` and `deny` of its rules count; the kinds it may declare do
/// not, as a claim has none.
fn reach(allow: &Allow) -> Reach {
    let Allow::Rules(rules) = allow else { return Reach::default() };
    let rules = rules.clone();
    Reach::within(move |scope, address, group| {
        rules.iter().any(|rule| {
            reaches(rule, scope) && !rule.deny.iter().any(|pattern| pattern.matches(address, group))
        })
    })
}

fn reaches(rule: &AllowRule, scope: &Scope) -> bool {
    let scopes = rule.scopes.as_ref();
    glob(&rule.provider, &scope.provider)
        && scopes.is_none_or(|globs| globs.iter().any(|pattern| glob(pattern, &scope.name)))
}

fn unchecked(loading: &Loading<'_>) -> BTreeSet<Arc<str>> {
    let is_here = |name: &str| loading.entries.iter().any(|entry| *entry.name == *name);
    let concerns_others = |unit: &&Unit| match unit.standing {
        Standing::Unassigned | Standing::Unselected => true,
        Standing::Offered { .. } => unit.document.providers.iter().any(|(name, _)| !is_here(name)),
        Standing::Faulty => false,
    };
    let name = |source: usize| loading.sides[source].request.name.clone();
    let others = loading.units.iter().filter(concerns_others).map(|unit| name(unit.source));
    let broken = loading.sides.iter().filter(|side| !side.broken.is_empty());
    others.chain(broken.map(|side| side.request.name.clone())).collect()
}

fn sorted_problems(loading: Loading<'_>) -> Vec<Reported> {
    let mut all = Vec::new();
    for side in loading.sides {
        let source = &side.request.name;
        let mut problems = side.problems;
        // A manifest that goes to two entries has its problems twice.
        problems.sort_by(|a, b| (&a.place, &a.message, &a.hint).cmp(&(&b.place, &b.message, &b.hint)));
        problems.dedup();
        let problems = capped(problems);
        all.extend(problems.into_iter().map(|problem| Reported { source: source.clone(), problem }));
    }
    all
}

/// Most problems of one file that are told; nobody reads more of them.
const MOST: usize = 100;

/// Cuts what is too much of one file, and says how much that is. Takes sorted problems.
fn capped(problems: Vec<Problem>) -> Vec<Problem> {
    let file = |problem: &Problem| problem.place.as_ref().map(|place| place.file.clone());
    let mut kept = Vec::with_capacity(problems.len());
    for group in problems.chunk_by(|a, b| file(a) == file(b)) {
        // Where something must go, it is warnings first: an error must never be lost behind them.
        let errors = group.iter().filter(|problem| problem.is_error()).count();
        let (mut room, mut warnings) = (MOST, MOST.saturating_sub(errors));
        let fits = |problem: &&Problem| {
            let of_kind = if problem.is_error() { &mut room } else { &mut warnings };
            let fits = *of_kind > 0;
            *of_kind = of_kind.saturating_sub(1);
            fits
        };
        let before = kept.len();
        kept.extend(group.iter().filter(fits).cloned());
        let more = group.len() - (kept.len() - before);
        if more == 0 {
            continue;
        }
        let text = format!("… and {more} more");
        let rest = if errors > 0 { Problem::error(text) } else { Problem::warning(text) };
        kept.push(match file(&group[0]) {
            Some(path) => rest.in_file(&path),
            None => rest,
        });
    }
    kept
}
