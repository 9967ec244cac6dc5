//! What whoever pushes types to consent: with the next push, or with a commit.

use super::options::Options;
use crate::{source::APPROVE, text::short_digest};
use std::sync::Arc;

/// What there has to be for Git to run a hook.
pub(super) const EMPTY: &str = "git commit --allow-empty -m \"…\"";

/// How whoever pushed consents afterwards to what is held.
pub(super) fn ways(by_option: &[Arc<str>], by_trailer: &[Arc<str>]) -> Vec<String> {
    let by_option = (!by_option.is_empty()).then(|| {
        let line = line(by_option, &Options::default());
        format!("hint: to consent with a push: {EMPTY}, then {line}")
    });
    let by_trailer = (!by_trailer.is_empty())
        .then(|| format!("hint: to consent with a commit: {EMPTY}{}, then git push", trailers(by_trailer)));
    by_option.into_iter().chain(by_trailer).collect()
}

/// What to add to `git commit` to consent to `digests`.
pub(super) fn trailers(digests: &[Arc<str>]) -> String {
    digests.iter().map(|digest| format!(" --trailer '{APPROVE}: {digest}'")).collect()
}

/// What to type to consent to `wanted`, besides what the pusher consented to already.
pub(super) fn line(wanted: &[Arc<str>], options: &Options) -> String {
    let approve = wanted.iter().map(|digest| format!(" -o reconciled.approve={}", short_digest(digest)));
    format!("git push{}{}", rewinding(&options.accept_rewind), approve.collect::<String>())
}

/// What to add to `git push` to rewind branches to `commits`.
pub(super) fn rewinding<'a>(commits: impl IntoIterator<Item = &'a String>) -> String {
    let options = commits.into_iter().map(|commit| format!(" -o reconciled.accept-rewind={commit}"));
    let options: String = options.collect();
    if options.is_empty() { options } else { format!(" --force{options}") }
}
