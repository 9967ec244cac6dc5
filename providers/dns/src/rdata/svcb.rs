//! Parameters of services (RFC 9460): HTTPS and SVCB.
//!
//! Texts become octets and octets become texts: so the order of keys and the ways to write a value make no
//! difference. Values of keys that are known have no quotes, others have some: every server takes that, and
//! PowerDNS takes nothing else.

use super::refusal::Refusal;
use crate::text::quote_one_for_wire;
use base64::{Engine, engine::general_purpose::STANDARD};
use std::{
    collections::BTreeMap,
    fmt::Write,
    net::{Ipv4Addr, Ipv6Addr},
};

/// Names of the keys from 0 on.
const KEYS: [&str; 8] =
    ["mandatory", "alpn", "no-default-alpn", "port", "ipv4hint", "ech", "ipv6hint", "dohpath"];

const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6HINT: u16 = 6;

/// Appends the canonical text of parameters written one a word.
pub(super) fn canonical(words: &[&str], out: &mut String) -> Option<()> {
    let octets = encode(words)?;
    decode(&octets, out)
}

/// Refuses canonical parameters, one a word, of which one needs another that is not there: servers refuse such a record, and
/// clients take no notice of it.
pub(super) fn examine(words: &[&str]) -> Result<(), Refusal> {
    let has = |key: &str| words.iter().any(|word| word.split('=').next() == Some(key));
    let mandatory = words.iter().find_map(|word| word.strip_prefix("mandatory=")).unwrap_or_default();
    if let Some(missing) = mandatory.split(',').find(|key| !key.is_empty() && !has(key)) {
        let hint = format!("write `{missing}=` and its value, or take it out of `mandatory` (RFC 9460 §8)");
        return Err(Refusal::new(format!("the mandatory parameter `{missing}` is not there"), hint));
    }
    if has("no-default-alpn") && !has("alpn") {
        let hint = "write `alpn=` and the protocols, or leave no-default-alpn out (RFC 9460 §7.1.1)";
        return Err(Refusal::new("`no-default-alpn` without `alpn` leaves no protocol", hint));
    }
    Ok(())
}

/// Octets of parameters written one a word: keys ascend, each once.
pub(super) fn encode(words: &[&str]) -> Option<Vec<u8>> {
    let mut params: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    for word in words {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(characters(value)?)),
            None => (*word, None),
        };
        let key = key(name)?;
        if params.insert(key, octets(key, value)?).is_some() {
            return None;
        }
    }
    let mut out = Vec::new();
    for (key, value) in params {
        out.extend(key.to_be_bytes());
        out.extend(u16::try_from(value.len()).ok()?.to_be_bytes());
        out.extend(value);
    }
    Some(out)
}

/// Appends the canonical text of parameters in octets, blanks between them.
pub(super) fn decode(mut octets: &[u8], out: &mut String) -> Option<()> {
    let mut last = None;
    while !octets.is_empty() {
        let ([high, low, long, short], rest) = octets.split_first_chunk::<4>()?;
        let (key, length) =
            (u16::from_be_bytes([*high, *low]), usize::from(u16::from_be_bytes([*long, *short])));
        let (value, rest) = rest.split_at_checked(length)?;
        if last.is_some_and(|last| last >= key) {
            return None;
        }
        if last.is_some() {
            out.push(' ');
        }
        print(key, value, out)?;
        (last, octets) = (Some(key), rest);
    }
    Some(())
}

