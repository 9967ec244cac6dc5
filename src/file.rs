//! Writing a file whole.

use std::{
    fs::File,
    io::{self, ErrorKind, Write as _},
    path::Path,
};

/// Puts `bytes` in place of the file at `path`, whose directory is there, for its owner alone to read. Readers see the old content or
/// the new one, also after a crash.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_prepared(path, bytes, |_| Ok(()))
}

/// As [`replace`]; `prepare` sees the new file before it gets its name, and may give it to others.
pub(crate) fn replace_prepared(
    path: &Path,
    bytes: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
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
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
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
        replace_prepared(&path, b"two", |file| file.set_permissions(Permissions::from_mode(0o640))).unwrap();
        is("two", 0o640);
        let failed = replace_prepared(&path, b"three", |_| Err(ErrorKind::Other.into()));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Other);
        is("two", 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(replace(&path.join("below"), b"four").is_err());
    }
}
