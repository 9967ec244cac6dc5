//! The wire: a provider's process, the handshake with it, and its calls as typed messages.
//!
//! *Guarantees*: a process that is let go of is ended, and nothing of a value gets into an error. It deliberately knows
//! no schema and no life cycle of resources.

mod call;
mod folder;
mod handshake;
mod launch;
pub mod message;
mod process;
mod sandbox;
mod version;

pub use call::{Calls, schema, schemas};
pub use handshake::{COOKIE_NAME, COOKIE_VALUE, Network, Offer};
pub use launch::Launch;
pub use process::Process;
pub use reconciled_grpc::Status;
pub use sandbox::serve;
pub use version::Protocol;
