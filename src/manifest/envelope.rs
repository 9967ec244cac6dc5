//! The envelope of a document: `apiVersion`, `kind`, `metadata`; and what can be told of its spec without
//! knowing the kind.

use super::{
    annotations::{self, Settings},
    substitute::{self, Token},
};
use reconciled_provider::{
    Hash, Node, Problem, SourceFile, Span,
    problem::did_you_mean,
    yaml::{NodeValue, ScalarKind},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A manifest without its spec: small enough to be kept while its blob stands.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) api_version: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) namespace: Arc<str>,
    pub(super) labels: BTreeMap<Arc<str>, Arc<str>>,
    pub(super) annotations: BTreeMap<Arc<str>, Arc<str>>,
    pub(super) settings: Settings,
    /// Entries it names, by annotation or spec.
    pub(super) providers: Vec<(Arc<str>, Span)>,
    /// A field of the spec that seems to mean `provider`, which a kind's decoder tells only to those that it names.
    pub(super) meant_provider: Option<(Arc<str>, Span)>,
    pub(super) span: Span,
    /// Where `kind` is written, for problems with it.
    pub(super) kind_span: Span,
    pub(super) content: Hash,
    pub(super) tokens: Vec<Token>,
    /// Where it says for which hosts it is: what its scope may be called, as its name and the texts at the top of its spec have it. For
    /// other hosts nobody looks at more of it.
    pub(super) scope_names: Vec<Box<str>>,
    /// It says `template: true`.
    pub(super) is_template: bool,
    /// The envelope has errors: the manifest exists for others and is not normalized.
    pub(super) faulty: bool,
}

impl Document {
    pub(super) fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Fields that are not ours to read: Kubernetes tools write them.
pub(super) const METADATA_OF_KUBERNETES: [&str; 9] = [
    "creationTimestamp",
    "managedFields",
    "uid",
    "resourceVersion",
    "generation",
    "selfLink",
    "ownerReferences",
    "finalizers",
    "generateName",
];
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];
const ENVELOPE: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
const LIST: [&str; 4] = ["apiVersion", "kind", "metadata", "items"];

/// Spec fields whose text is never substituted, by kind.
pub(super) type Verbatim = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

/// Takes the manifests out of a file's documents: lists are flattened, other documents are counted.
pub(super) fn manifests(
    nodes: Vec<Node>,
    file: &SourceFile,
    skipped: &mut usize,
    problems: &mut Vec<Problem>,
) -> Vec<Node> {
    let mut all = Vec::with_capacity(nodes.len());
    for node in nodes {
        match (node.get("apiVersion"), node.get("kind")) {
            (None, None) => *skipped += 1,
            _ => flatten(node, file, problems, &mut all),
        }
    }
    all
}

/// Takes a manifest as it is, and of a list of Kubernetes (`v1 List`) its items: a `List` of another group is a kind of that group.
///
/// Whatever is no manifest is an error here: what a list declared may not go because somebody misspelt it.
fn flatten(node: Node, file: &SourceFile, problems: &mut Vec<Problem>, all: &mut Vec<Node>) {
    let (version, kind) = (node.get("apiVersion"), node.get("kind"));
    let problem = match (version, kind) {
        (Some(version), Some(kind)) if version.as_str() == Some("v1") && kind.as_str() == Some("List") => {
            for item in items(node, file, problems) {
                flatten(item, file, problems, all);
            }
            return;
        }
        (Some(_), Some(_)) => return all.push(node),
        (Some(found), None) | (None, Some(found)) => {
            let missing = if version.is_some() { "kind" } else { "apiVersion" };
            let problem = Problem::error(format!("a manifest needs `{missing}`")).at(file, found.span);
            problem.hint("if this is no manifest, name the file in .reconciledignore")
        }
        (None, None) => {
            let message = format!("expected a manifest in a List, found {}", node.describe());
            let hint = "write `apiVersion` and `kind` in each item, or take it out";
            Problem::error(message).at(file, node.span).hint(hint)
        }
    };
    problems.push(problem);
}

