//! Writing: a batch of actions becomes as few change batches as the limits allow.
//!
//! Guarantees, besides those of [`crate::batch`]:
//! - a change deletes the set exactly as it was read and creates the new one, in one transaction: Route 53 refuses
//!   it when somebody changed the set since (compare-and-swap for each set). The NS and SOA of the zone itself
//!   cannot be deleted, so they are overwritten, right after one more look where another request came before;
//! - what the batch touches is compared with the plan before anything is sent;
//! - a set that is refused is found by the name in the answer, else by halves;
//! - of several sets at a name only those that differ are touched; one with a routing policy that is not known here is
//!   refused by name.

use super::{
    backend::Backend,
    client::Refusal,
    insync,
    observe::{self, Key, Set},
    routing,
    xml::{self, Changed, Created, NAMESPACE, SetBody},
};
use crate::{
    batch::{
        self, Answer, Chunk, Delivery, OfZone, Sender, Together, Unit, Work, about, give_up, items, zone_done,
    },
    merge, rdata, record,
};
use async_trait::async_trait;
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Error, ErrorKind, Hash, Journal, Outcome, Scope, Version,
};
use reqwest::Method;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    sync::PoisonError,
};

/// Records in one request; those of an overwriting change count twice.
const MOST_RECORDS: usize = 1_000;
/// Characters of values in one request; those of an overwriting change count twice.
const MOST_CHARACTERS: usize = 32_000;

/// The changes of one action as XML.
#[derive(Debug, Default)]
struct Changes {
    xml: String,
    records: usize,
    characters: usize,
}

type Item<'b> = batch::Item<'b, Changes>;

/// Carries out a batch.
pub(crate) async fn apply(
    backend: &Backend,
    cx: &Cx,
    batch: &Batch,
    journal: &dyn Journal,
) -> Result<(), Error> {
    let zone = &*batch.scope.name;
    let run = Run { backend, cx, journal, zone };
    let mut of_zone = OfZone::of(batch);
    let names = batch.actions.iter().filter_map(|action| record::parts(action.op.id()));
    let names: BTreeSet<&str> = names.map(|(name, _)| name).collect();
    let read = observe::read_at(backend, cx, zone, &names).await?;
    let moved = || Error::conflict(format!("zone {zone} changed at Route 53 since it was observed"));
    let (id, now) = match (read, &batch.base, of_zone.create) {
        (None, Version::Absent, Some(create)) => {
            run.create_zone(create).await?;
            if cx.stop.is_set() {
                return Ok(());
            }
            observe::read(backend, cx, zone).await?.ok_or_else(moved)?
        }
        (Some((id, now)), Version::Unknown, create) if batch.actions.iter().all(|a| stands(a, &id, &now)) => {
            of_zone.kept.extend(create);
            (id, now)
        }
        _ => return Err(moved()),
    };
    let apex = record::zone_name(&batch.scope);
    insync::ask(&backend.api, &backend.open, cx, batch).await?;
    let mut work = Work::of(batch, Together::Swaps, |action, name, kind| {
        let set = now.get(&(name.to_owned(), kind.to_owned()));
        changes(action, (name, kind), set, &id, is_of_zone(&apex, name, kind))
    });
    // What is as wanted in the zone may not be so at every name server.
    let waits: HashSet<ActionId> = batch
        .actions
        .iter()
        .filter(|action| backend.open.has(&batch.scope, action.op.id()))
        .map(|action| action.id)
        .collect();
    for (_, outcome) in work.settled.iter_mut().filter(|(id, _)| waits.contains(id)) {
        *outcome = insync::pending(outcome.clone());
    }
    work.settled.extend(of_zone.settled());
    batch::settle(journal, work.settled).await?;
    let (path, doing) = (format!("/hostedzone/{id}/rrset/"), format!("change zone {zone}"));
    let scope = &batch.scope;
    let requests = Requests { backend, cx, scope, path: &path, doing: &doing };
    let mut delivery = Delivery::new(requests, cx, journal, &doing);
    delivery.all(work.units).await?;
    if let Some(conflict) = delivery.conflict {
        return Err(conflict);
    }
    match of_zone.delete {
        Some(action) if !cx.stop.is_set() => run.delete_zone(&id, action).await,
        _ => Ok(()),
    }
}

