//! Is it served? The authoritative servers of a zone are asked until each of them answers what is declared.
//!
//! Guarantees: a record that was written is `Progressing` until every server serves it, and `Degraded` with the name of
//! a server and its answer once the time for that is over; only what is in sync is asked for, so nothing is said twice;
//! what is asked at a time has a bound, whatever the size of the zone.
//! Deliberately not done: asking resolvers, whose caches nobody can hurry; asking at every address of a server; asking
//! for what services make up as they are asked.
//!
//! What was seen served is remembered in this process: after a restart the zone is asked for little by little, and what
//! is not known to be served by then is taken to be.

mod answer;
mod ask;
mod servers;

use crate::record;
use answer::{Asked, serial};
use ask::{Question, ask};
use futures_util::future::join_all;
use reconciled_provider::{Action, Cx, Error, Fact, Hash, Health, Op, ResourceId, Scope, Spec, Want};
use servers::NameServer;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How an entry wants to know that its records are served.
#[derive(Clone, Debug, Default)]
pub struct Verify {
    /// How long a server may take to serve what was written.
    pub timeout: Duration,
    /// The servers to ask, as host and port; empty: those that the zone's NS name.
    pub servers: Vec<(String, u16)>,
    /// Who is asked for the NS; empty: the resolvers of the system.
    pub resolver: Vec<SocketAddr>,
    /// Wait also until resolvers have forgotten what was served before.
    pub wait_for_ttl: bool,
}

/// How many RRsets are asked for at a time, at each server.
const BUDGET: usize = 500;
/// How many of those that were seen served are asked for again at each look.
const SAMPLE: usize = 20;
/// How long the servers of a zone are taken to be the same.
const SERVERS_LAST: Duration = Duration::from_secs(600);
/// What is on its way is asked for again after half of the time that it took so far, within these.
const RECHECK: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];

const SOA: u16 = 6;

/// What was seen at the name servers of the zones of one entry.
#[derive(Debug)]
pub(crate) struct Watch {
    verify: Verify,
    zones: Mutex<HashMap<Scope, Zone>>,
}

#[derive(Clone, Debug, Default)]
struct Zone {
    /// Content of each RRset, and whether every server was seen to serve it.
    known: HashMap<ResourceId, (Hash, bool)>,
    /// Since when a server does not serve what it should; of the zone itself: does not answer for it.
    late: BTreeMap<ResourceId, Duration>,
    /// Until when resolvers may know what was served before.
    cached: BTreeMap<ResourceId, Duration>,
    servers: Option<(Duration, Vec<NameServer>)>,
    /// Servers that did not answer the last time.
    silent: BTreeSet<SocketAddr>,
    /// Where the next look begins among what it may ask for.
    turn: usize,
    /// False until the first look.
    is_known: bool,
}

impl Watch {
    pub(crate) fn new(verify: Verify) -> Watch {
        Watch { verify, zones: Mutex::default() }
    }

    fn with<R>(&self, scope: &Scope, work: impl FnOnce(&mut Zone) -> R) -> R {
        work(self.zones.lock().unwrap_or_else(PoisonError::into_inner).entry(scope.clone()).or_default())
    }

    /// Takes note of what `actions` replace: resolvers keep it for its TTL.
    pub(crate) fn writing(&self, cx: &Cx, scope: &Scope, actions: &[Action]) {
        if !self.verify.wait_for_ttl {
            return;
        }
        let now = cx.clock.now();
        self.with(scope, |zone| {
            for action in actions {
                let (Op::Update { observed, .. } | Op::Replace { observed, .. }) = &action.op else {
                    continue;
                };
                if let Some(before) = record::RrSet::decode(&observed.bytes) {
                    let until = now + Duration::from_secs(before.ttl.into());
                    zone.cached.insert(observed.id.clone(), until);
                }
            }
        });
    }

