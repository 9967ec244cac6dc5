//! Writing: a batch of actions becomes as few batches of the API as the zone's plan allows.
//!
//! Guarantees, besides those of [`crate::batch`]:
//! - nothing is written when what the batch touches moved since the plan: the zone is read again right before
//!   the first write, and what others change beside it does not stop us. It is read before each further one as well:
//!   what somebody changed by then fails alone, and the batch ends as a conflict after the rest of it;
//! - within a request Cloudflare deletes, changes and creates in this order;
//! - what is refused is found by the place the answer points to, else by halves; after twenty of these the rest is
//!   given up;
//! - what is refused because it is there, or gone, although it was just looked at ends as `Conflict`, and so does
//!   the batch, after the rest of it: the engine looks again;
//! - a refusal that a smaller batch cannot mend (credentials, a full zone, too many calls) ends the batch.
//!
//! The race that is left: a change between a reading and the write after it, one round trip apart.

use super::{
    backend::Backend,
    client::{ApiError, Refusal},
    dialect::Extra,
    observe::{self, ZoneRead},
    set::{self, Changes, Writer},
    zones::{Zone, ZoneBody},
};
use crate::{
    batch::{
        self, Answer, Chunk, Delivery, Item, OfZone, Sender, Together, Unit, Work, about, give_up, items,
        zone_done,
    },
    merge,
    ownership::MarkAfter,
    record::{self, RrSet},
};
use async_trait::async_trait;
use reconciled_provider::{Action, ActionId, Batch, Cx, Error, ErrorKind, Hash, Journal, Outcome, Version};
use reqwest::Method;
use serde::de::IgnoredAny;
use std::collections::{HashMap, VecDeque};

/// What every plan takes in one batch.
const LEAST_BATCH: usize = 200;

/// There is no zone of this id.
const NO_SUCH_ZONE: u64 = 7003;

/// What no smaller batch helps against: the zone's quota of records is used up, the zone is not there.
const FINAL: [u64; 2] = [81_045, NO_SUCH_ZONE];

/// Carries out a batch.
pub(crate) async fn apply(
    backend: &Backend,
    cx: &Cx,
    batch: &Batch,
    journal: &dyn Journal,
) -> Result<(), Error> {
    let run = Run { backend, cx, journal, batch };
    let mut of_zone = OfZone::of(batch);
    let now = match (fence(backend, cx, batch, of_zone.create.is_some()).await?, of_zone.create) {
        (Some(now), create) => {
            of_zone.kept.extend(create);
            now
        }
        (None, Some(create)) => match run.create_zone(create).await? {
            Some(now) => now,
            None => return Ok(()),
        },
        (None, None) => return Err(moved(batch)),
    };
    let mut work = run.work(&now);
    work.settled.extend(of_zone.settled());
    batch::settle(journal, work.settled).await?;
    let doing = format!("change zone {}", batch.scope.name);
    let requests = Requests { run: &run, zone: &now.zone, doing: &doing, limit: usize::MAX };
    let mut delivery = Delivery::new(requests, cx, journal, &doing);
    delivery.all(work.units).await?;
    if let Some(conflict) = delivery.conflict {
        return Err(conflict);
    }
    match of_zone.delete {
        Some(action) if !cx.stop.is_set() => run.delete_zone(&now.zone, action).await,
        _ => Ok(()),
    }
}

fn moved(batch: &Batch) -> Error {
    Error::conflict(format!("zone {} changed at Cloudflare since it was observed", batch.scope.name))
}

/// Reads the zone again and makes sure that what the batch touches is as it was when the plan was made; none
/// when the zone is not there and is to be created.
async fn fence(backend: &Backend, cx: &Cx, batch: &Batch, creates: bool) -> Result<Option<ZoneRead>, Error> {
    let now = observe::read(backend, cx, &batch.scope).await?;
    match (&now, &batch.base) {
        (None, Version::Absent) if creates => Ok(None),
        (Some(read), Version::Unknown) if batch.actions.iter().all(|action| stands(action, read)) => Ok(now),
        _ => Err(moved(batch)),
    }
}

