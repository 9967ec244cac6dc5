//! An order is made: with a profile the authority has, within its limits, and said to replace the certificate of today.

use super::Work;
use crate::{
    acme::{
        ari,
        client::{Answer, Fault},
    },
    kept::Counts,
    moment::now,
    x509::Facts,
};
use reconciled_provider::{Error, ErrorKind};
use serde_json::{Value, json};

impl Work<'_> {
    /// Makes an order; its URL is kept when this returns.
    pub(super) async fn order(&mut self) -> Result<(), Fault> {
        // The authority counts it, whatever comes of it.
        self.has_place()?;
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
        let otherwise = self.counts_without_replacing()?;
        let mut counts = if replaces.is_some() { Counts::Replacing } else { otherwise };
        let mut sent = self.send_order(&payload, counts, &what).await;
        // Another order replaces it already, or the authority does not know it, or only as somebody else's: whatever it says,
        // an order as any other is not refused for that.
        if let Err(fault @ Fault::Refused { .. }) = &sent
            && counts == Counts::Replacing
            && !matches!(fault.word(), "rateLimited" | "accountDoesNotExist")
        {
            payload.as_object_mut().map(|members| members.remove("replaces"));
            counts = otherwise;
            sent = self.send_order(&payload, counts, &what).await;
        }
        let answer = sent?;
        self.client.login.end_wait()?;
        self.attempt.is_counted = self.counts() && counts != Counts::Replacing;
        self.attempt.counts = counts;
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

    /// What an order counts as that does not say which certificate it replaces. To the authority it renews one of exactly
    /// these names, whoever ordered that; of one that was adopted it is not known who gave it, and most stay where they were.
    fn counts_without_replacing(&self) -> Result<Counts, Error> {
        let Some(issued) = self.desk.keep.issued(self.name)? else { return Ok(Counts::First) };
        let is_theirs = issued.issuer.as_ref().is_none_or(|issuer| self.wish.issuer.is(issuer));
        let has_same_names =
            |facts: Facts| (&facts.names, &facts.addresses) == (&self.wish.names, &self.wish.addresses);
        let is_again = is_theirs && issued.facts().is_ok_and(has_same_names);
        Ok(if is_again { Counts::Again } else { Counts::First })
    }

    /// Sends an order that is within what the authority gives, as far as that is counted here.
    async fn send_order(&mut self, payload: &Value, counts: Counts, what: &str) -> Result<Answer, Fault> {
        let (keep, server) = (self.desk.keep, &self.authority.server);
        // It may have said so to another certificate just now.
        if let Err(error) = self.client.may_ask(self.desk.cx, self.asked, true) {
            self.is_counted_out = true;
            return Err(error.into());
        }
        if self.counts() {
            let counted = self.acme.limits.order(keep, server, self.wish, now(self.desk.cx), counts);
            self.is_counted_out = counted.as_ref().is_err_and(|error| error.kind == ErrorKind::RateLimited);
            counted?;
        }
        let sent = async {
            let url = self.client.directory(self.desk.cx).await?.new_order.clone();
            // Who has no account orders nothing.
            self.client.login.account(&self.client, self.desk.cx).await?;
            let sent = self.client.post(self.desk.cx, &url, Some(payload), what).await;
            if !is_refused(&sent) {
                self.desk.effects.note();
            }
            sent
        };
        let sent = sent.await;
        // Nothing comes of an order that nobody knows of here.
        if sent.is_err() && self.counts() {
            self.acme.limits.give_back(keep, server, self.wish, now(self.desk.cx), counts)?;
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

/// True where an authority said that it made no order.
fn is_refused(sent: &Result<Answer, Fault>) -> bool {
    match sent {
        Ok(_) => false,
        Err(Fault::Refused { .. }) => true,
        Err(Fault::Error(error)) => error.kind == ErrorKind::RateLimited,
    }
}
