//! Offers every manifest to every entry that knows its kind.
//!
//! Two passes, because a manifest may contribute to a scope that another one declares: in the first nobody
//! sees a scope, and what is declared all the same are the scopes; in the second those who asked for scopes
//! are asked again. A use that was not recorded cannot matter, so the others are not.

use super::{
    cache::{Cache, Outcome, OutcomeKey, Uses},
    inputs::{Recorder, scopes_hash},
    loading::Loading,
    product::{Product, Taken, sort_runs},
    request::Mode,
    standing,
    substitute::Placed,
    unit::{Standing, Unit},
};
use reconciled_provider::{
    Adopt, ErrorKind, Identity, Kind, Manifest, Normalized, Observer, Policies, Problem, Reference, Resource,
    ResourceId, Scope, Severity, Span, Spec, problem::did_you_mean,
};
use serde_json::Value as Json;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// A normalization under way.
struct Job {
    unit: usize,
    entry: usize,
    outcome: Outcome,
    is_fresh: bool,
}

/// Normalizes everything that is offered; renews the cache.
pub(super) fn normalize(loading: &mut Loading<'_>, cache: &mut Cache) -> Vec<Taken> {
    let policies = RefCell::new(std::mem::take(&mut cache.policies));
    let mut jobs = first_pass(loading, cache, &policies);
    let scopes: BTreeSet<Scope> = jobs.iter().flat_map(|job| job.outcome.scopes.iter().cloned()).collect();
    let hash = scopes_hash(&scopes);
    for job in &mut jobs {
        let asked = job.outcome.uses.scopes;
        if asked.is_some_and(|seen| seen != hash) {
            let (uses, product) = attempt(loading, job.unit, job.entry, &scopes, &policies);
            job.outcome.uses = uses;
            job.outcome.product = Arc::new(product);
            job.is_fresh = true;
        }
    }
    if loading.mode == Mode::Anywhere {
        settle_stand_ins(loading, &mut jobs);
    }
    loading.counts.normalized = jobs.iter().filter(|job| job.is_fresh).count();
    loading.counts.kept = jobs.len() - loading.counts.normalized;
    cache.outcomes = HashMap::new();
    let mut taken = Vec::with_capacity(jobs.len());
    for job in jobs {
        taken.push(Taken {
            unit: job.unit,
            product: job.outcome.product.clone(),
            asked_for_scopes: job.outcome.uses.scopes.is_some(),
            blobs: job.outcome.uses.blobs().map(|(path, oid)| (path.clone(), oid)).collect(),
        });
        if loading.units[job.unit].merged.is_none() {
            cache.outcomes.insert(key(loading, job.unit, job.entry), job.outcome);
        }
    }
    cache.policies = policies.into_inner();
    taken
}

/// What contributes to the scope of a named entry does not miss that scope at the stand-in for unnamed ones.
fn settle_stand_ins(loading: &Loading<'_>, jobs: &mut [Job]) {
    let is_stand_in = |job: &Job| &*loading.entries[job.entry].name == standing::ANY;
    let says_something = |job: &&Job| !job.outcome.product.is_empty();
    let settled: BTreeSet<usize> =
        jobs.iter().filter(|job| !is_stand_in(job)).filter(says_something).map(|job| job.unit).collect();
    for job in jobs.iter_mut().filter(|job| is_stand_in(job) && settled.contains(&job.unit)) {
        let product = &job.outcome.product;
        let declares = !product.resources.is_empty() || !product.exclusive.is_empty();
        if job.outcome.uses.scopes.is_some() && !declares {
            job.outcome.product = Arc::new(Product::default());
        }
    }
}

fn key(loading: &Loading<'_>, unit: usize, entry: usize) -> OutcomeKey {
    let unit = &loading.units[unit];
    let side = &loading.sides[unit.source];
    let path = side.texts[unit.text].path.clone();
    (side.request.name.clone(), path, unit.ordinal, loading.entries[entry].name.clone())
}

fn first_pass(loading: &Loading<'_>, cache: &mut Cache, policies: &RefCell<Policies>) -> Vec<Job> {
    let mut jobs = Vec::new();
    let nothing = BTreeSet::new();
    for (index, unit) in loading.units.iter().enumerate() {
        let Standing::Offered { entries, .. } = &unit.standing else { continue };
        for entry in entries.iter().copied() {
            let known = cache.outcomes.remove(&key(loading, index, entry));
            if let Some(outcome) = known.filter(|outcome| holds(loading, unit, entry, outcome)) {
                jobs.push(Job { unit: index, entry, outcome, is_fresh: false });
                continue;
            }
            let (uses, product) = attempt(loading, index, entry, &nothing, policies);
            let view = &loading.entries[entry];
            let declared = product.runs.iter().map(|(scope, _)| (**scope).clone());
            let scopes = declared.chain(product.exclusive.iter().cloned()).collect();
            let outcome = Outcome {
                oid: loading.sides[unit.source].texts[unit.text].oid,
                input: unit.resolved.input,
                observer: Arc::downgrade(&view.observer),
                normalizer: view.observer.info().normalizer,
                kinds: Arc::downgrade(&view.kinds),
                is_sole: standing::is_sole(loading, unit, view),
                uses,
                scopes: Arc::new(scopes),
                product: Arc::new(product),
            };
            jobs.push(Job { unit: index, entry, outcome, is_fresh: true });
        }
    }
    jobs
}