/// True when what an action touches is as planned, or already as wanted.
fn stands(action: &Action, now: &ZoneRead) -> bool {
    let Some((name, kind)) = record::parts(action.op.id()) else { return true };
    let wanted = action.op.desired().and_then(|resource| resource.spec.bytes());
    let extra = wanted.and_then(RrSet::decode).map(|set| Extra::parse(set.extra));
    let seen = now.sets.get(&(name.to_owned(), kind.to_owned()));
    batch::stands(action, seen.map(|records| Hash::of(&set::view(records, extra.as_ref()).bytes)))
}

struct Run<'a> {
    backend: &'a Backend,
    cx: &'a Cx,
    journal: &'a dyn Journal,
    batch: &'a Batch,
}

impl<'b> Run<'b> {
    /// What each action takes.
    fn work(&self, now: &ZoneRead) -> Work<'b, Changes> {
        Work::of(self.batch, Together::Swaps, |action, name, kind| self.changes(action, (name, kind), now))
    }

    /// What an action takes; none for one that is as wanted already.
    fn changes(
        &self,
        action: &Action,
        (name, kind): (&str, &str),
        now: &ZoneRead,
    ) -> Result<Option<Changes>, Error> {
        let (instance, marks) = (&*self.backend.instance, self.backend.config.marks);
        let writer = Writer { instance, marks, after: MarkAfter::of(action), plan: now.zone.plan };
        let now = now.sets.get(&(name.to_owned(), kind.to_owned()));
        let now = now.map(Vec::as_slice).unwrap_or_default();
        if now.iter().any(|record| record.is_system) {
            let text = format!("{name} {kind} is kept by another product of Cloudflare");
            return Err(Error::unsupported(text).hint("change it there, or remove it from the manifests"));
        }
        if kind == "ALIAS" && name != record::zone_name(&self.batch.scope) {
            let text = format!("{name} ALIAS is not at the zone itself, where alone Cloudflare has one");
            return Err(Error::unsupported(text).hint("write CNAME"));
        }
        let changes = writer.changes(name, kind, now, batch::wanted(action)?.as_ref())?;
        let (count, limit) = (changes.count(), writer.plan.batch);
        if count > limit {
            let text =
                format!("{name} {kind} takes {count} changes, and one request of this zone takes {limit}");
            return Err(Error::unsupported(text).hint("split the values over several names"));
        }
        Ok((count > 0).then_some(changes))
    }

    /// Creates the zone; none when a person has to.
    async fn create_zone(&self, create: &'b Action) -> Result<Option<ZoneRead>, Error> {
        let name = &*self.batch.scope.name;
        let doing = format!("create zone {name}");
        self.journal.started(&[create.id]).await?;
        let Some(account) = &self.backend.config.account else {
            let text = format!(
                "{doing}: the token sees no such zone, and the entry names no account to create it in"
            );
            let error = Error::invalid(text).hint(
                "add the zone in the dashboard, give the token access to it, or write `account: ID` into the entry",
            );
            return give_up(self.journal, [create.id], error, false).await.map(|()| None);
        };
        let body = serde_json::json!({"name": name, "account": {"id": account}, "type": "full"});
        let sent = self.backend.api.write::<ZoneBody>(
            self.cx,
            Method::POST,
            "/zones",
            Some(body.to_string().into_bytes()),
            &doing,
        );
        match sent.await {
            Ok(Some(body)) => {
                let zone = body.zone();
                self.backend.zones.remember(name, zone.clone());
                self.journal.finished(vec![(create.id, zone_done(create))]).await?;
                if self.cx.stop.is_set() {
                    return Ok(None);
                }
                // Cloudflare may have put records of its own into it.
                observe::read(self.backend, self.cx, &self.batch.scope).await
            }
            Ok(None) => {
                let error = Error::unexpected(format!("{doing}: the answer has no zone"));
                give_up(self.journal, [create.id], error, true).await.map(|()| None)
            }
            Err(refusal) => {
                let is_lost = refusal.is_lost();
                give_up(self.journal, [create.id], refusal.into_error(), is_lost).await.map(|()| None)
            }
        }
    }

    async fn delete_zone(&self, zone: &Zone, action: &'b Action) -> Result<(), Error> {
        let name = &*self.batch.scope.name;
        self.journal.started(&[action.id]).await?;
        let (path, doing) = (format!("/zones/{}", zone.id), format!("delete zone {name}"));
        let sent = self.backend.api.write::<IgnoredAny>(self.cx, Method::DELETE, &path, None, &doing);
        let (outcome, result) = match sent.await {
            Ok(_) => (Outcome::Gone, Ok(())),
            Err(Refusal::Refused(error, errors)) if error.kind == ErrorKind::Conflict => {
                // Other conflicts say only that it cannot go now: it may be held, or serve something else.
                let is_gone = errors.iter().any(|error| error.code == NO_SUCH_ZONE)
                    || matches!(self.backend.zones.look_up(&self.backend.api, self.cx, name).await, Ok(None));
                match is_gone {
                    true => (Outcome::Gone, Ok(())),
                    false => (Outcome::Failed(error.clone()), Err(error)),
                }
            }
            Err(Refusal::Lost(error)) => (Outcome::Unknown(error.clone()), Err(error)),
            Err(refusal) => {
                let error = refusal.into_error();
                (Outcome::Failed(error.clone()), Err(error))
            }
        };
        self.backend.zones.forget(name);
        self.journal.finished(vec![(action.id, outcome)]).await?;
        result
    }
}