/// True for what goes with the zone `apex`, and cannot be deleted.
fn is_of_zone(apex: &str, name: &str, kind: &str) -> bool {
    name == apex && matches!(kind, "NS" | "SOA")
}

/// True when what an action touches is as planned, or already as wanted.
fn stands(action: &Action, zone: &str, now: &BTreeMap<Key, Set>) -> bool {
    let Some((name, kind)) = record::parts(action.op.id()) else { return true };
    let seen = now.get(&(name.to_owned(), kind.to_owned())).map(|set| Hash::of(&set.bytes(zone)));
    batch::stands(action, seen)
}

/// What an action takes; none for one that is as wanted already. `zone` is the id of the zone.
fn changes(
    action: &Action,
    (name, kind): (&str, &str),
    set: Option<&Set>,
    zone: &str,
    is_of_zone: bool,
) -> Result<Option<Changes>, Error> {
    let shown = name.trim_end_matches('.');
    let wanted = batch::wanted(action)?;
    let bytes = |set: &SetBody| routing::encode(std::slice::from_ref(set), zone);
    if set.map(|set| set.bytes(zone)).as_deref()
        == action.op.desired().and_then(|resource| resource.spec.bytes())
    {
        return Ok(None);
    }
    let before = set.map_or(&[][..], |set| &set.0);
    let serial = before.first().and_then(|set| rdata::soa_serial(set.values().next()?));
    let after = match &wanted {
        Some(wanted) => routing::decode(name, kind, wanted, zone, serial.unwrap_or(1))?,
        None => Vec::new(),
    };
    if is_of_zone && after.is_empty() {
        let text = format!("the {kind} of zone {shown} cannot be deleted");
        return Err(Error::unsupported(text).hint("it goes with the zone"));
    }
    let differs = |set: &&SetBody, others: &[SetBody]| {
        !others.iter().any(|other| other.set_identifier == set.set_identifier && bytes(other) == bytes(set))
    };
    let old: Vec<&SetBody> = before.iter().filter(|set| differs(set, &after)).collect();
    let new: Vec<&SetBody> = after.iter().filter(|set| differs(set, before)).collect();
    if old.iter().any(|set| set.is_strange()) {
        let text = format!("{shown} {kind} has a routing policy that this version does not write");
        return Err(Error::unsupported(text).hint("remove it from the manifests, or that set in Route 53"));
    }
    let mut changes = Changes::default();
    if !is_of_zone {
        old.iter().for_each(|set| changes.change("DELETE", set));
    }
    let word = if is_of_zone { "UPSERT" } else { "CREATE" };
    new.iter().for_each(|set| changes.change(word, set));
    if changes.records > MOST_RECORDS || changes.characters > MOST_CHARACTERS {
        let text = format!("{shown} {kind} is larger than one request of Route 53 may be");
        return Err(Error::unsupported(text).hint("split the values over several names"));
    }
    Ok(Some(changes))
}

impl Changes {
    /// Adds a change.
    fn change(&mut self, word: &str, set: &SetBody) {
        let weight = if word == "UPSERT" { 2 } else { 1 };
        // An alias counts as one, which is on the safe side.
        self.records += weight * set.values().count().max(1);
        self.characters += weight * set.values().map(|value| value.chars().count()).sum::<usize>();
        self.xml += &format!("<Change><Action>{word}</Action>{}</Change>", set.element());
    }
}

/// Creates and deletes the zone itself.
struct Run<'a> {
    backend: &'a Backend,
    cx: &'a Cx,
    journal: &'a dyn Journal,
    zone: &'a str,
}

impl Run<'_> {
    async fn create_zone(&self, create: &Action) -> Result<(), Error> {
        let doing = format!("create zone {}", self.zone);
        self.journal.started(&[create.id]).await?;
        if !self.backend.config.create_zones || self.backend.config.private {
            let text = format!("{doing}: this entry creates no zones");
            let error = Error::invalid(text)
                .hint("create it in Route 53, or write `createZones: true` into the entry");
            return give_up(self.journal, [create.id], error, false).await;
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
                self.journal.finished(vec![(create.id, zone_done(create))]).await
            }
            Err(refusal) => self.end(create, refusal).await,
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
            Err(refusal) => self.end(action, refusal).await,
        }
    }

    async fn end(&self, action: &Action, refusal: Refusal) -> Result<(), Error> {
        let is_lost = refusal.is_lost();
        give_up(self.journal, [action.id], refusal.into_error(), is_lost).await
    }
}

