//! One invocation put together: configuration, providers, sources, desired state, memory.
//!
//! A [`Session`] looks; what writes is opened apart ([`writer`]), so that a verb that only reads cannot create
//! or migrate anything.

mod ailing;
mod apart;
mod desired;
#[cfg(test)]
mod docs;
mod endings;
mod fast;
mod folder;
mod infirmary;
mod newest;
mod open;
mod outlook;
mod outputs;
mod pins;
mod problems;
mod reconfigured;
mod renamed;
mod rollback;
mod siblings;
mod sources;
mod state;
mod suspended;
mod writer;

pub use apart::await_alike;
pub use desired::Ask;
pub use fast::Standing;
pub use folder::Folder;
pub use open::Session;
pub use outlook::Outlook;
pub use outputs::KnownOutputs;
pub use pins::Pins;
pub use problems::{FROZEN, source_of};
pub use renamed::{renames, take_along};
pub use siblings::Siblings;
pub(crate) use sources::oid;
pub use sources::{
    Called, Known as SourceAsk, Snapshot, TreeFiles, is_at, is_local, judge_pushed, local_places, reach,
    reference, tree_limits, verify,
};
pub use state::{HostState, wrong_entries};
pub use suspended::{by_files, by_windows, outside};
pub(crate) use writer::rewound;
pub use writer::{Accounts, Brought, Writing};
