//! Many small packs become one: every fetch leaves a pack, and every read looks through all of them.
//!
//! # Guarantees
//! - A pack goes only after one that holds all that a ref reaches is on the disk, and only when it is so old that
//!   no fetch of another process can be about to name what is in it.
//! - Failure costs nothing: the packs stay as they are, and the next poll tries again.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use git2::Repository;

/// So many packs may lie beside each other: one read looks at each in microseconds.
const MOST: usize = 50;

/// A pack that is newer than the new one by less than this may belong to a fetch that is still going on.
const YOUNG: Duration = Duration::from_secs(3600);

/// Puts what the refs reach into one pack where there are many.
pub(super) fn compact(repository: &Repository) {
    match try_compact(repository) {
        Ok(0) => {}
        Ok(count) => tracing::debug!(path = %repository.path().display(), count, "packs united"),
        Err(error) => {
            tracing::debug!(path = %repository.path().display(), %error, "packs not united");
        }
    }
}

/// Returns how many packs went.
fn try_compact(repository: &Repository) -> Result<usize, Box<dyn std::error::Error>> {
    let folder = repository.path().join("objects/pack");
    // Before the refs are read: what arrives later is in none of these.
    let old = packs(&folder)?;
    if old.len() <= MOST {
        return Ok(0);
    }
    let mut walk = repository.revwalk()?;
    let mut builder = repository.packbuilder()?;
    for reference in repository.references()? {
        if let Some(oid) = reference?.target() {
            builder.insert_recursive(oid, None)?;
            walk.push(oid)?;
        }
    }
    builder.insert_walk(&mut walk)?;
    let odb = repository.odb()?;
    let mut writer = odb.packwriter()?;
    let mut result = Ok(());
    builder.foreach(|bytes| {
        result = writer.write_all(bytes);
        result.is_ok()
    })?;
    result?;
    writer.commit()?;
    let made = packs(&folder)?.into_iter().filter(|(path, _)| !old.iter().any(|(known, _)| known == path));
    let Some(now) = made.map(|(_, at)| at).max() else { return Ok(0) };
    let mut gone = 0;
    for (path, at) in old {
        if now.duration_since(at).is_ok_and(|age| age > YOUNG) {
            // The index first: a pack without one is not looked at.
            fs::remove_file(path.with_extension("idx"))?;
            fs::remove_file(&path)?;
            gone += 1;
        }
    }
    Ok(gone)
}

/// The packs and when each was written.
fn packs(folder: &Path) -> std::io::Result<Vec<(PathBuf, SystemTime)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            let at = fs::metadata(&path)?.modified()?;
            found.push((path, at));
        }
    }
    Ok(found)
}
