//! Files in place of a source: a folder, standard input, or what somebody sent.

use super::sources::{Snapshot, files, tree_limits};
use crate::{
    config::SourceConfig,
    failure::Failure,
    source::{FolderTree, Limits, Paths, Tree},
};
use std::path::{Path, PathBuf};

/// Files in place of a source.
#[derive(Clone, Debug)]
pub enum Folder {
    /// On this host; `-` is standard input.
    At(PathBuf),
    /// Somebody sent them.
    Sent(FolderTree),
}

impl Folder {
    /// Reads the files. Blocks.
    pub fn open(self, limits: Limits) -> Result<Box<dyn Tree>, Failure> {
        Ok(Box::new(match self {
            Folder::Sent(tree) => tree,
            Folder::At(dir) if dir == Path::new("-") => {
                FolderTree::from_stream(std::io::stdin().lock(), limits)?
            }
            Folder::At(dir) => FolderTree::open(&dir, &Paths::all(), limits)?,
        }))
    }
    fn is_stream(&self) -> bool {
        matches!(self, Folder::At(dir) if dir == Path::new("-"))
    }
}

/// Files in place of a source. Blocks.
///
/// Named after a configured source it is that source, and prunes; without a name nothing is pruned.
pub(super) fn snapshot(folder: &Folder, name: Option<&SourceConfig>) -> Result<Snapshot, Failure> {
    let tree = folder.clone().open(name.map_or_else(Limits::default, tree_limits))?;
    let mut snapshot = files(tree, name);
    if folder.is_stream() {
        snapshot.rules.paths = vec![".".into()];
    }
    Ok(snapshot)
}
