//! What the records of a transfer are: all of a zone (RFC 5936), or what changed since a version of it (RFC 1995).
//!
//! Guarantees: a transfer counts only when it ended with the SOA that it began with, and a difference only when it leads from
//! the version that was asked about to that SOA without a gap. Pure: it deliberately reads no connection.

use super::{
    response::{self, Found, Response},
    soa::{Soa, soa_at},
};
use reconciled_provider::Error;

/// What a record is in a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The SOA that the zone has now; it comes once.
    Head,
    /// One of all records but the SOA.
    Zone,
    /// One that went since.
    Gone,
    /// One that came since.
    New,
}

/// What a transfer turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All records.
    Whole,
    /// What changed.
    Difference,
    /// Nothing did.
    Unmoved,
}

/// Takes records as they come.
pub(crate) trait Sink {
    /// Takes one record; an error ends the transfer.
    fn take(&mut self, part: Part, response: &Response<'_>, found: &Found) -> Result<(), Error>;
}

/// How far a transfer has come.
#[derive(Debug)]
enum At {
    /// Nothing came.
    Start,
    /// After the SOA that the zone has now, where both forms may follow.
    Head(Soa),
    /// Among all records.
    Whole(Soa),
    /// Among those that went.
    Gone(Soa),
    /// Among those that came with the second SOA.
    New(Soa, Soa),
    /// At its end.
    End(Soa, Form),
}

/// Why a transfer is no good.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The server does not keep to the protocol.
    Odd(&'static str),
    /// It ended with another SOA than it began with.
    Moved,
    /// The sink refused a record.
    Refused(Error),
}

impl From<&'static str> for Unfit {
    fn from(why: &'static str) -> Unfit {
        Unfit::Odd(why)
    }
}

/// A transfer of `zone` that goes on.
#[derive(Debug)]
pub(crate) struct Transfer<'t> {
    zone: &'t str,
    /// The version that is asked about.
    since: Option<&'t Soa>,
    at: At,
}

