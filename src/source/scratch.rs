//! A repository to play with: made and committed to without a work tree and without the `git` program.
//!
//! Commits have fixed authors and times, so the same files give the same commit names.

use std::collections::BTreeMap;
use std::path::Path;

use git2::{Oid as GitOid, Repository, Signature, Time};

use super::commit::broken;
use super::{Oid, SourceError, bare};

/// When the first commit was made, in seconds since 1970; each later one a minute after its parent.
const FIRST: i64 = 1_767_225_600;

/// Creates an empty bare repository whose branch is `main`.
///
/// # Errors
/// [`SourceError::Io`].
pub fn create(directory: &Path) -> Result<(), SourceError> {
    bare::init_bare(directory)
}

/// Commits these files, and no others, on top of `main`.
///
/// # Errors
/// [`SourceError::Corrupt`] when the repository cannot be read or written.
pub fn commit(directory: &Path, files: &[(&str, &str)], message: &str) -> Result<Oid, SourceError> {
    let failed = |error| broken(directory, error);
    let repository = Repository::open_bare(directory).map_err(failed)?;
    let parent = repository.refname_to_id("refs/heads/main").ok();
    let parent = parent.map(|oid| repository.find_commit(oid)).transpose().map_err(failed)?;
    let time = parent.as_ref().map_or(FIRST, |parent| parent.time().seconds() + 60);
    let author = Signature::new("Ada Admin", "ada@example.com", &Time::new(time, 0)).map_err(failed)?;
    let tree = tree(&repository, files).and_then(|oid| repository.find_tree(oid)).map_err(failed)?;
    let parents: Vec<_> = parent.iter().collect();
    let made = repository.commit(Some("refs/heads/main"), &author, &author, message, &tree, &parents);
    made.map(Oid::from).map_err(failed)
}

fn tree(repository: &Repository, files: &[(&str, &str)]) -> Result<GitOid, git2::Error> {
    let mut folders: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let mut builder = repository.treebuilder(None)?;
    for (path, content) in files {
        match path.split_once('/') {
            Some((folder, rest)) => folders.entry(folder).or_default().push((rest, content)),
            None => {
                builder.insert(path, repository.blob(content.as_bytes())?, 0o100_644)?;
            }
        }
    }
    for (name, files) in &folders {
        builder.insert(name, tree(repository, files)?, 0o040_000)?;
    }
    builder.write()
}
