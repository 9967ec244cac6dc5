//! The way to the loop over the sources: what others ask it, and what it lets them look at.
//!
//! Guarantees: looking never waits for the loop; a question is answered, also when the loop ends.

use super::wishes::Wish;
use crate::failure::Failure;
use reconciled_engine::{Desired, scheduler::Standing};
use reconciled_provider::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, mpsc, oneshot};

/// How a source stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Following {
    /// Full commit id that is in force; empty while there is none.
    pub commit: String,
    /// What people call it.
    pub label: String,
    /// Full commit id that the remote offered last; not in force while it is withheld or refused.
    #[serde(default)]
    pub offered: String,
    /// When its remote last answered, in seconds since the epoch.
    pub polled_at: Option<u64>,
    /// Why a newer revision cannot be had, and what to do.
    pub behind: Option<(String, String)>,
    /// Its manifests have an error, in force or withheld.
    #[serde(default)]
    pub broken: bool,
    /// That is one that does not come into force because of it.
    #[serde(skip)]
    pub withheld: bool,
    /// It was polled, and what that came to is in force, as far as it may be.
    #[serde(skip)]
    pub was_heard: bool,
    /// Since when, and whether a person has to do something about it.
    #[serde(skip)]
    pub behind_since: Option<(Duration, bool)>,
    /// The commit that the scheduler was told of last.
    #[serde(skip)]
    pub told: Option<Told>,
}

/// A commit that the scheduler was told of: what stood before it says nothing about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Full commit id.
    pub commit: Arc<str>,
    /// When it was committed, since the epoch.
    pub committed: Duration,
    /// When it came to be known; none when it was in force before the daemon began.
    pub seen: Option<Duration>,
    /// When the scheduler was told.
    pub at: Duration,
}

/// How things stood with commits right before others took their place.
pub(super) struct Left {
    /// Their sources.
    pub(super) sources: BTreeMap<Arc<str>, Following>,
    pub(super) desired: Arc<Desired>,
    pub(super) standing: BTreeMap<Scope, Standing>,
}

/// What a question brought to light.
#[derive(Clone, Debug, Default)]
pub struct News {
    /// Scopes in which something is desired otherwise than before the question.
    pub changed: BTreeSet<Scope>,
    /// Sources of which another commit came into force than before the question.
    pub moved: BTreeSet<Arc<str>>,
    /// What is wrong with the manifests of the sources that were meant, for people.
    pub messages: Vec<String>,
    /// Some of it is an error, or one of them cannot be had.
    pub has_errors: bool,
}

/// What may have moved.
#[derive(Clone, Copy, Default)]
pub(super) enum About {
    /// The sources.
    #[default]
    Sources,
    /// What is kept at earlier revisions of them: no remote need be asked.
    Pins,
    /// Secrets that manifests name. Nor here.
    Secrets,
}

/// A wish to have sources looked at now.
#[derive(Default)]
pub(super) struct Question {
    /// Which; all without.
    pub(super) source: Option<Arc<str>>,
    /// What was said with it; kept by [`super::wishes::Wishes`] as well, for when nobody hears the question.
    pub(super) said: Vec<Arc<Wish>>,
    pub(super) about: About,
    pub(super) answer: Option<oneshot::Sender<Result<News, Arc<Failure>>>>,
}

/// The way to the loop.
pub struct Follower {
    pub(super) questions: mpsc::UnboundedSender<Question>,
    pub(super) hints: Arc<Hints>,
    pub(super) shown: Arc<Mutex<Shown>>,
}

/// Sources that somebody says have moved. A set, so that saying it again costs nothing.
#[derive(Default)]
pub(super) struct Hints {
    pub(super) sources: Mutex<BTreeSet<Arc<str>>>,
    pub(super) heard: Notify,
}

/// What others may look at while the loop runs.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) sources: BTreeMap<Arc<str>, Following>,
    pub(super) desired: Arc<Desired>,
    /// Commits that the scheduler is told of no longer, the oldest first, until somebody takes them.
    pub(super) left: Vec<Left>,
    pub(super) messages: Vec<String>,
    /// Why nothing newer comes into force, of no source in particular.
    pub(super) failure: Option<NotInForce>,
}

/// Why no revision can come into force, such as a disk that is full.
#[derive(Clone, Debug)]
pub struct NotInForce {
    /// What went wrong.
    pub error: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Since when, since the epoch.
    pub since: Duration,
}

impl fmt::Display for NotInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: no revision can come into force: {}", self.error)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl Follower {
    /// How each source stands.
    pub fn sources(&self) -> BTreeMap<Arc<str>, Following> {
        self.look(|shown| shown.sources.clone())
    }
    /// How each source stands, what is desired, and the commits that were left since this was asked.
    pub(super) fn seen(&self) -> (BTreeMap<Arc<str>, Following>, Arc<Desired>, Vec<Left>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let left = std::mem::take(&mut shown.left);
        (shown.sources.clone(), shown.desired.clone(), left)
    }
    /// What is desired.
    pub fn desired(&self) -> Arc<Desired> {
        self.look(|shown| shown.desired.clone())
    }
    /// Why nothing newer comes into force, of no source in particular.
    pub fn failure(&self) -> Option<NotInForce> {
        self.look(|shown| shown.failure.clone())
    }
    /// What is wrong with manifests, for people.
    pub fn messages(&self) -> Vec<String> {
        self.look(|shown| {
            let failure = shown.failure.iter().map(NotInForce::to_string);
            failure.chain(shown.messages.iter().cloned()).collect()
        })
    }
    fn look<T>(&self, look: impl FnOnce(&Shown) -> T) -> T {
        look(&self.shown.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has a source, or all, looked at now. Waits for nothing.
    pub fn wake(&self, source: Option<Arc<str>>) {
        let _ = self.questions.send(Question { source, ..Question::default() });
    }

    /// Has a source looked at soon: somebody who is not believed says that it moved.
    pub fn hint(&self, source: Arc<str>) {
        self.hints.sources.lock().unwrap_or_else(PoisonError::into_inner).insert(source);
        self.hints.heard.notify_one();
    }

    /// Has the secrets that manifests name looked at now. Waits for nothing.
    pub fn look_at_secrets(&self) {
        let _ = self.questions.send(Question { about: About::Secrets, ..Question::default() });
    }

    /// Has a source, or all, looked at now, and waits until what was found is in force. What was `said` of it counts also
    /// where nobody waits any more.
    ///
    /// Errors: the state could not be written; the instance ends.
    pub(super) async fn ask(
        &self,
        source: Option<Arc<str>>,
        said: Vec<Arc<Wish>>,
    ) -> Result<News, Arc<Failure>> {
        self.answered(Question { source, said, ..Question::default() }).await
    }

    /// Has what is kept at earlier revisions looked at anew, and waits until that is in force.
    ///
    /// Errors: such a revision cannot be read; the instance ends.
    pub async fn repin(&self) -> Result<News, Arc<Failure>> {
        self.answered(Question { about: About::Pins, ..Question::default() }).await
    }

    async fn answered(&self, question: Question) -> Result<News, Arc<Failure>> {
        let (answer, told) = oneshot::channel();
        let _ = self.questions.send(Question { answer: Some(answer), ..question });
        told.await.unwrap_or_else(|_| Err(Arc::new(stopping())))
    }
}

/// What is answered where nobody is left to answer.
pub(super) fn stopping() -> Failure {
    Failure::plain("the daemon is stopping; what is on its way is in its journal")
}
