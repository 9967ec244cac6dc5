//! What is known and kept of the account at an authority, without a question to it.

use super::jws::AccountKey;
use crate::{
    kept::{Account, Keep, LONGEST_WAIT, Private, Wait},
    moment::now,
    wish::Authority,
};
use reconciled_provider::{Cx, Error};
use std::{
    path::PathBuf,
    sync::{Arc, MutexGuard, PoisonError},
};
use tokio::sync::{Mutex, RwLock, RwLockReadGuard};

/// An account that the authority knows.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) key: AccountKey,
    pub(super) url: String,
}

/// What is declared of the account, as it was the last time.
#[derive(Clone, Debug, Default)]
pub(super) struct Declared {
    pub(super) email: Option<String>,
    pub(super) rotate: Option<u64>,
    /// Id of the account elsewhere, and the name of the secret that is its key.
    pub(super) binding: Option<(String, String)>,
    pub(super) lacks_binding_key: bool,
}

/// Reads a key that is kept of the account with this `id`.
///
/// Errors: `Unavailable` where it is none, with the file that it is in.
pub(super) fn read_key(keep: &Keep, id: &str, kept: &Private) -> Result<AccountKey, Error> {
    AccountKey::read(&kept.secret()).ok_or_else(|| keep.broken_account(id))
}

/// The way to the account.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) keep: Keep,
    pub(super) id: String,
    declared: std::sync::Mutex<Declared>,
    pub(super) known: Mutex<Option<Arc<Known>>>,
    /// Whoever signs with the key holds it open; whoever changes the key closes it.
    pub(super) gate: RwLock<()>,
    /// Whoever reads what is kept to write it back changed is alone.
    file: std::sync::Mutex<()>,
}

impl Login {
    pub(super) fn new(keep: Keep, id: String, authority: &Authority) -> Login {
        let login = Login {
            keep,
            id,
            declared: std::sync::Mutex::default(),
            known: Mutex::default(),
            gate: RwLock::default(),
            file: std::sync::Mutex::default(),
        };
        login.declare(authority);
        login
    }

    /// From now on this is declared of the account.
    pub(super) fn declare(&self, authority: &Authority) {
        *self.declared() = Declared {
            email: authority.email.clone(),
            rotate: authority.rotate,
            binding: authority.binding.clone(),
            lacks_binding_key: authority.lacks_binding_key,
        };
    }

    pub(super) fn declared(&self) -> MutexGuard<'_, Declared> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when the authority asked all of the account to leave it alone, if that is not over.
    pub(super) fn wait(&self, cx: &Cx) -> Result<Option<Wait>, Error> {
        let wait = self.keep.wait(&self.id)?;
        // A clock that went back is no reason to wait longer than an authority may ask for.
        Ok(wait.filter(|wait| wait.until > now(cx) && wait.until <= now(cx) + LONGEST_WAIT))
    }
    /// Remembers that the authority asked all of the account to leave it alone.
    pub(super) fn leave_alone(&self, wait: &Wait) -> Result<(), Error> {
        self.keep.put_wait(&self.id, wait)
    }
    /// The authority takes orders.
    pub(super) fn end_wait(&self) -> Result<(), Error> {
        self.keep.end_wait(&self.id)
    }

    /// Where the account is kept.
    pub(super) fn file(&self) -> PathBuf {
        self.keep.account_file(&self.id)
    }
    /// Reads a key that is kept of the account.
    pub(super) fn key(&self, kept: &Private) -> Result<AccountKey, Error> {
        read_key(&self.keep, &self.id, kept)
    }
    /// URL of the account, where the authority has told it.
    pub(super) fn url(&self) -> Result<Option<String>, Error> {
        Ok(self.keep.account(&self.id)?.and_then(|account| account.url))
    }

    /// Changes what is kept of the account as it is now, where anything is.
    pub(super) fn change(&self, change: impl FnOnce(Account) -> Account) -> Result<(), Error> {
        let _alone = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match self.keep.account(&self.id)? {
            Some(account) => self.keep.put_account(&self.id, &change(account)),
            None => Ok(()),
        }
    }

    /// While this lives, the key stays.
    pub(super) async fn hold(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().await
    }

    /// The authority does not know the account: one that was restored without its data. The key stays.
    pub(super) async fn forget(&self) -> Result<(), Error> {
        let mut known = self.known.lock().await;
        *known = None;
        self.change(|account| Account { url: None, next: None, change: None, ..account })
    }
}
