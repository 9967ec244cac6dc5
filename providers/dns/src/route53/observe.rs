//! Reading: zones by name, and all sets of a zone, page by page.
//!
//! Route 53 has no change token. Its lists are ordered by name and go on from a name, so what changes meanwhile
//! moves no page.

use super::{
    backend::Backend,
    client::{Refusal, Said},
    routing,
    xml::{self, SetBody, SetList, ZoneList, ZonesByName},
};
use crate::{misses::BY_NAME, name, rdata::is_signer_type, record};
use reconciled_provider::{
    Cx, Error, Focus, Found, Observation, Observed, Owner, Scope, Version, Want, address::glob,
    problem::did_you_mean,
};
use reqwest::Method;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::PoisonError,
};

/// Zones in one answer.
const ZONES: &str = "100";
/// Sets in one answer.
const SETS: &str = "300";
/// The same as a number.
const PAGE: usize = 300;
/// Name and type.
pub(crate) type Key = (String, String);

/// The sets of one name and type: one, or several with a routing policy.
#[derive(Clone, Debug)]
pub(crate) struct Set(pub(crate) Vec<SetBody>);

impl Set {
    /// Canonical bytes; `zone` is the id of the zone.
    pub(crate) fn bytes(&self, zone: &str) -> Vec<u8> {
        routing::encode(&self.0, zone)
    }
}

/// The id of a zone; none when there is none of that name.
pub(crate) async fn zone_id(backend: &Backend, cx: &Cx, zone: &str) -> Result<Option<String>, Error> {
    let known = || backend.zones.lock().unwrap_or_else(PoisonError::into_inner).get(zone).cloned();
    if let Some(id) = known() {
        return Ok(Some(id));
    }
    let mut turn = backend.misses.turn().await;
    if let Some(id) = known() {
        return Ok(Some(id));
    }
    if turn.is_listed && !backend.chosen.contains_key(zone) {
        return Ok(None);
    }
    if turn.is_for_all() {
        let mut found = all_zones(backend, cx).await?;
        turn.listed();
        let mine = found.remove(zone);
        for (name, ids) in found {
            // Which of several is meant is an error of that zone alone: reading it says so.
            let _ = remember(backend, &name, Some(ids));
        }
        return remember(backend, zone, mine);
    }
    let name = xml::octal_name(zone);
    let query = [("dnsname", &*name), ("maxitems", ZONES)];
    let doing = format!("look up zone {zone}");
    let call = backend.api.call::<ZonesByName>(cx, Method::GET, "/hostedzonesbyname", &query, None, &doing);
    let list = call.await.map_err(Refusal::into_error)?;
    let found = collect(backend, &list.hosted_zones.list).remove(zone);
    remember(backend, zone, found)
}

fn remember(backend: &Backend, zone: &str, found: Option<Vec<String>>) -> Result<Option<String>, Error> {
    let id = meant(backend, zone, found.as_deref());
    let mut known = backend.zones.lock().unwrap_or_else(PoisonError::into_inner);
    match &id {
        Ok(Some(id)) => drop(known.insert(zone.to_owned(), id.clone())),
        Ok(None) | Err(_) => drop(known.remove(zone)),
    }
    id
}

/// Which of the zones of one name is meant: the one that the entry names, else the only one.
fn meant(backend: &Backend, zone: &str, found: Option<&[String]>) -> Result<Option<String>, Error> {
    let found = found.unwrap_or_default();
    let ids = || found.join(", ");
    match (backend.chosen.get(zone), found) {
        (Some(id), found) if found.contains(id) => Ok(Some(id.clone())),
        (Some(id), found) => {
            let kind = if backend.config.private { "private" } else { "public" };
            let text = format!(
                "{} has no {kind} zone {zone} with the id {id}, as `zoneIds` says",
                backend.api.address()
            );
            Err(Error::invalid(text).hint(match found {
                [] => format!("it has no {kind} zone of that name: take it out of `zoneIds`"),
                _ => format!("what it has of that name: {}", ids()),
            }))
        }
        (None, []) => Ok(None),
        (None, [id]) => Ok(Some(id.clone())),
        (None, _) => {
            let text = format!("{} has several zones called {zone}", backend.api.address());
            Err(Error::invalid(text).hint(format!(
                "say which one is meant, as `zoneIds: {{{zone}: ID}}` of the entry: {}",
                ids()
            )))
        }
    }
}

/// Ids by name, of public zones or of private ones.
fn collect(backend: &Backend, list: &[xml::HostedZone]) -> HashMap<String, Vec<String>> {
    let mut out: HashMap<String, Vec<String>> = HashMap::new();
    for zone in list {
        let is_private = zone.config.as_ref().is_some_and(|config| config.private_zone);
        if is_private == backend.config.private {
            let name = xml::name(&zone.name).trim_end_matches('.').to_owned();
            let id = zone.id.trim_start_matches("/hostedzone/").to_owned();
            out.entry(name).or_default().push(id);
        }
    }
    out
}

