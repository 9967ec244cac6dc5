//! What the audit trail has of sources: who consented to a rewind, who pushed what.

use super::Loop;
use crate::operation::Pushed;
use reconciled_engine::{Store, Write, store::Event};
use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

impl Loop {
    /// Puts down who consented to the rewind that came into force.
    pub(super) async fn record_rewind(&mut self, name: &Arc<str>) {
        let Some(source) = self.sources.get_mut(name) else { return };
        let Some((commit, actor)) = source.rewinding.take() else { return };
        let in_force = self.shown.lock().unwrap_or_else(PoisonError::into_inner).sources.get(name).cloned();
        let in_force = in_force.unwrap_or_default();
        if in_force.commit != *commit {
            return;
        }
        let event = Event {
            at: self.session.surveyor.cx.clock.now(),
            kind: "rewind".into(),
            scope: None,
            address: None,
            revision: in_force.label.into(),
            actor,
            reason: "accept-rewind".into(),
            message: format!("source {name} rewound to {commit}").into(),
        };
        if let Err(error) = self.writing.db.commit(vec![Write::Event(event)]).await {
            tracing::warn!(source = &**name, %error, "who consented to the rewind cannot be put down");
        }
    }

    /// Puts down who pushed what.
    pub(super) async fn record_pushes(&mut self, name: &Arc<str>) {
        let Some(source) = self.sources.get_mut(name) else { return };
        let pushes = std::mem::take(&mut source.pushes);
        let in_force = self.shown.lock().unwrap_or_else(PoisonError::into_inner).sources.get(name).cloned();
        let in_force = in_force.unwrap_or_default().commit;
        let now = self.session.surveyor.cx.clock.now();
        let events = pushes.into_iter().map(|pushed| Write::Event(event(name, &pushed, &in_force, now)));
        let writes: Vec<Write> = events.collect();
        if !writes.is_empty()
            && let Err(error) = self.writing.db.commit(writes).await
        {
            tracing::warn!(source = &**name, %error, "who pushed cannot be put down");
        }
    }
}

/// A push, for the audit trail. Only `actor` is known; who the pusher's side says it is, is said so.
fn event(source: &str, pushed: &Pushed, in_force: &str, at: Duration) -> Event {
    let claimed = pushed.claimed.as_ref().map(|name| format!(", by their own account {name}"));
    let state = if pushed.commit == in_force { "in force" } else { "not in force" };
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
