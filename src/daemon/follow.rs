//! The sources, followed: polled in time or when somebody pushed, loaded when one moved.
//!
//! Guarantees: a poll that hangs delays no source of another repository, and those of its own by [`together::TOGETHER`] at most; what
//! moved in one repository comes into force [together] for all sources that follow it; whoever asks is answered after a poll that
//! began after the question, and after what it found came into force. Who only hints is not answered, and is followed by a poll
//! that began after the hint; any number of hints makes at most one poll in [`HINTS`](source::HINTS). What a poll came to counts only
//! while what it judged by is in force: else a rewind would look like none. Beginning needs no remote: what is in force is taken from the mirrors,
//! and what they have that is newer keeps what it declares; what left a source is deleted once those of its repository that follow
//! other refs have answered. Only where the state was restored nothing of a source is done before it was had since: what came into
//! force after the backup would be taken back.

mod in_force;
mod polls;
mod recorded;
mod source;
mod state;
mod together;

pub(super) use in_force::held;
pub(super) use state::Bids;

use super::{
    follower::{About, Follower, Hints, News, Question, Shown},
    wishes::{What, Wish, Wishes},
};
use crate::{
    config::SourceConfig,
    failure::{Failure, chain},
    session::{Session, Snapshot, SourceAsk, Writing, is_local},
    source::SourceError,
};
use futures_util::future::BoxFuture;
use polls::{Polled, Polls, has_rotated};
use reconciled_engine::{
    Store,
    scheduler::{Progress, Scheduler},
};
use reconciled_provider::Scope;
use source::{Back, Source, after_hint, longest, spread};
use state::{Asker, InForce, Loaded, Loop};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, oneshot};

/// A loop over the sources of `session`, and the way to it. It asks for what `bids` asked of the instance before.
pub(super) fn follow(
    session: Arc<Session>,
    writing: Arc<Writing>,
    scheduler: Arc<Scheduler>,
    wishes: Arc<Wishes>,
    bids: Option<Bids>,
) -> (Follower, Loop) {
    let (send, questions) = mpsc::unbounded_channel();
    let shown = Arc::<Mutex<Shown>>::default();
    // That it is ahead of none of its repository, only the instance before this one can tell.
    let is_ahead = |name: &Arc<str>| {
        let before = bids.as_ref().and_then(|before| before.desired.sources.get(name));
        before.is_none_or(|state| state.awaits.is_some())
    };
    let source = |config: &SourceConfig| Source::of(config, is_ahead(&config.name));
    let sources = session.config.sources.iter().map(|c| (c.name.clone(), source(c))).collect();
    let hints = Arc::<Hints>::default();
    let follower = Follower { questions: send, hints: hints.clone(), shown: shown.clone() };
    let (askers, outlook) = (Vec::new(), InForce::default());
    let following = Loop {
        session,
        writing,
        scheduler,
        shown,
        wishes,
        questions,
        hints,
        sources,
        siblings: Arc::default(),
        polls: Polls::default(),
        round: 0,
        rotated: None,
        looks_again: false,
        askers,
        outlook,
        pins_due: None,
        bids,
    };
    (follower, following)
}

