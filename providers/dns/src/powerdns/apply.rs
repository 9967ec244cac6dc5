//! Writing: a batch becomes as few requests as the server's body limit allows.
//!
//! Guarantees:
//! - nothing is written when the zone moved since `base`: it is asked right before the first write;
//! - a name is never split over two requests, so CNAME ↔ A is one transaction;
//! - each request is `started` before and `finished` after it, with exactly its actions;
//! - what the server refuses (422) fails alone and the rest is sent again. Where the refused RRset shares its
//!   name with a deletion, everything at that name is held back: half a swap would leave a hole.
//!
//! A request without an answer ends as `Unknown`, and so does the batch: the next pass observes first.

use super::{
    Backend,
    body::{Encoder, Item},
    client::{Failure, zone_path},
    culprit::{Culprit, culprit},
    observe,
};
use crate::{merge, name, record};
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Error, Hash, Journal, Observed, Op, Outcome, ResourceId, Tracked, Version,
};
use reqwest::{Method, StatusCode};
use std::collections::{HashMap, HashSet, VecDeque};

/// All actions at one name, in the planner's order: the least that is sent together.
type Unit<'b> = Vec<Item<'b>>;

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
    let work = Work::of(batch);
    let serial = fence(backend, cx, batch, work.create.is_some()).await?;
    let run = Run { backend, cx, journal, batch, encoder: Encoder { backend, serial } };
    run.settle(&work).await?;
    let mut queue = work.units;
    if let Some(create) = work.create {
        run.create_zone(create, &mut queue).await?;
    }
    while !queue.is_empty() {
        if cx.stop.is_set() {
            return Ok(());
        }
        let chunk = run.chunk(&mut queue, true);
        journal.started(&ids_of(&chunk).collect::<Vec<_>>()).await?;
        run.patch(chunk).await?;
    }
    match work.delete {
        Some(action) if !cx.stop.is_set() => run.delete_zone(action).await,
        _ => Ok(()),
    }
}

/// A batch, sorted by what it takes.
struct Work<'b> {
    create: Option<&'b Action>,
    delete: Option<&'b Action>,
    /// Actions on the zone that need no call.
    kept: Vec<&'b Action>,
    /// Actions that cannot be sent, and why.
    refused: Vec<(ActionId, Error)>,
    units: VecDeque<Unit<'b>>,
}

impl<'b> Work<'b> {
    fn of(batch: &'b Batch) -> Work<'b> {
        let mut work = Work {
            create: None,
            delete: None,
            kept: Vec::new(),
            refused: Vec::new(),
            units: VecDeque::new(),
        };
        let (mut by_name, mut broken) = (HashMap::<&str, usize>::new(), HashSet::new());
        for action in &batch.actions {
            let Some((name, kind)) = record::parts(action.op.id()) else {
                match &action.op {
                    Op::Create { .. } => work.create = Some(action),
                    Op::Delete { .. } => work.delete = Some(action),
                    _ => work.kept.push(action),
                }
                continue;
            };
            let item = match Item::new(action, name, kind) {
                Ok(item) => item,
                Err(error) => {
                    work.refused.push((action.id, error));
                    broken.insert(name);
                    continue;
                }
            };
            let index = *by_name.entry(name).or_insert(work.units.len());
            match work.units.get_mut(index) {
                Some(unit) => unit.push(item),
                None => work.units.push_back(vec![item]),
            }
        }
        let refused = &mut work.refused;
        // Half a swap would leave a hole.
        work.units.retain(|unit| {
            let is_broken = unit.iter().any(|item| broken.contains(item.name));
            let is_held = is_broken && unit.iter().any(|item| item.desired.is_none());
            if is_held {
                refused.extend(unit.iter().map(|item| (item.action.id, held_back(item))));
            }
            !is_held
        });
        work
    }
}

/// Makes sure that the zone is as it was when the plan was made; returns its serial.
///
/// The race that is left: a change between this call and the first write. Both are one round trip apart.
async fn fence(backend: &Backend, cx: &Cx, batch: &Batch, creates: bool) -> Result<u32, Error> {
    let zone = &batch.scope.name;
    let moved = || Error::conflict(format!("zone {zone} changed at the server since it was observed"));
    match &batch.base {
        // Creation fences itself: the server refuses a zone that exists.
        Version::Absent if creates => Ok(0),
        Version::Absent => Err(Error::conflict(format!("zone {zone} does not exist at the server"))),
        Version::At(_) => match observe::probe(backend, cx, &batch.scope).await? {
            Some(zone) if zone.version == batch.base => Ok(zone.serial),
            _ => Err(moved()),
        },
        // The serial says nothing here, so what the batch touches is compared itself.
        Version::Unknown => {
            let Some(now) = observe::full(backend, cx, &batch.scope).await? else { return Err(moved()) };
            let is_as_planned = |action: &Action| stands(action, &now.resources);
            if batch.actions.iter().all(is_as_planned) { Ok(now.serial) } else { Err(moved()) }
        }
    }
}

/// True when what an action touches is as planned, or already as wanted.
fn stands(action: &Action, now: &[Observed]) -> bool {
    let id: &ResourceId = action.op.id();
    let seen = now.binary_search_by(|o| o.id.cmp(id)).ok().and_then(|index| now.get(index));
    let seen = seen.map(|observed| observed.hash);
    let wanted = action.op.desired().and_then(|resource| resource.spec.hash());
    let planned = match &action.op {
        Op::Create { .. } => None,
        Op::Update { observed, .. } | Op::Replace { observed, .. } | Op::Delete { observed, .. } => {
            Some(observed.hash)
        }
        Op::Continue { .. } => seen,
    };
    seen == planned || seen == wanted
}

struct Run<'a> {
    backend: &'a Backend,
    cx: &'a Cx,
    journal: &'a dyn Journal,
    batch: &'a Batch,
    encoder: Encoder<'a>,
}

