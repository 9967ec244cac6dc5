//! Blocks of lines in files that others write as well, between two marker lines.
//!
//! Pure. A file whose markers are not one pair is refused rather than guessed at: what stands behind a marker
//! that has lost its partner is somebody's.

use std::ops::Range;

/// What a marker line says behind the comment sign.
const BEGIN: &str = "BEGIN reconciled";
const END: &str = "END reconciled";

/// Where a block is in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// All of its lines, markers included.
    pub whole: Range<usize>,
    /// The lines between the markers.
    pub inner: Range<usize>,
}

/// Where the block `name` is in `text`.
///
/// Errors: the line number of a marker without its partner, or of a second block of that name.
pub fn find(text: &[u8], name: &str) -> Result<Option<Found>, usize> {
    let mut found = None;
    let mut open: Option<(usize, usize, usize)> = None;
    let mut start = 0;
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let (number, end) = (index + 1, start + line.len());
        match (marker(line, name), open) {
            (Some(BEGIN), None) if found.is_none() => open = Some((number, start, end)),
            (Some(END), Some((_, whole, inner))) => {
                found = Some(Found { whole: whole..end, inner: inner..start });
                open = None;
            }
            (Some(_), _) => return Err(number),
            (None, _) => {}
        }
        start = end;
    }
    match open {
        Some((number, ..)) => Err(number),
        None => Ok(found),
    }
}

/// Which marker of the block `name` a line is.
fn marker(line: &[u8], name: &str) -> Option<&'static str> {
    let line = std::str::from_utf8(line).ok()?.trim_end().strip_suffix(name)?.strip_suffix(' ')?;
    let of =
        |word: &str| line.strip_suffix(word).is_some_and(|before| before.is_empty() || before.ends_with(' '));
    [BEGIN, END].into_iter().find(|word| of(word))
}

/// `text` with `content` as its block `name`: in the place of the old one, or at the end.
///
/// Errors: as [`find`].
pub fn put(text: &[u8], name: &str, comment: &str, content: &[u8]) -> Result<Vec<u8>, usize> {
    let block = [
        format!("{comment} {BEGIN} {name}\n").as_bytes(),
        &with_line_end(content),
        format!("{comment} {END} {name}\n").as_bytes(),
    ]
    .concat();
    Ok(match find(text, name)? {
        Some(Found { whole, .. }) => [&text[..whole.start], &block, &text[whole.end..]].concat(),
        None => [&with_line_end(text)[..], &block].concat(),
    })
}

/// `text` without its block `name`.
///
/// Errors: as [`find`].
pub fn remove(text: &[u8], name: &str) -> Result<Vec<u8>, usize> {
    Ok(match find(text, name)? {
        Some(Found { whole, .. }) => [&text[..whole.start], &text[whole.end..]].concat(),
        None => text.to_vec(),
    })
}

/// The text, its last line ended.
pub fn with_line_end(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    if text.last().is_some_and(|byte| *byte != b'\n') {
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(before: &str, content: &str, after: &str) {
        let put = put(before.as_bytes(), "lab", "#", content.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&put), after);
        let Found { inner, .. } = find(&put, "lab").unwrap().unwrap();
        assert_eq!(&put[inner], with_line_end(content.as_bytes()));
    }

    #[test]
    fn a_block_goes_to_the_end_and_stays_where_it_is() {
        check("", "x", "# BEGIN reconciled lab\nx\n# END reconciled lab\n");
        check("a", "", "a\n# BEGIN reconciled lab\n# END reconciled lab\n");
        check(
            "a\n; BEGIN reconciled lab\nold\n; END reconciled lab\nb",
            "new\n",
            "a\n# BEGIN reconciled lab\nnew\n# END reconciled lab\nb",
        );
        let other = "# BEGIN reconciled lab2\nx\n# END reconciled lab2\n";
        check(other, "y", &format!("{other}# BEGIN reconciled lab\ny\n# END reconciled lab\n"));
    }

    #[test]
    fn markers_that_are_no_pair_are_refused_with_their_line() {
        let refuse = |text: &str, line| assert_eq!(find(text.as_bytes(), "lab"), Err(line), "{text}");
        refuse("a\n# BEGIN reconciled lab\n", 2);
        refuse("# END reconciled lab\n", 1);
        refuse("# BEGIN reconciled lab\n# BEGIN reconciled lab\n# END reconciled lab\n", 2);
        let twice = "# BEGIN reconciled lab\n# END reconciled lab\n";
        refuse(&format!("{twice}{twice}"), 3);
    }

    proptest! {
        #[test]
        fn what_was_put_can_be_taken_out_again(text in "[a-z#\n\u{e4}]{0,40}", content in "[a-z\n]{0,20}") {
            let with = put(text.as_bytes(), "lab", "#", content.as_bytes()).unwrap();
            prop_assert_eq!(remove(&with, "lab").unwrap(), with_line_end(text.as_bytes()));
            prop_assert_eq!(put(&with, "lab", "#", content.as_bytes()).unwrap(), with);
        }
    }
}
