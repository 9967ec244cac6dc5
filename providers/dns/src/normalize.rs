//! Manifests → canonical resources. Pure; one bad record is one problem and the others stand.
//!
//! A record of which a value is bad is left out as a whole: applied without that value it would remove what
//! the person meant to keep. All records at a name where a CNAME meets other data are left out likewise,
//! because nobody can tell which of them was meant.

mod reverse;

use crate::{
    ignore::Ignored,
    kind::{
        API_VERSION, Data, FieldValue, IgnoreSpec, RECORD_SET, RecordSetSpec, RecordSpec, ZONE, ZoneSpec,
    },
    name::{Name, NameError},
    rdata::{self, Type},
    record,
};
use reconciled_provider::{
    Adopt, At, Deletion, Each, Hash, Inputs, Manifest, Normalized, Place, Policy, PolicyId, Problem,
    Resource, ResourceId, Scope, Span, Spec, problem::did_you_mean,
};
use reverse::Reverse;
use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// Seconds a record lives in caches when nobody says how long.
pub const DEFAULT_TTL: u32 = 300;

/// Largest TTL (RFC 2181 §8).
const MAX_TTL: u32 = i32::MAX as u32;

/// What a backend makes of a record besides its data: the TTL it will have, and what only this backend knows.
///
/// Refusals say at which place of the record.
pub type Dialect = fn(&RecordSpec, Type, u32) -> Result<(u32, String), (Span, rdata::Refusal)>;

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

/// The canonical resources of a `Zone` or `RecordSet` at this entry; nothing for what is not its own.
pub fn normalize(manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
    normalize_for(manifest, inputs, &Served { by: "", refused: &[], dialect: plain })
}

/// As [`fn@normalize`], for a backend that serves fewer types or knows more of a record.
pub fn normalize_for(manifest: &Manifest, inputs: &dyn Inputs, served: &Served) -> Normalized {
    if &*manifest.api_version != API_VERSION {
        return Normalized::default();
    }
    match &*manifest.kind {
        ZONE => zone(manifest, inputs, served),
        RECORD_SET => record_set(manifest, inputs, served),
        _ => Normalized::default(),
    }
}

/// The dialect of backends that know nothing besides: what is meant for others is refused by name.
pub(crate) fn plain(record: &RecordSpec, _: Type, ttl: u32) -> Result<(u32, String), (Span, rdata::Refusal)> {
    let Some(other) = &record.cloudflare else { return Ok((ttl, String::new())) };
    let message = "`cloudflare` means nothing to this provider, which is of another type".into();
    let hint = Some("write the record in a RecordSet whose `provider` is of type `cloudflare`".into());
    Err((other.span, rdata::Refusal { message, hint }))
}

fn zone(manifest: &Manifest, inputs: &dyn Inputs, served: &Served) -> Normalized {
    if !manifest.is_for(inputs.entry(), inputs.is_sole()) {
        return Normalized::default();
    }
    let (spec, problems) = manifest.spec::<ZoneSpec>();
    let mut out = Normalized { problems, ..Normalized::default() };
    let Some(spec) = spec else { return out };
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
    let ttl = common_ttl(manifest, spec.ttl.as_ref(), &mut out.problems).unwrap_or(DEFAULT_TTL);
    let has_apex = spec.apex;
    let context = Context { manifest, inputs, served, zone: &zone, scope, ttl, has_apex, ignored: &ignored };
    records(&context, &spec.records, &mut out);
    out
}

