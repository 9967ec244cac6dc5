//! What somebody sent of a tree, upon the commit that has the rest of it.

use super::tree::{self, Contents, Entry, Limits, Refused, Tree};
use super::{CommitInfo, CommitTree, FolderTree, SourceError};
use bytes::Bytes;

/// Files that were sent, and others that are as they were at a commit.
#[derive(Debug)]
pub struct AmendedTree {
    base: CommitTree,
    sent: FolderTree,
    entries: Vec<Entry>,
}

impl AmendedTree {
    /// Takes the files at the paths `same` from `base`, and the rest from `sent`.
    ///
    /// # Errors
    /// [`SourceError::NotListed`] where `base` has no such file; a passed limit.
    pub fn new(
        base: CommitTree,
        same: &[String],
        sent: FolderTree,
        limits: Limits,
    ) -> Result<Self, SourceError> {
        let mut entries = sent.entries().to_vec();
        for path in same {
            let entry = tree::find(base.entries(), path);
            entries.push(entry.cloned().ok_or_else(|| SourceError::NotListed { path: path.clone() })?);
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        // Sorted stably: what was sent comes first.
        entries.dedup_by(|later, first| later.path == first.path);
        let bytes = entries.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.size));
        if bytes > limits.tree {
            return Err(SourceError::TreeTooLarge { limit: limits.tree });
        }
        if entries.len() > limits.entries {
            return Err(SourceError::TooManyEntries { limit: limits.entries });
        }
        Ok(Self { base, sent, entries })
    }
}

impl Tree for AmendedTree {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn refused(&self) -> &[Refused] {
        self.sent.refused()
    }

    fn contents(&self) -> Box<dyn Contents + '_> {
        Box::new(Amended { tree: self, base: self.base.contents() })
    }

    fn revision(&self) -> Option<&CommitInfo> {
        None
    }
}

struct Amended<'a> {
    tree: &'a AmendedTree,
    base: Box<dyn Contents + 'a>,
}

impl Contents for Amended<'_> {
    fn read(&self, entry: &Entry) -> Result<Bytes, SourceError> {
        let AmendedTree { sent, entries, .. } = self.tree;
        if tree::find(entries, &entry.path) != Some(entry) {
            return Err(SourceError::NotListed { path: entry.path.to_string() });
        }
        match tree::find(sent.entries(), &entry.path) {
            Some(_) => sent.read(entry),
            None => self.base.read(entry),
        }
    }
}