async fn all_zones(backend: &Backend, cx: &Cx) -> Result<HashMap<String, Vec<String>>, Error> {
    let (mut zones, mut marker) = (Vec::new(), String::new());
    loop {
        let mut query = vec![("maxitems", ZONES)];
        if !marker.is_empty() {
            query.push(("marker", &marker));
        }
        let call = backend.api.call::<ZoneList>(cx, Method::GET, "/hostedzone", &query, None, "list zones");
        let list = call.await.map_err(Refusal::into_error)?;
        zones.extend(list.hosted_zones.list);
        if !list.is_truncated {
            return Ok(collect(backend, &zones));
        }
        // The same page again would be asked for without end.
        let next = list.next_marker.filter(|next| !next.is_empty() && *next != marker);
        marker = next.ok_or_else(|| cut_off("list zones"))?;
    }
}

fn cut_off(doing: &str) -> Error {
    Error::unexpected(format!("{doing}: the list goes on and does not say where"))
}

/// Which scopes are not there; what is there has no token.
pub(crate) async fn versions(
    backend: &Backend,
    cx: &Cx,
    scopes: &[Scope],
) -> Result<BTreeMap<Scope, Version>, Error> {
    let mut versions = BTreeMap::new();
    if scopes.len() <= BY_NAME {
        for scope in scopes {
            backend.zones.lock().unwrap_or_else(PoisonError::into_inner).remove(&*scope.name);
            if zone_id(backend, cx, &scope.name).await?.is_none() {
                versions.insert(scope.clone(), Version::Absent);
            }
        }
        return Ok(versions);
    }
    let mut found = all_zones(backend, cx).await?;
    for scope in scopes {
        // That nobody can tell which one is meant is an error of that zone alone: reading it says so.
        if let Ok(None) = remember(backend, &scope.name, found.remove(&*scope.name)) {
            versions.insert(scope.clone(), Version::Absent);
        }
    }
    Ok(versions)
}

/// Reads a zone; none when there is no such zone.
pub(crate) async fn read(
    backend: &Backend,
    cx: &Cx,
    zone: &str,
) -> Result<Option<(String, BTreeMap<Key, Set>)>, Error> {
    read_of(backend, cx, zone, None).await
}

/// Reads what a zone has at these names, and perhaps all the rest with it; none when there is no such zone.
///
/// A name costs a request, as a page of all sets does.
pub(crate) async fn read_at(
    backend: &Backend,
    cx: &Cx,
    zone: &str,
    names: &BTreeSet<&str>,
) -> Result<Option<(String, BTreeMap<Key, Set>)>, Error> {
    let size = backend.sizes.lock().unwrap_or_else(PoisonError::into_inner).get(zone).copied();
    let is_less = size.is_some_and(|size| names.len() < size.div_ceil(PAGE));
    read_of(backend, cx, zone, is_less.then_some(names)).await
}

async fn read_of(
    backend: &Backend,
    cx: &Cx,
    zone: &str,
    names: Option<&BTreeSet<&str>>,
) -> Result<Option<(String, BTreeMap<Key, Set>)>, Error> {
    // Once more where a zone that is remembered is gone: it may have been made anew.
    for _ in 0..2 {
        let Some(id) = zone_id(backend, cx, zone).await? else { return Ok(None) };
        let read = match names {
            Some(names) => sets_at(backend, cx, zone, &id, names).await,
            None => all_sets(backend, cx, zone, &id).await.inspect(|sets| {
                let mut sizes = backend.sizes.lock().unwrap_or_else(PoisonError::into_inner);
                sizes.insert(zone.to_owned(), sets.len());
            }),
        };
        match read {
            Ok(sets) => return Ok(Some((id, sets))),
            Err(Refusal::Refused(_, said)) if said.code == "NoSuchHostedZone" => {
                backend.zones.lock().unwrap_or_else(PoisonError::into_inner).remove(zone);
            }
            Err(refusal) => return Err(refusal.into_error()),
        }
    }
    Err(Error::conflict(format!("zone {zone} was removed while it was read")))
}

/// All sets. A list without a SOA is not all of them: no zone is without one.
async fn all_sets(backend: &Backend, cx: &Cx, zone: &str, id: &str) -> Result<BTreeMap<Key, Set>, Refusal> {
    let sets = sets(backend, cx, zone, id, None).await?;
    let apex = format!("{zone}.");
    if sets.keys().any(|(name, kind)| *name == apex && kind == "SOA") {
        return Ok(sets);
    }
    let error = Error::unexpected(format!("read zone {zone}: the list has no SOA"))
        .hint("the answer was cut, or is not of Route 53: look at `url` and at what stands before it");
    Err(Refusal::Refused(error, Said::default()))
}

