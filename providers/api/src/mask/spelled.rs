//! Texts looked for in another one, each character of them as itself or as an address, JSON, markup or a program writes it.
//!
//! *Guarantees*: no mixture of these spellings hides one. The other text is gone through once for all of them, and nothing is copied of
//! it; that takes longer only with texts that repeat themselves, and with many that begin alike where that beginning stands again and
//! again. *Caveats*: what is spelled twice over, as `%2540`, is not found.

use std::{mem, ops::Range, ptr};
use zeroize::Zeroizing;

/// Octets of the longest entity behind its `&`: `#x0010FFFF;`.
const ENTITY: usize = 11;

/// What is looked for.
pub(super) struct Spelled {
    /// Sorted; none of them is empty.
    texts: Vec<Zeroizing<String>>,
    /// True for each octet that one of them may begin with, however it is spelled.
    beginnings: Zeroizing<[bool; 256]>,
}

impl Spelled {
    pub(super) fn of(mut texts: Vec<Zeroizing<String>>) -> Spelled {
        texts.retain(|text| !text.is_empty());
        texts.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        texts.dedup();
        let mut beginnings = Zeroizing::new([false; 256]);
        for first in texts.iter().filter_map(|text| text.as_bytes().first().copied()) {
            for octet in [first, if first == b' ' { b'+' } else { first }, b'%', b'\\', b'&'] {
                if let Some(begins) = beginnings.get_mut(usize::from(octet)) {
                    *begins = true;
                }
            }
        }
        Spelled { texts, beginnings }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.texts.len()
    }

    /// Tells each place at which one of them stands in `text`, until `found` says that it is enough. They may overlap.
    pub(super) fn each(&self, text: &str, mut found: impl FnMut(Range<usize>) -> bool) {
        let octets = text.as_bytes();
        let (mut before, mut begun): (Vec<Begun<'_>>, Vec<Begun<'_>>) = (Vec::new(), Vec::new());
        for (at, first) in octets.iter().copied().enumerate() {
            let is_beginning = self.beginnings.get(usize::from(first)).is_some_and(|begins| *begins);
            if !is_beginning && begun.is_empty() {
                continue;
            }
            let meanings = [Some(Meant::octet(first, 1)), Meant::at(octets.get(at..).unwrap_or_default())];
            let firsts = meanings.iter().flatten().filter(|_| is_beginning).filter_map(Meant::first);
            let new = firsts.flat_map(|first| self.beginning_with(first));
            let new = new.map(|text| Begun { from: at, at, left: text.as_bytes() });
            mem::swap(&mut before, &mut begun);
            begun.clear();
            for one in before.iter().copied().chain(new) {
                // One that is further on, behind what it was spelled with, waits.
                if one.at > at {
                    one.add_to(&mut begun, first);
                    continue;
                }
                for next in meanings.iter().flatten().filter_map(|meant| one.then(meant)) {
                    if !next.left.is_empty() {
                        next.add_to(&mut begun, first);
                    } else if found(next.from..next.at) {
                        return;
                    }
                }
            }
        }
    }

    fn beginning_with(&self, first: u8) -> impl Iterator<Item = &Zeroizing<String>> {
        let from = self.texts.partition_point(|text| text.as_bytes().first() < Some(&first));
        let rest = self.texts.get(from..).unwrap_or_default();
        rest.iter().take_while(move |text| text.as_bytes().first() == Some(&first))
    }
}

/// A text of which a part was found.
#[derive(Clone, Copy)]
struct Begun<'t> {
    /// Where it began.
    from: usize,
    /// Where it goes on.
    at: usize,
    /// What of it was not found yet.
    left: &'t [u8],
}