fn items(list: Node, file: &SourceFile, problems: &mut Vec<Problem>) -> Vec<Node> {
    const HINT: &str = "write each manifest behind a dash under `items`, or `items: []` where there is none";
    let mut reader = Reader { file, problems };
    reader.known_fields(&list, &LIST, &[], "field of a List");
    let span = list.span;
    let NodeValue::Map(entries) = list.value else { return Vec::new() };
    match entries.into_iter().find(|(key, _)| key.as_str() == Some("items")) {
        Some((_, Node { value: NodeValue::Seq(nodes), .. })) => return nodes,
        Some((_, other)) => {
            let message = format!("expected a list under `items`, found {}", other.describe());
            reader.error(other.span, message, HINT);
        }
        None => reader.error(span, "a List needs `items`".into(), HINT),
    }
    Vec::new()
}

/// Reads the envelope. Returns the document and its spec, unless it cannot even be named.
pub(super) fn read(
    node: Node,
    file: &SourceFile,
    verbatim: &Verbatim,
    problems: &mut Vec<Problem>,
) -> Option<(Document, Node)> {
    let before = problems.len();
    let (span, content) = (node.span, content_hash(&node));
    let mut reader = Reader { file, problems };
    reader.known_fields(&node, &ENVELOPE, &[], "field");
    let api_version = reader.text(&node, "apiVersion");
    let kind = reader.text(&node, "kind");
    let kind_span = node.get("kind").map_or(span, |kind| kind.span);
    let empty = Node { span, value: NodeValue::Map(Vec::new()) };
    let metadata = node.get("metadata").unwrap_or(&empty);
    reader.mapping(metadata, "metadata");
    reader.known_fields(metadata, &METADATA, &METADATA_OF_KUBERNETES, "field of metadata");
    let name = reader.name(metadata, "name");
    let namespace = match metadata.get("namespace") {
        Some(_) => reader.name(metadata, "namespace").unwrap_or_default(),
        None => Arc::from(""),
    };
    let labels = reader.labels(metadata);
    let (annotations, settings) = match metadata.get("annotations").filter(|node| !node.is_null()) {
        Some(node) => {
            reader.mapping(node, "metadata.annotations");
            annotations::read(node, file, reader.problems)
        }
        None => Default::default(),
    };
    let mut spec = match node.value {
        NodeValue::Map(entries) => {
            entries.into_iter().find(|(key, _)| key.as_str() == Some("spec")).map_or(empty, |(_, spec)| spec)
        }
        _ => empty,
    };
    let (api_version, kind, name) = (api_version?, kind?, name?);
    let nothing = BTreeSet::new();
    let tokens = substitute::tokens(&mut spec, verbatim.get(&kind).unwrap_or(&nothing));
    let is_true =
        |node: &Node| matches!(&node.value, NodeValue::Scalar(text, ScalarKind::Bool) if &**text == "true");
    let is_template = spec.get("template").is_some_and(is_true);
    let providers = reader.providers(&settings.providers, &spec);
    let faulty = problems[before..].iter().any(Problem::is_error);
    let scope_names = if settings.hosts.is_some() { scope_names(&name, &spec) } else { Vec::new() };
    let document = Document {
        api_version,
        kind,
        name,
        namespace,
        labels,
        annotations,
        settings,
        providers,
        meant_provider: meant_provider(&spec),
        span,
        kind_span,
        content,
        tokens,
        scope_names,
        is_template,
        faulty,
    };
    Some((document, spec))
}

/// Longest name of a scope that is known: that of a zone.
const LONGEST_SCOPE: usize = 255;

fn scope_names(name: &str, spec: &Node) -> Vec<Box<str>> {
    let texts = spec.entries().iter().filter_map(|(_, value)| value.as_str());
    texts.chain([name]).filter(|text| text.len() <= LONGEST_SCOPE).filter_map(scope_name).collect()
}

