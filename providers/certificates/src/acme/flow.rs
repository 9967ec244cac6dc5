//! The way of one order, from whatever state it is in to a certificate, or to a reason to wait.
//!
//! ```text
//! (no order) ─► pending ─► ready ─► processing ─► valid ─► certificate
//!                 │  ▲ names are proven                └─► invalid ─► refused: later, a new order
//! ```
//!
//! Nothing is assumed: each step asks for the order first, so a process that died goes on where the authority is. An order
//! that is not known any more, or that is for a key that is lost, is let go of.

mod fetch;
mod order;
mod prove;

use super::{
    Acme,
    client::{Client, Fault},
    message::Order,
};
use crate::{
    desk::{Desk, Step, address, patience},
    kept::{Attempt, Busy, Outage},
    key,
    moment::now,
    refuse::Refusal,
    sign,
    wish::{Authority, Wish, secret_words},
};
use reconciled_provider::{Claim, Error};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

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
/// How long a record that others declare may take to be where the authority looks, before it looks for the first time.
const DECLARED: Duration = Duration::from_secs(60);
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
    /// When a person asked for another one, in seconds since 1970.
    asked: u64,
    /// One of the limits of the authority that are counted here has been reached, or it wants no orders from the account.
    is_counted_out: bool,
    /// What the authority said of the last order that it did not know.
    said: Option<String>,
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
    /// The same: the authority does not know it any more, or soon will not.
    Lost,
    /// Come back later.
    Wait(Duration, Vec<Claim>),
    /// The authority said no.
    Refused(String),
    /// It will not have the key.
    BadKey(String),
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
        if let Some(error) = super::trouble(desk.keep, authority) {
            return Ok(Step::Barred(error));
        }
        let client = self.client(desk.keep, authority, desk.config)?;
        let asked = desk.keep.renewal(name)?.map_or(0, |asked| asked.at);
        let hint = format!("to try at once all the same: reconciled renew {}", address(name));
        client.may_ask(desk.cx, asked, attempt.order.is_none()).map_err(|error| error.hint(hint))?;
        // Who finds that out by waiting may be another certificate each time.
        client.answers(desk.cx).or_else(|error| away(desk, name, &error).and(Err(error)))?;
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
            asked,
            is_counted_out: false,
            said: None,
            pace: Pace::default(),
        };
        let step = work.advance().await;
        match &step {
            Err(error) if work.client.is_away(desk.cx) => away(desk, name, error)?,
            Err(_) => {}
            Ok(_) => desk.keep.end_outage(name)?,
        }
        // What is counted here is asked for anew each time, and needs no note; nor does what is kept for all.
        if let Err(error) = &step
            && let Some(wait) = error.retry_after.filter(|_| !work.is_counted_out)
            && work.client.login.wait(desk.cx)?.is_none()
        {
            let (server, until) = (wish.issuer.identity(), now(desk.cx) + wait.as_secs());
            desk.keep.put_busy(name, &Busy { server, until, message: error.chain() })?;
        }
        step
    }
}

/// Remembers since when an authority cannot be asked.
fn away(desk: &Desk<'_>, name: &str, error: &Error) -> Result<(), Error> {
    let now = now(desk.cx);
    // A clock that went back is no reason to think that it has just begun.
    let since = desk.keep.outage(name)?.map_or(now, |outage| outage.since.min(now));
    desk.keep.put_outage(name, &Outage { since, asked_at: now, message: error.chain() })
}

