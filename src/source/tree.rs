//! Desired state as a list of files with content names, wherever it comes from.
//!
//! A listing never fails because of one odd file: what may not be read is refused by name, as data. It fails when
//! it would be incomplete without saying so: a limit is passed, a configured path is missing, an object is damaged.

use std::sync::Arc;

use bytes::Bytes;

use super::revision::CommitInfo;
use super::{Oid, SourceError};

/// A file that may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the root of the tree, with `/`; clean UTF-8 without `.`, `..` and `.git`.
    pub path: Arc<str>,
    /// The name of the content.
    pub oid: Oid,
    /// In bytes.
    pub size: u64,
}

/// A file or directory that is not read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Relative to the root of the tree; bytes that are not UTF-8 are replaced.
    pub path: String,
    pub reason: Reason,
}

/// Why a file or directory is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    #[error("symbolic links are not followed")]
    Symlink,
    #[error("submodules are not read")]
    Submodule,
    #[error("the name is not UTF-8")]
    NotUtf8,
    #[error("the name is reserved")]
    ReservedName,
    #[error("the path is longer than {limit} bytes")]
    PathTooLong { limit: usize },
    #[error("the file has {size} bytes, the limit is {limit}")]
    TooLarge { size: u64, limit: u64 },
    #[error("it is neither a file nor a directory")]
    NotAFile,
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// As whoever sent the other files says.
    #[error("{0}")]
    Told(String),
}

/// A set of files that does not change while it is looked at.
pub trait Tree: Send + Sync {
    /// Returns the files, sorted by path.
    fn entries(&self) -> &[Entry];

    /// Returns what was left out, sorted by path.
    fn refused(&self) -> &[Refused];

    /// Returns what reads the files. What that takes of memory and descriptors goes when it is dropped; a tree alone
    /// holds none.
    fn contents(&self) -> Box<dyn Contents + '_>;

    /// Returns the commit this tree belongs to, if it belongs to one.
    fn revision(&self) -> Option<&CommitInfo>;
}

/// What the files of one [`Tree`] contain.
pub trait Contents {
    /// Returns the content of an entry of the tree.
    ///
    /// # Errors
    /// [`SourceError::Corrupt`] where an object is damaged, [`SourceError::NotListed`] for a foreign entry.
    fn read(&self, entry: &Entry) -> Result<Bytes, SourceError>;
}

impl<T: Tree + ?Sized> Tree for Arc<T> {
    fn entries(&self) -> &[Entry] {
        (**self).entries()
    }

    fn refused(&self) -> &[Refused] {
        (**self).refused()
    }

    fn contents(&self) -> Box<dyn Contents + '_> {
        (**self).contents()
    }

    fn revision(&self) -> Option<&CommitInfo> {
        (**self).revision()
    }
}

impl dyn Tree + '_ {
    /// Returns the entry at `path`.
    pub fn find(&self, path: &str) -> Option<&Entry> {
        find(self.entries(), path)
    }
}

pub(super) fn find<'a>(entries: &'a [Entry], path: &str) -> Option<&'a Entry> {
    let at = entries.binary_search_by(|entry| (*entry.path).cmp(path)).ok()?;
    entries.get(at)
}

/// How much of a tree is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Limits {
    /// Bytes of one file; a larger one is refused.
    pub file: u64,
    /// Bytes of all files together; a larger tree is an error.
    pub tree: u64,
    /// Files and directories visited; more are an error. A tree that names one subtree many times is small in
    /// Git and endless when walked.
    pub entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file: 16 << 20, tree: 64 << 20, entries: 250_000 }
    }
}

/// Which parts of a tree are listed: directories or files, relative to its root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths(Vec<String>);

/// Where a path stands in relation to [`Paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It is listed.
    Inside,
    /// Something below it is listed.
    Above,
    Outside,
}

impl Paths {
    /// Returns the filter that lists everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Parses what an operator wrote as `path`: `.` is everything, `./a/` is `a`.
    ///
    /// # Errors
    /// [`SourceError::InvalidPath`] for what is absolute or leads outside.
    pub fn new<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> Result<Self, SourceError> {
        let mut clean = Vec::new();
        let mut is_all = false;
        for path in paths {
            let path = path.as_ref();
            let invalid = |problem| SourceError::InvalidPath { path: path.to_owned(), problem };
            if path.is_empty() {
                return Err(invalid("it is empty"));
            }
            if path.starts_with('/') {
                return Err(invalid("it is absolute"));
            }
            let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
            if parts.iter().any(|part| check_name(part.as_bytes()).is_err()) {
                return Err(invalid("it contains a reserved name"));
            }
            is_all |= parts.is_empty();
            clean.push(parts.join("/"));
        }
        clean.sort();
        clean.dedup();
        Ok(if is_all { Self::all() } else { Self(clean) })
    }

    pub(super) fn relation(&self, path: &str) -> Relation {
        if self.0.is_empty() || self.0.iter().any(|listed| is_below(path, listed)) {
            Relation::Inside
        } else if self.0.iter().any(|listed| is_below(listed, path)) {
            Relation::Above
        } else {
            Relation::Outside
        }
    }
}

