//! The way of one order, from whatever state it is in to a certificate, or to a reason to wait.
//!
//! ```text
//! (no order) ─► pending ─► ready ─► processing ─► valid ─► certificate
//!                 │  ▲ names are proven                └─► invalid ─► refused: later, a new order
//! ```
//!
//! Nothing is assumed: each step asks for the order first, so a process that died goes on where the authority is. An order
//! that is not known any more, or that is for a key that is lost, is let go of.

use super::{
    Acme,
    client::{Answer, Client, Fault},
    jws::base64url,
    message::{Authorization, Order},
    now, webroot,
};
use crate::{
    apply::{Desk, Step, patience},
    kept::{Attempt, Busy, Challenge, Outage},
    key, sign,
    wish::{Authority, Solver, Wish},
    x509,
};
use reconciled_provider::{Claim, Error, ErrorKind, Hash, Lives};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

/// How long a pass waits for an authority to look at what proves a name before it comes back later. The port at which
/// challenges are answered is closed then, so this is long; well within the limit of a pass.
const PATIENCE: Duration = Duration::from_secs(120);
/// The same where nothing of ours has to be open meanwhile.
const BRIEFLY: Duration = Duration::from_secs(3);
/// How long one order may go through its states in a pass.
const TURNS: Duration = Duration::from_secs(120);
/// First wait between two questions, and the longest.
const FIRST: Duration = Duration::from_millis(50);
const LAST: Duration = Duration::from_secs(5);
/// When to look again where a record is being written: it wakes us when it is there.
const RECORD: Duration = Duration::from_secs(60);
/// When to look again at first where the authority takes its time.
const LATER: Duration = Duration::from_secs(5);
/// How long an authority may take to know an order that it has just made: not all of its machines do at once.
const YOUNG: u64 = 60;
/// Longest time that an order is left to itself, whatever the authority says.
const PROCESSING: Duration = Duration::from_secs(300);
/// After this an order is let go of: authorities keep them for a week.
const OLDEST: u64 = 6 * 86_400;
/// Orders that may be let go of in one step, or in a row because they are not known.
const ORDERS: usize = 3;

/// What is being worked on.
struct Work<'a> {
    acme: &'a Acme,
    desk: &'a Desk<'a>,
    client: Arc<Client>,
    name: &'a str,
    wish: &'a Wish,
    authority: &'a Authority,
    attempt: Attempt,
    /// Keys of claims that are carried out.
    carried: &'a BTreeSet<String>,
    /// One of the limits of the authority that are counted here has been reached.
    is_counted_out: bool,
    pace: Pace,
}

/// How fast an order is asked for.
#[derive(Default)]
struct Pace {
    /// Its state when it was asked for last.
    status: String,
    wait: Duration,
}

impl Pace {
    /// How long to wait before the next call about an order in this state: the longer the longer nothing changes.
    fn wait(&mut self, status: &str) -> Duration {
        self.wait = match self.status == status {
            true => (self.wait * 2).max(FIRST),
            false => Duration::ZERO,
        };
        self.status = status.to_owned();
        self.wait
    }
}

/// Where an order leads.
enum Turn {
    /// The order changed: ask for it again.
    Again,
    /// The order is of no use.
    LetGo,
    /// Come back later.
    Wait(Duration, Vec<Claim>),
    /// The authority said no.
    Refused(String),
    /// There it is.
    Issued(sign::Signed),
}

