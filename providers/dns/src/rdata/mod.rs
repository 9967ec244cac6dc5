//! Record data: one canonical text per value, from both sides.
//!
//! What a person writes ([`written`], [`structured::structured`]), what a server reports in text
//! ([`observed`]) and in octets ([`octets`]) parse into the same form, so equal data are equal bytes. [`wire`],
//! [`master`] and [`octets::encode`] are the ways back. Types this module does not know are carried as they are:
//! they are seen, counted and preserved, never interpreted. Where a text is cut into strings is part of a TXT value; `strings`
//! says when that is no difference.

pub(crate) mod field;
mod loc;
pub mod octets;
mod policy;
mod refusal;
mod rrtype;
pub mod structured;
mod svcb;

pub use refusal::Refusal;
pub use rrtype::{Type, is_signer_type};

use crate::{
    name::{Name, NameError, observed as observed_name},
    text::{self, Strings},
};
use field::Field;
use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Canonical text of a value a person wrote in `zone`.
pub fn written(kind: Type, value: &str, zone: &Name) -> Result<String, Refusal> {
    if kind == Type::Txt {
        return plain(value);
    }
    let value = value.trim();
    match kind {
        Type::A => match value.parse::<Ipv4Addr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) if value.parse::<Ipv6Addr>().is_ok() => {
                Err(Refusal::new(format!("`{value}` is an IPv6 address"), "did you mean type `AAAA`?"))
            }
            Err(_) => Err(Refusal::new(
                format!("`{value}` is not an IPv4 address"),
                "an A record wants four numbers, such as 192.0.2.1",
            )),
        },
        Type::Aaaa => match value.parse::<Ipv6Addr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) if value.parse::<Ipv4Addr>().is_ok() => {
                Err(Refusal::new(format!("`{value}` is an IPv4 address"), "did you mean type `A`?"))
            }
            Err(_) => Err(Refusal::new(
                format!("`{value}` is not an IPv6 address"),
                "an AAAA record wants an address such as 2001:db8::1",
            )),
        },
        kind => {
            let mut host = |host: &str| target(kind, host, zone);
            let canonical = match field::fields(kind) {
                Some(fields) => field::canonical(fields, value, &mut host),
                None => place(value).map(Ok),
            };
            let canonical = canonical.unwrap_or_else(|| Err(form(kind, value)))?;
            examine(kind, &canonical).map(|()| canonical)
        }
    }
}

/// Bytes of text in one record, with room for where its strings begin.
const LARGEST: usize = 65_000;

/// Canonical form of a text that stands for itself.
fn plain(value: &str) -> Result<String, Refusal> {
    if value.len() > LARGEST {
        return Err(too_long(value.len()));
    }
    let mut out = String::with_capacity(value.len() + 2);
    text::quote(value.as_bytes(), &mut out);
    Ok(out)
}

fn too_long(length: usize) -> Refusal {
    let message = format!("the text has {length} bytes, more than a record can hold");
    Refusal::new(message, "split it into several records")
}

fn place(value: &str) -> Option<String> {
    let mut out = String::new();
    loc::decode(&loc::encode(value)?, &mut out)?;
    Some(out)
}

fn form(kind: Type, value: &str) -> Refusal {
    if kind == Type::Soa && with_serial(value) {
        return Refusal::new(
            "a SOA is declared without its serial",
            format!("the serial is kept by the server: leave it out, as in `{}`", kind.example()),
        );
    }
    let (word, example) = (kind.word(), kind.example());
    Refusal::new(
        format!("`{value}` is not the form of {word} data"),
        format!("{word} is written like `{example}`"),
    )
}

fn with_serial(value: &str) -> bool {
    let mut numbers = value.split_ascii_whitespace().skip(2).map(str::parse::<u32>);
    numbers.clone().count() == 5 && numbers.all(|number| number.is_ok())
}

/// Characters of a canonical value that a record holds in any case: `ipv6hint=::,::` has most octets for them, 16 for three.
const SHORT: usize = 12_000;

