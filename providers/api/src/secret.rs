//! Secrets that cannot be printed, and the marks that stand for them.

use crate::{error::Error, name::Hash};
use bytes::Bytes;
use std::{fmt, sync::Arc};
use zeroize::Zeroizing;

/// A secret value: wiped when dropped, never printed, never serialized.
///
/// ```
/// use reconciled_provider::Secret;
/// let secret = Secret::new(b"hunter2".to_vec());
/// assert_eq!(format!("{secret:?}"), "Secret(…)");
/// assert_eq!(secret.reveal(), b"hunter2");
/// ```
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

impl Secret {
    /// Takes over `clear`.
    pub fn new(clear: Vec<u8>) -> Secret {
        Secret(Arc::new(Zeroizing::new(clear)))
    }
    /// The value, for the one call that needs it.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
    /// The value as text, for headers.
    ///
    /// Errors: `Invalid` when it is not UTF-8; the value is not part of the error.
    pub fn reveal_str(&self) -> Result<&str, Error> {
        std::str::from_utf8(&self.0).map_err(|_| Error::invalid("the secret is not UTF-8 text"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// How configuration or a manifest names a secret; holds no value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretRef {
    /// A name that the host configuration declares.
    Named(Arc<str>),
    /// A file on the host.
    File(Arc<str>),
    /// An environment variable of the process.
    Env(Arc<str>),
    /// A systemd credential (`$CREDENTIALS_DIRECTORY/NAME`).
    Credential(Arc<str>),
    /// What a command of the host prints: program and arguments.
    Exec(Arc<[Arc<str>]>),
}

/// A keyed hash that stands for a secret in specs, plans and the database.
///
/// Equal secrets have equal marks on one installation; without its key a mark says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretMark(pub Hash);

/// Where calls to a remote get clear values, and everything else only marks.
pub trait Secrets: Send + Sync {
    /// Reads the value behind `reference`, for the one call to the remote that needs it: credentials, content in
    /// `apply`, and in `diff` where the remote plans by itself. Never ends up in bytes, deltas or errors.
    fn reveal(&self, reference: &SecretRef) -> Result<Secret, Error>;
    /// Marks a clear value with the installation's key.
    fn mark(&self, clear: &[u8]) -> SecretMark;
}

/// Bytes that a provider keeps between passes: encrypted at rest by the store, never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sealed(pub Bytes);

impl Sealed {
    /// True when there is nothing inside.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_secrets_nor_sealed_bytes_are_printed() {
        let shown =
            format!("{:?} {:?}", Secret::new(b"canary".to_vec()), Sealed(Bytes::from_static(b"canary")));
        assert!(!shown.contains("canary"), "{shown}");
    }
}
