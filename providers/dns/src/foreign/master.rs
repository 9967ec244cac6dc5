//! Zone files of BIND and others.

use super::taken::{Collector, Taken};
use crate::{
    master::{self, Wrong},
    name::Name,
    rdata::{self, Type},
    record,
};
use reconciled_provider::{Problem, SourceFile, Span};
use std::collections::BTreeMap;

/// TTL of records in a file that says none.
const FALLBACK: u32 = 3600;

/// Name and type.
type Key = (Box<str>, &'static str);

/// The least TTL, values, and the line of the last record that says another TTL than one before it.
type Set = (u32, Vec<String>, Option<u32>);

/// The records of a zone file.
pub fn master(zone: &Name, file: &SourceFile) -> Taken {
    let mut out = Collector::new(zone);
    let mut sets: BTreeMap<Key, Set> = BTreeMap::new();
    let at = |line: usize, message: String| {
        let span = Span { line: u32::try_from(line).unwrap_or(u32::MAX), column: 0 };
        Problem::warning(message).at(file, span)
    };
    for found in master::included(zone.as_str(), &file.text, FALLBACK) {
        let mut leave = |line: usize, message: String| out.left_out.push(at(line, message));
        let (line, entry) = match found {
            Ok(found) => found,
            Err(error) => {
                leave(error.line, error.what.to_string());
                out.has_outside |= matches!(error.what, Wrong::Outside { .. });
                continue;
            }
        };
        let (word, name) = (&entry.kind, &entry.name);
        let Some(kind) = Type::of(word) else {
            let why = if rdata::is_signer_type(word) { "signing software writes it" } else { "unknown type" };
            leave(line as usize, format!("{word} of {name}: {why}"));
            continue;
        };
        match rdata::from_master(kind, &entry.content) {
            Ok(value) => {
                let (least, values, differs) =
                    sets.entry((entry.name, kind.word())).or_insert((entry.ttl, Vec::new(), None));
                if *least != entry.ttl {
                    *differs = Some(line);
                }
                *least = entry.ttl.min(*least);
                values.push(value);
            }
            Err(refusal) => leave(line as usize, refusal.message),
        }
    }
    for ((name, word), (ttl, mut values, differs)) in sets {
        if let Some(line) = differs {
            let message = format!("the {word} records of {name} have several TTLs; {ttl} counts");
            out.left_out.push(at(line as usize, message));
        }
        out.sets.insert(record::id(&name, word), record::encode(ttl, &mut values));
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::export;

    #[test]
    fn a_transfer_as_dig_prints_it_has_its_soa_twice_and_is_taken_over_without() {
        let text = "\
; <<>> DiG 9.18 <<>> axfr example.com\n;; global options: +cmd\n\
example.com.\t\t86400\tIN\tSOA\tns1.example.com. h.example.com. 7 10800 3600 604800 300\n\
example.com.\t\t86400\tIN\tNS\tns1.example.com.\nns1.example.com.\t300\tIN\tA\t192.0.2.53\n\
example.com.\t\t86400\tIN\tSOA\tns1.example.com. h.example.com. 7 10800 3600 604800 300\n;; Query time: 0 msec\n";
        let taken = master(&Name::zone("example.com").unwrap(), &SourceFile::new("f", text));
        assert_eq!(taken.left_out, []);
        let soa = taken.found.resources.iter().find(|observed| observed.id.0.ends_with("/SOA")).unwrap();
        assert_eq!(String::from_utf8_lossy(&soa.bytes).lines().count(), 2, "one value");
        let manifest = String::from_utf8(export("", &taken.found).remove(0).to_vec()).unwrap();
        assert!(!manifest.contains("SOA") && !manifest.contains("ttl"), "{manifest}");
    }

    #[test]
    fn records_that_share_a_ttl_and_say_several_are_told_of() {
        let text = "$TTL 3600\nmail A 192.0.2.1\nmail 600 A 192.0.2.3\n\
mail 300 A 192.0.2.2\nmail 300 AAAA 2001:db8::1\n";
        let taken = master(&Name::zone("example.com").unwrap(), &SourceFile::new("f", text));
        let told: Vec<&str> = taken.left_out.iter().map(|problem| &*problem.message).collect();
        assert_eq!(told, ["the A records of mail.example.com. have several TTLs; 300 counts"]);
        let a = taken.found.resources.iter().find(|observed| observed.id.0.ends_with("/A")).unwrap();
        assert_eq!(&*a.bytes, b"300\n192.0.2.1\n192.0.2.2\n192.0.2.3");
    }

    #[test]
    fn a_name_outside_of_the_zone_is_told_from_another_mistake() {
        let check = |line: &str, has_outside: bool| {
            let file = SourceFile::new("f", &*format!("{line}\n"));
            let taken = master(&Name::zone("example.com").unwrap(), &file);
            assert_eq!((taken.left_out.len(), taken.has_outside), (1, has_outside), "{line}");
        };
        check("www.example.org. 60 A 192.0.2.1", true);
        check("www 60 A 192.0.2", false);
    }
}
