//! Telling people: who is told of what, once, and that it is over.
//!
//! ```text
//! conditions, holds, sources ─► gather ─► ledger ─► outbox (SQLite) ─► one task for each receiver ─► send
//! ```
//!
//! Guarantees: what is told is a change of state, named by subject, topic and reason, never by a text. It lasts for
//! the receiver's `for` before it is told, and is over for as long before that is told. Decisions and messages are
//! durable together, so a restart tells nothing twice; a message whose receipt a crash hid is sent again under the
//! same number. A receiver that is slow or away delays nobody, and what waits for it is bounded and on disk.
//! It deliberately sends no digest of what goes well.

mod again;
mod email;
mod error;
mod forge;
mod gather;
mod ledger;
mod message;
mod run;
mod send;

pub use error::SendError;
pub(crate) use forge::{report, troubles as report_troubles};
pub use message::{Message, sample};
pub(crate) use run::watch;
pub use send::{address_error, send, template_error};
