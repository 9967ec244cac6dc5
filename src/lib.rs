//! The reconciler daemon as a library: everything `main` and the integration tests call.

pub mod config;
pub mod failpoint;
pub mod manifest;
pub mod render;
pub mod source;
pub mod store;
