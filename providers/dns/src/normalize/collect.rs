//! What one manifest declares in one zone, on its way to resources: who is declared twice, and who is in whose way.

use super::context::Context;
use crate::{
    name::{Name, relative},
    rdata::Type,
    record,
};
use reconciled_provider::{
    Normalized, Place, PolicyId, Problem, Resource, ResourceId, SourceFile, Span, Spec,
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// Where something is written: in the manifest itself, or in a file it includes.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) file: Arc<SourceFile>,
    pub(super) span: Span,
    /// The line of the manifest that includes the file.
    pub(super) through: Option<u32>,
}

impl Site {
    /// An error here.
    pub(super) fn error(&self, message: impl Into<String>) -> Problem {
        Problem::error(message).at(&self.file, self.span)
    }
    fn place(&self) -> Place {
        Place { file: self.file.path.clone(), line: self.span.line, column: self.span.column }
    }
}

/// One RRset, declared.
pub(super) struct Declared {
    pub(super) name: Name,
    pub(super) kind: Type,
    pub(super) site: Site,
    /// Its values are ours, others stay.
    pub(super) merge: bool,
}

/// The RRsets of one manifest in one zone.
pub(super) struct Collected<'a> {
    cx: &'a Context<'a>,
    declared: Vec<Declared>,
    resources: Vec<Resource>,
    seen: HashMap<ResourceId, usize>,
}

impl<'a> Collected<'a> {
    /// Nothing yet, with room for `count`.
    pub(super) fn new(cx: &'a Context<'a>, count: usize) -> Collected<'a> {
        Collected {
            cx,
            declared: Vec::with_capacity(count),
            resources: Vec::with_capacity(count),
            seen: HashMap::with_capacity(count),
        }
    }

    /// The id, when nothing of that name and type is there, or both are to be united; else the problem is reported.
    pub(super) fn room(&self, declared: &Declared, problems: &mut Vec<Problem>) -> Option<ResourceId> {
        let id = record::id(declared.name.as_str(), declared.kind.word());
        let Some(earlier) = self.seen.get(&id).map(|index| &self.declared[*index]) else { return Some(id) };
        if earlier.merge && declared.merge {
            return Some(id);
        }
        let name = relative(declared.name.as_str(), self.cx.zone.as_str());
        let message = format!("{name} {} is declared twice", declared.kind.word());
        let hint = match declared.kind.is_single() {
            true => "remove one of them",
            false => "write all values in one record, or `merge: true` on both",
        };
        let problem = declared.site.error(message).related(earlier.site.place(), "first declared here");
        problems.push(problem.hint(hint));
        None
    }

    /// Adds what has [`room`](Self::room) under this id; returns its index, or nothing where a rule of the zone leaves it to others.
    pub(super) fn add(
        &mut self,
        id: ResourceId,
        declared: Declared,
        spec: Spec,
        policy: PolicyId,
        problems: &mut Vec<Problem>,
    ) -> Option<usize> {
        if let Some(place) = self.cx.ignored.place_of(&id, &spec) {
            let name = relative(declared.name.as_str(), self.cx.zone.as_str());
            let message = format!("{name} {} is declared, and ignored by its zone", declared.kind.word());
            let word = self.cx.ignored.word(self.cx.manifest);
            let problem = declared.site.error(message).related(place.clone(), word);
            problems.push(problem.hint("remove the declaration, or narrow the rule of `ignore`"));
            return None;
        }
        let line = declared.site.through.unwrap_or(declared.site.span.line);
        let origin = self.cx.manifest.origin(Span { line, column: 1 });
        self.seen.insert(id.clone(), self.declared.len());
        self.declared.push(declared);
        self.resources.push(Resource::new(id, self.cx.scope.clone(), spec, origin, policy));
        Some(self.resources.len() - 1)
    }

    /// What was added as `index`.
    pub(super) fn at(&self, index: usize) -> (&Declared, &Resource) {
        (&self.declared[index], &self.resources[index])
    }

    /// Hands over the resources; of those that are refused, that they are declared.
    pub(super) fn finish(self, refused: &BTreeSet<usize>, out: &mut Normalized) {
        out.resources.reserve(self.resources.len());
        for (index, (declared, resource)) in self.declared.iter().zip(self.resources).enumerate() {
            if refused.contains(&index) {
                out.unsettled.push((resource.scope.clone(), resource.id.clone()));
                continue;
            }
            if declared.site.through.is_some() {
                out.places.insert((resource.scope.clone(), resource.id.clone()), declared.site.place());
            }
            out.resources.push(resource);
        }
    }

    /// Reports each name where a CNAME has company; returns the indexes of all records there.
    pub(super) fn cname_conflicts(&self, problems: &mut Vec<Problem>) -> BTreeSet<usize> {
        let all = || self.declared.iter().enumerate();
        let cnames: HashMap<&Name, usize> =
            all().filter(|(_, d)| d.kind == Type::Cname).map(|(index, d)| (&d.name, index)).collect();
        if cnames.is_empty() {
            return BTreeSet::new();
        }
        let mut refused = BTreeSet::new();
        for (index, other) in all().filter(|(_, d)| d.kind != Type::Cname) {
            let Some(&cname) = cnames.get(&other.name) else { continue };
            refused.extend([cname, index]);
            let name = relative(other.name.as_str(), self.cx.zone.as_str());
            let message = format!("{name} {} stands beside a CNAME", other.kind.word());
            problems.push(
                other
                    .site
                    .error(message)
                    .related(self.declared[cname].site.place(), "the CNAME")
                    .hint("a CNAME is the only record at its name (RFC 1034 §3.6.2): remove one of them"),
            );
        }
        refused
    }
}
