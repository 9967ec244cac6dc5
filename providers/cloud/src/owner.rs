//! Whose files are that are put below the state directory: of whoever has that directory. A person may run a verb as root for
//! a daemon that is not, and the daemon is to use and to replace them.

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chownat, fchown, fstat, openat},
    io::Errno,
    process::{Gid, Uid, geteuid},
};
use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

/// Gives a folder in `state` and all that root has in it to the owner of `state`. Does nothing unless this is root, which
/// alone can.
///
/// Guarantees: nothing outside of the folder is given away, though the owner may put links there meanwhile.
pub(crate) fn hand_over(state: &Path, folder: &str) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let state = openat(CWD, state, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let meta = fstat(&state)?;
    if meta.st_uid != 0 {
        give(open(&state, folder)?, Uid::from_raw(meta.st_uid), Gid::from_raw(meta.st_gid))?;
    }
    Ok(())
}

fn open<P: rustix::path::Arg>(at: impl AsFd, folder: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, folder, flags, Mode::empty())
}

fn give(folder: OwnedFd, user: Uid, group: Gid) -> Result<(), Errno> {
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match give_one(&folder, name, user, group) {
            // Somebody else tidied up.
            Ok(()) | Err(Errno::NOENT) => {}
            failed => return failed,
        }
    }
    if fstat(&folder)?.st_uid == 0 {
        fchown(&folder, Some(user), Some(group))?;
    }
    Ok(())
}

fn give_one(folder: &OwnedFd, name: &CStr, user: Uid, group: Gid) -> Result<(), Errno> {
    // What is looked at is what is given, whatever has its name by then.
    let found = openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let meta = fstat(&found)?;
    match FileType::from_raw_mode(meta.st_mode) {
        FileType::Directory => give(open(folder, name)?, user, group),
        // A second name may be that of a file elsewhere.
        FileType::RegularFile if meta.st_uid == 0 && meta.st_nlink == 1 => {
            chownat(&found, c"", Some(user), Some(group), AtFlags::EMPTY_PATH)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{MetadataExt, chown, symlink},
    };

    /// Says something where it is run as root alone; others make nothing that is not theirs.
    #[test]
    fn what_root_puts_below_a_state_is_its_owners_and_nothing_elsewhere_is() {
        let world = tempfile::tempdir().unwrap();
        let (state, elsewhere) = (world.path().join("state"), world.path().join("elsewhere"));
        fs::create_dir_all(state.join("providers/a")).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("theirs"), "").unwrap();
        fs::write(state.join("providers/a/program"), "").unwrap();
        fs::write(state.join("other"), "").unwrap();
        symlink(&elsewhere, state.join("providers/link")).unwrap();
        fs::hard_link(elsewhere.join("theirs"), state.join("providers/name")).unwrap();
        if geteuid().is_root() {
            chown(&state, Some(65_534), Some(65_534)).unwrap();
        }
        hand_over(&state, "providers").unwrap();
        let owner = |path: &str| fs::metadata(world.path().join(path)).unwrap().uid();
        for path in ["state/providers", "state/providers/a", "state/providers/a/program"] {
            assert_eq!(owner(path), owner("state"), "{path}");
        }
        for path in ["state/other", "elsewhere", "elsewhere/theirs"] {
            assert_eq!(owner(path), geteuid().as_raw(), "{path}");
        }
    }
}
