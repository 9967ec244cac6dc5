//! Several paths: manifests of later ones replace or extend those of earlier ones.
//!
//! A manifest may extend one of the same identity in an earlier path only if it says
//! `reconciled/merge: "true"`. Mappings are united; scalars and lists are replaced; `records` are united by
//! name and type. Which entries it names, in whatever way, is one thing. Problems in a united manifest are put back to the file their node came from.

use super::{
    envelope::{self, Document},
    files::read_text,
    loading::Loading,
    parse,
    place::place,
    unit::{Merged, Resolved, Standing, Unit},
};
use reconciled_provider::{Address, ManifestKey, Node, Place, Problem, SourceFile, yaml::NodeValue};
use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

const MERGE: &str = "reconciled/merge";

type At = (usize, usize);

/// Makes one unit of each identity, in the order of files.
pub(super) fn unite(loading: &mut Loading<'_>) {
    for source in 0..loading.sides.len() {
        let name = loading.sides[source].request.name.clone();
        let mut groups: BTreeMap<ManifestKey, Vec<At>> = BTreeMap::new();
        let mut order: Vec<ManifestKey> = Vec::new();
        for (text, found) in loading.sides[source].texts.iter().enumerate() {
            for (ordinal, document) in found.parsed.documents.iter().enumerate() {
                let key = ManifestKey::new(
                    &name,
                    document.group(),
                    &document.kind,
                    &document.namespace,
                    &document.name,
                );
                let group = groups.entry(key.clone()).or_default();
                if group.is_empty() {
                    order.push(key);
                }
                group.push((text, ordinal));
            }
        }
        for key in order {
            let group = groups.remove(&key).expect("every key in the order has its group");
            if let Some(unit) = unit(loading, source, key, group) {
                loading.units.push(unit);
            }
        }
    }
    loading.counts.manifests = loading.units.len();
}

fn unit(loading: &mut Loading<'_>, source: usize, key: ManifestKey, mut group: Vec<At>) -> Option<Unit> {
    // Files come sorted by path, layers as configured.
    group.sort_by_key(|(text, _)| loading.sides[source].texts[*text].layer);
    let says_merge = |loading: &Loading<'_>, (text, ordinal): At| {
        says_merge(&loading.sides[source].texts[text].parsed.documents[ordinal])
    };
    let layer = |loading: &Loading<'_>, (text, _): At| loading.sides[source].texts[text].layer;
    for pair in group.windows(2) {
        let is_overlay = layer(loading, pair[1]) > layer(loading, pair[0]) && says_merge(loading, pair[1]);
        if !is_overlay {
            report_duplicate(loading, source, &key, pair[0], pair[1]);
            group.truncate(1);
            break;
        }
    }
    let (text, ordinal) = *group.last()?;
    if group.len() == 1 && says_merge(loading, group[0]) && lacks_base(loading, source, text) {
        // Its base may be in a file that cannot be read: alone it would say something else.
        let path = loading.sides[source].texts[text].path.clone();
        loading.sides[source].mark_broken(&path);
    }
    let mut document = loading.sides[source].texts[text].parsed.documents[ordinal].clone();
    let mut merged = None;
    if group.len() > 1 {
        let (united, found, problems) = merge(loading, source, &group)?;
        problems.into_iter().for_each(|problem| loading.sides[source].report(problem));
        document = Arc::new(found);
        merged = Some(united);
    }
    Some(Unit {
        source,
        text,
        ordinal,
        address: Address::of(&key, None),
        key,
        document,
        merged,
        standing: Standing::Faulty,
        index: None,
        resolved: Resolved::default(),
        manifest: OnceCell::new(),
        failed: RefCell::default(),
        secrets: RefCell::default(),
    })
}

/// True for what says that it lies over another manifest of its identity, if there is one.
pub(super) fn says_merge(document: &Document) -> bool {
    document.annotations.get(MERGE).is_some_and(|value| &**value == "true")
}

