//! The state of one load, and its first stage: choosing, reading and parsing files.

use super::{
    Cache, Counts, EntryView, Files, Host, KnownSecrets, Mode, Output, Request, SourceRequest, SourceRules,
    cache::{CachedFile, ParsedFile},
    envelope::{self, Document, Verbatim},
    faulty::Faulty,
    overlay::Merged,
    resolve::{Resolved, host_text},
    select,
    standing::Standing,
    substitute::{Placed, Put},
    vars::{self, Variables},
};
use bytes::Bytes;
use reconciled_provider::{
    Address, Error, Kind, Manifest, ManifestKey, Node, Problem, Reference, SourceFile, Span,
    yaml::{Limits, Parsed, parse_all},
};
use std::{
    cell::{OnceCell, RefCell, RefMut},
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
    left_out: Option<Arc<str>>,
    /// A file gave fewer documents than it has.
    has_short: bool,
    /// Manifests in error that nothing is made of.
    pub(super) faulty: Faulty,
    /// A path is left out since this host has nothing to put into it.
    pub(super) lacks_path: bool,
    /// An encrypted file is not as it was written: nothing that came with it deserves trust.
    pub(super) is_tampered: bool,
    /// Bytes that references, variables and templates put into its manifests.
    pub(super) put_in: usize,
}

/// One file with manifests.
pub(super) struct Text {
    pub(super) path: Arc<str>,
    pub(super) oid: [u8; 20],
    pub(super) layer: usize,
    pub(super) parsed: Arc<ParsedFile>,
    trees: RefCell<Option<Trees>>,
}

/// The specs of a file's manifests; each is taken once.
struct Trees {
    file: Arc<SourceFile>,
    specs: Vec<Option<Node>>,
}

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

impl Text {
    /// True when an error left fewer documents than there are, or none.
    pub(super) fn is_short(&self) -> bool {
        let is_unread =
            self.parsed.documents.is_empty() && self.parsed.problems.iter().any(Problem::is_error);
        self.parsed.is_short || is_unread
    }
}

/// Reads one file as text.
pub(super) fn read_text(files: &dyn Files, path: &Arc<str>) -> Result<SourceFile, Box<Problem>> {
    vars::source_file(path, &files.read(path)?)
}

/// The configured paths with host values in place, and the folders above those for which there is none.
pub(super) fn paths(
    rules: &SourceRules,
    host: &Host,
    problems: &mut Vec<Problem>,
) -> (Vec<String>, Vec<Arc<str>>) {
    let (mut paths, mut unknown) = (Vec::new(), Vec::new());
    for path in &rules.paths {
        match host_text(path, host) {
            Ok(text) => paths.push(text),
            Err(token) => {
                let problem = Problem::error(format!("path `{path}`: this host has no `{token}`"));
                problems.push(problem.hint("set host.labels in the host configuration"));
                let written = path.split("${").next().unwrap_or_default();
                let above = written.rsplit_once('/').map_or("", |(above, _)| select::clean(above));
                unknown.push(Arc::from(above));
            }
        }
    }
    (paths, unknown)
}