fn record_set(manifest: &Manifest, inputs: &dyn Inputs, served: &Served) -> Normalized {
    let (entry, is_sole) = (inputs.entry(), inputs.is_sole());
    let is_named = manifest.providers.is_some();
    if is_named && !manifest.is_for(entry, is_sole) {
        return Normalized::default();
    }
    let written = manifest.spec.get("zone").and_then(|node| node.as_str()).map(Name::zone);
    let Some(Ok(zone)) = written else {
        // Without a zone nobody can tell whose it is; the sole or named entry says what is wrong.
        let mut out = Normalized::default();
        if manifest.is_for(entry, is_sole) {
            out.problems = manifest.spec::<RecordSetSpec>().1;
            if let (Some(Err(error)), Some(node)) = (written, manifest.spec.get("zone")) {
                out.problems.push(name_problem(manifest, node.span, &error));
            }
        }
        return out;
    };
    let scope = record::scope(entry, &zone);
    let declared = declaration(inputs, &zone);
    let is_declared = declared.is_some() || inputs.scopes().contains(&scope);
    if !is_declared && !is_named && !is_sole {
        return Normalized::default();
    }
    let (spec, problems) = manifest.spec::<RecordSetSpec>();
    let mut out = Normalized { problems, ..Normalized::default() };
    let Some(spec) = spec else { return out };
    if !is_declared {
        out.problems.push(undeclared(manifest, inputs, &scope, spec.zone.span));
        return out;
    }
    let inherited = declared.unwrap_or_default();
    let own = common_ttl(manifest, spec.ttl.as_ref(), &mut out.problems);
    let ttl = own.or(inherited.ttl).unwrap_or(DEFAULT_TTL);
    let scope = Arc::new(scope);
    let has_apex = inherited.has_apex;
    let ignored = &inherited.ignored;
    let context = Context { manifest, inputs, served, zone: &zone, scope, ttl, has_apex, ignored };
    records(&context, &spec.records, &mut out);
    out
}

/// What a zone's own manifest says to records declared elsewhere.
#[derive(Default)]
struct Inherited {
    ttl: Option<u32>,
    has_apex: bool,
    ignored: Ignored,
}

