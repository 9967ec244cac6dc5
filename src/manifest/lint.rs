//! What providers say of everything that is declared in a scope, at its place.
//!
//! A scope whose declarations did not change since the last load is not looked at again.

use super::{
    cache::{Cache, Lints},
    files::read_text,
    loading::Loading,
    place::path,
    product::{Product, Taken},
    scopes::Scopes,
};
use reconciled_provider::{Around, Linted, Place, Problem, Resource, ResourceId, Scope, SourceFile, Span};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// Reports what is found; an error breaks the file it is in. Of two that exclude each other, one in a manifest that its source
/// must not have there, as `refused` says, breaks that one alone.
pub(super) fn look(
    loading: &mut Loading<'_>,
    scopes: &Scopes,
    taken: &[Taken],
    unit_of: &[usize],
    refused: &BTreeSet<usize>,
    cache: &mut Cache,
) {
    let mut products: HashMap<&Scope, Vec<&Arc<Product>>> = HashMap::new();
    let mut places: HashMap<usize, Vec<&Product>> = HashMap::new();
    let mut exclusive: Vec<&Scope> = Vec::new();
    for taken in taken {
        for (scope, _) in &taken.product.runs {
            products.entry(scope).or_default().push(&taken.product);
        }
        exclusive.extend(&taken.product.exclusive);
        if !taken.product.places.is_empty() {
            places.entry(taken.unit).or_default().push(&taken.product);
        }
    }
    let by_end: BTreeMap<ByEnd<'_>, &Scope> = scopes.keys().map(|scope| (by_end(scope), scope)).collect();
    let mut known = HashMap::with_capacity(scopes.len());
    let mut reports = Vec::new();
    for (scope, declared) in scopes {
        let Some(entry) = loading.entries.iter().find(|entry| entry.name == scope.provider) else { continue };
        let products = products.remove(scope).unwrap_or_default();
        let is_exclusive = exclusive.contains(&scope);
        let within = within(&by_end, scope);
        let before = cache.lints.remove(scope).filter(|before| {
            before.is_exclusive == is_exclusive
                && before.within.iter().eq(within.iter().copied())
                && std::ptr::addr_eq(Arc::as_ptr(&before.observer), Arc::as_ptr(&entry.observer))
                && before.products.len() == products.len()
                && before.products.iter().zip(&products).all(|(old, new)| Arc::ptr_eq(old, new))
        });
        let now = before.unwrap_or_else(|| {
            let linted =
                |resource| Linted { resource, quiet: &cache.policies.get(resource.policy).lint_ignore };
            let linted: Vec<Linted<'_>> = declared.iter().map(linted).collect();
            Lints {
                observer: entry.observer.clone(),
                products: products.into_iter().cloned().collect(),
                is_exclusive,
                within: within.iter().map(|scope| (*scope).clone()).collect(),
                findings: entry.observer.lint(scope, &linted, Around { is_exclusive, within: &within }),
            }
        });
        for finding in &now.findings {
            let unit = |index: usize| unit_of[declared[index].origin.manifest as usize];
            let place = |index: usize| place(loading, &places, unit(index), &declared[index]);
            let message = format!("{} [{}]", finding.message, finding.rule);
            let problem = if finding.is_error { Problem::error(message) } else { Problem::warning(message) };
            let problem = Problem { rule: Some(finding.rule), hint: finding.hint.clone(), ..problem };
            let is_refused = |index: &usize| refused.contains(&unit(*index));
            let (index, other) = match finding.other {
                Some(other) if is_refused(&other) && !is_refused(&finding.index) => {
                    (other, Some(finding.index))
                }
                other => (finding.index, other),
            };
            let problem = match other {
                Some(other) => problem.related(place(other), "has to do with it"),
                None => problem,
            };
            // Of two that exclude each other nobody can tell which was meant.
            let other = other.filter(|other| !is_refused(&index) || is_refused(other));
            let broken = [Some(index), other].into_iter().flatten().map(unit);
            reports.push((unit(index), broken.collect(), place(index), problem));
        }
        known.insert(scope.clone(), now);
    }
    cache.lints = known;
    tell(loading, reports);
}

/// An entry, and the name of a scope read from its end.
type ByEnd<'a> = (&'a str, Vec<u8>);

fn by_end(scope: &Scope) -> ByEnd<'_> {
    (&scope.provider, scope.name.bytes().rev().collect())
}

/// Other scopes of the same entry whose name ends with that of `scope`.
fn within<'a>(all: &BTreeMap<ByEnd<'_>, &'a Scope>, scope: &Scope) -> Vec<&'a Scope> {
    let first = by_end(scope);
    let rest = all.range(&first..).skip(1);
    let is_within = |key: &ByEnd<'_>| key.0 == first.0 && key.1.starts_with(&first.1);
    rest.take_while(|(key, _)| is_within(key)).map(|(_, scope)| *scope).collect()
}

fn place(
    loading: &Loading<'_>,
    places: &HashMap<usize, Vec<&Product>>,
    unit: usize,
    resource: &Resource,
) -> Place {
    let key: (Arc<Scope>, ResourceId) = (resource.scope.clone(), resource.id.clone());
    let products = places.get(&unit).map_or(&[][..], Vec::as_slice);
    match products.iter().find_map(|product| product.places.get(&key)) {
        Some(place) => place.clone(),
        None => {
            let file = path(loading, &loading.units[unit]).clone();
            Place { file, line: resource.origin.line, column: 0 }
        }
    }
}

/// Puts problems at their places; each file is read once, whatever their number.
fn tell(loading: &mut Loading<'_>, reports: Vec<(usize, Vec<usize>, Place, Problem)>) {
    let mut files: BTreeMap<(usize, Arc<str>), Option<SourceFile>> = BTreeMap::new();
    for (unit, broken, place, problem) in reports {
        let source = loading.units[unit].source;
        let file = files
            .entry((source, place.file.clone()))
            .or_insert_with(|| read_text(loading.sides[source].request.files, &place.file).ok());
        let problem = match file {
            Some(file) => problem.at(file, Span { line: place.line, column: place.column }),
            None => problem.in_file(&place.file),
        };
        let is_error = problem.is_error();
        loading.sides[source].report(problem);
        for unit in broken.into_iter().filter(|_| is_error) {
            let (source, own) = (loading.units[unit].source, path(loading, &loading.units[unit]).clone());
            loading.sides[source].mark_broken(&own);
        }
    }
}
