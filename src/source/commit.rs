//! A commit of a bare repository: its files as a [`Tree`].
//!
//! Blobs are read by name; no work tree exists, so a symbolic link or `..` in a repository leads nowhere.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use git2::{ErrorClass, ErrorCode, ObjectType, Repository};

use super::error::disk;
use super::revision::CommitInfo;
use super::tree::{self, Contents, Entry, Limits, Listing, Paths, Reason, Refused, Relation, Tree};
use super::{Oid, SourceError};

/// Opens the repository that a commit is in.
pub(super) type Open = Box<dyn Fn() -> Result<Repository, SourceError> + Send + Sync>;

/// The files of one commit.
///
/// It holds no repository: libgit2 keeps up to 16 MiB of unpacked objects for each pack, as long as anybody has the
/// pack open, and a daemon holds the tree that is in force for as long as it runs.
pub struct CommitTree {
    open: Open,
    path: PathBuf,
    /// Created when an object turns out to be damaged, so that the next poll clones the repository again.
    marker: Option<PathBuf>,
    commit: CommitInfo,
    entries: Vec<Entry>,
    refused: Vec<Refused>,
}

impl CommitTree {
    /// Lists the files of `commit` below `paths`.
    ///
    /// # Errors
    /// [`SourceError::CommitNotFound`], [`SourceError::PathNotFound`], a passed limit, or
    /// [`SourceError::Corrupt`] where an object of the commit is missing or damaged.
    pub(super) fn new(
        open: Open,
        commit: Oid,
        paths: &Paths,
        limits: Limits,
        marker: Option<PathBuf>,
    ) -> Result<Self, SourceError> {
        let repository = open()?;
        let path = repository.path().to_owned();
        let listed = list(&repository, commit, paths, limits);
        let (commit, entries, refused) = listed.inspect_err(|error| mark(error, marker.as_deref()))?;
        Ok(Self { open, path, marker, commit, entries, refused })
    }
}

impl std::fmt::Debug for CommitTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitTree")
            .field("path", &self.path)
            .field("commit", &self.commit.oid)
            .field("entries", &self.entries.len())
            .field("refused", &self.refused)
            .finish()
    }
}

impl Tree for CommitTree {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn refused(&self) -> &[Refused] {
        &self.refused
    }

    fn contents(&self) -> Box<dyn Contents + '_> {
        Box::new(Blobs { tree: self, repository: OnceCell::new() })
    }

    fn revision(&self) -> Option<&CommitInfo> {
        Some(&self.commit)
    }
}

struct Blobs<'a> {
    tree: &'a CommitTree,
    /// Open since the first file was read: many loads read none, having parsed all before.
    repository: OnceCell<Repository>,
}

impl Blobs<'_> {
    fn repository(&self) -> Result<&Repository, SourceError> {
        if let Some(repository) = self.repository.get() {
            return Ok(repository);
        }
        let opened = (self.tree.open)()?;
        // A mirror that took the place of that one may lack it, and is whole nevertheless.
        find_commit(&opened, self.tree.commit.oid)?;
        Ok(self.repository.get_or_init(|| opened))
    }

    fn blob(&self, entry: &Entry) -> Result<Bytes, SourceError> {
        let content = self.repository()?.odb().and_then(|odb| {
            let object = odb.read(entry.oid.into())?;
            Ok(Bytes::copy_from_slice(object.data()))
        });
        content.map_err(|error| broken(&self.tree.path, error))
    }
}

impl Contents for Blobs<'_> {
    fn read(&self, entry: &Entry) -> Result<Bytes, SourceError> {
        // An entry of another tree may name an object that is here but was never admitted.
        if tree::find(&self.tree.entries, &entry.path) != Some(entry) {
            return Err(SourceError::NotListed { path: entry.path.to_string() });
        }
        self.blob(entry).inspect_err(|error| mark(error, self.tree.marker.as_deref()))
    }
}

/// Leaves the mark by which the next poll, perhaps of another process, knows that the mirror is damaged.
fn mark(error: &SourceError, marker: Option<&Path>) {
    let (SourceError::Corrupt { .. }, Some(marker)) = (error, marker) else {
        return;
    };
    if let Err(error) = std::fs::write(marker, "") {
        tracing::warn!(path = %marker.display(), %error, "cannot mark the mirror as damaged");
    }
}

type Listed = (CommitInfo, Vec<Entry>, Vec<Refused>);

fn list(repository: &Repository, oid: Oid, paths: &Paths, limits: Limits) -> Result<Listed, SourceError> {
    let damaged = |error| broken(repository.path(), error);
    let commit = find_commit(repository, oid)?;
    let odb = repository.odb().map_err(damaged)?;
    let mut listing = Listing::new(paths, limits);
    let mut directories = vec![(String::new(), commit.tree_id())];
    while let Some((directory, tree)) = directories.pop() {
        let tree = repository.find_tree(tree).map_err(damaged)?;
        for entry in &tree {
            let Some((path, relation)) = listing.visit(&directory, entry.name_bytes())? else {
                continue;
            };
            match (entry.filemode_raw() & 0o170_000, relation) {
                (0o040_000, _) => directories.push((path, entry.id())),
                (0o120_000, _) => listing.refuse(path, Reason::Symlink),
                (0o160_000, _) => listing.refuse(path, Reason::Submodule),
                // A file where the filter expects a directory.
                (_, Relation::Above | Relation::Outside) => {}
                (0o100_000, Relation::Inside) => {
                    let (size, kind) = odb.read_header(entry.id()).map_err(damaged)?;
                    if kind != ObjectType::Blob {
                        listing.refuse(path, Reason::NotAFile);
                    } else if listing.admit(&path, size as u64)? {
                        listing.push(&path, entry.id().into(), size as u64);
                    }
                }
                _ => listing.refuse(path, Reason::NotAFile),
            }
        }
    }
    let (entries, refused) = listing.finish(|| format!("commit {}", oid.short()))?;
    Ok((CommitInfo::of(&commit), entries, refused))
}

/// Returns a commit of a repository on this host.
pub(super) fn find_commit(repository: &Repository, oid: Oid) -> Result<git2::Commit<'_>, SourceError> {
    repository.find_commit(oid.into()).map_err(|error| match error.code() {
        // Also what an object of another type gives.
        ErrorCode::NotFound | ErrorCode::Invalid => {
            SourceError::CommitNotFound { commit: oid, place: repository.path().display().to_string() }
        }
        _ => broken(repository.path(), error),
    })
}

/// Classifies what went wrong in a repository on this host: the disk, or what is on it.
pub(super) fn broken(path: &Path, error: git2::Error) -> SourceError {
    if error.code() == ErrorCode::Owner {
        return SourceError::NotOwned { url: path.display().to_string(), cause: error.into() };
    }
    match error.class() {
        // A full disk or a missing permission is cured by no second clone.
        ErrorClass::Os | ErrorClass::NoMemory if error.code() != ErrorCode::NotFound => {
            SourceError::Io { doing: "use the repository", path: path.to_owned(), cause: disk(&error) }
        }
        _ => SourceError::Corrupt { path: path.to_owned(), cause: error.into() },
    }
}