impl Work<'_> {
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
                            break self.lost(fault);
                        }
                        // It knows the key of somebody else, or as one that was stolen. That of an account is another matter.
                        "badCSR" | "badPublicKey" if self.attempt.order.is_some() => {
                            break Turn::BadKey(fault.into_error().chain());
                        }
                        // A name it will never take, or a request it does not understand.
                        "rejectedIdentifier"
                        | "unsupportedIdentifier"
                        | "caa"
                        | "malformed"
                        | "invalidProfile"
                        | "orderNotReady"
                        | "dns"
                        | "connection"
                        | "incorrectResponse" => {
                            break Turn::Refused(fault.into_error().chain());
                        }
                        "unauthorized" | "userActionRequired" | "externalAccountRequired" => {
                            return Ok(Step::Barred(self.barred(fault)));
                        }
                        _ => return Err(fault.into_error()),
                    },
                }
            };
            match turn {
                Turn::Issued(signed) => return Ok(Step::Issued(signed)),
                Turn::Wait(recheck, claims) => return Ok(Step::Waiting(recheck, claims)),
                Turn::Refused(message) => return self.refused(message, false).await,
                Turn::BadKey(message) => return self.refused(message, true).await,
                Turn::Lost | Turn::LetGo | Turn::Again if self.attempt.lost >= ORDERS as u32 => break,
                // Where the request was not handed in, no certificate came of it.
                Turn::Lost if self.attempt.request.is_none() => self.let_go_of_nothing().await?,
                Turn::Lost | Turn::LetGo | Turn::Again => self.let_go().await?,
            }
        }
        let server = &self.authority.server;
        let said = self.said.take().map_or_else(String::new, |said| format!(": {said}"));
        self.refused(format!("{server} does not know orders that it gave, {ORDERS} in a row{said}"), false)
            .await
    }

    /// Says what to do about an account that the authority wants nothing to do with.
    fn barred(&self, fault: Fault) -> Error {
        let word = fault.word().to_owned();
        let error = fault.into_error();
        match (&*word, &self.authority.binding) {
            // None was made yet, so it is about what it would have been bound with.
            ("unauthorized" | "externalAccountRequired", Some((id, secret)))
                if matches!(self.client.login.url(), Ok(None)) =>
            {
                error.hint(format!(
                    "are keyID `{id}` and {} what the authority gave for `externalAccountBinding`? once one of the two is \
                     another one, it is tried again",
                    secret_words(secret)
                ))
            }
            ("unauthorized", _) => error.hint(format!(
                "was the account deactivated there? to have another one made, move {0} away, and then: reconciled sync {1}; \
                 without a daemon: reconciled apply --target {1}",
                self.client.login.file().display(),
                address(self.name)
            )),
            _ => error,
        }
    }

    /// The key stays: it was told to nobody but the authority, and is as good as a new one.
    async fn let_go(&mut self) -> Result<(), Error> {
        self.desk.effects.note();
        super::remove_answers(&*self.desk.config.place, &self.attempt).await?;
        self.attempt.answers.clear();
        self.attempt.made.clear();
        self.attempt.order = None;
        self.attempt.request = None;
        self.attempt.is_counted = false;
        self.attempt.garbled = None;
        self.attempt.challenges.clear();
        self.pace = Pace::default();
        self.keep()
    }

    /// The same of an order that came to no certificate: what it counted for is there again. Who is killed in between has
    /// counted one too many.
    async fn let_go_of_nothing(&mut self) -> Result<(), Error> {
        let was_counted = self.attempt.is_counted;
        self.let_go().await?;
        self.give_back(was_counted)
    }

    fn give_back(&self, was_counted: bool) -> Result<(), Error> {
        let (keep, server, counts) = (self.desk.keep, &self.authority.server, self.attempt.counts);
        match was_counted {
            true => self.acme.limits.give_back(keep, server, self.wish, now(self.desk.cx), counts),
            false => Ok(()),
        }
    }

    fn keep(&self) -> Result<(), Error> {
        self.desk.keep.put_attempt(self.name, &self.attempt)
    }

    /// Remembers the refusal. The records go first; the next step says what was refused.
    async fn refused(&mut self, message: String, is_key_bad: bool) -> Result<Step, Error> {
        let bad_key = is_key_bad.then(|| key::hash(&self.attempt.key.secret())).transpose()?;
        let (name, wish, order) = (self.name, self.wish, self.attempt.order.clone());
        self.desk.refused(Refusal { name, wish, order, message, bad_key })?;
        self.attempt.lost = 0;
        match is_key_bad {
            true => {
                self.desk.end_attempt(self.name).await?;
                self.give_back(self.attempt.is_counted)?;
            }
            false => self.let_go_of_nothing().await?,
        }
        Ok(Step::Waiting(Duration::ZERO, Vec::new()))
    }

    async fn turn(&mut self) -> Result<Turn, Fault> {
        let Some(url) = self.attempt.order.clone() else {
            self.order().await?;
            return Ok(Turn::Again);
        };
        if now(self.desk.cx) > self.attempt.ordered_at + OLDEST {
            return Ok(Turn::Lost);
        }
        let what = format!("ask for the order of {}", self.name);
        let answer = match self.client.post(self.desk.cx, &url, None, &what).await {
            // It is not known yet, or not any more, or was another account's.
            Err(fault) if is_unknown(&fault) => return Ok(self.unknown(fault)),
            answer => answer?,
        };
        let order: Order = answer.json(&what)?;
        let wait = self.pace.wait(&order.status);
        if wait > BRIEFLY {
            return Ok(self.later());
        }
        // Whatever brought it back here without a change would bring it back at once.
        self.desk.cx.clock.sleep(wait).await;
        let turn = match &*order.status {
            "pending" => self.prove(&order).await,
            "ready" => self.finalize(&order).await,
            "processing" => return Ok(self.pause(&answer).await),
            "valid" => self.fetch(&order).await,
            _ => self.why(&order).await,
        };
        match turn {
            // A part of an order that stands is not known to each machine of an authority at once; one that is over says so
            // itself. To let the order go for that would burn it, with a certificate that may be counted already.
            Err(fault) if fault.word() == "malformed" && ["pending", "valid"].contains(&&*order.status) => {
                Ok(self.later())
            }
            // Something of this order may not be used, such as a name that was proven too long ago. Whether that is because the
            // account may do nothing any more, the next order tells.
            Err(fault) if fault.word() == "unauthorized" => Ok(self.unknown(fault)),
            turn => turn,
        }
    }

    /// Nothing can be done with an order: it is let go of, once it is old enough to be known to all of the authority.
    fn unknown(&mut self, fault: Fault) -> Turn {
        let ordered_at = self.attempt.ordered_at;
        match (ordered_at..ordered_at + YOUNG).contains(&now(self.desk.cx)) {
            true => Turn::Wait(LATER, self.claims()),
            false => self.lost(fault),
        }
    }

    fn lost(&mut self, fault: Fault) -> Turn {
        self.attempt.lost += 1;
        self.said = Some(fault.into_error().chain());
        Turn::Lost
    }

    /// The authority takes its time, and is asked the less often the longer it does.
    fn later(&self) -> Turn {
        Turn::Wait(patience(LATER, self.attempt.ordered_at, now(self.desk.cx)), self.claims())
    }
}

/// True when an authority says of an order that there is none.
fn is_unknown(fault: &Fault) -> bool {
    let is_gone = matches!(fault, Fault::Refused { status: 401 | 403 | 404, .. });
    fault.word() == "malformed" || (is_gone && fault.word() != "accountDoesNotExist")
}
