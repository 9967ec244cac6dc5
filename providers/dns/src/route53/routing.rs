//! Aliases and routed sets: how a manifest declares them, their canonical form, and the sets of the API.
//!
//! One resource is all that Route 53 has at a name and type. Its values say which set they are of, `(set blue) 192.0.2.1`
//! and `(alias lb.example.net.)`; how a set is chosen stands behind the TTL. The TTL of the resource is the smallest one.
//! Invariant: [`encode`] of what the API lists and [`settle`] of what a manifest says give the same bytes for the same
//! answers, and [`decode`] gives back the sets.

use super::xml::{self, Alias, Geo, Record, Records, SetBody};
use crate::{
    dialect::{self, Settled},
    http::printable,
    kind::{AliasSpec, Data, RecordSpec, RoutedSpec},
    name::Name,
    rdata::{
        self, Refusal, Type,
        structured::{STRINGS, named},
    },
    record::{self, RrSet},
};
use reconciled_provider::{At, Error, Span};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Before a value that is the name which an alias answers for.
const ALIAS: &str = "(alias ";
/// Before the values of a set with a routing policy that is not known here.
const OTHER: &str = "(other routing) ";
/// Longest id of a set.
const LONGEST_ID: usize = 128;

/// What stands behind the TTL, as `{"route53": …}`.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Extra {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alias: Option<Target>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sets: BTreeMap<String, Routed>,
}

#[derive(Serialize, Deserialize)]
struct Wrapped {
    route53: Extra,
}

/// An alias but for the name, which is a value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    /// None for the zone of the record itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    evaluate_target_health: bool,
}

/// A set but for its values.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Routed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alias: Option<Target>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    region: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    geo: Option<Geo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failover: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    multivalue: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    health_check: Option<String>,
}