impl Acme {
    /// Takes the next steps towards a certificate, as far as they go without waiting for long.
    pub(crate) async fn advance(
        &self,
        desk: &Desk<'_>,
        name: &str,
        wish: &Wish,
        authority: &Authority,
        attempt: Attempt,
        carried: &BTreeSet<String>,
    ) -> Result<Step, Error> {
        let client = self.client(desk.keep, authority, desk.config)?;
        client.answers(desk.cx)?;
        client.login.change_key(&client, desk.cx).await.map_err(Fault::into_error)?;
        let mut work = Work {
            acme: self,
            desk,
            client,
            name,
            wish,
            authority,
            attempt,
            carried,
            is_counted_out: false,
            pace: Pace::default(),
        };
        let step = work.advance().await;
        match &step {
            Err(error) if work.client.is_away(desk.cx) => work.away(error)?,
            Err(_) => {}
            Ok(_) => desk.keep.end_outage(name)?,
        }
        // What is counted here is asked for anew each time, and needs no note.
        if let Err(error) = &step
            && let Some(wait) = error.retry_after.filter(|_| !work.is_counted_out)
        {
            let (server, until) = (wish.issuer.identity(), now(desk.cx) + wait.as_secs());
            desk.keep.put_busy(name, &Busy { server, until, message: error.chain() })?;
        }
        step
    }
}

