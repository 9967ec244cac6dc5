//! What moved in one repository, brought into force together.
//!
//! Guarantees: what one commit or one push moved comes into force in one load for all sources that follow its repository, whichever was
//! polled first, so that what leaves one of them for another is handed over, and the guard judges all of it at once. For each a poll
//! begins after another one was found to have moved, and nothing waits for that longer than [`TOGETHER`]: what comes into force without
//! the others deletes nothing that they may declare by now. What waits is no part of what is loaded meanwhile for another reason.
//! Whoever waits for a poll is answered once it is concluded, whatever others move to.

use super::{
    source::{Back, Source},
    state::Loop,
};
use crate::session::Snapshot;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// How long what moved waits for other sources of its repository.
pub(super) const TOGETHER: Duration = Duration::from_secs(10);

impl Source {
    /// True where the other one is at the same commit of the same ref.
    fn is_beside(&self, other: &Source) -> bool {
        self.is_alike(other) && self.at().is_some() && self.at() == other.at()
    }

    /// The commit that the last poll came to, in force or not yet.
    fn at(&self) -> Option<&Arc<str>> {
        let back = self.back.as_ref().and_then(|back| back.snapshot.as_ref());
        back.or(self.snapshot.as_ref()).map(|snapshot| &snapshot.revision)
    }

    /// When what waits to be concluded was found to be at another commit, since the epoch.
    fn moved_at(&self) -> Option<Duration> {
        self.back.as_ref().and_then(|back| back.moved_at)
    }

    fn is_alike(&self, other: &Source) -> bool {
        self.config.reference == other.config.reference
    }

    /// True where it was not asked since another one moved, and is elsewhere.
    fn lags(&self, other: &Source) -> bool {
        self.asked < other.moved && !self.is_beside(other)
    }

    /// Another commit of it came into force. What was judged by the one before counts for nothing: it need not descend from this one.
    pub(super) fn arrived(&mut self) {
        self.arrivals += 1;
        if self.back.take().is_some() {
            self.ask_anew();
        }
    }

    /// Has it polled as if it had not been by the last poll, with the consent to a rewind that this was given.
    pub(super) fn ask_anew(&mut self) {
        (self.loaded, self.asked, self.due) = (None, self.answered, Duration::ZERO);
        if !self.is_polling {
            self.accept_rewind = self.accept_rewind.take().or_else(|| self.rewinding.take());
        }
    }

    /// True where the last poll of the other one that was told anything, and is concluded, began before this one moved.
    fn is_ahead_of(&self, other: &Source) -> bool {
        other.answered < self.moved
    }
}

impl Loop {
    /// A poll of a source came back. Where it moved, the others of its repository are asked after that: a poll that began before may have
    /// been told what was there before, and where one is under way the next follows it at once.
    pub(super) fn came_back(&mut self, name: &Arc<str>, back: Back) {
        let now = self.session.surveyor.cx.clock.now();
        let Some(source) = self.sources.get_mut(name) else { return };
        // What is looked at in place of what cannot be had is no news.
        let moved = back.snapshot.as_ref().filter(|snapshot| snapshot.behind.is_none());
        let has_moved = moved.is_some_and(|snapshot| Some(&snapshot.revision) != source.at());
        let moved_at = has_moved.then_some(now);
        source.back = Some(match source.back.take() {
            Some(known) => Back {
                is_final: back.is_final,
                is_loaded: back.is_loaded || known.is_loaded,
                answered: back.answered.or(known.answered),
                moved_at: known.moved_at.or(moved_at),
                snapshot: back.snapshot.or(known.snapshot),
            },
            None => Back { moved_at, ..back },
        });
        if has_moved {
            source.moved = self.round + 1;
        }
        for lagging in self.lagging(name) {
            if let Some(source) = self.sources.get_mut(&lagging) {
                source.due = Duration::ZERO;
            }
        }
    }

    /// Of a source that came back and those beside it, the ones to ask: they [lag](Source::lags), and are not being asked.
    fn lagging(&self, name: &Arc<str>) -> Vec<Arc<str>> {
        let Some(source) = self.sources.get(name) else { return Vec::new() };
        let others = self.beside(name).filter(|(_, other)| !other.is_polling && other.lags(source));
        let mut lagging: Vec<Arc<str>> = others.map(|(other, _)| other.clone()).collect();
        if self.beside(name).any(|(_, other)| source.lags(other)) {
            lagging.push(name.clone());
        }
        lagging
    }

