//! States of a state file that no id leads to: they wait for their manifests, which name them.

use reconciled_provider::Error;
use std::fmt;

/// How `reconciled/import` names what is not found by an id: by its address in a state file.
pub(crate) const BY_STATE: &str = "tfstate:";

/// Where states wait until their manifests are in force. They hold secrets.
pub trait Handover: Send + Sync + fmt::Debug {
    /// Keeps the state of `address`.
    fn put(&self, address: &str, state: &[u8]) -> Result<(), Error>;
    /// The state of `address`, if there is one.
    fn get(&self, address: &str) -> Result<Option<Vec<u8>>, Error>;
}
