//! One file, parsed into documents and their specs.

use super::{
    envelope::{self, Document, Verbatim},
    files::{Files, read_text},
};
use reconciled_provider::{
    Node, Problem, SourceFile,
    yaml::{Limits, NodeValue, Parsed, parse_all},
};
use std::{collections::BTreeMap, sync::Arc};

/// A file without its trees.
#[derive(Debug, Default)]
pub(super) struct ParsedFile {
    pub(super) documents: Vec<Arc<Document>>,
    pub(super) problems: Vec<Problem>,
    pub(super) skipped: usize,
    /// An error left fewer documents than there are.
    pub(super) is_short: bool,
}

/// The specs of a file's manifests; each is taken once.
pub(super) struct Trees {
    pub(super) file: Arc<SourceFile>,
    pub(super) specs: Vec<Option<Node>>,
}

impl Trees {
    /// As many specs as a file has that nobody can read.
    pub(super) fn blank(parsed: &ParsedFile) -> Self {
        let nothing = |document: &Arc<Document>| Some(Node { span: document.span, value: NodeValue::Null });
        let specs = parsed.documents.iter().map(nothing).collect();
        Self { file: Arc::new(SourceFile::new("", "")), specs }
    }
}

/// Parses a file; its documents have no trees, so that they can be kept.
pub(super) fn parse(
    files: &dyn Files,
    path: &Arc<str>,
    verbatim: &Verbatim,
) -> (Arc<ParsedFile>, Option<Trees>) {
    let mut parsed = ParsedFile::default();
    let file = match read_text(files, path) {
        Ok(file) => Arc::new(file),
        Err(problem) => {
            parsed.problems.push(*problem);
            return (Arc::new(parsed), None);
        }
    };
    let (documents, mut problems) = parse_all(&file, Limits::default());
    let mut specs = Vec::new();
    for Parsed { node, mut is_spoilt, tags } in documents {
        let (before, skipped) = (parsed.problems.len(), parsed.skipped);
        let nodes = envelope::manifests(vec![node], &file, &mut parsed.skipped, &mut parsed.problems);
        // What is no manifest is for another program, which knows its tags.
        if parsed.skipped == skipped {
            is_spoilt |= !tags.is_empty();
            problems.extend(tags);
        }
        parsed.is_short |= is_spoilt || parsed.problems.len() > before;
        for node in nodes {
            let found = envelope::read(node, &file, verbatim, &mut parsed.problems);
            // What is spoilt is read for the problems of its envelope alone: nobody may take a value from it.
            match found.filter(|_| !is_spoilt) {
                Some((document, spec)) => {
                    parsed.documents.push(Arc::new(document));
                    specs.push(Some(spec));
                }
                None => parsed.is_short = true,
            }
        }
    }
    parsed.is_short |= problems.iter().any(Problem::is_error);
    // What is no value is told once.
    parsed
        .problems
        .retain(|problem| problem.place.is_none() || !problems.iter().any(|p| p.place == problem.place));
    parsed.problems.splice(..0, problems);
    (Arc::new(parsed), Some(Trees { file, specs }))
}

/// The whole document of a manifest, for uniting layers.
pub(super) fn whole(files: &dyn Files, path: &Arc<str>, ordinal: usize) -> Option<(Arc<SourceFile>, Node)> {
    let file = Arc::new(read_text(files, path).ok()?);
    let (documents, _) = parse_all(&file, Limits::default());
    // What is spoilt or cannot be named is no manifest, as in the first reading.
    let whole = documents.into_iter().filter(|document| !document.is_spoilt && document.tags.is_empty());
    let nodes = whole.map(|document| document.node).collect();
    let named = envelope::manifests(nodes, &file, &mut 0, &mut Vec::new())
        .into_iter()
        .filter(|node| envelope::read(node.clone(), &file, &BTreeMap::new(), &mut Vec::new()).is_some());
    let node = named.into_iter().nth(ordinal)?;
    Some((file, node))
}
