//! The request is handed in and the certificate fetched; or it is found out why there is none.

use super::{BRIEFLY, FIRST, PROCESSING, Turn, Work};
use crate::{
    acme::{
        client::{Answer, Fault},
        jws::base64url,
        message::Order,
    },
    key, sign, x509,
};
use reconciled_provider::Error;
use serde_json::json;

impl Work<'_> {
    /// Hands in the request, which is made of the key that is kept.
    pub(super) async fn finalize(&self, order: &Order) -> Result<Turn, Fault> {
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
    pub(super) async fn pause(&self, answer: &Answer) -> Turn {
        let wait = answer.retry_after.unwrap_or_default().max(2 * FIRST);
        if wait > BRIEFLY {
            return Turn::Wait(wait.min(PROCESSING), self.claims());
        }
        self.desk.cx.clock.sleep(wait).await;
        Turn::Again
    }

    pub(super) async fn fetch(&self, order: &Order) -> Result<Turn, Fault> {
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
