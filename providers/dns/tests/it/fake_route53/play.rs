//! Route 53 as its documentation describes it: signed requests, XML, lists of 100 zones and 300 sets that go on from
//! a name, change batches with their limits, in one transaction, and codes in octal (`\303`) in names and values.

use crate::fake::{Fake, Play, Reply, Request};
use std::{collections::BTreeMap, fmt::Write};

/// The secret of the key, long enough to be found where it must not be. The id is the same text here.
pub(crate) const SECRET: &str = "secret-of-the-fake-route53";

/// Reversed labels, type, set identifier: the order of lists.
type Key = (Vec<String>, String, String);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) ttl: u32,
    pub(crate) values: Vec<String>,
    /// What else the set has, as XML.
    pub(crate) more: String,
}

#[derive(Default)]
pub(crate) struct Route53 {
    pub(crate) zones: BTreeMap<String, (String, BTreeMap<Key, Set>)>,
    /// Refuses this value.
    pub(crate) bad: Option<&'static str>,
    /// Requests without a signature.
    pub(crate) unsigned: usize,
    /// Changes have reached every name server.
    pub(crate) insync: bool,
    references: BTreeMap<String, String>,
    next: u64,
}

/// The fake, running.
pub(crate) fn start() -> Fake<Route53> {
    Fake::start(Route53::default())
}

/// The octets of a text of the API: `\303` is one, `\"` is a quote. None for what the API would refuse.
pub(crate) fn octets(text: &str) -> Option<Vec<u8>> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\\' if after.first()?.is_ascii_digit() => {
                let code = std::str::from_utf8(after.get(..3)?).ok()?;
                out.push(u8::from_str_radix(code, 8).ok()?);
                rest = &after[3..];
            }
            b'\\' => {
                out.push(*after.first()?);
                rest = &after[1..];
            }
            b' '..=b'~' => out.push(*byte),
            _ => return None,
        }
    }
    Some(out)
}

/// A text as the API lists it: the same octets are the same text, however they were written.
fn listed(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('\\') {
        let length = if behind.starts_with(|c: char| c.is_ascii_digit()) { 3 } else { 1 };
        let code = octets(&format!("\\{}", behind.get(..length)?))?;
        out += before;
        match code[0] {
            byte @ (b'"' | b'\\') => out.extend(['\\', char::from(byte)]),
            byte @ b' '..=b'~' => out.push(char::from(byte)),
            byte => out += &format!("\\{byte:03o}"),
        }
        rest = &behind[length..];
    }
    octets(text).map(|_| out + rest)
}

fn key(name: &str, kind: &str, identifier: &str) -> Key {
    let labels = name.trim_end_matches('.').split('.').rev().map(str::to_owned).collect();
    (labels, kind.to_owned(), identifier.to_owned())
}

/// The content of the first element `name`.
fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

/// The contents of all elements `name`.
fn elements<'t>(mut text: &'t str, name: &str) -> Vec<&'t str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut found = Vec::new();
    while let Some((_, rest)) = text.split_once(&open) {
        let (inner, after) = rest.split_once(&close).unwrap();
        found.push(inner);
        text = after;
    }
    found
}

