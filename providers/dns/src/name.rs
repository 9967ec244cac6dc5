//! DNS names in one canonical form: lower case, absolute, escaped as PowerDNS prints them.
//!
//! Guarantees: equal names have equal text, every [`Name`] fits the wire (label ≤ 63 octets, name ≤ 255,
//! RFC 1035 §2.3.4), and printing then parsing gives the same name.
//! Deliberately not here: which names a host may have. `_acme-challenge` and `0/25` are fine names.

use crate::text::unescape;
use std::{borrow::Cow, fmt};

/// An absolute name in canonical text: `www.example.com.`
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

/// Why a text is no name, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing was written.
    #[error("the name is empty")]
    Empty,
    /// No zone was named.
    #[error("the name of the zone is empty")]
    NoZone,
    /// The root where a zone is to be named.
    #[error("`.` is the root of DNS, which is no zone here")]
    Root,
    /// Two dots in a row, or a dot at the front.
    #[error("`{0}` has an empty label")]
    EmptyLabel(String),
    /// A label over 63 octets.
    #[error("label `{label}` has {length} octets, more than the 63 that DNS allows")]
    LabelTooLong {
        /// The label.
        label: String,
        /// Its length on the wire.
        length: usize,
    },
    /// A name over 255 octets.
    #[error("the name has {0} octets, more than the 255 that DNS allows")]
    NameTooLong(usize),
    /// Characters outside ASCII that no international name has.
    #[error("`{0}` is neither ASCII nor an international name")]
    NotAscii(String),
    /// A white space or control character.
    #[error("`{0}` contains white space or a control character")]
    Blank(String),
    /// A backslash that escapes nothing.
    #[error("`{0}` has a backslash that escapes nothing")]
    BadEscape(String),
    /// A `*` that is not the leftmost label.
    #[error("`{0}` has `*` where it is no wildcard")]
    Star(String),
    /// A zone that would look like an option to commands.
    #[error("`{0}` begins with a hyphen")]
    LeadingHyphen(String),
    /// A relative name where only an absolute one makes sense.
    #[error("`{0}` has no dot at the end")]
    Relative(String),
}

impl NameError {
    /// What to write instead, where there is something to say.
    pub fn hint(&self) -> Option<String> {
        match self {
            NameError::Empty => Some("write `@` for the zone itself".into()),
            NameError::NoZone | NameError::Root => Some("name the zone, such as `example.com`".into()),
            NameError::NotAscii(_) => Some(
                "write an international name as it is read, or in its ASCII form such as `xn--bcher-kva`"
                    .into(),
            ),
            NameError::Blank(_) => Some("escape it as `\\DDD`, for example `\\032` for a space".into()),
            NameError::BadEscape(_) => Some("write `\\.` for a dot in a label, `\\DDD` for an octet".into()),
            NameError::Star(_) => Some("a wildcard is the whole leftmost label, as in `*.dev`".into()),
            NameError::Relative(text) => Some(format!("write `{text}.`")),
            _ => None,
        }
    }
}

impl Name {
    /// Parses an absolute name; the dot at the end is required.
    pub fn absolute(text: &str) -> Result<Name, NameError> {
        if text == "." {
            return Ok(Name(".".into()));
        }
        let mut out = String::with_capacity(text.len());
        canonical_labels(text, &mut out)?;
        if !ends_absolute(text) {
            return Err(NameError::Relative(text.into()));
        }
        Name::checked(out)
    }

    /// Parses the name of a zone, with or without the dot at the end.
    pub fn zone(text: &str) -> Result<Name, NameError> {
        match text {
            "" => return Err(NameError::NoZone),
            "." => return Err(NameError::Root),
            _ => {}
        }
        if text.starts_with('-') {
            return Err(NameError::LeadingHyphen(text.into()));
        }
        if ends_absolute(text) { Name::absolute(text) } else { Name::absolute(&format!("{text}.")) }
    }

