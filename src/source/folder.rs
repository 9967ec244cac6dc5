//! A plain folder or standard input as a [`Tree`].
//!
//! The content is read once and kept, so that what was listed is what is read, whatever happens to the folder
//! meanwhile. Symbolic links are refused as in a commit; only the folder itself may be one, since its user named it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::error::io_error;
use super::tree::{Contents, Entry, Limits, Listing, Paths, Reason, Refused, Relation, Tree};
use super::{CommitInfo, Oid, SourceError};

/// The path under which standard input is listed.
pub const STDIN: &str = "<stdin>";

/// Files held in memory: a folder's, or one read from a stream.
#[derive(Clone, Debug)]
pub struct FolderTree {
    entries: Vec<Entry>,
    refused: Vec<Refused>,
    contents: HashMap<Arc<str>, Bytes>,
}

impl FolderTree {
    /// Reads every file of `directory` below `paths`, without `.git`.
    ///
    /// # Errors
    /// [`SourceError::NotADirectory`], [`SourceError::PathNotFound`], a passed limit, or [`SourceError::Io`] where
    /// a directory cannot be listed. A single file that cannot be read is refused, not an error.
    pub fn open(directory: &Path, paths: &Paths, limits: Limits) -> Result<Self, SourceError> {
        let root = fs::metadata(directory).map_err(io_error("read", directory))?;
        if !root.is_dir() {
            return Err(SourceError::NotADirectory { path: directory.to_owned() });
        }
        let mut reader = Reader { listing: Listing::new(paths, limits), contents: HashMap::new(), limits };
        let mut directories = vec![(String::new(), directory.to_owned())];
        while let Some((name, path)) = directories.pop() {
            reader.read_directory(&name, &path, &mut directories)?;
        }
        let (entries, refused) = reader.listing.finish(|| directory.display().to_string())?;
        Ok(Self { entries, refused, contents: reader.contents })
    }

    /// Reads `stream` to its end, as one file named [`STDIN`].
    ///
    /// # Errors
    /// [`SourceError::FileTooLarge`], [`SourceError::Io`].
    pub fn from_stream(stream: impl Read, limits: Limits) -> Result<Self, SourceError> {
        let limit = limits.file.min(limits.tree);
        let content = read_up_to(stream, limit)
            .map_err(io_error("read", Path::new(STDIN)))?
            .ok_or_else(|| SourceError::FileTooLarge { path: STDIN.to_owned(), limit })?;
        let path: Arc<str> = STDIN.into();
        let entry = Entry { path: path.clone(), oid: name_of(&content)?, size: content.len() as u64 };
        Ok(Self { entries: vec![entry], refused: Vec::new(), contents: HashMap::from([(path, content)]) })
    }

    /// Takes `files` as they were sent, under the same rules as a folder's.
    ///
    /// `refused` is what the sender left out, with the reason in words.
    ///
    /// # Errors
    /// A passed limit.
    pub fn of(
        files: Vec<(String, Bytes)>,
        refused: Vec<(String, String)>,
        limits: Limits,
    ) -> Result<Self, SourceError> {
        let paths = Paths::all();
        let mut reader = Reader { listing: Listing::new(&paths, limits), contents: HashMap::new(), limits };
        for (path, content) in files {
            reader.take(&path, content)?;
        }
        for (path, reason) in refused {
            reader.listing.refuse(path, Reason::Told(reason));
        }
        let (entries, refused) = reader.listing.finish(String::new)?;
        Ok(Self { entries, refused, contents: reader.contents })
    }
}

impl Tree for FolderTree {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn refused(&self) -> &[Refused] {
        &self.refused
    }

    fn contents(&self) -> Box<dyn Contents + '_> {
        Box::new(self)
    }

    fn revision(&self) -> Option<&CommitInfo> {
        None
    }
}

impl Contents for &FolderTree {
    fn read(&self, entry: &Entry) -> Result<Bytes, SourceError> {
        let content = self.contents.get(&entry.path).cloned();
        content.ok_or_else(|| SourceError::NotListed { path: entry.path.to_string() })
    }
}

struct Reader<'a> {
    listing: Listing<'a>,
    contents: HashMap<Arc<str>, Bytes>,
    limits: Limits,
}

