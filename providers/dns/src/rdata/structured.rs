//! Values as mappings of their fields: `{priority: 10, target: mail}`, `{strings: [a, b]}`.
//!
//! The names of the fields are those of [`mod@field`]. Texts stand for themselves, without quotes, and a target
//! without a dot at the end is a name within the zone. One that repeats the zone is refused, and of one that looks like a whole
//! name [`undotted`] tells.

use super::{
    LARGEST, Refusal, Type, examine,
    field::{self, Field},
    form, plain, policy, too_long,
};
use crate::{
    kind::{FieldValue, Words},
    name::{Name, ends_absolute, labels, repeats_zone},
    text::{self, Strings},
};
use reconciled_provider::{At, Span, problem::did_you_mean};
use std::{collections::BTreeMap, net::IpAddr};

/// The field of TXT data that says where the text is cut.
pub(crate) const STRINGS: &str = "strings";

/// What a place has besides its two angles, with what stands in where it is left out (RFC 1876 §3).
const MORE_OF_A_PLACE: [(&str, &str); 4] =
    [("altitude", "0m"), ("size", "1m"), ("horizontalPrecision", "10000m"), ("verticalPrecision", "10m")];

/// Canonical text of a value written as a mapping in `zone`.
pub fn structured(
    kind: Type,
    written: &BTreeMap<String, At<FieldValue>>,
    zone: &Name,
) -> Result<String, Refusal> {
    let known: Vec<&str> = match kind {
        Type::A | Type::Aaaa => vec!["address"],
        Type::Loc => {
            ["latitude", "longitude"].into_iter().chain(MORE_OF_A_PLACE.map(|(name, _)| name)).collect()
        }
        Type::Txt => ["text", STRINGS].into_iter().chain(policy::POLICIES).collect(),
        kind => field::fields(kind).unwrap_or_default().iter().map(|(name, _)| *name).collect(),
    };
    let word = kind.word();
    if let Some(stranger) = written.keys().find(|name| !known.contains(&name.as_str())) {
        let hint = match did_you_mean(stranger, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("{word} has the fields {}", known.join(", ")),
        };
        return Err(Refusal::new(format!("unknown field `{stranger}` of {word} data"), hint));
    }
    let missing = |name: &str| {
        Refusal::new(
            format!("{word} data lack the field `{name}`"),
            format!("{word} has the fields {}", known.join(", ")),
        )
    };
    let text_of = |name: &str| match written.get(name).map(|at| &at.value) {
        Some(FieldValue::Text(text)) => Ok(Some(text.as_str())),
        Some(FieldValue::Map(_)) => Err(Refusal::new(
            format!("the field `{name}` of {word} data is a mapping"),
            format!("write {name}: and its text"),
        )),
        Some(FieldValue::List(_)) => Err(Refusal::new(
            format!("the field `{name}` of {word} data is a list"),
            format!("write {name}: and its text"),
        )),
        None => Ok(None),
    };
    if kind == Type::Txt && (written.len() != 1 || !written.contains_key("text")) {
        return mail(written);
    }
    if kind == Type::Loc {
        let of = |name: &str| Ok(text_of(name)?.ok_or_else(|| missing(name))?.to_owned());
        let more = |(name, default)| Ok(text_of(name)?.unwrap_or(default).to_owned());
        let sides = ["latitude", "longitude"].into_iter().map(of);
        let words: Result<Vec<String>, Refusal> =
            sides.chain(MORE_OF_A_PLACE.into_iter().map(more)).collect();
        return super::written(kind, &words?.join(" "), zone);
    }
    let Some(fields) = field::fields(kind) else {
        let name = known[0];
        let text = text_of(name)?.ok_or_else(|| missing(name))?;
        return if kind == Type::Txt { plain(text) } else { super::written(kind, text, zone) };
    };
    let mut words: Vec<String> = Vec::with_capacity(fields.len());
    for (name, field) in fields {
        if *field == Field::Params {
            let params_of = written.get(*name).map(|at| &at.value);
            if matches!(params_of, Some(FieldValue::List(_))) {
                text_of(name)?;
            }
            words.extend(params(params_of));
            continue;
        }
        let Some(text) = text_of(name)? else {
            // Almost nobody has a use for them.
            if *name == "flags" && kind == Type::Caa {
                words.push("0".into());
                continue;
            }
            return Err(missing(name));
        };
        words.push(match field {
            Field::Host => host(kind, text, zone)?,
            Field::Text | Field::LongText => {
                let mut out = String::new();
                text::quote(text.as_bytes(), &mut out);
                out
            }
            _ => text.trim().into(),
        });
    }
    let row = words.join(" ");
    let canonical = field::canonical(fields, &row, &mut |host| Ok(host.into()));
    let canonical = canonical.unwrap_or_else(|| Err(form(kind, &row)))?;
    examine(kind, &canonical).map(|()| canonical)
}

