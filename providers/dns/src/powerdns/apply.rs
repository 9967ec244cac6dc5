//! Writing: a batch becomes as few requests as the server's body limit allows.
//!
//! Guarantees, besides those of [`crate::batch`]:
//! - nothing is written when the zone moved since `base`: it is asked right before the first write, and before each
//!   further one whether it is as our last write left it;
//! - a name is never split over two requests;
//! - what the server refuses (422) fails alone and the rest is sent again. Where the refused RRset shares its
//!   name with a deletion, everything at that name is held back.

use super::{
    backend::Backend,
    body::{Encoder, Item},
    client::{Failure, zone_path},
    culprit::{Culprit, culprit},
    made::Made,
    observe,
    zone::{parse_zone, serial_before},
};
use crate::{
    batch::{
        self, Answer, Chunk, Delivery, OfZone, Sender, Together, Unit, Work, give_up, ids, items, zone_done,
    },
    http, name, record,
};
use async_trait::async_trait;
use futures_util::future::join;
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Error, Journal, Observed, Outcome, ResourceId, Scope, Version,
};
use reqwest::{Method, StatusCode};
use std::collections::VecDeque;

/// Carries out a batch.
pub(crate) async fn apply(
    backend: &Backend,
    cx: &Cx,
    batch: &Batch,
    journal: &dyn Journal,
) -> Result<(), Error> {
    // Whatever was made before, this batch was not planned from that.
    drop(backend.take_made(&batch.scope.name));
    let of_zone = OfZone::of(batch);
    let mut work = work(batch);
    let serial = fence(backend, cx, batch, of_zone.create.is_some()).await?;
    work.settled.extend(of_zone.settled());
    batch::settle(journal, work.settled).await?;
    let zone = record::zone_name(&batch.scope);
    let (doing, path) = (format!("change zone {}", batch.scope.name), zone_path(&zone));
    let is_token = batch.base != Version::Unknown;
    let encoder = Encoder { backend, serial };
    let scope = &batch.scope;
    let patch = Patch { backend, cx, scope, path: &path, doing: &doing, encoder, is_token, sent: None };
    let mut delivery = Delivery::new(patch, cx, journal, &doing);
    let mut queue = work.units;
    if let Some(create) = of_zone.create {
        let is_large = batch.actions.len() > batch::MANY;
        let zone = NewZone { backend, cx, journal, create, zone: &zone, scope, is_large };
        zone.create(&mut delivery, &mut queue).await?;
    }
    delivery.all(queue).await?;
    match of_zone.delete {
        Some(action) if !cx.stop.is_set() => {
            delivery.sender.stands(&[action]).await?;
            journal.started(&[action.id]).await?;
            let doing = format!("delete zone {}", batch.scope.name);
            match backend.client.call(cx, Method::DELETE, &path, None, &doing).await {
                Err(failure) if !failure.is_not_found() => end(journal, [action.id], failure).await,
                _ => journal.finished(vec![(action.id, Outcome::Gone)]).await,
            }
        }
        _ => Ok(()),
    }
}

/// What is sent of a batch: all that is known.
fn work(batch: &Batch) -> Work<'_, ()> {
    Work::of(batch, Together::Names, |action, _, _| batch::wanted(action).map(|_| Some(())))
}

