//! The provider against an authority in this process that does everything wrong, and against the disk.

#![expect(clippy::unwrap_used, reason = "what cannot set up its world fails its test")]

mod anew;
mod authority;
mod broken;
mod calm;
mod chains;
mod contact;
mod deaths;
mod early;
mod faults;
mod issuers;
mod keeping;
mod keys;
mod keystore;
mod leftovers;
mod limits;
mod manifests;
mod meanwhile;
mod outages;
mod outcomes;
mod persist;
mod place;
mod renewals;
mod rotation;
mod served;
mod several;
mod solvers;
mod steps;
mod strict;
mod suggested;
mod unplaced;
mod unusable;
mod ways;
mod whose;
mod world;
