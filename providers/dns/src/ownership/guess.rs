//! What a mark of ExternalDNS may be of, where nobody said how it names its marks; and one of ours that is named as marks were
//! before.
//!
//! A prefix or suffix is whatever is left when the name of a record that exists is taken out of the name of the mark.
//! It ends at a hyphen, an underscore or a dot, as everybody writes them; the longest name wins. A type in what is
//! left tells the type of the record. Wrong guesses keep a record from being changed, never the other way round, so of one of ours
//! nothing is but what it names by its very type; the host configuration (`externalDns`) replaces guessing.

use super::naming::{TYPES, begins_with_type};
use crate::{name, record};
use reconciled_provider::ResourceId;
use std::collections::HashMap;

/// Labels of a prefix that are looked behind.
const DEPTH: usize = 4;

/// The records that a mark at `mark` may be of. `records` are the types that exist, by name. `is_exact`: it names their type.
pub(crate) fn targets(mark: &str, records: &HashMap<&str, Vec<&str>>, is_exact: bool) -> Vec<ResourceId> {
    let mut best: (usize, Vec<ResourceId>) = (0, Vec::new());
    let mut consider = |name: String, left: &str| {
        if name.len() < best.0 {
            return;
        }
        let found = fitting(&name, left, records, is_exact);
        if found.is_empty() {
            return;
        }
        if name.len() > best.0 {
            best = (name.len(), Vec::new());
        }
        for id in found {
            if !best.1.contains(&id) {
                best.1.push(id);
            }
        }
    };
    let mut tail = mark;
    for depth in 0..DEPTH {
        let Some(label) = name::labels(tail).next() else { break };
        let head = &mark[..mark.len() - tail.len()];
        let rest = &tail[label.len()..];
        for start in starts(label) {
            // A name in front of which stands nothing is read as it is only where no type begins it.
            if start > 0 || depth > 0 || !begins_with_type(label) {
                consider(format!("{}{rest}", &label[start..]), &format!("{head}{}", &label[..start]));
            }
        }
        if depth == 0 {
            with_suffix(label, rest, &mut consider);
        }
        tail = name::parent(tail);
    }
    best.1
}

/// Names in front of a suffix, behind a type or not.
fn with_suffix(label: &str, rest: &str, consider: &mut impl FnMut(String, &str)) {
    let typed = label.split_once('-').filter(|(word, _)| TYPES.contains(word));
    let start = typed.map_or(0, |(word, _)| word.len() + 1);
    for (end, _) in label.char_indices().filter(|(at, c)| *at > start && matches!(c, '-' | '_')) {
        consider(format!("{}{rest}", &label[start..end]), &format!("{}{}", &label[..start], &label[end..]));
    }
}

/// Where a name may begin within a label.
fn starts(label: &str) -> impl Iterator<Item = usize> + '_ {
    let behind = label.char_indices().filter(|(_, c)| matches!(c, '-' | '_')).map(|(at, _)| at + 1);
    std::iter::once(0).chain(behind.filter(|at| *at < label.len()))
}

/// The records at `name` that a mark with `left` in its name may be of.
fn fitting(name: &str, left: &str, records: &HashMap<&str, Vec<&str>>, is_exact: bool) -> Vec<ResourceId> {
    let Some(kinds) = records.get(name) else { return Vec::new() };
    let words: Vec<&str> = left.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let typed: Vec<&str> = TYPES.iter().copied().filter(|kind| words.contains(kind)).collect();
    let fits = |kind: &&&str| match typed.is_empty() {
        _ if is_exact => words.iter().any(|word| word.eq_ignore_ascii_case(kind)),
        // ExternalDNS up to version 0.11 wrote no type, and never marked AAAA so.
        true => **kind != "AAAA" && TYPES.iter().any(|known| known.eq_ignore_ascii_case(kind)),
        false => typed.iter().any(|known| {
            let is_alias = **kind == "ALIAS" && matches!(*known, "a" | "aaaa" | "cname");
            let is_old_alias = matches!(**kind, "A" | "AAAA") && *known == "cname";
            known.eq_ignore_ascii_case(kind) || is_alias || is_old_alias
        }),
    };
    kinds.iter().filter(fits).map(|kind| record::id(name, kind)).collect()
}
