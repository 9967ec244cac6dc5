//! From what entries took to the desired set; what is broken, denied or somebody else's is left out.

use super::{
    allowed,
    cache::Cache,
    graph::After,
    hidden::hidden,
    lint,
    loaded::Loaded,
    loading::{Loading, Side},
    overlay,
    place::{path, place},
    problems,
    product::{Blob, Taken},
    scopes::{by_scope, share_policies, unit_by_index},
    standing, twice,
    unit::{Standing, Unit},
};
use crate::config::OnInvalid;
use reconciled_engine::{Desired, ManifestMeta, SourceState};
use reconciled_provider::{Hash, ManifestKey, Place, Problem, Resource, ResourceId, Scope};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// Puts the desired set together.
pub(super) fn assemble(
    mut loading: Loading<'_>,
    after: After,
    taken: Vec<Taken>,
    cache: &mut Cache,
) -> Loaded {
    report_products(&mut loading, &taken);
    report_untaken(&mut loading, &taken);
    let refused = allowed::check_rules(&mut loading, &taken);
    let (mut scopes, shared) = by_scope(&loading, &taken, &mut cache.lists);
    let unit_of = unit_by_index(&loading);
    let (mut losers, mut contested) =
        twice::check_duplicates(&mut loading, &scopes, &shared, &cache.policies, &unit_of, &taken);
    share_policies(&loading, &mut scopes, &shared, &mut cache.policies, &unit_of);
    twice::check_remotes(&mut loading, &taken, &mut losers, &mut contested);
    lint::look(&mut loading, &scopes, &taken, &unit_of, &refused, cache);
    let withheld: BTreeSet<Arc<str>> = loading
        .sides
        .iter()
        .filter(|side| {
            side.is_tampered || side.has_errors && side.request.rules.on_invalid == OnInvalid::Hold
        })
        .map(|side| side.request.name.clone())
        .collect();
    let gaps: Vec<Option<Gaps>> = (0..loading.sides.len()).map(|source| Gaps::of(&loading, source)).collect();
    let stands = |number: usize| {
        let unit = &loading.units[number];
        let side = &loading.sides[unit.source];
        !withheld.contains(&side.request.name)
            && !is_broken(&loading, unit)
            && !gaps[unit.source].as_ref().is_some_and(|gaps| gaps.concern(&loading, unit))
            && !side.lacking.contains(&number)
    };
    let standing: Vec<bool> = unit_of.iter().map(|unit| stands(*unit)).collect();
    let mut set_aside: BTreeMap<(Scope, ResourceId), BTreeSet<Arc<str>>> = BTreeMap::new();
    let (mut aside, mut shared_aside) = (BTreeMap::new(), BTreeMap::<_, BTreeSet<_>>::new());
    let source_of = |unit: usize| loading.sides[loading.units[unit].source].request.name.clone();
    // Where nothing is wrong anywhere, it is not looked for in each of many resources.
    let some_go = !losers.is_empty() || !standing.iter().all(|stands| *stands);
    for (scope, resources) in scopes.iter_mut().filter(|_| some_go) {
        let stays = |resource: &Resource| {
            let index = resource.origin.manifest;
            standing[index as usize]
                && (losers.is_empty() || !losers.contains(&(scope.clone(), resource.id.clone(), index)))
        };
        if !resources.iter().all(stays) {
            for resource in resources.iter().filter(|resource| !stays(resource)) {
                let (unit, place) =
                    (unit_of[resource.origin.manifest as usize], (scope.clone(), resource.id.clone()));
                if cache.policies.get(resource.policy).merge {
                    let key = loading.units[unit].key.clone();
                    shared_aside.entry(place.clone()).or_default().insert(key);
                }
                set_aside.entry(place).or_default().insert(source_of(unit));
            }
            if !resources.iter().any(stays)
                && let Some(declarer) = declarer(&loading, scope, resources, &unit_of, &standing)
            {
                let source = loading.sides[declarer.source].request.name.clone();
                aside.insert(scope.clone(), (source, path(&loading, declarer).clone()));
            }
            Arc::make_mut(resources).retain(stays);
        }
    }
    scopes.retain(|_, resources| !resources.is_empty());
    for taken in &taken {
        for (scope, id) in &taken.product.unsettled {
            set_aside.entry(((**scope).clone(), id.clone())).or_default().insert(source_of(taken.unit));
        }
    }
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
        sources: source_states(&loading, &withheld, &taken, &gaps),
        manifests: unit_of.iter().map(|unit| meta(&loading, *unit, &after, contents.get(unit))).collect(),
        policies: cache.policies.clone(),
        places: places(&loading, &taken),
        scopes,
        exclusive,
        ignored,
        pinned: BTreeMap::new(),
        set_aside,
        // The session knows which of them are of a revision that is not in force.
        shared_by_newest: BTreeMap::new(),
        hidden: hidden(&loading, aside),
        ailing: loading.request.ailing.keys().cloned().collect(),
        // The session knows which these are, and what is in force.
        unasked: BTreeSet::new(),
        reconfigured: BTreeMap::new(),
        // And what it gave.
        outputs: BTreeMap::new(),
        referred: BTreeSet::new(),
        vain: loading.vain.take(),
        generations: None,
    };
    let counts = loading.counts;
    let (outputs, secrets) = (loading.asked.take(), loading.secrets.take());
    let unchecked = unchecked(&loading, &taken);
    let problems = problems::sorted(loading);
    Loaded { desired, problems, withheld, unchecked, contested, shared_aside, outputs, secrets, counts }
}

