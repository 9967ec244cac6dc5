//! What is known of the records of one zone at its name servers: chosen to be asked for, and judged by the answers.

use super::{
    answer::{Asked, SILENT},
    ask::Answer,
    servers::NameServer,
    verify::Verify,
};
use crate::record;
use reconciled_provider::{Error, Hash, Health, ResourceId, Unwell};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::SocketAddr,
    time::Duration,
};

/// How many RRsets are asked for at a time, at each server.
const BUDGET: usize = 5_000;
/// How many of those that were seen served are asked for again at each look.
const SAMPLE: usize = 20;
/// What is on its way is asked for again after half of the time that it took so far, within these.
const RECHECK: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];

/// Words that the next process has to know again.
const CACHED: &str = "served; resolvers may have the old answer for another ";
const OVERDUE: &str = " s after it was due";

#[derive(Clone, Debug, Default)]
pub(super) struct Zone {
    /// Content of each RRset, and whether every server was seen to serve it.
    known: HashMap<ResourceId, (Hash, bool)>,
    /// What a server does not serve, or not the zone at all.
    late: BTreeMap<ResourceId, Late>,
    /// Until when resolvers may know what was served before.
    pub(super) cached: BTreeMap<ResourceId, Duration>,
    /// What the last look saw to differ from its declaration.
    pub(super) differing: BTreeSet<ResourceId>,
    /// The servers, or why they are not known, and until when that counts.
    pub(super) servers: Option<(Duration, Result<Vec<NameServer>, Error>)>,
    /// Servers that did not answer the last time.
    pub(super) silent: BTreeSet<SocketAddr>,
    /// Where the next look begins among what was not seen served, and among what was.
    turns: [usize; 2],
    /// False until the first look.
    is_known: bool,
    /// What was not served when an earlier process looked; taken over by the first look.
    before: BTreeMap<ResourceId, Unwell>,
}

#[derive(Clone, Debug)]
struct Late {
    since: Duration,
    /// What a server was last seen to do; none before it was asked for.
    what: Option<String>,
}

impl Zone {
    /// Takes note of what an earlier process knew not to be served.
    pub(super) fn was_unwell(&mut self, unwell: &[Unwell]) {
        if !self.is_known {
            self.before = unwell.iter().map(|one| (one.id.clone(), one.clone())).collect();
        }
    }