    /// The other sources of the repository of one.
    fn beside(&self, name: &Arc<str>) -> impl Iterator<Item = (&Arc<str>, &Source)> {
        let names = self.siblings.get(name).into_iter().flatten();
        names.filter_map(move |name| Some((name, self.sources.get(name)?)))
    }

    /// When what waits for others is not left waiting any more, since the epoch.
    pub(super) fn patience(&self) -> impl Iterator<Item = Duration> {
        self.sources.values().filter_map(Source::moved_at).map(|at| at + TOGETHER)
    }

    /// Whether what a source moved to waits for another one of its repository: they come together, and wait no longer than the first
    /// of them.
    fn waits(&self, name: &Arc<str>, source: &Source, now: Duration) -> bool {
        let Some(moved_at) = source.moved_at() else { return false };
        let others = self.beside(name).filter_map(|(_, other)| other.moved_at());
        let moved_at = others.fold(moved_at, Duration::min);
        // A clock that went back is no reason to wait.
        (moved_at..moved_at + TOGETHER).contains(&now)
            && (self.lacks(name, source) || self.beside(name).any(|(name, other)| self.lacks(name, other)))
    }

    /// Whether another one of its repository was not heard since a source moved to what waits.
    fn lacks(&self, name: &Arc<str>, source: &Source) -> bool {
        let is_awaited = |other: &Source| other.lags(source) || other.is_polling && !other.is_beside(source);
        source.moved_at().is_some() && self.beside(name).any(|(_, other)| is_awaited(other))
    }

    /// Loads what polls came back with and waits for nothing any more, and answers.
    pub(super) async fn conclude(&mut self) {
        let now = self.session.surveyor.cx.clock.now();
        let is_done =
            |(name, source): &(&Arc<str>, &Source)| source.back.is_some() && !self.waits(name, source, now);
        let done: Vec<Arc<str>> = self.sources.iter().filter(is_done).map(|(name, _)| name.clone()).collect();
        if done.is_empty() {
            return;
        }
        let (mut is_loaded, mut heard) = (false, BTreeSet::new());
        for name in &done {
            let Some(source) = self.sources.get_mut(name) else { continue };
            let Some(back) = source.back.take() else { continue };
            // Whom it awaits as it is loaded, it awaits until it is loaded again.
            let awaits = source.snapshot.as_ref().and_then(|known| known.awaits.clone());
            let polled = back.snapshot.map(|polled| Snapshot { awaits, ..polled });
            source.snapshot = polled.or(source.snapshot.take());
            source.answered = back.answered.unwrap_or(source.answered);
            is_loaded |= back.is_loaded;
            if back.is_final {
                heard.insert(name.clone());
            }
        }
        is_loaded |= done.iter().any(|name| self.is_awaited_no_more(name));
        let result = if is_loaded { self.load().await.map(drop) } else { Ok(()) };
        for name in &heard {
            self.record_pushes(name).await;
        }
        done.iter().for_each(|name| self.rewound(name));
        match result {
            Ok(()) => {
                done.iter().for_each(|name| self.show(name, |following| following.was_heard = true));
                self.answer(&heard);
            }
            Err(failure) => {
                for asker in self.askers.drain(..) {
                    let _ = asker.answer.send(Err(failure.clone()));
                }
            }
        }
    }

    /// Sources of which a revision is had that others of their repository, with other refs, may not have been asked about, and the first of
    /// those; where the ref is the same, commits tell.
    pub(super) fn awaited(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        let awaits = |(name, source): (&Arc<str>, &Source)| {
            // What it moved to waits, and is not what is loaded.
            if source.back.is_some() {
                return Some((name.clone(), source.snapshot.as_ref()?.awaits.clone()?));
            }
            let mut others = self.beside(name);
            let other = others.find(|(_, other)| !source.is_alike(other) && source.is_ahead_of(other))?;
            Some((name.clone(), other.0.clone()))
        };
        self.sources.iter().filter_map(awaits).collect()
    }

    /// True where something that is in force awaited this source alone, with another ref, and it has said by now what it is at.
    fn is_awaited_no_more(&self, name: &Arc<str>) -> bool {
        let Some(source) = self.sources.get(name) else { return false };
        let sources = &self.outlook.desired.sources;
        self.beside(name).any(|(other, ahead)| {
            let awaits = sources.get(other).and_then(|state| state.awaits.as_ref());
            awaits == Some(name) && !ahead.is_alike(source) && !ahead.is_ahead_of(source)
        })
    }
}