impl<'b> Run<'b> {
    /// Finishes what needs no call.
    async fn settle(&self, work: &Work<'b>) -> Result<(), Error> {
        let failed = work.refused.iter().map(|(id, error)| (*id, Outcome::Failed(error.clone())));
        let kept = work.kept.iter().map(|action| (action.id, Outcome::Done(zone_tracked(action))));
        let outcomes: Vec<_> = failed.chain(kept).collect();
        if outcomes.is_empty() {
            return Ok(());
        }
        let ids: Vec<ActionId> = outcomes.iter().map(|(id, _)| *id).collect();
        self.journal.started(&ids).await?;
        self.journal.finished(outcomes).await
    }

    /// Takes as many units from the queue as fit into one request, at least one.
    fn chunk(&self, queue: &mut VecDeque<Unit<'b>>, is_patch: bool) -> Vec<Unit<'b>> {
        let mut chunk = Vec::new();
        // What stands around the list: a zone's name and name servers at most.
        let mut size = 4_096;
        let mut scratch = Vec::new();
        while let Some(unit) = queue.front() {
            scratch.clear();
            for item in unit {
                self.encoder.item(item, is_patch, &mut scratch);
                scratch.push(b',');
            }
            if !chunk.is_empty() && size + scratch.len() > self.backend.limit() {
                break;
            }
            size += scratch.len();
            chunk.extend(queue.pop_front());
        }
        chunk
    }

    /// Creates the zone with as many records as fit; what is left stays in the queue.
    async fn create_zone(&self, create: &'b Action, queue: &mut VecDeque<Unit<'b>>) -> Result<(), Error> {
        let zone = record::zone_name(&self.batch.scope);
        let doing = format!("create zone {}", self.batch.scope.name);
        let mut chunk = self.chunk(queue, false);
        let mut ids: Vec<ActionId> = vec![create.id];
        ids.extend(items(&chunk).map(|item| item.action.id));
        self.journal.started(&ids).await?;
        loop {
            let body = self.encoder.post(&zone, items(&chunk));
            let (size, call) = (body.len(), "/zones?rrsets=false");
            let failure =
                match self.backend.client.call(self.cx, Method::POST, call, Some(body), &doing).await {
                    Ok(_) => {
                        let mut outcomes = vec![(create.id, Outcome::Done(zone_tracked(create)))];
                        outcomes.extend(items(&chunk).map(done));
                        return self.journal.finished(outcomes).await;
                    }
                    Err(failure) => failure,
                };
            let is_size = failure.is_size(size);
            if is_size || failure.may_be_size(size) {
                self.backend.learn_limit(size);
            }
            let is_refusal = failure.is_refusal();
            if let Failure::Refused { text, error, .. } = &failure
                && is_refusal
            {
                let named = blame(&chunk, text, error);
                if !named.is_empty() {
                    remove(&mut chunk, &named);
                    self.journal.finished(named).await?;
                    continue;
                }
            }
            if (is_size || is_refusal) && !chunk.is_empty() {
                // Nobody is named, or the body is too large: the zone alone first, then its records, where
                // the culprit can be found by halves.
                self.create_bare(create, &zone, &chunk).await?;
                return self.patch(chunk).await;
            }
            return self.give_up(failure, ids_of(&chunk).chain([create.id]), []).await;
        }
    }

    /// Creates the zone without records; those of `chunk` were to come with it.
    async fn create_bare(&self, create: &'b Action, zone: &str, chunk: &[Unit<'b>]) -> Result<(), Error> {
        let doing = format!("create zone {}", self.batch.scope.name);
        let body = self.encoder.post(zone, [].iter());
        let call = self.backend.client.call(self.cx, Method::POST, "/zones?rrsets=false", Some(body), &doing);
        match call.await {
            Ok(_) => {
                let outcome = Outcome::Done(zone_tracked(create));
                self.journal.finished(vec![(create.id, outcome)]).await
            }
            Err(failure) => self.give_up(failure, [create.id], ids_of(chunk)).await,
        }
    }

