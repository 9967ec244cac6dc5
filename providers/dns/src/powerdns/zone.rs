//! The answer for one zone → canonical resources.
//!
//! RRsets turn into resources while the JSON is parsed, without a tree in between, so that a large zone is in
//! memory once. Half an answer is an error.

use crate::{
    name,
    rdata::is_signer_type,
    record::{self, Collector},
    serial,
};
use bytes::Bytes;
use reconciled_provider::{Observed, Owner, Scope, Sealed, Version};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt, time::Duration};

/// The account under which an instance marks its RRsets.
pub(crate) const ACCOUNT: &str = "reconciled";

/// Ways of keeping the serial that raise it at every change. Not `EPOCH`: two changes in one second share it.
const SOUND: [(&str, Raise); 3] =
    [("DEFAULT", Raise::Date), ("INCREASE", Raise::One), ("SOA-EDIT-INCREASE", Raise::Any)];

/// How far one change raises a serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raise {
    /// By one.
    One,
    /// By one, or to the first serial of a day (`2026010101`).
    Date,
    /// By one, or to what the metadata of the zone say.
    Any,
}

/// The token of a zone whose serial is `serial`, for `instance`: what its marks say depends on whose word that is, so an instance
/// with another name reads what it knew once more.
pub(crate) fn token(serial: u32, instance: &str) -> Version {
    Version::At(Bytes::from(format!("s:{serial}:{instance}")))
}

/// How many serials of its day a zone leaves out that is made here.
const LEFT_OUT: u32 = 50;

/// How far ahead of UTC the clock of a server may be: no time zone is further (Kiribati).
const FURTHEST_AHEAD: Duration = Duration::from_secs(14 * 3600);

/// The serial before the first one of a zone that is made now.
///
/// Whoever else makes one begins with the first serial of the day. Ours begins where that one does not, or a zone of ours that
/// somebody deleted and made anew on the same day would bear the token of what it was. The server counts days as its clock on the
/// wall does, and takes its day's first serial where that is the larger one; so the day is the latest that it may be anywhere.
pub(crate) fn serial_before(now: Duration) -> u32 {
    serial::of_day(now + FURTHEST_AHEAD).map_or(0, |day| day + LEFT_OUT)
}

/// A zone as it was read.
#[derive(Debug)]
pub(crate) struct ZoneRead {
    /// Serial of its SOA.
    pub(crate) serial: u32,
    /// The token of this state, where the serial is one.
    pub(crate) version: Version,
    /// How far one change raises the serial, where it is a token.
    pub(crate) raise: Option<Raise>,
    /// The zone itself and its RRsets, sorted by id.
    pub(crate) resources: Vec<Observed>,
}

impl ZoneRead {
    /// True when the zone is as the last of our changes left it, which was made when its serial was `before`; none where
    /// the serial does not tell.
    ///
    /// What raises the serial to the first of a day was the first change after `before`, so nobody else made one.
    pub(crate) fn is_next_after(&self, before: u32) -> Option<bool> {
        let raise = self.raise?;
        let is_first_of_day = self.serial > before && self.serial > 1_970_000_000 && self.serial % 100 == 1;
        match raise {
            // A change without effect may raise nothing.
            _ if self.serial == before || self.serial == before.wrapping_add(1) => Some(true),
            Raise::Date => Some(is_first_of_day),
            Raise::One => Some(false),
            Raise::Any => None,
        }
    }
}

/// Parses the answer for a zone. `wants_records`: they were asked for, so an answer without them is an error.
pub(crate) fn parse_zone(
    body: &[u8],
    scope: &Scope,
    instance: &str,
    wants_records: bool,
) -> Result<ZoneRead, serde_json::Error> {
    // Room for about as many as there can be, of which no more is touched than there are: to grow step by step copies all of them twice.
    let mut resources = Vec::with_capacity(1 + (body.len() / SHORTEST).min(1 << 16));
    resources.push(Observed::new(record::zone_id(scope), record::ZONE));
    let mut records = Records { zone: record::zone_name(scope), instance, resources, was_seen: false };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let (serial, soa_edit_api) = ZoneSeed(&mut records).deserialize(&mut deserializer)?;
    deserializer.end()?;
    if wants_records && !records.was_seen {
        return Err(de::Error::missing_field("rrsets"));
    }
    let sound = SOUND.iter().find(|(word, _)| word.eq_ignore_ascii_case(&soa_edit_api));
    let raise = sound.map(|(_, raise)| *raise);
    let version = if raise.is_some() { token(serial, instance) } else { Version::Unknown };
    let mut resources = records.resources;
    resources.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    // It stays for as long as the pass, or longer.
    resources.shrink_to_fit();
    Ok(ZoneRead { serial, version, raise, resources })
}

/// About as many bytes as the shortest RRset has in an answer.
const SHORTEST: usize = 112;

struct Records<'i> {
    zone: String,
    instance: &'i str,
    resources: Vec<Observed>,
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

/// A comment on an RRset. Those of others, and marks of other instances, are kept as they were when the RRset is written.
#[derive(Deserialize, Serialize)]
pub(crate) struct Comment<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
    #[serde(borrow)]
    account: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<u64>,
}

