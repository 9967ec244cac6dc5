//! The marks of a zone: which TXT values are marks, whom they name, and which records they are of.
//!
//! Guarantees: a mark that nobody can read for want of a key still keeps its record (`externaldns/encrypted`); a mark of
//! another outweighs one of ours. Where it is not known how ExternalDNS names its marks, [`super::guess`] says what a
//! mark may be of, and is rather too careful. One of ours is of a record of the type that it names, and of no other: what was ours
//! gives nobody's record away.

use super::{
    guess,
    label::{self, Whose},
    naming::Naming,
    seal::{SealKey, may_be_sealed},
};
use crate::{
    name,
    record::{self, DISABLED, RrSet},
    text::unquote,
};
use reconciled_provider::{Observed, Owner, ResourceId};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// The value of octoDNS's marks.
const OCTODNS_MARK: &str = "\"*octodns*\"";

/// What the owner of its records is called.
pub(crate) const OCTODNS: &str = "octodns";

/// A mark.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// The TXT RRset it stands in.
    pub(crate) txt: ResourceId,
    /// Its canonical value there.
    pub(crate) value: Box<str>,
    /// Whom it names.
    pub(crate) whose: Whose,
    /// The records that exist and that it is of.
    pub(crate) of: Vec<ResourceId>,
}

impl Mark {
    /// The other owner that it names.
    pub(crate) fn other(&self) -> Option<&Arc<str>> {
        match &self.whose {
            Whose::Other(other) => Some(other),
            Whose::Ours => None,
        }
    }

    /// True for one of ours that is of nothing that exists.
    pub(crate) fn is_left(&self) -> bool {
        self.whose == Whose::Ours && self.of.is_empty()
    }
}

/// The marks of one zone.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    all: Vec<Mark>,
    by_record: BTreeMap<ResourceId, Vec<usize>>,
    by_txt: BTreeMap<ResourceId, Vec<usize>>,
    /// The TXT RRsets that hold them, and all others where we write marks, as they were read.
    sets: BTreeMap<ResourceId, Observed>,
    /// Names with a CNAME, where we write marks.
    cnames: BTreeSet<Box<str>>,
}

impl Marks {
    /// True when the zone has none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// The marks of a record.
    pub(crate) fn of<'m>(&'m self, id: &ResourceId) -> impl Iterator<Item = &'m Mark> + use<'m> {
        self.by_record.get(id).into_iter().flatten().map(|index| &self.all[*index])
    }
    /// The marks in a TXT RRset.
    pub(crate) fn within<'m>(&'m self, txt: &ResourceId) -> impl Iterator<Item = &'m Mark> + use<'m> {
        self.by_txt.get(txt).into_iter().flatten().map(|index| &self.all[*index])
    }
    /// True when a CNAME stands where a mark would.
    pub(crate) fn is_taken_by_cname(&self, txt: &ResourceId) -> bool {
        record::parts(txt).is_some_and(|(name, _)| self.cnames.contains(name))
    }
    /// True when one of ours is of nothing that exists.
    pub(crate) fn has_left(&self) -> bool {
        self.all.iter().any(Mark::is_left)
    }
    /// How many are of nothing that exists, in RRsets that hold nothing else.
    pub(crate) fn count_of_nothing(&self) -> usize {
        self.all.iter().filter(|mark| mark.of.is_empty() && self.are_all_of(&mark.txt)).count()
    }
    /// The RRset in which a mark stands or would stand, as it was read.
    pub(crate) fn set(&self, txt: &ResourceId) -> Option<&Observed> {
        self.sets.get(txt)
    }

    /// The TXT RRset `txt`, where it is nothing but a mark of ours that is of nothing that exists.
    pub(crate) fn left_at(&self, txt: &ResourceId) -> Option<&Observed> {
        let is_left = self.are_all_of(txt) && self.within(txt).all(Mark::is_left);
        self.set(txt).filter(|_| is_left)
    }

    /// True for a TXT RRset that has marks, and nothing else.
    pub(crate) fn are_all_of(&self, txt: &ResourceId) -> bool {
        let marks = self.by_txt.get(txt).map_or(0, Vec::len);
        let set = self.sets.get(txt).and_then(|set| RrSet::decode(&set.bytes));
        marks > 0 && set.is_some_and(|set| set.values.len() == marks)
    }

    /// Gives marked records their owner. `resources` are sorted by id.
    pub(crate) fn assign(&self, resources: &mut [Observed]) {
        let mut give = |id: &ResourceId, owner: Owner| {
            let Some(index) = position(resources, id) else { return };
            let held = &mut resources[index].owner;
            if matches!(
                (&*held, &owner),
                (Owner::Unmarked, _) | (Owner::System | Owner::Ours, Owner::Other(_))
            ) {
                *held = owner;
            }
        };
        for (id, marks) in &self.by_record {
            let other = marks.iter().find_map(|index| self.all[*index].other());
            give(id, other.map_or(Owner::Ours, |other| Owner::Other(other.clone())));
        }
        for txt in self.sets.keys() {
            let marks: Vec<&Mark> = self.within(txt).collect();
            if marks.is_empty() {
                continue;
            }
            let other = marks.iter().find_map(|mark| mark.other().cloned());
            match other {
                Some(other) => give(txt, Owner::Other(other)),
                // Ours are bookkeeping: no content that anybody declares, and never foreign.
                None if self.are_all_of(txt) => give(txt, Owner::System),
                None => {}
            }
        }
    }
}

