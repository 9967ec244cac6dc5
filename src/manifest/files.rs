//! What a source has: its files, and one of them as text.

use bytes::Bytes;
use reconciled_provider::{Problem, SourceFile};
use std::sync::Arc;

/// The files of one source at one revision.
pub trait Files {
    /// Every regular file: its path within the source and the id of its content.
    fn entries(&self) -> Vec<(Arc<str>, [u8; 20])>;
    /// The content of a file. Where it cannot be had although it is there, what is loaded does not count: who gave the files knows.
    fn read(&self, path: &str) -> Result<Bytes, Box<Problem>>;
    /// What was refused by name: links, submodules, files that are too large. Each has its path as place.
    fn refused(&self) -> Vec<Problem> {
        Vec::new()
    }
}

/// Reads one file as text.
pub(super) fn read_text(files: &dyn Files, path: &Arc<str>) -> Result<SourceFile, Box<Problem>> {
    source_file(path, &files.read(path)?)
}

/// What a file begins with that Git LFS keeps elsewhere (git-lfs, docs/spec.md, "The Pointer").
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1";

/// Reads a file of a source as text.
///
/// Errors: it is no text, or stands for one that is elsewhere: what that declares nobody knows.
fn source_file(path: &Arc<str>, bytes: &[u8]) -> Result<SourceFile, Box<Problem>> {
    if bytes.starts_with(POINTER) {
        let problem = Problem::error("this is a pointer of Git LFS, and not the file itself").in_file(path);
        let hint = "keep it in Git: git lfs untrack PATTERN, then git add --renormalize . and commit";
        return Err(Box::new(problem.hint(hint)));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(SourceFile::new(path.clone(), text)),
        Err(error) => {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count();
            let message = format!("line {line} is not UTF-8 text");
            Err(Box::new(Problem::error(message).in_file(path).hint("save the file as UTF-8")))
        }
    }
}
