//! Reading master files (RFC 1035 §5): those of the backend `zonefile`, those that manifests include, those of other programs.
//!
//! Understood: `$ORIGIN`, `$TTL`, parentheses, quoted strings, comments, class and TTL in any order, TTLs with
//! units (`1h30m`), relative and repeated owners, types and data that are named by numbers alone (RFC 3597). Refused with their line: `$INCLUDE` and `$GENERATE`, since
//! such a file has more than one source of truth, classes other than IN, and records outside the zone.
//! What is wrong with a file is an error, never a shorter list.

use crate::{
    name::{complete, escape_for_master as escape, is_within},
    rdata::{self, Type, octets},
};
use data_encoding::HEXLOWER_PERMISSIVE;
use std::borrow::Cow;

/// One record of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Canonical owner name.
    pub(crate) name: Box<str>,
    /// Seconds.
    pub(crate) ttl: u32,
    /// Type in upper case.
    pub(crate) kind: Box<str>,
    /// Data in presentation form; names in types that are known are absolute.
    pub(crate) content: Box<str>,
    /// Origin that relative names in data of an unknown type refer to, where it is not the zone.
    pub(crate) origin: Option<Box<str>>,
    /// Instance that wrote the record.
    pub(crate) mark: Option<Box<str>>,
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub(crate) struct ParseError {
    /// Line, from 1.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) what: Wrong,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Wrong {
    /// The name it begins with, as it is written, is none of the zone.
    #[error("`{name}` lies outside zone {zone}")]
    Outside {
        /// The name.
        name: String,
        /// The zone.
        zone: String,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<String> for Wrong {
    fn from(message: String) -> Wrong {
        Wrong::Other(message)
    }
}

impl From<&str> for Wrong {
    fn from(message: &str) -> Wrong {
        Wrong::Other(message.into())
    }
}

/// Word before the instance in a comment at the end of a line.
pub(crate) const MARK: &str = "reconciled=";

/// Parses the file of `zone`, an absolute canonical name.
pub(crate) fn parse(zone: &str, text: &str) -> Result<Vec<Entry>, ParseError> {
    let mut state =
        State { zone, origin: zone.into(), ttl: None, last_ttl: None, fallback: None, owner: None };
    let mut entries: Vec<Entry> = Vec::new();
    let mut soa: Option<(usize, String)> = None;
    let mut lexer = Lexer { rest: text, line: 1 };
    while let Some(line) = lexer.next_line()? {
        let number = line.number;
        let error = |what: Wrong| ParseError { line: number, what };
        let Some(entry) = state.read(line).map_err(error)? else { continue };
        if &*entry.kind == "SOA" {
            if &*entry.name != zone {
                return Err(error(format!("a SOA stands only at the zone itself, {zone}").into()));
            }
            let content = rdata::observed("SOA", &entry.content).into_owned();
            match &soa {
                // As a transfer that was printed ends with it once more.
                Some((_, first)) if *first == content => continue,
                Some((first, _)) => return Err(error(format!("another SOA is in line {first}").into())),
                None => soa = Some((number, content)),
            }
        }
        entries.push(entry);
    }
    if soa.is_none() {
        let what = format!("the file ends without a SOA record of {zone}").into();
        return Err(ParseError { line: lexer.line, what });
    }
    Ok(entries)
}

/// The records of a file that a manifest includes, each with its line; it needs no SOA.
///
/// A record that says no TTL, where nothing before it does, has `ttl`. Bad lines are errors of their own and the rest is
/// read, so that all of them are told at once.
pub(crate) fn included(zone: &str, text: &str, ttl: u32) -> Vec<Result<(u32, Entry), ParseError>> {
    let mut state =
        State { zone, origin: zone.into(), ttl: None, last_ttl: None, fallback: Some(ttl), owner: None };
    let mut found = Vec::new();
    let mut lexer = Lexer { rest: text, line: 1 };
    loop {
        let line = match lexer.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => return found,
            // Where a string or parenthesis is open, nobody can tell where the next record begins.
            Err(error) => {
                found.push(Err(error));
                return found;
            }
        };
        let number = line.number;
        match state.read(line) {
            Ok(entry) => {
                let line = u32::try_from(number).unwrap_or(u32::MAX);
                found.extend(entry.map(|entry| Ok((line, entry))));
            }
            Err(what) => found.push(Err(ParseError { line: number, what })),
        }
    }
}

struct State<'a> {
    zone: &'a str,
    origin: String,
    /// `$TTL`.
    ttl: Option<u32>,
    last_ttl: Option<u32>,
    /// What stands in where nothing says one.
    fallback: Option<u32>,
    owner: Option<String>,
}

