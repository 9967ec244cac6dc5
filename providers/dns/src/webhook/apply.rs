//! Writing: actions become lists of changes, sent in parts.
//!
//! Guarantees: nothing is written when the zone moved since `base`: all records are read again right before the
//! first write. No part is taken for a transaction: after a refusal the records are read once more, and each
//! action ends as what is there says. What did not take effect is sent again by halves, until the culprit is
//! alone; the others are written. Where half of a swap cannot be sent, neither is the other half. Twelve refusals in a row without an effect are no culprit but a provider that
//! does not work, and end the batch.
//!
//! A request without an answer ends as `Unknown`, and so does the batch: the next pass observes first.

use super::{
    Backend,
    adjust::adjusted,
    client::Changes,
    endpoint::{Endpoint, Key, Set},
    observe::{self, Read},
};
use crate::{http::Failure, merge, record};
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Error, ErrorKind, Journal, Op, Outcome, Resource, Version,
};
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Refusals in a row, without anything that took effect, after which nothing more is tried. Halving a thousand
/// records down to one takes ten.
const REFUSALS: usize = 12;

/// One action and what it does to its set.
#[derive(Debug)]
struct Item<'b> {
    action: &'b Action,
    key: Key,
    /// What is there now.
    now: Option<Set>,
    /// What shall be there; none to delete it.
    desired: Option<Endpoint>,
}

impl Item<'_> {
    fn is_as_wanted(&self, now: Option<&Set>) -> bool {
        match (&self.desired, now) {
            (None, now) => now.is_none(),
            (Some(_), None) => false,
            (Some(desired), Some(now)) => {
                let ttl = desired.ttl().unwrap_or(0);
                now.bytes(ttl) == Set(vec![desired.clone()]).bytes(now.ttl().unwrap_or(0))
            }
        }
    }
}

/// Carries out a batch.
pub(crate) async fn apply(
    backend: &Backend,
    cx: &Cx,
    batch: &Batch,
    journal: &dyn Journal,
) -> Result<(), Error> {
    if batch.actions.is_empty() || cx.stop.is_set() {
        return Ok(());
    }
    backend.hear_of(&batch.scope.name);
    observe::forget(backend);
    let read = observe::read(backend, cx).await?;
    read.serves(backend, &batch.scope.name)?;
    let now = read.zone(backend, &batch.scope.name);
    let is_same = observe::version(&now) == batch.base && batch.base != Version::Unknown;
    if !is_same {
        return Err(Error::conflict(format!("zone {} changed since it was observed", batch.scope.name)));
    }
    let wanted: Vec<&Resource> = batch.actions.iter().filter_map(|action| action.op.desired()).collect();
    let mut kept = adjusted(backend, cx, &wanted).await?;
    let (mut settled, mut items, mut broken) = (Vec::new(), Vec::new(), HashSet::new());
    for action in &batch.actions {
        match item(action, &now, &read, &mut kept) {
            Ok(item) if item.is_as_wanted(item.now.as_ref()) => settled.push(done(&item)),
            Ok(item) => items.push(item),
            Err(error) => {
                settled.push((action.id, Outcome::Failed(error)));
                broken.extend(record::parts(action.op.id()).map(|(name, _)| name));
            }
        }
    }
    let deletes = batch.actions.iter().filter(|action| matches!(action.op, Op::Delete { .. }));
    let swapped = deletes.filter_map(|action| record::parts(action.op.id())).map(|(name, _)| name).collect();
    let (mut queue, held) = units(items, &swapped, &broken);
    settled.extend(held.iter().map(|item| (item.action.id, Outcome::Failed(held_back(item)))));
    let run = Run { backend, cx, journal, batch };
    if !settled.is_empty() {
        let ids: Vec<ActionId> = settled.iter().map(|(id, _)| *id).collect();
        journal.started(&ids).await?;
        journal.finished(settled).await?;
    }
    let mut refusals = 0;
    while !queue.is_empty() {
        if cx.stop.is_set() {
            return Ok(());
        }
        let mut chunk: Vec<Vec<Item<'_>>> = Vec::new();
        while let Some(unit) = queue.pop_front() {
            let count: usize = chunk.iter().map(Vec::len).sum();
            if !chunk.is_empty() && count + unit.len() > backend.config.max_changes {
                queue.push_front(unit);
                break;
            }
            chunk.push(unit);
        }
        journal.started(&ids_of(&chunk).collect::<Vec<_>>()).await?;
        run.send(chunk, &mut refusals).await?;
    }
    Ok(())
}

fn item<'b>(
    action: &'b Action,
    own: &BTreeMap<Key, Set>,
    read: &Read,
    kept: &mut BTreeMap<Key, Result<Endpoint, Error>>,
) -> Result<Item<'b>, Error> {
    let id = action.op.id();
    let Some((name, kind)) = record::parts(id) else {
        return Err(Error::unsupported(format!("{id}: a webhook provider has no zones to change")));
    };
    let key = (name.to_owned(), kind.to_owned());
    // Among all that was read: a zone within this one may have been heard of, and have it.
    let now = read.sets.get(&key).cloned();
    let shown = name.trim_end_matches('.');
    if now.is_some() && !own.contains_key(&key) {
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
    Ok(Item { action, key, now, desired })
}

