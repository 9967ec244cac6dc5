//! What an answer says of a RRset: is it served, and what is served instead?

use super::ask::Answer;
use crate::{
    http::printable,
    name,
    rdata::octets,
    record::{self, RrSet},
    rfc2136::response::{self, Response},
    strings,
};
use hickory_proto::op::ResponseCode;
use reconciled_provider::{Resource, ResourceId, Scope, Spec};
use std::collections::BTreeMap;

/// A TTL that leaves the choice to the service.
const AUTOMATIC: u32 = 1;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const TXT: u16 = 16;

/// A RRset that a name server can be asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked<'a> {
    pub(super) id: &'a ResourceId,
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) number: u16,
    set: RrSet<'a>,
}

impl<'a> Asked<'a> {
    /// The RRset behind `resource`; none where an answer says nothing of it: what the service makes up as it is asked
    /// (ALIAS, routing, proxies), a SOA, whose serial is the server's, and the NS of a delegation, which belong to the
    /// child.
    pub(super) fn of(scope: &Scope, resource: &'a Resource) -> Option<Asked<'a>> {
        let Spec::Known { bytes, .. } = &resource.spec else { return None };
        let (name, kind) = record::parts(&resource.id)?;
        let set = RrSet::decode(bytes)?;
        let is_apex = name.strip_suffix('.') == Some(&*scope.name);
        let is_asked = is_plainly_served(set.extra) && kind != "SOA" && (kind != "NS" || is_apex);
        let is_plain = !set.values.iter().any(|value| value.starts_with('('));
        // Sets told apart by an id have it behind their type.
        let number = octets::number(kind)?;
        (is_asked && is_plain).then_some(Asked { id: &resource.id, name, kind, number, set })
    }

    /// The declared TTL, in seconds.
    pub(super) fn ttl(&self) -> u32 {
        self.set.ttl
    }

    /// True when `values`, sorted, are what is declared; a text that does not say where it is cut is cut as it is answered.
    fn is_declared(&self, values: &[String]) -> bool {
        if values == self.set.values {
            return true;
        }
        let seen: Vec<&str> = values.iter().map(String::as_str).collect();
        let as_seen =
            (self.number == TXT).then(|| strings::values_as_seen(&self.set.values, &seen)).flatten();
        as_seen.is_some_and(|mut declared| {
            declared.sort_unstable();
            declared == values
        })
    }

    /// Nothing when `answer` is what is declared, else what it is instead.
    pub(super) fn differs(&self, answer: &[u8]) -> Option<String> {
        let response = response::parse(answer)?;
        if let Some(refusal) = refusal(&response) {
            return Some(refusal);
        }
        let (mut values, mut ttl, mut alias) = (Vec::new(), None, None);
        for found in &response.answers {
            let mut owner = String::new();
            if name::decode(answer, found.name, &mut owner).is_none() || owner != self.name {
                continue;
            }
            let value = octets::decode(found.number, answer, found.start, found.end);
            match found.number {
                number if number == self.number => {
                    values.push(value);
                    ttl = Some(found.ttl);
                }
                CNAME => alias = Some(value),
                _ => {}
            }
        }
        if values.is_empty() {
            return Some(match (alias, response.rcode) {
                (Some(target), _) => format!("answers with the alias {}", printable(&target)),
                (None, 3) => "does not know the name".into(),
                (None, _) => format!("has no {} there", self.kind),
            });
        }
        values.sort_unstable();
        values.dedup();
        if !self.is_declared(&values) {
            return Some(format!("answers {}", printable(&values.join(", "))));
        }
        // Less may be a cache in front of the server that counts down.
        let ttl = ttl.filter(|ttl| self.set.ttl > AUTOMATIC && *ttl > self.set.ttl)?;
        Some(format!("answers with a TTL of {ttl}, declared {}", self.set.ttl))
    }
}

/// True where what a backend knows besides does not change what is answered: Cloudflare's comments and tags do not.
fn is_plainly_served(extra: &str) -> bool {
    let parsed: BTreeMap<String, serde_json::Value> = match extra {
        "" => return true,
        extra => serde_json::from_str(extra).unwrap_or_default(),
    };
    let mut backends = parsed.iter();
    match (backends.next(), backends.next()) {
        (Some((word, known)), None) => {
            word == "cloudflare" && known["proxied"] != serde_json::Value::Bool(true)
        }
        _ => false,
    }
}

/// Why the server answers for no name of the zone; none when it does.
fn refusal(response: &Response<'_>) -> Option<String> {
    match response.rcode {
        0 | 3 => None,
        rcode => Some(format!("answers {}", ResponseCode::from(0, rcode))),
    }
}

/// What a server does that does not answer.
pub(super) const SILENT: &str = "does not answer";

/// The serial that an answer to the question for the SOA of `zone` has, or what the server does instead.
pub(super) fn serial(zone: &str, answer: &Answer) -> Result<u32, String> {
    let Answer::Octets(answer) = answer else { return Err(SILENT.into()) };
    let Some(response) = response::parse(answer) else { return Err(SILENT.into()) };
    if let Some(refusal) = refusal(&response) {
        return Err(refusal);
    }
    let soa = response.answers.iter().find(|found| found.number == SOA);
    let serial = soa.and_then(|found| {
        let mut owner = String::new();
        name::decode(answer, found.name, &mut owner)?;
        // Behind the two names, whatever their length, stand five numbers, of which the serial is the first.
        let at = found.end.checked_sub(20).filter(|at| *at >= found.start && owner == zone)?;
        Some(u32::from_be_bytes(*answer.get(at..)?.first_chunk()?))
    });
    match serial {
        Some(serial) if response.is_authoritative => Ok(serial),
        _ => Err("does not serve the zone".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_served_however_it_is_cut_and_strings_only_as_they_are() {
        let id = ResourceId::from("a.example./TXT");
        let is_served = |declared: &str, served: &str| {
            let set = RrSet { ttl: 60, extra: "", values: vec![declared] };
            let asked = Asked { id: &id, name: "a.example.", kind: "TXT", number: TXT, set };
            asked.is_declared(&[served.to_owned()])
        };
        assert!(is_served("\"ab\"", "\"a\" \"b\"") && is_served("\"a\" \"b\"", "\"a\" \"b\""));
        assert!(!is_served("\"ab\"", "\"a\" \"c\"") && !is_served("\"a\" \"b\"", "\"ab\""));
    }
}