fn plain(text: &str) -> String {
    let pairs = [("&quot;", "\""), ("&apos;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

fn xml(body: String) -> Reply {
    Reply::new(200, format!("<?xml version=\"1.0\"?>\n{body}"))
}

/// A refusal with a code.
pub(crate) fn error(status: u16, code: &str, message: &str) -> Reply {
    let body = format!(
        "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
    );
    Reply::new(status, body)
}

fn zone_xml(id: &str, name: &str) -> String {
    format!(
        "<HostedZone><Id>/hostedzone/{id}</Id><Name>{name}.</Name><Config><PrivateZone>false</PrivateZone></Config></HostedZone>"
    )
}

impl Route53 {
    pub(crate) fn add_zone(&mut self, name: &str) -> String {
        self.next += 1;
        let id = format!("Z{:08}", self.next);
        self.zones.insert(id.clone(), (name.to_owned(), BTreeMap::new()));
        let soa = "ns-1.awsdns-0.org. awsdns-hostmaster.amazon.com. 1 7200 900 1209600 86400";
        self.put(name, name, "SOA", &[soa]);
        self.put(name, name, "NS", &["ns-1.awsdns-0.org.", "ns-2.awsdns-0.net."]);
        id
    }
    /// What every change is answered with, and every question about one.
    fn change_info(&self) -> String {
        let status = if self.insync { "INSYNC" } else { "PENDING" };
        format!("<ChangeInfo><Id>/change/C1</Id><Status>{status}</Status></ChangeInfo>")
    }
    fn sets(&mut self, zone: &str) -> &mut BTreeMap<Key, Set> {
        &mut self.zones.values_mut().find(|(name, _)| name == zone).unwrap().1
    }
    /// Somebody's change in the console.
    pub(crate) fn put(&mut self, zone: &str, name: &str, kind: &str, values: &[&str]) {
        let values = values.iter().map(|value| value.to_string()).collect();
        let set = Set { name: format!("{name}."), kind: kind.into(), ttl: 300, values, more: String::new() };
        self.sets(zone).insert(key(name, kind, ""), set);
    }
    /// A set with a routing policy or an alias.
    pub(crate) fn route(&mut self, zone: &str, name: &str, kind: &str, identifier: &str, more: &str) {
        let set = Set {
            name: format!("{name}."),
            kind: kind.into(),
            ttl: 0,
            values: Vec::new(),
            more: more.into(),
        };
        self.sets(zone).insert(key(name, kind, identifier), set);
    }
    /// The values of a set, as they are listed.
    pub(crate) fn values(&mut self, zone: &str, name: &str, kind: &str) -> Vec<String> {
        self.sets(zone).get(&key(name, kind, "")).map(|set| set.values.clone()).unwrap_or_default()
    }
    pub(crate) fn remove(&mut self, zone: &str, name: &str, kind: &str) {
        self.sets(zone).remove(&key(name, kind, ""));
    }
    fn list(&self, sets: &BTreeMap<Key, Set>, request: &Request) -> Reply {
        let query = |name: &str| request.query.get(name).map(String::as_str).unwrap_or_default();
        let most: usize = query("maxitems").parse().unwrap_or(300).min(300);
        let start = key(&query("name").replace("\\052", "*"), query("type"), query("identifier"));
        let from: Vec<_> = match query("name") {
            "" => sets.iter().collect(),
            _ => sets.range(start..).collect(),
        };
        let mut out = String::from("<ListResourceRecordSetsResponse><ResourceRecordSets>");
        for (_, set) in from.iter().take(most) {
            let name = set.name.replace('*', "\\052");
            let _ =
                write!(out, "<ResourceRecordSet><Name>{name}</Name><Type>{}</Type>{}", set.kind, set.more);
            if !set.values.is_empty() {
                let _ = write!(out, "<TTL>{}</TTL><ResourceRecords>", set.ttl);
                for value in &set.values {
                    let _ = write!(out, "<ResourceRecord><Value>{}</Value></ResourceRecord>", escaped(value));
                }
                out += "</ResourceRecords>";
            }
            out += "</ResourceRecordSet>";
        }
        let _ = write!(out, "</ResourceRecordSets><IsTruncated>{}</IsTruncated>", from.len() > most);
        if let Some(((_, kind, identifier), set)) = from.get(most) {
            let name = set.name.replace('*', "\\052");
            let _ =
                write!(out, "<NextRecordName>{name}</NextRecordName><NextRecordType>{kind}</NextRecordType>");
            if !identifier.is_empty() {
                let _ = write!(out, "<NextRecordIdentifier>{identifier}</NextRecordIdentifier>");
            }
        }
        xml(out + "<MaxItems>300</MaxItems></ListResourceRecordSetsResponse>")
    }

    /// What a change has besides name, type and values, and the identifier of its set.
    fn more(change: &str) -> Result<(String, String), String> {
        let words = ["SetIdentifier", "Weight", "Region", "GeoLocation", "Failover", "MultiValueAnswer"];
        let mut more = String::new();
        for word in words.into_iter().chain(["AliasTarget", "HealthCheckId"]) {
            if let Some(content) = element(change, word) {
                let _ = write!(more, "<{word}>{content}</{word}>");
            }
        }
        let policies = words[1..].iter().filter(|word| element(change, word).is_some()).count();
        let identifier = element(change, "SetIdentifier").map(plain);
        match (policies, &identifier) {
            (0, None) | (1, Some(_)) => Ok((more, identifier.unwrap_or_default())),
            _ => {
                Err("Expected exactly one of [Weight, Region, Failover, GeoLocation, MultiValueAnswer]"
                    .into())
            }
        }
    }

    fn change(&self, zone: &str, sets: &mut BTreeMap<Key, Set>, body: &str) -> Result<(), Vec<String>> {
        let changes = elements(body, "Change");
        let (mut records, mut characters, mut wrong) = (0, 0, Vec::new());
        for change in &changes {
            let action = element(change, "Action").unwrap();
            let name = plain(element(change, "Name").unwrap());
            let kind = element(change, "Type").unwrap().to_owned();
            let written: Vec<String> = elements(change, "Value").into_iter().map(plain).collect();
            let values: Option<Vec<String>> = written.iter().map(|value| listed(value)).collect();
            let Some(values) = values.filter(|_| octets(&name).is_some()) else {
                wrong.push(format!("Invalid Resource Record: bad code in {name} {written:?}"));
                continue;
            };
            let weight = if action == "UPSERT" { 2 } else { 1 };
            records += weight * values.len();
            characters += weight * values.iter().map(String::len).sum::<usize>();
            let (more, identifier) = match Self::more(change) {
                Ok(found) => found,
                Err(text) => {
                    wrong.push(format!("{text} [name='{name}', type='{kind}']"));
                    continue;
                }
            };
            let ttl = element(change, "TTL").map_or(0, |ttl| ttl.parse().unwrap());
            if values.is_empty() == element(change, "AliasTarget").is_none() {
                wrong.push(format!("Expected exactly one of [AliasTarget, all of [TTL, and ResourceRecords]] [name='{name}', type='{kind}']"));
                continue;
            }
            let set = Set { name: name.clone(), kind: kind.clone(), ttl, values, more };
            let id = key(&name, &kind, &identifier);
            let is_simple = |key: &Key| key.2.is_empty();
            let place = format!("resource record set [name='{}', type='{kind}']", name.replace('*', "\\052"));
            let is_apex = name.trim_end_matches('.') == zone && matches!(kind.as_str(), "NS" | "SOA");
            match (action, sets.get(&id)) {
                ("DELETE", _) if is_apex => wrong.push(format!("A HostedZone must contain its {kind}.")),
                ("DELETE", Some(old)) if *old == set => {
                    sets.remove(&id);
                }
                ("DELETE", Some(_)) => wrong.push(format!(
                    "Tried to delete {place} but the values provided do not match the current values"
                )),
                ("DELETE", None) => wrong.push(format!("Tried to delete {place} but it was not found")),
                ("CREATE", Some(_)) => wrong.push(format!("Tried to create {place} but it already exists")),
                _ if sets.iter().any(|(other, _)| {
                    (&other.0, &other.1) == (&id.0, &id.1) && is_simple(other) != is_simple(&id)
                }) =>
                {
                    wrong.push(format!("{place} cannot be both simple and routed"));
                }
                _ => {
                    let is_bad = |value: &String| {
                        self.bad.is_some_and(|bad| value.contains(bad))
                            || (kind == "A" && value.parse::<std::net::Ipv4Addr>().is_err())
                            || (kind == "TXT" && !value.starts_with('"'))
                    };
                    if let Some(value) = set.values.iter().find(|value| is_bad(value)) {
                        wrong.push(format!(
                            "Invalid Resource Record: 'FATAL problem: Illegal encountered with '{value}''"
                        ));
                    }
                    let others = sets.values().filter(|other| other.name == name && other.kind != kind);
                    if others.into_iter().any(|other| kind == "CNAME" || other.kind == "CNAME") {
                        wrong.push(format!(
                            "RRSet of type {kind} with DNS name {name} is not permitted: CNAME"
                        ));
                    }
                    sets.insert(id, set);
                }
            }
        }
        if changes.is_empty() || records > 1_000 || characters > 32_000 {
            wrong.push(format!(
                "Number of records limit exceeded: {records} records, {characters} characters"
            ));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

impl Play for Route53 {
    fn answer(&mut self, request: &Request) -> Reply {
        let authorization = request.header("authorization");
        if !authorization.starts_with(&format!("AWS4-HMAC-SHA256 Credential={SECRET}/")) {
            self.unsigned += 1;
            return error(
                403,
                "InvalidClientTokenId",
                "The security token included in the request is invalid.",
            );
        }
        // AWS wants the type of a body and its own headers signed, if they are sent.
        let signed = authorization.split_once("SignedHeaders=").and_then(|(_, rest)| rest.split_once(','));
        let signed: Vec<&str> = signed.map(|(names, _)| names.split(';').collect()).unwrap_or_default();
        let is_to_be =
            |name: &&String| *name == "host" || *name == "content-type" || name.starts_with("x-amz-");
        if let Some(name) =
            request.headers.keys().filter(is_to_be).find(|name| !signed.contains(&name.as_str()))
        {
            return error(403, "SignatureDoesNotMatch", &format!("{name} is not signed"));
        }
        let words: Vec<&str> = request.path.trim_end_matches('/').split('/').skip(2).collect();
        match (request.method.as_str(), &words[..]) {
            ("GET", ["hostedzonesbyname"]) => {
                let from = &request.query["dnsname"];
                let named = self.zones.iter().filter(|(_, (name, _))| name == from);
                let list: String = named.map(|(id, (name, _))| zone_xml(id, name)).collect();
                let body = format!("<HostedZones>{list}</HostedZones><IsTruncated>false</IsTruncated>");
                xml(format!("<ListHostedZonesByNameResponse>{body}</ListHostedZonesByNameResponse>"))
            }
            ("GET", ["hostedzone"]) => {
                let marker = request.query.get("marker").cloned().unwrap_or_default();
                let all: Vec<_> = self.zones.range(marker..).collect();
                let list: String = all.iter().take(100).map(|(id, (name, _))| zone_xml(id, name)).collect();
                let next =
                    all.get(100).map(|(id, _)| format!("<NextMarker>{id}</NextMarker>")).unwrap_or_default();
                let is_more = all.len() > 100;
                xml(format!(
                    "<ListHostedZonesResponse><HostedZones>{list}</HostedZones><IsTruncated>{is_more}</IsTruncated>{next}</ListHostedZonesResponse>"
                ))
            }
            ("POST", ["hostedzone"]) => {
                let name = plain(element(&request.body, "Name").unwrap());
                let reference = element(&request.body, "CallerReference").unwrap().to_owned();
                if self.references.contains_key(&reference) {
                    return error(
                        409,
                        "HostedZoneAlreadyExists",
                        "A hosted zone was created with this reference.",
                    );
                }
                let id = self.add_zone(&name);
                self.references.insert(reference, id.clone());
                xml(format!("<CreateHostedZoneResponse>{}</CreateHostedZoneResponse>", zone_xml(&id, &name)))
            }
            ("GET", ["change", "C1"]) => {
                xml(format!("<GetChangeResponse>{}</GetChangeResponse>", self.change_info()))
            }
            (_, ["hostedzone", id, ..]) if !self.zones.contains_key(*id) => {
                error(404, "NoSuchHostedZone", "No hosted zone found with this ID")
            }
            ("DELETE", ["hostedzone", id]) => {
                if self.zones[*id].1.len() > 2 {
                    return error(400, "HostedZoneNotEmpty", "The zone has records.");
                }
                self.zones.remove(*id);
                xml(format!("<DeleteHostedZoneResponse>{}</DeleteHostedZoneResponse>", self.change_info()))
            }
            ("GET", ["hostedzone", id, "rrset"]) => self.list(&self.zones[*id].1, request),
            ("POST", ["hostedzone", id, "rrset"]) => {
                let (name, mut sets) = self.zones[*id].clone();
                match self.change(&name, &mut sets, &request.body) {
                    Ok(()) => {
                        self.zones.insert(id.to_string(), (name, sets));
                        let info = self.change_info();
                        xml(format!(
                            "<ChangeResourceRecordSetsResponse>{info}</ChangeResourceRecordSetsResponse>"
                        ))
                    }
                    Err(wrong) => {
                        let list: String =
                            wrong.iter().map(|m| format!("<Message>{}</Message>", escaped(m))).collect();
                        Reply::new(
                            400,
                            format!("<InvalidChangeBatch><Messages>{list}</Messages></InvalidChangeBatch>"),
                        )
                    }
                }
            }
            _ => error(404, "NoSuchRoute", "no such route"),
        }
    }
}