/// Who of those in error declares `scope`, none of whose `resources` stays. What the host denies a source is no word of it.
fn declarer<'a>(
    loading: &'a Loading<'_>,
    scope: &Scope,
    resources: &[Resource],
    unit_of: &[usize],
    standing: &[bool],
) -> Option<&'a Unit> {
    let manifests: BTreeSet<usize> = resources.iter().map(|r| r.origin.manifest as usize).collect();
    let may = |manifest: &usize| allowed::may_manage(loading, &loading.units[unit_of[*manifest]], scope);
    // What only lost to another source has no error of its own.
    let first = manifests.into_iter().filter(may).min_by_key(|manifest| standing[*manifest]);
    first.map(|manifest| &loading.units[unit_of[manifest]])
}

/// Where what stands in other files than that of its manifest is declared: in included ones, and in those that it is laid over.
fn places(loading: &Loading<'_>, taken: &[Taken]) -> BTreeMap<(u32, ResourceId), Place> {
    let of = |taken: &Taken| {
        let unit = &loading.units[taken.unit];
        let manifest = unit.index.expect("only numbered manifests are offered");
        let layers = unit.merged.iter().flat_map(|merged| {
            let resources = taken.product.resources.iter();
            resources
                .filter_map(|resource| Some((resource.id.clone(), merged.earlier(resource.origin.line)?)))
        });
        let included = taken.product.places.iter().map(|((_, id), place)| (id.clone(), place.clone()));
        layers.chain(included).map(|(id, place)| ((manifest, id), place)).collect::<Vec<_>>()
    };
    taken.iter().flat_map(of).collect()
}

/// A manifest is broken with any of its files.
fn is_broken(loading: &Loading<'_>, unit: &Unit) -> bool {
    let broken = &loading.sides[unit.source].broken;
    let own = broken.contains(path(loading, unit));
    own || unit.merged.as_ref().is_some_and(|merged| merged.paths().any(|path| broken.contains(path)))
}

/// Where something of the layers of a source may be missing.
struct Gaps {
    /// Layers with a file that gave fewer documents than it has.
    layers: BTreeSet<usize>,
    /// Files were not read, of whatever layer.
    is_partly_read: bool,
    /// So was a whole path, of which nobody can tell where it is.
    lacks_path: bool,
}

impl Gaps {
    /// None where all was read.
    fn of(loading: &Loading<'_>, source: usize) -> Option<Gaps> {
        let side = &loading.sides[source];
        if side.request.rules.paths.len() < 2 || !side.has_errors {
            return None;
        }
        let short = side.texts.iter().filter(|text| text.is_short()).map(|text| text.layer);
        let is_faulty = |unit: &&Unit| unit.source == source && unit.standing == Standing::Faulty;
        let faulty = loading.units.iter().filter(is_faulty).map(|unit| side.texts[unit.text].layer);
        let Side { is_partly_read, lacks_path, .. } = *side;
        Some(Gaps { layers: short.chain(faulty).collect(), is_partly_read, lacks_path })
    }

