//! Character strings (RFC 1035 §3.3): octets between quotes, with `\"`, `\\` and `\DDD`.
//!
//! Two forms of the same octets: the canonical one, which keeps readable UTF-8, and the wire one, pure ASCII and cut into
//! strings of at most 255 octets. A text that is cut every 255 octets is a single string in the canonical form; one
//! that is cut anywhere else is all of its strings.

/// Octets that one string holds.
pub(crate) const LONGEST: usize = 255;

/// The strings of a TXT record: never none, none longer than [`LONGEST`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strings {
    octets: Vec<u8>,
    /// Where each string ends.
    ends: Vec<usize>,
}

impl Strings {
    /// Reads a sequence of strings, quoted or bare; what is too long for one string is cut, as servers do.
    ///
    /// None when the text is not such a sequence.
    pub(crate) fn read(text: &str) -> Option<Strings> {
        read(text).map(|(octets, ends)| Strings::new(octets, &ends))
    }

    /// These strings; none at all are an empty one.
    pub(crate) fn of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Strings {
        let (mut octets, mut ends) = (Vec::new(), Vec::new());
        for part in parts {
            octets.extend_from_slice(part);
            ends.push(octets.len());
        }
        Strings::new(octets, &ends)
    }

    fn new(octets: Vec<u8>, wanted: &[usize]) -> Strings {
        let (mut ends, mut start) = (Vec::with_capacity(wanted.len()), 0);
        for end in wanted.iter().copied() {
            while end - start > LONGEST {
                start += LONGEST;
                ends.push(start);
            }
            ends.push(end);
            start = end;
        }
        if ends.is_empty() {
            ends.push(0);
        }
        Strings { octets, ends }
    }

    /// The text, whatever its strings.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// True where the text is cut anywhere else than every 255 octets.
    pub(crate) fn is_cut(&self) -> bool {
        let length = self.octets.len();
        let plain = |index: usize| ((index + 1) * LONGEST).min(length);
        let count = length.div_ceil(LONGEST).max(1);
        self.ends.len() != count || self.ends.iter().enumerate().any(|(index, end)| *end != plain(index))
    }

    /// Each string.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(move |(start, end)| &self.octets[start..*end])
    }

    /// Writes the canonical form.
    pub(crate) fn quote(&self, out: &mut String) {
        if !self.is_cut() {
            return quote(&self.octets, out);
        }
        for (index, part) in self.parts().enumerate() {
            out.push_str(if index == 0 { "" } else { " " });
            quote(part, out);
        }
    }

    /// Writes all strings as ASCII.
    pub(crate) fn quote_for_wire(&self, out: &mut String) {
        for (index, part) in self.parts().enumerate() {
            out.push_str(if index == 0 { "" } else { " " });
            quote_one_for_wire(part, out);
        }
    }
}

/// Writes `octets` as one quoted string; readable UTF-8 stays readable.
pub fn quote(octets: &[u8], out: &mut String) {
    out.push('"');
    for chunk in octets.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                c if c.is_control() => {
                    let mut buffer = [0; 4];
                    c.encode_utf8(&mut buffer).bytes().for_each(|byte| escape(byte, out));
                }
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| escape(*byte, out));
    }
    out.push('"');
}

/// Writes `octets` as ASCII, in strings of at most 255 octets; no octets are one empty string.
pub fn quote_for_wire(octets: &[u8], out: &mut String) {
    if octets.is_empty() {
        out.push_str("\"\"");
    }
    for (i, chunk) in octets.chunks(LONGEST).enumerate() {
        out.push_str(if i == 0 { "" } else { " " });
        quote_one_for_wire(chunk, out);
    }
}

/// Writes `octets` as one string of ASCII, however long it becomes.
pub(crate) fn quote_one_for_wire(octets: &[u8], out: &mut String) {
    out.push('"');
    for byte in octets {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(*byte)]),
            0x20..=0x7e => out.push(char::from(*byte)),
            _ => escape(*byte, out),
        }
    }
    out.push('"');
}

