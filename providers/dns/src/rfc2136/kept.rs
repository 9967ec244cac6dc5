//! Zones as they were last transferred, so that of one that moved only what changed need be transferred (RFC 1995).
//!
//! Guarantees: a difference is used only where all that went was there and nothing that came was; what a server leaves out of
//! its differences is found after an hour or [`MOST_STEPS`] of them, when the zone is transferred whole again; so many records
//! are kept and no more, those of the zones that were read last. It deliberately keeps nothing beyond the process.

use super::{
    response::{self, Found, Response},
    soa::Soa,
    transfer::{Form, Part, Sink},
};
use crate::{
    name,
    rdata::{is_signer_type, octets},
    record,
};
use reconciled_provider::{Error, ResourceId, Scope};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Records of all zones: some 10 MB.
const MOST: usize = 50_000;
/// Differences in a row.
const MOST_STEPS: u32 = 100;
/// How long differences are trusted.
const TRUSTED: Duration = Duration::from_secs(3_600);

/// A record: which set it is of, TTL, canonical value.
pub(crate) type Row = (ResourceId, u32, Arc<str>);

/// A zone as it was read.
#[derive(Debug)]
pub(crate) struct Zone {
    /// Its SOA then.
    pub(crate) soa: Soa,
    /// Its records, sorted; the SOA is one of them.
    pub(crate) rows: Vec<Row>,
    /// When it was last transferred whole.
    whole: Duration,
    /// Differences since.
    steps: u32,
}

/// The zones that were read last.
#[derive(Debug, Default)]
pub(crate) struct Zones(Mutex<VecDeque<(Scope, Arc<Zone>)>>);

impl Zones {
    /// Takes out what is known of a zone, if a difference to it may be believed.
    pub(crate) fn take(&self, scope: &Scope, now: Duration) -> Option<Arc<Zone>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|(kept, _)| kept == scope)?;
        let (_, zone) = all.remove(at)?;
        // Also after a clock that was set back.
        let is_trusted = zone.whole <= now && now - zone.whole < TRUSTED && zone.steps < MOST_STEPS;
        is_trusted.then_some(zone)
    }

    /// Keeps a zone in place of those that were read longest ago.
    pub(crate) fn keep(&self, scope: &Scope, zone: Arc<Zone>) {
        // Of two equal records one that goes could not be told from both.
        if zone.rows.len() > MOST || zone.rows.windows(2).any(|pair| pair[0] == pair[1]) {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(kept, _)| kept != scope);
        all.push_back((scope.clone(), zone));
        let mut count: usize = all.iter().map(|(_, zone)| zone.rows.len()).sum();
        while count > MOST
            && let Some((_, oldest)) = all.pop_front()
        {
            count -= oldest.rows.len();
        }
    }
}

/// The records of a transfer as they come.
#[derive(Debug)]
pub(crate) struct Records<'z> {
    zone: &'z str,
    before: Option<Arc<Zone>>,
    head: Option<Row>,
    all: Vec<Row>,
    gone: BTreeSet<Row>,
    new: BTreeSet<Row>,
}

impl<'z> Records<'z> {
    /// Of a transfer of `zone`; a difference would be one to `before`.
    pub(crate) fn of(zone: &'z str, before: Option<Arc<Zone>>) -> Records<'z> {
        let (gone, new) = (BTreeSet::new(), BTreeSet::new());
        Records { zone, before, head: None, all: Vec::new(), gone, new }
    }

    /// The zone, once its transfer has ended.
    pub(crate) fn end(self, soa: Soa, form: Form, now: Duration) -> Arc<Zone> {
        let (mut rows, whole, steps) = match (form, self.before) {
            (Form::Difference, Some(before)) => {
                let stays = |row: &&Row| !is_soa(row, self.zone) && !self.gone.contains(*row);
                let rows = before.rows.iter().filter(stays).cloned().chain(self.new);
                (rows.collect(), before.whole, before.steps + 1)
            }
            (Form::Unmoved, Some(before)) => return before,
            _ => (self.all, now, 0),
        };
        rows.extend(self.head);
        rows.sort_unstable();
        Arc::new(Zone { soa, rows, whole, steps })
    }

    fn row(&self, response: &Response<'_>, found: &Found) -> Result<Option<Row>, Error> {
        let bad =
            |what: &str| Error::unexpected(format!("read zone {}: {what}", self.zone.trim_end_matches('.')));
        let name = response.name(found).ok_or_else(|| bad("a record has no name"))?;
        if found.class != response::IN || !name::is_within(&name, self.zone) {
            return Err(bad(&format!("`{name}` is of another class or zone")));
        }
        let kind = octets::word(found.number);
        if is_signer_type(&kind) {
            return Ok(None);
        }
        let value = octets::decode(found.number, response.octets, found.start, found.end);
        Ok(Some((record::id(&name, &kind), found.ttl, value.into())))
    }

    fn was(&self, row: &Row) -> bool {
        self.before.as_ref().is_some_and(|before| before.rows.binary_search(row).is_ok())
    }
}

impl Sink for Records<'_> {
    fn take(&mut self, part: Part, response: &Response<'_>, found: &Found) -> Result<(), Error> {
        let Some(row) = self.row(response, found)? else { return Ok(()) };
        // What went and came again is as it was.
        let fits = match part {
            Part::Head => self.head.replace(row).is_none(),
            Part::Zone => {
                self.all.push(row);
                true
            }
            Part::Gone => self.new.remove(&row) || self.was(&row) && self.gone.insert(row),
            Part::New => self.gone.remove(&row) || !self.was(&row) && self.new.insert(row),
        };
        match fits {
            true => Ok(()),
            false => Err(Error::unexpected("the difference is one to another zone than what was read")),
        }
    }
}