/// Says whether `path` is `directory` or below it.
pub(crate) fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The longest path that is read, in bytes: `PATH_MAX` of Linux. It also bounds the depth of a tree.
const MAX_PATH: usize = 4096;

/// Returns a name of a directory entry as text, if it is one that means nothing else.
pub(super) fn check_name(name: &[u8]) -> Result<&str, Reason> {
    let Ok(text) = std::str::from_utf8(name) else {
        return Err(Reason::NotUtf8);
    };
    let is_reserved = matches!(text, "" | "." | "..") || text.eq_ignore_ascii_case(".git");
    if is_reserved || text.contains(['\0', '\\', '/']) {
        return Err(Reason::ReservedName);
    }
    Ok(text)
}

/// A listing in the making, the same for a commit and a folder.
#[derive(Debug)]
pub(super) struct Listing<'a> {
    paths: &'a Paths,
    limits: Limits,
    entries: Vec<Entry>,
    refused: Vec<Refused>,
    /// Which of `paths` were met.
    met: Vec<bool>,
    bytes: u64,
    visited: usize,
}

impl<'a> Listing<'a> {
    pub(super) fn new(paths: &'a Paths, limits: Limits) -> Self {
        Self {
            paths,
            limits,
            entries: Vec::new(),
            refused: Vec::new(),
            met: vec![false; paths.0.len()],
            bytes: 0,
            visited: 0,
        }
    }

    /// Counts one directory entry and returns its path, if it is to be looked at.
    pub(super) fn visit(
        &mut self,
        directory: &str,
        name: &[u8],
    ) -> Result<Option<(String, Relation)>, SourceError> {
        self.visited += 1;
        if self.visited > self.limits.entries {
            return Err(SourceError::TooManyEntries { limit: self.limits.entries });
        }
        let clean = check_name(name);
        let path = match directory {
            "" => String::from_utf8_lossy(name).into_owned(),
            _ => format!("{directory}/{}", String::from_utf8_lossy(name)),
        };
        let relation = self.paths.relation(&path);
        if relation == Relation::Outside {
            return Ok(None);
        }
        if let Err(reason) = clean {
            self.refuse(path, reason);
            return Ok(None);
        }
        if path.len() > MAX_PATH {
            self.refuse(path, Reason::PathTooLong { limit: MAX_PATH });
            return Ok(None);
        }
        for (listed, met) in self.paths.0.iter().zip(&mut self.met) {
            *met |= *listed == path;
        }
        Ok(Some((path, relation)))
    }

    pub(super) fn refuse(&mut self, path: String, reason: Reason) {
        for (listed, met) in self.paths.0.iter().zip(&mut self.met) {
            *met |= is_below(listed, &path);
        }
        self.refused.push(Refused { path, reason });
    }

    /// Returns whether a file of this size is read; one that is too large is refused.
    pub(super) fn admit(&mut self, path: &str, size: u64) -> Result<bool, SourceError> {
        let limit = self.limits.file;
        if size > limit {
            self.refuse(path.to_owned(), Reason::TooLarge { size, limit });
            return Ok(false);
        }
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.limits.tree {
            return Err(SourceError::TreeTooLarge { limit: self.limits.tree });
        }
        Ok(true)
    }

    pub(super) fn push(&mut self, path: &str, oid: Oid, size: u64) {
        self.entries.push(Entry { path: path.into(), oid, size });
    }

    /// Returns the listing, sorted. `revision` is how a missing path is reported.
    pub(super) fn finish(
        mut self,
        revision: impl FnOnce() -> String,
    ) -> Result<(Vec<Entry>, Vec<Refused>), SourceError> {
        let missing = self.paths.0.iter().zip(&self.met).find(|(_, met)| !**met);
        if let Some((path, _)) = missing {
            return Err(SourceError::PathNotFound { path: path.clone(), revision: revision() });
        }
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
        self.refused.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((self.entries, self.refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_and_what_leads_outside_is_refused() {
        let paths = Paths::new(["./env//prod/", "common", "common"]).unwrap();
        assert_eq!(paths.0, ["common", "env/prod"]);
        assert_eq!(Paths::new(["common", "."]).unwrap(), Paths::all());
        for path in ["", "/etc", "..", "a/../b", ".git", "a/.GIT/b", "a\\b"] {
            assert!(Paths::new([path]).is_err(), "{path}");
        }
    }

    #[test]
    fn a_path_is_inside_above_or_outside_the_filter() {
        let paths = Paths::new(["env/prod", "zones.yaml"]).unwrap();
        for (path, relation) in [
            ("env", Relation::Above),
            ("env/prod", Relation::Inside),
            ("env/prod/a.yaml", Relation::Inside),
            ("env/production", Relation::Outside),
            ("envy", Relation::Outside),
            ("zones.yaml", Relation::Inside),
        ] {
            assert_eq!(paths.relation(path), relation, "{path}");
        }
    }
}