/// The `Zone` of that name which this entry serves, if a manifest of the same source declares it.
fn declaration(inputs: &dyn Inputs, zone: &Name) -> Option<Inherited> {
    let zones = inputs.siblings(ZONE);
    let manifest = zones.iter().find(|manifest| {
        let text = manifest.spec.get("zone").and_then(|node| node.as_str()).unwrap_or(&manifest.name);
        &*manifest.api_version == API_VERSION
            && manifest.is_for(inputs.entry(), inputs.is_sole())
            && Name::zone(text).is_ok_and(|name| name == *zone)
    })?;
    let text = |key: &str| manifest.spec.get(key).and_then(|node| node.as_str());
    Some(Inherited {
        ttl: text("ttl").and_then(|ttl| ttl.parse().ok()).filter(|ttl| *ttl <= MAX_TTL),
        ignored: ignored(manifest, zone),
        has_apex: text("apex").is_some_and(|apex| apex.eq_ignore_ascii_case("true")),
    })
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
    let message = format!("zone `{}` is declared nowhere at provider `{}`", scope.name, scope.provider);
    manifest.error(span, message).hint(hint)
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

/// One good record on its way to a resource.
struct Good {
    name: Name,
    kind: Type,
    span: Span,
    merge: bool,
}

fn records(cx: &Context<'_>, list: &Each<RecordSpec>, out: &mut Normalized) {
    let base = cx.inputs.policy(cx.manifest.policy.clone());
    let first = out.resources.len();
    out.resources.reserve(list.len());
    let mut good: Vec<Good> = Vec::with_capacity(list.len());
    let mut seen: HashMap<ResourceId, usize> = HashMap::with_capacity(list.len());
    let mut reverse = Reverse::default();
    for at in list.iter() {
        let Some((name, kind)) = identity(cx, &at.value, &mut out.problems) else { continue };
        let id = record::id(name.as_str(), kind.word());
        let here = Good { name, kind, span: at.span, merge: at.value.merge || cx.manifest.policy.merge };
        if let Some(earlier) = seen.get(&id).map(|index| &good[*index])
            && !(earlier.merge && here.merge)
        {
            let name = crate::name::relative(here.name.as_str(), cx.zone.as_str());
            let message = format!("{name} {} is declared twice", kind.word());
            out.problems.push(
                cx.manifest
                    .error(at.span, message)
                    .related(place(cx.manifest, earlier.span), "first declared here")
                    .hint("write all values in one record, or `merge: true` on both"),
            );
            continue;
        }
        let Some(spec) = content(cx, at, kind, &mut out.problems) else { continue };
        if let Some(place) = cx.ignored.place_of(&id, &spec) {
            let name = crate::name::relative(here.name.as_str(), cx.zone.as_str());
            let message = format!("{name} {} is declared, and ignored by its zone", kind.word());
            let problem =
                cx.manifest.error(at.span, message).related(place.clone(), "the rule that names it");
            out.problems.push(problem.hint("remove the declaration, or narrow the rule of `ignore`"));
            continue;
        }
        let policy = if at.value.has_policy() { own_policy(cx, &at.value, &mut out.problems) } else { base };
        if at.value.reverse {
            reverse.add(cx, at, (&here.name, kind), &spec, policy, &mut out.problems);
        }
        seen.insert(id.clone(), good.len());
        good.push(here);
        let origin = cx.manifest.origin(at.span);
        out.resources.push(Resource { id, scope: cx.scope.clone(), spec, origin, policy });
    }
    drop(seen);
    let refused = cname_conflicts(cx, &good, &mut out.problems);
    if !refused.is_empty() {
        let mut index = 0;
        out.resources.retain(|_| {
            let position = index;
            index += 1;
            position < first || !refused.contains(&position.wrapping_sub(first))
        });
    }
    out.resources.extend(reverse.into_resources(cx));
}

/// Name and type of a record, or the problems that leave it without.
fn identity(cx: &Context<'_>, spec: &RecordSpec, problems: &mut Vec<Problem>) -> Option<(Name, Type)> {
    let manifest = cx.manifest;
    let before = problems.len();
    let kind = Type::of(&spec.kind.value);
    if kind.is_none() {
        problems.push(refusal(manifest, spec.kind.span, Type::refuse(&spec.kind.value)));
    }
    let name = Name::within(&spec.name.value, cx.zone);
    let (name, kind) = match (name, kind) {
        (Err(error), _) => {
            problems.push(name_problem(manifest, spec.name.span, &error));
            return None;
        }
        (Ok(_), None) => return None,
        (Ok(name), Some(kind)) => (name, kind),
    };
    let (text, zone) = (&spec.name.value, cx.zone);
    if !name.is_within(zone) {
        let relative = text.trim_end_matches('.');
        problems.push(
            manifest
                .error(spec.name.span, format!("`{text}` is outside zone `{}`", zone.without_dot()))
                .hint(format!(
                    "write it without the dot at the end for `{relative}.{zone}`, or move it to its own zone"
                )),
        );
    } else if repeats_zone(text, zone) {
        let short =
            crate::name::relative(&format!("{}.", text.to_ascii_lowercase()), zone.as_str()).into_owned();
        problems.push(
            manifest
                .error(spec.name.span, format!("`{text}` without a dot at the end means `{name}`"))
                .hint(format!("write `{short}` or `{text}.`; if the long name is meant, write `{name}`")),
        );
    }
    if let Some((_, hint)) = cx.served.refused.iter().find(|(refused, _)| *refused == kind) {
        let (word, by, entry) = (kind.word(), cx.served.by, cx.inputs.entry());
        let message = format!("{word} records cannot be served by `{entry}`, a provider of type {by}");
        problems.push(manifest.error(spec.kind.span, message).hint(*hint));
    }
    let is_apex = name == *zone;
    match kind {
        Type::Cname if is_apex => problems.push(
            manifest
                .error(spec.kind.span, "a CNAME cannot stand at the zone itself, beside its SOA and NS")
                .hint("use A and AAAA records there, or ALIAS where the server knows it"),
        ),
        Type::Ds if is_apex => problems.push(
            manifest
                .error(spec.kind.span, "a DS stands in the zone above, at the name of the delegation")
                .hint("declare it in the zone above"),
        ),
        Type::Soa if !is_apex => problems
            .push(manifest.error(spec.kind.span, "a SOA stands only at the zone itself").hint("name it `@`")),
        Type::Soa | Type::Ns if is_apex && !cx.has_apex => problems.push(
            manifest
                .error(spec.kind.span, format!("the {} of the zone itself is not managed", kind.word()))
                .hint("write `apex: true` in the spec of the zone to manage it"),
        ),
        _ => {}
    }
    (problems.len() == before).then_some((name, kind))
}

/// True for `www.example.com` written in zone `example.com`: almost always the dot was forgotten.
fn repeats_zone(text: &str, zone: &Name) -> bool {
    let zone = zone.without_dot();
    let Some(split) = text.len().checked_sub(zone.len()) else { return false };
    text.is_char_boundary(split)
        && text[split..].eq_ignore_ascii_case(zone)
        && (split == 0 || text[..split].ends_with('.'))
        // In a zone with one label (`lan`), a host of that name is no mistake.
        && (split > 0 || zone.contains('.'))
}

/// The canonical content of a record, or the problems that leave it without.
fn content(cx: &Context<'_>, at: &At<RecordSpec>, kind: Type, problems: &mut Vec<Problem>) -> Option<Spec> {
    let (manifest, spec) = (cx.manifest, &at.value);
    let before = problems.iter().filter(|p| p.is_error()).count();
    let ttl = valid_ttl(manifest, spec.ttl.as_ref(), problems).unwrap_or(cx.ttl);
    let (ttl, extra) = (cx.served.dialect)(spec, kind, ttl).unwrap_or_else(|(span, error)| {
        problems.push(refusal(manifest, span, error));
        (ttl, String::new())
    });
    // Elements of `values` that are no text were reported when decoding; the record cannot stand then.
    let written = manifest_values(manifest, at, spec.values.len());
    if spec.values.is_empty() && written == 0 {
        let example = "remove the record, or write at least one value";
        problems.push(manifest.error(at.span, "the record has no values").hint(example));
    }
    let mut values = Vec::with_capacity(spec.values.len());
    for value in spec.values.iter().filter(|value| value.unknown.is_empty()) {
        let canonical = match &value.value {
            Data::Text(text) => rdata::written(kind, text, cx.zone),
            Data::Map(fields) => rdata::structured::structured(kind, fields, cx.zone),
        };
        match canonical {
            Ok(canonical) => values.push(canonical),
            Err(error) => problems.push(refusal(manifest, value.span, error)),
        }
        let Data::Text(text) = &value.value else { continue };
        if kind == Type::Txt && text.len() >= 2 && text.starts_with('"') && text.ends_with('"') {
            let message = "the quotes are part of the text";
            let warning = Problem::warning(message).at(&manifest.file, value.span);
            problems.push(warning.hint("TXT values are plain text: leave the inner quotes out"));
        }
    }
    let limit = if kind.is_single() { 1 } else { usize::MAX };
    if let Some(second) = spec.values.get(limit) {
        let message = format!("a {} has exactly one value", kind.word());
        problems.push(manifest.error(second.span, message));
    }
    if problems.iter().filter(|p| p.is_error()).count() > before || written > spec.values.len() {
        return None;
    }
    if at.unknown.is_empty() {
        return Some(Spec::known(record::encode_with(ttl, &extra, &mut values)));
    }
    let mut template: Vec<Cow<'_, str>> = spec.values.iter().map(|value| as_written(&value.value)).collect();
    let template = Hash::of(&record::encode_with(ttl, &extra, &mut template));
    Some(Spec::Waiting { template, on: at.unknown.as_slice().into() })
}

/// A value as it was written, for hashing.
fn as_written(data: &Data) -> Cow<'_, str> {
    match data {
        Data::Text(text) => text.into(),
        Data::Map(fields) => {
            let field = |(name, at): (&String, &At<FieldValue>)| match &at.value {
                FieldValue::Text(text) => format!("{name}={text}"),
                FieldValue::Map(map) => format!("{name}={map:?}"),
            };
            fields.iter().map(field).collect::<Vec<_>>().join("\u{1f}").into()
        }
    }
}