    /// Sends units, already `started`, in one request; in several when some of it is refused.
    async fn patch(&self, chunk: Vec<Unit<'b>>) -> Result<(), Error> {
        let path = zone_path(&record::zone_name(&self.batch.scope));
        let doing = format!("change zone {}", self.batch.scope.name);
        let mut stack = vec![chunk];
        while let Some(mut chunk) = stack.pop() {
            if chunk.is_empty() {
                continue;
            }
            // What is left on the stack stays `started` without an outcome: the next pass observes it.
            if self.cx.stop.is_set() {
                return Ok(());
            }
            let body = self.encoder.patch(items(&chunk));
            let size = body.len();
            let failure =
                match self.backend.client.call(self.cx, Method::PATCH, &path, Some(body), &doing).await {
                    Ok(_) => {
                        self.journal.finished(items(&chunk).map(done).collect()).await?;
                        continue;
                    }
                    Err(failure) => failure,
                };
            let is_size = failure.is_size(size);
            if is_size || failure.may_be_size(size) {
                self.backend.learn_limit(size);
            }
            match failure {
                Failure::Refused { status: StatusCode::UNPROCESSABLE_ENTITY, text, error } => {
                    let named = blame(&chunk, &text, &error);
                    if !named.is_empty() {
                        remove(&mut chunk, &named);
                        self.journal.finished(named).await?;
                        stack.push(chunk);
                    } else if chunk.len() > 1 {
                        halve(chunk, &mut stack);
                    } else {
                        self.fail(&chunk, error).await?;
                    }
                }
                _ if is_size && chunk.len() > 1 => halve(chunk, &mut stack),
                // One name alone is too large; the others need not wait for it.
                Failure::Refused { error, .. } if is_size => self.fail(&chunk, error).await?,
                failure => {
                    let unsent: Vec<ActionId> = stack.iter().flat_map(|chunk| ids_of(chunk)).collect();
                    return self.give_up(failure, ids_of(&chunk), unsent).await;
                }
            }
        }
        Ok(())
    }

