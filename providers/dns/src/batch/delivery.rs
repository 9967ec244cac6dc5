//! Sends units until each action has ended.
//!
//! Guarantees:
//! - each request is `started` before and `finished` after it, with exactly its actions;
//! - what is refused fails alone and the rest is sent: by what the answer names, else by halves, down to single record sets
//!   where nothing changes places at their name;
//! - before each request but the first the backend looks again at what it touches: what somebody changed meanwhile fails
//!   alone, as a conflict;
//! - a plan that cannot work costs few calls: so many refusals, or fewer in a row, end the batch with the last reason;
//! - a request without an answer ends as `Unknown`, and so does the batch: the next pass observes first.

use super::unit::{Chunk, Item, Unit, about, are_many, ids, is_swap, items, remove};
use crate::{http, merge};
use async_trait::async_trait;
use futures_util::future::join;
use reconciled_provider::{ActionId, Cx, Error, ErrorKind, Journal, Outcome};
use std::collections::VecDeque;

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// All of it took effect.
    Done,
    /// Nothing of it took effect, because of these; what is left may go on without them.
    Named(Vec<(ActionId, Outcome)>),
    /// Nothing of it took effect, because of something in it.
    Refused(Error),
    /// Nothing of it took effect, because it is too large.
    TooLarge(Error),
    /// Nothing more can be sent. It may have taken effect if it is lost.
    Over {
        /// Why.
        error: Error,
        /// No answer came.
        is_lost: bool,
    },
}

impl<D> From<http::Failure<D>> for Answer {
    fn from(failure: http::Failure<D>) -> Answer {
        let is_lost = failure.is_lost();
        Answer::Over { error: failure.into_error(), is_lost }
    }
}

/// How a backend sends units.
#[async_trait]
pub(crate) trait Sender<T: Send + Sync>: Send {
    /// Most refusals of one `apply` that are followed up, so that a plan that cannot work costs few calls.
    const CULPRITS: usize = 100;

    /// What was refused is asked for once more after the rest, where any of that took effect: it may only have lacked something
    /// that came later.
    const ASKS_TWICE: bool = false;

    /// Takes from the queue what fits into one request, at least one unit.
    fn take<'b>(&self, queue: &mut VecDeque<Unit<'b, T>>) -> Chunk<'b, T>;

    /// Looks again, before any request but the first of an `apply`, whether what `chunk` touches is as it was planned from:
    /// since the request before, somebody may have changed it. Brings what the items take up to date, and returns how those
    /// end that are as wanted by now, or that somebody changed ([`changed`](super::unit::changed)).
    ///
    /// Backends whose requests tell by themselves need not look. Errors: nothing more can be sent.
    async fn look_again(&mut self, _: &mut Chunk<'_, T>) -> Result<Vec<(ActionId, Outcome)>, Error> {
        Ok(Vec::new())
    }

    /// Sends one request. What is found to have ended besides is finished and taken out of the chunk.
    async fn send(&mut self, chunk: &mut Chunk<'_, T>) -> Result<Answer, Error>;

    /// The chunks to send in place of one that is too large, last one first.
    fn split<'b>(&self, chunk: Chunk<'b, T>) -> Vec<Chunk<'b, T>> {
        halves(chunk).into()
    }

    /// How an action of a request ends that took effect.
    fn done(&self, item: &Item<'_, T>) -> Outcome {
        merge::done(item.action)
    }

    /// `error` of a request that held nothing but the unit of `item`.
    fn about(&self, item: &Item<'_, T>, error: &Error) -> Error {
        about(item, error)
    }
}

/// After so many refusals in a row, and nothing taken, it is no culprit that is in the way.
const IN_A_ROW: usize = 20;

/// How many of the rest are asked for before that is believed.
const PROBES: usize = 2;

/// One unit of what is left, by itself: the last one, and for the last probe one from the middle.
fn probe<'b, T>(stack: &mut [Chunk<'b, T>], probes: usize) -> Option<Chunk<'b, T>> {
    let rest = stack.iter_mut().find(|chunk| !chunk.is_empty())?;
    let at = if probes == PROBES { rest.len() - 1 } else { rest.len() / 2 };
    Some(vec![rest.remove(at)])
}

/// True where a part of a chunk may be sent without the rest.
fn is_divisible<T>(chunk: &Chunk<'_, T>) -> bool {
    match &chunk[..] {
        [unit] => unit.len() > 1 && !is_swap(unit),
        units => units.len() > 1,
    }
}

