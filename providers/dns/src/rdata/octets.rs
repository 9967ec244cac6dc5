//! Record data on the wire (RFC 1035 §3.3, RFC 3597): canonical text to octets and back.
//!
//! Data of types nobody here knows, and data that are not what their type says, are `\# LENGTH HEX` (RFC 3597
//! §5): a zone with something odd in it can be read, and what is odd is kept as it is.

use super::{
    field::{self, Field},
    loc,
    rrtype::{TYPES, Type},
    svcb,
};
use crate::{
    name,
    text::{self, Strings},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use std::{
    borrow::Cow,
    net::{Ipv4Addr, Ipv6Addr},
};

/// Types by their number, besides those that can be declared: what is found in zones.
const OTHERS: [(u16, &str); 16] = [
    (13, "HINFO"),
    (17, "RP"),
    (18, "AFSDB"),
    (25, "KEY"),
    (37, "CERT"),
    (42, "APL"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (49, "DHCID"),
    (50, "NSEC3"),
    (51, "NSEC3PARAM"),
    (59, "CDS"),
    (60, "CDNSKEY"),
    (62, "CSYNC"),
    (63, "ZONEMD"),
];

/// Further words that servers have for types (IANA, and what exists only within a server).
const WORDS: [&str; 28] = [
    "A6", "AMTRELAY", "ANAME", "ATMA", "DLV", "EUI48", "EUI64", "GPOS", "HIP", "IPSECKEY", "ISDN", "KX",
    "L32", "L64", "LP", "LUA", "MB", "MG", "MINFO", "MR", "NID", "NSAP", "PX", "RT", "SIG", "SPF", "WKS",
    "X25",
];

/// Types of data that cannot be declared and leave no room for a CNAME beside them (IANA). What signs a zone does, and so does KEY
/// (RFC 4035 §2.5, RFC 2535 §2.3.5).
const UNDECLARABLE: [u16; 34] = [
    3, 4, 7, 8, 9, 10, 11, 13, 14, 17, 18, 19, 20, 21, 22, 26, 27, 36, 37, 38, 42, 45, 49, 55, 62, 66, 99,
    104, 105, 106, 107, 108, 109, 260,
];

impl Type {
    /// True for a word that a server may have for a type, declarable or not.
    pub(crate) fn may_be(word: &str) -> bool {
        let is_number = |digits: &str| digits.parse::<u16>().is_ok();
        Type::of(word).is_some()
            || OTHERS.iter().any(|(_, name)| *name == word)
            || WORDS.contains(&word)
            || word.strip_prefix("TYPE").is_some_and(is_number)
    }
    /// The number of the type on the wire; none for what exists only within a server.
    pub fn number(self) -> Option<u16> {
        Some(match self {
            Type::A => 1,
            Type::Ns => 2,
            Type::Cname => 5,
            Type::Soa => 6,
            Type::Ptr => 12,
            Type::Mx => 15,
            Type::Txt => 16,
            Type::Aaaa => 28,
            Type::Loc => 29,
            Type::Srv => 33,
            Type::Naptr => 35,
            Type::Dname => 39,
            Type::Ds => 43,
            Type::Sshfp => 44,
            Type::Tlsa => 52,
            Type::Smimea => 53,
            Type::Openpgpkey => 61,
            Type::Svcb => 64,
            Type::Https => 65,
            Type::Uri => 256,
            Type::Caa => 257,
            Type::Alias => return None,
        })
    }
}

/// The number of a type called `word`, `TYPE123` among them.
pub fn number(word: &str) -> Option<u16> {
    let known = Type::of(word).and_then(Type::number);
    let other = || OTHERS.iter().find(|(_, name)| *name == word).map(|(number, _)| *number);
    known.or_else(other).or_else(|| word.strip_prefix("TYPE")?.parse().ok())
}

/// The words of types that cannot be declared, beside which no CNAME can stand.
pub(crate) fn undeclarable() -> impl Iterator<Item = Cow<'static, str>> {
    UNDECLARABLE.into_iter().map(word)
}

/// The word for a type number.
pub fn word(number: u16) -> Cow<'static, str> {
    let known = TYPES.iter().find(|(_, kind)| kind.number() == Some(number)).map(|(word, _)| *word);
    let word = known.or_else(|| OTHERS.iter().find(|(known, _)| *known == number).map(|(_, word)| *word));
    word.map_or_else(|| format!("TYPE{number}").into(), Into::into)
}

/// Octets of a canonical value of type `kind`; `serial` completes a SOA. None when the value is not canonical.
pub fn encode(kind: &str, value: &str, serial: u32) -> Option<Vec<u8>> {
    if let Some(generic) = value.strip_prefix("\\# ") {
        let (length, digits) = generic.split_once(' ').unwrap_or((generic, ""));
        let octets = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok();
        return octets.filter(|octets| length.parse() == Ok(octets.len()));
    }
    let kind = Type::of(kind)?;
    let mut out = Vec::with_capacity(value.len());
    match kind {
        Type::A => out.extend(value.parse::<Ipv4Addr>().ok()?.octets()),
        Type::Aaaa => out.extend(value.parse::<Ipv6Addr>().ok()?.octets()),
        Type::Loc => out.extend(loc::encode(value)?),
        Type::Txt => {
            for part in Strings::read(value)?.parts() {
                string(part, &mut out)?;
            }
        }
        kind => {
            let fields = field::fields(kind)?;
            let words = text::words(value)?;
            for (index, (_, field)) in fields.iter().enumerate() {
                if kind == Type::Soa && index == 2 {
                    out.extend(serial.to_be_bytes());
                }
                encode_field(*field, words.get(index..)?, &mut out)?;
            }
        }
    }
    u16::try_from(out.len()).ok().map(|_| out)
}

