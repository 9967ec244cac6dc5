//! Writing: a batch becomes one UPDATE message, or several where it does not fit (RFC 2136).
//!
//! Guarantees, besides those of [`crate::batch`]:
//! - each message takes effect wholly, and only while the SOA of the zone is the one that was planned from. The
//!   server compares and writes in one step: nobody's change is overwritten;
//! - where there are several, each depends on the SOA that the one before it left, which is asked for right behind its
//!   answer. Where that is not the next one, somebody may have written between the two, or the server makes serials of the
//!   time: the zone is transferred again, the next message depends on what that holds, and of what is left to send, what
//!   somebody changed fails alone, as a conflict;
//! - a name is split over two messages only where something of it is refused and nothing changes places there, so CNAME ↔ A
//!   is one step;
//! - what the server refuses is found by halves, asked for once more after the rest, and fails alone. An update
//!   without changes tells first whether anything may be written at all, so that a key without rights does not cost
//!   a message for each record.
//!
//! Of some zones the SOA that is served is not the one that updates are compared with: BIND signs them inline, and has another
//! serial for what is not signed; PowerDNS edits the serial of what it serves (SOA-EDIT). Those are known by an update that is
//! refused although the SOA is the one that was sent. From then on each RRset of a message has to be as it was planned from.
//!
//! Servers answer NOERROR to changes they do not carry out (RFC 2136 §3.4.2.2: a CNAME beside other data).
//! What was answered so is remembered with the SOA after it, where that is the next one, or still the
//! same. A survey that finds that SOA and not the change has proof: nobody wrote since, so the server did not do it
//! ([`Written`]). Knot takes for other data what it signed of the set that just went, RRSIG and NSEC: where a server keeps those with
//! the zone, everything at a name goes before a CNAME comes there in the place of other data. With the SOA as planned that is nothing of
//! others; where somebody wrote between two messages, it is looked at again. Nowhere else: PowerDNS, which signs as it answers, would
//! delete as well what is switched off there and in no transfer. A CNAME in the place of another is only added, which replaces that
//! one (§3.4.2.2): a KEY of somebody else may stand beside it.
//!
//! A CNAME that is ignored in the place of what went leaves nothing at its name. Where sets are compared, it comes only where nothing
//! else came; and whether it came is asked right behind, by an update that changes nothing: what did not come is unknown, not done,
//! so that to make it is no repair of what others did, which a manifest may forbid.

use super::{
    backend::{Backend, Written},
    client::{Connection, FORMERR, Failure, NOTZONE, NXRRSET, REFUSED, YXDOMAIN, YXRRSET},
    observe::{self, zone_of},
    request::{self, Changes, Set},
    soa::Soa,
};
use crate::{
    batch::{self, Answer, Chunk, Delivery, Item, Sender, Together, Unit, Work, items},
    merge, name,
    rdata::{Type, octets},
    record::{self, RrSet},
};
use async_trait::async_trait;
use hickory_proto::rr::{Name, Record};
use reconciled_provider::{
    Action, ActionId, Batch, Clock, Cx, Error, ErrorKind, Hash, Journal, Observed, Op, Outcome, ResourceId,
    Scope,
};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

/// How often, and how long between two looks, a zone is looked at that is signed after it was written.
const LOOKS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(100);

/// Carries out a batch.
pub(crate) async fn apply(
    backend: &Backend,
    cx: &Cx,
    batch: &Batch,
    journal: &dyn Journal,
) -> Result<(), Error> {
    let (zone, text) = zone_of(&batch.scope)?;
    let Some(soa) = Soa::of(&batch.base) else {
        return Err(Error::conflict(format!("the state of zone {} is not known", batch.scope.name)));
    };
    let envelope = request::envelope(&text, &soa.data);
    let by_sets = backend.is_by_sets(&batch.scope);
    let work = work(batch, &text, soa.serial, by_sets, usize::from(u16::MAX).saturating_sub(envelope));
    batch::settle(journal, work.settled).await?;
    if work.units.is_empty() {
        return Ok(());
    }
    let doing = format!("update zone {}", batch.scope.name);
    let connection = Connection::open(&backend.config, &backend.keys, cx, &doing).await?;
    let room = backend.config.max_message.saturating_sub(envelope);
    let (is_allowed, keeps_signatures, after, seen) = (false, None, After::Known, None);
    let (sets, doubtful) = Default::default();
    let update = Update {
        backend,
        scope: &batch.scope,
        connection,
        zone,
        text,
        soa,
        by_sets,
        room,
        doing: &doing,
        clock: &*cx.clock,
        is_allowed,
        keeps_signatures,
        after,
        seen,
        sets,
        doubtful,
    };
    let mut delivery = Delivery::new(update, cx, journal, &doing);
    let result = delivery.all(work.units).await;
    let update = delivery.sender;
    backend.remember(&batch.scope, Written { version: backend.version(&update.soa), sets: update.sets });
    result?;
    delivery.conflict.map_or(Ok(()), Err)
}