impl State<'_> {
    fn read(&mut self, line: Line<'_>) -> Result<Option<Entry>, Wrong> {
        let mut tokens = line.tokens.into_iter();
        if line.has_owner {
            let first = tokens.next().unwrap_or_default();
            if first.starts_with('$') {
                self.directive(&first, tokens.next().as_deref())?;
                return Ok(None);
            }
            let name = complete(&first, &self.origin).map_err(|error| error.to_string())?;
            if !is_within(&name, self.zone) {
                return Err(Wrong::Outside { name: first.into_owned(), zone: self.zone.into() });
            }
            self.owner = Some(name);
        }
        let name = self.owner.clone().ok_or("the first record has no name")?;
        let (mut ttl, mut kind) = (None, None);
        for token in tokens.by_ref() {
            if ["IN", "CLASS1"].iter().any(|class| token.eq_ignore_ascii_case(class)) {
                continue;
            }
            if ["CH", "HS", "CS", "ANY"].iter().any(|class| token.eq_ignore_ascii_case(class)) {
                return Err(format!("class {token} is not supported").into());
            }
            match seconds(&token) {
                Some(seconds) if ttl.is_none() => ttl = Some(seconds),
                _ => {
                    kind = Some(token.to_ascii_uppercase());
                    break;
                }
            }
        }
        let kind = kind.ok_or_else(|| format!("the record of {name} has no type"))?;
        if !kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(format!("`{kind}` is not a record type").into());
        }
        // RFC 3597 §5: whoever wrote the file may not know the type by the word that we know it by.
        let kind = match kind.strip_prefix("TYPE").and_then(|number| number.parse().ok()) {
            Some(number) => octets::word(number).into_owned(),
            None => kind,
        };
        let data: Vec<Cow<'_, str>> = tokens.collect();
        if data.is_empty() {
            return Err(format!("the {kind} record of {name} has no data").into());
        }
        let (content, origin) = self.content(&kind, data)?;
        let soa_minimum = || (kind == "SOA").then(|| content.rsplit(' ').next()?.parse().ok()).flatten();
        let stated = ttl.or(self.ttl).or(self.last_ttl).or_else(soa_minimum);
        let ttl = stated.or(self.fallback).ok_or("the record has no TTL, and no $TTL stands before it")?;
        // RFC 1035 §5.1: what is left out is as last stated.
        self.last_ttl = stated.or(self.last_ttl);
        Ok(Some(Entry {
            name: name.into(),
            ttl,
            kind: kind.into(),
            content: content.into(),
            origin,
            mark: line.mark.map(Into::into),
        }))
    }

    fn directive(&mut self, word: &str, value: Option<&str>) -> Result<(), String> {
        let value = value.ok_or_else(|| format!("{word} has no value"))?;
        match word.to_ascii_uppercase().as_str() {
            "$ORIGIN" => self.origin = complete(value, &self.origin).map_err(|error| error.to_string())?,
            "$TTL" => self.ttl = Some(seconds(value).ok_or_else(|| format!("`{value}` is no TTL"))?),
            "$INCLUDE" | "$GENERATE" => {
                return Err(format!("{word} is not supported: write the records into this file"));
            }
            _ => return Err(format!("`{word}` is no directive of zone files")),
        }
        Ok(())
    }

    /// Data in presentation form, names completed where the type says which fields are names.
    fn content(&self, kind: &str, mut data: Vec<Cow<'_, str>>) -> Result<(String, Option<Box<str>>), String> {
        let known = Type::of(kind);
        let is_soa = known == Some(Type::Soa);
        if known.is_some()
            && let [first, length, digits @ ..] = &data[..]
            && first == "\\#"
        {
            return generic(kind, length, &digits.concat()).map(|content| (content, None));
        }
        for index in known.into_iter().flat_map(Type::host_fields) {
            let Some(field) = data.get_mut(index) else { continue };
            *field = escape(&complete(field, &self.origin).map_err(|error| error.to_string())?).into();
        }
        if is_soa {
            for field in data.iter_mut().skip(2) {
                let number = seconds(field).ok_or_else(|| format!("`{field}` in a SOA is no number"))?;
                *field = number.to_string().into();
            }
            if data.len() != 7 {
                return Err(format!("a SOA has 7 fields, this one {}", data.len()));
            }
        }
        let origin = (known.is_none() && self.origin != self.zone).then(|| self.origin.as_str().into());
        Ok((data.join(" "), origin))
    }
}