/// Canonical bytes of all sets of one name and type; `own` is the id of their zone.
pub(super) fn encode(sets: &[SetBody], own: &str) -> Vec<u8> {
    let (mut extra, mut values) = (Extra::default(), Vec::new());
    for set in sets {
        let mut before = set.set_identifier.as_ref().map_or_else(String::new, |id| in_set(&printable(id)));
        if set.is_strange() {
            before += OTHER;
        }
        let alias = set.alias_target.as_ref().map(|alias| Target {
            zone: alias.hosted_zone_id.clone().filter(|zone| zone != own),
            evaluate_target_health: alias.evaluate_target_health,
        });
        if let Some(alias) = &set.alias_target {
            values.push(format!("{before}{ALIAS}{})", xml::name(&alias.dns_name)));
        }
        for record in set.resource_records.iter().flat_map(|records| &records.list) {
            let value = xml::decimal(&record.value);
            let value = rdata::observed(&set.r#type, &value).replace('\n', "\\010");
            values.push(format!("{before}{value}"));
        }
        match &set.set_identifier {
            None => extra.alias = alias,
            Some(id) => {
                let routed = Routed {
                    ttl: own_ttl(set),
                    alias,
                    weight: set.weight,
                    region: set.region.clone(),
                    geo: set.geo_location.clone(),
                    failover: set.failover.as_ref().map(|word| word.to_lowercase()),
                    multivalue: set.multi_value_answer,
                    health_check: set.health_check_id.clone(),
                };
                extra.sets.insert(id.clone(), routed);
            }
        }
    }
    let ttl = sets.iter().filter_map(own_ttl).min().unwrap_or(0);
    record::encode_with(ttl, &extra.text(), &mut values)
}

/// The TTL of a set; an alias has that of its target, whatever is listed.
fn own_ttl(set: &SetBody) -> Option<u32> {
    set.ttl.filter(|_| set.alias_target.is_none())
}

fn in_set(id: &str) -> String {
    format!("(set {id}) ")
}

impl Extra {
    /// Canonical text; empty for plain values.
    fn text(self) -> String {
        if self == Extra::default() {
            return String::new();
        }
        // Writing plain data into memory cannot fail.
        serde_json::to_string(&Wrapped { route53: self }).unwrap_or_default()
    }
}

/// The sets that canonical bytes stand for, in the words of the API; `own` is the id of their zone.
///
/// Errors: `Unsupported` for what no manifest declares, such as values of others in sets of their own.
pub(super) fn decode(
    name: &str,
    kind: &str,
    set: &RrSet<'_>,
    own: &str,
    serial: u32,
) -> Result<Vec<SetBody>, Error> {
    let strange = || {
        let text = format!("{} {kind} has a routing that is not declared", name.trim_end_matches('.'));
        Error::unsupported(text).hint("declare all of its sets, or leave the record out")
    };
    let extra = match set.extra {
        "" => Extra::default(),
        text => serde_json::from_str(text).map(|wrapped: Wrapped| wrapped.route53).map_err(|_| strange())?,
    };
    let body = |id: Option<&str>, routed: Routed| {
        let before = id.map_or_else(String::new, in_set);
        let texts: Vec<&str> = set.values.iter().filter_map(|value| value.strip_prefix(&before)).collect();
        let alias = routed.alias.map(|target| {
            let name = texts.iter().find_map(|text| text.strip_prefix(ALIAS)?.strip_suffix(')'));
            let hosted_zone_id = Some(target.zone.unwrap_or_else(|| own.to_owned()));
            let evaluate_target_health = target.evaluate_target_health;
            name.map(|name| Alias {
                hosted_zone_id,
                dns_name: xml::octal_name(name).into(),
                evaluate_target_health,
            })
            .ok_or_else(strange)
        });
        let alias = alias.transpose()?;
        let value = |text: &&str| Record { value: xml::octal(&rdata::wire(kind, text, serial)).into_owned() };
        let list: Vec<Record> = if alias.is_some() { Vec::new() } else { texts.iter().map(value).collect() };
        if alias.is_none() && (texts.is_empty() || texts.iter().any(|text| text.starts_with('('))) {
            return Err(strange());
        }
        Ok(SetBody {
            name: xml::octal_name(name).into(),
            r#type: kind.to_owned(),
            set_identifier: id.map(str::to_owned),
            ttl: routed.ttl,
            resource_records: alias.is_none().then_some(Records { list }),
            alias_target: alias,
            weight: routed.weight,
            region: routed.region,
            geo_location: routed.geo,
            failover: routed.failover.map(|word| word.to_uppercase()),
            multi_value_answer: routed.multivalue,
            health_check_id: routed.health_check,
            ..SetBody::default()
        })
    };
    if extra.sets.is_empty() {
        let ttl = extra.alias.is_none().then_some(set.ttl);
        return Ok(vec![body(None, Routed { ttl, alias: extra.alias, ..Routed::default() })?]);
    }
    extra.sets.into_iter().map(|(id, routed)| body(Some(&id), routed)).collect()
}

/// What a manifest says in place of `values`, as a JSON object; none for what no manifest can say.
pub(crate) fn declared(kind: Type, set: &RrSet<'_>) -> Option<String> {
    let extra: Wrapped = serde_json::from_str(set.extra).ok()?;
    let of = |id: Option<&str>| {
        let before = id.map_or_else(String::new, in_set);
        set.values.iter().filter_map(move |value| value.strip_prefix(&before)).collect::<Vec<&str>>()
    };
    let alias = |target: &Target, texts: &[&str]| {
        let name = texts.first()?.strip_prefix(ALIAS)?.strip_suffix(')')?;
        let mut fields = serde_json::to_value(target).ok()?;
        fields.as_object_mut()?.insert("target".into(), name.into());
        Some(fields)
    };
    if let Some(target) = &extra.route53.alias {
        return Some(serde_json::json!({"alias": alias(target, &of(None))?}).to_string());
    }
    let sets = extra.route53.sets.iter().map(|(id, routed)| {
        let texts = of(Some(id));
        let mut fields = serde_json::to_value(routed).ok()?;
        let object = fields.as_object_mut()?;
        object.insert("id".into(), id.as_str().into());
        if let Some(target) = &routed.alias {
            object.insert("alias".into(), alias(target, &texts)?);
        } else {
            let value = |text: &&str| match (text.starts_with('('), rdata::strings(kind, text)) {
                (true, _) => None,
                (false, None) => rdata::for_manifest(kind, text).map(Value::from),
                (false, Some(strings)) => {
                    let strings = strings.into_iter().map(|octets| String::from_utf8(octets).ok());
                    match strings.collect::<Option<Vec<String>>>() {
                        Some(strings) => Some(serde_json::json!({STRINGS: strings})),
                        // Cut within a character: its text equals it, however it is cut.
                        None => rdata::for_manifest(kind, text).map(Value::from),
                    }
                }
            };
            let values = texts.iter().map(value).collect::<Option<Vec<Value>>>()?;
            object.insert("values".into(), values.into());
        }
        Some(fields)
    });
    let sets = sets.collect::<Option<Vec<_>>>().filter(|sets| !sets.is_empty())?;
    Some(serde_json::json!({ "sets": sets }).to_string())
}

/// What a record is at Route 53: plain, an alias, or sets of which one or some are the answer.
pub(super) fn settle(
    record: &RecordSpec,
    kind: Type,
    ttl: u32,
    zone: &Name,
) -> Result<Settled, (Span, Refusal)> {
    let Some(spec) = &record.route53 else { return dialect::plain(record, kind, ttl, zone) };
    dialect::refuse_cloudflare(record)?;
    let refuse = |span, message: &str, hint: &str| Err((span, Refusal::new(message, hint)));
    if matches!(kind, Type::Ns | Type::Soa) {
        return refuse(spec.span, "NS and SOA have neither aliases nor a routing", "leave `route53` out");
    }
    if !record.values.is_empty() {
        return refuse(spec.span, "the record has `values` and `route53`", "write the values into its sets");
    }
    if record.merge || record.reverse {
        return refuse(spec.span, "`merge` and `reverse` are for plain values", "leave them out");
    }
    let mut settled = Settled { ttl: 0, extra: String::new(), values: Some(Vec::new()) };
    let mut extra = Extra::default();
    match (&spec.value.alias, spec.value.sets.is_empty()) {
        (Some(alias), true) => {
            let (target, name) = target(alias, zone)?;
            extra.alias = Some(target);
            settled.values = Some(vec![name]);
        }
        (None, false) => {
            let mut ttls = Vec::new();
            let mut policies = BTreeSet::new();
            for at in spec.value.sets.iter() {
                let (routed, values) = routed(at, kind, ttl, zone)?;
                policies.insert(routed.policy());
                ttls.extend(routed.ttl);
                settled.values.get_or_insert_default().extend(values);
                if extra.sets.insert(at.value.id.value.clone(), routed).is_some() {
                    return refuse(
                        at.value.id.span,
                        "a set of this id is there already",
                        "ids tell sets apart",
                    );
                }
            }
            settled.ttl = ttls.into_iter().min().unwrap_or(0);
            if policies.len() > 1 {
                let message = "sets of one name and type have one kind of routing";
                return refuse(
                    spec.span,
                    message,
                    "use the same of weight, region, geo, failover, multivalue",
                );
            }
        }
        _ => return refuse(spec.span, "`route53` is one of `alias` and `sets`", "write one of the two"),
    }
    settled.extra = extra.text();
    Ok(settled)
}

impl Routed {
    fn policy(&self) -> &'static str {
        let of = [
            (self.weight.is_some(), "weight"),
            (self.region.is_some(), "region"),
            (self.geo.is_some(), "geo"),
            (self.failover.is_some(), "failover"),
            (self.multivalue, "multivalue"),
        ];
        of.iter().find(|(is_used, _)| *is_used).map_or("", |(_, word)| word)
    }
}