/// How many values the document has for a record of which `decoded` were good.
fn manifest_values(manifest: &Manifest, at: &At<RecordSpec>, decoded: usize) -> usize {
    let records = manifest.spec.get("records").map(|node| node.elements()).unwrap_or_default();
    let found = records.binary_search_by(|node| node.span.cmp(&at.span));
    let node = found.ok().and_then(|index| records.get(index)).and_then(|node| node.get("values"));
    node.map_or(decoded, |node| node.elements().len())
}

fn own_policy(cx: &Context<'_>, spec: &RecordSpec, problems: &mut Vec<Problem>) -> PolicyId {
    let mut policy = cx.manifest.policy.clone();
    policy.deletion = spec.deletion.or(policy.deletion);
    if spec.protect {
        policy.deletion = Some(Deletion::Protect);
    }
    policy.drift = spec.drift.or(policy.drift);
    policy.suspend |= spec.suspend;
    policy.merge |= spec.merge;
    if let Some(paths) = &spec.ignore {
        policy.ignore = paths.iter().map(Arc::from).collect();
    }
    if let Some(adopt) = &spec.adopt {
        match adopt.value.as_str() {
            "true" => policy.adopt = Adopt::Always,
            "false" => policy.adopt = Adopt::WhenEqual,
            "never" => policy.adopt = Adopt::Never,
            other if other == "octodns" || other.starts_with("externaldns/") => {
                policy.adopt = Adopt::From(other.into());
            }
            other => problems.push(
                cx.manifest
                    .error(adopt.span, format!("unknown value `{other}` for `adopt`"))
                    .hint("write `true`, `never`, `octodns` or `externaldns/OWNER`"),
            ),
        }
    }
    cx.inputs.policy(policy)
}