async fn sets_at(
    backend: &Backend,
    cx: &Cx,
    zone: &str,
    id: &str,
    names: &BTreeSet<&str>,
) -> Result<BTreeMap<Key, Set>, Refusal> {
    let mut all = BTreeMap::new();
    for name in names {
        all.append(&mut sets(backend, cx, zone, id, Some(name)).await?);
    }
    Ok(all)
}

/// All sets, or those of one name, with which the list then begins.
async fn sets(
    backend: &Backend,
    cx: &Cx,
    zone: &str,
    id: &str,
    only: Option<&str>,
) -> Result<BTreeMap<Key, Set>, Refusal> {
    let (path, doing) = (format!("/hostedzone/{id}/rrset"), format!("read zone {zone}"));
    let mut sets: BTreeMap<Key, Set> = BTreeMap::new();
    let is_other = |name: &str| only.is_some_and(|only| only != xml::name(name));
    let mut start = only.map(|name| (xml::octal_name(name).to_string(), None, None));
    loop {
        let mut query = vec![("maxitems", SETS)];
        if let Some((name, kind, identifier)) = &start {
            query.push(("name", name));
            query.extend(kind.as_deref().map(|kind: &str| ("type", kind)));
            query.extend(identifier.as_deref().map(|identifier: &str| ("identifier", identifier)));
        }
        let list: SetList = backend.api.call(cx, Method::GET, &path, &query, None, &doing).await?;
        for set in list.resource_record_sets.list.into_iter().filter(|set| !is_other(&set.name)) {
            let key = (xml::name(&set.name), set.r#type.clone());
            sets.entry(key).or_insert_with(|| Set(Vec::new())).0.push(set);
        }
        if !list.is_truncated {
            return Ok(sets);
        }
        let (Some(name), Some(kind)) = (list.next_record_name, list.next_record_type) else {
            return Err(Refusal::Refused(cut_off(&doing), Said::default()));
        };
        if is_other(&name) {
            return Ok(sets);
        }
        let next = (name, Some(kind), list.next_record_identifier);
        if start.as_ref() == Some(&next) {
            return Err(Refusal::Refused(cut_off(&doing), Said::default()));
        }
        start = Some(next);
    }
}

fn resources(sets: &BTreeMap<Key, Set>, zone: &str, scope: &Scope) -> Vec<Observed> {
    let apex = record::zone_name(scope);
    let mut out = vec![Observed::new(record::zone_id(scope), record::ZONE)];
    for ((name, kind), set) in sets {
        let bytes = set.bytes(zone);
        let mut observed = Observed::new(record::id(name, kind), bytes);
        if is_signer_type(kind) || (*name == apex && matches!(kind.as_str(), "SOA" | "NS")) {
            observed.owner = Owner::System;
        }
        out.push(observed);
    }
    out.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    out
}

/// Reads what `want` asks for, and all the rest of the zone with it.
pub(crate) async fn observe(backend: &Backend, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
    let read = read(backend, cx, &want.scope.name).await?;
    let (version, resources) = match &read {
        None => (Version::Absent, Vec::new()),
        Some((id, sets)) => (Version::Unknown, resources(sets, id, want.scope)),
    };
    Ok(Observation { covered: Focus::All, complete: true, version, resources })
}

/// Zones whose name matches `query`, with everything in them.
pub(crate) async fn discover(backend: &Backend, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
    let wanted = name::observed(query).trim_end_matches('.').to_owned();
    let zones = all_zones(backend, cx).await?;
    for zone in backend.chosen.keys() {
        meant(backend, zone, zones.get(zone).map(Vec::as_slice))?;
    }
    let mut names: Vec<String> = zones.into_keys().collect();
    names.sort();
    let mut found = Vec::new();
    for name in names.iter().filter(|name| glob(&wanted, name)) {
        let scope = Scope::new(backend.entry.clone(), name.as_str());
        if let Some((id, sets)) = read(backend, cx, name).await? {
            found.push(Found::new(scope.clone(), resources(&sets, &id, &scope)));
        }
    }
    if found.is_empty() && !wanted.contains(['*', '?']) {
        let near = did_you_mean(&wanted, names.iter().map(String::as_str));
        let hint = near.map_or("`*` lists every zone".into(), |near| format!("did you mean `{near}`?"));
        return Err(Error::invalid(format!("{} has no zone `{wanted}`", backend.api.address())).hint(hint));
    }
    Ok(found)
}