impl Reader<'_> {
    fn take(&mut self, path: &str, content: Bytes) -> Result<(), SourceError> {
        // Each directory on the way is checked as if it had been listed.
        let mut directory = String::new();
        for name in path.split('/') {
            match self.listing.visit(&directory, name.as_bytes())? {
                Some((path, _)) => directory = path,
                None => return Ok(()),
            }
        }
        let (size, limit) = (content.len() as u64, self.limits.file);
        if size > limit {
            self.listing.refuse(directory, Reason::TooLarge { size, limit });
        } else if !self.contents.contains_key(&*directory) && self.listing.admit(&directory, size)? {
            let oid = name_of(&content)?;
            self.listing.push(&directory, oid, size);
            self.contents.insert(directory.into(), content);
        }
        Ok(())
    }

    fn read_directory(
        &mut self,
        name: &str,
        path: &Path,
        directories: &mut Vec<(String, PathBuf)>,
    ) -> Result<(), SourceError> {
        for entry in fs::read_dir(path).map_err(io_error("list", path))? {
            let entry = entry.map_err(io_error("list", path))?;
            if entry.file_name() == ".git" {
                continue;
            }
            let Some((name, relation)) = self.listing.visit(name, entry.file_name().as_bytes())? else {
                continue;
            };
            let path = entry.path();
            // Does not follow a symbolic link.
            let kind = entry.file_type().map_err(io_error("read", &path))?;
            if kind.is_dir() {
                directories.push((name, path));
            } else if kind.is_symlink() {
                self.listing.refuse(name, Reason::Symlink);
            } else if relation != Relation::Inside {
                // A file where the filter expects a directory.
            } else if kind.is_file() {
                self.read_file(name, &path)?;
            } else {
                self.listing.refuse(name, Reason::NotAFile);
            }
        }
        Ok(())
    }

    fn read_file(&mut self, name: String, path: &Path) -> Result<(), SourceError> {
        let size = |path| fs::symlink_metadata(path).map(|metadata| metadata.len());
        let content = File::open(path).and_then(|file| read_up_to(file, self.limits.file));
        match content {
            Ok(Some(content)) => {
                if self.listing.admit(&name, content.len() as u64)? {
                    let oid = name_of(&content)?;
                    self.listing.push(&name, oid, content.len() as u64);
                    self.contents.insert(name.into(), content);
                }
            }
            Ok(None) => {
                let limit = self.limits.file;
                let size = size(path).unwrap_or(limit + 1);
                self.listing.refuse(name, Reason::TooLarge { size, limit });
            }
            Err(error) => self.listing.refuse(name, Reason::Unreadable(error.to_string())),
        }
        Ok(())
    }
}

/// Names the content of a file as Git does.
fn name_of(content: &[u8]) -> Result<Oid, SourceError> {
    Oid::of_blob(content).map_err(|error| SourceError::Hash { cause: error.into() })
}