fn escape(byte: u8, out: &mut String) {
    out.push('\\');
    for digit in [byte / 100, byte / 10 % 10, byte % 10] {
        out.push(char::from(b'0' + digit));
    }
}

/// Reads a sequence of character strings, quoted or bare, and joins them.
///
/// None when the text is not such a sequence.
pub fn unquote(text: &str) -> Option<Vec<u8>> {
    read(text).map(|(octets, _)| octets)
}

/// The octets of a sequence of character strings, and where each of these ends.
fn read(text: &str) -> Option<(Vec<u8>, Vec<usize>)> {
    let (mut octets, mut ends) = (Vec::with_capacity(text.len()), Vec::new());
    let mut bytes = text.bytes().peekable();
    loop {
        while bytes.next_if(|b| b.is_ascii_whitespace()).is_some() {}
        if bytes.peek().is_none() {
            return (!ends.is_empty()).then_some((octets, ends));
        }
        let is_quoted = bytes.next_if_eq(&b'"').is_some();
        loop {
            match bytes.peek() {
                None if is_quoted => return None,
                None => break,
                Some(b'"') if is_quoted => {
                    bytes.next();
                    break;
                }
                Some(b'"') => return None,
                Some(b) if !is_quoted && b.is_ascii_whitespace() => break,
                Some(b'\\') => {
                    bytes.next();
                    octets.push(unescape(&mut bytes)?);
                }
                Some(byte) => {
                    octets.push(*byte);
                    bytes.next();
                }
            }
        }
        ends.push(octets.len());
    }
}

/// The words of a presentation text: blanks part them, but not within quotes. Quotes and escapes stay.
///
/// A quote begins a word or the value behind a `=`; elsewhere it is a character, as in a name. None when one is
/// never closed or a backslash escapes nothing.
pub fn words(text: &str) -> Option<Vec<&str>> {
    let bytes = text.as_bytes();
    let (mut words, mut start, mut is_quoted) = (Vec::new(), None, false);
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii_whitespace() && !is_quoted {
            words.extend(start.take().and_then(|start: usize| text.get(start..at)));
            at += 1;
            continue;
        }
        let first = *start.get_or_insert(at);
        match byte {
            b'"' if is_quoted => is_quoted = false,
            b'"' => is_quoted = at == first || bytes[at - 1] == b'=',
            b'\\' => {
                at += 1;
                bytes.get(at)?;
            }
            _ => {}
        }
        at += 1;
    }
    words.extend(start.and_then(|start| text.get(start..)));
    (!is_quoted).then_some(words)
}

