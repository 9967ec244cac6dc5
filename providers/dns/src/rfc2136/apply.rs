//! Writing: a batch becomes one UPDATE message, or several where it does not fit (RFC 2136).
//!
//! Guarantees:
//! - each message takes effect wholly, and only while the SOA of the zone is the one that was planned from. The
//!   server compares and writes in one step: nobody's change is overwritten;
//! - where there are several, each depends on the SOA that the one before it left. The race that is left is a
//!   change by somebody else between an answer and the question for that SOA, one round trip apart;
//! - a name is never split over two messages, so CNAME ↔ A is one step; where half of it cannot be written, neither
//!   is the other half;
//! - each message is `started` before and `finished` after it, with exactly its actions;
//! - what the server refuses is found by halves, asked for once more after the rest, and fails alone. An update
//!   without changes tells first whether anything may be written at all, so that a key without rights does not cost
//!   a message for each record.
//!
//! Servers answer NOERROR to changes they do not carry out (RFC 2136 §3.4.2.2: a CNAME beside other data).
//! What was answered so is remembered with the SOA after it. A survey that finds that SOA and not the change has
//! proof: nobody wrote since, so the server did not do it ([`Written`]).

use super::{
    Backend,
    client::{Connection, FORMERR, Failure, NOTZONE, REFUSED, Soa, not_served},
    observe::zone_of,
    request::{self, Changes, Set},
};
use crate::{
    merge,
    record::{self, RrSet},
};
use hickory_proto::rr::{Name, Record};
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Error, Hash, Journal, Op, Outcome, ResourceId, Version,
};
use std::collections::{HashMap, HashSet, VecDeque};

/// What the server said it wrote, and the SOA after that.
#[derive(Debug)]
pub(crate) struct Written {
    /// Token of the zone after the last message.
    pub(crate) version: Version,
    /// Content of each RRset that was written.
    pub(crate) sets: HashMap<ResourceId, Hash>,
}

/// One action on an RRset, ready to be sent.
struct Item<'b> {
    action: &'b Action,
    changes: Changes,
}

/// All actions at one name: the least that is sent together.
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
    let (zone, text) = zone_of(&batch.scope)?;
    let Some(soa) = Soa::of(&batch.base) else {
        return Err(Error::conflict(format!("the state of zone {} is not known", batch.scope.name)));
    };
    let mut work = Work::of(batch, &text, soa.serial);
    let envelope = request::envelope(&text, &soa.data);
    work.refuse_larger(usize::from(u16::MAX).saturating_sub(envelope));
    if !work.settled.is_empty() {
        journal.started(&work.settled.iter().map(|(id, _)| *id).collect::<Vec<_>>()).await?;
        journal.finished(work.settled).await?;
    }
    if work.units.is_empty() {
        return Ok(());
    }
    let doing = format!("update zone {}", batch.scope.name);
    let connection = Connection::open(&backend.config, &backend.keys, cx, &doing).await?;
    let room = backend.config.max_message.saturating_sub(envelope);
    let mut run =
        Run { connection, journal, zone, text, soa, doing, is_allowed: false, sets: HashMap::new() };
    let result = async {
        while !work.units.is_empty() && !cx.stop.is_set() {
            let chunk = take(&mut work.units, room);
            run.journal.started(&ids(&chunk).collect::<Vec<_>>()).await?;
            run.write(chunk, !work.units.is_empty()).await?;
        }
        Ok(())
    };
    let result = result.await;
    let Run { soa, sets, .. } = run;
    backend.remember(&batch.scope, Written { version: soa.version(), sets });
    result
}

/// A batch, sorted by what it takes.
struct Work<'b> {
    /// Actions that end without a message.
    settled: Vec<(ActionId, Outcome)>,
    units: VecDeque<Unit<'b>>,
}

