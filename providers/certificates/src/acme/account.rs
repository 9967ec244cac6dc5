//! The account at an authority: made when it is needed first, found again by its key, made anew where it is not known; and what
//! it signs.

use super::{
    client::{Answer, Client, Fault},
    jws::{AccountKey, Signer},
    login::{Declared, Known, Login},
};
use crate::{
    kept::{Account, KeyChange, Private, RefusedEmail},
    moment::now,
    wish::{Issue, secret_words},
};
use reconciled_provider::{Cx, Error};
use serde_json::{Value, json};
use std::sync::Arc;

/// How often another key is offered at once where nobody answers, and how long it then waits, as after a refusal.
const TRIES: u32 = 3;
const DAY: u64 = 86_400;

/// True while another key is not offered again. A clock that went back is no reason to wait longer than ever.
fn is_early(change: &KeyChange, now: u64) -> bool {
    now < change.again_at && change.again_at <= now + DAY
}

impl Client {
    /// A request signed by the account.
    pub(super) async fn post(
        &self,
        cx: &Cx,
        url: &str,
        payload: Option<&Value>,
        what: &str,
    ) -> Result<Answer, Fault> {
        let _held = self.login.hold().await;
        let account = self.login.account(self, cx).await?;
        self.send(cx, &account.key, Signer::Account(&account.url), url, payload, what).await
    }
}

impl Login {
    /// Gives the account another key, where it is time to and no order needs the one it has (RFC 8555 §7.3.5).
    ///
    /// The new key is on disk before the authority hears of it. Where its answer was lost, it is asked which one it knows.
    /// A refusal is kept, and no reason to issue nothing: the account goes on with the key that the authority knows.
    pub(super) async fn change_key(&self, client: &Client, cx: &Cx) -> Result<(), Fault> {
        let rotate = self.declared().rotate;
        let is_due = |account: &Account| {
            let old_at = rotate.map(|rotate| account.made_at + rotate);
            let is_early = |change: &KeyChange| change.is_settled && is_early(change, now(cx));
            let is_due = account.next.is_some() || old_at.is_some_and(|at| now(cx) >= at);
            account.url.is_some() && is_due && !account.change.as_ref().is_some_and(is_early)
        };
        if !self.keep.account(&self.id)?.is_some_and(|account| is_due(&account)) {
            return Ok(());
        }
        let _closed = self.gate.write().await;
        let Some(account) = self.keep.account(&self.id)?.filter(is_due) else { return Ok(()) };
        // What proves a name is made of the key.
        let is_free = account.next.is_some() || !matches!(self.keep.has_orders(), Ok(true));
        let Some(url) = account.url.clone().filter(|_| is_free) else { return Ok(()) };
        match self.offer_key(client, cx, account, &url).await {
            // It was restored without its data: it is told anew, by the key that is there.
            Err(fault) if fault.word() == "accountDoesNotExist" => Ok(self.forget().await?),
            Err(fault) => self.keep_old_key(cx, fault),
            Ok(()) => Ok(()),
        }
    }

    async fn offer_key(
        &self,
        client: &Client,
        cx: &Cx,
        mut account: Account,
        url: &str,
    ) -> Result<(), Fault> {
        let directory = client.directory(cx).await?;
        let Some(change) = directory.key_change.clone() else { return Ok(()) };
        let what = "give the account another key";
        let old = self.key(&account.key)?;
        let (next, was_sent) = match account.next.clone() {
            Some(next) => (next, true),
            None => (Private::of(&AccountKey::make()?)?, false),
        };
        let new = self.key(&next)?;
        let is_known = match was_sent && !account.change.as_ref().is_some_and(|change| change.is_settled) {
            true => {
                let ask = json!({"onlyReturnExisting": true});
                match client.send(cx, &new, Signer::Key, &directory.new_account, Some(&ask), what).await {
                    Ok(_) => true,
                    // In whatever words: it was asked for this key, and has no account of it.
                    Err(Fault::Refused { .. }) => false,
                    Err(fault) => return Err(fault),
                }
            }
            false => false,
        };
        if !is_known {
            let tried = account.change.take().unwrap_or(KeyChange {
                tries: 0,
                again_at: 0,
                is_settled: true,
                message: String::new(),
            });
            let is_early = tried.tries >= TRIES && is_early(&tried, now(cx));
            // Until it has answered, either key may be the one it knows.
            let tried = Some(KeyChange { is_settled: is_early, ..tried });
            self.change(|account| Account { change: tried, next: Some(next.clone()), ..account })?;
            if is_early {
                return Ok(());
            }
            let payload = new.take_over(&old, url, &change)?;
            client.send(cx, &old, Signer::Account(url), &change, Some(&payload), what).await?;
        }
        let url = Some(url.to_owned());
        let made_at = now(cx);
        self.change(|account| Account { key: next, url, made_at, next: None, change: None, ..account })?;
        *self.known.lock().await = None;
        Ok(())
    }

