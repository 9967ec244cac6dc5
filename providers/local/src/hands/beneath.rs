//! The way to a path: through directories alone, below an allowed one, and through no symbolic link; and what is in a file at
//! its end.
//!
//! The kernel does the checking (`openat2`, Linux 5.6): a text that looks right can lead anywhere by the time it is used.

use crate::{path::FilePath, state::Refusal};
use reconciled_provider::{Error, ErrorKind};
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{FileType, Mode, OFlags, ResolveFlags, Stat, openat2},
    io::Errno,
};
use std::{fs::File, io::Read, path::Path};

/// Largest file that is read.
pub const LARGEST: u64 = 16 * 1024 * 1024;

/// Opens the directory that `path` stands in, for reading.
///
/// None: some directory on the way is not there.
pub(super) fn parent(root: &Path, allowed: &[String], path: &FilePath) -> Result<Option<OwnedFd>, Refusal> {
    let Some((base, rest)) = allowed.iter().find_map(|base| Some((base, path.below(base)?))) else {
        return Err(Refusal {
            kind: ErrorKind::PermissionDenied,
            message: format!("{path} is not below any of the directories in which files may be managed"),
            hint: Some("extend `paths` of the provider entry in the host configuration".into()),
        });
    };
    let below = rest.rsplit_once('/').map_or("", |(directories, _)| directories);
    let refused = |errno| refusal("go to", path, errno);
    let root = rustix::fs::open(root, DIRECTORY, Mode::empty()).map_err(refused)?;
    // Whoever may write somewhere on the way to it could lead it elsewhere by a link.
    let name = base.trim_start_matches('/');
    let base = match openat2(&root, name, DIRECTORY, Mode::empty(), FROM_ROOT) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => {
            return Err(Refusal {
                kind: ErrorKind::PermissionDenied,
                message: format!(
                    "go to {path}: a symbolic link is on the way to {base}, and none is followed"
                ),
                hint: Some(
                    "write what the link leads to under `paths` of the provider entry, and in the manifest"
                        .into(),
                ),
            });
        }
        base => base.map_err(refused)?,
    };
    if below.is_empty() {
        return Ok(Some(base));
    }
    match openat2(&base, below, DIRECTORY, Mode::empty(), STRICT) {
        Err(Errno::NOENT) => Ok(None),
        found => found.map(Some).map_err(refused),
    }
}

/// How far the way to a path leads.
pub(super) struct Way {
    /// The last directory on it.
    pub(super) open: OwnedFd,
    /// What is called so in that directory is no directory.
    pub(super) end: FilePath,
}

/// The way to the directory of `path`, for who has to know when there is one; none where not even the root can be opened.
pub(super) fn way(root: &Path, path: &FilePath) -> Option<Way> {
    let root = rustix::fs::open(root, DIRECTORY, Mode::empty()).ok()?;
    let mut end = path.directory()?;
    loop {
        let above = end.directory();
        let name = above.as_ref().map_or(".", |above| above.as_str().trim_start_matches('/'));
        match openat2(&root, name, DIRECTORY, Mode::empty(), FROM_ROOT) {
            Ok(open) => return Some(Way { open, end }),
            Err(_) => end = above?,
        }
    }
}

/// Opens a directory below another one, through no link.
pub(super) fn directory(base: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    openat2(base, name, DIRECTORY, Mode::empty(), STRICT)
}

/// Opens a directory in another one, on the same file system.
pub(super) fn on_this_mount(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    openat2(parent, name, DIRECTORY, Mode::empty(), STRICT.union(ResolveFlags::NO_XDEV))
}

/// What is in a regular file that stands in `parent`, and what the kernel says of it: through no link, and without waiting.
///
/// Errors: `AGAIN` where it is no regular file, `FBIG` where it is larger than [`LARGEST`].
pub(super) fn content(parent: impl AsFd, name: &Path) -> Result<(Vec<u8>, Stat), Errno> {
    // Without O_NONBLOCK a pipe that is there, or takes its place this instant, would make us wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(parent, name, flags, Mode::empty())?);
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::AGAIN);
    }
    if u64::try_from(stat.st_size).is_ok_and(|size| size > LARGEST) {
        return Err(Errno::FBIG);
    }
    let mut content = Vec::with_capacity(stat.st_size.clamp(0, LARGEST as i64) as usize);
    let read = file.take(LARGEST + 1).read_to_end(&mut content);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if content.len() as u64 > LARGEST {
        return Err(Errno::FBIG);
    }
    Ok((content, stat))
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const STRICT: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

