//! Putting something in its place: drafted beside it, on disk before it gets its name.
//!
//! A reader sees what was there before or what is there now, and so does whoever comes after a crash. What a crash
//! leaves is a draft, `.reconciled-…`, which the next request for the same path clears away.
//! Caveat: what cannot be renamed over because it is a mount point of its own (a file that is bind-mounted into a
//! container) is rewritten in place, which is not atomic.

use super::{Fault, Make, Put, Seen, What, accounts::Accounts, beneath::refusal};
use crate::{path::FilePath, state::Access};
use reconciled_provider::{Error, Hash};
use rustix::{
    fd::{AsFd, AsRawFd, OwnedFd},
    fs::{AtFlags, Dir, Gid, Mode, OFlags, RenameFlags, Uid},
    io::Errno,
};
use std::{
    fs::File,
    io::Write,
    sync::atomic::{AtomicU64, Ordering},
};

/// What the names of drafts begin with.
pub(super) const DRAFT: &str = ".reconciled-";

/// Tells the drafts of this process apart: one that is given up may still be at work.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Something complete that has no name yet; cleared away when dropped.
#[derive(Debug)]
pub(super) struct Draft {
    /// The directory it is in.
    pub(super) parent: OwnedFd,
    /// Its name there.
    pub(super) name: String,
    is_directory: bool,
    /// What was written, if it is a file.
    file: Option<File>,
}

impl Draft {
    /// What was written, to be read from its beginning, whatever is called by its name by now.
    pub(super) fn read(&self) -> Result<File, Errno> {
        let Some(file) = &self.file else { return Err(Errno::BADF) };
        // A descriptor of its own, which cannot write.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(File::from)
    }

    /// True unless somebody put something else in the place of the file.
    pub(super) fn has_its_name(&self) -> bool {
        let Some(file) = &self.file else { return true };
        let named = rustix::fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        match (named, rustix::fs::fstat(file)) {
            (Ok(named), Ok(own)) => (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino),
            _ => false,
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let flags = if self.is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let _ = rustix::fs::unlinkat(&self.parent, &self.name, flags);
    }
}

/// The numbers behind the names of `access`.
fn owners(accounts: &Accounts, access: &Access) -> Result<(Uid, Gid), Error> {
    let user = accounts.user_id(access.owner.as_deref())?;
    let group = accounts.group_id(access.group.as_deref())?;
    Ok((
        user.map_or_else(rustix::process::geteuid, Uid::from_raw),
        group.map_or_else(rustix::process::getegid, Gid::from_raw),
    ))
}

/// Gives what is open its owner and permissions. In this order: a change of owner takes away setuid.
fn set_access(file: impl AsFd, path: &FilePath, (user, group): (Uid, Gid), mode: u32) -> Result<(), Error> {
    let failed = |errno| Error::from(refusal("set owner and permissions of", path, errno));
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    if (stat.st_uid, stat.st_gid) != (user.as_raw(), group.as_raw()) {
        rustix::fs::fchown(&file, Some(user), Some(group)).map_err(|errno| {
            let error = failed(errno);
            let is_root = rustix::process::geteuid().is_root();
            if errno == Errno::PERM && !is_root { error.hint("only root may give files away") } else { error }
        })?;
    }
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(failed)?;
    let set = rustix::fs::fstat(&file).map_err(failed)?.st_mode & 0o7777;
    if set != mode {
        // The kernel takes the bit away without a word from whoever is not in the group.
        let text = format!("set permissions {mode:04o} of {path}: the system made {set:04o} of them");
        return Err(
            Error::permission_denied(text).hint("set-group-id for a group of others needs CAP_FSETID")
        );
    }
    Ok(())
}

/// Makes the draft of what shall be at a path that stands in `parent`.
pub(super) fn draft(put: &Put, parent: OwnedFd, accounts: &Accounts) -> Result<Draft, Error> {
    let path = &put.path;
    clear(&parent, path);
    let family = family(path);
    let name = format!("{family}.{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let failed = |errno| Error::from(refusal("write the new", path, errno));
    match &put.make {
        Make::File { access, content, .. } => {
            let owners = owners(accounts, access)?;
            // Nobody else may read it before its owner and permissions are set.
            let private = Mode::RUSR | Mode::WUSR;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&parent, &name, flags, private).map_err(failed)?;
            let mut file = File::from(file);
            let io = |error: std::io::Error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO));
            // From here on the draft is cleared away when something goes wrong.
            let mut draft = Draft { parent, name, is_directory: false, file: None };
            draft.file = Some(file.try_clone().map_err(io)?);
            file.write_all(content.reveal()).map_err(io)?;
            set_access(&file, path, owners, access.mode)?;
            file.sync_all().map_err(io)?;
            Ok(draft)
        }
        Make::Link { target } => {
            rustix::fs::symlinkat(&**target, &parent, &name).map_err(failed)?;
            Ok(Draft { parent, name, is_directory: false, file: None })
        }
        Make::Directory { access } => {
            let owners = owners(accounts, access)?;
            rustix::fs::mkdirat(&parent, &name, Mode::RWXU).map_err(failed)?;
            let draft = Draft { parent, name, is_directory: true, file: None };
            let open = super::beneath::directory(&draft.parent, &draft.name).map_err(failed)?;
            set_access(&open, path, owners, access.mode)?;
            Ok(draft)
        }
    }
}

