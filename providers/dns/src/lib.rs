//! DNS: the kinds `Zone` and `RecordSet`, and the backends that serve them.
//!
//! One canonical form of names and data stands in the middle: what a person writes and what a server reports
//! meet there as bytes, so that a second run finds nothing to do. `family` makes a provider of each backend, which has
//! the same files: `config`, `observe`, `apply`, and what its protocol needs.
//!
//! Code map: [`name`] and [`text`] know DNS names and character strings, [`rdata`] the record types,
//! [`record`] ids and canonical bytes, [`mod@normalize`] and [`mod@export`] manifests, [`lint`] what is bad practice,
//! [`foreign`] files of other programs, [`mod@merge`] values of several owners, [`ownership`] whose records are,
//! [`ignore`] what others manage, `strings` where texts are cut, `serial` counts serials by days, `batch` takes a batch apart and sends it, `http` calls HTTP APIs, `hidden` masks their
//! secrets; [`powerdns`],
//! [`rfc2136`], [`cloudflare`], [`route53`], [`webhook`] and [`zonefile`] are the backends.

mod batch;
pub mod cloudflare;
pub mod endpoint;
pub mod export;
pub mod family;
pub mod foreign;
mod hidden;
mod http;
pub mod ignore;
mod keep;
pub mod kind;
pub mod lint;
pub mod merge;
mod misses;
pub mod name;
pub mod normalize;
pub mod ownership;
pub mod powerdns;
pub mod rdata;
pub mod record;
pub mod rfc2136;
pub mod route53;
mod serial;
pub mod served;
mod strings;
pub mod text;
pub mod webhook;
pub mod zonefile;

pub use http::install_crypto;