/// Reads to the end, or returns nothing when that is farther than `limit`.
fn read_up_to(stream: impl Read, limit: u64) -> io::Result<Option<Bytes>> {
    let mut content = Vec::new();
    stream.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    let fits = content.len() as u64 <= limit;
    Ok(fits.then(|| content.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { file: 16, tree: 32, entries: 100 };

    fn write(directory: &Path, path: &str, content: &str) {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn names(tree: &FolderTree) -> Vec<&str> {
        tree.entries().iter().map(|entry| &*entry.path).collect()
    }

    #[test]
    fn a_folder_is_listed_sorted_with_the_content_names_of_git() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "b/c.yaml", "hello\n");
        write(folder.path(), "a.yaml", "");
        write(folder.path(), ".hidden/x", "x");
        write(folder.path(), ".git/config", "x");
        let tree = FolderTree::open(folder.path(), &Paths::all(), LIMITS).unwrap();
        assert_eq!(names(&tree), [".hidden/x", "a.yaml", "b/c.yaml"]);
        let entry = (&tree as &dyn Tree).find("b/c.yaml").unwrap();
        assert_eq!(entry.oid.to_string(), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!((&tree).read(entry).unwrap(), "hello\n");
        assert_eq!(tree.revision(), None);
    }

    #[test]
    fn links_sockets_odd_names_and_large_files_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "good.yaml", "x");
        write(folder.path(), "large.yaml", "0123456789abcdefg");
        write(folder.path(), ".GIT/config", "x");
        write(folder.path(), "back\\slash", "x");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("evil.yaml")).unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("etc")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"\xff.yaml")), "x").unwrap();
        let tree = FolderTree::open(folder.path(), &Paths::all(), LIMITS).unwrap();
        assert_eq!(names(&tree), ["good.yaml"]);
        let refused: Vec<_> =
            tree.refused().iter().map(|refused| (refused.path.as_str(), refused.reason.clone())).collect();
        assert_eq!(
            refused,
            [
                (".GIT", Reason::ReservedName),
                ("back\\slash", Reason::ReservedName),
                ("etc", Reason::Symlink),
                ("evil.yaml", Reason::Symlink),
                ("large.yaml", Reason::TooLarge { size: 17, limit: 16 }),
                ("socket", Reason::NotAFile),
                ("\u{fffd}.yaml", Reason::NotUtf8),
            ]
        );
    }

    #[test]
    fn a_folder_over_a_limit_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            write(folder.path(), name, "0123456789abcdef");
        }
        let open = |limits| FolderTree::open(folder.path(), &Paths::all(), limits);
        assert!(matches!(open(LIMITS), Err(SourceError::TreeTooLarge { limit: 32 })));
        let few = Limits { entries: 2, ..LIMITS };
        assert!(matches!(open(few), Err(SourceError::TooManyEntries { limit: 2 })));
    }

    #[test]
    fn only_the_named_paths_are_read() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "env/prod/a", "x");
        write(folder.path(), "env/test/a", "x");
        write(folder.path(), "common", "x");
        let open = |paths: &[&str]| FolderTree::open(folder.path(), &Paths::new(paths).unwrap(), LIMITS);
        assert_eq!(names(&open(&["env/prod"]).unwrap()), ["env/prod/a"]);
        assert_eq!(names(&open(&["common", "env"]).unwrap()), ["common", "env/prod/a", "env/test/a"]);
        match open(&["common", "env/stage"]) {
            Err(SourceError::PathNotFound { path, .. }) => assert_eq!(path, "env/stage"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_or_nothing_in_place_of_the_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", "x");
        let open = |path: &str| FolderTree::open(&folder.path().join(path), &Paths::all(), LIMITS);
        assert!(matches!(open("a"), Err(SourceError::NotADirectory { .. })));
        assert!(matches!(open("b"), Err(SourceError::Io { .. })));
    }

    #[test]
    fn files_that_were_sent_are_under_the_same_rules() {
        let file = |path: &str, content: &str| (path.to_string(), Bytes::from(content.to_string()));
        let sent = vec![
            file("b/c.yaml", "hello\n"),
            file("a.yaml", ""),
            file("a.yaml", "twice"),
            file("../etc/passwd", "x"),
            file("/abs", "x"),
            file("large.yaml", "0123456789abcdefg"),
        ];
        let tree = FolderTree::of(sent, vec![("link".into(), "a link".into())], LIMITS).unwrap();
        assert_eq!(names(&tree), ["a.yaml", "b/c.yaml"]);
        let refused: Vec<_> = tree.refused().iter().map(|refused| refused.path.as_str()).collect();
        assert_eq!(refused, ["", "..", "large.yaml", "link"]);
        let many = (0..5).map(|n| file(&format!("{n}"), "0123456789")).collect();
        assert!(matches!(FolderTree::of(many, vec![], LIMITS), Err(SourceError::TreeTooLarge { .. })));
    }

    #[test]
    fn standard_input_is_one_file_with_a_limit() {
        let tree = FolderTree::from_stream(&b"hello\n"[..], LIMITS).unwrap();
        assert_eq!(names(&tree), [STDIN]);
        assert_eq!((&tree).read(&tree.entries()[0]).unwrap(), "hello\n");
        let large = FolderTree::from_stream(io::repeat(b'x'), LIMITS);
        assert!(matches!(large, Err(SourceError::FileTooLarge { limit: 16, .. })));
    }
}
