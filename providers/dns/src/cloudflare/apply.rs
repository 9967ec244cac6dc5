//! Writing: a batch of actions becomes as few batches of the API as the zone's plan allows.
//!
//! Guarantees:
//! - nothing is written when what the batch touches moved since the plan: the zone is read again right before
//!   the first write, and what others change beside it does not stop us;
//! - a name is never split over two requests, so CNAME ↔ A is one transaction;
//! - within a request Cloudflare deletes, changes and creates in this order;
//! - each request is `started` before and `finished` after it, with exactly its actions;
//! - what is refused fails alone and the rest is sent again: by the place the answer points to, else by halves.
//!   After [`CULPRITS`] of these the rest is given up, so that a plan that cannot work costs few calls;
//! - what is refused because it is there, or gone, although it was just looked at ends as `Conflict`, and so does
//!   the batch, after the rest of it: the engine looks again;
//! - a refusal that a smaller batch cannot mend (credentials, a full zone, too many calls) ends the batch.
//!
//! The race that is left: a change between the reading and the write, one round trip apart.

use super::{
    Backend,
    client::{ApiError, Refusal},
    dialect::Extra,
    observe::{self, ZoneRead},
    set::{self, Changes, Writer},
    zones::{Zone, ZoneBody},
};
use crate::{
    merge,
    record::{self, RrSet},
};
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Error, ErrorKind, Hash, Journal, Op, Outcome, Tracked, Version,
};
use reqwest::Method;
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// Most actions of one `apply` that are found to be refused one by one.
const CULPRITS: usize = 20;

/// What every plan takes in one batch.
const LEAST_BATCH: usize = 200;

/// There is no zone of this id.
const NO_SUCH_ZONE: u64 = 7003;

/// What no smaller batch helps against: the zone's quota of records is used up, the zone is not there.
const FINAL: [u64; 2] = [81_045, NO_SUCH_ZONE];

/// One action on a set with what it takes.
#[derive(Debug)]
struct Item<'b> {
    action: &'b Action,
    changes: Changes,
}

/// All actions at one name, in the planner's order: the least that is sent together.
type Unit<'b> = Vec<Item<'b>>;

/// What was refused so far.
#[derive(Debug, Default)]
struct Culprits {
    count: usize,
    /// A refusal that says that the zone is not as it was just seen.
    conflict: Option<Error>,
}

