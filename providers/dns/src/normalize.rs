//! Manifests → canonical resources. Pure; one bad record is one problem and the others stand.
//!
//! A record of which a value is bad is left out as a whole: applied without that value it would remove what
//! the person meant to keep. All records at a name where a CNAME meets other data are left out likewise,
//! because nobody can tell which of them was meant.

mod absent;
mod collect;
mod context;
mod endpoint;
mod included;
mod inherited;
mod records;
mod refused;
mod reverse;
mod routed;

use crate::{
    dialect::Served,
    ignore::{APEX, Ignored},
    kind::{API_VERSION, DNS_ENDPOINT, EXTERNAL_DNS, RECORD_SET, RecordSetSpec, ZONE, ZoneSpec},
    name::Name,
    record::{self, DEFAULT_TTL},
};
use context::{Context, name_problem, of_output, valid_ttl};
use inherited::{Inherited, declaration, inherited};
use reconciled_provider::{
    At, Deletion, Inputs, Manifest, Normalized, Policy, Problem, Resource, Scope, Severity, Span, Spec,
    problem::did_you_mean,
    yaml::{NodeValue, ScalarKind},
};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The canonical resources of a `Zone`, `RecordSet` or `DNSEndpoint` at this entry; nothing for what is not its own.
pub fn normalize(manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
    normalize_for(manifest, inputs, &Served::ALL)
}

/// As [`fn@normalize`], for a backend that serves fewer types or knows more of a record.
pub fn normalize_for(manifest: &Manifest, inputs: &dyn Inputs, served: &Served) -> Normalized {
    let mut out = match (&*manifest.api_version, &*manifest.kind) {
        (API_VERSION, ZONE) => zone(manifest, inputs, served),
        (API_VERSION, RECORD_SET) => record_set(manifest, inputs, served),
        (EXTERNAL_DNS, DNS_ENDPOINT) => endpoint::endpoints(manifest, inputs, served),
        _ => Normalized::default(),
    };
    if !out.resources.is_empty() {
        let rules = manifest.policy.lint_ignore.iter();
        out.problems.extend(rules.filter_map(|rule| records::lint_rule(rule, manifest.span, manifest)));
    }
    out
}

fn zone(manifest: &Manifest, inputs: &dyn Inputs, served: &Served) -> Normalized {
    if !manifest.is_for(inputs.entry(), inputs.is_sole()) {
        return Normalized::default();
    }
    let (spec, included, problems) = decoded::<ZoneSpec>(manifest);
    let mut out = Normalized { problems, ..Normalized::default() };
    let Some(spec) = spec else { return out };
    let refused = spec.zone.as_ref().and_then(|at| of_output(manifest, "zone", at.span, &at.unknown));
    if let Some(problem) = refused {
        out.problems.push(problem);
        return out;
    }
    let (text, span) = match &spec.zone {
        Some(zone) => (zone.value.as_str(), zone.span),
        None => (&*manifest.name, manifest.span),
    };
    let zone = match Name::zone(text) {
        Ok(zone) => zone,
        Err(error) => {
            out.problems.push(name_problem(manifest, span, &error));
            return out;
        }
    };
    let scope = Arc::new(record::scope(inputs.entry(), &zone));
    // A zone outlives its manifest unless somebody says otherwise: with it would go what nobody declared.
    let deletion = manifest.policy.deletion.or(Some(Deletion::Abandon));
    out.resources.push(Resource::new(
        record::zone_id(&scope),
        scope.clone(),
        Spec::known(record::ZONE),
        manifest.origin(manifest.span),
        inputs.policy(Policy { deletion, ..manifest.policy.clone() }),
    ));
    if spec.exclusive {
        out.exclusive.push((*scope).clone());
    }
    let ignored = Ignored::of(manifest, &spec.ignore, &zone, &mut out.problems);
    out.ignored.extend(ignored.texts().map(|rule| ((*scope).clone(), rule)));
    out.ignored.extend(spec.apex.then(|| ((*scope).clone(), APEX.into())));
    let ttl = common_ttl(manifest, spec.ttl.as_ref(), &mut out.problems).unwrap_or(DEFAULT_TTL);
    let has_apex = spec.apex;
    let context = Context { manifest, inputs, served, zone: &zone, scope, ttl, has_apex, ignored: &ignored };
    records::records(&context, &spec.records, &included, &mut out);
    out
}