/// Actions that are sent together: all at a name of which something is deleted (`swapped`), else each for itself.
/// Held back are those at such a name of which something is `broken`: half a swap would leave a hole.
fn units<'b>(
    items: Vec<Item<'b>>,
    swapped: &HashSet<&str>,
    broken: &HashSet<&str>,
) -> (VecDeque<Vec<Item<'b>>>, Vec<Item<'b>>) {
    let (mut units, mut held): (VecDeque<Vec<Item<'b>>>, _) = (VecDeque::new(), Vec::new());
    for item in items {
        if swapped.contains(item.key.0.as_str()) && broken.contains(item.key.0.as_str()) {
            held.push(item);
            continue;
        }
        let same = |unit: &&mut Vec<Item<'_>>| unit.first().is_some_and(|first| first.key.0 == item.key.0);
        match units.iter_mut().find(same).filter(|_| swapped.contains(item.key.0.as_str())) {
            Some(unit) => unit.push(item),
            None => units.push_back(vec![item]),
        }
    }
    (units, held)
}

fn held_back(item: &Item<'_>) -> Error {
    Error::invalid(format!("{} is held back: other data at its name were refused", item.action.op.id()))
}

struct Run<'a> {
    backend: &'a Backend,
    cx: &'a Cx,
    journal: &'a dyn Journal,
    batch: &'a Batch,
}

impl<'b> Run<'b> {
    /// Sends units, already `started`, in one request; in several when something is refused.
    async fn send(&self, chunk: Vec<Vec<Item<'b>>>, refusals: &mut usize) -> Result<(), Error> {
        let doing = format!("change zone {}", self.batch.scope.name);
        let mut stack = vec![chunk];
        while let Some(chunk) = stack.pop() {
            if chunk.is_empty() {
                continue;
            }
            if self.cx.stop.is_set() {
                let error = Error::unavailable(format!("{doing}: not sent, because of a wish to stop"));
                let unsent = stack.iter().chain([&chunk]).flat_map(|chunk| ids_of(chunk));
                return self
                    .journal
                    .finished(unsent.map(|id| (id, Outcome::Failed(error.clone()))).collect())
                    .await;
            }
            let error = match self.backend.remote.change(self.cx, &changes(&chunk), &doing).await {
                Ok(()) => {
                    *refusals = 0;
                    self.journal.finished(chunk.iter().flatten().map(done).collect()).await?;
                    continue;
                }
                Err(Failure::Refused(error, ())) => error,
                Err(Failure::NotSent(error)) => return self.give_up(error, false, &chunk, &stack).await,
                Err(Failure::Lost(error)) => return self.give_up(error, true, &chunk, &stack).await,
            };
            let (mut left, has_effect) = self.look(chunk, &error, &stack).await?;
            *refusals = if has_effect { 0 } else { *refusals + 1 };
            let is_for_all = matches!(error.kind, ErrorKind::RateLimited | ErrorKind::PermissionDenied);
            if is_for_all || *refusals >= REFUSALS {
                return self.give_up(error, false, &left, &stack).await;
            }
            if left.len() > 1 {
                let second = left.split_off(left.len() / 2);
                stack.push(second);
                stack.push(left);
            } else {
                let failed =
                    left.iter().flatten().map(|item| (item.action.id, Outcome::Failed(about(item, &error))));
                self.journal.finished(failed.collect()).await?;
            }
        }
        Ok(())
    }

    /// Reads what a refused request left behind. Returns the units that had no effect at all, and whether
    /// others had.
    async fn look(
        &self,
        chunk: Vec<Vec<Item<'b>>>,
        error: &Error,
        stack: &[Vec<Vec<Item<'b>>>],
    ) -> Result<(Vec<Vec<Item<'b>>>, bool), Error> {
        let read = match observe::read(self.backend, self.cx).await {
            Ok(read) => read,
            Err(_) => {
                self.give_up(error.clone(), true, &chunk, stack).await?;
                return Ok((Vec::new(), false));
            }
        };
        let (mut left, mut outcomes) = (Vec::new(), Vec::new());
        for unit in chunk {
            let mut rest = Vec::new();
            for item in unit {
                let after = read.sets.get(&item.key);
                if item.is_as_wanted(after) {
                    outcomes.push(done(&item));
                } else if after.map(Set::sorted) == item.now.as_ref().map(Set::sorted) {
                    rest.push(item);
                } else {
                    outcomes.push((item.action.id, Outcome::Unknown(about(&item, error))));
                }
            }
            if !rest.is_empty() {
                left.push(rest);
            }
        }
        let has_effect = !outcomes.is_empty();
        if has_effect {
            self.journal.finished(outcomes).await?;
        }
        Ok((left, has_effect))
    }

    /// Ends the batch. `sent` may have taken effect if `is_lost`; what is left had none.
    async fn give_up(
        &self,
        error: Error,
        is_lost: bool,
        sent: &[Vec<Item<'b>>],
        unsent: &[Vec<Vec<Item<'b>>>],
    ) -> Result<(), Error> {
        let outcome = |id| {
            let error = error.clone();
            (id, if is_lost { Outcome::Unknown(error) } else { Outcome::Failed(error) })
        };
        let mut outcomes: Vec<_> = ids_of(sent).map(outcome).collect();
        let left = unsent.iter().flat_map(|chunk| ids_of(chunk));
        outcomes.extend(left.map(|id| (id, Outcome::Failed(error.clone()))));
        self.journal.finished(outcomes).await?;
        Err(error)
    }
}

fn changes(chunk: &[Vec<Item<'_>>]) -> Changes {
    let mut out = Changes::default();
    for item in chunk.iter().flatten() {
        match (&item.desired, &item.now) {
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

fn about(item: &Item<'_>, error: &Error) -> Error {
    let mut named = error.clone();
    named.message = format!("{} {}: {}", item.key.0.trim_end_matches('.'), item.key.1, error.message);
    named
}

fn ids_of(chunk: &[Vec<Item<'_>>]) -> impl Iterator<Item = ActionId> {
    chunk.iter().flatten().map(|item| item.action.id)
}

fn done(item: &Item<'_>) -> (ActionId, Outcome) {
    (item.action.id, merge::done(item.action))
}