impl<'b> Work<'b> {
    fn of(batch: &'b Batch, zone: &str, serial: u32) -> Work<'b> {
        let mut work = Work { settled: Vec::new(), units: VecDeque::new() };
        let (mut by_name, mut broken) = (HashMap::<&str, usize>::new(), HashSet::new());
        for action in &batch.actions {
            let Some((name, kind)) = record::parts(action.op.id()) else {
                work.settled.push((action.id, of_zone(action)));
                continue;
            };
            let changes = match changes(action, zone, name, kind, serial) {
                Ok(changes) => changes,
                Err(error) => {
                    work.settled.push((action.id, Outcome::Failed(error)));
                    broken.insert(name);
                    continue;
                }
            };
            let index = *by_name.entry(name).or_insert(work.units.len());
            let item = Item { action, changes };
            match work.units.get_mut(index) {
                Some(unit) => unit.push(item),
                None => work.units.push_back(vec![item]),
            }
        }
        work.hold_back(batch, &broken);
        work
    }

    /// Settles what is left of a swap of which something cannot be written: alone it would leave a hole.
    fn hold_back(&mut self, batch: &Batch, broken: &HashSet<&str>) {
        let name = |action: &'b Action| record::parts(action.op.id()).map(|(name, _)| name);
        let is_delete = |action: &&Action| matches!(action.op, Op::Delete { .. });
        let deleted = batch.actions.iter().filter(is_delete).filter_map(|a| record::parts(a.op.id()));
        let held: HashSet<&str> =
            deleted.map(|(name, _)| name).filter(|name| broken.contains(name)).collect();
        let settled = &mut self.settled;
        self.units.retain(|unit| {
            let is_held =
                unit.first().and_then(|item| name(item.action)).is_some_and(|name| held.contains(name));
            if is_held {
                let error = |id: &ResourceId| {
                    Error::invalid(format!("{id} is held back: other data at its name were refused"))
                };
                let failed = |item: &Item<'_>| (item.action.id, Outcome::Failed(error(item.action.op.id())));
                settled.extend(unit.iter().map(failed));
            }
            !is_held
        });
    }

    /// Settles what no message holds: all at one name has to be in one.
    fn refuse_larger(&mut self, room: usize) {
        let settled = &mut self.settled;
        self.units.retain(|unit| {
            let size: usize = unit.iter().map(|item| item.changes.size).sum();
            if size > room {
                let error = |id: &ResourceId| {
                    Error::invalid(format!("{id} and what else changes at its name take {size} octets"))
                        .hint("a message of DNS has at most 65535: declare fewer values")
                };
                let failed = |item: &Item<'_>| (item.action.id, Outcome::Failed(error(item.action.op.id())));
                settled.extend(unit.iter().map(failed));
            }
            size <= room
        });
    }
}

/// How an action on the zone itself ends: there is nothing that could be written.
fn of_zone(action: &Action) -> Outcome {
    let zone = action.op.id();
    let no = |what: &str| {
        let message = format!("zone {zone} cannot be {what} over DNS");
        Outcome::Failed(Error::unsupported(message).hint("change the configuration of the server"))
    };
    match &action.op {
        Op::Create { .. } => no("created"),
        Op::Delete { .. } => no("deleted"),
        _ => merge::done(action),
    }
}

/// What an action takes. Errors: it cannot be written, whoever is asked.
fn changes(action: &Action, zone: &str, name: &str, kind: &str, serial: u32) -> Result<Changes, Error> {
    let id = action.op.id();
    let set = Set::new(name, kind).ok_or_else(|| {
        Error::unsupported(format!("{id} has no form on the wire"))
            .hint(format!("{kind} exists only within some servers: use a provider of their API"))
    })?;
    let bad = || Error::invalid(format!("the content of {id} cannot be written"));
    let mut changes = Changes::default();
    let is_apex = name == zone && matches!(kind, "NS" | "SOA");
    let Some(resource) = action.op.desired() else {
        if is_apex {
            // RFC 2136 §3.4.2.3: a server answers NOERROR and keeps them.
            return Err(Error::unsupported(format!(
                "{id} cannot be deleted over DNS: a zone keeps its SOA and NS"
            ))
            .hint("declare what they shall be, or leave them to the server"));
        }
        set.delete(&mut changes);
        return Ok(changes);
    };
    let Some(desired) = resource.spec.bytes().and_then(RrSet::decode) else {
        return Err(Error::invalid(format!("the content of {id} is not known yet")));
    };
    let observed = match &action.op {
        Op::Update { observed, .. } | Op::Replace { observed, .. } => RrSet::decode(&observed.bytes),
        _ => None,
    };
    // Deleting all NS of a zone is ignored, so that there the old ones go after the new ones came.
    if observed.is_some() && !is_apex {
        set.delete(&mut changes);
    }
    for value in &desired.values {
        // A SOA that is not newer than the old one is ignored (§3.4.2.2, RFC 1982).
        set.add(desired.ttl, kind, value, serial.wrapping_add(1).max(1), &mut changes).ok_or_else(bad)?;
    }
    if is_apex && kind == "NS" {
        let gone =
            observed.iter().flat_map(|set| &set.values).filter(|value| !desired.values.contains(value));
        for value in gone {
            set.remove(kind, value, &mut changes).ok_or_else(bad)?;
        }
    }
    Ok(changes)
}

/// Takes as many units as there is room for, at least one.
fn take<'b>(units: &mut VecDeque<Unit<'b>>, room: usize) -> Vec<Unit<'b>> {
    let mut chunk = Vec::new();
    let mut size = 0;
    while let Some(unit) = units.front() {
        let own: usize = unit.iter().map(|item| item.changes.size).sum();
        if !chunk.is_empty() && size + own > room {
            break;
        }
        size += own;
        chunk.extend(units.pop_front());
    }
    chunk
}

