//! Where what is wrong with a manifest stands, and what it is called there.

use super::{files::read_text, loading::Loading, unit::Unit};
use reconciled_provider::{Address, Problem, Resource, SourceFile, Span};
use std::sync::Arc;

/// The file of a manifest; of several layers, the last.
pub(super) fn path<'a>(loading: &'a Loading<'_>, unit: &Unit) -> &'a Arc<str> {
    &loading.sides[unit.source].texts[unit.text].path
}

/// Puts a problem at a place of a manifest's file, with the line if the file can be read.
pub(super) fn place(loading: &Loading<'_>, unit: &Unit, problem: Problem, span: Span) -> Problem {
    let side = &loading.sides[unit.source];
    let path = &side.texts[unit.text].path;
    if let Some(merged) = &unit.merged {
        let mut problem = problem.at(&merged.file, span);
        merged.settle(&mut problem);
        return problem;
    }
    match read_text(side.request.files, path) {
        Ok(file) => problem.at(&file, span),
        Err(_) => problem.at(&SourceFile::new(path.clone(), ""), span),
    }
}

/// Origins count lines of the last layer, so the plain file is right for united manifests too.
pub(super) fn at_line(loading: &Loading<'_>, unit: &Unit, problem: Problem, span: Span) -> Problem {
    match read_text(loading.sides[unit.source].request.files, path(loading, unit)) {
        Ok(file) => problem.at(&file, span),
        Err(_) => problem.in_file(path(loading, unit)),
    }
}

pub(super) fn first_column(line: u32) -> Span {
    Span { line, column: 0 }
}

pub(super) fn part_address(loading: &Loading<'_>, unit: &Unit, resource: &Resource) -> Address {
    let entry = loading.entries.iter().find(|entry| entry.name == resource.scope.provider);
    let part = entry.and_then(|entry| entry.observer.part(&resource.scope, &resource.id));
    Address { part, ..unit.address.clone() }
}
