//! Endpoints of ExternalDNS that are one of several answers (`setIdentifier`): sets of one record at Route 53.
//!
//! All endpoints of a manifest with one name and type are one record. The properties are those of ExternalDNS's provider
//! `aws`; what it means by `aws/evaluate-target-health` and aliases needs the hosted zone of the target, which it looks up
//! and nothing here does.

use crate::kind::{EndpointSpec, Failover, GeoSpec, RecordSpec, Route53Spec, RoutedSpec};
use reconciled_provider::{At, Manifest, Problem};
use std::collections::HashMap;

/// What the properties of Route 53 begin with.
const AWS: &str = "aws/";

/// The id of the set that an endpoint is.
pub(super) fn identifier(endpoint: &EndpointSpec) -> Option<&At<String>> {
    endpoint.set_identifier.as_ref().filter(|set| !set.value.is_empty())
}

/// True for a property that says how a set is chosen.
pub(super) fn is_routing(word: &str) -> bool {
    word.starts_with(AWS)
}

/// Makes a record with values one with a set of them.
pub(super) fn into_set(
    manifest: &Manifest,
    at: &At<EndpointSpec>,
    id: &At<String>,
    record: &mut RecordSpec,
    problems: &mut Vec<Problem>,
) {
    let mut set = RoutedSpec {
        id: id.clone(),
        values: std::mem::take(&mut record.values),
        alias: None,
        ttl: record.ttl.take().map(|ttl| ttl.value),
        weight: None,
        region: None,
        geo: None,
        failover: None,
        multivalue: false,
        health_check: None,
    };
    for property in at.value.provider_specific.iter() {
        let (name, value) = (property.value.word(), &property.value.value);
        let Some(word) = name.strip_prefix(AWS) else { continue };
        if !choose(&mut set, word, value) {
            let message = format!("`{name}` with `{value}` is not supported, and is left out");
            problems.push(Problem::warning(message).at(&manifest.file, property.span));
        }
    }
    let span = at.span;
    let sets = reconciled_provider::Each(vec![At { span, unknown: at.unknown.clone(), value: set }]);
    let value = Route53Spec { alias: None, sets };
    record.route53 = Some(Box::new(At { span, unknown: Vec::new(), value }));
}

/// Puts a property into the set; false where it is not understood.
fn choose(set: &mut RoutedSpec, word: &str, value: &str) -> bool {
    let geo = |set: &mut RoutedSpec| set.geo.take().unwrap_or_default();
    match word {
        "weight" => {
            let Ok(weight) = value.parse() else { return false };
            set.weight = Some(weight);
        }
        "region" => set.region = Some(value.to_owned()),
        "failover" => {
            set.failover = Some(match value.to_ascii_uppercase().as_str() {
                "PRIMARY" => Failover::Primary,
                "SECONDARY" => Failover::Secondary,
                _ => return false,
            });
        }
        "geolocation-continent-code" => set.geo = Some(GeoSpec { continent: Some(value.into()), ..geo(set) }),
        "geolocation-country-code" => set.geo = Some(GeoSpec { country: Some(value.into()), ..geo(set) }),
        "geolocation-subdivision-code" => {
            set.geo = Some(GeoSpec { subdivision: Some(value.into()), ..geo(set) })
        }
        // Its presence is enough there.
        "multi-value-answer" => set.multivalue = true,
        "health-check-id" => set.health_check = Some(value.to_owned()),
        _ => return false,
    }
    true
}

/// Unites records that are sets of the same name and type with the first of them.
pub(super) fn united(list: Vec<At<RecordSpec>>) -> Vec<At<RecordSpec>> {
    let mut out: Vec<At<RecordSpec>> = Vec::with_capacity(list.len());
    let mut first: HashMap<(String, String), usize> = HashMap::new();
    for mut at in list {
        let Some(routed) = &mut at.value.route53 else {
            out.push(at);
            continue;
        };
        let key = (at.value.name.value.to_ascii_lowercase(), at.value.kind.value.to_ascii_uppercase());
        match first.get(&key).and_then(|index| out[*index].value.route53.as_mut()) {
            Some(earlier) => {
                earlier.value.sets.0.append(&mut routed.value.sets.0);
                let index = first[&key];
                out[index].unknown.append(&mut at.unknown);
            }
            None => {
                first.insert(key, out.len());
                out.push(at);
            }
        }
    }
    out
}
