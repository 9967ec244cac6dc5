//! The state of one load, which the steps share: the sources with what was read of them, and the manifests.

use super::{
    envelope::Verbatim,
    faulty::Faulty,
    loaded::Counts,
    outputs::Output,
    parse::{ParsedFile, Trees, parse},
    request::{EntryView, Mode, Request, SourceRequest},
    secrets::KnownSecrets,
    substitute::Put,
    unit::Unit,
    vars::Variables,
};
use bytes::Bytes;
use reconciled_provider::{Error, ManifestKey, Node, Problem, Reference, SourceFile};
use std::{
    cell::{RefCell, RefMut},
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// One load from beginning to end.
pub(super) struct Loading<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) mode: Mode,
    pub(super) sides: Vec<Side<'a>>,
    pub(super) units: Vec<Unit>,
    /// The entries that normalize: those configured, or stand-ins for them.
    pub(super) entries: Vec<EntryView>,
    pub(super) verbatim: Verbatim,
    pub(super) templates: Templates,
    pub(super) counts: Counts,
    /// Outputs that were asked for, known or not.
    pub(super) asked: RefCell<BTreeSet<Reference>>,
    /// Those of them that never will be, with what to do.
    pub(super) vain: RefCell<BTreeMap<Reference, Arc<str>>>,
    /// Secrets that were asked for.
    pub(super) secrets: RefCell<KnownSecrets>,
    /// Values of other manifests that were looked up, by unit and path.
    pub(super) looked_up: RefCell<HashMap<(usize, Arc<str>), Put>>,
}

/// Kinds whose texts may be templates; of a field that names a file, the field that its text goes to.
pub(super) type Templates = BTreeMap<Arc<str>, Option<(Arc<str>, Arc<str>)>>;

/// One source during a load.
pub(super) struct Side<'a> {
    pub(super) request: &'a SourceRequest<'a>,
    pub(super) variables: Variables,
    pub(super) texts: Vec<Text>,
    pub(super) oids: HashMap<Arc<str>, [u8; 20]>,
    pub(super) problems: Vec<Problem>,
    pub(super) broken: BTreeSet<Arc<str>>,
    /// Manifests that lack a secret, or what they contribute to, and nothing else of their file does.
    pub(super) lacking: BTreeSet<usize>,
    pub(super) has_errors: bool,
    /// Files or whole paths are left out that may have manifests.
    pub(super) is_partly_read: bool,
    /// One of these, where that is so: a file, or a folder of such.
    pub(super) left_out: Option<Arc<str>>,
    /// A file gave fewer documents than it has.
    pub(super) has_short: bool,
    /// Manifests in error that nothing is made of.
    pub(super) faulty: Faulty,
    /// A path is left out since this host has nothing to put into it.
    pub(super) lacks_path: bool,
    /// An encrypted file is not as it was written: nothing that came with it deserves trust.
    pub(super) is_tampered: bool,
    /// Bytes that references, variables and templates put into its manifests.
    pub(super) put_in: usize,
}

impl Side<'_> {
    /// Notes a problem; an error breaks the file it is in.
    pub(super) fn report(&mut self, problem: Problem) {
        if problem.is_error() {
            self.has_errors = true;
            if let Some(place) = &problem.place {
                self.broken.insert(place.file.clone());
            }
        }
        self.problems.push(problem);
    }
    /// Notes that another source has something of a file, which says nothing against the rest of it.
    pub(super) fn report_loss(&mut self, problem: Problem) {
        self.has_errors |= problem.is_error();
        self.problems.push(problem);
    }
    /// Notes what keeps one manifest from being used and says nothing against its file.
    pub(super) fn report_lack(&mut self, unit: usize, problem: Problem) {
        self.has_errors |= problem.is_error();
        self.lacking.insert(unit);
        self.problems.push(problem);
    }
    /// True when a file could not be read, or not to its end: what others miss may be in it.
    pub(super) fn has_unread(&self) -> bool {
        self.is_partly_read || self.has_short
    }
    /// A file that could not be read, or not to its end, or a folder of such; empty for the root. None where all was read.
    pub(super) fn unread(&self) -> Option<&Arc<str>> {
        let short = || self.texts.iter().find(|text| text.is_short()).map(|text| &text.path);
        self.left_out.as_ref().or_else(short)
    }
    /// Leaves out a manifest for a problem that is reported elsewhere, and may be another source's: it is frozen, and says
    /// nothing against its source.
    pub(super) fn freeze(&mut self, unit: usize) {
        self.lacking.insert(unit);
    }
    /// Notes that a file is broken by a problem that is reported elsewhere.
    pub(super) fn mark_broken(&mut self, path: &Arc<str>) {
        self.has_errors = true;
        self.broken.insert(path.clone());
    }
}