/// The strings of a TXT, each as it stands on the wire.
fn strings(value: &FieldValue) -> Result<String, Refusal> {
    let list = match value {
        FieldValue::List(list) if !list.is_empty() => list,
        _ => {
            let hint = "write strings: [\"path=/x\", \"rp=lp\"], or text: and one text";
            return Err(Refusal::new("the field `strings` of TXT data is no list of texts", hint));
        }
    };
    if let Some(long) = list.iter().find(|string| string.len() > text::LONGEST) {
        let message = format!("a string of {} bytes is longer than {}", long.len(), text::LONGEST);
        return Err(Refusal::new(
            message,
            "cut it, or write text: and the whole text, which is cut where it has to be",
        ));
    }
    let strings = Strings::of(list.iter().map(String::as_bytes));
    if strings.octets().len() + list.len() > LARGEST {
        return Err(too_long(strings.octets().len()));
    }
    let mut out = String::new();
    strings.quote(&mut out);
    Ok(out)
}

/// The strings of a TXT, or the text of a policy of mail.
fn mail(written: &BTreeMap<String, At<FieldValue>>) -> Result<String, Refusal> {
    let mut given = written.iter();
    let (Some((word, at)), None) = (given.next(), given.next()) else {
        let hint = "write text: and the text, strings: and a list of texts, or one of spf:, dmarc:, dkim: and a mapping";
        return Err(Refusal::new("TXT data have one field", hint));
    };
    if word == STRINGS {
        return strings(&at.value);
    }
    let FieldValue::Map(fields) = &at.value else {
        let hint = format!("write its fields, or the whole text in place of the mapping `{word}`");
        return Err(Refusal::new(format!("the field `{word}` of TXT data is no mapping"), hint));
    };
    plain(&policy::text(word, fields)?)
}

/// Parameters of a service, a word each.
fn params(value: Option<&FieldValue>) -> Vec<String> {
    match value {
        None | Some(FieldValue::List(_)) => Vec::new(),
        Some(FieldValue::Text(text)) => vec![text.clone()],
        Some(FieldValue::Map(map)) => {
            let param = |(key, value): (&String, &Words)| match value.joined().as_str() {
                "" => key.clone(),
                value => {
                    let mut out = format!("{key}=");
                    text::quote(value.as_bytes(), &mut out);
                    out
                }
            };
            map.iter().map(param).collect()
        }
    }
}

/// The host a field names: `@`, within the zone, or absolute with its dot.
fn host(kind: Type, text: &str, zone: &Name) -> Result<String, Refusal> {
    if text.trim_end_matches('.').parse::<IpAddr>().is_ok() {
        return super::target(kind, text, zone);
    }
    Ok(named(text, zone)?.as_str().into())
}

/// The name that a field means: `@`, within the zone, or absolute with its dot.
///
/// Errors: it is no name, or repeats the zone, so that its dot was forgotten.
pub(crate) fn named(text: &str, zone: &Name) -> Result<Name, Refusal> {
    let name = Name::within(text, zone)?;
    if repeats_zone(text, zone) {
        let message = format!("`{text}` without a dot at the end means `{name}`");
        return Err(Refusal::new(
            message,
            format!("write `{text}.`; if the long name is meant, write `{name}`"),
        ));
    }
    Ok(name)
}

/// The name within the zone that a host is, where it looks whole, as `mail.example.net`, and has no dot at the end. What ends as no
/// domain on the Internet does is meant to be one: a label of a service, or a number of a reverse zone (RFC 1123 §2.1).
pub(crate) fn undotted_host(text: &str, zone: &Name) -> Option<Name> {
    let looks_whole = labels(text).nth(1).is_some()
        && labels(text).last().is_some_and(|end| end.starts_with(char::is_alphabetic));
    if !looks_whole || ends_absolute(text) || repeats_zone(text, zone) || text.parse::<IpAddr>().is_ok() {
        return None;
    }
    Name::within(text, zone).ok()
}

/// Hosts in a mapping that [`undotted_host`] means: where they stand, how they are written, and the names that they are.
pub(crate) fn undotted<'w>(
    kind: Type,
    written: &'w BTreeMap<String, At<FieldValue>>,
    zone: &'w Name,
) -> impl Iterator<Item = (Span, &'w str, Name)> {
    let hosts = field::fields(kind).unwrap_or_default().iter().filter(|(_, field)| *field == Field::Host);
    hosts.filter_map(move |(field, _)| {
        let at = written.get(*field)?;
        let FieldValue::Text(text) = &at.value else { return None };
        Some((at.span, text.as_str(), undotted_host(text, zone)?))
    })
}
