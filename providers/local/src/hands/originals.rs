//! Copies of what somebody else wrote, kept before it is replaced or deleted.
//!
//! `DIRECTORY/=2Fetc=2Fmotd/HASH`: one directory for each path, one file for each content, the newest few of them. Only
//! the process's own user may read them.

use crate::path::FilePath;
use reconciled_provider::{Error, Hash};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Copies of one path that are kept.
const KEPT: usize = 8;

/// Keeps `content` of `path`; durable when it returns.
pub(super) fn keep(directory: &Path, path: &FilePath, content: &[u8]) -> Result<(), Error> {
    let place = directory.join(folder(path));
    store(&place, content).map_err(|error| {
        Error::unavailable(format!(
            "keep a copy of what somebody else wrote in {path}, at {}",
            place.display()
        ))
        .hint("it is not replaced without; `originals` of the provider entry says where copies go")
        .caused_by(error)
    })
}

/// The name of the directory of a path's copies. A path may be longer than any name.
fn folder(path: &FilePath) -> String {
    let name = path.as_str().replace('=', "=3D").replace('/', "=2F");
    if name.len() <= 255 { name } else { format!("={}", Hash::of(path.as_str().as_bytes())) }
}

/// Makes a directory and those above it; those that something was made in are added to `grown`.
fn make(place: &Path, grown: &mut Vec<PathBuf>) -> io::Result<()> {
    if place.is_dir() {
        return Ok(());
    }
    let Some(parent) = place.parent() else { return Ok(()) };
    make(parent, grown)?;
    match fs::DirBuilder::new().mode(0o700).create(place) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => result?,
    }
    grown.push(parent.into());
    Ok(())
}

fn store(place: &Path, content: &[u8]) -> io::Result<()> {
    let mut grown = Vec::new();
    make(place, &mut grown)?;
    let file = place.join(Hash::of(content).to_string());
    // It has its name before it is whole: until it is on the disk, what it is a copy of stays where it is.
    let is_there = fs::read(&file).is_ok_and(|kept| kept == content);
    let mut options = fs::OpenOptions::new();
    let mut out = options.write(true).create(true).truncate(!is_there).mode(0o600).open(&file)?;
    if !is_there {
        out.write_all(content)?;
    }
    out.sync_all()?;
    // All at once, after the file: most file systems have stored them with it.
    grown.push(place.into());
    for directory in grown {
        fs::File::open(directory)?.sync_all()?;
    }
    if is_there {
        // The newest is what was there last.
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        futimens(&out, &Timestamps { last_access: now, last_modification: now })?;
    }
    let mut kept: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        kept.push((entry.metadata()?.modified()?, entry.path()));
    }
    // Times may be equal: the one that was just written stays whatever they say.
    kept.retain(|(_, path)| *path != file);
    kept.sort();
    for (_, old) in kept.iter().rev().skip(KEPT - 1) {
        fs::remove_file(old)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn copies_are_private_and_the_newest_few() {
        let directory = tempfile::tempdir().unwrap();
        let path = FilePath::parse("/etc/a=b").unwrap();
        for number in 0..20 {
            keep(&directory.path().join("originals"), &path, format!("{number}").as_bytes()).unwrap();
        }
        let place = directory.path().join("originals/=2Fetc=2Fa=3Db");
        let texts: Vec<String> = fs::read_dir(&place)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
                fs::read_to_string(entry.path()).unwrap()
            })
            .collect();
        assert_eq!(texts.len(), KEPT);
        assert!(texts.contains(&"19".into()));
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_long_path_has_a_directory_too() {
        let path = FilePath::parse(&format!("/etc/{}/{}", "a".repeat(200), "b".repeat(200))).unwrap();
        assert!(folder(&path).len() <= 255);
    }
}