impl Work<'_> {
    /// Remembers since when it cannot be asked.
    fn away(&self, error: &Error) -> Result<(), Error> {
        let (keep, now) = (self.desk.keep, now(self.desk.cx));
        let since = keep.outage(self.name)?.map_or(now, |outage| outage.since);
        keep.put_outage(self.name, &Outage { since, asked_at: now, message: error.chain() })
    }

    async fn advance(&mut self) -> Result<Step, Error> {
        let cx = self.desk.cx;
        let begun = cx.clock.now();
        for _ in 0..ORDERS {
            let turn = loop {
                match self.turn().await {
                    Ok(Turn::Again) if cx.clock.now() > begun + TURNS || cx.stop.is_set() => {
                        break self.later();
                    }
                    Ok(Turn::Again) => {}
                    Ok(turn) => break turn,
                    Err(fault) => match fault.word() {
                        "accountDoesNotExist" => {
                            self.client.login.forget().await?;
                            self.attempt.lost += 1;
                            break Turn::LetGo;
                        }
                        // A name it will never take, or a request it does not understand.
                        "rejectedIdentifier"
                        | "unsupportedIdentifier"
                        | "caa"
                        | "malformed"
                        | "badCSR"
                        | "invalidProfile"
                        | "orderNotReady"
                        | "dns"
                        | "connection"
                        | "incorrectResponse" => {
                            break Turn::Refused(fault.into_error().chain());
                        }
                        _ => return Err(fault.into_error()),
                    },
                }
            };
            match turn {
                Turn::Issued(signed) => return Ok(Step::Issued(signed)),
                Turn::Wait(recheck, claims) => return Ok(Step::Waiting(recheck, claims)),
                Turn::Refused(message) => return self.refused(message),
                Turn::LetGo | Turn::Again if self.attempt.lost < ORDERS as u32 => self.let_go()?,
                Turn::LetGo | Turn::Again => break,
            }
        }
        let server = &self.authority.server;
        self.refused(format!("{server} does not know orders that it gave, {ORDERS} in a row"))
    }

    /// The key stays: it was told to nobody but the authority, and is as good as a new one.
    fn let_go(&mut self) -> Result<(), Error> {
        super::remove_answers(&self.attempt)?;
        self.attempt.answers.clear();
        self.attempt.made.clear();
        self.attempt.order = None;
        self.attempt.is_counted = false;
        self.attempt.challenges.clear();
        self.pace = Pace::default();
        self.keep()
    }

    fn keep(&self) -> Result<(), Error> {
        self.desk.keep.put_attempt(self.name, &self.attempt)
    }

    /// Remembers the refusal. The records go first; the next step says what was refused.
    fn refused(&mut self, message: String) -> Result<Step, Error> {
        self.desk.refused(self.name, self.wish, self.attempt.order.clone(), message)?;
        self.attempt.lost = 0;
        let was_counted = self.attempt.is_counted;
        self.let_go()?;
        if was_counted {
            let (keep, server) = (self.desk.keep, &self.authority.server);
            self.acme.limits.give_back(keep, server, self.wish, now(self.desk.cx))?;
        }
        Ok(Step::Waiting(Duration::ZERO, Vec::new()))
    }

    async fn turn(&mut self) -> Result<Turn, Fault> {
        let Some(url) = self.attempt.order.clone() else {
            self.order().await?;
            return Ok(Turn::Again);
        };
        if now(self.desk.cx) > self.attempt.ordered_at + OLDEST {
            return Ok(Turn::LetGo);
        }
        let what = format!("ask for the order of {}", self.name);
        let answer = match self.client.post(self.desk.cx, &url, None, &what).await {
            // It is not known yet, or not any more, or was another account's.
            Err(fault) if is_unknown(&fault) => {
                let ordered_at = self.attempt.ordered_at;
                if (ordered_at..ordered_at + YOUNG).contains(&now(self.desk.cx)) {
                    return Ok(Turn::Wait(LATER, self.claims()));
                }
                self.attempt.lost += 1;
                return Ok(Turn::LetGo);
            }
            answer => answer?,
        };
        let order: Order = answer.json(&what)?;
        let wait = self.pace.wait(&order.status);
        if wait > BRIEFLY {
            return Ok(self.later());
        }
        // Whatever brought it back here without a change would bring it back at once.
        self.desk.cx.clock.sleep(wait).await;
        match &*order.status {
            "pending" => self.prove(&order).await,
            "ready" => self.finalize(&order).await,
            "processing" => Ok(self.pause(&answer).await),
            "valid" => self.fetch(&order).await,
            _ => self.why(&order).await,
        }
    }

    /// Makes an order; its URL is kept when this returns.
    async fn order(&mut self) -> Result<(), Fault> {
        let names = self.wish.names.iter().map(|name| json!({"type": "dns", "value": name}));
        let addresses = self.wish.addresses.iter();
        let addresses = addresses.map(|address| json!({"type": "ip", "value": address.to_string()}));
        let mut payload = json!({"identifiers": names.chain(addresses).collect::<Vec<_>>()});
        if let Some(profile) = &self.authority.profile {
            let mut directory = self.client.directory(self.desk.cx).await?;
            if !directory.meta.profiles.contains_key(profile) {
                directory = self.client.directory_of_now(self.desk.cx).await?;
            }
            let known = &directory.meta.profiles;
            if !known.contains_key(profile) {
                let all: Vec<_> = known.keys().map(String::as_str).collect();
                let error = Error::invalid(format!("{} has no profile `{profile}`", self.authority.server));
                let hint = if all.is_empty() {
                    "it has none: leave `profile` out".into()
                } else {
                    format!("it has {}", all.join(", "))
                };
                return Err(error.hint(hint).into());
            }
            payload["profile"] = json!(profile);
        }
        let replaces = self.replaces().await?;
        if let Some(id) = &replaces {
            payload["replaces"] = json!(id);
        }
        let what = format!("order a certificate for {}", self.wish.subject());
        let mut is_renewal = replaces.is_some();
        let mut sent = self.send_order(&payload, is_renewal, &what).await;
        // Another order replaces it already, or the authority does not know it: an order as any other then.
        if let Err(fault) = &sent
            && is_renewal
            && matches!(fault.word(), "alreadyReplaced" | "malformed")
        {
            payload.as_object_mut().map(|members| members.remove("replaces"));
            is_renewal = false;
            sent = self.send_order(&payload, is_renewal, &what).await;
        }
        let answer = sent?;
        self.attempt.is_renewal = is_renewal;
        self.attempt.is_counted = self.counts() && !is_renewal;
        let missing = || Error::unexpected(format!("{what}: the answer does not say where the order is"));
        self.attempt.order = Some(answer.location.ok_or_else(missing)?);
        self.attempt.ordered_at = now(self.desk.cx);
        self.attempt.challenges.clear();
        Ok(self.keep()?)
    }

    fn counts(&self) -> bool {
        self.desk.config.counts(&self.authority.server)
    }

    /// Sends an order that is within what the authority gives, as far as that is counted here.
    async fn send_order(&mut self, payload: &Value, is_renewal: bool, what: &str) -> Result<Answer, Fault> {
        let (keep, server) = (self.desk.keep, &self.authority.server);
        if self.counts() {
            let counted = self.acme.limits.order(keep, server, self.wish, now(self.desk.cx), is_renewal);
            self.is_counted_out = counted.as_ref().is_err_and(|error| error.kind == ErrorKind::RateLimited);
            counted?;
        }
        let sent = async {
            let url = self.client.directory(self.desk.cx).await?.new_order.clone();
            self.client.post(self.desk.cx, &url, Some(payload), what).await
        };
        let sent = sent.await;
        // Nothing comes of an order that nobody knows of here.
        if sent.is_err() && self.counts() && !is_renewal {
            self.acme.limits.give_back(keep, server, self.wish, now(self.desk.cx))?;
        }
        sent
    }

    /// The certificate this one takes the place of, where the authority wants to know and they share a name (RFC 9773 §5).
    async fn replaces(&self) -> Result<Option<String>, Fault> {
        if self.client.directory(self.desk.cx).await?.renewal_info.is_none() {
            return Ok(None);
        }
        let Some(issued) = self.desk.keep.issued(self.name)? else { return Ok(None) };
        let is_same = issued
            .issuer
            .as_deref()
            .is_some_and(|issuer| issuer.split(' ').next() == Some(self.authority.server.as_str()));
        let Ok(facts) = issued.facts() else { return Ok(None) };
        let shares =
            !facts.names.is_disjoint(&self.wish.names) || !facts.addresses.is_disjoint(&self.wish.addresses);
        Ok(super::ari::id(&facts).filter(|_| is_same && shares))
    }

    async fn authorizations(&self, order: &Order) -> Result<Vec<Authorization>, Fault> {
        let mut all = Vec::new();
        for url in &order.authorizations {
            let what = format!("ask what {} has to prove", self.name);
            all.push(self.client.post(self.desk.cx, url, None, &what).await?.json(&what)?);
        }
        Ok(all)
    }

    /// Proves what is not proven yet.
    async fn prove(&mut self, order: &Order) -> Result<Turn, Fault> {
        let open: Vec<Authorization> = self.authorizations(order).await?;
        if let Some(refused) = open.iter().find(|open| !matches!(&*open.status, "pending" | "valid")) {
            return self.unproven(refused);
        }
        let account = self.client.login.account(&self.client, self.desk.cx).await?;
        let (mut over_http, mut in_tls) = (Vec::new(), Vec::new());
        let (mut needed, mut files) = (Vec::new(), Vec::new());
        let mut urls = Vec::new();
        for open in open.iter().filter(|open| open.status == "pending") {
            let name = open.name();
            let solver = self.authority.solvers.iter().find(|(known, _)| same_name(known, &name));
            let Some((_, solver)) = solver else {
                return Err(Error::unexpected(format!(
                    "the authority wants {name} proven, which was not asked for"
                ))
                .into());
            };
            let Some(challenge) = open.challenges.iter().find(|challenge| challenge.kind == solver.word())
            else {
                let all: Vec<_> = open.challenges.iter().map(|challenge| challenge.kind.as_str()).collect();
                let error = Error::invalid(format!("{name} cannot be proven by {}", solver.word()));
                return Err(error.hint(format!("the authority offers {}", all.join(", "))).into());
            };
            match solver {
                Solver::Dns(provider, delegated) => {
                    let usual = format!("_acme-challenge.{}.", open.identifier.value);
                    let name = delegated.as_ref().map_or(usual, |name| format!("{name}."));
                    let value = account.key.txt(&challenge.token);
                    needed.push(Challenge { provider: provider.clone(), name, value });
                }
                Solver::Http => {
                    over_http.push((challenge.token.clone(), account.key.authorization(&challenge.token)))
                }
                Solver::Webroot(directory) => {
                    let path = webroot::file(self.desk.config, directory, &challenge.token)?;
                    files.push((path, account.key.authorization(&challenge.token)));
                }
                Solver::Tls => in_tls.push((name, account.key.digest(&challenge.token))),
            }
            // One that is answered already is not answered twice.
            if challenge.status == "pending" {
                urls.push(challenge.url.clone());
            }
        }
        let before = (self.attempt.challenges.clone(), self.attempt.answers.clone());
        self.attempt.challenges = needed;
        for (path, _) in files.iter().filter(|(path, _)| !before.1.contains(path)) {
            self.attempt.answers.push(path.clone());
            self.attempt.made.extend(webroot::missing(path));
        }
        if before != (self.attempt.challenges.clone(), self.attempt.answers.clone()) {
            self.keep()?;
        }
        files.iter().try_for_each(|(path, answer)| webroot::put(path, answer))?;
        if !self.attempt.challenges.iter().all(|challenge| self.carried.contains(&claim_key(challenge))) {
            return Ok(Turn::Wait(RECORD, self.claims()));
        }
        let (http, tls) = (&self.acme.http, &self.acme.tls);
        let has_tls = !in_tls.is_empty();
        let patience = if has_tls || !over_http.is_empty() { PATIENCE } else { BRIEFLY };
        // Another order proves one of the names just now, and has another answer.
        let Some(in_tls) = tls.serve(&in_tls)? else { return Ok(self.later()) };
        let _served = (http.serve(over_http.clone()), in_tls);
        let answer = async {
            match has_tls {
                true => {
                    let listener = tls.open(self.desk.config.listen_tls).await?;
                    tls.during(&listener, self.answer(order, urls, patience)).await?
                }
                false => self.answer(order, urls, patience).await,
            }
        };
        if over_http.is_empty() {
            return answer.await;
        }
        let listener = http.open(self.desk.config.listen).await?;
        http.during(&listener, answer).await
    }

    /// Says that what proves the names is there, and waits a little for the authority to look.
    async fn answer(&self, order: &Order, urls: Vec<String>, patience: Duration) -> Result<Turn, Fault> {
        for url in urls {
            let what = format!("answer a challenge for {}", self.name);
            self.client.post(self.desk.cx, &url, Some(&json!({})), &what).await?;
        }
        let mut wait = FIRST;
        let until = self.desk.cx.clock.now() + patience;
        loop {
            let all = self.authorizations(order).await?;
            if let Some(refused) = all.iter().find(|open| !matches!(&*open.status, "pending" | "valid")) {
                return self.unproven(refused);
            }
            if all.iter().all(|open| open.status == "valid") {
                return Ok(Turn::Again);
            }
            if self.desk.cx.clock.now() >= until || self.desk.cx.stop.is_set() {
                return Ok(self.later());
            }
            self.desk.cx.clock.sleep(wait).await;
            wait = (wait * 2).min(LAST);
        }
    }

    /// A name was not proven, which the authority counts.
    fn unproven(&self, refused: &Authorization) -> Result<Turn, Fault> {
        if self.counts() {
            let (keep, server, now) = (self.desk.keep, &self.authority.server, now(self.desk.cx));
            self.acme.limits.failure(keep, server, &refused.name(), now)?;
        }
        Ok(Turn::Refused(refused.refusal()))
    }

    /// The authority takes its time, and is asked the less often the longer it does.
    fn later(&self) -> Turn {
        Turn::Wait(patience(LATER, self.attempt.ordered_at, now(self.desk.cx)), self.claims())
    }

    /// The records that prove names, as the order needs them now.
    fn claims(&self) -> Vec<Claim> {
        let claim = |challenge: &Challenge| Claim {
            key: claim_key(challenge).into(),
            provider: challenge.provider.as_str().into(),
            kind: "dns-txt".into(),
            spec: json!({"name": challenge.name, "value": challenge.value, "ttl": 60}).to_string().into(),
            lives: Lives::WhilePending,
        };
        self.attempt.challenges.iter().map(claim).collect()
    }

    /// Hands in the request, which is made of the key that is kept.
    async fn finalize(&self, order: &Order) -> Result<Turn, Fault> {
        let request = sign::request(self.wish, &self.attempt.key.secret())?;
        let payload = json!({"csr": base64url(&request)});
        let what = format!("hand in the request for {}", self.name);
        match self.client.post(self.desk.cx, &order.finalize, Some(&payload), &what).await {
            // An earlier one arrived, and only its answer was lost.
            Err(fault) if fault.word() == "orderNotReady" => Ok(Turn::Again),
            Err(fault) => Err(fault),
            Ok(answer) => {
                let order: Order = answer.json(&what)?;
                match &*order.status {
                    "processing" => Ok(self.pause(&answer).await),
                    _ => Ok(Turn::Again),
                }
            }
        }
    }

    /// Waits as long as the authority says, or a moment; comes back later where that is long.
    async fn pause(&self, answer: &Answer) -> Turn {
        let wait = answer.retry_after.unwrap_or_default().max(2 * FIRST);
        if wait > BRIEFLY {
            return Turn::Wait(wait.min(PROCESSING), self.claims());
        }
        self.desk.cx.clock.sleep(wait).await;
        Turn::Again
    }

    async fn fetch(&self, order: &Order) -> Result<Turn, Fault> {
        let Some(url) = &order.certificate else {
            return Err(Error::unexpected(format!(
                "the order of {} is valid and has no certificate",
                self.name
            ))
            .into());
        };
        let what = format!("fetch the certificate of {}", self.name);
        let answer = self.client.post(self.desk.cx, url, None, &what).await?;
        let chain = self.chain(answer, &what).await?;
        let facts = x509::leaf("what the authority gave", &chain)?;
        if facts.public != key::public("the key of the certificate", &self.attempt.key.secret())? {
            // Of a key that is gone: a state directory that was restored from long ago.
            return Ok(Turn::LetGo);
        }
        if self.desk.keep.issued(self.name)?.is_some_and(|issued| issued.chain == chain) {
            // It is the one that another one is wanted for: the process died before the order was forgotten.
            return Ok(Turn::LetGo);
        }
        Ok(Turn::Issued(sign::Signed { chain, ca: String::new() }))
    }

    /// The chain that leads to the preferred issuer, else the one the authority gives first.
    async fn chain(&self, answer: Answer, what: &str) -> Result<String, Fault> {
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes)
                .map_err(|_| Fault::Error(Error::unexpected(format!("{what}: it is no text"))))
        };
        let first = text(answer.body)?;
        let Some(preferred) = &self.authority.preferred_chain else { return Ok(first) };
        let leads_there = |chain: &str| {
            let ders = x509::chain("the chain", chain).ok();
            let top = ders.and_then(|ders| x509::facts("the chain", ders.last()?).ok());
            top.is_some_and(|top| top.issuer == *preferred)
        };
        if leads_there(&first) {
            return Ok(first);
        }
        for url in answer.alternates {
            let other = text(self.client.post(self.desk.cx, &url, None, what).await?.body)?;
            if leads_there(&other) {
                return Ok(other);
            }
        }
        Ok(first)
    }

    /// Why an order came to nothing.
    async fn why(&self, order: &Order) -> Result<Turn, Fault> {
        if let Some(problem) = &order.error {
            return Ok(Turn::Refused(problem.text()));
        }
        let all = self.authorizations(order).await?;
        match all.iter().find(|open| open.status != "valid" && open.status != "pending") {
            Some(refused) => self.unproven(refused),
            None => Ok(Turn::Refused(format!("the order is {}", order.status))),
        }
    }
}

/// True when an authority says of an order that there is none.
fn is_unknown(fault: &Fault) -> bool {
    let is_gone = matches!(fault, Fault::Refused { status: 401 | 403 | 404, .. });
    fault.word() == "malformed" || (is_gone && fault.word() != "accountDoesNotExist")
}

/// Names a claim: another value is another claim.
fn claim_key(challenge: &Challenge) -> String {
    Hash::of(format!("{}\n{}\n{}", challenge.provider, challenge.name, challenge.value).as_bytes())
        .to_string()
}

/// The same name or address, in whatever spelling.
fn same_name(one: &str, other: &str) -> bool {
    match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.eq_ignore_ascii_case(other),
    }
}
