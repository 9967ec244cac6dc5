//! A manifest that is read: what is wrong with it is put down, and what several of its parts have in common is read here.

use crate::{Config, duration};
use reconciled_provider::{At, Error, Inputs, Manifest, Problem, Span};

/// The shortest time that is worth a certificate.
const SHORTEST: u64 = 300;
/// The longest: dates in certificates end with the year 9999.
const LONGEST: u64 = 100 * 366 * 86_400;

/// A manifest that is read, and what is wrong with it so far.
pub(super) struct Reader<'a> {
    pub(super) config: &'a Config,
    pub(super) manifest: &'a Manifest,
    pub(super) inputs: &'a dyn Inputs,
    pub(super) problems: Vec<Problem>,
}

impl Reader<'_> {
    pub(super) fn refuse(&mut self, span: Span, message: impl Into<String>, hint: &str) {
        self.problems.push(self.manifest.error(span, message).hint(hint));
    }

    /// Says that something has no effect.
    pub(super) fn warn(&mut self, span: Span, message: impl Into<String>, hint: &str) {
        self.problems.push(Problem::warning(message).at(&self.manifest.file, span).hint(hint));
    }

    pub(super) fn report(&mut self, span: Span, error: Error) {
        self.problems.push(Problem::from(&error).at(&self.manifest.file, span));
    }

    /// True where something is written under `key` of the spec. Where it could not be read that is said where it stands, and
    /// nothing is missing beside it.
    pub(super) fn says(&self, key: &str) -> bool {
        self.manifest.spec.get(key).is_some_and(|node| !node.is_null())
    }

    /// A text that must be known now.
    pub(super) fn known<'t, T>(&mut self, at: &'t At<T>) -> Option<&'t T> {
        if !at.unknown.is_empty() {
            let text = "what a certificate is cannot depend on an output of another manifest";
            self.refuse(at.span, text, "write the value out");
            return None;
        }
        Some(&at.value)
    }

    /// Refuses a list that is longer than anything of use: what it leads to is made of each pair of its members.
    pub(super) fn is_too_much(&mut self, length: usize, most: usize, of: &str, hint: &str) -> bool {
        if length > most {
            self.refuse(self.manifest.span, format!("{length} {of}, and at most {most} are taken"), hint);
        }
        length > most
    }

    pub(super) fn length(&mut self, at: Option<&At<String>>, word: &str) -> Option<u64> {
        let at = at?;
        let text = self.known(at)?;
        let fits = seconds(text);
        if fits.is_none() {
            let message = format!("`{}` is no {word}", text.escape_debug());
            self.refuse(at.span, message, "write one such as 90d or 2160h, five minutes at least");
        }
        fits
    }
}

/// A length of time in seconds, where it is one that makes sense.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let seconds = duration::parse(text).map(|length| length.as_secs());
    seconds.filter(|seconds| (SHORTEST..=LONGEST).contains(seconds))
}
