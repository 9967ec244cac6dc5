//! Records as a manifest writes them → canonical RRsets.

use super::{
    collect::{Collected, Declared, Site},
    context::{Context, name_problem, of_output, refusal, valid_ttl},
    included,
    refused::{at_apex, served, unshareable},
    reverse::{self, Reverse},
};
use crate::{
    dialect::Settled,
    kind::{Data, FieldValue, RecordSpec, Route53Spec},
    lint::RULES,
    name::{Name, in_ascii, relative, repeats_zone},
    rdata::{self, Type},
    record,
};
use reconciled_provider::{
    Adopt, At, Deletion, Each, Hash, Manifest, Node, Normalized, PolicyId, Problem, Span, Spec,
    problem::did_you_mean,
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// Adds the records of a manifest, and those of the files it includes.
pub(super) fn records(
    cx: &Context<'_>,
    list: &Each<RecordSpec>,
    included: &[included::Written],
    out: &mut Normalized,
) {
    let base = cx.inputs.policy(cx.manifest.policy.clone());
    let mut collected = Collected::new(cx, list.len());
    let reversed = declared(cx, list, &mut collected, out);
    for written in included {
        included::add(cx, written, base, &mut collected, &mut out.problems);
    }
    let refused = collected.cname_conflicts(&mut out.problems);
    // What is not declared has no address to point back from.
    let mut reverse = Reverse::default();
    for (index, at) in reversed.into_iter().filter(|(index, _)| !refused.contains(index)) {
        let (declared, resource) = collected.at(index);
        let key = (&declared.name, declared.kind);
        reverse.add(cx, at, key, &resource.spec, resource.policy, &mut out.problems);
    }
    collected.finish(&refused, out);
    reverse.finish(cx, out);
}

/// Collects records one by one; returns those that ask for a PTR record, with their index. What is wrong and has a name and a type is
/// declared all the same: it may have come from another source, which lets go of it.
pub(super) fn declared<'l>(
    cx: &Context<'_>,
    list: &'l Each<RecordSpec>,
    collected: &mut Collected<'_>,
    out: &mut Normalized,
) -> Vec<(usize, &'l At<RecordSpec>)> {
    let base = cx.inputs.policy(cx.manifest.policy.clone());
    let mut reversed = Vec::new();
    let mut nodes = Nodes::of(cx.manifest);
    for at in list.iter() {
        let problems = &mut out.problems;
        let Some((name, kind)) = identity(cx, &at.value, problems) else { continue };
        if let Some(hosts) = &at.value.hosts {
            match cx.inputs.selects(&hosts.value) {
                Ok(true) => {}
                Ok(false) => {
                    out.unselected.push((cx.scope.clone(), record::id(name.as_str(), kind.word())));
                    out.unselected.extend(reverse::unselected(cx, &at.value));
                    continue;
                }
                Err(error) => {
                    let problem = cx.manifest.error(hosts.span, format!("hosts: {}", error.message));
                    problems.push(problem.hint_if(error.into_told().hint));
                    out.unsettled.push((cx.scope.clone(), record::id(name.as_str(), kind.word())));
                    continue;
                }
            }
        }
        let site = Site { file: cx.manifest.file.clone(), span: at.span, through: None };
        let merge = at.value.merge || cx.manifest.policy.merge;
        let declared = Declared { name, kind, site, merge };
        let Some(id) = collected.room(&declared, problems) else { continue };
        let Some(spec) = content(cx, at, nodes.of_record(at), kind, problems) else {
            out.unsettled.push((cx.scope.clone(), id));
            continue;
        };
        let policy = if at.value.has_policy() { own_policy(cx, &at.value, problems) } else { base };
        let added = collected.add(id, declared, spec, policy, problems);
        reversed.extend(added.filter(|_| at.value.reverse).map(|index| (index, at)));
    }
    reversed
}

/// What is wrong with a rule that is to be silenced.
pub(super) fn lint_rule(rule: &str, span: Span, manifest: &Manifest) -> Option<Problem> {
    let Some(known) = RULES.iter().find(|known| known.id == rule) else {
        let problem = manifest.error(span, format!("unknown rule `{rule}`"));
        return Some(match did_you_mean(rule, RULES.iter().map(|known| known.id)) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem.hint("the rules are those that `reconciled validate` names in brackets"),
        });
    };
    let problem = || manifest.error(span, format!("`{rule}` cannot be silenced: what breaks it never works"));
    known.is_error.then(|| problem().hint(known.hint))
}

