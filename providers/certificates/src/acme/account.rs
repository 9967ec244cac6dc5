//! The account at an authority: made when it is needed first, found again by its key, made anew where it is not known.

use super::{
    client::{Client, Fault},
    jws::{AccountKey, Signer},
    now,
};
use crate::{
    kept::{Account, Keep, Private},
    wish::{Authority, Issue},
};
use reconciled_provider::{Cx, Error};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::{Mutex, RwLock, RwLockReadGuard};

/// An account that the authority knows.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) key: AccountKey,
    pub(super) url: String,
}

/// The way to the account.
#[derive(Debug)]
pub(super) struct Login {
    keep: Keep,
    id: String,
    email: Option<String>,
    binding: Option<(String, String)>,
    rotate: Option<u64>,
    known: Mutex<Option<Arc<Known>>>,
    /// Whoever signs with the key holds it open; whoever changes the key closes it.
    gate: RwLock<()>,
}

impl Login {
    pub(super) fn new(keep: Keep, id: String, authority: &Authority) -> Login {
        let (email, binding) = (authority.email.clone(), authority.binding.clone());
        let rotate = authority.rotate;
        Login { keep, id, email, binding, rotate, known: Mutex::default(), gate: RwLock::default() }
    }

    /// While this lives, the key stays.
    pub(super) async fn hold(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().await
    }

    /// Gives the account another key, where it is time to and no order needs the one it has (RFC 8555 §7.3.5).
    ///
    /// The new key is on disk before the authority hears of it. Where its answer was lost, it is asked which one it knows.
    pub(super) async fn change_key(&self, client: &Client, cx: &Cx) -> Result<(), Fault> {
        let is_due = |account: &Account| {
            let old_at = self.rotate.map(|rotate| account.made_at + rotate);
            account.url.is_some() && (account.next.is_some() || old_at.is_some_and(|at| now(cx) >= at))
        };
        if !self.keep.account(&self.id)?.is_some_and(|account| is_due(&account)) {
            return Ok(());
        }
        let _closed = self.gate.write().await;
        let Some(mut account) = self.keep.account(&self.id)?.filter(is_due) else { return Ok(()) };
        // What proves a name is made of the key.
        let Some(url) = account
            .url
            .clone()
            .filter(|_| account.next.is_some() || !matches!(self.keep.has_orders(), Ok(true)))
        else {
            return Ok(());
        };
        let directory = client.directory().await?;
        let Some(change) = directory.key_change.clone() else { return Ok(()) };
        let (next, was_sent) = match account.next.clone() {
            Some(next) => (next, true),
            None => (Private::of(&AccountKey::make()?)?, false),
        };
        if !was_sent {
            account.next = Some(next.clone());
            self.keep.put_account(&self.id, &account)?;
        }
        let (old, new) = (AccountKey::read(&account.key.secret())?, AccountKey::read(&next.secret())?);
        let what = "give the account another key";
        let is_known = was_sent && {
            let ask = json!({"onlyReturnExisting": true});
            match client.send(&new, Signer::Key, &directory.new_account, Some(&ask), what).await {
                Ok(_) => true,
                Err(fault) if fault.word() == "accountDoesNotExist" => false,
                Err(fault) => return Err(fault),
            }
        };
        if !is_known {
            let payload = new.take_over(&old, &url, &change)?;
            client.send(&old, Signer::Account(&url), &change, Some(&payload), what).await?;
        }
        let changed = Account { key: next, url: Some(url), made_at: now(cx), next: None };
        self.keep.put_account(&self.id, &changed)?;
        *self.known.lock().await = None;
        Ok(())
    }

    /// The account; one call at a time makes it.
    pub(super) async fn account(&self, client: &Client, cx: &Cx) -> Result<Arc<Known>, Fault> {
        let mut known = self.known.lock().await;
        if let Some(known) = &*known {
            return Ok(known.clone());
        }
        let found = Arc::new(self.look_up(client, cx).await?);
        *known = Some(found.clone());
        Ok(found)
    }

    /// The authority does not know the account: one that was restored without its data. The key stays.
    pub(super) async fn forget(&self) -> Result<(), Error> {
        let mut known = self.known.lock().await;
        *known = None;
        if let Some(account) = self.keep.account(&self.id)? {
            self.keep.put_account(&self.id, &Account { url: None, next: None, ..account })?;
        }
        Ok(())
    }

    async fn look_up(&self, client: &Client, cx: &Cx) -> Result<Known, Fault> {
        let account = match self.keep.account(&self.id)? {
            Some(account) => account,
            None => {
                // Kept before the authority hears of it: a lost answer makes no second account.
                let key = Private::of(&AccountKey::make()?)?;
                let account = Account { key, url: None, made_at: now(cx), next: None };
                self.keep.put_account(&self.id, &account)?;
                account
            }
        };
        let key = AccountKey::read(&account.key.secret())?;
        if let Some(url) = account.url.clone() {
            return Ok(Known { key, url });
        }
        let directory = client.directory().await?;
        let mut payload = json!({"termsOfServiceAgreed": true});
        if let Some(email) = &self.email {
            payload["contact"] = json!([format!("mailto:{email}")]);
        }
        match &self.binding {
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
        let answer = client.send(&key, Signer::Key, &directory.new_account, Some(&payload), what).await?;
        let missing = || Error::unexpected(format!("{what}: the answer names none"));
        let url = answer.location.ok_or_else(missing)?;
        self.keep.put_account(&self.id, &Account { url: Some(url.clone()), ..account })?;
        Ok(Known { key, url })
    }
}