/// What is sent of a batch. All at one name has to be in one message, which has this much `room`.
fn work<'b>(batch: &'b Batch, zone: &str, serial: u32, by_sets: bool, room: usize) -> Work<'b, Changes> {
    let mut work = Work::of(batch, Together::Names, |action, name, kind| {
        changes(action, zone, (name, kind), serial, by_sets).map(Some)
    });
    work.units.iter_mut().for_each(|unit| match by_sets {
        true => need_room(unit),
        false => make_room(unit),
    });
    work.settle_if(|unit| {
        let size = size(unit);
        (size > room).then_some(move |item: &Item<'_, Changes>| {
            let id = item.action.op.id();
            Error::invalid(format!("{id} and what else changes at its name take {size} octets"))
                .hint("a message of DNS has at most 65535: declare fewer values")
        })
    });
    let of_zone = batch.actions.iter().filter(|action| record::parts(action.op.id()).is_none());
    work.settled.extend(of_zone.map(|action| (action.id, of_zone_itself(action))));
    work
}

/// True where something at the name of a unit is deleted.
fn deletes(unit: &Unit<'_, Changes>) -> bool {
    unit.iter().any(|item| item.desired().is_none())
}

/// True for a CNAME that comes where none is.
fn is_new_cname(item: &Item<'_, Changes>) -> bool {
    item.kind() == "CNAME" && item.desired().is_some() && item.observed().is_none()
}

/// Has a CNAME come only where nothing else is but what goes: that may have come since, and the SOA does not tell.
fn need_room(unit: &mut Unit<'_, Changes>) {
    let is_in_place = deletes(unit);
    let touched: Vec<&str> = unit.iter().map(Item::kind).collect();
    for item in unit.iter_mut().filter(|item| is_new_cname(item)) {
        let name = item.name();
        if !is_in_place {
            if let Some(set) = Set::new(name, item.kind()) {
                set.need_no_name(&mut item.takes);
            }
            continue;
        }
        let kinds = Type::all().map(|kind| Cow::Borrowed(kind.word())).chain(octets::undeclarable());
        for kind in kinds.filter(|kind| !touched.contains(&&**kind)) {
            if let Some(set) = Set::new(name, &kind) {
                set.need_any(false, &mut item.takes);
            }
        }
    }
}

/// Has all else at a name go before a CNAME takes the place of what is deleted there.
fn make_room(unit: &mut Unit<'_, Changes>) {
    if !deletes(unit) {
        return;
    }
    for item in unit.iter_mut().filter(|item| is_new_cname(item)) {
        if let Some(set) = Set::new(item.name(), item.kind()) {
            set.clear_name(&mut item.takes);
        }
    }
}

fn size(unit: &Unit<'_, Changes>) -> usize {
    unit.iter().map(|item| item.takes.size).sum()
}

