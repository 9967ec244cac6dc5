//! A zone that was made here, read back without its comments.
//!
//! Comments are most of what the server writes out for a list: 10,000 marked sets take it five times as long as the same as text
//! (87 and 17 ms). While the serial says that nobody wrote after us, the marks are those that we wrote.
//! Guarantees: what is read this way is what a list would tell, or nothing is. Text in which anything that we wrote is missing or
//! another, or that can be read in two ways, or that came from a moved zone, counts for nothing. It is remembered from the batch
//! that makes the zone to the first read of all of it: what a later batch finds may be somebody else's work.
//! Caveats: those of any read by serials (see [`observe`](super::observe)). 4.7 makes a zone without the marks, and says nothing,
//! where its backend keeps no comments; here it has them.

use super::zone::{Raise, owner_unmarked};
use crate::{
    batch::{Unit, items},
    name,
    ownership::MarkAfter,
    record::{self, Collector},
};
use reconciled_provider::{Declared, Hash, Observed, Op, Owner, ResourceId, Scope, Spec};
use std::sync::Arc;

/// A zone that was made here, as the last of our requests left it.
#[derive(Debug)]
pub(super) struct Made {
    /// Its serial as that request left it.
    pub(super) serial: u32,
    /// How far a change raises that.
    pub(super) raise: Raise,
    /// What was written.
    sets: Vec<Arc<Declared>>,
    /// What was written bears our mark.
    is_marked: bool,
}

impl Made {
    pub(super) fn new(serial: u32, raise: Raise, is_marked: bool) -> Made {
        Made { serial, raise, sets: Vec::new(), is_marked }
    }

    /// Remembers that these were written as well; false where somebody else's part in them is not known.
    pub(super) fn add(&mut self, written: &[Unit<'_, ()>]) -> bool {
        self.sets.reserve_exact(items(written).count());
        items(written).all(|item| {
            let Op::Create { desired, .. } = &item.action.op else { return false };
            if desired.spec.bytes().is_none() {
                return false;
            }
            self.sets.push(desired.declared.clone());
            MarkAfter::of(item.action) == MarkAfter::Ours
        })
    }

    /// The zone and its RRsets, sorted by id, of the text of an export (`name TTL IN type content`, with tabs between); none where
    /// it is not as we left it, or not to be understood.
    pub(super) fn read(mut self, text: &str, scope: &Scope) -> Option<Vec<Observed>> {
        let zone = record::zone_name(scope);
        self.sets.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let mut resources = Vec::with_capacity(self.sets.len() + 3);
        resources.push(Observed::new(record::zone_id(scope), record::ZONE));
        let (mut collector, mut serial, mut written) = (Collector::default(), None, 0);
        let mut lines = text.strip_suffix('\n')?.split('\n').map(Line::parse).peekable();
        while let Some(line) = lines.next() {
            let line = line?;
            collector.add(line.kind, line.content.into(), false);
            if line.kind == "SOA" {
                serial = Some(line.content.split(' ').nth(2)?.parse::<u32>().ok()?);
            }
            if lines.peek().is_some_and(|next| next.as_ref().is_some_and(|next| next.is_with(&line))) {
                continue;
            }
            let name = name::observed(line.name);
            let (id, bytes) = (record::id(&name, line.kind), collector.finish(line.ttl));
            let set = self.written(&id, &bytes);
            written += usize::from(set.is_some());
            resources.push(match set {
                // Of many thousand there need not be two of each.
                Some((id, bytes, hash)) => Observed {
                    owner: if self.is_marked { Owner::Ours } else { owner_unmarked(&name, line.kind, &zone) },
                    ..Observed::hashed(id.clone(), bytes.clone(), *hash)
                },
                None => {
                    Observed { owner: owner_unmarked(&name, line.kind, &zone), ..Observed::new(id, bytes) }
                }
            });
        }
        resources.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let is_told_twice = resources.windows(2).any(|pair| matches!(pair, [a, b] if a.id == b.id));
        let is_as_left = serial == Some(self.serial) && written == self.sets.len();
        (is_as_left && !is_told_twice).then_some(resources)
    }

    /// What was written as `id`, with its content and the hash of that, where that is `bytes` still. They are sorted.
    fn written(&self, id: &ResourceId, bytes: &[u8]) -> Option<(&ResourceId, &Arc<[u8]>, &Hash)> {
        let at = self.sets.binary_search_by(|set| set.id.cmp(id)).ok()?;
        let set = self.sets.get(at)?;
        let Spec::Known { bytes: written, hash, .. } = &set.spec else { return None };
        (**written == *bytes).then_some((&set.id, written, hash))
    }
}

/// One record of an export.
struct Line<'a> {
    name: &'a str,
    ttl: u32,
    kind: &'a str,
    content: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Line<'a>> {
        let mut parts = line.splitn(5, '\t');
        let (name, ttl, class) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
        let (kind, content) = (parts.next()?, parts.next()?);
        (class == "IN").then_some(Line { name, ttl, kind, content })
    }
    /// True for two records of one set.
    fn is_with(&self, other: &Line<'_>) -> bool {
        (self.name, self.kind, self.ttl) == (other.name, other.kind, other.ttl)
    }
}
