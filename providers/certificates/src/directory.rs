//! The directory a certificate is put into: made, trusted, and read without being led elsewhere.
//!
//! Guarantees: what is read is a regular file of a sensible size, never what a link leads to, and never waited for; nobody
//! but root and our own user can change what lies between two steps, because a directory where others could is refused.
//!
//! A sticky directory, as /tmp is, may be on the way: whoever writes to it can neither move nor remove what others made there
//! (`unlink(2)`, EPERM). So what is ours there stays ours, and who came first is found by looking at the owner. What is not there
//! yet is not looked into: anybody might put something there meanwhile.

use reconciled_provider::Error;
use rustix::fs::OFlags;
use std::{
    fs,
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};
use zeroize::Zeroizing;

/// Longest file that is read: a chain has some KiB.
pub const LARGEST: u64 = 1 << 20;

/// A regular file.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    /// What is in it.
    pub bytes: Zeroizing<Vec<u8>>,
    /// The number of the user it belongs to.
    pub user: u32,
    /// The number of the group.
    pub group: u32,
    /// Its permissions.
    pub mode: u32,
}

/// What is at a path. It may be a key, so it is not printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Spot {
    /// Nothing.
    Nothing,
    /// A file, with its content.
    File(Content),
    /// A file larger than any of ours.
    Huge,
    /// A link, which is not followed, to there.
    Link(PathBuf),
    /// A pipe, a device, a directory.
    Other,
}

/// Looks at a file without following a link there, and without waiting for whoever would write to a pipe.
pub(crate) fn see(path: &Path) -> io::Result<Spot> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Spot::Nothing);
        }
        Err(error) => {
            if let Ok(to) = fs::read_link(path) {
                return Ok(Spot::Link(to));
            }
            return match fs::symlink_metadata(path) {
                Ok(meta) if !meta.is_file() => Ok(Spot::Other),
                _ => Err(error),
            };
        }
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(Spot::Other);
    }
    // Room for one byte more: that it ends there is seen by the same call.
    let expected = meta.len().min(LARGEST) as usize + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected));
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    let (user, group, mode) = (meta.uid(), meta.gid(), meta.mode() & 0o7777);
    match bytes.len() as u64 > LARGEST {
        true => Ok(Spot::Huge),
        false => Ok(Spot::File(Content { bytes, user, group, mode })),
    }
}

/// Which directories of a path are missing, the uppermost last.
fn missing(directory: &Path) -> Vec<&Path> {
    directory.ancestors().take_while(|path| fs::symlink_metadata(path).is_err()).collect()
}

/// Makes a directory where it is missing, open to everybody's eyes whatever the umask.
pub(crate) fn make(directory: &Path) -> Result<(), Error> {
    trust(directory)?;
    for path in missing(directory).into_iter().rev() {
        let made = match fs::DirBuilder::new().mode(0o755).create(path) {
            // Ours, so nobody could have put a link in its place.
            Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o755)),
            // Another certificate was faster, or somebody else where everybody may write.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                trust(path)?;
                Ok(())
            }
            Err(error) => Err(error),
        };
        made.map_err(|error| refused(path, error))?;
    }
    match trust(directory)? {
        Trust::There => Ok(()),
        Trust::Nothing => Err(refused(directory, io::ErrorKind::NotFound.into())),
    }
}

/// What may be believed of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// What is there, if anything is, was put there by root or by our own user.
    There,
    /// Nothing was there, and anybody may put something there by now: it is to be looked at as if nothing were.
    Nothing,
}

/// What is on the way to a directory, or the directory itself.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Nothing.
    Missing,
    /// A link.
    Link,
    /// Something of this user with these permissions.
    There {
        /// The number of the user.
        user: u32,
        /// The permissions.
        mode: u32,
    },
    /// Something that cannot be looked at, and that others vouch for.
    Unseen,
}

/// Refuses a directory, which need not be there, that others could change or that a link leads to.
///
/// Errors: `Invalid` for a link, `PermissionDenied` where anybody but root and our own user may write.
pub(crate) fn trust(directory: &Path) -> Result<Trust, Error> {
    let own = rustix::process::geteuid().as_raw();
    judge(directory, own, |path| match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => Ok(Step::Link),
        Ok(meta) => Ok(Step::There { user: meta.uid(), mode: meta.mode() & 0o7777 }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Step::Missing),
        Err(error) => Err(refused(path, error)),
    })
}

