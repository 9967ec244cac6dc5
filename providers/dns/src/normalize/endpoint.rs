//! `DNSEndpoint` of ExternalDNS: each endpoint goes to the zone that holds its name.
//!
//! The zone is the longest that is declared, at any provider; where two manifests declare it, the endpoint has to say
//! which is meant, by the annotation `reconciled/provider`. While a zone that would take it may be declared where nothing can
//! be read, nothing is made of the manifest, and what it made stays. From there on an endpoint is a record as any other. What
//! ExternalDNS would do beside that (labels as marks, routing by set identifier but at Route 53) is not done, and not passed
//! over in silence where it would change an answer.

use super::{
    absent::AbsentZones,
    collect::Collected,
    context::{Context, of_output},
    inherited::{Inherited, hidden, inherited},
    records, routed,
};
use crate::{
    dialect::{CLOUDFLARE, ROUTE53, Served},
    kind::{CloudflareSpec, Data, DnsEndpointSpec, EndpointSpec, Property, RecordSpec, ZONE},
    name::{Name, is_within},
    rdata::Type,
    record::{self, DEFAULT_TTL},
    text,
};
use reconciled_provider::{At, Each, Inputs, Manifest, ManifestKey, Normalized, Problem, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The records of a `DNSEndpoint` in zones of this entry.
pub(super) fn endpoints(manifest: &Manifest, inputs: &dyn Inputs, served: &Served) -> Normalized {
    let (spec, problems) = manifest.spec::<DnsEndpointSpec>();
    let mut out = Normalized { problems, ..Normalized::default() };
    let Some(spec) = spec else { return out };
    // What goes nowhere yet is for whoever has the zone, once it is known.
    out.is_taken = spec.endpoints.iter().all(|at| !at.value.dns_name.unknown.is_empty());
    let zones = Zones::of(manifest, inputs);
    let mut by_zone: BTreeMap<Arc<str>, Vec<At<RecordSpec>>> = BTreeMap::new();
    for at in spec.endpoints.iter() {
        let name = &at.value.dns_name;
        if !name.unknown.is_empty() {
            out.problems.extend(of_output(manifest, "record", name.span, &name.unknown));
            continue;
        }
        let goes = match zones.of_name(manifest, &at.value) {
            Ok(goes) => goes,
            Err(problem) => {
                out.problems.push(*problem);
                continue;
            }
        };
        // What is private must not go into a public zone for as long as its own cannot be read.
        out.is_unsure |= zones.may_be_elsewhere(manifest, &at.value, &goes);
        match goes {
            Goes::To(scope) if &*scope.provider == inputs.entry() => {
                let record = as_record(manifest, at, served, &mut out.problems);
                by_zone.entry(scope.name).or_default().extend(record);
            }
            Goes::To(_) => {}
            Goes::With(absent) => out.absent.extend(absent),
            Goes::Nowhere if !inputs.is_all_read() => {}
            Goes::Nowhere => out.problems.push(undeclared(manifest, &at.value)),
        }
    }
    for (name, list) in by_zone {
        let Ok(zone) = Name::zone(&name) else { continue };
        let scope = Arc::new(record::scope(inputs.entry(), &zone));
        let Inherited { ttl, has_apex, ignored } = inherited(inputs, &scope, &zone);
        let ttl = ttl.unwrap_or(DEFAULT_TTL);
        let cx = Context { manifest, inputs, served, zone: &zone, scope, ttl, has_apex, ignored: &ignored };
        let mut collected = Collected::new(&cx, list.len());
        records::declared(&cx, &Each(routed::united(list)), &mut collected, &mut out);
        let refused = collected.cname_conflicts(&mut out.problems);
        collected.finish(&refused, &mut out);
    }
    out
}

/// Where an endpoint goes.
enum Goes {
    /// To this zone.
    To(Scope),
    /// Where these zones are, of which nothing is made here.
    With(Vec<(Scope, ManifestKey)>),
    /// No zone that holds it is declared.
    Nowhere,
}

fn undeclared(manifest: &Manifest, endpoint: &EndpointSpec) -> Problem {
    let hint = match &manifest.providers {
        None => "declare it with a manifest of kind `Zone`; it may be without records".to_owned(),
        Some(names) => format!("declare it with a manifest of kind `Zone` at {}", names.join(", ")),
    };
    let message = format!("no zone that holds `{}` is declared", endpoint.dns_name.value);
    manifest.error(endpoint.dns_name.span, message).hint(hint)
}

/// Zones that endpoints may go to.
struct Zones<'a> {
    inputs: &'a dyn Inputs,
    all: BTreeSet<Scope>,
    absent: AbsentZones,
    /// Zones that one manifest declares at several entries: there, several are no question.
    united: Vec<BTreeSet<Scope>>,
}

