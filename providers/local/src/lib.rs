//! Hosts: the kinds `File`, `Directory`, `CronJob`, `Unit`, `Deployment` and
//! `LoadBalancer`, kept as declared on the machine the daemon runs on.
//!
//! What is observed and what is declared meet in [`state`] as canonical bytes; everything that touches the machine
//! goes through [`hands`], in small steps with a precondition, so that another process, [`hostd`], may have the rights for it.
//! No content that came from a secret, or that only some users of the machine may read, is ever shown.
//!
//! Code map: [`kind`] are the specs, [`path`] what may be named, [`normalize`](mod@normalize) manifests to resources,
//! `observe`, `compare` and `apply` the three steps of a pass, `directories` what these need to be there, [`block`] parts of shared files, [`export`](mod@export)
//! the way back to manifests, [`systemd`] are the units, [`deployment`] many of one kind, [`balancer`] what is in front of them, [`cron`] those that timers start, `provider` puts it together.

mod apply;
pub mod balancer;
pub mod block;
mod compare;
pub mod config;
pub mod cron;
pub mod deployment;
mod directories;
pub mod export;
pub mod hands;
pub mod hostd;
mod keep;
pub mod kind;
pub mod normalize;
mod observe;
pub mod path;
mod provider;
pub mod state;
pub mod systemd;

pub use config::Config;
pub use provider::{INFO, open, sample, with_hands};
