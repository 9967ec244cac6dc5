//! The first stage of a load: files are chosen, and parsed where the cache has nothing of them.

use super::{
    cache::{Cache, CachedFile},
    envelope::Verbatim,
    faulty::Faulty,
    loaded::Counts,
    loading::{Loading, Side, Templates, Text},
    parse::parse,
    paths::paths,
    request::{Mode, Request, SourceRequest},
    select,
    vars::{self, Variables},
};
use reconciled_provider::Kind;
use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// Reads the files of all sources, from the cache where their content stands.
pub(super) fn read<'a>(request: &'a Request<'a>, cache: &mut Cache, mode: Mode) -> Loading<'a> {
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
        let side = read_source(&mut loading, source, cache, &mut files);
        loading.sides.push(side);
    }
    cache.files = files;
    loading
}

fn read_source<'a>(
    loading: &mut Loading<'a>,
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
    let (paths, mut left_out) = paths(&source.rules, loading.request.host, &mut problems);
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
    loading.counts.excluded_files += choice.excluded;
    for chosen in choice.files {
        let key = (source.name.clone(), chosen.path.clone());
        let known = cache.files.get(&key).filter(|file| file.oid == chosen.oid);
        let (parsed, trees) = match known {
            Some(file) => (file.parsed.clone(), None),
            None => parse(source.files, &chosen.path, &loading.verbatim),
        };
        loading.counts.files += 1;
        loading.counts.parsed += usize::from(known.is_none());
        loading.counts.reused += usize::from(known.is_some());
        loading.counts.skipped_documents += parsed.skipped;
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
