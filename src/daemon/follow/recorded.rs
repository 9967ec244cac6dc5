//! What the audit trail has of sources: who consented to a rewind, who pushed what.
//!
//! Guarantees: of a commit that comes into force it is put down in the same transaction, where the daemon knows it by then; a
//! push that the trail could not take is kept until it can. Consent to a rewind is kept for the poll that was given it, whatever comes
//! into force meanwhile.

use super::{source::Source, state::Loop};
use crate::{
    daemon::wishes::{What, Wish},
    operation::Pushed,
    session::{Snapshot, rewound},
    store::with_claim,
    text::short_commit,
};
use reconciled_engine::{Store, Write, store::Event};
use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError},
    time::Duration,
};

impl Source {
    /// Who consented to the rewind to this commit, and who pushed it.
    pub(super) fn accounts(&self, snapshot: &Snapshot, at: Duration) -> Vec<Event> {
        let said = self.rewinding.iter().chain(&self.pushes);
        let event = said.filter_map(|wish| match &wish.what {
            What::Rewind { commit, actor, .. } if *commit == snapshot.revision => {
                Some(rewound(snapshot, actor, at))
            }
            What::Push(pushed) if *pushed.commit == *snapshot.revision => {
                Some(event(&snapshot.name, pushed, true, at))
            }
            _ => None,
        });
        event.collect()
    }

    /// The pushes that the trail does not know of.
    fn pushes(&self) -> impl Iterator<Item = &Pushed> {
        self.pushes.iter().filter_map(|wish| match &wish.what {
            What::Push(pushed) => Some(pushed),
            What::Rewind { .. } => None,
        })
    }
}

impl Loop {
    /// What came into force with the commits of the sources that moved is in the trail.
    pub(super) fn forget_accounts(&mut self, snapshots: &[&Snapshot], moved: &BTreeSet<Arc<str>>) {
        for snapshot in snapshots.iter().filter(|snapshot| moved.contains(&snapshot.name)) {
            let Some(source) = self.sources.get_mut(&snapshot.name) else { continue };
            source.arrived();
            let is_of = |wish: &Wish| match &wish.what {
                What::Rewind { commit, .. } => *commit == snapshot.revision,
                What::Push(pushed) => *pushed.commit == *snapshot.revision,
            };
            let rewound = source.rewinding.take_if(|wish| is_of(wish));
            rewound.inspect(|wish| self.wishes.done(wish));
            source.pushes.retain(|wish| {
                let is_of = is_of(wish);
                if is_of {
                    self.wishes.done(wish);
                }
                !is_of
            });
        }
    }

    /// A poll that was given consent to a rewind has been loaded: there is none for the next. One that is under way has it still.
    pub(super) fn rewound(&mut self, name: &Arc<str>) {
        let source = self.sources.get_mut(name).filter(|source| !source.is_polling);
        let wish = source.and_then(|source| source.rewinding.take());
        // An instance that ends may have loaded nothing: the next one polls with the same consent.
        if let Some(wish) = wish.filter(|_| !self.session.surveyor.cx.stop.is_set()) {
            self.wishes.done(&wish);
        }
    }

    /// Puts down who pushed what came into force earlier, or has not.
    pub(super) async fn record_pushes(&mut self, name: &Arc<str>) {
        let Some(source) = self.sources.get_mut(name).filter(|source| !source.pushes.is_empty()) else {
            return;
        };
        let in_force = self.shown.lock().unwrap_or_else(PoisonError::into_inner).sources.get(name).cloned();
        let in_force = in_force.unwrap_or_default().commit;
        let now = self.session.surveyor.cx.clock.now();
        let event = |pushed: &Pushed| event(name, pushed, pushed.commit == in_force, now);
        let writes = source.pushes().map(|pushed| Write::Event(event(pushed))).collect();
        match self.writing.db.commit(writes).await {
            Ok(()) => source.pushes.drain(..).for_each(|wish| self.wishes.done(&wish)),
            Err(error) => {
                tracing::warn!(source = &**name, %error, "who pushed cannot be put down, and is with a later poll");
            }
        }
    }
}

/// A push, for the audit trail. Only `actor` is known; who the pusher's side says it is, is said so.
fn event(source: &str, pushed: &Pushed, is_in_force: bool, at: Duration) -> Event {
    let claim = with_claim("", pushed.claimed.as_deref());
    let state = if is_in_force { "in force" } else { "not in force" };
    let branch = pushed.reference.trim_start_matches("refs/heads/").trim_start_matches("refs/");
    let label = short_commit(&pushed.commit);
    Event {
        at,
        kind: "push".into(),
        scope: None,
        address: None,
        revision: label.into(),
        actor: pushed.actor.as_str().into(),
        reason: "push".into(),
        message: format!("{label} pushed to {branch}{claim}; source {source}: {state}").into(),
    }
}