    /// Parses a name as it is written in `zone`: `@`, relative, or absolute with a dot at the end.
    pub fn within(text: &str, zone: &Name) -> Result<Name, NameError> {
        match text {
            "" => return Err(NameError::Empty),
            "@" => return Ok(zone.clone()),
            "." => return Ok(Name(".".into())),
            _ => {}
        }
        let mut out = String::with_capacity(text.len() + 1 + zone.0.len());
        canonical_labels(text, &mut out)?;
        if !ends_absolute(text) && &*zone.0 != "." {
            out.push_str(&zone.0);
        }
        Name::checked(out)
    }

    fn checked(text: String) -> Result<Name, NameError> {
        let wire = wire_length(&text);
        if wire > 255 {
            return Err(NameError::NameTooLong(wire));
        }
        Ok(Name(text.into_boxed_str()))
    }

    /// The canonical text, with the dot at the end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The canonical text without the dot at the end: how a zone is called as a scope.
    pub fn without_dot(&self) -> &str {
        self.0.strip_suffix('.').unwrap_or(&self.0)
    }
    /// True when the name is `zone` or lies below it.
    pub fn is_within(&self, zone: &Name) -> bool {
        is_within(&self.0, &zone.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// True when the canonical text `name` is `zone` or lies below it.
pub fn is_within(name: &str, zone: &str) -> bool {
    match name.strip_suffix(zone) {
        Some("") => true,
        // `\.` before the zone is a dot inside a label, not a separator.
        Some(rest) => zone == "." || ends_absolute(rest),
        None => false,
    }
}

/// How a person writes the canonical `name` in `zone`: `@`, `www`, or absolute when it lies outside.
pub fn relative<'a>(name: &'a str, zone: &str) -> Cow<'a, str> {
    if name == zone {
        return "@".into();
    }
    if !is_within(name, zone) {
        return name.into();
    }
    let rest = name.strip_suffix(zone).unwrap_or(name);
    rest.strip_suffix('.').unwrap_or(rest).into()
}

/// The labels of a canonical name, leftmost first, still escaped.
pub fn labels(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        if rest.is_empty() || rest == "." {
            return None;
        }
        let end = label_end(rest);
        let label = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or("");
        Some(label)
    })
}

/// The name one label up.
pub fn parent(name: &str) -> &str {
    match name.get(label_end(name) + 1..) {
        Some("") | None => ".",
        Some(rest) => rest,
    }
}

/// The zones that may hold a canonical name, the longest first, as scopes are called: the name itself, and all above it but the root.
pub(crate) fn zones(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| Some(parent(name)))
        .map(|zone| zone.strip_suffix('.').unwrap_or(zone))
        .take_while(|zone| !zone.is_empty())
}

/// Canonical text of a name in a zone file, completed with `origin` where it is relative.
pub(crate) fn complete(text: &str, origin: &str) -> Result<String, NameError> {
    if text == "@" {
        return Ok(origin.into());
    }
    if text == "." {
        return Ok(".".into());
    }
    let mut out = String::with_capacity(text.len() + 1 + origin.len());
    canonical_labels_of(text, &mut out, Strictness::AsReported)?;
    if !ends_absolute(text) && origin != "." {
        out.push_str(origin);
    }
    Name::checked(out).map(|name| name.0.into_string())
}

/// Canonical text of a name that a remote reports, or the text as it is when it is no name.
pub fn observed(text: &str) -> Cow<'_, str> {
    // Almost every name is canonical already; this keeps large zones cheap.
    let plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' | b'/');
    if text.ends_with('.') && text.bytes().all(plain) && !text.contains("..") {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 1);
    match canonical_labels_of(text, &mut out, Strictness::AsReported) {
        Ok(()) => out.into(),
        Err(_) => text.into(),
    }
}

/// Escapes what master files give a meaning: a canonical name leaves it bare.
pub(crate) fn escape_for_master(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                out.push('\\');
                out.extend(chars.next());
            }
            '"' | ';' | '(' | ')' | '@' | '$' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

