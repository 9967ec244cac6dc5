//! Writing: a batch of actions becomes as few change batches as the limits allow.
//!
//! Guarantees:
//! - a change deletes the set exactly as it was read and creates the new one, in one transaction: Route 53 refuses
//!   it when somebody changed the set since (compare-and-swap for each set). The NS and SOA of the zone itself
//!   cannot be deleted, so they are overwritten;
//! - what the batch touches is compared with the plan before anything is sent;
//! - a name is never split over two requests where something at it is deleted;
//! - a set that is refused fails alone, by the name in the answer, else by halves, and the rest is sent;
//! - aliases and sets with a routing policy are refused by name.

use super::{
    Backend,
    client::Refusal,
    observe::{self, Key, Set},
    xml::{self, Changed, Created, NAMESPACE},
};
use crate::{
    merge, rdata,
    record::{self, RrSet},
};
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Error, ErrorKind, Hash, Journal, Op, Outcome, Tracked, Version,
};
use reqwest::Method;
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    fmt::Write,
    sync::PoisonError,
};

/// Records in one request; those of an overwriting change count twice.
const MOST_RECORDS: usize = 1_000;
/// Characters of values in one request; those of an overwriting change count twice.
const MOST_CHARACTERS: usize = 32_000;
/// Most actions of one `apply` that are found to be refused one by one.
const CULPRITS: usize = 20;

/// One action with its changes as XML.
#[derive(Debug)]
struct Item<'b> {
    action: &'b Action,
    key: Key,
    xml: String,
    records: usize,
    characters: usize,
}

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
    let zone = &*batch.scope.name;
    let run = Run { backend, cx, journal, zone };
    let of_zone = || batch.actions.iter().filter(|action| record::parts(action.op.id()).is_none());
    let create = of_zone().find(|action| matches!(action.op, Op::Create { .. }));
    let read = observe::read(backend, cx, zone).await?;
    let mut created = None;
    let moved = || Error::conflict(format!("zone {zone} changed at Route 53 since it was observed"));
    let (id, now) = match (read, &batch.base, create) {
        (None, Version::Absent, Some(create)) => {
            created = Some(create.id);
            run.create_zone(create).await?;
            if cx.stop.is_set() {
                return Ok(());
            }
            observe::read(backend, cx, zone).await?.ok_or_else(moved)?
        }
        (Some((id, now)), Version::Unknown, _) if batch.actions.iter().all(|a| stands(a, &now)) => (id, now),
        _ => return Err(moved()),
    };
    let is_kept = |a: &&Action| created != Some(a.id) && !matches!(a.op, Op::Delete { .. });
    let kept = of_zone().filter(is_kept);
    let mut settled: Vec<_> = kept.map(|a| (a.id, Outcome::Done(zone_tracked(a)))).collect();
    let mut queue = units(batch, &now, &record::zone_name(&batch.scope), &mut settled);
    if !settled.is_empty() {
        let ids: Vec<ActionId> = settled.iter().map(|(id, _)| *id).collect();
        journal.started(&ids).await?;
        journal.finished(settled).await?;
    }
    let mut culprits = Culprits::default();
    while !queue.is_empty() {
        if cx.stop.is_set() {
            return Ok(());
        }
        let chunk = chunk(&mut queue);
        journal.started(&ids_of(&chunk).collect::<Vec<_>>()).await?;
        run.send(&id, chunk, &mut culprits).await?;
    }
    if let Some(conflict) = culprits.conflict {
        return Err(conflict);
    }
    match of_zone().find(|action| matches!(action.op, Op::Delete { .. })) {
        Some(action) if !cx.stop.is_set() => run.delete_zone(&id, action).await,
        _ => Ok(()),
    }
}

