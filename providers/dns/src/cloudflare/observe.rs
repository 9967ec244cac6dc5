//! Reading: all records of a zone, page by page, grouped to RRsets.
//!
//! Cloudflare has no change token, so a zone is read whole each time, and `versions` knows only which zones are
//! not there.
//! Guarantees: a zone is a whole or an error. The pages must agree on how many records there are, and no record
//! may come twice; what changed while it was read is read again by the engine.
//! Caveat: a record that somebody removes and another that somebody adds between two pages of one read can hide
//! a third for that one observation. What is hidden is at worst created again, which Cloudflare refuses.

use super::{
    backend::Backend,
    data,
    dialect::{AUTO, Extra},
    mark,
    set::{self, Seen},
    zones::{self, Zone},
};
use crate::{
    name,
    record::{self, RrSet},
};
use reconciled_provider::{
    Cx, Error, Focus, Found, Observation, Observed, Owner, Resource, Scope, Version, Want, address::glob,
    problem::did_you_mean,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Records in one answer; more are refused.
const PER_PAGE: usize = 5_000;

#[derive(Debug, Deserialize)]
struct RecordBody {
    id: String,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    content: Option<String>,
    priority: Option<u32>,
    data: Option<Map<String, Value>>,
    ttl: u32,
    proxied: Option<bool>,
    comment: Option<String>,
    tags: Option<Vec<String>>,
    meta: Option<Meta>,
}

#[derive(Debug, Default, Deserialize)]
struct Meta {
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    email_routing: bool,
}

impl RecordBody {
    fn seen(&self) -> Seen {
        let content = self.content.as_deref().unwrap_or_default();
        let proxied = self.proxied.unwrap_or(false);
        let tags = self.tags.as_deref().unwrap_or_default();
        let meta = self.meta.as_ref();
        Seen {
            id: self.id.clone(),
            value: data::read(&self.kind, content, self.priority, self.data.as_ref()),
            // Forced by Cloudflare, whatever the answer says.
            ttl: if proxied { AUTO } else { self.ttl },
            proxied,
            marked: mark::split(self.comment.as_deref().unwrap_or_default(), tags),
            is_system: meta.is_some_and(|meta| meta.read_only || meta.email_routing),
        }
    }
}

/// Name and type of a set.
pub(crate) type Key = (String, String);

/// A zone as it was read.
#[derive(Debug)]
pub(crate) struct ZoneRead {
    /// Where it is.
    pub(crate) zone: Zone,
    /// Its records by canonical name and type.
    pub(crate) sets: BTreeMap<Key, Vec<Seen>>,
}

/// Which scopes are not there; what is there has no token that is cheaper than reading it.
pub(crate) async fn versions(
    backend: &Backend,
    cx: &Cx,
    scopes: &[Scope],
) -> Result<BTreeMap<Scope, Version>, Error> {
    let names: Vec<&str> = scopes.iter().map(|scope| &*scope.name).collect();
    let exist = backend.zones.look_up_all(&backend.api, cx, &names).await?;
    let missing = scopes.iter().zip(exist).filter(|(_, exists)| !exists);
    Ok(missing.map(|(scope, _)| (scope.clone(), Version::Absent)).collect())
}

/// Reads a zone; none when the token sees no zone of that name.
pub(crate) async fn read(backend: &Backend, cx: &Cx, scope: &Scope) -> Result<Option<ZoneRead>, Error> {
    if let Some(zone) = backend.zones.remembered(&scope.name) {
        match records(backend, cx, scope, &zone).await {
            // Removed, or removed and made anew with another id.
            Err(error) if error.kind == reconciled_provider::ErrorKind::Conflict => {
                if backend.zones.look_up(&backend.api, cx, &scope.name).await?.is_none() {
                    return Ok(None);
                }
            }
            result => return result.map(Some),
        }
    }
    match backend.zones.find(&backend.api, cx, &scope.name).await? {
        Some(zone) => records(backend, cx, scope, &zone).await.map(Some),
        None => Ok(None),
    }
}

async fn records(backend: &Backend, cx: &Cx, scope: &Scope, zone: &Zone) -> Result<ZoneRead, Error> {
    let path = format!("/zones/{}/dns_records", zone.id);
    let doing = format!("read zone {}", scope.name);
    let moved = || Error::conflict(format!("{doing}: it changed while it was read"));
    let (mut bodies, mut ids, mut total) = (Vec::new(), HashSet::new(), None);
    for number in 1.. {
        let page = backend.api.page::<RecordBody>(cx, &path, &[], number, PER_PAGE, &doing).await?;
        if *total.get_or_insert(page.total) != page.total {
            return Err(moved());
        }
        for body in page.items {
            if !ids.insert(body.id.clone()) {
                return Err(moved());
            }
            bodies.push(body);
        }
        if number >= page.pages {
            break;
        }
    }
    if total != Some(bodies.len()) {
        return Err(moved());
    }
    let mut sets: BTreeMap<Key, Vec<Seen>> = BTreeMap::new();
    let apex = record::zone_name(scope);
    for body in &bodies {
        let name = name::observed(&format!("{}.", body.name)).into_owned();
        // At the zone itself Cloudflare answers with what a CNAME leads to, which elsewhere is called ALIAS.
        let kind = if body.kind == "CNAME" && name == apex { "ALIAS" } else { &body.kind };
        sets.entry((name, kind.to_owned())).or_default().push(body.seen());
    }
    Ok(ZoneRead { zone: zone.clone(), sets })
}

/// The zone and its sets as resources, sorted by id.
fn resources(read: &ZoneRead, scope: &Scope, instance: &str, desired: &[Resource]) -> Vec<Observed> {
    let wanted: HashMap<&str, Extra> = desired
        .iter()
        .filter_map(|r| Some((&*r.id.0, Extra::parse(RrSet::decode(r.spec.bytes()?)?.extra))))
        .collect();
    let apex = record::zone_name(scope);
    let mut out = vec![Observed::new(record::zone_id(scope), record::ZONE)];
    for ((name, kind), records) in &read.sets {
        let id = record::id(name, kind);
        let view = set::view(records, wanted.get(&*id.0));
        let mut observed = Observed::new(id, view.bytes);
        observed.owner = match set::owner(records, instance) {
            Owner::Unmarked if *name == apex && matches!(kind.as_str(), "NS" | "SOA") => Owner::System,
            owner => owner,
        };
        out.push(observed);
    }
    out.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    out
}

/// Reads what `want` asks for, and all the rest of the zone with it.
pub(crate) async fn observe(backend: &Backend, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
    let read = read(backend, cx, want.scope).await?;
    let (version, resources) = match &read {
        None => (Version::Absent, Vec::new()),
        Some(read) => (Version::Unknown, resources(read, want.scope, &backend.instance, want.desired)),
    };
    Ok(Observation { covered: Focus::All, complete: true, version, resources })
}

/// Zones whose name matches `query`, with everything in them.
pub(crate) async fn discover(backend: &Backend, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
    let wanted = zones::canonical(query.trim_end_matches('.'));
    let bodies = zones::list(&backend.api, cx, &[]).await?;
    let mut names: Vec<String> = bodies.into_iter().map(|zone| zone.name).collect();
    names.sort();
    names.dedup();
    let mut found = Vec::new();
    for name in names.iter().filter(|name| glob(&wanted, name)) {
        let scope = Scope::new(backend.entry.clone(), name.as_str());
        if let Some(read) = read(backend, cx, &scope).await? {
            let resources = resources(&read, &scope, &backend.instance, &[]);
            found.push(Found::new(scope, resources));
        }
    }
    if found.is_empty() && !wanted.contains(['*', '?']) {
        let near = did_you_mean(&wanted, names.iter().map(String::as_str));
        let hint = near.map_or("`*` lists every zone that the token sees".into(), |near| {
            format!("did you mean `{near}`?")
        });
        let text = format!("{} shows no zone `{wanted}` to this token", backend.api.address());
        return Err(Error::invalid(text).hint(hint));
    }
    Ok(found)
}
