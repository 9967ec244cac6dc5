//! How much of what the engine found a document tells.

use std::{collections::BTreeSet, sync::Arc};

/// What goes into a document.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Problems found while loading the manifests.
    pub problems: &'a [reconciled_provider::Problem],
    /// Lists foreign resources, not only their number.
    pub show_foreign: bool,
    /// How many changes get their values.
    pub details: Details,
    /// The sources that are configured; without it no source is said not to be.
    pub configured: Option<&'a BTreeSet<Arc<str>>>,
}

impl Options<'_> {
    pub(super) fn is_configured(&self, source: &str) -> bool {
        self.configured.is_none_or(|configured| configured.contains(source))
    }
}

/// How many changes get `before`, `after` and `fields`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Details {
    /// All: what is published.
    #[default]
    All,
    /// The first so many of each scope: what a text with that limit shows.
    First(usize),
    /// As [`Details::First`], and of the others there is nothing but their number, unless something blocks them: for a text that is
    /// written here and now.
    Alone(usize),
}

impl Details {
    /// The change at `index` of its scope has its values.
    pub(super) fn have(self, index: usize) -> bool {
        match self {
            Details::All => true,
            Details::First(most) | Details::Alone(most) => index < most,
        }
    }
}