/// The two halves of a chunk, the second one first; those of its unit where there is but one.
fn halves<T>(mut chunk: Chunk<'_, T>) -> [Chunk<'_, T>; 2] {
    if let [unit] = &mut chunk[..] {
        let second = unit.split_off(unit.len() / 2);
        return [vec![second], chunk];
    }
    let second = chunk.split_off(chunk.len() / 2);
    [second, chunk]
}

/// Sends units and ends their actions.
pub(crate) struct Delivery<'a, S> {
    pub(crate) sender: S,
    cx: &'a Cx,
    journal: &'a dyn Journal,
    doing: &'a str,
    refusals: usize,
    /// Since something took effect.
    in_a_row: usize,
    /// Something was sent.
    has_sent: bool,
    /// Says that the zone is not as it was just seen: a refusal, or another look.
    pub(crate) conflict: Option<Error>,
}

impl<'a, S> Delivery<'a, S> {
    /// Prepares to send. `doing` says what is being done, to what.
    pub(crate) fn new(sender: S, cx: &'a Cx, journal: &'a dyn Journal, doing: &'a str) -> Delivery<'a, S> {
        Delivery { sender, cx, journal, doing, refusals: 0, in_a_row: 0, has_sent: false, conflict: None }
    }

    /// Sends all that is in the queue.
    pub(crate) async fn all<T: Send + Sync>(&mut self, mut queue: VecDeque<Unit<'_, T>>) -> Result<(), Error>
    where
        S: Sender<T>,
    {
        while !queue.is_empty() && !self.cx.stop.is_set() {
            let chunk = self.sender.take(&mut queue);
            self.journal.started(&ids(&chunk).collect::<Vec<_>>()).await?;
            self.started(chunk).await?;
        }
        Ok(())
    }

    /// Sends units that are `started`, in one request; in several when some of it is refused.
    pub(crate) async fn started<T: Send + Sync>(&mut self, chunk: Chunk<'_, T>) -> Result<(), Error>
    where
        S: Sender<T>,
    {
        let (mut stack, mut is_last_word) = (vec![chunk], !S::ASKS_TWICE);
        let mut refused: Vec<(Chunk<'_, T>, Error)> = Vec::new();
        let (mut has_effect, mut probes) = (false, PROBES);
        loop {
            if stack.is_empty() && !is_last_word {
                (is_last_word, self.in_a_row) = (true, 0);
                if has_effect {
                    stack.extend(refused.drain(..).map(|(chunk, _)| chunk));
                } else {
                    for (chunk, error) in refused.drain(..) {
                        self.refusals += 1;
                        self.refuse(&chunk, &error).await?;
                    }
                }
            }
            let Some(mut chunk) = stack.pop() else { return Ok(()) };
            if chunk.is_empty() {
                continue;
            }
            if self.cx.stop.is_set() {
                let text = format!("{}: not sent, because of a wish to stop", self.doing);
                stack.extend(refused.into_iter().map(|(chunk, _)| chunk).chain([chunk]));
                return fail(self.journal, &stack, &Error::unavailable(text)).await;
            }
            let answer = match self.ended_meanwhile(&mut chunk).await {
                Ok(outcomes) => {
                    finish(self.journal, outcomes).await?;
                    if chunk.is_empty() {
                        continue;
                    }
                    let (journal, many) =
                        (self.journal, are_many(&chunk).then(|| done(&self.sender, &chunk)));
                    let foresee = async {
                        if let Some(many) = many {
                            journal.foreseen(&many).await;
                        }
                    };
                    join(self.sender.send(&mut chunk), foresee).await.0?
                }
                Err(error) => Answer::Over { error, is_lost: false },
            };
            match answer {
                Answer::Done => {
                    (self.in_a_row, probes) = (0, PROBES);
                    has_effect |= !refused.is_empty();
                    finish(self.journal, done(&self.sender, &chunk)).await?;
                }
                Answer::Named(outcomes) => {
                    (self.refusals, self.in_a_row) = (self.refusals + 1, self.in_a_row + 1);
                    self.note(outcomes.iter().filter_map(|(_, outcome)| outcome.error()));
                    remove(&mut chunk, &outcomes);
                    finish(self.journal, outcomes).await?;
                    stack.push(chunk);
                }
                Answer::Refused(_) if is_divisible(&chunk) => stack.extend(halves(chunk)),
                Answer::Refused(error) if !is_last_word => {
                    self.in_a_row += 1;
                    refused.push((chunk, error));
                }
                Answer::TooLarge(_) if chunk.len() > 1 => stack.extend(self.sender.split(chunk)),
                Answer::Refused(error) | Answer::TooLarge(error) => {
                    (self.refusals, self.in_a_row) = (self.refusals + 1, self.in_a_row + 1);
                    self.refuse(&chunk, &error).await?;
                }
                Answer::Over { error, is_lost } => {
                    stack.extend(refused.drain(..).map(|(chunk, _)| chunk));
                    let sent = ids(&chunk).map(|id| (id, ended(&error, is_lost)));
                    let unsent =
                        stack.iter().flat_map(|chunk| ids(chunk)).map(|id| (id, ended(&error, false)));
                    let outcomes = sent.chain(unsent).collect();
                    finish(self.journal, outcomes).await?;
                    return Err(error);
                }
            }
            // Those that come first may be all that is refused: one from the middle and the last one tell.
            let is_odd = self.refusals < S::CULPRITS && self.in_a_row >= IN_A_ROW && probes > 0;
            if is_odd && let Some(probe) = probe(&mut stack, probes) {
                (probes, self.in_a_row) = (probes - 1, IN_A_ROW - 1);
                stack.push(probe);
                continue;
            }
            let is_enough = self.refusals >= S::CULPRITS || self.in_a_row >= IN_A_ROW;
            if is_enough && !stack.is_empty() {
                for (chunk, error) in refused.drain(..) {
                    self.refuse(&chunk, &error).await?;
                }
                let count = self.refusals.max(self.in_a_row);
                let text =
                    format!("{}: not sent, since {count} other records were refused one by one", self.doing);
                let error = Error::invalid(text).hint("mend the records that were refused");
                return fail(self.journal, &stack, &error).await;
            }
        }
    }

    /// Takes out of a chunk what has ended since the request before, and returns how.
    async fn ended_meanwhile<T: Send + Sync>(
        &mut self,
        chunk: &mut Chunk<'_, T>,
    ) -> Result<Vec<(ActionId, Outcome)>, Error>
    where
        S: Sender<T>,
    {
        if !std::mem::replace(&mut self.has_sent, true) {
            return Ok(Vec::new());
        }
        let outcomes = self.sender.look_again(chunk).await?;
        self.note(outcomes.iter().filter_map(|(_, outcome)| outcome.error()));
        remove(chunk, &outcomes);
        Ok(outcomes)
    }

    /// Ends the actions of a chunk that was refused for itself.
    async fn refuse<T: Send + Sync>(&mut self, chunk: &Chunk<'_, T>, error: &Error) -> Result<(), Error>
    where
        S: Sender<T>,
    {
        self.note([error]);
        let sender = &self.sender;
        let failed =
            items(chunk).map(|item| (item.action.id, Outcome::Failed(sender.about(item, error)))).collect();
        finish(self.journal, failed).await
    }

    /// Remembers whether one of these says that the zone moved.
    fn note<'e>(&mut self, errors: impl IntoIterator<Item = &'e Error>) {
        let mut moved = errors.into_iter().filter(|error| error.kind == ErrorKind::Conflict);
        if self.conflict.is_none() {
            self.conflict = moved.next().cloned();
        }
    }
}

/// How the actions of a request end that took effect.
fn done<T: Send + Sync, S: Sender<T>>(sender: &S, chunk: &Chunk<'_, T>) -> Vec<(ActionId, Outcome)> {
    items(chunk).map(|item| (item.action.id, sender.done(item))).collect()
}

/// Ends actions that had no effect.
async fn fail<T>(journal: &dyn Journal, unsent: &[Chunk<'_, T>], error: &Error) -> Result<(), Error> {
    let failed = unsent.iter().flat_map(|chunk| ids(chunk)).map(|id| (id, ended(error, false))).collect();
    finish(journal, failed).await
}

async fn finish(journal: &dyn Journal, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
    if outcomes.is_empty() { Ok(()) } else { journal.finished(outcomes).await }
}

/// How an action ends that `error` kept from being done; where the answer is lost, nobody knows.
fn ended(error: &Error, is_lost: bool) -> Outcome {
    if is_lost { Outcome::Unknown(error.clone()) } else { Outcome::Failed(error.clone()) }
}

/// Ends actions that `error` kept from being done, and the batch with them.
pub(crate) async fn give_up(
    journal: &dyn Journal,
    ids: impl IntoIterator<Item = ActionId>,
    error: Error,
    is_lost: bool,
) -> Result<(), Error> {
    journal.finished(ids.into_iter().map(|id| (id, ended(&error, is_lost))).collect()).await?;
    Err(error)
}
