//! A problem in what a person wrote: place, message, the line with a caret, and what to do.

use crate::{
    error::Error,
    yaml::{SourceFile, Span},
};
use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc};
use strsim::osa_distance;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth a look; everything is still applied.
    Warning,
    /// What the problem touches is not applied.
    Error,
}

/// A position in a file: line and column count from 1, in characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Path within the source.
    pub file: Arc<str>,
    /// Line, from 1; 0 when the whole file is meant.
    pub line: u32,
    /// Column, from 1; 0 when the whole line is meant.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name cannot say lines of its own.
        let file = printable(&self.file).replace('\n', "\\n");
        match (self.line, self.column) {
            (0, _) => f.write_str(&file),
            (line, 0) => write!(f, "{file}:{line}"),
            (line, column) => write!(f, "{file}:{line}:{column}"),
        }
    }
}

/// One problem, ready to be shown to the person who can mend it.
///
/// ```
/// use reconciled_provider::{Problem, SourceFile, Span};
/// let file = SourceFile::new("zone.yaml", "ttl: abc\n");
/// let problem = Problem::error("expected a number, found `abc`").at(&file, Span { line: 1, column: 6 });
/// assert!(problem.to_string().contains("zone.yaml:1:6"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is, if it has a place.
    pub place: Option<Place>,
    /// What is wrong, lower case, one line.
    pub message: String,
    /// How the rule is called that it breaks, where rules have names.
    pub rule: Option<&'static str>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The line at `place`, for the caret; absent for documents that must not be echoed.
    pub source_line: Option<Arc<str>>,
    /// Other places that matter, with a word on each ("first declared here").
    pub related: Vec<(Place, String)>,
}

impl Problem {
    /// Starts an error without a place. Of addresses in it user and password are not shown.
    pub fn error(message: impl Into<String>) -> Problem {
        let message = message.into();
        Problem {
            severity: Severity::Error,
            place: None,
            message: if message.contains("://") { without_userinfo(&message) } else { message },
            rule: None,
            hint: None,
            source_line: None,
            related: Vec::new(),
        }
    }
    /// Starts a warning without a place.
    pub fn warning(message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::error(message) }
    }
    /// Puts the problem at `span` of `file` and keeps the line for the caret.
    pub fn at(mut self, file: &SourceFile, span: Span) -> Problem {
        self.place = Some(Place { file: file.path.clone(), line: span.line, column: span.column });
        self.source_line = file.line(span.line).map(|line| without_userinfo(line).into());
        self
    }
    /// Leaves out the line, which may hold a secret.
    ///
    /// ```
    /// use reconciled_provider::{Problem, SourceFile, Span};
    /// let file = SourceFile::new("c.yaml", "token: S3CR3T\n");
    /// let problem = Problem::error("this is no place of a secret").at(&file, Span { line: 1, column: 8 });
    /// assert!(!problem.without_line().to_string().contains("S3CR3T"));
    /// ```
    pub fn without_line(mut self) -> Problem {
        self.source_line = None;
        self
    }
    /// Leaves out every line that one of `problems` leaves out: what else is wrong there must not show it either.
    ///
    /// ```
    /// use reconciled_provider::{Problem, SourceFile, Span};
    /// let file = SourceFile::new("c.yaml", "{token: S3CR3T, x: 1}\n");
    /// let at = |column| Problem::error("wrong").at(&file, Span { line: 1, column });
    /// let mut problems = [at(9).without_line(), at(17)];
    /// Problem::hide_lines(&mut problems);
    /// assert!(!problems[1].to_string().contains("S3CR3T"));
    /// ```
    pub fn hide_lines(problems: &mut [Problem]) {
        let line = |problem: &Problem| problem.place.as_ref().map(|place| (place.file.clone(), place.line));
        let without = problems.iter().filter(|problem| problem.source_line.is_none());
        let hidden: BTreeSet<_> = without.filter_map(line).collect();
        for problem in problems {
            if line(problem).is_some_and(|line| hidden.contains(&line)) {
                problem.source_line = None;
            }
        }
    }
    /// Puts the problem at a file as a whole.
    pub fn in_file(mut self, path: &str) -> Problem {
        self.place = Some(Place { file: path.into(), line: 0, column: 0 });
        self
    }
    /// Adds what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }
    /// Adds what to do, where that is known.
    ///
    /// ```
    /// use reconciled_provider::Problem;
    /// let problem = Problem::error("wrong").hint("mend it");
    /// assert_eq!(problem.clone().hint_if(None::<&str>), problem);
    /// ```
    pub fn hint_if(self, hint: Option<impl Into<String>>) -> Problem {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }
    /// Adds another place that matters.
    pub fn related(mut self, place: Place, word: impl Into<String>) -> Problem {
        self.related.push((place, word.into()));
        self
    }
    /// True for what stops the touched part from being applied.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// An error without a place: all that `error` says, and its hint.
