//! Reading: the serials of every zone in one call, and a zone with its records.
//!
//! A serial is a change token only where the server raises it at every change through the API
//! (`soa_edit_api`). The list of zones does not say where that is so; the zone itself does. Therefore a read
//! of a zone gives the token [`Version::At`] only for such zones, and `versions` gives a token for every zone:
//! the two are equal exactly when an earlier read was sound and the serial stands still.
//! Caveats: a change made in the server's database past its API, and a zone deleted and created again within
//! a day up to the same serial, go unseen until the next full read. The list tells nothing that always differs for such a
//! zone, so one that is made here begins at another serial than others do (`serial_before` of `zone`).

use super::{
    backend::Backend,
    client::{Failure, zone_path},
    made::Made,
    zone::{ZoneRead, parse_zone, token},
};
use crate::{http::Answer, name, record};
use reconciled_provider::{
    Cx, Error, Focus, Found, Observation, Observed, ResourceId, Scope, Version, Want, address::glob,
    problem::did_you_mean,
};
use reqwest::Method;
use serde::Deserialize;
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Most RRsets that are asked for one by one. Each costs the server about a third of a full read, because it
/// walks the whole zone for it.
const FOCUSED: usize = 3;

#[derive(Deserialize)]
struct ListedZone<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    serial: u32,
}

/// Tokens of many zones, by one call. Who asks for one does not pay for a list of all.
pub(crate) async fn versions(
    backend: &Backend,
    cx: &Cx,
    scopes: &[Scope],
) -> Result<BTreeMap<Scope, Version>, Error> {
    let listed = match scopes {
        [scope] => list_of(backend, cx, scope, "list zones").await?,
        _ => list(backend, cx).await?,
    };
    let zones = parse_list(backend, &listed)?;
    let serials: HashMap<Cow<'_, str>, u32> =
        zones.iter().map(|z| (name::observed(&z.name), z.serial)).collect();
    let version = |scope: &Scope| {
        let serial = serials.get(record::zone_name(scope).as_str());
        (scope.clone(), serial.map_or(Version::Absent, |serial| token(*serial, &backend.instance)))
    };
    Ok(scopes.iter().map(version).collect())
}

async fn list(backend: &Backend, cx: &Cx) -> Result<Answer, Error> {
    let call = backend.client.call(cx, Method::GET, "/zones?dnssec=false", None, "list zones");
    call.await.map_err(Failure::into_error)
}

/// The list of the one zone, empty where it is missing.
async fn list_of(backend: &Backend, cx: &Cx, scope: &Scope, doing: &str) -> Result<Answer, Error> {
    let zone = record::zone_name(scope);
    let query: String =
        url::form_urlencoded::Serializer::new(String::new()).append_pair("zone", &zone).finish();
    let path = format!("/zones?dnssec=false&{query}");
    let call = backend.client.call(cx, Method::GET, &path, None, doing);
    call.await.map_err(Failure::into_error)
}

fn parse_list<'a>(backend: &Backend, answer: &'a Answer) -> Result<Vec<ListedZone<'a>>, Error> {
    serde_json::from_slice(&answer.body).map_err(|error| malformed(backend, "list zones", answer, error))
}

/// An answer that is no answer of the API: never taken for an empty one.
fn malformed(backend: &Backend, doing: &str, answer: &Answer, error: serde_json::Error) -> Error {
    Error::unexpected(format!(
        "{doing} at {}: the answer is not what the API gives",
        backend.client.address()
    ))
    .hint("is `url` the API of a PowerDNS Authoritative Server, 4.7 or newer?")
    .caused_by(answer.malformed(error))
}

/// Reads what `want` asks for; more where that is cheaper.
pub(crate) async fn observe(backend: &Backend, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
    if let Focus::Only(ids) = want.focus {
        // What nobody tracks may carry the mark of another tool in a record beside it, which only a full
        // read sees.
        let is_tracked = |id: &ResourceId| want.tracked.iter().any(|tracked| tracked.id == *id);
        if ids.len() <= FOCUSED
            && ids.iter().all(is_tracked)
            && let Some(observation) = focused(backend, cx, want.scope, ids).await?
        {
            return Ok(observation);
        }
    }
    let zone = match backend.take_made(&want.scope.name) {
        Some(made) => exported(backend, cx, want.scope, made).await,
        None => None,
    };
    let zone = match zone {
        Some(zone) => Some(zone),
        None => full(backend, cx, want.scope).await?,
    };
    Ok(zone.map_or_else(absent, |zone| Observation {
        covered: Focus::All,
        complete: true,
        version: zone.version,
        resources: zone.resources,
    }))
}

fn absent() -> Observation {
    Observation { covered: Focus::All, complete: true, version: Version::Absent, resources: Vec::new() }
}

/// Reads the whole zone; none when there is no such zone.
///
/// Errors: the list has no SOA. No zone is without one, so it is not all of it.
pub(crate) async fn full(backend: &Backend, cx: &Cx, scope: &Scope) -> Result<Option<ZoneRead>, Error> {
    let zone = read(backend, cx, scope, "").await?;
    let soa = record::id(&record::zone_name(scope), "SOA");
    if let Some(zone) = &zone
        && zone.resources.binary_search_by(|observed| observed.id.cmp(&soa)).is_err()
    {
        let text = format!("read zone {} at {}: the list has no SOA", scope.name, backend.client.address());
        return Err(Error::unexpected(text).hint(
            "a secondary that was never transferred has none; else something before the server cut its answer",
        ));
    }
    Ok(zone)
}