/// True when an outcome would come out the same, scopes apart.
fn holds(loading: &Loading<'_>, unit: &Unit, entry: usize, outcome: &Outcome) -> bool {
    let view = &loading.entries[entry];
    outcome.oid == loading.sides[unit.source].texts[unit.text].oid
        && unit.merged.is_none()
        && outcome.input == unit.resolved.input
        && std::ptr::addr_eq(outcome.observer.as_ptr(), Arc::as_ptr(&view.observer))
        && std::ptr::eq(outcome.kinds.as_ptr(), Arc::as_ptr(&view.kinds))
        && outcome.normalizer == view.observer.info().normalizer
        && outcome.is_sole == standing::is_sole(loading, unit, view)
        && outcome.uses.still_hold(loading, unit)
}

/// Asks one entry for what it makes of one manifest.
fn attempt(
    loading: &Loading<'_>,
    index: usize,
    entry: usize,
    scopes: &BTreeSet<Scope>,
    policies: &RefCell<Policies>,
) -> (Uses, Product) {
    let unit = &loading.units[index];
    let view = &loading.entries[entry];
    let recorder = |hides_outputs| Recorder {
        loading,
        unit,
        entry: view,
        scopes,
        policies,
        hides_outputs,
        uses: RefCell::default(),
    };
    let inputs = recorder(false);
    let manifest = loading.manifest(unit);
    let mut normalized = view.observer.normalize(&view.kinds, manifest, &inputs);
    let uses = inputs.uses.into_inner();
    if unit.resolved.has_outputs {
        let template = loading.build(unit, true);
        let templates = view.observer.normalize(&view.kinds, &template, &recorder(true));
        put_templates(&mut normalized, templates, manifest);
    }
    // The reason is reported already; what follows from it is not worth a second problem.
    let failed = unit.failed.borrow();
    let is_at = |problem: &Problem, span: &Span| {
        let place = problem.place.as_ref();
        place.is_some_and(|place| (span.line, span.column) == (place.line, place.column))
    };
    let refused: Vec<Placed> = unit
        .secrets
        .borrow()
        .iter()
        .filter(|placed| {
            normalized.problems.iter().any(|problem| problem.is_error() && is_at(problem, &placed.span))
                || placed
                    .name
                    .as_ref()
                    .is_none_or(|name| !normalized.resources.is_empty() && !uses.ask_for(name))
        })
        .cloned()
        .collect();
    let follows = |problem: &Problem| {
        failed.iter().chain(refused.iter().map(|placed| &placed.span)).any(|span| is_at(problem, span))
    };
    let mut problems: Vec<Problem> =
        normalized.problems.into_iter().filter(|problem| !follows(problem)).collect();
    problems.extend(refused.iter().map(|placed| misplaced(manifest, placed)));
    problems.extend(vain_interval(loading, unit, entry, manifest));
    problems.extend(vain_move(loading, unit, entry, manifest));
    problems.extend(vain_import(loading, unit, entry, manifest));
    problems.extend(vain_adopt(loading, unit, entry, manifest));
    problems.extend(vain_ignore(loading, unit, entry, manifest, &normalized.resources, &policies.borrow()));
    problems.extend(vain_merge(&*view.observer, manifest, &normalized.resources, &policies.borrow()));
    if let Some(merged) = &unit.merged {
        problems.iter_mut().for_each(|problem| merged.settle(problem));
    }
    let Normalized {
        mut resources,
        places,
        exclusive,
        ignored,
        remotes,
        on_host,
        unselected,
        absent,
        unsettled,
        is_taken,
        is_unsure,
        ..
    } = normalized;
    let lacks_secret = uses.lack_secret() && problems.iter().any(Problem::is_error);
    let runs = sort_runs(&mut resources);
    (
        uses,
        Product {
            resources: resources.into(),
            runs,
            places,
            exclusive,
            ignored,
            remotes,
            on_host,
            unselected,
            absent,
            unsettled,
            problems,
            lacks_secret,
            is_taken,
            is_unsure,
        },
    )
}

