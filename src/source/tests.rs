//! Each state a source can be in, made with real repositories and real servers.

mod damage;
mod polls;
mod remotes;
mod ssh;
mod trees;

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::fixture::*;
use super::*;

/// Polls for the first time and returns the commit.
fn first(mirror: &Mirror) -> Oid {
    match mirror.poll(None, None).unwrap() {
        Polled::Changed { from: None, to, .. } => to.oid,
        other => panic!("{other:?}"),
    }
}

fn names(tree: &dyn Tree) -> Vec<&str> {
    tree.entries().iter().map(|entry| &*entry.path).collect()
}

fn refused(tree: &dyn Tree) -> Vec<(&str, Reason)> {
    tree.refused().iter().map(|refused| (refused.path.as_str(), refused.reason.clone())).collect()
}

fn read(tree: &dyn Tree, path: &str) -> String {
    let content = tree.contents().read(tree.find(path).unwrap()).unwrap();
    String::from_utf8(content.to_vec()).unwrap()
}

/// The files below a directory, for noticing that something was fetched.
fn files_below(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries.map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { 1 }).sum()
}