/// What was refused so far.
#[derive(Debug, Default)]
struct Culprits {
    count: usize,
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

/// True when what an action touches is as planned, or already as wanted.
fn stands(action: &Action, now: &BTreeMap<Key, Set>) -> bool {
    let Some((name, kind)) = record::parts(action.op.id()) else { return true };
    let seen = now.get(&(name.to_owned(), kind.to_owned())).map(|set| Hash::of(&set.bytes()));
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

/// What each action takes. What takes nothing, or cannot be sent, is settled.
fn units<'b>(
    batch: &'b Batch,
    now: &BTreeMap<Key, Set>,
    apex: &str,
    settled: &mut Vec<(ActionId, Outcome)>,
) -> VecDeque<Unit<'b>> {
    let deletes = batch.actions.iter().filter(|action| matches!(action.op, Op::Delete { .. }));
    let swapped: HashSet<&str> =
        deletes.filter_map(|action| record::parts(action.op.id())).map(|(name, _)| name).collect();
    let (mut units, mut broken): (VecDeque<Unit<'b>>, HashSet<&str>) = Default::default();
    for action in &batch.actions {
        let Some((name, kind)) = record::parts(action.op.id()) else { continue };
        match item(action, name, kind, now, apex) {
            Ok(None) => settled.push(done(action)),
            Ok(Some(item)) => {
                let same = |unit: &&mut Unit<'_>| unit.first().is_some_and(|first| first.key.0 == name);
                match units.iter_mut().find(same).filter(|_| swapped.contains(name)) {
                    Some(unit) => unit.push(item),
                    None => units.push_back(vec![item]),
                }
            }
            Err(error) => {
                settled.push((action.id, Outcome::Failed(error)));
                broken.insert(name);
            }
        }
    }
    // Half a swap would leave a hole.
    units.retain(|unit| {
        let name = unit.first().map_or("", |item| item.key.0.as_str());
        let is_held = swapped.contains(name) && broken.contains(name);
        if is_held {
            settled.extend(unit.iter().map(|item| (item.action.id, Outcome::Failed(held_back(item)))));
        }
        !is_held
    });
    units
}

fn item<'b>(
    action: &'b Action,
    name: &str,
    kind: &str,
    now: &BTreeMap<Key, Set>,
    apex: &str,
) -> Result<Option<Item<'b>>, Error> {
    let key = (name.to_owned(), kind.to_owned());
    let shown = name.trim_end_matches('.');
    let set = now.get(&key);
    if set.is_some_and(|set| set.plain().is_none()) {
        let text =
            format!("{shown} {kind} is an alias or has a routing policy, which this version does not write");
        return Err(Error::unsupported(text).hint("remove it from the manifests, or that set in Route 53"));
    }
    let wanted =
        match action.op.desired() {
            None => None,
            Some(resource) => {
                Some(resource.spec.bytes().filter(|bytes| RrSet::decode(bytes).is_some()).ok_or_else(
                    || Error::invalid(format!("the content of {} is not known yet", resource.id)),
                )?)
            }
        };
    if set.map(|set| set.bytes()).as_deref() == wanted {
        return Ok(None);
    }
    let is_apex = name == apex && matches!(kind, "NS" | "SOA");
    let mut item = Item { action, key, xml: String::new(), records: 0, characters: 0 };
    if let Some(old) = set.and_then(Set::plain)
        && !is_apex
    {
        let values: Vec<&str> = old
            .resource_records
            .iter()
            .flat_map(|r| r.list.iter().map(|record| record.value.as_str()))
            .collect();
        item.change("DELETE", &old.name, kind, old.ttl.unwrap_or(0), &values);
    }
    if wanted.is_none() && is_apex {
        let text = format!("the {kind} of zone {shown} cannot be deleted");
        return Err(Error::unsupported(text).hint("it goes with the zone"));
    }
    if let Some(desired) = wanted.and_then(RrSet::decode) {
        let serial = set
            .and_then(|set| rdata::soa_serial(&set.plain()?.resource_records.as_ref()?.list.first()?.value));
        let value = |value: &&str| xml::octal(&rdata::wire(kind, value, serial.unwrap_or(1))).into_owned();
        let values: Vec<String> = desired.values.iter().map(value).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        item.change(
            if is_apex { "UPSERT" } else { "CREATE" },
            &xml::octal_name(name),
            kind,
            desired.ttl,
            &values,
        );
    }
    if item.records > MOST_RECORDS || item.characters > MOST_CHARACTERS {
        let text = format!("{shown} {kind} is larger than one request of Route 53 may be");
        return Err(Error::unsupported(text).hint("split the values over several names"));
    }
    Ok(Some(item))
}