/// True when an earlier layer has a file that gave fewer documents than it has because of an error, or any file was not read.
fn lacks_base(loading: &Loading<'_>, source: usize, text: usize) -> bool {
    let side = &loading.sides[source];
    let texts = &side.texts;
    let has_layers = side.request.rules.paths.len() > 1;
    has_layers && side.is_partly_read
        || texts.iter().any(|other| other.layer < texts[text].layer && other.is_short())
}

fn report_duplicate(loading: &mut Loading<'_>, source: usize, key: &ManifestKey, first: At, second: At) {
    let side = &mut loading.sides[source];
    let text =
        |(text, ordinal): At| (&side.texts[text].path, side.texts[text].parsed.documents[ordinal].span);
    let (path, span) = text(first);
    let first = Place { file: path.clone(), line: span.line, column: span.column };
    let (path, span) = text(second);
    let problem = Problem::error(format!("{} is declared twice", Address::of(key, None)))
        .related(first.clone(), "first declared here")
        .hint("rename one, or let one in a later path say `reconciled/merge: \"true\"`");
    let problem = match read_text(side.request.files, path) {
        Ok(file) => problem.at(&file, span),
        Err(_) => problem.in_file(path),
    };
    side.report(problem);
    side.mark_broken(&first.file);
}

fn merge(loading: &Loading<'_>, source: usize, group: &[At]) -> Option<(Merged, Document, Vec<Problem>)> {
    let side = &loading.sides[source];
    let (mut parts, mut lines, mut all) = (Vec::new(), 0u32, String::new());
    let mut whole: Option<Node> = None;
    let mut file = None;
    for (text, ordinal) in group {
        let path = &side.texts[*text].path;
        let (layer_file, mut node) = parse::whole(side.request.files, path, *ordinal)?;
        parts.push((layer_file.path.clone(), lines));
        shift(&mut node, lines);
        anchor(&mut node, &layer_file.path);
        for line in layer_file.text.lines() {
            all.push_str(line);
            all.push('\n');
            lines += 1;
        }
        whole = Some(match whole {
            None => node,
            Some(mut base) => {
                drop_merge(&mut node);
                if names_entries(&node) {
                    drop_entries(&mut base);
                }
                deep_merge(base, node, "")
            }
        });
        file = Some(layer_file.path.clone());
    }
    let file = Arc::new(SourceFile::new(file?, all));
    let mut problems = Vec::new();
    let (document, spec) = envelope::read(whole?, &file, &loading.verbatim, &mut problems)?;
    let layers = group.iter().map(|(text, _)| side.texts[*text].layer).collect();
    let merged = Merged { file, spec, parts, layers };
    problems.iter_mut().for_each(|problem| merged.settle(problem));
    Some((merged, document, problems))
}

/// `reconciled/merge` of an overlay is about documents; it does not make the resources shared.
fn drop_merge(document: &mut Node) {
    drop_keys(child_mut(document, "metadata").and_then(|m| child_mut(m, "annotations")), &[MERGE]);
}

const PROVIDER: &str = "reconciled/provider";
const PROVIDERS: [&str; 2] = ["provider", "providers"];

/// True where a document names entries, in any of the ways to do so.
fn names_entries(document: &Node) -> bool {
    let spec = document.get("spec");
    let annotations = document.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let in_spec = |key| spec.is_some_and(|spec| spec.get(key).is_some());
    PROVIDERS.into_iter().any(in_spec) || annotations.is_some_and(|all| all.get(PROVIDER).is_some())
}

/// Takes the entries out that a document names: the later layer says which, in whatever way.
fn drop_entries(document: &mut Node) {
    drop_keys(child_mut(document, "spec"), &PROVIDERS);
    drop_keys(child_mut(document, "metadata").and_then(|m| child_mut(m, "annotations")), &[PROVIDER]);
}

fn drop_keys(mapping: Option<&mut Node>, keys: &[&str]) {
    if let Some(Node { value: NodeValue::Map(entries), .. }) = mapping {
        entries.retain(|(key, _)| !key.as_str().is_some_and(|key| keys.contains(&key)));
    }
}

