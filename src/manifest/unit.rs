//! One manifest during a load, and what the steps find out about it: what it is laid over, how it stands, what its `${…}` come to.

use super::{
    envelope::Document,
    substitute::{Placed, Put, Root},
};
use reconciled_provider::{Address, Hash, Manifest, ManifestKey, Node, Place, Problem, SourceFile, Span};
use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

/// One manifest during a load.
pub(super) struct Unit {
    pub(super) source: usize,
    /// Index into the source's texts; of several layers, the last.
    pub(super) text: usize,
    pub(super) ordinal: usize,
    pub(super) document: Arc<Document>,
    pub(super) key: ManifestKey,
    pub(super) address: Address,
    /// Present when several layers were united.
    pub(super) merged: Option<Merged>,
    pub(super) standing: Standing,
    /// Index in the desired set.
    pub(super) index: Option<u32>,
    pub(super) resolved: Resolved,
    pub(super) manifest: OnceCell<Manifest>,
    /// Places of scalars about which a backend's problems are no news.
    pub(super) failed: RefCell<Vec<Span>>,
    /// Where secrets stand that other manifests put out.
    pub(super) secrets: RefCell<Vec<Placed>>,
}

/// What becomes of a manifest on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is offered to these entries.
    Offered {
        entries: Vec<usize>,
        /// No other entry knows its kind.
        is_sole: bool,
    },
    /// Its host selector does not match.
    Unselected,
    /// Its provider is not configured here.
    Unassigned,
    /// It has an error.
    Faulty,
}

/// A manifest made of several layers. Its lines count through all of them.
pub(super) struct Merged {
    /// The texts of all layers behind each other, under the path of the last.
    pub(super) file: Arc<SourceFile>,
    pub(super) spec: Node,
    /// Path and number of lines before it, for each layer.
    pub(super) parts: Vec<(Arc<str>, u32)>,
    /// Which layers those are.
    pub(super) layers: Vec<usize>,
}

impl Merged {
    fn part(&self, line: u32) -> &(Arc<str>, u32) {
        let later = self.parts.iter().rfind(|(_, before)| line > *before);
        later.unwrap_or(&self.parts[0])
    }
    /// Where a line that came from an earlier layer stands; none for those of the last one.
    pub(super) fn earlier(&self, line: u32) -> Option<Place> {
        let (path, before) = self.part(line);
        let is_earlier = self.line_in_last(line).is_none();
        is_earlier.then(|| Place { file: path.clone(), line: line - before, column: 0 })
    }
    /// Puts a problem back to the file it is in.
    pub(super) fn settle(&self, problem: &mut Problem) {
        // What stands in a file that the manifest includes has its place already.
        let is_own = |place: &&mut Place| place.line > 0 && place.file == self.file.path;
        if let Some(place) = problem.place.as_mut().filter(is_own) {
            let (path, before) = self.part(place.line);
            *place = Place { file: path.clone(), line: place.line - before, column: place.column };
        }
    }
    /// The line in the last layer; none for what came from an earlier one.
    pub(super) fn line_in_last(&self, line: u32) -> Option<u32> {
        let (_, before) = self.parts.last().expect("a merged manifest has layers");
        line.checked_sub(*before).filter(|line| *line > 0)
    }
    /// The files of all layers.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Arc<str>> {
        self.parts.iter().map(|(path, _)| path)
    }
}

/// What a manifest's `${…}` come to.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) puts: BTreeMap<Root, Put>,
    /// What its templates come to and how they are written, in the order of [`texts_mut`](super::substitute::texts_mut).
    pub(super) texts: Vec<(Put, String)>,
    /// Hash of content and values: equal input, equal manifest.
    pub(super) input: Hash,
    /// Hash of what persons wrote: content and values, without outputs.
    pub(super) content: Hash,
    /// Manifests it refers to or names in `depends-on`.
    pub(super) after: Vec<ManifestKey>,
    /// An output of another manifest is used and known.
    pub(super) has_outputs: bool,
    /// A part has no value, and that is reported.
    pub(super) failed: bool,
    /// Bytes that are put into the manifest.
    pub(super) put_in: usize,
}

impl Resolved {
    /// True when anything but an encrypted value could not be had.
    pub(super) fn fails_otherwise(&self) -> bool {
        let is_other = |(root, put): (&Root, &Put)| *put == Put::Failed && !matches!(root, Root::Sealed(..));
        self.puts.iter().any(is_other) || self.texts.iter().any(|(put, _)| *put == Put::Failed)
    }
}