/// True when the text ends in a dot that separates labels.
pub fn ends_absolute(text: &str) -> bool {
    let Some(body) = text.strip_suffix('.') else { return false };
    let backslashes = body.bytes().rev().take_while(|b| *b == b'\\').count();
    backslashes % 2 == 0
}

fn label_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'.' => return i,
            _ => i += 1,
        }
    }
    text.len()
}

/// True for `www.example.com` written in zone `example.com`, in whatever form: almost always the dot was forgotten.
pub(crate) fn repeats_zone(text: &str, zone: &Name) -> bool {
    let (text, zone) = (in_ascii(text), zone.without_dot());
    let Some(split) = text.len().checked_sub(zone.len()) else { return false };
    text.is_char_boundary(split)
        && text[split..].eq_ignore_ascii_case(zone)
        && (split == 0 || text[..split].ends_with('.'))
        // In a zone with one label (`lan`), a host of that name is no mistake.
        && (split > 0 || zone.contains('.'))
}

/// The name with its international labels as DNS holds them (RFC 5891): `bücher` is `xn--bcher-kva`.
pub(crate) fn international(text: &str) -> Result<String, NameError> {
    let bad = || NameError::NotAscii(text.into());
    let convert = |label: &str| match label {
        label if label.is_ascii() => Ok(label.to_owned()),
        label if label.contains('\\') => Err(bad()),
        // Some characters become dots or disappear; what is left would be another name than the one that was read.
        label => idna::domain_to_ascii(label)
            .ok()
            .filter(|label| !label.contains('.') && !label.is_empty())
            .ok_or_else(bad),
    };
    let labels: Result<Vec<String>, NameError> = text.split('.').map(convert).collect();
    Ok(labels?.join("."))
}

/// What somebody tells as it is read, as DNS holds it; the text as it is where that is no international name.
pub(crate) fn in_ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    international(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

#[derive(Clone, Copy, PartialEq)]
enum Strictness {
    /// A person wrote it: blanks and stray stars are mistakes.
    AsWritten,
    /// A remote has it: whatever fits the wire is a fact.
    AsReported,
}

fn canonical_labels(text: &str, out: &mut String) -> Result<(), NameError> {
    canonical_labels_of(text, out, Strictness::AsWritten)
}

/// Appends the canonical form of every label in `text`, each with a dot behind it.
fn canonical_labels_of(text: &str, out: &mut String, strictness: Strictness) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if !text.is_ascii() {
        return match strictness {
            Strictness::AsWritten => canonical_labels_of(&international(text)?, out, strictness),
            Strictness::AsReported => Err(NameError::NotAscii(text.into())),
        };
    }
    let body = if ends_absolute(text) { &text[..text.len() - 1] } else { text };
    let mut rest = body;
    let mut first = true;
    loop {
        let end = label_end(rest);
        let label = rest.get(..end).unwrap_or(rest);
        let start = out.len();
        let length = canonical_label(label, text, out, strictness)?;
        if length == 0 {
            return Err(NameError::EmptyLabel(text.into()));
        }
        if length > 63 {
            return Err(NameError::LabelTooLong { label: label.into(), length });
        }
        let is_star = &out[start..] == "*";
        if strictness == Strictness::AsWritten && out[start..].contains('*') && !(first && is_star) {
            return Err(NameError::Star(text.into()));
        }
        out.push('.');
        first = false;
        match rest.get(end + 1..) {
            Some(next) => rest = next,
            None => return Ok(()),
        }
    }
}

/// Appends one label and returns its length on the wire.
fn canonical_label(
    label: &str,
    whole: &str,
    out: &mut String,
    strictness: Strictness,
) -> Result<usize, NameError> {
    let bad = || NameError::BadEscape(whole.into());
    let mut bytes = label.bytes();
    let mut length = 0;
    while let Some(byte) = bytes.next() {
        let octet = if byte == b'\\' {
            unescape(&mut bytes).ok_or_else(bad)?
        } else {
            if strictness == Strictness::AsWritten && !byte.is_ascii_graphic() {
                return Err(NameError::Blank(whole.into()));
            }
            byte
        };
        push_octet(octet.to_ascii_lowercase(), out);
        length += 1;
    }
    Ok(length)
}

