//! An order is made: with a profile the authority has, within its limits, and said to replace the certificate of today.

use super::Work;
use crate::acme::{
    ari,
    client::{Answer, Fault},
    now,
};
use reconciled_provider::{Error, ErrorKind};
use serde_json::{Value, json};

impl Work<'_> {
    /// Makes an order; its URL is kept when this returns.
    pub(super) async fn order(&mut self) -> Result<(), Fault> {
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
        // Another order replaces it already, or the authority does not know it, or only as somebody else's: whatever it says,
        // an order as any other is not refused for that.
        if let Err(fault @ Fault::Refused { .. }) = &sent
            && is_renewal
            && !matches!(fault.word(), "rateLimited" | "accountDoesNotExist")
        {
            payload.as_object_mut().map(|members| members.remove("replaces"));
            is_renewal = false;
            sent = self.send_order(&payload, is_renewal, &what).await;
        }
        let answer = sent?;
        self.client.login.end_wait()?;
        self.attempt.is_renewal = is_renewal;
        self.attempt.is_counted = self.counts() && !is_renewal;
        let missing = || Error::unexpected(format!("{what}: the answer does not say where the order is"));
        self.attempt.order = Some(answer.location.ok_or_else(missing)?);
        self.attempt.ordered_at = now(self.desk.cx);
        self.attempt.account = self.client.login.url()?;
        self.attempt.asked_at = self.asked_at()?;
        self.attempt.challenges.clear();
        Ok(self.keep()?)
    }

    pub(super) fn counts(&self) -> bool {
        self.desk.config.counts(&self.authority.server)
    }

    /// Sends an order that is within what the authority gives, as far as that is counted here.
    async fn send_order(&mut self, payload: &Value, is_renewal: bool, what: &str) -> Result<Answer, Fault> {
        let (keep, server) = (self.desk.keep, &self.authority.server);
        // It may have said so to another certificate just now.
        if let Err(error) = self.client.may_ask(self.desk.cx, self.asked, true) {
            self.is_counted_out = true;
            return Err(error.into());
        }
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

    /// The certificate this one takes the place of, where the authority wants to know, it was ordered with this account, and
    /// they share a name (RFC 9773 §5).
    async fn replaces(&self) -> Result<Option<String>, Fault> {
        if self.client.directory(self.desk.cx).await?.renewal_info.is_none() {
            return Ok(None);
        }
        let Some(issued) = self.desk.keep.issued(self.name)? else { return Ok(None) };
        let is_same = issued
            .issuer
            .as_deref()
            .is_some_and(|issuer| issuer.split(' ').next() == Some(self.authority.server.as_str()));
        // One that is not made yet has ordered nothing.
        let account = self.client.login.url()?;
        let is_mine = account.is_some()
            && issued.account.as_ref().is_none_or(|before| account.as_ref() == Some(before));
        let Ok(facts) = issued.facts() else { return Ok(None) };
        let shares =
            !facts.names.is_disjoint(&self.wish.names) || !facts.addresses.is_disjoint(&self.wish.addresses);
        Ok(ari::id(&facts).filter(|_| is_same && is_mine && shares))
    }
}
