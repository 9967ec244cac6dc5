//! Reading: the serials of many zones, a packet each, and a zone by transfer (RFC 5936).
//!
//! A transfer is all or nothing: whatever breaks on the way, nothing of it is used, so that half a zone is never
//! taken for the zone. What DNSSEC signing writes is left out: it is the server's, and most of a signed zone.
//! A zone is read only when its SOA moved, and then only what changed since it was read last ([`super::kept`]).

use super::{
    backend::Backend,
    client::{Connection, is_key_refused, key_refused, not_served},
    config::Keys,
    exchange::Udp,
    kept::{Records, Row, Zone},
    request, response,
    soa::{Soa, soa_of},
    transfer::Form,
    tsig::Verifier,
};
use crate::{
    name,
    record::{self, Collector},
};
use hickory_proto::rr::{Name, RecordType};
use reconciled_provider::{Cx, Error, ErrorKind, Focus, Found, Observation, Observed, Owner, Scope, Version};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Questions that wait for an answer at once.
const WINDOW: usize = 64;
/// How often a question is asked before it is asked over TCP.
const TRIES: usize = 3;

/// A question that waits for its answer.
struct Asked<'s> {
    scope: &'s Scope,
    zone: String,
    packet: Vec<u8>,
    verifier: Verifier,
}

/// Tokens of many zones, by one packet each. Zones that the server does not have are left out.
pub(crate) async fn versions(
    backend: &Backend,
    cx: &Cx,
    scopes: &[Scope],
) -> Result<BTreeMap<Scope, Version>, Error> {
    let doing = "ask for serials";
    let mut versions = BTreeMap::new();
    if scopes.is_empty() {
        // Nobody asks for a zone: the question is whether the server answers us, and takes our keys where it looks at
        // them before it looks for the zone, as BIND and PowerDNS do.
        for key in [&backend.keys.transfer, &backend.keys.update] {
            let keys = Keys { transfer: key.clone(), update: key.clone() };
            let mut connection = Connection::open(&backend.config, &keys, cx, doing).await?;
            connection.soa(&Name::root(), ".", doing).await?;
        }
        return Ok(versions);
    }
    let mut late: Vec<&Scope> = Vec::new();
    match Udp::open(&backend.config, doing).await? {
        None => late.extend(scopes),
        Some(udp) => {
            for window in scopes.chunks(WINDOW) {
                ask(backend, cx, &udp, window, &mut versions, &mut late).await?;
                // Nobody hears us this way; each further window would only wait.
                if versions.is_empty() && late.len() == window.len() {
                    late = scopes.iter().collect();
                    break;
                }
            }
        }
    }
    if late.is_empty() {
        return Ok(versions);
    }
    let mut connection = Connection::open(&backend.config, &backend.keys, cx, doing).await?;
    for scope in late {
        let (zone, text) = zone_of(scope)?;
        let soa = connection.soa(&zone, &text, doing).await?;
        versions.extend(soa.map(|soa| (scope.clone(), backend.version(&soa))));
    }
    Ok(versions)
}

/// Asks for a window of zones; those without an answer are `late`.
async fn ask<'s>(
    backend: &Backend,
    cx: &Cx,
    udp: &Udp,
    window: &'s [Scope],
    versions: &mut BTreeMap<Scope, Version>,
    late: &mut Vec<&'s Scope>,
) -> Result<(), Error> {
    let signer = backend.keys.transfer.signer(cx)?;
    let mut waiting: HashMap<u16, Asked<'s>> = HashMap::with_capacity(window.len());
    for scope in window {
        let (zone, text) = zone_of(scope)?;
        let mut message = request::question(&zone, RecordType::SOA);
        while waiting.contains_key(&message.id) {
            message = request::question(&zone, RecordType::SOA);
        }
        let id = message.id;
        let (packet, verifier) = signer.sign(message)?;
        waiting.insert(id, Asked { scope, zone: text, packet, verifier });
    }
    for _ in 0..TRIES {
        for asked in waiting.values() {
            udp.send(&asked.packet).await;
        }
        while !waiting.is_empty() {
            let Some(packet) = udp.receive(backend.config.patience).await else { break };
            let Some(response) = response::parse(&packet) else { continue };
            let Some(asked) = waiting.get_mut(&response.id) else { continue };
            if !response.answers_to(response.id, &asked.zone, response::SOA) {
                continue;
            }
            if response.is_truncated {
                late.extend(waiting.remove(&response.id).map(|asked| asked.scope));
                continue;
            }
            // What is not believed is not heard; a refusal of the key concerns every zone.
            let is_refusal = response.tsig.is_none() && response.rcode != 0;
            match asked.verifier.check(&response) {
                Err(super::tsig::Doubt::Forged(_)) if !is_refusal => continue,
                Err(doubt @ (super::tsig::Doubt::Refused(_) | super::tsig::Doubt::Clock(_))) => {
                    let key = &backend.keys.transfer;
                    return Err(super::client::doubtful(
                        &doubt,
                        &backend.config.server,
                        key,
                        "ask for serials",
                    ));
                }
                _ => {}
            }
            if is_key_refused(&response) {
                return Err(key_refused(&backend.config.server, &backend.keys.transfer, "ask for serials"));
            }
            let soa = soa_of(&response, &asked.zone);
            if let Some(asked) = waiting.remove(&response.id) {
                versions.extend(soa.map(|soa| (asked.scope.clone(), backend.version(&soa))));
            }
        }
    }
    late.extend(waiting.into_values().map(|asked| asked.scope));
    Ok(())
}

