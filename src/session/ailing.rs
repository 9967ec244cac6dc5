//! What a session says of entries that do not tell their kinds, and the entries as manifests are read with them.

use super::open::Session;
use crate::manifest::{Ailing, EntryView};
use reconciled_provider::Problem;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::sync::watch;

/// The entries as the loader sees them, at one moment: an entry that is among neither would have its manifests called
/// mistaken.
#[derive(Clone)]
pub(super) struct Entries {
    pub(super) views: Vec<EntryView>,
    /// Those that have not told their kinds.
    pub(super) ailing: BTreeMap<Arc<str>, Ailing>,
    /// What they were called (`was`), for what was written under these names.
    pub(super) renamed: BTreeMap<Arc<str>, Arc<str>>,
}

impl Session {
    /// Entries that cannot be used.
    pub fn ailing_names(&self) -> BTreeSet<Arc<str>> {
        self.infirmary.ailing().into_keys().collect()
    }

    /// What keeps entries from being used, at the place of each in the host configuration.
    pub fn ailing(&self) -> Vec<Problem> {
        self.infirmary.problems()
    }

    /// Changes whenever an entry has told its kinds, or fails for another reason: manifests are to be read again then.
    pub fn news_of_entries(&self) -> watch::Receiver<u64> {
        self.infirmary.news()
    }

    /// The entries at this moment, with what those told since that had not when the session was opened.
    pub(super) fn entries(&self) -> Entries {
        let mut views = self.views.clone();
        let ailing = self.infirmary.at_this_moment(&mut views);
        Entries { views, ailing, renamed: BTreeMap::new() }
    }

    /// The same for an earlier revision, which may name them as they were called then.
    pub(super) fn entries_of_then(&self) -> Entries {
        let entries = self.config.providers.iter();
        let renamed = entries.filter_map(|entry| Some((entry.was.clone()?, entry.name.clone()))).collect();
        Entries { renamed, ..self.entries() }
    }
}