impl Loop {
    /// Follows until the session's `stop` is set.
    pub(super) async fn run(mut self) {
        let mut progress = self.scheduler.watch();
        // Before anything is loaded: what is told from here on is not in it.
        let mut entries = self.session.news_of_entries();
        self.begin().await;
        let cx = self.session.surveyor.cx.clone();
        while !cx.stop.is_set() {
            self.conclude().await;
            let now = cx.clock.now();
            self.sources.values_mut().for_each(|source| source.due = source.due.min(now + longest(source)));
            let (due, wished) = (self.due(now), Instant::now());
            self.round += u64::from(!due.is_empty());
            // A question may have others of its push behind it, of which all is said by now.
            let said = self.wishes.open().into_iter().filter(|wish| due.contains(&wish.source));
            said.for_each(|wish| self.take_over(wish));
            for (_, source) in self.sources.iter_mut().filter(|(name, _)| due.contains(*name)) {
                (source.began, source.asked) = (now, self.round);
                self.polls.begin(&self.session, &self.writing, source, &self.outlook.secrets, wished);
            }
            if self.pins_due.is_some_and(|due| due <= now) {
                let _ = self.load().await;
            }
            let next = self.sources.values().filter(|s| !s.is_polling).map(|s| s.due).min();
            let next = next.into_iter().chain(self.pins_due).chain(self.patience()).min();
            let wait = next.map_or(Duration::from_secs(3600), |due| due.saturating_sub(now));
            tokio::select! {
                () = cx.stop.wished() => break,
                Some(question) = self.questions.recv() => match question.about {
                    About::Pins => self.repin(question.answer).await,
                    About::Secrets => self.renew().await,
                    About::Sources => self.hear(question),
                },
                () = self.hints.heard.notified() => self.take_hints(cx.clock.now()),
                has_rotated = ready(&mut self.rotated), if self.rotated.is_some() => {
                    self.rotated = None;
                    if has_rotated {
                        self.load_what_is_had().await;
                    }
                    if std::mem::take(&mut self.looks_again) {
                        self.look_at_secrets();
                    }
                }
                Some(polled) = self.polls.next() => self.take(polled),
                Some(event) = progress.next() => match event {
                    Progress::PassEnded { scope, .. } if self.is_referred_to(&scope) => self.renew().await,
                    Progress::Idle => {
                        self.renew().await;
                        self.settle().await;
                    }
                    _ => {}
                },
                Ok(()) = entries.changed() => self.load_what_is_had().await,
                () = cx.clock.sleep(wait) => {}
            }
        }
        self.polls.end().await;
    }

