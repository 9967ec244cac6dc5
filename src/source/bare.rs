//! A bare repository on this host: created, opened and changed so that only a poll decides what is in it.

use std::fs;
use std::io;
use std::path::Path;

use git2::{ErrorCode, Oid as GitOid, Repository, RepositoryInitOptions};

use super::commit::broken;
use super::error::{disk, io_error};
use super::{Oid, SourceError};

/// Creates an empty one, readable for this user only.
pub(super) fn init_bare(directory: &Path) -> Result<(), SourceError> {
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent).map_err(io_error("create", parent))?;
        // The repository may hold what only this user may read.
        let private = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
        fs::set_permissions(parent, private).map_err(io_error("protect", parent))?;
    }
    let mut options = RepositoryInitOptions::new();
    options.bare(true).external_template(false).initial_head("main");
    let failed = |error: git2::Error| SourceError::Io {
        doing: "create",
        path: directory.to_owned(),
        cause: disk(&error),
    };
    Repository::init_opts(directory, &options).map(drop).map_err(failed)
}

/// Opens a mirror that libgit2 must not let a server lead elsewhere.
pub(super) fn open(directory: &Path) -> Result<Repository, SourceError> {
    let damaged = |error| broken(directory, error);
    let repository = Repository::open_bare(directory).map_err(damaged)?;
    // Connecting takes this from the configuration; the default follows the first redirect to any host.
    let mut config = repository.config().map_err(damaged)?;
    if !matches!(config.get_bool("http.followRedirects"), Ok(false)) {
        config.set_bool("http.followRedirects", false).map_err(damaged)?;
    }
    drop(config);
    Ok(repository)
}

/// Says whether `commit` is `ancestor` or descends from it; a commit that is not here has no descendants.
pub(super) fn descends(repository: &Repository, ancestor: Oid, commit: Oid) -> Result<bool, SourceError> {
    let damaged = |error| broken(repository.path(), error);
    if ancestor == commit {
        return Ok(true);
    }
    if !repository.odb().map_err(damaged)?.exists(ancestor.into()) {
        return Ok(false);
    }
    repository.graph_descendant_of(commit.into(), ancestor.into()).map_err(damaged)
}

/// The commits whose ids begin with these digits, sorted.
pub(super) fn called(repository: &Repository, digits: &str) -> Result<Vec<Oid>, SourceError> {
    let damaged = |error| broken(repository.path(), error);
    match repository.find_commit_by_prefix(digits) {
        Ok(commit) => return Ok(vec![commit.id().into()]),
        Err(error) if error.code() != ErrorCode::Ambiguous => return Ok(Vec::new()),
        // It may be that no two of them are commits.
        Err(_) => {}
    }
    let odb = repository.odb().map_err(damaged)?;
    let mut found = Vec::new();
    let look = |id: &GitOid| {
        if id.to_string().starts_with(digits) && repository.find_commit(*id).is_ok() {
            found.push(Oid::from(*id));
        }
        true
    };
    odb.foreach(look).map_err(damaged)?;
    found.sort();
    found.dedup();
    Ok(found)
}

/// Points a ref at a commit, writing only where it changes.
pub(super) fn keep(repository: &Repository, name: &str, commit: GitOid) -> Result<(), SourceError> {
    if repository.refname_to_id(name).ok() == Some(commit) {
        return Ok(());
    }
    let kept = repository.reference(name, commit, true, "reconciled: poll");
    kept.map(drop).map_err(|error| broken(repository.path(), error))
}

/// Removes a directory, if it is there.
pub(super) fn remove(directory: &Path) -> Result<(), SourceError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", directory)(error)),
        _ => Ok(()),
    }
}
