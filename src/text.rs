//! Words of a message: text of others made harmless, cut and counted, and the short form of digests and commits.
//!
//! Guarantees: same input, same text. Nothing here reads a clock or knows what the text is about.

pub mod time;

use reconciled_provider::problem::is_unseen;
use std::borrow::Cow;

/// Digits of a digest that people see and type.
const DIGEST: usize = 8;
/// Digits of a commit that people see, as many as Git shows.
const COMMIT: usize = 7;

/// Makes `text` one line that cannot steer a terminal.
///
/// A line feed becomes `\n`, a tab a space; other control characters, those that reorder text and those that nobody sees
/// are written out, such as `\u{202e}`: what looks like something else is no true plan.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push(' '),
            c if is_unseen(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The same for a text of several lines, which stay lines.
pub fn clean_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(clean).collect();
    lines.join("\n")
}

/// `1 zone`, `2 zones`: a number and a noun whose plural has an `s`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Cuts `text` to `width` characters, the last of which is then `…`.
pub fn cut(text: &str, width: usize) -> Cow<'_, str> {
    // Bytes are at least as many as characters, so most texts need no counting.
    if text.len() <= width || text.chars().count() <= width {
        return Cow::Borrowed(text);
    }
    let mut out: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        out.push('…');
    }
    Cow::Owned(out)
}

/// The part of a digest that people type.
pub fn short_digest(digest: &str) -> &str {
    digest.get(..DIGEST).unwrap_or(digest)
}

/// What a commit is called where nothing better is known: its first digits.
pub fn short_commit(commit: &str) -> &str {
    commit.get(..COMMIT).unwrap_or(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_written_out_and_the_rest_borrowed() {
        assert_eq!(clean("a\u{1b}[31mb\u{9b}\n\tc\u{202e}"), "a\\u{1b}[31mb\\u{9b}\\n c\\u{202e}");
        assert_eq!(clean("a\u{61c}b\u{200b}c\u{2069}"), "a\\u{61c}b\\u{200b}c\\u{2069}");
        assert_eq!(clean_lines("a\u{1b}\nb\n"), "a\\u{1b}\nb\n");
        assert!(matches!(clean("grüße … 日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_text_is_cut_by_characters() {
        assert_eq!(cut("grüße", 5), "grüße");
        assert_eq!(cut("grüßen", 5), "grüß…");
        assert_eq!(cut("x", 0), "");
    }

    #[test]
    fn digests_and_commits_have_one_short_form() {
        assert_eq!(short_digest("7f3a91127f3a9112"), "7f3a9112");
        assert_eq!(short_commit("9f2c1ab0"), "9f2c1ab");
        assert_eq!((short_digest("7f3a"), short_commit("")), ("7f3a", ""));
    }
}