    /// Keeps what went wrong with another key. Where the authority refused it, the old one is as good as before; where
    /// nobody answered, that has to be asked.
    fn keep_old_key(&self, cx: &Cx, fault: Fault) -> Result<(), Fault> {
        let Some(account) = self.keep.account(&self.id)?.filter(|account| account.next.is_some()) else {
            return Err(fault);
        };
        let is_settled = matches!(fault, Fault::Refused { .. });
        let error = fault.into_error();
        let tries = account.change.as_ref().map_or(0, |change| change.tries) + 1;
        let again_at = if is_settled || tries >= TRIES { now(cx) + DAY } else { 0 };
        let change = Some(KeyChange { tries, again_at, is_settled, message: error.chain() });
        self.change(|account| Account { change, ..account })?;
        if is_settled { Ok(()) } else { Err(error.into()) }
    }

    /// The account; one call at a time makes it.
    pub(super) async fn account(&self, client: &Client, cx: &Cx) -> Result<Arc<Known>, Fault> {
        let mut known = self.known.lock().await;
        // Whoever moves its file away wants another one.
        let url = self.url()?;
        if let Some(known) = known.as_ref().filter(|known| url.as_ref() == Some(&known.url)) {
            return Ok(known.clone());
        }
        let found = Arc::new(self.look_up(client, cx).await?);
        *known = Some(found.clone());
        Ok(found)
    }

    /// Tells the authority where it may write to, where that is declared otherwise than it was told (RFC 8555 §7.3.2).
    ///
    /// Errors: it will not write there, which is said once and kept: it would be no better at the next look, and no reason to
    /// renew nothing.
    pub(super) async fn tell_contact(&self, client: &Client, cx: &Cx) -> Result<(), Fault> {
        let email = self.declared().email.clone();
        let _held = self.hold().await;
        let account = self.account(client, cx).await?;
        if self.keep.account(&self.id)?.is_none_or(|account| account.email == email) {
            return Ok(());
        }
        let contact: Vec<String> = email.iter().map(|email| format!("mailto:{email}")).collect();
        let (ask, what) = (json!({"contact": contact}), "tell the authority where it may write to");
        match client
            .send(cx, &account.key, Signer::Account(&account.url), &account.url, Some(&ask), what)
            .await
        {
            // The one that is made instead is told anyway.
            Err(fault) if fault.word() == "accountDoesNotExist" => return Ok(self.forget().await?),
            Err(fault @ Fault::Refused { .. })
                if matches!(fault.word(), "invalidContact" | "unsupportedContact" | "malformed") =>
            {
                let error = fault.into_error().hint("write another `email` for the issuer, or leave it out");
                let refused_email = Some(RefusedEmail { email, message: error.chain() });
                self.change(|account| Account { refused_email, ..account })?;
                return Err(error.into());
            }
            Err(fault) => return Err(fault),
            Ok(_) => {}
        }
        Ok(self.change(|account| Account { email, refused_email: None, ..account })?)
    }

    async fn look_up(&self, client: &Client, cx: &Cx) -> Result<Known, Fault> {
        let account = match self.keep.account(&self.id)? {
            Some(account) => account,
            None => {
                // Kept before the authority hears of it: a lost answer makes no second account.
                let key = Private::of(&AccountKey::make()?)?;
                let made_at = now(cx);
                let account = Account {
                    key,
                    url: None,
                    email: None,
                    refused_email: None,
                    made_at,
                    next: None,
                    change: None,
                };
                self.keep.put_account(&self.id, &account)?;
                account
            }
        };
        let key = self.key(&account.key)?;
        if let Some(url) = account.url.clone() {
            return Ok(Known { key, url });
        }
        let directory = client.directory(cx).await?;
        let mut payload = json!({"termsOfServiceAgreed": true});
        let Declared { email, binding, lacks_binding_key, .. } = self.declared().clone();
        if let Some(email) = &email {
            payload["contact"] = json!([format!("mailto:{email}")]);
        }
        match &binding {
            Some((id, secret)) if lacks_binding_key => {
                let text = format!("make an account bound to `{id}`: {} cannot be had", secret_words(secret));
                return Err(Error::unavailable(text).hint("reconciled plan says why").into());
            }
            Some((id, secret)) => {
                let secret = cx.secrets.reveal(&Issue::secret(secret))?;
                payload["externalAccountBinding"] = key.bind(id, &secret, &directory.new_account)?;
            }
            None if directory.meta.external_account_required => {
                return Err(Error::invalid("the authority wants accounts bound to one that exists with it")
                    .hint("write externalAccountBinding: {keyID: ID, key: {secret: NAME}} for the issuer")
                    .into());
            }
            None => {}
        }
        let what = "make an account at the authority";
        let answer = client.send(cx, &key, Signer::Key, &directory.new_account, Some(&payload), what).await?;
        let missing = || Error::unexpected(format!("{what}: the answer names none"));
        let url = answer.location.ok_or_else(missing)?;
        let made = Some(url.clone());
        self.change(|account| Account { url: made, email, refused_email: None, ..account })?;
        Ok(Known { key, url })
    }
}
