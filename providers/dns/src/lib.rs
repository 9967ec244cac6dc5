//! DNS: the kinds `Zone` and `RecordSet`, and the backends that serve them.
//!
//! One canonical form of names and data stands in the middle: what a person writes and what a server reports
//! meet there as bytes, so that a second run finds nothing to do. `family` makes a provider of each backend, which has
//! the same files: `config`, `backend`, `observe`, `apply`, and what its protocol needs.
//!
//! Code map: [`name`] and [`text`] know DNS names and character strings, [`rdata`] the record types,
//! [`record`] ids and canonical bytes, [`mod@normalize`] and [`mod@export`] manifests, [`lint`] what is bad practice,
//! [`foreign`] files of other programs, [`mod@merge`] values of several owners, [`ownership`] whose records are,
//! [`ignore`] what others manage, `strings` where texts are cut, `serial` counts serials by days, `master` reads
//! master files, [`dialect`] says what a backend makes of a record, `anywhere` what may be made of one where nobody
//! knows yet which backend it will be, `batch` takes a batch apart and sends it, `http` calls HTTP APIs, `hidden`
//! masks their secrets; [`powerdns`], [`rfc2136`], [`cloudflare`], [`route53`], [`webhook`] and [`zonefile`] are the
//! backends.

mod anywhere;
mod batch;
pub mod cloudflare;
pub mod dialect;
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
mod master;
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