fn record_set(manifest: &Manifest, inputs: &dyn Inputs, served: &Served) -> Normalized {
    let (entry, is_sole) = (inputs.entry(), inputs.is_sole());
    let is_named = manifest.providers.is_some();
    if is_named && !manifest.is_for(entry, is_sole) {
        return Normalized::default();
    }
    if let Some(node) = manifest.spec.get("zone")
        && let NodeValue::Scalar(_, ScalarKind::Unknown(on)) = &node.value
        && let Some(problem) = of_output(manifest, "zone", node.span, on)
    {
        return Normalized { problems: vec![problem], ..Normalized::default() };
    }
    let written = manifest.spec.get("zone").and_then(|node| node.as_str()).map(Name::zone);
    let Some(Ok(zone)) = written else {
        // Without a zone nobody can tell whose it is; the sole or named entry says what is wrong.
        let mut out = Normalized::default();
        if manifest.is_for(entry, is_sole) {
            out.problems = decoded::<RecordSetSpec>(manifest).2;
            if let (Some(Err(error)), Some(node)) = (written, manifest.spec.get("zone")) {
                out.problems.push(name_problem(manifest, node.span, &error));
            }
        }
        return out;
    };
    let scope = record::scope(entry, &zone);
    let is_own = declaration(inputs.siblings(ZONE), inputs, &zone).is_some();
    let is_declared = is_own || inputs.scopes().contains(&scope);
    let absent = if is_declared { Vec::new() } else { absent::of_zone(manifest, inputs, &scope, &zone) };
    let is_absent = !absent.is_empty();
    // Without a host at hand only what is in error is absent, and records are checked all the same.
    if is_absent && !inputs.is_apart() || !is_declared && !is_named && !is_sole {
        return Normalized { absent, ..Normalized::default() };
    }
    let is_unsure = !is_declared && (is_absent || !inputs.is_all_read());
    let (spec, included, problems) = decoded::<RecordSetSpec>(manifest);
    let mut out = Normalized { problems, ..Normalized::default() };
    let Some(spec) = spec else { return out };
    out.is_unsure = is_unsure;
    if !is_declared && !is_unsure {
        out.problems.push(undeclared(manifest, inputs, &scope, spec.zone.span));
    }
    if !is_declared && !inputs.is_apart() {
        return out;
    }
    out.is_taken = is_declared;
    let inherited = if is_declared { inherited(inputs, &scope, &zone) } else { Inherited::default() };
    let own = common_ttl(manifest, spec.ttl.as_ref(), &mut out.problems);
    let ttl = own.or(inherited.ttl).unwrap_or(DEFAULT_TTL);
    let scope = Arc::new(scope);
    let has_apex = inherited.has_apex;
    let ignored = &inherited.ignored;
    let context = Context { manifest, inputs, served, zone: &zone, scope, ttl, has_apex, ignored };
    records::records(&context, &spec.records, &included, &mut out);
    if !is_declared {
        // It declares no zone itself.
        out.resources.clear();
    }
    out
}

/// The spec, the files it includes, and what is wrong with it.
fn decoded<T: DeserializeOwned>(manifest: &Manifest) -> (Option<T>, Vec<included::Written>, Vec<Problem>) {
    let mut problems = Vec::new();
    let (spec, included, found) = match included::take(manifest, &mut problems) {
        None => {
            let (spec, found) = manifest.spec();
            (spec, Vec::new(), found)
        }
        Some((node, included)) => {
            let (spec, found) = node.decode_all(&manifest.file);
            (spec, included, found)
        }
    };
    problems.extend(found.into_iter().map(no_field));
    (spec, included, problems)
}

/// Annotations of manifests that records have no fields of.
const ANNOTATIONS: [&str; 7] =
    ["provider", "depends-on", "wave", "import", "moved-from", "policy", "interval"];

/// What is wrong with a field says so, where its name is that of an annotation: as fields of a record some of them are known.
fn no_field(problem: Problem) -> Problem {
    let word = problem.message.strip_prefix("unknown field `").and_then(|rest| rest.strip_suffix('`'));
    let flat = |word: &str| word.replace('-', "").to_ascii_lowercase();
    let known = word.and_then(|word| ANNOTATIONS.into_iter().find(|known| flat(known) == flat(word)));
    let (Some(word), Some(known)) = (word, known) else { return problem };
    let message = format!("`{word}` is no field here, but an annotation of the manifest");
    let hint = format!(
        "write `reconciled/{known}` under `metadata.annotations`; it is for all that the manifest declares"
    );
    Problem { message, hint: Some(hint), ..problem }
}

fn undeclared(manifest: &Manifest, inputs: &dyn Inputs, scope: &Scope, span: Span) -> Problem {
    let names = inputs.scopes().iter().filter(|s| s.provider == scope.provider).map(|s| &*s.name);
    let hint = match did_you_mean(&scope.name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "declare it with a manifest of kind `Zone`".into(),
    };
    // Without a name it may be declared at any.
    let by = manifest.providers.as_ref().map(|_| format!(" at provider `{}`", scope.provider));
    let (name, by) = (&scope.name, by.unwrap_or_default());
    if inputs.is_apart() {
        let message = format!("zone `{name}` is not declared here{by}");
        let problem = Problem { severity: Severity::Warning, ..manifest.error(span, message) };
        return problem
            .hint(format!("without another source that declares it nothing becomes of this; {hint}"));
    }
    manifest.error(span, format!("zone `{name}` is declared nowhere{by}")).hint(hint)
}

/// The TTL of all records of a manifest. It cannot wait for an output: every record would have to wait too.
fn common_ttl(manifest: &Manifest, ttl: Option<&At<u32>>, problems: &mut Vec<Problem>) -> Option<u32> {
    let ttl = ttl?;
    if !ttl.unknown.is_empty() {
        let problem = manifest.error(ttl.span, "the ttl of all records is an output that is not known yet");
        problems.push(problem.hint("write the number, or put the reference into `ttl` of single records"));
        return None;
    }
    valid_ttl(manifest, Some(ttl), problems)
}

#[cfg(test)]
pub(crate) mod tests;