    /// How the records of a zone fare at its name servers.
    pub(crate) async fn health(&self, cx: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        let all = in_sync(want);
        let now = cx.clock.now();
        let (asked, cached) = self.with(want.scope, |zone| (zone.choose(&all, now), zone.cached.clone()));
        let zone_name = record::zone_name(want.scope);
        let servers = self.servers(cx, want.scope).await?;
        let mut questions = vec![Question { name: &zone_name, number: SOA }];
        questions.extend(asked.iter().map(|set| Question { name: set.name, number: set.number }));
        let answers = self.ask(want.scope, &servers, &questions).await;

        let mut found = Found::default();
        for (server, answers) in servers.iter().zip(&answers) {
            let Some((soa, answers)) = answers.split_first() else { continue };
            if let Err(what) = serial(&zone_name, soa.as_deref()) {
                found.add(&record::zone_id(want.scope), server, &what);
            }
            for (set, answer) in asked.iter().zip(answers) {
                let what = match answer {
                    Some(answer) => set.differs(answer),
                    None => Some("does not answer".into()),
                };
                if let Some(what) = what {
                    found.add(set.id, server, &what);
                }
            }
        }
        let is_asked = |id: &ResourceId| want.desired.iter().any(|r| r.id == *id);
        let zone_id = record::zone_id(want.scope);
        if !is_asked(&zone_id) {
            found.0.remove(&zone_id);
        }
        let limit = self.verify.timeout;
        let mut health = self.with(want.scope, |zone| zone.judge(&asked, &found, now, limit));
        // Served everywhere, and not yet everywhere known.
        for (id, until) in cached.into_iter().filter(|(id, _)| !found.0.contains_key(id)) {
            let is_over = until <= now || all.binary_search_by(|set| set.0.id.cmp(&id)).is_err();
            if is_over {
                self.with(want.scope, |zone| zone.cached.remove(&id));
                continue;
            }
            let left = until - now;
            let why =
                format!("served; resolvers may have the old answer for another {} s", left.as_secs() + 1);
            health.push((id, Health::Progressing { why, recheck: left }));
        }
        Ok(health)
    }

    /// The serial of each name server, or what it does instead.
    pub(crate) async fn facts(&self, cx: &Cx, scope: &Scope) -> Result<Vec<Fact>, Error> {
        let zone = record::zone_name(scope);
        let servers = self.servers(cx, scope).await?;
        let question = [Question { name: &zone, number: SOA }];
        let answers = self.ask(scope, &servers, &question).await;
        let fact = |(server, answer): (&NameServer, Vec<Option<Vec<u8>>>)| {
            let answer = answer.into_iter().next().flatten();
            let value = match serial(&zone, answer.as_deref()) {
                Ok(serial) => format!("serial {serial}"),
                Err(what) => what,
            };
            Fact { name: server.to_string(), value }
        };
        Ok(servers.iter().zip(answers).map(fact).collect())
    }

    /// Asks all servers at once.
    async fn ask(
        &self,
        scope: &Scope,
        servers: &[NameServer],
        questions: &[Question<'_>],
    ) -> Vec<Vec<Option<Vec<u8>>>> {
        let silent = self.with(scope, |zone| zone.silent.clone());
        let rounds =
            servers.iter().map(|server| ask(server.address, questions, silent.contains(&server.address)));
        let answers = join_all(rounds).await;
        let is_silent = |answers: &Vec<Option<Vec<u8>>>| answers.iter().all(Option::is_none);
        let silent = servers.iter().zip(&answers).filter(|(_, answers)| is_silent(answers));
        let silent = silent.map(|(server, _)| server.address).collect();
        self.with(scope, |zone| zone.silent = silent);
        answers
    }

    async fn servers(&self, cx: &Cx, scope: &Scope) -> Result<Vec<NameServer>, Error> {
        let now = cx.clock.now();
        let known = self.with(scope, |zone| zone.servers.clone());
        if let Some((at, servers)) = known
            && now < at + SERVERS_LAST
        {
            return Ok(servers);
        }
        let servers = match &self.verify.servers[..] {
            [] => servers::published(scope, &self.verify.resolver).await?,
            places => servers::configured(places).await?,
        };
        self.with(scope, |zone| zone.servers = Some((now, servers.clone())));
        Ok(servers)
    }
}

/// What of a zone is as declared, as far as the inventory knows, sorted by id.
fn in_sync<'a>(want: &Want<'a>) -> Vec<(Asked<'a>, Hash)> {
    let mut rows = want.tracked.iter().peekable();
    let mut out = Vec::new();
    for resource in want.desired {
        while rows.next_if(|row| row.id < resource.id).is_some() {}
        let Spec::Known { hash, .. } = &resource.spec else { continue };
        let is_written = rows.peek().is_some_and(|row| row.id == resource.id && row.applied == *hash);
        if is_written && let Some(set) = Asked::of(want.scope, resource) {
            out.push((set, *hash));
        }
    }
    out
}

