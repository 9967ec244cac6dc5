//! Is it served? The authoritative servers of a zone are asked until each of them answers what is declared.
//!
//! Guarantees: a record that was written is `Progressing` until every server serves it, and `Degraded` with the name of
//! a server and its answer once the time for that is over; what differs from its declaration at the provider is not
//! asked for, so nothing is said twice; what is asked at a time has a bound in number and time, whatever the size of the
//! zone; a server that is down is blamed for the zone and for what was written, never for all that is in it.
//! Deliberately not done: asking resolvers, whose caches nobody can hurry; asking at every address of a server; asking
//! for what services make up as they are asked.
//!
//! What was seen served is remembered in this process: after a restart the zone is asked for little by little, and what
//! is not known to be served by then is taken to be, unless the last process knew that it was not.

mod answer;
mod ask;
mod known;
mod servers;
mod verify;

pub use verify::Verify;

use crate::record;
use answer::{Asked, serial};
use ask::{Answer, Patience, Question, ask};
use futures_util::future::join_all;
use known::{Found, Zone};
use reconciled_provider::{
    Action, Cx, Deltas, Error, Fact, Hash, Health, Op, ResourceId, Scope, Spec, Unwell, Want,
};
use servers::NameServer;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How long the servers of a zone are taken to be the same, and how long until they are looked for again in vain.
const SERVERS_LAST: [Duration; 2] = [Duration::from_secs(600), Duration::from_secs(15)];

const SOA: u16 = 6;

/// What was seen at the name servers of the zones of one entry.
#[derive(Debug)]
pub(crate) struct Watch {
    verify: Verify,
    zones: Mutex<HashMap<Scope, Zone>>,
}

impl Watch {
    pub(crate) fn new(verify: Verify) -> Watch {
        Watch { verify, zones: Mutex::default() }
    }

    fn with<R>(&self, scope: &Scope, work: impl FnOnce(&mut Zone) -> R) -> R {
        work(self.zones.lock().unwrap_or_else(PoisonError::into_inner).entry(scope.clone()).or_default())
    }

    /// Takes note of what differs from its declaration: that it is not served is no news.
    pub(crate) fn differs(&self, scope: &Scope, deltas: &Deltas) {
        self.with(scope, |zone| zone.differing = deltas.keys().cloned().collect());
    }

    /// Takes note of what `actions` replace: resolvers keep it for its TTL.
    pub(crate) fn writing(&self, cx: &Cx, scope: &Scope, actions: &[Action]) {
        if !self.verify.wait_for_ttl {
            return;
        }
        let now = cx.clock.now();
        let mut gone: BTreeMap<String, Duration> = BTreeMap::new();
        let mut until: BTreeMap<ResourceId, Duration> = BTreeMap::new();
        for action in actions {
            let (Op::Update { observed, .. } | Op::Replace { observed, .. } | Op::Delete { observed, .. }) =
                &action.op
            else {
                continue;
            };
            let Some(before) = record::RrSet::decode(&observed.bytes) else { continue };
            let end = now + Duration::from_secs(before.ttl.into());
            match (&action.op, record::parts(&observed.id)) {
                // What takes its place at the name is what nobody knows of yet.
                (Op::Delete { .. }, Some((name, _))) => {
                    let known = gone.entry(name.to_owned()).or_default();
                    *known = end.max(*known);
                }
                _ => {
                    until.insert(observed.id.clone(), end);
                }
            }
        }
        for action in actions {
            if let Op::Create { desired, .. } = &action.op
                && let Some((name, _)) = record::parts(&desired.id)
                && let Some(end) = gone.get(name)
            {
                until.insert(desired.id.clone(), *end);
            }
        }
        self.with(scope, |zone| zone.cached.extend(until));
    }

    /// Takes over what another process knew not to be served.
    pub(crate) fn was_unwell(&self, scope: &Scope, unwell: &[Unwell]) {
        self.with(scope, |zone| zone.was_unwell(unwell));
    }

    /// How the records of a zone fare at its name servers.
    pub(crate) async fn health(&self, cx: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        let differing = self.with(want.scope, |zone| zone.differing.clone());
        let all = in_sync(want, &differing);
        let now = cx.clock.now();
        let asked = self.with(want.scope, |zone| zone.choose(&all, now, &self.verify));
        let servers = self.servers(cx, want.scope).await?;
        let serials = self.serials(want.scope, &servers).await;

        let questions: Vec<Question<'_>> =
            asked.iter().map(|set| Question { name: set.name, number: set.number }).collect();
        let mut found = Found::default();
        let mut well = Vec::new();
        for (server, serial) in servers.iter().zip(serials) {
            match (serial, server.address) {
                (Ok(_), Some(address)) => well.push((server, address)),
                (Err(what), _) => found.down(server, &what),
                (Ok(_), None) => {}
            }
        }
        let rounds = well.iter().map(|(_, address)| ask(*address, &questions, self.whole(false)));
        for ((server, _), answers) in well.iter().zip(join_all(rounds).await) {
            match answers {
                Ok(answers) => {
                    for (set, answer) in asked.iter().zip(&answers) {
                        found.hear(set, server, answer);
                    }
                }
                Err(error) => found.down(server, &unreachable(&error)),
            }
        }
        let zone_id = record::zone_id(want.scope);
        let zone_id = want.desired.iter().any(|r| r.id == zone_id).then_some(zone_id);
        Ok(self.with(want.scope, |zone| zone.judge(&asked, &found, zone_id, now, self.verify.timeout)))
    }