    /// True where what lays itself over others may lie over more than can be seen.
    fn concern(&self, loading: &Loading<'_>, unit: &Unit) -> bool {
        let own = loading.sides[unit.source].texts[unit.text].layer;
        let has = |layer: &usize| unit.merged.as_ref().is_some_and(|merged| merged.layers.contains(layer));
        let mut below = (0..own).filter(|layer| !has(layer));
        let is_over = unit.merged.is_some() || overlay::says_merge(&unit.document);
        let may_lack = |layer: usize| self.is_partly_read || self.layers.contains(&layer);
        is_over && (self.lacks_path || below.any(may_lack))
    }

    /// Files over which more may lie than can be seen.
    fn overlaid(&self, side: &Side<'_>) -> BTreeSet<Arc<str>> {
        let last = side.request.rules.paths.len().saturating_sub(1);
        let may_lack = |layer: usize| {
            let is_later = self.layers.range(layer + 1..).next().is_some();
            self.lacks_path || is_later || self.is_partly_read && layer < last
        };
        side.texts.iter().filter(|text| may_lack(text.layer)).map(|text| text.path.clone()).collect()
    }
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
    let mut problems = Vec::new();
    // What they contribute to may be declared where nothing can be read, or is declared by what is in error: that is reported.
    let mut follows: BTreeSet<usize> =
        taken.iter().filter(|taken| taken.product.is_unsure).map(|taken| taken.unit).collect();
    let absent = absent(loading, taken);
    // That it is for other hosts only is known where nothing else can be: another manifest may declare it for this one.
    let is_all_read = loading.is_all_read();
    let is_sure = is_all_read && !loading.sides.iter().any(|side| side.has_errors);
    let is_in_doubt = |one: &&Absent| match one.declarer.standing {
        Standing::Faulty => true,
        Standing::Unselected => !is_sure,
        Standing::Unassigned | Standing::Offered { .. } => false,
    };
    follows.extend(absent.iter().filter(is_in_doubt).map(|one| one.unit));
    for (number, (was_taken, asked)) in results {
        let unit = &loading.units[number];
        let Standing::Offered { entries, is_sole } = &unit.standing else { continue };
        let names_one = !unit.document.providers.is_empty();
        // What only one could take was looked at by it, and need not be a resource.
        let is_sole = *is_sole || entries.len() == 1;
        if was_taken || unit.resolved.failed || (!asked && (is_sole || names_one)) {
            continue;
        }
        if asked && !is_all_read {
            follows.insert(number);
            continue;
        }
        if let (false, Some((field, span))) = (asked, &unit.document.meant_provider) {
            let problem = Problem::error(format!("unknown field `{field}`"));
            let problem = problem.hint("did you mean `provider`?");
            problems.push((unit.source, place(loading, unit, problem, *span)));
            continue;
        }
        let problem = Problem::error(format!("no provider takes {}", unit.address));
        let names: Vec<&str> = entries.iter().map(|entry| &*loading.entries[*entry].name).collect();
        let problem = match asked {
            true => problem.hint("what it contributes to is declared nowhere in the sources of this host"),
            // Not every kind has a `provider` in its spec: that of a Terraform provider is its own.
            false => problem.hint(format!(
                "say which with the annotation `reconciled/provider`, one of: {}",
                names.join(", ")
            )),
        };
        let problem = place(loading, unit, problem, unit.document.span);
        problems.push((unit.source, problem));
    }
    problems.into_iter().for_each(|(source, problem)| loading.sides[source].report(problem));
    for number in follows {
        let source = loading.units[number].source;
        loading.sides[source].freeze(number);
    }
}

/// What a manifest contributes to and only another one declares, of which nothing is made here.
struct Absent<'a> {
    unit: usize,
    scope: &'a Scope,
    declarer: &'a Unit,
}

fn absent<'a>(loading: &'a Loading<'_>, taken: &'a [Taken]) -> Vec<Absent<'a>> {
    let taken = || taken.iter().filter(|taken| !taken.product.absent.is_empty());
    if taken().next().is_none() {
        return Vec::new();
    }
    let by_key: HashMap<&ManifestKey, &Unit> = loading.units.iter().map(|unit| (&unit.key, unit)).collect();
    let each =
        taken().flat_map(|taken| taken.product.absent.iter().map(|(scope, key)| (taken.unit, scope, key)));
    each.filter_map(|(unit, scope, key)| Some(Absent { unit, scope, declarer: by_key.get(key)? })).collect()
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

