//! Everything that is at work under one configuration.

use super::{
    fate::Fates, follower::Follower, gathered::Gathered, given::Pending, requests::Requests,
    upkeep::record::Upkeep, wishes::Wishes,
};
use crate::{
    access::{Hooks, Tokens},
    session::{Session, Writing},
};
use reconciled_engine::scheduler::{Scheduler, Stance};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// A scheduler whose loop did not go round for so long hangs.
const HANGS: Duration = Duration::from_secs(60);

/// One configuration at work.
pub struct Instance {
    /// Configuration, providers, sources.
    pub session: Arc<Session>,
    /// The state and the engine.
    pub writing: Arc<Writing>,
    /// The loop over the scopes.
    pub scheduler: Arc<Scheduler>,
    /// The loop over the sources.
    pub follower: Follower,
    /// Who may ask over TCP.
    pub tokens: Tokens,
    /// What forges may wake.
    pub hooks: Hooks,
    /// How the commit of each source fares.
    pub fates: watch::Receiver<Fates>,
    /// It looks and writes nothing.
    pub observes: bool,
    /// What was asked for with `sync`.
    pub(crate) requests: Requests,
    /// Consent of pushes that Git has not taken yet.
    pub(crate) pending: Arc<Pending>,
    /// Pushes that move several sources.
    pub(super) gathered: Arc<Gathered>,
    /// What was said of sources.
    pub(super) wishes: Arc<Wishes>,
    /// What of its own state does not succeed.
    pub(super) upkeep: Arc<Upkeep>,
    /// Why a forge cannot be told how commits fare, by source.
    pub(super) unreported: Mutex<BTreeMap<Arc<str>, String>>,
    pub(super) tasks: TaskTracker,
    pub(super) was_ready: AtomicBool,
}

impl Instance {
    /// Says that it shall end: no new pass begins.
    pub(crate) fn stop(&self) {
        self.session.surveyor.cx.stop.end();
        self.tasks.close();
    }

    /// Whether it was told to end: what it answers from then on may be because of that.
    pub(crate) fn is_ending(&self) -> bool {
        self.session.surveyor.cx.stop.is_set()
    }

    /// Returns once nothing of it runs any more.
    pub(crate) async fn ended(&self) {
        self.tasks.wait().await;
    }

    /// True once each source was read or cannot be, and everything that is desired was looked at.
    pub fn is_ready(&self) -> bool {
        self.waits_for().is_none()
    }

    /// Whether its loop is vouched for at `now`: it went round not long ago.
    pub(crate) fn goes_round(&self, now: Duration) -> bool {
        now.saturating_sub(self.scheduler.tick()) < HANGS
    }

    /// What it waits for before it [is ready](Instance::is_ready); names nothing that is managed.
    pub fn waits_for(&self) -> Option<String> {
        if self.was_ready.load(Ordering::Relaxed) {
            return None;
        }
        // In this order: what a source came to that was heard by then is in what is desired.
        let following = self.follower.sources();
        let desired = self.follower.desired();
        let standing = self.scheduler.standing();
        let is_read = |name: &Arc<str>| {
            let is_in_force = desired.sources.get(name).is_some_and(|source| !source.revision.is_empty());
            is_in_force || following.get(name).is_some_and(|source| source.was_heard)
        };
        let sources = &self.session.config.sources;
        let unread = sources.iter().filter(|source| !is_read(&source.name)).count();
        let looked = |scope: &&_| standing.get(*scope).is_some_and(|s| s.ended_at.is_some());
        let (all, seen) = (desired.scopes.len(), desired.scopes.keys().filter(looked).count());
        let why = match unread {
            0 if seen == all => None,
            0 => Some(format!("the first pass has not ended: {seen} of {all} scopes were looked at")),
            _ if unread == sources.len() => Some("no source was read yet".to_string()),
            _ => Some(format!("{} of {} sources were read", sources.len() - unread, sources.len())),
        };
        self.was_ready.fetch_or(why.is_none(), Ordering::Relaxed);
        why
    }

    /// Why a forge cannot be told how commits fare, by source.
    pub(crate) fn unreported(&self) -> BTreeMap<Arc<str>, String> {
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_unreported(&self, source: &Arc<str>, why: Option<String>) {
        let mut unreported = self.unreported.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => drop(unreported.insert(source.clone(), why)),
            None => drop(unreported.remove(source)),
        }
    }

    /// One line for the service manager.
    pub fn summary(&self) -> String {
        let sources = self.follower.sources();
        let labels: Vec<&str> =
            sources.values().map(|s| s.label.as_str()).filter(|l| !l.is_empty()).collect();
        let at = match labels.is_empty() {
            true => "no revision yet".to_string(),
            false => labels.join(", "),
        };
        // Of what was not looked at nothing is known, least of all that there is nothing.
        if let Some(why) = self.waits_for() {
            return if labels.is_empty() { why } else { format!("at {at}; {why}") };
        }
        let standing = self.scheduler.standing();
        let count = |stance| standing.values().filter(|s| s.stance == stance).count();
        let known = Stance::ALL.into_iter().filter(|stance| *stance != Stance::Unknown);
        let parts = known.map(|stance| (stance, count(stance))).filter(|(_, n)| *n > 0);
        let parts: Vec<String> = parts.map(|(stance, n)| format!("{n} {}", stance.word())).collect();
        format!("at {at}; scopes: {}", if parts.is_empty() { "none".into() } else { parts.join(", ") })
    }
}
