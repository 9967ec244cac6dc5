//! Reading: the serials of every zone in one call, and a zone with its records.
//!
//! A serial is a change token only where the server raises it at every change through the API
//! (`soa_edit_api`). The list of zones does not say where that is so; the zone itself does. Therefore a read
//! of a zone gives the token [`Version::At`] only for such zones, and `versions` gives a token for every zone:
//! the two are equal exactly when an earlier read was sound and the serial stands still.
//! Caveats: a change made in the server's database past its API, and a zone deleted and created again within
//! a day up to the same serial, go unseen until the next full read.

use super::{
    Backend,
    client::{Failure, zone_path},
};
use crate::{
    marker::{self, Marker},
    name,
    rdata::is_signer_type,
    record::{self, Collector},
};
use bytes::Bytes;
use reconciled_provider::{
    Cx, Error, Focus, Found, Observation, Observed, Owner, ResourceId, Scope, Sealed, Version, Want,
    address::glob, problem::did_you_mean,
};
use reqwest::Method;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

/// Most RRsets that are asked for one by one. Each costs the server about a third of a full read, because it
/// walks the whole zone for it.
const FOCUSED: usize = 3;

/// The account under which an instance marks its RRsets.
pub(crate) const ACCOUNT: &str = "reconciled";

/// Ways of keeping the serial that raise it at every change. Not `EPOCH`: two changes in one second share it.
const SOUND: [&str; 3] = ["DEFAULT", "INCREASE", "SOA-EDIT-INCREASE"];

#[derive(Deserialize)]
struct ListedZone<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    serial: u32,
}

/// The token of a zone whose serial is `serial`.
pub(crate) fn token(serial: u32) -> Version {
    Version::At(Bytes::from(format!("s:{serial}")))
}

/// Tokens of many zones, by one call.
pub(crate) async fn versions(
    backend: &Backend,
    cx: &Cx,
    scopes: &[Scope],
) -> Result<BTreeMap<Scope, Version>, Error> {
    let body = list(backend, cx).await?;
    let zones = parse_list(backend, &body)?;
    let serials: HashMap<Cow<'_, str>, u32> =
        zones.iter().map(|z| (name::observed(&z.name), z.serial)).collect();
    let version = |scope: &Scope| {
        let serial = serials.get(record::zone_name(scope).as_str());
        (scope.clone(), serial.map_or(Version::Absent, |serial| token(*serial)))
    };
    Ok(scopes.iter().map(version).collect())
}

async fn list(backend: &Backend, cx: &Cx) -> Result<Bytes, Error> {
    let call = backend.client.call(cx, Method::GET, "/zones?dnssec=false", None, "list zones");
    call.await.map_err(Failure::into_error)
}

fn parse_list<'a>(backend: &Backend, body: &'a [u8]) -> Result<Vec<ListedZone<'a>>, Error> {
    serde_json::from_slice(body).map_err(|error| malformed(backend, "list zones", error))
}

