//! What a plain scalar is: a boolean, a number, nothing, or text; and how text is written so that it is read as text.

use super::node::ScalarKind;
use std::{borrow::Cow, fmt::Write as _};

/// Words that some readers of YAML take for a boolean or for nothing.
const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// What the core schema of YAML 1.2 makes of a plain scalar.
pub(super) enum Resolved {
    Null,
    Kind(ScalarKind),
    /// `.inf`, `.nan` and numbers too large for a float.
    NotFinite,
}

pub(super) fn is_null(text: &str) -> bool {
    text.is_empty() || text == "~" || text.eq_ignore_ascii_case("null")
}

pub(super) fn resolve(text: &str) -> Resolved {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is_null(text) {
        return Resolved::Null;
    }
    if is("true") || is("false") {
        return Resolved::Kind(ScalarKind::Bool);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Resolved::Kind(ScalarKind::Str);
    }
    if is_integer(text, unsigned) {
        return Resolved::Kind(ScalarKind::Int);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Resolved::Kind(ScalarKind::Float),
        Ok(_) => Resolved::NotFinite,
        Err(_) if unsigned.eq_ignore_ascii_case(".inf") || unsigned.eq_ignore_ascii_case(".nan") => {
            Resolved::NotFinite
        }
        Err(_) => Resolved::Kind(ScalarKind::Str),
    }
}

/// True for an integer of 64 bits: decimal without leading zeros, `0x`, `0o` or `0b`; `_` may stand between digits.
fn is_integer(text: &str, unsigned: &str) -> bool {
    let (radix, digits) = match unsigned.get(..2) {
        Some("0x" | "0X") => (16, &unsigned[2..]),
        Some("0o" | "0O") => (8, &unsigned[2..]),
        Some("0b" | "0B") => (2, &unsigned[2..]),
        _ if unsigned.len() > 1 && unsigned.starts_with('0') => return false,
        _ => (10, unsigned),
    };
    if digits.split('_').any(|group| group.is_empty() || !group.chars().all(|c| c.is_digit(radix))) {
        return false;
    }
    let digits: Cow<'_, str> =
        if digits.contains('_') { digits.replace('_', "").into() } else { digits.into() };
    match text.starts_with('-') {
        false => u64::from_str_radix(&digits, radix).is_ok(),
        true => i64::from_str_radix(&format!("-{digits}"), radix).is_ok(),
    }
}

/// A text as a scalar, in any style of collection: plain where nothing can be misread, else in double quotes.
///
/// ```
/// use reconciled_provider::yaml::quoted;
/// assert_eq!(quoted("dns/v1"), "dns/v1");
/// assert_eq!(quoted("192.0.2.1"), "\"192.0.2.1\"");
/// assert_eq!(quoted("no"), "\"no\"");
/// assert_eq!(quoted("a: \"b\"\n"), r#""a: \"b\"\n""#);
/// ```
pub fn quoted(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'/'))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        return text.into();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            ' '..='~' => write!(out, "{c}"),
            c if c.is_alphanumeric() => write!(out, "{c}"),
            // Controls, separators and whatever else YAML or an editor may not keep as it is.
            c => write!(out, "\\U{:08X}", u32::from(c)),
        };
    }
    out.push('"');
    out
}
