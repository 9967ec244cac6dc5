//! Amazon Route 53, through its API of 2013-04-01.
//!
//! Guarantees: a set is changed by deleting exactly what was read and creating the new one, in one transaction, so
//! that nobody's change in between is lost; aliases and sets with a routing policy are written likewise.
//! Deliberately not done: routing by CIDR, by proximity and by traffic policies, which is seen and kept; zones of a VPC are
//! read and written, not created.
//!
//! API: <https://docs.aws.amazon.com/Route53/latest/APIReference/>.

mod apply;
mod backend;
mod client;
mod config;
mod insync;
mod login;
mod observe;
pub(crate) mod routing;
mod sign;
mod xml;

pub use config::{Config, Credentials, Login};

use crate::{
    dialect::{ROUTE53, Served},
    family,
    misses::Misses,
    rdata::Type,
};
use async_trait::async_trait;
use backend::Backend;
use client::Api;
use reconciled_provider::{
    Batch, Cx, Error, Fencing, Found, Journal, Observation, Provider, ProviderInfo, Scope, Version, Want,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: ROUTE53,
    // Each set fences itself; there is no token of a zone.
    fencing: Fencing::None,
    // Five calls a second are for all zones of an account.
    concurrency: 2,
    apply_limit: Duration::from_secs(600),
    ..family::INFO
};

/// What it does not know.
const UNKNOWN: &str = "Route 53 does not know the type";

/// What it serves.
pub(crate) const SERVED: Served = Served {
    by: ROUTE53,
    refused: &[
        (Type::Alias, "write type A or AAAA with `route53: {alias: {target: …}}`"),
        (Type::Dname, UNKNOWN),
        (Type::Loc, UNKNOWN),
        (Type::Openpgpkey, UNKNOWN),
        (Type::Smimea, UNKNOWN),
        (Type::Uri, UNKNOWN),
    ],
    dialect: routing::settle,
};

/// Prepares an entry called `entry`. Sends nothing.
///
/// The credentials are looked up at each call, so that rotated ones work at once.
/// Errors: `Invalid` when the configuration cannot work.
pub fn connect(entry: &str, config: Config, login: impl Into<Login>) -> Result<Arc<dyn Provider>, Error> {
    let (api, chosen) = (Api::new(&config, login.into())?, config.zones()?);
    let options = config.options.clone();
    let backend = Backend {
        entry: entry.into(),
        config,
        api,
        chosen,
        zones: Mutex::default(),
        misses: Misses::default(),
        sizes: Mutex::default(),
        open: insync::Open::default(),
    };
    family::serve(entry, &INFO, &SERVED, backend, options)
}

#[async_trait]
impl family::Backend for Backend {
    fn points_at(&self, scope: &Scope) -> Option<String> {
        let kind = if self.config.private { "private" } else { "public" };
        let zone = self.chosen.get(&*scope.name).map_or("", String::as_str);
        Some(format!("{} {kind} {zone}", self.config.base().ok()?))
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
        apply::apply(self, cx, batch, journal).await
    }
}
