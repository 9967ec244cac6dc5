//! What the program tells about itself: log lines, spans, metrics.
//!
//! Guarantees: names are a specification ([`names`], docs/telemetry.md); nothing told has a secret in it; no reader
//! of what is told, slow or dead, delays what is done, and what it does not take is dropped, not kept.
//! It deliberately decides nothing, and nothing reads it back.

pub(crate) mod collector;
mod grpc;
mod journald;
mod log;
pub mod metrics;
pub mod names;
mod spans;
mod store;
mod wire;

pub use log::{Telemetry, start};
pub use metrics::Metrics;
pub(crate) use store::Measured;