/// Refuses data that have the form and fit no record, or mean nothing: a digest of another length than its kind has, parameters of
/// a service that lack one they need, an empty URI.
fn examine(kind: Type, canonical: &str) -> Result<(), Refusal> {
    if canonical.len() > SHORT && octets::encode(kind.word(), canonical, 0).is_none() {
        let hint = match kind {
            Type::Txt => "split it into several records",
            _ => "shorten it: a server that reads a file with it refuses the whole zone",
        };
        let message =
            format!("the data have more octets than the {} that a record holds (RFC 1035 §3.2.1)", u16::MAX);
        return Err(Refusal::new(message, hint));
    }
    let words: Vec<&str> = canonical.split(' ').collect();
    match kind {
        Type::Https | Type::Svcb => return svcb::examine(words.get(2..).unwrap_or_default()),
        Type::Uri if canonical.ends_with(" \"\"") => {
            let hint = format!("{} is written like `{}` (RFC 7553 §4.4)", kind.word(), kind.example());
            return Err(Refusal::new("the target of a URI is empty", hint));
        }
        _ => {}
    }
    // The number of octets that the word at `which` asks for.
    let (which, lengths): (usize, &[(&str, usize)]) = match kind {
        Type::Ds => (2, &[("1", 20), ("2", 32), ("4", 48)]),
        Type::Sshfp => (1, &[("1", 20), ("2", 32)]),
        Type::Smimea | Type::Tlsa => (2, &[("1", 32), ("2", 64)]),
        _ => return Ok(()),
    };
    let (Some(choice), Some(digest)) = (words.get(which), words.last()) else { return Ok(()) };
    let wanted = lengths.iter().find(|(word, _)| word == choice).map(|(_, length)| *length);
    match wanted.filter(|length| digest.len() != length * 2) {
        Some(length) => Err(Refusal::new(
            format!("the digest has {} octets, and its kind `{choice}` has {length}", digest.len() / 2),
            format!("{} is written like `{}`", kind.word(), kind.example()),
        )),
        None => Ok(()),
    }
}

/// The host a record points at: `@`, or absolute with its dot.
fn target(kind: Type, host: &str, zone: &Name) -> Result<String, Refusal> {
    if host == "@" {
        return Ok(zone.as_str().into());
    }
    let bare = host.strip_suffix('.').unwrap_or(host);
    if bare.parse::<IpAddr>().is_ok() {
        return Err(Refusal::new(
            format!("{} points at a host name, `{host}` is an address", kind.word()),
            "give the host an A or AAAA record and write its name here",
        ));
    }
    match Name::absolute(host) {
        Ok(name) => Ok(name.as_str().into()),
        Err(NameError::Relative(_)) => Err(Refusal::new(
            format!("`{host}` has no dot at the end, so it could mean two names"),
            format!("write `{host}.`, or `{host}.{zone}` for the name in this zone (RFC 1035 §5.1)"),
        )),
        Err(error) => Err(error.into()),
    }
}

/// Canonical text of a value a server reports in presentation form; data nobody can parse stay as they are.
///
/// Idempotent: the canonical text of a canonical text is itself.
pub fn observed<'a>(kind: &str, content: &'a str) -> Cow<'a, str> {
    let parsed = Type::of(kind).and_then(|kind| observed_known(kind, content));
    parsed.unwrap_or(Cow::Borrowed(content))
}

/// Canonical text of a value in a zone file that a person keeps; names in it are complete.
pub(crate) fn from_master(kind: Type, content: &str) -> Result<String, Refusal> {
    let canonical = observed_known(kind, content).ok_or_else(|| form(kind, content))?;
    examine(kind, &canonical)?;
    Ok(canonical.into_owned())
}

fn observed_known(kind: Type, content: &str) -> Option<Cow<'_, str>> {
    match kind {
        Type::A => content.parse::<Ipv4Addr>().ok().map(|address| keep(content, address.to_string())),
        Type::Aaaa => content.parse::<Ipv6Addr>().ok().map(|address| keep(content, address.to_string())),
        Type::Alias | Type::Cname | Type::Dname | Type::Ns | Type::Ptr => Some(observed_name(content.trim())),
        Type::Txt => {
            let mut out = String::with_capacity(content.len());
            Strings::read(content)?.quote(&mut out);
            Some(out.into())
        }
        Type::Loc => place(content).map(Cow::Owned),
        kind => {
            let mut host = |host: &str| Ok(observed_name(host).into_owned());
            // With its serial as servers report it, or canonical without.
            let without: Option<String> = (kind == Type::Soa && with_serial(content)).then(|| {
                let words = content.split_ascii_whitespace().enumerate();
                words.filter(|(index, _)| *index != 2).map(|(_, word)| word).collect::<Vec<_>>().join(" ")
            });
            let content = without.as_deref().unwrap_or(content);
            field::canonical(field::fields(kind)?, content, &mut host)?.ok().map(Cow::Owned)
        }
    }
}

