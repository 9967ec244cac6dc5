//! Writing: actions become lists of changes, sent in parts.
//!
//! Guarantees, besides those of [`crate::batch`]: nothing is written when the zone moved since `base`: all records are read again right before the
//! first write. They are read before each further one as well: what somebody changed by then fails alone, and the batch ends
//! as a conflict after the rest of it. No part is taken for a transaction: after a refusal the records are read once more, and each
//! action ends as what is there says. What did not take effect is sent again by halves, until the culprit is
//! alone; the others are written. A swap that is refused as one is carried out step by step. Twelve refusals in a row without an effect are no culprit but a provider that does not
//! work, and end the batch.

use super::{
    adjust::adjusted,
    backend::Backend,
    client::Changes,
    endpoint::{Endpoint, Key, Set},
    observe::{self, Read},
};
use crate::{
    batch::{self, Answer, Chunk, Delivery, Item, Sender, Together, Unit, Work, about, items, remove},
    http::Failure,
    merge, record, strings,
};
use async_trait::async_trait;
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Error, ErrorKind, Hash, Journal, Outcome, Resource, Version,
};
use std::collections::{BTreeMap, VecDeque};

/// Refusals in a row, without anything that took effect, after which nothing more is tried. Halving a thousand
/// records down to one takes ten.
const REFUSALS: usize = 12;

/// What an action does to its set.
#[derive(Debug)]
struct Change {
    /// What is there now.
    now: Option<Set>,
    /// What shall be there; none to delete it.
    desired: Option<Endpoint>,
}

impl Change {
    fn is_as_before(&self, now: Option<&Set>) -> bool {
        now.map(Set::sorted) == self.now.as_ref().map(Set::sorted)
    }

    fn is_done(&self, now: Option<&Set>) -> bool {
        match (&self.desired, now) {
            (None, now) => now.is_none(),
            (Some(_), None) => false,
            (Some(desired), Some(now)) => {
                let (name, kind) = desired.key();
                let seen = now.bytes(desired.ttl().unwrap_or(0));
                let desired = Set(vec![desired.clone()]).bytes(now.ttl().unwrap_or(0));
                // A text that is sent whole is there however the provider cuts it.
                *strings::as_seen(&record::id(&name, &kind), &desired, &seen) == *seen
            }
        }
    }
}

fn key(item: &Item<'_, Change>) -> Key {
    (item.name().to_owned(), item.kind().to_owned())
}

/// Carries out a batch.
pub(crate) async fn apply(
    backend: &Backend,
    cx: &Cx,
    batch: &Batch,
    journal: &dyn Journal,
) -> Result<(), Error> {
    backend.hear_of(&batch.scope.name);
    observe::forget(backend);
    let read = observe::read(backend, cx).await?;
    read.serves(backend, &batch.scope.name)?;
    let now = read.zone(backend, &batch.scope.name);
    let is_same = observe::version(backend, &now) == batch.base && batch.base != Version::Unknown;
    if !is_same {
        return Err(Error::conflict(format!("zone {} changed since it was observed", batch.scope.name)));
    }
    let wanted: Vec<&Resource> = batch.actions.iter().filter_map(|action| action.op.desired()).collect();
    let mut kept = adjusted(backend, cx, &wanted).await?;
    let mut work = Work::of(batch, Together::Swaps, |action, name, kind| {
        let change = change(action, (name, kind), &now, &read, &mut kept)?;
        Ok((!change.is_done(change.now.as_ref())).then_some(change))
    });
    let of_zone = batch.actions.iter().filter(|action| record::parts(action.op.id()).is_none());
    work.settled.extend(of_zone.map(|action| {
        let text = format!("{}: a webhook provider has no zones to change", action.op.id());
        (action.id, Outcome::Failed(Error::unsupported(text)))
    }));
    batch::settle(journal, work.settled).await?;
    let doing = format!("change zone {}", batch.scope.name);
    let deleted = batch.actions.iter().filter(|action| action.op.desired().is_none()).count();
    let may_be_empty = read.sets.len() <= deleted;
    let requests = Requests { backend, cx, journal, doing: &doing, refusals: 0, last: None, may_be_empty };
    let mut delivery = Delivery::new(requests, cx, journal, &doing);
    delivery.all(work.units).await?;
    delivery.conflict.map_or(Ok(()), Err)
}

