//! What must be ready before what: references, `depends-on` and waves; and cycles among them.

use super::{loading::Loading, place::place, product::Taken, unit::Standing};
use reconciled_provider::{ManifestKey, Problem, Scope};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// The manifests each unit waits for; units of one wave without edges of their own share one list.
pub(super) type After = Vec<Arc<[ManifestKey]>>;

/// Computes the edges and reports cycles. Manifests that are not applied here are not waited for.
pub(super) fn order(loading: &mut Loading<'_>) -> (Graph, After) {
    let graph = Graph::of(loading);
    let hint = "remove one of the references, `depends-on` or waves that close the circle";
    report(loading, graph.cycles(), hint);
    let after = graph.after(loading);
    (graph, after)
}

/// Reports what waits for something that is in it: nothing can be put into a zone that is not there, so a zone that
/// waits for one of its own records is never made.
pub(super) fn scopes(loading: &mut Loading<'_>, graph: Graph, taken: &[Taken]) {
    let waits = |unit: usize| !graph.edges[unit].is_empty();
    let mut holders: BTreeMap<&Scope, Vec<usize>> = BTreeMap::new();
    for taken in taken.iter().filter(|taken| waits(taken.unit)) {
        for resource in taken.product.resources.iter() {
            let entry = loading.entries.iter().find(|entry| entry.name == resource.scope.provider);
            let holder = entry.and_then(|entry| entry.observer.holder(&resource.scope));
            if holder.as_ref() == Some(&resource.id) {
                holders.entry(&resource.scope).or_default().push(taken.unit);
            }
        }
    }
    if holders.is_empty() {
        return;
    }
    let mut implied: BTreeSet<(usize, usize)> = BTreeSet::new();
    for taken in taken {
        for (scope, _) in &taken.product.runs {
            let into = holders.get(&**scope).into_iter().flatten();
            implied.extend(into.filter(|into| **into != taken.unit).map(|into| (taken.unit, *into)));
        }
    }
    let mut whole = graph;
    for (from, to) in &implied {
        whole.edges[*from].push(*to);
    }
    let mut cycles = whole.cycles();
    // The others were reported, before anything was normalized.
    let is_implied = |cycle: &Vec<usize>| {
        let next = cycle.iter().cycle().skip(1);
        cycle.iter().zip(next).any(|(from, to)| implied.contains(&(*from, *to)))
    };
    cycles.retain(is_implied);
    let hint = "what others are in, such as a zone, has to be there first: remove the reference, `depends-on` or wave by \
                which it waits";
    report(loading, cycles, hint);
}

fn report(loading: &mut Loading<'_>, cycles: Vec<Vec<usize>>, hint: &str) {
    for cycle in cycles {
        let names: Vec<String> = cycle.iter().map(|unit| loading.units[*unit].address.to_string()).collect();
        let first = &loading.units[cycle[0]];
        let path = format!("{} → {}", names.join(" → "), names[0]);
        let problem = Problem::error(format!("manifests wait for each other: {path}")).hint(hint);
        let problem = place(loading, first, problem, first.document.span);
        let files: Vec<_> =
            cycle.iter().map(|unit| (loading.units[*unit].source, loading.units[*unit].text)).collect();
        loading.sides[files[0].0].report(problem);
        for (source, text) in files {
            let path = loading.sides[source].texts[text].path.clone();
            loading.sides[source].mark_broken(&path);
        }
    }
}

/// Nodes are units, then one for each wave of a source. A wave's node waits for the manifests in it, and a
/// manifest for the node of the next lower wave, so the edges stay as few as the manifests.
pub(super) struct Graph {
    edges: Vec<Vec<usize>>,
    /// The members of each wave node.
    waves: Vec<Vec<usize>>,
    units: usize,
}

impl Graph {
    fn of(loading: &Loading<'_>) -> Graph {
        let is_applied = |index: usize| matches!(loading.units[index].standing, Standing::Offered { .. });
        let by_key: HashMap<&ManifestKey, usize> =
            loading.units.iter().enumerate().map(|(index, unit)| (&unit.key, index)).collect();
        let mut waves: BTreeMap<(usize, i32), Vec<usize>> = BTreeMap::new();
        for (index, unit) in loading.units.iter().enumerate().filter(|(index, _)| is_applied(*index)) {
            waves.entry((unit.source, unit.document.settings.wave)).or_default().push(index);
        }
        let units = loading.units.len();
        let numbers: BTreeMap<(usize, i32), usize> =
            waves.keys().enumerate().map(|(number, key)| (*key, units + number)).collect();
        let mut edges = vec![Vec::new(); units + waves.len()];
        for (index, unit) in loading.units.iter().enumerate().filter(|(index, _)| is_applied(*index)) {
            let targets = unit.resolved.after.iter().filter_map(|key| by_key.get(key).copied());
            edges[index].extend(targets.filter(|target| is_applied(*target)));
            let own = (unit.source, unit.document.settings.wave);
            let lower = numbers.range((unit.source, i32::MIN)..own).next_back();
            edges[index].extend(lower.map(|(_, node)| *node));
        }
        for (key, members) in &waves {
            edges[numbers[key]].extend(members);
        }
        Graph { edges, waves: waves.into_values().collect(), units }
    }

    /// One cycle for each place where a walk comes back to itself, without the wave nodes in it.
    fn cycles(&self) -> Vec<Vec<usize>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.edges.len()];
        let mut found = Vec::new();
        for start in 0..self.edges.len() {
            if marks[start] != Mark::New {
                continue;
            }
            // The walk keeps its own stack: a chain of manifests may be long.
            let mut path = vec![(start, 0)];
            marks[start] = Mark::Open;
            while let Some((node, edge)) = path.last_mut() {
                let Some(target) = self.edges[*node].get(*edge).copied() else {
                    marks[*node] = Mark::Done;
                    path.pop();
                    continue;
                };
                *edge += 1;
                match marks[target] {
                    Mark::Done => {}
                    Mark::New => {
                        marks[target] = Mark::Open;
                        path.push((target, 0));
                    }
                    Mark::Open => {
                        let from = path.iter().position(|(node, _)| *node == target).unwrap_or(0);
                        let cycle = path[from..].iter().map(|(node, _)| *node);
                        found.push(cycle.filter(|node| *node < self.units).collect());
                    }
                }
            }
        }
        found
    }

    fn after(&self, loading: &Loading<'_>) -> After {
        let key = |unit: &usize| loading.units[*unit].key.clone();
        let shared: Vec<Arc<[ManifestKey]>> =
            self.waves.iter().map(|members| members.iter().map(key).collect()).collect();
        let none: Arc<[ManifestKey]> = Arc::from([]);
        let of = |edges: &Vec<usize>| match edges[..] {
            [] => none.clone(),
            [node] if node >= self.units => shared[node - self.units].clone(),
            _ => {
                let mut all: Vec<ManifestKey> = Vec::new();
                for target in edges {
                    match target.checked_sub(self.units) {
                        Some(wave) => all.extend(shared[wave].iter().cloned()),
                        None => all.push(key(target)),
                    }
                }
                all.sort();
                all.dedup();
                all.into()
            }
        };
        self.edges[..self.units].iter().map(of).collect()
    }
}
