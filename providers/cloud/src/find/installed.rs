//! What was installed: a folder of our own, laid out as an unpacked mirror, with a note of checksums beside each. All of it
//! belongs to whoever has the state, whoever installs.

use super::{
    address::platform,
    archive,
    found::{Found, Vouched, unread},
    mirror::{self, Artefact},
    sums::Sums,
    wanted::Wanted,
};
use crate::owner;
use reconciled_provider::Error;
use semver::Version;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

/// What an installation is prepared in.
const NEW: &str = ".new-";
/// Nobody prepares one for so long.
const STALE: Duration = Duration::from_secs(3_600);

/// What is put down beside an installation.
#[derive(Serialize, Deserialize)]
struct Note {
    #[serde(flatten)]
    sums: Sums,
    /// Which file of a mirror it is from, as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<String>,
}

fn note_of(folder: &Path) -> PathBuf {
    folder.with_extension("sums.json")
}

fn read_note(folder: &Path) -> Option<Note> {
    serde_json::from_slice(&fs::read(note_of(folder)).ok()?).ok()
}

fn found(wanted: &Wanted, folder: PathBuf, sums: Sums) -> Result<Found, Error> {
    let program = wanted.program_in(&folder)?;
    Ok(Found { program, vouched: Some((folder, Vouched::Installed(sums))) })
}

/// The newest installed one that will do. One without a note, or with other checksums than are asked for, is none.
pub(super) fn newest(wanted: &Wanted) -> Result<Option<Found>, Error> {
    let offer =
        mirror::list(&wanted.folder, &wanted.address).map_err(|error| unread(&wanted.folder, error))?;
    let sound = offer.ours.into_iter().filter_map(|(version, artefact)| {
        let Artefact::Unpacked(folder) = artefact else { return None };
        let note = read_note(&folder)?;
        note.sums.are_among(&wanted.hashes).then_some((version, (folder, note.sums)))
    });
    let newest = wanted.version.newest(sound);
    newest.map(|(_, (folder, sums))| found(wanted, folder, sums)).transpose()
}

/// The one that was installed from that very file.
pub(super) fn of_stamp(wanted: &Wanted, version: &Version, stamp: &str) -> Result<Option<Found>, Error> {
    let folder = place(wanted, version);
    let note = read_note(&folder).filter(|note| {
        folder.is_dir() && note.stamp.as_deref() == Some(stamp) && note.sums.are_among(&wanted.hashes)
    });
    note.map(|note| found(wanted, folder, note.sums)).transpose()
}

fn place(wanted: &Wanted, version: &Version) -> PathBuf {
    let (address, (os, arch)) = (&wanted.address, platform());
    let of_address = [&*address.host.replace(':', "_"), &address.namespace, &address.name];
    let folder = of_address.iter().fold(wanted.folder.clone(), |folder, part| folder.join(part));
    folder.join(version.to_string()).join(format!("{os}_{arch}"))
}

/// A folder to prepare an installation in, on the file system where it will be.
pub(super) fn prepare(wanted: &Wanted) -> Result<TempDir, Error> {
    let folder = &wanted.folder;
    let failed =
        |error| Error::unavailable(format!("make a folder in {}", folder.display())).caused_by(error);
    make(folder).map_err(failed)?;
    hand_over(folder).map_err(failed)?;
    sweep(folder);
    tempfile::Builder::new().prefix(NEW).tempdir_in(folder).map_err(failed)
}

/// Gives the folder of installations and what is in it to whoever has the state.
fn hand_over(folder: &Path) -> io::Result<()> {
    match (folder.parent(), folder.file_name().and_then(|name| name.to_str())) {
        (Some(state), Some(name)) => owner::hand_over(state, name),
        _ => Ok(()),
    }
}

/// Makes a folder that nobody else may enter.
fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Removes what was left by those that were killed while they prepared one.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(NEW));
        if is_ours && age.is_some_and(|age| age >= STALE) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Installs an archive of a mirror whose checksum is `sum`.
pub(super) fn unpack(
    wanted: &Wanted,
    version: &Version,
    archive: &Path,
    sum: &str,
    stamp: String,
) -> Result<Found, Error> {
    let scratch = prepare(wanted)?;
    put(wanted, version, (archive, sum), &scratch, Some(stamp))
}

/// Unpacks `archive` in `scratch`, and puts it into its place as a whole.
///
/// Errors: `Invalid` for an archive that is broken or has none of the checksums that are asked for.
pub(super) fn put(
    wanted: &Wanted,
    version: &Version,
    (archive, sum): (&Path, &str),
    scratch: &TempDir,
    stamp: Option<String>,
) -> Result<Found, Error> {
    let failed = |error: io::Error| wanted.failed("it cannot be put into its place").caused_by(error);
    let files = scratch.path().join("files");
    make(&files).map_err(failed)?;
    archive::unpack(archive, &files).map_err(|why| wanted.refused(&why))?;
    // Refused here and not after it was put into the place of one that is good.
    wanted.program_in(&files)?;
    let sums = Sums { zh: Some(format!("zh:{sum}")), ..Sums::of_folder(&files).map_err(failed)? };
    sums.check(&wanted.hashes, &wanted.address)?;

    let folder = place(wanted, version);
    let above = folder.parent().unwrap_or(&wanted.folder);
    make(above).map_err(failed)?;
    let note = serde_json::to_vec(&Note { sums: sums.clone(), stamp }).unwrap_or_default();
    // What is in its place was not good enough; it goes before its note does, so that none is ever beside a wrong note.
    if folder.exists() {
        fs::rename(&folder, scratch.path().join("old")).map_err(failed)?;
    }
    let mut file = tempfile::NamedTempFile::new_in(scratch.path()).map_err(failed)?;
    io::Write::write_all(&mut file, &note).map_err(failed)?;
    file.persist(note_of(&folder)).map_err(|error| failed(error.error))?;
    match fs::rename(&files, &folder) {
        // Somebody else put the same there meanwhile.
        Err(error) if !folder.is_dir() => return Err(failed(error)),
        _ => {}
    }
    hand_over(&wanted.folder).map_err(failed)?;
    found(wanted, folder, sums)
}