/// What is known of how marks are written.
pub(crate) struct Reader<'a> {
    /// This instance.
    pub(crate) instance: &'a str,
    /// How ours are named, where we write any.
    pub(crate) own: Option<&'a Naming>,
    /// How those of an ExternalDNS are named, where the host configuration says.
    pub(crate) foreign: Option<&'a Naming>,
    /// Keys of encrypted ones.
    pub(crate) keys: Vec<SealKey>,
}

/// A TXT value that may be a mark.
struct Candidate {
    txt: ResourceId,
    value: Box<str>,
    /// None: it may be sealed, and no key opens it.
    whose: Option<Whose>,
    of: BTreeSet<ResourceId>,
}

impl Reader<'_> {
    /// Finds the marks among the records of a zone.
    pub(crate) fn read(&self, resources: &[Observed]) -> Marks {
        let mut candidates = Vec::new();
        for observed in resources {
            let Some((name, "TXT")) = record::parts(&observed.id) else { continue };
            let Some(set) = RrSet::decode(&observed.bytes) else { continue };
            for value in set.values.iter().filter(|value| !value.starts_with(DISABLED)) {
                candidates.extend(
                    self.candidate(&observed.id, name, record::without_ttl(value))
                        .map(|candidate| Candidate { value: (*value).into(), ..candidate }),
                );
            }
        }
        let mut out = Marks::default();
        if !candidates.is_empty() {
            self.pair(&mut candidates, resources);
            out = self.collect(candidates, resources);
        }
        if self.own.is_some() {
            for observed in resources {
                match record::parts(&observed.id) {
                    Some((_, "TXT")) => _ = out.sets.insert(observed.id.clone(), observed.clone()),
                    Some((name, "CNAME")) => _ = out.cnames.insert(name.into()),
                    _ => {}
                }
            }
        }
        out
    }

    fn candidate(&self, txt: &ResourceId, name: &str, value: &str) -> Option<Candidate> {
        // Sets of Route 53 that are told apart by an id have marks of their own.
        let value = record::bare(value);
        let found = |whose| Candidate { txt: txt.clone(), value: "".into(), whose, of: BTreeSet::new() };
        if value == OCTODNS_MARK {
            let mut mark = found(Some(Whose::Other(OCTODNS.into())));
            mark.of.insert(octodns_target(name)?);
            return Some(mark);
        }
        let is_short = value.len() < 60;
        if is_short && !value.contains("heritage=") {
            return None;
        }
        let text = String::from_utf8(unquote(value)?).ok()?;
        if let Some(whose) = label::read(&text, self.instance) {
            return Some(found(Some(whose)));
        }
        if !may_be_sealed(&text) {
            return None;
        }
        let opened = self.keys.iter().find_map(|key| key.open(&text));
        match opened {
            Some(text) => Some(found(Some(label::read(&text, self.instance)?))),
            None => Some(found(None)),
        }
    }

    /// Finds the records that each candidate is of.
    fn pair(&self, candidates: &mut [Candidate], resources: &[Observed]) {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, candidate) in candidates.iter().enumerate() {
            if let Some((name, _)) = record::parts(&candidate.txt) {
                by_name.entry(name.to_owned()).or_default().push(index);
            }
        }
        let marks: BTreeSet<ResourceId> = candidates
            .iter()
            .filter(|candidate| candidate.whose.is_some())
            .map(|candidate| candidate.txt.clone())
            .collect();
        let plain = Naming::default();
        let mut namings: Vec<&Naming> = self.own.iter().chain(&self.foreign).copied().collect();
        if self.foreign.is_none() {
            namings.push(&plain);
        }
        let mut records: HashMap<&str, Vec<&str>> = HashMap::new();
        for observed in resources {
            let Some((name, kind)) = record::parts(&observed.id) else { continue };
            if kind == "SOA" || crate::rdata::is_signer_type(kind) {
                continue;
            }
            let is_mark = marks.contains(&observed.id);
            if !is_mark {
                records.entry(name).or_default().push(kind);
            }
            for naming in &namings {
                let mut is_typed = false;
                for word in words(kind) {
                    let place = naming.typed(name, word);
                    for index in by_name.get(&place).into_iter().flatten() {
                        // An ExternalDNS may have used another word; ours is always that of the type.
                        let is_of_word = word == kind || candidates[*index].whose != Some(Whose::Ours);
                        // A mark is not its own record.
                        if is_of_word && candidates[*index].txt != observed.id {
                            candidates[*index].of.insert(observed.id.clone());
                            is_typed = true;
                        }
                    }
                }
                if is_typed || is_mark || kind == "AAAA" {
                    continue;
                }
                let Some(place) = naming.untyped(name) else { continue };
                for index in by_name.get(&place).into_iter().flatten() {
                    if matches!(&candidates[*index].whose, Some(Whose::Other(other)) if other.starts_with(label::EXTERNAL_DNS))
                    {
                        candidates[*index].of.insert(observed.id.clone());
                    }
                }
            }
        }
        if self.foreign.is_some() {
            return;
        }
        for candidate in candidates.iter_mut().filter(|c| c.of.is_empty()) {
            let Some((name, _)) = record::parts(&candidate.txt) else { continue };
            let is_octodns = matches!(&candidate.whose, Some(Whose::Other(other)) if &**other == OCTODNS);
            // Where ours stand is known: one of nothing is not that of what happens to have a name like it.
            let is_own =
                candidate.whose == Some(Whose::Ours) && self.own.is_some_and(|own| own.may_name(name));
            if candidate.whose.is_some() && !is_octodns && !is_own {
                let is_ours = candidate.whose == Some(Whose::Ours);
                candidate.of.extend(guess::targets(name, &records, is_ours));
            }
        }
    }

    fn collect(&self, candidates: Vec<Candidate>, resources: &[Observed]) -> Marks {
        let mut out = Marks::default();
        let seen = |id: &ResourceId| resources.binary_search_by(|o| o.id.cmp(id)).ok().map(|i| &resources[i]);
        for candidate in candidates {
            let whose = match candidate.whose {
                Some(whose) => whose,
                // Without a key it is a mark only where a mark would stand.
                None if candidate.of.is_empty() => continue,
                None => Whose::Other("externaldns/encrypted".into()),
            };
            let Some(set) = seen(&candidate.txt) else { continue };
            let mut of: Vec<ResourceId> = candidate.of.into_iter().filter(|id| seen(id).is_some()).collect();
            // One without a type that may be of several records is of those that their backend did not find to be ours, where there
            // are any: its mark stands on the record.
            let is_ours = |id: &ResourceId| seen(id).is_some_and(|observed| observed.owner == Owner::Ours);
            if matches!(whose, Whose::Other(_)) && !of.iter().all(is_ours) {
                of.retain(|id| !is_ours(id));
            }
            for id in &of {
                out.by_record.entry(id.clone()).or_default().push(out.all.len());
            }
            out.by_txt.entry(candidate.txt.clone()).or_default().push(out.all.len());
            out.sets.insert(candidate.txt.clone(), set.clone());
            out.all.push(Mark { txt: candidate.txt, value: candidate.value, whose, of });
        }
        out
    }
}

