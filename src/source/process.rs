//! What libgit2 knows process-wide: its options, the local repositories it may open, the host key types it prefers.
//!
//! libgit2 reads two files, both written here below the state directory, and nothing of the user or the system:
//! `git/config/.gitconfig` with one `safe.directory` for each configured local url, and `git/home/.ssh/known_hosts`
//! with the keys known for the ssh hosts in use. The second file decides only which type of host key is asked for;
//! whether the key is right is decided by [`super::hostkeys`], against the file that source names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::SourceError;
use super::error::{Cause, HostPort, io_error};
use crate::file;

/// How long connecting may take, in milliseconds.
const CONNECT_TIMEOUT: i32 = 15_000;
/// How long a server may stay silent, in milliseconds.
const TIMEOUT: i32 = 30_000;

struct Process {
    config: PathBuf,
    home: PathBuf,
    safe: Mutex<BTreeSet<PathBuf>>,
    known: Mutex<BTreeMap<HostPort, BTreeSet<String>>>,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// Prepares libgit2, and withdraws what an earlier process let it open. The first state directory counts, later
/// calls change nothing.
///
/// # Assumptions
/// It is called before anything else of this module, and before another thread uses libgit2.
///
/// # Errors
/// [`SourceError::Io`], [`SourceError::Prepare`].
pub fn init(state_dir: &Path) -> Result<(), SourceError> {
    process(state_dir).map(|_| ())
}

fn process(state_dir: &Path) -> Result<&'static Process, SourceError> {
    let process = PROCESS.get_or_init(|| {
        let config = state_dir.join("git/config");
        if let Err(error) = fs::remove_file(config.join(".gitconfig"))
            && !is_as_it_was(error.kind())
        {
            tracing::warn!(path = %config.display(), %error, "cannot remove old safe.directory entries");
        }
        Process { config, home: state_dir.join("git/home"), safe: Mutex::default(), known: Mutex::default() }
    });
    let options = reconciled_libgit2::Options {
        config: process.config.clone(),
        home: process.home.clone(),
        connect_timeout: CONNECT_TIMEOUT,
        timeout: TIMEOUT,
        trusts_any_owner: false,
    };
    set(&options)?;
    Ok(process)
}

/// Who may not change the state reads it as it is, which is no news: a verb that only reads, a file system that is read-only.
fn is_as_it_was(why: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(why, NotFound | PermissionDenied | ReadOnlyFilesystem)
}

/// Prepares libgit2 for a process that works on one repository somebody named: it reads no configuration but the
/// repository's own, and does not ask who owns it. For a hook Git has asked that already.
pub(super) fn init_for_one() -> Result<(), SourceError> {
    set(&reconciled_libgit2::Options {
        config: PathBuf::new(),
        home: PathBuf::new(),
        connect_timeout: CONNECT_TIMEOUT,
        timeout: TIMEOUT,
        trusts_any_owner: true,
    })
}

fn set(options: &reconciled_libgit2::Options) -> Result<(), SourceError> {
    reconciled_libgit2::set(options).map_err(prepare)
}

/// Has libgit2 trust the certificates that this system trusts.
pub(super) fn trust_roots() -> Result<(), SourceError> {
    reconciled_libgit2::trust_roots().map_err(prepare)
}

fn prepare(message: String) -> SourceError {
    SourceError::Prepare { cause: Cause::new(message) }
}

/// Lets libgit2 open the repository at a configured local url even where another user owns it.
pub(super) fn allow_local(state_dir: &Path, repository: &Path) -> Result<(), SourceError> {
    let process = process(state_dir)?;
    let mut safe = process.safe.lock().unwrap_or_else(PoisonError::into_inner);
    // libgit2 compares with the resolved path, and finds a repository under these three names.
    let mut with_suffix = repository.as_os_str().to_owned();
    with_suffix.push(".git");
    let names = [repository.to_owned(), with_suffix.into(), repository.join(".git")];
    safe.extend(names.iter().filter_map(|name| name.canonicalize().ok()));
    let mut text = "# Written by reconciled: the local urls of its configuration.\n[safe]\n".to_owned();
    for path in safe.iter() {
        text.push_str(&format!("\tdirectory = {}\n", quoted(path)));
    }
    write(&process.config.join(".gitconfig"), &text)
}

#[cfg(test)]
pub(super) fn is_allowed(repository: &Path) -> bool {
    let Some(process) = PROCESS.get() else {
        return false;
    };
    let config = git2::Config::open(&process.config.join(".gitconfig")).expect("it was written");
    let mut values = config.multivar("safe.directory", None).expect("it was written");
    let mut is_allowed = false;
    while let Some(Ok(value)) = values.next() {
        is_allowed |= value.value().is_ok_and(|value| Path::new(value) == repository);
    }
    is_allowed
}

/// A value in the syntax of Git's configuration.
fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{path}\"")
}

/// Makes libgit2 ask `host` for a key of a type that is known. `keys` are lines without the host: `TYPE BASE64`.
pub(super) fn prefer_host_keys(
    state_dir: &Path,
    host: &HostPort,
    keys: BTreeSet<String>,
) -> Result<(), SourceError> {
    let process = process(state_dir)?;
    let mut known = process.known.lock().unwrap_or_else(PoisonError::into_inner);
    known.insert(host.clone(), keys);
    let mut text = String::new();
    for (HostPort { host, port }, keys) in known.iter() {
        for key in keys {
            text.push_str(&format!("[{host}]:{port} {key}\n"));
        }
    }
    write(&process.home.join(".ssh/known_hosts"), &text)
}

/// Replaces a file as a whole, so that libgit2 never reads half of it; one that is right already is left alone.
fn write(path: &Path, text: &str) -> Result<(), SourceError> {
    if fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    let write = || -> std::io::Result<()> {
        let directory = path.parent().unwrap_or(path);
        fs::create_dir_all(directory)?;
        file::replace(path, text.as_bytes())
    };
    write().map_err(io_error("write", path))
}