    /// What to ask for now: what was written, what was never asked for, and a sample of the rest.
    pub(super) fn choose<'a>(
        &mut self,
        all: &[(Asked<'a>, Hash)],
        now: Duration,
        verify: &Verify,
    ) -> Vec<Asked<'a>> {
        let is_new = !std::mem::replace(&mut self.is_known, true);
        let before = std::mem::take(&mut self.before);
        for (id, unwell) in before.iter().filter(|(id, _)| record::parts(id).is_none()) {
            self.late.insert(id.clone(), Late::before(unwell, verify.timeout));
        }
        let ids: BTreeSet<&ResourceId> = all.iter().map(|(set, _)| set.id).collect();
        self.known.retain(|id, _| ids.contains(id));
        self.late.retain(|id, _| ids.contains(id) || record::parts(id).is_none());
        self.cached.retain(|id, until| ids.contains(id) && *until > now);
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
                    match before.get(set.id) {
                        Some(unwell) => {
                            self.take_over(unwell, set.ttl(), now, verify);
                            first.push(set);
                        }
                        // What else was there before this process is taken to be served until it is asked for.
                        None if is_new => next.push(set),
                        None => {
                            self.late.insert(set.id.clone(), Late { since: now, what: None });
                            first.push(set);
                        }
                    }
                }
            }
        }
        // Nothing is to wait behind what is never served.
        first.append(&mut next);
        let mut chosen: Vec<Asked<'a>> = Vec::with_capacity(first.len().min(BUDGET) + SAMPLE);
        for ((of, most), turn) in [(first, BUDGET), (rest, SAMPLE)].into_iter().zip(&mut self.turns) {
            let start = *turn % of.len().max(1);
            let taken = of[start..].iter().chain(&of[..start]).take(most);
            chosen.extend(taken.map(|set| (*set).clone()));
            *turn = start + of.len().min(most);
        }
        chosen
    }

    /// Goes on where an earlier process was with a record of this TTL.
    fn take_over(&mut self, unwell: &Unwell, ttl: u32, now: Duration, verify: &Verify) {
        let left = unwell.why.strip_prefix(CACHED).and_then(|rest| rest.strip_suffix(" s")?.parse().ok());
        let until = match left {
            Some(left) => now + Duration::from_secs(left),
            None => {
                let late = Late::before(unwell, verify.timeout);
                self.late.insert(unwell.id.clone(), late);
                // The TTL that it had is not known any more; most changes leave it as it is.
                unwell.since + Duration::from_secs(ttl.into())
            }
        };
        if verify.wait_for_ttl && until > now {
            self.cached.insert(unwell.id.clone(), until);
        }
    }

    /// What follows from the answers to what was `asked`. `zone` is the zone itself, where it is declared.
    pub(super) fn judge(
        &mut self,
        asked: &[Asked<'_>],
        found: &Found,
        zone: Option<ResourceId>,
        now: Duration,
        limit: Duration,
    ) -> Vec<(ResourceId, Health)> {
        let down = found.down.as_ref().map(Difference::to_string);
        let is_told = |set: &&Asked<'_>| found.differ.contains_key(set.id) || !found.unheard.contains(set.id);
        for set in asked.iter().filter(is_told) {
            let known = self.known.get_mut(set.id);
            match (found.differ.get(set.id), self.late.contains_key(set.id)) {
                (Some(difference), _) => {
                    let late = self.late.entry(set.id.clone()).or_insert(Late { since: now, what: None });
                    late.what = Some(difference.to_string());
                    known.into_iter().for_each(|known| known.1 = false);
                }
                // Whoever can be asked serves it. What was written has to be served by the others too.
                (None, true) if down.is_some() => {}
                (None, _) => {
                    self.late.remove(set.id);
                    known.into_iter().for_each(|known| known.1 = true);
                }
            }
        }
        match (&down, zone) {
            (Some(what), zone) => {
                let unserved = self.late.iter_mut().filter(|(id, _)| !found.differ.contains_key(id));
                unserved.for_each(|(_, late)| late.what = Some(what.clone()));
                if let Some(zone) = zone {
                    self.late.entry(zone).or_insert(Late { since: now, what: None }).what = down;
                }
            }
            (None, _) => self.late.retain(|id, _| record::parts(id).is_some()),
        }
        let mut told: Vec<(ResourceId, Health)> =
            self.late.iter().map(|(id, late)| (id.clone(), late.health(now, limit))).collect();
        // Served everywhere, and not yet everywhere known.
        for (id, until) in self.cached.iter().filter(|(id, _)| !self.late.contains_key(id)) {
            let left = until.saturating_sub(now);
            let why = format!("{CACHED}{} s", left.as_secs() + 1);
            told.push((id.clone(), Health::Progressing { why, recheck: left }));
        }
        told
    }
}

impl Late {
    /// As an earlier process had it.
    fn before(unwell: &Unwell, limit: Duration) -> Late {
        let overdue = |rest: &str| rest.strip_suffix(OVERDUE).is_some_and(|n| n.parse::<u64>().is_ok());
        let what = match unwell.why.rsplit_once(", ") {
            Some((what, rest)) if overdue(rest) => what,
            _ => &unwell.why,
        };
        // Since then it is degraded; it was to be served before.
        let since = unwell.since.saturating_sub(if unwell.is_degraded { limit } else { Duration::ZERO });
        Late { since, what: Some(what.to_owned()).filter(|what| !what.is_empty()) }
    }

    fn health(&self, now: Duration, limit: Duration) -> Health {
        let waited = now.saturating_sub(self.since);
        let Some(what) = &self.what else {
            // More was written than is asked for at a time.
            let why = "not yet asked for at the name servers".into();
            return Health::Progressing { why, recheck: RECHECK[0] };
        };
        match waited < limit {
            true => {
                let recheck = (waited / 2).clamp(RECHECK[0], RECHECK[1]).min(limit - waited);
                Health::Progressing { why: what.clone(), recheck }
            }
            false => Health::Degraded { why: format!("{what}, {}{OVERDUE}", waited.as_secs()) },
        }
    }
}