/// The requests that change a zone.
struct Requests<'a> {
    run: &'a Run<'a>,
    zone: &'a Zone,
    doing: &'a str,
    /// What a request was told to be too large for: others may forget the zone meanwhile.
    limit: usize,
}

#[async_trait]
impl Sender<Changes> for Requests<'_> {
    const CULPRITS: usize = 20;

    fn take<'b>(&self, queue: &mut VecDeque<Unit<'b, Changes>>) -> Chunk<'b, Changes> {
        // Looked up again each time: an answer may have told that the zone takes less.
        let zone = self.run.backend.zones.remembered(&self.run.batch.scope.name);
        let limit = zone.map_or(self.zone.plan.batch, |zone| zone.plan.batch).min(self.limit);
        let mut count = 0;
        batch::take(queue, |unit| {
            count += unit.iter().map(|item| item.takes.count()).sum::<usize>();
            count <= limit
        })
    }

    async fn look_again(
        &mut self,
        chunk: &mut Chunk<'_, Changes>,
    ) -> Result<Vec<(ActionId, Outcome)>, Error> {
        let Run { backend, cx, batch, .. } = self.run;
        let now = observe::read(backend, cx, &batch.scope).await?;
        let now = now.filter(|now| now.zone.id == self.zone.id).ok_or_else(|| moved(batch))?;
        // Who deletes a record and makes it anew gives it another id.
        let takes = |item: &Item<'_, Changes>| match stands(item.action, &now) {
            true => self.run.changes(item.action, (item.name(), item.kind()), &now),
            false => Err(batch::changed(item)),
        };
        let mut ended = batch::named(chunk, |item| takes(item).err());
        batch::remove(chunk, &ended);
        for item in chunk.iter_mut().flatten() {
            match takes(item)? {
                Some(changes) => item.takes = changes,
                None => ended.push((item.action.id, merge::done(item.action))),
            }
        }
        Ok(ended)
    }

    async fn send(&mut self, chunk: &mut Chunk<'_, Changes>) -> Result<Answer, Error> {
        let path = format!("/zones/{}/dns_records/batch", self.zone.id);
        let (body, places) = body(chunk);
        let api = &self.run.backend.api;
        let sent = api.write::<IgnoredAny>(self.run.cx, Method::POST, &path, Some(body), self.doing);
        let (error, errors) = match sent.await {
            Ok(_) => return Ok(Answer::Done),
            Err(Refusal::Refused(error, errors)) if is_about_content(&error, &errors) => (error, errors),
            Err(refusal) => return Ok(refusal.into()),
        };
        let count: usize = items(chunk).map(|item| item.takes.count()).sum();
        if let Some(limit) = batch_limit(&errors, count) {
            self.limit = limit;
            self.run.backend.zones.learn_batch(&self.run.batch.scope.name, limit);
            return Ok(Answer::TooLarge(error));
        }
        let pointers = errors.iter().filter_map(ApiError::pointer);
        let named: Vec<ActionId> = pointers
            .filter_map(|(list, index)| {
                places.iter().find(|((word, at), _)| *word == list && *at == index).map(|(_, id)| *id)
            })
            .collect();
        let outcomes =
            batch::named(chunk, |item| named.contains(&item.action.id).then(|| about(item, &error)));
        Ok(if outcomes.is_empty() { Answer::Refused(error) } else { Answer::Named(outcomes) })
    }

    fn split<'b>(&self, chunk: Chunk<'b, Changes>) -> Vec<Chunk<'b, Changes>> {
        let (mut queue, mut chunks) = (VecDeque::from(chunk), Vec::new());
        while !queue.is_empty() {
            chunks.push(self.take(&mut queue));
        }
        chunks.reverse();
        chunks
    }
}

