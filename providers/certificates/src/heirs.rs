//! Who wants which directory: a certificate whose manifest was renamed takes over what is there.
//!
//! Nothing of this is on disk. What was looked at may have been looked at for a plan, whose manifests need not come into force:
//! so nothing is handed over to whom no pass has seen, and nobody waits for ever for what nobody looks at.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long one that was not looked at yet is waited for, as everything of an entry is looked at when a process begins; and
/// one that was, and that no pass has begun with.
const UNSEEN: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct State {
    /// The directory that each certificate wants as it was looked at last; none: nobody declares it any more.
    looked_at: BTreeMap<String, Option<String>>,
    /// The directory that each certificate wanted when it was worked on, or is tracked with.
    real: BTreeMap<String, String>,
    /// Since when certificates wait for the one that is in their directory.
    waiting: BTreeMap<String, Duration>,
    /// Since when certificates are to be deleted, and wait for the one that was seen to want their directory.
    put_off: BTreeMap<String, Duration>,
}

/// What is known of all certificates of an entry.
#[derive(Debug, Default)]
pub(crate) struct Heirs(Mutex<State>);

impl Heirs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `name` was looked at, and wants this directory.
    pub(crate) fn looked_at(&self, name: &str, directory: Option<&str>, is_tracked: bool) {
        let mut state = self.state();
        // Nearly always it is the same, of each of many in every pass.
        if state.looked_at.get(name).is_none_or(|known| known.as_deref() != directory) {
            state.looked_at.insert(name.to_owned(), directory.map(str::to_owned));
        }
        drop(state);
        if let Some(directory) = directory.filter(|_| is_tracked) {
            self.worked_on(name, directory);
        }
    }

    /// A pass works on `name`, which wants this directory.
    pub(crate) fn worked_on(&self, name: &str, directory: &str) {
        let mut state = self.state();
        if state.real.get(name).is_none_or(|known| known != directory) {
            state.real.insert(name.to_owned(), directory.to_owned());
        }
    }

    /// `name` is deleted.
    pub(crate) fn gone(&self, name: &str) {
        let mut state = self.state();
        state.real.remove(name);
        state.waiting.remove(name);
        state.put_off.remove(name);
    }

    /// True while the deletion of `name` is put off: for a while, since who was seen may be but a plan's.
    pub(crate) fn puts_off(&self, name: &str, now: Duration) -> bool {
        let mut state = self.state();
        let since = *state.put_off.entry(name.to_owned()).or_insert(now);
        (since..since + UNSEEN).contains(&now)
    }

    /// Who else wants the directory of `name`, and is not only planned.
    pub(crate) fn heir(&self, name: &str, directory: &str) -> Option<String> {
        let state = self.state();
        let mut others = state.real.iter().filter(|(other, _)| *other != name);
        others.find(|(_, wanted)| *wanted == directory).map(|(other, _)| other.clone())
    }

    /// Who else was seen to want the directory of `name`: a pass may be about to work on it, or it was but a plan.
    pub(crate) fn seen_heir(&self, name: &str, directory: &str) -> Option<String> {
        let state = self.state();
        let mut others = state.looked_at.iter().filter(|(other, _)| *other != name);
        others.find(|(_, wanted)| wanted.as_deref() == Some(directory)).map(|(other, _)| other.clone())
    }

    /// Since when `name` waits for `other`, which is in its directory; none where that one stays, or nobody looks at it.
    pub(crate) fn waits_for(&self, name: &str, other: &str, now: Duration) -> Option<Duration> {
        let mut state = self.state();
        let since = *state.waiting.entry(name.to_owned()).or_insert(now);
        let is_going = match state.looked_at.get(other) {
            Some(wanted) => wanted.is_none(),
            None => now.saturating_sub(since) < UNSEEN,
        };
        is_going.then_some(since)
    }

    /// `name` waits for nobody.
    pub(crate) fn waits_no_more(&self, name: &str) {
        self.state().waiting.remove(name);
    }
}
