//! A repository while Git receives a push into it, as the environment of a hook shows it.
//!
//! # Guarantees
//! - Objects in quarantine are read where Git put them; nothing is written, nothing is moved.
//! - What is read is under the same rules as a mirror: blobs by name, no work tree, no link followed.
//!
//! # Assumptions
//! Git has checked that the pusher may use the repository before it started the hook.

use std::path::{Path, PathBuf};

use git2::{ErrorCode, Repository};

use super::commit::broken;
use super::tree::{Limits, Paths};
use super::{CommitInfo, CommitTree, Oid, RawObjects, SourceError, bare, process, verify};

/// A repository with what a push has brought and not yet handed over.
#[derive(Clone, Debug)]
pub struct Received {
    directory: PathBuf,
    /// Where objects are besides the repository's own: the quarantine, and what it borrows from.
    objects: Vec<PathBuf>,
}

impl Received {
    /// Takes what Git tells its hooks: `GIT_DIR`, `GIT_OBJECT_DIRECTORY` and `GIT_ALTERNATE_OBJECT_DIRECTORIES`
    /// (githooks(1), git-receive-pack(1) "Quarantine Environment").
    ///
    /// # Errors
    /// [`SourceError::Prepare`], [`SourceError::Corrupt`].
    pub fn open(
        directory: &Path,
        objects: Option<&str>,
        alternates: Option<&str>,
    ) -> Result<Self, SourceError> {
        process::init_for_one()?;
        // Git writes a path with a colon in quotes; such a place is no loss: it is the repository's own.
        let alternates = alternates.into_iter().flat_map(|list| list.split(':'));
        let objects = objects.into_iter().chain(alternates).filter(|path| !path.is_empty());
        let received =
            Self { directory: directory.to_owned(), objects: objects.map(PathBuf::from).collect() };
        received.repository()?;
        Ok(received)
    }

    /// Returns where the repository is, with every link resolved.
    pub fn place(&self) -> PathBuf {
        self.directory.canonicalize().unwrap_or_else(|_| self.directory.clone())
    }

    /// Returns the name of the branch that `HEAD` names, whether it exists or not.
    pub fn head(&self) -> Option<String> {
        let repository = self.repository().ok()?;
        let head = repository.find_reference("HEAD").ok()?;
        let target = head.symbolic_target().ok().flatten()?;
        target.strip_prefix("refs/heads/").map(ToOwned::to_owned)
    }

    /// Returns the commit that `id` names, itself or as an annotated tag; none where it names something else.
    ///
    /// # Errors
    /// [`SourceError::Corrupt`].
    pub fn commit(&self, id: Oid) -> Result<Option<CommitInfo>, SourceError> {
        let repository = self.repository()?;
        let found = repository.find_object(id.into(), None).and_then(|object| object.peel_to_commit());
        match found {
            Ok(commit) => Ok(Some(CommitInfo::of(&commit))),
            Err(error) if matches!(error.code(), ErrorCode::Peel | ErrorCode::InvalidSpec) => Ok(None),
            Err(error) => Err(broken(&self.directory, error)),
        }
    }

    /// Reads what of a push may be signed: the commits that `pushed` leads to and `base` has not, at most `most` of
    /// the newest, and the annotated tag `pushed` itself, if it is one, found as `tag`.
    ///
    /// # Errors
    /// [`SourceError::Corrupt`].
    pub fn objects(
        &self,
        base: Option<Oid>,
        commit: Oid,
        pushed: Oid,
        tag: Option<&str>,
        most: usize,
    ) -> Result<RawObjects, SourceError> {
        let tag = tag.map(|name| (name.to_owned(), pushed.into()));
        let mut found = verify::objects(&self.repository()?, base, commit, tag, verify::History::All)?;
        found.commits.drain(..found.commits.len().saturating_sub(most));
        Ok(found)
    }

    /// Says whether `commit` is `ancestor` or descends from it.
    ///
    /// # Errors
    /// [`SourceError::Corrupt`].
    pub fn descends(&self, ancestor: Oid, commit: Oid) -> Result<bool, SourceError> {
        bare::descends(&self.repository()?, ancestor, commit)
    }

    /// Lists the files of a commit.
    ///
    /// # Errors
    /// A passed limit, [`SourceError::Corrupt`].
    pub fn tree(&self, commit: Oid, limits: Limits) -> Result<CommitTree, SourceError> {
        let received = self.clone();
        CommitTree::new(Box::new(move || received.repository()), commit, &Paths::all(), limits, None)
    }

    fn repository(&self) -> Result<Repository, SourceError> {
        let damaged = |error| broken(&self.directory, error);
        let repository = Repository::open_bare(&self.directory).map_err(damaged)?;
        let odb = repository.odb().map_err(damaged)?;
        for directory in self.objects.iter().filter(|directory| directory.is_dir()) {
            odb.add_disk_alternate(&directory.to_string_lossy()).map_err(damaged)?;
        }
        drop(odb);
        Ok(repository)
    }
}
