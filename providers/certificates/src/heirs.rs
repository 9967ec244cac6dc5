//! Who wants which directory, as far as it was looked at: a certificate whose manifest was renamed takes over what is there.
//!
//! Nothing of this is on disk: before anything is deleted everything of the entry is looked at.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// The directory that each certificate wants; none: nobody declares it any more.
#[derive(Debug, Default)]
pub(crate) struct Heirs(Mutex<BTreeMap<String, Option<String>>>);

impl Heirs {
    /// `name` was looked at, and wants this directory.
    pub(crate) fn set(&self, name: &str, directory: Option<&str>) {
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.insert(name.to_owned(), directory.map(str::to_owned));
    }

    /// Who else wants the directory of `name`.
    pub(crate) fn heir(&self, name: &str, directory: &str) -> Option<String> {
        let wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut others = wanted.iter().filter(|(other, _)| *other != name);
        others.find(|(_, wanted)| wanted.as_deref() == Some(directory)).map(|(other, _)| other.clone())
    }

    /// True when nobody is known to declare `name`.
    pub(crate) fn may_go(&self, name: &str) -> bool {
        let wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.get(name).is_none_or(Option::is_none)
    }
}