impl<'a> Loading<'a> {
    /// The manifest of this key.
    pub(super) fn unit(&self, key: &ManifestKey) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.key == *key)
    }

    /// Reads the files of all sources, from the cache where their content stands.
    pub(super) fn read(request: &'a Request<'a>, cache: &mut Cache, mode: Mode) -> Loading<'a> {
        let verbatim = verbatim_fields(request);
        if cache.verbatim != verbatim {
            cache.files.clear();
            cache.outcomes.clear();
            cache.verbatim = verbatim.clone();
        }
        let mut loading = Loading {
            request,
            mode,
            sides: Vec::new(),
            units: Vec::new(),
            entries: request.entries.to_vec(),
            verbatim,
            templates: templates(request),
            counts: Counts::default(),
            asked: RefCell::default(),
            vain: RefCell::default(),
            secrets: RefCell::default(),
            looked_up: RefCell::default(),
        };
        let mut files = HashMap::new();
        for source in request.sources {
            let side = loading.read_source(source, cache, &mut files);
            loading.sides.push(side);
        }
        cache.files = files;
        loading
    }

    fn read_source(
        &mut self,
        source: &'a SourceRequest<'a>,
        cache: &Cache,
        kept: &mut HashMap<(Arc<str>, Arc<str>), CachedFile>,
    ) -> Side<'a> {
        let mut side = Side {
            request: source,
            variables: Variables::default(),
            texts: Vec::new(),
            oids: source.files.entries().into_iter().collect(),
            problems: Vec::new(),
            broken: BTreeSet::new(),
            lacking: BTreeSet::new(),
            has_errors: false,
            is_partly_read: false,
            left_out: None,
            has_short: false,
            faulty: Faulty::default(),
            lacks_path: false,
            is_tampered: false,
            put_in: 0,
        };
        let mut problems = Vec::new();
        side.variables = vars::read(&source.rules.vars, source.files, &mut problems);
        let (paths, mut left_out) = paths(&source.rules, self.request.host, &mut problems);
        let choice = select::choose(source.files, &paths, &source.rules.ignore);
        problems.extend(choice.problems);
        side.lacks_path = !left_out.is_empty();
        left_out.extend(choice.missing);
        left_out.extend(choice.unsure);
        side.is_partly_read = !left_out.is_empty() || !choice.broken.is_empty();
        let refused = choice.broken.iter().find_map(|problem| problem.place.as_ref());
        side.left_out = left_out.first().or(refused.map(|place| &place.file)).cloned();
        problems.extend(choice.broken);
        left_out.iter().for_each(|path| side.mark_broken(path));
        self.counts.excluded_files += choice.excluded;
        for chosen in choice.files {
            let key = (source.name.clone(), chosen.path.clone());
            let known = cache.files.get(&key).filter(|file| file.oid == chosen.oid);
            let (parsed, trees) = match known {
                Some(file) => (file.parsed.clone(), None),
                None => self.parse(source.files, &chosen.path),
            };
            self.counts.files += 1;
            self.counts.parsed += usize::from(known.is_none());
            self.counts.reused += usize::from(known.is_some());
            self.counts.skipped_documents += parsed.skipped;
            problems.extend(parsed.problems.iter().cloned());
            kept.insert(key, CachedFile { oid: chosen.oid, parsed: parsed.clone() });
            let text = Text {
                path: chosen.path,
                oid: chosen.oid,
                layer: chosen.layer,
                parsed,
                trees: RefCell::new(trees),
            };
            side.has_short |= text.is_short();
            side.texts.push(text);
        }
        problems.into_iter().for_each(|problem| side.report(problem));
        side
    }

    fn parse(&self, files: &dyn Files, path: &Arc<str>) -> (Arc<ParsedFile>, Option<Trees>) {
        let mut parsed = ParsedFile::default();
        let file = match read_text(files, path) {
            Ok(file) => Arc::new(file),
            Err(problem) => {
                parsed.problems.push(*problem);
                return (Arc::new(parsed), None);
            }
        };
        let (documents, problems) = parse_all(&file, Limits::default());
        let mut specs = Vec::new();
        for Parsed { node, is_spoilt } in documents {
            let before = parsed.problems.len();
            let nodes = envelope::manifests(vec![node], &file, &mut parsed.skipped, &mut parsed.problems);
            parsed.is_short |= is_spoilt || parsed.problems.len() > before;
            for node in nodes {
                let found = envelope::read(node, &file, &self.verbatim, &mut parsed.problems);
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
            *trees = self.parse(side.request.files, &text.path).1;
        }
        RefMut::map(trees, |trees| trees.as_mut().expect("a blob that was parsed before parses again"))
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
            return read.map_err(|problem| Error::invalid(problem.message.clone()));
        }
        let refused = side.request.files.refused().into_iter();
        let of_path = |problem: &Problem| problem.place.as_ref().is_some_and(|place| *place.file == *path);
        let Some(refused) = refused.into_iter().find(of_path) else {
            return Err(Error::invalid(format!("there is no file `{path}` in the repository"))
                .hint("write its path from the root of the repository"));
        };
        Err(Error::invalid(format!("`{path}`: {}", refused.message)))
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

    /// The whole document of a manifest, for uniting layers.
    pub(super) fn whole(&self, side: usize, text: usize, ordinal: usize) -> Option<(Arc<SourceFile>, Node)> {
        let side = &self.sides[side];
        let file = Arc::new(read_text(side.request.files, &side.texts[text].path).ok()?);
        let (documents, _) = parse_all(&file, Limits::default());
        // What is spoilt or cannot be named is no manifest, as in the first reading.
        let whole = documents.into_iter().filter(|document| !document.is_spoilt);
        let nodes = whole.map(|document| document.node).collect();
        let named = envelope::manifests(nodes, &file, &mut 0, &mut Vec::new())
            .into_iter()
            .filter(|node| envelope::read(node.clone(), &file, &BTreeMap::new(), &mut Vec::new()).is_some());
        let node = named.into_iter().nth(ordinal)?;
        Some((file, node))
    }
}

/// Kinds whose texts may be templates; of a field that names a file, the field that its text goes to.
pub(super) type Templates = BTreeMap<Arc<str>, Option<(Arc<str>, Arc<str>)>>;

fn templates(request: &Request<'_>) -> Templates {
    let configured = request.entries.iter().flat_map(|entry| entry.kinds.0.iter());
    let all = configured.chain(&request.known.0).filter(|kind| !kind.schema.is_deferred());
    let of_kind = |kind: &Kind| {
        let properties = kind.schema.get("properties")?.as_object()?;
        properties.get("template")?;
        let from = properties.iter().find_map(|(field, schema)| {
            let target = schema.get("x-reconciled-text-of")?.as_str()?;
            Some((Arc::from(field.as_str()), Arc::from(target)))
        });
        Some((kind.name.clone(), from))
    };
    all.filter_map(of_kind).collect()
}

/// Fields whose schema says that their text is never substituted.
fn verbatim_fields(request: &Request<'_>) -> Verbatim {
    let mut all = Verbatim::new();
    let configured = request.entries.iter().flat_map(|entry| entry.kinds.0.iter());
    for kind in configured.chain(&request.known.0).filter(|kind| !kind.schema.is_deferred()) {
        let Some(properties) = kind.schema.get("properties").and_then(|p| p.as_object()) else { continue };
        for (field, schema) in properties {
            if schema.get("x-reconciled-verbatim").and_then(|v| v.as_bool()) == Some(true) {
                all.entry(kind.name.clone()).or_default().insert(field.as_str().into());
            }
        }
    }
    all
}
