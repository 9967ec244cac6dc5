//! Requests: questions, transfers and updates as messages.

use crate::{name, rdata::octets, record};
use hickory_proto::{
    op::{Message, OpCode, Query, UpdateMessage},
    rr::{DNSClass, Name, RData, Record, RecordType, rdata::NULL},
};

/// Octets that a message has besides its records and its question: header, signature.
const ENVELOPE: usize = 12 + 350;

/// A canonical name in the form messages hold.
pub(crate) fn domain(canonical: &str) -> Option<Name> {
    let mut wire = Vec::with_capacity(canonical.len() + 1);
    name::encode(canonical, &mut wire)?;
    let (mut labels, mut rest) = (Vec::new(), &wire[..]);
    while let Some((length, after)) = rest.split_first().filter(|(length, _)| **length > 0) {
        let (label, after) = after.split_at_checked(usize::from(*length))?;
        labels.push(label);
        rest = after;
    }
    let mut name = Name::from_labels(labels).ok()?;
    name.set_fqdn(true);
    Some(name)
}

/// A question about `zone`: its SOA, its signatures, or all of it.
pub(crate) fn question(zone: &Name, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.add_query(Query::query(zone.clone(), kind));
    message
}

/// A question about what changed in `zone` since its SOA was `soa` (RFC 1995).
pub(crate) fn difference(zone: &Name, soa: &[u8]) -> Message {
    let mut message = question(zone, RecordType::IXFR);
    message.add_authority(with_data(zone.clone(), 0, RecordType::SOA, soa.to_vec()));
    message
}

/// An update of `zone` that takes effect only while all of `needs` is so.
pub(crate) fn update(
    zone: &Name,
    needs: impl IntoIterator<Item = Record>,
    changes: impl IntoIterator<Item = Record>,
) -> Message {
    let mut message = Message::query();
    message.metadata.op_code = OpCode::Update;
    message.add_zone(Query::query(zone.clone(), RecordType::SOA));
    message.add_pre_requisites(needs);
    message.add_updates(changes);
    message
}

/// That the SOA of `zone` is exactly `soa` (RFC 2136 §2.4.2).
pub(crate) fn is_at(zone: &Name, soa: &[u8]) -> Record {
    with_data(zone.clone(), 0, RecordType::SOA, soa.to_vec())
}

fn with_data(name: Name, ttl: u32, code: RecordType, data: Vec<u8>) -> Record {
    let data = RData::Unknown { code, rdata: NULL::with(data) };
    Record::from_rdata(name, ttl, data)
}

/// The data of a record that is sent.
pub(crate) fn data(record: &Record) -> Option<&[u8]> {
    match &record.data {
        RData::Unknown { rdata, .. } => Some(&rdata.anything),
        _ => None,
    }
}

/// The changes to one RRset, and an upper bound of the octets they take in a message.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// What has to be so, where it is the sets that are compared.
    pub(crate) needs: Vec<Record>,
    /// Done before anything is added at the name: a CNAME must be gone before other data come.
    pub(crate) deletes: Vec<Record>,
    /// Done behind that at a server that keeps signatures with the zone, and at no other.
    pub(crate) clears: Vec<Record>,
    /// Done after that; what is taken out here is added again right behind.
    pub(crate) adds: Vec<Record>,
    /// Done last: what must not go before its successor is there.
    pub(crate) removes: Vec<Record>,
    /// Octets.
    pub(crate) size: usize,
}

/// An RRset of a zone, ready to be changed.
pub(crate) struct Set {
    name: Name,
    code: RecordType,
    /// Octets of name and record header. Names may be cut short in a message, but only the first ones are.
    head: usize,
}

impl Set {
    /// The set `name`/`kind`; none when it has no form on the wire.
    pub(crate) fn new(name: &str, kind: &str) -> Option<Set> {
        let code = RecordType::from(octets::number(kind)?);
        Some(Set { name: domain(name)?, code, head: name.len() + 1 + 10 })
    }

    /// Has it be exactly what `values` are (RFC 2136 §2.4.2), of whatever TTL; none when one of them cannot be written.
    pub(crate) fn need(&self, kind: &str, values: &[&str], changes: &mut Changes) -> Option<()> {
        for value in values {
            let data = self.data(kind, value, 0)?;
            changes.size += self.head + data.len();
            changes.needs.push(with_data(self.name.clone(), 0, self.code, data));
        }
        Some(())
    }