impl<'t> Begun<'t> {
    /// It goes on with what is meant here.
    fn then(self, meant: &Meant) -> Option<Begun<'t>> {
        let left = self.left.strip_prefix(meant.octets())?;
        Some(Begun { from: self.from, at: self.at + meant.length, left })
    }

    /// Adds it where it is not among those that have begun. Only backslashes, of which each is itself or stands for another, lead to
    /// one place on more than one way, and on ever more of them.
    fn add_to(self, begun: &mut Vec<Begun<'t>>, first: u8) {
        let is_same = |one: &&mut Begun<'t>| one.at == self.at && ptr::eq(one.left, self.left);
        if first == b'\\'
            && let Some(same) = begun.iter_mut().find(is_same)
        {
            same.from = same.from.min(self.from);
        } else {
            begun.push(self);
        }
    }
}

/// What a text means at a place.
struct Meant {
    octets: [u8; 4],
    count: usize,
    /// So many octets of the text mean it.
    length: usize,
}

impl Meant {
    /// What is meant by more than itself at the beginning of `text`.
    fn at(text: &[u8]) -> Option<Meant> {
        match text {
            // As forms have it.
            [b'+', ..] => Some(Meant::octet(b' ', 1)),
            [b'%', high, low, ..] => Some(Meant::octet(hex(*high, *low)?, 3)),
            [b'\\', b'x', high, low, ..] => Some(Meant::octet(hex(*high, *low)?, 4)),
            [b'\\', b'u', digits @ ..] => unicode(digits),
            [b'\\', letter, ..] => Some(Meant::octet(escaped(*letter)?, 2)),
            [b'&', name @ ..] => entity(name),
            _ => None,
        }
    }

    fn octet(octet: u8, length: usize) -> Meant {
        Meant { octets: [octet, 0, 0, 0], count: 1, length }
    }

    fn character(character: char, length: usize) -> Meant {
        let mut octets = [0; 4];
        let count = character.encode_utf8(&mut octets).len();
        Meant { octets, count, length }
    }

    fn octets(&self) -> &[u8] {
        self.octets.get(..self.count).unwrap_or_default()
    }

    fn first(&self) -> Option<u8> {
        self.octets().first().copied()
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    digits.iter().try_fold(0_u32, |number, digit| {
        number.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?)
    })
}

fn hex(high: u8, low: u8) -> Option<u8> {
    u8::try_from(number(&[high, low], 16)?).ok()
}

/// The letter behind a backslash: as JSON has it, or itself for whatever is quoted so.
fn escaped(letter: u8) -> Option<u8> {
    match letter {
        b'b' => Some(0x08),
        b'f' => Some(0x0c),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b' ' => Some(b' '),
        letter => letter.is_ascii_punctuation().then_some(letter),
    }
}

/// A character behind `\u`, or two halves of one (RFC 8259 §7).
fn unicode(digits: &[u8]) -> Option<Meant> {
    let first = number(digits.get(..4)?, 16)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some(Meant::character(char::from_u32(first)?, 6));
    }
    let second = number(digits.get(4..)?.strip_prefix(b"\\u")?.get(..4)?, 16)?;
    let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    Some(Meant::character(char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + low)?, 12))
}