impl Zone {
    /// What to ask for now: what was written, what was never asked for, and a sample of the rest.
    fn choose<'a>(&mut self, all: &[(Asked<'a>, Hash)], now: Duration) -> Vec<Asked<'a>> {
        let is_new = !std::mem::replace(&mut self.is_known, true);
        let ids: BTreeSet<&ResourceId> = all.iter().map(|(set, _)| set.id).collect();
        self.known.retain(|id, _| ids.contains(id));
        self.late.retain(|id, _| ids.contains(id) || record::parts(id).is_none());
        let (mut first, mut next, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for (set, hash) in all {
            match self.known.get(set.id) {
                Some((known, is_served)) if known == hash => {
                    match (self.late.contains_key(set.id), is_served) {
                        (true, _) => first.push(set),
                        (false, true) => rest.push(set),
                        (false, false) => next.push(set),
                    }
                }
                _ => {
                    self.known.insert(set.id.clone(), (*hash, false));
                    // What was there before this process is taken to be served until it is asked for.
                    if is_new {
                        next.push(set);
                    } else {
                        self.late.insert(set.id.clone(), now);
                        first.push(set);
                    }
                }
            }
        }
        // Nothing is to wait behind what is never served.
        first.append(&mut next);
        let turn = self.turn;
        let mut chosen: Vec<Asked<'a>> = Vec::with_capacity(first.len().min(BUDGET) + SAMPLE);
        for (of, most) in [(first, BUDGET), (rest, SAMPLE)] {
            let start = turn % of.len().max(1);
            chosen.extend(of[start..].iter().chain(&of[..start]).take(most).map(|set| (*set).clone()));
        }
        self.turn = turn + chosen.len();
        chosen
    }

    /// What follows from the answers to what was `asked`.
    fn judge(
        &mut self,
        asked: &[Asked<'_>],
        found: &Found,
        now: Duration,
        limit: Duration,
    ) -> Vec<(ResourceId, Health)> {
        for set in asked {
            let is_served = !found.0.contains_key(set.id);
            if let Some(known) = self.known.get_mut(set.id) {
                known.1 = is_served;
            }
            if is_served {
                self.late.remove(set.id);
            }
        }
        self.late.retain(|id, _| record::parts(id).is_some() || found.0.contains_key(id));
        for id in found.0.keys() {
            self.late.entry(id.clone()).or_insert(now);
        }
        let health = |(id, since): (&ResourceId, &Duration)| {
            let waited = now.saturating_sub(*since);
            let Some(what) = found.0.get(id) else {
                // More was written than is asked for at a time.
                let why = "not yet asked for at the name servers".into();
                return (id.clone(), Health::Progressing { why, recheck: RECHECK[0] });
            };
            let what = what.to_string();
            let health = match waited < limit {
                true => {
                    let recheck = (waited / 2).clamp(RECHECK[0], RECHECK[1]).min(limit - waited);
                    Health::Progressing { why: what, recheck }
                }
                false => Health::Degraded { why: format!("{what}, {} s after it was due", waited.as_secs()) },
            };
            (id.clone(), health)
        };
        self.late.iter().map(health).collect()
    }
}

/// What servers do instead of serving, by RRset.
#[derive(Debug, Default)]
struct Found(BTreeMap<ResourceId, Difference>);

/// The first server that differs, what it does, and how many others differ as well.
#[derive(Debug)]
struct Difference {
    server: String,
    what: String,
    others: usize,
}

impl Found {
    fn add(&mut self, id: &ResourceId, server: &NameServer, what: &str) {
        match self.0.get_mut(id) {
            Some(difference) => difference.others += 1,
            None => {
                let difference = Difference { server: server.to_string(), what: what.into(), others: 0 };
                self.0.insert(id.clone(), difference);
            }
        }
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { server, what, others } = self;
        write!(f, "{server} {what}")?;
        match others {
            0 => Ok(()),
            1 => f.write_str(", and another server differs as well"),
            others => write!(f, ", and {others} other servers differ as well"),
        }
    }
}
