//! Writing a file whole.

use std::{
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown},
    path::Path,
};

/// Puts `bytes` in place of the file at `path`, whose directory is there, for its owner alone to read. Readers see the old content or
/// the new one, also after a crash.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_prepared(path, bytes, |_| Ok(()))
}

/// As [`replace`], for whoever may read a new file here; one that is there keeps its owner, group and mode. Until it has them its
/// content is for this user alone.
pub(crate) fn replace_open(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) => replace_prepared(path, bytes, |file| hand_over(file, &found)),
        Err(_) => put(path, bytes, 0o666, |_| Ok(())),
    }
}

/// Gives a file to whom another one belongs. The mode comes last: a change of the owner takes some of it away.
fn hand_over(file: &File, found: &Metadata) -> io::Result<()> {
    fchown(file, Some(found.uid()), Some(found.gid()))?;
    file.set_permissions(found.permissions())
}

/// As [`replace`]; `prepare` sees the new file before it gets its name, and may give it to others.
pub(crate) fn replace_prepared(
    path: &Path,
    bytes: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    put(path, bytes, 0o600, prepare)
}

/// Replaces a file by one that is made with `mode`, as far as the umask lets it have that.
fn put(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Opened and written here: an error of `tempfile` has a name in it that nobody knows, and that is another each time.
    let open = |new: &Path| File::options().write(true).create_new(true).mode(mode).open(new);
    let file = tempfile::Builder::new().make_in(folder, open)?;
    let mut content = file.as_file();
    content.write_all(bytes)?;
    prepare(file.as_file())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // The file is in place. Some file systems of others take no word about directories, and who may write into a directory need
        // not be allowed to read it.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::PermissionDenied) => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::Permissions,
        os::unix::fs::{PermissionsExt, chown},
    };

    #[test]
    fn a_file_is_replaced_for_its_owner_alone_or_as_it_was_prepared_and_stays_where_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let is = |content: &str, mode: u32| {
            let found = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), found), (content, mode));
        };
        replace(&path, b"one").unwrap();
        is("one", 0o600);
        let prepare = |file: &File| {
            assert_eq!(
                file.metadata()?.permissions().mode() & 0o777,
                0o600,
                "others read it before it is theirs"
            );
            file.set_permissions(Permissions::from_mode(0o640))
        };
        replace_prepared(&path, b"two", prepare).unwrap();
        is("two", 0o640);
        let failed = replace_prepared(&path, b"three", |_| Err(ErrorKind::Other.into()));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Other);
        is("two", 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(replace(&path.join("below"), b"four").is_err());
        replace_open(&path, b"five").unwrap();
        is("five", 0o640);
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(65_534), Some(65_534)).unwrap();
            replace_open(&path, b"of another one").unwrap();
            is("of another one", 0o640);
            let found = fs::metadata(&path).unwrap();
            assert_eq!((found.uid(), found.gid()), (65_534, 65_534));
        }
        let (new, usual) = (folder.path().join("b"), folder.path().join("c"));
        replace_open(&new, b"six").unwrap();
        fs::write(&usual, "six").unwrap();
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode(&new), mode(&usual));
        let missing = replace(&folder.path().join("nosuch/x"), b"seven").unwrap_err();
        assert_eq!(missing.to_string(), io::Error::from_raw_os_error(2).to_string());
    }
}
