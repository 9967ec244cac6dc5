//! Providers of Terraform and OpenTofu as providers of this program: each of their resource types is a kind.
//!
//! A provider is a program of its own that plans and writes; this crate starts it, speaks its protocol (versions 5
//! and 6), keeps its state, and asks it for what a manifest declares. It deliberately has no HCL, no modules and no
//! state file.

pub mod change;
pub mod cty;
pub mod schema;
pub mod wire;