fn items<'i, 'b: 'i>(chunk: &'i [Unit<'b>]) -> impl Iterator<Item = &'i Item<'b>> {
    chunk.iter().flatten()
}

fn ids(chunk: &[Unit<'_>]) -> impl Iterator<Item = ActionId> {
    items(chunk).map(|item| item.action.id)
}

/// The records of a message, in the order they take effect.
fn records(chunk: &[Unit<'_>]) -> Vec<Record> {
    let deletes = items(chunk).flat_map(|item| &item.changes.deletes);
    let adds = items(chunk).flat_map(|item| &item.changes.adds);
    let removes = items(chunk).flat_map(|item| &item.changes.removes);
    deletes.chain(adds).chain(removes).cloned().collect()
}

struct Run<'a> {
    connection: Connection<'a>,
    journal: &'a dyn Journal,
    zone: Name,
    text: String,
    /// What the next message depends on.
    soa: Soa,
    doing: String,
    /// The server takes updates of this zone from us, if not all of them.
    is_allowed: bool,
    sets: HashMap<ResourceId, Hash>,
}

impl Run<'_> {
    /// Gives a SOA of `chunk` a serial after that of the message before: one that is not newer is ignored.
    fn renew(&self, chunk: &mut [Unit<'_>]) {
        for item in chunk.iter_mut().flatten() {
            if let Some((name, kind @ "SOA")) = record::parts(item.action.op.id())
                && let Ok(changes) = changes(item.action, &self.text, name, kind, self.soa.serial)
            {
                item.changes = changes;
            }
        }
    }

    /// Sends a chunk; `is_followed` says that another one comes after it.
    async fn write(&mut self, chunk: Vec<Unit<'_>>, is_followed: bool) -> Result<(), Error> {
        let mut stack = vec![chunk];
        let (mut refused, mut is_last_word) = (Vec::new(), false);
        loop {
            if stack.is_empty() && !is_last_word {
                // What was refused may only have lacked something that came after it, as an MX its host: once more.
                is_last_word = true;
                stack.append(&mut refused);
            }
            let Some(mut chunk) = stack.pop() else { return Ok(()) };
            self.renew(&mut chunk);
            let failure = match self.update(records(&chunk)).await {
                Ok(()) => {
                    self.is_allowed = true;
                    self.journal.finished(items(&chunk).map(done).collect()).await?;
                    self.sets.extend(items(&chunk).filter_map(content));
                    let next = self.next(is_followed || !stack.is_empty() || !refused.is_empty()).await;
                    if let Err(error) = next {
                        let rest = stack.iter().chain(&refused).flat_map(|chunk| ids(chunk));
                        return self.give_up(error, rest).await;
                    }
                    continue;
                }
                Err(failure) => failure,
            };
            let Failure::Refused { rcode: FORMERR | REFUSED | NOTZONE, error } = failure else {
                let is_lost = matches!(failure, Failure::Lost(_));
                let error = failure.into_error();
                let rest = stack.iter().chain(&refused).flat_map(|chunk| ids(chunk));
                let rest = rest.map(|id| (id, Outcome::Failed(error.clone())));
                let own = ids(&chunk).map(|id| match is_lost {
                    true => (id, Outcome::Unknown(error.clone())),
                    false => (id, Outcome::Failed(error.clone())),
                });
                self.journal.finished(own.chain(rest).collect()).await?;
                return Err(error);
            };
            if !self.is_allowed {
                // Is it these records, or all of them?
                match self.update(Vec::new()).await {
                    Ok(()) => self.is_allowed = true,
                    Err(_) => {
                        let all = stack.iter().chain(&refused).chain([&chunk]).flat_map(|chunk| ids(chunk));
                        return self.give_up(error, all).await;
                    }
                }
            }
            if chunk.len() > 1 {
                let second = chunk.split_off(chunk.len() / 2);
                stack.extend([second, chunk]);
            } else if is_last_word {
                self.fail(&chunk, &error).await?;
            } else {
                refused.push(chunk);
            }
        }
    }

    /// Ends the actions that the server refuses for what they are.
    async fn fail(&self, chunk: &[Unit<'_>], error: &Error) -> Result<(), Error> {
        let failed = items(chunk).map(|item| {
            let (word, id) = (item.action.op.word(), item.action.op.id());
            let error = Error::new(error.kind, format!("{}, when asked to {word} {id}", error.message)).hint(
                "the key may not change this record (`update-policy` of BIND, `acl` of Knot), or the server checks what \
                 it holds, such as an MX or NS that points at a name of the zone without an address",
            );
            (item.action.id, Outcome::Failed(error))
        });
        self.journal.finished(failed.collect()).await
    }

    async fn update(&mut self, records: Vec<Record>) -> Result<(), Failure> {
        self.connection.update((&self.zone, &self.text), &self.soa, records, &self.doing).await
    }

    /// Learns the SOA that the last message left.
    async fn next(&mut self, is_needed: bool) -> Result<(), Error> {
        match self.connection.soa(&self.zone, &self.text, &self.doing).await {
            Ok(Some(soa)) => self.soa = soa,
            // It serves only as proof against the server then.
            _ if !is_needed => self.sets.clear(),
            Ok(None) => return Err(not_served("the server", &self.text)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Ends the batch: actions that had no effect fail, and so does what is not begun.
    async fn give_up(&self, error: Error, ids: impl Iterator<Item = ActionId>) -> Result<(), Error> {
        let failed: Vec<_> = ids.map(|id| (id, Outcome::Failed(error.clone()))).collect();
        if !failed.is_empty() {
            self.journal.finished(failed).await?;
        }
        Err(error)
    }
}

fn done(item: &Item<'_>) -> (ActionId, Outcome) {
    (item.action.id, merge::done(item.action))
}

/// What an RRset holds after its action.
fn content(item: &Item<'_>) -> Option<(ResourceId, Hash)> {
    let resource = item.action.op.desired()?;
    Some((resource.id.clone(), resource.spec.hash()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Observed, Origin, PolicyId, Resource, Scope, Spec};
    use std::sync::Arc;

    fn create(id: &str, content: &[u8]) -> Op {
        let scope = Arc::new(Scope::new("bind", "example.com"));
        let origin = Origin { manifest: 0, line: 1 };
        let spec = Spec::known(content.to_vec());
        let desired = Resource { id: id.into(), scope, spec, origin, policy: PolicyId::default() };
        Op::Create { desired, delta: Default::default() }
    }

    #[test]
    fn half_a_swap_is_held_back_and_what_else_is_at_the_name_of_a_refusal_is_not() {
        let cname = Observed::new("x.example.com./CNAME".into(), b"300\na.example.net.".to_vec());
        let ops = vec![
            Op::Delete { observed: cname, tracked: None },
            create("x.example.com./ALIAS", b"300\nb.example.net."),
            create("y.example.com./A", b"300\n192.0.2.1"),
            create("y.example.com./ALIAS", b"300\nb.example.net."),
        ];
        let action = |(i, op): (usize, Op)| Action { id: ActionId(i as u64), token: "t".into(), op };
        let batch = Batch {
            scope: Scope::new("bind", "example.com"),
            base: Version::Unknown,
            actions: ops.into_iter().enumerate().map(action).collect(),
        };
        let work = Work::of(&batch, "example.com.", 1);
        let sent: Vec<u64> = work.units.iter().flatten().map(|item| item.action.id.0).collect();
        let mut settled: Vec<u64> = work.settled.iter().map(|(id, _)| id.0).collect();
        settled.sort_unstable();
        assert_eq!((sent, settled), (vec![2], vec![0, 1, 3]));
        let held =
            work.settled.iter().find(|(id, _)| id.0 == 0).and_then(|(_, outcome)| outcome.error()).unwrap();
        assert!(held.message.contains("x.example.com./CNAME is held back"), "{held}");
    }
}