/// The name that a scope may have of this text; none for a path or a sentence.
pub(super) fn scope_name(text: &str) -> Option<Box<str>> {
    let is_name = !text.starts_with('/') && !text.contains(char::is_whitespace);
    is_name.then(|| text.trim_end_matches('.').to_ascii_lowercase().into())
}

fn meant_provider(spec: &Node) -> Option<(Arc<str>, Span)> {
    let words = ["provider", "providers"];
    let keys = spec.entries().iter().filter_map(|(key, _)| Some((key.as_str()?, key.span)));
    let mut near = keys.filter(|(key, _)| !words.contains(key) && did_you_mean(key, words).is_some());
    near.next().map(|(key, span)| (key.into(), span))
}

struct Reader<'a> {
    file: &'a SourceFile,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn error(&mut self, span: Span, message: String, hint: &str) {
        self.problems.push(Problem::error(message).at(self.file, span).hint(hint));
    }

    /// The entries that the annotation, `spec.provider` and `spec.providers` name: each that is there says the same. Wrong types
    /// are left to the kind's own decoder.
    fn providers(&mut self, annotated: &[(Arc<str>, Span)], spec: &Node) -> Vec<(Arc<str>, Span)> {
        let named = |nodes: &[Node]| -> Vec<(Arc<str>, Span)> {
            nodes.iter().filter_map(|node| Some((Arc::from(node.as_str()?), node.span))).collect()
        };
        let one = named(spec.get("provider").map_or(&[], std::slice::from_ref));
        let many = named(spec.get("providers").map_or(&[], Node::elements));
        let ways = [("`reconciled/provider`", annotated), ("`provider`", &one), ("`providers`", &many)];
        let mut there = ways.into_iter().filter(|(_, entries)| !entries.is_empty());
        let Some((first, entries)) = there.next() else { return Vec::new() };
        let names = |entries: &[(Arc<str>, Span)]| -> BTreeSet<Arc<str>> {
            entries.iter().map(|(name, _)| name.clone()).collect()
        };
        if let Some((other, others)) = there.find(|(_, others)| names(others) != names(entries)) {
            let words = |entries| names(entries).iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
            let message = format!(
                "{first} and {other} name different entries: {} and {}",
                words(entries),
                words(others)
            );
            let hint = "write one of them; `providers: [a, b]` is for several entries";
            self.error(others[0].1, message, hint);
        }
        entries.to_vec()
    }

    fn mapping(&mut self, node: &Node, what: &str) {
        if !matches!(node.value, NodeValue::Map(_)) {
            let message = format!("expected a mapping under `{what}`, found {}", node.describe());
            self.error(
                node.span,
                message,
                "write lines of `key: value`, without dashes, a space behind each colon",
            );
        }
    }

    fn known_fields(&mut self, node: &Node, known: &[&str], silent: &[&str], what: &str) {
        for (key, _) in node.entries() {
            let word = key.as_str().unwrap_or("");
            if known.contains(&word) || silent.contains(&word) {
                continue;
            }
            let hint = match did_you_mean(word, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known: {}", known.join(", ")),
            };
            self.error(key.span, format!("unknown {what} `{word}`"), &hint);
        }
    }

    fn text(&mut self, node: &Node, key: &str) -> Option<Arc<str>> {
        let value = node.get(key)?;
        match &value.value {
            NodeValue::Scalar(text, ScalarKind::Str) if !text.is_empty() => Some((**text).into()),
            NodeValue::Scalar(text, ScalarKind::Str) if text.is_empty() => {
                let hint = "write both, as in `apiVersion: dns/v1` and `kind: Zone`";
                self.error(value.span, format!("`{key}` is empty"), hint);
                None
            }
            _ => {
                self.error(value.span, format!("expected text for `{key}`, found {}", value.describe()), "");
                self.problems.last_mut().expect("just pushed").hint = None;
                None
            }
        }
    }

    /// Names stand in addresses, identities and on terminals.
    fn name(&mut self, metadata: &Node, key: &str) -> Option<Arc<str>> {
        let Some(node) = metadata.get(key) else {
            // Other programs read YAML of the same head without it.
            let hint = match metadata.entries().is_empty() {
                true => {
                    "write `metadata: {name: NAME}`; if this is no manifest, name the file in .reconciledignore"
                }
                false => "give the manifest a name",
            };
            self.error(metadata.span, format!("`metadata.{key}` is missing"), hint);
            return None;
        };
        // Numbers and booleans are names too: a reverse zone may be called `10`.
        let Some(text) = node.as_str().filter(|text| !text.is_empty()) else {
            self.error(node.span, format!("`metadata.{key}` is not text"), "write a name");
            return None;
        };
        let wrong = text.chars().any(|c| c.is_control() || c == '#');
        if text.len() > 253 || wrong || (key == "namespace" && text.contains('/')) {
            let hint = "a name has at most 253 bytes, no `#` and no control characters";
            self.error(node.span, format!("`metadata.{key}` is not a name"), hint);
            return None;
        }
        Some(text.into())
    }

    fn labels(&mut self, metadata: &Node) -> BTreeMap<Arc<str>, Arc<str>> {
        let mut all = BTreeMap::new();
        let Some(labels) = metadata.get("labels").filter(|node| !node.is_null()) else { return all };
        self.mapping(labels, "metadata.labels");
        for (key, value) in labels.entries() {
            if let Some(word) = key.as_str().filter(|word| word.starts_with(annotations::PREFIX)) {
                // Whoever writes it believes that what it says is so.
                let hint = "write it under `metadata.annotations`";
                self.error(key.span, format!("`{word}` is an annotation and no label"), hint);
            }
            match (key.as_str(), value.as_str()) {
                (Some(key), Some(value)) => {
                    all.insert(key.into(), value.into());
                }
                _ => {
                    let message = format!("expected text for a label, found {}", value.describe());
                    self.error(value.span, message, "quote it");
                }
            }
        }
        all
    }
}