    /// Has it be there, whatever it is (§2.4.1), or not be there (§2.4.3).
    pub(crate) fn need_any(&self, is_there: bool, changes: &mut Changes) {
        let mut record = Record::update0(self.name.clone(), 0, self.code);
        record.dns_class = if is_there { DNSClass::ANY } else { DNSClass::NONE };
        changes.size += self.head;
        changes.needs.push(record);
    }

    /// Has nothing be at its name (§2.4.5).
    pub(crate) fn need_no_name(&self, changes: &mut Changes) {
        let mut record = Record::update0(self.name.clone(), 0, RecordType::ANY);
        record.dns_class = DNSClass::NONE;
        changes.size += self.head;
        changes.needs.push(record);
    }

    /// Deletes all of it (RFC 2136 §2.5.2).
    pub(crate) fn delete(&self, changes: &mut Changes) {
        let mut record = Record::update0(self.name.clone(), 0, self.code);
        record.dns_class = DNSClass::ANY;
        changes.deletes.push(record);
        changes.size += self.head;
    }

    /// Deletes all that is at its name, of whatever type (RFC 2136 §2.5.3).
    pub(crate) fn clear_name(&self, changes: &mut Changes) {
        let mut record = Record::update0(self.name.clone(), 0, RecordType::ANY);
        record.dns_class = DNSClass::ANY;
        changes.clears.push(record);
        changes.size += self.head;
    }

    /// Takes one value out and adds it again with this TTL; none when it cannot be written.
    pub(crate) fn renew(&self, ttl: u32, kind: &str, value: &str, changes: &mut Changes) -> Option<()> {
        let data = self.data(kind, value, 0)?;
        changes.size += 2 * (self.head + data.len());
        let mut gone = with_data(self.name.clone(), 0, self.code, data.clone());
        gone.dns_class = DNSClass::NONE;
        changes.adds.extend([gone, with_data(self.name.clone(), ttl, self.code, data)]);
        Some(())
    }

    /// Adds one value; none when it cannot be written.
    pub(crate) fn add(
        &self,
        ttl: u32,
        kind: &str,
        value: &str,
        serial: u32,
        changes: &mut Changes,
    ) -> Option<()> {
        let data = self.data(kind, value, serial)?;
        changes.size += self.head + data.len();
        changes.adds.push(with_data(self.name.clone(), ttl, self.code, data));
        Some(())
    }

    /// Deletes one value after everything was added (RFC 2136 §2.5.4).
    pub(crate) fn remove(&self, kind: &str, value: &str, changes: &mut Changes) -> Option<()> {
        let data = self.data(kind, value, 0)?;
        changes.size += self.head + data.len();
        let mut record = with_data(self.name.clone(), 0, self.code, data);
        record.dns_class = DNSClass::NONE;
        changes.removes.push(record);
        Some(())
    }

    fn data(&self, kind: &str, value: &str, serial: u32) -> Option<Vec<u8>> {
        octets::encode(kind, record::without_ttl(value), serial).filter(|data| !data.is_empty())
    }
}

/// Octets of a message without changes: its zone, and the SOA it depends on.
pub(crate) fn envelope(zone: &str, soa: &[u8]) -> usize {
    ENVELOPE + zone.len() + 2 + 4 + 2 + 10 + soa.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_never_larger_than_it_was_reckoned() {
        let (zone, soa) = ("example.com.", [1; 60]);
        let mut changes = Changes::default();
        for number in 0..1_800 {
            let set = Set::new(&format!("host-{number}.{zone}"), "A").unwrap();
            set.delete(&mut changes);
            set.add(300, "A", "192.0.2.1", 1, &mut changes).unwrap();
        }
        let reckoned = envelope(zone, &soa) + changes.size;
        let records = changes.deletes.into_iter().chain(changes.adds);
        let zone = domain(zone).unwrap();
        let message = update(&zone, [is_at(&zone, &soa)], records);
        // The signature is not in it.
        let size = message.to_vec().unwrap().len() + 350;
        assert!(size <= reckoned && reckoned < 2 * size, "{size} {reckoned}");
    }
}