/// What servers do instead of serving.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By RRset.
    differ: BTreeMap<ResourceId, Difference>,
    /// What some server was not asked for in the end.
    unheard: BTreeSet<ResourceId>,
    /// Servers that do not answer for the zone.
    down: Option<Difference>,
}

/// The first server that differs, what it does, and how many others differ as well.
#[derive(Debug)]
struct Difference {
    server: String,
    what: String,
    others: usize,
}

impl Difference {
    fn of(server: &NameServer, what: &str) -> Difference {
        Difference { server: server.to_string(), what: what.into(), others: 0 }
    }
}

impl Found {
    /// Notes that `server` does not answer for the zone.
    pub(super) fn down(&mut self, server: &NameServer, what: &str) {
        match &mut self.down {
            Some(difference) => difference.others += 1,
            None => self.down = Some(Difference::of(server, what)),
        }
    }

    /// Notes what `server` says of `set`.
    pub(super) fn hear(&mut self, set: &Asked<'_>, server: &NameServer, answer: &Answer) {
        let what = match answer {
            Answer::Octets(octets) => set.differs(octets),
            Answer::Silence => Some(SILENT.into()),
            Answer::Unasked => {
                self.unheard.insert(set.id.clone());
                None
            }
        };
        let Some(what) = what else { return };
        match self.differ.get_mut(set.id) {
            Some(difference) => difference.others += 1,
            None => {
                self.differ.insert(set.id.clone(), Difference::of(server, &what));
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

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Origin, PolicyId, Resource, Scope, Spec};
    use std::sync::Arc;

    const LIMIT: Duration = Duration::from_secs(60);

    fn resources(count: usize) -> Vec<Resource> {
        let scope = Arc::new(Scope::new("test", "example.com"));
        let one = |n: usize| {
            Resource::new(
                record::id(&format!("h{n:05}.example.com."), "A"),
                scope.clone(),
                Spec::known(b"300\n192.0.2.1".to_vec()),
                Origin { manifest: 0, line: 0 },
                PolicyId::default(),
            )
        };
        (0..count).map(one).collect()
    }

    fn all(resources: &[Resource]) -> Vec<(Asked<'_>, Hash)> {
        let one = |resource: &'_ Resource| resource.spec.hash();
        let asked = resources.iter().filter_map(|r| Some((Asked::of(&r.scope, r)?, one(r)?)));
        asked.collect()
    }

    fn verify() -> Verify {
        Verify { timeout: LIMIT, ..Verify::default() }
    }

    fn server() -> NameServer {
        NameServer { name: "ns1.example.com".into(), address: None }
    }

    #[test]
    fn more_than_fits_into_a_look_is_asked_for_in_turns_and_is_not_late_before() {
        let (mut zone, resources) = (Zone::default(), resources(2 * BUDGET + 100));
        zone.choose(&[], Duration::ZERO, &verify());
        let all = all(&resources);
        let mut asked_for = BTreeSet::new();
        for round in 0..3 {
            let now = LIMIT * (round + 1);
            let asked = zone.choose(&all, now, &verify());
            assert!(asked.len() <= BUDGET + SAMPLE);
            asked_for.extend(asked.iter().map(|set| set.id.clone()));
            let told = zone.judge(&asked, &Found::default(), None, now, LIMIT);
            let is_waiting = |health: &Health| matches!(health, Health::Progressing { why, .. } if why.starts_with("not yet"));
            assert!(told.iter().all(|(_, health)| is_waiting(health)), "round {round}");
            assert_eq!(told.len(), all.len().saturating_sub(asked_for.len()));
        }
        assert_eq!(asked_for.len(), all.len());
    }

    #[test]
    fn what_was_seen_to_be_late_stays_so_in_looks_that_do_not_ask_for_it() {
        let (mut zone, resources) = (Zone::default(), resources(BUDGET + 1));
        zone.choose(&[], Duration::ZERO, &verify());
        let all = all(&resources);
        for now in [Duration::ZERO, Duration::from_secs(1)] {
            let asked = zone.choose(&all, now, &verify());
            let mut found = Found::default();
            asked.iter().for_each(|set| found.hear(set, &server(), &Answer::Silence));
            zone.judge(&asked, &found, None, now, LIMIT);
        }
        let asked = zone.choose(&all, LIMIT * 2, &verify());
        assert_eq!(asked.len(), BUDGET);
        let told = zone.judge(&[], &Found::default(), None, LIMIT * 2, LIMIT);
        assert_eq!(told.len(), BUDGET + 1);
        assert!(told.iter().all(|(_, health)| matches!(health, Health::Degraded { .. })), "none flaps");
    }

    #[test]
    fn a_sample_of_what_is_served_goes_through_all_of_it_whatever_is_late() {
        let (mut zone, resources) = (Zone::default(), resources(30));
        let all = all(&resources);
        let is_late = |set: &Asked<'_>| set.name < "h00005";
        let mut sampled = BTreeSet::new();
        for round in 0..3 {
            let asked = zone.choose(&all, Duration::ZERO, &verify());
            let mut found = Found::default();
            asked
                .iter()
                .filter(|set| is_late(set))
                .for_each(|set| found.hear(set, &server(), &Answer::Silence));
            zone.judge(&asked, &found, None, Duration::ZERO, LIMIT);
            // The first look asks for everything, since none of it was seen before.
            if round > 0 {
                assert_eq!(asked.len(), 5 + SAMPLE, "what is late, and a sample");
                sampled.extend(asked.iter().filter(|set| !is_late(set)).map(|set| set.id.clone()));
            }
        }
        assert_eq!(sampled.len(), 25, "two samples of 20 are all of it");
    }

    #[test]
    fn an_answer_that_never_came_whole_is_no_claim() {
        let (mut zone, resources) = (Zone::default(), resources(1));
        zone.choose(&[], Duration::ZERO, &verify());
        let all = all(&resources);
        let asked = zone.choose(&all, Duration::ZERO, &verify());
        let mut found = Found::default();
        found.hear(&asked[0], &server(), &Answer::Unasked);
        let told = zone.judge(&asked, &found, None, LIMIT * 2, LIMIT);
        assert!(
            matches!(&told[..], [(_, Health::Progressing { why, .. })] if why.starts_with("not yet asked"))
        );
    }

    #[test]
    fn what_an_earlier_process_knew_not_to_be_served_is_late_until_all_servers_serve_it() {
        let resources = resources(4);
        let (all, now) = (all(&resources), Duration::from_secs(1_000));
        let id = |n: usize| resources[n].id.clone();
        let unwell = |n, is_degraded, why: &str| Unwell {
            id: id(n),
            is_degraded,
            why: why.into(),
            since: now - Duration::from_secs(10),
        };
        let known = [
            unwell(0, false, "ns2 answers Query Refused"),
            unwell(1, true, "ns2 answers Query Refused, 71 s after it was due"),
            unwell(2, false, "served; resolvers may have the old answer for another 30 s"),
        ];
        let mut zone = Zone::default();
        zone.was_unwell(&known);
        let verify = Verify { wait_for_ttl: true, ..verify() };
        let asked = zone.choose(&all, now, &verify);
        assert_eq!(asked.len(), 4);
        let mut down = Found::default();
        down.down(&server(), "answers Query Refused");
        let told: BTreeMap<_, _> = zone.judge(&asked, &down, None, now, LIMIT).into_iter().collect();
        assert!(matches!(&told[&id(0)], Health::Progressing { why, .. } if why.contains("ns1.example.com")));
        assert!(
            matches!(&told[&id(1)], Health::Degraded { why } if why.ends_with("Refused, 70 s after it was due"))
        );
        assert!(matches!(&told[&id(2)], Health::Progressing { recheck, .. } if recheck.as_secs() == 30));
        assert!(!told.contains_key(&id(3)), "it was served before: {told:?}");

        // What another process said means nothing from then on.
        zone.was_unwell(&known);
        let asked = zone.choose(&all, now, &verify);
        let told = zone.judge(&asked, &Found::default(), None, now, LIMIT);
        let is_cached =
            |health: &Health| matches!(health, Health::Progressing { why, .. } if why.starts_with(CACHED));
        assert!(told.len() == 3 && told.iter().all(|(_, health)| is_cached(health)), "{told:?}");
        let later = now + Duration::from_secs(300);
        let asked = zone.choose(&all, later, &verify);
        assert_eq!(zone.judge(&asked, &Found::default(), None, later, LIMIT), []);
    }
}