/// An answer that is no answer of the API: never taken for an empty one.
fn malformed(backend: &Backend, doing: &str, error: serde_json::Error) -> Error {
    Error::unexpected(format!(
        "{doing} at {}: the answer is not what the API gives",
        backend.client.address()
    ))
    .hint("is `url` the API of a PowerDNS Authoritative Server, 4.7 or newer?")
    .caused_by(error)
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
    Ok(full(backend, cx, want.scope).await?.map_or_else(absent, |zone| Observation {
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
pub(crate) async fn full(backend: &Backend, cx: &Cx, scope: &Scope) -> Result<Option<ZoneRead>, Error> {
    read(backend, cx, scope, "").await
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
    let body = match backend.client.call(cx, Method::GET, &path, None, &doing).await {
        Ok(body) => body,
        Err(failure) if failure.is_not_found() => return Ok(None),
        Err(failure) => return Err(failure.into_error()),
    };
    let wants_records = query != "?rrsets=false";
    parse_zone(&body, scope, &backend.instance, wants_records)
        .map(Some)
        .map_err(|error| malformed(backend, &doing, error))
}

/// Zones whose name matches `query`, with everything in them.
pub(crate) async fn discover(backend: &Backend, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
    let body = list(backend, cx).await?;
    let zones = parse_list(backend, &body)?;
    let wanted = query.trim_end_matches('.').to_ascii_lowercase();
    let mut names: Vec<String> =
        zones.iter().map(|zone| name::observed(&zone.name).trim_end_matches('.').to_owned()).collect();
    names.sort();
    let mut found = Vec::new();
    for name in names.iter().filter(|name| glob(&wanted, name)) {
        let scope = Scope::new(backend.entry.clone(), name.as_str());
        if let Some(zone) = full(backend, cx, &scope).await? {
            found.push(Found { scope, resources: zone.resources });
        }
    }
    if found.is_empty() && !wanted.contains(['*', '?']) {
        let near = did_you_mean(&wanted, names.iter().map(String::as_str));
        let hint = near.map_or("`*` lists every zone".into(), |near| format!("did you mean `{near}`?"));
        return Err(Error::invalid(format!("{} has no zone `{wanted}`", backend.client.address())).hint(hint));
    }
    Ok(found)
}

/// A zone as it was read.
#[derive(Debug)]
pub(crate) struct ZoneRead {
    /// Serial of its SOA.
    pub(crate) serial: u32,
    /// The token of this state, where the serial is one.
    pub(crate) version: Version,
    /// The zone itself and its RRsets, sorted by id.
    pub(crate) resources: Vec<Observed>,
}

/// Parses the answer for a zone. RRsets turn into resources as they are parsed, so that a large zone is in
/// memory once, not twice.
pub(crate) fn parse_zone(
    body: &[u8],
    scope: &Scope,
    instance: &str,
    wants_records: bool,
) -> Result<ZoneRead, serde_json::Error> {
    let mut records = Records {
        zone: record::zone_name(scope),
        instance,
        resources: vec![Observed::new(record::zone_id(scope), record::ZONE)],
        markers: Vec::new(),
        was_seen: false,
    };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let (serial, soa_edit_api) = ZoneSeed(&mut records).deserialize(&mut deserializer)?;
    deserializer.end()?;
    if wants_records && !records.was_seen {
        return Err(de::Error::missing_field("rrsets"));
    }
    let is_sound = SOUND.iter().any(|word| word.eq_ignore_ascii_case(&soa_edit_api));
    let version = if is_sound { token(serial) } else { Version::Unknown };
    let mut resources = records.resources;
    resources.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    marker::apply(&records.markers, &mut resources);
    Ok(ZoneRead { serial, version, resources })
}

struct Records<'i> {
    zone: String,
    instance: &'i str,
    resources: Vec<Observed>,
    markers: Vec<Marker>,
    was_seen: bool,
}

#[derive(Deserialize)]
struct RrsetBody<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    ttl: u32,
    #[serde(borrow)]
    records: Vec<RecordBody<'a>>,
    #[serde(borrow, default)]
    comments: Vec<Comment<'a>>,
}

#[derive(Deserialize)]
struct RecordBody<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
    #[serde(default)]
    disabled: bool,
}

/// A comment on an RRset. Those of others are kept as they were when the RRset is written.
#[derive(Deserialize, Serialize)]
pub(crate) struct Comment<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
    #[serde(borrow)]
    account: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<u64>,
}

impl Records<'_> {
    fn add<'a>(&mut self, set: RrsetBody<'a>, collector: &mut Collector<'a>) {
        // Comments may be left where no records are.
        if set.records.is_empty() {
            return;
        }
        let name = name::observed(&set.name);
        for record in set.records {
            collector.add(&set.kind, record.content, record.disabled);
        }
        if set.kind == "TXT" {
            self.markers.extend(collector.values().iter().find_map(|value| marker::read(&name, value)));
        }
        let mut observed = Observed::new(record::id(&name, &set.kind), collector.finish(set.ttl));
        let (marks, others): (Vec<_>, Vec<_>) = set.comments.into_iter().partition(|c| c.account == ACCOUNT);
        let is_apex = *name == *self.zone;
        observed.owner = match marks.iter().find(|mark| mark.content != self.instance) {
            Some(mark) => Owner::Other((*mark.content).into()),
            None if !marks.is_empty() => Owner::Ours,
            None if is_signer_type(&set.kind) || (is_apex && matches!(&*set.kind, "SOA" | "NS")) => {
                Owner::System
            }
            None => Owner::Unmarked,
        };
        if !others.is_empty() {
            observed.private = Sealed(serde_json::to_vec(&others).unwrap_or_default().into());
        }
        self.resources.push(observed);
    }
}

struct ZoneSeed<'r, 'i>(&'r mut Records<'i>);

