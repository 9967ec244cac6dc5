//! Answers, as far as they are needed: header, question, and where the records are.
//!
//! Records are found, not parsed: data nobody understands are data nevertheless, and must not keep a whole zone
//! from being read. `hickory-proto` refuses a message for one of them.

use crate::name;
use hickory_proto::rr::rdata::tsig::{TSIG, TsigAlgorithm, TsigError};

/// Number of a SOA.
pub(crate) const SOA: u16 = 6;
const TSIG_NUMBER: u16 = 250;
/// The Internet.
pub(crate) const IN: u16 = 1;

/// One answer.
#[derive(Debug)]
pub(crate) struct Response<'m> {
    /// All of it.
    pub(crate) octets: &'m [u8],
    /// Which question it answers.
    pub(crate) id: u16,
    /// True for an answer, not a question.
    pub(crate) is_response: bool,
    /// The server has the zone itself.
    pub(crate) is_authoritative: bool,
    /// Something did not fit.
    pub(crate) is_truncated: bool,
    /// How it went (RFC 1035 §4.1.1, RFC 2136 §2.2).
    pub(crate) rcode: u8,
    /// Name and type of the question, where it was repeated.
    pub(crate) question: Option<(String, u16)>,
    /// Records of the answer section.
    pub(crate) answers: Vec<Found>,
    /// Records of the additional section.
    pub(crate) additionals: u16,
    /// The signature: where it begins, the name of the key, the data.
    pub(crate) tsig: Option<(usize, String, TSIG)>,
}

/// Where a record is in its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Where its name begins.
    pub(crate) name: usize,
    /// Type.
    pub(crate) number: u16,
    /// Class.
    pub(crate) class: u16,
    /// Seconds.
    pub(crate) ttl: u32,
    /// Where its data begin.
    pub(crate) start: usize,
    /// Where its data end.
    pub(crate) end: usize,
}

/// Reads a message; none when it is not one.
pub(crate) fn parse(octets: &[u8]) -> Option<Response<'_>> {
    let (header, _) = octets.split_first_chunk::<12>()?;
    let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let mut at = 12;
    let mut question = None;
    for _ in 0..number(4) {
        let mut text = String::new();
        at = name::decode(octets, at, &mut text)?;
        let kind = u16::from_be_bytes(*octets.get(at..)?.first_chunk()?);
        octets.get(at..at + 4)?;
        at += 4;
        question = Some((text, kind));
    }
    let mut answers = Vec::with_capacity(usize::from(number(6)));
    for _ in 0..number(6) {
        let found = record(octets, at)?;
        at = found.end;
        answers.push(found);
    }
    for _ in 0..number(8) {
        at = record(octets, at)?.end;
    }
    let mut tsig = None;
    for index in 0..number(10) {
        let found = record(octets, at)?;
        if found.number == TSIG_NUMBER {
            // The last record, or the message is not one (RFC 8945 §5.1).
            if index + 1 != number(10) {
                return None;
            }
            tsig = Some(signature(octets, found)?);
        }
        at = found.end;
    }
    (at == octets.len()).then_some(Response {
        octets,
        id: number(0),
        is_response: header[2] & 0x80 != 0,
        is_authoritative: header[2] & 0x04 != 0,
        is_truncated: header[2] & 0x02 != 0,
        rcode: header[3] & 0x0f,
        question,
        answers,
        additionals: number(10),
        tsig,
    })
}

fn record(octets: &[u8], name: usize) -> Option<Found> {
    let at = skip(octets, name)?;
    let [a, b, c, d, e, f, g, h, high, low] = *octets.get(at..)?.first_chunk()?;
    let start = at + 10;
    let end = start + usize::from(u16::from_be_bytes([high, low]));
    octets.get(start..end)?;
    Some(Found {
        name,
        number: u16::from_be_bytes([a, b]),
        class: u16::from_be_bytes([c, d]),
        ttl: u32::from_be_bytes([e, f, g, h]),
        start,
        end,
    })
}

/// Where what follows a name begins.
fn skip(octets: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *octets.get(at)? {
            0 => return Some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            0xc0.. => return Some(at + 2),
            _ => return None,
        }
    }
}

