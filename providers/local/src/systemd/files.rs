//! Files of units as they are written and removed: only where they are not as wanted yet, and keeping what others put there.

use super::{
    Places,
    observe::{self, ACCESS},
};
use crate::{
    hands::{Fault, Hands, Make, Put, Remove, Seen, What},
    path::FilePath,
    state::Access,
};
use reconciled_provider::Secret;

pub(crate) fn is_absent(seen: &Seen) -> bool {
    matches!(seen.what, What::Absent)
}

/// True for a file with this in it.
fn has(seen: &Seen, content: &str) -> bool {
    matches!(&seen.what, What::File { content: is, .. } if is.reveal() == content.as_bytes())
}

/// True for that, where nobody else may do anything with it.
pub(super) fn is_ours(seen: &Seen, content: &str) -> bool {
    has(seen, content) && observe::access(seen).is_none()
}

/// Writes a file; false where it is as wanted already.
pub(crate) async fn write(
    hands: &dyn Hands,
    places: &Places,
    seen: &Seen,
    content: &str,
) -> Result<bool, Fault> {
    if is_ours(seen, content) {
        return Ok(false);
    }
    make_way(hands, places, &seen.path).await?;
    // What is in it is nobody's work where it is ours.
    let keep = !is_absent(seen) && !has(seen, content);
    let content = Secret::new(content.as_bytes().to_vec());
    let make = Make::File { access: ACCESS, content, validate: None, is_public: true };
    hands.put(&Put { path: seen.path.clone(), expect: seen.stamp(), make, keep }).await?;
    Ok(true)
}

/// Removes a file; false where there is none.
pub(crate) async fn remove(hands: &dyn Hands, seen: &Seen) -> Result<bool, Fault> {
    if is_absent(seen) {
        return Ok(false);
    }
    hands.remove(&Remove { path: seen.path.clone(), expect: seen.stamp(), keep: true }).await?;
    Ok(true)
}

/// Makes the directories on the way to `path` that are missing in the home of a user. Those of a machine are there.
pub(super) async fn make_way(hands: &dyn Hands, places: &Places, path: &FilePath) -> Result<(), Fault> {
    let Some(home) = places.home() else { return Ok(()) };
    let mut missing = Vec::new();
    let mut next = path.directory().filter(|directory| directory.below(home).is_some());
    while let Some(directory) = next {
        next = directory.directory().filter(|directory| directory.below(home).is_some());
        missing.push(directory);
    }
    for directory in missing.into_iter().rev() {
        make_directory(hands, directory).await?;
    }
    Ok(())
}

/// Makes a directory that is not there.
pub(super) async fn make_directory(hands: &dyn Hands, path: FilePath) -> Result<(), Fault> {
    let seen = hands.look(std::slice::from_ref(&path)).await?.pop();
    let Some(seen) = seen.filter(is_absent) else { return Ok(()) };
    let make = Make::Directory { access: Access { owner: None, group: None, mode: 0o755 } };
    hands.put(&Put { path, expect: seen.stamp(), make, keep: false }).await
}
