//! Whether there is a directory for what is to be made.
//!
//! Nobody but a person, or another manifest, makes one: trying again and again would come to nothing.

use crate::{
    hands::{Hands, no_directory},
    path::FilePath,
    state,
};
use reconciled_provider::{Error, ErrorKind, Observation, ResourceId, Want};
use std::collections::{BTreeMap, BTreeSet};

/// What is declared, not there, and has nowhere to be: neither is there a directory for it, nor will one be made before it.
pub(crate) async fn missing(
    hands: &dyn Hands,
    want: &Want<'_>,
    seen: &Observation,
) -> Result<BTreeMap<ResourceId, Error>, Error> {
    let is_to_come = |id: &ResourceId| seen.covered.covers(id) && seen.get(id).is_none();
    let mut to_come: BTreeMap<FilePath, Vec<&ResourceId>> = BTreeMap::new();
    // What waits for another manifest is not to be made yet.
    let known = want.desired.iter().filter(|desired| desired.spec.bytes().is_some());
    for id in known.map(|desired| &desired.id).filter(|id| is_to_come(id)) {
        if let Ok(path) = FilePath::parse(state::parts(id).0) {
            to_come.entry(path).or_default().push(id);
        }
    }
    if to_come.is_empty() {
        return Ok(BTreeMap::new());
    }
    let paths: Vec<FilePath> = to_come.keys().cloned().collect();
    let looked = hands.look(&paths).await?;
    let homeless: BTreeSet<FilePath> =
        looked.into_iter().filter(|seen| seen.lacks_directory).map(|seen| seen.path).collect();
    // Nothing but a directory can be declared above something: what else is there is an error of its own.
    let declared: BTreeSet<&str> = want.desired.iter().map(|desired| &*desired.id.0).collect();
    let mut errors = BTreeMap::new();
    for path in &homeless {
        let Some(directory) = nobodys(path, &homeless, &declared) else { continue };
        for id in to_come.get(path).into_iter().flatten() {
            errors.insert((*id).clone(), no_directory(ErrorKind::Invalid, path, directory.as_str()));
        }
    }
    Ok(errors)
}

/// The directory on the way to `path` that is not there and that nobody makes.
fn nobodys(path: &FilePath, homeless: &BTreeSet<FilePath>, declared: &BTreeSet<&str>) -> Option<FilePath> {
    let mut at = path.clone();
    while homeless.contains(&at) {
        at = at.directory()?;
        if !declared.contains(at.as_str()) {
            return Some(at);
        }
    }
    None
}