const FROM_ROOT: ResolveFlags =
    ResolveFlags::IN_ROOT.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// What a link leads to that is somewhere below `root`, for whom that is the root of the machine. Nothing is opened for that.
pub(super) fn leads_to(root: &Path, link: &Path) -> Option<FileType> {
    let base = rustix::fs::open(root, DIRECTORY, Mode::empty()).ok()?;
    let (link, flags) = (link.strip_prefix(root).ok()?, OFlags::PATH | OFlags::CLOEXEC);
    let found = loop {
        match openat2(&base, link, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            // Somebody renamed something while the way led up.
            Err(Errno::AGAIN) => {}
            found => break found.ok()?,
        }
    };
    Some(FileType::from_raw_mode(rustix::fs::fstat(found).ok()?.st_mode))
}

/// True when every user may pass through the directory at `path` and all those above it.
pub(super) fn is_open_to_all(root: &Path, path: &str) -> bool {
    let mut at = path;
    let Ok(root) = rustix::fs::open(root, DIRECTORY, Mode::empty()) else { return false };
    loop {
        let name = match at.trim_start_matches('/') {
            "" => ".",
            name => name,
        };
        let found = openat2(&root, name, DIRECTORY, Mode::empty(), ResolveFlags::IN_ROOT);
        let Some(stat) = found.ok().and_then(|directory| rustix::fs::fstat(directory).ok()) else {
            return false;
        };
        if stat.st_mode & 0o001 == 0 {
            return false;
        }
        match at.rsplit_once('/') {
            Some((above, _)) => at = above,
            None => return true,
        }
    }
}

/// True when nobody but root and our own user can change what is called how in `directory` and on the way to it.
pub(super) fn is_closed(directory: &Path) -> bool {
    directory.ancestors().all(|at| {
        let Ok(stat) = rustix::fs::stat(at) else { return false };
        let own = rustix::process::geteuid().as_raw();
        // In a directory such as /tmp nobody may take away what belongs to somebody else; but a draft may belong to anybody.
        let is_sticky = stat.st_mode & 0o1000 != 0 && at != directory;
        (stat.st_uid == 0 || stat.st_uid == own) && (stat.st_mode & 0o022 == 0 || is_sticky)
    })
}

/// Why the kernel would not do it, in words.
pub(super) fn refusal(doing: &str, path: &FilePath, errno: Errno) -> Refusal {
    let message = |why: &str| format!("{doing} {path}: {why}");
    let (kind, message, hint) = match errno {
        Errno::LOOP => (
            ErrorKind::PermissionDenied,
            message("a symbolic link is in the way, and none is followed"),
            Some("declare the path that the link leads to"),
        ),
        Errno::XDEV => (ErrorKind::PermissionDenied, message("the way leads out of the directory"), None),
        Errno::NOTDIR => (
            ErrorKind::Invalid,
            message("what should be a directory on the way is none"),
            Some(
                "remove what is there by hand, then: reconciled sync, or without a daemon reconciled apply; or declare \
                 another path",
            ),
        ),
        Errno::ACCESS => (
            ErrorKind::PermissionDenied,
            message("permission denied"),
            Some("give this process the right to it"),
        ),
        Errno::PERM => (
            ErrorKind::PermissionDenied,
            message("operation not permitted"),
            Some(
                "`lsattr` shows whether it is immutable; `chattr -i` ends that, then: reconciled sync; without a daemon: \
                 reconciled apply",
            ),
        ),
        Errno::ROFS => (
            ErrorKind::PermissionDenied,
            message("the file system is read-only"),
            Some("mount it writable; a unit with ProtectSystem= needs ReadWritePaths="),
        ),
        Errno::NOSPC | Errno::DQUOT => (
            ErrorKind::Unavailable,
            message("no space is left"),
            Some("free some space; what was there is untouched"),
        ),
        Errno::FBIG => (
            ErrorKind::Unsupported,
            message(&format!("it is larger than the {} MiB that are looked at", LARGEST >> 20)),
            None,
        ),
        Errno::NOSYS => (
            ErrorKind::Unsupported,
            message("this kernel has no openat2"),
            Some("Linux 5.6 or later is needed; a container's filter of system calls may hide it"),
        ),
        errno => (ErrorKind::Unavailable, message(&std::io::Error::from(errno).to_string()), None),
    };
    Refusal { kind, message, hint: hint.map(str::to_owned) }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::new(refusal.kind, refusal.message).hint_if(refusal.hint)
    }
}