/// Hash of a document's content: comments, layout and the place in the file do not count, nor does `status`.
fn content_hash(node: &Node) -> Hash {
    let mut bytes = Vec::with_capacity(4096);
    let mut hasher = blake3::Hasher::new();
    match &node.value {
        NodeValue::Map(entries) => {
            for (key, value) in entries.iter().filter(|(key, _)| key.as_str() != Some("status")) {
                feed(key, &mut bytes, &mut hasher);
                feed(value, &mut bytes, &mut hasher);
            }
        }
        _ => feed(node, &mut bytes, &mut hasher),
    }
    hasher.update(&bytes);
    Hash::cut(hasher.finalize())
}

/// Writes a node in a form in which different trees differ: a tag, a length, the content.
fn feed(node: &Node, bytes: &mut Vec<u8>, hasher: &mut blake3::Hasher) {
    if bytes.len() > 60_000 {
        hasher.update(bytes);
        bytes.clear();
    }
    let mut head = |tag: u8, length: usize| {
        bytes.push(tag);
        bytes.extend_from_slice(&(length as u64).to_le_bytes());
    };
    match &node.value {
        NodeValue::Null => head(0, 0),
        NodeValue::Scalar(text, kind) => {
            head(1 + u8::from(*kind != ScalarKind::Str), text.len());
            bytes.extend_from_slice(text.as_bytes());
        }
        NodeValue::Seq(nodes) => {
            head(3, nodes.len());
            nodes.iter().for_each(|node| feed(node, bytes, hasher));
        }
        NodeValue::Map(entries) => {
            head(4, entries.len());
            for (key, value) in entries {
                feed(key, bytes, hasher);
                feed(value, bytes, hasher);
            }
        }
    }
}