/// Reports each name where a CNAME has company; returns the indexes of all records there.
fn cname_conflicts(cx: &Context<'_>, good: &[Good], problems: &mut Vec<Problem>) -> BTreeSet<usize> {
    let cnames: HashMap<&Name, usize> =
        good.iter().enumerate().filter(|(_, g)| g.kind == Type::Cname).map(|(i, g)| (&g.name, i)).collect();
    if cnames.is_empty() {
        return BTreeSet::new();
    }
    let mut refused = BTreeSet::new();
    for (index, other) in good.iter().enumerate().filter(|(_, g)| g.kind != Type::Cname) {
        let Some(&cname) = cnames.get(&other.name) else { continue };
        refused.extend([cname, index]);
        let name = crate::name::relative(other.name.as_str(), cx.zone.as_str());
        let message = format!("{name} {} stands beside a CNAME", other.kind.word());
        problems.push(
            cx.manifest
                .error(other.span, message)
                .related(place(cx.manifest, good[cname].span), "the CNAME")
                .hint("a CNAME is the only record at its name (RFC 1034 §3.6.2): remove one of them"),
        );
    }
    refused
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

fn name_problem(manifest: &Manifest, span: Span, error: &NameError) -> Problem {
    Problem { hint: error.hint(), ..manifest.error(span, error.to_string()) }
}

fn refusal(manifest: &Manifest, span: Span, refusal: rdata::Refusal) -> Problem {
    Problem { hint: refusal.hint, ..manifest.error(span, refusal.message) }
}

fn place(manifest: &Manifest, span: Span) -> Place {
    Place { file: manifest.file.path.clone(), line: span.line, column: span.column }
}

#[cfg(test)]
#[path = "normalize_tests.rs"]
pub(crate) mod tests;
