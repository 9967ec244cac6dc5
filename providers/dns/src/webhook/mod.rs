//! Webhook providers of ExternalDNS, as their client: dozens of DNS services at once.
//!
//! The protocol has RRsets (endpoints) and four calls; it has no zones, no transactions, no change tokens and no
//! result for a single record. Guarantees, in spite of it: one list of records per look at all zones; nothing is
//! written over what changed since it was planned, up to one call in flight ([`reconciled_provider::Fencing::Probe`]); a refused
//! write is looked at before anything is said about it; properties and labels of others are kept.
//! Deliberately not done: writing endpoints with a set identifier.
//!
//! Protocol: `api/webhook.yaml` and `provider/webhook` of <https://github.com/kubernetes-sigs/external-dns>.

mod adjust;
mod apply;
mod backend;
mod client;
mod config;
mod declared;
mod endpoint;
mod filter;
mod observe;

pub use config::{Config, TxtForm};

use crate::{
    dialect::{Served, Settled, plain},
    family, keep,
    kind::{Data, RecordSpec},
    name::Name,
    rdata::{Refusal, Type, structured::STRINGS},
    record::{self, RrSet},
    strings,
};
use async_trait::async_trait;
use backend::Backend;
use client::Remote;
use endpoint::ROUTED;
use reconciled_provider::{
    At, Batch, Cx, Delta, Deltas, Error, Found, Journal, Marking, Normalized, Observation, Observed,
    Provider, ProviderInfo, Resource, Scope, Span, Spec, Version, Want,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: "webhook",
    // Labels of endpoints are ExternalDNS's own; most providers forget them.
    marking: Marking::InventoryOnly,
    atomic_batch: false,
    // Every call is about all zones.
    concurrency: 1,
    // Where zones lie within each other, what is declared says whose a record is.
    reads_ahead: false,
    apply_limit: Duration::from_secs(600),
    ..family::INFO
};

/// Prepares an entry called `entry`. Sends nothing.
///
/// Errors: `Invalid` when the configuration cannot work.
pub fn connect(entry: &str, config: Config) -> Result<Arc<dyn Provider>, Error> {
    let remote = Remote::new(&config)?;
    let (heard, declared, snapshot) = (Mutex::default(), Mutex::default(), Mutex::default());
    let options = config.options.clone();
    let empty_since = Mutex::default();
    let backend = Backend { entry: entry.into(), config, remote, heard, declared, snapshot, empty_since };
    family::serve(entry, &INFO, &SERVED, backend, options)
}

/// What the protocol does not name is refused, whatever the provider behind it could hold.
const UNNAMED: &str = "ExternalDNS does not know the type: use a provider of its own for the record";

/// What the protocol can say.
const SERVED: Served = Served {
    by: "webhook",
    refused: &[
        (Type::Alias, UNNAMED),
        (Type::Ds, UNNAMED),
        (Type::Https, UNNAMED),
        (Type::Loc, UNNAMED),
        (Type::Openpgpkey, UNNAMED),
        (Type::Smimea, UNNAMED),
        (Type::Sshfp, UNNAMED),
        (Type::Svcb, UNNAMED),
        (Type::Tlsa, UNNAMED),
        (Type::Uri, UNNAMED),
    ],
    dialect: settle,
};

/// As other backends without a dialect, but for the SOA and the strings of a TXT, which the protocol does not know.
fn settle(record: &RecordSpec, kind: Type, ttl: u32, zone: &Name) -> Result<Settled, (Span, Refusal)> {
    let refuse = |message: &str, hint: &str| {
        Err((record.kind.span, Refusal { message: message.into(), hint: Some(hint.into()) }))
    };
    if let Some(span) = strings_of(record).filter(|_| kind == Type::Txt) {
        let message = "a webhook provider has no form for the strings of a TXT";
        let hint = "write one text, or use a provider of its own for the record";
        return Err((span, Refusal { message: message.into(), hint: Some(hint.into()) }));
    }
    match (kind, ttl) {
        (Type::Soa, _) => refuse(
            "a webhook provider keeps the SOA of a zone itself",
            "leave the record out at this provider",
        ),
        (_, 0) => refuse("a ttl of 0 means to a webhook provider that there is none", "write at least 1"),
        _ => plain(record, kind, ttl, zone),
    }
}

/// Where a record says of what strings a text is.
fn strings_of(record: &RecordSpec) -> Option<Span> {
    let says = |value: &&At<Data>| matches!(&value.value, Data::Map(fields) if fields.contains_key(STRINGS));
    record.values.iter().find(says).map(|value| value.span)
}

#[async_trait]
impl family::Backend for Backend {
    fn points_at(&self, _: &Scope) -> Option<String> {
        self.config.base().ok()
    }

    fn refine(&self, normalized: &mut Normalized) {
        // The protocol has no zones: what stands for one can be neither seen nor made.
        normalized.resources.retain(|resource| record::parts(&resource.id).is_some());
        // Nor has it strings: what a zone file cuts is a text.
        for resource in &mut normalized.resources {
            let bytes = resource.spec.bytes().and_then(|bytes| strings::without_cuts(&resource.id, bytes));
            if let Some(bytes) = bytes {
                resource.spec = Spec::known(bytes);
            }
        }
        self.hear(&normalized.resources);
    }

    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        observe::versions(self, cx, scopes).await
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        observe::observe(self, cx, want).await
    }

    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        let seen = adjust::seen_with(observed, adjust::ttl(desired));
        record::compare(&strings::as_seen(&desired.id, desired.spec.bytes()?, &seen), &seen)
    }

    fn keep(&self, desired: &Resource, observed: &Observed, ignored: &[Arc<str>]) -> Vec<u8> {
        let seen = adjust::seen_with(observed, adjust::ttl(desired));
        keep::keep(desired.spec.bytes().unwrap_or_default(), &seen, ignored)
    }

    async fn diff(&self, cx: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        adjust::diff(self, cx, want, seen).await
    }

    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        let mut found = observe::discover(self, cx, query).await?;
        // A manifest for this entry can say no strings: it has the text, which equals them.
        for observed in found.iter_mut().flat_map(|found| &mut found.resources) {
            if let Some(bytes) = strings::without_cuts(&observed.id, &observed.bytes) {
                *observed = Observed::new(observed.id.clone(), bytes);
            }
        }
        Ok(found)
    }

    fn is_out_of_reach(&self, observed: &Observed) -> bool {
        let set = RrSet::decode(&observed.bytes);
        set.is_some_and(|set| set.values.iter().any(|value| value.starts_with(ROUTED)))
    }

    fn show(&self, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        let mut fields = record::show(bytes);
        for (path, value) in &mut fields {
            if &**path == "ttl" && value == "0" {
                "not reported".clone_into(value);
            }
        }
        fields
    }

    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        apply::apply(self, cx, batch, journal).await
    }
}