fn push_octet(octet: u8, out: &mut String) {
    match octet {
        b'.' | b'\\' => {
            out.push('\\');
            out.push(char::from(octet));
        }
        0x21..=0x7e => out.push(char::from(octet)),
        _ => {
            out.push('\\');
            for digit in [octet / 100, octet / 10 % 10, octet % 10] {
                out.push(char::from(b'0' + digit));
            }
        }
    }
}

/// Appends a canonical name as octets, without compression (RFC 1035 §3.1); none when it is no name.
pub(crate) fn encode(name: &str, out: &mut Vec<u8>) -> Option<()> {
    for label in labels(name) {
        let at = out.len();
        out.push(0);
        let mut bytes = label.bytes();
        while let Some(byte) = bytes.next() {
            out.push(if byte == b'\\' { unescape(&mut bytes)? } else { byte });
        }
        let length = out.len() - at - 1;
        *out.get_mut(at)? = u8::try_from(length).ok().filter(|length| (1..=63).contains(length))?;
    }
    out.push(0);
    Some(())
}

/// Appends the canonical text of the name at `at` of a message and returns where what follows it begins.
///
/// Pointers lead backwards only, so that none leads in a circle; none for what is no name.
pub(crate) fn decode(message: &[u8], mut at: usize, out: &mut String) -> Option<usize> {
    let (mut after, mut length, mut earliest) = (None, 1, at);
    let start = out.len();
    loop {
        match *message.get(at)? {
            0 => break,
            size @ 1..=63 => {
                let label = message.get(at + 1..at + 1 + usize::from(size))?;
                label.iter().for_each(|octet| push_octet(octet.to_ascii_lowercase(), out));
                out.push('.');
                at += 1 + usize::from(size);
                length += 1 + usize::from(size);
                if length > 255 {
                    return None;
                }
            }
            high @ 0xc0.. => {
                after.get_or_insert(at + 2);
                let pointer = u16::from_be_bytes([high & 0x3f, *message.get(at + 1)?]);
                at = usize::from(pointer);
                if at >= earliest {
                    return None;
                }
                earliest = at;
            }
            _ => return None,
        }
    }
    if out.len() == start {
        out.push('.');
    }
    Some(after.unwrap_or(at + 1))
}

