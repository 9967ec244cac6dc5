//! What is written of a declaration of which something is ignored: that stays as it was seen.

use crate::state::{Access, File, Shape};
use reconciled_provider::is_ignored;
use std::sync::Arc;

/// The canonical bytes `desired` with what is at `ignored` paths as in `observed`. What is of another kind is not left: that it
/// goes is in the plan.
pub(crate) fn keep(desired: &[u8], observed: &[u8], ignored: &[Arc<str>]) -> Vec<u8> {
    let (Some(mut wanted), Some(seen)) = (Shape::decode(desired), Shape::decode(observed)) else {
        return desired.to_vec();
    };
    match (&mut wanted, seen) {
        (Shape::File(File { access: wanted, content, .. }), Shape::File(seen)) => {
            access(wanted, seen.access, ignored);
            put(content, seen.content, "content", ignored);
        }
        (Shape::Directory(wanted), Shape::Directory(seen)) => {
            access(&mut wanted.access, seen.access, ignored);
        }
        (Shape::Block(wanted), Shape::Block(seen)) => {
            put(&mut wanted.content, seen.content, "content", ignored);
        }
        (Shape::Link { target }, Shape::Link { target: seen }) => put(target, seen, "symlink", ignored),
        _ => {}
    }
    wanted.encode()
}

fn access(wanted: &mut Access, seen: Access, ignored: &[Arc<str>]) {
    put(&mut wanted.owner, seen.owner, "owner", ignored);
    put(&mut wanted.group, seen.group, "group", ignored);
    put(&mut wanted.mode, seen.mode, "mode", ignored);
}

fn put<T>(wanted: &mut T, seen: T, path: &str, ignored: &[Arc<str>]) {
    if is_ignored(ignored, path) {
        *wanted = seen;
    }
}
