//! Reading and writing of what is kept: a file is whole or not there, and on the disk once it was said to be.
//!
//! What is inside is in no error: there is a key in most of it.

use reconciled_provider::Error;
use rustix::{
    fs::{FlockOperation, flock},
    io::retry_on_intr,
};
use serde::de::DeserializeOwned;
use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use zeroize::Zeroizing;

/// Directories that are known to be on the disk.
pub(super) type Durable = Mutex<BTreeSet<PathBuf>>;

pub(super) fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("{what} {}", path.display()))
        .caused_by(error)
        .hint("the state directory must be writable by this service, and have space left")
}

/// Why it is not known what a file holds.
#[derive(Debug)]
pub(crate) enum Unread {
    /// What is in the file with this path is not what was written: a disk broke it, or a person.
    Broken(PathBuf),
    /// It cannot be looked at.
    Failed(Error),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Unread {
        Unread::Failed(error)
    }
}

impl Unread {
    /// The error, where nothing goes on without the file; `otherwise` is what comes of it without one.
    pub(super) fn into_error(self, otherwise: &str) -> Error {
        match self {
            Unread::Broken(path) => broken(&path, otherwise),
            Unread::Failed(error) => error,
        }
    }
}

/// That a file is broken, and what comes of it once it is moved away. A person mends it while everything goes on, so it is
/// tried again. What is inside is not part of the error: there is a key in it.
pub(super) fn broken(path: &Path, otherwise: &str) -> Error {
    Error::unavailable(format!("{} is broken", path.display()))
        .hint(format!("restore it from a backup, or move it away: {otherwise}"))
}

pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Unread> {
    read_bytes(path)?.map(|bytes| decode(path, &bytes)).transpose()
}

/// The same of what can be begun anew, as a wait or an order: where it is broken, nothing is there.
pub(super) fn read_unless_broken<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match read(path) {
        Err(Unread::Broken(_)) => Ok(None),
        Err(Unread::Failed(error)) => Err(error),
        Ok(read) => Ok(read),
    }
}

pub(super) fn read_bytes(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(Zeroizing::new(bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path, error)),
    }
}

pub(super) fn decode<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, Unread> {
    serde_json::from_slice(bytes).map_err(|_| Unread::Broken(path.to_owned()))
}

/// Where the first file that was called `path` is set aside.
pub(super) fn place_aside(path: &Path) -> PathBuf {
    let mut to = path.as_os_str().to_owned();
    to.push(".broken");
    to.into()
}

/// Gives a file a name under which nothing is looked for, and that no other file has. Returns it.
pub(super) fn set_aside(path: &Path) -> Result<PathBuf, Error> {
    let numbered = |number: u32| {
        let mut to = place_aside(path).into_os_string();
        to.push(format!(".{number}"));
        PathBuf::from(to)
    };
    let mut names = std::iter::once(place_aside(path)).chain((2..).map(numbered));
    let is_free = |name: &PathBuf| fs::symlink_metadata(name).is_err();
    let to = names.find(is_free).unwrap_or_else(|| place_aside(path));
    let moved = fs::rename(path, &to).and_then(|()| path.parent().map_or(Ok(()), sync));
    moved.map(|()| to).map_err(|error| failed("set aside", path, error))
}

/// Who writes within a directory, one at a time: they have one draft for each name.
struct Alone {
    _locked: fs::File,
    _turn: Option<MutexGuard<'static, ()>>,
}

/// Waits until nobody else writes within `directory`: no other thread, and no other process such as `renew`.
fn alone(directory: &Path) -> io::Result<Alone> {
    static TURN: Mutex<()> = Mutex::new(());
    let locked = fs::File::open(directory)?;
    let outcome = retry_on_intr(|| flock(&locked, FlockOperation::LockExclusive));
    // Where directories cannot be locked, on some file systems of other machines, threads take turns all the same.
    let turn = outcome.is_err().then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Alone { _locked: locked, _turn: turn })
}

pub(super) fn write_now(durable: &Durable, directory: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let (path, draft) = (directory.join(name), directory.join(format!(".{name}.new")));
    let put = || -> io::Result<()> {
        make(durable, directory, &mut sync)?;
        let _alone = alone(directory)?;
        // A draft of a process that died may be there.
        let _ = fs::remove_file(&draft);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        sync(directory)
    };
    put().map_err(|error| failed("write", &path, error))
}

/// Makes a directory where it is missing, with those above it. That one is there is written in the one above it, which `sync`
/// puts on the disk: else a power cut could take the directory away again, with what was said to be kept in it. One that is
/// there already may have been made by a process that died before it came to that.
fn make(
    durable: &Durable,
    directory: &Path,
    sync: &mut impl FnMut(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let known = || durable.lock().unwrap_or_else(PoisonError::into_inner);
    let is_known = |path: &&Path| known().contains(*path) && path.is_dir();
    let unknown: Vec<&Path> = directory.ancestors().take_while(|path| !is_known(path)).collect();
    for path in unknown.into_iter().rev().filter(|path| !path.as_os_str().is_empty()) {
        let was_there = path.is_dir();
        if !was_there {
            match fs::DirBuilder::new().mode(0o700).create(path) {
                // Another certificate was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                made => made?,
            }
        }
        if let Some(above) = path.parent() {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            match sync(above) {
                // Far above, where we may not look, or where nothing is ever written: whoever made what is there is no process
                // of ours.
                Err(error) if was_there && is_of_others(error.kind()) => {}
                synced => synced?,
            }
        }
        known().insert(path.to_owned());
    }
    Ok(())
}

fn is_of_others(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem};
    matches!(kind, PermissionDenied | InvalidInput | ReadOnlyFilesystem)
}

pub(super) fn sync(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

pub(super) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_directory_that_is_made_is_put_on_the_disk_with_the_one_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let made_by = |durable: &Durable, path: &str| {
            let mut synced = Vec::new();
            let mut note = |above: &Path| {
                synced.extend(above.starts_with(dir.path()).then(|| above.to_owned()));
                Ok(())
            };
            make(durable, &at(path), &mut note).unwrap();
            let mode = fs::metadata(at(path)).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o700, "{path}");
            synced
        };
        let durable = Durable::default();
        let made = |path: &str| made_by(&durable, path);
        assert_eq!(
            made("cert/certificates/web"),
            [dir.path().to_owned(), at("cert"), at("cert/certificates")]
        );
        assert_eq!(
            made("cert/certificates/web/issuers/1"),
            ["web", "web/issuers"].map(|it| at("cert/certificates").join(it))
        );
        assert_eq!(made("cert/certificates/web"), Vec::<PathBuf>::new());
        // What is there may be of a process that died before that.
        assert_eq!(
            made_by(&Durable::default(), "cert/certificates/web"),
            [dir.path().to_owned(), at("cert"), at("cert/certificates")]
        );
        fs::remove_dir(at("cert/certificates/web/issuers/1")).unwrap();
        assert_eq!(made("cert/certificates/web/issuers/1"), [at("cert/certificates/web/issuers")]);
        // Above there may be what no directory of can be put on the disk; what is made here has to be.
        let refused = |path: &str| {
            make(&Durable::default(), &at(path), &mut |_| Err(io::ErrorKind::InvalidInput.into()))
        };
        assert!(refused("cert/certificates/web").is_ok() && refused("cert/certificates/new").is_err());
        fs::write(at("file"), "").unwrap();
        assert!(make(&durable, &at("file"), &mut |_| Ok(())).is_err());
    }
}