    /// The sources to poll now: those that are due, and of their remotes those that would be before they are polled again, since
    /// one answer serves all of them.
    fn due(&self, now: Duration) -> BTreeSet<Arc<str>> {
        let idle = || self.sources.iter().filter(|(_, source)| !source.is_polling);
        let due: Vec<&Source> = idle().map(|(_, source)| source).filter(|source| source.due <= now).collect();
        let is_with = |source: &Source| {
            let soon = |other: &&Source| source.due <= now + longest(other);
            due.iter().any(|other| soon(other) && source.config.shares_remote(&other.config))
        };
        // To ask a repository on this host costs nothing, and what is pushed to it is told of source by source: where nothing moved
        // none is read before what its push says is put down.
        let is_far = |source: &Source| !is_local(&self.session.config, &source.config);
        idle()
            .filter(|(_, source)| source.due <= now || is_with(source) && is_far(source))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Loads again, where any source was had.
    async fn load_what_is_had(&mut self) {
        if self.sources.values().any(|source| source.snapshot.is_some()) {
            let _ = self.load().await;
        }
    }

    /// Begins with what is in force, from the mirrors.
    async fn begin(&mut self) {
        match self.session.siblings().await {
            Ok(siblings) => self.siblings = siblings,
            Err(failure) => tracing::error!(error = %failure, "sources of one repository cannot be told"),
        }
        for (name, source) in &mut self.sources {
            let known = SourceAsk::of(self.writing.db.in_force(name).await.ok().flatten());
            source.was_in_force = known.in_force.clone();
            // What a backup says is in force may be long over: its remote is asked first.
            if known.in_force.is_some() && !known.is_restored {
                let known = SourceAsk { is_local: true, ..known };
                source.snapshot = self.session.poll(&source.config, known).await.ok();
            }
        }
        self.load_what_is_had().await;
        // What the instance before this one had not done with.
        self.wishes.open().into_iter().for_each(|wish| self.take_over(wish));
    }

    /// Takes in what was said of a source; what is known already or done with is not meant again.
    fn take_over(&mut self, wish: Arc<Wish>) {
        if !self.wishes.is_open(&wish) {
            return;
        }
        let source = self.sources.get_mut(&wish.source).filter(|source| wish.counts_for(&source.config));
        let Some(source) = source else {
            tracing::warn!(
                source = &*wish.source,
                "what was said of a source counts no longer: the configuration is another"
            );
            return self.wishes.done(&wish);
        };
        match &wish.what {
            What::Push(_) if source.pushes.iter().any(|known| Arc::ptr_eq(known, &wish)) => {}
            What::Push(_) => source.pushes.push(wish),
            What::Rewind { .. }
                if source.rewinding.as_ref().is_some_and(|known| Arc::ptr_eq(known, &wish)) => {}
            What::Rewind { .. } => {
                // Of two that came before a poll, or before what it came to is loaded, the later counts.
                let came_back = if source.is_polling { None } else { source.rewinding.take() };
                let before = source.accept_rewind.replace(wish.clone()).into_iter().chain(came_back);
                before
                    .filter(|before| !Arc::ptr_eq(before, &wish))
                    .for_each(|before| self.wishes.done(&before));
            }
        }
    }

    fn hear(&mut self, question: Question) {
        question.said.into_iter().for_each(|wish| self.take_over(wish));
        let mut meant = BTreeSet::new();
        for (name, source) in &mut self.sources {
            if question.source.as_ref().is_some_and(|meant| meant != name) {
                continue;
            }
            source.due = Duration::ZERO;
            source.again = source.is_polling;
            // What waits to be loaded was polled before the question.
            if let Some(back) = &mut source.back {
                back.is_final = false;
            }
            meant.insert(name.clone());
        }
        if let Some(answer) = question.answer {
            self.askers.push(Asker { waits_for: meant.clone(), meant, since: Loaded::default(), answer });
            // Where there is nothing to look at, nobody has to be waited for.
            self.answer(&BTreeSet::new());
        }
    }

    /// Has what was hinted at polled, but not at once after a poll: a flood of hints is one.
    fn take_hints(&mut self, now: Duration) {
        let hinted = std::mem::take(&mut *self.hints.sources.lock().unwrap_or_else(PoisonError::into_inner));
        for name in hinted {
            let Some(source) = self.sources.get_mut(&name) else { continue };
            source.is_hinted = source.is_polling;
            source.due = source.due.min(after_hint(source, now));
        }
    }

    /// A poll came back.
    fn take(&mut self, (name, polled, has_rotated): Polled) {
        let now = self.session.surveyor.cx.clock.now();
        let Some(source) = self.sources.get_mut(&name) else { return };
        source.is_polling = false;
        let is_void = source.judged_after != source.arrivals;
        let is_final = !std::mem::take(&mut source.again) && !is_void;
        source.due = if is_final { now + spread(source) } else { Duration::ZERO };
        if std::mem::take(&mut source.is_hinted) {
            source.due = source.due.min(after_hint(source, now));
        }
        let has_answered = polled.as_ref().is_ok_and(|snapshot| snapshot.behind.is_none());
        self.session.metrics.polled(&name, has_answered);
        if is_void {
            source.ask_anew();
            let nothing =
                Back { is_final, is_loaded: has_rotated, answered: None, moved_at: None, snapshot: None };
            return self.came_back(&name, nothing);
        }
        let answered = is_told(&polled).then_some(source.asked);
        let (snapshot, has_news) = match polled {
            Ok(snapshot) => {
                let behind = snapshot.behind.clone();
                let commit = snapshot.revision.clone();
                let in_force = source.loaded.as_ref().is_some_and(|(loaded, _)| *loaded == commit);
                let is_known = in_force || source.seen.as_ref().is_some_and(|(seen, _)| *seen == commit);
                if !is_known && source.was_in_force.as_ref() != Some(&commit) {
                    source.seen = Some((commit, now));
                }
                let polled = (snapshot.revision.clone(), behind.as_ref().map(|error| chain(&**error)));
                let has_news = source.loaded.as_ref() != Some(&polled);
                source.loaded = Some(polled.clone());
                if behind.is_none() {
                    self.show(&name, |following| {
                        following.polled_at = Some(now.as_secs());
                        following.offered = polled.0.to_string();
                    });
                }
                self.fall_behind(
                    &name,
                    behind.map(|error| (chain(&*error), error.hint(), !error.may_pass())),
                );
                (Some(snapshot), has_news)
            }
            Err(failure) => {
                let hint = failure.hint().unwrap_or_default();
                let needs_person = match &failure {
                    Failure::Source(error) => !error.may_pass(),
                    Failure::Store(_) | Failure::Remote(_) => false,
                    _ => true,
                };
                self.fall_behind(&name, Some((why(&failure), hint, needs_person)));
                (None, false)
            }
        };
        let is_loaded = has_news || has_rotated;
        self.came_back(&name, Back { is_final, is_loaded, answered, moved_at: None, snapshot });
    }

    /// Loads again with what is kept at earlier revisions now, and answers.
    async fn repin(&mut self, answer: Option<oneshot::Sender<Result<News, Arc<Failure>>>>) {
        let loaded = self.load().await;
        let news = loaded.map(|Loaded { changed, moved, .. }| News { changed, moved, ..News::default() });
        if let Some(answer) = answer {
            let _ = answer.send(news);
        }
    }

    /// True when a manifest refers to outputs of what is declared in `scope`.
    fn is_referred_to(&self, scope: &Scope) -> bool {
        let referred = self.outlook.outputs.manifests();
        let desired = &self.outlook.desired;
        let is_in = |resource: &reconciled_provider::Resource| {
            referred.contains(&desired.manifest(resource.origin).key)
        };
        !referred.is_empty() && desired.in_scope(scope).iter().any(is_in)
    }

    /// Loads again when outputs that manifests refer to came about or changed, or a secret was rotated: a write of one that
    /// is not what it was is refused.
    async fn renew(&mut self) {
        let has_news = match self.session.has_news(&self.outlook.outputs, &*self.writing.db).await {
            Ok(has_news) => has_news,
            Err(failure) => {
                tracing::warn!(error = %failure, "outputs cannot be read");
                false
            }
        };
        if has_news {
            self.load_what_is_had().await;
        }
        self.look_at_secrets();
    }

    fn look_at_secrets(&mut self) {
        self.looks_again = self.rotated.is_some();
        if !self.looks_again {
            self.rotated = Some(Box::pin(has_rotated(self.session.clone(), self.outlook.secrets.clone())));
        }
    }

    /// Answers those who wait for nothing but `heard`.
    fn answer(&mut self, heard: &BTreeSet<Arc<str>>) {
        let mut waiting = Vec::new();
        for mut asker in self.askers.drain(..) {
            asker.waits_for.retain(|name| !heard.contains(name));
            if !asker.waits_for.is_empty() {
                waiting.push(asker);
                continue;
            }
            let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            let is_behind = |name| shown.sources.get(name).is_some_and(|s| s.behind.is_some());
            let news = News {
                has_errors: asker
                    .meant
                    .iter()
                    .any(|name| self.outlook.broken.contains(name) || is_behind(name)),
                messages: asker
                    .meant
                    .iter()
                    .filter_map(|name| self.outlook.messages.get(name))
                    .flatten()
                    .cloned()
                    .collect(),
                changed: asker.since.changed,
                moved: asker.since.moved,
            };
            let _ = asker.answer.send(Ok(news));
        }
        self.askers = waiting;
    }

    /// Says why a source cannot be had, and whether a person has to do something about it; none where it can. Told once, not at
    /// each poll.
    fn fall_behind(&self, name: &Arc<str>, why: Option<(String, String, bool)>) {
        let now = self.session.surveyor.cx.clock.now();
        self.show(name, |following| {
            let before = following.behind.take();
            following.fall_behind(why.as_ref().map(|(.., needs_person)| *needs_person), now);
            following.behind = why.map(|(error, hint, _)| (error, hint));
            match (before, &following.behind) {
                (before, Some((error, hint))) if before.as_ref().is_none_or(|(known, _)| known != error) => {
                    tracing::warn!(source = &**name, error, hint, "source cannot be had");
                }
                (Some(_), None) => tracing::info!(source = &**name, "source can be had again"),
                _ => {}
            }
        });
    }
}

/// What `future` comes to, once there is one.
async fn ready<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// True where a poll was told what the ref is at, whatever that came to.
fn is_told(polled: &Result<Snapshot, Failure>) -> bool {
    match polled {
        Ok(snapshot) => snapshot.behind.as_ref().is_none_or(|error| !error.may_pass()),
        Err(Failure::Source(error)) => !error.may_pass(),
        Err(_) => false,
    }
}

/// What is wrong with a source. That nothing of it is in force is told beside that.
fn why(failure: &Failure) -> String {
    if let Failure::Source(error) = failure
        && let SourceError::NothingInForce { cause, .. } = &**error
    {
        return chain(&**cause);
    }
    failure.to_string()
}