/// A secret that another manifest puts out, where none can stand.
fn misplaced(manifest: &Manifest, placed: &Placed) -> Problem {
    let Reference { target, path } = &placed.from;
    let (what, hint) = match &placed.name {
        Some(_) => (
            "no secret can stand here",
            "a secret may stand in an attribute of a Terraform resource and in the `content` of a File that not everybody may \
             read; elsewhere it would be seen",
        ),
        None => (
            "it cannot be a part of a longer text",
            "let it stand alone, or write the text as the `content` of a File with template: true",
        ),
    };
    manifest
        .error(
            placed.span,
            format!("`{path}` of {}/{} is a secret, and {what}", target.kind(), target.name()),
        )
        .hint(hint)
}

/// An interval where nobody heeds it: told once, by the first entry that the manifest is offered to.
fn vain_interval(loading: &Loading<'_>, unit: &Unit, entry: usize, manifest: &Manifest) -> Option<Problem> {
    manifest.policy.interval?;
    let Standing::Offered { entries, .. } = &unit.standing else { return None };
    let is_heeded = entries.iter().any(|entry| loading.entries[*entry].observer.heeds_interval());
    if is_heeded || entries.first() != Some(&entry) {
        return None;
    }
    let text = format!("reconciled/interval means nothing for a {}", manifest.kind);
    let hint = "leave it out: it is for resources of Terraform providers; `resync` of the entry says how often it looks";
    Some(manifest.error(manifest.span, text).hint(hint))
}

/// A move where the key is all that a resource is known by, so that one of another key is another one: told in the same way.
fn vain_move(loading: &Loading<'_>, unit: &Unit, entry: usize, manifest: &Manifest) -> Option<Problem> {
    unit.document.settings.moved_from.as_ref()?;
    if !is_known_by_its_key(loading, unit, entry) {
        return None;
    }
    let text = format!(
        "reconciled/moved-from means nothing for a {}: no remote gives it an identity",
        manifest.kind
    );
    let hint = "leave it out: what keeps its key is kept anyway, and what has another key is made anew while the old one \
                goes; to have both for a while, declare both, and remove the old manifest in a later commit";
    Some(manifest.error(manifest.span, text).hint(hint))
}

/// An id where no remote gives one: told in the same way.
fn vain_import(loading: &Loading<'_>, unit: &Unit, entry: usize, manifest: &Manifest) -> Option<Problem> {
    if !manifest.annotations.contains_key("reconciled/import") || !is_known_by_its_key(loading, unit, entry) {
        return None;
    }
    let text =
        format!("reconciled/import means nothing for a {}: no remote gives it an identity", manifest.kind);
    let hint = format!(
        "leave it out: what is declared is found by its key; to take over what exists and differs: reconciled adopt {}/{}",
        manifest.kind, manifest.name
    );
    Some(manifest.error(manifest.span, text).hint(hint))
}

/// The mark of another tool where none of its marks is known: told in the same way, and harmless.
fn vain_adopt(loading: &Loading<'_>, unit: &Unit, entry: usize, manifest: &Manifest) -> Option<Problem> {
    let Adopt::From(owner) = &manifest.policy.adopt else { return None };
    let Standing::Offered { entries, .. } = &unit.standing else { return None };
    let serves_dns =
        |entry: &usize| loading.entries[*entry].kinds.0.iter().any(|kind| kind.group() == MARKED);
    if entries.iter().any(serves_dns) || entries.first() != Some(&entry) {
        return None;
    }
    let text = format!(
        "reconciled/adopt: {owner} means nothing for a {}: only DNS records bear such a mark",
        manifest.kind
    );
    let hint = "to take over what exists and differs write reconciled/adopt: \"true\"";
    Some(Problem { severity: Severity::Warning, ..manifest.error(manifest.span, text).hint(hint) })
}

/// Group of the kinds whose resources other tools mark as theirs.
const MARKED: &str = "dns";

/// Groups of the kinds whose plans call fields as their manifests do.
const BY_FIELD: [&str; 3] = ["dns", "local", "systemd"];

/// What plans of those kinds tell besides, wherever it comes from.
const BESIDES: [&str; 5] = ["content", "enabled", "state", "ttl", "values"];