/// Makes sure that the zone is as it was when the plan was made; returns its serial, or the one before its first.
///
/// The race that is left: a change between this call and the first write. Both are one round trip apart.
async fn fence(backend: &Backend, cx: &Cx, batch: &Batch, creates: bool) -> Result<u32, Error> {
    let zone = &batch.scope.name;
    let moved = || moved(&batch.scope);
    match &batch.base {
        // Creation fences itself: the server refuses a zone that exists.
        Version::Absent if creates => Ok(serial_before(cx.clock.now())),
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

fn moved(scope: &Scope) -> Error {
    Error::conflict(format!("zone {} changed at the server since it was observed", scope.name))
}

/// True when what an action touches is as planned, or already as wanted.
fn stands(action: &Action, now: &[Observed]) -> bool {
    let id: &ResourceId = action.op.id();
    let seen = now.binary_search_by(|o| o.id.cmp(id)).ok().and_then(|index| now.get(index));
    batch::stands(action, seen.map(|observed| observed.hash))
}

/// Changes of a zone that exists.
struct Patch<'a> {
    backend: &'a Backend,
    cx: &'a Cx,
    scope: &'a Scope,
    path: &'a str,
    doing: &'a str,
    encoder: Encoder<'a>,
    /// The serial tells of changes, and has told of none so far.
    is_token: bool,
    /// Something was sent after the zone was asked for: true when it took effect.
    sent: Option<bool>,
}

impl Patch<'_> {
    /// Makes sure that nobody else changed the zone since it was asked for, before `actions` are sent. Costs no call
    /// before the first request, which the fence of the batch is for.
    ///
    /// Where serials do not tell, it is what `actions` touch that is compared.
    /// Errors: `Conflict` when somebody did.
    async fn stands(&mut self, actions: &[&Action]) -> Result<(), Error> {
        let Some(had_effect) = self.sent else { return Ok(()) };
        let (before, mut now, mut told) = (self.encoder.serial, None, None);
        if self.is_token {
            let zone = observe::probe(self.backend, self.cx, self.scope).await?;
            let zone = zone.ok_or_else(|| moved(self.scope))?;
            told = match had_effect {
                true => zone.is_next_after(before),
                false => Some(zone.raise.is_some() && zone.serial == before),
            };
            now = Some(zone.serial);
        }
        if told.is_none() {
            let zone = observe::full(self.backend, self.cx, self.scope).await?;
            let zone = zone.ok_or_else(|| moved(self.scope))?;
            told = Some(actions.iter().all(|action| stands(action, &zone.resources)));
            // Somebody may have changed what later requests touch: those are compared as well.
            self.is_token = false;
            now = Some(zone.serial);
        }
        if told != Some(true) {
            return Err(moved(self.scope));
        }
        self.encoder.serial = now.unwrap_or(before);
        self.sent = None;
        Ok(())
    }

    /// Takes as many units from the queue as fit into one request, at least one; with the room that they need there.
    fn chunk<'b>(&self, queue: &mut VecDeque<Unit<'b, ()>>, is_patch: bool) -> (Chunk<'b, ()>, usize) {
        // What stands around the list: a zone's name and name servers at most.
        let mut size = 4_096;
        let mut scratch = Vec::new();
        let chunk = batch::take(queue, |unit| {
            scratch.clear();
            for item in unit {
                self.encoder.item(item, is_patch, &mut scratch);
                scratch.push(b',');
            }
            size += scratch.len();
            size <= self.backend.limit()
        });
        (chunk, size)
    }

    /// Remembers what a failure tells of the size of bodies; true when this one was too large.
    fn learn(&self, failure: &Failure, size: usize) -> bool {
        let is_size = failure.is_size(size);
        if is_size || failure.may_be_size(size) {
            self.backend.learn_limit(size, is_size);
        }
        is_size
    }
}

#[async_trait]
impl Sender<()> for Patch<'_> {
    fn take<'b>(&self, queue: &mut VecDeque<Unit<'b, ()>>) -> Chunk<'b, ()> {
        self.chunk(queue, true).0
    }

    async fn send(&mut self, chunk: &mut Chunk<'_, ()>) -> Result<Answer, Error> {
        let actions: Vec<&Action> = items(chunk).map(|item| item.action).collect();
        if let Err(error) = self.stands(&actions).await {
            return Ok(Answer::Over { error, is_lost: false });
        }
        let body = self.encoder.patch(items(chunk));
        let size = body.len();
        let made = self.backend.take_made(&self.scope.name).filter(|_| self.is_token);
        let call = self.backend.client.call(self.cx, Method::PATCH, self.path, Some(body), self.doing);
        let failure = match call.await {
            Ok(_) => {
                self.sent = Some(true);
                self.backend.took(size);
                if let Some(mut made) = made
                    && made.add(chunk)
                {
                    made.serial = self.encoder.serial.wrapping_add(1);
                    self.backend.put_made(&self.scope.name, made);
                }
                return Ok(Answer::Done);
            }
            Err(failure) => failure,
        };
        self.sent = Some(false);
        let is_size = self.learn(&failure, size);
        Ok(match failure {
            Failure::Refused { status: StatusCode::UNPROCESSABLE_ENTITY, text, .. }
                if lacks_comments(&text) =>
            {
                Answer::Over { error: no_comments(), is_lost: false }
            }
            Failure::Refused { status: StatusCode::UNPROCESSABLE_ENTITY, text, error } => {
                match blame(chunk, &text, &error) {
                    named if named.is_empty() => Answer::Refused(error),
                    named => Answer::Named(named),
                }
            }
            failure if is_size && chunk.len() > 1 => Answer::TooLarge(failure.into_error()),
            // One name alone is too large; the others need not wait for it.
            Failure::Refused { error, .. } if is_size => Answer::TooLarge(error),
            Failure::Lost(error) => Answer::Over { error, is_lost: true },
            failure => Answer::Over { error: failure.into_error(), is_lost: false },
        })
    }

    fn about(&self, _: &Item<'_>, error: &Error) -> Error {
        error.clone()
    }
}