/// Octets of a canonical name on the wire: one length octet per label, one for the root.
fn wire_length(name: &str) -> usize {
    let mut length = 1;
    for label in labels(name) {
        let bytes = label.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            i += match bytes.get(i + 1) {
                Some(next) if bytes[i] == b'\\' => {
                    if next.is_ascii_digit() {
                        4
                    } else {
                        2
                    }
                }
                _ => 1,
            };
            length += 1;
        }
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zone() -> Name {
        Name::zone("Example.COM").unwrap()
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(Name::within(text, &zone()).unwrap().as_str(), expected, "{text}");
    }

    #[test]
    fn names_are_completed_with_the_zone_and_lowered() {
        check("@", "example.com.");
        check("WWW", "www.example.com.");
        check("www.example.org.", "www.example.org.");
        check("*.Dev", "*.dev.example.com.");
        check("_acme-challenge", "_acme-challenge.example.com.");
        check("0/25", "0/25.example.com.");
        check(r"a\.b", r"a\.b.example.com.");
        check(r"a\046b\065\032", r"a\.ba\032.example.com.");
        check(r"x\\.y", r"x\\.y.example.com.");
        check(r"x\.", r"x\..example.com.");
        check("Bücher", "xn--bcher-kva.example.com.");
        check("_dmarc.Straße", "_dmarc.xn--strae-oqa.example.com.");
        check("*.中文.例え.", "*.xn--fiq228c.xn--r8jz45g.");
    }

    #[test]
    fn what_is_no_name_is_refused_with_a_word_on_why() {
        let refuse = |text: &str| Name::within(text, &zone()).unwrap_err();
        assert_eq!(refuse(""), NameError::Empty);
        assert!(matches!(refuse("a..b"), NameError::EmptyLabel(_)));
        assert!(matches!(refuse(".a"), NameError::EmptyLabel(_)));
        assert!(matches!(refuse(&"x".repeat(64)), NameError::LabelTooLong { length: 64, .. }));
        assert!(matches!(refuse(&format!("{}.{0}.{0}.{0}", "x".repeat(62))), NameError::NameTooLong(_)));
        assert!(matches!(refuse("a b"), NameError::Blank(_)));
        assert!(matches!(refuse("a.*"), NameError::Star(_)));
        assert!(matches!(refuse("a*"), NameError::Star(_)));
        assert!(matches!(refuse(r"a\"), NameError::BadEscape(_)));
        assert!(matches!(refuse(r"a\256"), NameError::BadEscape(_)));
        for text in ["a\u{2488}", "\u{ad}", "ü\\.b", "\u{1f4a9}\u{200d}"] {
            let error = refuse(text);
            assert!(error.hint().unwrap().contains("xn--bcher-kva"), "{text}: {error}");
        }
    }

    #[test]
    fn what_names_no_zone_is_refused_with_a_word_on_how_one_is_named() {
        for (text, error) in [("", NameError::NoZone), (".", NameError::Root)] {
            let refused = Name::zone(text).unwrap_err();
            assert_eq!(refused.hint().as_deref(), Some("name the zone, such as `example.com`"));
            assert_eq!(refused, error);
        }
    }

    #[test]
    fn what_is_told_as_it_is_read_becomes_the_name_that_dns_holds() {
        for (told, name) in [
            ("Bücher.example.com.", "xn--bcher-kva.example.com."),
            ("*.中文.example", "*.xn--fiq228c.example"),
            ("WWW.example.com", "WWW.example.com"),
            ("ü\\.b.example.com.", "ü\\.b.example.com."),
        ] {
            assert_eq!(in_ascii(told), name);
        }
    }

    #[test]
    fn a_name_is_in_its_zone_only_at_a_label_boundary() {
        let within = |name: &str| Name::absolute(name).unwrap().is_within(&zone());
        assert!(within("example.com."));
        assert!(within("a.b.example.com."));
        assert!(!within("notexample.com."));
        assert!(!within(r"a\.example.com."));
        assert_eq!(relative("www.example.com.", "example.com."), "www");
        assert_eq!(relative("example.com.", "example.com."), "@");
        assert_eq!(relative("www.example.org.", "example.com."), "www.example.org.");
    }

    #[test]
    fn labels_and_parents_respect_escapes() {
        assert_eq!(labels(r"a\.b.c.").collect::<Vec<_>>(), [r"a\.b", "c"]);
        assert_eq!(parent(r"a\.b.c."), "c.");
        assert_eq!(parent("c."), ".");
    }

    proptest! {
        #[test]
        fn canonical_names_are_their_own_canonical_form(text in r"([a-zA-Z0-9_-]|\\[.\\]|\\0[0-3][0-9]){1,12}(\.[a-zA-Z0-9-]{1,8}){0,4}") {
            let name = Name::within(&text, &zone()).unwrap();
            prop_assert_eq!(&Name::absolute(name.as_str()).unwrap(), &name);
            let seen = observed(name.as_str());
            prop_assert_eq!(seen, name.as_str());
            let back = relative(name.as_str(), zone().as_str()).into_owned();
            prop_assert_eq!(&Name::within(&back, &zone()).unwrap(), &name);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = Name::within(&text, &zone());
            let _ = observed(&text);
        }
    }
}