    /// Ends the actions of a chunk that had no effect and never will have.
    async fn fail(&self, chunk: &[Unit<'b>], error: Error) -> Result<(), Error> {
        let failed = ids_of(chunk).map(|id| (id, Outcome::Failed(error.clone())));
        self.journal.finished(failed.collect()).await
    }

    async fn delete_zone(&self, action: &'b Action) -> Result<(), Error> {
        self.journal.started(&[action.id]).await?;
        let path = zone_path(&record::zone_name(&self.batch.scope));
        let doing = format!("delete zone {}", self.batch.scope.name);
        match self.backend.client.call(self.cx, Method::DELETE, &path, None, &doing).await {
            Ok(_) => self.journal.finished(vec![(action.id, Outcome::Gone)]).await,
            Err(failure) if failure.is_not_found() => {
                self.journal.finished(vec![(action.id, Outcome::Gone)]).await
            }
            Err(failure) => self.give_up(failure, [action.id], []).await,
        }
    }

    /// Ends the batch: `sent` ended as the failure says, `unsent` had no effect.
    async fn give_up(
        &self,
        failure: Failure,
        sent: impl IntoIterator<Item = ActionId>,
        unsent: impl IntoIterator<Item = ActionId>,
    ) -> Result<(), Error> {
        let is_lost = matches!(failure, Failure::Lost(_));
        let error = failure.into_error();
        let outcome = |error: Error| if is_lost { Outcome::Unknown(error) } else { Outcome::Failed(error) };
        let mut outcomes: Vec<_> = sent.into_iter().map(|id| (id, outcome(error.clone()))).collect();
        outcomes.extend(unsent.into_iter().map(|id| (id, Outcome::Failed(error.clone()))));
        self.journal.finished(outcomes).await?;
        Err(error)
    }
}

fn items<'i, 'b: 'i>(chunk: &'i [Unit<'b>]) -> impl Iterator<Item = &'i Item<'b>> + Clone {
    chunk.iter().flatten()
}

fn ids_of(chunk: &[Unit<'_>]) -> impl Iterator<Item = ActionId> {
    items(chunk).map(|item| item.action.id)
}

fn halve<'b>(mut chunk: Vec<Unit<'b>>, stack: &mut Vec<Vec<Unit<'b>>>) {
    let second = chunk.split_off(chunk.len() / 2);
    stack.push(second);
    stack.push(chunk);
}

/// Outcomes of the items that a 422 names, and of what must not go on without them.
fn blame(chunk: &[Unit<'_>], text: &str, error: &Error) -> Vec<(ActionId, Outcome)> {
    let Some(culprit) = culprit(text) else { return Vec::new() };
    let named = |item: &Item<'_>| match &culprit {
        Culprit::Set { name: set, kind } => item.kind == *kind && item.name == name::observed(set),
        Culprit::Name(name) => item.name == *name || item.name == name::observed(name),
    };
    let mut outcomes = Vec::new();
    for unit in chunk.iter().filter(|unit| unit.iter().any(named)) {
        let has_delete = unit.iter().any(|item| item.desired.is_none());
        for item in unit {
            if named(item) {
                outcomes.push((item.action.id, Outcome::Failed(error.clone())));
            } else if has_delete {
                outcomes.push((item.action.id, Outcome::Failed(held_back(item))));
            }
        }
    }
    outcomes
}

fn held_back(item: &Item<'_>) -> Error {
    Error::invalid(format!("{} is held back: other data at its name were refused", item.action.op.id()))
}

fn remove(chunk: &mut Vec<Unit<'_>>, outcomes: &[(ActionId, Outcome)]) {
    let gone: HashSet<ActionId> = outcomes.iter().map(|(id, _)| *id).collect();
    for unit in chunk.iter_mut() {
        unit.retain(|item| !gone.contains(&item.action.id));
    }
    chunk.retain(|unit| !unit.is_empty());
}

fn done(item: &Item<'_>) -> (ActionId, Outcome) {
    (item.action.id, merge::done(item.action))
}

fn zone_tracked(action: &Action) -> Tracked {
    Tracked::new(action.op.id().clone(), Hash::of(record::ZONE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Origin, PolicyId, Resource, Scope, Spec};
    use std::sync::Arc;

    #[test]
    fn a_deletion_waits_where_the_content_that_follows_it_is_not_known() {
        let scope = Scope::new("pdns", "example.com");
        let create = |id: &str, spec: Spec| {
            let origin = Origin { manifest: 0, line: 1 };
            let scope = Arc::new(scope.clone());
            let desired = Resource { id: id.into(), scope, spec, origin, policy: PolicyId::default() };
            Op::Create { desired, delta: Default::default() }
        };
        let waiting = || Spec::Waiting { template: Hash::of(b"a"), on: Vec::new().into() };
        let cname = Observed::new("x.example.com./CNAME".into(), b"300\na.example.net.".to_vec());
        let ops = vec![
            Op::Delete { observed: cname, tracked: None },
            create("x.example.com./A", waiting()),
            create("y.example.com./A", Spec::known(b"300\n192.0.2.1".to_vec())),
            create("y.example.com./AAAA", waiting()),
        ];
        let action = |(i, op): (usize, Op)| Action { id: ActionId(i as u64), token: "t".into(), op };
        let actions = ops.into_iter().enumerate().map(action).collect();
        let batch = Batch { scope: scope.clone(), base: Version::Unknown, actions };
        let work = Work::of(&batch);
        let sent: Vec<u64> = work.units.iter().flatten().map(|item| item.action.id.0).collect();
        let mut refused: Vec<u64> = work.refused.iter().map(|(id, _)| id.0).collect();
        refused.sort_unstable();
        assert_eq!((sent, refused), (vec![2], vec![0, 1, 3]));
    }
}
