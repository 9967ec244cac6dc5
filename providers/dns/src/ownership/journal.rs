//! The journal that a backend gets while marks are written: the engine hears of its own actions only, each of them once
//! what happens to its marks is known as well.

use async_trait::async_trait;
use reconciled_provider::{ActionId, Error, Journal, Outcome, Tracked};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Stands between a backend and the engine's journal.
pub(crate) struct Joined<'j> {
    journal: &'j dyn Journal,
    /// The actions that each action on a mark belongs to.
    belongs: &'j BTreeMap<ActionId, Vec<ActionId>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Actions on marks that are still open, by the action they belong to.
    open: BTreeMap<ActionId, usize>,
    /// Outcomes that wait for marks.
    ended: BTreeMap<ActionId, Outcome>,
    /// Why a mark of an action is not as it should be.
    failed: BTreeMap<ActionId, Error>,
}

impl<'j> Joined<'j> {
    pub(crate) fn new(
        journal: &'j dyn Journal,
        belongs: &'j BTreeMap<ActionId, Vec<ActionId>>,
    ) -> Joined<'j> {
        let mut state = State::default();
        for owner in belongs.values().flatten() {
            *state.open.entry(*owner).or_default() += 1;
        }
        Joined { journal, belongs, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the outcomes of actions whose marks were not written any more.
    pub(crate) async fn end(&self) -> Result<(), Error> {
        let left = {
            let mut state = self.state();
            state.open.clear();
            std::mem::take(&mut state.ended)
        };
        let unwritten = || Error::unavailable("its ownership mark was not written any more");
        let outcomes: Vec<_> =
            left.into_iter().map(|(id, outcome)| (id, joined(outcome, Some(unwritten())))).collect();
        if outcomes.is_empty() { Ok(()) } else { self.journal.finished(outcomes).await }
    }
}

/// How an action ends of which a mark is not as it should be.
fn joined(outcome: Outcome, failed: Option<Error>) -> Outcome {
    match (outcome, failed) {
        (Outcome::Done(tracked), Some(error)) => {
            let context = Error::new(error.kind, "the record was written and its ownership mark was not");
            Outcome::Partial(tracked, context.caused_by(error))
        }
        (outcome, _) => outcome,
    }
}

#[async_trait]
impl Journal for Joined<'_> {
    async fn started(&self, actions: &[ActionId]) -> Result<(), Error> {
        let own: Vec<ActionId> =
            actions.iter().filter(|id| !self.belongs.contains_key(id)).copied().collect();
        if own.is_empty() { Ok(()) } else { self.journal.started(&own).await }
    }

    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error> {
        match self.belongs.contains_key(&action) {
            true => Ok(()),
            false => self.journal.progress(action, tracked).await,
        }
    }

    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        let ready = {
            let mut state = self.state();
            for (id, outcome) in outcomes {
                let Some(owners) = self.belongs.get(&id) else {
                    state.ended.insert(id, outcome);
                    continue;
                };
                for owner in owners {
                    if let Some(open) = state.open.get_mut(owner) {
                        *open = open.saturating_sub(1);
                    }
                    if let Some(error) = outcome.error() {
                        state.failed.insert(*owner, error.clone());
                    }
                }
            }
            let State { open, ended, failed } = &mut *state;
            let is_open = |id: &ActionId| open.get(id).is_some_and(|count| *count > 0);
            let ids: Vec<ActionId> = ended.keys().filter(|id| !is_open(id)).copied().collect();
            let take = |id: ActionId| Some((id, joined(ended.remove(&id)?, failed.remove(&id))));
            ids.into_iter().filter_map(take).collect::<Vec<_>>()
        };
        if ready.is_empty() { Ok(()) } else { self.journal.finished(ready).await }
    }
}
