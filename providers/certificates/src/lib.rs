//! Certificates: the kinds `Issuer` and `Certificate`, issued, renewed and kept on disk without a cluster.
//!
//! A certificate is one resource in a scope of its own, so one that cannot be had keeps back no other. What is issued is
//! kept in the state directory, key and chain in one file, and delivered from there: a file that goes missing costs no
//! certificate. A private key never leaves these two places: no plan, error, event or database has it.
//!
//! Deliberately not done: revoking, which no declared state can mean, and stapling.
//!
//! Code map: [`kind`] are the specs, [`wish`] their canonical form, [`normalize`](mod@normalize) leads from one to the
//! other; [`key`] makes keys, [`x509`] reads certificates, [`renewal`] says when one is due; [`kept`] is what is
//! remembered on disk, [`deliver`] puts it where it is used, by the hands of a [`place`], into a `directory` that can be trusted, also as a `keystore`; `observe`, `compare`, `apply` and `health` are the steps of a pass, `calm` spares it what did not change, `sweep` what many have in common, and `served` is what services show, `found` what is in a directory, whoever put it there; `choose` says who is asked, and `refuse` when again; `lint` is what those it is for would refuse; `desk` is what a pass works with;
//! [`sign`] issues with a key of our own, [`acme`] asks an authority.

pub mod acme;
mod apply;
mod aside;
mod calm;
mod choose;
mod compare;
pub mod config;
pub mod deliver;
mod desk;
mod directory;
pub mod duration;
mod found;
mod health;
mod heirs;
pub mod kept;
pub mod key;
mod keystore;
pub mod kind;
mod lint;
mod moment;
pub mod normalize;
mod observe;
mod owner;
pub mod place;
mod provider;
mod refuse;
pub mod renewal;
mod served;
pub mod sign;
mod sweep;
mod watch;
pub mod wish;
pub mod x509;

pub use config::Config;
pub use provider::{INFO, open, sample};