/// A zone that is to be created.
struct NewZone<'a> {
    backend: &'a Backend,
    cx: &'a Cx,
    journal: &'a dyn Journal,
    create: &'a Action,
    zone: &'a str,
    scope: &'a Scope,
    /// To read it as a list takes long.
    is_large: bool,
}

impl NewZone<'_> {
    /// Creates the zone with as many records as fit; what is left stays in the queue.
    async fn create(
        &self,
        delivery: &mut Delivery<'_, Patch<'_>>,
        queue: &mut VecDeque<Unit<'_, ()>>,
    ) -> Result<(), Error> {
        let (mut chunk, room) = delivery.sender.chunk(queue, false);
        let begun: Vec<ActionId> = ids(&chunk).chain([self.create.id]).collect();
        // Neither has to wait for the other, and a zone may have many thousand sets.
        let body = async { delivery.sender.encoder.post(self.zone, items(&chunk), room) };
        let (started, mut body) = join(self.journal.started(&begun), body).await;
        started?;
        loop {
            let size = body.len();
            // What is remembered of it is put together while the server works, for a no as well, which is rare. It is put together
            // once more when the answer is there: until then the request takes the room.
            let foresee = async {
                if batch::are_many(&chunk) {
                    self.journal.foreseen(&self.done(&chunk).await).await;
                }
            };
            let (answer, ()) = join(self.post(body), foresee).await;
            let failure = match answer {
                Ok(answer) => {
                    delivery.sender.sent = Some(true);
                    self.remember(&answer, delivery.sender.encoder.serial, &chunk);
                    let outcomes = self.done(&chunk).await;
                    drop(chunk);
                    return self.journal.finished(outcomes).await;
                }
                Err(failure) => failure,
            };
            let is_size = delivery.sender.learn(&failure, size);
            let is_refusal = failure.is_refusal();
            if let Failure::Refused { text, error, .. } = &failure
                && is_refusal
            {
                if lacks_comments(text) {
                    let ids = ids(&chunk).chain([self.create.id]);
                    return give_up(self.journal, ids, no_comments(), false).await;
                }
                let named = blame(&chunk, text, error);
                if !named.is_empty() {
                    batch::remove(&mut chunk, &named);
                    self.journal.finished(named).await?;
                    body = delivery.sender.encoder.post(self.zone, items(&chunk), size);
                    continue;
                }
            }
            if !(is_size || is_refusal) || chunk.is_empty() {
                return end(self.journal, ids(&chunk).chain([self.create.id]), failure).await;
            }
            // Nobody is named, or the body is too large: the zone alone first, then its records, where the culprit can
            // be found by halves.
            let body = delivery.sender.encoder.post(self.zone, [].iter(), 0);
            if let Err(failure) = self.post(body).await {
                let failed = ids(&chunk).map(|id| (id, Outcome::Failed(failure.error().clone())));
                self.journal.finished(failed.collect()).await?;
                return end(self.journal, [self.create.id], failure).await;
            }
            delivery.sender.sent = Some(true);
            self.journal.finished(vec![(self.create.id, zone_done(self.create))]).await?;
            return delivery.started(chunk).await;
        }
    }

    /// How all of it ends that took effect.
    async fn done(&self, chunk: &[Unit<'_, ()>]) -> Vec<(ActionId, Outcome)> {
        let mut outcomes = batch::done(chunk).await;
        outcomes.push((self.create.id, zone_done(self.create)));
        outcomes
    }

    /// Remembers of a large zone that it was made here.
    fn remember(&self, answer: &http::Answer, before: u32, chunk: &[Unit<'_, ()>]) {
        let scope = self.scope;
        if self.is_large
            && let Ok(zone) = parse_zone(&answer.body, scope, &self.backend.instance, false)
            && let (Some(true), Some(raise)) = (zone.is_next_after(before), zone.raise)
        {
            let mut made = Made::new(zone.serial, raise, self.backend.config.marks);
            if made.add(chunk) {
                self.backend.put_made(&scope.name, made);
            }
        }
    }

    async fn post(&self, body: Vec<u8>) -> Result<http::Answer, Failure> {
        let doing = format!("create zone {}", self.scope.name);
        let call = self.backend.client.call(self.cx, Method::POST, "/zones?rrsets=false", Some(body), &doing);
        call.await
    }
}

/// Ends actions as the failure says, and the batch.
async fn end(
    journal: &dyn Journal,
    ids: impl IntoIterator<Item = ActionId>,
    failure: Failure,
) -> Result<(), Error> {
    let is_lost = matches!(failure, Failure::Lost(_));
    give_up(journal, ids, failure.into_error(), is_lost).await
}

/// True where no record that is marked is taken: LMDB and some other backends of PowerDNS keep no comments.
fn lacks_comments(text: &str) -> bool {
    text.contains("does not support editing comments")
}

fn no_comments() -> Error {
    let text = "the backend of the server keeps no comments, and what is written is marked with one";
    Error::invalid(text)
        .hint("write `marks: false` into the provider entry: the inventory alone says then what is ours")
}

/// Outcomes of the items that a 422 names, and of what must not go on without them.
fn blame(chunk: &[Unit<'_, ()>], text: &str, error: &Error) -> Vec<(ActionId, Outcome)> {
    let Some(culprit) = culprit(text) else { return Vec::new() };
    batch::named(chunk, |item| {
        let is_named = match &culprit {
            Culprit::Set { name: set, kind } => item.kind() == *kind && item.name() == name::observed(set),
            Culprit::Name(name) => item.name() == *name || item.name() == name::observed(name),
        };
        is_named.then(|| error.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Hash, Op, Origin, PolicyId, Resource, Spec};
    use std::sync::Arc;

    #[test]
    fn a_deletion_waits_where_the_content_that_follows_it_is_not_known() {
        let scope = Scope::new("pdns", "example.com");
        let create = |id: &str, spec: Spec| {
            let origin = Origin { manifest: 0, line: 1 };
            let scope = Arc::new(scope.clone());
            let desired = Resource::new(id.into(), scope, spec, origin, PolicyId::default());
            Op::Create { desired, delta: Default::default() }
        };
        let waiting = || Spec::waiting(Hash::of(b"a"), Vec::new());
        let cname = Observed::new("x.example.com./CNAME".into(), b"300\na.example.net.");
        let ops = vec![
            Op::Delete { observed: cname.into(), tracked: None },
            create("x.example.com./A", waiting()),
            create("y.example.com./A", Spec::known(b"300\n192.0.2.1".to_vec())),
            create("y.example.com./AAAA", waiting()),
        ];
        let action = |(i, op): (usize, Op)| Action { id: ActionId(i as u64), token: "t".into(), op };
        let actions = ops.into_iter().enumerate().map(action).collect();
        let batch = Batch { scope: scope.clone(), base: Version::Unknown, actions };
        let work = work(&batch);
        let sent: Vec<u64> = work.units.iter().flatten().map(|item| item.action.id.0).collect();
        let mut refused: Vec<u64> = work.settled.iter().map(|(id, _)| id.0).collect();
        refused.sort_unstable();
        assert_eq!((sent, refused), (vec![2], vec![0, 1, 3]));
    }
}
