//! `allow`: what the host lets the manifests of a source touch.

use super::{
    loading::Loading,
    place::{at_line, first_column, part_address},
    product::Taken,
    unit::Unit,
};
use crate::config::{Allow, AllowRule};
use reconciled_engine::Reach;
use reconciled_provider::{Problem, Scope, address::glob};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Enforces `allow`: one problem for each manifest and scope, and one for each denied resource. Returns whose manifests were
/// refused: what they must not say is nobody else's trouble.
pub(super) fn check_rules(loading: &mut Loading<'_>, taken: &[Taken]) -> BTreeSet<usize> {
    let mut problems = Vec::new();
    let mut refused = BTreeSet::new();
    for taken in taken {
        let unit = &loading.units[taken.unit];
        let Allow::Rules(rules) = &loading.sides[unit.source].request.rules.allow else { continue };
        let product = &taken.product;
        let mut verdicts: BTreeMap<&Scope, Vec<&AllowRule>> = BTreeMap::new();
        // Resources come by their ids: told is the first line that is about a scope.
        let mut declared: BTreeMap<&Scope, u32> = BTreeMap::new();
        for resource in product.resources.iter() {
            let first = declared.entry(&*resource.scope).or_insert(resource.origin.line);
            *first = resource.origin.line.min(*first);
        }
        for scope in &product.exclusive {
            declared.entry(scope).or_insert(unit.document.span.line);
        }
        for (scope, line) in declared {
            let hits: Vec<&AllowRule> = rules.iter().filter(|rule| lets_through(rule, scope, unit)).collect();
            if hits.is_empty() {
                let kind = format!("{}/{}", unit.document.group(), unit.document.kind);
                let source = unit.key.source();
                let problem = Problem::error(format!("source `{source}` may not manage {kind} in {scope}"));
                refused.insert(taken.unit);
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
                refused.insert(taken.unit);
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
    refused
}

/// Whether the host lets the source of `unit` manage what that declares in `scope`.
pub(super) fn may_manage(loading: &Loading<'_>, unit: &Unit, scope: &Scope) -> bool {
    let Allow::Rules(rules) = &loading.sides[unit.source].request.rules.allow else { return true };
    let group = unit.document.group();
    rules.iter().any(|rule| {
        lets_through(rule, scope, unit)
            && !rule.deny.iter().any(|pattern| pattern.matches(&unit.address, group))
    })
}

fn lets_through(rule: &AllowRule, scope: &Scope, unit: &Unit) -> bool {
    let kind = format!("{}/{}", unit.document.group(), unit.document.kind);
    reaches(rule, scope) && fits(rule.kinds.as_deref(), &kind)
}

/// Whether the host lets a source declare a scope of this name, by a manifest of `kind` (`GROUP/KIND`): at `entry`, or at any
/// where none is given.
pub(super) fn may_declare(allow: &Allow, entry: Option<&str>, kind: &str, name: &str) -> bool {
    let Allow::Rules(rules) = allow else { return true };
    rules.iter().any(|rule| {
        entry.is_none_or(|entry| glob(&rule.provider, entry))
            && fits(rule.scopes.as_deref(), name)
            && fits(rule.kinds.as_deref(), kind)
    })
}

/// Where a source may claim something: `provider`, `scopes` and `deny` of its rules count; the kinds it may declare do
/// not, as a claim has none.
pub(super) fn reach(allow: &Allow) -> Reach {
    let Allow::Rules(rules) = allow else { return Reach::default() };
    let rules = rules.clone();
    Reach::within(move |scope, address, group| {
        rules.iter().any(|rule| {
            reaches(rule, scope) && !rule.deny.iter().any(|pattern| pattern.matches(address, group))
        })
    })
}

fn reaches(rule: &AllowRule, scope: &Scope) -> bool {
    glob(&rule.provider, &scope.provider) && fits(rule.scopes.as_deref(), &scope.name)
}

/// No globs fit everything.
fn fits(globs: Option<&[Arc<str>]>, text: &str) -> bool {
    globs.is_none_or(|globs| globs.iter().any(|pattern| glob(pattern, text)))
}
