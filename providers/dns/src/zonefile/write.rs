//! Writing master files: one record a line, sorted, the same text for the same records.

use crate::{
    master::{Entry, MARK},
    name::{escape_for_master as escape, labels, relative},
    rdata, record, serial,
};
use std::{fmt::Write, time::Duration};

/// First lines of each file.
const HEADER: &str = "\
; Written by reconciled. Records may be changed by hand and are kept as they are;
; other comments and the order of lines are not. The serial is raised at every change.
";

/// The text of a zone file; sorts `entries`.
pub(crate) fn write(zone: &str, entries: &mut Vec<Entry>) -> String {
    entries.sort_by_cached_key(|entry| sort_key(zone, entry));
    entries.dedup();
    let mut out = String::with_capacity(256 + entries.len() * 64);
    out.push_str(HEADER);
    let _ = writeln!(out, "$ORIGIN {}", escape(zone));
    for entry in entries.iter() {
        let owner = match (relative(&entry.name, zone), &entry.origin) {
            (owner, None) if owner == "@" => owner.into_owned(),
            (owner, None) => escape(&owner),
            // Names in data of an unknown type refer to the origin they were written under.
            (_, Some(origin)) => {
                let _ = writeln!(out, "$ORIGIN {}", escape(origin));
                escape(&entry.name)
            }
        };
        let _ = write!(out, "{owner} {} IN {} {}", entry.ttl, entry.kind, entry.content);
        if let Some(mark) = &entry.mark {
            let _ = write!(out, " ; {MARK}{mark}");
        }
        out.push('\n');
        if entry.origin.is_some() {
            let _ = writeln!(out, "$ORIGIN {}", escape(zone));
        }
    }
    out
}

/// The SOA, the rest of the apex, then names from the root down, as DNSSEC orders them (RFC 4034 §6.1).
fn sort_key(zone: &str, entry: &Entry) -> (bool, Vec<String>, Box<str>, Box<str>) {
    let is_first = &*entry.kind == "SOA" && &*entry.name == zone;
    let mut reversed: Vec<String> = labels(&entry.name).map(str::to_owned).collect();
    reversed.reverse();
    (!is_first, reversed, entry.kind.clone(), entry.content.clone())
}

/// The data of a canonical value as a zone file holds it.
pub(crate) fn content(kind: &str, value: &str, serial: u32) -> String {
    // A set merged with one of several TTLs gets one TTL.
    let value = record::without_ttl(value);
    rdata::master(kind, value, serial).into_owned()
}

/// The serial after `serial`; zero is left out because some servers take it for "none".
pub(crate) fn next_serial(serial: u32) -> u32 {
    serial.wrapping_add(1).max(1)
}

/// The later of two serials (RFC 1982 §3.2).
pub(crate) fn later(one: u32, other: u32) -> u32 {
    if other.wrapping_sub(one) < 1 << 31 { other } else { one }
}

/// The serial before the first one of a file that is made now. It may be made again, and whoever has the zone already takes
/// nothing that is older: the last of this day.
pub(crate) fn serial_before(now: Duration) -> u32 {
    serial::of_day(now).map_or(0, |day| day + 98)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        master::parse,
        rdata::{Type, tests::canonical_values},
    };
    use proptest::prelude::*;

    fn entry(name: &str, kind: &str, content: &str) -> Entry {
        let (name, kind, content) = (name.into(), kind.into(), content.into());
        Entry { name, ttl: 300, kind, content, origin: None, mark: None }
    }

    #[test]
    fn a_file_is_sorted_and_reads_back_as_the_same_records() {
        let mut entries = vec![
            entry("b.example.com.", "A", "192.0.2.1"),
            entry("example.com.", "MX", "10 mail.example.com."),
            entry("a.b.example.com.", "TXT", "\"a;b\" \"c\""),
            Entry { mark: Some("dns1".into()), ..entry("a.example.com.", "CNAME", "x\\;y.example.com.") },
            Entry { origin: Some("x.example.com.".into()), ..entry("d.example.com.", "AFSDB", "1 t") },
            entry("@;x.example.com.", "A", "192.0.2.2"),
            entry("example.com.", "SOA", "ns1.example.com. h.example.com. 1 2 3 4 5"),
        ];
        let text = write("example.com.", &mut entries);
        assert!(text.contains("\na 300 IN CNAME x\\;y.example.com. ; reconciled=dns1\n"), "{text}");
        assert!(text.contains("\n\\@\\;x 300 IN A 192.0.2.2\n"), "{text}");
        let names: Vec<_> = entries.iter().map(|e| &*e.name).collect();
        assert_eq!(names[..2], ["example.com."; 2]);
        let mut again = parse("example.com.", &text).unwrap();
        again
            .iter_mut()
            .filter(|e| &*e.kind == "CNAME")
            .for_each(|e| e.content = "x\\;y.example.com.".into());
        assert_eq!(again, entries);
    }

    #[test]
    fn serials_go_on_after_the_largest() {
        assert_eq!((next_serial(7), next_serial(u32::MAX)), (8, 1));
        assert_eq!((later(7, 8), later(8, 7), later(7, 7)), (8, 8, 7));
        assert_eq!((later(u32::MAX, 1), later(1, u32::MAX)), (1, 1));
    }

    #[test]
    fn a_file_that_is_made_again_is_newer_than_one_that_was_counted_by_days() {
        let serial = |seconds| next_serial(serial_before(Duration::from_secs(seconds)));
        assert_eq!(serial(1_795_824_000), 2_026_112_899);
        assert_eq!(serial(0), 1_970_010_199);
        // The year 5000 has no such number.
        assert_eq!(serial(95_617_584_000), 1);
    }

    proptest! {
        #[test]
        fn any_value_of_any_type_survives_a_file((kind, value) in canonical_values(), ttl in 0u32..90_000) {
            let word = kind.word();
            let mut entries = vec![entry("example.com.", "SOA", "a. b. 1 2 3 4 5")];
            if kind == Type::Soa {
                entries.clear();
            }
            let name = if kind == Type::Soa { "example.com." } else { "x.example.com." };
            entries.push(Entry { ttl, ..entry(name, word, &content(word, &value, 7)) });
            let text = write("example.com.", &mut entries);
            let again = parse("example.com.", &text).unwrap();
            let found = again.iter().rfind(|entry| &*entry.kind == word).unwrap();
            prop_assert_eq!((&*found.name, found.ttl), (name, ttl), "{}", text);
            prop_assert_eq!(rdata::observed(word, &found.content), value, "{}", text);
        }

        #[test]
        fn a_txt_of_any_octets_survives_a_file(octets in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut canonical = String::new();
            crate::text::quote(&octets, &mut canonical);
            let mut entries = vec![
                entry("example.com.", "SOA", "a. b. 1 2 3 4 5"),
                entry("t.example.com.", "TXT", &content("TXT", &canonical, 0)),
            ];
            let text = write("example.com.", &mut entries);
            let again = parse("example.com.", &text).unwrap();
            let value = rdata::observed("TXT", &again[1].content);
            prop_assert_eq!(value, canonical.as_str());
        }
    }
}