    /// The serial of each name server, or what it does instead.
    pub(crate) async fn facts(&self, cx: &Cx, scope: &Scope) -> Result<Vec<Fact>, Error> {
        let servers = self.servers(cx, scope).await?;
        let serials = self.serials(scope, &servers).await;
        let fact = |(server, serial): (&NameServer, Result<u32, String>)| Fact {
            name: server.to_string(),
            value: serial.map_or_else(|what| what, |serial| format!("serial {serial}")),
        };
        Ok(servers.iter().zip(serials).map(fact).collect())
    }

    /// Asks all servers at once for the serial of the zone.
    async fn serials(&self, scope: &Scope, servers: &[NameServer]) -> Vec<Result<u32, String>> {
        let zone = record::zone_name(scope);
        let silent = self.with(scope, |zone| zone.silent.clone());
        let (zone, silent) = (&zone, &silent);
        let rounds = servers.iter().map(|server| async move {
            let Some(address) = server.address else { return Err("has no address".into()) };
            let question = [Question { name: zone, number: SOA }];
            match ask(address, &question, self.whole(silent.contains(&address))).await {
                Ok(answers) => serial(zone, answers.first().unwrap_or(&Answer::Unasked)),
                Err(error) => Err(unreachable(&error)),
            }
        });
        let serials = join_all(rounds).await;
        let is_silent =
            |serial: &Result<u32, String>| serial.as_ref().is_err_and(|what| what == answer::SILENT);
        let silent = servers.iter().zip(&serials).filter(|(_, serial)| is_silent(serial));
        let silent = silent.filter_map(|(server, _)| server.address).collect();
        self.with(scope, |zone| zone.silent = silent);
        serials
    }

    /// How long the questions to a server may take, which said nothing the last time if it `was_silent`.
    fn whole(&self, was_silent: bool) -> Patience {
        Patience { whole: self.verify.patience.unwrap_or(ask::WHOLE), was_silent }
    }

    async fn servers(&self, cx: &Cx, scope: &Scope) -> Result<Vec<NameServer>, Error> {
        let now = cx.clock.now();
        if let Some((until, servers)) = self.with(scope, |zone| zone.servers.clone())
            && now < until
        {
            return servers;
        }
        let servers = match &self.verify.servers[..] {
            [] => servers::published(scope, &self.verify.resolver).await,
            places => Ok(servers::configured(places).await),
        };
        let last = SERVERS_LAST[usize::from(servers.is_err())];
        self.with(scope, |zone| zone.servers = Some((now + last, servers.clone())));
        servers
    }
}

fn unreachable(error: &std::io::Error) -> String {
    format!("cannot be asked from here: {error}")
}

/// What of a zone is as declared, as far as the inventory and the last look know, sorted by id. What lies below a
/// delegation or a DNAME is left out: the servers answer for it with a referral, or with something else's name.
fn in_sync<'a>(want: &Want<'a>, differing: &BTreeSet<ResourceId>) -> Vec<(Asked<'a>, Hash)> {
    let cuts: Vec<(&str, bool)> = want
        .desired
        .iter()
        .filter_map(|resource| record::parts(&resource.id))
        .filter(|(name, kind)| match *kind {
            "NS" => name.strip_suffix('.') != Some(&*want.scope.name),
            kind => kind == "DNAME",
        })
        .map(|(name, kind)| (name, kind == "NS"))
        .collect();
    // At a cut only DS is the parent's; a DNAME leaves its own name alone.
    let is_hidden = |set: &Asked<'_>| {
        cuts.iter().any(|(cut, is_ns)| match set.name == *cut {
            true => *is_ns && set.kind != "DS",
            false => crate::name::is_within(set.name, cut),
        })
    };
    let mut rows = want.tracked.iter().peekable();
    let mut out = Vec::new();
    for resource in want.desired {
        while rows.next_if(|row| row.id < resource.id).is_some() {}
        let Spec::Known { hash, .. } = &resource.spec else { continue };
        let is_written = rows.peek().is_some_and(|row| row.id == resource.id && row.applied == *hash);
        if is_written
            && !differing.contains(&resource.id)
            && let Some(set) = Asked::of(want.scope, resource).filter(|set| !is_hidden(set))
        {
            out.push((set, *hash));
        }
    }
    out
}
