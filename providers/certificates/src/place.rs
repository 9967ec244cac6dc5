//! Who has the rights where certificates are used: this process, or another one that it asks.
//!
//! Each call is one small step that may be repeated; in which order they are taken is said in [`deliver`](crate::deliver)
//! alone. *Guarantees* of every place: no link is followed below a directory that [`Place::trust`] believed; a file has its
//! owner and permissions before it has content, and a version is on disk before the call returns; a name shows what it
//! showed or what it is to show, whenever somebody looks; what is not as it was when that was decided is neither replaced nor
//! removed. *Caveat*: a change between the last look at it and the next call of the system is not seen.

use crate::{
    aside::aside,
    directory::{self, failed, refused},
};
use async_trait::async_trait;
use reconciled_provider::{Error, Hash};
use rustix::process;
use std::{
    fmt, fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, symlink},
    path::{Path, PathBuf},
};
use zeroize::Zeroizing;

pub use crate::directory::{Content, LARGEST, Spot, Step, Trust, judge};

/// One file to be written.
pub struct File {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Its permissions.
    pub mode: u32,
}

/// What a service is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Read its files again, or start again where it cannot.
    Read,
    /// Start again.
    Start,
}

/// Where certificates are put.
#[async_trait]
pub trait Place: fmt::Debug + Send + Sync {
    /// User and group that files belong to where nobody else is named.
    fn own(&self) -> (u32, u32);
    /// What is at each of `paths`, in their order.
    async fn look(&self, paths: &[PathBuf]) -> Result<Vec<Result<Spot, Error>>, Error>;
    /// When all of these were changed last, where that can be told at once: equal stamps, nothing changed, unless within the
    /// same moment. `way` says it of a directory on the way and all above it, as [`way()`] does. Asked by a thread without a
    /// runtime as well.
    fn stamps(&self, _: &Files, _way: &dyn Fn(&Path) -> Option<Stamps>) -> Option<Stamps> {
        None
    }
    /// What may be believed of a directory, which need not be there.
    ///
    /// Errors: `Invalid` for a link, `PermissionDenied` where others may write.
    async fn trust(&self, directory: &Path) -> Result<Trust, Error>;
    /// Makes a directory where it is missing, open to everybody's eyes.
    async fn make(&self, directory: &Path) -> Result<(), Error>;
    /// Makes the directory `version`, which is not there, with these files in it.
    async fn write_version(&self, version: &Path, files: &[File], owner: (u32, u32)) -> Result<(), Error>;
    /// Writes a file that everybody may read, in place of `over`, which was there when that was decided.
    ///
    /// Errors: `Conflict` where something else is there.
    async fn write(&self, path: &Path, text: &str, over: &Spot) -> Result<(), Error>;
    /// Has a name lead to `to`, in place of `over`.
    ///
    /// Errors: `Conflict` where something else is there.
    async fn link(&self, path: &Path, to: &Path, over: &Spot) -> Result<(), Error>;
    /// Removes `what`, a file or a link or nothing, and what somebody who died left beside it.
    ///
    /// Errors: `Conflict` where something else is there.
    async fn remove(&self, path: &Path, what: &Spot) -> Result<(), Error>;
    /// Has what was changed in a directory outlast a crash of the machine.
    async fn settle(&self, directory: &Path) -> Result<(), Error>;
    /// Names of the directories in a directory.
    async fn directories(&self, directory: &Path) -> Result<Vec<String>, Error>;
    /// Removes a directory with what is in it.
    async fn remove_version(&self, version: &Path) -> Result<(), Error>;
    /// Removes a directory that is empty.
    async fn remove_empty(&self, directory: &Path) -> Result<(), Error>;
    /// Has a service that runs do this; none where a command of the host is to be run for it.
    async fn call(&self, unit: &str, again: Again) -> Option<Result<(), Error>>;
}

/// What was read, as far as it matters whether it changed since.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Any change of these counts.
    pub exact: Vec<PathBuf>,
    /// The directory on the way to them: its entries, and those of all above it, may change.
    pub way: Option<PathBuf>,
}

/// How files and directories were, without a look into them: equal ones are, for all that is known, the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps(Hash);

/// The stamps of files on this machine; none where one of them cannot be had.
pub(crate) fn stamps(files: &Files) -> Option<Stamps> {
    stamps_by(files, &way)
}

/// The same, where `way` says how the way is.
fn stamps_by(files: &Files, way: &dyn Fn(&Path) -> Option<Stamps>) -> Option<Stamps> {
    let mut all: Vec<u8> = Vec::with_capacity(80 * files.exact.len() + 16);
    for path in &files.exact {
        stamp(path, true, &mut all)?;
    }
    if let Some(directory) = &files.way {
        all.extend_from_slice(&way(directory)?.0.0);
    }
    Some(Stamps(Hash::of(&all)))
}

/// Which directories this one and all above it are, whose, and who may change them.
pub fn way(directory: &Path) -> Option<Stamps> {
    let mut all = Vec::new();
    for path in directory.ancestors() {
        stamp(path, false, &mut all)?;
    }
    Some(Stamps(Hash::of(&all)))
}

