//! Providers of Terraform and OpenTofu as providers of this program: each of their resource types is a kind.
//!
//! A provider is a program of its own that plans and writes; this crate starts it, speaks its protocol (versions 5
//! and 6), keeps its state, and asks it for what a manifest declares. It deliberately has no HCL and no modules; a
//! state file is read once, to take over what it holds.

mod apply;
pub mod catalog;
pub mod change;
mod config;
pub mod cty;
pub mod find;
mod giveback;
mod handover;
pub mod hidden;
mod host;
mod kept;
pub mod kind;
mod lifecycle;
mod mark;
mod normalize;
mod observe;
mod owner;
mod plan;
pub mod plugin;
mod provider;
mod refused;
mod said;
pub mod schema;
mod takeover;
pub mod wire;

pub use config::{Config, Given};
pub use giveback::{GivenBack, Row, give_back, without_entry};
pub use handover::Handover;
pub use mark::Mark;
pub use provider::{INFO, open, sample};
pub use takeover::{Left, TakenOver, take_over};
