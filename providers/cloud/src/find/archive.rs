//! Unpacking the archive of a provider.
//!
//! *Guarantees*: nothing is written outside of the folder; a link, a name that leads out, a second file of one name and
//! what is larger than any provider are refused, with the archive as a whole.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Component, Path, PathBuf},
};
use zip::ZipArchive;

/// As much may come out of an archive: the largest providers have less than one.
const LARGEST: u64 = 4 << 30;
/// As many files may.
const MOST: usize = 1_000;

/// Unpacks `archive` into `folder`, which is there and empty.
///
/// Errors: what is wrong with it; the folder then holds a part.
pub(super) fn unpack(archive: &Path, folder: &Path) -> Result<(), String> {
    let broken = |why: &dyn std::fmt::Display| format!("the archive cannot be unpacked: {why}");
    let file = File::open(archive).map_err(|error| broken(&error))?;
    let mut archive = ZipArchive::new(io::BufReader::new(file)).map_err(|error| broken(&error))?;
    if archive.len() > MOST {
        return Err(format!("the archive has {} files, which no provider has", archive.len()));
    }
    let mut left = LARGEST;
    for number in 0..archive.len() {
        let mut entry = archive.by_index(number).map_err(|error| broken(&error))?;
        let name = entry.name().to_string();
        let path = inside(&name).ok_or_else(|| {
            format!("the archive has a file whose name leads out of it: `{}`", name.escape_debug())
        })?;
        let place = folder.join(path);
        if entry.is_dir() {
            fs::create_dir_all(&place).map_err(|error| broken(&error))?;
            continue;
        }
        let kind = entry.unix_mode().unwrap_or_default() & 0o170_000;
        if ![0, 0o100_000].contains(&kind) {
            return Err(format!("the archive has something that is no file: `{}`", name.escape_debug()));
        }
        let mode = if entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0) { 0o755 } else { 0o644 };
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(|error| broken(&error))?;
        }
        let written = write(&mut entry, &place, mode, left).map_err(|error| broken(&error))?;
        left = left.checked_sub(written).ok_or("the archive is larger than any provider")?;
    }
    Ok(())
}

/// Returns how much was written: one byte more than may be, where there is more.
fn write(from: &mut impl Read, place: &Path, mode: u32, limit: u64) -> io::Result<u64> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(place)?;
    let written = io::copy(&mut from.take(limit + 1), &mut file)?;
    file.flush()?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()?;
    Ok(written)
}

/// The path in a name of an archive, where it stays below.
fn inside(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let stays = path.components().all(|part| matches!(part, Component::Normal(_)));
    (stays && !name.is_empty() && !name.contains(['\\', '\0'])).then(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zip::{ZipWriter, write::SimpleFileOptions};

    fn unpacked(fill: impl Fn(&mut ZipWriter<File>)) -> (tempfile::TempDir, Result<(), String>) {
        let world = tempfile::tempdir().unwrap();
        let (archive, folder) = (world.path().join("a.zip"), world.path().join("in/side"));
        fs::create_dir_all(&folder).unwrap();
        let mut writer = ZipWriter::new(File::create(&archive).unwrap());
        fill(&mut writer);
        writer.finish().unwrap();
        let done = unpack(&archive, &folder);
        (world, done)
    }

    fn file(writer: &mut ZipWriter<File>, name: &str, mode: u32) {
        writer.start_file(name, SimpleFileOptions::default().unix_permissions(mode)).unwrap();
        writer.write_all(b"content").unwrap();
    }

    #[test]
    fn an_archive_becomes_files_that_can_be_run_where_they_could_be() {
        let (world, done) = unpacked(|writer| {
            file(writer, "terraform-provider-x", 0o755);
            file(writer, "doc/README", 0o600);
        });
        done.unwrap();
        let mode = |name| fs::metadata(world.path().join("in/side").join(name)).unwrap().permissions().mode();
        assert_eq!((mode("terraform-provider-x") & 0o777, mode("doc/README") & 0o777), (0o755, 0o644));
    }

    #[test]
    fn a_name_that_leads_out_is_refused() {
        for name in ["../out", "a/../../out", "/tmp/out", "..\\out", "a/./../../out"] {
            let (world, done) = unpacked(|writer| file(writer, name, 0o644));
            assert!(done.unwrap_err().contains("leads out"), "{name}");
            assert!(!world.path().join("out").exists() && !world.path().join("in/out").exists(), "{name}");
        }
    }

    #[test]
    fn a_link_is_refused() {
        let (_world, done) = unpacked(|writer| {
            writer.add_symlink("a", "/etc", SimpleFileOptions::default()).unwrap();
        });
        assert_eq!(done.unwrap_err(), "the archive has something that is no file: `a`");
    }

    #[test]
    fn half_an_archive_is_none() {
        let world = tempfile::tempdir().unwrap();
        let (archive, folder) = (world.path().join("a.zip"), world.path().join("in"));
        fs::create_dir(&folder).unwrap();
        let mut writer = ZipWriter::new(File::create(&archive).unwrap());
        file(&mut writer, "terraform-provider-x", 0o755);
        writer.finish().unwrap();
        let whole = fs::read(&archive).unwrap();
        fs::write(&archive, &whole[..whole.len() / 2]).unwrap();
        assert!(unpack(&archive, &folder).unwrap_err().starts_with("the archive cannot be unpacked"));
    }
}