fn change(
    action: &Action,
    (name, kind): (&str, &str),
    own: &BTreeMap<Key, Set>,
    read: &Read,
    kept: &mut BTreeMap<Key, Result<Endpoint, Error>>,
) -> Result<Change, Error> {
    let id = action.op.id();
    let key = (name.to_owned(), kind.to_owned());
    // Among all that was read: a zone within this one may have been heard of, and have it.
    let now = read.sets.get(&key).cloned();
    let shown = name.trim_end_matches('.');
    let is_as_seen =
        |set: &Set| batch::observed(action).is_some_and(|observed| observed.hash == Hash::of(&set.bytes(0)));
    // What was seen as a record of this zone is one, as long as it stands.
    if now.as_ref().is_some_and(|set| !own.contains_key(&key) && !is_as_seen(set)) {
        let text = format!("{shown} {kind} is there already, as a record of a zone within this one");
        return Err(Error::conflict(text).hint("declare it in the innermost zone that holds its name"));
    }
    if now.as_ref().is_some_and(Set::is_routed) {
        let text =
            format!("{shown} {kind} is one of several answers with a set identifier, which are not written");
        return Err(
            Error::unsupported(text).hint("remove it from the manifests, or remove those records by hand")
        );
    }
    if !read.filter.serves(shown) {
        let text = format!("{shown} {kind} is outside of the domain filter of the provider");
        return Err(Error::invalid(text).hint("remove the record, or widen the filter of the provider"));
    }
    let desired = match action.op.desired() {
        None => None,
        Some(_) => {
            let mut desired = kept
                .remove(&key)
                .unwrap_or_else(|| Err(Error::invalid(format!("the content of {id} is not known yet"))))?;
            if let Some(old) = now.as_ref().and_then(|set| set.0.first()) {
                desired.inherit(old);
            }
            Some(desired)
        }
    };
    Ok(Change { now, desired })
}

/// The requests that change records.
struct Requests<'a> {
    backend: &'a Backend,
    cx: &'a Cx,
    journal: &'a dyn Journal,
    doing: &'a str,
    /// Refusals in a row, without anything that took effect.
    refusals: usize,
    /// What was read since the last request.
    last: Option<Read>,
    /// All that there was is deleted by this batch.
    may_be_empty: bool,
}

#[async_trait]
impl Sender<Change> for Requests<'_> {
    fn take<'b>(&self, queue: &mut VecDeque<Unit<'b, Change>>) -> Chunk<'b, Change> {
        let mut count = 0;
        batch::take(queue, |unit| {
            count += unit.len();
            count <= self.backend.config.max_changes
        })
    }

    async fn look_again(&mut self, chunk: &mut Chunk<'_, Change>) -> Result<Vec<(ActionId, Outcome)>, Error> {
        let read = match self.last.take() {
            Some(read) => read,
            None => self.read().await?,
        };
        let is_as_before = |item: &Item<'_, Change>| item.takes.is_as_before(read.sets.get(&key(item)));
        let is_done = |item: &Item<'_, Change>| item.takes.is_done(read.sets.get(&key(item)));
        let mut ended =
            batch::named(chunk, |item| (!is_as_before(item) && !is_done(item)).then(|| batch::changed(item)));
        remove(chunk, &ended);
        ended.extend(items(chunk).filter(|item| is_done(item)).map(|i| (i.action.id, merge::done(i.action))));
        Ok(ended)
    }

    async fn send(&mut self, chunk: &mut Chunk<'_, Change>) -> Result<Answer, Error> {
        let error = match self.backend.remote.change(self.cx, &changes(chunk), self.doing).await {
            Ok(()) => {
                self.refusals = 0;
                return Ok(Answer::Done);
            }
            Err(Failure::Refused(error, ())) => error,
            Err(failure) => return Ok(failure.into()),
        };
        let Some(has_effect) = self.look(chunk, &error).await? else {
            return Ok(Answer::Over { error, is_lost: true });
        };
        self.refusals = if has_effect { 0 } else { self.refusals + 1 };
        let is_for_all = matches!(error.kind, ErrorKind::RateLimited | ErrorKind::PermissionDenied);
        if is_for_all || self.refusals >= REFUSALS {
            return Ok(Answer::Over { error, is_lost: false });
        }
        match &chunk[..] {
            [unit] if is_swap(unit) => self.in_steps(chunk, error).await,
            _ => Ok(Answer::Refused(error)),
        }
    }
}

/// True where something goes and something else takes its place.
fn is_swap(unit: &Unit<'_, Change>) -> bool {
    let goes = |item: &Item<'_, Change>| item.takes.desired.is_none();
    unit.iter().any(goes) && !unit.iter().all(goes)
}

