//! Secrets masked in what others say: a proxy that fails echoes what it was sent, a tool prints what it was given, each in a
//! spelling of its own.
//!
//! *Guarantees*: what is masked is left in no mixture of the spellings that are known here: of addresses, JSON and markup, and in no
//! base64. *Caveats*: three octets or fewer are a part of everything, and are not looked for, nor are five or fewer in base64.

mod spelled;

use self::spelled::Spelled;
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use std::ops::Range;
use zeroize::Zeroizing;

/// Shorter spellings are parts of everything.
const SHORTEST: usize = 4;

/// Secrets from so many octets on are looked for in base64, too: of shorter ones too few letters are their own.
const ENCODED: usize = 6;

/// What stands for a secret.
const MASK: &str = "(secret)";

/// Secrets in every spelling, to be masked. Wiped when dropped, never printed.
///
/// ```
/// use reconciled_provider::Mask;
/// let mask = Mask::of(["p@ss word"]);
/// assert_eq!(mask.over("https://h/?key=p%40ss+word&a=b"), "https://h/?key=(secret)&a=b");
/// ```
pub struct Mask {
    /// As they are, without the space around them, on one line, and each line where lines count: each character in any spelling.
    spelled: Spelled,
    /// In base64, which has one spelling.
    encoded: Vec<Zeroizing<String>>,
}

impl Mask {
    /// All of these secrets, and each of their lines.
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Mask {
        let secrets: Vec<&str> = secrets.into_iter().collect();
        let lines = secrets.iter().flat_map(|secret| secret.lines()).map(|line| line.trim().to_owned());
        Mask::with(&secrets, lines.map(Zeroizing::new).collect())
    }

    /// The same without their lines: each of these is in a text only where all of a secret is.
    pub fn of_whole<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Mask {
        Mask::with(&secrets.into_iter().collect::<Vec<_>>(), Vec::new())
    }

    fn with(secrets: &[&str], mut texts: Vec<Zeroizing<String>>) -> Mask {
        let mut encoded: Vec<Zeroizing<String>> = Vec::new();
        for secret in secrets {
            // What ends with a line feed in a file is given on without it.
            let trimmed = secret.trim();
            texts.extend([(*secret).to_owned(), trimmed.to_owned(), one_line(secret)].map(Zeroizing::new));
            encoded.extend(
                [*secret, trimmed].into_iter().filter(|secret| secret.len() >= ENCODED).flat_map(in_base64),
            );
        }
        encoded.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        encoded.dedup();
        texts.retain(|text| text.len() >= SHORTEST);
        Mask { spelled: Spelled::of(texts), encoded }
    }

    /// True when one of them is in the text.
    ///
    /// ```
    /// use reconciled_provider::Mask;
    /// let mask = Mask::of_whole(["BEGIN KEY\np@ss word"]);
    /// assert!(mask.finds("?key=BEGIN%20KEY%0Ap%40ss%20word") && !mask.finds("BEGIN KEY"));
    /// ```
    pub fn finds(&self, text: &str) -> bool {
        let mut is_spelled = false;
        self.spelled.each(text, |_| {
            is_spelled = true;
            true
        });
        is_spelled || self.encoded.iter().any(|form| text.contains(form.as_str()))
    }

    /// The text without any of them.
    pub fn over(&self, text: &str) -> String {
        let mut found: Vec<Range<usize>> = Vec::new();
        self.spelled.each(text, |range| {
            found.push(range);
            false
        });
        for form in &self.encoded {
            found.extend(text.match_indices(form.as_str()).map(|(at, form)| at..at + form.len()));
        }
        found.sort_unstable_by_key(|range| range.start);
        let (mut masked, mut end) = (String::new(), 0);
        for range in found {
            // Those that overlap are one, so that none leaves the rest of another behind.
            if range.start >= end {
                masked += text.get(end..range.start).unwrap_or_default();
                masked += MASK;
            }
            end = end.max(range.end);
        }
        masked + text.get(end..).unwrap_or_default()
    }

    /// The text on one line and without any of them, however its lines were broken.
    pub fn on_one_line(&self, text: &str) -> String {
        // Once as it came, and once more for what only its line breaks kept apart.
        self.over(&one_line(&self.over(text)))
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({})", self.spelled.count() + self.encoded.len())
    }
}