fn signature(octets: &[u8], found: Found) -> Option<(usize, String, TSIG)> {
    let (mut key, mut algorithm) = (String::new(), String::new());
    name::decode(octets, found.name, &mut key)?;
    let at = name::decode(octets, found.start, &mut algorithm)?;
    let rest = octets.get(at..found.end)?;
    let ([a, b, c, d, e, f, fudge_high, fudge_low, long, short], rest) = rest.split_first_chunk::<10>()?;
    let (mac, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*long, *short])))?;
    let ([id_high, id_low, error_high, error_low, long, short], other) = rest.split_first_chunk::<6>()?;
    if other.len() != usize::from(u16::from_be_bytes([*long, *short])) {
        return None;
    }
    let error = u16::from_be_bytes([*error_high, *error_low]);
    let algorithm = match algorithm.as_str() {
        "hmac-sha256." => TsigAlgorithm::HmacSha256,
        "hmac-sha384." => TsigAlgorithm::HmacSha384,
        "hmac-sha512." => TsigAlgorithm::HmacSha512,
        other => TsigAlgorithm::Unknown(super::request::domain(other)?),
    };
    let tsig = TSIG::new(
        algorithm,
        u64::from_be_bytes([0, 0, *a, *b, *c, *d, *e, *f]),
        u16::from_be_bytes([*fudge_high, *fudge_low]),
        mac.to_vec(),
        u16::from_be_bytes([*id_high, *id_low]),
        (error != 0).then(|| TsigError::from(error)),
        other.to_vec(),
    );
    Some((found.name, key, tsig))
}

impl Response<'_> {
    /// True when it answers the question `name`/`number` that was asked as `id`.
    pub(crate) fn answers_to(&self, id: u16, name: &str, number: u16) -> bool {
        // A server may leave the question out of an error (RFC 8945 examples) and of later messages of a transfer.
        let is_mine = self.question.as_ref().is_none_or(|(asked, kind)| asked == name && *kind == number);
        self.is_response && self.id == id && is_mine
    }

    /// Canonical name of a record.
    pub(crate) fn name(&self, found: &Found) -> Option<String> {
        let mut out = String::new();
        name::decode(self.octets, found.name, &mut out)?;
        Some(out)
    }

    /// Data of a SOA without compression, with the case of its names, and its serial.
    pub(crate) fn soa(&self, found: &Found) -> Option<(Vec<u8>, u32)> {
        let mut out = Vec::with_capacity(64);
        let mut at = found.start;
        for _ in 0..2 {
            at = plain(self.octets, at, &mut out)?;
        }
        let numbers: [u8; 20] = self.octets.get(at..found.end)?.try_into().ok()?;
        out.extend(numbers);
        Some((out, u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]])))
    }
}

/// Appends a name without compression and returns where what follows it begins.
fn plain(octets: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    // Proves that it ends.
    name::decode(octets, at, &mut String::new())?;
    let next = skip(octets, at)?;
    let mut at = at;
    loop {
        match *octets.get(at)? {
            0 => {
                out.push(0);
                return Some(next);
            }
            length @ 1..=63 => {
                out.extend(octets.get(at..at + 1 + usize::from(length))?);
                at += 1 + usize::from(length);
            }
            high => at = usize::from(u16::from_be_bytes([high & 0x3f, *octets.get(at + 1)?])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rdata::{Type, octets, tests::canonical_values},
        rfc2136::request::{Changes, Set},
    };
    use hickory_proto::op::Message;
    use proptest::prelude::*;

    #[test]
    fn names_are_followed_backwards_only() {
        // A header, `a.b.` at 12, and a pointer to it at 17; then one to itself.
        let mut octets = vec![0; 12];
        octets.extend(b"\x01a\x01b\0\xc0\x0c\xc0\x13");
        let mut text = String::new();
        assert_eq!(name::decode(&octets, 17, &mut text), Some(19));
        assert_eq!(text, "a.b.");
        assert_eq!(name::decode(&octets, 19, &mut String::new()), None);
        let mut wire = Vec::new();
        assert_eq!(plain(&octets, 17, &mut wire), Some(19));
        assert_eq!(wire, b"\x01a\x01b\0");
    }

    proptest! {
        #[test]
        fn any_value_of_any_type_comes_back_as_it_was_sent((kind, value) in canonical_values(), ttl in 0u32..90_000) {
            let Some(set) = Set::new("www.example.com.", kind.word()) else {
                prop_assert_eq!(kind, Type::Alias, "nobody else has no form on the wire");
                return Ok(());
            };
            let mut changes = Changes::default();
            set.add(ttl, kind.word(), &value, 7, &mut changes).unwrap();
            let mut message = Message::query();
            message.add_answers(changes.adds);
            let sent = message.to_vec().unwrap();
            let found = parse(&sent).unwrap().answers[0];
            let read = octets::decode(found.number, &sent, found.start, found.end);
            prop_assert_eq!((found.ttl, read), (ttl, value));
        }

        #[test]
        fn no_octets_make_the_parser_panic(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(response) = parse(&octets) {
                for found in &response.answers {
                    let _ = response.name(found);
                    let _ = response.soa(found);
                    let _ = octets::decode(found.number, &octets, found.start, found.end);
                }
            }
        }
    }
}
