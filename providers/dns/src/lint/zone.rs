//! A zone as it is declared, in the form that the rules look at.

use crate::{
    name::is_within,
    record::{self, RrSet},
};
use reconciled_provider::{Around, Linted, Scope};
use std::collections::{HashMap, HashSet};

/// One RRset that is declared and known.
pub(crate) struct Set<'a> {
    /// Its number among what was given.
    pub(crate) index: usize,
    /// Canonical owner name.
    pub(crate) name: &'a str,
    /// Type in upper case.
    pub(crate) kind: &'a str,
    pub(crate) ttl: u32,
    pub(crate) values: Vec<&'a str>,
}

impl Set<'_> {
    /// The word of each value at `index`.
    pub(crate) fn words(&self, index: usize) -> impl Iterator<Item = &str> {
        self.values.iter().filter_map(move |value| value.split(' ').nth(index))
    }
}

/// A zone as it is declared.
pub(crate) struct Zone<'a> {
    /// Its absolute name.
    pub(crate) apex: String,
    pub(crate) sets: Vec<Set<'a>>,
    /// Numbers of the sets at a name.
    pub(crate) at: HashMap<&'a str, Vec<usize>>,
    /// Nothing but what is declared shall be there.
    pub(crate) is_exclusive: bool,
    /// Absolute names of zones below, which are declared too and answer for what lies in them.
    pub(crate) below: HashSet<String>,
}

impl<'a> Zone<'a> {
    pub(super) fn of(scope: &Scope, declared: &'a [Linted<'a>], around: Around<'_>) -> Zone<'a> {
        let mut sets: Vec<Set<'a>> = Vec::with_capacity(declared.len());
        let mut at: HashMap<&str, Vec<usize>> = HashMap::with_capacity(declared.len());
        for (index, linted) in declared.iter().enumerate() {
            let Some((name, kind)) = record::parts(&linted.resource.id) else { continue };
            let Some(set) = linted.resource.spec.bytes().and_then(RrSet::decode) else { continue };
            at.entry(name).or_default().push(sets.len());
            // Values in sets of their own count as the others; what an alias will answer is not known.
            let values = set.values.into_iter().map(record::bare).filter(|value| !value.starts_with('('));
            sets.push(Set { index, name, kind, ttl: set.ttl, values: values.collect() });
        }
        let apex = record::zone_name(scope);
        let below = around.within.iter().map(|other| record::zone_name(other));
        let below = below.filter(|other| *other != apex && is_within(other, &apex)).collect();
        Zone { apex, sets, at, is_exclusive: around.is_exclusive, below }
    }
    /// The sets at a name.
    pub(crate) fn sets_at(&self, name: &str) -> impl Iterator<Item = &Set<'a>> {
        self.at.get(name).into_iter().flatten().map(|index| &self.sets[*index])
    }
    /// All that share the RRset of `set` (`merge: true`), itself among them.
    pub(crate) fn sharing(&self, set: &Set<'_>) -> impl Iterator<Item = &Set<'a>> {
        self.sets_at(set.name).filter(move |other| other.kind == set.kind)
    }
    /// The values of the RRset of `set`, each once, whoever shares it; none but for the first of those, so that what is wrong with all
    /// of it is told once.
    pub(crate) fn whole(&self, set: &Set<'_>) -> Option<Vec<&'a str>> {
        let mut all = self.sharing(set);
        let first = all.next().filter(|first| first.index == set.index)?;
        let mut values = first.values.clone();
        for value in all.flat_map(|other| &other.values) {
            if !values.contains(value) {
                values.push(*value);
            }
        }
        Some(values)
    }
    /// The set of one type at a name.
    pub(crate) fn find(&self, name: &str, kind: &str) -> Option<&Set<'a>> {
        self.sets_at(name).find(|set| set.kind == kind)
    }
}