/// Data of a type that is known, written as octets (RFC 3597 §5).
fn generic(kind: &str, length: &str, digits: &str) -> Result<String, String> {
    let data =
        HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok().filter(|data| length.parse() == Ok(data.len()));
    let data =
        data.ok_or_else(|| format!("`\\#` is not followed by {length} octets in hexadecimal digits"))?;
    match octets::number(kind) {
        // It would lose its serial, which the server compares.
        Some(number) if kind != "SOA" => Ok(octets::decode(number, &data, 0, data.len())),
        _ => Err(format!("a {kind} record as octets (`\\#`) is not supported: write its fields")),
    }
}

/// A TTL: seconds, or numbers with units as in `1h30m`.
fn seconds(text: &str) -> Option<u32> {
    if text.is_empty() || !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (mut total, mut number, mut has_digits) = (0u32, 0u32, false);
    for byte in text.bytes() {
        if byte.is_ascii_digit() {
            number = number.checked_mul(10)?.checked_add(u32::from(byte - b'0'))?;
            has_digits = true;
            continue;
        }
        let unit = match byte.to_ascii_lowercase() {
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return None,
        };
        if !has_digits {
            return None;
        }
        total = total.checked_add(number.checked_mul(unit)?)?;
        (number, has_digits) = (0, false);
    }
    total.checked_add(number)
}