/// What the names of all drafts for a path begin with.
fn family(path: &FilePath) -> String {
    format!("{DRAFT}{}", Hash::of(path.as_str().as_bytes()))
}

/// Removes drafts for a path that were left behind by a crash.
pub(super) fn clear(parent: &OwnedFd, path: &FilePath) {
    let family = family(path);
    let Ok(mut entries) = Dir::read_from(parent) else { return };
    while let Some(Ok(entry)) = entries.next() {
        if entry.file_name().to_bytes().starts_with(family.as_bytes()) {
            let removed = rustix::fs::unlinkat(parent, entry.file_name(), AtFlags::empty());
            if removed == Err(Errno::ISDIR) {
                let _ = rustix::fs::unlinkat(parent, entry.file_name(), AtFlags::REMOVEDIR);
            }
        }
    }
}

/// Gives the draft its name; durable when it returns. `now` is what was there a moment ago.
pub(super) fn commit(put: &Put, draft: Draft, now: &Seen, accounts: &Accounts) -> Result<(), Fault> {
    let (parent, path) = (&draft.parent, &put.path);
    let renamed = match &now.what {
        // What came to be this instant is not overwritten.
        What::Absent => {
            match rustix::fs::renameat_with(parent, &draft.name, parent, path.name(), RenameFlags::NOREPLACE)
            {
                // Some file systems know no such flag.
                Err(Errno::INVAL) => rustix::fs::renameat(parent, &draft.name, parent, path.name()),
                result => result,
            }
        }
        _ => rustix::fs::renameat(parent, &draft.name, parent, path.name()),
    };
    match (renamed, &put.make) {
        (Ok(()), _) => {}
        (Err(Errno::EXIST), _) => return Err(Fault::NoEffect(moved(path))),
        (Err(Errno::BUSY), Make::File { .. }) => return in_place(put, &draft, accounts),
        (Err(errno), _) => return Err(Fault::NoEffect(refusal("replace", path, errno).into())),
    }
    sync(parent, path)
}

/// Makes what happened in a directory durable.
pub(super) fn sync(parent: &OwnedFd, path: &FilePath) -> Result<(), Fault> {
    rustix::fs::fsync(parent)
        .map_err(|errno| Fault::Unknown(refusal("store the directory of", path, errno).into()))
}

/// Rewrites a file that nothing can be renamed over. A crash on the way leaves a mixture, which the next look finds.
fn in_place(put: &Put, draft: &Draft, accounts: &Accounts) -> Result<(), Fault> {
    let Make::File { access, content, .. } = &put.make else { return Ok(()) };
    let path = &put.path;
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(&draft.parent, path.name(), flags, Mode::empty());
    let file = opened.map_err(|errno| Error::from(refusal("rewrite", path, errno)))?;
    let owners = owners(accounts, access)?;
    let mut file = File::from(file);
    // Who may not read the new content may not read it for an instant either.
    let narrow = rustix::fs::fstat(&file)
        .and_then(|stat| rustix::fs::fchmod(&file, Mode::from_raw_mode(stat.st_mode & access.mode & 0o777)));
    narrow.map_err(|errno| Error::from(refusal("rewrite", path, errno)))?;
    let mut rewrite = || {
        file.write_all(content.reveal())?;
        file.set_len(content.reveal().len() as u64)?;
        file.sync_all()
    };
    rewrite().map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        Fault::Unknown(refusal("rewrite in place", path, errno).into())
    })?;
    set_access(&file, path, owners, access.mode).map_err(Fault::Unknown)
}

/// Sets owner and permissions of a directory that is there.
pub(super) fn change_directory(
    path: &FilePath,
    access: &Access,
    parent: &OwnedFd,
    accounts: &Accounts,
) -> Result<(), Fault> {
    let owners = owners(accounts, access)?;
    let opened = super::beneath::directory(parent, path.name());
    let directory = opened.map_err(|errno| Error::from(refusal("open", path, errno)))?;
    set_access(&directory, path, owners, access.mode).map_err(Fault::Unknown)?;
    sync(&directory, path)
}

/// What is there is not what the request was made for.
pub(super) fn moved(path: &FilePath) -> Error {
    Error::conflict(format!("{path} changed since it was looked at"))
}