impl Comment<'_> {
    fn is_mark(&self) -> bool {
        self.account == ACCOUNT
    }
}

/// The comments of others, as an observation keeps them, without the marks of other instances; empty for none.
pub(crate) fn without_marks(others: &[u8]) -> Cow<'_, [u8]> {
    let mut comments: Vec<Comment<'_>> = serde_json::from_slice(others).unwrap_or_default();
    if !comments.iter().any(Comment::is_mark) {
        return Cow::Borrowed(others);
    }
    comments.retain(|comment| !comment.is_mark());
    let kept = if comments.is_empty() { None } else { serde_json::to_vec(&comments).ok() };
    Cow::Owned(kept.unwrap_or_default())
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
        let mut observed = Observed::new(record::id(&name, &set.kind), collector.finish(set.ttl));
        let is_ours = |comment: &Comment<'_>| comment.is_mark() && comment.content == self.instance;
        let (ours, others): (Vec<_>, Vec<_>) = set.comments.into_iter().partition(is_ours);
        observed.owner = match others.iter().find(|comment| comment.is_mark()) {
            Some(mark) => Owner::Other((*mark.content).into()),
            None if !ours.is_empty() => Owner::Ours,
            None => owner_unmarked(&name, &set.kind, &self.zone),
        };
        if !others.is_empty() {
            observed.private = Sealed::new(serde_json::to_vec(&others).unwrap_or_default());
        }
        self.resources.push(observed);
    }
}

/// Whose a set of `zone` is that nobody marked.
pub(super) fn owner_unmarked(name: &str, kind: &str, zone: &str) -> Owner {
    let is_of_server = is_signer_type(kind) || (name == zone && matches!(kind, "SOA" | "NS"));
    if is_of_server { Owner::System } else { Owner::Unmarked }
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
        assert_eq!((zone.serial, &zone.version), (7, &token(7, "dns1")));
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
                    Owner::Unmarked
                ),
                ("a.example.com./LOC", "60\n51 30 12.748 N 0 W", Owner::Unmarked),
                ("example.com.", "zone", Owner::Unmarked),
                ("example.com./NS", "3600\nns1.example.org.", Owner::System),
                ("example.com./SOA", "3600\na. h. 1 2 3 4", Owner::System),
                ("k.example.com./A", "60\n192.0.2.5", Owner::Unmarked),
                ("www.example.com./A", "60\n192.0.2.1\n192.0.2.2", Owner::Ours),
                ("x.example.com./TXT", "60\n(disabled) \"a\\\"b\" \"c\"", other("dns2")),
            ]
        );
        let private = |index: usize| &zone.resources[index].private.0[..];
        assert_eq!(private(6), br#"[{"content":"call me","account":"ops","modified_at":2}]"#);
        assert_eq!(private(7), br#"[{"content":"dns2","account":"reconciled"}]"#);
    }

    #[test]
    fn a_serial_is_a_token_only_where_the_server_raises_it_each_time() {
        let version = |edit: &str| parse(&ZONE.replace("DEFAULT", edit)).unwrap().version;
        assert_eq!(version("INCREASE"), token(7, "dns1"));
        for edit in ["", "EPOCH", "OFF", "SOA-EDIT"] {
            assert_eq!(version(edit), Version::Unknown, "{edit}");
        }
    }

    #[test]
    fn a_new_zone_begins_beyond_the_first_serial_of_any_day_that_it_may_be_at_its_server() {
        // 2026-01-01, at midnight and when it is the day after in Kiribati.
        let midnight = Duration::from_secs(1_767_225_600);
        assert_eq!(serial_before(midnight), 2_026_010_150);
        assert_eq!(serial_before(midnight + Duration::from_secs(10 * 3600 - 1)), 2_026_010_150);
        assert_eq!(serial_before(midnight + Duration::from_secs(10 * 3600)), 2_026_010_250);
    }

    #[test]
    fn a_serial_tells_whether_anybody_else_wrote_after_our_change() {
        let told = |edit: &str, before: u32, now: u32| {
            let zone = ZONE.replace("DEFAULT", edit).replace("\"serial\": 7", &format!("\"serial\": {now}"));
            parse(&zone).unwrap().is_next_after(before)
        };
        let day = 2_026_010_100;
        for edit in ["DEFAULT", "INCREASE", "SOA-EDIT-INCREASE"] {
            assert_eq!((told(edit, 7, 8), told(edit, 7, 7)), (Some(true), Some(true)), "{edit}");
            assert_eq!(told(edit, u32::MAX, 0), Some(true), "{edit}");
        }
        assert_eq!(
            (told("DEFAULT", 7, day + 1), told("DEFAULT", day - 50, day + 1)),
            (Some(true), Some(true))
        );
        assert_eq!(
            (told("DEFAULT", 7, day + 2), told("DEFAULT", day + 1, day + 3)),
            (Some(false), Some(false))
        );
        assert_eq!((told("DEFAULT", 7, 9), told("DEFAULT", 7, 101)), (Some(false), Some(false)));
        assert_eq!((told("INCREASE", 7, 9), told("INCREASE", 7, day + 1)), (Some(false), Some(false)));
        assert_eq!((told("SOA-EDIT-INCREASE", 7, 9), told("", 7, 8)), (None, None));
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
