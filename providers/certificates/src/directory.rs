//! The directory a certificate is put into: made, trusted, and read without being led elsewhere.
//!
//! Guarantees: what is read is a regular file of a sensible size, never what a link leads to, and never waited for; nobody
//! but root and our own user can change what lies between two steps, because a directory where others could is refused.

use crate::deliver::refused;
use reconciled_provider::Error;
use rustix::fs::OFlags;
use std::{
    fs,
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};
use zeroize::Zeroizing;

/// Longest file that is read: a chain has some KiB.
const LARGEST: u64 = 1 << 20;

/// A regular file.
pub(crate) struct Content {
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    pub(crate) meta: fs::Metadata,
}

/// What is at a path.
pub(crate) enum Seen {
    Nothing,
    File(Content),
    /// A link, a pipe, a device, a directory.
    Other,
    /// A file larger than any of ours.
    Huge,
}

/// Looks at a file without following a link there, and without waiting for whoever would write to a pipe.
pub(crate) fn see(path: &Path) -> io::Result<Seen> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Seen::Nothing),
        Err(error) => {
            return match fs::symlink_metadata(path) {
                Ok(meta) if !meta.is_file() => Ok(Seen::Other),
                _ => Err(error),
            };
        }
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(Seen::Other);
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Ok(Seen::Huge),
        false => Ok(Seen::File(Content { bytes, meta })),
    }
}

/// Which directories of a path are missing, the uppermost last.
pub(crate) fn missing(directory: &Path) -> Vec<&Path> {
    directory.ancestors().take_while(|path| fs::symlink_metadata(path).is_err()).collect()
}

/// Makes a directory where it is missing, open to everybody's eyes whatever the umask.
pub(crate) fn make(directory: &Path) -> Result<(), Error> {
    trust(directory)?;
    for path in missing(directory).into_iter().rev() {
        let made = || -> io::Result<()> {
            match fs::DirBuilder::new().mode(0o755).create(path) {
                // Another certificate was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                made => made?,
            }
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        };
        made().map_err(|error| refused(path, error))?;
    }
    Ok(())
}

/// Refuses a directory, which need not be there, that others could change or that a link leads to.
///
/// Errors: `Invalid` for a link, `PermissionDenied` where anybody but root and our own user may write.
pub(crate) fn trust(directory: &Path) -> Result<(), Error> {
    let own = rustix::process::geteuid().as_raw();
    for path in directory.ancestors() {
        let meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(refused(path, error)),
        };
        if meta.is_symlink() {
            let message = format!("{} leads through a link at {}", directory.display(), path.display());
            return Err(Error::invalid(message).hint("write the path it leads to"));
        }
        let is_foreign = ![0, own].contains(&meta.uid());
        // One that is sticky, as /tmp is, lets everybody put something into the way too.
        if is_foreign || meta.mode() & 0o022 != 0 {
            let (at, mode, uid) = (path.display(), meta.mode() & 0o7777, meta.uid());
            return Err(Error::permission_denied(format!(
                "put a certificate into {}: others may write to {at} (mode {mode:04o}, of user {uid})",
                directory.display()
            ))
            .hint(format!(
                "take a directory that is root's alone, or: chown root {at} && chmod go-w {at}; who reads the files is \
                 said by `owner`, `group` and `mode`"
            )));
        }
    }
    Ok(())
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
            matches!(see(&at("file")).unwrap(), Seen::File(content) if content.bytes[..] == b"content"[..])
        );
        assert!(matches!(see(&at("nothing")).unwrap(), Seen::Nothing));
        assert!(matches!(see(&at("huge")).unwrap(), Seen::Huge));
        for name in ["link", "directory", "pipe"] {
            assert!(matches!(see(&at(name)).unwrap(), Seen::Other), "{name}");
        }
        assert!(matches!(see(Path::new("/dev/zero")).unwrap(), Seen::Other));
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
        for mode in [0o1777, 0o775, 0o757] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            let error = trust(&below).unwrap_err();
            assert_eq!(error.kind, reconciled_provider::ErrorKind::PermissionDenied);
            assert!(error.hint.unwrap().contains("chmod go-w"), "{mode:o}");
        }
        symlink(&open, dir.path().join("link")).unwrap();
        let error = trust(&dir.path().join("link/web")).unwrap_err();
        assert!(error.message.contains("leads through a link"), "{}", error.message);
    }
}
