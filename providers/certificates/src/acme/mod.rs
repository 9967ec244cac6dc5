//! Authorities that speak ACME (RFC 8555): an order is made, names are proven, a certificate is fetched.
//!
//! Guarantees: what the next call needs is on disk before it is sent (the key, the URL of the order, what has to be
//! proven), so a process that dies at any instant goes on with the same order; a challenge is answered only once what
//! proves it is there; an authority that refuses is asked again after a time that grows, which is on disk too.
//!
//! Our own client, not `instant-acme`: that one drops `Retry-After`, the other chains and the order where `replaces` is
//! not echoed, gives up after three nonces, and polls an order that is valid already until its time is over.

mod account;
mod alpn01;
mod ari;
mod client;
mod flow;
mod http01;
mod jws;
mod limits;
mod login;
mod message;
mod port;
mod wait;
mod webroot;

use crate::{
    Config,
    kept::{Account, Keep},
    wish::Authority,
};
use reconciled_provider::{Cx, Error, Hash};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

pub use ari::suggest;
use client::Client;
use login::Login;
pub(crate) use webroot::remove as remove_answers;

/// What authorities are asked with: connections, nonces and accounts, shared by all certificates of an entry.
#[derive(Debug, Default)]
pub struct Acme {
    clients: Mutex<BTreeMap<String, Arc<Client>>>,
    /// Accounts by their id: those who trust the authority by other certificates share them all the same.
    logins: Mutex<BTreeMap<String, Arc<Login>>>,
    http: http01::Responder,
    tls: alpn01::Responder,
    limits: limits::Limits,
}

impl Acme {
    /// The client for `authority`, made when it is needed first.
    fn client(&self, keep: &Keep, authority: &Authority, config: &Config) -> Result<Arc<Client>, Error> {
        let bundle = authority.bundle.as_deref().unwrap_or_default();
        let key = format!("{}\n{:?}\n{bundle}", authority.server, authority.binding);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            client.login.declare(authority);
            return Ok(client.clone());
        }
        let client = Arc::new(Client::new(self.login(keep, authority), authority, config)?);
        clients.insert(key, client.clone());
        Ok(client)
    }

    /// The way to the account at `authority`: one for each, so that whoever changes what is kept of it is alone.
    fn login(&self, keep: &Keep, authority: &Authority) -> Arc<Login> {
        let id = account_id(authority);
        let mut logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
        let login =
            logins.entry(id.clone()).or_insert_with(|| Arc::new(Login::new(keep.clone(), id, authority)));
        login.declare(authority);
        login.clone()
    }
}

impl Acme {
    /// Tells an authority that knows us where it may write to, where it was told otherwise.
    pub(crate) async fn introduce(
        &self,
        cx: &Cx,
        config: &Config,
        keep: &Keep,
        authority: &Authority,
    ) -> Result<(), Error> {
        if told_otherwise(keep, authority).is_none() {
            return Ok(());
        }
        let client = self.client(keep, authority, config)?;
        client.answers(cx)?;
        client.may_ask(cx, 0, false)?;
        client.login.tell_contact(&client, cx).await.map_err(client::Fault::into_error)
    }
}

/// Why nothing can be had with the account at `authority` as it is kept, if that is so.
pub(crate) fn trouble(keep: &Keep, authority: &Authority) -> Option<Error> {
    let id = account_id(authority);
    match keep.account(&id) {
        Ok(account) => login::read_key(keep, &id, &account?.key).err(),
        Err(error) => Some(error),
    }
}

/// Where an authority that knows us was told that it may write to, if that is another address than the one declared, or none.
pub(crate) fn told_otherwise(keep: &Keep, authority: &Authority) -> Option<Option<String>> {
    // An account that is broken is told of by `trouble`: no certificate that is there has to wait for it.
    let account = keep.account(&account_id(authority)).ok()?.filter(|account| account.url.is_some());
    let is_refused = |account: &Account| {
        account.refused_email.as_ref().is_some_and(|refused| refused.email == authority.email)
    };
    let other = account.filter(|account| account.email != authority.email && !is_refused(account));
    other.map(|account| account.email)
}

/// Names the account: one at each authority, and one for each binding there.
pub(crate) fn account_id(authority: &Authority) -> String {
    let binding = authority.binding.as_ref().map_or("", |(id, _)| id.as_str());
    Hash::of(format!("{}\n{binding}", authority.server).as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_trusts_an_authority_by_other_certificates_shares_the_account_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (acme, keep) = (Acme::default(), Keep::new("cert", dir.path()));
        let config = Config::new(dir.path(), &[]);
        let own = Authority {
            server: "https://acme.example/dir".into(),
            email: None,
            bundle: None,
            binding: None,
            binding_mark: None,
            lacks_binding_key: false,
            rotate: None,
            profile: None,
            profile_at_once: false,
            preferred_chain: None,
            solvers: Vec::new(),
            others: Vec::new(),
        };
        let ca = rcgen::generate_simple_self_signed(["ca.example".to_owned()]).unwrap().cert.pem();
        let by_bundle = Authority { bundle: Some(ca), ..own.clone() };
        let bound = Authority { binding: Some(("id".into(), "secret".into())), ..own.clone() };
        let client = |authority: &Authority| acme.client(&keep, authority, &config).unwrap();
        let (own, by_bundle, bound) = (client(&own), client(&by_bundle), client(&bound));
        assert!(!Arc::ptr_eq(&own, &by_bundle) && Arc::ptr_eq(&own.login, &by_bundle.login));
        assert!(!Arc::ptr_eq(&own.login, &bound.login));
    }
}