/// Where a record is among `resources`, which are sorted by id.
fn position(resources: &[Observed], id: &ResourceId) -> Option<usize> {
    resources.binary_search_by(|observed| observed.id.cmp(id)).ok()
}

/// True for a TXT RRset with a value that is a mark, or may be a sealed one.
pub(crate) fn has_marks(observed: &Observed, instance: &str) -> bool {
    let Some((_, "TXT")) = record::parts(&observed.id) else { return false };
    let Some(set) = RrSet::decode(&observed.bytes) else { return false };
    let text = |value: &str| unquote(value).and_then(|text| String::from_utf8(text).ok());
    let is_mark = |text: String| label::read(&text, instance).is_some() || may_be_sealed(&text);
    let mut values = set.values.iter().map(|value| record::bare(record::without_ttl(value)));
    values.any(|value| value == OCTODNS_MARK || text(value).is_some_and(is_mark))
}

/// The words under which ExternalDNS may mark records of a type: an alias is an A or a CNAME to it.
fn words(kind: &str) -> impl Iterator<Item = &str> {
    let others: &[&str] = match kind {
        "ALIAS" => &["a", "aaaa", "cname"],
        "A" | "AAAA" => &["cname"],
        _ => &[],
    };
    std::iter::once(kind).chain(others.iter().copied())
}

