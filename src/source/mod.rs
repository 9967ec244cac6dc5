//! Where desired state comes from: a commit of a mirrored repository, a folder, standard input.
//!
//! All of them are a [`Tree`]: a sorted list of files with content names, what was refused, and a way to read them.
//! This is the only module that names git2. Everything in it blocks.
//!
//! # Guarantees
//! - Desired state is read from objects; there is no work tree, and no symbolic link is followed.
//! - Equal content has an equal [`Oid`] in every form, so what was parsed once need not be parsed again.
//! - No certificate and no host key is accepted that was not known before; no secret enters an error or `Debug`.
//! - What cannot be read leaves the revision in force readable.
//!
//! # Not here
//! No polling clock, no decision about what to ignore or parse; what a signature proves is `trust`'s.

mod advertised;
mod amended;
mod bare;
mod commit;
mod compact;
mod credentials;
mod error;
mod folder;
mod hostkeys;
mod listing;
mod mirror;
mod oid;
mod process;
mod pushed;
mod received;
mod reference;
mod remote;
mod revision;
pub mod scratch;
mod stale;
mod target;
mod tree;
mod url;
mod verify;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod signatures;
#[cfg(test)]
mod tests;

pub use amended::AmendedTree;
pub use commit::CommitTree;
pub use credentials::{Credentials, SecretResult, SecretSource, SshKey};
pub use error::{Cause, HostPort, SourceError};
pub use folder::{FolderTree, STDIN};
pub use listing::Listings;
pub use mirror::{Mirror, Polled, RemoteSpec};
pub use oid::Oid;
pub use process::init;
pub use pushed::{Reach, pushed_objects};
pub use received::Received;
pub use reconciled_libgit2::begin_alone;
pub use reference::Reference;
pub use remote::FetchLimits;
pub use revision::{APPROVE, CommitInfo};
pub use target::{Found, Target, Work};
pub(crate) use tree::is_below;
pub use tree::{Contents, Entry, Limits, Paths, Reason, Refused, Tree};
pub use url::RemoteUrl;
pub use verify::{History, RawObjects, Verify};
