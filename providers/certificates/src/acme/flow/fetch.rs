//! The request is handed in and the certificate fetched; or it is found out why there is none.

use super::{BRIEFLY, FIRST, PROCESSING, Turn, Work};
use crate::{
    acme::{
        client::{Answer, Fault},
        jws::base64url,
        message::Order,
    },
    kept::Garbled,
    key,
    moment::now,
    sign, x509,
};
use reconciled_provider::Error;
use serde_json::json;

/// How often, and for how many seconds at most, a certificate is asked for again where what comes is none.
const FETCHES: u32 = 3;
const GARBLED: u64 = 600;

impl Work<'_> {
    /// Hands in the request, which is kept as the key is: whatever becomes of the answer, the same one is handed in again.
    pub(super) async fn finalize(&mut self, order: &Order) -> Result<Turn, Fault> {
        let request = match &self.attempt.request {
            Some(request) => request.clone(),
            None => {
                let request = base64url(&sign::request(self.wish, &self.attempt.key.secret())?);
                self.attempt.request = Some(request.clone());
                self.keep()?;
                request
            }
        };
        let payload = json!({"csr": request});
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
    pub(super) async fn pause(&self, answer: &Answer) -> Turn {
        let wait = answer.retry_after.unwrap_or_default().max(2 * FIRST);
        if wait > BRIEFLY {
            return Turn::Wait(wait.min(PROCESSING), self.claims());
        }
        self.desk.cx.clock.sleep(wait).await;
        Turn::Again
    }

    pub(super) async fn fetch(&mut self, order: &Order) -> Result<Turn, Fault> {
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
        if self.is_outdated()? {
            return Ok(Turn::LetGo);
        }
        let read = || -> Result<_, Error> {
            let ders = x509::chain("what the authority gave", &chain)?;
            Ok((x509::facts("what the authority gave", &ders[0])?, ders))
        };
        let (facts, ders) = match read() {
            Ok(read) => read,
            Err(error) => return self.garbled(&error),
        };
        if facts.public != key::public("the key of the certificate", &self.attempt.key.secret())? {
            // Of a key that is gone: a state directory that was restored from long ago.
            return Ok(Turn::LetGo);
        }
        let today = self.desk.keep.issued(self.name)?.and_then(|issued| issued.facts().ok());
        if today.is_some_and(|today| today.fingerprint == facts.fingerprint) {
            // It is the one that another one is wanted for: the process died before the order was forgotten.
            return Ok(Turn::LetGo);
        }
        // What others may trust is the topmost one that was given: the root is hardly ever among them.
        let ca = ders.iter().skip(1).next_back().map_or_else(String::new, |der| sign::to_pem(der));
        // Written anew: what else it sent between the certificates gets into no file.
        let chain = ders.iter().map(|der| sign::to_pem(der)).collect();
        Ok(Turn::Issued(sign::Signed { chain, ca }))
    }

    /// What came is no certificate. The order gives the one that was issued to whoever asks again, so it is let go of only where
    /// that was in vain for a while: not so long that the certificate in use ends meanwhile.
    fn garbled(&mut self, error: &Error) -> Result<Turn, Fault> {
        let now = now(self.desk.cx);
        let first = Garbled { since: now, times: 0 };
        // A clock that went back is no reason to ask for longer than ever.
        let before = self.attempt.garbled.filter(|before| before.since <= now).unwrap_or(first);
        let today = self.desk.keep.issued(self.name)?.and_then(|issued| issued.facts().ok());
        let left = today.map_or(u64::MAX, |today| today.not_after.saturating_sub(now));
        let times = before.times + 1;
        if times >= FETCHES && now - before.since >= GARBLED.min(left / 8) {
            return Ok(Turn::Refused(error.chain()));
        }
        self.attempt.garbled = Some(Garbled { times, ..before });
        self.keep()?;
        let what = format!("fetch the certificate of {}", self.name);
        Err(Error::unavailable(format!("{what}: {}", error.chain()))
            .hint("the order stays, and gives it to who asks again")
            .into())
    }

    /// True when the order was not made for what a person asks for now: of one that is done nothing else comes. Times are
    /// compared for being the same alone: a clock may be set back.
    fn is_outdated(&self) -> Result<bool, Error> {
        Ok(self.asked_at()?.is_some_and(|asked_at| self.attempt.asked_at != Some(asked_at)))
    }

    /// When a person asked for another certificate than the one of today, if anybody did.
    pub(super) fn asked_at(&self) -> Result<Option<u64>, Error> {
        let keep = self.desk.keep;
        let today = keep.issued(self.name)?.and_then(|issued| issued.facts().ok());
        let today = today.map(|facts| facts.fingerprint).unwrap_or_default();
        let asked = keep.renewal(self.name)?.filter(|asked| asked.fingerprint == today);
        Ok(asked.map(|asked| asked.at))
    }

    /// The chain that leads to the preferred issuer, else the one the authority gives first.
    async fn chain(&self, answer: Answer, what: &str) -> Result<String, Fault> {
        // What is no text is no certificate either.
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let first = text(answer.body);
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
            // The first one is a certificate as well, and in hand.
            let Ok(answer) = self.client.post(self.desk.cx, &url, None, what).await else { continue };
            let other = text(answer.body);
            if leads_there(&other) {
                return Ok(other);
            }
        }
        Ok(first)
    }

    /// Why an order came to nothing.
    pub(super) async fn why(&self, order: &Order) -> Result<Turn, Fault> {
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
