//! Reading: one list of all records, shared out to the zones.
//!
//! The protocol knows no zones and no change tokens. The version of a zone is a hash of what was read of it, so
//! that one list tells of every zone whether it changed. A list that [`versions`] read is kept for the zones
//! that are read next, each once and for [`FRESH`] at most.
//! A TTL that the provider does not report is 0, whatever is declared: an observation says only what was seen.
//! A zone without records is absent: nobody can see the difference, and there is nothing to create.
//! A list without any record is what a provider says as well that has lost its credentials, or swallows an error. Where a zone
//! tracks something it is believed only once it was said twice, [`DOUBT`] apart.
//! Where zones lie within each other, a record belongs to the innermost of those that this entry heard of; but one that a
//! zone tracks is that zone's until a zone within it declares it: a zone that was only planned, or refused, takes nothing
//! else away from it, and what is declared no longer is deleted.
//! Caveat: a change of such a record by hand is no part of its zone's version, and is seen at the next full read.

use super::{
    backend::{Backend, Snapshot},
    endpoint::{self, Key, Set},
    filter::Filter,
};
use crate::{
    name,
    record::{self, DEFAULT_TTL},
};
use bytes::Bytes;
use reconciled_provider::{
    Cx, Error, Focus, Found, Hash, Observation, Observed, ResourceId, Scope, Version, Want, address::glob,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::PoisonError,
    time::Duration,
};

/// How long a list may serve zones that are read after it.
const FRESH: Duration = Duration::from_secs(5);

/// How long a list must go on without any record until that is believed.
const DOUBT: Duration = Duration::from_secs(60);

/// Everything the provider has.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) filter: Filter,
    /// By name and type, whatever zone it is in.
    pub(crate) sets: BTreeMap<Key, Set>,
    /// For how long the provider has said that it has nothing at all, where it says so.
    nothing_for: Option<Duration>,
}

/// Asks for everything.
pub(crate) async fn read(backend: &Backend, cx: &Cx) -> Result<Read, Error> {
    let filter = backend.remote.negotiate(cx).await?;
    let sets = endpoint::group(backend.remote.records(cx).await?);
    let nothing_for = backend.nothing_for(cx.clock.now(), sets.is_empty());
    Ok(Read { filter, sets, nothing_for })
}

impl Read {
    /// The records of `zone`; of zones within it that this entry heard of, nothing.
    pub(crate) fn zone(&self, backend: &Backend, zone: &str) -> BTreeMap<Key, Set> {
        self.of(zone, &backend.heard())
    }
    fn of(&self, zone: &str, heard: &HashSet<String>) -> BTreeMap<Key, Set> {
        let own = self.sets.iter().filter(|(key, _)| innermost(&key.0, heard) == Some(zone));
        own.map(|(key, set)| (key.clone(), set.clone())).collect()
    }
    /// The records of every zone that this entry heard of.
    fn zones(&self, backend: &Backend) -> HashMap<&str, BTreeMap<Key, Set>> {
        let heard = backend.heard();
        let mut zones: HashMap<&str, BTreeMap<Key, Set>> = HashMap::new();
        for (key, set) in &self.sets {
            if let Some(zone) = innermost(&key.0, &heard) {
                zones.entry(zone).or_default().insert(key.clone(), set.clone());
            }
        }
        zones
    }
    /// Errors: the provider serves nothing of `zone`.
    pub(crate) fn serves(&self, backend: &Backend, zone: &str) -> Result<(), Error> {
        if self.filter.touches(zone) {
            return Ok(());
        }
        let text = format!("the provider at {} does not serve {zone}", backend.remote.address());
        Err(Error::invalid(text).hint(format!("its domain filter is: {}", self.filter.shown())))
    }
}

/// The innermost zone that holds `name`.
fn innermost<'n>(name: &'n str, zones: &HashSet<String>) -> Option<&'n str> {
    let mut rest = name;
    loop {
        let zone = rest.strip_suffix('.').unwrap_or(rest);
        if zones.contains(zone) {
            return Some(zone);
        }
        if rest == "." {
            return None;
        }
        rest = name::parent(rest);
    }
}

/// The token of a zone with these records, for the instance of the entry: what marks say depends on whose word that is, so an instance
/// with another name reads what it knew once more.
pub(crate) fn version(backend: &Backend, sets: &BTreeMap<Key, Set>) -> Version {
    if sets.is_empty() {
        return Version::Absent;
    }
    let mut text = Vec::new();
    for ((name, kind), set) in sets {
        text.extend_from_slice(format!("{name} {kind} ").as_bytes());
        text.extend_from_slice(&serde_json::to_vec(&set.sorted()).unwrap_or_default());
        text.push(b'\n');
    }
    let instance = &backend.config.options.ownership.instance;
    Version::At(Bytes::from([Hash::of(&text).0.as_slice(), instance.as_bytes()].concat()))
}

/// The tokens of all zones, from one list.
pub(crate) async fn versions(
    backend: &Backend,
    cx: &Cx,
    scopes: &[Scope],
) -> Result<BTreeMap<Scope, Version>, Error> {
    if scopes.is_empty() {
        return Ok(BTreeMap::new());
    }
    scopes.iter().for_each(|scope| backend.hear_of(&scope.name));
    let read = read(backend, cx).await?;
    let (at, nothing_for) = (cx.clock.now(), read.nothing_for);
    let mut zones = read.zones(backend);
    let mut told = |zone: &str| read.filter.touches(zone).then(|| zones.remove(zone).unwrap_or_default());
    let mut snapshot = Snapshot { at, zones: HashMap::new(), nothing_for };
    let mut versions = BTreeMap::new();
    for scope in scopes {
        if let Some(sets) = told(&scope.name) {
            versions.insert(scope.clone(), version(backend, &sets));
            snapshot.zones.insert(scope.name.to_string(), sets);
        }
    }
    let mut before = backend.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
    // Of one pass, what is known and what is new may be asked about one after the other.
    if at.saturating_sub(before.at) <= FRESH {
        let waiting = before.zones.keys().filter(|zone| !snapshot.zones.contains_key(*zone));
        for zone in waiting.cloned().collect::<Vec<_>>() {
            if let Some(sets) = told(&zone) {
                snapshot.zones.insert(zone, sets);
            }
        }
    }
    *before = snapshot;
    Ok(versions)
}