/// The requests that change a zone.
struct Requests<'a> {
    backend: &'a Backend,
    cx: &'a Cx,
    scope: &'a Scope,
    path: &'a str,
    doing: &'a str,
}

#[async_trait]
impl Sender<Changes> for Requests<'_> {
    const CULPRITS: usize = 20;

    fn take<'b>(&self, queue: &mut VecDeque<Unit<'b, Changes>>) -> Chunk<'b, Changes> {
        let (mut records, mut characters) = (0, 0);
        batch::take(queue, |unit| {
            records += unit.iter().map(|item| item.takes.records).sum::<usize>();
            characters += unit.iter().map(|item| item.takes.characters).sum::<usize>();
            records <= MOST_RECORDS && characters <= MOST_CHARACTERS
        })
    }

    async fn look_again(
        &mut self,
        chunk: &mut Chunk<'_, Changes>,
    ) -> Result<Vec<(ActionId, Outcome)>, Error> {
        let apex = record::zone_name(self.scope);
        let is_overwritten = |item: &Item<'_>| is_of_zone(&apex, item.name(), item.kind());
        // All else is refused where somebody changed it.
        if !items(chunk).any(is_overwritten) {
            return Ok(Vec::new());
        }
        let zone = &*self.scope.name;
        let read = observe::read_at(self.backend, self.cx, zone, &[&*apex].into()).await?;
        let (id, now) = read.ok_or_else(|| Error::conflict(format!("zone {zone} is gone at Route 53")))?;
        let ended = batch::named(chunk, |item| {
            (is_overwritten(item) && !stands(item.action, &id, &now)).then(|| batch::changed(item))
        });
        batch::remove(chunk, &ended);
        Ok(ended)
    }

    async fn send(&mut self, chunk: &mut Chunk<'_, Changes>) -> Result<Answer, Error> {
        let changes: String = items(chunk).map(|item| item.takes.xml.as_str()).collect();
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ChangeResourceRecordSetsRequest xmlns=\"{NAMESPACE}\">\
             <ChangeBatch><Changes>{changes}</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>"
        );
        let api = &self.backend.api;
        match api.call::<Changed>(self.cx, Method::POST, self.path, &[], Some(body), self.doing).await {
            Ok(changed) => {
                let change = changed.change_info;
                if self.backend.config.insync && change.status != "INSYNC" {
                    let kept = items(chunk).filter_map(|item| item.action.op.desired());
                    kept.for_each(|resource| self.backend.open.begin(self.scope, &resource.id, &change.id));
                }
                Ok(Answer::Done)
            }
            Err(Refusal::Refused(error, said)) if said.code == "InvalidChangeBatch" => {
                let named = blame(chunk, &said.messages, &error);
                Ok(if named.is_empty() { Answer::Refused(error) } else { Answer::Named(named) })
            }
            Err(refusal) => Ok(refusal.into()),
        }
    }

    fn done(&self, item: &Item<'_>) -> Outcome {
        let outcome = merge::done(item.action);
        match self.backend.open.has(self.scope, item.action.op.id()) {
            true => insync::pending(outcome),
            false => outcome,
        }
    }
}

/// Outcomes of the units that the messages name, as `[name='a.example.com.', type='A'] but it already exists`.
fn blame(chunk: &[Unit<'_, Changes>], messages: &[String], error: &Error) -> Vec<(ActionId, Outcome)> {
    let mut kinds: BTreeMap<Key, ErrorKind> = BTreeMap::new();
    for message in messages {
        for part in message.split("name='").skip(1) {
            let Some((name, rest)) = part.split_once('\'') else { continue };
            let kind = rest.split_once("type='").and_then(|(_, rest)| rest.split_once('\''));
            let Some((kind, said)) = kind else { continue };
            let moved =
                ["already exists", "was not found", "do not match"].iter().any(|text| said.contains(text));
            let kind_of = if moved { ErrorKind::Conflict } else { ErrorKind::Invalid };
            kinds.insert((xml::name(name), kind.to_owned()), kind_of);
        }
    }
    batch::named(chunk, |item: &Item<'_>| {
        let kind = kinds.get(&(item.name().to_owned(), item.kind().to_owned()))?;
        let mut named = about(item, error);
        named.kind = *kind;
        Some(named)
    })
}
