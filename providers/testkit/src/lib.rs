//! Testing providers: an in-memory world, the reference provider that plays every kind of remote, faults at
//! every external call, and the conformance suite.
//!
//! The reference provider is the contract's proof: it plays *zone* (lists, versions, compare-and-swap), *host*
//! (cannot list), *cloud* (assigned ids, late reads, outputs, slow creates) and *issuer* (pending, progress,
//! claims). The simulation runs the real engine against it.

pub mod conformance;
pub mod context;
pub mod faults;
pub mod reference;
pub mod world;

pub use faults::{Calm, Fault, Faults, Point};
pub use reference::{Reference, Role};
pub use world::World;
