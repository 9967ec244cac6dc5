//! What was judged whole, as passes over single scopes of an entry that is run apart must know.

use super::Survey;
use reconciled_provider::Hash;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The desired state of which each entry was last judged whole, with the hold that this led to recorded; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Judged(Arc<Mutex<BTreeMap<Arc<str>, Hash>>>);

impl Judged {
    /// Remembers what a survey judged whole, once whatever is held of it is on record: a pass that trusts in this must find
    /// that hold.
    pub(crate) fn note(&self, survey: &Survey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(survey.judged.clone());
    }

    /// True where this entry was judged whole of this state.
    pub(super) fn is(&self, entry: &str, state: Hash) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(entry) == Some(&state)
    }
}
