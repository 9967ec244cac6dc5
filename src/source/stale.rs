//! Locks that a killed process left in a mirror. libgit2 makes one beside each file that it replaces, and whoever
//! comes after finds it taken for ever.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

/// A lock is held while one small file is written; one that is as old as this and still there has no holder.
const PATIENCE: Duration = Duration::from_secs(1);

/// Removes locks that nobody holds any more; true when something was locked, so that trying again makes sense.
///
/// Waits for a moment where there is a lock at all.
pub(super) fn unlock(directory: &Path) -> bool {
    let mut before = Vec::new();
    locks(directory, 1, &mut before);
    locks(&directory.join("refs"), usize::MAX, &mut before);
    if before.is_empty() {
        return false;
    }
    thread::sleep(PATIENCE);
    for (lock, made) in before {
        if made.is_some() && modified(&lock) == made {
            tracing::warn!(lock = %lock.display(), "lock of a killed process is removed");
            // Where that cannot be done, the next try says why.
            let _ = fs::remove_file(&lock);
        }
    }
    true
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(file).and_then(|metadata| metadata.modified()).ok()
}

fn locks(directory: &Path, depth: usize, found: &mut Vec<(PathBuf, Option<SystemTime>)>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && depth > 1 {
            locks(&path, depth - 1, found);
        } else if !is_directory && path.extension().is_some_and(|extension| extension == "lock") {
            let made = modified(&path);
            found.push((path, made));
        }
    }
}
