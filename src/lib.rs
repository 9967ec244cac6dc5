//! The reconciler as a library: everything `main` and the integration tests call.

pub mod access;
pub mod api;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
mod consent;
pub mod daemon;
pub mod failpoint;
pub mod failure;
mod file;
mod http;
pub mod layer;
pub mod manifest;
pub mod notify;
pub mod operation;
pub mod registry;
pub mod render;
pub mod run;
pub mod session;
pub mod sops;
pub mod source;
pub mod store;
pub mod telemetry;
pub mod text;
pub mod trust;
pub mod window;