/// An alias and the value that it is shown as.
fn target(at: &At<AliasSpec>, zone: &Name) -> Result<(Target, String), (Span, Refusal)> {
    let spec = &at.value;
    let name = match spec.target.unknown.is_empty() {
        true => named(&spec.target.value, zone)
            .map_err(|refusal| (spec.target.span, refusal))?
            .as_str()
            .to_owned(),
        false => spec.target.value.clone(),
    };
    let zone = spec.zone.as_ref().map(|zone| zone.value.clone());
    Ok((Target { zone, evaluate_target_health: spec.evaluate_target_health }, format!("{ALIAS}{name})")))
}

/// A set and its values.
fn routed(
    at: &At<RoutedSpec>,
    kind: Type,
    ttl: u32,
    zone: &Name,
) -> Result<(Routed, Vec<String>), (Span, Refusal)> {
    let spec = &at.value;
    let id = &spec.id.value;
    let refuse = |span, message: &str, hint: &str| Err((span, Refusal::new(message, hint)));
    let is_text = id.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b')');
    if id.is_empty() || id.len() > LONGEST_ID || !is_text || id.trim() != id {
        let hint = "1 to 128 letters, digits and signs without `)`";
        return refuse(spec.id.span, "this is no id of a set", hint);
    }
    let given = [
        spec.weight.is_some(),
        spec.region.is_some(),
        spec.geo.is_some(),
        spec.failover.is_some(),
        spec.multivalue,
    ];
    if given.iter().filter(|is_given| **is_given).count() != 1 {
        let hint = "write one of weight, region, geo, failover and multivalue";
        return refuse(at.span, "a set needs one way to be chosen", hint);
    }
    let before = in_set(id);
    let (alias, mut values) = match (&spec.alias, spec.values.is_empty()) {
        (Some(alias), true) => {
            let (target, name) = target(alias, zone)?;
            (Some(target), vec![format!("{before}{name}")])
        }
        (None, false) => (None, Vec::with_capacity(spec.values.len())),
        _ => return refuse(at.span, "a set has either `values` or an `alias`", "write one of the two"),
    };
    if spec.multivalue && (alias.is_some() || spec.values.len() > 1) {
        return refuse(at.span, "a set with `multivalue` has one value", "write a set for each value");
    }
    if spec.values.len() > 1 && kind.is_single() {
        return refuse(at.span, "a record of this type has one value", "write one");
    }
    for value in spec.values.iter() {
        let canonical = match (&value.value, value.unknown.is_empty()) {
            (Data::Text(text), false) => text.clone(),
            (Data::Map(_), false) => String::new(),
            (Data::Text(text), true) => {
                rdata::written(kind, text, zone).map_err(|refusal| (value.span, refusal))?
            }
            (Data::Map(fields), true) => {
                rdata::structured::structured(kind, fields, zone).map_err(|refusal| (value.span, refusal))?
            }
        };
        values.push(format!("{before}{canonical}"));
    }
    if let Some(geo) = &spec.geo
        && !matches!(
            (&geo.continent, &geo.country, &geo.subdivision),
            (Some(_), None, None) | (None, Some(_), _)
        )
    {
        let hint = "{continent: EU}, {country: DE}, {country: US, subdivision: CA}, or {country: \"*\"} for the rest";
        return refuse(at.span, "`geo` is a continent or a country, perhaps with a subdivision", hint);
    }
    let upper = |text: &Option<String>| text.as_ref().map(|text| text.to_uppercase());
    let routed = Routed {
        ttl: alias.is_none().then(|| spec.ttl.unwrap_or(ttl)),
        alias,
        weight: spec.weight,
        region: spec.region.clone(),
        geo: spec.geo.as_ref().map(|geo| Geo {
            continent_code: upper(&geo.continent),
            country_code: upper(&geo.country),
            subdivision_code: upper(&geo.subdivision),
        }),
        failover: spec.failover.map(|role| role.word().to_owned()),
        multivalue: spec.multivalue,
        health_check: spec.health_check.clone(),
    };
    Ok((routed, values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::tests::canonical_values;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_value_comes_back_from_the_api_as_it_was_sent((kind, value) in canonical_values(), ttl in 0u32..90_000) {
            prop_assume!(kind != Type::Alias);
            let bytes = record::encode(ttl, &mut vec![value]);
            let set = RrSet::decode(&bytes).unwrap();
            let sent = decode("www.example.com.", kind.word(), &set, "Z1", 7).unwrap();
            prop_assert!(sent.iter().flat_map(|set| &set.resource_records).flat_map(|list| &list.list).all(|r| r.value.is_ascii()));
            prop_assert_eq!(encode(&sent, "Z1"), bytes);
        }
    }

    #[test]
    fn a_text_that_is_cut_within_a_character_is_declared_as_a_whole() {
        let extra = r#"{"route53":{"sets":{"x":{"weight":1}}}}"#;
        let check = |value: &str, expect: &str| {
            let set = RrSet { ttl: 300, extra, values: vec![value] };
            let declared = declared(Type::Txt, &set).unwrap();
            assert!(declared.contains(&format!("\"values\":[{expect}]")), "{declared}");
        };
        check("(set x) \"a\" \"b\"", "{\"strings\":[\"a\",\"b\"]}");
        check("(set x) \"x\\195\" \"\\164y\"", "\"xäy\"");
    }
}
