//! A repository that people push to, and a first work tree for it.
//!
//! Guarantees: what is there already and is not ours is left alone; making it again changes only what differs.

use std::fs::{self, DirBuilder};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use git2::build::RepoBuilder;
use git2::{Repository, RepositoryInitMode, RepositoryInitOptions};
use rustix::fs::OFlags;

use super::error::{disk, io_error};
use super::{SourceError, process};
use crate::file;

/// What a place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or an empty directory.
    Nothing,
    /// A push target of ours.
    Ours,
    /// A repository that is no push target.
    Repository,
    /// Something else.
    Other,
}

/// The key by which a push target is known.
const MARK: &str = "reconciled.pushTarget";

/// Largest file that is read below one, in bytes: hooks and settings are smaller.
const LARGEST: u64 = 1 << 20;

/// A push target.
#[derive(Debug)]
pub struct Target {
    directory: PathBuf,
}

impl Target {
    /// Says what is at `directory`.
    ///
    /// # Errors
    /// [`SourceError::Prepare`], [`SourceError::Io`].
    pub fn look(directory: &Path) -> Result<Found, SourceError> {
        process::init_for_one()?;
        let is_empty = match fs::read_dir(directory) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Found::Other),
            Err(error) => return Err(io_error("list", directory)(error)),
        };
        if is_empty {
            return Ok(Found::Nothing);
        }
        let Ok(repository) = Repository::open(directory) else { return Ok(Found::Other) };
        let config = repository.config().map_err(failed("read the configuration of", directory))?;
        Ok(if config.get_bool(MARK).unwrap_or(false) { Found::Ours } else { Found::Repository })
    }

    /// Makes an empty one, or takes the one that is there. `is_shared` lets the members of its group push.
    ///
    /// # Errors
    /// [`SourceError::Io`].
    pub fn make(directory: &Path, is_shared: bool) -> Result<Self, SourceError> {
        process::init_for_one()?;
        let mut options = RepositoryInitOptions::new();
        options.bare(true).external_template(false).initial_head("main");
        if is_shared {
            options.mode(RepositoryInitMode::SHARED_GROUP);
        }
        if Self::look(directory)? == Found::Nothing {
            Repository::init_opts(directory, &options).map_err(failed("create", directory))?;
        }
        let directory = directory.canonicalize().map_err(io_error("find", directory))?;
        let target = Self { directory };
        target.set(MARK, "true")?;
        Ok(target)
    }

    /// The one at `directory`, if there is one; nothing is made or changed, and nothing but its configuration is read.
    pub fn at(directory: &Path) -> Option<Self> {
        let here = Self { directory: directory.to_owned() };
        // As text: what it includes is read by whoever may write there, and is none of ours.
        let (section, key) = MARK.split_once('.')?;
        let config = here.read("config")?.to_lowercase();
        let (_, ours) = config.split_once(&format!("[{section}]"))?;
        let mut lines = ours.lines().map(str::trim).take_while(|line| !line.starts_with('['));
        let is_ours = |line: &str| {
            let (name, value) = line.split_once('=').unwrap_or((line, "true"));
            name.trim() == key.to_lowercase() && value.trim() == "true"
        };
        lines.any(is_ours).then_some(here)
    }

    /// A file below it, as text. Whoever may push may be one who may write there: what is no file, a link or without end is none.
    pub fn read(&self, name: &str) -> Option<String> {
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
        let file = options.open(self.directory.join(name)).ok()?;
        file.metadata().ok().filter(fs::Metadata::is_file)?;
        let mut text = String::new();
        let size = file.take(LARGEST + 1).read_to_string(&mut text).ok()?;
        (size as u64 <= LARGEST).then_some(text)
    }

    /// Says whether [`Target::write`] would change anything.
    pub fn differs(&self, name: &str, text: &str, mode: u32) -> bool {
        let has_mode = |meta: fs::Metadata| meta.mode() & 0o111 == mode & 0o111;
        self.read(name).as_deref() != Some(text)
            || !fs::metadata(self.directory.join(name)).is_ok_and(has_mode)
    }

    /// Returns where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sets a key of its configuration; says whether that changed anything.
    ///
    /// # Errors
    /// [`SourceError::Io`].
    pub fn set(&self, key: &str, value: &str) -> Result<bool, SourceError> {
        let cannot = || failed("configure", &self.directory);
        let repository = Repository::open_bare(&self.directory).map_err(cannot())?;
        let mut config = repository.config().map_err(cannot())?;
        if config.get_string(key).is_ok_and(|found| found == value) {
            return Ok(false);
        }
        config.set_str(key, value).map_err(cannot())?;
        Ok(true)
    }

    /// Writes a file below it, as a whole; says whether that changed anything. A program that was there and differs
    /// is kept beside it, with `.old`.
    ///
    /// # Errors
    /// [`SourceError::Io`].
    pub fn write(&self, name: &str, text: &str, mode: u32) -> Result<bool, SourceError> {
        let path = self.directory.join(name);
        if !self.differs(name, text, mode) {
            return Ok(false);
        }
        let found = self.read(name);
        let is_same = found.as_deref() == Some(text);
        let write = || -> io::Result<()> {
            let folder = path.parent().unwrap_or(&self.directory);
            fs::create_dir_all(folder)?;
            file::replace_prepared(&path, text.as_bytes(), |file| {
                file.set_permissions(fs::Permissions::from_mode(mode))?;
                if path.symlink_metadata().is_ok() && !is_same && mode & 0o111 != 0 {
                    // What takes long comes before there is no program for a moment.
                    file.sync_all()?;
                    fs::rename(&path, path.with_extension("old"))?;
                }
                Ok(())
            })
        };
        write().map_err(io_error("write", &path))?;
        Ok(true)
    }

    /// Gives everything in it to a group that may write; returns how many files and directories that changed.
    ///
    /// # Errors
    /// [`SourceError::Io`]: only root, or a member of the group that owns the files, may do this.
    pub fn share(&self, group: u32) -> Result<usize, SourceError> {
        let mut changed = 0;
        let mut directories = vec![self.directory.clone()];
        while let Some(directory) = directories.pop() {
            changed += usize::from(give(&directory, group)?);
            for entry in fs::read_dir(&directory).map_err(io_error("list", &directory))? {
                let entry = entry.map_err(io_error("list", &directory))?;
                let kind = entry.file_type().map_err(io_error("read", &entry.path()))?;
                if kind.is_dir() {
                    directories.push(entry.path());
                } else if kind.is_file() {
                    changed += usize::from(give(&entry.path(), group)?);
                }
            }
        }
        Ok(changed)
    }
}

