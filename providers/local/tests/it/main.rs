//! The provider on a real file system: the conformance suite, what it promises besides, and what goes wrong.

#![expect(clippy::unwrap_used, reason = "what cannot set up its world fails its test")]

mod balancer;
mod bus;
mod conformance;
mod conformance_of_units;
mod cron;
mod deployments;
mod desk;
mod disk;
mod drift;
mod faults;
mod files;
mod helper;
mod imports;
mod limits;
mod manifests;
mod passed_over;
mod reads;
mod refusals;
mod rollouts;
mod sandbox;
mod seats;
mod sockets;
mod units;
mod units_begun;
mod units_starting;
mod users;
mod waiting;