/// Reads a zone that was made here and that nobody wrote to since, as text; none where that is not certain, or not answered.
async fn exported(backend: &Backend, cx: &Cx, scope: &Scope, made: Made) -> Option<ZoneRead> {
    let path = format!("{}/export", zone_path(&record::zone_name(scope)));
    let doing = format!("read zone {}", scope.name);
    let answer = backend.client.call(cx, Method::GET, &path, None, &doing).await.ok()?;
    let (serial, raise) = (made.serial, Some(made.raise));
    let resources = made.read(std::str::from_utf8(&answer.body).ok()?, scope)?;
    Some(ZoneRead { serial, version: token(serial, &backend.instance), raise, resources })
}

/// Reads the zone without its records; none when there is no such zone.
pub(crate) async fn probe(backend: &Backend, cx: &Cx, scope: &Scope) -> Result<Option<ZoneRead>, Error> {
    read(backend, cx, scope, "?rrsets=false").await
}

/// Reads a few RRsets. None when they were not read at one and the same serial.
async fn focused(
    backend: &Backend,
    cx: &Cx,
    scope: &Scope,
    ids: &Arc<[ResourceId]>,
) -> Result<Option<Observation>, Error> {
    let mut resources = Vec::with_capacity(ids.len() + 1);
    let mut version = None;
    for id in ids.iter() {
        let query = match record::parts(id) {
            Some((name, kind)) => {
                let query: String = url::form_urlencoded::Serializer::new(String::new())
                    .extend_pairs([("rrset_name", name), ("rrset_type", kind)])
                    .finish();
                format!("?{query}")
            }
            None => "?rrsets=false".into(),
        };
        let Some(zone) = read(backend, cx, scope, &query).await? else { return Ok(Some(absent())) };
        if version.get_or_insert_with(|| zone.version.clone()) != &zone.version {
            return Ok(None);
        }
        // Servers that do not know the parameters answer with everything.
        resources.extend(zone.resources.into_iter().filter(|observed| observed.id == *id));
    }
    resources.sort_by(|a: &Observed, b| a.id.cmp(&b.id));
    let version = version.unwrap_or_default();
    Ok(Some(Observation { covered: Focus::Only(ids.clone()), complete: true, version, resources }))
}

async fn read(backend: &Backend, cx: &Cx, scope: &Scope, query: &str) -> Result<Option<ZoneRead>, Error> {
    let path = format!("{}{query}", zone_path(&record::zone_name(scope)));
    let doing = format!("read zone {}", scope.name);
    let answer = match backend.client.call(cx, Method::GET, &path, None, &doing).await {
        Ok(answer) => answer,
        Err(failure) if failure.is_not_found() => {
            confirm_absence(backend, cx, scope, &doing).await?;
            return Ok(None);
        }
        Err(failure) => return Err(failure.into_error()),
    };
    let wants_records = query != "?rrsets=false";
    parse_zone(&answer.body, scope, &backend.instance, wants_records)
        .map(Some)
        .map_err(|error| malformed(backend, &doing, &answer, error))
}

/// Asks a second way whether a zone is missing: a 404 alone may come from a proxy, or from a server that is
/// no PowerDNS, and "the zone is gone" is too much to conclude from that.
async fn confirm_absence(backend: &Backend, cx: &Cx, scope: &Scope, doing: &str) -> Result<(), Error> {
    let zone = record::zone_name(scope);
    let listed = list_of(backend, cx, scope, doing).await?;
    if parse_list(backend, &listed)?.iter().any(|listed| name::observed(&listed.name) == zone) {
        return Err(Error::conflict(format!("zone {} came into being while it was read", scope.name)));
    }
    Ok(())
}

/// Zones whose name matches `query`, with everything in them.
pub(crate) async fn discover(backend: &Backend, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
    let listed = list(backend, cx).await?;
    let zones = parse_list(backend, &listed)?;
    let wanted = query.trim_end_matches('.').to_ascii_lowercase();
    let mut names: Vec<String> =
        zones.iter().map(|zone| name::observed(&zone.name).trim_end_matches('.').to_owned()).collect();
    names.sort();
    let mut found = Vec::new();
    for name in names.iter().filter(|name| glob(&wanted, name)) {
        let scope = Scope::new(backend.entry.clone(), name.as_str());
        // One that was never transferred keeps no other from being found.
        if let Some(zone) = read(backend, cx, &scope, "").await? {
            found.push(Found::new(scope, zone.resources));
        }
    }
    if found.is_empty() && !wanted.contains(['*', '?']) {
        let near = did_you_mean(&wanted, names.iter().map(String::as_str));
        let hint = near.map_or("`*` lists every zone".into(), |near| format!("did you mean `{near}`?"));
        return Err(Error::invalid(format!("{} has no zone `{wanted}`", backend.client.address())).hint(hint));
    }
    Ok(found)
}
