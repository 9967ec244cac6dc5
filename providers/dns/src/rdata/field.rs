//! Record data as a row of fields: most types are nothing else.
//!
//! One description of a type gives its canonical text, its octets and its structured form; [`super::loc`] and
//! [`super::svcb`] are what no row of fields describes.

use super::{refusal::Refusal, rrtype::Type, svcb};
use crate::text;
use base64::{Engine, engine::general_purpose::STANDARD};
use data_encoding::HEXLOWER;
use std::fmt::Write;

/// One field of record data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// A number of one octet.
    U8,
    /// A number of two octets.
    U16,
    /// A number of four octets.
    U32,
    /// The name of a host.
    Host,
    /// A character string of at most 255 octets.
    Text,
    /// A character string that takes the rest of the data, of any length.
    LongText,
    /// The property of a CAA record, with its length before it.
    Tag,
    /// Octets to the end, written in hexadecimal.
    Hex,
    /// Octets to the end, written in base64.
    Base64,
    /// Parameters of a service to the end (RFC 9460).
    Params,
}

impl Field {
    /// True when the field takes every word that is left.
    fn takes_rest(self) -> bool {
        matches!(self, Field::Hex | Field::Base64 | Field::Params)
    }
}

/// The fields of a type with the names they have in structured values; none where there is more to the type.
pub(crate) fn fields(kind: Type) -> Option<&'static [(&'static str, Field)]> {
    use Field::*;
    Some(match kind {
        Type::Alias | Type::Cname | Type::Dname | Type::Ns | Type::Ptr => &[("target", Host)],
        Type::Caa => &[("flags", U8), ("tag", Tag), ("value", LongText)],
        Type::Ds => &[("keyTag", U16), ("algorithm", U8), ("digestType", U8), ("digest", Hex)],
        Type::Https | Type::Svcb => &[("priority", U16), ("target", Host), ("params", Params)],
        Type::Mx => &[("priority", U16), ("target", Host)],
        Type::Naptr => &[
            ("order", U16),
            ("preference", U16),
            ("flags", Text),
            ("service", Text),
            ("regexp", Text),
            ("replacement", Host),
        ],
        Type::Openpgpkey => &[("key", Base64)],
        Type::Smimea | Type::Tlsa => &[("usage", U8), ("selector", U8), ("matchingType", U8), ("data", Hex)],
        // Its serial is the server's: it stands between the names and the numbers where data are exchanged.
        Type::Soa => &[
            ("mname", Host),
            ("rname", Host),
            ("refresh", U32),
            ("retry", U32),
            ("expire", U32),
            ("minimum", U32),
        ],
        Type::Srv => &[("priority", U16), ("weight", U16), ("port", U16), ("target", Host)],
        Type::Sshfp => &[("algorithm", U8), ("fingerprintType", U8), ("fingerprint", Hex)],
        Type::Uri => &[("priority", U16), ("weight", U16), ("target", LongText)],
        Type::A | Type::Aaaa | Type::Loc | Type::Txt => return None,
    })
}

impl Type {
    /// Indexes of the fields that are hosts.
    pub(crate) fn host_fields(self) -> impl Iterator<Item = usize> {
        let fields = fields(self).unwrap_or_default().iter().enumerate();
        fields.filter(|(_, (_, field))| *field == Field::Host).map(|(index, _)| index)
    }
}

/// Canonical text of presentation text that is a row of `fields`; `host` makes names canonical.
///
/// The outer result says whether the text has the form, the inner one what `host` refused.
pub(crate) fn canonical(
    fields: &[(&str, Field)],
    content: &str,
    host: &mut dyn FnMut(&str) -> Result<String, Refusal>,
) -> Option<Result<String, Refusal>> {
    let words = text::words(content)?;
    let has_rest = fields.last().is_some_and(|(_, field)| field.takes_rest());
    if !has_rest && words.len() != fields.len() {
        return None;
    }
    let mut rest = &words[..];
    let mut out = String::with_capacity(content.len() + 8);
    for (index, (_, field)) in fields.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        if field.takes_rest() {
            join(*field, rest, &mut out)?;
            rest = &[];
            continue;
        }
        let (word, others) = rest.split_first()?;
        rest = others;
        match field {
            Field::Host => match host(word) {
                Ok(name) => out += &name,
                Err(refusal) => return Some(Err(refusal)),
            },
            _ => one(*field, word, &mut out)?,
        }
    }
    // Parameters may be none at all, and leave the blank before them.
    out.truncate(out.trim_end_matches(' ').len());
    Some(Ok(out))
}

fn one(field: Field, word: &str, out: &mut String) -> Option<()> {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let mut number = |most: u32| {
        let number: u32 = is_number(word).then(|| word.parse().ok())??;
        (number <= most).then(|| write!(out, "{number}").ok())?
    };
    match field {
        Field::U8 => number(u32::from(u8::MAX)),
        Field::U16 => number(u32::from(u16::MAX)),
        Field::U32 => number(u32::MAX),
        Field::Tag => {
            let is_tag = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
            is_tag.then(|| *out += &word.to_ascii_lowercase())
        }
        Field::Text | Field::LongText => {
            let octets = text::unquote(word)?;
            (field == Field::LongText || octets.len() <= 255).then(|| text::quote(&octets, out))
        }
        Field::Host | Field::Hex | Field::Base64 | Field::Params => None,
    }
}

/// The words of a field that takes the rest, which may be cut anywhere by blanks.
fn join(field: Field, words: &[&str], out: &mut String) -> Option<()> {
    match field {
        Field::Params => svcb::canonical(words, out),
        Field::Base64 => {
            let octets = STANDARD.decode(words.concat()).ok().filter(|octets| !octets.is_empty())?;
            STANDARD.encode_string(octets, out);
            Some(())
        }
        _ => {
            let digits = words.concat().to_ascii_lowercase();
            let octets = HEXLOWER.decode(digits.as_bytes()).ok()?;
            (!octets.is_empty()).then(|| *out += &digits)
        }
    }
}