/// One file with manifests.
pub(super) struct Text {
    pub(super) path: Arc<str>,
    pub(super) oid: [u8; 20],
    pub(super) layer: usize,
    pub(super) parsed: Arc<ParsedFile>,
    pub(super) trees: RefCell<Option<Trees>>,
}

impl Text {
    /// True when an error left fewer documents than there are, or none.
    pub(super) fn is_short(&self) -> bool {
        let is_unread =
            self.parsed.documents.is_empty() && self.parsed.problems.iter().any(Problem::is_error);
        self.parsed.is_short || is_unread
    }
}

impl Loading<'_> {
    /// The manifest of this key.
    pub(super) fn unit(&self, key: &ManifestKey) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.key == *key)
    }

    /// The spec of a manifest and its file; parses the file again if it came from the cache.
    pub(super) fn take_spec(&self, unit: &Unit) -> (Arc<SourceFile>, Node) {
        if let Some(merged) = &unit.merged {
            return (merged.file.clone(), merged.spec.clone());
        }
        let mut trees = self.trees(unit);
        // Templates need the spec a second time.
        let spec = match unit.resolved.has_outputs {
            true => trees.specs[unit.ordinal].clone(),
            false => trees.specs[unit.ordinal].take(),
        };
        (trees.file.clone(), spec.expect("the spec of each manifest is there after parsing"))
    }

    /// Lets `look` see the spec of a manifest as it is written; parses the file again if it came from the cache.
    pub(super) fn with_spec<T>(&self, unit: &Unit, look: impl FnOnce(&Node) -> T) -> T {
        if let Some(merged) = &unit.merged {
            return look(&merged.spec);
        }
        let trees = self.trees(unit);
        look(trees.specs[unit.ordinal].as_ref().expect("the spec of each manifest is there after parsing"))
    }

    /// The specs of a manifest's file, with that of the manifest.
    fn trees(&self, unit: &Unit) -> RefMut<'_, Trees> {
        let side = &self.sides[unit.source];
        let text = &side.texts[unit.text];
        let mut trees = text.trees.borrow_mut();
        if trees.as_ref().is_none_or(|trees| trees.specs[unit.ordinal].is_none()) {
            // What could be parsed before can be again, unless it cannot be read any more; then nothing of this load counts.
            *trees = parse(side.request.files, &text.path, &self.verbatim).1;
        }
        RefMut::map(trees, |trees| trees.get_or_insert_with(|| Trees::blank(&text.parsed)))
    }

    /// What an output comes to; remembers that it was asked for.
    pub(super) fn output(&self, reference: &Reference) -> Output {
        self.asked.borrow_mut().insert(reference.clone());
        self.request.outputs.get(reference)
    }

    /// A file of the repository that a manifest names.
    pub(super) fn blob(&self, source: usize, path: &str) -> Result<Bytes, Error> {
        let side = &self.sides[source];
        if side.oids.contains_key(path) {
            let read = side.request.files.read(path);
            return read.map_err(|problem| Error::invalid(problem.message.clone()).hint_if(problem.hint));
        }
        let refused = side.request.files.refused().into_iter();
        let of_path = |problem: &Problem| problem.place.as_ref().is_some_and(|place| *place.file == *path);
        let Some(refused) = refused.into_iter().find(of_path) else {
            return Err(Error::invalid(format!("there is no file `{path}` in the repository"))
                .hint("write its path from the root of the repository"));
        };
        Err(Error::invalid(format!("`{path}`: {}", refused.message)).hint_if(refused.hint))
    }

    /// The same as text.
    pub(super) fn text(&self, source: usize, path: &str) -> Result<String, Error> {
        String::from_utf8(self.blob(source, path)?.to_vec())
            .map_err(|_| Error::invalid(format!("`{path}` is not UTF-8 text, so it cannot be a template")))
    }

    /// True when the text of this field is never substituted.
    pub(super) fn is_verbatim(&self, unit: &Unit, field: &str) -> bool {
        self.verbatim.get(&unit.document.kind).is_some_and(|fields| fields.contains(field))
    }

    /// False where a file could not be read, or a source not be had.
    pub(super) fn is_all_read(&self) -> bool {
        self.request.lacking.is_empty() && !self.sides.iter().any(Side::has_unread)
    }

    /// True where all is read, and all that is in error too is known for what it is.
    pub(super) fn hides_nothing(&self) -> bool {
        self.is_all_read() && self.sides.iter().all(|side| side.faulty.is_empty())
    }
}