type OfZone = (BTreeMap<Key, Set>, Option<Duration>);

fn from_snapshot(backend: &Backend, cx: &Cx, scope: &Scope) -> Option<OfZone> {
    let mut snapshot = backend.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
    if cx.clock.now().saturating_sub(snapshot.at) > FRESH {
        snapshot.zones.clear();
    }
    Some((snapshot.zones.remove(&*scope.name)?, snapshot.nothing_for))
}

/// Forgets what was read before a write.
pub(crate) fn forget(backend: &Backend) {
    backend.snapshot.lock().unwrap_or_else(PoisonError::into_inner).zones.clear();
}

/// Reads a zone.
pub(crate) async fn observe(backend: &Backend, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
    let (zone, now) = (&*want.scope.name, cx.clock.now());
    backend.hear_of(zone);
    backend.declared.lock().unwrap_or_else(PoisonError::into_inner).seen(zone, want.desired, now);
    let kept = kept(backend, want);
    let mut others = BTreeMap::new();
    let (mut sets, nothing_for) = match from_snapshot(backend, cx, want.scope).filter(|_| kept.is_empty()) {
        Some(of_zone) => of_zone,
        None => {
            let mut read = read(backend, cx).await?;
            read.serves(backend, &want.scope.name)?;
            let sets = read.zone(backend, &want.scope.name);
            others.extend(kept.into_iter().filter_map(|key| read.sets.remove_entry(&key)));
            (sets, read.nothing_for)
        }
    };
    if !want.tracked.is_empty() && nothing_for.is_some_and(|nothing_for| nothing_for < DOUBT) {
        return Err(doubtful(
            backend,
            &format!("while {} of {} are tracked", want.tracked.len(), want.scope.name),
        ));
    }
    let version = version(backend, &sets);
    sets.append(&mut others);
    Ok(Observation { covered: Focus::All, complete: true, version, resources: resources(&sets, 0) })
}

/// Nobody deletes everything but by mistake.
pub(crate) fn doubtful(backend: &Backend, although: &str) -> Error {
    let address = backend.remote.address();
    let text = format!("the provider at {address} says that it has no records at all, {although}");
    Error::unavailable(text).hint(
        "look at its log and its credentials; if everything was deleted: it is believed once the provider says so again \
         a minute later",
    )
}

/// What a zone tracks although a zone within it was heard of that would have it.
///
/// Nobody says whether that zone is in force. What a manifest declares there and this zone does not declare any longer goes
/// over to it: at worst it is forgotten where it stands. All else has to be seen here, or it would never be deleted.
fn kept(backend: &Backend, want: &Want<'_>) -> Vec<Key> {
    let (heard, zone) = (backend.heard(), &*want.scope.name);
    let desired: HashSet<&ResourceId> = want.desired.iter().map(|desired| &desired.id).collect();
    let tracked = want.tracked.iter().filter_map(|tracked| Some((&tracked.id, record::parts(&tracked.id)?)));
    let others = tracked.filter(|(_, (name, _))| innermost(name, &heard) != Some(zone));
    let kept =
        others.filter(|(id, (name, _))| desired.contains(id) || !backend.is_handed_down(zone, id, name));
    kept.map(|(_, (name, kind))| (name.to_owned(), kind.to_owned())).collect()
}

/// The sets as resources; `ttl` is that of sets of which the provider tells none.
fn resources(sets: &BTreeMap<Key, Set>, ttl: u32) -> Vec<Observed> {
    let mut out = Vec::with_capacity(sets.len());
    for ((name, kind), set) in sets {
        let id = record::id(name, kind);
        let bytes = set.bytes(ttl);
        out.push(Observed::new(id, bytes));
    }
    out.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    out
}

/// The zone that `query` names, or those of the domain filter that fit it.
pub(crate) async fn discover(backend: &Backend, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
    let wanted = query.trim_end_matches('.').to_ascii_lowercase();
    let read = read(backend, cx).await?;
    let names: Vec<String> = match wanted.contains(['*', '?']) {
        true => read.filter.names().filter(|name| glob(&wanted, name)).map(str::to_owned).collect(),
        false => vec![wanted.clone()],
    };
    if names.is_empty() {
        let text = format!("the provider at {} names no zone that fits `{wanted}`", backend.remote.address());
        return Err(Error::invalid(text).hint("the protocol knows no zones: write the name of one"));
    }
    // For this look only: whoever imports a zone does not declare it.
    let mut heard = backend.heard();
    heard.extend(names.iter().cloned());
    let mut found = Vec::new();
    for name in names {
        read.serves(backend, &name)?;
        let scope = Scope::new(backend.entry.clone(), name.as_str());
        let mut resources = resources(&read.of(&name, &heard), DEFAULT_TTL);
        // So that what is exported declares the zone and not only records for it.
        resources.push(Observed::new(record::zone_id(&scope), record::ZONE));
        resources.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        found.push(Found::new(scope, resources));
    }
    Ok(found)
}