///
/// ```
/// use reconciled_provider::{Error, Problem};
/// let error = Error::invalid("no such file").hint("write its path from the root");
/// assert_eq!(Problem::from(&error), Problem::error("no such file").hint("write its path from the root"));
/// ```
impl From<&Error> for Problem {
    fn from(error: &Error) -> Problem {
        Problem::error(error.chain()).hint_if(error.hint.as_deref())
    }
}

/// Longest excerpt of a source line that is shown; longer lines are cut around the column.
const EXCERPT: usize = 100;

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_error() { "error" } else { "warning" };
        write!(f, "{word}: {}", printable(&self.message))?;
        if let Some(place) = &self.place {
            write!(f, "\n  --> {place}")?;
            if let Some(line) = &self.source_line {
                let (excerpt, caret) = excerpt(line, place.column);
                let number = place.line.to_string();
                write!(f, "\n{number} | {excerpt}")?;
                if place.column > 0 {
                    write!(f, "\n{:width$} | {:caret$}^", "", "", width = number.len())?;
                }
            }
        }
        for (place, word) in &self.related {
            write!(f, "\n  --> {place} {word}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {}", printable(hint))?;
        }
        Ok(())
    }
}

/// `text` with a star for each character of the user and password of every address in it: neither an excerpt of a file nor what
/// is said of it must repeat a secret that was written in the wrong place.
///
/// ```
/// use reconciled_provider::problem::without_userinfo;
/// assert_eq!(without_userinfo("`https://me:pw@a.example/x` is none"), "`https://*****@a.example/x` is none");
/// ```
pub fn without_userinfo(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        let (hidden, next) = after.split_at(userinfo(after));
        out += before;
        out.extend(hidden.chars().map(|_| '*'));
        rest = next;
    }
    out + rest
}