/// The same of a directory on whose way `see` says what is, where `own` is the user that writes there.
pub fn judge(
    directory: &Path,
    own: u32,
    mut see: impl FnMut(&Path) -> Result<Step, Error>,
) -> Result<Trust, Error> {
    let mut trust = Trust::There;
    let mut is_next_missing = false;
    for path in directory.ancestors() {
        let (user, mode) = match see(path)? {
            Step::There { user, mode } => (user, mode),
            Step::Missing => {
                is_next_missing = true;
                continue;
            }
            Step::Unseen => {
                is_next_missing = false;
                continue;
            }
            Step::Link => {
                let message = format!("{} leads through a link at {}", directory.display(), path.display());
                return Err(Error::invalid(message).hint("write the path it leads to"));
            }
        };
        let is_foreign = ![0, own].contains(&user);
        let is_open = mode & 0o022 != 0;
        let is_sticky = mode & 0o1000 != 0;
        // What lies in a sticky one on the way was looked at before, and is ours or root's, or not there.
        if is_open && is_sticky && !is_foreign && path != directory {
            trust = if is_next_missing { Trust::Nothing } else { trust };
        } else if is_foreign || is_open {
            let at = path.display();
            let who = "who reads the files is said by `owner`, `group` and `mode`";
            let hint = match is_sticky {
                // Others need it as it is.
                true => format!("take a directory of its own, that is root's alone; {who}"),
                false => format!(
                    "take a directory that is root's alone, or: chown root {at} && chmod go-w {at}; {who}"
                ),
            };
            return Err(Error::permission_denied(format!(
                "put a certificate into {}: others may write to {at} (mode {mode:04o}, of user {user})",
                directory.display()
            ))
            .hint(hint));
        }
        is_next_missing = false;
    }
    Ok(trust)
}

pub(crate) fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("{what} {}", path.display())).caused_by(error)
}

pub(crate) fn refused(path: &Path, error: io::Error) -> Error {
    let message = format!("put a certificate into {}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::permission_denied(message)
            .caused_by(error)
            .hint("let the service's user write there; only root gives files to other users"),
        _ => Error::unavailable(message).caused_by(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_but_a_regular_file_of_a_sensible_size_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "content").unwrap();
        symlink(at("file"), at("link")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        fs::File::create(at("huge")).unwrap().set_len(LARGEST + 1).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        assert!(
            matches!(see(&at("file")).unwrap(), Spot::File(content) if content.bytes[..] == b"content"[..])
        );
        assert!(matches!(see(&at("nothing")).unwrap(), Spot::Nothing));
        assert!(matches!(see(&at("huge")).unwrap(), Spot::Huge));
        assert!(matches!(see(&at("link")).unwrap(), Spot::Link(to) if to == at("file")));
        for name in ["directory", "pipe"] {
            assert!(matches!(see(&at(name)).unwrap(), Spot::Other), "{name}");
        }
        assert!(matches!(see(Path::new("/dev/zero")).unwrap(), Spot::Other));
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused_with_what_to_do() {
        // Others may write to the usual place, and not where this program was built.
        let program = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let (open, below) = (dir.path().join("open"), dir.path().join("open/web"));
        assert!(make(&below).is_ok());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&open), mode(&below)), (0o755, 0o755));
        for mode in [0o777, 0o775, 0o757] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            let error = trust(&below).unwrap_err();
            assert_eq!(error.kind, reconciled_provider::ErrorKind::PermissionDenied);
            assert!(error.hint.as_ref().unwrap().contains("chmod go-w"), "{mode:o}");
        }
        symlink(&open, dir.path().join("link")).unwrap();
        let error = trust(&dir.path().join("link/web")).unwrap_err();
        assert!(error.message.contains("leads through a link"), "{}", error.message);
    }

    #[test]
    fn below_a_sticky_directory_what_is_ours_is_trusted_and_nothing_else() {
        let program = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let (open, own) = (dir.path().join("open"), dir.path().join("open/own"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
        let error = trust(&open).unwrap_err();
        assert!(!error.hint.as_ref().unwrap().contains("chmod"), "others need it as it is");
        // What somebody may put there from now on is not believed.
        assert_eq!(trust(&own.join("web")).unwrap(), Trust::Nothing);
        make(&own.join("web")).unwrap();
        assert_eq!(trust(&own.join("web")).unwrap(), Trust::There);
        assert_eq!(trust(&own.join("other")).unwrap(), Trust::There, "nobody else can put it there");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&open), mode(&own), mode(&own.join("web"))), (0o1777, 0o755, 0o755));
        symlink(dir.path(), open.join("link")).unwrap();
        assert!(trust(&open.join("link/web")).unwrap_err().message.contains("leads through a link"));
        assert!(make(&open.join("link/web")).is_err());
        if rustix::process::geteuid().is_root() {
            let theirs = open.join("theirs");
            fs::create_dir(&theirs).unwrap();
            std::os::unix::fs::chown(&theirs, Some(7), Some(7)).unwrap();
            for path in [theirs.clone(), theirs.join("web")] {
                assert_eq!(make(&path).unwrap_err().kind, reconciled_provider::ErrorKind::PermissionDenied);
            }
            assert!(!theirs.join("web").exists());
            std::os::unix::fs::chown(&open, Some(7), Some(7)).unwrap();
            assert!(trust(&own.join("web")).is_err(), "whose it is may move what is in it");
        }
    }
}