/// The octet behind a backslash, in strings and in names alike (RFC 1035 §5.1).
pub(crate) fn unescape(bytes: &mut impl Iterator<Item = u8>) -> Option<u8> {
    let first = bytes.next()?;
    if !first.is_ascii_digit() {
        return Some(first);
    }
    let mut value = u16::from(first - b'0');
    for _ in 0..2 {
        let digit = bytes.next().filter(u8::is_ascii_digit)?;
        value = value * 10 + u16::from(digit - b'0');
    }
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quoted(octets: &[u8]) -> String {
        let mut out = String::new();
        quote(octets, &mut out);
        out
    }

    fn wire(octets: &[u8]) -> String {
        let mut out = String::new();
        quote_for_wire(octets, &mut out);
        out
    }

    #[test]
    fn readable_text_stays_readable_and_the_wire_is_ascii() {
        assert_eq!(quoted("ä\"\\\n;".as_bytes()), r#""ä\"\\\010;""#);
        assert_eq!(wire("ä\"\\\n;".as_bytes()), r#""\195\164\"\\\010;""#);
        assert_eq!(quoted(b"\xff"), r#""\255""#);
    }

    #[test]
    fn long_text_is_cut_into_strings_of_255_octets_and_joined_again() {
        for length in [0, 1, 254, 255, 256, 509, 510, 511, 764, 765, 766] {
            let octets = vec![b'x'; length];
            let text = wire(&octets);
            assert!(text.split(' ').all(|part| part.len() <= 257), "{length}");
            assert_eq!(text.split(' ').count(), length.div_ceil(255).max(1));
            assert_eq!(unquote(&text).unwrap(), octets);
        }
    }

    #[test]
    fn a_text_is_one_string_unless_it_is_cut_elsewhere_than_every_255_octets() {
        let check = |text: &str, canonical: &str, wire: &str| {
            let strings = Strings::read(text).unwrap();
            let (mut one, mut other) = (String::new(), String::new());
            strings.quote(&mut one);
            strings.quote_for_wire(&mut other);
            assert_eq!((&*one, &*other), (canonical, wire), "{text}");
            assert_eq!(strings.is_cut(), strings.parts().count() > 1 && one.contains("\" \""), "{text}");
            assert_eq!(Strings::read(&one).unwrap(), strings, "{text}");
            assert_eq!(Strings::read(&other).unwrap(), strings, "{text}");
        };
        check("bare", "\"bare\"", "\"bare\"");
        check("\"path=/x\" \"rp=lp\"", "\"path=/x\" \"rp=lp\"", "\"path=/x\" \"rp=lp\"");
        check("\"\" \"ä\"", "\"\" \"ä\"", "\"\" \"\\195\\164\"");
        check("\"a\" \"\"", "\"a\" \"\"", "\"a\" \"\"");
        check("\"\"", "\"\"", "\"\"");
        let (x, y) = ("x".repeat(255), "y".repeat(300));
        check(&format!("\"{x}\" \"z\""), &format!("\"{x}z\""), &format!("\"{x}\" \"z\""));
        let cut = format!("\"a\" \"{}\" \"{}\"", &y[..255], &y[255..]);
        check(&format!("\"a\" \"{y}\""), &cut, &cut);
    }

    #[test]
    fn what_is_no_sequence_of_strings_is_refused() {
        for text in ["", "  ", "\"open", "a\"b", r#""\25""#, r#""\256""#, "\\"] {
            assert_eq!(unquote(text), None, "{text}");
        }
        assert_eq!(unquote("bare words").unwrap(), b"barewords");
    }

    #[test]
    fn words_are_parted_by_blanks_outside_of_quotes() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text).unwrap(), expected, "{text}");
        check(r#"0 issue "a b\" c" "#, &["0", "issue", r#""a b\" c""#]);
        check(r#"1 . alpn="h2, h3" port=1"#, &["1", ".", r#"alpn="h2, h3""#, "port=1"]);
        check(r#"10 a"b\ c.example."#, &["10", r#"a"b\ c.example."#]);
        check("", &[]);
        assert_eq!(words("\"open"), None);
        assert_eq!(words("a\\"), None);
    }

    proptest! {
        #[test]
        fn any_strings_survive_both_forms(parts in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..256), 1..4,
        )) {
            let strings = Strings::of(parts.iter().map(Vec::as_slice));
            prop_assert!(strings.parts().eq(parts.iter().map(Vec::as_slice)));
            let (mut canonical, mut wire) = (String::new(), String::new());
            strings.quote(&mut canonical);
            strings.quote_for_wire(&mut wire);
            prop_assert_eq!(&Strings::read(&canonical).unwrap(), &strings);
            prop_assert_eq!(&Strings::read(&wire).unwrap(), &strings);
        }

        #[test]
        fn any_octets_survive_both_forms(octets in proptest::collection::vec(any::<u8>(), 0..700)) {
            prop_assert_eq!(unquote(&quoted(&octets)).unwrap(), octets.clone());
            prop_assert_eq!(unquote(&wire(&octets)).unwrap(), octets);
        }
    }
}