impl<'a> Zones<'a> {
    fn of(manifest: &Manifest, inputs: &'a dyn Inputs) -> Zones<'a> {
        let is_meant =
            |scope: &Scope| manifest.providers.as_ref().is_none_or(|names| names.contains(&scope.provider));
        let mut all: BTreeSet<Scope> = inputs.scopes().iter().filter(|s| is_meant(s)).cloned().collect();
        let mut united = Vec::new();
        for zone in inputs.siblings(ZONE) {
            let text = zone.spec.get("zone").and_then(|node| node.as_str()).unwrap_or(&zone.name);
            let (Ok(name), Some(providers)) = (Name::zone(text), &zone.providers) else { continue };
            let scopes: BTreeSet<Scope> =
                providers.iter().map(|provider| record::scope(provider, &name)).filter(is_meant).collect();
            // An entry without zones of its own, such as a webhook provider, has no other word of them.
            let own = scopes.iter().filter(|scope| &*scope.provider == inputs.entry());
            all.extend(own.cloned());
            united.push(scopes);
        }
        Zones { inputs, all, absent: AbsentZones::of(manifest, inputs), united }
    }

    /// The zone an endpoint belongs to: of several that serve it, this entry's.
    fn of_name(&self, manifest: &Manifest, endpoint: &EndpointSpec) -> Result<Goes, Box<Problem>> {
        let (text, span) = (&endpoint.dns_name.value, endpoint.dns_name.span);
        let name = Name::absolute(&absolute(text)).map_err(|error| {
            Box::new(Problem { hint: error.hint(), ..manifest.error(span, error.to_string()) })
        })?;
        let holds = |scope: &&Scope| is_within(name.as_str(), &record::zone_name(scope));
        let longest = self.all.iter().filter(holds).map(|scope| scope.name.len()).max();
        let absent = self.absent.holding(&name, longest, self.inputs.entry());
        if !absent.is_empty() {
            return Ok(Goes::With(absent));
        }
        let Some(longest) = longest else { return Ok(Goes::Nowhere) };
        let found: BTreeSet<Scope> =
            self.all.iter().filter(holds).filter(|scope| scope.name.len() == longest).cloned().collect();
        let is_clear = found.len() == 1
            || manifest.providers.is_some()
            || self.united.iter().any(|scopes| found.is_subset(scopes));
        if !is_clear {
            let zone = found.first().map_or("", |scope| &*scope.name).to_owned();
            let names: Vec<&str> = found.iter().map(|scope| &*scope.provider).collect();
            let message = format!("`{text}` may go to zone `{zone}` at {}", names.join(" or "));
            let hint = format!("annotate the manifest: reconciled/provider: {}", names.join(","));
            return Err(Box::new(manifest.error(span, message).hint(hint)));
        }
        let own = found.iter().find(|scope| &*scope.provider == self.inputs.entry());
        Ok(Goes::To(own.or(found.first()).cloned().expect("there is one of the longest")))
    }

    /// True while a zone may be declared where nothing can be read that would take the endpoint, or make it a question which is
    /// meant.
    fn may_be_elsewhere(&self, manifest: &Manifest, endpoint: &EndpointSpec, goes: &Goes) -> bool {
        let length = match goes {
            Goes::To(scope) => {
                let is_there =
                    |name: &Arc<str>| self.all.contains(&Scope::new(name.clone(), scope.name.clone()));
                let is_settled = manifest.providers.as_ref().is_some_and(|names| names.iter().all(is_there));
                scope.name.len() + usize::from(is_settled)
            }
            Goes::With(absent) => absent.first().map_or(0, |(scope, _)| scope.name.len() + 1),
            Goes::Nowhere => return !self.inputs.is_all_read(),
        };
        let name = Name::absolute(&absolute(&endpoint.dns_name.value));
        name.is_ok_and(|name| hidden(self.inputs, name.as_str(), length).next().is_some())
    }
}

fn absolute(name: &str) -> String {
    format!("{}.", name.trim_end_matches('.'))
}

/// The record an endpoint means; none where a problem says why.
fn as_record(
    manifest: &Manifest,
    at: &At<EndpointSpec>,
    served: &Served,
    problems: &mut Vec<Problem>,
) -> Option<At<RecordSpec>> {
    let endpoint = &at.value;
    let set = routed::identifier(endpoint);
    if let Some(set) = set.filter(|_| !served.may_be(ROUTE53)) {
        let message =
            "an endpoint with a `setIdentifier` is one of several answers, which only Route 53 knows here";
        let hint = "leave it to ExternalDNS, or declare one endpoint without `setIdentifier`";
        problems.push(manifest.error(set.span, message).hint(hint));
        return None;
    }
    let mut record = RecordSpec::bare(&absolute(&endpoint.dns_name.value), "", at.span);
    record.name.span = endpoint.dns_name.span;
    record.kind = endpoint.record_type.clone();
    let is_of_set = |property: &At<Property>| set.is_some() && routed::is_routing(property.value.word());
    for property in endpoint.provider_specific.iter().filter(|property| !is_of_set(property)) {
        settle(manifest, property, served, &mut record, problems);
    }
    if let Some(ttl) = &endpoint.record_ttl {
        match u32::try_from(ttl.value) {
            // What says nothing has the TTL of the zone.
            Ok(0) => {}
            Ok(seconds) => {
                record.ttl = Some(At { span: ttl.span, unknown: ttl.unknown.clone(), value: seconds });
            }
            Err(_) => {
                let message = format!("a ttl of {} seconds is out of range", ttl.value);
                problems.push(manifest.error(ttl.span, message).hint("write 0 for that of the zone"));
            }
        }
    }
    let kind = Type::of(&record.kind.value);
    let value = |target: &At<String>| {
        let value = Data::Text(written(kind, &target.value));
        At { span: target.span, unknown: target.unknown.clone(), value }
    };
    record.values = Each(endpoint.targets.iter().map(value).collect());
    if endpoint.targets.is_empty() {
        problems.push(manifest.error(at.span, "the endpoint has no targets").hint("write at least one"));
        return None;
    }
    if let Some(set) = set {
        routed::into_set(manifest, at, set, &mut record, problems);
    }
    Some(At { span: at.span, unknown: at.unknown.clone(), value: record })
}

/// A target as a manifest of ours writes it: hosts with their last dot, texts without quotes.
fn written(kind: Option<Type>, target: &str) -> String {
    match kind {
        Some(Type::Alias | Type::Cname | Type::Dname | Type::Ns | Type::Ptr) => absolute(target),
        // The host is the last word; a single dot is none.
        Some(Type::Mx | Type::Srv | Type::Naptr) => match target.trim().rsplit_once(' ') {
            Some((before, host)) => format!("{before} {}", absolute(host)),
            None => target.to_owned(),
        },
        Some(Type::Txt) if target.starts_with('"') => {
            let text = text::unquote(target).and_then(|octets| String::from_utf8(octets).ok());
            text.unwrap_or_else(|| target.to_owned())
        }
        _ => target.to_owned(),
    }
}

/// Puts what a property says into the record, where the provider knows it.
fn settle(
    manifest: &Manifest,
    at: &At<Property>,
    served: &Served,
    record: &mut RecordSpec,
    problems: &mut Vec<Problem>,
) {
    let Property { name, value } = &at.value;
    let word = at.value.word();
    let is_true = value.eq_ignore_ascii_case("true");
    if word == "alias" {
        if is_true && record.kind.value.eq_ignore_ascii_case("CNAME") {
            record.kind.value = "ALIAS".into();
        }
        return;
    }
    if !served.may_be(CLOUDFLARE) || !word.starts_with("cloudflare-") {
        let message = format!("`{name}` means nothing to the provider of this zone, and is left out");
        let warning = Problem::warning(message).at(&manifest.file, at.span);
        return problems.push(warning.hint("remove it, or keep the zone with a provider that knows it"));
    }
    let none = || Box::new(At { span: at.span, unknown: Vec::new(), value: CloudflareSpec::default() });
    let extra = &mut record.cloudflare.get_or_insert_with(none).value;
    match word {
        "cloudflare-proxied" => extra.proxied = is_true,
        "cloudflare-record-comment" => extra.comment = Some(value.clone()),
        "cloudflare-tags" => {
            let tags = value.split(',').map(str::trim).filter(|tag| !tag.is_empty());
            extra.tags = Some(tags.map(String::from).collect());
        }
        _ => {
            let message = format!("`{name}` is not supported, and is left out");
            problems.push(Problem::warning(message).at(&manifest.file, at.span));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_written_as_in_our_manifests() {
        let check = |kind, target, expect| assert_eq!(written(Type::of(kind), target), expect, "{kind}");
        check("A", "192.0.2.1", "192.0.2.1");
        check("CNAME", "a.example.org", "a.example.org.");
        check("CNAME", "a.example.org.", "a.example.org.");
        check("MX", "10 mail.example.org", "10 mail.example.org.");
        check("MX", "0 .", "0 .");
        check("SRV", "10 60 5060 sip.example.org.", "10 60 5060 sip.example.org.");
        check("TXT", "\"v=spf1 -all\"", "v=spf1 -all");
        check("TXT", "v=spf1 -all", "v=spf1 -all");
    }
}