fn keep(content: &str, canonical: String) -> Cow<'_, str> {
    if content == canonical { Cow::Borrowed(content) } else { Cow::Owned(canonical) }
}

/// The presentation form that APIs accept for a canonical value.
///
/// `serial` completes a SOA. Character strings become ASCII of at most 255 octets each; an IPv4-mapped
/// address is written in hexadecimal, since PowerDNS refuses the dotted form that it prints itself.
pub fn wire<'a>(kind: &str, value: &'a str, serial: u32) -> Cow<'a, str> {
    // Most records are these, and they are as they are.
    if matches!(kind, "A" | "CNAME" | "NS" | "PTR") {
        return value.into();
    }
    present(kind, value, serial, |name| name.into())
}

/// The form that master files hold: as [`wire`], with what they give a meaning escaped in names.
pub(crate) fn master<'a>(kind: &str, value: &'a str, serial: u32) -> Cow<'a, str> {
    present(kind, value, serial, |name| crate::name::escape_for_master(name).into())
}

fn present<'a>(kind: &str, value: &'a str, serial: u32, host: impl Fn(&str) -> Cow<'_, str>) -> Cow<'a, str> {
    let Some(kind) = Type::of(kind) else { return value.into() };
    match kind {
        Type::Txt => match Strings::read(value) {
            Some(strings) => {
                let mut out = String::with_capacity(value.len() + 8);
                strings.quote_for_wire(&mut out);
                out.into()
            }
            None => value.into(),
        },
        Type::Aaaa if value.contains('.') => match value.parse::<Ipv6Addr>() {
            Ok(address) => address.segments().map(|s| format!("{s:x}")).join(":").into(),
            Err(_) => value.into(),
        },
        kind => {
            let Some(fields) = field::fields(kind) else { return value.into() };
            present_fields(kind, fields, value, serial, host).map_or(value.into(), Cow::Owned)
        }
    }
}

fn present_fields(
    kind: Type,
    fields: &[(&str, Field)],
    value: &str,
    serial: u32,
    host: impl Fn(&str) -> Cow<'_, str>,
) -> Option<String> {
    let words = text::words(value)?;
    let mut out = String::with_capacity(value.len() + 8);
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        if kind == Type::Soa && index == 2 {
            out += &format!("{serial} ");
        }
        match fields.get(index).map(|(_, field)| *field) {
            Some(Field::Host) => out += &host(word),
            Some(Field::Text) => text::quote_for_wire(&text::unquote(word)?, &mut out),
            // One string of any length (RFC 8659 §4.1.1, RFC 7553 §4.4), never several.
            Some(Field::LongText) => text::quote_one_for_wire(&text::unquote(word)?, &mut out),
            _ => out += word,
        }
    }
    (kind != Type::Soa || words.len() == fields.len()).then_some(out)
}

/// The serial in the presentation form of a SOA.
pub fn soa_serial(content: &str) -> Option<u32> {
    content.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// The strings of a TXT value whose text is cut elsewhere than every 255 octets; none for any other value.
pub(crate) fn strings(kind: Type, value: &str) -> Option<Vec<Vec<u8>>> {
    let text = (kind == Type::Txt).then_some(value)?;
    let strings = Strings::read(text).filter(Strings::is_cut)?;
    Some(strings.parts().map(<[u8]>::to_vec).collect())
}

/// A canonical value as a person would write it in a manifest; none when YAML cannot carry it. Of a TXT it is the text,
/// whatever its strings.
pub fn for_manifest(kind: Type, value: &str) -> Option<String> {
    if kind == Type::Txt { String::from_utf8(text::unquote(value)?).ok() } else { Some(value.into()) }
}

#[cfg(test)]
pub(crate) mod tests;