/// Name and type of a record, or the problems that leave it without.
fn identity(cx: &Context<'_>, spec: &RecordSpec, problems: &mut Vec<Problem>) -> Option<(Name, Type)> {
    let manifest = cx.manifest;
    if let Some(problem) = of_output(manifest, "record", spec.name.span, &spec.name.unknown) {
        problems.push(problem);
        return None;
    }
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
        let whole = format!("{}.", in_ascii(text).to_ascii_lowercase());
        let short = relative(&whole, zone.as_str());
        problems.push(
            manifest
                .error(spec.name.span, format!("`{text}` without a dot at the end means `{name}`"))
                .hint(format!("write `{short}` or `{text}.`; if the long name is meant, write `{name}`")),
        );
    }
    let site = Site { file: manifest.file.clone(), span: spec.kind.span, through: None };
    problems.extend(served(cx, kind, &site));
    problems.extend(at_apex(cx, &name, kind, &site));
    problems.extend(unshareable(cx, kind, spec.merge, &site));
    (problems.len() == before).then_some((name, kind))
}

/// The canonical content of a record, or the problems that leave it without.
///
/// `node` is the record as it is written.
fn content(
    cx: &Context<'_>,
    at: &At<RecordSpec>,
    node: Option<&Node>,
    kind: Type,
    problems: &mut Vec<Problem>,
) -> Option<Spec> {
    let (manifest, spec) = (cx.manifest, &at.value);
    let before = problems.iter().filter(|p| p.is_error()).count();
    let ttl = valid_ttl(manifest, spec.ttl.as_ref(), problems).unwrap_or(cx.ttl);
    let settled = (cx.served.dialect)(spec, kind, ttl, cx.zone).unwrap_or_else(|(span, error)| {
        problems.push(refusal(manifest, span, error));
        // What is refused needs no values to be complained of.
        Settled { ttl, extra: String::new(), values: spec.route53.as_ref().map(|_| Vec::new()) }
    });
    problems.extend(spec.route53.iter().flat_map(|route53| undotted_aliases(cx, &route53.value)));
    let Settled { ttl, extra, values: given } = settled;
    // Elements of `values` that are no text were reported when decoding; the record cannot stand then.
    let written =
        node.and_then(|node| node.get("values")).map_or(spec.values.len(), |node| node.elements().len());
    // Who wrote `valuess` was told of that.
    let is_misspelt = || {
        let mut keys = node.into_iter().flat_map(|node| node.entries()).filter_map(|(key, _)| key.as_str());
        keys.any(|key| key != "values" && did_you_mean(key, ["values"]).is_some())
    };
    if spec.values.is_empty() && written == 0 && given.is_none() {
        if is_misspelt() {
            return None;
        }
        let example = "remove the record, or write at least one value";
        problems.push(manifest.error(at.span, "the record has no values").hint(example));
    }
    let mut values = Vec::with_capacity(spec.values.len());
    let mut earlier = (spec.values.len() > 1).then(HashSet::new);
    for value in spec.values.iter().filter(|value| value.unknown.is_empty()) {
        let canonical = match &value.value {
            Data::Text(text) => rdata::written(kind, text, cx.zone),
            Data::Map(fields) => rdata::structured::structured(kind, fields, cx.zone),
        };
        match canonical {
            Ok(canonical) => {
                if earlier.as_mut().is_some_and(|earlier| !earlier.insert(canonical.clone())) {
                    let warning = Problem::warning("the value stands twice").at(&manifest.file, value.span);
                    problems.push(warning.hint("remove one of them: a record set holds each value once"));
                }
                values.push(canonical);
            }
            Err(error) => problems.push(refusal(manifest, value.span, error)),
        }
        let text = match &value.value {
            Data::Text(text) => text,
            Data::Map(fields) => {
                problems.extend(undotted(cx, kind, fields));
                continue;
            }
        };
        if kind == Type::Txt && text.len() >= 2 && text.starts_with('"') && text.ends_with('"') {
            let message = "the quotes are part of the text";
            let warning = Problem::warning(message).at(&manifest.file, value.span);
            problems.push(warning.hint(match rdata::strings(kind, text) {
                Some(_) => "TXT values are plain text: several strings are written as `{strings: [a, b]}`",
                None => "TXT values are plain text: leave the inner quotes out",
            }));
        }
    }
    let limit = if kind.is_single() { 1 } else { usize::MAX };
    if let Some(second) = spec.values.get(limit) {
        problems.push(refusal(manifest, second.span, kind.refuse_several()));
    }
    if problems.iter().filter(|p| p.is_error()).count() > before || written > spec.values.len() {
        return None;
    }
    let is_known = at.unknown.is_empty();
    if let Some(given) = &given {
        values.extend(given.iter().cloned());
    }
    if is_known {
        return Some(Spec::known(record::encode_with(ttl, &extra, &mut values)));
    }
    let written = spec.values.iter().map(|value| as_written(&value.value));
    let mut template: Vec<Cow<'_, str>> = written.chain(given.into_iter().flatten().map(Cow::from)).collect();
    let template = Hash::of(&record::encode_with(ttl, &extra, &mut template));
    Some(Spec::waiting(template, at.unknown.as_slice()))
}