/// One logical line: everything up to the line break outside of parentheses.
struct Line<'a> {
    number: usize,
    has_owner: bool,
    tokens: Vec<Cow<'a, str>>,
    mark: Option<&'a str>,
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    /// The next line that holds anything. Tokens keep their quotes and escapes.
    fn next_line(&mut self) -> Result<Option<Line<'a>>, ParseError> {
        loop {
            if self.rest.is_empty() {
                return Ok(None);
            }
            let has_owner = !self.rest.starts_with([' ', '\t']);
            let mut line = Line { number: self.line, has_owner, tokens: Vec::new(), mark: None };
            self.fill(&mut line)?;
            if !line.tokens.is_empty() {
                return Ok(Some(line));
            }
        }
    }

    fn fill(&mut self, line: &mut Line<'a>) -> Result<(), ParseError> {
        let fail = |line: usize, message: &str| ParseError { line, what: message.into() };
        let mut depth = 0usize;
        loop {
            let Some(first) = self.rest.bytes().next() else {
                let is_open = depth > 0;
                return if is_open {
                    Err(fail(line.number, "a parenthesis is never closed"))
                } else {
                    Ok(())
                };
            };
            match first {
                b'\n' => {
                    self.skip(1);
                    self.line += 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                b' ' | b'\t' | b'\r' => self.skip(1),
                b';' => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    let mut words = self.rest[1..end].split_ascii_whitespace();
                    line.mark = words.find_map(|word| word.strip_prefix(MARK)).or(line.mark);
                    self.skip(end);
                }
                b'(' => {
                    depth += 1;
                    self.skip(1);
                }
                b')' => {
                    depth = depth
                        .checked_sub(1)
                        .ok_or_else(|| fail(self.line, "a parenthesis closes nothing"))?;
                    self.skip(1);
                }
                _ => {
                    let end = self.token().map_err(|message| fail(self.line, message))?;
                    line.tokens.push(Cow::Borrowed(&self.rest[..end]));
                    self.skip(end);
                }
            }
        }
    }

    /// Length of the token at the front. A quote begins a token, or the value behind a `=` (RFC 9460 §2.1).
    fn token(&self) -> Result<usize, &'static str> {
        let bytes = self.rest.as_bytes();
        let is_string = bytes[0] == b'"';
        let mut is_quoted = is_string;
        let mut i = usize::from(is_string);
        while let Some(byte) = bytes.get(i) {
            match byte {
                b'\\' => match bytes.get(i + 1) {
                    None | Some(b'\n') => return Err("a backslash escapes nothing"),
                    // A character of several bytes is escaped as a whole.
                    Some(_) => i += 1 + self.rest[i + 1..].chars().next().map_or(1, char::len_utf8),
                },
                b'\n' if is_quoted => return Err("a quoted string is never closed"),
                b'"' if is_string => return Ok(i + 1),
                b'"' if is_quoted || bytes[i - 1] == b'=' => {
                    is_quoted = !is_quoted;
                    i += 1;
                }
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"' if !is_quoted => return Ok(i),
                _ => i += 1,
            }
        }
        if is_quoted { Err("a quoted string is never closed") } else { Ok(i) }
    }

    fn skip(&mut self, length: usize) {
        self.rest = &self.rest[length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SOA: &str = "@ 3600 IN SOA ns1 hostmaster ( 2026 ; serial\n 3h 1h\n 1w 5m )\n";

    fn lines(text: &str) -> Vec<String> {
        let entries = parse("example.com.", &format!("{SOA}{text}")).unwrap();
        let line = |e: &Entry| {
            let mark = e.mark.as_ref().map(|mark| format!(" by {mark}")).unwrap_or_default();
            let origin = e.origin.as_ref().map(|origin| format!(" at {origin}")).unwrap_or_default();
            format!("{} {} {} {}{mark}{origin}", e.name, e.ttl, e.kind, e.content)
        };
        entries[1..].iter().map(line).collect()
    }

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(lines(text), expected, "{text}");
    }

    fn refuse(text: &str, line: usize, part: &str) {
        let error = parse("example.com.", &format!("{SOA}{text}")).unwrap_err();
        assert_eq!(error.line, line, "{error}");
        assert!(error.what.to_string().contains(part), "{error}");
    }

    #[test]
    fn the_forms_of_rfc_1035_are_understood() {
        check("www 300 IN A 192.0.2.1\n", &["www.example.com. 300 A 192.0.2.1"]);
        check("www IN 1h30m a 192.0.2.1", &["www.example.com. 5400 A 192.0.2.1"]);
        check(
            "$TTL 1d\nWWW A 192.0.2.1\n  AAAA ::1\n",
            &["www.example.com. 86400 A 192.0.2.1", "www.example.com. 86400 AAAA ::1"],
        );
        check(
            "$ORIGIN sub\na 60 CNAME b\n@ MX 10 @\n",
            &["a.sub.example.com. 60 CNAME b.sub.example.com.", "sub.example.com. 60 MX 10 sub.example.com."],
        );
        check(
            "t 60 TXT ( \"a;b\" ; why\n \"c(d\" ) ; reconciled=dns1 more\n",
            &["t.example.com. 60 TXT \"a;b\" \"c(d\" by dns1"],
        );
        check("a\\;b\\@ 60 A 192.0.2.1\n", &["a;b@.example.com. 60 A 192.0.2.1"]);
        check(
            "$ORIGIN x.example.com.\nd 60 AFSDB 1 t\n",
            &["d.x.example.com. 60 AFSDB 1 t at x.example.com."],
        );
        check("_s._tcp 60 SRV 1 2 3 h\n", &["_s._tcp.example.com. 60 SRV 1 2 3 h.example.com."]);
        check("\r\n\n ; nothing\n\t\nx\t60\tA\t192.0.2.1\r\n", &["x.example.com. 60 A 192.0.2.1"]);
        check(
            "h 60 HTTPS 1 . alpn=\"h2,h3\" key667=\"a b;c\"\n",
            &["h.example.com. 60 HTTPS 1 . alpn=\"h2,h3\" key667=\"a b;c\""],
        );
        check("x 60 TYPE65534 \\# 2 abcd\n", &["x.example.com. 60 TYPE65534 \\# 2 abcd"]);
    }

    #[test]
    fn a_type_by_its_number_is_the_type_and_its_octets_are_its_data() {
        check("x 60 TYPE1 \\# 4 C0000201\n", &["x.example.com. 60 A 192.0.2.1"]);
        check("x CLASS1 60 type28 ::1\n", &["x.example.com. 60 AAAA ::1"]);
        check("x 60 TYPE15 ( \\# 5 000a\n 016100 )\n", &["x.example.com. 60 MX 10 a."]);
        check("x 60 TXT \\# 4 03613b62\n", &["x.example.com. 60 TXT \"a;b\""]);
        check("x 60 TYPE13 \\# 2 abcd\n", &["x.example.com. 60 HINFO \\# 2 abcd"]);
        // What is no address is kept as it is, for whoever reads on to refuse.
        check("x 60 A \\# 3 c00002\n", &["x.example.com. 60 A \\# 3 c00002"]);
        refuse("x 60 A \\# 4 c00002\n", 4, "not followed by 4 octets");
        refuse("x 60 A \\# 4 c00002zz\n", 4, "not followed by 4 octets");
        refuse("x 60 SOA \\# 1 00\n", 4, "write its fields");
    }

    #[test]
    fn the_soa_is_read_with_units_and_may_give_the_ttl() {
        let entries = parse("example.com.", "@ SOA ns1 h 1 2 3 4 5m\nx A 192.0.2.1\n").unwrap();
        assert_eq!(&*entries[0].content, "ns1.example.com. h.example.com. 1 2 3 4 300");
        assert_eq!((entries[0].ttl, entries[1].ttl), (300, 300));
    }

    #[test]
    fn the_soa_at_the_end_of_a_transfer_is_the_one_at_its_beginning() {
        let again = "x 60 A 192.0.2.1\n@ 3600 IN SOA NS1 hostmaster 2026 10800 3600 604800 300\n";
        let entries = parse("example.com.", &format!("{SOA}{again}")).unwrap();
        assert_eq!(entries.iter().map(|entry| &*entry.kind).collect::<Vec<_>>(), ["SOA", "A"]);
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        refuse("$INCLUDE other.zone\n", 4, "not supported");
        refuse("\n$GENERATE 1-9 a$ A 192.0.2.$\n", 5, "not supported");
        refuse("$FOO x\n", 4, "no directive");
        refuse("x.example.org. 60 A 192.0.2.1\n", 4, "outside zone");
        refuse("x 60 CH A 192.0.2.1\n", 4, "class CH");
        refuse("x 60 TXT \"open\nx 60 A 192.0.2.1\n", 4, "never closed");
        refuse("x 60 TXT ( a\n", 4, "never closed");
        refuse("x 60 TXT a )\n", 4, "closes nothing");
        refuse("x 60 A\n", 4, "no data");
        refuse("x 60\n", 4, "no type");
        refuse("x..y 60 A 192.0.2.1\n", 4, "empty label");
        refuse("@ 60 SOA ns2 hostmaster 2026 3h 1h 1w 5m\n", 4, "another SOA is in line 1");
        refuse("x 60 SOA ns1 hostmaster 2026 3h 1h 1w 5m\n", 4, "only at the zone itself");
        let error = parse("example.com.", "").unwrap_err();
        assert!(error.what.to_string().contains("without a SOA"), "an empty file is no empty zone: {error}");
        let error = parse("example.com.", "x A 192.0.2.1\n").unwrap_err();
        assert!(error.what.to_string().contains("no TTL"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(.|\n){0,120}", tokens in "[a-z0-9 ();\"\\\\$.@\n]{0,80}") {
            let _ = parse("example.com.", &text);
            let _ = parse("example.com.", &format!("{SOA}{tokens}"));
        }
    }
}
