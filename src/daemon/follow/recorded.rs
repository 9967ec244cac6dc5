//! What the audit trail has of sources: who consented to a rewind, who pushed what.
//!
//! Guarantees: of a commit that comes into force it is put down in the same transaction, where the daemon knows it by then; a
//! push that the trail could not take is kept until it can.

use super::{Loop, Source};
use crate::{
    operation::Pushed,
    session::{Snapshot, rewound},
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
        let rewinding = self.rewinding.iter().filter(|(commit, _)| *commit == snapshot.revision);
        let rewinding = rewinding.map(|(_, actor)| rewound(snapshot, actor, at));
        let pushes = self.pushes.iter().filter(|pushed| *pushed.commit == *snapshot.revision);
        rewinding.chain(pushes.map(|pushed| event(&snapshot.name, pushed, true, at))).collect()
    }
}

impl Loop {
    /// What came into force with the commits of the sources that moved is in the trail.
    pub(super) fn forget_accounts(&mut self, snapshots: &[&Snapshot], moved: &BTreeSet<Arc<str>>) {
        for snapshot in snapshots.iter().filter(|snapshot| moved.contains(&snapshot.name)) {
            let Some(source) = self.sources.get_mut(&snapshot.name) else { continue };
            source.rewinding = None;
            source.pushes.retain(|pushed| *pushed.commit != *snapshot.revision);
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
        let writes = source.pushes.iter().map(|pushed| Write::Event(event(pushed))).collect();
        match self.writing.db.commit(writes).await {
            Ok(()) => source.pushes.clear(),
            Err(error) => {
                tracing::warn!(source = &**name, %error, "who pushed cannot be put down, and is with a later poll");
            }
        }
    }
}

/// A push, for the audit trail. Only `actor` is known; who the pusher's side says it is, is said so.
fn event(source: &str, pushed: &Pushed, is_in_force: bool, at: Duration) -> Event {
    let claimed = pushed.claimed.as_ref().map(|name| format!(", by their own account {name}"));
    let state = if is_in_force { "in force" } else { "not in force" };
    let branch = pushed.reference.trim_start_matches("refs/heads/").trim_start_matches("refs/");
    let label = pushed.commit.get(..7).unwrap_or(&pushed.commit);
    Event {
        at,
        kind: "push".into(),
        scope: None,
        address: None,
        revision: label.into(),
        actor: pushed.actor.as_str().into(),
        reason: "push".into(),
        message: format!(
            "{label} pushed to {branch}{}; source {source}: {state}",
            claimed.unwrap_or_default()
        )
        .into(),
    }
}
