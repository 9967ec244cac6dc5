//! Files of other programs → what a remote that holds the same would be seen to have.
//!
//! From there [`mod@crate::export`] writes manifests, as for a remote. What cannot be taken over is told with its place,
//! never passed over in silence; nothing is guessed. Marks of who owns a record, which are in what such a program wrote out of a
//! zone, are no records: they say whose those are.

mod master;
mod octodns;
mod taken;

pub use master::master;
pub use octodns::octodns;
pub use taken::Taken;