/// Adds the numbers of one; none where they cannot be had.
fn stamp(path: &Path, is_exact: bool, all: &mut Vec<u8>) -> Option<()> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            all.extend_from_slice(&0u64.to_ne_bytes());
            return Some(());
        }
        Err(_) => return None,
    };
    // Which one it is, on which file system; whose it is; what it is, and who may do what with it.
    let owner = u64::from(meta.uid()) << 32 | u64::from(meta.gid());
    let which = [1 + u64::from(is_exact), meta.dev(), meta.ino(), owner, u64::from(meta.mode())];
    all.extend_from_slice(which.map(u64::to_ne_bytes).as_flattened());
    if is_exact {
        // When anything of it was changed last is what nobody can set.
        let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
        all.extend_from_slice(&meta.len().to_ne_bytes());
        all.extend_from_slice(times.map(i64::to_ne_bytes).as_flattened());
    }
    Some(())
}

/// Puts them there in this process, with its rights.
#[derive(Clone, Copy, Debug)]
pub struct Here;

fn settle(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

/// The error of a change that was made in the directory of `path`.
fn at(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| refused(path.parent().unwrap_or(path), error)
}

fn write_version(there: &Path, files: &[File], (user, group): (u32, u32)) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o755).create(there)?;
    for file in files {
        let mut open = fs::OpenOptions::new();
        let mut draft = open.write(true).create_new(true).mode(0o600).open(there.join(file.name))?;
        fchown(&draft, Some(user), Some(group))?;
        draft.set_permissions(fs::Permissions::from_mode(file.mode))?;
        draft.write_all(&file.bytes)?;
        draft.sync_all()?;
    }
    fs::set_permissions(there, fs::Permissions::from_mode(0o755))?;
    settle(there)
}

/// What is to be at `path` until it has that name.
fn draft(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("..{}.new", name.trim_start_matches('.')))
}

/// Has `path` be what `draft` is, unless what was there is not there any more.
fn switch(draft: &Path, path: &Path, over: &Spot) -> Result<(), Error> {
    let switched = expect(path, over).and_then(|()| fs::rename(draft, path).map_err(at(path)));
    if switched.is_err() {
        let _ = fs::remove_file(draft);
    }
    switched
}

/// Refuses to change what is not as it was.
fn expect(path: &Path, before: &Spot) -> Result<(), Error> {
    match directory::see(path).map_err(|error| failed("read", path, error))? == *before {
        true => Ok(()),
        false => Err(Error::conflict(format!("{} changed since it was looked at", path.display()))),
    }
}

fn write(path: &Path, text: &str, over: &Spot) -> Result<(), Error> {
    let draft = draft(path);
    write_draft(&draft, text).map_err(at(path))?;
    switch(&draft, path, over)?;
    path.parent().map_or(Ok(()), settle).map_err(at(path))
}

fn write_draft(draft: &Path, text: &str) -> io::Result<()> {
    // That of a process that died may be there.
    let _ = fs::remove_file(draft);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(draft)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn link(path: &Path, to: &Path, over: &Spot) -> Result<(), Error> {
    let draft = draft(path);
    // That of a process that died may be there.
    let _ = fs::remove_file(&draft);
    symlink(to, &draft).map_err(at(path))?;
    switch(&draft, path, over)
}

fn none_is_as_good(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        removed => removed,
    }
}

#[async_trait]
impl Place for Here {
    fn own(&self) -> (u32, u32) {
        (process::geteuid().as_raw(), process::getegid().as_raw())
    }

    async fn look(&self, paths: &[PathBuf]) -> Result<Vec<Result<Spot, Error>>, Error> {
        let one = |path: &PathBuf| directory::see(path).map_err(|error| failed("read", path, error));
        Ok(aside(|| paths.iter().map(one).collect()))
    }

    fn stamps(&self, files: &Files, way: &dyn Fn(&Path) -> Option<Stamps>) -> Option<Stamps> {
        stamps_by(files, way)
    }

    async fn trust(&self, directory: &Path) -> Result<Trust, Error> {
        directory::trust(directory)
    }

    async fn make(&self, directory: &Path) -> Result<(), Error> {
        aside(|| directory::make(directory))
    }

    async fn write_version(&self, version: &Path, files: &[File], owner: (u32, u32)) -> Result<(), Error> {
        aside(|| write_version(version, files, owner)).map_err(at(version))
    }

    async fn write(&self, path: &Path, text: &str, over: &Spot) -> Result<(), Error> {
        aside(|| write(path, text, over))
    }

    async fn link(&self, path: &Path, to: &Path, over: &Spot) -> Result<(), Error> {
        aside(|| link(path, to, over))
    }

    async fn remove(&self, path: &Path, what: &Spot) -> Result<(), Error> {
        let _ = fs::remove_file(draft(path));
        expect(path, what)?;
        none_is_as_good(fs::remove_file(path)).map_err(|error| refused(path, error))
    }

    async fn settle(&self, directory: &Path) -> Result<(), Error> {
        aside(|| settle(directory)).map_err(|error| refused(directory, error))
    }

    async fn directories(&self, directory: &Path) -> Result<Vec<String>, Error> {
        let entries = fs::read_dir(directory).map_err(|error| failed("list", directory, error))?;
        let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let names = entries.flatten().filter(is_directory).map(|entry| entry.file_name());
        Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
    }

    async fn remove_version(&self, version: &Path) -> Result<(), Error> {
        aside(|| fs::remove_dir_all(version)).map_err(at(version))
    }

    async fn remove_empty(&self, directory: &Path) -> Result<(), Error> {
        fs::remove_dir(directory).map_err(at(directory))
    }

    async fn call(&self, _: &str, _: Again) -> Option<Result<(), Error>> {
        None
    }
}