/// The zone of a scope, as messages hold it and as text.
pub(crate) fn zone_of(scope: &Scope) -> Result<(Name, String), Error> {
    let text = record::zone_name(scope);
    let name =
        request::domain(&text).ok_or_else(|| Error::invalid(format!("`{}` is no zone", scope.name)))?;
    Ok((name, text))
}

/// Reads a zone, if that can be by what changed since it was read last: its SOA, and its RRsets sorted by id.
pub(crate) async fn read<'c>(
    backend: &'c Backend,
    connection: &mut Connection<'c>,
    scope: &Scope,
    doing: &str,
) -> Result<(Soa, Vec<Observed>), Error> {
    let (name, text) = zone_of(scope)?;
    let cx = connection.cx();
    let zone = match backend.zones.take(scope, cx.clock.now()) {
        None => whole(connection, (&name, &text), doing).await?,
        Some(before) => match difference(connection, (&name, &text), before, doing).await {
            Ok(Some(zone)) => zone,
            // Who reads what did not move wants to know what is past all serials.
            Ok(None) => whole(connection, (&name, &text), doing).await?,
            // Whatever it is that the server cannot do, the whole zone is another question.
            Err(_) => {
                *connection = Connection::open(&backend.config, &backend.keys, cx, doing).await?;
                whole(connection, (&name, &text), doing).await?
            }
        },
    };
    let (soa, resources) = (zone.soa.clone(), resources(&zone.rows, &text));
    backend.zones.keep(scope, zone);
    Ok((soa, resources))
}

async fn whole(
    connection: &mut Connection<'_>,
    (name, text): (&Name, &str),
    doing: &str,
) -> Result<Arc<Zone>, Error> {
    let mut records = Records::of(text, None);
    let (soa, form) = connection.transfer(name, text, None, &mut records, doing).await?;
    Ok(records.end(soa, form, connection.cx().clock.now()))
}

/// The zone by what changed since; none where nothing did.
async fn difference(
    connection: &mut Connection<'_>,
    (name, text): (&Name, &str),
    before: Arc<Zone>,
    doing: &str,
) -> Result<Option<Arc<Zone>>, Error> {
    let mut records = Records::of(text, Some(before.clone()));
    let (soa, form) = connection.transfer(name, text, Some(&before.soa), &mut records, doing).await?;
    let zone = records.end(soa, form, connection.cx().clock.now());
    Ok((form != Form::Unmoved).then_some(zone))
}

/// Reads a zone, always all of it.
pub(crate) async fn observe(backend: &Backend, cx: &Cx, scope: &Scope) -> Result<Observation, Error> {
    let doing = format!("read zone {}", scope.name);
    let (zone, text) = zone_of(scope)?;
    let mut connection = Connection::open(&backend.config, &backend.keys, cx, &doing).await?;
    let (soa, mut resources) = match read(backend, &mut connection, scope, &doing).await {
        Ok(read) => read,
        Err(error) => {
            // A refusal may mean that the key may not, or that there is no such zone: the SOA tells.
            let is_refusal = matches!(error.kind, ErrorKind::PermissionDenied | ErrorKind::Unavailable);
            if is_refusal
                && let Ok(mut connection) = Connection::open(&backend.config, &backend.keys, cx, &doing).await
            {
                match connection.soa(&zone, &text, &doing).await {
                    Ok(None) => return Err(not_served(&backend.config.server, &text)),
                    Err(other) if other.kind == ErrorKind::PermissionDenied => return Err(other),
                    _ => {}
                }
            }
            return Err(error);
        }
    };
    resources.push(Observed { owner: Owner::System, ..Observed::new(record::zone_id(scope), record::ZONE) });
    resources.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    Ok(Observation { covered: Focus::All, complete: true, version: backend.version(&soa), resources })
}

/// RRsets of single records, which are sorted.
fn resources(list: &[Row], zone: &str) -> Vec<Observed> {
    let mut out: Vec<Observed> = Vec::with_capacity(list.len() + 1);
    let mut collector = Collector::default();
    for set in list.chunk_by(|a, b| a.0 == b.0) {
        let Some((id, ttl, _)) = set.first() else { continue };
        for (_, own, value) in set {
            let value =
                if own == ttl { Cow::Borrowed(&**value) } else { record::with_ttl(*own, value).into() };
            collector.add_canonical(value);
        }
        let mut observed = Observed::new(id.clone(), collector.finish(*ttl));
        if let Some((name, "SOA" | "NS")) = record::parts(id)
            && name == zone
        {
            observed.owner = Owner::System;
        }
        out.push(observed);
    }
    out
}

/// The zone called `query`: DNS has no list of zones.
pub(crate) async fn discover(backend: &Backend, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
    let zone = name::Name::zone(query).ok().filter(|_| !query.contains(['*', '?'])).ok_or_else(|| {
        Error::invalid(format!("`{query}` is not the name of one zone"))
            .hint("a DNS server does not list its zones: name one, such as `example.com`")
    })?;
    let scope = record::scope(&backend.entry, &zone);
    let resources = observe(backend, cx, &scope).await?.resources;
    Ok(vec![Found::new(scope, resources)])
}
