//! What the loop over the sources knows: them, what is in force, who waits, and what is under way.

use super::{polls::Polls, source::Source};
use crate::{
    daemon::{
        follower::{Following, Hints, News, Question, Shown},
        wishes::Wishes,
    },
    failure::Failure,
    manifest::KnownSecrets,
    session::{KnownOutputs, Pins, Session, Siblings, Writing},
};
use futures_util::future::BoxFuture;
use reconciled_engine::{Desired, scheduler::Scheduler};
use reconciled_provider::Scope;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// The loop.
pub(in crate::daemon) struct Loop {
    pub(super) session: Arc<Session>,
    pub(super) writing: Arc<Writing>,
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) shown: Arc<Mutex<Shown>>,
    pub(super) wishes: Arc<Wishes>,
    pub(super) questions: mpsc::UnboundedReceiver<Question>,
    pub(super) hints: Arc<Hints>,
    pub(super) sources: BTreeMap<Arc<str>, Source>,
    /// The others of its repository, by source.
    pub(super) siblings: Arc<Siblings>,
    pub(super) polls: Polls,
    /// Counts the times that polls began.
    pub(super) round: u64,
    /// Whether any secret was rotated, while that is looked at: what a secret comes from may hang.
    pub(super) rotated: Option<BoxFuture<'static, bool>>,
    /// Asked for while it was looked at: that may have begun too early.
    pub(super) looks_again: bool,
    pub(super) askers: Vec<Asker>,
    pub(super) outlook: InForce,
    /// When something is no longer kept at an earlier revision, since the epoch.
    pub(super) pins_due: Option<Duration>,
    /// Until something was loaded.
    pub(super) bids: Option<Bids>,
}

/// What persons asked of the instance before, and did not get.
pub(in crate::daemon) struct Bids {
    /// Where.
    pub(in crate::daemon) scopes: BTreeSet<Scope>,
    /// Where they wanted what came to nothing to be tried once more.
    pub(in crate::daemon) insisted: BTreeSet<Scope>,
    /// What was desired when they asked.
    pub(in crate::daemon) desired: Arc<Desired>,
}

/// Who waits for an answer.
pub(super) struct Asker {
    pub(super) meant: BTreeSet<Arc<str>>,
    /// Of these, the ones whose poll has not come back.
    pub(super) waits_for: BTreeSet<Arc<str>>,
    /// What changed since the question.
    pub(super) since: Loaded,
    pub(super) answer: oneshot::Sender<Result<News, Arc<Failure>>>,
}

/// What a load brought into force.
#[derive(Default)]
pub(super) struct Loaded {
    /// Scopes in which something is desired otherwise.
    pub(super) changed: BTreeSet<Scope>,
    /// Sources that are at another commit.
    pub(super) moved: BTreeSet<Arc<str>>,
    /// What was desired before, and is since.
    pub(super) desired: [Arc<Desired>; 2],
}

/// What is in force, without the trees.
#[derive(Default)]
pub(super) struct InForce {
    pub(super) desired: Arc<Desired>,
    /// What is wrong, by source.
    pub(super) messages: BTreeMap<Arc<str>, Vec<String>>,
    /// Sources with an error in their manifests.
    pub(super) broken: BTreeSet<Arc<str>>,
    /// The outputs that it was loaded with.
    pub(super) outputs: KnownOutputs,
    /// The secrets that it was loaded with.
    pub(super) secrets: KnownSecrets,
    /// What is kept at earlier revisions.
    pub(super) pins: Pins,
    /// Nothing is invalid, withheld or out of sight.
    pub(super) is_whole: bool,
    /// Everything that follows from a whole outlook that is in sync was done.
    pub(super) is_settled: bool,
}

impl Loaded {
    /// Adds what came about for who asks about the sources `meant`.
    pub(super) fn add(&mut self, loaded: &Loaded, meant: &BTreeSet<Arc<str>>) {
        let changed = loaded.changed.iter().filter(|scope| loaded.is_about(scope, meant));
        self.changed.extend(changed.cloned());
        self.moved.extend(loaded.moved.iter().cloned());
    }

    /// Whether what changed in a scope may be for what `meant` sources declare, or declared.
    fn is_about(&self, scope: &Scope, meant: &BTreeSet<Arc<str>>) -> bool {
        let declares = |desired: &Arc<Desired>| {
            let mut declared = desired.in_scope(scope).iter();
            declared.any(|resource| meant.contains(desired.manifest(resource.origin).key.source()))
        };
        // Nothing else moved, so nothing else changed it.
        self.moved.is_subset(meant)
            || self.desired.iter().any(declares)
            || self.desired.iter().all(|desired| desired.in_scope(scope).is_empty())
    }
}

impl Loop {
    /// Changes what others see of a source.
    pub(super) fn show(&self, name: &Arc<str>, change: impl FnOnce(&mut Following)) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        change(shown.sources.entry(name.clone()).or_default());
    }
}