/// How an action on the zone itself ends: there is nothing that could be written.
fn of_zone_itself(action: &Action) -> Outcome {
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

/// What an action takes, and needs where sets are compared. Errors: it cannot be written, whoever is asked.
fn changes(
    action: &Action,
    zone: &str,
    (name, kind): (&str, &str),
    serial: u32,
    by_sets: bool,
) -> Result<Changes, Error> {
    let id = action.op.id();
    let set = Set::new(name, kind).ok_or_else(|| {
        Error::unsupported(format!("{id} has no form on the wire"))
            .hint(format!("{kind} exists only within some servers: use a provider of their API"))
    })?;
    let bad = || Error::invalid(format!("the content of {id} cannot be written"));
    let mut changes = Changes::default();
    let is_apex = name == zone && matches!(kind, "NS" | "SOA");
    let observed = batch::observed(action).and_then(|observed| RrSet::decode(&observed.bytes));
    if by_sets {
        match &observed {
            // Its serial is not the one that is served.
            Some(_) if kind == "SOA" => set.need_any(true, &mut changes),
            Some(observed) => set.need(kind, &observed.values, &mut changes).ok_or_else(bad)?,
            None => set.need_any(false, &mut changes),
        }
    }
    let Some(desired) = batch::wanted(action)? else {
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
    if is_apex && kind == "NS" {
        let before = observed.map(|set| set.values).unwrap_or_default();
        servers(&set, &desired, &before, &mut changes).ok_or_else(bad)?;
        return Ok(changes);
    }
    match (&observed, kind) {
        // One that is added takes the place of the one that is there (§3.4.2.2).
        (None, _) | (_, "SOA" | "CNAME") => {}
        _ => set.delete(&mut changes),
    }
    for value in &desired.values {
        // A SOA that is not newer than the old one is ignored (§3.4.2.2, RFC 1982).
        set.add(desired.ttl, kind, value, serial.wrapping_add(1).max(1), &mut changes).ok_or_else(bad)?;
    }
    Ok(changes)
}

/// What makes the NS of the zone as desired; none where one of them cannot be written. Deleting all of them is ignored, so that the
/// old ones go after the new ones came.
///
/// Knot ignores an addition that differs in nothing but its TTL, and takes that of one that is new for all. PowerDNS puts off all that
/// is taken out to the end of the message, and leaves it where none would be left: so it is all of several that stay, or none, that
/// are taken out and added again.
fn servers(set: &Set, desired: &RrSet<'_>, before: &[&str], changes: &mut Changes) -> Option<()> {
    // A set of several TTLs has values that name theirs.
    let is_in = |list: &[&str], value: &str| {
        list.iter().any(|other| record::without_ttl(other) == record::without_ttl(value))
    };
    let all_stay =
        before.len() == desired.values.len() && before.iter().all(|value| is_in(&desired.values, value));
    for value in &desired.values {
        match all_stay && before.len() > 1 {
            true => set.renew(desired.ttl, "NS", value, changes)?,
            // It takes the place of the same data.
            false => set.add(desired.ttl, "NS", value, 0, changes)?,
        }
    }
    for value in before.iter().filter(|value| !is_in(&desired.values, value)) {
        set.remove("NS", value, changes)?;
    }
    Some(())
}

/// True when what an action touches is as planned, or already as wanted.
fn stands(action: &Action, now: &[Observed]) -> bool {
    let seen = now.binary_search_by(|observed| observed.id.cmp(action.op.id()));
    batch::stands(action, seen.ok().and_then(|index| now.get(index)).map(|observed| observed.hash))
}

/// How those end that somebody changed, where the zone holds `now`, which is sorted by id. A new CNAME, before which all at its name
/// goes, is one of them where something came to that name.
fn changed_by_others(chunk: &[Unit<'_, Changes>], now: &[Observed]) -> Vec<(ActionId, Outcome)> {
    let going: HashSet<&ResourceId> =
        items(chunk).filter(|item| item.desired().is_none()).map(|item| item.action.op.id()).collect();
    let is_joined = |item: &Item<'_, Changes>| {
        let prefix = format!("{}/", item.name());
        let first = now.partition_point(|one| *one.id.0 < *prefix);
        let mut at_name = now[first..].iter().take_while(|one| one.id.0.starts_with(&*prefix));
        at_name.any(|one| one.id != *item.action.op.id() && !going.contains(&one.id))
    };
    batch::named(chunk, |item| {
        let is_changed = !stands(item.action, now) || is_new_cname(item) && is_joined(item);
        is_changed.then(|| batch::changed(item))
    })
}

/// The records of a message, in the order they take effect, for a server that keeps signatures with the zone or does not.
fn records(chunk: &[Unit<'_, Changes>], keeps_signatures: bool) -> Vec<Record> {
    let deletes = items(chunk).flat_map(|item| &item.takes.deletes);
    let clears = items(chunk).filter(|_| keeps_signatures).flat_map(|item| &item.takes.clears);
    let adds = items(chunk).flat_map(|item| &item.takes.adds);
    let removes = items(chunk).flat_map(|item| &item.takes.removes);
    deletes.chain(clears).chain(adds).chain(removes).cloned().collect()
}

/// The CNAMEs of a message that come in the place of what it deletes.
fn swapped<'i, 'b>(chunk: &'i [Unit<'b, Changes>]) -> impl Iterator<Item = &'i Item<'b, Changes>> {
    chunk.iter().filter(|unit| deletes(unit)).flatten().filter(|item| is_new_cname(item))
}

/// Updates of one zone, each after the other.
struct Update<'a> {
    backend: &'a Backend,
    scope: &'a Scope,
    connection: Connection<'a>,
    zone: Name,
    text: String,
    /// What the next message depends on.
    soa: Soa,
    /// It is the sets of a message that are compared, and not the SOA.
    by_sets: bool,
    /// Octets of a message that records may take.
    room: usize,
    doing: &'a str,
    clock: &'a dyn Clock,
    /// The server takes updates of this zone from us, if not all of them.
    is_allowed: bool,
    /// The server keeps what it signs with the zone; none as long as nobody asked.
    keeps_signatures: Option<bool>,
    after: After,
    /// RRsets of the zone, where it had to be read again.
    seen: Option<Vec<Observed>>,
    /// What was written, and nobody but the server can have undone.
    sets: HashMap<ResourceId, Hash>,
    /// What the server said it wrote, and of which nobody knows whether it is there.
    doubtful: HashMap<ActionId, Error>,
}

/// What is known of the zone since the last message took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// Nobody else wrote.
    Known,
    /// Somebody may have written before `soa` was asked for.
    Doubtful,
    /// `soa` is one from before.
    Unknown,
}