/// How much of what follows the `://` of an address is a user and a password.
fn userinfo(after: &str) -> usize {
    // A comma may be part of a password; one that ends the address harms nothing here.
    let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`'));
    let (address, _) = after.split_at(end.unwrap_or(after.len()));
    let (authority, _) = address.split_at(address.find('/').unwrap_or(address.len()));
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // A slash within a password makes no good address of it, and what is none is what is shown.
    let is_cut = authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port));
    let within = if is_cut { address } else { authority };
    within.rfind('@').unwrap_or(0)
}

/// Cuts a long line around `column`; returns the excerpt and the caret's offset in it.
fn excerpt(line: &str, column: u32) -> (String, usize) {
    // A tab is one column wide, as it is counted.
    let line = line.replace('\t', " ");
    let column = line.chars().take((column as usize).saturating_sub(1)).map(width).sum();
    let chars: Vec<char> = printable(&line).chars().collect();
    if chars.len() <= EXCERPT {
        return (chars.into_iter().collect(), column);
    }
    let start = column.saturating_sub(EXCERPT / 2).min(chars.len() - EXCERPT);
    let cut: String = chars[start..start + EXCERPT].iter().collect();
    (cut, column.saturating_sub(start))
}

/// How many characters stand for `c` once it is printable.
fn width(c: char) -> usize {
    if is_unseen(c) { c.escape_unicode().count() } else { 1 }
}

/// Writes out what is unseen, so that a name from a repository neither steers a terminal nor looks like another one.
fn printable(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| c != '\n' && is_unseen(c);
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_odd(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// True for what is not read as it is written: control characters, those that reorder text (Unicode TR36 §2.5, "Trojan
/// Source"), and those that nobody sees (`Default_Ignorable_Code_Point` of UAX #44). Two names that differ in such a
/// character alone look the same.
///
/// ```
/// use reconciled_provider::problem::is_unseen;
/// assert!("\u{1b}\u{202e}\u{61c}\u{200b}".chars().all(is_unseen));
/// assert!(!"grüße … 日本 🦀".contains(is_unseen));
/// ```
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// What others said, as one line that is fit to be shown: a blank for each character that is not read as it is written
/// ([`is_unseen`]), none at the ends, and no more than `most` characters.
///
/// ```
/// use reconciled_provider::problem::one_line;
/// assert_eq!(one_line(" no\u{1b}[2J\nsuch\u{202e}zone \n", 100), "no [2J such zone");
/// assert_eq!(one_line("grüße", 3), "grü");
/// ```
pub fn one_line(text: &str, most: usize) -> String {
    let is_blank = |c: char| c.is_whitespace() || is_unseen(c);
    let shown = |c: char| if is_unseen(c) { ' ' } else { c };
    text.trim_matches(is_blank).chars().map(shown).take(most).collect()
}

/// The candidate nearest to `word`, if it is near enough to be what was meant.
///
/// ```
/// use reconciled_provider::problem::did_you_mean;
/// assert_eq!(did_you_mean("recods", ["zone", "records"]), Some("records"));
/// assert_eq!(did_you_mean("xyzzy", ["zone", "records"]), None);
/// ```
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let best = candidates.into_iter().map(|c| (osa_distance(&lower, &c.to_lowercase()), c)).min()?;
    (best.0 <= 1 + word.len() / 4).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_repeats_no_password_of_an_address() {
        let check = |line: &str, expect: &str| assert_eq!(without_userinfo(line), expect);
        check("{url: \"http://me:pw@a.example/x\", n: 1}", "{url: \"http://*****@a.example/x\", n: 1}");
        check("[ssh://git@b/x, https://c.example]", "[ssh://***@b/x, https://c.example]");
        check("plain: me@example.com", "plain: me@example.com");
        check("`https://me:p/w@a.example` is none", "`https://******@a.example` is none");
        check("[https://me:p,w@a.example/x]", "[https://******@a.example/x]");
        check("[http://a:80,http://me:pw@b,ssh://c]", "[http://a:80,http://*****@b,ssh://c]");
        check("http://a.example:80/x@y, http://[::1]/x", "http://a.example:80/x@y, http://[::1]/x");
    }

    #[test]
    fn what_is_said_repeats_no_password_of_an_address() {
        let problem = Problem::error("`https://me:CANARY@a.example/dir` is no URL");
        assert_eq!(problem.message, "`https://*********@a.example/dir` is no URL");
        let problem = Problem::from(&Error::invalid("url `http://CANARY@a` is none"));
        assert_eq!(problem.message, "url `http://******@a` is none");
    }

    #[test]
    fn a_problem_shows_place_line_caret_and_hint() {
        let file = SourceFile::new("a.yaml", "kind: Zone\nspec:\n  valuez: 1\n");
        let problem = Problem::error("unknown field `valuez`")
            .at(&file, Span { line: 3, column: 3 })
            .hint("did you mean `values`?");
        assert_eq!(
            problem.to_string(),
            "error: unknown field `valuez`\n  --> a.yaml:3:3\n3 |   valuez: 1\n  |   ^\nhint: did you mean `values`?"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_column() {
        let line = format!("{}HERE{}", "x".repeat(500), "y".repeat(500));
        let (text, caret) = excerpt(&line, 501);
        assert_eq!(text.chars().count(), EXCERPT);
        assert_eq!(&text[caret..caret + 4], "HERE");
    }

    #[test]
    fn escape_sequences_of_a_repository_do_not_reach_the_terminal() {
        assert!(!Problem::error("bad \u{1b}[31mname").to_string().contains('\u{1b}'));
    }

    #[test]
    fn the_name_of_a_file_is_one_line() {
        let file = SourceFile::new("z\nerror: y.yaml", "x");
        let problem = Problem::error("no").at(&file, Span { line: 1, column: 0 });
        assert_eq!(problem.to_string(), "error: no\n  --> z\\nerror: y.yaml:1\n1 | x");
        assert_eq!(&*problem.place.unwrap().file, "z\nerror: y.yaml");
    }

    #[test]
    fn what_nobody_sees_is_written_out_and_the_caret_stays_where_it_belongs() {
        let file = SourceFile::new("a\u{202e}.yaml", "\t\u{200b}x: 1\n");
        let problem = Problem::error("unknown field `x\u{61c}`").at(&file, Span { line: 1, column: 3 });
        assert_eq!(
            problem.to_string(),
            "error: unknown field `x\\u{61c}`\n  --> a\\u{202e}.yaml:1:3\n1 |  \\u{200b}x: 1\n  |          ^"
        );
    }
}