fn is_soa(row: &Row, zone: &str) -> bool {
    record::parts(&row.0).is_some_and(|(name, kind)| name == zone && kind == "SOA")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rfc2136::transfer::{
        Unfit,
        tests::{R, play, soa},
    };
    use proptest::prelude::*;

    const ZONE: &str = "example.com.";

    /// The zone after what a server said, if that is any good.
    fn read(before: Option<&Arc<Zone>>, records: &[R], now: u64) -> Result<Arc<Zone>, Unfit> {
        let mut sink = Records::of(ZONE, before.cloned());
        let since = before.map(|zone| zone.soa.serial);
        let ended = play(since, records, 3, &mut sink)?;
        let (soa, form) = ended.expect("an end");
        Ok(sink.end(soa, form, Duration::from_secs(now)))
    }

    fn names(all: &BTreeSet<u8>) -> impl Iterator<Item = R> {
        all.iter().map(|name| R::A(format!("h{name}")))
    }

    fn whole(serial: u32, all: &BTreeSet<u8>, now: u64) -> Arc<Zone> {
        let records: Vec<R> =
            [R::Soa(serial)].into_iter().chain(names(all)).chain([R::Soa(serial)]).collect();
        read(None, &records, now).unwrap()
    }

    #[test]
    fn a_difference_to_another_zone_is_refused() {
        let before = whole(1, &[1, 2].into(), 0);
        let (s, a) = (R::Soa, |name: &str| R::A(name.into()));
        let said = |records: &[R]| read(Some(&before), records, 0).map(|zone| zone.rows.len());
        assert_eq!(said(&[s(2), s(1), a("h1"), s(2), a("h3"), s(2)]).unwrap(), 3);
        for records in [
            vec![s(2), s(1), a("h3"), s(2), s(2)],
            vec![s(2), s(1), s(2), a("h2"), s(2)],
            vec![s(2), s(1), a("h1"), a("h1"), s(2), s(2)],
            vec![s(2), s(1), s(2), a("h3"), a("h3"), s(2)],
        ] {
            let unfit = said(&records).unwrap_err();
            assert!(format!("{unfit:?}").contains("another zone"), "{records:?}: {unfit:?}");
        }
    }

    #[test]
    fn differences_are_trusted_for_a_time_and_a_number() {
        let (zones, scope) = (Zones::default(), Scope::new("bind", "example.com"));
        let at = Duration::from_secs;
        let zone = whole(1, &[1].into(), 100);
        let kept = |zone: &Arc<Zone>, now: u64| {
            zones.keep(&scope, zone.clone());
            zones.take(&scope, at(now)).is_some()
        };
        assert!(kept(&zone, 100) && kept(&zone, 3_699) && !kept(&zone, 3_700) && !kept(&zone, 99));
        let next = read(Some(&zone), &[R::Soa(2), R::Soa(1), R::Soa(2), R::Soa(2)], 200).unwrap();
        assert_eq!((next.whole, next.steps), (at(100), 1));
        let old = Zone { soa: soa(2), rows: Vec::new(), whole: at(100), steps: MOST_STEPS };
        assert!(!kept(&Arc::new(old), 200));
        assert!(zones.take(&scope, at(200)).is_none(), "what was taken out is gone until it is read again");
    }

    #[test]
    fn so_many_records_are_kept_and_no_more() {
        let zones = Zones::default();
        let scope = |name: &str| Scope::new("bind", name);
        let of = |count: usize| {
            let row = |i: usize| (ResourceId::from(&*format!("h{i}.example.com./A")), 60, "192.0.2.1".into());
            let mut rows: Vec<Row> = (0..count).map(row).collect();
            rows.sort_unstable();
            Arc::new(Zone { soa: soa(1), rows, whole: Duration::ZERO, steps: 0 })
        };
        zones.keep(&scope("a"), of(MOST + 1));
        assert!(zones.take(&scope("a"), Duration::ZERO).is_none());
        let half = of(MOST / 2);
        ["a", "b", "c"].iter().for_each(|name| zones.keep(&scope(name), half.clone()));
        let kept = ["a", "b", "c"].map(|name| zones.take(&scope(name), Duration::ZERO).is_some());
        assert_eq!(kept, [false, true, true]);
    }

    proptest! {
        #[test]
        fn any_way_of_differences_leads_to_the_zone_as_it_is(states in proptest::collection::vec(
            proptest::collection::btree_set(0u8..12, 0..8), 2..7,
        ), cuts in proptest::collection::vec(any::<bool>(), 6)) {
            // Versions are told one by one, or several in one answer.
            let mut zone = whole(1, &states[0], 0);
            let mut from = 0;
            for to in 1..states.len() {
                if to + 1 < states.len() && cuts[to - 1] {
                    continue;
                }
                let last = R::Soa(to as u32 + 1);
                let mut said = vec![last.clone()];
                for step in from..to {
                    let (old, new) = (&states[step], &states[step + 1]);
                    said.push(R::Soa(step as u32 + 1));
                    said.extend(names(&(old - new)));
                    said.push(R::Soa(step as u32 + 2));
                    said.extend(names(&(new - old)));
                }
                said.push(last);
                zone = read(Some(&zone), &said, 0).unwrap();
                from = to;
                let expect = whole(to as u32 + 1, &states[to], 0);
                prop_assert_eq!(&zone.rows, &expect.rows);
                prop_assert_eq!(&zone.soa, &expect.soa);
            }
        }
    }
}