/// Warns of what says that it is laid over another manifest and is alone: the same word then has its records shared with whoever
/// declares them too, which hides that the other one is gone. Who means that can say it of the records.
pub(super) fn report_lone(loading: &mut Loading<'_>) {
    let mut found = Vec::new();
    for unit in &loading.units {
        let (side, document) = (&loading.sides[unit.source], &unit.document);
        let text = &side.texts[unit.text];
        let is_lone = says_merge(document)
            && unit.merged.is_none()
            && text.layer > 0
            && matches!(unit.standing, Standing::Offered { .. })
            && !side.broken.contains(&text.path);
        if is_lone && loading.with_spec(unit, |spec| spec.get("records").is_some()) {
            let address = &unit.address;
            let text = format!(
                "`{MERGE}` lays nothing over: no earlier path declares {address}, so its records are shared with others"
            );
            let hint = format!(
                "declare {address} in an earlier path, or leave the annotation out; records that are to be shared can say \
                 `merge: true` themselves"
            );
            let problem = Problem::warning(text).hint(hint);
            found.push((unit.source, place(loading, unit, problem, document.span)));
        }
    }
    found.into_iter().for_each(|(source, problem)| loading.sides[source].report(problem));
}

fn child_mut<'a>(node: &'a mut Node, key: &str) -> Option<&'a mut Node> {
    let NodeValue::Map(entries) = &mut node.value else { return None };
    entries.iter_mut().find(|(k, _)| k.as_str() == Some(key)).map(|(_, value)| value)
}

fn shift(node: &mut Node, lines: u32) {
    node.span.line += lines;
    match &mut node.value {
        NodeValue::Null | NodeValue::Scalar(..) => {}
        NodeValue::Seq(nodes) => nodes.iter_mut().for_each(|node| shift(node, lines)),
        NodeValue::Map(entries) => entries.iter_mut().for_each(|(key, value)| {
            shift(key, lines);
            shift(value, lines);
        }),
    }
}

/// Files that `records` include are meant from the folder of the layer that names them.
fn anchor(document: &mut Node, path: &str) {
    let Some(records) = child_mut(document, "spec").and_then(|spec| child_mut(spec, "records")) else {
        return;
    };
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let rooted = |item: &mut Node| {
        if let Some(Node { value: NodeValue::Scalar(text, _), .. }) = child_mut(item, "zonefile")
            && !text.starts_with('/')
        {
            *text = format!("/{folder}/{text}").into();
        }
    };
    match &mut records.value {
        NodeValue::Seq(items) => items.iter_mut().for_each(rooted),
        _ => rooted(records),
    }
}

fn deep_merge(base: Node, over: Node, key: &str) -> Node {
    let Node { span, value } = over;
    match (base.value, value) {
        (NodeValue::Map(mut entries), NodeValue::Map(overs)) => {
            for (key, value) in overs {
                let word = key.as_str().unwrap_or("").to_string();
                match entries.iter_mut().find(|(k, _)| k.as_str() == Some(&word)) {
                    Some((_, old)) => {
                        let empty = Node { span: old.span, value: NodeValue::Null };
                        *old = deep_merge(std::mem::replace(old, empty), value, &word);
                    }
                    None => entries.push((key, value)),
                }
            }
            Node { span, value: NodeValue::Map(entries) }
        }
        (NodeValue::Seq(mut nodes), NodeValue::Seq(overs)) if key == "records" => {
            let identity = |node: &Node| {
                let text = |key| node.get(key).and_then(Node::as_str).unwrap_or("").to_ascii_lowercase();
                (text("name"), text("type"), text("zonefile"))
            };
            for over in overs {
                match nodes.iter_mut().find(|node| identity(node) == identity(&over)) {
                    Some(old) => *old = over,
                    None => nodes.push(over),
                }
            }
            Node { span, value: NodeValue::Seq(nodes) }
        }
        (_, value) => Node { span, value },
    }
}