/// A secret as it is in a header: also behind other octets, as in `user:secret`. These are the letters that are its own alone, for
/// each place in a group of three.
fn in_base64(secret: &str) -> Vec<Zeroizing<String>> {
    let parts = (0..3).flat_map(|before| {
        let bytes = Zeroizing::new([&[0; 2][..before], secret.as_bytes()].concat());
        let own = (before * 8).div_ceil(6)..bytes.len() * 8 / 6;
        [STANDARD.encode(&*bytes), URL_SAFE.encode(&*bytes)].map(|text| text[own.clone()].to_owned())
    });
    let whole = [STANDARD.encode(secret), URL_SAFE.encode(secret)];
    whole.into_iter().chain(parts).map(Zeroizing::new).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_of_a_secret_is_left_in_a_text() {
        let check = |secrets: &[&str], text: &str, expect: &str| {
            assert_eq!(Mask::of(secrets.iter().copied()).over(text), expect, "{secrets:?}");
        };
        check(&["hunter2"], "no hunter2, hunter2.", "no (secret), (secret).");
        // The longer one first, whatever the order.
        check(&["abcd", "abcd-efgh"], "abcd-efgh abcd", "(secret) (secret)");
        check(&["two  words"], "say two words", "say (secret)");
        check(&["BEGIN\nline-one\nline-two\nEND"], "bad line: line-two", "bad line: (secret)");
        check(&["BEGIN\nline-one"], r#"key "BEGIN\nline-one" is wrong"#, r#"key "(secret)" is wrong"#);
        check(&["abc", ""], "abc is in abcd", "abc is in abcd");
        check(&["p@ss word"], "postgres://u:p%40ss%20word@h", "postgres://u:(secret)@h");
        check(&["p@ss word"], "https://h/?key=p%40ss+word&a=b", "https://h/?key=(secret)&a=b");
        check(&["p@ss word"], "Basic cEBzcyB3b3Jk", "Basic (secret)");
        check(&["hunter2"], "Basic dXNlcjpodW50ZXIy", "Basic dXNlcjp(secret)");
        check(&["p@ss+word"], "u:p%40ss%2bword@h", "u:(secret)@h");
        check(&["p&ss<word"], r#"{"password":"p\u0026ss\u003cword"}"#, r#"{"password":"(secret)"}"#);
        check(&["a+b/c=="], r#"{"key":"a+b\/c=="}"#, r#"{"key":"(secret)"}"#);
        check(&["a+b/c=="], "?key=a%2Bb%2Fc%3D%3D&key=a%2bb%2fc%3d%3d", "?key=(secret)&key=(secret)");
        check(&[r#"new"Se\cret&8"#], r#"<m>new&quot;Se\cret&amp;8</m>"#, "<m>(secret)</m>");
        check(&["it's<it"], "it&#39;s&lt;it", "(secret)");
        check(&[r#"say"it""#], r#"{"key":"say\"it\""}"#, r#"{"key":"(secret)"}"#);
        // Without the line feed that a file has at its end.
        check(&["hun@ter22\n"], "u:hun%40ter22@h", "u:(secret)@h");
        check(&["pa\"ss/word\n"], r#"{"p": "pa\"ss/word"}"#, r#"{"p": "(secret)"}"#);
        check(&["pass-word\n"], "Basic cGFzcy13b3Jk, eDpwYXNzLXdvcmQ=", "Basic (secret), eDp(secret)Q=");
        // As `encodeURIComponent`, Python's `quote` and `json.dumps`, and a shell have it.
        check(&["p!ss@word*"], "?key=p!ss%40word*", "?key=(secret)");
        check(&["p@ss/word"], "/p%40ss/word/", "/(secret)/");
        check(&["p\u{e4}ssword1"], r#"{"key": "p\u00e4ssword1"}"#, r#"{"key": "(secret)"}"#);
        check(&["a$b'c d"], r"--key=a\$b\'c\ d", "--key=(secret)");
        // Some characters so and others so.
        check(&["p@ss&word"], r"p%40ss\u0026w&#111;rd", "(secret)");
        check(&["BEGIN\nli&ne-one"], "bad: li&amp;ne-one", "bad: (secret)");
        // Of four octets on, but in base64.
        check(&["p@ss", "w@rds"], "p%40ss w&#64;rds d0ByZHM=", "(secret) (secret) d0ByZHM=");
        check(&["abcab"], "abcabcab abcababcab", "(secret) (secret)(secret)");
    }

    #[test]
    fn what_is_masked_is_not_printed() {
        let text = format!("{:?}", Mask::of(["hunter2"]));
        assert!(text.starts_with("Mask(") && !text.contains("hunter2"), "{text}");
    }
}
