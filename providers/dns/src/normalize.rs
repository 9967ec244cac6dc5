//! Manifests → canonical resources. Pure; one bad record is one problem and the others stand.
//!
//! A record of which a value is bad is left out as a whole: applied without that value it would remove what
//! the person meant to keep. All records at a name where a CNAME meets other data are left out likewise,
//! because nobody can tell which of them was meant.

mod absent;
mod collect;
mod endpoint;
mod included;
mod records;
mod reverse;
mod routed;

use crate::{
    cloudflare,
    ignore::{APEX, Ignored},
    kind::{
        API_VERSION, DNS_ENDPOINT, EXTERNAL_DNS, IgnoreSpec, RECORD_SET, RecordSetSpec, RecordSpec, ZONE,
        ZoneSpec,
    },
    name::{Name, NameError, zones},
    rdata::{self, Type},
    record, route53,
};
use reconciled_provider::{
    At, Deletion, Each, Inputs, Manifest, Normalized, Policy, Problem, Reference, Resource, Scope, Severity,
    Span, Spec,
    problem::did_you_mean,
    yaml::{NodeValue, ScalarKind},
};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Seconds a record lives in caches when nobody says how long.
pub const DEFAULT_TTL: u32 = 300;

/// What may hide a zone, as `allow` of a source names kinds.
pub(crate) const HIDDEN: &str = "dns/Zone";

/// Largest TTL (RFC 2181 §8).
const MAX_TTL: u32 = i32::MAX as u32;

/// What a backend makes of a record of a zone; refusals say at which place of the record.
pub type Dialect = fn(&RecordSpec, Type, u32, &Name) -> Result<Settled, (Span, rdata::Refusal)>;

/// A record as a backend will have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Seconds.
    pub ttl: u32,
    /// What only this backend knows, see [`record::encode_with`].
    pub extra: String,
    /// Canonical values; none for those that the record lists.
    pub values: Option<Vec<String>>,
}

impl Settled {
    /// A record with its own values.
    pub fn new(ttl: u32, extra: String) -> Settled {
        Settled { ttl, extra, values: None }
    }
}

/// What a backend cannot hold, and what it alone knows.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Value of `type` in the host configuration.
    pub by: &'static str,
    /// Types it does not serve, each with what to do instead.
    pub refused: &'static [(Type, &'static str)],
    /// What it makes of the rest of a record.
    pub dialect: Dialect,
}

impl Served {
    /// Every type, and nothing else.
    pub(crate) const ALL: Served = Served { by: "", refused: &[], dialect: plain };

    /// Whatever some backend serves: where nobody knows yet which one it will be.
    pub(crate) const ANYWHERE: Served = Served { by: "*", refused: &[], dialect: anywhere };

    /// True where what only backends of type `by` know can be declared.
    fn may_be(&self, by: &str) -> bool {
        self.by == by || self.by == Served::ANYWHERE.by
    }
}

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

/// The dialect of backends that know nothing besides: what is meant for others is refused by name.
pub(crate) fn plain(
    record: &RecordSpec,
    _: Type,
    ttl: u32,
    _: &Name,
) -> Result<Settled, (Span, rdata::Refusal)> {
    refuse_cloudflare(record)?;
    refuse_route53(record)?;
    Ok(Settled::new(ttl, String::new()))
}

/// The dialect where the backend is not known: what is meant for one is checked by its rules.
fn anywhere(
    record: &RecordSpec,
    kind: Type,
    ttl: u32,
    zone: &Name,
) -> Result<Settled, (Span, rdata::Refusal)> {
    // Each of the two refuses what is meant for the other, so a record with both fails, as it would everywhere.
    let dialect = match (&record.cloudflare, &record.route53) {
        (Some(_), _) => cloudflare::SERVED.dialect,
        (None, Some(_)) => route53::SERVED.dialect,
        (None, None) => plain,
    };
    dialect(record, kind, ttl, zone)
}

/// Refuses what only Cloudflare knows.
pub(crate) fn refuse_cloudflare(record: &RecordSpec) -> Result<(), (Span, rdata::Refusal)> {
    record.cloudflare.as_ref().map_or(Ok(()), |other| Err((other.span, of_another("cloudflare"))))
}

/// Refuses what only Route 53 knows.
pub(crate) fn refuse_route53(record: &RecordSpec) -> Result<(), (Span, rdata::Refusal)> {
    record.route53.as_ref().map_or(Ok(()), |other| Err((other.span, of_another("route53"))))
}