impl Culprits {
    fn add(&mut self, error: &Error) {
        self.count += 1;
        if error.kind == ErrorKind::Conflict {
            self.conflict.get_or_insert_with(|| error.clone());
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
    let run = Run { backend, cx, journal, batch };
    let is_zone = |action: &&Action| record::parts(action.op.id()).is_none();
    let of_zone = || batch.actions.iter().filter(is_zone);
    let create = of_zone().find(|action| matches!(action.op, Op::Create { .. }));
    let mut created = None;
    let now = match (fence(backend, cx, batch, create.is_some()).await?, create) {
        (Some(now), _) => now,
        (None, Some(create)) => {
            created = Some(create.id);
            match run.create_zone(create).await? {
                Some(now) => now,
                None => return Ok(()),
            }
        }
        (None, None) => return Err(moved(batch)),
    };
    let is_kept = |a: &&Action| created != Some(a.id) && !matches!(a.op, Op::Delete { .. });
    let kept = of_zone().filter(is_kept);
    let mut settled: Vec<_> = kept.map(|action| (action.id, Outcome::Done(zone_tracked(action)))).collect();
    let mut queue = run.units(&now, &mut settled);
    run.settle(settled).await?;
    let mut culprits = Culprits::default();
    while !queue.is_empty() {
        if cx.stop.is_set() {
            return Ok(());
        }
        // Looked up again each time: an answer may have told that the zone takes less.
        let limit = backend.zones.remembered(&batch.scope.name).map_or(now.zone.plan.batch, |z| z.plan.batch);
        let chunk = run.chunk(&mut queue, limit);
        journal.started(&ids_of(&chunk).collect::<Vec<_>>()).await?;
        run.send(&now.zone, chunk, &mut culprits).await?;
    }
    if let Some(conflict) = culprits.conflict {
        return Err(conflict);
    }
    match of_zone().find(|action| matches!(action.op, Op::Delete { .. })) {
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
    let seen = seen.map(|records| Hash::of(&set::view(records, extra.as_ref()).bytes));
    let planned = match &action.op {
        Op::Create { .. } => None,
        Op::Update { observed, .. } | Op::Replace { observed, .. } | Op::Delete { observed, .. } => {
            Some(observed.hash)
        }
        Op::Continue { .. } => seen,
    };
    seen == planned || seen == wanted.map(Hash::of)
}

struct Run<'a> {
    backend: &'a Backend,
    cx: &'a Cx,
    journal: &'a dyn Journal,
    batch: &'a Batch,
}

impl<'b> Run<'b> {
    fn doing(&self) -> String {
        format!("change zone {}", self.batch.scope.name)
    }

    /// What each action takes. What takes nothing, or cannot be sent, is settled.
    ///
    /// Where something at a name is deleted, all actions at it are one unit: half a swap would leave a hole.
    fn units(&self, now: &ZoneRead, settled: &mut Vec<(ActionId, Outcome)>) -> VecDeque<Unit<'b>> {
        let instance = self.backend.config.marks.then_some(&*self.backend.instance);
        let writer = Writer { instance, plan: now.zone.plan };
        let named = |action: &'b Action| record::parts(action.op.id()).map(|(name, _)| name);
        let deletes = self.batch.actions.iter().filter(|action| matches!(action.op, Op::Delete { .. }));
        let swapped: HashSet<&str> = deletes.filter_map(named).collect();
        let mut units: VecDeque<(&str, Unit<'b>)> = VecDeque::new();
        let (mut by_name, mut broken) = (HashMap::new(), HashSet::new());
        for action in &self.batch.actions {
            let Some((name, kind)) = record::parts(action.op.id()) else { continue };
            let records = now.sets.get(&(name.to_owned(), kind.to_owned()));
            let records = records.map(Vec::as_slice).unwrap_or_default();
            let changes = match self.changes(&writer, action, name, kind, records) {
                Ok(changes) if changes.count() > 0 => changes,
                Ok(_) => {
                    settled.push(done(action));
                    continue;
                }
                Err(error) => {
                    settled.push((action.id, Outcome::Failed(error)));
                    broken.insert(name);
                    continue;
                }
            };
            let index = match swapped.contains(name) {
                true => *by_name.entry(name).or_insert(units.len()),
                false => units.len(),
            };
            match units.get_mut(index) {
                Some((_, unit)) => unit.push(Item { action, changes }),
                None => units.push_back((name, vec![Item { action, changes }])),
            }
        }
        let (held, sent): (Vec<_>, Vec<_>) =
            units.into_iter().partition(|(name, _)| swapped.contains(name) && broken.contains(name));
        let held = held.iter().flat_map(|(_, unit)| unit);
        settled.extend(held.map(|item| (item.action.id, Outcome::Failed(held_back(item)))));
        sent.into_iter().map(|(_, unit)| unit).collect()
    }

    fn changes(
        &self,
        writer: &Writer<'_>,
        action: &Action,
        name: &str,
        kind: &str,
        now: &[set::Seen],
    ) -> Result<Changes, Error> {
        if now.iter().any(|record| record.is_system) {
            let text = format!("{name} {kind} is kept by another product of Cloudflare");
            return Err(Error::unsupported(text).hint("change it there, or remove it from the manifests"));
        }
        let desired = match action.op.desired() {
            None => None,
            Some(resource) => {
                let set = resource.spec.bytes().and_then(RrSet::decode);
                Some(set.ok_or_else(|| {
                    Error::invalid(format!("the content of {} is not known yet", resource.id))
                })?)
            }
        };
        let changes = writer.changes(name, kind, now, desired.as_ref())?;
        let (count, limit) = (changes.count(), writer.plan.batch);
        if count > limit {
            let text =
                format!("{name} {kind} takes {count} changes, and one request of this zone takes {limit}");
            return Err(Error::unsupported(text).hint("split the values over several names"));
        }
        Ok(changes)
    }

    /// Finishes what needs no call.
    async fn settle(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        if outcomes.is_empty() {
            return Ok(());
        }
        let ids: Vec<ActionId> = outcomes.iter().map(|(id, _)| *id).collect();
        self.journal.started(&ids).await?;
        self.journal.finished(outcomes).await
    }

    /// Takes as many units from the queue as fit into one request, at least one.
    fn chunk(&self, queue: &mut VecDeque<Unit<'b>>, limit: usize) -> Vec<Unit<'b>> {
        let (mut chunk, mut size) = (Vec::new(), 0);
        while let Some(unit) = queue.front() {
            let count: usize = unit.iter().map(|item| item.changes.count()).sum();
            if !chunk.is_empty() && size + count > limit {
                break;
            }
            size += count;
            chunk.extend(queue.pop_front());
        }
        chunk
    }

    /// Sends units, already `started`, in one request; in several when some of it is refused.
    async fn send(&self, zone: &Zone, chunk: Vec<Unit<'b>>, culprits: &mut Culprits) -> Result<(), Error> {
        let path = format!("/zones/{}/dns_records/batch", zone.id);
        let doing = self.doing();
        let mut stack = vec![chunk];
        while let Some(mut chunk) = stack.pop() {
            if chunk.is_empty() {
                continue;
            }
            if self.cx.stop.is_set() {
                let error = Error::unavailable(format!("{doing}: not sent, because of a wish to stop"));
                let unsent = stack.iter().chain([&chunk]).flat_map(|chunk| ids_of(chunk));
                return self.fail(unsent, &error).await;
            }
            let (body, places) = body(&chunk);
            let sent = self.backend.api.write::<IgnoredAny>(self.cx, Method::POST, &path, Some(body), &doing);
            let (error, errors) = match sent.await {
                Ok(_) => {
                    let outcomes = chunk.iter().flatten().map(|item| done(item.action));
                    self.journal.finished(outcomes.collect()).await?;
                    continue;
                }
                Err(Refusal::Refused(error, errors)) if is_about_content(&error, &errors) => (error, errors),
                Err(refusal) => {
                    let unsent = stack.iter().flat_map(|chunk| ids_of(chunk));
                    return self.give_up(refusal, ids_of(&chunk), unsent).await;
                }
            };
            let count: usize = chunk.iter().flatten().map(|item| item.changes.count()).sum();
            if let Some(limit) = batch_limit(&errors, count) {
                self.backend.zones.learn_batch(&self.batch.scope.name, limit);
                let mut queue: VecDeque<_> = std::mem::take(&mut chunk).into();
                while !queue.is_empty() {
                    stack.push(self.chunk(&mut queue, limit));
                }
                continue;
            }
            let named = self.blame(&chunk, &places, &error, &errors);
            if !named.is_empty() {
                culprits.add(&error);
                chunk.retain(|unit| unit.iter().all(|item| !named.contains_key(&item.action.id)));
                self.journal.finished(named.into_iter().collect()).await?;
                stack.push(chunk);
            } else if chunk.len() > 1 {
                let second = chunk.split_off(chunk.len() / 2);
                stack.push(second);
                stack.push(chunk);
            } else {
                culprits.add(&error);
                let outcomes =
                    chunk.iter().flatten().map(|item| (item.action.id, Outcome::Failed(about(item, &error))));
                self.journal.finished(outcomes.collect()).await?;
            }
            if culprits.count >= CULPRITS && !stack.is_empty() {
                let text =
                    format!("{doing}: not sent, since {CULPRITS} other records were refused one by one");
                let error = Error::invalid(text).hint("mend the records that were refused");
                return self.fail(stack.iter().flat_map(|chunk| ids_of(chunk)), &error).await;
            }
        }
        Ok(())
    }

    /// Outcomes of the units that the answer points at.
    fn blame(
        &self,
        chunk: &[Unit<'b>],
        places: &HashMap<(&'static str, usize), ActionId>,
        error: &Error,
        errors: &[ApiError],
    ) -> BTreeMap<ActionId, Outcome> {
        let pointers = errors.iter().filter_map(ApiError::pointer);
        let named: Vec<ActionId> = pointers
            .filter_map(|(list, index)| {
                places.iter().find(|((word, at), _)| *word == list && *at == index).map(|(_, id)| *id)
            })
            .collect();
        let mut outcomes = BTreeMap::new();
        for unit in chunk.iter().filter(|unit| unit.iter().any(|item| named.contains(&item.action.id))) {
            for item in unit {
                let error =
                    if named.contains(&item.action.id) { about(item, error) } else { held_back(item) };
                outcomes.insert(item.action.id, Outcome::Failed(error));
            }
        }
        outcomes
    }

    /// Ends actions that had no effect.
    async fn fail(&self, unsent: impl Iterator<Item = ActionId>, error: &Error) -> Result<(), Error> {
        let failed = unsent.map(|id| (id, Outcome::Failed(error.clone())));
        self.journal.finished(failed.collect()).await
    }

    /// Ends the batch: `sent` ended as the refusal says, `unsent` had no effect.
    async fn give_up(
        &self,
        refusal: Refusal,
        sent: impl Iterator<Item = ActionId>,
        unsent: impl Iterator<Item = ActionId>,
    ) -> Result<(), Error> {
        let is_lost = matches!(refusal, Refusal::Lost(_));
        let error = refusal.into_error();
        let outcome = |id| {
            let error = error.clone();
            (id, if is_lost { Outcome::Unknown(error) } else { Outcome::Failed(error) })
        };
        let mut outcomes: Vec<_> = sent.map(outcome).collect();
        outcomes.extend(unsent.map(|id| (id, Outcome::Failed(error.clone()))));
        self.journal.finished(outcomes).await?;
        Err(error)
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
            self.journal.finished(vec![(create.id, Outcome::Failed(error.clone()))]).await?;
            return Err(error);
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
                self.journal.finished(vec![(create.id, Outcome::Done(zone_tracked(create)))]).await?;
                if self.cx.stop.is_set() {
                    return Ok(None);
                }
                // Cloudflare may have put records of its own into it.
                observe::read(self.backend, self.cx, &self.batch.scope).await
            }
            Ok(None) => {
                let error = Error::unexpected(format!("{doing}: the answer has no zone"));
                self.journal.finished(vec![(create.id, Outcome::Unknown(error.clone()))]).await?;
                Err(error)
            }
            Err(refusal) => {
                let is_lost = matches!(refusal, Refusal::Lost(_));
                let error = refusal.into_error();
                let outcome =
                    if is_lost { Outcome::Unknown(error.clone()) } else { Outcome::Failed(error.clone()) };
                self.journal.finished(vec![(create.id, outcome)]).await?;
                Err(error)
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
fn body(chunk: &[Unit<'_>]) -> (Vec<u8>, HashMap<(&'static str, usize), ActionId>) {
    let mut places = HashMap::new();
    let (mut deletes, mut patches, mut posts) = (Vec::new(), Vec::new(), Vec::new());
    for item in chunk.iter().flatten() {
        for id in &item.changes.deletes {
            places.insert(("deletes", deletes.len()), item.action.id);
            deletes.push(serde_json::json!({"id": id}));
        }
        for patch in &item.changes.patches {
            places.insert(("patches", patches.len()), item.action.id);
            patches.push(patch);
        }
        for post in &item.changes.posts {
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

/// `error` with the record it is about.
fn about(item: &Item<'_>, error: &Error) -> Error {
    let mut named = error.clone();
    if let Some((name, kind)) = record::parts(item.action.op.id()) {
        named.message = format!("{} {kind}: {}", name.trim_end_matches('.'), error.message);
    }
    named
}

fn held_back(item: &Item<'_>) -> Error {
    Error::invalid(format!("{} is held back: other data at its name were refused", item.action.op.id()))
}

fn ids_of(chunk: &[Unit<'_>]) -> impl Iterator<Item = ActionId> {
    chunk.iter().flatten().map(|item| item.action.id)
}

fn done(action: &Action) -> (ActionId, Outcome) {
    (action.id, merge::done(action))
}

fn zone_tracked(action: &Action) -> Tracked {
    Tracked::new(action.op.id().clone(), Hash::of(record::ZONE))
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