impl Update<'_> {
    /// The first host in the zone that an MX or NS would point at.
    fn host_in_zone<'i>(&self, item: &'i Item<'_, Changes>) -> Option<&'i str> {
        let set = RrSet::decode(item.desired().filter(|_| matches!(item.kind(), "MX" | "NS"))?)?;
        let hosts = set.values.into_iter().filter_map(|value| record::without_ttl(value).rsplit(' ').next());
        hosts.into_iter().find(|host| name::is_within(host, &self.text))
    }

    /// True where something of a message is to be sent only to a server that keeps signatures with the zone, and this is one.
    async fn is_to_clear(&mut self, chunk: &[Unit<'_, Changes>]) -> Result<bool, Error> {
        if items(chunk).all(|item| item.takes.clears.is_empty()) {
            return Ok(false);
        }
        if let Some(keeps) = self.keeps_signatures {
            return Ok(keeps);
        }
        let keeps = self.ask_for_signatures().await?;
        self.keeps_signatures = Some(keeps);
        Ok(keeps)
    }

    /// Whether the server keeps signatures, asked once more where the connection is lost at it. One that is lost each time, though
    /// the server answers what else it is asked, may be so by something before it that cannot carry them, and would be for
    /// ever: none are taken to be kept then.
    async fn ask_for_signatures(&mut self) -> Result<bool, Error> {
        for _ in 0..2 {
            match self.connection.keeps_signatures(&self.zone, &self.text, self.doing).await {
                Err(error) if error.kind == ErrorKind::Unavailable => {
                    let (backend, cx) = (self.backend, self.connection.cx());
                    self.connection =
                        Connection::open(&backend.config, &backend.keys, cx, self.doing).await?;
                }
                told => return told,
            }
        }
        self.connection.soa(&self.zone, &self.text, self.doing).await.map(|_| false)
    }

    /// Asks whether the CNAMEs of a message are there that came in the place of what it deleted.
    async fn doubt_swapped(&mut self, chunk: &[Unit<'_, Changes>]) {
        let mut is_there = Changes::default();
        for set in swapped(chunk).filter_map(|item| Set::new(item.name(), item.kind())) {
            set.need_any(true, &mut is_there);
        }
        if is_there.needs.is_empty() {
            return;
        }
        let of = (&self.zone, &*self.text);
        let error = match self.connection.update(of, is_there.needs, Vec::new(), self.doing).await {
            Err(Failure::Refused { rcode: NXRRSET, .. }) => self.backend.half(self.doing),
            Err(Failure::Lost(error) | Failure::NotSent(error)) => error,
            _ => return,
        };
        for item in swapped(chunk) {
            self.sets.remove(item.action.op.id());
            self.doubtful.insert(item.action.id, error.clone());
        }
    }

    /// Learns the SOA that a message left which made that of the zone `kept`, but for its serial.
    ///
    /// An error is none of the message, which took effect: the next one reads the zone again, or fails. Where somebody may have
    /// changed what was written up to here, there is no proof against the server any more.
    async fn learn(&mut self, kept: &[u8]) {
        if self.by_sets {
            return self.wait_until_served().await;
        }
        match self.connection.soa(&self.zone, &self.text, self.doing).await {
            Ok(Some(soa)) => {
                self.after = if soa.is_next_after(&self.soa, kept) { After::Known } else { After::Doubtful };
                // The same one as before is proof as well: nothing was written at all.
                if self.after == After::Doubtful && soa != self.soa {
                    self.sets.clear();
                }
                self.soa = soa;
            }
            _ => {
                self.after = After::Unknown;
                self.sets.clear();
            }
        }
    }

    /// Waits a moment for what was written to be served: it is signed first.
    async fn wait_until_served(&mut self) {
        for _ in 0..LOOKS {
            match self.connection.soa(&self.zone, &self.text, self.doing).await {
                Ok(Some(soa)) if soa != self.soa => {
                    self.soa = soa;
                    return;
                }
                Ok(Some(_)) => self.clock.sleep(BETWEEN).await,
                _ => break,
            }
        }
        self.after = After::Unknown;
    }

    /// After a refusal: true where the zone is at the SOA that was sent, so that it is another one that is compared.
    async fn is_at_what_was_sent(&mut self) -> bool {
        let now = self.connection.soa(&self.zone, &self.text, self.doing).await;
        matches!(now, Ok(Some(now)) if now == self.soa)
    }

    async fn update(&mut self, needs: Vec<Record>, records: Vec<Record>) -> Result<(), Failure> {
        let needs = if self.by_sets { needs } else { vec![request::is_at(&self.zone, &self.soa.data)] };
        self.connection.update((&self.zone, &self.text), needs, records, self.doing).await
    }
}

#[async_trait]
impl Sender<Changes> for Update<'_> {
    const ASKS_TWICE: bool = true;

    fn take<'b>(&self, queue: &mut VecDeque<Unit<'b, Changes>>) -> Chunk<'b, Changes> {
        let mut taken = 0;
        batch::take(queue, |unit| {
            taken += size(unit);
            taken <= self.room
        })
    }

    async fn look_again(
        &mut self,
        chunk: &mut Chunk<'_, Changes>,
    ) -> Result<Vec<(ActionId, Outcome)>, Error> {
        if self.after != After::Known {
            let (soa, seen) =
                observe::read(self.backend, &mut self.connection, self.scope, self.doing).await?;
            if soa != self.soa {
                self.sets.clear();
            }
            (self.soa, self.seen, self.after) = (soa, Some(seen), After::Known);
        }
        // Somebody may have changed what later messages touch: those are compared as well.
        let Some(seen) = &self.seen else { return Ok(Vec::new()) };
        let ended = changed_by_others(chunk, seen);
        batch::remove(chunk, &ended);
        Ok(ended)
    }

    async fn send(&mut self, chunk: &mut Chunk<'_, Changes>) -> Result<Answer, Error> {
        let mut kept = self.soa.data.clone();
        // A SOA that is not newer than the one that the message before left would be ignored.
        for item in chunk.iter_mut().flatten().filter(|item| item.kind() == "SOA") {
            let of = (item.name(), "SOA");
            item.takes = changes(item.action, &self.text, of, self.soa.serial, self.by_sets)?;
            kept = item.takes.adds.first().and_then(request::data).map_or(kept, <[u8]>::to_vec);
        }
        let records = match self.is_to_clear(chunk).await {
            Ok(is_to_clear) => records(chunk, is_to_clear),
            Err(error) => return Ok(Answer::Over { error, is_lost: false }),
        };
        let needs = items(chunk).flat_map(|item| &item.takes.needs).cloned().collect();
        let (is_of_key, error) = match self.update(needs, records).await {
            Ok(()) => {
                self.is_allowed = true;
                // What is served is behind what was answered: it proves nothing against the server.
                if !self.by_sets {
                    self.sets.extend(items(chunk).filter_map(written));
                }
                self.learn(&kept).await;
                self.doubt_swapped(chunk).await;
                return Ok(Answer::Done);
            }
            Err(Failure::Refused { rcode: FORMERR | REFUSED | NOTZONE, is_of_key, error }) => {
                (is_of_key, error)
            }
            // One of these sets is another one by now.
            Err(Failure::Refused { rcode: NXRRSET | YXRRSET | YXDOMAIN, error, .. }) if self.by_sets => {
                return Ok(Answer::Refused(error));
            }
            Err(Failure::Refused { rcode: NXRRSET, .. }) if self.is_at_what_was_sent().await => {
                self.backend.go_by_sets(self.scope);
                let text = format!(
                    "{}: the SOA that is served is not the one that updates are compared with",
                    self.doing
                );
                let error = Error::conflict(text).hint(
                    "nothing: the zone is signed as it is served, or its serial edited (SOA-EDIT); from now on each record set is compared",
                );
                return Ok(Answer::Over { error, is_lost: false });
            }
            Err(failure) => {
                let is_lost = matches!(failure, Failure::Lost(_));
                return Ok(Answer::Over { error: failure.into_error(), is_lost });
            }
        };
        // Is it these records, or all of them? A key may have been taken away since it was allowed.
        if is_of_key || !self.is_allowed {
            match self.update(Vec::new(), Vec::new()).await {
                Ok(()) => {}
                // That somebody wrote is no word on the key.
                Err(Failure::Refused { is_of_key: false, .. }) if self.is_allowed => {}
                Err(_) => return Ok(Answer::Over { error, is_lost: false }),
            }
        }
        self.is_allowed = true;
        Ok(Answer::Refused(error))
    }

    fn done(&self, item: &Item<'_, Changes>) -> Outcome {
        match self.doubtful.get(&item.action.id) {
            Some(error) => Outcome::Unknown(error.clone()),
            None => merge::done(item.action),
        }
    }

    fn about(&self, item: &Item<'_, Changes>, error: &Error) -> Error {
        let (word, id) = (item.action.op.word(), item.action.op.id());
        let message = format!("{}, when asked to {word} {id}", error.message);
        let is_swapped = item.desired().is_none() || !item.takes.clears.is_empty();
        let rights = match self.keeps_signatures == Some(true) && is_swapped {
            true => {
                "`update-policy` of BIND, `acl` of Knot: its `update-type` needs ANY where a CNAME takes the place of other data"
            }
            false => "`update-policy` of BIND, `acl` of Knot and its `update-type`",
        };
        // Whoever may change something of the zone and is refused this may have been refused it for what it is: REFUSED is
        // all that BIND says of both.
        match (error.kind, self.host_in_zone(item)) {
            (ErrorKind::PermissionDenied, Some(host)) => Error::invalid(message).hint(format!(
                "BIND refuses an MX or NS of the zone that points at a name in it without an address: declare A or AAAA of \
                 `{host}`; if it has one, the key may not change this record ({rights})"
            )),
            (ErrorKind::PermissionDenied, None) => Error::permission_denied(message)
                .hint(format!("the key may not change this record ({rights}), or the server checks what it holds")),
            _ => {
                let mut told = error.clone();
                told.message = message;
                told
            }
        }
    }
}

/// What the RRset of an item holds after it.
fn written(item: &Item<'_, Changes>) -> Option<(ResourceId, Hash)> {
    let resource = item.action.op.desired()?;
    Some((resource.id.clone(), resource.spec.hash()?))
}

#[cfg(test)]
mod tests;