/// Fields to be left as they are that the kind does not have: told in the same way.
fn vain_ignore(
    loading: &Loading<'_>,
    unit: &Unit,
    entry: usize,
    manifest: &Manifest,
    resources: &[Resource],
    policies: &Policies,
) -> Vec<Problem> {
    let Standing::Offered { entries, .. } = &unit.standing else { return Vec::new() };
    let kind = loading.entries[entry].kinds.find(&unit.document.api_version, &manifest.kind);
    // What a provider tells at run time may have a field of any name.
    let closed = |kind: &&Kind| !kind.schema.is_deferred() && BY_FIELD.contains(&kind.group());
    let Some(kind) = kind.filter(closed) else { return Vec::new() };
    let mut named: BTreeMap<&str, Span> = BTreeMap::new();
    for resource in resources {
        let at = Span { line: resource.origin.line, column: 1 };
        policies.get(resource.policy).ignore.iter().for_each(|path| _ = named.entry(path).or_insert(at));
    }
    manifest.policy.ignore.iter().for_each(|path| _ = named.insert(path, manifest.span));
    if named.is_empty() || entries.first() != Some(&entry) {
        return Vec::new();
    }
    let mut known: BTreeSet<&str> = BESIDES.into();
    fields(&kind.schema, &mut known);
    let vain = |(path, span): (&str, Span)| {
        let field = path.split(['.', '[', '/', ' ']).next().unwrap_or_default();
        // A path of a file, such as that of a drop-in, begins with a slash.
        if field.is_empty() || field.contains('*') || known.contains(field) {
            return None;
        }
        let text =
            format!("`ignore: {path}` leaves nothing as it is: a {} has no field `{field}`", manifest.kind);
        let hint = match did_you_mean(field, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("to see its fields: reconciled explain {}", manifest.kind),
        };
        Some(Problem { severity: Severity::Warning, ..manifest.error(span, text).hint(hint) })
    };
    named.into_iter().filter_map(vain).collect()
}

/// The names of all fields in a schema, at any depth.
fn fields<'a>(schema: &'a Json, out: &mut BTreeSet<&'a str>) {
    match schema {
        Json::Object(all) => {
            out.extend(
                all.get("properties")
                    .and_then(Json::as_object)
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| &**name),
            );
            all.values().for_each(|value| fields(value, out));
        }
        Json::Array(all) => all.iter().for_each(|value| fields(value, out)),
        _ => {}
    }
}

/// Values that are to be shared where a resource has one author.
fn vain_merge(
    observer: &dyn Observer,
    manifest: &Manifest,
    resources: &[Resource],
    policies: &Policies,
) -> Option<Problem> {
    let shared = resources.iter().find(|resource| policies.get(resource.policy).merge)?;
    if is_shareable(observer, shared) {
        return None;
    }
    let text = format!("`merge` means nothing for a {}: what it declares has one author", manifest.kind);
    Some(
        manifest
            .error(manifest.span, text)
            .hint("leave reconciled/merge out, and declare it in one manifest alone"),
    )
}

/// Whether several may declare values of the resource.
pub(super) fn is_shareable(observer: &dyn Observer, resource: &Resource) -> bool {
    let merged = observer.merge(&[resource], None, None, &[]);
    !matches!(merged, Err(error) if error.kind == ErrorKind::Unsupported)
}

/// True for the first entry that a manifest is offered to, where the key is all that any of them knows its resources by.
fn is_known_by_its_key(loading: &Loading<'_>, unit: &Unit, entry: usize) -> bool {
    let Standing::Offered { entries, .. } = &unit.standing else { return false };
    let assigns =
        |entry: &usize| matches!(loading.entries[*entry].observer.info().identity, Identity::Assigned { .. });
    !entries.iter().any(assigns) && entries.first() == Some(&entry)
}

/// Gives resources whose references are all known the template hash they had while they were not.
///
/// What is called after an output has none: it is refused, in the words that its backend has for that while the value is
/// not known.
fn put_templates(normalized: &mut Normalized, templates: Normalized, manifest: &Manifest) {
    let by_id: BTreeMap<(&Scope, &ResourceId), &Spec> =
        templates.resources.iter().map(|r| ((&*r.scope, &r.id), &r.spec)).collect();
    let mut moved = Vec::new();
    for resource in &mut normalized.resources {
        let Some(template) = by_id.get(&(&*resource.scope, &resource.id)).map(|spec| spec.template()) else {
            moved.push(resource.origin.line);
            continue;
        };
        match &mut resource.spec {
            Spec::Known { template: own, .. } | Spec::Waiting { template: own, .. } => {
                *own = template;
            }
        }
    }
    if moved.is_empty() {
        return;
    }
    let is_new = |problem: &Problem| problem.is_error() && !normalized.problems.contains(problem);
    let mut refused: Vec<Problem> = templates.problems.into_iter().filter(is_new).collect();
    if refused.is_empty() {
        let text = "the name of a resource depends on an output of another manifest";
        let problem = |line| manifest.error(Span { line, column: 1 }, text);
        let hint = "write the name out; only values may be references";
        refused.extend(moved.into_iter().map(|line| problem(line).hint(hint)));
    }
    normalized.problems.extend(refused);
}