impl Item<'_> {
    /// Adds a change; `name` and `values` are as the API writes them.
    fn change(&mut self, word: &str, name: &str, kind: &str, ttl: u32, values: &[&str]) {
        let weight = if word == "UPSERT" { 2 } else { 1 };
        self.records += weight * values.len();
        self.characters += weight * values.iter().map(|value| value.chars().count()).sum::<usize>();
        let _ = write!(
            self.xml,
            "<Change><Action>{word}</Action><ResourceRecordSet><Name>{}</Name><Type>{kind}</Type><TTL>{ttl}</TTL>\
             <ResourceRecords>",
            xml::escape(name)
        );
        for value in values {
            let _ =
                write!(self.xml, "<ResourceRecord><Value>{}</Value></ResourceRecord>", xml::escape(value));
        }
        self.xml += "</ResourceRecords></ResourceRecordSet></Change>";
    }
}

/// Takes as many units from the queue as fit into one request, at least one.
fn chunk<'b>(queue: &mut VecDeque<Unit<'b>>) -> Vec<Unit<'b>> {
    let (mut chunk, mut records, mut characters) = (Vec::new(), 0, 0);
    while let Some(unit) = queue.front() {
        let more: usize = unit.iter().map(|item| item.records).sum();
        let longer: usize = unit.iter().map(|item| item.characters).sum();
        let fits = records + more <= MOST_RECORDS && characters + longer <= MOST_CHARACTERS;
        if !chunk.is_empty() && !fits {
            break;
        }
        (records, characters) = (records + more, characters + longer);
        chunk.extend(queue.pop_front());
    }
    chunk
}

struct Run<'a> {
    backend: &'a Backend,
    cx: &'a Cx,
    journal: &'a dyn Journal,
    zone: &'a str,
}