impl<'t> Transfer<'t> {
    pub(crate) fn of(zone: &'t str, since: Option<&'t Soa>) -> Transfer<'t> {
        Transfer { zone, since, at: At::Start }
    }

    /// Takes the next message. What came of it once it is at its end.
    pub(crate) fn take(
        &mut self,
        response: &Response<'_>,
        sink: &mut (dyn Sink + Send),
    ) -> Result<Option<(Soa, Form)>, Unfit> {
        for found in &response.answers {
            let at = std::mem::replace(&mut self.at, At::Start);
            self.at = self.step(at, response, found, sink)?;
        }
        match &self.at {
            At::Start => Err("the transfer is empty".into()),
            // All that a server says which has nothing newer.
            At::Head(soa) if self.since == Some(soa) => Ok(Some((soa.clone(), Form::Unmoved))),
            At::End(soa, form) => Ok(Some((soa.clone(), *form))),
            _ => Ok(None),
        }
    }

    fn step(
        &self,
        at: At,
        response: &Response<'_>,
        found: &Found,
        sink: &mut (dyn Sink + Send),
    ) -> Result<At, Unfit> {
        let mut give = |part| sink.take(part, response, found).map_err(Unfit::Refused);
        let soa = match found.number == response::SOA {
            true => Some(soa_at(response, found, self.zone).ok_or("a SOA in it is not of the zone")?),
            false => None,
        };
        let next = match (at, soa) {
            (At::End(..), _) => return Err("records follow the end of the transfer".into()),
            (At::Start, None) => return Err("the transfer begins without the SOA".into()),
            (At::Start, Some(soa)) => {
                give(Part::Head)?;
                if self.since.is_some() { At::Head(soa) } else { At::Whole(soa) }
            }
            (At::Head(head), Some(soa)) if soa == head => At::End(head, Form::Whole),
            (At::Head(head), Some(soa)) if Some(&soa) == self.since => At::Gone(head),
            // The last step ends with the SOA that the zone has now, each other one where the next begins.
            (At::New(head, to), Some(soa)) if soa == to && to == head => At::End(head, Form::Difference),
            (At::New(head, to), Some(soa)) if soa == to => At::Gone(head),
            (At::Head(_) | At::New(..), Some(_)) => return Err("it leads from another version".into()),
            (At::Head(head) | At::Whole(head), None) => {
                give(Part::Zone)?;
                At::Whole(head)
            }
            (At::Whole(head), Some(soa)) if soa == head => At::End(head, Form::Whole),
            (At::Whole(_), Some(_)) => return Err(Unfit::Moved),
            (At::Gone(head), None) => {
                give(Part::Gone)?;
                At::Gone(head)
            }
            (At::Gone(head), Some(soa)) => At::New(head, soa),
            (At::New(head, to), None) => {
                give(Part::New)?;
                At::New(head, to)
            }
        };
        Ok(next)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::rfc2136::request;
    use hickory_proto::{
        op::Message,
        rr::{RData, Record, RecordType, rdata::NULL},
    };

    /// A record of `example.com.`: its SOA with this serial, or an address with this name.
    #[derive(Clone, Debug)]
    pub(in crate::rfc2136) enum R {
        Soa(u32),
        A(String),
    }

    pub(in crate::rfc2136) fn soa(serial: u32) -> Soa {
        let mut data = vec![0, 0];
        data.extend(serial.to_be_bytes());
        data.extend([0; 16]);
        Soa { serial, data }
    }

    fn record(one: &R) -> Record {
        let (name, code, data) = match one {
            R::Soa(serial) => ("example.com.".into(), RecordType::SOA, soa(*serial).data),
            R::A(name) => (format!("{name}.example.com."), RecordType::A, vec![192, 0, 2, 1]),
        };
        let data = RData::Unknown { code, rdata: NULL::with(data) };
        Record::from_rdata(request::domain(&name).unwrap(), 60, data)
    }

    /// Gives a transfer what a server says, so many records in a message.
    pub(in crate::rfc2136) fn play(
        since: Option<u32>,
        records: &[R],
        together: usize,
        sink: &mut (dyn Sink + Send),
    ) -> Result<Option<(Soa, Form)>, Unfit> {
        let since = since.map(soa);
        let mut transfer = Transfer::of("example.com.", since.as_ref());
        let mut ended = None;
        for part in records.chunks(together) {
            let mut message = Message::query();
            message.add_answers(part.iter().map(record));
            let octets = message.to_vec().unwrap();
            ended = transfer.take(&response::parse(&octets).unwrap(), sink)?;
        }
        Ok(ended)
    }

    #[derive(Default)]
    struct Parts(Vec<Part>);

    impl Sink for Parts {
        fn take(&mut self, part: Part, _: &Response<'_>, _: &Found) -> Result<(), Error> {
            self.0.push(part);
            Ok(())
        }
    }

    #[test]
    fn records_are_what_their_place_between_two_soas_says() {
        use Part::{Gone, Head, New, Zone};
        let (s, a) = (R::Soa, || R::A("a".into()));
        let check = |since: Option<u32>, records: &[R], expect: Option<(u32, Form)>, parts: &[Part]| {
            for together in [1, 2, 9] {
                let mut seen = Parts::default();
                let ended = play(since, records, together, &mut seen).unwrap();
                let expect = expect.map(|(serial, form)| (soa(serial), form));
                assert_eq!((ended, &seen.0[..]), (expect, parts), "{records:?}");
            }
        };
        check(None, &[s(2), a(), a(), s(2)], Some((2, Form::Whole)), &[Head, Zone, Zone]);
        check(None, &[s(2), s(2)], Some((2, Form::Whole)), &[Head]);
        check(None, &[s(2), a()], None, &[Head, Zone]);
        // A server that has no differences sends all, as if it was asked for that.
        check(Some(1), &[s(2), a(), s(2)], Some((2, Form::Whole)), &[Head, Zone]);
        check(Some(1), &[s(2), s(2)], Some((2, Form::Whole)), &[Head]);
        check(Some(2), &[s(2)], Some((2, Form::Unmoved)), &[Head]);
        check(Some(1), &[s(2)], None, &[Head]);
        let one = [s(2), s(1), a(), s(2), a(), a(), s(2)];
        check(Some(1), &one, Some((2, Form::Difference)), &[Head, Gone, New, New]);
        check(Some(1), &[s(2), s(1), s(2), s(2)], Some((2, Form::Difference)), &[Head]);
        let two = [s(3), s(1), a(), s(2), s(2), s(3), a(), s(3)];
        check(Some(1), &two, Some((3, Form::Difference)), &[Head, Gone, New]);
        check(Some(1), &two[..5], None, &[Head, Gone]);
    }

    #[test]
    fn what_leads_from_elsewhere_or_does_not_end_where_it_began_is_nothing() {
        let (s, a) = (R::Soa, || R::A("a".into()));
        let check = |since: Option<u32>, records: &[R], expect: &str| {
            let unfit = play(since, records, 1, &mut Parts::default()).unwrap_err();
            assert!(format!("{unfit:?}").contains(expect), "{records:?}: {unfit:?}");
        };
        check(None, &[a()], "begins without the SOA");
        check(None, &[s(2), a(), s(3)], "Moved");
        check(None, &[s(2), s(2), a()], "records follow the end");
        check(Some(1), &[s(3), s(2), a()], "another version");
        // A step is missing.
        check(Some(1), &[s(4), s(1), s(2), s(3), s(4), s(4)], "another version");
        // It leads to another version than it said at first.
        check(Some(1), &[s(3), s(1), s(2), s(3)], "another version");
        check(Some(1), &[s(2), s(1), s(2), s(2), a()], "records follow the end");
    }
}