/// Warnings of hosts in a mapping that look whole and are taken for names within the zone, for want of a dot at the end.
fn undotted(cx: &Context<'_>, kind: Type, fields: &BTreeMap<String, At<FieldValue>>) -> Vec<Problem> {
    let hosts = rdata::structured::undotted(kind, fields, cx.zone);
    hosts.map(|(span, text, name)| without_dot(cx, span, text, &name)).collect()
}

/// The same of what aliases answer for.
fn undotted_aliases(cx: &Context<'_>, spec: &Route53Spec) -> Vec<Problem> {
    let of_sets = spec.sets.iter().filter_map(|set| set.value.alias.as_ref());
    let targets = spec.alias.iter().chain(of_sets).map(|alias| &alias.value.target);
    let undotted = targets.filter(|target| target.unknown.is_empty()).filter_map(|target| {
        let name = rdata::structured::undotted_host(&target.value, cx.zone)?;
        Some(without_dot(cx, target.span, &target.value, &name))
    });
    undotted.collect()
}

fn without_dot(cx: &Context<'_>, span: Span, text: &str, name: &Name) -> Problem {
    let message = format!("`{text}` has no dot at the end, so it means `{name}`");
    let warning = Problem::warning(message).at(&cx.manifest.file, span);
    warning.hint(format!("write `{text}.`, or `{name}` if that is meant (RFC 1035 §5.1)"))
}

/// A value as it was written, for hashing.
fn as_written(data: &Data) -> Cow<'_, str> {
    match data {
        Data::Text(text) => text.into(),
        Data::Map(fields) => {
            let field = |(name, at): (&String, &At<FieldValue>)| match &at.value {
                FieldValue::Text(text) => format!("{name}={text}"),
                FieldValue::List(list) => format!("{name}={list:?}"),
                FieldValue::Map(map) => {
                    let words: BTreeMap<_, _> =
                        map.iter().map(|(key, words)| (key, words.joined())).collect();
                    format!("{name}={words:?}")
                }
            };
            fields.iter().map(field).collect::<Vec<_>>().join("\u{1f}").into()
        }
    }
}

/// The records of a manifest as they are written, asked for in that order; some may be passed over.
struct Nodes<'a>(&'a [Node]);

impl<'a> Nodes<'a> {
    fn of(manifest: &'a Manifest) -> Nodes<'a> {
        Nodes(manifest.spec.get("records").map(|node| node.elements()).unwrap_or_default())
    }

    fn of_record(&mut self, at: &At<RecordSpec>) -> Option<&'a Node> {
        // An overlay puts records that are written further down in the place of others: the order is not that of lines.
        let index = self.0.iter().position(|node| node.span == at.span)?;
        let (found, rest) = self.0[index..].split_first()?;
        self.0 = rest;
        Some(found)
    }
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
    if let Some(quiet) = &spec.lint_ignore {
        for rule in quiet.value.iter() {
            problems.extend(lint_rule(rule, quiet.span, cx.manifest));
        }
        let all = policy.lint_ignore.iter().cloned().chain(quiet.value.iter().map(Arc::from));
        policy.lint_ignore = all.collect();
    }
    if let Some(adopt) = &spec.adopt {
        match adopt.value.as_str() {
            "true" => policy.adopt = Adopt::Always,
            "false" => policy.adopt = Adopt::WhenEqual,
            "never" => policy.adopt = Adopt::Never,
            other
                if other == "octodns"
                    || other.strip_prefix("externaldns/").is_some_and(|owner| !owner.is_empty()) =>
            {
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
