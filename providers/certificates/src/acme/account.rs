//! The account at an authority: made when it is needed first, found again by its key, made anew where it is not known.

use super::{
    client::{Client, Fault},
    jws::{AccountKey, Signer},
};
use crate::{
    kept::{Account, Keep, Private},
    wish::{Authority, Issue},
};
use reconciled_provider::{Cx, Error};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Mutex;

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
    known: Mutex<Option<Arc<Known>>>,
}

impl Login {
    pub(super) fn new(keep: Keep, id: String, authority: &Authority) -> Login {
        let (email, binding) = (authority.email.clone(), authority.binding.clone());
        Login { keep, id, email, binding, known: Mutex::default() }
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
            self.keep.put_account(&self.id, &Account { url: None, ..account })?;
        }
        Ok(())
    }

    async fn look_up(&self, client: &Client, cx: &Cx) -> Result<Known, Fault> {
        let account = match self.keep.account(&self.id)? {
            Some(account) => account,
            None => {
                // Kept before the authority hears of it: a lost answer makes no second account.
                let account = Account { key: Private::of(&AccountKey::make()?)?, url: None };
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