/// True for a refusal that may go away when a part of the batch does.
fn is_about_content(error: &Error, errors: &[ApiError]) -> bool {
    matches!(error.kind, ErrorKind::Invalid | ErrorKind::Conflict)
        && !errors.iter().any(|error| FINAL.contains(&error.code))
        && !error.message.to_lowercase().contains("quota")
}

/// How many operations fit, where a refusal of `count` is about their number.
fn batch_limit(errors: &[ApiError], count: usize) -> Option<usize> {
    let text = errors.iter().map(|error| error.message.to_lowercase()).collect::<Vec<_>>().join(" ");
    let is_limit = ["too many", "exceed", "maximum", "limit"].iter().any(|word| text.contains(word));
    let is_count = ["operation", "batch", "records", "changes"].iter().any(|word| text.contains(word));
    if !is_limit || !is_count || count <= LEAST_BATCH {
        return None;
    }
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<usize>().ok());
    let fits = numbers.filter(|number| (LEAST_BATCH..count).contains(number)).max();
    Some(fits.unwrap_or(LEAST_BATCH))
}

/// Body of a batch, and which action each element of it belongs to.
fn body(chunk: &[Unit<'_, Changes>]) -> (Vec<u8>, HashMap<(&'static str, usize), ActionId>) {
    let mut places = HashMap::new();
    let (mut deletes, mut patches, mut posts) = (Vec::new(), Vec::new(), Vec::new());
    for item in items(chunk) {
        for id in &item.takes.deletes {
            places.insert(("deletes", deletes.len()), item.action.id);
            deletes.push(serde_json::json!({"id": id}));
        }
        for patch in &item.takes.patches {
            places.insert(("patches", patches.len()), item.action.id);
            patches.push(patch);
        }
        for post in &item.takes.posts {
            places.insert(("posts", posts.len()), item.action.id);
            posts.push(post);
        }
    }
    let mut out = serde_json::Map::new();
    if !deletes.is_empty() {
        out.insert("deletes".into(), deletes.into());
    }
    if !patches.is_empty() {
        out.insert("patches".into(), patches.into_iter().cloned().collect());
    }
    if !posts.is_empty() {
        out.insert("posts".into(), posts.into_iter().cloned().collect());
    }
    // Writing plain data into memory cannot fail.
    (serde_json::to_vec(&out).unwrap_or_default(), places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_number_tells_how_many_fit() {
        let check = |text: &str, count, expected| {
            let error = serde_json::from_value(serde_json::json!({"code": 9999, "message": text})).unwrap();
            assert_eq!(batch_limit(&[error], count), expected, "{text}");
        };
        check("the batch exceeds the maximum of 200 operations", 3_500, Some(200));
        check("The batch exceeds the limit of 1000 operations", 3_500, Some(1_000));
        check("too many records in the batch", 3_500, Some(200));
        check("too many records in the batch", 150, None);
        check("content for a record is invalid", 3_500, None);
    }
}