impl<'de> DeserializeSeed<'de> for ZoneSeed<'_, '_> {
    type Value = (u32, String);
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ZoneSeed<'_, '_> {
    type Value = (u32, String);
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a zone")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut serial, mut soa_edit_api) = (None, String::new());
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "rrsets" => map.next_value_seed(RrsetsSeed(self.0))?,
                "serial" => serial = Some(map.next_value()?),
                "soa_edit_api" => soa_edit_api = map.next_value::<Option<String>>()?.unwrap_or_default(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok((serial.ok_or_else(|| de::Error::missing_field("serial"))?, soa_edit_api))
    }
}

struct RrsetsSeed<'r, 'i>(&'r mut Records<'i>);

impl<'de> DeserializeSeed<'de> for RrsetsSeed<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RrsetsSeed<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of RRsets")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.was_seen = true;
        let mut collector = Collector::default();
        while let Some(set) = seq.next_element::<RrsetBody<'de>>()? {
            self.0.add(set, &mut collector);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &str = r#"{"serial": 7, "soa_edit_api": "DEFAULT", "name": "example.com.", "rrsets": [
        {"name": "WWW.example.com.", "type": "A", "ttl": 60, "comments": [
            {"account": "reconciled", "content": "dns1", "modified_at": 1},
            {"account": "ops", "content": "call me", "modified_at": 2}],
         "records": [{"content": "192.0.2.2", "disabled": false}, {"content": "192.0.2.1", "disabled": false}]},
        {"name": "example.com.", "type": "SOA", "ttl": 3600, "comments": [],
         "records": [{"content": "a. h. 7 1 2 3 4", "disabled": false}]},
        {"name": "example.com.", "type": "NS", "ttl": 3600, "records": [{"content": "ns1.example.org."}]},
        {"name": "old.example.com.", "type": "A", "ttl": 60, "records": [],
         "comments": [{"account": "x", "content": "y"}]},
        {"name": "x.example.com.", "type": "TXT", "ttl": 60, "comments": [{"account": "reconciled", "content": "dns2"}],
         "records": [{"content": "\"a\\\"b\" \"c\"", "disabled": true}]},
        {"name": "a.example.com.", "type": "LOC", "ttl": 60, "records": [{"content": "51 30 12.748 N 0 W"}]},
        {"name": "k.example.com.", "type": "A", "ttl": 60, "records": [{"content": "192.0.2.5"}]},
        {"name": "a-k.example.com.", "type": "TXT", "ttl": 60,
         "records": [{"content": "\"heritage=external-dns,external-dns/owner=k8s\""}]}
    ]}"#;

    fn parse(body: &str) -> Result<ZoneRead, serde_json::Error> {
        parse_zone(body.as_bytes(), &Scope::new("pdns", "example.com"), "dns1", true)
    }

    #[test]
    fn a_zone_is_read_into_sorted_canonical_resources_with_their_owners() {
        let zone = parse(ZONE).unwrap();
        assert_eq!((zone.serial, &zone.version), (7, &token(7)));
        let shown: Vec<_> = zone
            .resources
            .iter()
            .map(|o| (&*o.id.0, std::str::from_utf8(&o.bytes).unwrap(), o.owner.clone()))
            .collect();
        let other = |owner: &str| Owner::Other(owner.into());
        assert_eq!(
            shown,
            [
                (
                    "a-k.example.com./TXT",
                    "60\n\"heritage=external-dns,external-dns/owner=k8s\"",
                    other("externaldns/k8s")
                ),
                ("a.example.com./LOC", "60\n51 30 12.748 N 0 W", Owner::Unmarked),
                ("example.com.", "zone", Owner::Unmarked),
                ("example.com./NS", "3600\nns1.example.org.", Owner::System),
                ("example.com./SOA", "3600\na. h. 1 2 3 4", Owner::System),
                ("k.example.com./A", "60\n192.0.2.5", other("externaldns/k8s")),
                ("www.example.com./A", "60\n192.0.2.1\n192.0.2.2", Owner::Ours),
                ("x.example.com./TXT", "60\n(disabled) \"a\\\"bc\"", other("dns2")),
            ]
        );
        let private = &zone.resources[6].private.0;
        assert_eq!(&private[..], br#"[{"content":"call me","account":"ops","modified_at":2}]"#);
    }

    #[test]
    fn a_serial_is_a_token_only_where_the_server_raises_it_each_time() {
        let version = |edit: &str| parse(&ZONE.replace("DEFAULT", edit)).unwrap().version;
        assert_eq!(version("INCREASE"), token(7));
        for edit in ["", "EPOCH", "OFF", "SOA-EDIT"] {
            assert_eq!(version(edit), Version::Unknown, "{edit}");
        }
    }

    #[test]
    fn half_an_answer_is_an_error_and_never_a_smaller_zone() {
        for length in [0, 1, 40, ZONE.len() / 2, ZONE.len() - 1] {
            assert!(parse(&ZONE[..length]).is_err(), "{length}");
        }
        assert!(parse("{\"serial\": 7}").is_err(), "without `rrsets`");
        assert!(parse("{\"rrsets\": []}").is_err(), "without `serial`");
        assert!(parse("[]").is_err());
        assert!(parse(&format!("{ZONE} x")).is_err());
    }
}
