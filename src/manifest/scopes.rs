//! From what entries took to resources by scope.

use super::{
    cache::{List, Run},
    loading::Loading,
    product::Taken,
};
use reconciled_provider::{Origin, Policies, Policy, Resource, Scope};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// Resources of all sources by scope, each list sorted by id; equal ids keep the order of sources and files.
pub(super) type Scopes = BTreeMap<Scope, Arc<Vec<Resource>>>;

/// The resources by scope, and the scopes in which several declare one resource. A list is made anew where what it comes from
/// is other than at the last load.
pub(super) fn by_scope(
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
        let resources = match &runs[..] {
            [run] if is_plain && run.is_all() => run.product.resources.clone(),
            _ => Arc::new(united(loading, &unit_of, &runs)),
        };
        let is_shared = resources.windows(2).any(|pair| pair[0].id == pair[1].id);
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

/// The resources of these runs with their places, sorted by id.
fn united(loading: &Loading<'_>, unit_of: &[usize], runs: &[Run]) -> Vec<Resource> {
    let mut resources = Vec::with_capacity(runs.iter().map(|run| run.range.len()).sum());
    for Run { product, range, manifest } in runs {
        let unit = &loading.units[unit_of[*manifest as usize]];
        let line = |line: u32| match &unit.merged {
            // What an earlier layer says has a place of its own.
            Some(merged) => merged
                .line_in_last(line)
                .or_else(|| merged.line_in_last(unit.document.span.line))
                .unwrap_or(1),
            None => line,
        };
        resources.extend(product.resources[range.clone()].iter().map(|resource| Resource {
            origin: Origin { manifest: *manifest, line: line(resource.origin.line) },
            ..resource.clone()
        }));
    }
    resources.sort_by(|a, b| a.id.cmp(&b.id));
    resources
}

/// Gives what several declare together one policy: whoever is most careful decides.
pub(super) fn share_policies(
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

/// The unit of each index in the desired set.
pub(super) fn unit_by_index(loading: &Loading<'_>) -> Vec<usize> {
    let applied = loading.units.iter().enumerate().filter(|(_, unit)| unit.index.is_some());
    applied.map(|(number, _)| number).collect()
}