fn source_states(
    loading: &Loading<'_>,
    withheld: &BTreeSet<Arc<str>>,
    taken: &[Taken],
    gaps: &[Option<Gaps>],
) -> BTreeMap<Arc<str>, SourceState> {
    let parts = |source: usize| {
        let of = taken.iter().filter(|taken| loading.units[taken.unit].source == source);
        let each = of.flat_map(|taken| &taken.product.unselected);
        each.map(|(scope, id)| ((**scope).clone(), id.clone())).collect()
    };
    let keys = |source: usize, standing: &Standing| {
        let of = loading.units.iter().filter(|unit| unit.source == source && unit.standing == *standing);
        of.map(|unit| unit.key.clone()).collect()
    };
    let absent = absent(loading, taken);
    let state = |(source, side): (usize, &Side<'_>)| {
        let of_source = || absent.iter().filter(|one| loading.units[one.unit].source == source);
        let inside = |standing: Standing| -> BTreeSet<(ManifestKey, Scope)> {
            let of = of_source().filter(|one| one.declarer.standing == standing);
            let of = of.filter(|one| !side.lacking.contains(&one.unit));
            of.map(|one| (loading.units[one.unit].key.clone(), one.scope.clone())).collect()
        };
        let unassigned_in = inside(Standing::Unassigned);
        let mut unselected_in = inside(Standing::Unselected);
        unselected_in.retain(|place| !unassigned_in.contains(place));
        let mut broken = side.broken.clone();
        broken.extend(side.lacking.iter().map(|unit| path(loading, &loading.units[*unit]).clone()));
        if withheld.contains(&side.request.name) {
            broken.extend(side.texts.iter().map(|text| text.path.clone()));
        }
        let state = SourceState {
            revision: side.request.revision.clone(),
            label: side.request.label.clone(),
            // The session knows what else was offered, and how far others are.
            newest: None,
            awaits: None,
            prunes: side.request.prunes && !side.has_errors,
            broken,
            unassigned: keys(source, &Standing::Unassigned),
            unassigned_in,
            elsewhere: elsewhere(loading, source, of_source()),
            unselected: keys(source, &Standing::Unselected),
            unselected_parts: parts(source),
            unselected_in,
            has_layers: side.request.rules.paths.len() > 1,
            overlaid: gaps[source].as_ref().map(|gaps| gaps.overlaid(side)).unwrap_or_default(),
            path_changed: false,
            needs_consent: side.request.rules.needs_consent,
            drift: side.request.rules.drift,
            reach: allowed::reach(&side.request.rules.allow),
        };
        (side.request.name.clone(), state)
    };
    loading.sides.iter().enumerate().map(state).collect()
}

/// What the manifests of a source are for and is not configured here, also where they are for an entry of this host besides.
fn elsewhere<'a>(
    loading: &Loading<'_>,
    source: usize,
    absent: impl Iterator<Item = &'a Absent<'a>>,
) -> BTreeSet<(ManifestKey, Arc<str>)> {
    let is_here = |name: &str| loading.entries.iter().any(|entry| *entry.name == *name);
    let mut found = BTreeSet::new();
    for Absent { unit, declarer, .. } in absent.filter(|one| one.declarer.standing == Standing::Unassigned) {
        let missing = declarer.document.providers.iter().filter(|(name, _)| !is_here(name));
        found.extend(missing.map(|(name, _)| (loading.units[*unit].key.clone(), name.clone())));
    }
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

fn unchecked(loading: &Loading<'_>, taken: &[Taken]) -> BTreeSet<Arc<str>> {
    let is_here = |name: &str| loading.entries.iter().any(|entry| *entry.name == *name);
    let concerns_others = |unit: &&Unit| match unit.standing {
        Standing::Unassigned | Standing::Unselected => true,
        Standing::Offered { .. } => unit.document.providers.iter().any(|(name, _)| !is_here(name)),
        Standing::Faulty => false,
    };
    let name = |source: usize| loading.sides[source].request.name.clone();
    let others = loading.units.iter().filter(concerns_others).map(|unit| name(unit.source));
    let others =
        others.chain(absent(loading, taken).into_iter().map(|one| name(loading.units[one.unit].source)));
    let broken = loading.sides.iter().filter(|side| !side.broken.is_empty());
    let unread = broken.map(|side| side.request.name.clone());
    others.chain(unread).collect()
}