fn of_another(word: &str) -> rdata::Refusal {
    let message = format!("`{word}` means nothing to this provider, which is of another type");
    let hint = format!("write the record in a RecordSet whose `provider` is of type `{word}`");
    rdata::Refusal { message, hint: Some(hint) }
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
    out.resources.push(Resource {
        id: record::zone_id(&scope),
        scope: scope.clone(),
        spec: Spec::known(record::ZONE),
        origin: manifest.origin(manifest.span),
        policy: inputs.policy(Policy { deletion, ..manifest.policy.clone() }),
    });
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

/// The zones that hold `name`, have a name of at least `length` octets, and may be declared where nothing can be read.
fn hidden<'a>(inputs: &'a dyn Inputs, name: &'a str, length: usize) -> impl Iterator<Item = &'a str> {
    zones(name).take_while(move |zone| zone.len() >= length).filter(move |zone| inputs.may_hide(HIDDEN, zone))
}

/// What a zone's own manifest says to records declared elsewhere.
#[derive(Default)]
struct Inherited {
    ttl: Option<u32>,
    has_apex: bool,
    ignored: Ignored,
}

/// What the `Zone` of that name says which this entry serves: that of the same source, else the first one of another.
fn inherited(inputs: &dyn Inputs, scope: &Scope, zone: &Name) -> Inherited {
    let own = declaration(inputs.siblings(ZONE), inputs, zone);
    own.or_else(|| declaration(inputs.beside(ZONE, scope), inputs, zone)).unwrap_or_default()
}

/// The `Zone` of that name which this entry serves, if one of these manifests declares it.
fn declaration(zones: Vec<&Manifest>, inputs: &dyn Inputs, zone: &Name) -> Option<Inherited> {
    let manifest = zones.iter().find(|manifest| {
        manifest.is_for(inputs.entry(), inputs.is_sole())
            && declared(manifest).is_some_and(|name| name == *zone)
    })?;
    let text = |key: &str| manifest.spec.get(key).and_then(|node| node.as_str());
    Some(Inherited {
        ttl: text("ttl").and_then(|ttl| ttl.parse().ok()).filter(|ttl| *ttl <= MAX_TTL),
        ignored: ignored(manifest, zone),
        has_apex: text("apex").is_some_and(|apex| apex.eq_ignore_ascii_case("true")),
    })
}

/// The zone that a `Zone` declares.
fn declared(manifest: &Manifest) -> Option<Name> {
    let text = manifest.spec.get("zone").and_then(|node| node.as_str()).unwrap_or(&manifest.name);
    Name::zone(text).ok().filter(|_| &*manifest.api_version == API_VERSION)
}

/// The rules of a zone declared elsewhere; what is wrong with them is told there.
fn ignored(manifest: &Manifest, zone: &Name) -> Ignored {
    let specs =
        manifest.spec.get("ignore").and_then(|node| node.decode::<Each<IgnoreSpec>>(&manifest.file).0);
    specs.map_or_else(Ignored::default, |specs| Ignored::of(manifest, &specs, zone, &mut Vec::new()))
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

struct Context<'a> {
    manifest: &'a Manifest,
    inputs: &'a dyn Inputs,
    served: &'a Served,
    zone: &'a Name,
    scope: Arc<Scope>,
    ttl: u32,
    has_apex: bool,
    ignored: &'a Ignored,
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

fn valid_ttl(manifest: &Manifest, ttl: Option<&At<u32>>, problems: &mut Vec<Problem>) -> Option<u32> {
    let ttl = ttl?;
    if ttl.value > MAX_TTL {
        let message = format!("a ttl of {} seconds is out of range", ttl.value);
        problems.push(manifest.error(ttl.span, message).hint(format!("0 to {MAX_TTL} (RFC 2181 §8)")));
        return None;
    }
    Some(ttl.value)
}

/// Refuses the name of a zone or record that waits for an output: with another value it would be another one. A variable
/// that it waits for, where no configuration says what it holds, is none.
fn of_output(manifest: &Manifest, what: &str, span: Span, unknown: &[Reference]) -> Option<Problem> {
    unknown.iter().find(|reference| !reference.target.source().is_empty())?;
    let text = format!("the name of a {what} cannot depend on an output of another manifest");
    let hint = "write the name out; `spec.` and `metadata.` of another manifest may stand in it";
    Some(manifest.error(span, text).hint(hint))
}

fn name_problem(manifest: &Manifest, span: Span, error: &NameError) -> Problem {
    Problem { hint: error.hint(), ..manifest.error(span, error.to_string()) }
}

fn refusal(manifest: &Manifest, span: Span, refusal: rdata::Refusal) -> Problem {
    Problem { hint: refusal.hint, ..manifest.error(span, refusal.message) }
}

#[cfg(test)]
pub(crate) mod tests;
