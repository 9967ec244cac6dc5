//! PowerDNS Authoritative Server, 4.7 and newer, through its HTTP API.
//!
//! Guarantees: nothing is written against a zone that moved since it was planned, up to one call in flight
//! ([`reconciled_provider::Fencing::Probe`]); one request is one transaction of the server; an RRset that stays as it is is never
//! sent; comments of other people are kept. Batches of an entry are carried out one after another.
//! Deliberately not done: signing, notifying, metadata. They are the server's.
//!
//! API: <https://doc.powerdns.com/authoritative/http-api/>

mod apply;
mod backend;
mod body;
mod client;
mod config;
mod culprit;
mod made;
mod observe;
mod zone;

pub use config::Config;

use crate::{dialect::Served, family};
use async_trait::async_trait;
use backend::Backend;
use client::Client;
use reconciled_provider::{
    Batch, Cx, Error, Found, Journal, Marking, Observation, Provider, ProviderInfo, Scope, SecretRef,
    Version, Want,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicUsize},
};
use tokio::sync::Mutex;

/// Static facts.
pub const INFO: ProviderInfo =
    ProviderInfo { type_name: "powerdns", marking: Marking::Native, ..family::INFO };

/// Prepares an entry called `entry` that marks what it writes with `instance`. Sends nothing.
///
/// The key behind `api_key` is looked up at each call, so that a rotated key works at once.
/// Errors: `Invalid` when the configuration cannot work.
pub fn connect(
    entry: &str,
    instance: &str,
    config: Config,
    api_key: SecretRef,
) -> Result<Arc<dyn Provider>, Error> {
    let client = Client::new(&config, api_key)?;
    let (limit, most) = (AtomicUsize::new(config.max_body), AtomicUsize::new(config.max_body));
    let lost = AtomicUsize::new(0);
    let options = config.options.of(instance);
    let (name, instance) = (entry.into(), instance.into());
    let (turn, made) = (Mutex::default(), Default::default());
    let backend = Backend { entry: name, instance, config, client, limit, most, lost, turn, made };
    family::serve(entry, &INFO, &Served::ALL, backend, options)
}

#[async_trait]
impl family::Backend for Backend {
    fn points_at(&self, _: &Scope) -> Option<String> {
        self.config.api().ok()
    }

    fn makes_bare_zones(&self) -> bool {
        self.config.nameservers.is_empty()
    }

    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        observe::versions(self, cx, scopes).await
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        observe::observe(self, cx, want).await
    }

    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        observe::discover(self, cx, query).await
    }

    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        // Taken before the zone is asked whether it is as planned, not between that and the write.
        let _turn = self.turn.lock().await;
        apply::apply(self, cx, batch, journal).await
    }
}
