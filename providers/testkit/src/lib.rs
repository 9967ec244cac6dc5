//! Testing providers: an in-memory world, the reference provider that plays every kind of remote, faults at
//! every external call, and the conformance suite.
//!
//! The reference provider is the contract's proof: it plays *zone* (lists, versions, compare-and-swap), *host*
//! (cannot list), *cloud* (assigned ids, late reads, outputs, slow creates) and *issuer* (pending, progress,
//! claims). The simulation runs the real engine against it.

pub mod conformance;
pub mod context;
pub mod faults;
pub mod ports;
pub mod reference;
pub mod tools;
pub mod world;

pub use faults::{Calm, Fault, Faults, Point};
pub use reference::{Reference, Role};
pub use world::World;

/// How long a test waits for what comes about by itself: longer than any machine needs, however busy, so that only what
/// hangs is given up; and less than the soonest resync, which comes after ten minutes less a fifth and would heal what a
/// test wants to see healed by something else.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(400);