impl Requests<'_> {
    /// Reads everything again.
    ///
    /// Errors: also where nothing is there, though this batch leaves something: that would say of each deletion that it is done.
    async fn read(&self) -> Result<Read, Error> {
        let read = observe::read(self.backend, self.cx).await?;
        if read.sets.is_empty() && !self.may_be_empty {
            return Err(observe::doubtful(self.backend, "though not all of them were deleted"));
        }
        Ok(read)
    }

    /// Ends what a refused request did in spite of its refusal; true where there was any, none when nobody can tell.
    async fn look(&mut self, chunk: &mut Chunk<'_, Change>, error: &Error) -> Result<Option<bool>, Error> {
        let Ok(read) = self.read().await else { return Ok(None) };
        let effects = effects(chunk, &read, error);
        self.last = Some(read);
        if effects.is_empty() {
            return Ok(Some(false));
        }
        remove(chunk, &effects);
        self.journal.finished(effects).await?;
        Ok(Some(true))
    }

    /// True when nothing of what `chunk` creates is there.
    async fn nothing_came(&self, chunk: &Chunk<'_, Change>) -> bool {
        let Ok(read) = self.read().await else { return false };
        items(chunk).all(|item| item.takes.desired.is_none() || !read.sets.contains_key(&key(item)))
    }

    /// Carries out a swap that was refused as one: providers that create before they delete find the name taken.
    ///
    /// The gap is one round trip. Where what comes is refused, what went is put back, and it is not tried again: each try
    /// would take the name away once more.
    async fn in_steps(&mut self, chunk: &mut Chunk<'_, Change>, refusal: Error) -> Result<Answer, Error> {
        self.last = None;
        let all = changes(chunk);
        let going = Changes { delete: all.delete.clone(), ..Changes::default() };
        let coming = Changes { delete: Vec::new(), ..all };
        let error = match self.backend.remote.change(self.cx, &going, self.doing).await {
            Ok(()) => match self.backend.remote.change(self.cx, &coming, self.doing).await {
                Ok(()) => {
                    self.refusals = 0;
                    return Ok(Answer::Done);
                }
                // No more is taken at all for now: the next pass goes on with what comes.
                Err(Failure::Refused(error, ())) if !is_about_content(&error) => {
                    return Ok(Answer::Over { error, is_lost: true });
                }
                Err(Failure::Refused(error, ())) => {
                    // Beside a part of what comes, what went would be in its way.
                    if self.nothing_came(chunk).await {
                        let back = Changes { create: going.delete, ..Changes::default() };
                        // Whether it worked is seen by looking.
                        let _ = self.backend.remote.change(self.cx, &back, self.doing).await;
                    }
                    Error::invalid(format!(
                        "{error}, although its name was free; what was there was put back"
                    ))
                    .hint("change what is declared: until then it is not tried again")
                }
                Err(failure) => return Ok(Answer::Over { error: failure.into_error(), is_lost: true }),
            },
            Err(Failure::Refused(..)) => refusal,
            Err(failure) => return Ok(failure.into()),
        };
        match self.look(chunk, &error).await? {
            Some(_) => Ok(Answer::Refused(error)),
            None => Ok(Answer::Over { error, is_lost: true }),
        }
    }
}

/// False where a provider takes no request at all for now, whatever is in it.
fn is_about_content(error: &Error) -> bool {
    !matches!(error.kind, ErrorKind::RateLimited | ErrorKind::PermissionDenied)
}

/// What a refused request did in spite of its refusal.
fn effects(chunk: &[Unit<'_, Change>], read: &Read, error: &Error) -> Vec<(ActionId, Outcome)> {
    let effect = |item: &Item<'_, Change>| {
        let after = read.sets.get(&key(item));
        if item.takes.is_done(after) {
            return Some(merge::done(item.action));
        }
        (!item.takes.is_as_before(after)).then(|| Outcome::Unknown(about(item, error)))
    };
    items(chunk).filter_map(|item| Some((item.action.id, effect(item)?))).collect()
}

fn changes(chunk: &[Unit<'_, Change>]) -> Changes {
    let mut out = Changes::default();
    for item in items(chunk) {
        match (&item.takes.desired, &item.takes.now) {
            (Some(desired), Some(now)) => {
                out.update_old.extend(now.united());
                out.update_new.push(desired.clone());
            }
            (Some(desired), None) => out.create.push(desired.clone()),
            (None, now) => out.delete.extend(now.iter().flat_map(|set| set.0.iter().cloned())),
        }
    }
    out
}
