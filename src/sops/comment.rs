//! What the MAC of a sops file is over besides encrypted values: comments, and values in the clear.

use reconciled_provider::yaml::ScalarKind;

/// A line that is nothing but a comment.
pub(super) struct Comment {
    /// Counted from 1.
    pub(super) line: u32,
    /// Without the `#`.
    pub(super) text: String,
}

/// The comments of a file, in order. Sops writes each on a line of its own.
pub(super) fn all(text: &str) -> Vec<Comment> {
    let mut comments = Vec::new();
    // How far the line that began a block of text is indented.
    let mut block: Option<usize> = None;
    for (line, text) in (1..).zip(text.lines()) {
        let trimmed = text.trim_start();
        let indent = text.len() - trimmed.len();
        if trimmed.is_empty() || block.is_some_and(|begin| indent > begin) {
            continue;
        }
        block = begins_block(trimmed).then_some(indent);
        if let Some(text) = trimmed.strip_prefix('#') {
            block = None;
            comments.push(Comment { line, text: text.trim_end().to_owned() });
        }
    }
    comments
}

fn begins_block(line: &str) -> bool {
    let indicators = line.trim_end().trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
    let before = indicators.strip_suffix(['|', '>']);
    before.is_some_and(|before| before.ends_with(": ") || before.ends_with("- "))
}

/// The text by which sops hashes a value that is not encrypted.
pub(super) fn canonical(text: &str, kind: &ScalarKind) -> String {
    let number = match kind {
        ScalarKind::Bool if text == "true" => Some("True".to_owned()),
        ScalarKind::Bool => Some("False".to_owned()),
        ScalarKind::Int => text.parse::<i64>().ok().map(|number| number.to_string()),
        ScalarKind::Float => text.parse::<f64>().ok().map(|number| number.to_string()),
        ScalarKind::Str | ScalarKind::Unknown(_) => None,
    };
    number.unwrap_or_else(|| text.to_owned())
}