fn key(name: &str) -> Option<u16> {
    let known = KEYS.iter().position(|known| *known == name).and_then(|index| u16::try_from(index).ok());
    known.or_else(|| {
        let digits = name.strip_prefix("key")?;
        let is_plain = digits == "0" || !digits.starts_with('0');
        digits.parse().ok().filter(|_| is_plain && digits.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn name(key: u16, out: &mut String) {
    match KEYS.get(usize::from(key)) {
        Some(name) => *out += name,
        None => {
            let _ = write!(out, "key{key}");
        }
    }
}

/// The octets behind a value, quoted or bare.
fn characters(value: &str) -> Option<Vec<u8>> {
    if value.is_empty() { Some(Vec::new()) } else { crate::text::unquote(value) }
}

fn octets(key: u16, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
    if key == NO_DEFAULT_ALPN {
        return value.is_none_or(|value| value.is_empty()).then(Vec::new);
    }
    let Some(value) = value else {
        // A key nobody knows may stand alone; those that are known say something.
        return (usize::from(key) >= KEYS.len()).then(Vec::new);
    };
    let text = || std::str::from_utf8(&value).ok().filter(|text| !text.is_empty());
    let mut out = Vec::new();
    match key {
        MANDATORY => {
            let mut keys: Vec<u16> = text()?.split(',').map(self::key).collect::<Option<_>>()?;
            keys.sort_unstable();
            let count = keys.len();
            keys.dedup();
            if keys.len() != count || keys.contains(&MANDATORY) {
                return None;
            }
            keys.iter().for_each(|key| out.extend(key.to_be_bytes()));
        }
        ALPN => {
            for id in list(&value)? {
                out.push(u8::try_from(id.len()).ok().filter(|length| *length > 0)?);
                out.extend(id);
            }
        }
        PORT => out.extend(text()?.parse::<u16>().ok()?.to_be_bytes()),
        IPV4HINT => {
            for address in text()?.split(',') {
                out.extend(address.parse::<Ipv4Addr>().ok()?.octets());
            }
        }
        IPV6HINT => {
            for address in text()?.split(',') {
                out.extend(address.parse::<Ipv6Addr>().ok()?.octets());
            }
        }
        ECH => out = STANDARD.decode(text()?).ok()?,
        _ => out = value,
    }
    Some(out)
}

/// Elements between commas, where `\,` and `\\` stand for themselves (RFC 9460 appendix A.1).
fn list(value: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut elements = vec![Vec::new()];
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b',' => {
                elements.push(Vec::new());
                continue;
            }
            b'\\' => bytes.next().filter(|next| matches!(next, b',' | b'\\'))?,
            other => other,
        };
        elements.last_mut()?.push(*byte);
    }
    Some(elements)
}

fn print(key: u16, value: &[u8], out: &mut String) -> Option<()> {
    name(key, out);
    if value.is_empty() {
        let may_be_empty = key == NO_DEFAULT_ALPN || usize::from(key) >= KEYS.len();
        return may_be_empty.then_some(());
    }
    out.push('=');
    match key {
        MANDATORY => {
            let (keys, []) = value.as_chunks::<2>() else { return None };
            separated(keys, out, |key, out| name(u16::from_be_bytes(*key), out));
        }
        ALPN => {
            let (mut rest, mut is_first) = (value, true);
            while let Some((length, after)) = rest.split_first() {
                let (id, after) = after.split_at_checked(usize::from(*length)).filter(|_| *length > 0)?;
                if !is_first {
                    out.push(',');
                }
                // The escapes of the list are escaped once more as characters.
                let mut escaped = Vec::with_capacity(id.len());
                for byte in id {
                    if matches!(byte, b',' | b'\\') {
                        escaped.push(b'\\');
                    }
                    escaped.push(*byte);
                }
                bare(&escaped, out);
                (rest, is_first) = (after, false);
            }
        }
        NO_DEFAULT_ALPN => return None,
        PORT => {
            let _ = write!(out, "{}", u16::from_be_bytes(value.try_into().ok()?));
        }
        IPV4HINT => {
            let (addresses, []) = value.as_chunks::<4>() else { return None };
            separated(addresses, out, |address, out| *out += &Ipv4Addr::from(*address).to_string());
        }
        IPV6HINT => {
            let (addresses, []) = value.as_chunks::<16>() else { return None };
            separated(addresses, out, |address, out| *out += &Ipv6Addr::from(*address).to_string());
        }
        ECH => STANDARD.encode_string(value, out),
        // PowerDNS wants quotes here, and none elsewhere.
        _ => quote_one_for_wire(value, out),
    }
    Some(())
}

fn separated<T>(elements: &[T], out: &mut String, print: impl Fn(&T, &mut String)) {
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        print(element, out);
    }
}

/// Octets as characters without quotes.
fn bare(octets: &[u8], out: &mut String) {
    for byte in octets {
        match byte {
            b'"' | b'\\' | b';' | b'(' | b')' | b'@' | b'$' => out.extend(['\\', char::from(*byte)]),
            0x21..=0x7e => out.push(char::from(*byte)),
            _ => {
                let _ = write!(out, "\\{byte:03}");
            }
        }
    }
}