/// Gives one file or directory to a group, with what its owner may do; new files in a directory stay the group's.
fn give(path: &Path, group: u32) -> Result<bool, SourceError> {
    let metadata = fs::metadata(path).map_err(io_error("read", path))?;
    let mode = metadata.mode() & 0o7777;
    let wanted = mode | (mode & 0o700) >> 3 | if metadata.is_dir() { 0o2000 } else { 0 };
    if metadata.gid() == group && mode == wanted {
        return Ok(false);
    }
    if metadata.gid() != group {
        chown(path, None, Some(group)).map_err(io_error("give to the group", path))?;
    }
    // After chown, which takes the set-group-ID bit away.
    fs::set_permissions(path, fs::Permissions::from_mode(wanted)).map_err(io_error("share", path))?;
    Ok(true)
}

/// A work tree that pushes to a target.
#[derive(Debug)]
pub struct Work {
    directory: PathBuf,
    /// It holds a commit of the target.
    pub has_commits: bool,
}

impl Work {
    /// Clones `target` into `directory`, which must be empty or not there.
    ///
    /// # Errors
    /// [`SourceError::Io`].
    pub fn of(target: &Target, directory: &Path) -> Result<Self, SourceError> {
        let url = target.directory.to_string_lossy();
        DirBuilder::new().recursive(true).create(directory).map_err(io_error("create", directory))?;
        let repository =
            RepoBuilder::new().clone(&url, directory).map_err(failed("make a work tree in", directory))?;
        let has_commits = repository.head().is_ok();
        if !has_commits {
            repository.set_head("refs/heads/main").map_err(failed("name the branch of", directory))?;
        }
        Ok(Self { directory: directory.to_owned(), has_commits })
    }

    /// Writes a file that is not there yet; says whether it did.
    ///
    /// # Errors
    /// [`SourceError::Io`].
    pub fn add(&self, name: &str, text: &str) -> Result<bool, SourceError> {
        let path = self.directory.join(name);
        if path.exists() {
            return Ok(false);
        }
        fs::write(&path, text).map_err(io_error("write", &path))?;
        Ok(true)
    }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(git2::Error) -> SourceError {
    let path = path.to_owned();
    move |error| SourceError::Io { doing, path, cause: disk(&error) }
}