/// The record that a mark of octoDNS at `name` is of.
fn octodns_target(name: &str) -> Option<ResourceId> {
    let rest = name.strip_prefix("_owner.")?;
    let kind = name::labels(rest).next()?;
    let name = rest.get(kind.len() + 1..)?;
    let name = match name.strip_prefix("_wildcard.") {
        Some(rest) => format!("*.{rest}"),
        None => name.to_owned(),
    };
    Some(record::id(&name, &kind.to_ascii_uppercase()))
}

/// Where octoDNS would mark a record.
pub(crate) fn octodns_place(name: &str, kind: &str) -> String {
    let name = match name.strip_prefix("*.") {
        Some(rest) => format!("_wildcard.{rest}"),
        None => name.to_owned(),
    };
    format!("_owner.{}.{name}", kind.to_ascii_lowercase())
}

/// Says of `resources`, which are a zone in a file and sorted by id, whose the marks among them say that they are, and leaves out what
/// is nothing but marks: a manifest that declared them would keep what a takeover removes. How they are named and sealed nobody said.
/// Returns how many it leaves out of which no record tells, since theirs is not there.
pub(crate) fn without_marks(resources: &mut Vec<Observed>) -> usize {
    // No instance is called so: none of them is ours.
    let reader = Reader { instance: "\0", own: None, foreign: None, keys: Vec::new() };
    let marks = reader.read(resources);
    marks.assign(resources);
    resources.retain(|observed| !marks.are_all_of(&observed.id));
    marks.count_of_nothing()
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;