fn encode_field(field: Field, words: &[&str], out: &mut Vec<u8>) -> Option<()> {
    let first = || words.first().copied();
    match field {
        Field::U8 => out.push(first()?.parse().ok()?),
        Field::U16 => out.extend(first()?.parse::<u16>().ok()?.to_be_bytes()),
        Field::U32 => out.extend(first()?.parse::<u32>().ok()?.to_be_bytes()),
        Field::Host => name::encode(first()?, out)?,
        Field::Tag => string(first()?.as_bytes(), out)?,
        Field::Text => string(&text::unquote(first()?)?, out)?,
        Field::LongText => out.extend(text::unquote(first()?)?),
        Field::Hex => out.extend(HEXLOWER_PERMISSIVE.decode(words.concat().as_bytes()).ok()?),
        Field::Base64 => out.extend(STANDARD.decode(words.concat()).ok()?),
        Field::Params => out.extend(svcb::encode(words)?),
    }
    Some(())
}

fn string(octets: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.push(u8::try_from(octets.len()).ok()?);
    out.extend(octets);
    Some(())
}

/// Canonical text of the data of type `number` that end at `end` of `message` and begin at `start`.
///
/// The rest of the message is where compressed names refer to. A SOA is written without its serial.
pub fn decode(number: u16, message: &[u8], start: usize, end: usize) -> String {
    let mut out = String::new();
    let data = message.get(start..end).unwrap_or_default();
    let kind = TYPES.iter().map(|(_, kind)| *kind).find(|kind| kind.number() == Some(number));
    if kind.and_then(|kind| decode_known(kind, message, start, data, &mut out)).is_some() {
        return out;
    }
    out.clear();
    out += &format!("\\# {}", data.len());
    if !data.is_empty() {
        out.push(' ');
        HEXLOWER.encode_append(data, &mut out);
    }
    out
}

fn decode_known(kind: Type, message: &[u8], start: usize, data: &[u8], out: &mut String) -> Option<()> {
    match kind {
        Type::A => *out += &Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).to_string(),
        Type::Aaaa => *out += &Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).to_string(),
        Type::Loc => loc::decode(data, out)?,
        Type::Txt => {
            let (mut rest, mut parts) = (data, Vec::new());
            while !rest.is_empty() {
                let (part, after) = cut_string(rest)?;
                parts.push(part);
                rest = after;
            }
            if parts.is_empty() {
                return None;
            }
            Strings::of(parts).quote(out);
        }
        kind => {
            let end = start + data.len();
            let mut at = start;
            for (index, (_, field)) in field::fields(kind)?.iter().enumerate() {
                if kind == Type::Soa && index == 2 {
                    at += 4;
                }
                if index > 0 {
                    out.push(' ');
                }
                at = decode_field(*field, message, at, end, out)?;
            }
            if at != end {
                return None;
            }
            out.truncate(out.trim_end_matches(' ').len());
        }
    }
    Some(())
}

fn cut_string(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = octets.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

/// Appends one field and returns where the next one begins.
fn decode_field(field: Field, message: &[u8], at: usize, end: usize, out: &mut String) -> Option<usize> {
    let rest = message.get(at..end)?;
    match field {
        Field::U8 => {
            *out += &rest.first()?.to_string();
            Some(at + 1)
        }
        Field::U16 => {
            *out += &u16::from_be_bytes(*rest.first_chunk()?).to_string();
            Some(at + 2)
        }
        Field::U32 => {
            *out += &u32::from_be_bytes(*rest.first_chunk()?).to_string();
            Some(at + 4)
        }
        Field::Host => name::decode(message, at, out).filter(|next| *next <= end),
        Field::Tag => {
            let (tag, _) = cut_string(rest)?;
            let is_tag = !tag.is_empty() && tag.iter().all(u8::is_ascii_alphanumeric);
            let tag = is_tag.then(|| std::str::from_utf8(tag).ok())??;
            *out += &tag.to_ascii_lowercase();
            Some(at + 1 + tag.len())
        }
        Field::Text => {
            let (octets, _) = cut_string(rest)?;
            text::quote(octets, out);
            Some(at + 1 + octets.len())
        }
        Field::LongText => {
            text::quote(rest, out);
            Some(end)
        }
        Field::Hex | Field::Base64 if rest.is_empty() => None,
        Field::Hex => {
            HEXLOWER.encode_append(rest, out);
            Some(end)
        }
        Field::Base64 => {
            STANDARD.encode_string(rest, out);
            Some(end)
        }
        Field::Params => {
            svcb::decode(rest, out)?;
            Some(end)
        }
    }
}
