//! Secrets that cannot be printed, and the marks that stand for them.

use crate::{error::Error, name::Hash};
use serde_json::{Value as Json, json};
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
///
/// It has neither a form to be shown nor one to be written:
///
/// ```compile_fail,E0277
/// let secret = reconciled_provider::Secret::new(b"hunter2".to_vec());
/// format!("{secret}");
/// ```
///
/// ```compile_fail,E0277
/// let secret = reconciled_provider::Secret::new(b"hunter2".to_vec());
/// serde_json::to_string(&secret).unwrap();
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

impl SecretRef {
    /// What a name begins with that stands for a secret which another manifest puts out; no declared name does.
    pub const PUT_OUT: &str = "output:";

    /// True for a secret that another manifest puts out.
    ///
    /// ```
    /// use reconciled_provider::SecretRef;
    /// assert!(SecretRef::Named("output:4f2a".into()).is_put_out());
    /// assert!(!SecretRef::Named("db".into()).is_put_out());
    /// ```
    pub fn is_put_out(&self) -> bool {
        matches!(self, SecretRef::Named(name) if name.starts_with(SecretRef::PUT_OUT))
    }
}

/// The key of an output that nobody may see.
const SECRET: &str = "$secret";

/// An output that nobody may see: only what may hold a secret can refer to it, and gets a mark. Text or any other JSON.
///
/// ```
/// use reconciled_provider::{secret_in, secret_output};
/// let outputs = serde_json::json!({"user": "web", "password": secret_output("hunter2".into())});
/// assert_eq!(secret_in(&outputs["password"]), Some(&"hunter2".into()));
/// assert_eq!(secret_in(&outputs["user"]), None);
/// ```
pub fn secret_output(value: Json) -> Json {
    json!({ SECRET: value })
}

/// The value that [`secret_output`] was given.
pub fn secret_in(output: &Json) -> Option<&Json> {
    output.as_object().filter(|fields| fields.len() == 1)?.get(SECRET)
}

/// A keyed hash that stands for a secret in specs, plans and the database.
///
/// Equal secrets have equal marks on one installation; without its key a mark says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretMark(pub Hash);

impl SecretMark {
    /// The mark of a clear value: the one form of it, so that all who hold the installation's key agree.
    ///
    /// ```
    /// use reconciled_provider::SecretMark;
    /// assert_eq!(SecretMark::keyed(&[7; 32], b"hunter2"), SecretMark::keyed(&[7; 32], b"hunter2"));
    /// assert_ne!(SecretMark::keyed(&[7; 32], b"hunter2"), SecretMark::keyed(&[8; 32], b"hunter2"));
    /// ```
    pub fn keyed(key: &[u8; 32], clear: &[u8]) -> SecretMark {
        SecretMark(Hash::cut(blake3::keyed_hash(key, clear)))
    }
}

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
pub struct Sealed(pub Arc<[u8]>);

impl Sealed {
    /// These bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Sealed {
        Sealed(bytes.as_ref().into())
    }
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
        let shown = format!("{:?} {:?}", Secret::new(b"canary".to_vec()), Sealed::new(b"canary"));
        assert!(!shown.contains("canary"), "{shown}");
    }
}
