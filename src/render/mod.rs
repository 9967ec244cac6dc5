//! Showing: plans, problems and tables as text, JSON and Markdown.
//!
//! Guarantees: same input, same bytes; nothing from a repository or a remote can steer a terminal or a page
//! ([`clean`]); colour never alone carries meaning. Nothing here decides, reads a clock or does I/O.

pub mod audit;
pub mod plan;
pub mod problems;
pub mod status;
pub mod table;
pub mod time;

use reconciled_provider::problem::is_unseen;
use std::borrow::Cow;

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
}