impl Run<'_> {
    /// Sends units, already `started`, in one request; in several when some of it is refused.
    async fn send(&self, id: &str, chunk: Vec<Unit<'_>>, culprits: &mut Culprits) -> Result<(), Error> {
        let (path, doing) = (format!("/hostedzone/{id}/rrset/"), format!("change zone {}", self.zone));
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
            let changes: String = chunk.iter().flatten().map(|item| item.xml.as_str()).collect();
            let body = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ChangeResourceRecordSetsRequest xmlns=\"{NAMESPACE}\">\
                 <ChangeBatch><Changes>{changes}</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>"
            );
            let call =
                self.backend.api.call::<Changed>(self.cx, Method::POST, &path, &[], Some(body), &doing);
            let (error, messages) = match call.await {
                Ok(_) => {
                    let outcomes = chunk.iter().flatten().map(|item| done(item.action));
                    self.journal.finished(outcomes.collect()).await?;
                    continue;
                }
                Err(Refusal::Refused(error, said)) if said.code == "InvalidChangeBatch" => {
                    (error, said.messages)
                }
                Err(refusal) => {
                    let unsent = stack.iter().flat_map(|chunk| ids_of(chunk));
                    return self.give_up(refusal, ids_of(&chunk), unsent).await;
                }
            };
            let named = blame(&chunk, &messages, &error);
            if !named.is_empty() {
                named.iter().filter_map(|(_, outcome)| outcome.error()).for_each(|error| culprits.add(error));
                let gone: HashSet<ActionId> = named.iter().map(|(id, _)| *id).collect();
                chunk.retain(|unit| unit.iter().all(|item| !gone.contains(&item.action.id)));
                self.journal.finished(named).await?;
                stack.push(chunk);
            } else if chunk.len() > 1 {
                let second = chunk.split_off(chunk.len() / 2);
                stack.push(second);
                stack.push(chunk);
            } else {
                culprits.add(&error);
                let failed =
                    chunk.iter().flatten().map(|item| (item.action.id, Outcome::Failed(about(item, &error))));
                self.journal.finished(failed.collect()).await?;
            }
            if culprits.count >= CULPRITS && !stack.is_empty() {
                let text = format!("{doing}: not sent, since {CULPRITS} other sets were refused one by one");
                let error = Error::invalid(text).hint("mend the sets that were refused");
                return self.fail(stack.iter().flat_map(|chunk| ids_of(chunk)), &error).await;
            }
        }
        Ok(())
    }

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

    async fn create_zone(&self, create: &Action) -> Result<(), Error> {
        let doing = format!("create zone {}", self.zone);
        self.journal.started(&[create.id]).await?;
        if !self.backend.config.create_zones || self.backend.config.private {
            let text = format!("{doing}: this entry creates no zones");
            let error = Error::invalid(text)
                .hint("create it in Route 53, or write `createZones: true` into the entry");
            self.journal.finished(vec![(create.id, Outcome::Failed(error.clone()))]).await?;
            return Err(error);
        }
        // The token stays the same while nobody knows how this create ended. Route 53 refuses a reference that it had
        // before, so there is one zone at most; the refusal is a conflict, and the next look finds the zone.
        let reference = Hash::of(format!("{} {}", create.token, self.zone).as_bytes());
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><CreateHostedZoneRequest xmlns=\"{NAMESPACE}\"><Name>{}</Name>\
             <CallerReference>reconciled-{reference}</CallerReference></CreateHostedZoneRequest>",
            xml::escape(&xml::octal_name(self.zone))
        );
        let call =
            self.backend.api.call::<Created>(self.cx, Method::POST, "/hostedzone", &[], Some(body), &doing);
        match call.await {
            Ok(created) => {
                let id = created.hosted_zone.id.trim_start_matches("/hostedzone/").to_owned();
                let zones = &self.backend.zones;
                zones.lock().unwrap_or_else(PoisonError::into_inner).insert(self.zone.to_owned(), id);
                self.journal.finished(vec![(create.id, Outcome::Done(zone_tracked(create)))]).await
            }
            Err(refusal) => self.give_up(refusal, [create.id].into_iter(), [].into_iter()).await,
        }
    }

    async fn delete_zone(&self, id: &str, action: &Action) -> Result<(), Error> {
        self.journal.started(&[action.id]).await?;
        let (path, doing) = (format!("/hostedzone/{id}"), format!("delete zone {}", self.zone));
        let call = self.backend.api.call::<Changed>(self.cx, Method::DELETE, &path, &[], None, &doing);
        let result = call.await;
        self.backend.zones.lock().unwrap_or_else(PoisonError::into_inner).remove(self.zone);
        match result {
            Ok(_) => self.journal.finished(vec![(action.id, Outcome::Gone)]).await,
            Err(Refusal::Refused(_, said)) if said.code == "NoSuchHostedZone" => {
                self.journal.finished(vec![(action.id, Outcome::Gone)]).await
            }
            Err(refusal) => self.give_up(refusal, [action.id].into_iter(), [].into_iter()).await,
        }
    }
}

/// Outcomes of the units that the messages name, as `[name='a.example.com.', type='A'] but it already exists`.
fn blame(chunk: &[Unit<'_>], messages: &[String], error: &Error) -> Vec<(ActionId, Outcome)> {
    let mut named: BTreeMap<Key, ErrorKind> = BTreeMap::new();
    for message in messages {
        for part in message.split("name='").skip(1) {
            let Some((name, rest)) = part.split_once('\'') else { continue };
            let kind = rest.split_once("type='").and_then(|(_, rest)| rest.split_once('\''));
            let Some((kind, said)) = kind else { continue };
            let moved =
                ["already exists", "was not found", "do not match"].iter().any(|text| said.contains(text));
            let kind_of = if moved { ErrorKind::Conflict } else { ErrorKind::Invalid };
            named.insert((xml::name(name), kind.to_owned()), kind_of);
        }
    }
    let mut outcomes = Vec::new();
    for unit in chunk.iter().filter(|unit| unit.iter().any(|item| named.contains_key(&item.key))) {
        for item in unit {
            let error = match named.get(&item.key) {
                Some(kind) => {
                    let mut error = about(item, error);
                    error.kind = *kind;
                    error
                }
                None => held_back(item),
            };
            outcomes.push((item.action.id, Outcome::Failed(error)));
        }
    }
    outcomes
}

/// `error` with the set it is about.
fn about(item: &Item<'_>, error: &Error) -> Error {
    let mut named = error.clone();
    named.message = format!("{} {}: {}", item.key.0.trim_end_matches('.'), item.key.1, error.message);
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