/// A character of XML or HTML behind `&`.
fn entity(name: &[u8]) -> Option<Meant> {
    let end = name.iter().take(ENTITY).position(|octet| *octet == b';')?;
    let character = match name.get(..end)? {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(number(digits, 16)?)?,
        [b'#', digits @ ..] => char::from_u32(number(digits, 10)?)?,
        _ => return None,
    };
    Some(Meant::character(character, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(texts: &[&str], text: &str) -> Vec<Range<usize>> {
        let spelled = Spelled::of(texts.iter().map(|text| Zeroizing::new((*text).to_owned())).collect());
        let mut all = Vec::new();
        spelled.each(text, |range| {
            all.push(range);
            false
        });
        all
    }

    #[test]
    fn every_place_is_told_once_and_no_other() {
        assert_eq!(all(&["abab"], "ababab abab"), [0..4, 2..6, 7..11]);
        assert_eq!(all(&["abcd", "bc", ""], "abcd"), [1..3, 0..4]);
        assert_eq!(all(&["p@ss"], "p%40ss p&#x40;ss p\\u0040ss p\\x40ss"), [0..6, 7..16, 17..26, 27..34]);
        // As itself at its end, and as the beginning of more.
        assert_eq!(all(&["100%"], "100%25"), [0..4, 0..6]);
        for text in ["p%4ss", "p%4", "p&#x40ss", "p&#64", "p&;ss", "p\\u004ss", "p\\ud83d\\u0040ss", "p\\"] {
            assert!(all(&["p@ss", "p\u{1f600}ss"], text).is_empty(), "{text}");
        }
        assert!(all(&[], "text").is_empty());
    }

    #[test]
    fn whoever_finds_one_may_stop() {
        let spelled = Spelled::of(vec![Zeroizing::new("ab".to_owned())]);
        let mut count = 0;
        spelled.each("ab ab ab", |_| {
            count += 1;
            count == 2
        });
        assert_eq!(count, 2);
    }

    #[test]
    fn ways_to_read_many_backslashes_are_not_gone_one_by_one() {
        let secret = format!("{}x", "\\".repeat(64));
        assert!(all(&[&secret], &"\\".repeat(1024)).is_empty());
        let found = all(&[&secret], &format!("{}x", "\\".repeat(128)));
        assert_eq!(found.last(), Some(&(0..129)), "each of them stands for a half of it");
    }

    /// A character in one of its spellings, as others write it.
    fn spell(character: char, how: usize) -> String {
        let octets = |before: &str, is_upper: bool| -> String {
            let mut buffer = [0; 4];
            let octets = character.encode_utf8(&mut buffer).bytes();
            octets
                .map(|o| if is_upper { format!("{before}{o:02X}") } else { format!("{before}{o:02x}") })
                .collect()
        };
        let units = || -> String {
            let mut buffer = [0; 2];
            character.encode_utf16(&mut buffer).iter().map(|unit| format!("\\u{unit:04x}")).collect()
        };
        match how {
            0 => octets("%", true),
            1 => octets("%", false),
            2 => octets("\\x", false),
            3 => units(),
            4 => units().to_uppercase().replace("\\U", "\\u"),
            5 => format!("&#{};", u32::from(character)),
            6 => format!("&#x{:X};", u32::from(character)),
            7 => match character {
                '\n' => "\\n".into(),
                '"' => "\\\"".into(),
                '\\' => "\\\\".into(),
                '/' => "\\/".into(),
                ' ' => "+".into(),
                '&' => "&amp;".into(),
                '<' => "&lt;".into(),
                '\'' => "&apos;".into(),
                other => other.into(),
            },
            _ => character.into(),
        }
    }

    /// What spellings are made of, among others.
    fn character() -> impl Strategy<Value = char> {
        prop::sample::select("%\\&+;#/\"'< \nux0245dDaAn\u{e4}\u{20ac}\u{1f600}".chars().collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn no_mixture_of_spellings_hides_one(
            secret in prop::collection::vec((character(), 0_usize..12), 1..16),
            around in prop::array::uniform2(prop::collection::vec(character(), 0..6)),
        ) {
            let [before, behind] = around.map(|all| all.into_iter().collect::<String>());
            let spelled: String = secret.iter().map(|(one, how)| spell(*one, *how)).collect();
            let secret: String = secret.iter().map(|(one, _)| *one).collect();
            let text = format!("{before}{spelled}{behind}");
            let (from, to) = (before.len(), before.len() + spelled.len());
            let found = all(&[&secret], &text);
            prop_assert!(
                found.iter().any(|range| range.start <= from && range.end == to),
                "{secret:?} in {text:?}: {found:?}"
            );
            let is_whole = |range: &Range<usize>| text.get(range.clone()).is_some();
            prop_assert!(found.iter().all(is_whole), "{text:?}: {found:?}");
        }
    }
}
