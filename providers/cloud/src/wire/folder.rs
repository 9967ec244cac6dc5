//! The folders in which providers put their sockets, and what is done about those that were left behind.

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::{
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, PermissionsExt},
        },
    },
    path::Path,
    time::Duration,
};
use tempfile::TempDir;

/// What the folders of sockets are called.
const FOLDER: &str = "reconciled-plugin-";
/// The variable that says which it is.
pub(super) const FOR_SOCKET: &str = "PLUGIN_UNIX_SOCKET_DIR";
/// As old is a folder at least that nobody has and nobody is about to lock.
const STALE: Duration = Duration::from_secs(600);
/// Is in a folder once it was locked: who locked it is dead when nobody has the lock.
const LOCKED: &str = ".locked";

/// The folder of a socket, which only we can enter. It is ours for as long as we hold its lock: numbers of processes say
/// nothing where others have numbers of their own.
pub(super) struct Folder {
    pub(super) dir: TempDir,
    _lock: OwnedFd,
}

impl Folder {
    pub(super) fn new() -> std::io::Result<Folder> {
        let private = std::fs::Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix(FOLDER).permissions(private).tempdir()?;
        let lock = OwnedFd::from(std::fs::File::open(dir.path())?);
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        std::fs::write(dir.path().join(LOCKED), "")?;
        Ok(Folder { dir, _lock: lock })
    }
}

/// Removes folders of processes that were killed before they could, and ends what providers started that were killed with
/// them: of a group only its leader hears of that.
pub(super) fn sweep(temporary: &Path) {
    let Ok(entries) = std::fs::read_dir(temporary) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(FOLDER)) {
            continue;
        }
        let is_stale = |meta: &std::fs::Metadata| {
            let age = meta.modified().ok().and_then(|modified| modified.elapsed().ok());
            age.is_some_and(|age| age >= STALE) || entry.path().join(LOCKED).exists()
        };
        // No link is followed: another user may have put one there.
        let Ok(meta) = entry.metadata() else { continue };
        if !(meta.is_dir() && is_stale(&meta)) {
            continue;
        }
        // Another user's folder cannot be opened, and stays.
        let Ok(folder) = std::fs::File::open(entry.path()) else { continue };
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            end_those_of(&entry.path(), meta.uid());
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Ends the processes of a user that were started for a provider with this folder. They are known by their surroundings, which
/// they have from it, and not by a number, which may be another's by now.
fn end_those_of(folder: &Path, user: u32) {
    let told = [FOR_SOCKET.as_bytes(), b"=", folder.as_os_str().as_bytes()].concat();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let number = process.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = number.filter(|_| process.metadata().is_ok_and(|meta| meta.uid() == user)) else {
            continue;
        };
        // Before it is looked at: what is looked at is what is ended.
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let surroundings = std::fs::read(process.path().join("environ")).unwrap_or_default();
        if surroundings.split(|byte| *byte == 0).any(|variable| variable == told) {
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn folders_that_nobody_has_are_removed() {
        let world = tempfile::tempdir().unwrap();
        let make = |name: &str, age: u64| {
            let path = world.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("toy.sock"), "").unwrap();
            let folder = std::fs::File::open(&path).unwrap();
            let now = std::fs::metadata(&path).unwrap().modified().unwrap();
            folder.set_modified(now - Duration::from_secs(age)).unwrap();
            folder
        };
        let hour = 3600;
        drop(make("reconciled-plugin-left", hour));
        drop(make("reconciled-plugin-new", 0));
        drop(make("other", hour));
        let held = make("reconciled-plugin-held", hour);
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        sweep(world.path());
        let mut left: Vec<String> = std::fs::read_dir(world.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["other", "reconciled-plugin-held", "reconciled-plugin-new"]);
    }

    #[test]
    fn what_a_provider_started_ends_when_nobody_has_its_folder() {
        let world = tempfile::tempdir().unwrap();
        let start = |name: &str| {
            let path = world.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join(LOCKED), "").unwrap();
            let mut command = std::process::Command::new("/bin/sleep");
            let child = command.arg("600").env(FOR_SOCKET, &path).spawn().unwrap();
            // The kernel lets the parent go on before the new program has its surroundings.
            while std::fs::read(format!("/proc/{}/environ", child.id())).unwrap().is_empty() {
                std::thread::yield_now();
            }
            (child, std::fs::File::open(path).unwrap())
        };
        let (mut orphan, _) = start("reconciled-plugin-orphan");
        let (mut child, lock) = start("reconciled-plugin-held");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        sweep(world.path());
        assert_eq!(orphan.wait().unwrap().signal(), Some(9));
        assert_eq!(child.try_wait().unwrap(), None, "somebody has it");
        assert!(!world.path().join("reconciled-plugin-orphan").exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
